"""Verdict on a round's proposals, and the data for its analysis.

The rules are the same on every device; `Distribution` implements them for the CPU back-end, too. Data that only the analysis
needs is computed in the round's graph on a device, and deferred if numpy draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
import numpy as np

from engine.acceptance import JUDGES, Judgement, RoundNoise, greedy, likeliest
from engine.decode.recording.other_draws import HostDraws, OtherDraws, later_draws, other_draws
from engine.decode.recording.record import EvaluatedRound
from engine.decode.tree_verification import TreeVerification
from engine.drafters.draft import DraftTree
from engine.noise.source import check_drawn
from engine.target.distribution import Distribution
from engine.types import DecodingOptions


@dataclass(frozen=True)
class Verification:
    """A judged round without branches that may not have been evaluated yet.

    Attributes:
        p: (rows, vocab) the target's distributions.
        others: the draws that other rules would compare, if a device makes them; None if nothing needs them, or numpy makes them
            later.
    """

    p: Distribution
    proposals: DraftTree
    judgement: Judgement
    noise: RoundNoise
    others: OtherDraws | None

    def arrays(self, analyse: bool) -> list[mx.array]:
        """Returns all arrays that the host reads."""
        judgement, q = self.judgement, self.proposals.q
        arrays = [judgement.accepted, judgement.token, self.proposals.drafted]
        if not analyse:
            return arrays
        possible = (self.p.logits, self.p.unfiltered, judgement.margins, judgement.coins, judgement.draws)
        arrays += [array for array in possible if array is not None]
        if judgement.coins is not None:
            arrays.append(judgement.acceptance)
        if isinstance(q, Distribution):
            arrays.append(q.logits)
        return arrays if self.others is None else [*arrays, *self.others.arrays]

    def evaluated(self, options: DecodingOptions) -> EvaluatedRound:
        """Returns the verdict as host values, once the arrays have been evaluated."""
        accepted, token = (int(np.asarray(each)) for each in (self.judgement.accepted, self.judgement.token))
        drafted = [int(token) for token in np.asarray(self.proposals.drafted)]
        check_drawn([*drafted, token])
        others: OtherDraws | HostDraws | None = self.others
        if options.analyse and drafted and self.p.is_known:
            others = later_draws(options.rule, self.proposals, self.judgement, self.noise)
        return EvaluatedRound(
            self.noise.position,
            options.rule,
            drafted,
            range(accepted + 1),
            range(1, len(drafted) + 1),
            token,
            self.p,
            self.proposals,
            self.judgement,
            others,
        )


def verify(options: DecodingOptions, p: Distribution, proposals: DraftTree, noise: RoundNoise) -> Verification | TreeVerification:
    """Judges proposals under the rule of `options`, or at temperature 0 by the arg-max; without proposals, draws the plain
    token."""
    if not proposals.is_chain:
        return TreeVerification.of(options, p, proposals, noise)
    is_greedy, others = options.temperature == 0, None
    if not proposals.size:
        draws, margins = (likeliest(p), None) if is_greedy else noise.shared_and_margins(p)
        judgement = Judgement(mx.array(0), draws[0], mx.zeros((0,)), draws=draws, margins=margins)
    else:
        judge = greedy if is_greedy else JUDGES[options.rule]
        judgement = judge(p, proposals.q, proposals.drafted, noise)
        if options.analyse and not is_greedy and not p.is_known:
            others = other_draws(options.rule, p, proposals, judgement, noise)
    return Verification(p, proposals, judgement, noise, others)
