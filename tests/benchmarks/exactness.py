"""Counts the answers of the built-in target that equal mlx-lm's greedy ones, and the plain ones of the same seed.

    python -m tests.benchmarks.exactness [--prompts FILE] [--limit 30] [--tokens 128] [--all-rules]

Prints a line per drafter and rule: answers, equal ones, ones that differ only at near-ties, and ones that differ otherwise (a
defect: the exit status is then 1).
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from engine.models.loading import load
from engine.types import RULES
from tests.exactness import DRAFTERS, OWN_PROMPTS, Comparison, compare, read_prompts


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=Path, default=OWN_PROMPTS, help="JSON Lines with id, category and turns")
    parser.add_argument("--limit", type=int, default=10, help="prompts to take, the categories in turn")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of each answer")
    parser.add_argument("--seeded", type=int, default=5, help="prompts of the comparison under one seed")
    parser.add_argument("--drafters", default=",".join(DRAFTERS))
    parser.add_argument("--all-rules", action="store_true", help="every rule on every prompt, instead of the rules in turn")
    chosen = parser.parse_args(arguments)

    model = load("builtin")
    prompts = list(enumerate(read_prompts(chosen.prompts, chosen.limit)))
    drafters = chosen.drafters.split(",")
    failures = 0
    if prompts:
        settings = list(itertools.product(drafters, RULES, [4]))
        if chosen.all_rules:
            results = list(compare(model, prompts, chosen.tokens, settings, temperature=0))
        else:
            results = []
            for index, prompt in prompts:
                in_turn = [(name, RULES[index % len(RULES)], 4) for name in drafters]
                results += compare(model, [(index, prompt)], chosen.tokens, in_turn, temperature=0)
        failures += report(f"temperature 0 against mlx-lm, {len(prompts)} prompts, {chosen.tokens} tokens", results)
    if chosen.seeded:
        seeded = list(enumerate(read_prompts(chosen.prompts, chosen.seeded)))
        speculating = [name for name in drafters if name != "none"]
        settings = [(name, rule, gamma) for name in speculating for rule in ("match", "gumbel") for gamma in range(1, 9)]
        results = list(compare(model, seeded, chosen.tokens, settings, temperature=0.8))
        failures += report(f"one seed at temperature 0.8, gamma 1 to 8, {len(seeded)} prompts, {chosen.tokens} tokens", results)
    return 1 if failures else 0


def report(title: str, results: Iterable[Comparison]) -> int:
    """Prints the counts; returns how many answers differ without being near-ties."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    failures = 0
    print(title)
    for result in results:
        kind = "equal" if not result.different else "near-tie" if result.explained else "different"
        counts.setdefault((result.drafter, result.rule), Counter())[kind] += 1
        if kind != "equal":
            where = f"{result.different} tokens differ, by {result.gap:.2g} at most"
            print(f"  {result.prompt} {result.drafter} {result.rule} gamma {result.gamma}: {where}")
        failures += kind == "different"
    print(f"  {'drafter':<16}{'rule':<12}{'answers':>8}{'equal':>8}{'near-tie':>10}{'different':>11}")
    for (drafter, rule), count in counts.items():
        print(f"  {drafter:<16}{rule:<12}{count.total():>8}{count['equal']:>8}{count['near-tie']:>10}{count['different']:>11}")
    return failures


if __name__ == "__main__":
    sys.exit(main())
