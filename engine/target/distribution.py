"""Distributions over the target's token ids, and the way from a model's logits to them.

A distribution is kept as the scores that noise is added to, not as probabilities: the arg-max draw and its kernel want
logits, and a probability is only computed where a rule or an analysis asks for it.

All arithmetic over the vocabulary that drafting and the rules ask for is a method of `Distribution`. There are two of them: in
the lazy graph, and with numpy (`HostDistribution`), where MLX's CPU back-end would take ten times as long for an exponential. A
`Shaper` decides once which of them it makes, and nobody else asks.
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
from engine.noise.source import NoiseSource
from engine.types import DecodingOptions

Floats = npt.NDArray[np.float32]
Weighed = tuple[Floats, float]
"""(vocab,) weights in proportion to the probabilities, the largest 1, and their sum."""

LARGEST_INVERSE_TEMPERATURE = 1e30
"""Above it float32(1/T) soon overflows, and infinity times a difference of 0 is not a number. Any two logits that differ are
further apart than noise reaches long before."""
SCALED_AS_THEY_ARE = 10.0
"""Up to this 1/T logits are scaled as they come. Above it float32 keeps ever fewer digits of the product, of a logit of 20 at
T = 1e-6 none for a difference of 1 or for noise, so each row is first taken less its maximum, which costs a pass over it."""
EXACT_BELOW = 64.0
"""Below this scaled logit a row's exponentials are within 1e-5 of what they are when its maximum is taken away first."""
SMALLEST_INVERSE_TEMPERATURE = 1e-30
"""Below it every logit weighs the same, and far below it float32(1/T) is 0, and 0 times a masked -inf is not a number."""


class HostRow:
    """One distribution where numpy computes with it; nothing is computed before it is asked for."""

    def __init__(self, logits: Floats, inverse_temperature: float) -> None:
        self.logits = logits
        self._scale = np.float32(inverse_temperature)

    @cached_property
    def likeliest(self) -> int:
        """The token with the largest logit, ties to the lowest id; one that is NaN if any is."""
        return int(self.logits.argmax())

    @cached_property
    def _weighed(self) -> tuple[Floats, np.float32, np.float32]:
        """(vocab,) weights in proportion to the probabilities, not to be changed; their sum; the normaliser."""
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
        """None if they have not been computed, and where they are less exact than they can be: scores were scaled before the
        largest was taken from them."""
        known = self.__dict__.get("_weighed")
        if known is None or not known[1] > 0 or not abs(self.logits[self.likeliest] * self._scale) < EXACT_BELOW:
            return None
        return known[0], float(known[1])

    @property
    def normaliser(self) -> np.float32:
        """The logarithm of the sum of all exponentials of scores."""
        return self._weighed[2]

    @property
    def probabilities(self) -> Floats:
        """(vocab,), a new array. NaN without a finite logit."""
        weights, total, _ = self._weighed
        with np.errstate(all="ignore"):
            return weights * (np.float32(1) / total)

    def logarithm(self, token: int) -> np.float32:
        """Of the probability of one token."""
        with np.errstate(all="ignore"):
            return np.float32(self.logits[token] * self._scale - self.normaliser)


class Distribution:
    """Rows of categorical distributions in the lazy graph: probability proportional to exp(logits * inverse_temperature).

    Args:
        logits: (rows, vocab) float32; masked tokens are -inf.
        inverse_temperature: 1/T.
        unfiltered: (rows, vocab) float32, the logits before filters masked some; None where no filter is on.

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
        """From (rows, vocab) or (vocab,) probabilities, normalised or not."""
        rows = mx.array(probabilities).astype(mx.float32)
        return cls(mx.log(rows if rows.ndim == 2 else rows[None]))

    @staticmethod
    def without_nan(logits: mx.array) -> mx.array:
        """The same logits; what is not a number is -inf."""
        return mx.where(mx.isnan(logits), -math.inf, logits)

    @property
    def rows(self) -> int:
        """How many distributions these are."""
        return self.logits.shape[0]

    @property
    def vocab_size(self) -> int:
        """Width of the logits."""
        return self.logits.shape[1]

    @cached_property
    def scores(self) -> mx.array:
        """(rows, vocab) float32: log-probabilities up to one constant a row."""
        return self.logits * self.inverse_temperature

    @cached_property
    def log_normaliser(self) -> mx.array:
        """(rows, 1) float32."""
        return mx.logsumexp(self.scores, axis=-1, keepdims=True)

    @cached_property
    def probabilities(self) -> mx.array:
        """(rows, vocab) float32."""
        return mx.exp(self.scores - self.log_normaliser)

    def probability_of(self, ids: mx.array) -> mx.array:
        """(rows,) float32: the probability of one id a row."""
        picked = mx.take_along_axis(self.scores, ids[:, None], axis=-1)
        return mx.exp(picked - self.log_normaliser)[:, 0]

    @property
    def weighed(self) -> Sequence[Weighed | None]:
        """Figures of each row that are computed already, so that an analysis can reuse them; None if there are none."""
        return [None] * self.rows

    def row(self, index: int | mx.array) -> Distribution:
        """One row as a distribution of its own; the index may be part of the lazy graph."""
        if isinstance(index, int):
            return self.part(index, index + 1)
        return Distribution(mx.take(self.logits, index.reshape(1), axis=0), self.inverse_temperature)

    def first(self, rows: int) -> Self:
        """The first so many rows as distributions of their own."""
        return self.part(0, rows)

    def part(self, first: int, end: int) -> Self:
        """The rows from `first` to before `end` as distributions of their own."""
        return type(self)(self.logits[first:end], self.inverse_temperature)

    @classmethod
    def joined(cls, parts: Sequence[Distribution]) -> Distribution:
        """The rows of several, which were made alike."""
        return type(parts[0])._joined(parts)

    @classmethod
    def _joined(cls, parts: Sequence[Distribution]) -> Distribution:
        return cls(mx.concatenate([part.logits for part in parts]), parts[0].inverse_temperature)

    def residual(self, q: Distribution | OneHot, index: mx.array, scale: mx.array) -> Distribution:
        """The normalised (scale * p - q)+ of the row at an index, where this is p, or p where that is empty."""
        p_row = self.row(index).probabilities
        excess = mx.maximum(scale * p_row - q.row(index).probabilities, 0.0)
        # what is not a number stays so, and no token is drawn
        return Distribution.from_probabilities(mx.where(excess.sum() == 0, p_row, excess))

    def residual_mass(self, target: Distribution, scale: mx.array) -> mx.array:
        """(rows,): sum over tokens of max(scale * p - q, 0), where this is q and `target` p, row by row."""
        return mx.maximum(scale[:, None] * target.probabilities - self.probabilities, 0.0).sum(axis=-1)

    def drawn(
        self, source: NoiseSource, positions: Sequence[int] | mx.array, domain: str, round_position: int
    ) -> tuple[mx.array, mx.array]:
        """(rows,) ids drawn with the noise of a position each, and the margins of their scores over the second best ones."""
        return source.argmax_and_margin(self.logits, self.inverse_temperature, positions, domain, round_position)

    def drawn_until(
        self, proposals: mx.array, draw: Callable[[Distribution, int], tuple[mx.array, mx.array]]
    ) -> tuple[mx.array, mx.array]:
        """Ids and margins that `draw` gives of rows from an index on: at least those up to the first id that is not proposed.

        Args:
            proposals: (rows - 1,) ids.
        """
        return draw(self, 0)

    def either(self, condition: mx.array, one: Callable[[], mx.array], other: Callable[[], mx.array]) -> mx.array:
        """Returns `one()` if a () condition holds, else `other()`. If the condition is known, only one of them is computed."""
        return mx.where(condition, one(), other())


class HostDistribution(Distribution):
    """The same as `Distribution`, computed by numpy at once, and only for the rows that are asked for.

    Arguments as there; the logits are evaluated.
    """

    is_known = True

    def __init__(
        self,
        logits: mx.array,
        inverse_temperature: float = 1.0,
        unfiltered: mx.array | None = None,
        rows: Sequence[HostRow] | None = None,
    ) -> None:
        """`rows`: these logits, where something is known of them already."""
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
    """The distribution of a deterministic drafter: all mass on one id a row.

    Kept apart from Distribution so that a 64-token draft does not cost 64 rows of the vocabulary.

    Args:
        ids: (rows,) the proposed tokens.
        vocab_size: width of the target's logits.
    """

    def __init__(self, ids: mx.array, vocab_size: int) -> None:
        self.ids = ids
        self.vocab_size = vocab_size

    @staticmethod
    def without_nan(logits: mx.array) -> mx.array:
        """The same logits; what is not a number is -inf."""
        return mx.where(mx.isnan(logits), -math.inf, logits)

    @property
    def rows(self) -> int:
        """How many distributions these are."""
        return self.ids.shape[0]

    @cached_property
    def probabilities(self) -> mx.array:
        """(rows, vocab) float32, made when it is first asked for."""
        return (mx.arange(self.vocab_size)[None] == self.ids[:, None]).astype(mx.float32)

    def probability_of(self, ids: mx.array) -> mx.array:
        """(rows,) float32, 1 where the id is the row's own and 0 elsewhere."""
        return (ids == self.ids).astype(mx.float32)

    def row(self, index: int | mx.array) -> OneHot:
        """As `Distribution.row`."""
        return OneHot(mx.take(self.ids, mx.array(index).reshape(1)), self.vocab_size)

    def residual_mass(self, target: Distribution, scale: mx.array) -> mx.array:
        """As `Distribution.residual_mass`: only the proposed token has q, and there scale * p - 1 is never positive."""
        return scale * (1.0 - target.probability_of(self.ids))


class Shaper:
    """From a model's logits to the distribution that the options ask for, the same way for target and drafter.

    Order and off-values are mlx-lm's (`mlx_lm.sample_utils.make_sampler`): penalties, log-probabilities, top-p, min-p,
    top-k, then temperature. At temperature 0 the filters are skipped and the penalties are not.

    Args:
        options: the decoding options.
        known: (vocab,) bool, the ids that the target's tokenizer knows; None when it knows all.
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
        self, logits: mx.array, history: Sequence[int] | mx.array, proposals: mx.array | None = None, lazy: bool = False
    ) -> Distribution:
        """Distributions of consecutive positions.

        Args:
            logits: (rows, vocab) of any float type.
            history: ids before the first row: prompt and committed tokens. Only the latest `repetition_context` matter.
            proposals: (rows - 1,) or longer: row i stands after the first i of them.
            lazy: the logits are to stay in the graph, so that more can be queued behind them.
        """
        kind = Distribution if lazy else self._made
        logits = kind.without_nan(logits.astype(mx.float32))
        if self.known is not None:
            logits = mx.where(self.known, logits, -math.inf)
        if self.penalises:
            logits = self._penalise(logits, history, proposals)
        filtered = self._filter(logits)
        whole = None if filtered is logits else logits
        if self.inverse_temperature > SCALED_AS_THEY_ARE:
            filtered = less_maximum(filtered)
        return kind(filtered, self.inverse_temperature, whole)

    def certain(self, token: int, vocab_size: int) -> Distribution:
        """All mass on one token, to be joined with rows that were shaped."""
        return self._made(mx.where(mx.arange(vocab_size)[None] == token, 0.0, -mx.inf), self.inverse_temperature)

    def _penalise(self, logits: mx.array, history: Sequence[int] | mx.array, proposals: mx.array | None) -> mx.array:
        penalty, context = self.options.repetition_penalty, self.options.repetition_context
        tokens = latest(history, context)
        before = tokens.shape[0]
        if proposals is not None:
            tokens = mx.concatenate([tokens, proposals.astype(mx.int32)])
        rows = []
        for index in range(logits.shape[0]):
            row = logits[index]
            recent = tokens[max(0, before + index - context) : before + index]
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
        # A number would be compiled into the kernel, another one for each value. mlx-lm's own min-p takes nothing else.
        if "top_p" in self._on:
            log_probabilities = apply_top_p(log_probabilities, mx.array(options.top_p))
        if "min_p" in self._on:
            border = mx.max(log_probabilities, axis=-1, keepdims=True) + math.log(options.min_p)
            log_probabilities = mx.where(log_probabilities < border, -math.inf, log_probabilities)
        if use_top_k:
            log_probabilities = apply_top_k(log_probabilities, options.top_k)
        return mx.where(log_probabilities == -math.inf, -math.inf, logits)


def less_maximum(logits: mx.array) -> mx.array:
    """(rows, vocab) logits, the largest of each row 0. A row whose largest is not finite is left as it is."""
    highest = mx.max(logits, axis=-1, keepdims=True)
    return logits - mx.where(mx.isfinite(highest), highest, 0.0)


def latest(history: Sequence[int] | mx.array, count: int) -> mx.array:
    """(at most count,) int32: the end of a history of tokens."""
    if isinstance(history, mx.array):
        return history[-count:].astype(mx.int32)
    return mx.array(list(history[-count:]), dtype=mx.int32) if history else mx.zeros((0,), dtype=mx.int32)


def onto_target_ids(logits: mx.array, vocab_size: int, target_ids: mx.array | None) -> mx.array:
    """A drafter's logits on the target's token ids; ids that the drafter lacks are -inf.

    Args:
        logits: (rows, draft width) of any float type.
        vocab_size: width of the target's logits.
        target_ids: (draft width,) the target id of every column of a trimmed head; None when the ids are the same.
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
