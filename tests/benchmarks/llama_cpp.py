"""Compares the logits of tiny GGUF files with llama.cpp's. It is no dependency: another Python environment has it.

python -m tests.benchmarks.llama_cpp --python PYTHON [--only NAME ...] [--kinds KIND ...]

PYTHON runs an environment with llama-cpp-python (`pip install llama-cpp-python numpy`). For each file the table shows the
correlation of the logits, the largest difference in standard deviations, and for how many of 40 places the most likely token is
the same. Float types should agree to rounding. With quantised weights llama.cpp rounds activations to 8 bits on the way, so it
differs more.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from engine.models.loading import load
from tests.benchmarks.formats import TOKENS
from tests.engine import gguf_files

THEIRS = """
import sys, numpy, llama_cpp
model = llama_cpp.Llama(sys.argv[1], n_ctx=128, n_batch=128, logits_all=True, verbose=False, flash_attn=False, n_threads=2)
tokens = [int(token) for token in sys.argv[3].split(",")]
model.eval(tokens)
numpy.save(sys.argv[2], model.scores[: len(tokens)])
"""


def main() -> None:
    """Prints the table, a row at a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="a Python with llama-cpp-python")
    parser.add_argument("--only", nargs="+", default=list(gguf_files.KINDS), help="architectures")
    parser.add_argument("--kinds", nargs="+", default=["F32", "Q4_K"], help="quantisations")
    asked = parser.parse_args()
    tokens = ",".join(map(str, TOKENS[0].tolist()))
    for name in asked.only:
        for kind in asked.kinds:
            with tempfile.TemporaryDirectory() as folder:
                file, _ = gguf_files.write_pair(name, kind, Path(folder))
                saved = Path(folder) / "theirs.npy"
                command = [asked.python, "-c", THEIRS, file.as_posix(), saved.as_posix(), tokens]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    print(f"{name:16} {kind:7} llama.cpp: {(done.stderr.strip() or 'crashed').splitlines()[-1]}", flush=True)
                    continue
                theirs, ours = np.load(saved), np.array(load(file.as_posix()).model(TOKENS))[0]
            apart = np.abs(ours - theirs).max() / theirs.std()
            same = int((ours.argmax(axis=-1) == theirs.argmax(axis=-1)).sum())
            alike = np.corrcoef(ours.flatten(), theirs.flatten())[0, 1]
            print(f"{name:16} {kind:7} {alike:.6f} {apart:8.1e} {same:3}", flush=True)


if __name__ == "__main__":
    main()
