"""Compares stored references with MTPLX's heads for DeepSeek, GLM and MiMo, on mlx-lm's targets.

    python3.11 -m venv /tmp/comparison
    /tmp/comparison/bin/pip install --no-deps -r tests/references/mlx.lock
    /tmp/comparison/bin/python -m tests.references.mtp.compare_mtplx

Only rows of text are compared, that is every first draft: MTPLX chains the state before the head's norm.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import mlx.core as mx
import numpy as np
from mlx_lm.utils import load_model
from mtplx.deepseek_mtp_patch import inject_deepseek_mtp_support
from mtplx.glm_mtp_patch import inject_glm_mtp_support
from mtplx.mimo_mtp_patch import inject_mimo_mtp_support

from tests.engine.mtp_files import reference, write_promise, write_published

NEAR = 2e-4
FAMILIES = {
    "deepseek_v3": inject_deepseek_mtp_support,
    "glm4_moe": inject_glm_mtp_support,
    "glm4_moe_lite": inject_glm_mtp_support,
    "mimo": inject_mimo_mtp_support,
}


def difference(family: str, place: Path) -> float:
    """Returns the largest difference between stored logits and MTPLX's."""
    target, _ = load_model(write_promise(place / "target", family))
    published = write_published(place / "published", family)
    assert FAMILIES[family](target, published, json.loads((published / "config.json").read_text()))
    rounds = reference(family)["rounds"]
    text = rounds[-1]["text"]
    _, states = target(mx.array([text[:-1]]), return_hidden=True)
    logits = target.mtp_forward(states, mx.array([text[1:]]), mtp_cache=target.make_mtp_cache())
    stored = np.concatenate([np.array(current["rows"]) for current in rounds])
    return float(np.abs(np.array(logits[0]) - stored).max())


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    for family in FAMILIES:
        with tempfile.TemporaryDirectory() as place:
            apart = difference(family, Path(place))
        print(f"{family}: {apart:.1e}")
        assert apart < NEAR
