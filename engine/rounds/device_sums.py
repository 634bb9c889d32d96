"""What the analysis of a round takes of whole vocabularies, summed up and picked out by the device in the round's own graph.

On a GPU the next token would otherwise wait for what the host's processor works out of rows of hundreds of thousands of logits,
which can take longer than the pass of a small model. So the host gets the likeliest tokens, sums, and the masses of groups of
tokens by p / q: some five thousand numbers for each proposal, whatever the vocabulary. What they leave open (a border of top-p
among hundreds of tokens that are equally likely, say) is worked out of the rows, as all of it is where numpy does it faster
(`engine.host`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine import near_ties, theory
from engine.acceptance import Judgement
from engine.drafters.base import Proposals
from engine.rounds import analysis, group_kernel
from engine.rounds.analysis import Floats
from engine.rounds.group_kernel import MASS_UNIT, gathered
from engine.target.distribution import Distribution, less_maximum
from engine.types import DecodingOptions, Expected, Round

LIKELIEST = 16
"""Tokens of each row that the host gets: more than are shown, so that ties show and the heaviest stand alone in closed forms."""
LIKELIEST_UNFILTERED = 128
"""The same before filters: as many as a border of the filters may lie among."""
MOST_UNFILTERED = 512
"""Under a larger top-k its border is found in the row."""
PART = 64
"""Tokens of which the likeliest is found before the likeliest of all are."""

Ids = NDArray[np.int32]


@dataclass(frozen=True)
class DeviceSums:
    """Arrays of the round's lazy graph, by name, as `Sums` describes them."""

    arrays: dict[str, mx.array]

    @classmethod
    def of(
        cls, p: Distribution, proposals: Proposals | None, judgement: Judgement, options: DecodingOptions, greedy: bool
    ) -> DeviceSums:
        """Of a round that has been judged.

        Args:
            p: (gamma + 1, vocab), each given the proposals before it.
            options: those that p was made with. greedy: at temperature 0 there are no closed forms.
        """
        accepted, token = judgement.accepted, judgement.token
        chances = _chances(p.logits, mx.array(p.inverse_temperature))
        best, values = likeliest(p.logits, LIKELIEST)
        arrays = {
            "p_best": best,
            "p_values": values,
            "p_chances": mx.take_along_axis(chances, best, axis=-1),
            "p_token": _of_one(chances, accepted, token),
            "entropy": _entropy(chances),
        }
        if p.unfiltered is not None:
            count = max(LIKELIEST_UNFILTERED, min(options.top_k, MOST_UNFILTERED) + 1)
            listed, arrays["unfiltered_values"] = likeliest(p.unfiltered, count)
            arrays["unfiltered_rest"] = _rest(p.unfiltered, listed)
            arrays["unfiltered_token"] = _of_one(p.unfiltered, accepted, token)
        if proposals is None:
            return cls(arrays)
        drafted = proposals.tokens
        arrays["p_drafted"] = _of_each(chances, drafted)
        # Under match these are the same, and need not be made again.
        is_match = options.rule == "match" and not greedy
        arrays["acceptance"] = arrays["p_drafted"] if is_match else judgement.first_chances(proposals.gamma)
        if p.unfiltered is not None:
            arrays["unfiltered_drafted"] = _of_each(p.unfiltered, drafted)
        if isinstance(proposals.q, Distribution):
            others = _chances(proposals.q.logits, mx.array(proposals.q.inverse_temperature))
            arrays["q_best"], arrays["q_values"] = likeliest(proposals.q.logits, LIKELIEST)
            arrays["q_chances"] = mx.take_along_axis(others, arrays["q_best"], axis=-1)
            arrays["q_drafted"] = _of_each(others, drafted)
            if not greedy:
                arrays |= _together(chances[:-1], others, mx.concatenate([best[:-1], arrays["q_best"]], axis=-1))
        return cls(arrays)

    def on_host(self) -> Sums:
        """Once the arrays have been evaluated."""
        return Sums({name: np.asarray(array) for name, array in self.arrays.items()})


def likeliest(logits: mx.array, count: int) -> tuple[mx.array, mx.array]:
    """Ids and values of the largest of each of (rows, vocab) logits, largest first: (rows, at most count) each.

    They lie in as many parts, those with the largest maxima, so that a few thousand values are sorted, whatever the vocabulary.
    """
    rows, width = logits.shape
    count = min(count, width)
    parts = width // PART
    ids = mx.broadcast_to(mx.arange(width, dtype=mx.int32)[None], logits.shape)
    if parts > count:
        maxima = logits[:, : parts * PART].reshape(rows, parts, PART).max(axis=-1)
        chosen = mx.argpartition(-maxima, kth=count - 1, axis=-1)[:, :count].astype(mx.int32)
        inside = (chosen[:, :, None] * PART + mx.arange(PART, dtype=mx.int32)).reshape(rows, -1)
        ids = mx.concatenate([inside, ids[:, parts * PART :]], axis=-1)
    values = mx.take_along_axis(logits, ids, axis=-1)
    order = mx.argsort(-values, axis=-1)[:, :count]
    return mx.take_along_axis(ids, order, axis=-1), mx.take_along_axis(values, order, axis=-1)


def _of_each(values: mx.array, tokens: mx.array) -> mx.array:
    """(tokens,) the value of one token in each of the first rows."""
    return mx.take_along_axis(values[: tokens.shape[0]], tokens[:, None], axis=-1)[:, 0]


def _of_one(values: mx.array, row: mx.array, token: mx.array) -> mx.array:
    """() the value of a token in a row."""
    return mx.take(mx.take(values, row, axis=0), token)


@mx.compile
def _chances(logits: mx.array, inverse_temperature: mx.array) -> mx.array:
    """(rows, vocab) probabilities. As numpy does, logits are scaled when their maximum has been taken away."""
    return mx.softmax(less_maximum(logits) * inverse_temperature, axis=-1)


@mx.compile
def _rest(logits: mx.array, listed: mx.array) -> mx.array:
    """(rows,) what all tokens but the listed ones weigh, as a multiple of what the likeliest does."""
    return mx.put_along_axis(mx.exp(less_maximum(logits)), listed, mx.array(0.0), axis=-1).sum(axis=-1)


@mx.compile
def _entropy(chances: mx.array) -> mx.array:
    """(rows,) in nats, of (rows, vocab) probabilities."""
    return -mx.where(chances == 0, 0.0, chances * mx.log(chances)).sum(axis=-1)


def _together(p: mx.array, q: mx.array, known: mx.array) -> dict[str, mx.array]:
    """What closed forms take of both sides of each proposal.

    Args:
        p, q: (gamma, vocab) probabilities.
        known: (gamma, tokens) ids that stand alone, some twice; the others are gathered.
    """
    p_rest, q_rest = (mx.put_along_axis(side, known, mx.array(0.0), axis=-1) for side in (p, q))
    match, rejection = _overlaps(p, q)
    return {
        "known": known,
        "p_known": mx.take_along_axis(p, known, axis=-1),
        "q_known": mx.take_along_axis(q, known, axis=-1),
        "match": match,
        "rejection": rejection,
        "p_rest": p_rest.sum(axis=-1),
        "q_rest": q_rest.sum(axis=-1),
        **gathered(p_rest, q_rest)._asdict(),
    }


@mx.compile
def _overlaps(p: mx.array, q: mx.array) -> tuple[mx.array, mx.array]:
    """(rows,) how often match and rejection accept."""
    return (p * q).sum(axis=-1), mx.minimum(p, q).sum(axis=-1)


def prepare() -> None:
    """What takes long the first time, before the first round."""
    group_kernel.available()


class SummedRow(analysis.Shown):
    """One position's distribution, of which some probabilities are known; what they leave open is worked out of the row.

    Args:
        best: ids of the likeliest tokens, in any order among equal ones. values: their logits, largest first.
        chances: the probabilities of these tokens and of some more.
        entropy: None where nobody asks for it.
        whole: makes the row.
    """

    def __init__(
        self, best: Ids, values: Floats, chances: dict[int, float], entropy: float | None, whole: Callable[[], analysis.Row]
    ) -> None:
        self._best = best
        self._values = values
        self._chances = chances
        self._entropy = entropy
        self._make_whole = whole

    @cached_property
    def whole(self) -> analysis.Row:
        """The same of all tokens."""
        return self._make_whole()

    @cached_property
    def top(self) -> tuple[int, ...]:
        """As `Shown` says."""
        count = min(analysis.TOP, len(self._best))
        if len(self._best) == LIKELIEST and self._values[-1] == self._values[count - 1] > -math.inf:
            return self.whole.top  # more tokens may be as likely as the last one
        return tuple(self._best[np.lexsort((self._best, -self._values))][:count].tolist())

    @property
    def entropy(self) -> float:
        """As `Shown` says."""
        return self.whole.entropy if self._entropy is None else max(0.0, self._entropy)

    def of(self, token: int) -> float:
        """As `Shown` says."""
        known = self._chances.get(token)
        return self.whole.of(token) if known is None else known


@dataclass(frozen=True)
class Sums:
    """What the host got of a round's vocabularies.

    Attributes:
        arrays: by name. Of each of the target's rows, (gamma + 1, ...): `p_best`, `p_values`, `p_chances`, the likeliest tokens,
            their logits and probabilities; `entropy` in nats. `p_token`: () the probability of the token after those accepted.

            With proposals, (gamma, ...): `p_drafted`, their probabilities; `acceptance` under the rule in force. With a drafter
            that has a distribution `q_best`, `q_values`, `q_chances`, `q_drafted`. At temperatures above 0 also `known`,
            `p_known`, `q_known`, the likeliest tokens of both sides, some twice; what the others have, `p_rest`, `q_rest`, and
            `group_kernel.Gathered` of them; `match` and `rejection`, the probabilities of these rules.

            With filters, of the logits before them: `unfiltered_values`, the largest; `unfiltered_rest`, what all others weigh as
            a multiple of the first; `unfiltered_token`, `unfiltered_drafted`.
    """

    arrays: Mapping[str, NDArray[Any]]

    @property
    def acceptance(self) -> list[float]:
        """(gamma,) the probability that the rule in force accepts a proposal."""
        return [min(1.0, float(chance)) for chance in self.arrays.get("acceptance", ())]

    def p_row(self, index: int, round: Round, whole: Callable[[], analysis.Row]) -> SummedRow:
        """The target's distribution at a position of a round, of which `whole` makes the row."""
        arrays = self.arrays
        chances = {}
        if index < len(round.proposals):
            chances[round.proposals[index].id] = float(arrays["p_drafted"][index])
        if index == round.accepted < len(round.emitted):
            chances[round.emitted[index].id] = float(arrays["p_token"])
        return self._row("p", index, chances, float(arrays["entropy"][index]), whole)

    def q_row(self, index: int, round: Round, whole: Callable[[], analysis.Row]) -> SummedRow:
        """The same of the drafter."""
        return self._row("q", index, {round.proposals[index].id: float(self.arrays["q_drafted"][index])}, None, whole)

    def _row(
        self, side: str, index: int, chances: dict[int, float], entropy: float | None, whole: Callable[[], analysis.Row]
    ) -> SummedRow:
        best, values, some = (self.arrays[f"{side}_{name}"][index] for name in ("best", "values", "chances"))
        return SummedRow(best, values, dict(zip(best.tolist(), some.tolist(), strict=True)) | chances, entropy, whole)

    def expected(self, index: int, whole: Callable[[], Expected]) -> Expected:
        """The closed forms of a position; where groups leave more open than `theory.GATHERED_TOLERANCE`, those of `whole`."""
        first = np.unique(self.arrays["known"][index], return_index=True)[1]
        p_known, q_known = (self.arrays[name][index][first].astype(np.float64) for name in ("p_known", "q_known"))
        p_masses, q_masses = (self.arrays[name][index] * MASS_UNIT for name in ("p_masses", "q_masses"))
        least, most = (self.arrays[name][index].view(np.float32) for name in ("least", "most"))
        rest = float(self.arrays["p_rest"][index]), float(self.arrays["q_rest"][index])
        lower, upper = theory.gumbel_bounds((p_known, q_known), rest, (p_masses, q_masses), least, most)
        if not upper - lower <= theory.GATHERED_TOLERANCE:
            return whole()
        match, rejection = (min(1.0, float(self.arrays[name][index])) for name in ("match", "rejection"))
        return Expected(match, upper, rejection)

    def margin(self, index: int) -> float:
        """Gap between the two largest logits of the target at a position; infinite if only one token is possible."""
        values = self.arrays["p_values"][index]
        return float(values[0] - values[1]) if len(values) > 1 else math.inf

    def border(self, index: int, round: Round, options: DecodingOptions, whole: Callable[[], float | None]) -> float | None:
        """As `analysis.border` of the token emitted at a position; that of `whole` where the host did not get enough for it."""
        own = float(self.arrays["unfiltered_token"] if index == round.accepted else self.arrays["unfiltered_drafted"][index])
        values, rest = self.arrays["unfiltered_values"][index], float(self.arrays["unfiltered_rest"][index])
        are_all = rest == 0
        reaches = not 0 < options.top_p < 1 or values[-1] < own - near_ties.RANGE
        if not are_all and (options.top_k >= len(values) or not reaches):
            return whole()
        return analysis.border_among(own, np.delete(values, np.flatnonzero(values == own)[:1]), options, rest)
