"""Makes the reference of Step-3.5's three MTP layers with MTPLX, on mlx-lm's target.

    python3.11 -m venv /tmp/comparison
    /tmp/comparison/bin/pip install --no-deps -r tests/references/mlx.lock
    /tmp/comparison/bin/python -m tests.references.mtp.make_step

MTPLX gives the head the target's state before the final norm and chains the state before the head's own norm, as vLLM does.
Layer k reads the output of layer k - 1 for the same rows, and the token one further on.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import mlx.core as mx
import numpy as np
from mlx_lm.utils import load_model
from mtplx.step3p5_mtp_patch import inject_step3p5_mtp_support

from tests.engine.mtp_files import FAMILIES, PROMPT, REFERENCES, write_promise, write_published
from tests.references.rounds import walk, write


def make(place: Path) -> None:
    """Writes the reference."""
    target, _ = load_model(write_promise(place / "target", "step3p5"))
    published = write_published(place / "published", "step3p5")
    assert inject_step3p5_mtp_support(target, published, json.loads((published / "config.json").read_text()))

    def read(text: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        logits, states = target(mx.array([list(text)]), cache=target.make_cache(), return_hidden=True)
        return np.array(states[0]), np.array(logits[0])

    def rows(tokens: Sequence[int], states: np.ndarray, own: int) -> tuple[np.ndarray, np.ndarray]:
        count = len(states) - own
        fed, cache = mx.array(states[None, :count]), target.make_mtp_cache()
        for depth in range(own + 1):
            logits, fed = target.mtp_forward(
                fed,
                mx.array([list(tokens[depth : depth + count])]),
                mtp_cache=cache,
                return_hidden=True,
                mtp_depth=depth + 1,
            )
        return np.array(logits[0]), np.array(fed[0])

    made_with = {name: version(name) for name in ("mtplx", "mlx-lm", "mlx")}
    found = {"made_with": made_with, "weights": FAMILIES["step3p5"].fingerprint(), "rounds": walk(read, rows, PROMPT)}
    write(REFERENCES / "step3p5.json", found)


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    with tempfile.TemporaryDirectory() as place:
        make(Path(place))
