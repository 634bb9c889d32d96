"""Computes the figures of a benchmark from its rows, by category, with intervals. Nothing here imports MLX.

The sampling unit is the prompt, not the token or round, because the tokens of one answer are not independent. Intervals of
speed-ups are Student's t intervals of their logarithms, and need at least `MIN_PROMPTS` prompts. Those of alpha and tau are
percentile bootstrap intervals, which are too narrow for few prompts.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.values.requests.bench import BenchRow, BenchSetting
from engine.values.statistics import student_quantile

ALL = "(all)"
NGRAM = 4
RESAMPLES = 2000
COVERAGE = 0.95
MIN_PROMPTS = 3
"""Minimum number of prompts for an interval of a speed-up; one from two prompts would be meaningless."""
_SEED = 20260101

Interval = tuple[float, float]
Floats = NDArray[np.float64]
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class BenchFigures:
    """Figures of one setting on the prompts of one category, or on all prompts.

    Attributes:
        prompts: number of prompts that count.
        tokens_per_second, plain_tokens_per_second: total tokens / total seconds over all prompts.
        speedup: geometric mean over prompts of the measured speed-ups.
        alpha: accepted / judged, over all prompts together. tau: tokens / rounds, over all prompts together.
        repetition: mean over prompts of the answers' repetition.
        same_text, comparable: number of answers equal to the plain one, and of answers that must be equal except at near-ties.
        seconds_to_first_token: mean over prompts.
        peak_memory: as in `BenchRow`, the maximum over prompts.
    """

    category: str
    setting: BenchSetting
    prompts: int
    tokens: int
    tokens_per_second: float | None
    plain_tokens_per_second: float | None
    speedup: float | None
    speedup_interval: Interval | None
    alpha: float | None
    alpha_interval: Interval | None
    tau: float | None
    tau_interval: Interval | None
    repetition: float | None
    same_text: int
    comparable: int
    seconds_to_first_token: float | None
    peak_memory: int | None


def repeated(tokens: Sequence[int]) -> tuple[int, int]:
    """Returns (number of the answer's 4-grams that occurred in it before, number of all its 4-grams)."""
    total = max(0, len(tokens) - NGRAM + 1)
    return total - len({tuple(tokens[start : start + NGRAM]) for start in range(total)}), total


def summarise(rows: Iterable[BenchRow]) -> tuple[BenchFigures, ...]:
    """Returns figures by category, in order of appearance, then over all prompts. The order of the settings is the same in
    each, regardless of the order in which they were measured."""
    known = list(rows)
    settings = dict.fromkeys(row.setting for row in known)
    groups = grouped(known, lambda row: row.category)
    if len(groups) > 1:
        groups[ALL] = known
    return tuple(
        _figures(category, setting, own)
        for category, rows_of in groups.items()
        for setting in settings
        if (own := [row for row in rows_of if row.setting == setting])
    )


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Groups the items by key, in the order in which keys appear."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def noise_of_plain(rows: Iterable[BenchRow]) -> float | None:
    """Returns the noise of plain runs: the median over prompts of fastest / slowest; None if no prompt has two plain runs."""
    rates = [[rate for _, rate in own] for own in plain_rates(rows)]
    ratios = [max(own) / min(own) for own in rates if len(own) > 1]
    return statistics.median(ratios) if ratios else None


def plain_rates(rows: Iterable[BenchRow]) -> list[list[tuple[int, float]]]:
    """Returns for each prompt and temperature the order and tokens per second of its plain runs."""
    plain = [row for row in rows if row.setting.is_baseline]
    rates = ([(row.order, row.tokens_per_second) for row in own if row.tokens_per_second] for own in _by_prompt(plain).values())
    return [own for own in rates if own]


def _by_prompt(rows: Iterable[BenchRow]) -> dict[tuple[str, float], list[BenchRow]]:
    return grouped(rows, lambda row: (row.prompt_id, row.temperature))


def _figures(category: str, setting: BenchSetting, rows: list[BenchRow]) -> BenchFigures:
    """Returns the figures of one setting. The plain baseline has several rows per prompt, so sums are first made within a
    prompt."""
    prompts = list(grouped(rows, lambda row: row.prompt_id).values())
    logs = [_mean(math.log(row.speedup) for row in own if row.speedup) for own in prompts]
    known_logs = np.array([value for value in logs if value is not None])
    accepted = _sums(prompts, "accepted")
    judged = accepted + _sums(prompts, "rejected")
    tokens, rounds = _sums(prompts, "tokens"), _sums(prompts, "rounds")
    return BenchFigures(
        category=category,
        setting=setting,
        prompts=len(prompts),
        tokens=int(tokens.sum()),
        tokens_per_second=_ratio(tokens, _sums(prompts, "seconds")),
        plain_tokens_per_second=_ratio(_sums(prompts, "plain_tokens"), _sums(prompts, "plain_seconds")),
        speedup=math.exp(known_logs.mean()) if len(known_logs) else None,
        speedup_interval=None if setting.is_baseline else speedup_interval(known_logs),
        alpha=_ratio(accepted, judged),
        alpha_interval=_interval(accepted, judged),
        tau=_ratio(tokens, rounds),
        tau_interval=_interval(tokens, rounds) if judged.any() else None,
        repetition=_mean(row.repetition for row in rows if row.repetition is not None),
        same_text=sum(row.same_text is True for row in rows),
        comparable=sum(row.same_text is not None for row in rows),
        seconds_to_first_token=_mean(row.seconds_to_first_token for row in rows if row.seconds_to_first_token is not None),
        peak_memory=max((row.peak_memory for row in rows if row.peak_memory is not None), default=None),
    )


def mean_interval(values: Floats, tail: float) -> Interval | None:
    """Returns Student's t interval of the mean, with probability `tail` on each side; None for fewer than `MIN_PROMPTS`."""
    if len(values) < MIN_PROMPTS:
        return None
    half_width = student_quantile(tail, len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))
    return float(values.mean()) - half_width, float(values.mean()) + half_width


def speedup_interval(logs: Floats) -> Interval | None:
    """Returns the 95% interval of a speed-up, from its logarithms on each prompt; None for too few prompts."""
    interval = mean_interval(logs, (1 - COVERAGE) / 2)
    return None if interval is None else (math.exp(interval[0]), math.exp(interval[1]))


def whole_blocks(rows: Iterable[BenchRow], settings: Sequence[BenchSetting]) -> tuple[BenchRow, ...]:
    """Returns the rows of prompts on which all settings at that temperature were measured.

    An interrupted benchmark has measured some settings on more prompts than others. A setting must not look faster because it
    skipped slow prompts. If no prompt is complete, all rows of that temperature are returned.
    """
    known = list(rows)
    whole = {
        (prompt, temperature)
        for (prompt, temperature), own in _by_prompt(known).items()
        if {row.setting for row in own} >= {setting for setting in settings if setting.temperature == temperature}
    }
    usable = {temperature for _, temperature in whole}
    return tuple(row for row in known if (row.prompt_id, row.temperature) in whole or row.temperature not in usable)


def prompts_measured(rows: Iterable[BenchRow], settings: Sequence[BenchSetting]) -> dict[float, tuple[int, int]]:
    """Returns by temperature (number of prompts measured with every setting, number of other prompts that were started)."""
    known = list(rows)
    found: dict[float, tuple[int, int]] = {}
    for temperature in dict.fromkeys(setting.temperature for setting in settings):
        of_temperature = {setting for setting in settings if setting.temperature == temperature}
        begun = [{row.setting for row in rows_of} for (_, other), rows_of in _by_prompt(known).items() if other == temperature]
        complete = sum(of_temperature <= done for done in begun)
        found[temperature] = complete, len(begun) - complete
    return found


def _sums(prompts: Sequence[Sequence[BenchRow]], name: str) -> Floats:
    """Returns (prompts,): a field summed over each prompt's rows."""
    return np.array([sum(getattr(row, name) for row in own) for own in prompts], dtype=np.float64)


def _ratio(parts: Floats, wholes: Floats) -> float | None:
    whole = float(wholes.sum())
    return float(parts.sum()) / whole if whole > 0 else None


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return math.fsum(known) / len(known) if known else None


def _interval(parts: Floats, wholes: Floats) -> Interval | None:
    """Returns the bootstrap interval of sum(parts) / sum(wholes); None for fewer than two prompts with a non-zero whole."""
    counted = wholes > 0
    parts, wholes = parts[counted], wholes[counted]
    if len(parts) < 2:
        return None
    samples = np.random.default_rng(_SEED).integers(len(parts), size=(RESAMPLES, len(parts)))
    ratios = parts[samples].sum(axis=1) / wholes[samples].sum(axis=1)
    low, high = np.quantile(ratios, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    return float(low), float(high)
