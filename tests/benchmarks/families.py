"""Checks decoding and measures roll-back for every architecture of mlx-lm, with tiny random models.

python -m tests.benchmarks.families [--only NAME ...] [--tokens 200] [--kind window|chunks|recurrent|keys]

A + says that the check held: the text is mlx-lm's greedy one (plain; with ngram; with a scripted drafter that is wrong at every
3rd, 5th or 9th token, gamma 4, 8, 30; with a draft model of the family, of another one, with itself), one seed gives one text at
temperature 0.8 whatever rule and gamma, penalties change nothing of that, and turns from a kept cache (continued, edited,
regenerated) are those from scratch. The last columns are milliseconds of a pass over one row, over five, and over five of which
two are taken back. What fails is said below the row.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.models.cache import CacheList
from mlx_lm.utils import load_model, save_model

from engine.target import prompt_cache as caches
from engine.target.recurrent_cache import RecurrentCache
from engine.target.window_cache import ChunkCache, WindowCache
from tests.engine.families import NOT_BUILT, architectures, config_of, tiny
from tests.engine.family_checks import CANNOT_HOLD, CHECKS, Family

KINDS = {WindowCache: "window", ChunkCache: "chunks", RecurrentCache: "recurrent"}


def kind_of(name: str) -> str:
    """What its layers remember, as "recurrent, keys"."""
    found = []
    for layer in caches.make_prompt_cache(tiny(name)):
        for leaf in layer.caches if isinstance(layer, CacheList) else (layer,):
            found.append(KINDS.get(type(leaf), "keys" if "KVCache" in type(leaf).__name__ else type(leaf).__name__))
    return ", ".join(sorted(set(found)))


def loads(family: Family) -> None:
    """Written to a folder, mlx-lm loads it again, weight for weight."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config_of(family.name)))
        save_model(folder, family.model)
        loaded, _ = load_model(Path(folder))
        ours, theirs = dict(tree_flatten(family.model.parameters())), dict(tree_flatten(loaded.parameters()))
        assert ours.keys() == theirs.keys(), "other weights"


def row(name: str, kind: str, tokens: int) -> tuple[str, list[str]]:
    """The row of an architecture, and what fails."""
    family = Family(name, tokens)
    faults = []
    reason = caches.refusal(caches.make_prompt_cache(family.model))
    marks = []
    for check, holds in {"loads": loads, **CHECKS}.items():
        if reason is not None and check not in ("loads", "plain"):
            marks.append("-")
            continue
        try:
            holds(family)
            marks.append("+")
        except Exception as error:
            marks.append("NO")
            known = CANNOT_HOLD.get((name, check))
            faults.append(f"{check}: {known or f'{type(error).__name__}: {str(error)[:200]}'}")
    if reason is not None:
        faults.append(f"no speculation: {reason}")
        return _line(name, kind, marks, None), faults
    return _line(name, kind, marks, family.cost()), faults


def _line(name: str, kind: str, marks: list[str], cost: tuple[float, float, float] | None) -> str:
    columns = "  ".join(f"{mark:^{max(5, len(check))}}" for mark, check in zip(marks, ["loads", *CHECKS], strict=True))
    return f"{name:20} {kind:23} {columns}" + ("" if cost is None else "  " + " ".join(f"{time:6.2f}" for time in cost))


def main() -> None:
    """Prints the table, a row at a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=None, help="architectures, as mlx-lm's model files are called")
    parser.add_argument("--kind", default="", help="only those whose layers remember so: window, chunks, recurrent, keys")
    parser.add_argument("--tokens", type=int, default=200)
    asked = parser.parse_args()
    print(_line("architecture", "remembers", ["loads", *CHECKS], None) + "   1 row 5 rows 2 back")
    right = wrong = 0
    for name in asked.only or architectures():
        if name in NOT_BUILT:
            print(f"{name:20} not built: {NOT_BUILT[name]}", flush=True)
            continue
        kind = "?"
        try:
            kind = kind_of(name)
            if asked.kind and asked.kind not in kind.split(", "):
                continue
            line, faults = row(name, kind, asked.tokens)
        except Exception as error:
            line, faults = f"{name:20} {kind:17} not checked", [f"{type(error).__name__}: {str(error)[:200]}"]
        right, wrong = right + (not faults), wrong + bool(faults)
        print("\n".join([line, *(f"{'':20} {fault}" for fault in faults)]), flush=True)
        mx.clear_cache()
    print(f"{right} architectures right, {wrong} with a remark.")


if __name__ == "__main__":
    main()
