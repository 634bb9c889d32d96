"""Prints the table of formats: a tiny random model of every GGUF architecture in every quantisation, written and loaded.

python -m tests.benchmarks.formats [--only NAME ...] [--kinds KIND ...]

Each cell is the largest difference of a logit from that of the mlx-lm folder of the same weights, dequantised by the `gguf`
package, relative to the spread of the logits; "-" stands for 0, the same to the last bit. The line above the table says what
a GPU keeps quantised: it is checked, by loading as on a GPU, that the layer holds exactly the weights of the file. What
cannot be loaded is said below the row. Nothing of a model's own text is judged here: the weights are random.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from unittest import mock

import mlx.core as mx
import numpy as np
from mlx_lm.utils import load_model

from engine.models.loading import load
from tests.engine import gguf_files, tiny_models

TOKENS = mx.array([np.random.default_rng(1).integers(3, tiny_models.VOCABULARY, 40).tolist()])


def difference(name: str, kind: str) -> float:
    """The largest difference of a logit, in standard deviations of the reference's logits."""
    with tempfile.TemporaryDirectory() as folder:
        file, other = gguf_files.write_pair(name, kind, Path(folder))
        expected, _ = load_model(other)
        expected.set_dtype(mx.float32)
        reference = np.array(expected(TOKENS))
        return float(np.abs(np.array(load(file.as_posix()).model(TOKENS)) - reference).max() / reference.std())


def form_on_a_gpu(kind: str) -> str:
    """What a GPU makes of the type; AssertionError if what it keeps quantised is not exactly what the file holds."""
    with tempfile.TemporaryDirectory() as folder, mock.patch("engine.models.loading.computes_on_host", return_value=False):
        file, other = gguf_files.write_pair("qwen3", kind, Path(folder))
        loaded, weights = load(file.as_posix()), mx.load((other / "model.safetensors").as_posix())
        for path, layer in loaded.model.named_modules():
            if hasattr(layer, "scales"):
                assert mx.array_equal(gguf_files.unpacked(layer), weights[f"{path}.weight"]), (
                    f"{kind}: {path} is not what the file holds"
                )
        return loaded.form


def main() -> None:
    """Prints the table, a row at a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(gguf_files.KINDS), help="architectures")
    parser.add_argument("--kinds", nargs="+", default=list(gguf_files.MATRIX_KINDS), help="quantisations")
    asked = parser.parse_args()
    print("On a GPU:", "; ".join(form_on_a_gpu(kind) for kind in asked.kinds if kind not in ("F32", "F16", "BF16")))
    print(f"{'architecture':16}", *(f"{kind:>7}" for kind in asked.kinds))
    right = wrong = 0
    for name in asked.only:
        cells, faults = [], []
        for kind in asked.kinds:
            try:
                found = difference(name, kind)
                cells.append("-" if found == 0 else f"{found:.0e}")
                wrong, right = wrong + (found > 1e-4), right + (found <= 1e-4)
            except Exception as error:
                wrong += 1
                cells.append("NO")
                faults.append(f"{kind}: {type(error).__name__}: {str(error)[:200]}")
        print("\n".join([" ".join([f"{name:16}", *(f"{cell:>7}" for cell in cells)]), *(f"{'':16} {fault}" for fault in faults)]))
    print(f"{right} of {right + wrong} files load with the reference's logits.")


if __name__ == "__main__":
    main()
