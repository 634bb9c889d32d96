"""Describes each chart of an answer as a `ChartSpec`, with a function for each entry of `engine.lens.chart_kinds.CHARTS`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import cast

import numpy as np

from engine.lens.bins import RoundSpan, column_spreads, columns, curves, proposals_shown
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
    counted,
    halves,
    highest,
    step_above,
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
ALMOST_FULL = 0.38
"""Half the width of a bar, as a share of its column's width."""


@dataclass(frozen=True, slots=True)
class Material:
    """Data for the charts of one answer.

    Attributes:
        dividers: index of each round from which settings changed, with a label.
        plain: measured throughput without a drafter, None if not measured.
        plain_fits: whether it was measured for this prompt under these settings.
        never: why there will be no rounds, if there will be none.
        in_picture: whether the charts are for an export, which also shows the figures of the whole answer.
    """

    tally: Tally
    span: RoundSpan
    dividers: Sequence[tuple[int, str]] = ()
    plain: float | None = None
    plain_fits: bool = True
    never: str = ""
    in_picture: bool = False


def spec_of(kind: ChartKind, material: Material | None) -> ChartSpec:
    """Returns the description of a chart, or of why it is empty."""
    if material is None:
        return ChartSpec(empty=kind.waiting)
    if words := empty_words(kind, material.tally, material.never, material.in_picture):
        return ChartSpec(empty=words)
    return cast(Callable[[Material], ChartSpec], resolve_name(kind.spec))(material)


def empty_words(kind: ChartKind, tally: Tally | None, never: str = "", complete: bool = False) -> str:
    """Returns why a chart is empty, or "" if it is not.

    Args:
        never: why there will be no rounds. complete: no further rounds will come, so one is enough.
    """
    if tally is None or tally.rounds < (1 if complete else kind.fewest_rounds):
        return never or kind.waiting
    return "Nothing was proposed." if kind.of_proposals and not any(tally.gammas.keys() - {0}) else ""


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
    most = proposals_shown(counts[:, :2].sum(axis=1), drafted) if span.each == 1 else max(1.0, drafted.max())
    top = math.ceil(most - 1e-9)
    step = next((step for step in (1, 2, 5, 10, 20) if 5 * step >= top), math.ceil(top / 5))
    decimals = 0 if span.each == 1 else 1
    parts = tuple(Part(verdict, fill, f"{{:.{decimals}f}} {verdict}") for verdict, fill in VERDICTS.items())
    cells = Bars(x, counts, parts, ALMOST_FULL * span.each, BAR_WIDTH, top, cells=span.each == 1)
    at, accepted = curves(tally.accepted.rows, span, tally.stretches)
    _, expected = curves(tally.expected.rows, span, tally.stretches)
    spread = column_spreads(tally.accepted.rows, span)
    below = step_above(max(1.0, highest(accepted, expected, spread)))
    lines = (Line(at, expected[:, place], f"rule_{rule}", DASHES[rule]) for place, rule in enumerate(EXPECTED_RULES))
    filled = [Key(verdict, fill, verdict) for verdict, fill in VERDICTS.items()]
    lately = Key("accepted", "line", "accepted")
    rules = [Key(f"rule_{rule}", DASHES[rule], RULE_TITLES[rule]) for rule in EXPECTED_RULES]
    notes: tuple[Note, ...] = (
        (*filled, "below:", lately, "expected:", *rules),
        ("below:", lately, "expected:", *rules),
        (lately, *rules),
    )
    return by_round(
        material,
        f"Proposals in {amount(tally.rounds, 'round')}: accepted, rejected and unjudged.",
        ((*filled, *rules),) if material.in_picture else notes,
        Panel(Axis(0, 1.04 * top + 0.1, tuple((value, str(value)) for value in range(0, top + 1, step))), (cells,)),
        Panel(
            Axis(0, below, tuple((value, f"{value:g}") for value in (0, below))),
            (_band(x, spread, "accepted"), *lines, Line(at, accepted, "accepted", width=2.2)),
        ),
    )


def alpha(material: Material) -> ChartSpec:
    """Describes alpha over the last rounds, with its interval."""
    tally = material.tally
    x, found = curves(tally.alphas.rows, material.span, tally.stretches)
    mean = tally.summary.alpha
    whole = "" if mean is None else f"; {mean:.2f} over the whole answer"
    # a mean over two rules would describe neither
    levels, keys = _whole(mean if material.in_picture and len(tally.stretches) == 1 else None, ".2f")
    return by_round(
        material,
        f"Alpha over the last {ALPHA_WINDOW} rounds with its 95% interval{whole}.",
        ((Key("accepted", "light", "95% interval"), *keys), (Key("accepted", "light", "95%"),)),
        Panel(
            Axis(0, 1, ((0, "0"), (0.5, ".5"), (1, "1"))),
            (
                Area(x, found[:, 1], found[:, 2], "accepted", "interval {:.2f} to {:.2f}"),
                *levels,
                Line(x, found[:, 0], "accepted", read="{:.2f}"),
            ),
        ),
    )


def throughput(material: Material) -> ChartSpec:
    """Describes the tokens per second over the last rounds, and the measured throughput of a plain run."""
    tally, span, plain = material.tally, material.span, material.plain
    x, speeds = columns(tally.speeds.rows, span)
    spread = column_spreads(tally.speeds.rows, span)
    known = speeds[np.isfinite(speeds)]
    fastest = highest(speeds if span.each == 1 else spread)
    # one tiny first round must not flatten all others
    shown = max(min(fastest, 3 * float(known.mean())) if len(known) else 0.0, plain or 0.0)
    mean = tally.summary.throughput
    levels, keys = _whole(mean if material.in_picture else None, ".1f")
    whole = "" if mean is None else f"; {mean:.1f} tokens per second over the whole answer"
    plain_line = () if plain is None else (Level(plain, "dim"),)
    return by_round(
        material,
        f"Throughput over the last {SPEED_WINDOW} rounds{whole}.",
        _speed_notes(material, keys),
        Panel(
            halves(step_above(1.05 * shown if shown > 0 else 1.0)),
            (
                _band(x, spread, "accent", "80% from {:.1f} to {:.1f}"),
                *levels,
                *plain_line,
                Line(x, speeds, "accent", read="{:.1f} tokens/s"),
            ),
        ),
    )


def _speed_notes(material: Material, whole: Note) -> tuple[Note, ...]:
    unit, plain = f"tokens/s, last {SPEED_WINDOW} rounds", material.plain
    curve = Key("accent", "line", unit) if material.in_picture else unit
    if plain is not None:
        where = "measured" if material.plain_fits else "measured under other conditions"
        line = Key("dim", "dash", f"plain {plain:.1f}, {where}")
        return (curve, *whole, line), (line,), (Key("dim", "dash", f"plain {plain:.1f}"),)
    if material.in_picture:
        return ((curve, *whole),)
    if not any(material.tally.gammas.keys() - {0}):
        return (f"{unit}; a plain run",), (unit,), ()
    return (f"{unit}; no baseline yet: measure the plain speed",), ("tokens/s; no baseline yet",), ("tokens/s",), ()


def positions(material: Material) -> ChartSpec:
    """Describes the acceptance rate at each position in a round, as a share of judged and of all drafted proposals."""
    found = material.tally.judged_positions()
    x = np.array([place.position for place in found], dtype=float)
    looks: tuple[tuple[str, Fill], ...] = (("judged", "fill"), ("drafted", "light"))
    shares = ([place.conditional for place in found], [place.unconditional for place in found])
    totals = ([place.accepted + place.rejected for place in found], [place.proposed for place in found])
    bars = (
        Bars(
            x + side,
            np.array([[share or 0.0] for share in values]).reshape(-1, 1),
            (Part("accepted", fill),),
            0.14,
            titles=tuple(
                f"Position {place.position}: {place.accepted:,} of {many:,} {of} ({share or 0:.2f})"
                for place, share, many in zip(found, values, whole, strict=True)
            ),
        )
        for (of, fill), side, values, whole in zip(looks, (-0.16, 0.16), shares, totals, strict=True)
    )
    judged = ", ".join(f"{place.position}: {place.conditional:.2f} of judged" for place in found if place.conditional is not None)
    return ChartSpec(
        counted(0.5, max(4, len(found)) + 0.5, 1, len(found)),
        (Panel(Axis(0, 1, ((0, "0"), (0.5, ".5"), (1, "1"))), tuple(bars)),),
        f"Acceptance by position: {judged}",
        (
            ("share accepted of", *(Key("accepted", fill, of) for of, fill in looks)),
            tuple(Key("accepted", fill, f"of {of}") for of, fill in looks),
        ),
    )


def tau(material: Material) -> ChartSpec:
    """Describes cumulative tau, and the tau expected from cumulative alpha; both restart where rule or drafter changed."""
    tally = material.tally
    x, found = curves(tally.taus.rows, material.span, tally.stretches)
    summary = tally.summary
    words = "" if summary.tau is None else f": {summary.tau:.2f} over the whole answer"
    words += "" if summary.predicted_tau is None else f", {summary.predicted_tau:.2f} expected at its alpha"
    top = math.ceil(max(1.0, highest(found)) * 1.05)
    step = max(1, math.ceil(top / 4))
    measured = Key("accent", "line", "measured")
    expected = () if math.isnan(tally.taus[-1][1]) else ("expected at alpha so far", "expected")
    return by_round(
        material,
        f"Tau so far{words}.",
        tuple((measured, Key("dim", "dash", name)) for name in expected) or ((measured,),),
        Panel(
            Axis(0, top, tuple((value, str(value)) for value in range(0, top + 1, step))),
            (Line(x, found[:, 1], "dim", "dash", read="expected {:.2f}"), Line(x, found[:, 0], "accent", read="{:.2f}")),
        ),
    )


def lengths(material: Material) -> ChartSpec:
    """Describes how many rounds accepted 0, 1, 2, ... proposals, and the numbers expected if each proposal is accepted
    independently with probability alpha."""
    tally = material.tally
    found, expected = tally.length_bars()
    x, whole = np.arange(len(found), dtype=float), sum(found)
    top = step_above(max(1.0, *found, *expected))
    counted_rounds = Key("accent", "fill", f"rounds, of {whole:,} with proposals")
    notes: tuple[Note, ...] = ((counted_rounds,), ("rounds by accepted proposals",))
    summary = tally.summary
    if expected and summary.alpha is not None:
        at = f"alpha {summary.alpha:.2f}" if len(tally.stretches) == 1 else "the alpha of each rule"
        likely = Key("dim", "dashed", f"expected at {at}")
        notes = (counted_rounds, likely), (likely,), (Key("dim", "dashed", "expected"),)
    return ChartSpec(
        counted(-0.5, max(4, len(found) - 1) + 0.5, 0, len(found) - 1),
        (
            Panel(
                halves(top),
                (
                    Bars(
                        x,
                        np.array(found, dtype=float)[:, None],
                        (Part("accent"),),
                        0.28,
                        titles=tuple(
                            f"{length} accepted: {many:,} of {amount(whole, 'round')} ({many / whole:.0%})"
                            for length, many in enumerate(found)
                        ),
                        numbers=tuple(f"{many:,}" for many in found) if len(found) <= 12 else (),
                    ),
                    Bars(x[: len(expected)], np.array(expected, dtype=float)[:, None], (Part("dim", "dashed"),), 0.4),
                ),
            ),
        ),
        "Rounds by accepted proposals: " + ", ".join(f"{length}: {many:,}" for length, many in enumerate(found)),
        notes,
    )


def times(material: Material) -> ChartSpec:
    """Describes the time of each round: by phase if its phases were timed, otherwise only the total."""
    tally, span = material.tally, material.span
    x, phases = columns(tally.times_by_phase, span)
    _, totals = columns(tally.milliseconds.rows, span)
    spread = column_spreads(tally.milliseconds.rows, span)
    timed = np.isfinite(phases[:, 0])
    half = ALMOST_FULL * span.each
    parts = tuple(Part(f"time_{phase}", PHASE_FILLS[phase], f"{phase} {{:.1f}} ms") for phase in PHASES)
    total = Part("time_unsplit", "top", "{:.1f} ms, phases not timed")
    keys = [Key(f"time_{phase}", PHASE_FILLS[phase], phase) for phase in PHASES]
    return by_round(
        material,
        f"Milliseconds of {amount(tally.rounds, 'round')}, {len(tally.phases):,} of them timed by phase.",
        (("ms, bottom to top:", *keys), ("ms:", *keys), (*keys,)),
        Panel(
            halves(step_above(max(1.0, 1.05 * highest(phases[timed].sum(axis=1), totals[~timed], spread)))),
            (
                Bars(x[~timed], totals[~timed, None], (total,), half, BAR_WIDTH),
                Bars(x[timed], phases[timed], parts, half, BAR_WIDTH),
                Whiskers(x[: len(spread)], spread[:, 0], spread[:, 1], "dim"),
            ),
        ),
    )


def _band(x: Floats, spread: Floats, role: str, read: str = "") -> Area:
    """Returns the spread of each bin as an area; it has no points if columns are single rounds."""
    return Area(x[: len(spread)], spread[:, 0], spread[:, 1], role, read)


def _whole(mean: float | None, form: str) -> tuple[tuple[Level, ...], tuple[Key, ...]]:
    """Returns a line for a figure of the whole answer, and its entry in the legend; both empty if `mean` is None."""
    if mean is None:
        return (), ()
    return (Level(mean, "dim", "dot"),), (Key("dim", "dot", f"answer {mean:{form}}"),)
