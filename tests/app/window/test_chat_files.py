"""Chats to and from files in the window: by dialog, and by dropping the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication, QFileDialog
from pytestqt.qtbot import QtBot

from app.conversation.blocks import footer_words, settings_words
from app.window.chat_files import JSON_KIND, MARKDOWN_KIND, file_name
from app.window.window import Window
from engine.chats import ChatSettings, ChatStore
from tests.app.driving import dragged, drop
from tests.app.fakes import FakeEngine
from tests.engine.chats.test_exchange import CHATGPT, LM_STUDIO


@pytest.fixture
def window(show_window: Callable[..., Any], home: Path, qtbot: QtBot) -> Window:
    with ChatStore(home) as store:
        chat = store.create(ChatSettings(), title="Ships: a / b?")
        store.add_message(chat, store.add_message(chat, None, "user", "Which?"), "assistant", "Those.")
    shown: Window = show_window(FakeEngine(), store=partial(ChatStore, wait=0.2))
    shown.sidebar.start()
    qtbot.waitUntil(lambda: shown.sidebar.model.chat_count == 1)
    return shown


def titles(window: Window) -> set[str]:
    model = window.sidebar.model
    return {str(model.index(row).data()) for row in range(model.rowCount())}


def test_exports_of_other_programs_are_dropped_on_the_window(qtbot: QtBot, window: Window, tmp_path: Path) -> None:
    chatgpt, studio, other = (tmp_path / name for name in ("conversations.json", "1700.conversation.json", "package.json"))
    chatgpt.write_text(json.dumps(CHATGPT))
    studio.write_text(json.dumps(LM_STUDIO))
    other.write_text('{"name": "not chats"}')
    for paths in ([other], [chatgpt, other]):
        assert not window.chats.files.dropped(dragged(*paths)), "another file is left to others"
    assert drop(window, chatgpt, studio)
    qtbot.waitUntil(lambda: window.banner.action.isVisible())
    assert "from ChatGPT" in window.banner.label.text() and "from LM Studio" in window.banner.label.text()
    qtbot.waitUntil(lambda: CHATGPT[0]["title"] in titles(window))
    window.banner.action.click()
    qtbot.waitUntil(lambda: bool(window.session.turns))
    answer = window.session.turns[0].answer
    assert settings_words(answer) == [], "nothing is known of how it was made"
    assert [text for text, _, _ in footer_words(answer, "", "", "")] == ["Imported"]
    assert drop(window, chatgpt)
    qtbot.waitUntil(lambda: "there already" in window.banner.label.text())
    studio.write_text("{")
    window.chats.files.import_files([studio])
    qtbot.waitUntil(lambda: "cannot be imported" in window.banner.label.text())
    QApplication.processEvents()


def test_one_chat_or_all_are_exported_and_come_back(
    qtbot: QtBot, window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    asked: list[str] = []
    answers = [(str(tmp_path / "one.md"), MARKDOWN_KIND), (str(tmp_path / "all"), JSON_KIND)]

    def chosen(parent: object, title: str, proposed: str, kinds: str) -> tuple[str, str]:
        asked.append(proposed)
        return answers.pop(0)

    monkeypatch.setattr(QFileDialog, "getSaveFileName", chosen)
    window.chats.open(1)
    qtbot.waitUntil(lambda: bool(window.session.turns))
    window.actions_by_id["exportChatAction"].trigger()
    qtbot.waitUntil(lambda: "one.md" in window.banner.label.text())
    assert Path(asked[0]).name == "Ships a b.md"
    assert "## You\n\nWhich?" in (tmp_path / "one.md").read_text()
    window.actions_by_id["exportAllAction"].trigger()
    qtbot.waitUntil(lambda: "all.json" in window.banner.label.text())
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", lambda *_: ([str(tmp_path / "all.json")], ""))
    window.chats.delete(1)
    window.actions_by_id["importAction"].trigger()
    qtbot.waitUntil(lambda: "1 chat imported" in window.banner.label.text())
    with ChatStore(home) as store:
        (about,) = store.conversations()
        assert [message.text for message in store.open(about.id).messages] == ["Which?", "Those."]


def test_an_export_replaces_only_the_file_that_was_asked_about(
    qtbot: QtBot, window: Window, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, (typed, kind, written) in enumerate(
        [
            ("notes", MARKDOWN_KIND, "notes (2).md"),
            ("notes.txt", MARKDOWN_KIND, "notes (2).md"),
            ("plan v1.2", MARKDOWN_KIND, "plan v1.2.md"),
            ("notes.md", JSON_KIND, "notes (2).json"),
            ("notes.md", MARKDOWN_KIND, "notes.md"),
            ("notes.json", MARKDOWN_KIND, "notes.json"),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        there = {name: folder / name for name in ("notes", "notes.txt", "notes.md", "notes.json", "plan v1.md")}
        for path in there.values():
            path.write_text("mine")
        monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_, named=(str(folder / typed), kind): named)
        window.actions_by_id["exportAllAction"].trigger()
        told = f"1 chat exported to {folder / written}."
        qtbot.waitUntil(lambda: told == window.banner.label.text())  # noqa: B023 - asked for at once
        assert "Which?" in (folder / written).read_text()
        assert {name for name, path in there.items() if path.read_text() != "mine"} <= {typed}


def test_without_chats_nothing_is_exported(qtbot: QtBot, window: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: pytest.fail("asks for a file"))
    window.chats.delete(1)
    window.actions_by_id["exportAllAction"].trigger()
    qtbot.waitUntil(lambda: "no chats" in window.banner.label.text())


def test_a_title_becomes_the_name_of_a_file_everywhere() -> None:
    assert file_name('A: "b" <c>|d?*\\e/f\n') == "A b c d e f"
    assert file_name("…") == "chat"
