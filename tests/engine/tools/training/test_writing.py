"""Text for a training: what the target is asked, and what it writes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.models import loading
from engine.models.loaded import LoadedModel
from engine.tools.training import prompts as tasks
from engine.tools.training import texts, writing
from engine.tools.training.reading import reader_for
from engine.tools.training.writing import SelfplayWriter
from tests.engine import tiny_models

LONGEST = 160


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """Undecided enough to end a text now and then."""
    return loading.load(str(undecided(tmp_path_factory.mktemp("model") / "tiny")))


def undecided(folder: Path) -> Path:
    """A tiny model's folder, its logits of order one."""
    made = tiny_models.weights()
    rows = np.random.default_rng(5).standard_normal((tiny_models.VOCABULARY, tiny_models.HIDDEN)) / 8
    made["lm_head.weight"] = rows.astype(np.float32)
    return tiny_models.write_folder(folder, made, max_position_embeddings=512, tie_word_embeddings=False)


def silent(what: str, tokens: int) -> None:
    return


def a_writer(target: LoadedModel, folder: Path, tick: Callable[[str, int], None] = silent) -> SelfplayWriter:
    folder.mkdir(exist_ok=True)
    return SelfplayWriter(target, reader_for(target, (0, 1)), folder, LONGEST, (0.0, 0.8), 3, tick)


@pytest.fixture(scope="module")
def whole(target: LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> list[texts.TextRecord]:
    """The records of a run without interruptions."""
    folder = tmp_path_factory.mktemp("whole")
    a_writer(target, folder).write(300)
    return written(folder)


def written(folder: Path) -> list[texts.TextRecord]:
    return [record for path in texts.files(folder) for record in texts.load(path)]


# Tasks


def test_turn_prompt_ends_after_the_first_words_of_a_question(target: LoadedModel) -> None:
    (prompt,), ends = tasks.turn_prompts(target.tokenizer, ["Explain how"])
    assert target.tokenizer.decode(prompt) == "<|im_start|>user\nExplain how"
    assert {target.tokenizer.decode([end]) for end in ends} == {"<|im_end|>", "<|endoftext|>"}


def test_every_kind_of_task_is_made_of_what_was_written() -> None:
    material = tasks.PromptMaterial(turns=["a question"])
    assert set(tasks.prompts(random.Random(0), material, 60)) >= {"a question"}  # nothing else is known yet
    text, code = "A sentence about lamps. " * 20, "def light(lamp):\n    lamp.on = True\n" * 5
    material.add(text)
    material.add("A second text, on harbours and ships. " * 20)
    material.add(f"Here you are:\n```python\n{code}```\nIt lights a lamp.")
    assert len(material.texts) == 2 and len(material.codes) == 1
    prompts = tasks.prompts(random.Random(0), material, 400)
    assert prompts == tasks.prompts(random.Random(0), material, 400)
    lit = [prompt for prompt in prompts if "lamp.on" in prompt]
    told = [prompt for prompt in prompts if "sentence about lamps" in prompt or "harbours" in prompt]
    assert len(lit) > 40 and len(told) > 80 and 60 < prompts.count("a question") < 180


# Writing


def test_the_target_writes_until_there_is_enough(target: LoadedModel, tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    count = a_writer(target, tmp_path, lambda what, tokens: told.append((what, tokens))).write(400)
    records = written(tmp_path)
    assert count == sum(len(record.tokens) - record.prompt_length for record in records) >= 400
    assert {what for what, _ in told} == {"questions", "answers"} and told[-1] == ("answers", count)
    for record in records:
        answer = record.tokens[record.prompt_length :].tolist()
        assert len(record.tokens) <= LONGEST and record.temperature in (0.0, pytest.approx(0.8))
        assert not set(answer[:-1]) & target.eos_ids
        assert record.group == texts.group_of(record.tokens[: record.prompt_length])
        if record.temperature > 0:
            assert len(set(answer)) > len(answer) / 2, "the logits are nearly flat, and each step has a number of its own"
    assert {record.temperature > 0 for record in records} == {False, True}
    assert not (tmp_path / "current.json").exists()


def test_greedy_answers_are_the_targets_own(target: LoadedModel, whole: list[texts.TextRecord]) -> None:
    greedy = next(record for record in whole if record.temperature == 0)
    logits = np.array(target.model(mx.array(greedy.tokens[None, :-1].astype(np.int32)))[0])
    chosen = greedy.tokens[greedy.prompt_length :]
    best = np.sort(logits[greedy.prompt_length - 1 :], axis=-1)
    margins = best[:, -1] - np.take_along_axis(logits[greedy.prompt_length - 1 :], chosen[:, None].astype(int), axis=-1)[:, 0]
    assert margins.max() < 1e-3


def test_the_same_seed_writes_the_same_text(target: LoadedModel, whole: list[texts.TextRecord], tmp_path: Path) -> None:
    a_writer(target, tmp_path).write(300)
    assert [record.tokens.tolist() for record in written(tmp_path)] == [record.tokens.tolist() for record in whole]


class Killed(BaseException):
    """Nothing in the program catches this: like kill -9, what is not on disk is gone."""


@pytest.mark.parametrize("noting", [True, False])
def test_an_interruption_leaves_whole_files_and_the_rest_goes_on(
    target: LoadedModel, whole: list[texts.TextRecord], tmp_path: Path, noting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in the middle of a batch, again and again: noted or not, the text is the one of a run in one go."""
    monkeypatch.setattr(writing, "SAVE_INTERVAL", 0.0 if noting else 1e9)
    for after in (10, 75, 100):
        steps = 0

        def kill(what: str, tokens: int, after: int = after) -> None:
            nonlocal steps
            steps += 1
            if steps == after:
                raise Killed

        with pytest.raises(Killed):
            a_writer(target, tmp_path / "cut", kill).write(300)
        assert (tmp_path / "cut" / "current.json").exists() is noting
    total = a_writer(target, tmp_path / "cut").write(300)
    cut = written(tmp_path / "cut")
    assert total == sum(len(record.tokens) - record.prompt_length for record in cut)
    same = sum(one.tokens.tolist() == other.tokens.tolist() for one, other in zip(whole, cut, strict=True))
    assert same >= 0.9 * len(whole)  # a batch read again may differ in the last bit, and take another token at a near-tie


def test_stop_saves_the_state_of_the_batch(target: LoadedModel, tmp_path: Path) -> None:
    class Stopped(Exception):
        pass

    def stop(what: str, tokens: int) -> None:
        if what == "answers" and tokens > 20:
            raise Stopped

    with pytest.raises(Stopped):
        a_writer(target, tmp_path, stop).write(300)
    noted = json.loads((tmp_path / "current.json").read_text())
    assert sum(map(len, noted["tokens"])) > 20
    first: list[int] = []
    a_writer(target, tmp_path, lambda what, tokens: first.append(tokens)).write(300)
    assert first[0] > 20
