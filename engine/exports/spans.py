"""Everything that is known of a token, in lines: what the report tells when it is pointed at."""

from __future__ import annotations

from collections.abc import Sequence

from engine.lens.pieces import Spot, visible, visible_candidate
from engine.lens.shared_wording import RULE_TITLES
from engine.lens.token_reasons import decision, unknowns
from engine.types import Candidate, Emitted, Proposal, Round


def details(round: Round, spot: Spot, greedy: bool) -> str:
    """Everything that is known of a token, in lines; `greedy`: it was decoded at temperature 0."""
    if spot.own and spot.at >= len(round.emitted):
        return ""  # a trace that a foreign hand wrote: engines emit a token in every round
    if spot.own:
        lines = _emitted_details(round, round.emitted[spot.at])
    else:
        accepted = round.proposals[spot.at].status == "accepted" and spot.at < len(round.emitted)
        lines = _proposal_details(round, spot.at, round.emitted[spot.at] if accepted else None)
    return "\n".join(line for line in (*lines, decision(round, spot, greedy), *unknowns(round, spot, greedy)) if line)


def _proposal_details(round: Round, place: int, emitted: Emitted | None = None) -> list[str]:
    proposal = round.proposals[place]
    lines = [
        f"{_quoted(proposal)}  {proposal.status}",
        f"round {round.index + 1}, position {place + 1}, {RULE_TITLES[round.rule]}",
    ]
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
    if place < len(round.expected):
        expected = round.expected[place]
        lines.append(
            f"expected here: Match {expected.match:.2f}   Gumbel {expected.gumbel:.2f}   Rejection {expected.rejection:.2f}"
        )
    lines.append(_tops("target", proposal.target_top))
    lines.append(_tops("draft", proposal.draft_top))
    if emitted is not None and emitted.entropy is not None:
        lines.append(f"entropy {emitted.entropy:.2f} nats")
    return lines


def _emitted_details(round: Round, token: Emitted) -> list[str]:
    known = [
        f"target p {token.p:.3f}" if token.p is not None else "",
        f"entropy {token.entropy:.2f} nats" if token.entropy is not None else "",
        f"margin {token.margin:.3g}" if token.margin is not None else "",
        f"border {token.border:.3g}" if token.border is not None else "",
    ]
    return [
        f"{_quoted(token)}  {token.origin}",
        f"round {round.index + 1}, {RULE_TITLES[round.rule]}",
        "   ".join(part for part in known if part),
    ]


def _quoted(token: Proposal | Emitted) -> str:
    return f"“{visible(token.text, token.bytes)}”"


def _tops(whose: str, top: Sequence[Candidate]) -> str:
    return f"{whose}: " + "   ".join(f"“{visible_candidate(entry)}” {entry.probability:.2f}" for entry in top) if top else ""
