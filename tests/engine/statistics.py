"""Statistical tests with fixed seeds and stated error rates.

A correct engine fails a test with probability FALSE_ALARM, once, when seeds or draws are changed: afterwards the run is
deterministic. That it would notice a wrong one is shown by twins, broken variants of the engine run through the same test,
which must come out below CERTAIN: a thousand times less likely than the false alarm, so that a twin is caught by more than luck.
With n draws, a cell of probability x that is off by d adds n d^2 / x to the statistic. Some 50 to 100 are enough for CERTAIN
at the numbers of cells used here: 20,000 draws find a cell of 0.1 that is off by 0.02, 200,000 draws one off by 0.006.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

FALSE_ALARM = 1e-6
CERTAIN = 1e-9
SMALLEST_EXPECTED = 10.0
"""Cells that expect fewer draws are merged, so that the chi-square law holds far into its tail."""


def chi_square(counts: np.ndarray, probabilities: np.ndarray) -> float:
    """p-value of Pearson's test. counts, probabilities: (cells,), or (contexts, cells) with one distribution a context.

    Contexts add up, each given its own number of draws: right for independent draws and for a Markov chain alike. A count where
    the probability is 0 gives a p-value of 0.
    """
    statistic, freedom = 0.0, 0
    for observed, law in zip(np.atleast_2d(counts), np.atleast_2d(probabilities), strict=True):
        if observed[law == 0].any():
            return 0.0
        observed, wanted = merged(observed[law > 0], observed.sum() * law[law > 0] / law.sum())
        if len(wanted) > 1:
            statistic += ((observed - wanted) ** 2 / wanted).sum()
            freedom += len(wanted) - 1
    assert freedom > 0, "too few draws to test anything"
    return float(stats.chi2.sf(statistic, freedom))


def merged(observed: np.ndarray, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Joins the cells that expect least until each expects SMALLEST_EXPECTED; what is left over joins the last one."""
    order = np.argsort(wanted)
    borders, gathered = [0], 0.0
    for position, index in enumerate(order, start=1):
        gathered += wanted[index]
        if gathered >= SMALLEST_EXPECTED:
            borders.append(position)
            gathered = 0.0
    if len(borders) == 1:
        return np.array([observed.sum()]), np.array([wanted.sum()])
    starts = np.array(borders[:-1])
    return np.add.reduceat(observed[order], starts), np.add.reduceat(wanted[order], starts)


def rate(outcomes: np.ndarray, probabilities: np.ndarray) -> float:
    """Two-sided p-value of the number of successes, given the probability of each trial.

    Trials may depend on the outcomes before them, as judged positions do: the differences are a martingale, and its normal
    limit is taken. A trial of probability 0 that succeeds, or of probability 1 that fails, gives 0 (after float32 rounding).
    """
    outcomes, probabilities = np.asarray(outcomes, dtype=float), np.asarray(probabilities, dtype=float)
    if (outcomes[probabilities <= 0] > 0).any() or (outcomes[probabilities >= 1] < 1).any():
        return 0.0
    variance = (probabilities * (1 - probabilities)).sum()
    difference = abs((outcomes - probabilities).sum())
    if variance < 1:
        return float(difference < 6)
    return float(2 * stats.norm.sf(difference / np.sqrt(variance)))


def total(values: np.ndarray, expected: np.ndarray, bound: float) -> float:
    """p-value of a sum of independent values against the sum of their expectations, for values within 0 and `bound`.

    The variance is estimated from the differences.
    """
    differences = np.asarray(values, dtype=float) - np.asarray(expected, dtype=float)
    deviation = np.sqrt((differences**2).sum())
    if deviation < bound:
        return float(abs(differences.sum()) < 6 * bound)
    return float(2 * stats.norm.sf(abs(differences.sum()) / deviation))
