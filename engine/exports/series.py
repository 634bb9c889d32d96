"""What the charts draw: values over the rounds of an answer, thinned where there are more than a picture can show."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

from engine.metrics import Rolling, Totals, counts, expected_emitted, wilson_interval
from engine.types import Round

ALPHA_WINDOW = 32
SPEED_WINDOW = 8
EXPECTED_WINDOW = 16
RULES_EXPECTED = ("match", "gumbel", "rejection")


@dataclass(frozen=True, slots=True)
class Column:
    """The mean counts of neighbouring rounds, one round in a short answer."""

    first: int
    last: int
    accepted: float
    rejected: float
    unjudged: float

    @property
    def proposals(self) -> float:
        return self.accepted + self.rejected + self.unjudged


@dataclass(frozen=True, slots=True)
class Phases:
    """Mean milliseconds of the phases of neighbouring rounds that were measured in stages."""

    first: int
    draft: float
    verify: float
    judge: float
    other: float

    @property
    def total(self) -> float:
        return self.draft + self.verify + self.judge + self.other


def thinned(count: int, most: int) -> list[range]:
    """`count` places in at most `most` neighbouring groups of about one size."""
    groups = min(count, most)
    return [range(count * group // groups, count * (group + 1) // groups) for group in range(groups)]


def columns(rounds: Sequence[Round], most: int = 96) -> list[Column]:
    """Verdicts over the rounds."""
    made = []
    for group in thinned(len(rounds), most):
        part = [rounds[index] for index in group]
        accepted, rejected, unjudged = (
            sum(getattr(round, status) for round in part) / len(part) for status in ("accepted", "rejected", "unjudged")
        )
        made.append(Column(group[0], group[-1], accepted, rejected, unjudged))
    return made


def expected(rounds: Sequence[Round], most: int = 240) -> dict[str, list[tuple[float, float]]]:
    """For every rule the accepted tokens to expect, as (round, tokens): a + a^2 + ... + a^gamma with a the rule's mean chance at
    the positions judged in the last rounds; NaN where nothing is known."""
    curves: dict[str, list[tuple[float, float]]] = {rule: [] for rule in RULES_EXPECTED}
    kept = {group[-1] for group in thinned(len(rounds), most)}
    judged: deque[tuple[int, dict[str, float]]] = deque(maxlen=EXPECTED_WINDOW)
    for index, round in enumerate(rounds):
        if round.expected:
            sums = {rule: math.fsum(getattr(place, rule) for place in round.expected) for rule in RULES_EXPECTED}
            judged.append((len(round.expected), sums))
        if index not in kept:
            continue
        many, gamma = sum(count for count, _ in judged), len(round.proposals)
        for rule in RULES_EXPECTED:
            chance = math.fsum(sums[rule] for _, sums in judged) / many if many else math.nan
            curves[rule].append((index, expected_emitted(chance, gamma) - 1 if many and gamma else math.nan))
    return curves


def rolling_alpha(rounds: Sequence[Round], most: int = 240) -> list[tuple[float, float, float, float]]:
    """Alpha over the last rounds with Wilson's 95 % interval, as (round, low, alpha, high); NaN where nothing was judged."""
    window: deque[tuple[int, int]] = deque(maxlen=ALPHA_WINDOW)
    kept = {group[-1] for group in thinned(len(rounds), most)}
    found = []
    for index, round in enumerate(rounds):
        window.append((round.accepted, round.rejected))
        if index in kept:
            accepted = sum(entry[0] for entry in window)
            judged = accepted + sum(entry[1] for entry in window)
            low, high = wilson_interval(accepted, judged) if judged else (math.nan, math.nan)
            found.append((float(index), low, accepted / judged if judged else math.nan, high))
    return found


def speeds(rounds: Sequence[Round], most: int = 240) -> list[tuple[float, float]]:
    """Throughput over the last rounds, as (seconds, tokens per second)."""
    rolling = Rolling(SPEED_WINDOW)
    kept = {group[-1] for group in thinned(len(rounds), most)}
    found = []
    for index, round in enumerate(rounds):
        rolling.add(counts(round))
        if index in kept:
            speed = rolling.throughput
            found.append(((round.started + round.milliseconds.total) / 1000, math.nan if speed is None else speed))
    return found


def taus(rounds: Sequence[Round], most: int = 160) -> list[tuple[float, float, float]]:
    """Tau of all rounds so far and what alpha so far predicts, as (round, measured, predicted)."""
    totals = Totals()
    kept = {group[-1] for group in thinned(len(rounds), most)}
    found = []
    for index, round in enumerate(rounds):
        totals.add(round)
        if index in kept:
            summary = totals.summary()
            predicted = math.nan if summary.predicted_tau is None else summary.predicted_tau
            found.append((float(index), summary.tau or math.nan, predicted))
    return found


def phases(rounds: Sequence[Round], most: int = 60) -> list[Phases]:
    """Where the time of the rounds measured in stages went."""
    measured = [round for round in rounds if round.milliseconds.measured]
    found = []
    for group in thinned(len(measured), most):
        part = [measured[index] for index in group]
        draft, verify, judge, other = (
            sum(getattr(round.milliseconds, phase) or 0.0 for round in part) / len(part)
            for phase in ("draft", "verify", "judge", "other")
        )
        found.append(Phases(part[0].index, draft, verify, judge, other))
    return found


def lengths(rounds: Sequence[Round]) -> list[int]:
    """How many rounds with proposals accepted 0, 1, 2, ... of them."""
    found = Counter(round.accepted for round in rounds if round.proposals)
    return [found[length] for length in range(max((len(round.proposals) for round in rounds), default=-1) + 1)] if found else []
