"""The finding of a comparison of rules, in words: which rule keeps its text when the drafter changes, and which accepts more.

Every figure in a sentence is the one shown beside it, so they cannot contradict each other. No Qt.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.compare.comparison import LETTERS, Comparison, Kind, drafter_words
from app.look.wording import RULE_TITLES
from engine.types import Rule
from engine.values.wording import amount

MISSING = "Some answers are missing, so nothing can be concluded."


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """The outcome for the text under one rule.

    Attributes:
        columns: indices of the columns with this rule.
        kind: as in `Relation`; the most serious of several.
        words: a sentence.
    """

    rule: Rule
    columns: tuple[int, ...]
    kind: Kind
    words: str


def rule_findings(comparison: Comparison) -> tuple[RuleFinding, ...]:
    """Returns one finding per rule if the comparison contrasts rules across drafters; otherwise none."""
    return tuple(_finding(comparison, rule, columns) for rule, columns in comparison.setup.rules)


def _finding(comparison: Comparison, rule: Rule, columns: tuple[int, ...]) -> RuleFinding:
    relations = [relation for index in columns if (relation := comparison.relation(index)) is not None]
    title = RULE_TITLES[rule]
    order: tuple[Kind, ...] = ("failed", "unexpected", "near-tie", "expected", "waiting", "same")
    kind = min((relation.kind for relation in relations), key=order.index)
    if any(comparison.columns[index].failed for index in columns):
        return RuleFinding(rule, columns, "failed", f"{title}: an answer is missing.")
    if kind == "waiting":
        return RuleFinding(rule, columns, kind, f"{title}: waiting for the first tokens.")
    if kind == "same":
        tokens = min(relation.same for relation in relations)
        ended = all(relation.complete for relation in relations)
        whole = f"Same text with {_both(columns)} drafters"
        words = f"{whole}: {tokens:,} of {amount(tokens, 'token')}." if ended else f"{whole} so far: {amount(tokens, 'token')}."
        return RuleFinding(rule, columns, kind, f"{title}: {words[0].lower()}{words[1:]}")
    first = min(relation.first for relation in relations if relation.first is not None)
    names = " and ".join(LETTERS[index] for index in columns)
    why = " The text depends on the drafter." if kind == "expected" else " " + next(r.words for r in relations if r.kind == kind)
    return RuleFinding(rule, columns, kind, f"{title}: the texts of {names} diverge at token {first + 1:,}.{why}")


def conclusion(comparison: Comparison) -> tuple[str, str]:
    """Returns (which rules kept their text, which rule accepts more) once every answer has ended; empty before, and if an answer
    is missing."""
    findings = rule_findings(comparison)
    if not findings or comparison.running or any(finding.kind in ("waiting", "failed") for finding in findings):
        return "", ""
    return _texts(comparison, findings), _acceptance(comparison)


def conclusion_placeholder(comparison: Comparison) -> str:
    """Returns the placeholder until there is a conclusion."""
    if comparison.running:
        return f"The result appears here when all {len(comparison.columns)} answers are done."
    return MISSING


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
    """Returns how much more Rejection accepts than Gumbel at the positions of the Gumbel columns. Adds a caveat if the measured
    alphas suggest the opposite."""
    rules = dict(comparison.setup.rules)
    if not {"gumbel", "rejection"} <= rules.keys():
        return ""
    parts, doubtful, contrary = [], False, False
    for index in rules["gumbel"]:
        column = comparison.columns[index]
        found = column.answer.tally.comparisons.newest
        if found is None or found.all_copied:
            continue
        more = found.differences["rejection"]
        if "rejection" not in found.significant_rules or more.low is None or more.high is None:
            doubtful = True
            continue
        name = drafter_words(column.setup.drafter, comparison.target)
        parts.append(f"{100 * more.value:.0f} points more with {name} (between {100 * more.low:.0f} and {100 * more.high:.0f})")
        measured = [comparison.columns[other] for other in rules["rejection"]]
        twin = next((other for other in measured if other.setup.drafter == column.setup.drafter), None)
        alphas = [run.answer.tally.summary.alpha for run in (column, twin) if run is not None]
        contrary |= len(alphas) == 2 and None not in alphas and (alphas[1] or 0) < (alphas[0] or 0)
    if not parts:
        return "There are too few rounds to tell which rule accepts more." if doubtful else ""
    words = f"At the same positions, theory predicts that Rejection accepts {' and '.join(parts)}."
    return f"{words} {CONTRARY}" if contrary else words


CONTRARY = "The alphas below were measured on different texts, where chance alone moves them by more than that."
"""Explains why two measured shares may suggest the opposite."""


def _both(columns: tuple[int, ...]) -> str:
    return "both" if len(columns) == 2 else f"all {len(columns)}"
