"""Measures the time of a block drafter's pass beside a head's steps and the target's pass, for the same number of proposals.

    python -m tests.benchmarks.block_cost [--context 200] [--repeats 30] [--drafter FOLDER]

On the built-in target, each until its arrays are there, one after the other in turns: a pass over one row (a plain round), over
as many rows as verify the draft, the head's chain of that many steps, and one pass of a block drafter for that many slots.
Without a folder the block drafter is untrained, of the shape that train-drafter makes; its time does not depend on its weights.
Drawing is left out. Medians in milliseconds, and as shares of the plain pass of the same turn.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import numpy as np

from engine.drafters import BlockDrafter, FeatureHead
from engine.models.block_model import BlockModel, load_block
from engine.models.head_model import BUILTIN_HEAD, load_head
from engine.models.loaded import LoadedModel
from engine.models.loading import load
from engine.target.prompt_cache import make_prompt_cache, trim_to
from engine.tools.training.first_weights import block_config_for, fresh_block
from tests.engine.drafting import start
from tests.exactness import prompt_tokens, read_prompts


def milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1e3


def untrained(target: LoadedModel) -> BlockModel:
    head = load_head(BUILTIN_HEAD)
    config = block_config_for(target, head.config.taps, layers=2, size=8, causal=True, mask=0)
    return fresh_block(target, config, np.array(head.target_ids), seed=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--context", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--proposals", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2, 4, 5])
    parser.add_argument("--drafter", type=Path)
    chosen = parser.parse_args()
    target = load("builtin")
    block = untrained(target) if chosen.drafter is None else load_block(chosen.drafter)
    ids = prompt_tokens(target, read_prompts(limit=1)[0])
    text = (ids * (chosen.context // len(ids) + 1))[: chosen.context]
    cache = make_prompt_cache(target.model)
    target.model(mx.array([text[:-1]]), cache=cache)
    blocks, head = BlockDrafter(block, target, copies=False), FeatureHead(BUILTIN_HEAD, target, copies=False)
    for drafter in (blocks, head):
        start(drafter, text, target=target, read=len(text) - 1)

    def verified(rows: int) -> None:
        """One pass of the target, taken back."""
        mx.eval(target.model(mx.array([text[-rows:]]), cache=cache))
        trim_to(cache, len(text) - 1, "target")

    def chain(steps: int) -> None:
        """The head's most likely tokens, one after the other."""
        head._forget_drafts()
        feature, logits = head._first_step()
        for _ in range(steps - 1):
            token = head.model.target_ids[mx.argmax(logits)][None]
            feature, logits = head._attend(feature, token, int(head._cache.offset))
        mx.eval(logits)

    def filled(proposals: int) -> None:
        """One block, with keys and values of five new rows of context, about what a round brings."""
        blocks._trim(blocks._rows - 5)
        blocks._queued, blocks._slots = None, proposals + (not block.config.anchor_predicts)
        mx.eval(blocks._fill())

    print("proposals   plain pass     verify      head's chain      one block")
    for proposals in chosen.proposals:
        turns = []
        for turn in range(chosen.repeats + 3):
            times = [milliseconds(lambda: verified(1)), milliseconds(lambda n=proposals: verified(n + 1))]
            times += [milliseconds(lambda n=proposals: chain(n)), milliseconds(lambda n=proposals: filled(n))]
            if turn >= 3:
                turns.append(times)
        medians = [statistics.median(column) for column in zip(*turns, strict=True)]
        shares = [statistics.median(times[index] / times[0] for times in turns) for index in range(4)]
        cells = [f"{median:7.1f} ({share:4.2f})" for median, share in zip(medians, shares, strict=True)]
        print(f"{proposals:9}   {medians[0]:7.1f}   " + "   ".join(cells[1:]), flush=True)


if __name__ == "__main__":
    main()
