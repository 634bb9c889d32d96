"""Describes each chart of an answer as a `ChartSpec`, with a function for each entry of `engine.lens.chart_kinds.CHARTS`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import cast

import numpy as np

from engine.lens.bins import RoundSpan, column_quantiles, columns, interrupted_columns, proposals_axis_limit
from engine.lens.chart_kinds import ALPHA_WINDOW, SPEED_WINDOW, ChartKind
from engine.lens.chart_spec import (
    BAR_WIDTH,
    Area,
    Axis,
    Bars,
    ChartSpec,
    Dash,
    Fill,
    Key,
    Level,
    Line,
    Note,
    Panel,
    Part,
    Whiskers,
    axis_limit_above,
    axis_with_halves,
    highest,
    integer_axis,
)
from engine.lens.shared_wording import RULE_TITLES
from engine.lens.tally import Floats, Tally
from engine.types import EXPECTED_RULES, PHASES, Rule
from engine.values.wording import amount

DASHES: dict[Rule, Dash] = {"match": "dot", "gumbel": "dashdot", "rejection": "dash"}
"""Line style of each rule's expectation; the observed acceptance is solid."""
VERDICTS: dict[str, Fill] = {"accepted": "fill", "rejected": "hatch", "unjudged": "outline"}
PHASE_FILLS: dict[str, Fill] = {"draft": "fill", "verify": "hatch", "judge": "fill", "other": "outline"}
"""Fills of verdicts and phases: neighbours in a bar differ by more than their colour."""
HALF_BAR_WIDTH = 0.38
"""Half the width of a bar, as a share of its column's width."""


@dataclass(frozen=True, slots=True)
class Material:
    """Data for the charts of one answer.

    Attributes:
        dividers: index of each round from which settings changed, with a label.
        plain: measured throughput without a drafter, None if not measured.
        plain_is_comparable: whether it was measured for this prompt under these settings.
        never: why there will be no rounds, if there will be none.
        for_export: whether the charts are for an export, which also shows the figures of the whole answer.
    """

    tally: Tally
    span: RoundSpan
    dividers: Sequence[tuple[int, str]] = ()
    plain: float | None = None
    plain_is_comparable: bool = True
    never: str = ""
    for_export: bool = False


def spec_of(kind: ChartKind, material: Material | None) -> ChartSpec:
    """Returns the description of a chart, or of why it is empty."""
    if material is None:
        return ChartSpec(empty=kind.waiting)
    if words := _empty_reason(kind, material):
        return ChartSpec(empty=words)
    return cast(Callable[[Material], ChartSpec], resolve_name(kind.spec))(material)


def _empty_reason(kind: ChartKind, material: Material) -> str:
    """Returns why a chart is empty, or "" if it is not. In an export no further rounds will come, so one is enough."""
    tally = material.tally
    if tally.rounds < (1 if material.for_export else kind.min_rounds):
        return material.never or kind.waiting
    if kind.needs_trees and not tally.summary.by_rank:
        return "No trees were drafted: each position had one proposal."
    return "Nothing was proposed." if kind.needs_proposals and not any(tally.gammas.keys() - {0}) else ""


def by_round(material: Material, words: str, notes: tuple[Note, ...], *panels: Panel) -> ChartSpec:
    """Returns a chart whose x axis is rounds. All these charts share the range of that axis and the dividers."""
    span = material.span
    shown = tuple((index + 0.5, title) for index, title in material.dividers if span.first < index < span.last)
    return ChartSpec(Axis(span.first + 0.5, span.first + span.room + 0.5), panels, words, notes, shown, span)


def proposals(material: Material) -> ChartSpec:
    """Describes the verdicts on each round's proposals; below them, recent acceptance and the expectation for each rule."""
    tally, span = material.tally, material.span
    x, counts = columns(tally.statuses.rows, span)
    drafted = counts.sum(axis=1)
    tallest = proposals_axis_limit(counts[:, :2].sum(axis=1), drafted) if span.each == 1 else max(1.0, drafted.max())
    top = math.ceil(tallest - 1e-9)
    step = next((step for step in (1, 2, 5, 10, 20) if 5 * step >= top), math.ceil(top / 5))
    decimals = 0 if span.each == 1 else 1
    parts = tuple(Part(verdict, fill, f"{{:.{decimals}f}} {verdict}") for verdict, fill in VERDICTS.items())
    cells = Bars(x, counts, parts, HALF_BAR_WIDTH * span.each, BAR_WIDTH, top, cells=span.each == 1)
    positions, accepted = interrupted_columns(tally.accepted.rows, span, tally.stretches)
    _, expected = interrupted_columns(tally.expected.rows, span, tally.stretches)
    spread = column_quantiles(tally.accepted.rows, span)
    acceptance_limit = axis_limit_above(max(1.0, highest(accepted, expected, spread)))
    lines = (Line(positions, expected[:, column], f"rule_{rule}", DASHES[rule]) for column, rule in enumerate(EXPECTED_RULES))
    verdict_keys = [Key(verdict, fill, verdict) for verdict, fill in VERDICTS.items()]
    accepted_key = Key("accepted", "line", "accepted")
    is_expected = bool(np.isfinite(expected).any())
    rules = [Key(f"rule_{rule}", DASHES[rule], RULE_TITLES[rule]) for rule in EXPECTED_RULES if is_expected]
    lower_notes: tuple[Note, ...] = (("below, per round:", accepted_key), ("below:", accepted_key))
    if is_expected:
        lower_notes = (("below:", accepted_key, "expected:", *rules), (accepted_key, "expected:", *rules), (accepted_key, *rules))
    spec = by_round(
        material,
        f"Proposals in {amount(tally.rounds, 'round')}: accepted, rejected and unjudged.",
        ((*verdict_keys, *(rules if material.for_export else ())),),
        Panel(Axis(0, 1.04 * top + 0.1, tuple((value, str(value)) for value in range(0, top + 1, step))), (cells,)),
        Panel(
            Axis(0, acceptance_limit, tuple((value, f"{value:g}") for value in (0, acceptance_limit))),
            (_band(x, spread, "accepted"), *lines, Line(positions, accepted, "accepted", width=2.2)),
        ),
    )
    return spec if material.for_export else replace(spec, lower_notes=lower_notes)


def alpha(material: Material) -> ChartSpec:
    """Describes alpha over the last rounds, with its interval."""
    tally = material.tally
    x, intervals = interrupted_columns(tally.alphas.rows, material.span, tally.stretches)
    mean = tally.summary.alpha
    whole_answer = "" if mean is None else f"; {mean:.2f} over the whole answer"
    # a mean over two rules would describe neither
    levels, keys = _whole_answer_marks(mean if material.for_export and len(tally.stretches) == 1 else None, ".2f")
    return by_round(
        material,
        f"Alpha over the last {ALPHA_WINDOW} rounds with its 95% interval{whole_answer}.",
        ((Key("accepted", "light", "95% interval"), *keys), (Key("accepted", "light", "95%"),)),
        Panel(
            Axis(0, 1, ((0, "0"), (0.5, ".5"), (1, "1"))),
            (
                Area(x, intervals[:, 1], intervals[:, 2], "accepted", "interval {:.2f} to {:.2f}"),
                *levels,
                Line(x, intervals[:, 0], "accepted", value_format="{:.2f}"),
            ),
        ),
    )


def throughput(material: Material) -> ChartSpec:
    """Describes the tokens per second over the last rounds, and the measured throughput of a plain run."""
    tally, span, plain = material.tally, material.span, material.plain
    x, speeds = columns(tally.speeds.rows, span)
    spread = column_quantiles(tally.speeds.rows, span)
    known = speeds[np.isfinite(speeds)]
    fastest = highest(speeds if span.each == 1 else spread)
    # one tiny first round must not flatten all others
    axis_limit = max(min(fastest, 3 * float(known.mean())) if len(known) else 0.0, plain or 0.0)
    mean = tally.summary.throughput
    levels, keys = _whole_answer_marks(mean if material.for_export else None, ".1f")
    whole_answer = "" if mean is None else f"; {mean:.1f} tokens per second over the whole answer"
    plain_line = () if plain is None else (Level(plain, "dim"),)
    return by_round(
        material,
        f"Throughput over the last {SPEED_WINDOW} rounds{whole_answer}.",
        _speed_notes(material, keys),
        Panel(
            axis_with_halves(axis_limit_above(1.05 * axis_limit if axis_limit > 0 else 1.0)),
            (
                _band(x, spread, "accent", "80% from {:.1f} to {:.1f}"),
                *levels,
                *plain_line,
                Line(x, speeds, "accent", value_format="{:.1f} tokens/s"),
            ),
        ),
    )


def _speed_notes(material: Material, whole: Note) -> tuple[Note, ...]:
    unit, plain = f"tokens/s, last {SPEED_WINDOW} rounds", material.plain
    curve = Key("accent", "line", unit) if material.for_export else unit
    if plain is not None:
        condition = "measured" if material.plain_is_comparable else "measured under other conditions"
        line = Key("dim", "dash", f"plain {plain:.1f}, {condition}")
        return (curve, *whole, line), (line,), (Key("dim", "dash", f"plain {plain:.1f}"),)
    if material.for_export:
        return ((curve, *whole),)
    if not any(material.tally.gammas.keys() - {0}):
        return (f"{unit}; a plain run",), (unit,), ()
    return (f"{unit}; no baseline yet: measure the plain speed",), ("tokens/s; no baseline yet",), ("tokens/s",), ()


def positions(material: Material) -> ChartSpec:
    """Describes the acceptance rate at each position in a round, as a share of judged and of all drafted proposals."""
    counts = material.tally.judged_positions()
    x = np.array([entry.position for entry in counts], dtype=float)
    styles: tuple[tuple[str, Fill], ...] = (("judged", "fill"), ("drafted", "light"))
    shares = ([entry.conditional for entry in counts], [entry.unconditional for entry in counts])
    totals = ([entry.accepted + entry.rejected for entry in counts], [entry.proposed for entry in counts])
    bars = (
        Bars(
            x + offset,
            np.array([[share or 0.0] for share in values]).reshape(-1, 1),
            (Part("accepted", fill),),
            0.14,
            titles=tuple(
                f"Position {entry.position}: {entry.accepted:,} of {total:,} {base} ({share or 0:.2f})"
                for entry, share, total in zip(counts, values, group_totals, strict=True)
            ),
        )
        for (base, fill), offset, values, group_totals in zip(styles, (-0.16, 0.16), shares, totals, strict=True)
    )
    judged = ", ".join(
        f"{entry.position}: {entry.conditional:.2f} of judged" for entry in counts if entry.conditional is not None
    )
    return ChartSpec(
        integer_axis(0.5, max(4, len(counts)) + 0.5, 1, len(counts)),
        (Panel(Axis(0, 1, ((0, "0"), (0.5, ".5"), (1, "1"))), tuple(bars)),),
        f"Acceptance by position: {judged}",
        (
            ("share accepted of", *(Key("accepted", fill, base) for base, fill in styles)),
            tuple(Key("accepted", fill, f"of {base}") for base, fill in styles),
        ),
    )


def choices(material: Material) -> ChartSpec:
    """Describes how often each choice of a tree was accepted, and how often it or one before it was."""
    ranks = material.tally.summary.by_rank
    x = np.array([entry.rank + 1 for entry in ranks], dtype=float)
    intervals = np.array([entry.interval or (math.nan, math.nan) for entry in ranks])
    titles = tuple(
        f"Choice {entry.rank + 1}: accepted at {entry.accepted:,} of {amount(entry.offered, 'position')}, "
        f"it or one before it at {entry.covered:,} ({entry.coverage or 0:.2f})"
        for entry in ranks
    )
    shares = [[(entry.covered - entry.accepted) / entry.offered, entry.accepted / entry.offered] for entry in ranks]
    earlier, this = Key("accepted", "light", "an earlier choice"), Key("accepted", "fill", "this choice")
    return ChartSpec(
        integer_axis(0.5, max(4, len(ranks)) + 0.5, 1, len(ranks)),
        (
            Panel(
                Axis(0, 1, ((0, "0"), (0.5, ".5"), (1, "1"))),
                (
                    Bars(x, np.array(shares), (Part("accepted", "light"), Part("accepted")), 0.28, titles=titles),
                    Whiskers(x, intervals[:, 0], intervals[:, 1], "text"),
                ),
            ),
        ),
        f"Acceptance by choice: {'. '.join(titles)}.",
        (("accepted:", this, earlier, "whiskers: 95% interval"), (this, earlier), (this,)),
    )


def tau(material: Material) -> ChartSpec:
    """Describes cumulative tau, and the tau expected from cumulative alpha; both restart where rule or drafter changed."""
    tally = material.tally
    x, values = interrupted_columns(tally.taus.rows, material.span, tally.stretches)
    summary = tally.summary
    words = "" if summary.tau is None else f": {summary.tau:.2f} over the whole answer"
    words += "" if summary.predicted_tau is None else f", {summary.predicted_tau:.2f} expected at its alpha"
    top = math.ceil(max(1.0, highest(values)) * 1.05)
    step = max(1, math.ceil(top / 4))
    measured = Key("accent", "line", "measured")
    expected = () if math.isnan(tally.taus[-1][1]) else ("expected at alpha so far", "expected")
    return by_round(
        material,
        f"Tau so far{words}.",
        tuple((measured, Key("dim", "dash", name)) for name in expected) or ((measured,),),
        Panel(
            Axis(0, top, tuple((value, str(value)) for value in range(0, top + 1, step))),
            (
                Line(x, values[:, 1], "dim", "dash", value_format="expected {:.2f}"),
                Line(x, values[:, 0], "accent", value_format="{:.2f}"),
            ),
        ),
    )


def lengths(material: Material) -> ChartSpec:
    """Describes how many rounds accepted 0, 1, 2, ... proposals, and the numbers expected if each proposal is accepted
    independently with probability alpha."""
    tally = material.tally
    round_counts, expected = tally.length_bars()
    x, total = np.arange(len(round_counts), dtype=float), sum(round_counts)
    top = axis_limit_above(max(1.0, *round_counts, *expected))
    counted_rounds = Key("accent", "fill", f"rounds, of {total:,} with proposals")
    notes: tuple[Note, ...] = ((counted_rounds,), ("rounds by accepted proposals",))
    summary = tally.summary
    if expected and summary.alpha is not None:
        basis = f"alpha {summary.alpha:.2f}" if len(tally.stretches) == 1 else "the alpha of each rule"
        expected_key = Key("dim", "dashed", f"expected at {basis}")
        notes = (counted_rounds, expected_key), (expected_key,), (Key("dim", "dashed", "expected"),)
    return ChartSpec(
        integer_axis(-0.5, max(4, len(round_counts) - 1) + 0.5, 0, len(round_counts) - 1),
        (
            Panel(
                axis_with_halves(top),
                (
                    Bars(
                        x,
                        np.array(round_counts, dtype=float)[:, None],
                        (Part("accent"),),
                        0.28,
                        titles=tuple(
                            f"{length} accepted: {count:,} of {amount(total, 'round')} ({count / total:.0%})"
                            for length, count in enumerate(round_counts)
                        ),
                        numbers=tuple(f"{count:,}" for count in round_counts) if len(round_counts) <= 12 else (),
                    ),
                    Bars(x[: len(expected)], np.array(expected, dtype=float)[:, None], (Part("dim", "dashed"),), 0.4),
                ),
            ),
        ),
        "Rounds by accepted proposals: " + ", ".join(f"{length}: {count:,}" for length, count in enumerate(round_counts)),
        notes,
    )


def times(material: Material) -> ChartSpec:
    """Describes the time of each round: by phase if its phases were timed, otherwise only the total."""
    tally, span = material.tally, material.span
    x, phases = columns(tally.times_by_phase, span)
    _, totals = columns(tally.milliseconds.rows, span)
    spread = column_quantiles(tally.milliseconds.rows, span)
    timed = np.isfinite(phases[:, 0])
    half = HALF_BAR_WIDTH * span.each
    parts = tuple(Part(f"time_{phase}", PHASE_FILLS[phase], f"{phase} {{:.1f}} ms") for phase in PHASES)
    total = Part("time_unsplit", "top", "{:.1f} ms, phases not timed")
    keys = [Key(f"time_{phase}", PHASE_FILLS[phase], phase) for phase in PHASES]
    return by_round(
        material,
        f"Milliseconds of {amount(tally.rounds, 'round')}, {len(tally.phases):,} of them timed by phase.",
        (("ms, bottom to top:", *keys), ("ms:", *keys), (*keys,)),
        Panel(
            axis_with_halves(axis_limit_above(max(1.0, 1.05 * highest(phases[timed].sum(axis=1), totals[~timed], spread)))),
            (
                Bars(x[~timed], totals[~timed, None], (total,), half, BAR_WIDTH),
                Bars(x[timed], phases[timed], parts, half, BAR_WIDTH),
                Whiskers(x[: len(spread)], spread[:, 0], spread[:, 1], "dim"),
            ),
        ),
    )


def _band(x: Floats, spread: Floats, role: str, value_format: str = "") -> Area:
    """Returns the spread of each bin as an area; it has no points if columns are single rounds."""
    return Area(x[: len(spread)], spread[:, 0], spread[:, 1], role, value_format)


def _whole_answer_marks(mean: float | None, form: str) -> tuple[tuple[Level, ...], tuple[Key, ...]]:
    """Returns a line for a figure of the whole answer, and its entry in the legend; both empty if `mean` is None."""
    if mean is None:
        return (), ()
    return (Level(mean, "dim", "dot"),), (Key("dim", "dot", f"answer {mean:{form}}"),)
