"""Two windows are two processes on one data folder: a chat that is open in one is read-only in the other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QProcess, Qt
from pytestqt.qtbot import QtBot

from app.session.settings import load, save, settings_path
from app.window import new_window
from app.window.window import Window
from engine.chats import ChatSettings, ChatStore, count_open_stores
from tests.app.driving import answered, settled
from tests.app.fakes import STORY
from tests.app.window.test_chats import TracingEngine

ROOT = Path(__file__).resolve().parents[3]


class Other:
    """A window in another process."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "tests.app.window.window_victim", *arguments]
        environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def says(self, words: str) -> None:
        """Waits until it says this."""
        assert self.process.stdout is not None
        line = ""
        while line.strip() != words:
            line = self.process.stdout.readline()
            assert line, "it has ended"

    def tell(self, words: str) -> None:
        """Has it do something."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{words}\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """It is gone afterwards."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def other(home: Path) -> Iterator[Callable[..., Other]]:
    started: list[Other] = []

    def start(*arguments: str) -> Other:
        started.append(Other(*arguments))
        return started[-1]

    yield start
    for each in started:
        each.end()


@pytest.fixture
def open_kept(show_window: Callable[..., Any], home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Window]:
    monkeypatch.setattr("app.window.chats_controller.LOCK_CHECK_MS", 50)
    monkeypatch.setattr("app.sidebar.sidebar.EXTERNAL_CHECK_MS", 50)

    def opened(**settings: Any) -> Window:
        window = show_window(TracingEngine(), settings_path(), store=partial(ChatStore, wait=5.0), **settings)
        window.chats.restore()
        assert isinstance(window, Window)
        return window

    return opened


def test_a_chat_of_another_window_is_read_only_until_that_is_killed(
    qtbot: QtBot, open_kept: Callable[..., Window], other: Callable[..., Other], home: Path
) -> None:
    window, process = open_kept(), other("--hold")
    process.says("stored")
    window.sidebar.start()
    qtbot.waitUntil(lambda: window.sidebar.model.rowCount() > 1)
    number = next(number for number in range(1, 99) if window.sidebar.model.row_of(number) is not None)
    window.open_chat(number, None)
    qtbot.waitUntil(lambda: window.chat.stored_chat.number == number)
    assert window.session.read_only and not window.composer.isVisible()
    assert window.column.lock.isVisible() and "open in another window" in window.column.lock.label.text()
    assert window.status.line.text() == "Read only: this chat is open in another window"
    for name in ("regenerateAction", "editAction", "deleteAnswerAction", "continueAction"):
        assert not window.actions_by_id[name].isEnabled(), name
    assert window.actions_by_id["duplicateAction"].isEnabled()
    window.send("Not now")
    window.messages.delete_last()
    window.chats.delete(number)
    settled(qtbot, window)
    settled(qtbot, window)
    assert "open in another window" in window.banner.label.text()
    assert [turn.prompt for turn in window.session.turns] == ["Of the other window"] == asked(home, number)
    process.process.kill()  # with SIGKILL
    qtbot.waitUntil(lambda: not window.session.read_only)
    assert window.composer.isVisible() and window.column.lock.isHidden()
    assert window.session.turns[0].answer.ending == "interrupted"
    answered(qtbot, window, "Now")
    assert asked(home, number) == ["Of the other window", "Now"]


def asked(home: Path, number: int) -> list[str]:
    with ChatStore(home) as store:
        return [message.text for message in store.open(number).path if message.role == "user"]


def test_a_locked_chat_continues_in_a_copy_or_once_the_other_window_closes(
    qtbot: QtBot, open_kept: Callable[..., Window], other: Callable[..., Other], home: Path
) -> None:
    window, process = open_kept(), other()
    process.says("stored")
    window.chats.open(1)
    qtbot.waitUntil(lambda: window.session.read_only)
    qtbot.mouseClick(window.column.lock.action, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window.chat.stored_chat.number not in (None, 1))
    assert not window.session.read_only and window.column.lock.isHidden()
    window.chats.open(1)
    qtbot.waitUntil(lambda: window.session.read_only)
    process.tell("temperature 0.35")
    process.says("kept")
    window.chat.preferences.set(max_tokens=77)
    process.tell("close")
    qtbot.waitUntil(lambda: not window.session.read_only)
    assert window.session.turns[0].answer.text.text in STORY
    kept, note = load(settings_path())
    assert (kept.temperature, kept.max_tokens, note) == (0.35, 77, "")


def test_a_window_that_starts_beside_another_begins_with_an_empty_chat(
    qtbot: QtBot, open_kept: Callable[..., Window], home: Path
) -> None:
    one = open_kept()
    answered(qtbot, one, "One")
    number = one.chat.stored_chat.number
    second = open_kept(conversation=number)
    settled(qtbot, second)
    settled(qtbot, second)
    assert not second.session.turns and second.chat.stored_chat.number is None and not second.session.read_only
    one.close()
    second.chats.open(number)  # type: ignore[arg-type]
    qtbot.waitUntil(lambda: second.chat.stored_chat.number == number)
    assert not second.session.read_only


def test_only_one_store_holds_a_conversation_until_it_lets_go(home: Path) -> None:
    with ChatStore(home) as one, ChatStore(home) as two:
        assert count_open_stores(home) == 2
        number, another = one.create(ChatSettings()), one.create(ChatSettings())
        assert one.hold.take(number) and one.hold.take(number) and not one.hold.is_elsewhere(number)
        assert not two.hold.take(number) and two.hold.is_elsewhere(number)
        assert one.hold.take(another) and two.hold.take(number), "one at a time"
        assert two.hold.take(None) and one.hold.take(number)
    assert not [*(home / "chats" / "open").iterdir()]


def test_chats_open_even_if_locking_fails(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ChatStore(home) as store:
        number = store.create(ChatSettings())
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left on device")))
            assert store.hold.take(number)
        assert store.hold.take(number)


def test_presets_of_two_windows_are_both_kept(tmp_path: Path) -> None:
    from app.session.settings import Preset, Settings

    path = tmp_path / "settings.json"
    first, last = Preset("first", "One."), Preset("last", "Two.")
    common = Settings(presets=(first,), recent_models=("a",))
    before = save(path, common)
    save(path, Settings(presets=(first, last), recent_models=("b", "a")), before)
    save(path, Settings(presets=(), recent_models=("c", "a"), temperature=0.3), before)
    kept, _ = load(path)
    assert kept.presets == (last,), "one was added there, and one deleted here"
    assert set(kept.recent_models) == {"a", "b", "c"} and kept.temperature == 0.3


@pytest.mark.parametrize("python", [True, False])
def test_another_window_is_started_by_what_runs_this_one(
    qtbot: QtBot, open_kept: Callable[..., Window], monkeypatch: pytest.MonkeyPatch, python: bool
) -> None:
    window = open_kept()
    started: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(new_window, "is_python", lambda: python)
    monkeypatch.setattr(QProcess, "startDetached", lambda program, arguments: (bool(started.append((program, arguments))), 0))
    qtbot.keyClick(window, Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier)
    (program, arguments) = started[0]
    assert program == sys.executable
    assert "could not be started" in window.banner.label.text(), "as it returned False"
    if not python:
        assert arguments == [], "the application on a Mac"
        return
    found = subprocess.run([program, *arguments, "--version"], capture_output=True, text=True, cwd="/", check=True)
    assert found.stdout.startswith("draftlight ")
