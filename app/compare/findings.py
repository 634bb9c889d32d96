"""The findings of a comparison of rules, in figures and words: which rule keeps its text when the drafter changes, and which
accepts more. No Qt.

Acceptance is compared at the same positions, as a paired difference: shares measured on different texts differ more by chance.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.compare.comparison import LETTERS, Comparison, Kind, Setup
from app.look.wording import RULE_TITLES
from engine.lens.rule_comparison import BLOCK, MIN_ROUNDS, Interval, PairedAcceptance, paired_acceptance
from engine.types import EXPECTED_RULES, INVARIANT_RULES, ExpectedRule, Rule
from engine.values.wording import amount

MISSING = "Some answers are missing, so nothing can be concluded."
CONTRARY = "The alphas below were measured on different texts, where chance alone moves them by more than that."
"""Explains why two measured shares may suggest the opposite."""


@dataclass(frozen=True, slots=True)
class RuleFigure:
    """A figure about a rule, and the caption below it."""

    value: str
    caption: str


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """The outcome under one rule.

    Attributes:
        columns: indices of the columns with this rule.
        kind: as in `Relation`; the most serious of several.
        words: a sentence on the text.
        figures: the text with another drafter, the acceptance and the speed.
    """

    rule: Rule
    columns: tuple[int, ...]
    kind: Kind
    words: str
    figures: tuple[RuleFigure, ...]


def rule_findings(comparison: Comparison) -> tuple[RuleFinding, ...]:
    """Returns one finding per rule if the comparison contrasts rules across drafters; otherwise none."""
    paired = paired_of(comparison)
    return tuple(_finding(comparison, rule, columns, paired) for rule, columns in comparison.setup.rules)


def _finding(comparison: Comparison, rule: Rule, columns: tuple[int, ...], paired: PairedAcceptance | None) -> RuleFinding:
    kind, text, words = _text(comparison, columns)
    figures = (text, acceptance_figure(rule, paired), _speed(comparison, columns))
    return RuleFinding(rule, columns, kind, f"{RULE_TITLES[rule]}: {words}", figures)


def _text(comparison: Comparison, columns: tuple[int, ...]) -> tuple[Kind, RuleFigure, str]:
    """Returns what became of the text when the drafter changed: its kind, a figure and a sentence."""
    relations = [relation for index in columns if (relation := comparison.relation(index)) is not None]
    order: tuple[Kind, ...] = ("failed", "unexpected", "near-tie", "expected", "waiting", "same")
    kind = min((relation.kind for relation in relations), key=order.index)
    if any(comparison.columns[index].failed for index in columns):
        return "failed", RuleFigure("–", "an answer is missing"), "an answer is missing."
    if kind == "waiting":
        return kind, RuleFigure("–", "text with another drafter"), "waiting for the first tokens."
    if kind == "same":
        tokens = min(relation.same for relation in relations)
        if all(relation.complete for relation in relations):
            counted = f"{tokens:,} of {amount(tokens, 'token')}"
            figure = RuleFigure("Same text", f"with another drafter: {counted}")
            return kind, figure, f"same text with {_both(columns)} drafters: {counted}."
        counted = amount(tokens, "token")
        figure = RuleFigure("Same so far", f"text with another drafter: {counted}")
        return kind, figure, f"same text with {_both(columns)} drafters so far: {counted}."
    first = min(relation.first for relation in relations if relation.first is not None)
    names = " and ".join(LETTERS[index] for index in columns)
    why = next(relation.words for relation in relations if relation.kind == kind)
    if kind == "expected":
        why = f"Same probabilities, {DICE}."
    named = {"unexpected": ", which is an error", "near-tie": ", a near-tie"}.get(kind, "")
    figure = RuleFigure("Different text", f"with another drafter, from token {first + 1:,} on{named}")
    return kind, figure, f"the texts of {names} diverge at token {first + 1:,}. {why}"


DICE = "different dice"


def paired_of(comparison: Comparison) -> PairedAcceptance | None:
    """Returns the rules' expected acceptance at the same positions: those that any column judged. None if only one rule is
    compared, or none that has an expectation, and before the first position."""
    rules = [rule for rule in comparison.setup.contrasted if rule in EXPECTED_RULES]
    if not rules:
        return None
    reference: ExpectedRule = next((rule for rule in EXPECTED_RULES if rule == "gumbel" and rule in rules), rules[0])
    return paired_acceptance((column.answer.tally.comparisons for column in comparison.columns), reference)


def acceptance_figure(rule: Rule, paired: PairedAcceptance | None) -> RuleFigure:
    """Returns the expected acceptance of a rule and, for all but the reference, its difference from that with its interval."""
    if rule not in EXPECTED_RULES:
        return RuleFigure("–", "accepted: judges jointly, no expectation")
    if paired is None:
        return RuleFigure("–", "accepted of the same proposals")
    if paired.has_too_few_blocks:
        return RuleFigure("–", f"accepted: collecting data, {paired.blocks * BLOCK} of {MIN_ROUNDS * BLOCK} tokens")
    value = f"{paired.expected[rule]:.1%} accepted"
    gap = paired.differences.get(rule)
    if gap is None:
        return RuleFigure(value, f"expected of {amount(paired.positions, 'proposal')}")
    return RuleFigure(value, f"of the same proposals: {_points(gap)}")


def _points(gap: Interval) -> str:
    """Returns a difference with its 95% interval: "+2.6 points (95%: 1.9 to 3.3)"."""
    words = f"{100 * gap.value:+.1f} points"
    return words if gap.low is None or gap.high is None else f"{words} (95%: {100 * gap.low:.1f} to {100 * gap.high:.1f})"


def _speed(comparison: Comparison, columns: tuple[int, ...]) -> RuleFigure:
    """Returns the throughput of the answers under a rule together."""
    answers = [comparison.columns[index].answer for index in columns]
    pairs = [(answer.tally.summary.emitted, speed) for answer in answers if (speed := answer.tokens_per_second)]
    seconds = sum(tokens / speed for tokens, speed in pairs)
    value = f"{sum(tokens for tokens, _ in pairs) / seconds:.1f} tokens/s" if seconds else "–"
    return RuleFigure(value, f"speed with {_both(columns)} drafters")


def drawing_words(setup: Setup) -> str:
    """Returns a sentence on how the two contrasted rules draw; empty if none are contrasted."""
    rules = [rule for rule, _ in setup.rules]
    if not rules:
        return ""
    if setup.columns[0].temperature == 0:
        return "At temperature 0 nothing is drawn: both rules give the target's most likely text, whichever drafter proposes."
    both = "Neither rule changes the quality of the answers: both draw from the target's distribution"
    fixed = [RULE_TITLES[rule] for rule in rules if rule in INVARIANT_RULES]
    free = [RULE_TITLES[rule] for rule in rules if rule not in INVARIANT_RULES]
    if not free:
        return f"{both}, and both fix the draw, so that the drafter cannot change the text."
    if not fixed:
        return f"{both}; neither fixes the draw, so another drafter means other dice and another text."
    return (
        f"{both}; only {fixed[0]} fixes the draw, so that the drafter cannot change the text. "
        f"Under {free[0]} another drafter means other dice."
    )


def conclusion(comparison: Comparison) -> tuple[str, str]:
    """Returns (which rules kept their text, which rule accepts more) once every answer has ended; empty before, and if an answer
    is missing."""
    findings = rule_findings(comparison)
    if not findings or comparison.running or any(finding.kind in ("waiting", "failed") for finding in findings):
        return "", ""
    return _texts(comparison, findings), _acceptance(comparison)


def tree_finding(comparison: Comparison) -> tuple[str, str]:
    """Returns what trees gained over chains, as a headline and an explanation; empty before both answers have a round, and if the
    comparison is about something else."""
    if comparison.setup.trees is None:
        return "", ""
    chain, tree = (comparison.columns[index] for index in comparison.setup.trees)
    summaries = chain.answer.tally.summary, tree.answer.tally.summary
    if not all(summary.rounds for summary in summaries):
        return "", ""
    plain, gained = (summary.tau for summary in summaries)
    assert plain is not None and gained is not None
    change = f"{abs(gained / plain - 1):.0%} {'more' if gained >= plain else 'less'}"
    text = comparison.relation(1)
    same = text is not None and text.kind == "same"
    so_far = " so far" if comparison.running else ""
    headline = (
        f"The tree gave {gained:.2f} tokens per pass, the chain {plain:.2f}: {change}{so_far}{', for the same text' * same}."
    )
    if not any(round_.is_tree for round_ in tree.answer.rounds):
        return headline, "No tree was drafted: this drafter proposes chains only, or they did not pay."
    words = (
        f"At {amount(tree.siblings, 'position')} the target took a choice of the tree other than the drafter's first. "
        f"{amount(summaries[1].rounds, 'pass', 'passes')} of the target instead of {summaries[0].rounds:,}."
    )
    speeds = [summary.throughput for summary in summaries]
    if not comparison.running and speeds[0] and speeds[1]:
        words += f" A pass over a tree takes longer; the answer came {speeds[1] / speeds[0]:.2f} times as fast."
    return headline, words


def agreement_words(comparison: Comparison) -> str:
    """Returns the placeholder of a difference while there is none; empty if no texts are compared."""
    relations = [relation for index in range(len(comparison.columns)) if (relation := comparison.relation(index)) is not None]
    if not relations:
        return ""
    if comparison.running:
        return "No difference so far."
    if comparison.lacks_answers or any(relation.kind == "waiting" for relation in relations):
        return MISSING
    lengths = {len(column.tokens) for column in comparison.columns}
    return "The texts are the same." if len(lengths) == 1 else "The texts are the same as far as they go."


def _texts(comparison: Comparison, findings: tuple[RuleFinding, ...]) -> str:
    """Returns which rules kept their text, and whether they had to. Empty if texts differ that must not; the columns report
    that."""
    if any(finding.kind not in ("same", "expected") for finding in findings):
        return ""
    bound = [f for f in findings if all(comparison.columns[index].setup.invariant for index in f.columns)]
    kept = " and ".join(RULE_TITLES[f.rule] for f in findings if f.kind == "same" and f in bound)
    chance = " and ".join(RULE_TITLES[f.rule] for f in findings if f.kind == "same" and f not in bound)
    left = " and ".join(RULE_TITLES[f.rule] for f in findings if f.kind == "expected")
    stopped = any(column.answer.finish == "cancelled" for column in comparison.columns)
    text = "it" if kept else "the text when the drafter changed"
    parts = [f"{kept} kept the text when the drafter changed"] if kept else []
    if chance:
        parts.append(f"{chance} kept {text} until the answers were stopped" if stopped else f"{chance} happened to keep {text}")
    if left:
        parts.append(f"{left} did not" if kept or chance else f"{left} changed the text with the drafter")
    return f"{'; '.join(parts)}."


def _acceptance(comparison: Comparison) -> str:
    """Returns how much more Rejection is expected to accept than Gumbel at the same positions."""
    paired = paired_of(comparison)
    if paired is None or paired.reference != "gumbel" or "rejection" not in dict(comparison.setup.rules):
        return ""
    gap = paired.differences["rejection"]
    if paired.has_too_few_blocks or gap.covers_zero or gap.low is None or gap.high is None:
        return "There are too few tokens to tell which rule accepts more."
    more, ends = ("more", (gap.low, gap.high)) if gap.value > 0 else ("less", (-gap.high, -gap.low))
    return (
        f"At the same positions, Rejection is expected to accept {100 * abs(gap.value):.1f} points {more} than Gumbel "
        f"(95% interval {100 * ends[0]:.1f} to {100 * ends[1]:.1f})."
    )


def contrary_words(comparison: Comparison) -> str:
    """Returns a caveat for exports, which show each answer's alpha, if those suggest the opposite of the paired difference."""
    rules = dict(comparison.setup.rules)
    paired = paired_of(comparison)
    if paired is None or not {"gumbel", "rejection"} <= rules.keys() or "rejection" not in paired.differences:
        return ""
    more = paired.differences["rejection"].value
    for index in rules["gumbel"]:
        column = comparison.columns[index]
        twins = (comparison.columns[other] for other in rules["rejection"])
        twin = next((other for other in twins if other.setup.drafter == column.setup.drafter), None)
        alphas = [run.answer.tally.summary.alpha for run in (twin, column) if run is not None]
        if len(alphas) == 2 and alphas[0] is not None and alphas[1] is not None and (alphas[0] - alphas[1]) * more < 0:
            return CONTRARY
    return ""


def _both(columns: tuple[int, ...]) -> str:
    return "both" if len(columns) == 2 else f"all {len(columns)}"
