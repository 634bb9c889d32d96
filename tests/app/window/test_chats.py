"""Chats last: what is asked and answered in the window is in the store as it goes, and comes back."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox
from pytestqt.qtbot import QtBot

from app.conversation.answer_editor import AnswerEditor
from app.conversation.blocks import settings_words
from app.look.widgets import DiscardQuestion
from app.session.settings import load
from app.window.save_errors import UnsavedQuestion
from app.window.window import Window
from engine.chats import ChatSettings, ChatStore, ChatSummary, Conversation, Figures
from engine.rounds.codec import options_to_json
from engine.rounds.trace import Writer
from engine.types import DecodingOptions, RunFailed, RunFinished
from tests.app.driving import FullDisk, answered, ask, settled, wait_for_answer
from tests.app.fakes import STORY, FakeEngine

Kept = Callable[..., tuple[Window, "TracingEngine"]]


class TracingEngine(FakeEngine):
    """Writes the trace of each answer where it is asked to, as the real one does."""

    def _finish(self, finish: Any) -> None:
        assert self._run is not None
        run_id, request = self._run
        super()._finish(finish)
        options = request.options if request.options.seed is not None else request.options.replace(seed=4242)
        writer = Writer(
            Path(request.trace_path or ""),
            {
                "target": {"name": "Tiny"},
                "drafter": {"name": request.drafter},
                "options": options_to_json(options),
                "prompt": {"messages": [{"role": each.role, "content": each.content} for each in request.messages]},
                "given": {"ids": list(request.given), "text": "".join(f"[{token}]" for token in request.given)},
            },
        )
        rounds = self.rounds[: self._next]
        for round_ in rounds:
            writer.round(replace(round_, drafter=request.drafter))
        writer.summary({"finish": finish})
        writer.close()
        ends = [event for event in self._said if isinstance(event, RunFinished)]
        for end in ends:
            self._said.remove(end)
            self.say(RunFinished(run_id, finish, end.text, end.tokens, 0.5, 0.1, 0.2, request.trace_path))


@pytest.fixture
def open_kept(show_window: Callable[..., Any], home: Path) -> Kept:
    def opened(**settings: Any) -> tuple[Window, TracingEngine]:
        engine = TracingEngine()
        return show_window(engine, store=partial(ChatStore, wait=0.2), **settings), engine

    return opened


def stored(home: Path) -> list[Conversation]:
    with ChatStore(home) as store:
        return [store.open(about.id) for about in store.conversations()]


def test_prompts_and_answers_are_stored_with_how_they_were_made(qtbot: QtBot, open_kept: Kept, home: Path) -> None:
    window, _ = open_kept(system_prompt="Be brief.")
    answered(qtbot, window, "Tell me a story.")
    (chat,) = stored(home)
    assert chat.about.title == "Tell me a story."
    assert [(message.role, message.text, message.state) for message in chat.messages] == [
        ("user", "Tell me a story.", "complete"),
        ("assistant", STORY, "complete"),
    ]
    made = chat.messages[1].made
    assert made is not None and made.settings.options.seed == 4242
    assert made.settings.system == "Be brief."
    assert made.figures.tokens == window.session.turns[0].answer.tally.summary.emitted
    assert chat.messages[1].trace is not None and Path(chat.messages[1].trace).is_file()


def test_a_running_answer_is_stored_with_its_journal(qtbot: QtBot, open_kept: Kept, home: Path) -> None:
    window, engine = open_kept()
    engine.hold = True
    ask(qtbot, window, "One")
    settled(qtbot, window)
    (chat,) = stored(home)
    assert [message.state for message in chat.messages] == ["complete", "running"]
    assert chat.messages[1].trace == engine.requests[0].trace_path


def test_a_new_chat_stops_the_answer_and_loses_nothing(qtbot: QtBot, open_kept: Kept, home: Path) -> None:
    window, engine = open_kept()
    engine.pause_after = 3
    ask(qtbot, window, "One")
    qtbot.waitUntil(lambda: window.session.turns[0].answer.tally.rounds == 3)
    so_far = window.session.turns[0].answer.text.text
    window.new_chat()
    assert window.session.turns == []
    engine.pause_after = None
    answered(qtbot, window, "Two")
    second, first = stored(home)
    assert [message.text for message in first.messages] == ["One", so_far]
    assert first.messages[1].state == "stopped"
    assert [message.text for message in second.messages] == ["Two", STORY]


def reopened(qtbot: QtBot, window: Window, open_kept: Kept) -> tuple[Window, TracingEngine]:
    number = window.settings.conversation
    window.close()
    again, engine = open_kept(conversation=number)
    again.chats.restore()
    settled(qtbot, again)
    settled(qtbot, again)
    return again, engine


def test_a_restart_restores_the_chat_with_its_rounds(qtbot: QtBot, open_kept: Kept) -> None:
    window, _ = open_kept()
    answered(qtbot, window, "Tell me a story.")
    before = window.session.turns[0].answer
    again, engine = reopened(qtbot, window, open_kept)
    (turn,) = again.session.turns
    assert (turn.prompt, turn.answer.text.text, turn.answer.finish) == ("Tell me a story.", STORY, "eos")
    qtbot.waitUntil(lambda: not turn.answer.unread)
    assert turn.answer.rounds == before.rounds
    assert turn.answer.tally.summary == before.tally.summary
    assert again.panel.shown.answer is turn.answer
    assert turn.answer.options.seed == 4242
    answered(qtbot, again, "And then?")
    assert [message.content for message in engine.requests[-1].messages] == ["Tell me a story.", STORY, "And then?"]


def test_regenerating_and_editing_discard_nothing(qtbot: QtBot, open_kept: Kept, home: Path) -> None:
    window, _ = open_kept()
    answered(qtbot, window, "One")
    answered(qtbot, window, "Two")
    window.chat.regenerate(at=0)
    wait_for_answer(qtbot, window)
    assert [turn.prompt for turn in window.session.turns] == ["One"], "what followed belongs to the other answer"
    window.messages.edit(0)
    window.composer.set_text("Uno")
    window.send("Uno")
    wait_for_answer(qtbot, window)
    assert [turn.prompt for turn in window.session.turns] == ["Uno"]
    settled(qtbot, window)
    (chat,) = stored(home)
    assert sorted(message.text for message in chat.messages if message.role == "user") == ["One", "Two", "Uno"]
    assert len(chat.messages) == 7

    again, _ = reopened(qtbot, window, open_kept)
    assert [turn.prompt for turn in again.session.turns] == ["Uno"]
    assert again.session.turns[0].version == (1, 2)
    again.messages.show_sibling(0, -1, prompts=True)
    assert [turn.prompt for turn in again.session.turns] == ["One"]
    assert (again.session.turns[0].shown, len(again.session.turns[0].answers)) == (1, 2)
    again.messages.show_sibling(0, -1)
    assert [turn.prompt for turn in again.session.turns] == ["One", "Two"]
    third, _ = reopened(qtbot, again, open_kept)
    assert [turn.prompt for turn in third.session.turns] == ["One", "Two"], "what shows is remembered"


def test_a_rewritten_prompt_stays_as_a_draft_in_its_chat(qtbot: QtBot, open_kept: Kept) -> None:
    window, _ = open_kept()

    def shown(number: int | None) -> tuple[int | None, str]:
        """What is edited and what is in the message field once a chat is opened."""
        assert number is not None
        window.chats.open(number)
        qtbot.waitUntil(lambda: window.chat.stored_chat.number == number)
        return window.messages.editing.at, window.composer.text

    answered(qtbot, window, "One")
    answered(qtbot, window, "Two")
    first = window.chat.stored_chat.number
    window.new_chat()
    answered(qtbot, window, "Three")
    second = window.chat.stored_chat.number
    window.composer.set_text("Half a message")
    window.messages.edit_last()
    window.composer.set_text("Tre")
    assert shown(first) == (None, "")
    window.messages.edit(0)
    window.composer.set_text("Uno")
    assert shown(second) == (0, "Tre") and window.composer.edit_note.isVisible()
    window.new_chat()
    assert (window.messages.editing.at, window.composer.text) == (None, "")
    assert shown(first) == (0, "Uno")
    window.composer.submit()
    wait_for_answer(qtbot, window)
    settled(qtbot, window)
    assert [turn.prompt for turn in window.session.turns] == ["Uno"]
    assert shown(second) == (0, "Tre")
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Escape)
    for number, waits in ((first, ""), (second, "Half a message")):
        assert shown(number) == (None, waits), "what was sent or cancelled no longer waits"


def test_a_rewritten_prompt_stays_a_draft_while_other_messages_change(qtbot: QtBot, open_kept: Kept) -> None:
    window, _ = open_kept()
    answered(qtbot, window, "One")
    window.chat.regenerate(at=0)
    wait_for_answer(qtbot, window)
    answered(qtbot, window, "Two")
    editing, written = window.messages.editing, "Two, but in other words"
    window.messages.edit(1)
    window.composer.set_text(written)

    def changed(at: int | None, text: str) -> bool:
        return (editing.at, window.composer.text) == (at, text)

    window.messages.edit(1)
    assert changed(1, written), "what is written is not replaced by the prompt"
    window.messages.edit(0)
    assert changed(0, "One")
    window.messages.edit(1)
    assert changed(1, written)
    window.messages.show_sibling(0, -1)
    assert changed(None, "") and len(window.session.turns) == 1
    window.messages.show_sibling(0, 1)
    assert changed(1, written)
    window.messages.perform("delete", 1, True)
    assert changed(None, "")
    window.banner.action.click()
    assert changed(1, written)
    window.messages.perform("regenerate", 0, False)
    wait_for_answer(qtbot, window)
    assert changed(None, "") and not window.composer.edit_note.isVisible()
    window.messages.show_sibling(0, -1)
    assert changed(1, written)
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Escape)
    assert changed(None, "") and "discarded" in window.banner.label.text()
    window.banner.action.click()
    assert changed(1, written)
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Escape)
    window.messages.edit(1)
    assert changed(1, "Two"), "it was cancelled"
    window.banner.hide()
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Escape)
    assert window.banner.isHidden(), "nothing was discarded"


def test_a_stopped_answer_can_be_continued_after_a_restart(qtbot: QtBot, open_kept: Kept) -> None:
    window, engine = open_kept()
    engine.pause_after = 2
    ask(qtbot, window, "One")
    qtbot.waitUntil(lambda: window.session.turns[0].answer.tally.rounds == 2)
    ids = window.session.turns[0].answer.ids
    assert not window.actions_by_id["continueAction"].isEnabled()
    window.stop()
    wait_for_answer(qtbot, window)
    settled(qtbot, window)
    assert window.actions_by_id["continueAction"].isEnabled()
    again, engine = reopened(qtbot, window, open_kept)
    qtbot.waitUntil(lambda: not again.session.turns[0].answer.unread)
    again.messages.go_on()
    wait_for_answer(qtbot, again)
    assert engine.requests[-1].given == ids
    assert engine.requests[-1].options.seed == 4242, "so that it becomes what it would have been"
    assert engine.requests[-1].options.max_tokens == len(ids) + again.settings.max_tokens
    assert len(again.session.turns[0].answers) == 2


def test_an_answer_that_is_edited_stands_beside_it_and_is_what_follows_builds_on(
    qtbot: QtBot, open_kept: Kept, home: Path
) -> None:
    window, engine = open_kept()
    answered(qtbot, window, "One")
    answered(qtbot, window, "Two")
    window.transcript.wanted.emit("edit", 0, False)
    (editor,) = window.findChildren(AnswerEditor)
    qtbot.keyClick(editor.edit, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: not window.findChildren(AnswerEditor))
    for leave in (lambda question: question.discard_button.click(), lambda question: qtbot.keyClick(question, Qt.Key.Key_Escape)):
        window.transcript.wanted.emit("edit", 0, False)
        (editor,) = window.findChildren(AnswerEditor)
        assert editor.edit.toPlainText() == STORY
        assert not editor.keep.isEnabled(), "there is nothing to keep yet"
        editor.edit.setPlainText("Mi")
        qtbot.keyClick(editor.edit, Qt.Key.Key_Escape)
        (question,) = editor.findChildren(DiscardQuestion)
        assert editor.isVisible(), "what was written is gone without a question"
        leave(question)
        if not editor.isVisible():
            qtbot.waitUntil(lambda: not window.findChildren(AnswerEditor))
    assert len(window.session.turns[0].answers) == 1 and editor.edit.toPlainText() == "Mi"
    editor.edit.setPlainText("Mine.")
    qtbot.keyClick(editor.edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    (turn,) = window.session.turns
    assert (turn.answer.text.text, turn.shown, len(turn.answers)) == ("Mine.", 1, 2)
    assert settings_words(turn.answer) == ["edited by hand"]
    answered(qtbot, window, "Three")
    assert [message.content for message in engine.requests[-1].messages] == ["One", "Mine.", "Three"]
    again, engine = reopened(qtbot, window, open_kept)
    turn = again.session.turns[0]
    assert [turn.prompt for turn in again.session.turns] == ["One", "Three"]
    assert (turn.answer.text.text, turn.answer.edited, turn.answer.finish) == ("Mine.", True, None)
    assert "You wrote this version yourself" in turn.answer.waiting_words
    assert again.session.turns[1].answer.text.text == STORY
    again.transcript.wanted.emit("continue", 0, False)
    wait_for_answer(qtbot, again)
    assert engine.requests[-1].given_text == "Mine."
    assert again.session.turns[0].answer.text.text == f"Mine.{STORY}"
    again.messages.show_sibling(0, -2)
    assert [turn.prompt for turn in again.session.turns] == ["One", "Two"], "what followed the answer is still there"
    made = [message.made for message in stored(home)[0].messages if message.text == "Mine."]
    assert made[0] is not None and made[0].edited and made[0].figures == Figures()


def test_any_answer_with_a_trace_can_be_replayed_and_compared(qtbot: QtBot, open_kept: Kept) -> None:
    window, _ = open_kept(seed=5, temperature=0.7)
    answered(qtbot, window, "One")
    answered(qtbot, window, "Two")
    window.transcript.wanted.emit("replay", 0, False)
    assert window.session.replaying and window.session.newest_prompt == "One"
    window.replay_controller.leave()
    assert [turn.prompt for turn in window.session.turns] == ["One", "Two"]
    window.transcript.wanted.emit("compare", 0, False)
    assert window.pages.comparing is not None
    setup = window.pages.comparing.setup
    assert (setup.prompt, setup.seed) == ("One", 5)
    assert [(column.drafter, column.temperature) for column in setup.columns] == [("auto", 0.7), ("none", 0.7)]


def test_a_deletion_can_be_undone(qtbot: QtBot, open_kept: Kept, home: Path) -> None:
    window, _ = open_kept()
    answered(qtbot, window, "One")
    answered(qtbot, window, "Two")
    window.transcript.wanted.emit("delete", 0, False)
    assert window.session.turns[0].answer.missing
    assert len(window.session.turns) == 1
    settled(qtbot, window)
    assert [message.text for message in stored(home)[0].messages] == ["One"]
    window.banner.action.click()
    assert [turn.prompt for turn in window.session.turns] == ["One", "Two"]
    settled(qtbot, window)
    assert [message.text for message in stored(home)[0].messages] == ["One", STORY, "Two", STORY]
    window.transcript.wanted.emit("delete", 0, True)
    assert window.session.turns == []
    settled(qtbot, window)
    assert stored(home) == []
    with ChatStore(home) as other:
        (deleted,) = other.conversations(deleted=True)
        other.restore(deleted.id)
        assert len(other.open(deleted.id).messages) == 4, "as from the list of deleted chats"
    window.banner.action.click()
    settled(qtbot, window)
    assert len(stored(home)[0].messages) == 4


def test_a_deletion_can_be_undone_after_its_message_has_hidden(qtbot: QtBot, open_kept: Kept, home: Path) -> None:
    window, _ = open_kept()
    undo = window.actions_by_id["undoDeleteAction"]
    answered(qtbot, window, "One")
    answered(qtbot, window, "Two")
    assert not undo.isVisible()
    window.messages.delete_last()
    assert undo.isVisible() and undo.isEnabled()
    window.transcript.wanted.emit("delete", 0, True)
    answered(qtbot, window, "Three")
    assert window.banner.isHidden()
    undo.trigger()
    assert [turn.prompt for turn in window.session.turns] == ["One", "Two"] and window.session.turns[1].answer.missing
    assert window.session.turns[0].version == (0, 2), "beside what was written since"
    undo.trigger()
    assert not window.session.turns[1].answer.missing and not undo.isVisible()
    settled(qtbot, window)
    (chat,) = stored(home)
    assert {message.text for message in chat.messages} == {"One", "Two", "Three", STORY} and len(chat.messages) == 6
    window.messages.delete_last()
    assert undo.isVisible()
    window.new_chat()
    assert not undo.isVisible(), "that was another chat"


def test_a_failed_write_is_reported_and_retried(
    qtbot: QtBot, open_kept: Kept, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, _ = open_kept()
    settled(qtbot, window)
    disk = FullDisk(monkeypatch)
    answered(qtbot, window, "One")
    qtbot.waitUntil(window.banner.isVisible)
    assert "The disk is full. Until then" in window.banner.label.text()
    assert window.session.turns[0].answer.text.text == STORY
    disk.full = False
    window.banner.action.click()
    qtbot.waitUntil(lambda: "saved again" in window.banner.label.text())
    settled(qtbot, window)
    assert [message.text for message in stored(home)[0].messages] == ["One", STORY]


def test_closing_asks_while_something_is_not_saved(
    qtbot: QtBot, open_kept: Kept, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, _ = open_kept()
    disk = FullDisk(monkeypatch)
    answered(qtbot, window, "One")

    def question(of: Window) -> UnsavedQuestion | None:
        return next((found for found in of.findChildren(UnsavedQuestion) if found.isVisible()), None)

    def asked(of: Window) -> UnsavedQuestion:
        qtbot.waitUntil(lambda: question(of) is not None)
        found = question(of)
        assert found is not None and of.isVisible()
        assert "The disk is full" in found.informativeText()
        return found

    window.close()
    asked(window).button(QMessageBox.StandardButton.Cancel).click()
    assert question(window) is None
    window.close()
    asked(window).retry_button.click()
    again = asked(window)
    disk.full = False
    again.retry_button.click()
    qtbot.waitUntil(lambda: not window.isVisible())
    assert [message.text for message in stored(home)[0].messages] == ["One", STORY]
    other, _ = open_kept()
    disk.full = True
    answered(qtbot, other, "Two")
    other.close()
    asked(other).close_button.click()
    qtbot.waitUntil(lambda: not other.isVisible())


def test_a_chat_keeps_its_settings_and_new_chats_use_the_usual_ones(
    qtbot: QtBot, show_window: Callable[..., Any], home: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "Other-Model"
    folder.mkdir()
    options = DecodingOptions(rule="rejection", temperature=0.3, gamma=3, seed=11, stop=("END",))
    with ChatStore(home) as store:
        own = store.create(ChatSettings("Be a pirate.", str(folder), "ngram", options, template=False, thinking="off"))
        store.add_message(own, None, "user", "Ahoy")
        lost = store.create(ChatSettings("", "/gone/Lost-Model", "ngram", options.replace(seed=12)))
        store.add_message(lost, None, "user", "Where is it?")
        foreign = store.create(ChatSettings(system="From elsewhere."))
        store.add_message(foreign, None, "user", "Hello")
    path = tmp_path / "settings.json"
    engine = TracingEngine()
    window: Window = show_window(engine, path, store=partial(ChatStore, wait=0.2), temperature=0.9)
    before, loads = window.settings, len(engine.loads)

    window.chats.open(own)
    qtbot.waitUntil(lambda: window.session.newest_prompt == "Ahoy")
    now = window.settings
    assert (now.system_prompt, now.target, now.drafter, now.raw, now.thinking) == (
        "Be a pirate.",
        str(folder),
        "ngram",
        True,
        "off",
    )
    assert now.options() == options
    assert window.header.temperature.value() == 0.3
    assert len(engine.loads) == loads, "looking at a chat loads nothing"
    assert "Other-Model, which is loaded when you send" in window.banner.label.text()
    assert load(path)[0].temperature == 0.9, "the settings of new chats stay as they are"
    window.chat.change("temperature", 0.4)
    answered(qtbot, window, "And again")
    assert engine.loads[loads:] == [(str(folder), "ngram")]
    assert (engine.requests[-1].target, engine.requests[-1].options.seed) == (str(folder), 11)

    window.chats.open(lost)
    qtbot.waitUntil(lambda: window.session.newest_prompt == "Where is it?")
    assert "Lost-Model, is no longer on this computer" in window.banner.label.text()
    assert (window.settings.target, window.settings.seed) == ("builtin", 12)
    window.chat.change("gamma", 5)

    window.chats.open(foreign)
    qtbot.waitUntil(lambda: window.session.newest_prompt == "Hello")
    assert (window.settings.system_prompt, window.settings.seed) == ("From elsewhere.", None)
    window.new_chat()
    stays = replace(before, temperature=0.4, gamma=5, recent_models=(str(folder),))
    assert replace(window.settings, conversation=None) == stays, "what the user changed stays"
    settled(qtbot, window)
    kept = {chat.messages[0].text: chat.settings for chat in stored(home)}
    assert kept["Ahoy"].options == options.replace(temperature=0.4)
    assert (kept["Where is it?"].target, kept["Where is it?"].options.gamma) == ("/gone/Lost-Model", 5)


def test_a_chat_deleted_elsewhere_is_stored_again(qtbot: QtBot, open_kept: Kept, home: Path) -> None:
    window, _ = open_kept()
    answered(qtbot, window, "One")
    with ChatStore(home) as other:
        listed: tuple[ChatSummary, ...] = other.conversations()
        other.purge([listed[0].id])
    answered(qtbot, window, "Two")
    settled(qtbot, window)
    (chat,) = stored(home)
    assert [message.text for message in chat.messages] == ["One", STORY, "Two", STORY]


def test_a_locked_store_does_not_block_the_window(qtbot: QtBot, open_kept: Kept, home: Path) -> None:
    window, _ = open_kept()
    settled(qtbot, window)
    with contextlib.closing(sqlite3.connect(home / "chats" / "chats.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        answered(qtbot, window, "One")
        qtbot.waitUntil(window.banner.isVisible)
        assert "locked" in window.banner.label.text()
        other.execute("ROLLBACK")
    window.banner.action.click()
    qtbot.waitUntil(lambda: "saved again" in window.banner.label.text())
    assert [message.text for message in stored(home)[0].messages] == ["One", STORY]


def test_a_store_damaged_meanwhile_is_repaired_without_losing_shown_messages(
    qtbot: QtBot, open_kept: Kept, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    window, _ = open_kept()
    answered(qtbot, window, "One")
    with contextlib.closing(sqlite3.connect(home / "chats" / "chats.db")) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    path = home / "chats" / "chats.db"
    whole = bytearray(path.read_bytes())
    whole[4096:] = b"\x55" * (len(whole) - 4096)
    path.write_bytes(whole)
    answered(qtbot, window, "Two")
    qtbot.waitUntil(lambda: not window.chat.keeper.trouble)
    settled(qtbot, window)
    settled(qtbot, window)
    texts = [[message.text for message in chat.messages] for chat in stored(home)]
    assert ["One", STORY, "Two", STORY] in texts
    assert "damaged" in caplog.text


def test_a_refused_message_is_restored_and_gives_the_chat_no_title(qtbot: QtBot, open_kept: Kept, home: Path) -> None:
    window, engine = open_kept()
    engine.hold = True
    ask(qtbot, window, "far too long")
    engine.say(RunFailed(engine.runs[0], "The message is longer than the context."))
    qtbot.waitUntil(window.banner.isVisible)
    assert window.composer.text == "far too long" and not window.session.turns
    engine.hold = False
    window.composer.set_text("")
    answered(qtbot, window, "short enough")
    (kept,) = stored(home)
    assert kept.about.title == "short enough" and [each.text for each in kept.path] == ["short enough", STORY]
