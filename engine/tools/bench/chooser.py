"""Chooses drafter and gamma from the rows of a benchmark, with the confidence of the choice. Nothing here imports MLX.

Two settings are compared by the differences of their log speed-ups per prompt, with Student's t test. A setting is called the
fastest only if it beats every other one, including plain decoding, at a Bonferroni-corrected level. A false winner is thus
called in at most 5% of benchmarks. Otherwise all settings that the fastest one does not beat are listed together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.lens.shared_wording import drafter_title
from engine.tools.bench.statistics import MIN_PROMPTS, Floats, Interval, mean_interval, speedup_interval, whole_blocks
from engine.values.drafter_kinds import DRAFTERS, NO_DRAFTER, default_drafter, single_drafter
from engine.values.requests.bench import BenchRow, BenchSetting
from engine.values.wording import listed

FALSE_WINNERS = 0.05
"""Maximum share of benchmarks of equally fast settings in which one of them is called the fastest."""

MAX_NAMED = 3
"""Maximum number of settings that a sentence lists."""

Verdict = Literal["winner", "plain", "tied", "undecided", "too few"]
"""Outcome of a comparison: one setting beats all others; plain decoding beats all others; several settings beat plain decoding
but not each other; plain decoding cannot be told from the fastest; there are fewer than `MIN_PROMPTS` prompts."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A setting that can be chosen; plain decoding is one too.

    Attributes:
        speedup: geometric mean over prompts; 1 for plain decoding.
        interval: 95% interval of its own speed-up; None for plain decoding and for too few prompts.
        by_prompt: speed-up on each prompt, in the order of the prompts.
        peak_memory: as in `BenchRow`, the maximum over prompts.
    """

    setting: BenchSetting
    speedup: float
    interval: Interval | None
    by_prompt: tuple[float, ...]
    peak_memory: int | None


@dataclass(frozen=True, slots=True)
class Decision:
    """Choice of a setting at one temperature.

    Attributes:
        prompts: number of prompts on which every contender was measured.
        contenders: fastest first.
        best: the fastest contender and those that it does not beat; there is a winner only if it is alone.
        advised: the contender to use; None if there is no basis for a choice yet.
        resolution: approximate speed ratio above which two settings can be told apart; None for too few prompts.
    """

    temperature: float
    prompts: tuple[str, ...]
    contenders: tuple[Contender, ...]
    verdict: Verdict
    best: tuple[Contender, ...]
    advised: Contender | None
    resolution: float | None


def decide(rows: Sequence[BenchRow], settings: Sequence[BenchSetting], target: str = "builtin") -> tuple[Decision, ...]:
    """Returns a decision for each temperature, in the order of the settings. mlx-lm's settings are not considered.

    Args:
        settings: all settings that were to be measured, so that missing ones are known.
        target: its name as requested, which determines the default drafter.
    """
    own = [setting for setting in settings if setting.maker == "draftlight" and not setting.is_baseline]
    temperatures = dict.fromkeys(setting.temperature for setting in own)
    return tuple(
        _decide(rows, [setting for setting in own if setting.temperature == temperature], temperature, target)
        for temperature in temperatures
    )


def _decide(rows: Sequence[BenchRow], settings: Sequence[BenchSetting], temperature: float, target: str) -> Decision:
    complete = [row for row in whole_blocks(rows, settings) if row.temperature == temperature and row.speedup]
    rows_of: dict[BenchSetting, dict[str, BenchRow]] = {setting: {} for setting in settings}
    for row in complete:
        if row.setting in rows_of:
            rows_of[row.setting][row.prompt_id] = row
    prompts = [
        prompt
        for prompt in dict.fromkeys(row.prompt_id for row in complete)
        if all(prompt in by_id for by_id in rows_of.values())
    ]
    if not prompts:
        return Decision(temperature, (), (), "too few", (), None, None)
    plain = BenchSetting("draftlight", NO_DRAFTER, None, temperature, None)
    peaks = [row.peak_memory for row in complete if row.setting == plain and row.peak_memory is not None]
    logs: dict[BenchSetting, Floats] = {plain: np.zeros(len(prompts))}
    contenders = [Contender(plain, 1.0, None, (1.0,) * len(prompts), max(peaks, default=None))]
    for setting, by_prompt in rows_of.items():
        logs[setting] = np.log([by_prompt[prompt].speedup or 1.0 for prompt in prompts])
        contenders.append(_contender(setting, logs[setting], [by_prompt[prompt] for prompt in prompts]))
    contenders.sort(key=lambda entry: -entry.speedup)
    if len(prompts) < MIN_PROMPTS:
        return Decision(temperature, tuple(prompts), tuple(contenders), "too few", (), None, None)
    best, distances = [contenders[0]], []
    for other in contenders[1:]:
        difference = logs[contenders[0].setting] - logs[other.setting]
        low, _ = mean_interval(difference, FALSE_WINNERS / (len(contenders) - 1)) or (-math.inf, math.inf)
        distances.append(float(difference.mean()) - low)
        if low <= 0:
            best.append(other)
    verdict, advised = _verdict(best, target)
    resolution = math.exp(float(np.median(distances)))
    return Decision(temperature, tuple(prompts), tuple(contenders), verdict, tuple(best), advised, resolution)


def _contender(setting: BenchSetting, logs: Floats, rows: Sequence[BenchRow]) -> Contender:
    return Contender(
        setting,
        math.exp(float(logs.mean())),
        speedup_interval(logs),
        tuple(math.exp(value) for value in logs),
        max((row.peak_memory for row in rows if row.peak_memory is not None), default=None),
    )


def _verdict(best: Sequence[Contender], target: str) -> tuple[Verdict, Contender | None]:
    """Returns the verdict and the advised contender. Among equals this is the default drafter with automatic gamma, if it beats
    plain decoding, else the fastest."""
    if len(best) == 1:
        return ("plain" if best[0].setting.is_baseline else "winner"), best[0]
    if any(entry.setting.is_baseline for entry in best):
        return "undecided", None
    automatic = {entry.setting.drafter: entry for entry in best if entry.setting.gamma == "auto" and entry.interval is not None}
    defaults = (automatic[name] for name in (default_drafter(), single_drafter(target)) if name in automatic)
    return "tied", next((entry for entry in defaults if entry.interval is not None and entry.interval[0] > 1), best[0])


@dataclass(frozen=True, slots=True)
class Advice:
    """Text of a decision: what to use, and how certain that is."""

    headline: str
    details: tuple[str, ...]


def advice(decision: Decision, titles: bool = False) -> Advice:
    """Returns the text of a decision. `titles`: name drafters as in the window, not as on the command line."""
    if decision.verdict == "too few":
        return Advice(
            "Too little was measured to choose a drafter.",
            (f"At least {MIN_PROMPTS} prompts have to be measured with every setting.",),
        )
    rules, chosen = has_several_rules(entry.setting for entry in decision.contenders), decision.advised

    def words(entry: Contender) -> str:
        """Returns a contender's name for a sentence."""
        return setting_words(entry.setting, rules, titles)

    if chosen is None:
        headline = "No drafter is faster than plain decoding by more than the noise."
    elif chosen.setting.is_baseline:
        headline = "Use no drafter: plain decoding is the fastest here."
    else:
        headline = f"Use {words(chosen)}: {_times(chosen)} as fast as plain decoding."
    match decision.verdict:
        case "tied":
            others = [f"{words(entry)} ({entry.speedup:.2f})" for entry in decision.best if entry != chosen]
            named = others if len(others) <= MAX_NAMED else [*others[: MAX_NAMED - 1], f"{len(others) - MAX_NAMED + 1} more"]
            certainty = f"Within the noise, others may be as fast or faster: {listed(named)}."
        case "undecided":
            fastest = next(entry for entry in decision.best if not entry.setting.is_baseline)
            certainty = f"The fastest was {words(fastest)}: {_times(fastest)} as fast."
        case _:
            certainty = f"It was faster than each of the other {len(decision.contenders) - 1} by more than the noise."
    return Advice(headline, (certainty, _resolution(decision)))


def has_several_rules(settings: Iterable[BenchSetting]) -> bool:
    """Returns whether names of these settings have to include the rule."""
    return len({setting.rule for setting in settings} - {None}) > 1


def _resolution(decision: Decision) -> str:
    factor = decision.resolution or 1.0
    gap = f"by about {factor - 1:.0%}" if factor < 2 else f"by a factor of about {factor:.1f}"
    return f"With these {len(decision.prompts)} prompts, settings have to differ {gap} to be told apart."


def setting_words(setting: BenchSetting, rule: bool = False, title: bool = False) -> str:
    """Returns a setting's name for a sentence. `rule`: include the rule. `title`: as in the window ("Trained head" for
    "head")."""
    if setting.is_baseline:
        return "plain decoding"
    drafter = setting.drafter if setting.drafter in DRAFTERS and not title else drafter_title(setting.drafter)
    return f"{drafter} with gamma {setting.gamma}" + (f" under {setting.rule}" if rule else "")


def _times(entry: Contender) -> str:
    if entry.interval is None:
        return f"{entry.speedup:.2f} times"
    return f"{entry.speedup:.2f} times ({entry.interval[0]:.2f} to {entry.interval[1]:.2f})"
