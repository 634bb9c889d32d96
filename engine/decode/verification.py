"""Verdict on a round's proposals, and the data for its analysis.

The rules are the same on every device; `Distribution` implements them for the CPU back-end, too. Data that only the analysis
needs is computed in the round's graph on a device, and deferred if numpy draws. `verifier` chooses once per answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import mlx.core as mx
import numpy as np

from engine.acceptance import JUDGES, Judgement, RoundNoise, greedy, likeliest
from engine.decode.recording.other_draws import HostDraws, OtherDraws, later_draws, other_draws
from engine.decode.recording.record import EvaluatedRound
from engine.decode.tree_verification import TreeVerification
from engine.drafters.draft import DraftTree
from engine.machine.host import computes_on_host
from engine.noise.source import check_drawn
from engine.target.distribution import Distribution, Shaper
from engine.types import DecodingOptions


@dataclass(frozen=True)
class Verification:
    """A judged round that may not have been evaluated yet.

    Attributes:
        p: (rows, vocab) the target's distributions.
        others: the draws that other rules would compare. None without analysis.
    """

    p: Distribution
    proposals: DraftTree | None
    judgement: Judgement
    others: OtherDraws | HostDraws | None = None

    def arrays(self, analyse: bool) -> list[mx.array]:
        """Returns all arrays that the host reads."""
        judgement, proposals, p = self.judgement, self.proposals, self.p
        arrays = [judgement.accepted, judgement.token]
        if proposals is not None:
            arrays.append(proposals.drafted)
        if not analyse:
            return arrays
        arrays += [array for array in (p.logits, p.unfiltered) if array is not None]
        arrays += [array for array in (judgement.margins, judgement.coins, judgement.draws) if array is not None]
        if judgement.coins is not None and isinstance(judgement.chances, mx.array):
            arrays.append(judgement.chances)
        if proposals is not None and isinstance(proposals.q, Distribution):
            arrays.append(proposals.q.logits)
        if isinstance(self.others, OtherDraws):
            arrays += self.others.arrays
        return arrays


class Verifier:
    """Judges the rounds of one answer in the lazy graph.

    Args:
        shaper: makes the target's distributions; at temperature 0 every rule compares with the arg-max.
        analyse: whether the round will be analysed.
    """

    def __init__(self, shaper: Shaper, analyse: bool) -> None:
        self._shaper = shaper
        self._analyse = analyse

    def verify(
        self, options: DecodingOptions, p: Distribution, proposals: DraftTree | None, noise: RoundNoise
    ) -> Verification | TreeVerification:
        """Judges proposals under the rule of `options`; without proposals, draws the plain token."""
        if proposals is not None and not proposals.is_chain:
            return TreeVerification.of(options, p, proposals, noise)
        judgement = self._judge(options, p, proposals, noise)
        verification = Verification(p, proposals, judgement)
        return self._with_analysis(options, verification, noise) if self._analyse else verification

    def evaluated(
        self, options: DecodingOptions, verification: Verification | TreeVerification, position: int, noise: RoundNoise
    ) -> EvaluatedRound:
        """Returns the verdict as host values, once the arrays have been evaluated."""
        if isinstance(verification, TreeVerification):
            return verification.evaluated(options, position)
        judgement, proposals = verification.judgement, verification.proposals
        accepted, token = _integers(judgement.accepted)[0], _integers(judgement.token)[0]
        drafted = [] if proposals is None else _integers(proposals.drafted)
        check_drawn([*drafted, token])
        return EvaluatedRound(
            position,
            options.rule,
            drafted,
            accepted,
            token,
            verification.p,
            proposals,
            judgement,
            verification.others,
        )

    def _judge(self, options: DecodingOptions, p: Distribution, proposals: DraftTree | None, noise: RoundNoise) -> Judgement:
        if proposals is None:
            draws, margins = (likeliest(p), None) if self._shaper.greedy else noise.shared_and_margins(p)
            return Judgement(mx.array(0), draws[0], mx.zeros((0,)), draws=draws, margins=margins)
        judge = greedy if self._shaper.greedy else JUDGES[options.rule]
        return judge(p, proposals.q, proposals.drafted, noise)

    def _with_analysis(self, options: DecodingOptions, verification: Verification, noise: RoundNoise) -> Verification:
        """Adds draws for the analysis to the round's graph."""
        p, proposals, judgement, is_greedy = verification.p, verification.proposals, verification.judgement, self._shaper.greedy
        return replace(
            verification,
            others=None if proposals is None else other_draws(options.rule, p, proposals, judgement, noise, is_greedy),
        )


class HostVerifier(Verifier):
    """Same as `Verifier` for the CPU back-end, where numpy draws: data that only the analysis needs is deferred."""

    def _with_analysis(self, options: DecodingOptions, verification: Verification, noise: RoundNoise) -> Verification:
        """Adds nothing yet: the round has not been evaluated."""
        return verification

    def evaluated(
        self, options: DecodingOptions, verification: Verification | TreeVerification, position: int, noise: RoundNoise
    ) -> EvaluatedRound:
        """Adds the noise and rows from which the analysis of a chain draws for other rules."""
        if isinstance(verification, Verification) and verification.proposals is not None and self._analyse:
            others = later_draws(options.rule, verification.proposals, verification.judgement, noise, self._shaper.greedy)
            verification = replace(verification, others=others)
        return super().evaluated(options, verification, position, noise)


def verifier(shaper: Shaper, analyse: bool) -> Verifier:
    """Returns the verifier that suits the device."""
    return HostVerifier(shaper, analyse) if computes_on_host() else Verifier(shaper, analyse)


def _integers(array: mx.array) -> list[int]:
    return [int(value) for value in np.asarray(array).reshape(-1)]
