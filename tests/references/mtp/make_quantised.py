"""Makes the references of Qwen's MTP heads in 4 bits with mlx-vlm, which quantises and runs them, on mlx-lm's targets.

    python3.11 -m venv /tmp/comparison
    /tmp/comparison/bin/pip install --no-deps -r tests/references/mlx.lock
    /tmp/comparison/bin/python -m tests.references.mtp.make_quantised

The targets stay in float32. `write_drafter` with `bits=4` writes the same folder (`compare_mlx_vlm`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import mlx.core as mx
import numpy as np
from mlx_lm.utils import load_model
from mlx_vlm.speculative.drafters import load_drafter
from mlx_vlm.split_mtp import split_mtp

from tests.engine.mtp_files import FAMILIES, PROMPT, REFERENCES, write_promise, write_published
from tests.references.rounds import walk, write


def make(family: str, place: Path) -> None:
    """Writes the reference of one family."""
    target, _ = load_model(write_promise(place / "target", family))
    target = getattr(target, "language_model", target)
    published = write_published(place / "published", family)
    split_mtp(str(published), str(place / "head"), q_bits=4, q_group_size=32)
    head, _ = load_drafter(str(place / "head"))

    def read(text: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        states = target.model(mx.array([list(text)]))
        return np.array(states[0]), np.array(target.lm_head(states)[0])

    def rows(tokens: Sequence[int], states: np.ndarray, own: int) -> tuple[np.ndarray, np.ndarray]:
        embedded = target.model.embed_tokens(mx.array([list(tokens)]))
        outputs = head._forward_hidden(embedded, mx.array(states[None]), None, mx.arange(len(tokens))[None])
        return np.array(target.lm_head(outputs)[0]), np.array(outputs[0])

    made_with = {name: version(name) for name in ("mlx-vlm", "mlx-lm", "mlx")}
    found = {"made_with": made_with, "weights": FAMILIES[family].fingerprint(), "rounds": walk(read, rows, PROMPT)}
    write(REFERENCES / f"{family}-4bit.json", found)


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    for name in ("qwen3_5", "qwen3_5_moe"):
        with tempfile.TemporaryDirectory() as place:
            make(name, Path(place))
