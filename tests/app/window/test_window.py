"""An answer in the window from the first key to the last token. The engine is a script."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.conversation.blocks import footer_words
from app.conversation.screen_reader import plain_text
from app.export.kinds import kind_named
from engine.types import PrefillProgress, RoundFinished
from tests.app.driving import Open, answered, ask, choose, settle, status, wait_for_answer
from tests.app.fakes import STORY, make_round, story_rounds


def test_an_answer_streams_into_the_window(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    engine.pause_after = 3
    ask(qtbot, window)
    assert window.composer.text == ""
    qtbot.waitUntil(lambda: "Generating, round 3" in status(window))
    engine.pause_after = None
    wait_for_answer(qtbot, window)
    assert window.session.turns[0].answer.text.text == STORY
    assert STORY in plain_text(window.transcript)
    assert status(window) == "Done: end of answer", "figures stand in the panel, and once"
    window.panel.refresh()
    summary = window.session.turns[0].answer.tally.summary
    below = " ".join(text.strip() for text, _, _ in footer_words(window.session.turns[0].answer, "", "", ""))
    assert below.startswith(f"{summary.emitted} tokens in ") and "end of answer" in below
    shown = {key: (tile.value.text(), tile.unit.text()) for key, tile in window.panel.figures.tiles.items()}
    assert shown["first_token"] == ("0.21", "s")
    assert next(iter(shown)) == "speed_up" and shown["tau"] == (f"{summary.tau:.2f}", "(tau)")
    assert window.panel.figures.tiles["tau"].accessibleName() == f"Tokens per pass {summary.tau:.2f}, (tau)"
    half = 50 * (summary.alpha_high - summary.alpha_low)
    assert shown["alpha"] == (f"{summary.alpha:.0%}", f"± {half:.0f} (alpha)")
    for value, _ in shown.values():
        assert value == "–" or value not in below
    assert window.panel.figures.tiles["draft_yield"].value.text() == f"{summary.draft_yield:.0%}"
    assert f"{summary.accepted} of {summary.proposals}." in window.panel.figures.tiles["draft_yield"].toolTip()
    assert engine.requests[0].messages[-1].content == "Tell me a story."


def test_the_rule_changes_in_the_middle_of_an_answer(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window(rule="match", rounds=story_rounds(STORY * 20))
    ask(qtbot, window)
    answer = window.session.turns[0].answer
    seen: list[str] = []
    for rule in ("match", "rejection", "gumbel", "block"):
        if rule != "match":
            qtbot.mouseClick(window.header.rule.buttons[rule], Qt.MouseButton.LeftButton)  # type: ignore[index]
        qtbot.waitUntil(lambda rule=rule: rule in answer.rules and answer.text.pieces[-1:] != [])  # type: ignore[misc]
        assert answer.running
        seen.append(rule)
    window.chat.stop()
    wait_for_answer(qtbot, window)
    assert answer.rules == seen
    assert [change.rule for change in answer.changes] == seen[1:]
    window.panel.refresh()
    assert window.panel.figures.tiles["tau"].unit.text() == "Block", "block judges jointly, so no tau is expected"


def test_drafter_and_gamma_change_in_the_middle_of_an_answer(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window(rounds=story_rounds(STORY * 20))
    ask(qtbot, window)
    answer = window.session.turns[0].answer
    qtbot.waitUntil(lambda: answer.tally.rounds > 2)
    window.header.gamma.setValue(7)
    choose(window.header.drafter, "ngram")
    qtbot.waitUntil(lambda: bool(answer.changes) and answer.changes[-1].drafter == "ngram")
    assert answer.changes[-1].gamma == 7
    window.chat.stop()
    assert engine.loads == [("builtin", "auto")], "a running answer changes its drafter itself"
    assert "without probabilities" in window.header.rule_note


def test_enter_sends_shift_enter_starts_a_line_escape_stops(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    edit = window.composer.edit
    qtbot.keyClick(edit, Qt.Key.Key_Return)
    assert engine.requests == [], "an empty message is not sent"
    qtbot.keyClicks(edit, "one")
    qtbot.keyClick(edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClicks(edit, "two")
    engine.hold = True
    qtbot.keyClick(edit, Qt.Key.Key_Return)
    assert engine.requests[0].messages[-1].content == "one\ntwo"
    assert window.composer.stop.isVisible()
    assert not window.composer.send.isVisible()
    qtbot.keyClicks(edit, "while it runs")
    qtbot.keyClick(edit, Qt.Key.Key_Return)
    assert len(engine.requests) == 1
    qtbot.keyClick(edit, Qt.Key.Key_Escape)
    wait_for_answer(qtbot, window)
    assert engine.stopped == [engine.runs[0]]
    assert "Stopped" in status(window)
    assert edit.toPlainText() == "while it runs", "what was being written stays"


def test_escape_stops_from_anywhere_but_closes_what_is_open_first(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    engine.pause_after = 2
    ask(qtbot, window)
    window.open_options()
    qtbot.keyClick(window.options, Qt.Key.Key_Escape)
    assert not window.options.isVisible()
    assert engine.stopped == []
    window.actions_by_id["transcriptAction"].trigger()
    qtbot.keyClick(window.transcript, Qt.Key.Key_Escape)
    assert engine.stopped == [engine.runs[0]]


def test_reading_the_prompt_shows_its_progress(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    engine.hold = True
    ask(qtbot, window)
    engine.say(PrefillProgress(engine.runs[0], 120, 460))
    qtbot.waitUntil(lambda: "Reading the prompt, 120 of 460 tokens, " in status(window))
    assert window.transcript.fraction == pytest.approx(120 / 460)
    said = status(window)
    qtbot.waitUntil(lambda: status(window) != said)  # the seconds go on: it is not stuck


def test_late_events_of_a_left_conversation_are_dropped(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    engine.pause_after = 2
    ask(qtbot, window)
    qtbot.waitUntil(lambda: window.session.turns[0].answer.tally.rounds == 2)
    engine.pause_after = None
    qtbot.keyClick(window, Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier)
    assert window.session.turns == []
    assert window.column.stack.currentWidget() is window.column.welcome
    engine.say(RoundFinished(engine.runs[0], make_round(9, ["late"], " text")))
    answered(qtbot, window, "Something else")
    assert [turn.prompt for turn in window.session.turns] == ["Something else"]
    assert "late" not in window.session.turns[0].answer.text.text
    assert engine.requests[0].conversation != engine.requests[1].conversation


def test_twenty_prompts_in_a_row(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window(rounds=story_rounds("Yes, it is."))
    for number in range(20):
        answered(qtbot, window, f"Question {number}")
    assert len(window.session.turns) == 20
    assert all(turn.answer.finish == "eos" for turn in window.session.turns)
    assert len(engine.requests[-1].messages) == 39
    assert window.transcript.at_end


def test_closing_in_the_middle_of_an_answer_stops_and_closes_the_engine(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    engine.pause_after = 2
    ask(qtbot, window)
    qtbot.waitUntil(lambda: window.session.turns[0].answer.tally.rounds == 2)
    window.close()
    assert engine.stopped == [engine.runs[0]]
    assert engine.closed


def test_an_example_starts_a_conversation(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    qtbot.mouseClick(window.column.welcome.cards[0], Qt.MouseButton.LeftButton)
    assert engine.requests[0].messages[0].content == "Write the same arbitrary paragraph three times in a row."
    assert window.column.stack.currentWidget() is window.transcript


def test_settings_are_kept_for_the_next_start(qtbot: QtBot, open_window: Open, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    window, _ = open_window(path=path)
    window.header.gamma.setValue(6)
    qtbot.keyClick(window, Qt.Key.Key_G, Qt.KeyboardModifier.ControlModifier)
    window.chat.preferences.set(appearance="light")
    window.resize(1000, 700)
    window.close()
    kept = json.loads(path.read_text())
    assert (kept["gamma"], kept["ghosts"], kept["appearance"], kept["geometry"][2:]) == (6, "rejected", "light", [1000, 700])


def test_a_window_that_is_closed_in_full_screen_opens_in_its_own_size(qtbot: QtBot, open_window: Open, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    window, _ = open_window(path=path)
    window.resize(700, 500)
    settle()
    window.showFullScreen()
    settle()
    assert window.width() > 700
    window.close()
    assert json.loads(path.read_text())["geometry"][2:] == [700, 500]


def test_unwritable_settings_lose_no_work(qtbot: QtBot, open_window: Open, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    window, _ = open_window(path=tmp_path / "file" / "settings.json")
    window.header.gamma.setValue(6)
    assert "could not be saved" in window.banner.label.text()
    window.banner.dismiss.click()
    window.header.gamma.setValue(7)
    assert not window.banner.isVisible()
    answered(qtbot, window)


def test_a_note_about_damaged_settings_is_shown(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(note="The settings could not be read.")
    assert window.banner.isVisible()
    assert window.banner.frame.property("tone") == "note"


def test_metrics_are_exported_from_the_menu(
    qtbot: QtBot, share_window: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, _ = share_window()
    assert not window.actions_by_id["exportAction"].isEnabled()
    answered(qtbot, window)
    window.session.turns[0].answer.trace_path = str(tmp_path / "missing.jsonl")
    window.chat.changed.emit()
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / "out.json"), kind_named("json").filter))
    window.actions_by_id["exportAction"].trigger()
    assert "missing.jsonl" in window.banner.label.text(), "an export that fails says why"


def test_the_menu_of_a_chart_opens_without_reading_the_trace(
    qtbot: QtBot, share_window: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, _ = share_window()
    monkeypatch.setattr("app.export.pictures.trace_of", lambda turn: pytest.fail("a long trace takes a while to read"))
    menu = window.panel.picture_menu
    for has_answer in (False, True):
        window.panel.charts.menu_requested.emit("alpha", QPoint(10, 10))
        assert menu.save_png.isEnabled() is has_answer
        menu.menu.close()
        answered(qtbot, window)
