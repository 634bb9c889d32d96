"""The charts of an answer as drawings. No state of a proposal is told by colour alone: filled, hatched, outlined."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from engine.exports import axes, captions, series
from engine.exports.drawing import CAPTION, DARK, LIGHT, Drawing, Frame, Palette, Point
from engine.exports.formats import Wanted
from engine.exports.tables import dividers_of
from engine.lens.bins import bin_size, means, proposals_shown
from engine.lens.chart_kinds import ALPHA_WINDOW, CHARTS, SPEED_WINDOW, ChartName
from engine.lens.dividers import Divider
from engine.lens.shared_wording import RULE_TITLES
from engine.lens.tally import Floats, Tally
from engine.rounds.trace import Trace
from engine.types import EXPECTED_RULES
from engine.values.errors import DraftlightError
from engine.values.wording import amount

DASHES = {"match": "2 3", "gumbel": "8 3 2 3", "rejection": "6 4"}
"""The lines of the rules; what was accepted is solid."""
MOST_CELLS = 12
"""With more proposals in a column its cells would be too flat to count."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What an answer's rounds alone do not tell.

    Attributes:
        dividers: where rule, drafter or gamma changed.
        plain: tokens per second of a plain answer to the same prompt, None where none was measured.
    """

    dividers: Sequence[Divider] = ()
    plain: float | None = None


def proposals_chart(tally: Tally, palette: Palette, setting: Setting) -> Drawing:
    """Verdicts per round; below, what was accepted lately and what each rule is expected to accept."""
    drawn = series.columns(tally)
    tallest = max((column.proposals for column in drawn), default=0.0)
    if not tallest:
        return axes.empty("proposals", palette, "Nothing was proposed in this answer.")
    words = f"Proposals in {amount(tally.rounds, 'round')}: accepted, rejected and unjudged."
    judged, proposals = np.array([(column.accepted + column.rejected, column.proposals) for column in drawn]).T
    binned = bin_size(tally.rounds, series.MOST) > 1
    top = max(1.0, tallest if binned else proposals_shown(judged, proposals))
    drawing, frame = axes.begin("proposals", palette, words, _rounds(tally), (0, top), _below(tally), bottom=118)
    states = (("fill", palette.accepted), ("hatch", palette.rejected), ("outline", palette.unjudged))
    cut: list[tuple[float, str]] = []
    for column in drawn:
        left, right = frame.across(column.first + 0.5), frame.across(column.last + 1.5)
        gap = min(2.0, (right - left) * 0.2)
        low = 0.0
        drawing.begin_group(_column_words(column))
        for (kind, colour), many in zip(states, (column.accepted, column.rejected, column.unjudged), strict=True):
            many = min(many, top - low)
            cells = round(many) if column.first == column.last and top <= MOST_CELLS else 1
            for _ in range(cells if many > 0 else 0):
                high = low + many / cells
                between = 1.0 if cells > 1 or top <= MOST_CELLS else 0.0
                height = frame.up(low) - frame.up(high)
                axes.bar(drawing, left, frame.up(high) + between, right - left - gap, height - between, kind, colour)
                low = high
        if column.proposals > top + 1e-9:
            cut.append(((left + right - gap) / 2, f"{column.proposals:.0f}"))
        drawing.end_group()
    _expectations(drawing, frame, tally, palette)
    _numbers_of_cut_columns(drawing, frame, cut, setting)
    names = [(kind, colour, name) for (kind, colour), name in zip(states, ("accepted", "rejected", "unjudged"), strict=True)]
    axes.legend(drawing, [*names, *((DASHES[rule], palette.rule(rule), RULE_TITLES[rule]) for rule in EXPECTED_RULES)])
    return drawing


def _numbers_of_cut_columns(drawing: Drawing, frame: Frame, cut: Sequence[tuple[float, str]], setting: Setting) -> None:
    """The dividers, and beside their words how tall columns would be that go beyond the field; a sign alone without room for it.

    `cut`: the middle of each such column, and its number, which stands behind the sign or, at the end of the field, before it.
    """
    wide = [(middle, 5 + 5.5 * len(number)) for middle, number in cut]
    spans = [
        (middle - 4, middle + width) if middle + width <= axes.RIGHT else (middle - width, middle + 4) for middle, width in wide
    ]
    taken = axes.dividers(drawing, frame, setting.dividers, spans)
    for (middle, number), span in zip(cut, spans, strict=True):
        if axes.meets(span, taken):
            drawing.text(middle, axes.TOP + 7, "▲", drawing.palette.text, 7, anchor="middle")
        elif span[1] > middle + 4:
            drawing.text(span[0], axes.TOP - 2, f"▲{number}", drawing.palette.text, 9)
        else:
            drawing.text(span[1], axes.TOP - 2, f"{number}▲", drawing.palette.text, 9, anchor="end")
        taken.append(span)


def _expectations(drawing: Drawing, above: Frame, tally: Tally, palette: Palette) -> None:
    x, accepted = series.curve(tally.accepted.rows, tally)
    _, expected = series.curve(tally.expected.rows, tally)
    high = max(1.0, float(np.nanmax(accepted, initial=0.0)), float(np.nanmax(expected, initial=0.0)))
    frame = axes.strip(drawing, above, high * 1.05)
    for place, rule in enumerate(EXPECTED_RULES):
        drawing.curve(_points(frame, x, expected[:, place]), palette.rule(rule), 1.5, DASHES[rule])
    drawing.curve(_points(frame, x, accepted), palette.accepted, 2.0)


def _points(frame: Frame, x: Floats, values: Floats) -> list[Point]:
    return [frame.at(*point) for point in zip(x.tolist(), values.tolist(), strict=True)]


def _rounds(tally: Tally) -> tuple[float, float]:
    """What the horizontal axis of every chart per round spans, so that they can be read one below the other."""
    return 0.5, max(1, tally.rounds) + 0.5


def _below(tally: Tally) -> str:
    size = bin_size(tally.rounds, series.MOST)
    return "round" if size == 1 else f"round; in bins of {size:,}: their mean, and as a band or whisker their 10% to 90%"


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


def alpha_chart(tally: Tally, palette: Palette, setting: Setting) -> Drawing:
    """Alpha over the last rounds, with its interval."""
    mean = tally.summary.alpha
    if mean is None:
        return axes.empty("alpha", palette, "Nothing was judged in this answer.")
    words = f"Alpha over the last {ALPHA_WINDOW} rounds with its 95% interval; {mean:.2f} over the whole answer."
    drawing, frame = axes.begin("alpha", palette, words, _rounds(tally), (0, 1), _below(tally))
    x, found = series.curve(tally.alphas.rows, tally)
    alphas, low, high = (_points(frame, x, values) for values in found.T)
    drawing.band(high, low, palette.accepted, 0.2)
    drawing.curve(alphas, palette.accepted, 1.8)
    axes.dividers(drawing, frame, setting.dividers)
    entries = [("solid", palette.accepted, f"last {ALPHA_WINDOW} rounds"), ("light", palette.accepted, "95% interval")]
    if len(tally.stretches) == 1:  # the mean of two rules is that of neither
        drawing.line((axes.LEFT, frame.up(mean)), (axes.RIGHT, frame.up(mean)), palette.dim, 1, "4 4")
        entries.append(("4 4", palette.dim, f"answer {mean:.2f}"))
    axes.legend(drawing, entries)
    return drawing


def positions_chart(tally: Tally, palette: Palette, _: Setting) -> Drawing:
    """Acceptance by place in the round, once judged and of all drafted."""
    places = tally.judged_positions()
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


def throughput_chart(tally: Tally, palette: Palette, setting: Setting) -> Drawing:
    """Throughput over the last rounds, its mean and, where it was measured, that of a plain answer to the same prompt."""
    plain = setting.plain
    x, speeds = series.places(tally), means(tally.speeds.rows, bin_size(tally.rounds, series.MOST))
    spread = series.column_spreads(tally.speeds.rows, tally)
    mean = tally.summary.throughput
    if mean is None or not np.isfinite(speeds).any():
        return axes.empty("throughput", palette, "No round was finished.")
    fastest = float(np.nanmax(spread if len(spread) else speeds))
    top = max(min(fastest, 3 * mean), plain or 0.0) * 1.08  # one tiny first round must not flatten all others
    words = f"Throughput over the last {SPEED_WINDOW} rounds; {mean:.1f} tokens per second over the whole answer."
    drawing, frame = axes.begin("throughput", palette, words, _rounds(tally), (0, top), _below(tally))
    if len(spread):
        low, high = (_points(frame, x, edge) for edge in spread.T)
        drawing.band(high, low, palette.accent, 0.2)
    drawing.curve(_points(frame, x, speeds), palette.accent, 1.8)
    drawing.line((axes.LEFT, frame.up(mean)), (axes.RIGHT, frame.up(mean)), palette.dim, 1, "4 4")
    entries = [
        ("solid", palette.accent, f"tokens/s, last {SPEED_WINDOW} rounds"),
        ("4 4", palette.dim, f"answer {mean:.1f}"),
    ]
    if plain is not None:
        drawing.line((axes.LEFT, frame.up(plain)), (axes.RIGHT, frame.up(plain)), palette.text, 1.4, "1.5 3")
        entries.append(("1.5 3", palette.text, f"plain, measured {plain:.1f}"))
    axes.dividers(drawing, frame, setting.dividers)
    axes.legend(drawing, entries)
    return drawing


def times_chart(tally: Tally, palette: Palette, setting: Setting) -> Drawing:
    """Time of the rounds: by phase where they were measured in stages, in all where not."""
    if not len(tally.phases):
        return axes.empty("times", palette, "No round of this answer was timed by phase.")
    looks = (
        ("draft", "hatch", palette.time_draft),
        ("verify", "fill", palette.time_verify),
        ("judge", "fill", palette.time_judge),
        ("other", "outline", palette.time_other),
    )
    size = bin_size(tally.rounds, series.MOST)
    x, parts, totals = series.places(tally), means(tally.times_by_phase, size), means(tally.milliseconds.rows, size)
    spread = series.column_spreads(tally.milliseconds.rows, tally)
    words = f"Milliseconds of {amount(tally.rounds, 'round')}, {len(tally.phases):,} of them timed by phase."
    top = 1.05 * max(float(np.nanmax(values, initial=0.0)) for values in (parts.sum(axis=1), totals, spread)) or 1.0
    drawing, frame = axes.begin("times", palette, words, _rounds(tally), (0, top), _below(tally))
    width = min(14.0, 0.76 * (frame.across(size) - frame.across(0)))
    for place, (across, spent, total) in enumerate(zip(x.tolist(), parts.tolist(), totals.tolist(), strict=True)):
        middle = frame.across(across)
        which = f"Round {across:.0f}" if size == 1 else f"Rounds {place * size + 1} to {min((place + 1) * size, tally.rounds)}"
        if not math.isfinite(spent[0]):
            drawing.line((middle - width / 2, frame.up(total)), (middle + width / 2, frame.up(total)), palette.time_unsplit)
            continue
        low = 0.0
        for (phase, kind, colour), length in zip(looks, spent, strict=True):
            y = frame.up(low + length)
            title = f"{which}: {phase} {length:.1f} ms of {sum(spent):.1f} ms"
            axes.bar(drawing, middle - width / 2, y, width, frame.up(low) - y, kind, colour, title)
            low += length
    for across, (low, high) in zip(x.tolist(), spread.tolist(), strict=False):
        drawing.line(frame.at(across, low), frame.at(across, high), palette.dim)
    axes.dividers(drawing, frame, setting.dividers)
    axes.legend(drawing, [(kind, colour, phase) for phase, kind, colour in looks])
    return drawing


def tau_chart(tally: Tally, palette: Palette, setting: Setting) -> Drawing:
    """Tau so far, measured and as alpha so far lets one expect it."""
    summary = tally.summary
    if summary.tau is None:
        return axes.empty("tau", palette, "No round was finished.")
    x, found = series.curve(tally.taus.rows, tally)
    words = f"Tau so far: {summary.tau:.2f} over the whole answer"
    words += f", {summary.predicted_tau:.2f} expected at its alpha." if summary.predicted_tau is not None else "."
    drawing, frame = axes.begin("tau", palette, words, _rounds(tally), (0, float(np.nanmax(found)) * 1.1), _below(tally))
    drawing.curve(_points(frame, x, found[:, 0]), palette.accent, 1.8)
    drawing.curve(_points(frame, x, found[:, 1]), palette.dim, 1.6, "6 4")
    axes.dividers(drawing, frame, setting.dividers)
    axes.legend(drawing, [("solid", palette.accent, "measured"), ("6 4", palette.dim, "expected at alpha so far")])
    return drawing


def lengths_chart(tally: Tally, palette: Palette, _: Setting) -> Drawing:
    """How many rounds accepted 0, 1, 2, ... proposals, and how many would if each stood with chance alpha on its own."""
    if not tally.lengths:
        return axes.empty("lengths", palette, "Nothing was proposed in this answer.")
    found, expected = tally.length_bars()
    alpha = tally.summary.alpha if len(tally.stretches) == 1 else None
    words = "Rounds by accepted proposals: " + ", ".join(f"{length}: {many:,}" for length, many in enumerate(found))
    across, top = (-0.5, max(len(found), len(expected)) - 0.5), max((*found, *expected)) * 1.12
    drawing, frame = axes.begin("lengths", palette, words, across, (0, top), CHARTS["lengths"].across)
    width = min(44.0, (frame.across(1) - frame.across(0)) * 0.8)
    whole = sum(found)
    for length, many in enumerate(found):
        middle, high = frame.across(length), frame.up(many)
        title = f"{length} accepted: {many:,} of {amount(whole, 'round')} ({many / whole:.0%})"
        axes.bar(drawing, middle - width / 2, high, width, axes.BOTTOM - high, "fill", palette.accent, title)
        if len(found) <= 12:
            outline = frame.up(expected[length]) if length < len(expected) else high
            drawing.text(middle, min(high, outline) - 4, f"{many:,}", anchor="middle")
    for length, likely in enumerate(expected):
        left, right = frame.across(length) - width / 2 - 4, frame.across(length) + width / 2 + 4
        high = frame.up(likely)
        drawing.curve([(left, axes.BOTTOM), (left, high), (right, high), (right, axes.BOTTOM)], palette.dim, 1.3, "4 3")
    entries = [("fill", palette.accent, f"rounds, of {whole:,} with proposals")]
    if expected:
        at = "the alpha of each rule" if alpha is None else f"alpha {alpha:.2f}"
        entries.append(("4 3", palette.dim, f"expected at {at}"))
    axes.legend(drawing, entries)
    return drawing


DRAW: dict[ChartName, Callable[[Tally, Palette, Setting], Drawing]] = {
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
    plain = None if trace.plain is None else trace.plain.throughput
    return DRAW[name](tally, palette, Setting(dividers_of(trace), plain))


def make(traces: Sequence[Trace], wanted: Wanted) -> dict[str, str]:
    """As in `engine.exports.formats.Make`."""
    return {"chart": chart_svg(traces, wanted.chart, wanted.theme)}


def chart_svg(traces: Sequence[Trace], chart: str, theme: str = "light") -> str:
    """One chart of the last answer as an SVG document, with its title, its axes and where it comes from.

    Raises:
        DraftlightError: an unknown chart, or no answer.
    """
    kind = next((kind for kind in CHARTS.values() if kind.name == chart), None)
    if kind is None:
        raise DraftlightError(f"There is no chart {chart!r}. Choose one of {', '.join(CHARTS)}.")
    if not traces:
        raise DraftlightError("There is no answer to draw.")
    palette, trace = DARK if theme == "dark" else LIGHT, traces[-1]
    drawing = draw(kind.name, trace, Tally.of(trace.rounds), palette)
    return drawing.document(kind.title, kind.up, captions.lines(captions.provenance(trace), drawing.width, CAPTION))
