"""Measures listing 500 models, half of them GGUF files with a vocabulary of 150,000 tokens: make bench-library

Prints the seconds for the first listing and for another one, and the milliseconds that the window takes to show the list, to
search in it and to scroll.

python -m tests.benchmarks.library [--models 500]
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
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
        in_the_window(found)


def in_the_window(found: list[library.LibraryModel]) -> None:
    """Prints what the list of the window takes, painting included."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from app.library.entries import model_entry
    from app.library.entry_list import EntryList
    from app.look import theme as themes
    from app.window.launch import make_application

    application = make_application()
    shown = EntryList("Models", "")
    shown.delegate.set_look(themes.DARK, 1.0)
    shown.resize(820, 420)
    shown.show()
    application.processEvents()
    steps: dict[str, Callable[[], object]] = {
        "shown": lambda: shown.show_entries([model_entry(model, 10**9, "", "") for model in found]),
        "searched": lambda: shown.set_query("folder 12"),
        "all again": lambda: shown.set_query(""),
        "scrolled to the end": shown.scrollToBottom,
    }
    for name, step in steps.items():
        began = time.perf_counter()
        step()
        shown.viewport().repaint()
        application.processEvents()
        print(f"in the window, {name}: {1000 * (time.perf_counter() - began):.1f} ms")


if __name__ == "__main__":
    main()
