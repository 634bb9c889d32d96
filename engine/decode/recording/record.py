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
        drafted: the proposed ids. nodes: their nodes.
        path: the nodes from which the emitted tokens were drawn: the root and the accepted proposals.
        token: the correction, bonus or plain token after them.
        others: the draws that other rules would compare; None without proposals or analysis, at temperature 0, and for a tree.
    """

    position: int
    rule: Rule
    drafted: list[int]
    path: Sequence[int]
    nodes: Sequence[int]
    token: int
    p: Distribution
    proposals: DraftTree
    judgement: Judgement
    others: OtherDraws | HostDraws | None

    @property
    def accepted(self) -> int:
        """Number of accepted proposals."""
        return len(self.path) - 1

    @property
    def has_rejected(self) -> bool:
        """Whether something was proposed for the position after the accepted proposals."""
        return self.accepted < len(self.drafted) and self._parent_node(self.accepted) == self.path[-1]

    @property
    def emitted(self) -> list[int]:
        """The ids that the round adds to the text, before a stop cuts them."""
        return [*self.drafted[: self.accepted], self.token]

    def status(self, index: int) -> Status:
        """Returns the status of the proposal at `index`, from 0; the first one not accepted is the rejected one."""
        if index < self.accepted:
            return "accepted"
        return "rejected" if index == self.accepted and self.has_rejected else "unjudged"

    def is_copied(self, index: int) -> bool:
        """Returns whether the proposal at `index` was copied instead of being drawn."""
        return self.proposals.is_copied(self.nodes[index] - 1)

    def parent(self, index: int) -> int | None:
        """Returns the index of the proposal that the one at `index` follows, as in `Proposal.parent`."""
        if self.proposals.is_chain:
            return None
        parent = self._parent_node(index)
        return self.nodes.index(parent) if parent else -1

    def _parent_node(self, index: int) -> int:
        return self.proposals.shape.parents[self.nodes[index] - 1]

    def rank(self, index: int) -> int:
        """Returns the rank of the proposal at `index` among its siblings."""
        return self.proposals.shape.ranks[self.nodes[index]]

    def origin(self, index: int) -> Origin:
        """Returns the origin of the token at `index` among the emitted ones."""
        if index < self.accepted:
            return "accepted"
        if not self.drafted:
            return "plain"
        return "correction" if self.has_rejected else "bonus"


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
        Proposal(
            token,
            text.text_of(token),
            text.bytes_of(token),
            verdict.status(index),
            copied=verdict.is_copied(index),
            parent=verdict.parent(index),
            rank=verdict.rank(index),
        )
        for index, token in enumerate(verdict.drafted)
    )
    return emitted, proposals


@dataclass(frozen=True)
class AnalysisInputs:
    """Inputs of a round's analysis, on the host.

    Attributes:
        p: (nodes, vocab) float32 logits of the target, filtered. unfiltered: the same before filters, None without a filter.
        q: (rows, vocab) float32 logits of the drafter; None if every proposal was placed.
        p_scale, q_scale: inverse temperatures.
        path: rows of `p` that the emitted tokens were drawn from. p_rows, q_rows: for each proposal its rows of `p` and `q`; that
            of `q` is None if the proposal was placed. judged: number of proposals with a verdict.
        margins: of the target's draws with shared noise, at least of those that were emitted; None if its tokens are not such
            draws.
        p_weighed, q_weighed: for each row of `p` and `q` the weights that the rule has already computed, or None.
        coins: one for each proposal if coins were compared, NaN for one that was not. acceptance: acceptance probabilities, at
            least of the proposals that show them; None if they need sums over the vocabulary that the verdict did not need.
        draws: ids that were compared, (gamma + 1,) or at least those that were judged.
        others: the draws that other rules would compare; None without proposals, and at temperature 0.
        greedy: whether the temperature is 0.
    """

    p: analysis.Floats
    p_scale: float
    path: Sequence[int]
    p_rows: Sequence[int]
    q_rows: Sequence[int | None]
    judged: int
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
        judgement, tree = verdict.judgement, verdict.proposals
        drawn = tree.q if isinstance(tree.q, Distribution) else None
        coins, acceptance = judgement.coins, None
        if coins is not None and verdict.rule != "block":
            chances = [float(value) for value in np.asarray(judgement.acceptance)]
            acceptance = [min(1.0, chance) if tree.is_chain or not math.isnan(chance) else chance for chance in chances]
        return cls(
            p=np.asarray(verdict.p.logits),
            p_scale=verdict.p.inverse_temperature,
            path=verdict.path,
            p_rows=[tree.shape.parents[node - 1] for node in verdict.nodes],
            q_rows=[tree.q_row(node - 1) for node in verdict.nodes],
            judged=verdict.accepted + verdict.has_rejected,
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
        """Returns the target's distribution over all tokens after a node."""
        return analysis.row(self.p[index], self.p_scale, self.p_weighed[index])

    def q_row(self, index: int) -> analysis.Row:
        """Returns a row of the drafter's distributions."""
        assert self.q is not None
        return analysis.row(self.q[index], self.q_scale, self.q_weighed[index])


def with_analysis(round: Round, inputs: AnalysisInputs, options: DecodingOptions, text_of: Callable[[int], str]) -> Round:
    """Returns a round with probabilities, alternatives, margins, other draws and closed forms added. Does not call MLX.

    Args:
        round: the round without analysis, judged by `inputs`'s rule.
        options: the options that p was made with.
        text_of: returns the text of a token alone.
    """
    proposed, judged = [proposal.id for proposal in round.proposals], inputs.judged
    path = inputs.path[: len(round.emitted)]
    p_rows = {row: inputs.p_row(row) for row in (*path, *inputs.p_rows)}
    q_rows = {row: inputs.q_row(row) for row in inputs.q_rows if row is not None}
    p = [p_rows[row] for row in inputs.p_rows]
    q = [analysis.certain(token) if row is None else q_rows[row] for row, token in zip(inputs.q_rows, proposed, strict=True)]
    acceptance = _acceptance(round, inputs, p, q, judged)
    margins = _margins(inputs, len(round.emitted))
    emitted = tuple(
        replace(
            token,
            p=p_rows[row].of(token.id),
            entropy=p_rows[row].entropy,
            margin=margin,
            target_top=p_rows[row].candidates(text_of) if token.origin in ("bonus", "plain") else (),
            border=None if inputs.unfiltered is None else analysis.border(inputs.unfiltered[row], token.id, options),
        )
        for row, margin, token in zip(path, margins, round.emitted, strict=True)
    )
    drawn = None if inputs.others is None else inputs.others.drawn(inputs.p, inputs.p_scale, inputs.q, inputs.q_scale)
    proposals = []
    for index, proposal in enumerate(round.proposals):
        if index < judged:
            found = _judged(inputs, index, proposal, p[index], q[index], acceptance[index], text_of)
        else:
            found = _unjudged(round, inputs, index, p[index], q[index], acceptance)
        if drawn is not None:
            target, coupled, independent = (
                None if (token := ids[index]) is None else Draw(token, text_of(token)) for ids in drawn
            )
            found = replace(found, target_draw=target, coupled_draw=coupled, independent_draw=independent)
        proposals.append(found)
    expected = analysis.expected(p[:judged], q[:judged], inputs.greedy)
    return replace(round, emitted=emitted, proposals=tuple(proposals), expected=expected)


def _acceptance(
    round: Round, inputs: AnalysisInputs, p: Sequence[analysis.Row], q: Sequence[analysis.Row], judged: int
) -> Sequence[float | None]:
    """Returns acceptance probabilities under the rule in force, at least of each judged proposal; None if there is no closed form
    for one, as for a later choice of a tree."""
    rule, proposed = round.rule, [proposal.id for proposal in round.proposals]
    if inputs.acceptance is not None:
        return [None if math.isnan(chance) else chance for chance in inputs.acceptance]
    if inputs.coins is not None:
        return analysis.block_acceptance(p, q, proposed)
    if inputs.greedy:
        return [float(inputs.draws is not None and inputs.draws[index] == proposed[index]) for index in range(judged)]
    if rule == "match":
        chances = [p[index].of(proposed[index]) for index in range(judged)]
    else:
        chances = [analysis.coupled_acceptance(p[index], q[index], proposed[index]) for index in range(judged)]
    return [None if round.proposals[index].rank else chance for index, chance in enumerate(chances)]


def _margins(inputs: AnalysisInputs, count: int) -> list[float | None]:
    """Returns the gap of the two best scores at each emitted position where the target's token is an arg-max, else None."""
    if inputs.greedy:
        gaps = [analysis.margin(inputs.p[row]) for row in inputs.path[:count]]
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
    acceptance: float | None,
    text_of: Callable[[int], str],
) -> Proposal:
    token = proposal.id
    return replace(
        proposal,
        q=q.of(token),
        p=p.of(token),
        acceptance=acceptance,
        coin=_coin(inputs, index),
        draft_argmax=None if inputs.draws is None else token,
        target_argmax=None if inputs.draws is None else inputs.draws[index],
        draft_top=q.candidates(text_of),
        target_top=p.candidates(text_of),
    )


def _coin(inputs: AnalysisInputs, index: int) -> float | None:
    """Returns the coin that was compared for a proposal, if there was one."""
    return None if inputs.coins is None or math.isnan(inputs.coins[index]) else inputs.coins[index]


def _unjudged(
    round: Round, inputs: AnalysisInputs, index: int, p: analysis.Row, q: analysis.Row, acceptance: Sequence[float | None]
) -> Proposal:
    """Returns a proposal without a verdict of its own. Of its row only its own p is recorded: it is conditional on text that was
    discarded."""
    # Under `block` the coins and probabilities of all positions decide together, so all are recorded; in a tree those of siblings
    # that were tried.
    proposal, coin = round.proposals[index], _coin(inputs, index)
    shown = coin is not None and (round.rule == "block" or round.is_tree)
    chance = p.of(proposal.id)
    return replace(
        proposal,
        q=q.of(proposal.id),
        p=chance if math.isfinite(chance) else None,
        acceptance=acceptance[index] if shown else None,
        coin=coin if shown else None,
    )
