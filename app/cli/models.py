"""`draftlight models`: what is on this machine, fetching, checking and removing it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from engine.drafter_kinds import NO_DRAFTER
from engine.errors import DraftlightError
from engine.files import builtin, library
from engine.files.memory import available_memory, size
from engine.files.paths import models_folder
from engine.types import DrafterReady, DrafterRefused, LoadFailed, LoadFinished
from engine.worker import Engine

_TICK = 0.1


def show_models(folders: Iterable[Path] = ()) -> int:
    """List the built-in target and every model that is found on this machine, or in `folders` besides."""
    path = builtin.builtin_path()
    state = f"{path.stat().st_size / 1e6:,.0f} MB" if path.is_file() else "not downloaded yet"
    print(f"builtin  {builtin.NAME}  {state}")
    models, free = library.find(folders), available_memory()
    rows = [
        (
            model.name,
            size(model.size),
            model.quantisation,
            model.architecture,
            "" if model.context is None else f"{model.context:,}",
            model.remembers,
            "" if model.need is None else f"{size(model.need)}{'!' if free is not None and model.need > free else ''}",
            model.source,
            model.problem or model.target,
        )
        for model in models
    ]
    if rows:
        titles = ("model", "size", "weights", "architecture", "context", "keeps", "memory", "found in", "--target")
        widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
        for row in (titles, *rows):
            print("  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
        if free is not None:
            print(f"! needs more memory than the {size(free)} that are free")
    return 0


def download_model(name: str) -> int:
    """Fetch the built-in target unless it is there."""
    if name != "builtin":
        raise DraftlightError(f"Only builtin can be downloaded, not {name}. Other models are loaded from where they are stored.")
    steps: set[str] = set()

    def report(step: str, fraction: float | None) -> None:
        """Prints each step to standard error when it begins, and ignores how far (`fraction`, 0 to 1) it has come."""
        if step not in steps:
            steps.add(step)
            print(step, file=sys.stderr)

    print(builtin.fetch_builtin(report))
    return 0


def check_model(name: str, drafter: str) -> int:
    """Load a model, and a drafter for it, and say whether they can be used; 1 if not."""
    if name == "builtin" and builtin.builtin_path().is_file():
        builtin.check_builtin()
    engine = Engine()
    try:
        engine.load(name, drafter)
        while True:
            engine.wait(_TICK)
            for event in engine.events():
                match event:
                    case LoadFinished(model):
                        print(
                            f"{model.name} can be used: {model.vocabulary_size:,} tokens, context {model.context_length:,}, "
                            f"sha256 {model.sha256}"
                        )
                        if model.form:
                            print(f"weights: {model.form}")
                    case LoadFailed(_, message) | DrafterRefused(_, message):
                        print(f"draftlight: {message}", file=sys.stderr)
                        return 1
                    case DrafterReady(drafter_name):
                        if drafter_name != NO_DRAFTER:
                            print(f"{drafter_name} can draft for it")
                        return 0
    finally:
        engine.close()


def remove_model(name: str) -> int:
    """Delete a model from the models folder, and nothing outside it."""
    folder = models_folder().resolve()
    path = builtin.builtin_path().parent if name == "builtin" else Path(name).expanduser()
    if not path.is_absolute():
        path = folder / path
    resolved = path.resolve()
    if resolved == folder or folder not in resolved.parents:
        raise DraftlightError(f"{name} is not in {folder}; Draftlight only deletes models from that folder.")
    if not path.exists():
        raise DraftlightError(f"There is no {name} in {folder}.")
    try:
        if resolved.is_dir():
            shutil.rmtree(resolved)
        else:
            resolved.unlink()
    except OSError as error:
        raise DraftlightError(f"{resolved} cannot be removed: {error.strerror or error}.") from None
    print(f"removed {resolved}")
    return 0
