"""Results of judging an answer again, in sentences; used by the command and the window."""

from __future__ import annotations

from engine.lens.pieces import quoted, visible_candidate
from engine.lens.rejudge import Rejudge, TokenVerdict
from engine.lens.shared_wording import RULE_TITLES
from engine.types import INVARIANT_RULES, Candidate, Draw, Round, Rule
from engine.values.wording import amount, listed, noun


def summary(judged: Rejudge) -> list[str]:
    """Returns the findings, the most important first; if there are none, one sentence that says why."""
    return [judged.failure_reason] if judged.failure_reason else [*_changes(judged), *_kept(judged), *_whole_answer(judged)]


def limits(judged: Rejudge) -> list[str]:
    """Returns what remains unknown, and why."""
    sentences = []
    if judged.trees and judged.counts.rounds:
        sentences.append(
            f"{amount(judged.trees, 'round')} with several choices for a position {noun(judged.trees, 'is', 'are')} left out."
        )
    if judged.counts.changes and _recorded(judged) != _title(judged):
        keeps_text = judged.rule in INVARIANT_RULES and judged.rules <= set(INVARIANT_RULES)
        subject = "the drafts are" if keeps_text else "the text is"
        sentences.append(f"After the first change in a round, {subject} unknown.")
    if judged.rule != "rejection":
        return sentences
    if "gumbel" in judged.rules:
        sentences.append("Rejection would have drawn proposals of its own; here it judges those that were made.")
    sentences.append(
        "The token in place of one that Rejection rejects is not known: it is drawn from the residual, which takes all of p "
        "and q."
    )
    return sentences


def change_words(verdict: TokenVerdict, rule: Rule, round_: Round) -> str:
    """Returns how the rule departs from the record at a proposal, as one phrase."""
    title, decided = RULE_TITLES[rule], "accepted" if verdict.accepted else "rejected"
    if verdict.change == "proposes another":
        other = token_name(verdict.proposed, round_, verdict.spot.at)
        return f"{title} would have proposed {other} and {decided} it"
    return f"{verdict.status}; {title} would have {decided} it"


def token_name(token: int, round_: Round, at: int) -> str:
    """Returns a token in quotation marks if the round has its text at this position, else its id."""
    proposal = round_.proposals[at]
    if token == proposal.id:
        return quoted(proposal)
    if proposal.status != "unjudged" and at < len(round_.emitted) and round_.emitted[at].id == token:
        return quoted(round_.emitted[at])
    draws = (proposal.target_draw, proposal.coupled_draw, proposal.independent_draw)
    candidates: list[Candidate | Draw] = [*proposal.draft_top, *proposal.target_top, *filter(None, draws)]
    match = next((entry for entry in candidates if entry.id == token), None)
    return f"token {token}" if match is None else f"“{visible_candidate(match)}”"


def _changes(judged: Rejudge) -> list[str]:
    counts, rule, recorded = judged.counts, _title(judged), _recorded(judged)
    if recorded == rule:
        return [] if _is_shorter(judged) else [f"This answer was judged by {rule}, so nothing changes."]
    positions = amount(counts.positions, "judged position")
    if not counts.changes:
        as_recorded = "the same" if recorded == _IN_FORCE else f"as {recorded} did"
        return [f"{rule} would have decided {as_recorded} at {'all ' if counts.positions > 1 else 'the '}{positions}."]
    parts = []
    if counts.others:
        acceptance = f"accepting {counts.others_kept or 'none'} of them"
        if counts.others == 1:
            acceptance = "accepting it" if counts.others_kept else "rejecting it"
        parts.append(f"proposed another token at {counts.others:,} ({acceptance})")
    if counts.accepts:
        parts.append(f"accepted {amount(counts.accepts, 'rejected token')}")
    if counts.rejects:
        parts.append(f"rejected {amount(counts.rejects, 'accepted token')}")
    return [f"{rule} would have decided otherwise at {counts.changes:,} of {positions}.", f"It would have {listed(parts)}."]


def _kept(judged: Rejudge) -> list[str]:
    counts, rule, recorded = judged.counts, _title(judged), _recorded(judged)
    if recorded == rule:
        sentence = f"With at most {amount(judged.gamma or 0, 'proposal')} a round, {rule} would have accepted {counts.kept:,}"
        return [f"{sentence} instead of {counts.accepted:,} in these rounds."] if _is_shorter(judged) else []
    if not counts.complete:
        return []
    limit_note = f" (of at most {judged.gamma} a round)" if _is_shorter(judged) else ""
    scope = f"In all {amount(counts.rounds, 'round')} with proposals"
    if counts.complete < counts.rounds:
        scope = f"In the {counts.complete:,} of {amount(counts.rounds, 'round')} with proposals where the number is known,"
    kept, is_equal = amount(counts.kept, "proposal"), counts.kept == counts.was_kept
    comparison = f"{kept}, as many as" if is_equal else f"{kept} instead of the {counts.was_kept:,} that"
    return [f"{scope} it would have accepted {comparison} were accepted{limit_note}."]


def _whole_answer(judged: Rejudge) -> list[str]:
    """Returns what is known about the rounds of a whole answer, if rule or gamma differ from the recorded ones."""
    unchanged = _recorded(judged) == _title(judged) and not _is_shorter(judged)
    if unchanged or judged.rule not in INVARIANT_RULES:
        return []
    rule = _title(judged)
    settings = rule if judged.gamma is None else f"{rule} with gamma {judged.gamma}"
    recut = judged.recut
    if recut is None:
        return [f"How many rounds {settings} would have taken is not known. {judged.recut_reason}"]
    if recut.covered == recut.tokens:
        return [
            f"With the same seed {settings} gives the same text, in {amount(len(recut.rounds), 'round')}; all are known exactly."
        ]
    return [
        f"With the same seed {settings} gives the same text. {amount(len(recut.rounds), 'of its rounds', 'of its rounds')} "
        f"{noun(len(recut.rounds), 'is', 'are')} known exactly, with {recut.covered:,} of {amount(recut.tokens, 'token')}; "
        "the others depend on drafts that were never made."
    ]


def _is_shorter(judged: Rejudge) -> bool:
    return judged.gamma is not None and judged.gamma < judged.max_proposals


_IN_FORCE = "the rules in force"


def _title(judged: Rejudge) -> str:
    return RULE_TITLES[judged.rule]


def _recorded(judged: Rejudge) -> str:
    return RULE_TITLES[next(iter(judged.rules))] if len(judged.rules) == 1 else _IN_FORCE
