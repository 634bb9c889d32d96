"""The four phases of a round for slow motion, and a sentence on what happens in each. No Qt."""

from __future__ import annotations

from typing import Literal, get_args

from engine.lens.lane_chips import shown_text
from engine.lens.shared_wording import drafter_title
from engine.types import Round
from engine.values.wording import amount, noun

Phase = Literal["draft", "verify", "judge", "commit"]
PHASES: tuple[Phase, ...] = get_args(Phase)
PHASE_TITLES: dict[Phase, str] = {"draft": "Draft", "verify": "Verify", "judge": "Judge", "commit": "Commit"}

JUDGED = {
    "match": "the target draws for itself, and a proposal is accepted where both drew the same token",
    "gumbel": "the target draws with the drafter's noise, and a proposal is accepted where both drew the same token",
    "rejection": "a proposal is accepted with probability min(1, p/q), up to the first one that is rejected",
    "block": "the proposals are judged together, from p and q of all of them",
}
JUDGED_TREE = {
    "match": "the target draws for itself at each position, and the choice that is the same token is accepted",
    "gumbel": "the target draws with the drafter's noise at each position, and the choice that is the same token is accepted",
    "rejection": "the choices for a position are tried one after the other, each with a coin of its own",
}
"""Parts of sentences: how each rule judges a chain, and a tree."""


def caption(round_: Round, phase: Phase) -> str:
    """Returns a sentence on what happens in a phase of a round."""
    count = len(round_.proposals)
    branches = len(set(round_.depths)) < count  # a tree may have but one choice for each position
    match phase:
        case "draft" if not count:
            return "Nothing is proposed in this round."
        case "draft" if branches and max(round_.depths) == 1:
            return f"{drafter_title(round_.drafted_by)} proposes {count} choices for the next token."
        case "draft" if branches:
            return (
                f"{drafter_title(round_.drafted_by)} proposes a tree of {amount(count, 'token')}: "
                f"several choices for a position, up to {max(round_.depths)} deep."
            )
        case "draft":
            each = ", each after the ones before it" if count > 1 else ""
            return f"{drafter_title(round_.drafted_by)} proposes {amount(count, 'token')}{each}."
        case "verify" if not count:
            return "The target reads the newest token and computes the probabilities of the next one, as without a drafter."
        case "verify":
            whole = "the whole tree" if branches else f"all {amount(count, 'proposal')}" if count > 1 else "the proposal"
            return f"One pass of the target reads {whole}, and gives its own probability p for each token."
        case "judge" if not count:
            return "There is no proposal to judge."
        case "judge":
            counts = ((round_.accepted, "accepted"), (round_.rejected, "rejected"), (round_.unjudged, "not judged"))
            result = ", ".join(f"{number} {verdict}" for number, verdict in counts if number)
            way = (JUDGED_TREE if branches else JUDGED).get(round_.rule, "the rule judges the proposals")
            return f"{way[0].upper()}{way[1:]}: {result}."
        case "commit":
            return _committed(round_)


def _committed(round_: Round) -> str:
    accepted = sum(token.origin == "accepted" for token in round_.emitted)
    parts = [f"{amount(accepted, 'accepted token')}"] if accepted else []
    for token in round_.emitted:
        if token.origin != "accepted":
            kind = {"correction": "as the correction", "bonus": "as a bonus"}.get(token.origin, "")
            parts.append(f"the target's own “{shown_text(token.text, token.bytes)}” {kind}".strip())
    dropped = round_.rejected + round_.unjudged
    which = "other proposal" if accepted else "proposal"
    one, many = f"the {which} is dropped", f"{amount(dropped, which)} are dropped"
    rest = f"; {noun(dropped, one, many)}" if dropped else ""
    text = " and ".join(parts)
    verb = "becomes" if len(parts) == 1 and accepted < 2 else "become"
    return f"{text[:1].upper()}{text[1:]} {verb} text{rest}." if parts else "The answer ends before these tokens."
