"""Chi-square statistics with tail probabilities and detectable deviations, and Student's t. No numpy.

Implemented here because the program does without scipy; the tests compare it with scipy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

NOTICED = 0.99
"""Probability (statistical power) with which a deviation of the stated size is noticed."""

_PRECISION = 1e-14
_MOST_TERMS = 100_000


@dataclass(frozen=True)
class ChiSquare:
    """A statistic that is chi-square distributed under the null hypothesis. Independent ones add up.

    Attributes:
        statistic: inf if an event of probability 0 happened.
        freedom: degrees of freedom; 0 if there was too little data to test anything.
        samples: number of draws.
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
        """Probability under the null hypothesis of a statistic this large or larger; 1 if there was too little data to test."""
        return chi_square_tail(self.statistic, self.freedom)

    def notices(self, level: float) -> float | None:
        """Returns the smallest deviation that fails the test at p-value `level` with probability NOTICED; None if there is none
        below 1."""
        if self.freedom == 0 or self.information == 0:
            return None
        size = math.sqrt(_noticed_shift(self.freedom, level) / self.information)
        return size if size < 1 else None


def chi_square_tail(statistic: float, freedom: int) -> float:
    """Returns P(chi-square with `freedom` degrees >= statistic); 1 if there is nothing to test."""
    if freedom == 0:
        return 1.0
    if math.isinf(statistic):
        return 0.0
    return _gamma_tail(freedom / 2, statistic / 2)


def _gamma_tail(shape: float, x: float) -> float:
    """Returns the regularised upper incomplete gamma function, by its series or its continued fraction (Lentz)."""
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
    """Returns P(non-central chi-square >= statistic): central tails weighted by a Poisson law of mean shift / 2.

    Each tail follows from the one before: Q(a + 1, x) = Q(a, x) + x^a e^-x / Gamma(a + 1).
    """
    mean, x = shift / 2, statistic / 2
    if x <= 0:
        return 1.0
    spread = 10 * math.sqrt(mean) + 10
    first = max(0, int(mean - spread))
    tail, total = _gamma_tail(freedom / 2 + first, x), 0.0
    for index in range(first, int(mean + spread) + 1):
        weight = math.exp(index * math.log(mean) - mean - math.lgamma(index + 1)) if mean > 0 else float(index == 0)
        total += weight * tail
        shape = freedom / 2 + index
        tail += math.exp(shape * math.log(x) - x - math.lgamma(shape + 1))
    return min(1.0, total)


@cache
def _noticed_shift(freedom: int, level: float) -> float:
    """Returns the non-centrality at which a test at this level fails with probability NOTICED. Cached, since many checks of a
    report have the same arguments."""
    critical = _root(lambda value: chi_square_tail(value, freedom) - level, freedom)
    return _root(lambda value: NOTICED - non_central_tail(critical, freedom, value), max(critical, 1.0))


def student_quantile(tail: float, freedom: int) -> float:
    """Returns the t >= 0 that Student's t with `freedom` degrees of freedom exceeds with probability `tail`, at most 0.5."""
    return _root(lambda value: _student_tail(value, freedom) - tail, 1.0)


def _student_tail(value: float, freedom: int) -> float:
    """Returns P(t > value) for value >= 0, by its finite series for whole degrees of freedom (Abramowitz and Stegun 26.7.3,
    26.7.4)."""
    angle = math.atan(value / math.sqrt(freedom))
    sine, square = math.sin(angle), math.cos(angle) ** 2
    odd = freedom % 2
    term, total = (math.cos(angle) if odd else 1.0), 0.0
    for step in range(odd + 1, freedom, 2):
        total += term
        term *= square * step / (step + 1)
    inside = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return (1 - inside) / 2


def _root(falling: Callable[[float], float], start: float) -> float:
    """Returns the positive zero of a decreasing function, found by doubling and bisection."""
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
