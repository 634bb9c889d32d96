"""Measures how often the built-in target accepts a drafter's proposals, by category and rule, and the time of a draft step.

    python -m tests.benchmarks.drafter_acceptance --prompts FILE [--drafter head] [--gamma 4] [--limit 14] [--tokens 64]

Alpha is accepted / (accepted + rejected), also by place in the draft; tau counts the emitted tokens of a round. Speed is not
compared here: that needs a plain run beside every other one.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from pathlib import Path

from engine.decode.decoding import DecodingOptions, decode
from engine.drafters.base import Drafter
from engine.models.loaded import LoadedModel
from engine.models.loading import load
from engine.rounds.metrics import counts, summarise
from tests.exactness import OWN_PROMPTS, make_drafter, prompt_tokens, read_prompts

GREEDY = "temperature 0"


def step_milliseconds(target: LoadedModel, drafter: Drafter, options: DecodingOptions) -> tuple[float, float]:
    """Median time of drafting one proposal and of verifying a round, from rounds that are evaluated in stages."""
    ids = prompt_tokens(target, read_prompts(limit=1)[0])
    staged = [r for r in decode(target, ids, drafter, options.replace(phase_every=1)) if r.milliseconds.measured and r.proposals]
    drafts = [r.milliseconds.draft / len(r.proposals) for r in staged if r.milliseconds.draft is not None]
    return statistics.median(drafts), statistics.median(r.milliseconds.verify or 0.0 for r in staged)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=Path, default=OWN_PROMPTS, help="JSON Lines with id, category and turns")
    parser.add_argument(
        "--drafter",
        default="head",
        help="head, builtin-block, head-alone and block-alone (without copies), ngram, or a draft model",
    )
    parser.add_argument("--limit", type=int, default=14, help="prompts to take, the categories in turn")
    parser.add_argument("--tokens", type=int, default=64, help="tokens of each answer")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--gamma", type=lambda text: text if text == "auto" else int(text), default=4)
    parser.add_argument("--rules", default="rejection,gumbel,match", help="compared at the temperature; at 0 they are one")
    chosen = parser.parse_args(arguments)

    target = load("builtin")
    drafter = make_drafter(chosen.drafter, target)
    if drafter is None:
        parser.error("there is nothing to measure without a drafter")
    plain = DecodingOptions(max_tokens=chosen.tokens, gamma=chosen.gamma, phase_every=0, analyse=False, seed=1)
    step, verify = step_milliseconds(target, drafter, plain.replace(temperature=chosen.temperature))
    print(f"a proposal of {drafter.name}: {step:.1f} ms; verifying a round: {verify:.1f} ms")
    settings = {rule: plain.replace(rule=rule, temperature=chosen.temperature) for rule in chosen.rules.split(",")}
    settings[GREEDY] = plain.replace(temperature=0.0)
    prompts = read_prompts(chosen.prompts, chosen.limit)
    rounds = defaultdict(list)
    for prompt in prompts:
        ids = prompt_tokens(target, prompt)
        for name, options in settings.items():
            answered = [counts(round) for round in decode(target, ids, drafter, options)]
            rounds[prompt.category, name] += answered
            rounds["all", name] += answered
    print(f"{len(prompts)} prompts, {chosen.tokens} tokens, gamma {chosen.gamma}, temperature {chosen.temperature} unless said")
    print(f"{'category':12} {'rule':14} {'alpha':>6} {'95 % interval':>15} {'tau':>6} {'tokens':>7}   by position (judged)")
    for (category, name), answered in sorted(rounds.items()):
        summary = summarise(answered)
        low, high, alpha = (value or 0.0 for value in (summary.alpha_low, summary.alpha_high, summary.alpha))
        tau = summary.tau or 0.0
        places = " ".join(f"{one.conditional or 0:.2f} ({one.accepted + one.rejected})" for one in summary.by_position)
        print(f"{category:12} {name:14} {alpha:6.3f}   {low:5.3f} - {high:5.3f} {tau:6.2f} {summary.emitted:7}   {places}")


if __name__ == "__main__":
    main()
