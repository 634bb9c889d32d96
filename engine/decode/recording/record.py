"""Turns a judged round on the device into its record on the host.

The next token only needs the verdict: which proposals are accepted, and the token after them. `to_record` records that much.
`with_analysis` adds everything that must be summed, sorted or drawn over the vocabulary for display, from the round's inputs
(`AnalysisInputs`): plain numpy arrays that no longer change, so that it can run on another thread during the next round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from engine.acceptance import Judgement
from engine.decode.recording import analysis
from engine.decode.recording.other_draws import HostDraws, OtherDraws
from engine.decode.text_stream import AnswerText
from engine.drafters.draft import DraftTree
from engine.rounds import near_ties
from engine.target.distribution import Distribution, Weighed
from engine.types import DecodingOptions, Draw, Emitted, Origin, Proposal, Round, Rule, Status


@dataclass(frozen=True)
class EvaluatedRound:
    """Result of evaluating one round: host values, and the arrays behind them.

    Attributes:
        position: absolute index of the round's first token.
        drafted: the proposed ids.
        accepted: number of accepted proposals.
        token: the correction, bonus or plain token after them.
        others: the draws that other rules would compare; None without proposals or analysis.
    """

    position: int
    rule: Rule
    drafted: list[int]
    accepted: int
    token: int
    p: Distribution
    proposals: DraftTree | None
    judgement: Judgement
    others: OtherDraws | HostDraws | None

    @property
    def path(self) -> list[int]:
        """The nodes from which the emitted tokens were drawn: the root and the accepted proposals."""
        return list(range(self.accepted + 1))

    @property
    def emitted(self) -> list[int]:
        """The ids that the round adds to the text, before a stop cuts them."""
        return [*self.drafted[: self.accepted], self.token]

    def status(self, index: int) -> Status:
        """Returns the status of the proposal at `index`, from 0; the first one not accepted is the rejected one."""
        if index < self.accepted:
            return "accepted"
        return "rejected" if index == self.accepted else "unjudged"

    def is_copied(self, index: int) -> bool:
        """Returns whether the proposal at `index` was copied instead of being drawn."""
        return self.proposals is not None and self.proposals.is_copied(index)

    def origin(self, index: int) -> Origin:
        """Returns the origin of the token at `index` among the emitted ones."""
        if index < self.accepted:
            return "accepted"
        if not self.drafted:
            return "plain"
        return "bonus" if self.accepted == len(self.drafted) else "correction"


def to_record(verdict: EvaluatedRound, kept: list[int], text: AnswerText) -> tuple[tuple[Emitted, ...], tuple[Proposal, ...]]:
    """Returns the emitted tokens and the proposals of a round, without figures that need a pass over the vocabulary.

    Args:
        kept: the emitted ids that count, the newest ones of the committed text.
        text: the answer's text, which already includes `kept`.
    """
    emitted = tuple(
        Emitted(token, piece, text.bytes_of(token), verdict.origin(index))
        for index, (token, piece) in enumerate(zip(kept, text.latest(len(kept)), strict=True))
    )
    proposals = tuple(
        Proposal(token, text.text_of(token), text.bytes_of(token), verdict.status(index), copied=verdict.is_copied(index))
        for index, token in enumerate(verdict.drafted)
    )
    return emitted, proposals


@dataclass(frozen=True)
class AnalysisInputs:
    """Inputs of a round's analysis, on the host.

    Attributes:
        p: (gamma + 1, vocab) float32 logits of the target, filtered. unfiltered: the same before filters, None without a filter.
        q: (gamma, vocab) float32 logits of the drafter; None if every proposal was placed.
        p_scale, q_scale: inverse temperatures.
        margins: of the target's draws with shared noise, at least of those that were emitted; None if its tokens are not such
            draws.
        p_weighed, q_weighed: (gamma + 1,) and (gamma,), for each row the weights that the rule has already computed, or None.
        coins: (gamma,) if coins were compared. acceptance: acceptance probabilities, at least of the proposals that show them;
            None if they need sums over the vocabulary that the verdict did not need.
        draws: ids that were compared, (gamma + 1,) or at least those that were judged.
        others: the draws that other rules would compare; None without proposals.
        greedy: whether the temperature is 0.
    """

    p: analysis.Floats
    p_scale: float
    unfiltered: analysis.Floats | None
    q: analysis.Floats | None
    q_scale: float
    p_weighed: Sequence[Weighed | None]
    q_weighed: Sequence[Weighed | None]
    margins: analysis.Floats | None
    coins: list[float] | None
    acceptance: list[float] | None
    draws: list[int] | None
    others: HostDraws | None
    greedy: bool

    @classmethod
    def of(cls, verdict: EvaluatedRound, greedy: bool) -> AnalysisInputs:
        """Returns the inputs of a round whose arrays have been evaluated. They are not copied; call it where MLX may be
        called."""
        judgement, q = verdict.judgement, None if verdict.proposals is None else verdict.proposals.q
        drawn = q if isinstance(q, Distribution) else None
        coins = judgement.coins
        shown = len(verdict.drafted) if verdict.rule == "block" else min(verdict.accepted + 1, len(verdict.drafted))
        if coins is None or verdict.rule == "block":
            acceptance = None
        else:
            acceptance = [min(1.0, float(value)) for value in np.asarray(judgement.first_chances(shown))]
        return cls(
            p=np.asarray(verdict.p.logits),
            p_scale=verdict.p.inverse_temperature,
            unfiltered=None if verdict.p.unfiltered is None else np.asarray(verdict.p.unfiltered),
            q=None if drawn is None else np.asarray(drawn.logits),
            q_scale=1.0 if drawn is None else drawn.inverse_temperature,
            p_weighed=verdict.p.weighed,
            q_weighed=[] if drawn is None else drawn.weighed,
            margins=None if judgement.margins is None else np.asarray(judgement.margins),
            coins=None if coins is None else [float(value) for value in np.asarray(coins)],
            acceptance=acceptance,
            draws=None if judgement.draws is None else [int(value) for value in np.asarray(judgement.draws)],
            others=verdict.others.on_host() if isinstance(verdict.others, OtherDraws) else verdict.others,
            greedy=greedy,
        )

    def p_row(self, index: int) -> analysis.Row:
        """Returns the target's distribution over all tokens at a position."""
        return analysis.row(self.p[index], self.p_scale, self.p_weighed[index])

    def q_row(self, index: int) -> analysis.Row:
        """Returns the drafter's distribution at a position, if it drew."""
        assert self.q is not None
        return analysis.row(self.q[index], self.q_scale, self.q_weighed[index])


def with_analysis(round: Round, inputs: AnalysisInputs, options: DecodingOptions, text_of: Callable[[int], str]) -> Round:
    """Returns a round with probabilities, alternatives, margins, other draws and closed forms added. Does not call MLX.

    Args:
        round: the round without analysis, judged by `inputs`'s rule.
        options: the options that p was made with.
        text_of: returns the text of a token alone.
    """
    proposed = [proposal.id for proposal in round.proposals]
    p = [inputs.p_row(index) for index in range(max(len(round.emitted), len(proposed)))]
    q = [analysis.certain(token) if inputs.q is None else inputs.q_row(index) for index, token in enumerate(proposed)]
    judged = min(round.accepted + 1, len(proposed))
    acceptance = _acceptance(round.rule, inputs, p, q, proposed, judged)
    margins = _margins(inputs, len(round.emitted))
    emitted = tuple(
        replace(
            token,
            p=p[index].of(token.id),
            entropy=p[index].entropy,
            margin=margins[index],
            target_top=p[index].candidates(text_of) if index == len(round.proposals) else (),
            border=None if inputs.unfiltered is None else analysis.border(inputs.unfiltered[index], token.id, options),
        )
        for index, token in enumerate(round.emitted)
    )
    drawn = None if inputs.others is None else inputs.others.drawn(inputs.p, inputs.p_scale, inputs.q, inputs.q_scale)
    proposals = []
    for index, proposal in enumerate(round.proposals):
        if index < judged:
            found = _judged(inputs, index, proposal, p[index], q[index], acceptance[index], text_of)
        else:
            found = _unjudged(round.rule, inputs, index, proposal, p[index], q[index], acceptance)
        if drawn is not None:
            target, coupled, independent = (
                None if (token := ids[index]) is None else Draw(token, text_of(token)) for ids in drawn
            )
            found = replace(found, target_draw=target, coupled_draw=coupled, independent_draw=independent)
        proposals.append(found)
    expected = analysis.expected(p[:judged], q[:judged], inputs.greedy)
    return replace(round, emitted=emitted, proposals=tuple(proposals), expected=expected)


def _acceptance(
    rule: Rule, inputs: AnalysisInputs, p: Sequence[analysis.Row], q: Sequence[analysis.Row], proposed: Sequence[int], judged: int
) -> Sequence[float]:
    """Returns acceptance probabilities under the rule in force, at least of each judged proposal."""
    if inputs.acceptance is not None:
        return inputs.acceptance
    if inputs.coins is not None:
        return analysis.block_acceptance(p, q, proposed)
    if inputs.greedy:
        return [float(inputs.draws is not None and inputs.draws[index] == proposed[index]) for index in range(judged)]
    if rule == "match":
        return [p[index].of(proposed[index]) for index in range(judged)]
    return [analysis.coupled_acceptance(p[index], q[index], proposed[index]) for index in range(judged)]


def _margins(inputs: AnalysisInputs, count: int) -> list[float | None]:
    """Returns the gap of the two best scores at each emitted position where the target's token is an arg-max, else None."""
    if inputs.greedy:
        gaps = [analysis.margin(inputs.p[index]) for index in range(count)]
    elif inputs.margins is None:
        return [None] * count
    else:
        reach = near_ties.RANGE * inputs.p_scale
        gaps = [float(told) if math.isinf(told) else min(float(told), reach) for told in inputs.margins[:count]]
    return [told if math.isfinite(told) else None for told in gaps]


def _judged(
    inputs: AnalysisInputs,
    index: int,
    proposal: Proposal,
    p: analysis.Row,
    q: analysis.Row,
    acceptance: float,
    text_of: Callable[[int], str],
) -> Proposal:
    token = proposal.id
    return replace(
        proposal,
        q=q.of(token),
        p=p.of(token),
        acceptance=acceptance,
        coin=None if inputs.coins is None else inputs.coins[index],
        draft_argmax=None if inputs.draws is None else token,
        target_argmax=None if inputs.draws is None else inputs.draws[index],
        draft_top=q.candidates(text_of),
        target_top=p.candidates(text_of),
    )


def _unjudged(
    rule: Rule,
    inputs: AnalysisInputs,
    index: int,
    proposal: Proposal,
    p: analysis.Row,
    q: analysis.Row,
    acceptance: Sequence[float],
) -> Proposal:
    """Returns a proposal after the rejected one. Of its row only its own p is recorded: it is conditional on text that was
    discarded."""
    # Under `block` the coins and probabilities of all positions decide together, so all are recorded.
    shown = rule == "block" and not inputs.greedy
    chance = p.of(proposal.id)
    return replace(
        proposal,
        q=q.of(proposal.id),
        p=chance if math.isfinite(chance) else None,
        acceptance=acceptance[index] if shown else None,
        coin=inputs.coins[index] if shown and inputs.coins is not None else None,
    )
