"""Checks that an automatic gamma is never slower than plain decoding, nor much slower than the best fixed gamma.

    python -m tests.benchmarks.never_slower --prompts FILE [--limit 14] [--tokens 64] [--drafters auto,ngram,head,builtin-draft]
        [--temperatures 0,0.8] [--fixed 1,3] [--categories chat,code] [--rows OUT] [--minutes 20]
        [--clock processor | --told 0.035,0.09,0.07,0.1]

Every prompt is answered plainly and with each drafter, one setting directly after the other, with plain runs first and last.
Times are wall times, as in the window, or with --clock processor the processor time of this process, which other programs
disturb less. The automatic gamma decides by the same clock, and by costs that were measured with it beforehand. With --told, a
simulated clock is used (`tests.benchmarks.told_times`): it compares choices without the noise of the machine, and for other
machines.

Prints by temperature, category and drafter the speed-up of an automatic gamma over the mean of the two plain runs of the same
prompt: the geometric mean, and the lower end of a 95 % interval over prompts. For that end a speed-up above 1.25 counts as
1.25, because gains scatter far more than losses. Then `auto` as a drafter against the best single one, and an automatic gamma
against the best fixed one, over all prompts. OUT gets a JSON line for each measurement; those that it already has are not
repeated.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from engine.decode.context import DecodeContext
from engine.decode.decoding import DecodingOptions
from engine.decode.loop import DecodeLoop
from engine.decode.measuring import measure
from engine.decode.policy.costs import MachineCosts
from engine.decode.run_control import Clock
from engine.models.loaded import LoadedModel
from engine.models.loading import load
from engine.values.statistics import student_quantile
from tests.benchmarks.told_times import ToldTimes
from tests.exactness import OWN_PROMPTS, Prompt, make_drafter, prompt_tokens, read_prompts

PLAIN = "none"
TOLD = "told"
MUCH = 1.25
"""A speed-up beyond which it is out of question that drafting pays."""
Row = dict[str, Any]


class ProcessorClock(Clock):
    """Seconds that the processor has worked for this process."""

    def __call__(self) -> float:
        return time.process_time()


CLOCKS = {"wall": Clock, "processor": ProcessorClock}


def answered(
    target: LoadedModel,
    prompt: Prompt,
    name: str,
    gamma: int | str,
    temperature: float,
    tokens: int,
    costs: MachineCosts,
    clock: str,
    told: ToldTimes | None = None,
) -> Row:
    """One answer, timed from the end of its first round to that of its last, as rounds tell it. On the CPU back-end a round hands
    over its token when most of the pass that it queued for the next is done. A clock read there would leave that out where an
    answer begins with a plain round, and so favour no drafting: by 1.6 % in 64 tokens, by 5.7 % in 18."""
    setting = {
        "prompt": prompt.id,
        "category": prompt.category,
        "drafter": name,
        "gamma": gamma,
        "temperature": temperature,
        "clock": clock,
    }
    if told is not None and name == PLAIN:  # known without an answer
        return {**setting, "tokens": tokens, "seconds": told.plain(tokens)}
    options = DecodingOptions(
        gamma=2 if name == PLAIN else gamma,  # type: ignore[arg-type]
        temperature=temperature,
        max_tokens=tokens,
        seed=1,
        analyse=False,
        phase_every=0,
    )
    drafter = make_drafter(name, target)
    if told is None:
        own = CLOCKS[clock]()
    else:
        own, drafter = told, told.timed(drafter)
    context = DecodeContext(target, prompt_tokens(target, prompt), drafter, options, clock=own, costs=costs)
    rounds = list(DecodeLoop(context).rounds())
    # The first round absorbs the prompt into heads and draft models, as reading it does for the target.
    began, ended = (current.started + current.milliseconds.total for current in (rounds[0], rounds[-1]))
    costs.follow(rounds, temperature)
    return {
        **setting,
        "tokens": sum(len(finished.emitted) for finished in rounds[1:]),
        "seconds": (ended - began) / 1e3,
        "rounds": len(rounds) - 1,
        "rested": sum(not finished.proposals for finished in rounds) / len(rounds),
        "by": {
            name: sum(finished.proposer == name for finished in rounds) for name in {each.proposer for each in rounds} if name
        },
    }


def interval(logs: Sequence[float], most: float = math.inf) -> tuple[float, float]:
    """The geometric mean of ratios given by their logarithms, and the lower end of its 95 % interval; 0 for a single one.

    Ratios above `most` count as that for the lower end: so it is no higher, and answers that a drafter makes many times as fast
    do not widen an interval that asks whether they are slower.
    """
    if len(logs) < 2:
        return math.exp(mean(logs)), 0.0
    counted = [min(log, math.log(most)) for log in logs]
    reach = student_quantile(0.025, len(logs) - 1) * stdev(counted) / math.sqrt(len(logs))
    return math.exp(mean(logs)), math.exp(mean(counted) - reach)


def speedups(rows: Sequence[Row]) -> dict[tuple[float, str, str, int | str], dict[str, float]]:
    """By temperature, category, drafter and gamma: of each prompt the logarithm of plain time per token / time per token."""
    plain: defaultdict[tuple[float, str], list[float]] = defaultdict(list)
    for row in rows:
        if row["drafter"] == PLAIN and row["tokens"]:
            plain[row["temperature"], row["prompt"]].append(row["seconds"] / row["tokens"])
    found: defaultdict[tuple[float, str, str, int | str], dict[str, float]] = defaultdict(dict)
    for row in rows:
        usual = plain.get((row["temperature"], row["prompt"]))
        if row["drafter"] != PLAIN and row["tokens"] and usual:
            log = math.log(mean(usual) * row["tokens"] / row["seconds"])
            for category in (row["category"], "all"):
                found[row["temperature"], category, row["drafter"], row["gamma"]][row["prompt"]] = log
    return found


def report(rows: Sequence[Row], clock: str) -> None:
    """The tables, of answers timed by this clock."""
    found = speedups(rows)
    print(f"\nSpeed-up against plain, gamma auto, by {clock} time: geometric mean (lower 95 % bound), share of plain rounds")
    for (temperature, category, drafter, gamma), logs in sorted(found.items(), key=lambda entry: tuple(map(str, entry[0]))):
        if gamma != "auto":
            continue
        middle, low = interval(list(logs.values()), MUCH)
        rested = mean(
            row["rested"]
            for row in rows
            if (row["temperature"], row["drafter"], row["gamma"]) == (temperature, drafter, gamma) and row["prompt"] in logs
        )
        missed = " <" if middle < 0.97 or (len(logs) > 1 and low < 0.93) else ""
        print(f"T {temperature:<4} {category:10} {drafter:14} {middle:5.2f} ({low:4.2f}) {rested:5.0%}  n={len(logs)}{missed}")
    for temperature in sorted({key[0] for key in found}):
        _report_best(found, temperature)


def _report_best(found: dict[tuple[float, str, str, int | str], dict[str, float]], temperature: float) -> None:
    """What auto chooses, against the best of what it chooses among."""
    here = {key[1:]: logs for key, logs in found.items() if key[0] == temperature}
    for category in sorted({category for category, _, _ in here}):
        singles = {d: logs for (c, d, gamma), logs in here.items() if c == category and gamma == "auto" and d != "auto"}
        ours = here.get((category, "auto", "auto"))
        if ours and singles:
            best = max(singles, key=lambda name: mean(singles[name].values()))
            shared = [ours[prompt] - singles[best][prompt] for prompt in ours if prompt in singles[best]]
            middle, low = interval(shared)
            print(f"T {temperature:<4} {category:10} auto / {best} (the best single one): {middle:.2f} (lower bound {low:.2f})")
    for drafter in sorted({drafter for _, drafter, _ in here}):
        ours = here.get(("all", drafter, "auto"))
        fixed = {gamma: logs for (c, d, gamma), logs in here.items() if (c, d) == ("all", drafter) and gamma != "auto"}
        if ours and fixed:
            gamma = max(fixed, key=lambda gamma: mean(fixed[gamma].values()))
            middle, low = interval([ours[prompt] - fixed[gamma][prompt] for prompt in ours if prompt in fixed[gamma]])
            print(f"T {temperature:<4} all        {drafter}: auto / gamma {gamma} best fixed: {middle:.2f} (from {low:.2f})")


def settings(drafters: Sequence[str], fixed: Sequence[int], is_told: bool) -> Iterator[tuple[str, int | str]]:
    """Plain, every drafter with each gamma, plain again unless times are told."""
    yield PLAIN, "auto"
    for name in drafters:
        for gamma in ("auto", *fixed):
            yield name, gamma
    if not is_told:
        yield PLAIN, "auto"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=Path, default=OWN_PROMPTS, help="JSON Lines with id, category and turns")
    parser.add_argument("--limit", type=int, default=14, help="prompts to take, the categories in turn")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of each answer")
    parser.add_argument("--drafters", default="auto,ngram,head,builtin-draft")
    parser.add_argument("--temperatures", default="0,0.8")
    parser.add_argument("--fixed", default="1,3", help="fixed gammas to compare with, or nothing")
    parser.add_argument("--categories", help="only these; all unless given")
    parser.add_argument("--rows", type=Path, help="a file to which each answer's figures are added")
    decided = parser.add_mutually_exclusive_group()
    decided.add_argument("--clock", choices=list(CLOCKS), default="wall", help="what time is")
    decided.add_argument("--told", metavar="ROW,FIRST,STEP[,SCATTER]", help="tell times by such costs, in passes over one row")
    parser.add_argument("--minutes", type=float, default=20.0, help="begin no prompt after so long")
    chosen = parser.parse_args(arguments)

    target = load("builtin")
    told = None if chosen.told is None else ToldTimes(*(float(part) for part in chosen.told.split(",")))
    clock = chosen.clock if told is None else TOLD
    drafters, fixed = chosen.drafters.split(","), [int(gamma) for gamma in chosen.fixed.split(",") if gamma]
    if told is None:
        costs = MachineCosts()
        for name in drafters:
            for _ in measure(target, make_drafter(name, target), costs, CLOCKS[clock]()):
                pass
    else:
        costs = told.costs(["head", *drafters])
        told.watch(target)
    plain = costs.rows[1]
    print("rows:", ", ".join(f"{rows} {time / plain:.2f}" for rows, time in sorted(costs.rows.items())), f"of {plain:.0f} ms")
    print("draft steps:", {name: tuple(round(time / plain, 2) for time in times) for name, times in costs.steps.items()})
    kept = chosen.rows.read_text(encoding="utf-8").splitlines() if chosen.rows is not None and chosen.rows.exists() else []
    rows: list[Row] = [row for row in map(json.loads, kept) if row.get("clock") == clock]
    measured = {(row["prompt"], row["temperature"], row["drafter"], str(row["gamma"])) for row in rows}
    wanted = list(settings(drafters, fixed, told is not None))
    began = time.perf_counter()
    prompts = read_prompts(chosen.prompts)
    if chosen.categories:
        prompts = [prompt for prompt in prompts if prompt.category in chosen.categories.split(",")]
    for prompt in prompts[: chosen.limit]:
        for temperature in (float(part) for part in chosen.temperatures.split(",")):
            if all((prompt.id, temperature, name, str(gamma)) in measured for name, gamma in wanted):
                continue
            block = [
                answered(target, prompt, name, gamma, temperature, chosen.tokens, costs, clock, told) for name, gamma in wanted
            ]
            rows += block
            if chosen.rows is not None:
                with chosen.rows.open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(row) + "\n" for row in block)
        if time.perf_counter() - began > chosen.minutes * 60:
            break
    print(f"{len({row['prompt'] for row in rows})} prompts, {chosen.tokens} tokens")
    report(rows, clock)


if __name__ == "__main__":
    main()
