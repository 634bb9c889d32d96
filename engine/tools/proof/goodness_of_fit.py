"""Chi-square tests that the checks apply to counts and differences."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from engine.values.statistics import ChiSquare

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

MIN_EXPECTED = 8.0
"""Cells with fewer expected draws are merged, so that the chi-square approximation holds into its tail."""


def table(counts: Counts, law: Floats) -> ChiSquare:
    """Tests counts of independent draws against their law; the effect size is the total variation over the cells.

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
    """Tests the successes of several kinds of trials against their probabilities; the effect size is a shift of every
    probability.

    successes, trials, chances: (kinds,). Whether a trial takes place may depend on earlier outcomes, as for judged positions.
    Kinds with little variance are pooled. A success with probability 0, or a failure with probability 1, is impossible.
    """
    samples = int(trials.sum())
    if (successes[chances <= 0] > 0).any() or (successes < trials)[chances >= 1].any():
        return ChiSquare(math.inf, 1, samples, 0.0)
    variance = trials * chances * (1 - chances)
    difference = successes - trials * chances
    large = variance >= MIN_EXPECTED
    statistic = float((difference[large] ** 2 / variance[large]).sum())
    information = float((trials[large] ** 2 / variance[large]).sum())
    freedom = int(large.sum())
    rest = float(variance[~large].sum())
    if rest >= MIN_EXPECTED:
        statistic += float(difference[~large].sum()) ** 2 / rest
        information += float(trials[~large].sum()) ** 2 / rest
        freedom += 1
    return ChiSquare(statistic, freedom, samples, information)


def mean(differences: Floats) -> ChiSquare:
    """Tests whether independent differences have mean 0, with estimated variance; the effect size is their mean."""
    samples = len(differences)
    squares = float((differences**2).sum())
    if squares == 0:
        return ChiSquare(0.0, 0, samples, 0.0)
    return ChiSquare(float(differences.sum()) ** 2 / squares, 1, samples, samples**2 / squares)


def _merged(observed: Counts, wanted: Floats) -> tuple[Counts, Floats]:
    """Merges the cells with the smallest expectation until each is large enough; a remainder joins the last one."""
    order = np.argsort(wanted)
    borders, gathered = [0], 0.0
    for position, index in enumerate(order, start=1):
        gathered += wanted[index]
        if gathered >= MIN_EXPECTED:
            borders.append(position)
            gathered = 0.0
    if len(borders) == 1:
        return observed.sum(keepdims=True), wanted.sum(keepdims=True)
    starts = np.array(borders[:-1])
    return np.add.reduceat(observed[order], starts), np.add.reduceat(wanted[order], starts)
