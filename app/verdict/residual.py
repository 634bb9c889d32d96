"""The distribution that a correction was drawn from: the normalised (p − q)+, as far as the recorded alternatives show it. No Qt.

Its mass needs no alternatives: the sum of (p − q)+ is 1 − Σ min(p, q), and Σ min(p, q) is the closed-form acceptance probability
under rejection, which every judged position records. So a share is exact if both p and q of a token are known. If the draft's
alternatives lack a token, its q is at most that of the last one listed, and the share lies between two bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.lens.pieces import Spot, judged_at, visible, visible_candidate
from engine.lens.token_reasons import block_weight
from engine.types import RATIO_RULES, Proposal, Round

TOP = 5
"""Maximum number of alternatives that a round records; if there are fewer, the list is complete."""
MIN_MASS = 1e-3
"""Mass below which the rounding of the recorded values dominates."""
MIN_SHARE = 0.01
"""Share below which tokens are omitted, unless drawn."""


@dataclass(frozen=True, slots=True)
class ResidualShare:
    """A token of the residual with bounds of its share; they are equal if the share is known."""

    id: int
    token: str
    low: float
    high: float

    @property
    def text(self) -> str:
        """The share to two decimals, as "low to high" if the bounds differ, or that it is below `MIN_SHARE`."""
        if self.high < MIN_SHARE:
            return f"< {MIN_SHARE}"
        low, high = f"{self.low:.2f}", f"{self.high:.2f}"
        return low if low == high else f"{low} to {high}"


def residual_after(round_: Round, spot: Spot, greedy: bool) -> tuple[ResidualShare, ...]:
    """Returns the residual at the position of a rejected proposal, most likely token first; empty if the rule draws from none.

    It contains the tokens among the target's alternatives, and the drawn token. After several choices of a tree it is unknown.
    """
    if greedy or round_.rule not in RATIO_RULES or spot.at != round_.accepted or spot.at >= len(round_.expected):
        return ()
    rejected = judged_at(round_, spot)
    if rejected is None or len(round_.choices(spot.at)) > 1:
        return ()
    weight = block_weight(round_) if round_.rule == "block" else 1.0
    mass = 1 - round_.expected[spot.at].rejection
    if weight is None or weight < 1 or mass < MIN_MASS:
        return ()
    candidates = [(entry.id, visible_candidate(entry), entry.probability) for entry in rejected.target_top]
    drawn = round_.emitted[spot.at] if spot.at < len(round_.emitted) else None
    if drawn is not None and drawn.p is not None and all(drawn.id != token for token, _, _ in candidates):
        candidates.append((drawn.id, visible(drawn.text, drawn.bytes), drawn.p))
    shares = []
    for token, text, p in candidates:
        q_low, q_high = draft_probability(rejected, token)
        low, high = (min(1.0, max(0.0, p - q) / mass) for q in (q_high, q_low))
        if high >= MIN_SHARE or (drawn is not None and token == drawn.id):
            shares.append(ResidualShare(token, text, low, high))
    low_sum = sum(share.low for share in shares)
    shares = [replace(share, high=max(share.low, min(share.high, 1 - low_sum + share.low))) for share in shares]  # they sum to 1
    return tuple(sorted(shares, key=lambda share: -share.low - share.high))


def draft_probability(rejected: Proposal, token: int) -> tuple[float, float]:
    """Returns bounds of the drafter's probability of a token."""
    if token == rejected.id and rejected.q is not None:
        return rejected.q, rejected.q
    known = next((entry.probability for entry in rejected.draft_top if entry.id == token), None)
    if known is not None:
        return known, known
    if len(rejected.draft_top) < TOP:
        return 0.0, 0.0
    remainder = max(0.0, 1 - sum(entry.probability for entry in rejected.draft_top))
    return 0.0, min(rejected.draft_top[-1].probability, remainder)
