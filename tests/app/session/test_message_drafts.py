"""What is written in the message field and not sent is there again, chat by chat, however the window came to its end."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.session.attachments import Attachment, put_together
from app.window.save_errors import UnsavedQuestion
from app.window.window import Window
from engine.chats import ChatsNotSaved, ChatStore
from engine.chats.unsent import UnsentTexts
from engine.types import RunFailed
from tests.app.driving import FullDisk, Open, answered, ask, settled, wait_for_answer
from tests.app.fakes import FakeEngine

ROOT = Path(__file__).parents[3]
Opened = Callable[..., Window]


@pytest.fixture
def open_kept(show_window: Callable[..., Any], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Opens a window as a start does: with the chat that was shown last, and its unsent text.

    `early` is typed before that chat is shown.
    """
    monkeypatch.setattr("app.session.message_drafts.PAUSE_SECONDS", 0.05)

    def opened(conversation: int | None = None, engine: FakeEngine | None = None, early: str = "") -> Window:
        window: Window = show_window(engine or FakeEngine(), store=partial(ChatStore, wait=0.2), conversation=conversation)
        if early:
            window.composer.set_text(early)
        window.chats.restore()
        settled(qtbot, window)
        settled(qtbot, window)
        return window

    return opened


def begin(qtbot: QtBot, window: Window, prompt: str) -> int:
    """A new chat with an answer; its number."""
    window.new_chat()
    answered(qtbot, window, prompt)
    assert window.chat.stored_chat.number is not None
    return window.chat.stored_chat.number


def shown(qtbot: QtBot, window: Window, number: int | None) -> tuple[int | None, str]:
    """What is edited and what is in the message field once a chat, or a new one, is opened."""
    if number is None:
        window.new_chat()
    else:
        window.chats.open(number)
    qtbot.waitUntil(lambda: window.chat.stored_chat.number == number)
    return window.messages.editing.at, window.composer.text


def on_disk(home: Path, *numbers: int | None) -> list[str]:
    """What somebody finds who comes after a crash: the texts as they are in the store."""
    with contextlib.closing(sqlite3.connect(home / "chats" / "chats.db")) as connection:
        found = connection.execute("SELECT conversation, text FROM unsent ORDER BY id").fetchall()
    return [text for conversation, text in found if not numbers or conversation in numbers]


def test_each_chat_has_its_own_and_so_has_a_new_one_also_after_a_restart(qtbot: QtBot, open_kept: Opened) -> None:
    window = open_kept()
    first, second = begin(qtbot, window, "One"), begin(qtbot, window, "Two")
    window.composer.set_text("  for the second\n")
    assert shown(qtbot, window, first) == (None, "")
    notes = Attachment("notes.txt", "words\nof a file")
    window.composer.set_text("for the first")
    window.composer.attach([notes])
    assert shown(qtbot, window, None) == (None, "")
    window.composer.set_text("for a new one")
    assert shown(qtbot, window, second) == (None, "  for the second\n")
    window.messages.edit_last()
    window.composer.set_text("Zwei")
    for _ in range(2):
        assert shown(qtbot, window, first) == (None, f"for the first\n\n{notes.block}")
        assert [chip.attachment for chip in window.composer.chips] == [notes]
        assert window.composer.edit.toPlainText() == "for the first"
        assert window.composer.edit.textCursor().atEnd()
        assert shown(qtbot, window, None) == (None, "for a new one")
        assert shown(qtbot, window, second) == (0, "Zwei") and window.composer.edit_note.isVisible()
        window.close()
        window = open_kept(second)
        assert (window.messages.editing.at, window.composer.text) == (0, "Zwei") and window.composer.edit.textCursor().atEnd()
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Escape)
    assert window.composer.text == "  for the second\n"
    window.close()
    assert open_kept().composer.text == "for a new one", "the window was left in a new chat"


def test_it_is_written_down_soon_after_it_was_typed_and_gone_once_it_is_sent_or_cleared(
    qtbot: QtBot, open_kept: Opened, home: Path
) -> None:
    window = open_kept()
    qtbot.keyClicks(window.composer.edit, "Half")
    qtbot.waitUntil(lambda: on_disk(home, None) == ["Half"])
    qtbot.keyClicks(window.composer.edit, " a message")
    qtbot.waitUntil(lambda: on_disk(home, None) == ["Half a message"])
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)
    settled(qtbot, window)
    assert on_disk(home) == []
    wait_for_answer(qtbot, window)
    qtbot.keyClicks(window.composer.edit, "More")
    number = window.chat.stored_chat.number
    qtbot.waitUntil(lambda: on_disk(home, number) == ["More"])
    window.composer.edit.clear()
    qtbot.waitUntil(lambda: on_disk(home) == [])
    window.messages.edit_last()
    window.composer.set_text("Otherwise")
    qtbot.waitUntil(lambda: on_disk(home, number) == ["Otherwise"])
    window.composer.submit()
    settled(qtbot, window)
    assert on_disk(home) == []


def test_a_window_that_is_killed_loses_nothing_that_was_typed_before_a_pause(qtbot: QtBot, open_kept: Opened, home: Path) -> None:
    ChatStore(home).close()
    environment = os.environ | {"DRAFTLIGHT_HOME": str(home), "QT_QPA_PLATFORM": "offscreen"}
    with subprocess.Popen([sys.executable, "-m", "tests.app.session.message_drafts_victim"], cwd=ROOT, env=environment) as window:
        try:
            qtbot.waitUntil(lambda: on_disk(home) == ["Half a message"])
        finally:
            os.kill(window.pid, signal.SIGKILL)
    assert open_kept().composer.text == "Half a message"


def test_what_is_typed_before_the_last_chat_is_shown_is_meant_for_it(qtbot: QtBot, open_kept: Opened) -> None:
    window = open_kept()
    number = begin(qtbot, window, "One")
    window.composer.set_text("Half a message")
    window.close()
    for conversation, text in ((number, "Half a message\n\ntyped early"), (None, "typed early")):
        window = open_kept(conversation, early="typed early")
        assert window.composer.text == text
        window.close()
    assert open_kept().composer.text == "typed early"


def test_what_is_typed_early_is_not_taken_for_a_prompt_that_is_being_edited(qtbot: QtBot, open_kept: Opened) -> None:
    window = open_kept()
    number = begin(qtbot, window, "One")
    window.messages.edit_last()
    window.composer.set_text("Otherwise")
    window.close()
    window = open_kept(number, early="typed early")
    assert (window.messages.editing.at, window.composer.text) == (None, "typed early")
    window.messages.edit_last()
    assert window.composer.text == "Otherwise"


def test_two_windows_leave_each_other_what_they_have(qtbot: QtBot, open_kept: Opened, home: Path) -> None:
    one = open_kept()
    number = begin(qtbot, one, "One")
    one.composer.set_text("of the one")
    one.chat.drafts.save()
    settled(qtbot, one)
    other = open_kept(number)
    assert other.composer.text == "" and not other.session.turns, "the chat is open in the one"
    other.composer.set_text("of the other")
    other.composer.submit()
    wait_for_answer(qtbot, other)
    other.composer.set_text("of the other, again")
    settled(qtbot, other)
    theirs = other.chat.stored_chat.number
    other.close()
    assert theirs != number and on_disk(home, theirs) == ["of the other, again"]
    assert on_disk(home, number) == ["of the one"]
    one.close()
    assert open_kept(number).composer.text == "of the one"


def test_it_is_deleted_with_its_chat_and_comes_back_with_it(qtbot: QtBot, open_kept: Opened, home: Path) -> None:
    window = open_kept()
    number = begin(qtbot, window, "One")
    window.composer.set_text("Half a message")
    window.chats.delete(number)
    assert window.composer.text == ""
    window.banner.action.click()
    qtbot.waitUntil(lambda: window.composer.text == "Half a message")
    window.chats.delete(number)
    window.chat.keeper.write(lambda store: store.purge([number]))
    settled(qtbot, window)
    assert on_disk(home) == []


def test_a_chat_that_is_deleted_elsewhere_takes_it_along_and_has_it_again_when_it_is_written_anew(
    qtbot: QtBot, open_kept: Opened, home: Path
) -> None:
    window = open_kept()
    number = begin(qtbot, window, "One")
    with ChatStore(home) as store:
        store.purge([number])
    window.composer.set_text("Half a message")
    window.chat.drafts.save()
    settled(qtbot, window)
    assert on_disk(home) == [] and not window.banner.isVisible()
    window.chat.send("Two")
    wait_for_answer(qtbot, window)
    qtbot.waitUntil(lambda: window.chat.stored_chat.number != number)
    qtbot.waitUntil(lambda: on_disk(home, window.chat.stored_chat.number) == ["Half a message"])


def test_a_prompt_that_failed_at_once_waits_for_a_new_chat(qtbot: QtBot, open_kept: Opened) -> None:
    engine = FakeEngine()
    window = open_kept(engine=engine)
    number = begin(qtbot, window, "One")
    window.new_chat()
    engine.hold = True
    ask(qtbot, window, "A long question")
    engine.say(RunFailed(engine.runs[1], "No."))
    qtbot.waitUntil(lambda: window.composer.text == "A long question")
    settled(qtbot, window)
    assert shown(qtbot, window, number) == (None, "")
    assert shown(qtbot, window, None) == (None, "A long question")


def test_a_full_disk_is_said_once_and_holds_up_nothing(
    qtbot: QtBot, open_kept: Opened, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = open_kept()
    full, tries = True, 0
    keep = UnsentTexts.keep

    def fails(self: UnsentTexts, *arguments: Any) -> int | None:
        nonlocal tries
        tries += 1
        if full:
            raise ChatsNotSaved("The disk is full.")
        return keep(self, *arguments)

    monkeypatch.setattr(UnsentTexts, "keep", fails)
    qtbot.keyClicks(window.composer.edit, "Half")
    qtbot.waitUntil(window.banner.isVisible)
    assert window.banner.label.text().endswith("The disk is full.")
    window.banner.hide()
    qtbot.keyClicks(window.composer.edit, " a message")
    seen = tries
    qtbot.waitUntil(lambda: tries > seen + 2)
    assert not window.banner.isVisible() and window.composer.text == "Half a message"
    full = False
    qtbot.waitUntil(lambda: on_disk(home) == ["Half a message"])


def test_what_nobody_foresaw_is_told_as_gone_wrong_in_writing(
    qtbot: QtBot, open_kept: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any) -> None:
        raise RuntimeError("odd")

    window = open_kept()
    monkeypatch.setattr(UnsentTexts, "keep", fails)
    qtbot.keyClicks(window.composer.edit, "Half")
    qtbot.waitUntil(window.banner.isVisible)
    assert "Something went wrong while writing the chats (RuntimeError: odd)." in window.banner.label.text()
    assert "Failed while writing the chats" in caplog.text


@pytest.mark.parametrize("closed", [False, True])
def test_what_is_sent_is_removed_only_once_the_message_is_written(
    qtbot: QtBot, open_kept: Opened, home: Path, monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    window = open_kept()
    disk = FullDisk(monkeypatch)
    qtbot.keyClicks(window.composer.edit, "One")
    qtbot.waitUntil(lambda: on_disk(home) == ["One"])
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)
    wait_for_answer(qtbot, window)
    qtbot.waitUntil(window.banner.isVisible)
    settled(qtbot, window)
    assert on_disk(home) == ["One"]
    if closed:
        window.close()
        window.findChild(UnsavedQuestion).close_requested.emit()
        qtbot.waitUntil(lambda: not window.isVisible())
        assert on_disk(home) == ["One"], "nothing else has it"
    else:
        disk.full = False
        window.banner.action.click()
        qtbot.waitUntil(lambda: on_disk(home) == [])


def test_a_window_that_keeps_no_chats_keeps_nothing_of_it(qtbot: QtBot, open_window: Open, home: Path) -> None:
    window, _ = open_window()
    qtbot.keyClicks(window.composer.edit, "Half a message")
    window.chat.drafts.save()
    window.close()
    assert not (home / "chats").exists()


def test_texts_with_files_are_put_together_with_all_files_behind() -> None:
    one, other = Attachment("a.py", "x = 1"), Attachment("b.md", "```\ncode\n```")
    assert put_together(["first\n\n" + one.block, "", "second\n\n" + other.block]) == "\n\n".join(
        ("first", "second", one.block, other.block)
    )
    assert put_together([" as it stands\n"]) == " as it stands\n"


def test_what_was_typed_in_another_chat_cannot_be_brought_into_this_one_by_undo(qtbot: QtBot, open_kept: Opened) -> None:
    window = open_kept()
    first = begin(qtbot, window, "One")
    begin(qtbot, window, "Two")
    qtbot.keyClicks(window.composer.edit, "Ha")
    for _ in "Ha":
        qtbot.keyClick(window.composer.edit, Qt.Key.Key_Backspace)
    assert shown(qtbot, window, first) == (None, "")
    window.composer.edit.undo()
    assert window.composer.text == ""


def test_a_prompt_that_is_edited_and_left_as_it_is_does_not_wait_as_rewritten(qtbot: QtBot, open_kept: Opened) -> None:
    window = open_kept()
    other, number = begin(qtbot, window, "One"), begin(qtbot, window, "Two")
    for prompt in ("10\u00a0km", "one\u2028two", "half a pair \ud83d"):
        window.chat.send(prompt)  # as a prompt from elsewhere may be
        wait_for_answer(qtbot, window)
        window.messages.edit_last()
        shown(qtbot, window, other)
        assert shown(qtbot, window, number) == (None, "")
        window.messages.edit_last()
        qtbot.keyClick(window.composer.edit, Qt.Key.Key_Escape)
        assert not window.banner.isVisible(), "nothing was discarded"


def test_undo_brings_changes_to_a_prompt_back_also_where_it_is_being_edited_again(qtbot: QtBot, open_kept: Opened) -> None:
    window = open_kept()
    begin(qtbot, window, "One")
    for again, found in (("One", "Uno"), ("Eins", "Eins\n\nUno")):
        window.messages.edit_last()
        window.composer.set_text("Uno")
        qtbot.keyClick(window.composer.edit, Qt.Key.Key_Escape)
        window.messages.edit_last()
        window.composer.set_text(again)
        window.banner.action.click()
        assert (window.messages.editing.at, window.composer.text) == (0, found)
