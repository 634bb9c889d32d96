"""Which drafter is advised: no winner within the noise, and none missed that stands out of it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from engine.tools.bench.chooser import FALSE_WINNERS, Decision, advice, decide
from engine.tools.bench.measure import MeasuredAnswer, row_of
from engine.values.requests.bench import BenchPrompt, BenchRow, BenchSetting
from engine.values.statistics import student_quantile

SETTINGS = tuple(
    BenchSetting("draftlight", drafter, "gumbel", 0.8, gamma)
    for drafter in ("ngram", "head", "builtin-draft")
    for gamma in (2, "auto")
)
Logs = np.ndarray
"""(prompts, settings) logarithms of speed-ups."""


def rows_of(logs: Logs) -> list[BenchRow]:
    def answer(seconds: float) -> list[MeasuredAnswer]:
        return [MeasuredAnswer((1,) * 10, "", 1, seconds, 0.1, 10, 0, 0, 0, 0, "length", 1_000)]

    return [
        row_of(setting, BenchPrompt(str(prompt), "chat", ("x",)), 0, answer(math.exp(-log)), (answer(1.0), answer(1.0)), None)
        for prompt, line in enumerate(logs)
        for setting, log in zip(SETTINGS, line, strict=True)
    ]


def decided(logs: Logs) -> Decision:
    (decision,) = decide(rows_of(logs), SETTINGS)
    return decision


def share_of_winners(gap: float, prompts: int, judge: Callable[[Logs], bool], runs: int = 150) -> float:
    """How often a winner is called where the first setting is faster than the others by a factor of `gap`; all beat plain."""
    generator = np.random.default_rng(7)
    found = 0
    for _ in range(runs):
        logs = generator.normal(0.4, 0.1, size=(prompts, len(SETTINGS)))
        logs[:, 0] += math.log(gap)
        found += judge(logs)
    return found / runs


def calls_a_winner(logs: Logs) -> bool:
    return decided(logs).verdict == "winner"


def means_that_lead_by_two_errors(logs: Logs) -> bool:
    """What a reader of overlapping bars might do: the first two means, two standard errors apart."""
    second, first = np.sort(logs.mean(axis=0))[-2:]
    return bool(first - second > 2 * logs.std(ddof=1) / math.sqrt(2 * len(logs)) / 2)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 30])
@pytest.mark.parametrize("tail", [0.4, 0.025, 0.05 / 6, 1e-4])
def test_students_quantile_is_scipys(freedom: int, tail: float) -> None:
    assert student_quantile(tail, freedom) == pytest.approx(stats.t.isf(tail, freedom), rel=1e-6)


def test_equals_have_no_winner() -> None:
    """Of 150 benchmarks of equals, 5% are 7.5; 15 or more would be seen in one of 100 if it were exactly 5%."""
    assert share_of_winners(1.0, 4, calls_a_winner) < 15 / 150
    assert share_of_winners(1.0, 4, means_that_lead_by_two_errors) > 2 * FALSE_WINNERS, "and a lax rule would be noticed"


def test_a_large_gap_is_called() -> None:
    """6 prompts, differences that scatter by 14%: 1.5 times as fast as the others is called in at least 90% of benchmarks."""
    assert share_of_winners(1.5, 6, calls_a_winner) > 0.9


def test_the_winner_is_advised_with_its_range() -> None:
    generator = np.random.default_rng(1)
    logs = generator.normal(0.1, 0.02, size=(5, len(SETTINGS)))
    logs[:, 3] += 0.6
    decision = decided(logs)
    assert (decision.verdict, decision.advised and decision.advised.setting) == ("winner", SETTINGS[3])
    wanted = np.exp(stats.ttest_1samp(logs[:, 3], 0).confidence_interval(0.95))
    words = advice(decision)
    speedup = f"{math.exp(logs[:, 3].mean()):.2f} times ({wanted[0]:.2f} to {wanted[1]:.2f})"
    assert words.headline == f"Use head with gamma auto: {speedup} as fast as plain decoding."
    assert "each of the other 6" in words.details[0]
    assert "With these 5 prompts" in words.details[1]


def test_among_equal_gains_the_default_drafter_is_advised() -> None:
    generator = np.random.default_rng(2)
    logs = generator.normal(-0.5, 0.05, size=(6, len(SETTINGS)))
    logs[:, [1, 3]] = generator.normal(0.7, 0.05, size=(6, 2))
    logs[:, 1] += 0.001
    decision = decided(logs)
    assert decision.verdict == "tied"
    assert {entry.setting for entry in decision.best} == {SETTINGS[1], SETTINGS[3]}
    assert decision.advised is not None and decision.advised.setting == SETTINGS[3], "head with gamma auto, used anyway"
    speedup = math.exp(logs[:, 1].mean())
    told = f"Within the noise, others may be as fast or faster: ngram with gamma auto ({speedup:.2f})."
    assert advice(decision).details[0] == told


def test_settings_within_the_noise_of_plain_are_not_advised() -> None:
    logs = np.random.default_rng(3).normal(0.02, 0.2, size=(5, len(SETTINGS)))
    decision = decided(logs)
    assert (decision.verdict, decision.advised) == ("undecided", None)
    assert advice(decision).headline == "No drafter is faster than plain decoding by more than the noise."
    slow = decided(np.random.default_rng(3).normal(-0.9, 0.05, size=(5, len(SETTINGS))))
    assert slow.verdict == "plain" and slow.advised is not None and slow.advised.setting.is_baseline
    assert advice(slow).headline.startswith("Use no drafter")


def test_two_complete_prompts_are_too_few() -> None:
    logs = np.random.default_rng(4).normal(0.5, 0.01, size=(3, len(SETTINGS)))
    assert decided(logs).prompts == ("0", "1", "2")
    (decision,) = decide(rows_of(logs)[:-1], SETTINGS)
    assert (decision.verdict, decision.prompts, decision.advised) == ("too few", ("0", "1"), None)
    assert advice(decision).details == ("At least 3 prompts have to be measured with every setting.",)
    (nothing,) = decide([], SETTINGS)
    assert (nothing.verdict, nothing.contenders) == ("too few", ())
    assert advice(nothing) == advice(decision), "on how many it was, is told beside it"


def test_each_temperature_is_decided_by_itself_and_mlx_lm_is_no_choice() -> None:
    cold = tuple(BenchSetting("draftlight", "ngram", "gumbel", temperature, 2) for temperature in (0.0, 0.8))
    peer = BenchSetting("mlx-lm", "none", None, 0.0, None)
    assert [decision.temperature for decision in decide([], (*cold, peer))] == [0.0, 0.8]
