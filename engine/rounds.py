"""From a judged round on the device to its record on the host."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from engine import analysis
from engine.acceptance import Judgement, RoundNoise
from engine.distribution import Distribution, OneHot
from engine.drafters.base import Proposals
from engine.stopping import AnswerText
from engine.types import Emitted, Expected, Origin, Proposal, Rule, Status


@dataclass(frozen=True)
class Verdict:
    """What one round's evaluation brought: host values, and the arrays behind them.

    Attributes:
        position: absolute index of the round's first token.
        drafted: the proposed ids.
        accepted: how many of them are kept.
        token: the correction, bonus or plain token after them.
    """

    position: int
    rule: Rule
    drafted: list[int]
    accepted: int
    token: int
    p: Distribution
    proposals: Proposals | None
    judgement: Judgement

    @property
    def emitted(self) -> list[int]:
        """The ids the round would add to the text, before any stop cuts them."""
        return [*self.drafted[: self.accepted], self.token]

    @property
    def judged(self) -> int:
        """Proposals that were judged: the accepted ones and the rejected one."""
        return min(self.accepted + 1, len(self.drafted))

    def status(self, index: int) -> Status:
        if index < self.accepted:
            return "accepted"
        return "rejected" if index == self.accepted else "unjudged"

    def origin(self, index: int) -> Origin:
        if index < self.accepted:
            return "accepted"
        if not self.drafted:
            return "plain"
        return "bonus" if self.accepted == len(self.drafted) else "correction"


def describe(
    verdict: Verdict, kept: list[int], text: AnswerText, noise: RoundNoise, analyse: bool, greedy: bool
) -> tuple[tuple[Emitted, ...], tuple[Proposal, ...], tuple[Expected, ...]]:
    """The emitted tokens, the proposals and the closed forms of a round.

    Args:
        kept: the emitted ids that count, the newest of the committed text.
        text: has already taken `kept`, and knows what each added.
    """
    pieces = text.latest(len(kept))
    if not analyse:
        emitted = tuple(
            Emitted(token, piece, text.bytes_of(token), verdict.origin(index))
            for index, (token, piece) in enumerate(zip(kept, pieces, strict=True))
        )
        bare = tuple(
            Proposal(token, text.text_of(token), text.bytes_of(token), verdict.status(index))
            for index, token in enumerate(verdict.drafted)
        )
        return emitted, bare, ()

    p = analysis.rows(np.asarray(verdict.p.logits), verdict.p.inverse_temperature)
    q = _draft_rows(verdict)
    margins = _margins(verdict, len(kept), noise, greedy)
    emitted = tuple(
        Emitted(
            token,
            piece,
            text.bytes_of(token),
            verdict.origin(index),
            p[index].of(token),
            p[index].entropy,
            margins[index],
        )
        for index, (token, piece) in enumerate(zip(kept, pieces, strict=True))
    )
    judged = _Judged.of(verdict.judgement)
    proposals = tuple(_proposal(verdict, judged, index, p[index], q[index], text) for index in range(len(verdict.drafted)))
    return emitted, proposals, analysis.expected(p[: verdict.judged], q[: verdict.judged], greedy)


def _draft_rows(verdict: Verdict) -> list[analysis.Row]:
    if verdict.proposals is None:
        return []
    q = verdict.proposals.q
    if isinstance(q, OneHot):
        return [analysis.one_hot(token, q.vocab_size) for token in verdict.drafted]
    return analysis.rows(np.asarray(q.logits), q.inverse_temperature)


def _margins(verdict: Verdict, count: int, noise: RoundNoise, greedy: bool) -> list[float | None]:
    """Gap of the two best scores at each emitted position, where the target's token is an arg-max."""
    if not greedy and verdict.drafted and verdict.rule in ("rejection", "block"):
        return [None] * count
    if greedy:
        gaps = [analysis.margin(row) for row in np.asarray(verdict.p.logits)[:count]]
    else:
        gaps = [float(gap) for gap in np.asarray(noise.margins(verdict.p.first(count)))]
    return [gap if math.isfinite(gap) else None for gap in gaps]


@dataclass(frozen=True)
class _Judged:
    """A Judgement's arrays on the host."""

    acceptance: list[float]
    coins: list[float] | None
    draws: list[int] | None

    @classmethod
    def of(cls, judgement: Judgement) -> _Judged:
        return cls(
            [min(1.0, float(value)) for value in np.asarray(judgement.acceptance)],
            None if judgement.coins is None else [float(value) for value in np.asarray(judgement.coins)],
            None if judgement.draws is None else [int(value) for value in np.asarray(judgement.draws)],
        )


def _proposal(verdict: Verdict, arrays: _Judged, index: int, p: analysis.Row, q: analysis.Row, text: AnswerText) -> Proposal:
    token = verdict.drafted[index]
    text_of: Callable[[int], str] = text.text_of
    judged = index < verdict.judged
    # Under `block` the coins and chances of all positions decide together, so all are shown.
    looked_at = judged or (arrays.coins is not None and verdict.rule == "block")
    return Proposal(
        id=token,
        text=text_of(token),
        bytes=text.bytes_of(token),
        status=verdict.status(index),
        q=q.of(token),
        p=p.of(token),
        acceptance=arrays.acceptance[index] if looked_at else None,
        coin=arrays.coins[index] if arrays.coins is not None and looked_at else None,
        draft_argmax=token if arrays.draws is not None and judged else None,
        target_argmax=arrays.draws[index] if arrays.draws is not None and judged else None,
        draft_top=q.candidates(text_of),
        target_top=p.candidates(text_of),
    )
