"""From a judged round on the device to its record on the host."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import mlx.core as mx
import numpy as np

from engine.acceptance import Judgement
from engine.drafters.base import Proposals
from engine.rounds import analysis
from engine.rounds.other_draws import OtherDraws
from engine.rounds.text_stream import AnswerText
from engine.target.distribution import Distribution, OneHot
from engine.types import DecodingOptions, Draw, Emitted, Expected, Origin, Proposal, Rule, Status


@dataclass(frozen=True)
class EvaluatedRound:
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
    margins: mx.array | None
    others: OtherDraws | None

    @property
    def emitted(self) -> list[int]:
        """The ids the round would add to the text, before any stop cuts them."""
        return [*self.drafted[: self.accepted], self.token]

    @property
    def judged(self) -> int:
        """Proposals that were judged: the accepted ones and the rejected one."""
        return min(self.accepted + 1, len(self.drafted))

    def status(self, index: int) -> Status:
        """What became of the proposal at `index`, from 0; the first one not accepted is the rejected one."""
        if index < self.accepted:
            return "accepted"
        return "rejected" if index == self.accepted else "unjudged"

    def is_copied(self, index: int) -> bool:
        """Whether the proposal at `index` was proposed outright instead of being drawn."""
        return self.proposals is not None and self.proposals.is_copied(index)

    def origin(self, index: int) -> Origin:
        """Where the token at `index` among the emitted ones comes from."""
        if index < self.accepted:
            return "accepted"
        if not self.drafted:
            return "plain"
        return "bonus" if self.accepted == len(self.drafted) else "correction"


def describe(
    verdict: EvaluatedRound, kept: list[int], text: AnswerText, options: DecodingOptions, greedy: bool
) -> tuple[tuple[Emitted, ...], tuple[Proposal, ...], tuple[Expected, ...]]:
    """The emitted tokens, the proposals and the closed forms of a round.

    Args:
        kept: the emitted ids that count, the newest of the committed text.
        text: has already taken `kept`, and knows what each added.
        options: those that p was made with.
    """
    pieces = text.latest(len(kept))
    if not options.analyse:
        emitted = tuple(
            Emitted(token, piece, text.bytes_of(token), verdict.origin(index))
            for index, (token, piece) in enumerate(zip(kept, pieces, strict=True))
        )
        bare = tuple(
            Proposal(token, text.text_of(token), text.bytes_of(token), verdict.status(index), copied=verdict.is_copied(index))
            for index, token in enumerate(verdict.drafted)
        )
        return emitted, bare, ()

    p = analysis.rows(np.asarray(verdict.p.logits)[: max(len(kept), verdict.judged)], verdict.p.inverse_temperature)
    q = _draft_rows(verdict)
    margins = _margins(verdict, len(kept), greedy)
    borders = _borders(verdict, kept, options)
    emitted = tuple(
        Emitted(
            token,
            piece,
            text.bytes_of(token),
            verdict.origin(index),
            p[index].of(token),
            p[index].entropy,
            margins[index],
            p[index].candidates(text.text_of) if index == len(verdict.drafted) else (),
            borders[index],
        )
        for index, (token, piece) in enumerate(zip(kept, pieces, strict=True))
    )
    host = _Judged.of(verdict.judgement, verdict.others)
    proposals = tuple(
        host.completed(
            _judged(verdict, host, index, p[index], q[index], text, greedy)
            if index < verdict.judged
            else _unjudged(verdict, host, index, q[index], text),
            index,
            text,
        )
        for index in range(len(verdict.drafted))
    )
    return emitted, proposals, analysis.expected(p[: verdict.judged], q[: verdict.judged], greedy)


def _draft_rows(verdict: EvaluatedRound) -> list[analysis.Row]:
    if verdict.proposals is None:
        return []
    q = verdict.proposals.q
    if isinstance(q, OneHot):
        return [analysis.one_hot(token, q.vocab_size) for token in verdict.drafted]
    return analysis.rows(np.asarray(q.logits), q.inverse_temperature)


def _margins(verdict: EvaluatedRound, count: int, greedy: bool) -> list[float | None]:
    """Gap of the two best scores at each emitted position, where the target's token is an arg-max."""
    if greedy:
        gaps = [analysis.margin(row) for row in np.asarray(verdict.p.logits)[:count]]
    elif verdict.margins is not None:
        gaps = [float(gap) for gap in np.asarray(verdict.margins)[:count]]
    else:
        return [None] * count
    return [gap if math.isfinite(gap) else None for gap in gaps]


def _borders(verdict: EvaluatedRound, kept: list[int], options: DecodingOptions) -> list[float | None]:
    """How near each emitted token was to being filtered out."""
    if verdict.p.unfiltered is None:
        return [None] * len(kept)
    unfiltered = np.asarray(verdict.p.unfiltered)
    return [analysis.border(unfiltered[index], token, options) for index, token in enumerate(kept)]


@dataclass(frozen=True)
class _Judged:
    """A Judgement's arrays on the host, `acceptance` where coins were compared with it, and what other rules would compare."""

    acceptance: list[float] | None
    coins: list[float] | None
    draws: list[int] | None
    others: OtherDraws | None

    @classmethod
    def of(cls, judgement: Judgement, others: OtherDraws | None) -> _Judged:
        """Evaluates the judgement and copies it. `acceptance` is None where no coin was compared, and limited to 1 elsewhere."""
        draws = None if judgement.draws is None else [int(value) for value in np.asarray(judgement.draws)]
        if judgement.coins is None:
            return cls(None, None, draws, others)
        acceptance = [min(1.0, float(value)) for value in np.asarray(judgement.acceptance)]
        return cls(acceptance, [float(value) for value in np.asarray(judgement.coins)], draws, others)

    def completed(self, proposal: Proposal, index: int, text: AnswerText) -> Proposal:
        """The proposal at `index` with what other rules would have compared, and with its p where it was not judged."""
        others = self.others
        if others is None:
            return proposal
        ids = (
            None if drawn is None else int(np.asarray(drawn)[index])
            for drawn in (others.target, others.coupled, others.independent)
        )
        target, coupled, independent = (None if token is None else Draw(token, text.text_of(token)) for token in ids)
        p = float(np.asarray(others.p)[index]) if proposal.p is None else proposal.p
        return replace(proposal, p=p, target_draw=target, coupled_draw=coupled, independent_draw=independent)


def _judged(
    verdict: EvaluatedRound, host: _Judged, index: int, p: analysis.Row, q: analysis.Row, text: AnswerText, greedy: bool
) -> Proposal:
    token = verdict.drafted[index]
    if host.acceptance is not None:
        acceptance = host.acceptance[index]
    elif greedy:
        acceptance = float(host.draws is not None and host.draws[index] == token)
    else:
        acceptance = p.of(token) if verdict.rule == "match" else analysis.coupled_acceptance(p, q, token)
    return Proposal(
        id=token,
        text=text.text_of(token),
        bytes=text.bytes_of(token),
        status=verdict.status(index),
        q=q.of(token),
        p=p.of(token),
        acceptance=acceptance,
        coin=None if host.coins is None else host.coins[index],
        draft_argmax=None if host.draws is None else token,
        target_argmax=None if host.draws is None else host.draws[index],
        draft_top=q.candidates(text.text_of),
        target_top=p.candidates(text.text_of),
        copied=verdict.is_copied(index),
    )


def _unjudged(verdict: EvaluatedRound, host: _Judged, index: int, q: analysis.Row, text: AnswerText) -> Proposal:
    """A proposal after the rejected one. Its row is not looked at: it is conditional on text that was not kept."""
    token = verdict.drafted[index]
    # Under `block` the coins and chances of all positions decide together, so all are shown.
    shown = verdict.rule == "block"
    return Proposal(
        id=token,
        text=text.text_of(token),
        bytes=text.bytes_of(token),
        status="unjudged",
        q=q.of(token),
        acceptance=host.acceptance[index] if shown and host.acceptance is not None else None,
        coin=host.coins[index] if shown and host.coins is not None else None,
        copied=verdict.is_copied(index),
    )
