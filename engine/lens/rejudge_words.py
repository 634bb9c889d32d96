"""What judging an answer again found, in sentences: the command and the window say the same."""

from __future__ import annotations

from engine.lens.pieces import visible, visible_candidate
from engine.lens.rejudge import Rejudge, TokenVerdict
from engine.types import INVARIANT_RULES, Candidate, Draw, Round


def summary(judged: Rejudge) -> list[str]:
    """What was found, the most important first; one sentence on why nothing was, where that is so."""
    return [judged.trouble] if judged.trouble else [*_changes(judged), *_kept(judged), *_whole_answer(judged)]


def limits(judged: Rejudge) -> list[str]:
    """What is not told, and why."""
    if judged.rule != "rejection":
        return []
    said = []
    if "gumbel" in judged.rules:
        said.append("Rejection would have drawn proposals of its own; here it judges those that were made.")
    said.append(
        "What would have stood in place of a token that rejection rejects is not known: it is drawn from the residual, which "
        "takes all of p and q."
    )
    return said


def change_words(verdict: TokenVerdict, rule: str, round_: Round) -> str:
    """How the rule departs from the record at a proposal, as one phrase."""
    if verdict.change == "proposes another":
        other = token_name(verdict.proposed, round_, verdict.spot.at)
        return f"{rule} would have proposed {other} and {'kept' if verdict.accepted else 'rejected'} it"
    return f"{verdict.status}; {rule} would have {'kept' if verdict.accepted else 'rejected'} it"


def token_name(token: int, round_: Round, at: int) -> str:
    """A token in quotation marks where the round tells its text at this position, else its id."""
    proposal = round_.proposals[at]
    if token == proposal.id:
        return f"“{visible(proposal.text, proposal.bytes)}”"
    if proposal.status != "unjudged" and at < len(round_.emitted) and round_.emitted[at].id == token:
        return f"“{visible(round_.emitted[at].text, round_.emitted[at].bytes)}”"
    draws = (proposal.target_draw, proposal.coupled_draw, proposal.independent_draw)
    named: list[Candidate | Draw] = [*proposal.draft_top, *proposal.target_top, *(draw for draw in draws if draw is not None)]
    known = next((entry for entry in named if entry.id == token), None)
    return f"token {token}" if known is None else f"“{visible_candidate(known)}”"


def _changes(judged: Rejudge) -> list[str]:
    counts, rule, recorded = judged.counts, judged.rule, _recorded(judged)
    if recorded == rule:
        return [] if _is_shorter(judged) else [f"This answer was judged by {rule}, so nothing changes."]
    where = f"At {'' if counts.positions == 1 else 'these '}{_many(counts.positions, 'position')}"
    if not counts.changes:
        return [f"{where} {rule} would have decided as {recorded} did."]
    parts = []
    if counts.others:
        which = f"keeping {counts.others_kept or 'none'} of them"
        if counts.others == 1:
            which = "keeping it" if counts.others_kept else "rejecting it"
        parts.append(f"proposed another token at {counts.others:,}, {which}")
    if counts.accepts:
        parts.append(f"kept {_many(counts.accepts, 'token')} that {recorded} rejected")
    if counts.rejects:
        parts.append(f"rejected {counts.rejects:,} that {'it' if counts.accepts else recorded} kept")
    said = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    text_stays = rule in INVARIANT_RULES and judged.rules <= set(INVARIANT_RULES)
    unknown = "drafts behind the first change of a round are" if text_stays else "text behind the first change of a round is"
    return [f"{where} {rule} would have {said}; the {unknown} not known."]


def _kept(judged: Rejudge) -> list[str]:
    counts, rule, recorded = judged.counts, judged.rule, _recorded(judged)
    if recorded == rule:
        few = f"With at most {_many(judged.gamma or 0, 'proposal')} a round, {rule} would have kept {counts.kept:,}"
        return [f"{few} instead of {counts.accepted:,} in these rounds."] if _is_shorter(judged) else []
    if not counts.complete:
        return []
    cut = f" (of at most {judged.gamma} a round)" if _is_shorter(judged) else ""
    where = f"In all {_many(counts.rounds, 'round')}"
    if counts.complete < counts.rounds:
        where = f"In {counts.complete:,} of {_many(counts.rounds, 'round')} the number is known:"
    return [f"{where} {rule} would have kept {_many(counts.kept, 'proposal')}{cut}, where {recorded} kept {counts.was_kept:,}."]


def _whole_answer(judged: Rejudge) -> list[str]:
    """Of the rounds of a whole answer, where they are another answer's than the recorded one."""
    same = _recorded(judged) == judged.rule and not _is_shorter(judged)
    if same or judged.rule not in INVARIANT_RULES:
        return []
    asked = judged.rule if judged.gamma is None else f"{judged.rule} with gamma {judged.gamma}"
    recut = judged.recut
    if recut is None:
        return [f"How {asked} would have gone on from round to round does not follow: {_lower(judged.recut_reason)}"]
    if recut.covered == recut.tokens:
        return [f"With the same seed {asked} gives the same text, in {_many(len(recut.rounds), 'round')}; all are known exactly."]
    return [
        f"With the same seed {asked} gives the same text. {_many(len(recut.rounds), 'of its rounds', 'of its rounds')} "
        f"{'is' if len(recut.rounds) == 1 else 'are'} known exactly, with {recut.covered:,} of {_many(recut.tokens, 'token')}; "
        "the others depend on drafts that were never made."
    ]


def _is_shorter(judged: Rejudge) -> bool:
    return judged.gamma is not None and judged.gamma < judged.longest


def _recorded(judged: Rejudge) -> str:
    return next(iter(judged.rules)) if len(judged.rules) == 1 else "the rule in force"


def _many(count: int, noun: str, plural: str = "") -> str:
    return f"{count:,} {_noun(count, noun, plural)}"


def _noun(count: int, noun: str, plural: str = "") -> str:
    return noun if count == 1 else plural or f"{noun}s"


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
