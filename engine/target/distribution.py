"""Distributions over the target's token ids, and the way from a model's logits to them.

A distribution is kept as the scores that noise is added to, not as probabilities: the arg-max draw and its kernel want
logits, and a probability is only computed where a rule or an analysis asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import mlx.core as mx
import numpy as np
import numpy.typing as npt
from mlx_lm.sample_utils import apply_top_k, apply_top_p

from engine.host import on_host
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

    def about(self, factor: float) -> Floats:
        """(vocab,) probabilities times a factor, a new array, each within the share `tolerance`. NaN without a finite logit."""
        weights, total, _ = self._weighed
        with np.errstate(all="ignore"):
            return weights * (np.float32(factor) / total)

    @cached_property
    def tolerance(self) -> float:
        """Of `about`: it does not round as `probabilities` does, whose logarithms are as coarse as the normaliser is large."""
        return 1e-5 + 2.0**-22 * abs(float(self.normaliser))

    @cached_property
    def probabilities(self) -> Floats:
        """(vocab,), not to be changed."""
        with np.errstate(all="ignore"):
            scores = self.logits * self._scale
            scores -= self.normaliser
            return np.exp(scores, out=scores)

    def probabilities_of(self, tokens: npt.NDArray[np.int64]) -> Floats:
        """As `probabilities`, of some tokens."""
        with np.errstate(all="ignore"):
            return np.asarray(np.exp(self.logits.take(tokens) * self._scale - self.normaliser))

    def logarithm(self, token: int) -> np.float32:
        """Of the probability of one token."""
        with np.errstate(all="ignore"):
            return np.float32(self.logits[token] * self._scale - self.normaliser)


@dataclass(frozen=True)
class HostRows:
    """Rows of a `Distribution` where numpy computes with them."""

    rows: tuple[HostRow, ...]

    @classmethod
    def of(cls, logits: Floats, inverse_temperature: float) -> HostRows:
        """Of (rows, vocab) float32 logits."""
        return cls(tuple(HostRow(row, inverse_temperature) for row in logits))

    @classmethod
    def joined(cls, parts: Sequence[HostRows]) -> HostRows:
        """The rows of several."""
        return cls(tuple(row for part in parts for row in part.rows))

    @property
    def hold_nan(self) -> bool:
        """Whether any logit is not a number."""
        return any(math.isnan(row.logits[row.likeliest]) for row in self.rows)

    def part(self, which: slice) -> HostRows:
        """Some of the rows."""
        return HostRows(self.rows[which])


class Distribution:
    """Rows of categorical distributions: probability proportional to exp(logits * inverse_temperature).

    Args:
        logits: (rows, vocab) float32; masked tokens are -inf.
        inverse_temperature: 1/T.
        unfiltered: (rows, vocab) float32, the logits before filters masked some; None where no filter is on.
    """

    def __init__(self, logits: mx.array, inverse_temperature: float = 1.0, unfiltered: mx.array | None = None) -> None:
        self.logits = logits
        self.inverse_temperature = inverse_temperature
        self.unfiltered = unfiltered
        self._whole: tuple[Distribution, slice] | None = None
        self._parts: tuple[Distribution, ...] = ()

    @classmethod
    def from_probabilities(cls, probabilities: mx.array) -> Distribution:
        """From (rows, vocab) or (vocab,) probabilities, normalised or not."""
        rows = mx.array(probabilities).astype(mx.float32)
        return cls(mx.log(rows if rows.ndim == 2 else rows[None]))

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

    @property
    def is_known(self) -> bool:
        """Whether numpy has these rows already."""
        return self.__dict__.get("host") is not None

    @cached_property
    def host(self) -> HostRows | None:
        """These rows where numpy goes on with them; of a part, what is known of the whole's."""
        if self._parts:
            rows = [part.host for part in self._parts]
            known = [each for each in rows if each is not None]
            return HostRows.joined(known) if len(known) == len(rows) else None
        if self._whole is not None:
            whole, rows_of_whole = self._whole
            return None if whole.host is None else whole.host.part(rows_of_whole)
        logits = on_host(self.logits)
        return None if logits is None else HostRows.of(logits, self.inverse_temperature)

    def weigh(self) -> None:
        """Computes what takes long of a probability, of rows that numpy has already."""
        for part in self._parts:
            part.weigh()
        if self.is_known and self.host is not None:
            for row in self.host.rows:
                _ = row.normaliser

    @cached_property
    def log_normaliser(self) -> mx.array:
        """(rows, 1) float32."""
        if self.host is None:
            return mx.logsumexp(self.scores, axis=-1, keepdims=True)
        return mx.array(np.array([[row.normaliser] for row in self.host.rows], np.float32))

    @cached_property
    def probabilities(self) -> mx.array:
        """(rows, vocab) float32."""
        if self.host is None:
            return mx.exp(self.scores - self.log_normaliser)
        return mx.array(np.stack([row.probabilities for row in self.host.rows]))

    def probability_of(self, ids: mx.array) -> mx.array:
        """(rows,) float32: the probability of one id a row."""
        known = on_host(ids)
        if self.host is None or known is None:
            picked = mx.take_along_axis(self.scores, ids[:, None], axis=-1)
            return mx.exp(picked - self.log_normaliser)[:, 0]
        return mx.exp(mx.array(np.array([row.logarithm(int(token)) for row, token in zip(self.host.rows, known, strict=True)])))

    def row(self, index: int | mx.array) -> Distribution:
        """One row as a distribution of its own; the index may be part of the lazy graph."""
        known = on_host(index) if isinstance(index, mx.array) else index
        if known is not None:
            return self.part(int(known), int(known) + 1)
        return Distribution(mx.take(self.logits, mx.array(index).reshape(1), axis=0), self.inverse_temperature)

    def first(self, rows: int) -> Distribution:
        """The first so many rows as distributions of their own."""
        return self.part(0, rows)

    def part(self, first: int, end: int) -> Distribution:
        """The rows from `first` to before `end` as distributions of their own. Where numpy computes, what it has found out of
        a row is not computed again."""
        made = Distribution(self.logits[first:end], self.inverse_temperature)
        made._whole = self, slice(first, end)
        return made

    @classmethod
    def joined(cls, parts: Sequence[Distribution]) -> Distribution:
        """The rows of several, which were made alike. What numpy has found out of them stays known."""
        made = cls(mx.concatenate([part.logits for part in parts]), parts[0].inverse_temperature)
        made._parts = tuple(parts)
        return made

    def residual_mass(self, target: Distribution, scale: mx.array) -> mx.array:
        """(rows,): sum over tokens of max(scale * p - q, 0), where this is q and `target` p, row by row."""
        return mx.maximum(scale[:, None] * target.probabilities - self.probabilities, 0.0).sum(axis=-1)


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
        logits = logits.astype(mx.float32)
        known = None if lazy or self.greedy else on_host(logits)
        rows = None if known is None else HostRows.of(known, self.inverse_temperature)
        if rows is None or rows.hold_nan:
            logits, rows = mx.where(mx.isnan(logits), -math.inf, logits), None
        raw = logits
        if self.known is not None:
            logits = mx.where(self.known, logits, -math.inf)
        if self.penalises:
            logits = self._penalise(logits, history, proposals)
        filtered = self._filter(logits)
        whole = None if filtered is logits else logits
        if self.inverse_temperature > SCALED_AS_THEY_ARE:
            filtered = less_maximum(filtered)
        made = Distribution(filtered, self.inverse_temperature, whole)
        if rows is not None and filtered is raw:
            made.host = rows
        return made

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
