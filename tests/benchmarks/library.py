"""Seconds to list 500 models, half of them GGUF files with a vocabulary of 150,000 tokens: the first time, and again.

python -m tests.benchmarks.library [--models 500]
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path

from engine.files import library
from tests.engine import tiny_models


def main() -> None:
    """Prints one line for each listing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=500)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        os.environ |= {"HOME": name, "DRAFTLIGHT_HOME": f"{name}/draftlight"}
        tokens = [f"token{index}" for index in range(150_000)]
        file = tiny_models.write_gguf(
            root / "one.gguf", tokenizer__ggml__tokens=tokens, tokenizer__ggml__token_type=[1] * len(tokens)
        )
        folder = tiny_models.write_folder(root / "one")
        for index in range(asked.models // 2):
            (root / "models" / str(index)).mkdir(parents=True)
            os.link(file, root / "models" / str(index) / f"{index}.gguf")
            shutil.copytree(folder, root / "models" / str(index) / "folder", copy_function=os.link)
        for file in (root / "models").rglob("*.gguf"):  # a file of its own each: links to one file are one model
            content = file.read_bytes()
            file.unlink()
            file.write_bytes(content)
        for listing in ("first", "again"):
            began = time.perf_counter()
            found = library.find([root / "models"])
            print(f"{listing}: {len(found)} models in {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
