"""Compares two versions of the decoder by the traces of fixed answers.

    python -m tests.frozen write FOLDER      writes the traces of this version
    python -m tests.frozen compare FOLDER    compares this version with them; exit status 1 where they differ

The answers are of tiny random models and of lengths that no clock decides: each rule with each kind of drafter, at temperature 0
and 0.8; penalties, filters, stop texts and quantised keys and values; changes in mid-answer; and models of each cache family.
Ids, origins, statuses, coins and texts have to be equal, and figures within 1e-6. Times are not compared.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from engine.decode.decoding import Control, decode
from engine.drafters import BlockDrafter, DraftModel, FeatureHead, NGram, NGramMod
from engine.drafters.base import Drafter
from engine.rounds.codec import round_to_json
from engine.types import RULES, DecodingOptions
from tests.engine.block_files import random_block
from tests.engine.drafters.test_feature_head import random_head
from tests.engine.families import tiny
from tests.engine.small_models import PROMPT, tiny_llama
from tests.engine.test_changes import Letters
from tests.round_differences import differences

TOLERANCE = 1e-6
TARGET, DRAFT = tiny_llama(1, layers=3), tiny_llama(2, layers=1)
HEAD, BLOCK = random_head(), random_block()
DRAFTERS: dict[str, Callable[[], Drafter | None]] = {
    "none": lambda: None,
    "ngram": lambda: NGram(worth=0),
    "ngram-mod": lambda: NGramMod(n_match=1, n_min=1, n_max=4, size=1024),
    "draft": lambda: DraftModel(DRAFT, "draft"),
    "head": lambda: FeatureHead(HEAD, TARGET),
    "block": lambda: BlockDrafter(BLOCK, TARGET),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "filters": {"top_k": 20, "top_p": 0.9, "min_p": 0.01},
    "penalty": {"repetition_penalty": 1.3},
    "8-bit keys": {"kv_bits": 8},
    "4-bit keys": {"kv_bits": 4},
    "stop": {"stop": ("yB", "yy"), "max_tokens": 60},
    "phases": {"phase_every": 2},
    "bare": {"analyse": False},
}
CHANGES: dict[str, dict[str, Any]] = {
    "rule": {"rule": "rejection"},
    "gamma": {"gamma": 1},
    "to none": {"drafter": None},
    "to ngram": {"drafter": "ngram"},
    "to head": {"drafter": "head"},
}
FAMILIES = (
    "qwen3",
    "gemma3_text",
    "gpt_oss",
    "llama4",
    "deepseek_v2",
    "qwen3_next",
    "mamba2",
    "falcon_h1",
    "recurrent_gemma",
    "lfm2",
)
"""Full attention, windows, chunks, latent attention, and recurrent layers alone and beside attention."""


def answer(target: Any, drafter: Drafter | None, change: dict[str, Any] | None = None, **options: Any) -> list[Any]:
    """The rounds of one answer as a trace has them; `change` is asked for after the second round."""
    asked = DecodingOptions(**{"seed": 11, "temperature": 0.8, "gamma": 3, "max_tokens": 24, "phase_every": 0, **options})
    control, rounds = Control(), []
    for current in decode(target, PROMPT * 3, drafter, asked, tokenizer=Letters(), control=control):
        rounds.append(round_to_json(current))
        if change is not None and len(rounds) == 2:
            control.update(**change)
    return rounds


def answers() -> Iterator[tuple[str, list[Any]]]:
    """Every answer, with its name."""
    for name, make in DRAFTERS.items():
        for rule in RULES:
            for temperature in (0.0, 0.8):
                yield f"{name}, {rule}, {temperature}", answer(TARGET, make(), rule=rule, temperature=temperature)
        for setting, options in SETTINGS.items():
            for rule in ("gumbel", "block"):
                yield f"{name}, {rule}, {setting}", answer(TARGET, make(), rule=rule, **options)
        for change, asked in CHANGES.items():
            made = {"drafter": DRAFTERS[asked["drafter"]]()} if asked.get("drafter") else {}
            yield f"{name}, change of {change}", answer(TARGET, make(), asked | made)
    for family in FAMILIES:
        target, draft = tiny(family, 0), tiny(family, 1)
        for rule in ("gumbel", "rejection"):
            for name, drafter in (("none", None), ("draft", DraftModel(draft, "draft")), ("ngram", NGram(worth=0))):
                yield f"{family}, {rule}, {name}", answer(target, drafter, rule=rule)


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["write", "compare"])
    parser.add_argument("folder", type=Path)
    chosen = parser.parse_args()
    path = chosen.folder / "frozen.json"
    now = dict(answers())
    if chosen.command == "write":
        chosen.folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(now))
        print(f"{len(now)} answers written")
        return 0
    # The values of now are read back as those of before were, so that both are plain JSON.
    found = list(differences(json.loads(path.read_text()), json.loads(json.dumps(now)), lambda path: TOLERANCE))
    print("\n".join(found[:20]))
    print(f"{len(now)} answers compared, {len(found)} differences")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
