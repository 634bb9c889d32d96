"""Folders dropped on the window: each kind does what one expects of it, and what cannot be used is explained."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.window.dropping import ACCEPTED_FILES_TEXT, MAX_ATTACHED_TEXTS
from app.window.window import Window
from tests.app.driving import Open, drop
from tests.app.fakes import story_rounds
from tests.engine import tiny_models
from tests.traces import write_trace


@pytest.fixture
def window(open_window: Open, home: Path) -> Window:
    return open_window()[0]


def said(qtbot: QtBot, window: Window) -> str:
    qtbot.waitUntil(window.banner.isVisible)
    return str(window.banner.label.text())


def repository(folder: Path, name: str, model: Path) -> Path:
    """A repository as huggingface_hub keeps it in its cache, with an older state beside the one in use."""
    place = folder / f"models--{name.replace('/', '--')}"
    for commit in ("a" * 40, "b" * 40):
        shutil.copytree(model, place / "snapshots" / commit)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text("b" * 40)
    return place


def with_one_model(kind: str, folder: Path) -> tuple[Path, Path]:
    """Returns the path to drop, and the path of the model inside it."""
    made = folder / "tiny"
    if "adapter" in kind:
        made.mkdir(parents=True)
        (made / "adapter_config.json").write_text("{}")
    elif kind == "gguf":
        made.mkdir(parents=True)
        (made / "some.gguf").write_bytes(b"GGUF and more")
        (made / "README.md").write_text("Some model.")
    else:
        tiny_models.write_folder(made, **({"architectures": ["DFlashDraftModel"]} if kind == "drafter" else {}))
    expected = dropped = made
    if kind == "gguf":
        expected = made / "some.gguf"
    elif kind == "above":
        dropped = folder / "publisher"
        expected = dropped / "tiny"
        shutil.copytree(made, expected)
    elif kind in ("repository", "adapter repository", "snapshots"):
        place = repository(folder / "hub", "org/tiny", made)
        expected, dropped = place / "snapshots" / ("b" * 40), place if kind != "snapshots" else place / "snapshots" / ("b" * 40)
    return dropped, expected


def test_a_folder_with_one_model_is_used(qtbot: QtBot, window: Window, tmp_path: Path) -> None:
    for kind in ("model", "drafter", "adapter", "gguf", "above", "repository", "adapter repository", "snapshots"):
        dropped, expected = with_one_model(kind, tmp_path / kind)
        assert drop(window.composer.edit.viewport(), dropped), kind
        setting, path = "drafter" if kind == "drafter" else "target", str(expected.resolve())
        qtbot.waitUntil(lambda: getattr(window.settings, setting) == path)  # noqa: B023 - asked for at once


def test_a_folder_with_several_models_offers_the_list(qtbot: QtBot, window: Window, tmp_path: Path) -> None:
    made = tiny_models.write_folder(tmp_path / "tiny")
    for name in ("org/one", "org/two"):
        repository(tmp_path / "hub", name, made)
    before = window.settings.target
    assert drop(window.composer.edit.viewport(), tmp_path / "hub")
    assert "hub has 2 models" in said(qtbot, window) and window.settings.target == before
    window.banner.action.click()
    dialog = window.models.dialog
    assert dialog is not None and dialog.isVisible()
    qtbot.waitUntil(lambda: sum("models--org-" in key for key in dialog.machine.models) == 4)


def test_the_text_files_of_a_folder_are_attached(qtbot: QtBot, window: Window, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    for name, content in {
        "a.py": b"print(1)",
        "src/a.py": b"print(2)",
        "picture.png": b"\x89PNG\0",
        ".git/config": b"hidden",
        "config.json": b"{}",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    assert drop(window.composer.edit.viewport(), folder)
    qtbot.waitUntil(lambda: len(window.composer.chips) == 3)
    assert [chip.attachment.name for chip in window.composer.chips] == ["a.py", "config.json", "src/a.py"]
    words = said(qtbot, window)
    assert "3 text files of project" in words and "1 other file" in words


def test_too_many_text_files_are_counted_and_not_attached(qtbot: QtBot, window: Window, tmp_path: Path) -> None:
    for number in range(MAX_ATTACHED_TEXTS + 1):
        (tmp_path / f"{number}.txt").write_text("some text")
    assert drop(window.composer.edit.viewport(), tmp_path)
    assert f"has {MAX_ATTACHED_TEXTS + 1} text files" in said(qtbot, window) and window.composer.chips == []


@pytest.mark.parametrize(("content", "words"), [(None, "is empty"), (b"\0\1", "Nothing in things can be used here")])
def test_an_unusable_folder_shows_what_can_be_dropped(
    content: bytes | None, words: str, qtbot: QtBot, window: Window, tmp_path: Path
) -> None:
    (tmp_path / "things").mkdir()
    if content is not None:
        (tmp_path / "things" / "some.bin").write_bytes(content)
    assert drop(window.composer.edit.viewport(), tmp_path / "things")
    told = said(qtbot, window)
    assert words in told and told.endswith(ACCEPTED_FILES_TEXT)
    assert window.composer.text == "", "its path is not typed into the message"


def test_traces_and_exported_chats_in_a_folder(qtbot: QtBot, window: Window, tmp_path: Path) -> None:
    write_trace(tmp_path / "traces" / "one.jsonl", story_rounds())
    assert drop(window.composer.edit.viewport(), tmp_path / "traces")
    qtbot.waitUntil(lambda: window.session.replaying)
    window.replay_controller.leave()
    write_trace(tmp_path / "traces" / "two.jsonl", story_rounds())
    assert drop(window.composer.edit.viewport(), tmp_path / "traces")
    qtbot.waitUntil(lambda: "traces has 2 traces" in window.banner.label.text())


def test_chats_exported_by_another_program_as_a_folder(
    qtbot: QtBot, window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Any] = []
    monkeypatch.setattr(window.chats.files, "import_files", taken.extend)
    (tmp_path / "conversations.json").write_text(json.dumps([{"title": "x", "mapping": {}}]))
    (tmp_path / "chat.html").write_text("<p>x</p>")
    assert drop(window.composer.edit.viewport(), tmp_path)
    qtbot.waitUntil(lambda: taken == [tmp_path / "conversations.json"])


def test_files_dropped_together_are_classified(qtbot: QtBot, window: Window, tmp_path: Path) -> None:
    made = tiny_models.write_folder(tmp_path / "tiny")
    other = shutil.copytree(made, tmp_path / "other")
    assert drop(window.composer.edit.viewport(), made, other)
    assert "2 models" in said(qtbot, window)
    window.banner.hide()
    assert drop(window.composer.edit.viewport(), made / "model.safetensors"), "the file of a model stands for its folder"
    qtbot.waitUntil(lambda: window.settings.target == str(made))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_folder_is_named(qtbot: QtBot, window: Window, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0)
    assert drop(window.composer.edit.viewport(), tmp_path / "locked")
    assert said(qtbot, window) == "locked cannot be read: Permission denied."
