"""A model's files are replaced, damaged or deleted while it is loaded: it goes on as it is until another one is loaded."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.runtime.worker import Engine
from engine.types import DrafterReady, LoadFailed, LoadFinished
from engine.values.errors import DraftlightError
from tests.engine import tiny_models
from tests.engine.desk import Desk


def digest(desk: Desk, target: Path) -> str:
    """Chooses the model again: its digest."""
    desk.seen.clear()
    desk.engine.load(str(target), "ngram")
    desk.collect(lambda: desk.of(DrafterReady) or desk.of(LoadFailed))
    if failed := desk.of(LoadFailed):
        raise DraftlightError(failed[0].message)
    return str(desk.of(LoadFinished)[0].model.sha256)


def folder(place: Path, seed: int) -> Path:
    return tiny_models.write_folder(place, tiny_models.weights(seed))


def gguf(place: Path, seed: int) -> Path:
    place.mkdir(exist_ok=True)
    return tiny_models.write_gguf(place / "model.gguf", "Q8_0", tiny_models.weights(seed))


@pytest.mark.parametrize(("make", "weights"), [(folder, "model.safetensors"), (gguf, "model.gguf")])
def test_loaded_model_does_not_depend_on_its_files(
    make: Callable[[Path, int], Path], weights: str, home: Path, tmp_path: Path
) -> None:
    target, other = make(tmp_path / "model", 0), make(tmp_path / "other", 1)
    file = tmp_path / "model" / weights
    with Desk(Engine()) as desk:

        def answer(path: Path) -> str:
            return desk.answer("hello", target=str(path), drafter="ngram", max_tokens=8, seed=5).text

        first, before = answer(target), digest(desk, target)
        file.write_bytes(file.read_bytes()[:1000])  # in its place, as a copy does that breaks off
        assert answer(target) == first
        shutil.copyfile(tmp_path / "other" / weights, file)
        assert answer(target) == first
        assert digest(desk, target) == before, "the reported digest is that of the loaded weights"
        theirs = answer(other)
        assert digest(desk, target) != before, "after another target, the file is read again"
        assert answer(target) == theirs != first
        shutil.rmtree(tmp_path / "model")
        assert answer(other)
        with pytest.raises(DraftlightError, match="There is no model at"):
            digest(desk, target)
        assert answer(other), "and the engine goes on"
