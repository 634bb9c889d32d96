"""Compares stored references with mlx-vlm's MTP drafters, which keep a cache and chain by themselves, on mlx-lm's targets.

    python3.11 -m venv /tmp/comparison
    /tmp/comparison/bin/pip install --no-deps -r tests/references/mlx.lock
    /tmp/comparison/bin/python -m tests.references.mtp.compare_mlx_vlm

Also checks that the drafter folders of `write_drafter` are equal to those that mlx-vlm's `split_mtp` writes. Prints the largest
difference of any logit, and fails at 2e-4. Every round starts with an empty cache: after a partial acceptance mlx-vlm keeps rows
that it computed from its own states, the references do not.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.utils import load_model
from mlx_vlm.speculative.drafters import load_drafter
from mlx_vlm.split_mtp import split_mtp

from tests.engine.mtp_files import reference, write_drafter, write_promise, write_published

NEAR = 2e-4
FAMILIES = ("qwen3_5", "qwen3_5_moe", "qwen3_next", "glm4_moe_lite")
CONVERTED_ONLY = "glm4_moe_lite"
"""mlx-vlm writes drafter folders of this family, but has no model that runs them."""


def differences(family: str, folder: Path) -> float:
    """Returns the largest difference between stored logits and those of mlx-vlm's drafter in `folder`."""
    target, _ = load_model(write_promise(folder.with_name("target"), family))
    target = getattr(target, "language_model", target)
    drafter, _ = load_drafter(str(folder))
    seen: list[np.ndarray] = []

    def head(states: mx.array) -> mx.array:
        logits = target.lm_head(states)
        seen.append(np.array(logits[0, -1]))
        return logits

    worst = 0.0
    for current in reference(family)["rounds"]:
        *read, newest = current["text"]
        states = target.model(mx.array([read]))
        worst = max(worst, _apart(target.lm_head(states)[0, -1], current["target"]))
        drafter.reset(SimpleNamespace(embed_tokens=target.model.embed_tokens, lm_head=head))
        seen.clear()
        drafter.prefill_from_target_hidden(mx.array([read]), states, newest, None, greedy=True)
        tokens = drafter.draft_block(newest, states[:, -1:], None, len(current["drafts"]) + 1, None, greedy=True)
        assert tokens[0].tolist() == current["drafts"], (tokens, current["drafts"])
        assert len(seen) == len(current["drafts"])
        worst = max([worst, *map(_apart, seen, current["logits"])])
    return worst


def _apart(ours: Any, stored: list[float]) -> float:
    return float(np.abs(np.array(ours) - np.array(stored)).max())


def require_same_folder(family: str, folder: Path, place: Path, bits: int | None = None) -> None:
    """Fails if the folder that the tests write differs from what mlx-vlm splits off."""
    group_size = None if bits is None else 32
    theirs = split_mtp(str(folder), str(place / f"theirs-{bits}"), q_bits=bits, q_group_size=group_size)
    ours = write_drafter(place / f"ours-{bits}", family, bits=bits)
    configs = [json.loads((folder / "config.json").read_text()) for folder in (theirs, ours)]
    assert configs[0] == configs[1], configs
    tensors = [mx.load(str(folder / "model.safetensors")) for folder in (theirs, ours)]
    assert tensors[0].keys() == tensors[1].keys(), tensors[0].keys() ^ tensors[1].keys()
    for name, array in tensors[0].items():
        assert mx.array_equal(array, tensors[1][name].astype(array.dtype)), name  # of GLM-4.7-Flash it writes bfloat16


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    for family in FAMILIES:
        with tempfile.TemporaryDirectory() as place:
            published = write_published(Path(place) / "published", family)
            require_same_folder(family, published, Path(place))
            if family == CONVERTED_ONLY:
                continue
            require_same_folder(family, published, Path(place), bits=4)
            apart = differences(family, Path(place) / "ours-None")
        print(f"{family}: {apart:.1e}")
        assert apart < NEAR
