"""What the rows of a benchmark add up to, per category, with intervals. Nothing here imports MLX.

Intervals are percentile bootstraps over prompts: prompts, not tokens or rounds, are what a benchmark samples, and the tokens of
one answer are anything but independent. With few prompts they are too narrow; with two or three they are the range.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.requests.bench import BenchRow, BenchSetting

ALL = "(all)"
NGRAM = 4
RESAMPLES = 2000
COVERAGE = 0.95
_SEED = 20260101

Interval = tuple[float, float]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BenchFigures:
    """One setting on the prompts of one category, or on all of them.

    Attributes:
        prompts: how many of them count; `interval`s need at least two.
        tokens_per_second, plain_tokens_per_second: tokens / seconds over the prompts together.
        speedup: geometric mean over prompts of the measured speed-ups.
        alpha: accepted / judged over the prompts together. tau: tokens / rounds over the prompts together.
        repetition: mean over prompts of the answers' repetition.
        same_text, comparable: answers equal to the plain one, of those that have to be but for near-ties.
        seconds_to_first_token: mean over prompts.
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


def repeated(tokens: Sequence[int]) -> tuple[int, int]:
    """(4-grams of the answer that had occurred in it before, all of its 4-grams)."""
    seen: set[tuple[int, ...]] = set()
    total = max(0, len(tokens) - NGRAM + 1)
    for start in range(total):
        seen.add(tuple(tokens[start : start + NGRAM]))
    return total - len(seen), total


def summarise(rows: Iterable[BenchRow]) -> tuple[BenchFigures, ...]:
    """Figures by category in the order the categories come, then over all; settings in the order they come."""
    known = list(rows)
    groups: dict[str, dict[BenchSetting, list[BenchRow]]] = {}
    for row in known:
        groups.setdefault(row.category, {}).setdefault(row.setting, []).append(row)
    if len(groups) > 1:
        for row in known:
            groups.setdefault(ALL, {}).setdefault(row.setting, []).append(row)
    return tuple(_figures(category, setting, own) for category, of in groups.items() for setting, own in of.items())


def noise_of_plain(rows: Iterable[BenchRow]) -> float | None:
    """How far the plain runs of one prompt lie apart: the median over prompts of fastest / slowest; None without any two."""
    rates: dict[tuple[str, float], list[float]] = {}
    for row in rows:
        if row.setting.is_baseline and row.tokens_per_second:
            rates.setdefault((row.prompt_id, row.temperature), []).append(row.tokens_per_second)
    ratios = [max(own) / min(own) for own in rates.values() if len(own) > 1]
    return statistics.median(ratios) if ratios else None


def _figures(category: str, setting: BenchSetting, rows: list[BenchRow]) -> BenchFigures:
    """The plain baseline has several rows a prompt; whatever is added up, is added up within a prompt first."""
    by_prompt: dict[str, list[BenchRow]] = {}
    for row in rows:
        by_prompt.setdefault(row.prompt_id, []).append(row)
    prompts = list(by_prompt.values())
    logs = [_mean(math.log(row.speedup) for row in own if row.speedup) for own in prompts]
    known_logs = np.array([value for value in logs if value is not None])
    accepted = _sums(prompts, "accepted")
    judged = accepted + _sums(prompts, "rejected")
    tokens, rounds = _sums(prompts, "tokens"), _sums(prompts, "rounds")
    speedups = None if setting.is_baseline else _interval(known_logs, np.ones(len(known_logs)))
    return BenchFigures(
        category=category,
        setting=setting,
        prompts=len(prompts),
        tokens=int(tokens.sum()),
        tokens_per_second=_ratio(tokens, _sums(prompts, "seconds")),
        plain_tokens_per_second=_ratio(_sums(prompts, "plain_tokens"), _sums(prompts, "plain_seconds")),
        speedup=math.exp(known_logs.mean()) if len(known_logs) else None,
        speedup_interval=None if speedups is None else (math.exp(speedups[0]), math.exp(speedups[1])),
        alpha=_ratio(accepted, judged),
        alpha_interval=_interval(accepted, judged),
        tau=_ratio(tokens, rounds),
        tau_interval=_interval(tokens, rounds) if judged.any() else None,
        repetition=_mean(row.repetition for row in rows if row.repetition is not None),
        same_text=sum(row.same_text is True for row in rows),
        comparable=sum(row.same_text is not None for row in rows),
        seconds_to_first_token=_mean(row.seconds_to_first_token for row in rows if row.seconds_to_first_token is not None),
    )


def _sums(prompts: Sequence[Sequence[BenchRow]], name: str) -> Floats:
    """(prompts,) a field added up over each prompt's rows."""
    return np.array([sum(getattr(row, name) for row in own) for own in prompts], dtype=np.float64)


def _ratio(parts: Floats, wholes: Floats) -> float | None:
    whole = float(wholes.sum())
    return float(parts.sum()) / whole if whole > 0 else None


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return math.fsum(known) / len(known) if known else None


def _interval(parts: Floats, wholes: Floats) -> Interval | None:
    """The bootstrap interval of sum(parts) / sum(wholes); None for fewer than two prompts that have a whole."""
    counted = wholes > 0
    parts, wholes = parts[counted], wholes[counted]
    if len(parts) < 2:
        return None
    drawn = np.random.default_rng(_SEED).integers(len(parts), size=(RESAMPLES, len(parts)))
    ratios = parts[drawn].sum(axis=1) / wholes[drawn].sum(axis=1)
    low, high = np.quantile(ratios, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2])
    return float(low), float(high)
