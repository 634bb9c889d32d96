"""Lays out the lanes of all rounds on one surface, and finds those in view. No Qt."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal

from app.lanes.geometry import FIGURES_WIDTH, Clock, Extent, LaneScale, scale_for, ticks
from engine.lens.lane_chips import Chip, chips_of, size_of
from engine.types import Round

WHOLE_LANE = -1
"""The slot number that means the whole lane."""


class LaneField:
    """Lanes one below the other, seen through a viewport. A lane is as high as the tree of its round; a query takes logarithmic
    time.

    Attributes:
        rounds: the rounds shown; the sequence may grow, and `grow` lays out the new ones.
        count: number of lanes that are laid out.
        zoom: 1 fits a typical round (on the answer's clock a screenful of rounds) into the width.
        clock: the origin of a lane's time.
        x, y: scroll offsets in pixels.
        width, height: size of the part of the view with lanes; `gutter`: width of the column of round numbers in it.
    """

    def __init__(self) -> None:
        self.rounds: Sequence[Round] = ()
        self.count = 0
        self.zoom = 1.0
        self.clock: Clock = "round"
        self.x = self.y = 0
        self.width, self.height, self.gutter = 400.0, 400.0, 40.0
        self.text_scale = 1.0
        self.extent = Extent()
        self._rows_before = [0]  # for each lane the rows of chips above it, not counting the first of each lane; then their sum
        self.scale: LaneScale = scale_for(self.extent, self.width, self.height, 1.0, self.clock, 1.0)

    def grow(self, rounds: Sequence[Round], reset: bool = False) -> None:
        """Lays out new rounds; `reset` discards the previous ones first."""
        if reset or len(rounds) < self.count:
            self.extent, self.count, self._rows_before = Extent(), 0, [0]
        self.rounds = rounds
        if len(rounds) > self.count:
            for rows in self.extent.add(rounds[self.count :]):
                self._rows_before.append(self._rows_before[-1] + rows - 1)
            self.count = len(rounds)

    def fit(self, width: float, height: float, gutter: float, text_scale: float) -> None:
        """Sets the size of the view."""
        self.width, self.height, self.gutter, self.text_scale = width, max(1.0, height), gutter, text_scale
        self.scale = scale_for(self.extent, self.lanes_width, self.height, self.zoom, self.clock, text_scale)

    @property
    def lanes_width(self) -> float:
        """Width beside the column of round numbers."""
        return max(1.0, self.width - self.gutter - 6)

    @property
    def total_height(self) -> int:
        """Height of all lanes."""
        return self._top(self.count)

    @property
    def total_width(self) -> float:
        """Width of the lanes in view, as far as a typical round extends."""
        chips = min(self.scale.max_chips_width, self.extent.typical_count * self.scale.slot) + FIGURES_WIDTH * self.text_scale
        bars = self.extent.span * self.scale.per_ms
        rows = self.height / self.scale.height(self.extent.typical_rows)
        return max(bars, chips) if self.clock == "round" else bars * rows + chips

    # Positions, in pixels of the view

    def _top(self, index: int) -> int:
        """Returns the top of a lane in pixels below that of the first lane."""
        return index * self.scale.row + self._rows_before[index] * self.scale.stack

    def top_of(self, index: int) -> int:
        """Returns the top of a lane in pixels below the top of the view; negative if it is scrolled out above."""
        return self._top(index) - self.y

    def rows_of(self, index: int) -> int:
        """Returns the number of rows of chips in a lane."""
        return 1 + self._rows_before[index + 1] - self._rows_before[index]

    def height_of(self, index: int) -> int:
        """Returns the height of a lane in pixels."""
        return self.scale.height(self.rows_of(index))

    def lane_at(self, y: float) -> tuple[int, float]:
        """Returns the lane at a height of the view, and the share of its height above that point. Beyond the last lane, it is as
        if further lanes with one row of chips followed."""
        y += self.y
        if y >= self.total_height:
            beyond, inside = divmod(y - self.total_height, self.scale.row)
            return self.count + int(beyond), inside / self.scale.row
        index = max(0, bisect_right(range(self.count), y, key=self._top) - 1)
        return index, (y - self._top(index)) / self.height_of(index)

    def offset_of(self, index: int, share: float) -> float:
        """Returns the pixels from the top of the first lane to a point that `lane_at` describes."""
        if index >= self.count:
            return self.total_height + (index - self.count + share) * self.scale.row
        return self._top(index) + share * self.height_of(index)

    def origin(self) -> float:
        """Returns the time in ms at the left end: on the answer's clock that of the topmost lane, interpolated while lanes scroll
        by."""
        if self.clock == "round" or not self.count:
            return 0.0
        index, inside = self.lane_at(0)
        index = min(index, self.count - 1)
        current, following = self.rounds[index].started, self.rounds[min(index + 1, self.count - 1)].started
        return current + (following - current) * inside

    def start_of(self, index: int) -> float:
        """Returns the x of the start of a round."""
        elapsed = 0.0 if self.clock == "round" else self.rounds[index].started - self.origin()
        return self.gutter + elapsed * self.scale.per_ms - self.x

    def axis_ticks(self) -> list[tuple[float, str]]:
        """Returns the ticks of the axis, as (x, label)."""
        per_ms = self.scale.per_ms
        left = self.origin() + self.x / per_ms
        right = left + (self.width - self.gutter) / per_ms
        times = ticks(left, right, per_ms, 76 * self.text_scale)
        return [(self.gutter + (at - left) * per_ms, label) for at, label in times]

    def lanes_between(self, top: int, bottom: int) -> range:
        """Returns the lanes between two heights."""
        first, last = self.lane_at(max(top, -self.y))[0], self.lane_at(min(bottom, self.height))[0]
        return range(first, min(self.count - 1, last) + 1)

    def pause_after(self, index: int) -> float:
        """Returns the milliseconds from the end of a round to the start of the next."""
        if index + 1 >= self.count:
            return 0.0
        round_ = self.rounds[index]
        return max(0.0, self.rounds[index + 1].started - round_.started - round_.milliseconds.total)

    # Queries by position and content

    def at(self, x: float, y: float) -> tuple[int, int] | None:
        """Returns (lane, slot) at a point of the view; the slot is `WHOLE_LANE` beside the chips. None if there is no lane."""
        if not 0 <= y < self.height or not 0 <= y + self.y < self.total_height:
            return None
        index = self.lane_at(y)[0]
        rows, inside, scale = self.rows_of(index), y - self.top_of(index), self.scale
        if x >= self.gutter and inside < scale.bar_top + (rows - 1) * scale.stack:
            column = (x - self.start_of(index)) // scale.slot_in(size_of(self.rounds[index])[0])
            row = min(rows - 1, max(0.0, inside - scale.chip_top) // scale.stack)
            for slot, chip in enumerate(self.chips(index)):
                if (chip.column, chip.row) == (column, row):
                    return index, slot
        return index, WHOLE_LANE

    def chips(self, index: int) -> list[Chip]:
        """Returns the chips of a lane from left to right, at any zoom: the round's proposals, then the target's own token."""
        return chips_of(self.rounds[index])

    def slot_of(self, index: int, proposal: int | None, emitted: int | None) -> int:
        """Returns the slot of a token, given as in `app.session.cursor.Place`."""
        for slot, chip in enumerate(self.chips(index)):
            if (chip.proposal, chip.emitted) == (proposal, emitted):
                return slot
        return WHOLE_LANE

    def slot_in_text(self, index: int, column: int) -> int:
        """Returns the slot of the token in a column of a lane's first row, or else of the last one before it."""
        if column == WHOLE_LANE:
            return WHOLE_LANE
        chips = self.chips(index)
        row = [slot for slot, chip in enumerate(chips) if not chip.row] or list(range(len(chips)))
        return max(
            (slot for slot in row if chips[slot].column <= column), key=lambda slot: chips[slot].column, default=WHOLE_LANE
        )

    def column_of(self, index: int, slot: int) -> int:
        """Returns the column of a slot; `WHOLE_LANE` for the whole lane."""
        return WHOLE_LANE if slot == WHOLE_LANE else self.chips(index)[slot].column

    def neighbour(self, index: int, slot: int, direction: Literal["left", "right", "up", "down"]) -> int | None:
        """Returns the slot beside another in the same lane: to the left what it follows, to the right what follows it, above and
        below the other choices for its position. `WHOLE_LANE` is to the left of the first column. None if there is nothing."""
        chips = self.chips(index)
        if slot == WHOLE_LANE:
            return (self.slot_in_text(index, 0) if chips else None) if direction == "right" else None
        chip = chips[slot]
        if direction == "left":
            if chip.parent is not None:
                return chip.parent
            return WHOLE_LANE if not chip.column else self.slot_in_text(index, chip.column - 1)
        others = [(other.row, at) for at, other in enumerate(chips)]
        if direction == "right":
            after = [at for at in others if chips[at[1]].parent == slot] or [
                at for at in others if chips[at[1]].column == chip.column + 1 and at[0] == chip.row == 0
            ]
            return min(after)[1] if after else None
        beside = [at for at in others if chips[at[1]].column == chip.column]
        if direction == "up":
            return max((at for at in beside if at[0] < chip.row), default=(0, None))[1]
        return min((at for at in beside if at[0] > chip.row), default=(0, None))[1]

    def offset_to_show(self, index: int) -> int:
        """Returns the scroll offset that shows a lane, as near as possible to the current one."""
        top = self._top(index)
        return min(top, max(self.y, int(top + self.height_of(index) - self.height)))
