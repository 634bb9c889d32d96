"""The charts of an answer as drawings. No state of a proposal is told by colour alone: filled, hatched, outlined."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from engine.exports import axes, series
from engine.exports.drawing import Drawing, Frame, Palette, Point
from engine.lens.chart_kinds import ALPHA_WINDOW, CHARTS, SPEED_WINDOW, ChartName
from engine.lens.tally import Floats, Tally
from engine.trace import Trace
from engine.types import EXPECTED_RULES

MOST_CELLS = 12
"""With more proposals in a column its cells would be too flat to count."""


def proposals_chart(tally: Tally, palette: Palette) -> Drawing:
    """Verdicts per round, with what each rule is expected to accept."""
    drawn = series.columns(tally)
    tallest = max((column.proposals for column in drawn), default=0.0)
    if not tallest:
        return axes.empty("proposals", palette, "Nothing was proposed in this answer.")
    words = f"Proposals in {tally.rounds:,} rounds: accepted, rejected and unjudged."
    most = max(column.last - column.first + 1 for column in drawn)
    below = "round" if most == 1 else f"round; each column the mean of up to {most:,} rounds"
    drawing, frame = axes.begin("proposals", palette, words, (0, tally.rounds), (0, max(1.0, tallest)), below)
    states = (("fill", palette.accepted), ("hatch", palette.rejected), ("outline", palette.unjudged))
    for column in drawn:
        left, right = frame.across(column.first), frame.across(column.last + 1)
        gap = min(2.0, (right - left) * 0.2)
        low = 0.0
        drawing.begin_group(_column_words(column))
        for (kind, colour), many in zip(states, (column.accepted, column.rejected, column.unjudged), strict=True):
            cells = round(many) if column.first == column.last and tallest <= MOST_CELLS else 1
            for _ in range(cells if many else 0):
                high = low + many / cells
                between = 1.0 if cells > 1 or tallest <= MOST_CELLS else 0.0
                height = frame.up(low) - frame.up(high)
                axes.bar(drawing, left, frame.up(high) + between, right - left - gap, height - between, kind, colour)
                low = high
        drawing.end_group()
    dashes = {"match": "2 3", "gumbel": "solid", "rejection": "6 4"}
    kept, expected = series.latest(tally.expected.rows)
    for place, rule in enumerate(EXPECTED_RULES):
        dash = "" if dashes[rule] == "solid" else dashes[rule]
        points = _points(frame, kept, expected[:, place])
        drawing.curve(points, palette.panel, 3.4)  # a rim, so that it stands out from the columns
        drawing.curve(points, palette.rule(rule), 1.6, dash)
    names = [(kind, colour, name) for (kind, colour), name in zip(states, ("accepted", "rejected", "unjudged"), strict=True)]
    axes.legend(drawing, names + [(dashes[rule], palette.rule(rule), rule) for rule in EXPECTED_RULES])
    return drawing


def _points(frame: Frame, rounds: Sequence[int], values: Floats) -> list[Point]:
    return [frame.at(index + 0.5, value) for index, value in zip(rounds, values.tolist(), strict=True)]


def _column_words(column: series.RoundGroup) -> str:
    if column.first == column.last:
        return (
            f"Round {column.first + 1}: {column.accepted:.0f} accepted, {column.rejected:.0f} rejected, "
            f"{column.unjudged:.0f} unjudged"
        )
    return (
        f"Rounds {column.first + 1} to {column.last + 1}, means: {column.accepted:.2f} accepted, {column.rejected:.2f} rejected, "
        f"{column.unjudged:.2f} unjudged"
    )


def alpha_chart(tally: Tally, palette: Palette) -> Drawing:
    """Alpha over the last rounds, with its interval."""
    kept, found = series.latest(tally.alphas.rows)
    mean = tally.summary.alpha
    if mean is None:
        return axes.empty("alpha", palette, "Nothing was judged in this answer.")
    words = f"Alpha over the last {ALPHA_WINDOW} rounds with its 95% interval; {mean:.2f} over the whole answer."
    drawing, frame = axes.begin("alpha", palette, words, (0, tally.rounds), (0, 1), "round")
    alphas, low, high = (_points(frame, kept, values) for values in found.T)
    drawing.band(high, low, palette.accepted, 0.2)
    drawing.curve(alphas, palette.accepted, 1.8)
    drawing.line(frame.at(0, mean), frame.at(tally.rounds, mean), palette.dim, 1, "4 4")
    axes.legend(
        drawing,
        [
            ("solid", palette.accepted, f"last {ALPHA_WINDOW} rounds"),
            ("light", palette.accepted, "95% interval"),
            ("4 4", palette.dim, f"answer {mean:.2f}"),
        ],
    )
    return drawing


def positions_chart(tally: Tally, palette: Palette) -> Drawing:
    """Acceptance by place in the round, once judged and of all drafted."""
    places = tally.summary.by_position
    if not places:
        return axes.empty("positions", palette, "Nothing was proposed in this answer.")
    words = "Acceptance by position: " + ", ".join(
        f"{place.position}: {place.conditional:.2f} of judged" for place in places if place.conditional is not None
    )
    drawing, frame = axes.begin("positions", palette, words, (0.5, len(places) + 0.5), (0, 1), CHARTS["positions"].across)
    width = min(34.0, (frame.across(1) - frame.across(0)) * 0.4)
    for place in places:
        middle = frame.across(place.position)
        for kind, share, left, of, many in (
            ("fill", place.conditional, middle - width, "judged", place.accepted + place.rejected),
            ("light", place.unconditional, middle, "drafted", place.proposed),
        ):
            if share is not None:
                top = frame.up(share)
                title = f"Position {place.position}: {place.accepted:,} of {many:,} {of} ({share:.2f})"
                axes.bar(drawing, left + 1, top, width - 2, axes.BOTTOM - top, kind, palette.accepted, title)
    axes.legend(drawing, [("fill", palette.accepted, "accepted / judged"), ("light", palette.accepted, "accepted / drafted")])
    return drawing


def throughput_chart(tally: Tally, palette: Palette, plain: float | None = None) -> Drawing:
    """Throughput over the last rounds, its mean and, where it was measured, that of a plain answer to the same prompt."""
    kept, speeds = series.latest(tally.speeds.rows)
    found = list(zip(tally.times.rows[kept].tolist(), speeds.tolist(), strict=True))
    mean = tally.summary.throughput
    known = [speed for _, speed in found if math.isfinite(speed)]
    if mean is None or not known:
        return axes.empty("throughput", palette, "No round was finished.")
    top = max(min(max(known), 3 * mean), plain or 0.0) * 1.08  # one tiny first round must not flatten all others
    words = f"Throughput over the last {SPEED_WINDOW} rounds; {mean:.1f} tokens per second over the whole answer."
    drawing, frame = axes.begin("throughput", palette, words, (0, found[-1][0]), (0, top), "seconds", "any")
    drawing.curve([frame.at(*point) for point in found], palette.accent, 1.8)
    drawing.line(frame.at(0, mean), frame.at(found[-1][0], mean), palette.dim, 1, "4 4")
    entries = [
        ("solid", palette.accent, f"tokens/s, last {SPEED_WINDOW} rounds"),
        ("4 4", palette.dim, f"answer {mean:.1f}"),
    ]
    if plain is not None:
        drawing.line(frame.at(0, plain), frame.at(found[-1][0], plain), palette.text, 1.4, "1.5 3")
        entries.append(("1.5 3", palette.text, f"plain, measured {plain:.1f}"))
    axes.legend(drawing, entries)
    return drawing


def times_chart(tally: Tally, palette: Palette) -> Drawing:
    """Time of the rounds measured in stages, by phase."""
    found = series.phases(tally)
    if not found:
        return axes.empty("times", palette, "No round of this answer was timed by phase.")
    looks = (
        ("draft", "hatch", palette.time_draft),
        ("verify", "fill", palette.time_verify),
        ("judge", "fill", palette.time_judge),
        ("other", "outline", palette.time_other),
    )
    words = f"Milliseconds of {len(tally.phases):,} rounds timed by phase."
    top = max(sum(parts) for _, parts in found) * 1.05 or 1.0
    drawing, frame = axes.begin("times", palette, words, (0, 1), (0, top), "rounds timed by phase, in order", "none")
    width = (axes.RIGHT - axes.LEFT) / len(found)
    for index, (first, spent) in enumerate(found):
        low = 0.0
        for (phase, kind, colour), length in zip(looks, spent, strict=True):
            high = low + length
            title = f"Round {first + 1}: {phase} {length:.1f} ms of {sum(spent):.1f} ms"
            x, y = axes.LEFT + index * width, frame.up(high)
            axes.bar(drawing, x + 1, y, min(width - 2, 40), frame.up(low) - y, kind, colour, title)
            low = high
    axes.legend(drawing, [(kind, colour, phase) for phase, kind, colour in looks])
    return drawing


def tau_chart(tally: Tally, palette: Palette) -> Drawing:
    """Tau so far, measured and as alpha so far predicts it."""
    kept, found = series.latest(tally.taus.rows, 160)
    summary = tally.summary
    if summary.tau is None:
        return axes.empty("tau", palette, "No round was finished.")
    top = float(np.nanmax(found))
    words = f"Tau of all rounds so far: {summary.tau:.2f} at the end"
    words += f", {summary.predicted_tau:.2f} predicted from alpha." if summary.predicted_tau is not None else "."
    drawing, frame = axes.begin("tau", palette, words, (0, tally.rounds), (0, top * 1.1), "round")
    drawing.curve(_points(frame, kept, found[:, 0]), palette.accent, 1.8)
    drawing.curve(_points(frame, kept, found[:, 1]), palette.dim, 1.6, "6 4")
    axes.legend(drawing, [("solid", palette.accent, "measured"), ("6 4", palette.dim, "predicted from alpha")])
    return drawing


def lengths_chart(tally: Tally, palette: Palette) -> Drawing:
    """How many rounds accepted 0, 1, 2, ... proposals, and how many would if each stood with chance alpha on its own."""
    if not tally.lengths:
        return axes.empty("lengths", palette, "Nothing was proposed in this answer.")
    found = [tally.lengths[length] for length in range(max(tally.gammas) + 1)]
    alpha, expected = tally.summary.alpha, tally.expected_lengths()
    words = "Rounds by accepted proposals: " + ", ".join(f"{length}: {many:,}" for length, many in enumerate(found))
    across, top = (-0.5, max(len(found), len(expected)) - 0.5), max((*found, *expected)) * 1.12
    drawing, frame = axes.begin("lengths", palette, words, across, (0, top), CHARTS["lengths"].across)
    width = min(44.0, (frame.across(1) - frame.across(0)) * 0.8)
    whole = sum(found)
    for length, many in enumerate(found):
        middle, high = frame.across(length), frame.up(many)
        title = f"{length} accepted: {many:,} of {whole:,} rounds ({many / whole:.0%})"
        axes.bar(drawing, middle - width / 2, high, width, axes.BOTTOM - high, "fill", palette.accent, title)
        if len(found) <= 12:
            drawing.text(middle, high - 4, f"{many:,}", anchor="middle")
    for length, likely in enumerate(expected):
        left, right = frame.across(length) - width / 2 - 4, frame.across(length) + width / 2 + 4
        high = frame.up(likely)
        drawing.curve([(left, axes.BOTTOM), (left, high), (right, high), (right, axes.BOTTOM)], palette.dim, 1.3, "4 3")
    entries = [("fill", palette.accent, f"rounds, of {whole:,} with proposals")]
    if alpha is not None and expected:
        entries.append(("4 3", palette.dim, f"expected at alpha {alpha:.2f}"))
    axes.legend(drawing, entries)
    return drawing


DRAW: dict[ChartName, Callable[[Tally, Palette], Drawing]] = {
    "proposals": proposals_chart,
    "alpha": alpha_chart,
    "throughput": throughput_chart,
    "positions": positions_chart,
    "tau": tau_chart,
    "lengths": lengths_chart,
    "times": times_chart,
}


def draw(name: ChartName, trace: Trace, tally: Tally, palette: Palette) -> Drawing:
    """A chart of an answer; `tally` is that of its rounds."""
    if name == "throughput":
        return throughput_chart(tally, palette, None if trace.plain is None else trace.plain.throughput)
    return DRAW[name](tally, palette)
