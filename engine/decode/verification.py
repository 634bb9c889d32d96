"""The verdict on a round's proposals, and what the analysis will want to know of it.

There are two ways. On a device everything stays in the round's lazy graph, which the loop evaluates once. On the CPU back-end
numpy judges (`engine.host`), so what no logits are needed for is made while the target computes, and what only the analysis needs
is left for later. `verifier` chooses once for an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import mlx.core as mx
import numpy as np

from engine import near_ties
from engine.acceptance import JUDGES, Judgement, RoundNoise, greedy, likeliest, make_for_verdict
from engine.drafters.draft import DraftTree
from engine.host import computes_on_host
from engine.noise import NoiseSource, check_drawn
from engine.noise_reference import Stream
from engine.rounds.other_draws import HostDraws, OtherDraws, later_draws, other_draws
from engine.rounds.record import EvaluatedRound
from engine.target.distribution import Distribution, Floats, Shaper
from engine.types import INVARIANT_RULES, RATIO_RULES, DecodingOptions

Margins = mx.array | Floats | Sequence[Stream]


@dataclass(frozen=True)
class Verification:
    """A judged round that need not have been evaluated yet.

    Attributes:
        p: (rows, vocab) the target's distributions.
        margins: of the draws with shared noise, of all rows or those that were judged, or the noise that they were made with;
            None where the target's token is no such draw.
        others: what other rules would compare; None without analysis.
    """

    p: Distribution
    proposals: DraftTree | None
    judgement: Judgement
    margins: Margins | None = None
    others: OtherDraws | HostDraws | None = None

    def arrays(self, analyse: bool) -> list[mx.array]:
        """Returns everything that the host will look at."""
        judgement, proposals, p = self.judgement, self.proposals, self.p
        arrays = [judgement.accepted, judgement.token]
        if proposals is not None:
            arrays.append(proposals.drafted)
        if not analyse:
            return arrays
        arrays += [array for array in (p.logits, p.unfiltered) if array is not None]
        arrays += [array for array in (self.margins, judgement.coins, judgement.draws) if isinstance(array, mx.array)]
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
        analyse: whether more than the verdict is wanted.
    """

    def __init__(self, shaper: Shaper, analyse: bool) -> None:
        self._shaper = shaper
        self._analyse = analyse
        self._reach = near_ties.RANGE * shaper.inverse_temperature if analyse else 0.0

    def noise(self, source: NoiseSource, position: int) -> RoundNoise:
        """Returns the randomness of the round whose first token stands at this position."""
        return RoundNoise(source, position, reach=self._reach)

    def plain_noise(self, source: NoiseSource, position: int) -> RoundNoise:
        """Returns the same for a round without proposals, whose draw stays in the graph so that more can be queued behind it."""
        return RoundNoise(source, position, lazy=True)

    def prepare(self, options: DecodingOptions, logits: mx.array, proposals: DraftTree | None, noise: RoundNoise) -> None:
        """May make what the verdict needs besides the (rows, vocab) logits, while these are being computed."""

    def verify(self, options: DecodingOptions, p: Distribution, proposals: DraftTree | None, noise: RoundNoise) -> Verification:
        """Judges proposals under the rule of `options`; without any, draws the plain token."""
        judgement = self._judge(options, p, proposals, noise)
        verification = Verification(p, proposals, judgement)
        if not self._analyse:
            return verification
        is_greedy = self._shaper.greedy
        return replace(
            verification,
            margins=self._margins(judgement, p, noise) if self._draws_shared(options, proposals) else None,
            others=None if proposals is None else other_draws(options.rule, p, proposals, judgement, noise, is_greedy),
        )

    def evaluated(self, options: DecodingOptions, verification: Verification, position: int, noise: RoundNoise) -> EvaluatedRound:
        """Returns the verdict as host values, once the arrays have been evaluated."""
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
            verification.margins,
            verification.others,
        )

    def _judge(self, options: DecodingOptions, p: Distribution, proposals: DraftTree | None, noise: RoundNoise) -> Judgement:
        if proposals is None:
            draws = likeliest(p) if self._shaper.greedy else noise.shared(p)
            return Judgement(mx.array(0), draws[0], mx.zeros((0,)), draws=draws)
        judge = greedy if self._shaper.greedy else JUDGES[options.rule]
        return judge(p, proposals.q, proposals.drafted, noise)

    def _draws_shared(self, options: DecodingOptions, proposals: DraftTree | None) -> bool:
        """Returns whether the target's tokens are draws with the shared noise."""
        return not self._shaper.greedy and (proposals is None or options.rule in INVARIANT_RULES)

    def _margins(self, judgement: Judgement, p: Distribution, noise: RoundNoise) -> Margins:
        return noise.margins(p) if judgement.margins is None else judgement.margins


class HostVerifier(Verifier):
    """The same where numpy judges: prepares beside the target's pass, and leaves to the analysis what no verdict needs."""

    def prepare(self, options: DecodingOptions, logits: mx.array, proposals: DraftTree | None, noise: RoundNoise) -> None:
        """Makes noise, coins and the drafter's weights."""
        if self._draws_shared(options, proposals) and not self._shaper.filters:
            noise.prepare("shared", 0, int(logits.shape[0]), logits, "verify")
        if proposals is not None and not self._shaper.greedy and options.rule in RATIO_RULES:
            make_for_verdict(proposals.q, noise)

    def verify(self, options: DecodingOptions, p: Distribution, proposals: DraftTree | None, noise: RoundNoise) -> Verification:
        """Judges in numpy; draws for other rules are left to `evaluated`."""
        judgement = self._judge(options, p, proposals, noise)
        is_wanted = self._analyse and self._draws_shared(options, proposals)
        return Verification(p, proposals, judgement, self._margins(judgement, p, noise) if is_wanted else None)

    def evaluated(self, options: DecodingOptions, verification: Verification, position: int, noise: RoundNoise) -> EvaluatedRound:
        """Adds the noise and rows from which the analysis draws for other rules."""
        proposals = verification.proposals
        if proposals is not None and self._analyse:
            others = later_draws(options.rule, proposals, verification.judgement, noise, self._shaper.greedy)
            verification = replace(verification, others=others)
        return super().evaluated(options, verification, position, noise)

    def _margins(self, judgement: Judgement, p: Distribution, noise: RoundNoise) -> Margins:
        return noise.shared_streams(p.rows) if judgement.margins is None else judgement.margins


def verifier(shaper: Shaper, analyse: bool) -> Verifier:
    """Returns the way of judging that suits the device."""
    return HostVerifier(shaper, analyse) if computes_on_host() else Verifier(shaper, analyse)


def _integers(array: mx.array) -> list[int]:
    return [int(value) for value in np.asarray(array).reshape(-1)]
