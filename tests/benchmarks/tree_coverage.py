"""How often the target's token is among the first children of a node, with the real noise and in closed form.

    python -m tests.benchmarks.tree_coverage [--prompts FILE] [--limit 6] [--tokens 40] [--temperatures 0.8,1.0] [--seeds 4]

Rows are those of the built-in target and its small draft model along the target's own plain answers. At each position the
target's token and the children are drawn with the noise of every seed: under gumbel with the same noise, under match with the
drafter's own. The noise of a position is independent of its rows, so the share of draws with the target's token among the first
w children has the mean of P_w over the rows as its expectation.

Prints for each temperature, rule and w the share that was drawn, its 95 % interval, and the mean P_w of the same rows. Intervals
are Student's over prompts, of the difference. Fails if a P_w lies outside its 99.9 % interval, widened by three draws.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import mlx.core as mx
import numpy as np

from engine.decode.decoding import DecodingOptions, decode
from engine.models.loaded import LoadedModel
from engine.models.loading import load
from engine.noise import reference
from engine.target.distribution import onto_target_ids
from engine.theory import gumbel_coverage, match_coverage
from engine.values.statistics import student_quantile
from tests.exactness import OWN_PROMPTS, prompt_tokens, read_prompts

WIDTH = 8
FORMS = {"gumbel": gumbel_coverage, "match": match_coverage}
NOISE = {"gumbel": "shared", "match": "draft"}
"""Domain of the children's noise."""
RARE_DRAWS = 3


@dataclass(frozen=True)
class Row:
    """Scores of one position, logits divided by the temperature: (vocabulary,) float32 each."""

    position: int
    target: np.ndarray
    draft: np.ndarray


def rows(target: LoadedModel, drafter: LoadedModel, ids: list[int], options: DecodingOptions, every: int) -> Iterator[Row]:
    """Yields every n-th position of a plain answer, each after the text that precedes it."""
    text = [token.id for current in decode(target, ids, None, options, eos_ids=()) for token in current.emitted]
    tokens = mx.array([ids + text[:-1]])
    scores = target.model(tokens)[0, len(ids) - 1 :].astype(mx.float32)
    drafts = drafter.model(tokens)[0, len(ids) - 1 :].astype(mx.float32)
    drafts = onto_target_ids(drafts, scores.shape[1], drafter.target_ids)
    for index in range(0, len(text), every):
        pair = (np.array(row[index]) * np.float32(1 / options.temperature) for row in (scores, drafts))
        yield Row(len(ids) + index, *pair)


def probabilities(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores.astype(np.float64) - scores.max())
    return weights / weights.sum()


def drawn_ranks(row: Row, rule: str, seeds: int) -> np.ndarray:
    """(seeds,) number of the children before the target's token; tokens that cannot be children come after all others."""
    ranks = []
    for seed in range(1, seeds + 1):
        noise = reference.gumbel(seed, row.position, row.target.size)
        token = int((row.target + noise).argmax())
        own = reference.gumbel(seed, row.position, row.target.size, NOISE[rule])
        children = row.draft + own
        ranks.append(int((children > children[token]).sum()) if np.isfinite(children[token]) else row.target.size)
    return np.array(ranks)


def measure(positions: list[Row], rule: str, seeds: int) -> tuple[np.ndarray, np.ndarray]:
    """(WIDTH,) drawn share and mean P_w of one prompt's rows."""
    ranks = np.concatenate([drawn_ranks(row, rule, seeds) for row in positions])
    predicted = [FORMS[rule](probabilities(row.target), probabilities(row.draft), WIDTH) for row in positions]
    return (ranks[:, None] < np.arange(1, WIDTH + 1)).mean(axis=0), np.mean(predicted, axis=0)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=Path, default=OWN_PROMPTS, help="JSON Lines with id, category and turns")
    parser.add_argument("--limit", type=int, default=6, help="prompts to take, the categories in turn; at least 2")
    parser.add_argument("--tokens", type=int, default=40, help="tokens of each answer")
    parser.add_argument("--every", type=int, default=1, help="take every n-th position")
    parser.add_argument("--temperatures", default="0.8,1.0")
    parser.add_argument("--seeds", type=int, default=4, help="draws at each position; the first seed is the answer's own")
    chosen = parser.parse_args(arguments)
    if chosen.limit < 2:
        parser.error("an interval over prompts needs two of them")
    target = load("builtin")
    drafter = load("builtin-draft", target=target)
    prompts = read_prompts(chosen.prompts, chosen.limit)
    outside = 0
    for temperature in map(float, chosen.temperatures.split(",")):
        options = DecodingOptions(temperature=temperature, seed=1, max_tokens=chosen.tokens, analyse=False, phase_every=0)
        taken = [list(rows(target, drafter, prompt_tokens(target, prompt), options, chosen.every)) for prompt in prompts]
        draws = chosen.seeds * sum(map(len, taken))
        print(f"temperature {temperature}: {len(prompts)} prompts, {draws // chosen.seeds} positions, {draws} draws")
        print(f"{'rule':8} {'w':>2} {'drawn':>7} {'95 % interval':>15} {'P_w':>7}   within 99.9 %")
        for rule in FORMS:
            drawn, predicted = map(np.array, zip(*(measure(each, rule, chosen.seeds) for each in taken), strict=True))
            for index in range(WIDTH):
                difference = (drawn - predicted)[:, index]
                expected, share = predicted[:, index].mean(), drawn[:, index].mean()
                error = difference.std(ddof=1) / np.sqrt(len(prompts))
                half = [student_quantile(tail, len(prompts) - 1) * error for tail in (0.025, 0.0005)]
                is_within = abs(difference.mean()) <= half[1] + RARE_DRAWS / draws
                outside += not is_within
                print(
                    f"{rule:8} {index + 1:2} {share:7.4f} {share - half[0]:7.4f} -{share + half[0]:6.4f} {expected:7.4f}   "
                    f"{'yes' if is_within else 'NO'}",
                    flush=True,
                )
    print("all within their intervals" if not outside else f"{outside} outside their intervals")
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
