"""Trees that the policy chooses against chains that it chooses: tokens per round and speed, by category of prompts.

python -m tests.benchmarks.tree_budget RESULTS [--prompts FILE] [--each 10] [--tokens 32] [--drafters head,auto]
    [--settings gumbel:0,gumbel:0.2,gumbel:0.8,gumbel:1,rejection:0.8] [--report]

For each prompt and setting there is a plain answer, and for each drafter one with gamma `auto` and chains, and one with gamma and
budget `auto`, all of the same length and one after the other. Each kind keeps its acceptance rates from answer to answer, as the
program does. The first round of an answer has one-time costs and is left out of the times. RESULTS (JSON lines) grows by a line
for each prompt, category after category, and is continued if it exists. `--report` prints what is there:

- tau and speed-up over plain, and the ratio of trees to chains with its 95 % interval over prompts, for each category and all;
  categories in which trees are significantly slower (Holm's correction over all tests of the report);
- for the head, the share of each choice that was the target's token, measured with trees of one level; the bound that follows for
  trees of a fixed shape with this machine's costs (`engine.rounds.tree_theory.tree_bound`), and the share of it that was reached;
- under gumbel at 0.8 the same with the costs of a device whose passes of up to 8 rows take equally long (`FLAT`).
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from engine.decode.context import DecodeContext
from engine.decode.loop import DecodeLoop
from engine.decode.measuring import measure
from engine.decode.policy.adaptive import MOST_SAMPLED, NODES_PER_LEVEL
from engine.decode.policy.costs import MachineCosts
from engine.decode.policy.estimates import Cost
from engine.drafters.base import Drafter
from engine.models.loaded import LoadedModel
from engine.models.loading import load
from engine.rounds.tree_theory import tree_bound
from engine.target import prompt_cache as caches
from engine.target.interface import PromptCache
from engine.types import DecodingOptions, Round
from engine.values.drafter_kinds import HEAD
from engine.values.statistics import student_quantile
from tests.benchmarks.trees import interval
from tests.exactness import OWN_PROMPTS, Prompt, make_drafter, prompt_tokens, read_prompts

KINDS: dict[str, dict[str, Any]] = {"chain": {"gamma": "auto", "budget": None}, "tree": {"gamma": "auto", "budget": "auto"}}
ONE_LEVEL = {"gamma": 1, "budget": 4, "width": 4}
FLAT = MachineCosts({rows: 100.0 if rows <= 8 else 100.0 + 6 * (rows - 8) for rows in range(1, 17)}, {HEAD: (5.0, 5.0)})
"""Assumed milliseconds of a device with flat rows up to 8: not measured."""
ON_FLAT_ROWS = ("gumbel", 0.8)


@dataclass
class Bench:
    """The models, and what each kind of answer has learned."""

    target: LoadedModel
    drafters: dict[str, Drafter]
    costs: MachineCosts
    tokens: int

    def __post_init__(self) -> None:
        self._learned: defaultdict[tuple[str, ...], MachineCosts] = defaultdict(lambda: copy.deepcopy(self.costs))

    def rounds(
        self, ids: Sequence[int], cache: PromptCache, drafter: Drafter | None, options: DecodingOptions, costs: MachineCosts
    ) -> list[Round]:
        """Decodes an answer, and cuts the cache back to the prompt."""
        context = DecodeContext(self.target, ids, drafter, options, eos_ids=(), cache=cache, costs=costs)
        found = list(DecodeLoop(context).rounds())
        caches.trim_to(cache, len(ids) - 1, "target")
        return found

    def of(self, prompt: Prompt, seed: int, settings: Sequence[tuple[str, float]]) -> dict[str, Any]:
        """Returns the figures of all answers to a prompt."""
        ids = prompt_tokens(self.target, prompt)
        cache = caches.make_prompt_cache(self.target.model)
        found: dict[str, Any] = {"prompt": prompt.id, "category": prompt.category, "answers": []}
        for rule, temperature in settings:
            base = DecodingOptions(rule=rule, temperature=temperature, seed=seed, max_tokens=self.tokens)  # type: ignore[arg-type]
            base = base.replace(analyse=False, phase_every=0)
            plain = self.rounds(ids, cache, None, base, self.costs)
            for name, drafter in self.drafters.items():
                answer: dict[str, Any] = {"rule": rule, "temperature": temperature, "drafter": name, "plain": _figures(plain)}
                answer["same"] = []
                for kind, changes in KINDS.items():
                    learned = self._learned[rule, str(temperature), name, kind]
                    rounds = self.rounds(ids, cache, drafter, base.replace(**changes), learned)
                    learned.follow(rounds, temperature)
                    answer[kind] = _figures(rounds)
                    answer["same"].append(_text(rounds) == _text(plain))
                if name == HEAD:
                    rounds = self.rounds(ids, cache, drafter, base.replace(**ONE_LEVEL), self.costs)
                    answer["ranks"] = _ranks(rounds)
                    if (rule, temperature) == ON_FLAT_ROWS:
                        answer["flat"] = self._on_flat_rows(ids, cache, drafter, base)
                found["answers"].append(answer)
        return found

    def _on_flat_rows(self, ids: Sequence[int], cache: PromptCache, drafter: Drafter, base: DecodingOptions) -> dict[str, float]:
        """Returns the speed of chain and tree where each round takes what FLAT says."""
        extra, speeds = Cost(FLAT.extra(HEAD, samples=True)), {}
        for kind, changes in KINDS.items():
            with patch.object(Cost, "learn", lambda *_: None):
                rounds = self.rounds(ids, cache, drafter, base.replace(**changes), copy.deepcopy(FLAT))
            time = sum(1 + extra.of(len(finished.proposals), _levels(finished)) for finished in rounds)
            speeds[kind] = sum(len(finished.emitted) for finished in rounds) / time
        return speeds


def _levels(finished: Round) -> int:
    """Returns the depth of the sampled proposals."""
    return max((depth for depth, each in zip(finished.depths, finished.proposals, strict=True) if not each.copied), default=0)


def _text(rounds: Sequence[Round]) -> list[int]:
    return [token.id for finished in rounds for token in finished.emitted]


def _figures(rounds: Sequence[Round]) -> dict[str, Any]:
    counted = rounds[1:]
    return {
        "rounds": len(rounds),
        "tokens": sum(len(finished.emitted) for finished in rounds),
        "milliseconds": sum(finished.milliseconds.total for finished in counted) / sum(len(each.emitted) for each in counted),
        "nodes": [len(finished.proposals) for finished in rounds],
    }


def _ranks(rounds: Sequence[Round]) -> list[int]:
    """Returns how often the target's token was the choice of each rank, and last how often none; copies are left out."""
    counts = [0] * (ONE_LEVEL["width"] + 1)
    for finished in rounds:
        if finished.proposals and not any(each.copied for each in finished.proposals):
            accepted = next((each.rank for each in finished.proposals if each.status == "accepted"), ONE_LEVEL["width"])
            counts[accepted] += 1
    return counts


# Report


def slower(values: Sequence[float]) -> float:
    """Returns the one-sided p-value of a mean of logarithms below 0: by Student's t."""
    spread = statistics.stdev(values) if len(values) > 2 else 0.0
    if not spread:
        return 1.0
    t, low, high = statistics.mean(values) / (spread / math.sqrt(len(values))), 1e-12, 0.5
    if t >= 0:
        return 1.0
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if student_quantile(middle, len(values) - 1) <= -t else (middle, high)
    return high


def significant(p_values: dict[str, float], level: float = 0.05) -> list[str]:
    """Returns the hypotheses that Holm's procedure rejects."""
    rejected = list[str]()
    for place, (name, p) in enumerate(sorted(p_values.items(), key=lambda entry: entry[1])):
        if p > level / (len(p_values) - place):
            break
        rejected.append(name)
    return rejected


def report(lines: Sequence[dict[str, Any]], costs: MachineCosts) -> None:
    """Prints all tables."""
    groups: defaultdict[tuple[str, float, str], list[tuple[str, dict[str, Any]]]] = defaultdict(list)
    for line in lines:
        for answer in line["answers"]:
            groups[answer["drafter"], answer["temperature"], answer["rule"]].append((line["category"], answer))
    p_values: dict[str, float] = {}
    shown = ", ".join(f"{rows}: {time / costs.rows[1]:.2f}" for rows, time in costs.rows.items())
    print(f"{len(lines)} prompts; one row takes {costs.rows[1]:.1f} ms; passes by rows: {shown}")
    for (drafter, temperature, rule), entries in sorted(groups.items(), key=str):
        same = [sum(answer["same"][place] for _, answer in entries) for place in (0, 1)]
        print(f"\n{drafter}, {rule}, T {temperature:g}: text as plain: {same[0]} chains, {same[1]} trees of {len(entries)}")
        print(f"  {'category':10} {'n':>3}  tau chain  tree   speed chain  tree   tree / chain: tau            speed")
        for category in [*sorted({category for category, _ in entries}), "all"]:
            chosen = [answer for of, answer in entries if category in (of, "all")]
            taus = {kind: [each[kind]["tokens"] / each[kind]["rounds"] for each in chosen] for kind in KINDS}
            speeds = {
                kind: [each["plain"]["milliseconds"] / each[kind]["milliseconds"] for each in chosen]
                for kind in ("chain", "tree")
            }
            ratios = [[tree / chain for chain, tree in zip(of["chain"], of["tree"], strict=True)] for of in (taus, speeds)]
            p_values[f"{drafter}, {rule}, T {temperature:g}, {category}"] = slower([math.log(ratio) for ratio in ratios[1]])
            means = [statistics.mean(of[kind]) for of in (taus, speeds) for kind in KINDS]
            tau, speed = map(interval, ratios)
            shown = f"{means[0]:9.2f} {means[1]:5.2f}  {means[2]:11.2f} {means[3]:5.2f}   {tau}   {speed}"
            print(f"  {category:10} {len(chosen):3}  {shown}")
        if drafter == HEAD:
            _bounds([answer for _, answer in entries], costs)
    found = significant(p_values)
    print(f"\nslower with trees (Holm, 5 %, {len(p_values)} tests): {'; '.join(found) or 'none'}")


def _bounds(answers: Sequence[dict[str, Any]], costs: MachineCosts) -> None:
    """Prints the bound for a fixed shape on this machine and on flat rows, and what was reached."""
    counts = [sum(answer["ranks"][rank] for answer in answers) for rank in range(ONE_LEVEL["width"] + 1)]
    chances = [count / sum(counts) for count in counts[:-1]]
    print("  target's token is choice 1, 2, 3, 4: " + ", ".join(f"{chance:.2f}" for chance in chances) + f" of {sum(counts)}")
    _bound("this machine", chances, costs, [each["plain"]["milliseconds"] / each["tree"]["milliseconds"] for each in answers])
    if flat := [each["flat"] for each in answers if "flat" in each]:
        _bound("flat rows up to 8", chances, FLAT, [each["tree"] for each in flat])
        ratio = interval([each["tree"] / each["chain"] for each in flat])
        chain = statistics.mean(each["chain"] for each in flat)
        print(f"  flat rows up to 8: chain {chain:.2f}; tree / chain {ratio}")


def _bound(name: str, chances: Sequence[float], costs: MachineCosts, speeds: Sequence[float]) -> None:
    extra, reached = Cost(costs.extra(HEAD, samples=True)), statistics.mean(speeds)
    rows = [1 + extra.of(nodes, 0) for nodes in range(NODES_PER_LEVEL * MOST_SAMPLED + 1)]
    drafts = [extra.of(0, level + 1) - extra.of(0, level) for level in range(MOST_SAMPLED)]
    bound = tree_bound(chances, rows, drafts, MOST_SAMPLED)
    share = reached / bound.speed
    print(f"  {name}: bound {bound.speed:.2f} with {bound.nodes} nodes; reached, with copies, {reached:.2f} ({share:.0%})")


def known(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the lines of an earlier run; the first has the machine's costs."""
    if path.exists():
        with path.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def main() -> None:
    """Measures, or prints the report of what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--prompts", type=Path, default=OWN_PROMPTS)
    parser.add_argument("--each", type=int, default=10, help="prompts of each category")
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--drafters", default="head,auto")
    parser.add_argument("--settings", default="gumbel:0,gumbel:0.2,gumbel:0.8,gumbel:1,rejection:0.8")
    parser.add_argument("--report", action="store_true")
    asked = parser.parse_args()
    first, *lines = known(asked.results) if asked.results.exists() else ({},)
    if not asked.report:
        target = load("builtin")
        drafters = {name: drafter for name in asked.drafters.split(",") if (drafter := make_drafter(name, target)) is not None}
        costs = MachineCosts()
        for drafter in drafters.values():
            for _ in measure(target, drafter, costs):
                pass
        first = {"rows": costs.rows, "steps": costs.steps}
        settings = [(rule, float(degree)) for rule, degree in (each.split(":") for each in asked.settings.split(","))]
        bench, taken = Bench(target, drafters, costs, asked.tokens), defaultdict[str, int](int)
        done = {line["prompt"] for line in lines}
        with asked.results.open("a", encoding="utf-8") as file:
            if not lines:
                print(json.dumps(first), file=file, flush=True)
            for seed, prompt in enumerate(read_prompts(asked.prompts)):
                taken[prompt.category] += 1
                if taken[prompt.category] <= asked.each and prompt.id not in done:
                    lines.append(bench.of(prompt, seed, settings))
                    print(json.dumps(lines[-1]), file=file, flush=True)
    rows = {int(rows): time for rows, time in first["rows"].items()}
    report(lines, MachineCosts(rows, {name: tuple(steps) for name, steps in first["steps"].items()}))


if __name__ == "__main__":
    main()
