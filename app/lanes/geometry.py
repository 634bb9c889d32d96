"""The geometry of the round lanes: chips in slots, bars and ticks on a time axis. No Qt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from app.look.wording import RULE_TITLES, drafter_title
from engine.lens.lane_chips import shown_text, size_of
from engine.types import PHASES, Round
from engine.values.wording import amount

Phase = Literal["draft", "verify", "judge", "other", "whole"]
Clock = Literal["round", "answer"]
"""The origin of a lane's time: the start of its own round, or of the answer."""

MIN_ZOOM, MAX_ZOOM = 0.25, 32.0
MIN_TEXT_RATIO = 1.6
"""Slots narrower than this times the height of a chip show no text."""
MAX_SLOT = 150
"""Largest width of a slot in pixels at text scale 1, at any zoom."""
FIGURES_WIDTH = 92
"""Width in pixels reserved after the chips of a lane for the number of emitted tokens and the time."""
SPAN_QUANTILE = 0.95
"""The axis spans this quantile of the rounds' times; longer rounds are cut off at its end, with an arrow."""
COUNT_QUANTILE = 0.75
"""Share of the lanes with chips of full width; longer lanes have narrower chips."""
Size = TypeVar("Size", int, float)
ROUND_STEPS = (1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)


@dataclass(frozen=True, slots=True)
class LaneScale:
    """Sizes in pixels.

    Attributes:
        per_ms: pixels per millisecond on the time axis.
        slot: distance of the columns in a lane of the usual length; `max_chips_width`: the largest width of all chips of a lane.
        row: height of a lane with one row of chips; `stack`: what each further row adds to it.
        chip_top, chip, bar_top, bar: tops within a lane with one row of chips, and heights.
    """

    per_ms: float
    slot: float
    max_chips_width: float
    row: int
    stack: int
    chip_top: float
    chip: float
    bar_top: float
    bar: float

    def slot_in(self, columns: int) -> float:
        """Returns the distance of the columns in a lane that has `columns` of them; longer lanes have narrower chips."""
        return min(self.slot, self.max_chips_width / max(1, columns))

    def height(self, rows: int) -> int:
        """Returns the height of a lane with `rows` rows of chips."""
        return self.row + (rows - 1) * self.stack

    def is_readable(self, slot: float) -> bool:
        """Returns whether chips in slots of this width have room for text."""
        return slot >= MIN_TEXT_RATIO * self.chip and self.chip >= 11


def phases_of(round_: Round) -> list[tuple[Phase, float, float]]:
    """Returns (phase, start, length) in ms from the round's start; one "whole" if the phases were not measured."""
    times = round_.milliseconds
    if not times.measured:
        return [("whole", 0.0, times.total)]
    phases: list[tuple[Phase, float, float]] = []
    start = 0.0
    for phase in PHASES:
        length = float(getattr(times, phase) or 0.0)
        if length > 0:
            phases.append((phase, start, length))
            start += length
    return phases


class Extent:
    """Statistics of the lanes' lengths and widths, updated round by round.

    Attributes:
        typical_count: number of columns that fits all but the longest lanes.
        typical_rows: mean number of rows of chips, rounded up.
        span: milliseconds on the axis at zoom 1. All three change in steps, so that the picture stays still.
    """

    def __init__(self) -> None:
        self.rounds = self._rows = 0
        self.typical_count = self.typical_rows = 1
        self.span = 10.0
        self._totals: list[float] = []
        self._counts: list[int] = []

    def add(self, rounds: Sequence[Round]) -> list[int]:
        """Adds rounds, and returns how many rows of chips each has."""
        sizes = [size_of(round_) for round_ in rounds]
        rows = [tall for _, tall in sizes]
        self._totals += [round_.milliseconds.total for round_ in rounds]
        self._counts += [wide for wide, _ in sizes]
        self._totals.sort()
        self._counts.sort()
        self.rounds += len(rounds)
        self._rows += sum(rows)
        if self._totals:
            self.typical_rows = _step(self.typical_rows, math.ceil(self._rows / self.rounds))
            self.span = _step(self.span, round_up(self._totals[int(SPAN_QUANTILE * len(self._totals))]))
            self.typical_count = _step(self.typical_count, self._counts[int(COUNT_QUANTILE * len(self._counts))])
        return rows


def _step(size: Size, needed: Size) -> Size:
    """Returns a size, or else the needed one if that is larger, or at most half as large."""
    return size if 0.5 * size < needed <= size else needed


def round_up(value: float) -> float:
    """Rounds `value` up to a round number."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in ROUND_STEPS if step * power >= value * (1 - 1e-9))


def scale_for(extent: Extent, width: float, height: float, zoom: float, clock: Clock, text_scale: float) -> LaneScale:
    """Returns the sizes for a view of `width` x `height` pixels, in which zoom 1 fits a typical round.

    On the answer's clock zoom 1 fits a screenful of rounds. Zooming out makes lanes lower, so that more are in view.
    """
    shrink = min(1.0, zoom)
    if zoom >= 2:
        sizes = [round(size * text_scale) for size in (42, 3, 17, 22, 14)]
    elif shrink > 0.6:
        sizes = [round(size * text_scale * shrink) for size in (31, 3, 17, 22, 5)]
    else:
        sizes = [max(minimum, round(size * text_scale * shrink)) for minimum, size in ((5, 24), (1, 2), (2, 13), (3, 16), (1, 5))]
    row, chip_top, chip, bar_top, bar = sizes
    stack = chip + max(1, round(3 * text_scale * shrink))
    available = max(40.0, width - FIGURES_WIDTH * text_scale)
    if clock == "round":
        slot, max_chips_width = min(64 * text_scale, available / extent.typical_count), available
        per_ms = width / extent.span
    else:
        slot, max_chips_width = min(14 * text_scale, 0.4 * available / extent.typical_count), 0.4 * available
        per_ms = max(20.0, available - slot * extent.typical_count) / max(
            1.0, extent.span * height / (row + (extent.typical_rows - 1) * stack)
        )
    enlarge = max(1.0, zoom)
    slot, max_chips_width = max(2.0, min(MAX_SLOT * text_scale, slot * enlarge)), max_chips_width * enlarge
    return LaneScale(
        per_ms * (zoom if zoom > 1 else math.sqrt(zoom)), slot, max_chips_width, row, stack, chip_top, chip, bar_top, bar
    )


def ticks(first: float, last: float, per_ms: float, min_distance: float) -> list[tuple[float, str]]:
    """Returns (ms, label) of the round times between `first` and `last`, at least `min_distance` pixels apart."""
    if per_ms <= 0 or last < first:
        return []
    raw = min_distance / per_ms
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    start = math.ceil(first / step - 1e-9)
    count = math.floor(last / step + 1e-9) - start + 1
    return [(index * step, time_label(index * step, step)) for index in range(start, start + max(0, count))]


def time_label(value: float, step: float) -> str:
    """Returns the label of a time on the axis, with the decimals that the step needs."""
    if step >= 100:
        return f"{value / 1000:.{0 if step >= 1000 else 1}f} s"
    return f"{value:.{max(0, -math.floor(math.log10(step)))}f} ms"


def milliseconds(value: float) -> str:
    """Formats the time beside a lane."""
    return f"{value:.1f} ms" if value < 100 else f"{value:,.0f} ms"


def lane_text(round_: Round) -> str:
    """Describes a lane in a sentence, for screen readers."""
    count = len(round_.proposals)
    if count:
        verdicts = [(round_.accepted, "accepted"), (round_.rejected, "rejected"), (round_.unjudged, "unjudged")]
        counts = ", ".join(f"{number} {name}" for number, name in verdicts if number)
        tree = f" in a tree of {amount(max(round_.depths), 'level')}" if round_.is_tree else ""
        proposals = f"{amount(count, 'proposal')} by {drafter_title(round_.drafted_by)}{tree}: {counts}"
    else:
        proposals = "nothing proposed"
    added = [f"{token.origin} “{shown_text(token.text, token.bytes)}”" for token in round_.emitted if token.origin != "accepted"]
    text = f"Round {round_.index + 1}, {RULE_TITLES[round_.rule]}, {'; '.join([proposals, *added])}. "
    return text + time_text(round_)


UNTIMED_NOTE = "Only the total is known: timing the phases makes a round wait for each of them, so most rounds are not timed."


def time_text(round_: Round) -> str:
    """Returns a round's time and, if measured, its phases."""
    times = round_.milliseconds
    if not times.measured:
        return f"{milliseconds(times.total)} in total; phases not timed."
    parts = ", ".join(f"{phase} {milliseconds(length)}" for phase, _, length in phases_of(round_))
    return f"{milliseconds(times.total)}: {parts}."
