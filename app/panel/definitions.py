"""Defines each figure and computes its lines for an answer: formula, numerator, denominator and explanation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from app.look.wording import DEFINITIONS, RULE_TITLES, number
from app.session.plain_baseline import Baseline
from app.session.session import Answer, is_plain
from engine.lens.chart_kinds import ALPHA_WINDOW, CHARTS
from engine.lens.outlook_words import explanation
from engine.lens.shared_wording import latest_titles, latest_words
from engine.rounds.metrics import Summary
from engine.types import PHASES
from engine.values.wording import amount, seconds

NAMES = {
    "speed_up": "Speed-up",
    "throughput": "Throughput",
    "first_token": "First token",
    "alpha": "Acceptance rate",
    "tau": "Tokens per pass",
    "draft_yield": "Draft yield",
}
"""The figures of an answer."""
NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class Definition:
    """The explanation of a figure or a chart.

    Attributes:
        formula: how it is computed; empty if there is no formula.
        numbers: the same with the numbers of this answer, one line each.
        explanation: its meaning, and its limits.
    """

    title: str
    formula: str
    numbers: tuple[str, ...]
    explanation: str


def define(key: str, answer: Answer | None, baseline: Baseline | None = None) -> Definition:
    """Returns the definition of a figure or a chart.

    Args:
        key: a key of `FORMULAS`, or of a chart.
        answer: provides the numbers; None, or one without rounds, has none.
        baseline: the measured plain run that the speed-up is relative to.
    """
    chart = next((kind for kind in CHARTS.values() if kind.key == key), None)
    if chart is not None:
        title, formula, meaning, lines_of = chart.title, chart.formula, chart.definition, CHART_LINES.get(chart.name)
    else:
        title, formula, lines_of = FORMULAS[key]
        is_joint = key == "tau" and answer is not None and answer.tally.rounds > 0 and answer.tally.jointly_judged
        meaning = DEFINITIONS["tau_block" if is_joint else key]
    if answer is None or not answer.tally.rounds:
        return Definition(title, formula, ("Nothing has been decoded yet.",), meaning)
    if key == "tau" and (reason := explanation(answer.rounds[-1])):
        meaning += f" Gamma auto in the latest round: {reason[0].lower()}{reason[1:]}"
    lines = () if lines_of is None else tuple(filter(None, lines_of(answer, baseline))) or ("Nothing was proposed.",)
    return Definition(title, formula, lines, meaning)


Figure = tuple[str, str]
"""Value and unit."""


def figures_of(answer: Answer | None, baseline: Baseline | None) -> dict[str, tuple[Figure, ...]]:
    """Returns the values of each figure in `NAMES`; empty before the first round. If rule or drafter changed, figures that depend
    on them have a value for each of the two latest stretches, the earlier one first."""
    if answer is None or not answer.tally.rounds:
        return {}
    speed = answer.tokens_per_second
    measured = baseline is not None and baseline.fits and speed is not None
    first, _, unit = seconds(answer.seconds_to_first_token).rpartition(" ")
    latest = latest_titles(answer.tally.stretches)
    parts = [_stretch_figures(stretch.summary, title) for title, stretch in latest] or [_stretch_figures(answer.tally.summary)]
    figures: dict[str, tuple[Figure, ...]] = {key: tuple(part[key] for part in parts) for key in parts[0]}
    if not latest:
        figures["throughput"] = ((number(speed, 1), "tokens/s"),)
    figures["speed_up"] = (
        (number(speed / baseline.throughput), "× plain")
        if baseline is not None and speed is not None and measured
        else ("–", "" if is_plain(answer) else NOT_MEASURED),
    )
    figures["first_token"] = ((first or unit, unit if first else ""),)
    return {key: figures[key] for key in NAMES}


def _stretch_figures(summary: Summary, title: str = "") -> dict[str, Figure]:
    """Returns the figures that depend on rule and drafter; a `title` of the stretch replaces their units."""
    spread = ""
    if summary.alpha_low is not None and summary.alpha_high is not None:
        spread = f"± {50 * (summary.alpha_high - summary.alpha_low):.0f} "
    figures = {
        "throughput": (number(summary.throughput, 1), "tokens/s"),
        "alpha": (_percent(summary.alpha), f"{spread}(alpha)"),
        "tau": (number(summary.tau), "(tau)"),
        "draft_yield": (_percent(summary.draft_yield), f"of {summary.proposals:,}" if summary.proposals else ""),
    }
    return {key: (value, title or unit) for key, (value, unit) in figures.items()}


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


AnswerLines = Callable[[Answer, Baseline | None], tuple[str, ...]]


def _figures(answer: Answer, baseline: Baseline | None) -> tuple[str, ...]:
    figures_by_key = figures_of(answer, baseline).items()
    lines = [
        f"{NAMES[key]} {' | '.join(', '.join(filter(None, figure)) for figure in figures)}" for key, figures in figures_by_key
    ]
    return latest_words(answer.tally.stretches), *lines


def _throughput(answer: Answer, baseline: Baseline | None) -> tuple[str, ...]:
    spent = answer.result.seconds if answer.result is not None else answer.tally.summary.seconds
    return (f"{amount(answer.tally.summary.emitted, 'token')} / {spent:.2f} s = {number(answer.tokens_per_second, 1)} tokens/s",)


def _speed_up(answer: Answer, baseline: Baseline | None) -> tuple[str, ...]:
    speed = answer.tokens_per_second
    if baseline is None or speed is None:
        return ("No plain run of this prompt with these settings has been measured yet.",)
    if not baseline.fits:
        return (baseline_text(baseline),)
    return (f"{speed:.1f} / {baseline.throughput:.1f} tokens/s = {speed / baseline.throughput:.2f}", baseline_text(baseline))


def baseline_text(baseline: Baseline) -> str:
    """Describes the plain run that provides the plain throughput."""
    prompt = "this prompt" if baseline.fits else "another prompt or with other settings, so no speed-up is shown"
    return f"Plain: {baseline.throughput:.1f} tokens/s, measured over {amount(baseline.tokens, 'token')} on {prompt}."


def _for_each_stretch(lines: Callable[[Summary], tuple[str, ...]], answer: Answer, baseline: Baseline | None) -> tuple[str, ...]:
    """Returns the lines for the whole answer or, if rule or drafter changed, for each of the two latest stretches."""
    latest = latest_titles(answer.tally.stretches)
    if not latest:
        return lines(answer.tally.summary)
    stretch_lines = (f"{title}: {line}" for title, stretch in latest for line in lines(stretch.summary) if line)
    return latest_words(answer.tally.stretches), *stretch_lines


def _alpha(summary: Summary) -> tuple[str, ...]:
    if summary.alpha is None or summary.alpha_low is None or summary.alpha_high is None:
        return ("Nothing was judged.",)
    return (
        f"{summary.accepted:,} / ({summary.accepted:,} + {summary.rejected:,}) = {summary.alpha:.3f}",
        f"95% interval {summary.alpha_low:.3f} to {summary.alpha_high:.3f}",
        f"{amount(summary.unjudged, 'unjudged proposal')} {'is' if summary.unjudged == 1 else 'are'} left out",
    )


def _latest_alpha(answer: Answer, baseline: Baseline | None) -> tuple[str, ...]:
    value, low, high = (float(part) for part in answer.tally.alphas[-1])
    if value != value:
        return (f"Nothing was judged in the last {ALPHA_WINDOW} rounds.",)
    return (f"Latest: {value:.3f}, 95% interval {low:.3f} to {high:.3f}",)


def _tau(summary: Summary) -> tuple[str, ...]:
    expected = "" if summary.predicted_tau is None else f"expected: {summary.predicted_tau:.2f}"
    return f"{amount(summary.emitted, 'token')} / {amount(summary.rounds, 'round')} = {number(summary.tau)}", expected


def _draft_yield(summary: Summary) -> tuple[str, ...]:
    return (f"{summary.accepted:,} / {summary.proposals:,} = {number(summary.draft_yield, 3)}",)


def _proposals(answer: Answer, baseline: Baseline | None) -> tuple[str, ...]:
    summary = answer.tally.summary
    parts = f"{summary.accepted:,} accepted + {summary.rejected:,} rejected + {summary.unjudged:,} unjudged"
    return f"{parts} = {amount(summary.proposals, 'proposal')}", f"in {amount(summary.rounds, 'round')}"


def _latest_speed(answer: Answer, baseline: Baseline | None) -> tuple[str, ...]:
    newest = float(answer.tally.speeds[-1])
    latest = "" if newest != newest else f"Latest: {newest:.1f} tokens/s"
    return latest, *_throughput(answer, baseline), "" if baseline is None else baseline_text(baseline)


def _positions(answer: Answer, baseline: Baseline | None) -> tuple[str, ...]:
    positions = answer.tally.summary.by_position[:6]
    return tuple(
        f"{each.position}: {each.accepted:,} accepted of {each.accepted + each.rejected:,} judged, {each.proposed:,} drafted"
        for each in positions
    )


def _choices(answer: Answer, baseline: Baseline | None) -> tuple[str, ...]:
    return tuple(
        f"{each.rank + 1}: accepted at {each.accepted:,} of {amount(each.offered, 'position')}; up to it {number(each.coverage)}"
        for each in answer.tally.summary.by_rank
    )


def _lengths(answer: Answer, baseline: Baseline | None) -> tuple[str, ...]:
    tally = answer.tally
    counted = ", ".join(f"{length}: {tally.lengths[length]:,}" for length in sorted(tally.lengths)[:8])
    return (f"Rounds by accepted proposals: {counted}" if counted else "",)


def _times(answer: Answer, baseline: Baseline | None) -> tuple[str, ...]:
    shares = answer.tally.summary.shares
    if shares is None:
        return ("No round has been timed by phase yet.",)
    parts = ", ".join(f"{name} {getattr(shares, name):.0%}" for name in PHASES)
    communication = shares.communication
    return (
        f"{parts}, over {shares.rounds:,} of {amount(answer.tally.rounds, 'round')}",
        "" if communication is None else f"{communication:.0%} of the time, in verify, was communication between machines",
    )


def _first_token(answer: Answer, baseline: Baseline | None) -> tuple[str, ...]:
    return (f"Here: {seconds(answer.seconds_to_first_token)}",)


def _invariant(answer: Answer, baseline: Baseline | None) -> tuple[str, ...]:
    rules = " and ".join(RULE_TITLES[rule] for rule in answer.rules or [answer.options.rule])
    if not answer.invariant:
        return (f"Does not apply here: the rule was {rules}.",)
    return (f"Applies here: {rules}, seed {answer.options.seed}",)


def _context(answer: Answer, baseline: Baseline | None) -> tuple[str, ...]:
    return (f"Here: {amount(answer.cache_length, 'token')}",)


FORMULAS: dict[str, tuple[str, str, AnswerLines]] = {
    "answer": ("Figures of this answer", "", _figures),
    "throughput": ("Throughput", "emitted tokens / seconds of decoding", _throughput),
    "speed_up": ("Speed-up", "throughput / throughput of a plain run", _speed_up),
    "alpha": ("Acceptance rate (alpha)", "accepted / (accepted + rejected)", partial(_for_each_stretch, _alpha)),
    "tau": ("Tokens per pass (tau)", "emitted tokens / rounds", partial(_for_each_stretch, _tau)),
    "draft_yield": ("Draft yield", "accepted / proposals", partial(_for_each_stretch, _draft_yield)),
    "first_token": ("First token", "", _first_token),
    "invariant": ("Same with any drafter", "", _invariant),
    "context": ("Context", "", _context),
}
"""Title, formula, and the function that returns the lines for an answer."""
CHART_LINES: dict[str, AnswerLines] = {
    "proposals": _proposals,
    "alpha": _latest_alpha,
    "throughput": _latest_speed,
    "positions": _positions,
    "choices": _choices,
    "tau": partial(_for_each_stretch, _tau),
    "lengths": _lengths,
    "times": _times,
}
"""The function that returns a chart's lines for an answer; the chart kind provides the rest."""
