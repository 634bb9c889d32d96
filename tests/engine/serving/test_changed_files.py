"""A model's files are replaced, damaged or deleted while it is loaded: it goes on as it is until another one is loaded."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.runtime.worker import Engine
from engine.types import DecodingOptions, LoadFailed, LoadFinished, Message, Request, RunFailed, RunFinished
from engine.values.errors import DraftlightError
from tests.engine import tiny_models


@pytest.fixture
def engine(home: Path) -> Iterator[Engine]:
    running = Engine()
    yield running
    running.close()


def answer(engine: Engine, target: Path, words: str = "hello") -> str:
    """The text of an answer of one seed; the message where there is none."""
    options = DecodingOptions(seed=5, max_tokens=12)
    engine.submit(Request((Message("user", words),), options, str(target), drafter="ngram"))
    while True:
        assert engine.wait(60)
        for event in engine.events():
            if isinstance(event, RunFinished):
                return event.text
            if isinstance(event, RunFailed):
                raise DraftlightError(event.message)


def load(engine: Engine, target: Path) -> str:
    """Chooses the model again: its digest."""
    engine.load(str(target), "ngram")
    while True:
        assert engine.wait(60)
        for event in engine.events():
            if isinstance(event, LoadFinished):
                return event.model.sha256
            if isinstance(event, LoadFailed):
                raise DraftlightError(event.message)


def folder(place: Path, seed: int) -> Path:
    return tiny_models.write_folder(place, tiny_models.weights(seed))


def gguf(place: Path, seed: int) -> Path:
    place.mkdir(exist_ok=True)
    return tiny_models.write_gguf(place / "model.gguf", "Q8_0", tiny_models.weights(seed))


@pytest.mark.parametrize(("make", "weights"), [(folder, "model.safetensors"), (gguf, "model.gguf")])
def test_loaded_model_does_not_depend_on_its_files(
    make: Callable[[Path, int], Path], weights: str, engine: Engine, tmp_path: Path
) -> None:
    target, other = make(tmp_path / "model", 0), make(tmp_path / "other", 1)
    file = tmp_path / "model" / weights
    first, digest = answer(engine, target), load(engine, target)
    file.write_bytes(file.read_bytes()[:1000])  # in its place, as a copy does that breaks off
    assert answer(engine, target) == first
    shutil.copyfile(tmp_path / "other" / weights, file)
    assert answer(engine, target) == first
    assert load(engine, target) == digest, "what is told of it is what is loaded"
    theirs = answer(engine, other)
    assert load(engine, target) != digest, "chosen again after another it is the one that is there now"
    assert answer(engine, target) == theirs != first
    shutil.rmtree(tmp_path / "model")
    assert answer(engine, other, "and now") and answer(engine, other)
    with pytest.raises(DraftlightError, match="There is no model at"):
        load(engine, target)
    assert answer(engine, other), "and the engine goes on"
