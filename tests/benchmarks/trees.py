"""Trees with the built-in pair: what their rows cost, whether they change a text, and what they gain over chains.

python -m tests.benchmarks.trees [--parts costs texts gain] [--prompts FILE] [--limit 4] [--tokens 32] [--repeats 9]
    [--drafter builtin-draft] [--temperatures 0,0.8] [--budgets 1,2,4,8,16,32] [--widths 1,2,3,4,8]

costs: medians of passes over 1 to 32 rows as a chain and as a tree, one after the other in each repetition, as multiples of the
pass over one row before them.

texts: for each prompt, temperature, rule (gumbel and match), budget and width one answer; counts those
whose text is that of the plain answer of the same seed. A text that diverges at a near-tie (DESIGN, section 2) is counted apart.

gain: tokens per round and speed-up over the plain answer, for chains of 1 to 4 proposals and for trees of each budget with the
largest width, one after the other for each prompt, with 95 % intervals over prompts.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.decode.decoding import DecodingOptions, decode
from engine.drafters.base import Drafter
from engine.models.loaded import LoadedModel
from engine.models.loading import load
from engine.rounds import near_ties
from engine.target import prompt_cache as caches
from engine.target.tree_pass import TreeRows, tree_pass
from engine.types import Emitted
from engine.values.drafter_kinds import SMALL_DRAFT
from engine.values.statistics import student_quantile
from engine.values.tree_shape import likeliest_tree
from tests.exactness import OWN_PROMPTS, Prompt, make_drafter, prompt_tokens, read_prompts

ROWS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)


def costs(target: LoadedModel, prompt: Sequence[int], repeats: int) -> None:
    """Prints the cost of a pass by its number of rows."""
    model = target.model
    cache = caches.make_prompt_cache(model)
    caches.read_prompt(model, cache, prompt, lambda done, total: True)
    length = len(prompt)

    def timed(read: Callable[[], mx.array]) -> float:
        """Returns the seconds of a pass, and takes its rows back."""
        began = time.perf_counter()
        mx.eval(read())
        took = time.perf_counter() - began
        caches.trim_to(cache, length, "target")
        return took

    def chain(rows: int) -> float:
        return timed(lambda: model(mx.array([[5] * rows]), cache=cache))

    def tree(rows: int) -> float:
        shape = TreeRows.whole(likeliest_tree(rows - 1, 8, 8)[0])
        return timed(lambda: tree_pass(model, cache, mx.array([5] * rows), shape))

    found: dict[int, list[tuple[float, float, float]]] = {rows: [] for rows in ROWS}
    for repetition in range(repeats + 1):
        for rows in ROWS:
            times = chain(1), chain(rows), tree(rows)
            if repetition:  # the first one has one-time costs
                found[rows].append(times)
    print(f"{target.name}, {length} tokens before, medians of {repeats}")
    print("rows  chain  tree   (passes over one row)")
    for rows, measured in found.items():
        as_chain, as_tree = (statistics.median(each[kind] / each[0] for each in measured) for kind in (1, 2))
        print(f"{rows:4}  {as_chain:5.2f}  {as_tree:5.2f}")
    print(f"one row: {statistics.median(each[0] for measured in found.values() for each in measured) * 1e3:.1f} ms")


def answered(
    target: LoadedModel, drafter: Drafter | None, prompt: Sequence[int], options: DecodingOptions
) -> tuple[list[Emitted], int, float]:
    """Returns the tokens of an answer, the number of its rounds, and the milliseconds that they took."""
    rounds = list(decode(target, prompt, drafter, options, eos_ids=()))
    return [token for each in rounds for token in each.emitted], len(rounds), sum(each.milliseconds.total for each in rounds[1:])


def texts(target: LoadedModel, drafter: Drafter, prompts: Sequence[Prompt], asked: argparse.Namespace) -> bool:
    """Prints how many texts equal the plain ones; returns whether none differs but at a near-tie."""
    limit = near_ties.limit(caches.logits_type(target.model))
    equal, near, other = 0, list[str](), list[str]()
    for number, prompt in enumerate(prompts):
        ids = prompt_tokens(target, prompt)
        for temperature in asked.temperatures:
            base = DecodingOptions(temperature=temperature, seed=number, max_tokens=asked.tokens, phase_every=0, gamma=6)
            plain = answered(target, None, ids, base)[0]
            for rule in ("gumbel", "match"):
                for budget in asked.budgets:
                    for width in asked.widths:
                        options = base.replace(rule=rule, budget=budget, width=width)
                        text = answered(target, drafter, ids, options)[0]
                        pairs = zip(plain, text, strict=True)
                        at = next((place for place, (one, two) in enumerate(pairs) if one.id != two.id), None)
                        if at is None:
                            equal += 1
                            continue
                        gap = near_ties.nearest((plain[at], text[at]), temperature)
                        words = f"{prompt.id}, T {temperature:g}, {rule}, budget {budget}, width {width}: token {at + 1}, {gap}"
                        (near if gap is not None and gap.size < limit else other).append(words)
    print(f"{equal + len(near) + len(other)} answers: {equal} equal, {len(near)} diverge at a near-tie, {len(other)} differ")
    print("\n".join([*near, *other]))
    return not other


def interval(values: Sequence[float]) -> str:
    """Returns a mean and its 95 % interval."""
    mean = statistics.mean(values)
    if len(values) < 2:
        return f"{mean:5.2f}"
    reach = student_quantile(0.025, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean:5.2f} ± {reach:.2f}"


def gain(target: LoadedModel, drafter: Drafter, prompts: Sequence[Prompt], asked: argparse.Namespace) -> None:
    """Prints tokens per round and speed-up of chains and trees."""
    settings: dict[str, dict[str, Any]] = {f"chain of {gamma}": {"gamma": gamma} for gamma in (1, 2, 3, 4)}
    settings |= {f"tree of {budget}": {"gamma": 6, "budget": budget, "width": max(asked.widths)} for budget in asked.budgets}
    for temperature in asked.temperatures:
        for rule in ("gumbel", "rejection") if temperature else ("gumbel",):
            taus: dict[str, list[float]] = {name: [] for name in settings}
            speeds: dict[str, list[float]] = {name: [] for name in settings}
            for number, prompt in enumerate(prompts):
                ids = prompt_tokens(target, prompt)
                base = DecodingOptions(rule=rule, temperature=temperature, seed=number, max_tokens=asked.tokens, analyse=False)
                base = base.replace(phase_every=0)
                plain = answered(target, None, ids, base)[2] / (asked.tokens - 1)
                for name, changes in settings.items():
                    tokens, rounds, took = answered(target, drafter, ids, base.replace(**changes))
                    taus[name].append(len(tokens) / rounds)
                    speeds[name].append(plain * (len(tokens) - len(tokens) / rounds) / took)
            print(f"T {temperature:g}, {rule}, {len(prompts)} prompts: tokens per round, speed-up")
            for name in settings:
                print(f"  {name:12} {interval(taus[name])}   {interval(speeds[name])}")


def numbers(kind: type) -> Callable[[str], list[Any]]:
    """Returns the parser of a list such as "1,2,4"."""
    return lambda text: [kind(part) for part in text.split(",")]


def main() -> int:
    """Runs the parts that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["costs", "texts", "gain"], choices=["costs", "texts", "gain"])
    parser.add_argument("--prompts", type=Path, default=OWN_PROMPTS)
    parser.add_argument("--limit", type=int, default=4)
    parser.add_argument("--drafter", default=SMALL_DRAFT, help="a drafter that grows trees")
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--temperatures", type=numbers(float), default=[0.0, 0.8])
    parser.add_argument("--budgets", type=numbers(int), default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--widths", type=numbers(int), default=[1, 2, 3, 4, 8])
    asked = parser.parse_args()
    target = load("builtin")
    prompts = read_prompts(asked.prompts)[: asked.limit]
    if "costs" in asked.parts:
        costs(target, prompt_tokens(target, prompts[0]), asked.repeats)
    drafter = make_drafter(asked.drafter, target)
    assert drafter is not None and not drafter.tree_reason()
    sound = "texts" not in asked.parts or texts(target, drafter, prompts, asked)
    if "gain" in asked.parts:
        gain(target, drafter, prompts, asked)
    return 0 if sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
