"""Lays out the lanes of all rounds on one surface, and finds those in view. No Qt."""

from __future__ import annotations

from collections.abc import Sequence

from app.lanes.geometry import FIGURES_WIDTH, Chip, Clock, Extent, LaneScale, chips_of, scale_for, slot_at, ticks
from engine.types import Round

WHOLE_LANE = -1
"""The slot number that means the whole lane."""


class LaneField:
    """Lanes one below the other, seen through a viewport. The cost of a query does not depend on the number of lanes.

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
        self.scale: LaneScale = scale_for(self.extent, self.width, self.height, 1.0, self.clock, 1.0)

    def grow(self, rounds: Sequence[Round], reset: bool = False) -> None:
        """Lays out new rounds; `reset` discards the previous ones first."""
        if reset or len(rounds) < self.count:
            self.extent, self.count = Extent(), 0
        self.rounds = rounds
        if len(rounds) > self.count:
            self.extent.add_all(rounds[self.count :])
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
        return self.count * self.scale.row

    @property
    def total_width(self) -> float:
        """Width of the lanes in view, as far as a typical round extends."""
        chips = min(self.scale.max_chips_width, self.extent.typical_count * self.scale.slot) + FIGURES_WIDTH * self.text_scale
        bars = self.extent.span * self.scale.per_ms
        return max(bars, chips) if self.clock == "round" else bars * self.height / self.scale.row + chips

    # Positions, in pixels of the view

    def top_of(self, index: int) -> int:
        """Returns the top of a lane in pixels below the top of the view; negative if it is scrolled out above."""
        return index * self.scale.row - self.y

    def origin(self) -> float:
        """Returns the time in ms at the left end: on the answer's clock that of the topmost lane, interpolated while lanes scroll
        by."""
        if self.clock == "round" or not self.count:
            return 0.0
        index, inside = divmod(self.y, self.scale.row)
        index = min(index, self.count - 1)
        current, following = self.rounds[index].started, self.rounds[min(index + 1, self.count - 1)].started
        return current + (following - current) * inside / self.scale.row

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
        first = max(0, (self.y + top) // self.scale.row)
        last = min(self.count - 1, int(self.y + min(bottom, self.height)) // self.scale.row)
        return range(first, last + 1)

    def pause_after(self, index: int) -> float:
        """Returns the milliseconds from the end of a round to the start of the next."""
        if index + 1 >= self.count:
            return 0.0
        round_ = self.rounds[index]
        return max(0.0, self.rounds[index + 1].started - round_.started - round_.milliseconds.total)

    # Queries by position and content

    def at(self, x: float, y: float) -> tuple[int, int] | None:
        """Returns (lane, slot) at a point of the view; the slot is `WHOLE_LANE` beside the chips. None if there is no lane."""
        index = int((y + self.y) // self.scale.row)
        if not 0 <= index < self.count or not 0 <= y < self.height:
            return None
        if x >= self.gutter and y - self.top_of(index) < self.scale.bar_top:
            slot = slot_at(x - self.start_of(index), len(self.chips(index)), self.scale)
            return index, WHOLE_LANE if slot is None else slot
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

    def offset_to_show(self, index: int) -> int:
        """Returns the scroll offset that shows a lane, as near as possible to the current one."""
        top = index * self.scale.row
        return min(top, max(self.y, int(top + self.scale.row - self.height)))
