"""The few statistics that the checks need: tails of the chi-square laws, and what a sample of a size would notice.

Written out here because the program itself does without scipy; the tests compare it with scipy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

SMALLEST_EXPECTED = 8.0
"""Cells that expect fewer draws are merged, so that the chi-square law holds into its tail."""

NOTICED = 0.99
"""The probability with which a deviation of the stated size is noticed."""

_PRECISION = 1e-14
_MOST_TERMS = 100_000


@dataclass(frozen=True)
class ChiSquare:
    """A statistic that is chi-square distributed if all is well. Independent ones add up.

    Attributes:
        statistic: inf where something happened that has probability 0.
        freedom: degrees of freedom; 0 if there was too little to test anything.
        samples: how many draws were looked at.
        information: a deviation of size d shifts the statistic by information * d^2 or more.
    """

    statistic: float
    freedom: int
    samples: int
    information: float

    def __add__(self, other: ChiSquare) -> ChiSquare:
        return ChiSquare(
            self.statistic + other.statistic,
            self.freedom + other.freedom,
            self.samples + other.samples,
            self.information + other.information,
        )

    @property
    def p_value(self) -> float:
        """Probability of a statistic this large or larger if all is well; 1 where there was too little to test."""
        return chi_square_tail(self.statistic, self.freedom)

    def notices(self, level: float) -> float | None:
        """The smallest deviation that fails the test at p-value `level` with probability NOTICED; None if none surely does."""
        if self.freedom == 0 or self.information == 0:
            return None
        size = math.sqrt(_noticed_shift(self.freedom, level) / self.information)
        return size if size < 1 else None


NOTHING = ChiSquare(0.0, 0, 0, 0.0)


def table(counts: Counts, law: Floats) -> ChiSquare:
    """Counts of independent draws against their law; the size of a deviation is its total variation over the cells.

    By Cauchy-Schwarz a total variation v shifts the statistic by at least 4 n v^2, and by more unless it is spread like the law.

    counts: (cells,). law: (cells,) probabilities, normalised or not. Cells that expect few draws are merged.
    """
    samples = int(counts.sum())
    if counts[law <= 0].any():
        return ChiSquare(math.inf, max(1, int((law > 0).sum()) - 1), samples, 4.0 * samples)
    possible = law > 0
    observed, wanted = _merged(counts[possible], samples * law[possible] / law[possible].sum())
    if len(wanted) < 2:
        return ChiSquare(0.0, 0, samples, 0.0)
    return ChiSquare(float(((observed - wanted) ** 2 / wanted).sum()), len(wanted) - 1, samples, 4.0 * samples)


def rates(successes: Counts, trials: Counts, chances: Floats) -> ChiSquare:
    """Successes of several kinds of trials against the chance of each; the size of a deviation is a shift of every chance.

    successes, trials, chances: (kinds,). Whether a trial takes place may depend on the outcomes before it, as with judged
    positions. Kinds of little variance are counted together; a success without chance, or a failure without risk, is impossible.
    """
    samples = int(trials.sum())
    if (successes[chances <= 0] > 0).any() or (successes < trials)[chances >= 1].any():
        return ChiSquare(math.inf, 1, samples, 0.0)
    variance = trials * chances * (1 - chances)
    difference = successes - trials * chances
    large = variance >= SMALLEST_EXPECTED
    statistic = float((difference[large] ** 2 / variance[large]).sum())
    information = float((trials[large] ** 2 / variance[large]).sum())
    freedom = int(large.sum())
    rest = float(variance[~large].sum())
    if rest >= SMALLEST_EXPECTED:
        statistic += float(difference[~large].sum()) ** 2 / rest
        information += float(trials[~large].sum()) ** 2 / rest
        freedom += 1
    return ChiSquare(statistic, freedom, samples, information)


def mean(differences: Floats) -> ChiSquare:
    """Independent differences whose expectation is 0, their variance estimated; the size of a deviation is their mean."""
    samples = len(differences)
    squares = float((differences**2).sum())
    if squares == 0:
        return ChiSquare(0.0, 0, samples, 0.0)
    return ChiSquare(float(differences.sum()) ** 2 / squares, 1, samples, samples**2 / squares)


def _merged(observed: Counts, wanted: Floats) -> tuple[Counts, Floats]:
    """Joins the cells that expect least until each expects enough; what is left over joins the last one."""
    order = np.argsort(wanted)
    borders, gathered = [0], 0.0
    for position, index in enumerate(order, start=1):
        gathered += wanted[index]
        if gathered >= SMALLEST_EXPECTED:
            borders.append(position)
            gathered = 0.0
    if len(borders) == 1:
        return observed.sum(keepdims=True), wanted.sum(keepdims=True)
    starts = np.array(borders[:-1])
    return np.add.reduceat(observed[order], starts), np.add.reduceat(wanted[order], starts)


def chi_square_tail(statistic: float, freedom: int) -> float:
    """P(chi-square with `freedom` degrees >= statistic); 1 where there is nothing to test."""
    if freedom == 0:
        return 1.0
    if math.isinf(statistic):
        return 0.0
    return _gamma_tail(freedom / 2, statistic / 2)


def _gamma_tail(shape: float, x: float) -> float:
    """The regularised upper incomplete gamma function, by its series or its continued fraction (Lentz)."""
    if x <= 0:
        return 1.0
    front = math.exp(shape * math.log(x) - x - math.lgamma(shape))
    if x < shape + 1:
        term = total = 1 / shape
        for index in range(1, _MOST_TERMS):
            term *= x / (shape + index)
            total += term
            if term < total * _PRECISION:
                break
        return max(0.0, 1 - front * total)
    smallest = 1e-300
    b = x + 1 - shape
    c, d = 1 / smallest, 1 / b
    fraction = d
    for index in range(1, _MOST_TERMS):
        a = -index * (index - shape)
        b += 2
        d = 1 / _away_from_zero(a * d + b, smallest)
        c = _away_from_zero(b + a / c, smallest)
        fraction *= c * d
        if abs(c * d - 1) < _PRECISION:
            break
    return front * fraction


def _away_from_zero(value: float, smallest: float) -> float:
    return value if abs(value) > smallest else smallest


def non_central_tail(statistic: float, freedom: int, shift: float) -> float:
    """P(non-central chi-square >= statistic): central tails weighted by a Poisson law of mean shift / 2."""
    mean = shift / 2
    spread = 10 * math.sqrt(mean) + 10
    total = 0.0
    for index in range(max(0, int(mean - spread)), int(mean + spread) + 1):
        weight = math.exp(index * math.log(mean) - mean - math.lgamma(index + 1)) if mean > 0 else float(index == 0)
        total += weight * _gamma_tail(freedom / 2 + index, statistic / 2)
    return min(1.0, total)


def _noticed_shift(freedom: int, level: float) -> float:
    """The non-centrality at which a test at this level fails with probability NOTICED."""
    critical = _root(lambda value: chi_square_tail(value, freedom) - level, freedom)
    return _root(lambda value: NOTICED - non_central_tail(critical, freedom, value), max(critical, 1.0))


def _root(falling: Callable[[float], float], start: float) -> float:
    """Where a falling function of a positive value passes 0, by doubling and halving."""
    low, high = 0.0, start
    while falling(high) > 0:
        low, high = high, 2 * high
    for _ in range(40):
        middle = (low + high) / 2
        if falling(middle) > 0:
            low = middle
        else:
            high = middle
    return high
