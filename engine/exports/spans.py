"""Everything that is known of a token, in lines: what the report tells when it is pointed at."""

from __future__ import annotations

from collections.abc import Sequence

from engine.pieces import Spot, visible, visible_candidate
from engine.types import Candidate, Emitted, Proposal, Round


def details(round: Round, spot: Spot) -> str:
    """Everything that is known of a token, in lines."""
    if spot.own:
        return emitted_details(round, round.emitted[spot.at])
    return proposal_details(round, spot.at, round.emitted[spot.at] if round.proposals[spot.at].status == "accepted" else None)


def proposal_details(round: Round, place: int, emitted: Emitted | None = None) -> str:
    """Everything that is known of a proposal, in lines."""
    proposal = round.proposals[place]
    lines = [f"{_quoted(proposal)}  {proposal.status}", f"round {round.index + 1}, place {place + 1}, {round.rule}"]
    if proposal.status == "unjudged":
        lines.append("behind a rejected proposal, so never judged")
    chances = []
    if proposal.p is not None:
        chances.append(f"target p {proposal.p:.3f}")
    if proposal.q is not None:
        chances.append(f"draft q {proposal.q:.3f}")
    if proposal.p is not None and proposal.q:
        chances.append(f"p/q {proposal.p / proposal.q:.3g}")
    lines.append("   ".join(chances))
    if proposal.copied:
        lines.append("copied by the drafter, not drawn")
    if proposal.acceptance is not None:
        coin = f", coin {proposal.coin:.3f}" if proposal.coin is not None else ""
        lines.append(f"chance to accept {proposal.acceptance:.3f}{coin}")
    if proposal.draft_argmax is not None and proposal.target_argmax is not None:
        same = "the same token" if proposal.draft_argmax == proposal.target_argmax else "another token"
        drawn = next((entry for entry in proposal.target_top if entry.id == proposal.target_argmax), None)
        named = "" if drawn is None or same == "the same token" else f", “{visible_candidate(drawn)}”"
        lines.append(f"the target drew {same}{named}")
    if place < len(round.expected):
        expected = round.expected[place]
        lines.append(
            f"expected here: match {expected.match:.2f}   gumbel {expected.gumbel:.2f}   rejection {expected.rejection:.2f}"
        )
    lines.append(_tops("target", proposal.target_top))
    lines.append(_tops("draft", proposal.draft_top))
    if emitted is not None and emitted.entropy is not None:
        lines.append(f"entropy {emitted.entropy:.2f} nats")
    return "\n".join(line for line in lines if line)


def emitted_details(round: Round, token: Emitted) -> str:
    """Everything that is known of a token that was not proposed, in lines."""
    what = {
        "correction": "in place of the rejected proposal",
        "bonus": "after every proposal was accepted",
        "plain": "nothing was proposed",
        "accepted": "",
    }[token.origin]
    known = [
        f"target p {token.p:.3f}" if token.p is not None else "",
        f"entropy {token.entropy:.2f} nats" if token.entropy is not None else "",
        f"margin {token.margin:.3g}" if token.margin is not None else "",
    ]
    lines = [
        f"{_quoted(token)}  {token.origin}",
        f"round {round.index + 1}, {round.rule}" + (f", {what}" if what else ""),
        "   ".join(part for part in known if part),
    ]
    return "\n".join(line for line in lines if line)


def _quoted(token: Proposal | Emitted) -> str:
    return f"“{visible(token.text, token.bytes)}”"


def _tops(whose: str, top: Sequence[Candidate]) -> str:
    return f"{whose}: " + "   ".join(f"“{visible_candidate(entry)}” {entry.probability:.2f}" for entry in top) if top else ""
