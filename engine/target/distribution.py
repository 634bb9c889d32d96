"""Distributions over the target's token ids, and their computation from a model's logits.

A distribution is stored as the scores that noise is added to, not as probabilities: the Gumbel-max draw and its kernel need
logits, and a probability is only computed if a rule or an analysis needs it.

All arithmetic over the vocabulary for drafting and for the rules is a method of `Distribution`. There are two implementations: in
the lazy graph, and with numpy (`HostDistribution`), because MLX's CPU back-end takes ten times as long for an exponential. A
`Shaper` decides once which of them it makes; other code does not distinguish them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Self

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx_lm.sample_utils import apply_top_k, apply_top_p

from engine.machine.host import computes_on_host
from engine.noise.source import NO_TOKEN, NoiseSource
from engine.types import DecodingOptions

Floats = npt.NDArray[np.float32]
Weighed = tuple[Floats, float]
"""(vocab,) weights proportional to the probabilities, the largest 1, and their sum."""

LARGEST_INVERSE_TEMPERATURE = 1e30
"""Upper limit of 1/T. Above it float32(1/T) soon overflows, and infinity times a difference of 0 is not a number. Long before
that, any two different logits are further apart than noise reaches."""
MAX_DIRECT_SCALE = 10.0
"""Largest 1/T at which logits are scaled directly. Above it float32 keeps ever fewer digits of the product: for a logit of 20 at
T = 1e-6 none for a difference of 1 or for noise. So each row's maximum is subtracted first, which costs a pass over the row."""
EXACT_BELOW = 64.0
"""If the largest scaled logit of a row is below this, its exponentials are within 1e-5 of those computed after subtracting it."""
SMALLEST_INVERSE_TEMPERATURE = 1e-30
"""Lower limit of 1/T. Below it every logit has the same weight, and far below it float32(1/T) is 0, and 0 times a masked -inf is
not a number."""


class HostRow:
    """One distribution that numpy computes with; everything is computed on first use and cached."""

    def __init__(self, logits: Floats, inverse_temperature: float) -> None:
        self.logits = logits
        self._scale = np.float32(inverse_temperature)

    @cached_property
    def likeliest(self) -> int:
        """The token with the largest logit, ties to the lowest id; if any logit is NaN, such a token."""
        return int(self.logits.argmax())

    @cached_property
    def _weighed(self) -> tuple[Floats, np.float32, np.float32]:
        """(vocab,) read-only weights proportional to the probabilities; their sum; the log-normaliser."""
        with np.errstate(all="ignore"):
            highest = self.logits[self.likeliest] * self._scale
            finite = highest if math.isfinite(highest) else np.float32(0)
            scores = self.logits * self._scale
            scores -= finite
            weights = np.exp(scores, out=scores)
            total = weights.sum()
            return weights, total, np.float32(np.log(total) + finite)

    @property
    def weighed(self) -> Weighed | None:
        """Weights and their sum; None if they have not been computed yet, or are less exact than possible because scores were
        scaled before the largest was subtracted."""
        known = self.__dict__.get("_weighed")
        if known is None or not known[1] > 0 or not abs(self.logits[self.likeliest] * self._scale) < EXACT_BELOW:
            return None
        return known[0], float(known[1])

    @property
    def normaliser(self) -> np.float32:
        """Log of the sum of the exponentials of all scores."""
        return self._weighed[2]

    @property
    def probabilities(self) -> Floats:
        """(vocab,) probabilities, a new array. NaN without a finite logit."""
        weights, total, _ = self._weighed
        with np.errstate(all="ignore"):
            return weights * (np.float32(1) / total)

    def logarithm(self, token: int) -> np.float32:
        """Returns the log-probability of one token."""
        with np.errstate(all="ignore"):
            return np.float32(self.logits[token] * self._scale - self.normaliser)


class Distribution:
    """Rows of categorical distributions in the lazy graph: probability proportional to exp(logits * inverse_temperature).

    Args:
        logits: (rows, vocab) float32; masked tokens are -inf.
        inverse_temperature: 1/T.
        unfiltered: (rows, vocab) float32, the logits before filters masked some; None without a filter.

    Attributes:
        is_known: whether the logits have been evaluated.
    """

    is_known = False

    def __init__(self, logits: mx.array, inverse_temperature: float = 1.0, unfiltered: mx.array | None = None) -> None:
        self.logits = logits
        self.inverse_temperature = inverse_temperature
        self.unfiltered = unfiltered

    @classmethod
    def from_probabilities(cls, probabilities: mx.array) -> Self:
        """Makes distributions from (rows, vocab) or (vocab,) probabilities, normalised or not."""
        rows = mx.array(probabilities).astype(mx.float32)
        return cls(mx.log(rows if rows.ndim == 2 else rows[None]))

    @staticmethod
    def without_nan(logits: mx.array) -> mx.array:
        """Returns the logits with NaN replaced by -inf."""
        return mx.where(mx.isnan(logits), -math.inf, logits)

    @property
    def rows(self) -> int:
        """Number of distributions."""
        return self.logits.shape[0]

    @property
    def vocab_size(self) -> int:
        """Width of the logits."""
        return self.logits.shape[1]

    @cached_property
    def scores(self) -> mx.array:
        """(rows, vocab) float32: log-probabilities up to one constant per row."""
        return self.logits * self.inverse_temperature

    @cached_property
    def log_normaliser(self) -> mx.array:
        """(rows, 1) float32 log-normalisers."""
        return mx.logsumexp(self.scores, axis=-1, keepdims=True)

    @cached_property
    def probabilities(self) -> mx.array:
        """(rows, vocab) float32."""
        return mx.exp(self.scores - self.log_normaliser)

    def probability_of(self, ids: mx.array) -> mx.array:
        """Returns (rows,) float32: the probability of one id per row."""
        picked = mx.take_along_axis(self.scores, ids[:, None], axis=-1)
        return mx.exp(picked - self.log_normaliser)[:, 0]

    @property
    def weighed(self) -> Sequence[Weighed | None]:
        """For each row the weights that are already computed, so that an analysis can reuse them; None if there are none."""
        return [None] * self.rows

    def row(self, index: int | mx.array) -> Distribution:
        """Returns one row as a distribution of its own; the index may be part of the lazy graph."""
        if isinstance(index, int):
            return self.part(index, index + 1)
        return Distribution(mx.take(self.logits, index.reshape(1), axis=0), self.inverse_temperature)

    def first(self, rows: int) -> Self:
        """Returns the first `rows` rows as distributions of their own."""
        return self.part(0, rows)

    def part(self, first: int, end: int) -> Self:
        """Returns the rows from `first` to before `end` as distributions of their own."""
        return type(self)(self.logits[first:end], self.inverse_temperature)

    @classmethod
    def joined(cls, parts: Sequence[Distribution]) -> Distribution:
        """Concatenates the rows of several distributions of the same type and temperature."""
        return type(parts[0])._joined(parts)

    @classmethod
    def _joined(cls, parts: Sequence[Distribution]) -> Distribution:
        return cls(mx.concatenate([part.logits for part in parts]), parts[0].inverse_temperature)

    def residual(self, q: Distribution | OneHot, index: mx.array, scale: mx.array) -> Distribution:
        """Returns the normalised (scale * p - q)+ of the row at an index, or p if that is empty; p is this distribution."""
        p_row = self.row(index).probabilities
        excess = mx.maximum(scale * p_row - q.row(index).probabilities, 0.0)
        # NaN stays NaN, and no token is drawn
        return Distribution.from_probabilities(mx.where(excess.sum() == 0, p_row, excess))

    def residual_mass(self, target: Distribution, scale: mx.array) -> mx.array:
        """Returns (rows,): sum over tokens of max(scale * p - q, 0), row by row; this distribution is q, and `target` is p."""
        return mx.maximum(scale[:, None] * target.probabilities - self.probabilities, 0.0).sum(axis=-1)

    def drawn(
        self, source: NoiseSource, positions: Sequence[int] | mx.array, domain: str, round_position: int
    ) -> tuple[mx.array, mx.array]:
        """Returns (rows,) ids, each drawn with the noise of its position, and the margins of their scores over the second
        best."""
        return source.argmax_and_margin(self.logits, self.inverse_temperature, positions, domain, round_position)

    def without(self, ids: mx.array) -> Self:
        """Returns the distributions with one token of each row masked. `ids`: (rows,); NO_TOKEN masks nothing."""
        at = mx.arange(self.vocab_size)[None] == ids[:, None]
        return type(self)(mx.where(at, -mx.inf, self.logits), self.inverse_temperature)

    def first_draws(
        self, source: NoiseSource, positions: Sequence[int], domain: str, round_position: int, count: int
    ) -> tuple[mx.array, mx.array]:
        """Returns (rows, count) ids, each row drawn with the noise of its position without replacement: the tokens with the
        largest scores, largest first; and (rows, count) float32, how far each score is below the row's first. NO_TOKEN and inf
        where no finite score is left."""
        left, found, gaps = self, list[mx.array](), [mx.zeros((self.rows,))]
        for rank in range(count):
            left = left.without(found[-1]) if rank else left
            token, margin = left.drawn(source, positions, domain, round_position)
            found.append(token)
            gaps.append(gaps[-1] + margin)
        ids = mx.stack(found, axis=1)
        return ids, mx.where(ids == NO_TOKEN, mx.inf, mx.stack(gaps[:count], axis=1))

    def likeliest(self, count: int) -> tuple[mx.array, mx.array]:
        """Returns (rows, count) ids of the largest logits, largest first, ties to the lowest id; and (rows, count) float32, how
        far each is below the row's largest. NO_TOKEN and inf where no finite one is left."""
        left, found, logits = self.logits, list[mx.array](), list[mx.array]()
        for _ in range(count):
            best = mx.argmax(left, axis=-1, keepdims=True)
            logits.append(mx.take_along_axis(left, best, axis=-1))
            found.append(mx.where(logits[-1] > -mx.inf, best.astype(mx.int32), NO_TOKEN))
            left = mx.put_along_axis(left, best, mx.array(-mx.inf), axis=-1)
        ids, best = mx.concatenate(found, axis=1), mx.concatenate(logits, axis=1)
        return ids, mx.where(ids == NO_TOKEN, mx.inf, best[:, :1] - best)

    def drawn_until(
        self, proposals: mx.array, draw: Callable[[Distribution, int], tuple[mx.array, mx.array]]
    ) -> tuple[mx.array, mx.array]:
        """Returns ids and margins of rows, at least up to the first id that differs from its proposal.

        Args:
            proposals: (rows - 1,) ids. draw: called with a distribution and the index of its first row; returns ids and margins.
        """
        return draw(self, 0)

    def either(self, condition: mx.array, one: Callable[[], mx.array], other: Callable[[], mx.array]) -> mx.array:
        """Returns `one()` if a () condition holds, else `other()`. If the condition is known, only one of them is computed."""
        return mx.where(condition, one(), other())


class HostDistribution(Distribution):
    """Same as `Distribution`, but computed by numpy immediately, and only for the rows that are used.

    Arguments as in `Distribution`; the logits are evaluated.
    """

    is_known = True

    def __init__(
        self,
        logits: mx.array,
        inverse_temperature: float = 1.0,
        unfiltered: mx.array | None = None,
        rows: Sequence[HostRow] | None = None,
    ) -> None:
        """`rows`: the same logits as `HostRow` objects, if some results are already cached in them."""
        super().__init__(logits, inverse_temperature, unfiltered)
        self._rows = [HostRow(row, inverse_temperature) for row in np.asarray(logits)] if rows is None else rows

    @staticmethod
    def without_nan(logits: mx.array) -> mx.array:
        """As in `Distribution`."""
        return Distribution.without_nan(logits) if math.isnan(np.asarray(logits).max()) else logits

    @cached_property
    def log_normaliser(self) -> mx.array:
        """As in `Distribution`."""
        return mx.array(np.array([[row.normaliser] for row in self._rows], np.float32))

    @cached_property
    def probabilities(self) -> mx.array:
        """As in `Distribution`."""
        return mx.array(np.stack([row.probabilities for row in self._rows]))

    def probability_of(self, ids: mx.array) -> mx.array:
        """As in `Distribution`."""
        picked = [row.logarithm(int(token)) for row, token in zip(self._rows, np.asarray(ids), strict=True)]
        return mx.exp(mx.array(np.array(picked, np.float32)))

    @property
    def weighed(self) -> Sequence[Weighed | None]:
        """As in `Distribution`."""
        return [row.weighed for row in self._rows]

    def row(self, index: int | mx.array) -> Distribution:
        """As in `Distribution`."""
        return self.part(int(index), int(index) + 1)

    def part(self, first: int, end: int) -> Self:
        """As in `Distribution`."""
        return type(self)(self.logits[first:end], self.inverse_temperature, rows=self._rows[first:end])

    @classmethod
    def _joined(cls, parts: Sequence[Distribution]) -> Distribution:
        rows = [row for part in parts if isinstance(part, HostDistribution) for row in part._rows]
        return cls(mx.concatenate([part.logits for part in parts]), parts[0].inverse_temperature, rows=rows)

    def residual(self, q: Distribution | OneHot, index: mx.array, scale: mx.array) -> Distribution:
        """As in `Distribution`."""
        p_row = self._rows[int(index)].probabilities
        excess = p_row * np.asarray(scale) - np.asarray(q.row(index).probabilities)[0]
        np.maximum(excess, 0, out=excess)
        with np.errstate(divide="ignore"):
            return HostDistribution(mx.array(np.log(excess if excess.sum() != 0 else p_row)[None]))

    def drawn(
        self, source: NoiseSource, positions: Sequence[int] | mx.array, domain: str, round_position: int
    ) -> tuple[mx.array, mx.array]:
        """As in `Distribution`."""
        places: list[int] = np.asarray(positions).tolist()
        found = [
            source.draw(row.logits, self.inverse_temperature, place, domain, round_position)
            for row, place in zip(self._rows, places, strict=True)
        ]
        return mx.array([token for token, _ in found], mx.int32), mx.array(np.array([margin for _, margin in found]))

    def first_draws(
        self, source: NoiseSource, positions: Sequence[int], domain: str, round_position: int, count: int
    ) -> tuple[mx.array, mx.array]:
        """Returns what `Distribution.first_draws` does, from one search a row instead of a draw for each rank."""
        found = [
            source.first_draws(row.logits, self.inverse_temperature, place, domain, round_position, count)
            for row, place in zip(self._rows, positions, strict=True)
        ]
        return mx.array([ids for ids, _ in found], mx.int32), mx.array([gaps for _, gaps in found], mx.float32)

    def drawn_until(
        self, proposals: mx.array, draw: Callable[[Distribution, int], tuple[mx.array, mx.array]]
    ) -> tuple[mx.array, mx.array]:
        """As in `Distribution`."""
        found: list[tuple[mx.array, mx.array]] = []
        for index, proposal in enumerate([*np.asarray(proposals), None]):
            found.append(draw(self.row(index), index))
            if found[-1][0].item() != proposal:
                break
        return mx.concatenate([token for token, _ in found]), mx.concatenate([margin for _, margin in found])

    def either(self, condition: mx.array, one: Callable[[], mx.array], other: Callable[[], mx.array]) -> mx.array:
        """As in `Distribution`."""
        return one() if condition.item() else other()


class OneHot:
    """Distribution of a deterministic drafter: all mass on one id per row.

    Separate from `Distribution` so that a 64-token draft does not cost 64 rows of the vocabulary.

    Args:
        ids: (rows,) the proposed tokens.
        vocab_size: width of the target's logits.
    """

    def __init__(self, ids: mx.array, vocab_size: int) -> None:
        self.ids = ids
        self.vocab_size = vocab_size

    @property
    def rows(self) -> int:
        """Number of distributions."""
        return self.ids.shape[0]

    @cached_property
    def probabilities(self) -> mx.array:
        """(rows, vocab) float32, computed on first use."""
        return (mx.arange(self.vocab_size)[None] == self.ids[:, None]).astype(mx.float32)

    def probability_of(self, ids: mx.array) -> mx.array:
        """Returns (rows,) float32: 1 if the id is the row's own, else 0."""
        return (ids == self.ids).astype(mx.float32)

    def row(self, index: int | mx.array) -> OneHot:
        """As in `Distribution`."""
        return OneHot(mx.take(self.ids, mx.array(index).reshape(1)), self.vocab_size)

    def residual_mass(self, target: Distribution, scale: mx.array) -> mx.array:
        """As in `Distribution`. Only the proposed token has q > 0, and scale * p - 1 is never positive there."""
        return scale * (1.0 - target.probability_of(self.ids))


class Shaper:
    """Computes the distribution that the options define from a model's logits, the same way for target and drafter.

    The order of steps and the values that turn them off are mlx-lm's (`mlx_lm.sample_utils.make_sampler`): penalties,
    log-probabilities, top-p, min-p, top-k, then temperature. At temperature 0 the filters are skipped and the penalties are not.

    Args:
        options: the decoding options.
        known: (vocab,) bool, the ids in the target's tokenizer; None if it has all.
    """

    def __init__(self, options: DecodingOptions, known: mx.array | None = None) -> None:
        self.options = options
        self.known = known
        temperature = options.temperature
        self.greedy = temperature == 0
        wanted = 1.0 if self.greedy else 1 / temperature
        self.inverse_temperature = min(max(wanted, SMALLEST_INVERSE_TEMPERATURE), LARGEST_INVERSE_TEMPERATURE)
        self._on = options.filters_on
        self.penalises = "repetition_penalty" in self._on
        self.filters = any(name != "repetition_penalty" for name in self._on)
        self._made = HostDistribution if computes_on_host() and not self.greedy else Distribution

    def shape(
        self,
        logits: mx.array,
        history: Sequence[int] | mx.array,
        proposals: mx.array | None = None,
        lazy: bool = False,
        before: Sequence[Sequence[int]] | None = None,
    ) -> Distribution:
        """Returns the distributions of consecutive positions, or of the nodes of a tree.

        Args:
            logits: (rows, vocab) of any float type.
            history: ids before the first row: prompt and committed tokens. Only the latest `repetition_context` matter.
            proposals: (rows - 1,) or more ids: row i follows the first i of them.
            lazy: keeps the logits in the graph, so that more can be queued after them.
            before: for each row the indexes of the proposals that it follows, in order, if those are not the first ones.
        """
        kind = Distribution if lazy else self._made
        logits = kind.without_nan(logits.astype(mx.float32))
        if self.known is not None:
            logits = mx.where(self.known, logits, -math.inf)
        if self.penalises:
            logits = self._penalise(logits, history, proposals, before)
        filtered = self._filter(logits)
        whole = None if filtered is logits else logits
        if self.inverse_temperature > MAX_DIRECT_SCALE:
            filtered = less_maximum(filtered)
        return kind(filtered, self.inverse_temperature, whole)

    def certain(self, token: int, vocab_size: int) -> Distribution:
        """Returns a distribution with all mass on one token, to be joined with shaped rows."""
        return self._made(mx.where(mx.arange(vocab_size)[None] == token, 0.0, -mx.inf), self.inverse_temperature)

    def _penalise(
        self,
        logits: mx.array,
        history: Sequence[int] | mx.array,
        proposals: mx.array | None,
        before: Sequence[Sequence[int]] | None,
    ) -> mx.array:
        penalty, context = self.options.repetition_penalty, self.options.repetition_context
        tokens = latest(history, context)
        known = tokens.shape[0]
        if proposals is not None:
            tokens = mx.concatenate([tokens, proposals.astype(mx.int32)])
        rows = []
        for index in range(logits.shape[0]):
            row = logits[index]
            if before is None:
                recent = tokens[max(0, known + index - context) : known + index]
            else:
                places = [*range(known), *(known + each for each in before[index])][-context:]
                recent = tokens[mx.array(places, mx.int32)]
            if recent.shape[0]:
                picked = row[recent]
                row[recent] = mx.where(picked < 0, picked * penalty, picked / penalty)
            rows.append(row)
        return mx.stack(rows)

    def _filter(self, logits: mx.array) -> mx.array:
        options, vocab_size = self.options, logits.shape[-1]
        use_top_k = "top_k" in self._on and options.top_k < vocab_size
        if not (use_top_k or "top_p" in self._on or "min_p" in self._on):
            return logits
        log_probabilities = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
        # A Python number would be compiled into the kernel, once for each value. mlx-lm's own min-p accepts nothing else.
        if "top_p" in self._on:
            log_probabilities = apply_top_p(log_probabilities, mx.array(options.top_p))
        if "min_p" in self._on:
            border = mx.max(log_probabilities, axis=-1, keepdims=True) + math.log(options.min_p)
            log_probabilities = mx.where(log_probabilities < border, -math.inf, log_probabilities)
        if use_top_k:
            log_probabilities = apply_top_k(log_probabilities, options.top_k)
        return mx.where(log_probabilities == -math.inf, -math.inf, logits)


def less_maximum(logits: mx.array) -> mx.array:
    """Returns (rows, vocab) logits with each row's maximum subtracted. A row whose maximum is not finite is unchanged."""
    highest = mx.max(logits, axis=-1, keepdims=True)
    return logits - mx.where(mx.isfinite(highest), highest, 0.0)


def latest(history: Sequence[int] | mx.array, count: int) -> mx.array:
    """Returns the last ids of a history, (at most count,) int32."""
    if isinstance(history, mx.array):
        return history[-count:].astype(mx.int32)
    return mx.array(list(history[-count:]), dtype=mx.int32) if history else mx.zeros((0,), dtype=mx.int32)


def onto_target_ids(logits: mx.array, vocab_size: int, target_ids: mx.array | None) -> mx.array:
    """Maps a drafter's logits to the target's token ids; ids that the drafter lacks are -inf.

    Args:
        logits: (rows, draft width) of any float type.
        vocab_size: width of the target's logits.
        target_ids: (draft width,) the target id of every column of a trimmed head; None if the ids are the same.
    """
    logits = logits.astype(mx.float32)
    rows, width = logits.shape
    if target_ids is not None:
        full = mx.full((rows, vocab_size), -math.inf)
        full[:, target_ids] = logits
        return full
    if width < vocab_size:
        return mx.concatenate([logits, mx.full((rows, vocab_size - width), -math.inf)], axis=-1)
    return logits[:, :vocab_size]
