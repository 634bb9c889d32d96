"""What a person does with the window, and what it shows. The engine is a script unless a test says otherwise."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QAccessible, QColor, QGuiApplication, QImage, QPainter
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QFileDialog,
    QLineEdit,
    QPlainTextEdit,
    QWidget,
)
from pytestqt.qtbot import QtBot

from app.conversation import screen_reader
from app.conversation.blocks import footer_words
from app.conversation.link_question import LinkQuestion
from app.conversation.reading_view import ReadingFlow, rects_of
from app.export.kinds import kind_named
from app.look import theme as themes
from app.look.theme import Appearance
from app.session.cursor import Place
from app.session.settings import Settings
from app.window.window import Window
from engine.drafter_kinds import DRAFTERS
from engine.lens.pieces import GHOST_STEPS
from engine.trace import read
from engine.types import (
    RULES,
    DrafterReady,
    DrafterRefused,
    EngineFailed,
    LoadFailed,
    LoadFinished,
    LoadProgress,
    LoadStarted,
    PrefillProgress,
    Round,
    RoundFinished,
    RunFailed,
    RunFinished,
)
from engine.worker import Engine
from tests.app.fakes import MODEL, STORY, FakeEngine, make_round, story_rounds
from tests.engine.fakes import PATIENCE
from tests.engine.tiny_models import weights, write_gguf

Open = Callable[..., tuple[Window, FakeEngine]]
Pair = tuple[str, str]
NAMES = (
    "composer",
    "sendButton",
    "stopButton",
    "transcript",
    "targetSelector",
    "drafterSelector",
    "ruleSelector",
    "gammaControl",
    "temperatureControl",
    "seedControl",
    "ghostsToggle",
    "statusLine",
    "acceptancePlot",
    "throughputPlot",
    "timePlot",
)


@pytest.fixture
def open_window(show_window: Callable[..., Window]) -> Open:
    """Opens windows on scripted engines."""

    def opened(
        rounds: list[Round] | None = None, path: Path | None = None, note: str = "", **settings: Any
    ) -> tuple[Window, FakeEngine]:
        engine = FakeEngine(rounds)
        return show_window(engine, path, note, **settings), engine

    return opened


def ask(qtbot: QtBot, window: Window, text: str = "Tell me a story.") -> None:
    window.composer.edit.setFocus()
    qtbot.keyClicks(window.composer.edit, text)
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)


def wait_for_answer(qtbot: QtBot, window: Window) -> None:
    qtbot.waitUntil(lambda: bool(window.session.turns) and window.session.running is None)


def status(window: Window) -> str:
    return window.status.line.text()


def test_an_answer_streams_into_the_window(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    engine.pause_after = 3
    ask(qtbot, window)
    assert window.composer.text == ""
    qtbot.waitUntil(lambda: "Generating, round 3" in status(window))
    engine.pause_after = None
    wait_for_answer(qtbot, window)
    assert window.session.turns[0].answer.text.text == STORY
    assert STORY in window.transcript.plain_text()
    assert status(window) == "Done: end of answer", "figures stand in the panel, and once"
    window.panel.refresh()
    summary = window.session.turns[0].answer.tally.summary
    below = " ".join(text.strip() for text, _, _ in footer_words(window.session.turns[0].answer, "", "", ""))
    assert below.startswith(f"{summary.emitted} tokens in ") and "end of answer" in below
    shown = {key: (tile.value.text(), tile.unit.text()) for key, tile in window.panel.figures.tiles.items()}
    assert shown["first_token"] == ("0.21", "s")
    assert shown["tau"] == (f"{summary.tau:.2f}", f"expected {summary.predicted_tau:.2f}")
    assert window.panel.figures.tiles["tau"].accessibleName() == f"Tau {summary.tau:.2f}, expected {summary.predicted_tau:.2f}"
    for value, _ in shown.values():
        assert value == "–" or value not in below
    assert window.panel.figures.tiles["draft_yield"].value.text() == f"{summary.draft_yield:.2f}"
    assert f"{summary.accepted} of {summary.proposals}." in window.panel.figures.tiles["draft_yield"].toolTip()
    assert engine.requests[0].messages[-1].content == "Tell me a story."


def test_the_rule_changes_in_the_middle_of_an_answer(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(rule="match", rounds=story_rounds(STORY * 20))
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


def test_drafter_and_gamma_change_in_the_middle_of_an_answer(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window(rounds=story_rounds(STORY * 20))
    ask(qtbot, window)
    answer = window.session.turns[0].answer
    qtbot.waitUntil(lambda: answer.tally.rounds > 2)
    window.header.gamma.setValue(7)
    choose(window.header.drafter, "ngram")
    qtbot.waitUntil(lambda: bool(answer.changes) and answer.changes[-1].drafter == "ngram")
    assert answer.changes[-1].gamma == 7
    window.chat.stop()
    assert engine.loads == [("builtin", "head")], "a running answer changes its drafter itself"
    assert "without probabilities" in window.header.note.text()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A random target of two layers and a draft model near it, in files."""
    folder = tmp_path_factory.mktemp("models")
    near = {name: array + 0.15 * weights(9)[name] for name, array in weights().items()}
    target = write_gguf(folder / "target.gguf", llama__context_length=3000)
    return str(target), str(write_gguf(folder / "draft.gguf", made=near, llama__context_length=3000))


def test_the_real_engine_follows_the_rule_selector_within_one_answer(qtbot: QtBot, home: Path, tiny: Pair) -> None:
    target, drafter = tiny
    engine = Engine()
    window = Window(engine, Settings(target=target, drafter=drafter, rule="match", seed=3, max_tokens=2500))
    qtbot.addWidget(window)
    window.show()
    window.chat.load_models()
    ask(qtbot, window, "hello")
    answer = window.session.turns[0].answer
    for rule in ("match", "rejection", "gumbel"):
        window.header.rule.buttons[rule].click()  # type: ignore[index]
        # a change while the prompt is read acts in the first round, so the rule before it must have had one
        qtbot.waitUntil(lambda rule=rule: any(round_.rule == rule for round_ in answer.rounds))  # type: ignore[misc]
        assert answer.running
    rounds = answer.tally.rounds
    qtbot.waitUntil(lambda: answer.tally.rounds > rounds + 3)
    window.chat.stop()
    wait_for_answer(qtbot, window)
    assert answer.finish == "cancelled"
    assert answer.result is not None
    assert answer.text.text == answer.result.text
    window.close()
    assert engine.close(PATIENCE), "a busy machine may take longer than the window waits"
    assert answer.trace_path is not None
    trace = read(answer.trace_path)
    assert trace.missing is None
    assert list(dict.fromkeys(round_.rule for round_ in trace.rounds)) == ["match", "rejection", "gumbel"]
    assert {proposal.status for round_ in trace.rounds for proposal in round_.proposals} >= {"accepted", "rejected"}


def test_metrics_of_a_real_conversation_are_exported_from_the_menu(
    qtbot: QtBot, home: Path, tiny: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = Window(Engine(), Settings(target=tiny[0], drafter=tiny[1], seed=3, max_tokens=12))
    qtbot.addWidget(window)
    window.show()
    window.chat.load_models()
    for prompt in ("hello", "hello again"):
        ask(qtbot, window, prompt)
        wait_for_answer(qtbot, window)
    for name, kind in (("out.json", kind_named("json").filter), ("out.csv", kind_named("csv").filter)):
        monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_, name=name, kind=kind: (str(tmp_path / name), kind))
        window.actions_by_id["exportAction"].trigger()
        assert name in window.banner.words.text()
    exported = json.loads((tmp_path / "out.json").read_text())
    emitted = [answer["summary"]["emitted"] for answer in exported["answers"]]
    assert emitted == [turn.answer.tally.summary.emitted for turn in window.session.turns]
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as table:
        assert len(list(csv.DictReader(table))) == sum(turn.answer.tally.rounds for turn in window.session.turns)
    window.close()


def choose(box: QComboBox, data: str) -> None:
    index = box.findData(data)
    box.setCurrentIndex(index)
    box.activated.emit(index)


def test_one_key_shows_no_ghosts_then_rejected_ones_then_all(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    ask(qtbot, window)
    wait_for_answer(qtbot, window)

    def shown() -> tuple[str, set[str], str]:
        flow = window.transcript._blocks[1].flow
        kinds: set[str] = {run.kind for chunk in flow.chunks for run in chunk.runs}
        checked = next(step for step in GHOST_STEPS if window.actions_by_id[f"{step}GhostsAction"].isChecked())
        return window.settings.ghosts, kinds & {"rejected", "unjudged"}, f"{window.status.ghosts.text()}, {checked}"

    assert shown() == ("all", {"rejected", "unjudged"}, "Ghosts: all, all")
    qtbot.keyClick(window, Qt.Key.Key_F2)
    assert shown() == ("none", set(), "Ghosts: none, none")
    assert window.transcript.session.turns[0].answer.text.text == STORY
    width = window.status.ghosts.width()
    qtbot.mouseClick(window.status.ghosts, Qt.MouseButton.LeftButton)
    assert shown() == ("rejected", {"rejected"}, "Ghosts: rejected, rejected")
    window.actions_by_id["allGhostsAction"].trigger()
    assert shown() == ("all", {"rejected", "unjudged"}, "Ghosts: all, all")
    assert window.status.ghosts.width() == width, "a press moves nothing"


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize("appearance", ["light", "dark"])
def test_selected_ghosts_stay_dim_and_struck(qtbot: QtBot, open_window: Open, appearance: Appearance) -> None:
    window, _ = open_window(appearance=appearance)
    ask(qtbot, window)
    wait_for_answer(qtbot, window)
    transcript = window.transcript
    transcript.select_all()
    rejected = [round_ for round_ in window.session.turns[0].answer.rounds if round_.rejected]
    long = next(round_ for round_ in rejected if len(round_.proposals[round_.accepted].text) > 4)
    box = transcript.pointing.area(Place(0, long.index, proposal=long.accepted))
    image = transcript.viewport().grab(box).toImage()
    ground, ink = QColor(transcript.theme.selection).lightnessF(), QColor(transcript.theme.text).lightnessF()
    inside = range(image.width() // 3, image.width() - 3)  # behind the blank that the token begins with
    rows = [[(image.pixelColor(x, y).lightnessF() - ground) / (ink - ground) for x in inside] for y in range(image.height())]
    assert max(map(max, rows)) < 0.85, "dimmer than what will be copied"
    assert max(map(min, rows)) > 0.2, "a line goes through it"


def test_enter_sends_shift_enter_starts_a_line_escape_stops(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
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
    assert engine.stopped == [1]
    assert "Stopped" in status(window)
    assert edit.toPlainText() == "while it runs", "what was being written stays"


def test_escape_stops_from_anywhere_but_closes_what_is_open_first(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    engine.pause_after = 2
    ask(qtbot, window)
    window.open_options()
    qtbot.keyClick(window.options, Qt.Key.Key_Escape)
    assert not window.options.isVisible()
    assert engine.stopped == []
    window.focus_transcript()
    qtbot.keyClick(window.transcript, Qt.Key.Key_Escape)
    assert engine.stopped == [1]


def test_an_answer_tells_what_it_was_made_with_and_what_changed(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window(seed=7, gamma=4, drafter="builtin-draft")
    engine.pause_after = 2
    ask(qtbot, window)
    qtbot.waitUntil(lambda: "Generating, round 2" in status(window))
    window.header.rule.buttons["match"].click()
    window.header.gamma.setValue(6)
    window.chat.change("drafter", "ngram")
    engine.pause_after = None
    wait_for_answer(qtbot, window)
    made_with = "Small draft model → N-gram, Gumbel → Match, gamma 4 → 6, temperature 0.2, seed 7"
    block = window.transcript._blocks[-1]
    window.transcript.verticalScrollBar().setValue(0)
    assert window.transcript._explanation_at(round(block.top + 4)) == made_with


def test_an_empty_answer_promises_nothing(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    engine.hold = True
    ask(qtbot, window)
    window.composer.stop.click()
    wait_for_answer(qtbot, window)
    words = [text.strip() for text, _, _ in footer_words(window.session.turns[0].answer, "", "", "")]
    assert words == ["stopped"]


def test_loading_is_said_before_the_engine_says_so(qtbot: QtBot) -> None:
    window = Window(FakeEngine(), Settings())
    qtbot.addWidget(window)
    assert status(window) == "Loading the built-in model"
    assert "while the model loads" in window.composer.hint.text()
    window.close()


def test_without_a_model_the_window_says_what_to_do(qtbot: QtBot) -> None:
    engine = FakeEngine()
    window = Window(engine, Settings(target="/models/gone"))
    qtbot.addWidget(window)
    engine.say(LoadStarted("/models/gone"), LoadFailed("/models/gone", "There is no model."))
    qtbot.waitUntil(lambda: status(window) == "No model loaded: choose a target above")
    window.chat.change("target", "/models/gone")  # chosen again: it may be there by now
    assert engine.loads == [("/models/gone", "head")]
    window.close()


def test_tab_reaches_the_rule_in_force(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(rule="rejection")
    window.header.drafter.setFocus()
    qtbot.keyClick(window.header.drafter, Qt.Key.Key_Tab)
    assert window.header.rule.buttons["rejection"].hasFocus()
    qtbot.keyClick(window.header.rule.buttons["rejection"], Qt.Key.Key_Right)
    assert window.settings.rule == "gumbel"
    assert window.header.rule.buttons["gumbel"].hasFocus()


def test_a_prompt_sent_while_the_model_loads_is_answered_when_it_is_there(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    engine.hold = True
    window.session.model = None
    engine.say(LoadStarted("builtin"), LoadProgress("builtin", "reading weights", 0.4))
    qtbot.waitUntil(lambda: "Loading the built-in model, reading weights, 40%" in status(window))
    ask(qtbot, window)
    assert window.session.running is not None
    engine.say(LoadFinished(MODEL, 1.0))
    engine.hold = False
    wait_for_answer(qtbot, window)
    assert window.session.turns[0].answer.text.text == STORY


def test_reading_the_prompt_shows_how_far_it_is(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    engine.hold = True
    ask(qtbot, window)
    engine.say(PrefillProgress(1, 120, 460))
    qtbot.waitUntil(lambda: "Reading the prompt, 120 of 460 tokens, " in status(window))
    assert window.transcript.fraction == pytest.approx(120 / 460)
    assert window._clock.isActive(), "a clock shows that it is not stuck"


def test_a_failure_before_the_first_token_gives_the_prompt_back(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    engine.hold = True
    ask(qtbot, window, "A long question")
    engine.say(RunFailed(1, "The model needs more memory. Close something and try again."))
    qtbot.waitUntil(window.banner.isVisible)
    assert "Close something" in window.banner.words.text()
    assert window.composer.text == "A long question"
    assert window.session.turns == []
    qtbot.mouseClick(window.banner.dismiss, Qt.MouseButton.LeftButton)
    assert not window.banner.isVisible()


def test_a_failure_never_overwrites_what_is_being_written(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    engine.hold = True
    ask(qtbot, window, "First")
    qtbot.keyClicks(window.composer.edit, "Second")
    engine.say(RunFailed(1, "No."))
    qtbot.waitUntil(window.banner.isVisible)
    assert window.composer.text == "Second"
    assert window.session.turns[0].prompt == "First"


def test_editing_and_examples_leave_what_was_being_written(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    window.composer.set_text("my own words")
    window.welcome.cards[1].click()
    wait_for_answer(qtbot, window)
    assert window.composer.text == "my own words"
    window.edit_last()
    assert window.composer.text == window.welcome.cards[1].prompt
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Escape)
    assert window.composer.text == "my own words"
    window.edit_last()
    window.edit_last()
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)
    wait_for_answer(qtbot, window)
    assert window.composer.text == "my own words"


@pytest.mark.parametrize("edited", [False, True])
def test_an_answer_stays_when_nothing_can_take_its_place(qtbot: QtBot, open_window: Open, edited: bool) -> None:
    window, engine = open_window()
    ask(qtbot, window, "Tell me a story.")
    wait_for_answer(qtbot, window)
    engine.hold = True
    if edited:
        window.edit_last()
        window.composer.edit.insertPlainText(" A long one.")
        qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)
    else:
        window.regenerate()
    engine.say(RunFailed(2, "There is no memory left."))
    qtbot.waitUntil(window.banner.isVisible)
    assert [(turn.prompt, turn.answer.text.text) for turn in window.session.turns] == [("Tell me a story.", STORY)]
    assert window.composer.text == ("Tell me a story. A long one." if edited else "")
    assert window.composer.edit_note.isVisible() == edited


def test_a_failure_in_the_middle_keeps_the_text_and_allows_another_try(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    engine.hold = True
    ask(qtbot, window)
    engine.say(RoundFinished(1, make_round(0, ["Half", " an"], " answer")), RunFailed(1, "It broke."))
    qtbot.waitUntil(window.banner.isVisible)
    assert window.session.turns[0].answer.text.text == "Half an answer"
    engine.hold = False
    window.regenerate()
    wait_for_answer(qtbot, window)
    assert window.session.turns[0].answer.text.text == STORY


def test_a_target_that_cannot_be_loaded_leaves_the_one_before(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    engine.load = lambda target, drafter="none": engine.say(  # type: ignore[method-assign]
        LoadStarted(target), LoadFailed(target, "This folder holds no model. Choose another.")
    )
    window.chat.change("target", "/models/broken")
    qtbot.waitUntil(window.banner.isVisible)
    assert window.settings.target == "builtin"
    assert window.header.target.currentData() == "builtin"
    ask(qtbot, window)
    wait_for_answer(qtbot, window)
    assert engine.requests[0].target == "builtin"


def test_an_answer_keeps_the_name_of_the_model_that_gave_it(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    ask(qtbot, window)
    wait_for_answer(qtbot, window)
    other = replace(MODEL, name="Other-1B")
    engine.load = lambda target, drafter="none": engine.say(  # type: ignore[method-assign]
        LoadStarted(target), LoadFinished(other, 0.1), DrafterReady(drafter, False)
    )
    window.chat.change("target", "/models/other")
    qtbot.waitUntil(lambda: window.session.model == other)
    window.set_appearance("light")  # everything is laid out anew
    ask(qtbot, window, "And by the other?")
    wait_for_answer(qtbot, window)
    assert [turn.answer.model for turn in window.session.turns] == ["SmolLM2 135M", "Other-1B"]
    spoken = window.transcript.plain_text()
    assert f"SmolLM2 135M: {STORY}" in spoken
    assert f"Other-1B: {STORY}" in spoken


def test_a_refused_drafter_says_why_and_falls_back(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    engine.load = lambda target, drafter="none": engine.say(  # type: ignore[method-assign]
        DrafterRefused(drafter, "Its vocabulary differs from token 139 on.")
    )
    window.chat.change("drafter", "/models/other")
    qtbot.waitUntil(window.banner.isVisible)
    assert "token 139" in window.banner.words.text()
    assert window.settings.drafter == "head"


def test_a_target_that_cannot_be_loaded_leaves_the_drafter_too_however_often_it_is_tried(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    works = engine.load

    def load(target: str, drafter: str = "none") -> None:
        if target != "builtin":
            engine.say(LoadStarted(target), LoadFailed(target, f"{target} is no model."))
        else:  # the current target is not loaded anew, so nothing says that it starts
            engine.say(LoadFinished(MODEL, 0.0), DrafterReady(drafter, True))

    engine.load = load  # type: ignore[method-assign]
    for name in ("/models/first", "/models/second"):
        window.chat.change("target", name)
        qtbot.waitUntil(lambda name=name: window.banner.words.text() == f"{name} is no model.")
        assert (window.settings.target, window.settings.drafter) == ("builtin", "head")
        window.chat.load_models()
        qtbot.waitUntil(lambda: not window.chat.link.busy)
        assert window.session.target == "builtin"
    engine.load = works  # type: ignore[method-assign]


def test_the_small_draft_model_comes_back_with_the_target_it_was_made_for(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    window.chat.change("target", "/models/other")
    assert engine.loads[-1] == ("/models/other", "none")
    window.chat.change("target", "builtin")
    assert engine.loads[-1] == ("builtin", "head")


def test_a_drafter_that_only_stands_in_is_not_remembered(qtbot: QtBot, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    engine = FakeEngine()
    window = Window(engine, Settings(), path)
    qtbot.addWidget(window)
    engine.say(LoadFinished(MODEL, 0.1), DrafterRefused("head", "The small draft model is not installed."))
    qtbot.waitUntil(lambda: window.settings.drafter == "none")
    assert "Continuing without a drafter." in window.banner.words.text()
    window.header.gamma.setValue(6)
    assert json.loads(path.read_text())["drafter"] == "head"
    window.chat.change("drafter", "none")  # now it is wanted
    assert json.loads(path.read_text())["drafter"] == "none"
    window.close()


def test_a_drafter_that_fitted_an_earlier_target_only_is_given_up(qtbot: QtBot, open_window: Open, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    window, engine = open_window(path=path, target="/models/big", drafter="/models/small")
    qtbot.waitUntil(lambda: window.session.was_ready("/models/small"))
    engine.load = lambda target, drafter="none": engine.say(  # type: ignore[method-assign]
        LoadStarted(target), LoadFinished(MODEL, 0.1), DrafterRefused(drafter, "The vocabularies differ.")
    )
    window.chat.change("target", "builtin")
    qtbot.waitUntil(window.banner.isVisible)
    assert window.settings.drafter == "none"
    assert json.loads(path.read_text())["drafter"] == "none"


def test_a_late_refusal_leaves_the_drafter_chosen_meanwhile(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    window.chat.change("drafter", "ngram")
    engine.say(DrafterRefused("/models/other", "Its vocabulary differs."))
    qtbot.waitUntil(window.banner.isVisible)
    assert window.settings.drafter == "ngram"


def test_a_trace_that_could_not_be_written_is_noted(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    engine.pause_after = 2
    ask(qtbot, window)
    qtbot.waitUntil(lambda: "Generating, round 2" in status(window))
    engine.say(RunFinished(1, "eos", "", 3, 0.1, 0.1, 0.2, None, "The trace is incomplete: No space left on device."))
    qtbot.waitUntil(window.banner.isVisible)
    assert "No space left on device" in window.banner.words.text()
    assert window.banner.frame.property("tone") == "note"
    window.banner.dismiss.click()
    assert not window.banner.isVisible()


def test_an_engine_failure_is_shown(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    engine.say(EngineFailed("The engine could not start: no memory."))
    qtbot.waitUntil(window.banner.isVisible)
    assert "no memory" in window.banner.words.text()


def test_late_events_of_a_left_conversation_are_dropped(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    engine.pause_after = 2
    ask(qtbot, window)
    qtbot.waitUntil(lambda: window.session.turns[0].answer.tally.rounds == 2)
    engine.pause_after = None
    qtbot.keyClick(window, Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier)
    assert window.session.turns == []
    assert window.stack.currentWidget() is window.welcome
    engine.say(RoundFinished(1, make_round(9, ["late"], " text")))
    ask(qtbot, window, "Something else")
    wait_for_answer(qtbot, window)
    assert [turn.prompt for turn in window.session.turns] == ["Something else"]
    assert "late" not in window.session.turns[0].answer.text.text
    assert engine.requests[0].conversation != engine.requests[1].conversation


def test_twenty_prompts_in_a_row(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window(rounds=story_rounds("Yes, it is."))
    for number in range(20):
        ask(qtbot, window, f"Question {number}")
        wait_for_answer(qtbot, window)
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
    assert engine.stopped == [1]
    assert engine.closed
    assert not window.chat.link._timer.isActive()


def test_closing_while_the_real_engine_loads_or_answers_ends_its_thread(qtbot: QtBot, home: Path, tiny: Pair) -> None:
    engine = Engine()
    window = Window(engine, Settings(target=tiny[0], drafter=tiny[1], max_tokens=2500))
    qtbot.addWidget(window)
    window.show()
    window.chat.load_models()
    ask(qtbot, window)
    window.close()
    assert engine.close(PATIENCE), "a busy machine may take longer than the window waits"


def test_rules_that_must_coincide_are_said_to(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    note = window.header.note
    assert note.text().startswith("Gumbel: ")
    window.header.temperature.setValue(0)
    assert "temperature 0" in note.text()
    window.header.temperature.setValue(0.8)
    choose(window.header.drafter, "none")
    assert "Without a drafter" in note.text()
    choose(window.header.drafter, "ngram")
    assert "without probabilities" in note.text()
    choose(window.header.drafter, "head")
    window.header.rule.buttons["rejection"].click()
    assert note.text().startswith("Rejection: ")
    assert note.isVisible()


def test_what_is_said_of_the_rules_holds_for_the_answer_under_way(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    engine.pause_after = 2
    ask(qtbot, window)
    qtbot.waitUntil(lambda: "Generating, round 2" in status(window))
    window.header.temperature.setValue(0)
    assert "draw with the same noise" in window.header.note.text()
    engine.pause_after = None
    wait_for_answer(qtbot, window)
    assert "At temperature 0" in window.header.note.text()


def test_options_reach_the_next_request(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    window.header.gamma.setValue(9)
    window.header.temperature.setValue(1.3)
    window.header.seed.setText("123")
    window.header.seed.editingFinished.emit()
    window.options.numbers["top_p"].setValue(0.9)
    window.options.numbers["top_k"].setValue(40)
    window.options.numbers["max_tokens"].setValue(64)
    window.options.stop.setPlainText("END\n\\n\\n")
    window.options.system.setPlainText("Be brief.")
    for name, entry in (("thinking", "Off"), ("kv_bits", "4 bits")):
        window.options.choices[name].setCurrentText(entry)
    ask(qtbot, window)
    options, messages = engine.requests[0].options, engine.requests[0].messages
    assert (options.gamma, options.temperature, options.seed, options.top_p, options.top_k) == (9, 1.3, 123, 0.9, 40)
    assert (options.max_tokens, options.stop) == (64, ("END", "\n\n"))
    assert messages[0].content == "Be brief."
    assert (options.kv_bits, engine.requests[0].thinking) == (4, "off")
    window.options._reset()
    assert [box.currentText() for box in window.options.choices.values()] == [
        "As the model has it",
        "In the model's chat template",
        "Full precision",
    ]


def test_a_model_whose_template_has_no_switch_for_thinking_is_given_none(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    box = window.options.choices["thinking"]
    assert not box.isEnabled()
    assert "no switch" in box.toolTip()
    engine.say(LoadFinished(replace(MODEL, switches_thinking=True), 0.1))
    qtbot.waitUntil(box.isEnabled)
    assert "no switch" not in box.toolTip()


@pytest.mark.parametrize("scale", [1.0, 1.8])
def test_every_number_can_be_read_where_it_is_set(qtbot: QtBot, open_window: Open, scale: float) -> None:
    """Some versions of Qt leave the text of a spin box without buttons one pixel of room under a style sheet."""
    window, _ = open_window(gamma="auto", temperature=1.25, max_tokens=100_000, text_scale=scale)
    window.open_options()
    numbers = window.findChildren(QAbstractSpinBox)
    assert len(numbers) == 7
    for number in numbers:
        edit = number.lineEdit()
        assert number.isVisible()
        assert edit.width() >= edit.fontMetrics().horizontalAdvance(edit.text()), number.accessibleName()
        assert edit.geometry().intersected(number.rect()).width() >= edit.width() - 2
    window.options.close()


def test_the_options_have_their_height_from_the_first_time_on(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    heights = []
    for _ in range(2):
        window.open_options()
        heights.append(window.options.height())
        window.options.close()
    assert heights[0] == heights[1]


@pytest.mark.parametrize(("room", "scrolls"), [(2000, False), (300, True)])
def test_the_options_scroll_where_the_screen_is_too_low_for_them(
    qtbot: QtBot, open_window: Open, room: int, scrolls: bool
) -> None:
    window, _ = open_window()
    options = window.options
    window.open_options()
    options._fit(room)
    options.area.verticalScrollBar().setValue(0)
    QApplication.processEvents()
    assert options.height() <= room
    assert (options.area.verticalScrollBar().maximum() > 0) == scrolls
    last, view = options.choices["kv_bits"], options.area.viewport()

    def in_view() -> bool:
        return view.rect().contains(last.mapTo(view, last.rect().center()))

    assert in_view() != scrolls
    options.numbers["top_p"].setFocus(Qt.FocusReason.TabFocusReason)
    while not last.hasFocus():
        focused = QApplication.focusWidget()
        assert focused is not None and focused.objectName() != "quietButton", "Tab comes past the last field"
        qtbot.keyClick(focused, Qt.Key.Key_Tab)
    assert in_view()
    window.options.close()


def test_gamma_below_one_is_automatic(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    window.header.gamma.setValue(0)
    assert window.header.gamma.text() == "auto"
    ask(qtbot, window)
    assert engine.requests[0].options.gamma == "auto"


def test_a_drawn_seed_is_shown_and_can_be_pinned(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    ask(qtbot, window)
    wait_for_answer(qtbot, window)
    assert window.header.seed.text() == ""
    assert window.header.seed.placeholderText() == "random (last 4242)"
    assert not window.header.pin.isChecked()
    assert "4242" in window.header.pin.toolTip()
    qtbot.mouseClick(window.header.pin, Qt.MouseButton.LeftButton)
    assert window.header.seed.text() == "4242"
    window.regenerate()
    assert engine.requests[1].options.seed == 4242
    wait_for_answer(qtbot, window)
    qtbot.mouseClick(window.header.pin, Qt.MouseButton.LeftButton)
    assert window.settings.seed is None


def settle() -> None:
    """Lets layouts that follow from one another come to rest."""
    for _ in range(6):
        QApplication.processEvents()


def places(window: Window) -> dict[str, tuple[int, int, int, int]]:
    """Where everything is, without what an editor's own parts do."""
    found = {}
    for number, widget in enumerate(window.findChildren(QWidget)):
        if widget.isVisible() and widget.window() is window:
            corner = widget.mapTo(window, QPoint(0, 0))
            found[f"{number} {widget.objectName()} {widget.accessibleName()}"] = (
                corner.x(),
                corner.y(),
                widget.width(),
                widget.height(),
            )
    return found


@pytest.mark.parametrize("width", [560, 700, 1000, 1440])
def test_nothing_moves_when_a_control_gets_the_keyboard(qtbot: QtBot, open_window: Open, width: int) -> None:
    window, _ = open_window()
    window.resize(width, 800)
    for page in ("chat", "compare"):
        if page == "compare":
            window.pages.open_compare()
        window.setFocus()
        settle()
        before = places(window)
        kinds = (QComboBox, QAbstractSpinBox, QLineEdit, QAbstractButton)
        controls = [control for kind in kinds for control in window.findChildren(kind) if control.isVisible()]
        assert len(controls) > 12
        for control in controls:
            control.setFocus()
            settle()
            assert places(window) == before, control.accessibleName()


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize("width", [560, 700, 900, 1276, 1440])
def test_nothing_moves_when_another_drafter_or_rule_is_chosen(qtbot: QtBot, open_window: Open, width: int) -> None:
    window, _ = open_window(rule="match")
    window.resize(width, 800)
    watched = [*window.header.rule.buttons.values(), window.header.gamma, window.header.seed, window.stack, window.composer]

    def where() -> list[tuple[QPoint, int]]:
        settle()
        return [(widget.mapTo(window, QPoint(0, 0)), widget.width()) for widget in watched]

    before = where()
    for drafter in DRAFTERS:
        window.chat.change("drafter", drafter)
        assert where() == before, drafter
        for rule in RULES:
            window.chat.change("rule", rule)
            assert where() == before, (drafter, rule)


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize("width", [1276, 1330, 1400, 1440])
def test_the_header_has_one_row_on_an_ordinary_screen(open_window: Open, width: int) -> None:
    window, _ = open_window()
    window.resize(width, 800)
    settle()
    chips = [window.header.target.parentWidget(), window.header.seed.parentWidget()]
    assert chips[0].y() == chips[1].y()  # type: ignore[union-attr]


def test_the_last_prompt_can_be_edited_or_left_as_it_was(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    ask(qtbot, window, "First")
    wait_for_answer(qtbot, window)
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Up)
    assert window.composer.text == "First"
    assert window.composer.edit_note.isVisible()
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Escape)
    assert window.composer.text == ""
    assert [turn.prompt for turn in window.session.turns] == ["First"]
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Up)
    qtbot.keyClicks(window.composer.edit, ", changed")
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)
    wait_for_answer(qtbot, window)
    assert [turn.prompt for turn in window.session.turns] == ["First, changed"]
    assert len(engine.requests[1].messages) == 1


def test_an_example_starts_a_conversation(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    qtbot.mouseClick(window.welcome.cards[0], Qt.MouseButton.LeftButton)
    assert engine.requests[0].messages[0].content == "Write the same arbitrary paragraph three times in a row."
    assert window.stack.currentWidget() is window.transcript


def test_new_text_stays_in_view_until_the_user_scrolls_away(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(rounds=story_rounds(STORY * 40))
    window.resize(900, 600)
    ask(qtbot, window)
    bar = window.transcript.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 100)
    assert bar.value() == bar.maximum()
    window.transcript.setFocus()
    qtbot.keyClick(window.transcript, Qt.Key.Key_Home)
    length = window.session.turns[0].answer.tally.rounds
    qtbot.waitUntil(lambda: window.session.turns[0].answer.tally.rounds > length + 5)
    assert bar.value() == 0
    qtbot.waitUntil(window.transcript.latest.isVisible)
    qtbot.mouseClick(window.transcript.latest, Qt.MouseButton.LeftButton)
    length = window.session.turns[0].answer.tally.rounds
    qtbot.waitUntil(lambda: window.session.turns[0].answer.tally.rounds > length + 5)
    assert bar.value() == bar.maximum()
    window.chat.stop()
    wait_for_answer(qtbot, window)


def test_the_conversation_can_be_selected_and_copied_without_ghosts(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    ask(qtbot, window, "Tell me")
    wait_for_answer(qtbot, window)
    transcript = window.transcript
    transcript.setFocus()
    qtbot.keyClick(transcript, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(transcript, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == f"Tell me\n\n{STORY}"
    qtbot.mouseClick(transcript.copy_button, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text() == STORY


def test_the_mouse_selects_what_it_passes(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    ask(qtbot, window)
    wait_for_answer(qtbot, window)
    transcript, viewport = window.transcript, window.transcript.viewport()
    block = transcript._blocks[1]
    corner = QPoint(transcript.column.left(), round(block.top + block.origin.y()) + 6)
    qtbot.mousePress(viewport, Qt.MouseButton.LeftButton, pos=corner)
    QApplication.processEvents()
    transcript._cursor = transcript._place_at((corner + QPoint(90, 0)).toPointF())
    selected = transcript.selected_text()
    assert selected
    assert STORY.startswith(selected)
    qtbot.mouseDClick(viewport, Qt.MouseButton.LeftButton, pos=corner + QPoint(8, 0))
    assert transcript.selected_text() == "The"


def test_the_figures_of_an_answer_explain_themselves(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    ask(qtbot, window)
    wait_for_answer(qtbot, window)
    block = window.transcript._blocks[1]
    assert "Click for all figures" in window.transcript._explanation_at(round(block.top + block.height - 40))
    assert window.transcript._explanation_at(round(block.top + 40)) == ""


def test_settings_are_kept_for_the_next_start(qtbot: QtBot, open_window: Open, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    window, _ = open_window(path=path)
    window.header.gamma.setValue(6)
    qtbot.keyClick(window, Qt.Key.Key_F2)
    window.set_appearance("light")
    window.resize(1000, 700)
    window.close()
    kept = json.loads(path.read_text())
    assert (kept["gamma"], kept["ghosts"], kept["appearance"], kept["geometry"][2:]) == (6, "none", "light", [1000, 700])


def test_settings_that_cannot_be_written_cost_no_work(qtbot: QtBot, open_window: Open, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    window, _ = open_window(path=tmp_path / "file" / "settings.json")
    window.header.gamma.setValue(6)
    assert "could not be saved" in window.banner.words.text()
    window.banner.dismiss.click()
    window.header.gamma.setValue(7)
    assert not window.banner.isVisible()
    ask(qtbot, window)
    wait_for_answer(qtbot, window)


def test_a_note_about_damaged_settings_is_shown(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(note="The settings could not be read.")
    assert window.banner.isVisible()
    assert window.banner.frame.property("tone") == "note"


@pytest.mark.usefixtures("fonts")
def test_the_theme_changes_everything_at_once(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    ask(qtbot, window)
    wait_for_answer(qtbot, window)
    for appearance, theme in (("light", themes.LIGHT), ("dark", themes.DARK)):
        window.set_appearance(appearance)  # type: ignore[arg-type]
        QApplication.processEvents()
        image = window.grab().toImage()
        chat = window.transcript.mapTo(window, QPoint(8, window.transcript.height() - 8))
        assert image.pixelColor(chat).name() == theme.background
        panel = window.panel.mapTo(window, QPoint(window.panel.width() - 4, 4))
        assert image.pixelColor(panel).name() == theme.panel


def test_text_can_be_made_larger_and_back(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    ask(qtbot, window)
    wait_for_answer(qtbot, window)
    height = window.transcript._blocks[1].flow.height
    for _ in range(3):
        qtbot.keyClick(window, Qt.Key.Key_Plus, Qt.KeyboardModifier.ControlModifier)
    assert window.settings.text_scale == pytest.approx(1.3)
    assert window.transcript._blocks[1].flow.height > height
    qtbot.keyClick(window, Qt.Key.Key_0, Qt.KeyboardModifier.ControlModifier)
    assert window.transcript._blocks[1].flow.height == height


def test_a_narrow_window_leaves_the_room_to_the_conversation(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    assert window.panel.isVisible()
    window.resize(640, 700)
    assert not window.panel.isVisible()
    window.resize(1300, 700)
    assert window.panel.isVisible()
    qtbot.keyClick(window, Qt.Key.Key_F3)
    assert not window.panel.isVisible()


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize(("width", "height", "scale"), [(560, 460, 1.0), (800, 600, 1.0), (800, 600, 1.8), (1440, 900, 1.5)])
def test_every_control_and_every_name_has_its_place(
    qtbot: QtBot, open_window: Open, width: int, height: int, scale: float
) -> None:
    window, _ = open_window(text_scale=scale)
    window.resize(width, height)
    ask(qtbot, window)
    wait_for_answer(qtbot, window)
    window.panel.show_page("charts")
    settle()
    header, names = window.header, window.panel.charts.curve_names
    controls = [header.target, header.drafter, header.rule, header.gamma, header.temperature, header.seed, header.pin]
    lowest = header.strip.y() if header.strip.isVisible() else header.height()
    for control in controls:
        corner = control.mapTo(header, control.rect().bottomRight())
        assert corner.y() < lowest, control.accessibleName()
        assert corner.x() < header.width(), control.accessibleName()
    if window.panel.isVisible():
        assert names.height() >= names.heightForWidth(names.width())
    assert window.width() >= width


def test_a_list_of_models_shows_their_whole_names(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(drafter="/models/A-draft-model-with-a-rather-long-name-4bit.gguf")
    box = window.header.drafter
    box.showPopup()
    view = box.view()
    assert all(view.fontMetrics().horizontalAdvance(box.itemText(i)) < view.viewport().width() for i in range(box.count()))
    box.hidePopup()


def test_metrics_are_exported_from_the_menu(
    qtbot: QtBot, open_window: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, _ = open_window()
    assert not window.actions_by_id["exportAction"].isEnabled()
    ask(qtbot, window)
    wait_for_answer(qtbot, window)
    window.session.turns[0].answer.trace_path = str(tmp_path / "missing.jsonl")
    window._refresh()
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / "out.json"), kind_named("json").filter))
    window.actions_by_id["exportAction"].trigger()
    assert "missing.jsonl" in window.banner.words.text(), "an export that fails says why"


def test_everything_can_be_found_by_name_and_is_named_for_screen_readers(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    assert all(section.chart for section in window.panel.charts.sections.values()), "those out of sight, too"
    for name in NAMES:
        widget = window.findChild(QWidget, name)
        assert widget is not None, name
        assert widget.accessibleName(), name
    assert window.findChild(type(window.actions_by_id["exportAction"]), "exportAction") is not None
    kinds = (QAbstractButton, QComboBox, QAbstractSpinBox, QPlainTextEdit)
    controls = [control for kind in kinds for control in window.findChildren(kind) if control.isVisible()]
    assert len(controls) > 12
    assert [control for control in controls if not control.accessibleName()] == []


def test_a_screen_reader_gets_the_conversation(qtbot: QtBot, open_window: Open) -> None:
    screen_reader.install()
    window, _ = open_window()
    ask(qtbot, window, "Tell me")
    wait_for_answer(qtbot, window)
    interface = QAccessible.queryAccessibleInterface(window.transcript)
    assert interface is not None
    assert interface.role() == QAccessible.Role.Document
    assert interface.text(QAccessible.Text.Name) == "Conversation"
    assert interface.text(QAccessible.Text.Value) == f"You: Tell me\nSmolLM2 135M: {STORY}"


def test_painting_keeps_pythons_none_alive(qtbot: QtBot) -> None:
    """PySide6 6.12.0 gives back a reference to None with every call that returns nothing: before Python 3.12 it crashes."""
    picture = QImage(8, 8, QImage.Format.Format_ARGB32)
    painter = QPainter(picture)
    before = sys.getrefcount(None)
    for _ in range(100):
        painter.setPen(Qt.PenStyle.NoPen)
    after = sys.getrefcount(None)
    painter.end()
    assert after > before - 50


def test_every_control_can_be_reached_by_tab(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    window.activateWindow()
    window.composer.edit.setFocus()
    reached = set()
    for _ in range(60):
        focused = QApplication.focusWidget()
        assert focused is not None
        reached.add(focused.objectName())
        qtbot.keyClick(focused, Qt.Key.Key_Tab)
    wanted = {"composer", "targetSelector", "drafterSelector", "gammaControl", "temperatureControl", "seedControl"}
    assert wanted | {"ghostsToggle", "promptCard", "iconButton"} <= reached


def test_the_menu_of_a_chart_opens_without_reading_the_trace(
    qtbot: QtBot, open_window: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, _ = open_window()
    monkeypatch.setattr("app.export.pictures.trace_of", lambda turn: pytest.fail("a long trace takes a while to read"))
    assert window.picture_menu._answer() is None
    ask(qtbot, window)
    wait_for_answer(qtbot, window)
    window.panel.charts.menu_wanted.emit("alpha", QPoint(10, 10))
    assert window.picture_menu.save_png.isEnabled()
    window.picture_menu.menu.close()


# The reading view


MARKDOWN = (
    "# Lamps\n\nThe **lamp** had *burned* for `forty` years. "
    + "Word after word it goes on. " * 30
    + "\n\n```py\nif x:\n\treturn 1\n```\n\n- one [link](https://example.org/a)\n- two\n\n"
    + "\n\n".join(f"Paragraph **{number}** says something about the sea and the shore, at some length." for number in range(40))
    + "\n"
)


def test_an_answer_is_read_without_syntax_once_it_is_done_and_the_choice_is_kept(
    qtbot: QtBot, open_window: Open, tmp_path: Path
) -> None:
    path = tmp_path / "settings.json"
    window, engine = open_window(story_rounds(MARKDOWN), path)
    engine.pause_after = 12
    window.actions_by_id["readingAction"].trigger()
    window.send("Tell me of lamps.")
    qtbot.waitUntil(lambda: engine.pause_after is not None and len(window.session.turns[0].answer.rounds) >= 12)
    block = window.transcript.answer_block(0)
    assert block is not None and not isinstance(block.flow, ReadingFlow), "tokens while it streams"
    engine.pause_after = None
    qtbot.waitUntil(lambda: window.session.running is None)
    block = window.transcript.answer_block(0)
    assert block is not None and isinstance(block.flow, ReadingFlow)
    assert window.transcript.reading_button.isVisible() and window.transcript.reading_button.isChecked()
    assert json.loads(path.read_text())["reading"] is True
    window.transcript.reading_button.click()
    block = window.transcript.answer_block(0)
    assert block is not None and not isinstance(block.flow, ReadingFlow)
    assert not window.actions_by_id["readingAction"].isChecked()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7])
def test_the_place_is_kept_from_one_view_to_the_other_and_back(qtbot: QtBot, open_window: Open, share: float) -> None:
    window, _ = open_window(story_rounds(MARKDOWN))
    ask(qtbot, window)
    wait_for_answer(qtbot, window)
    transcript, bar = window.transcript, window.transcript.verticalScrollBar()
    bar.setValue(round(share * bar.maximum()))
    scrolled, top = bar.value(), transcript.pointing.landmarks()
    window.toggle_reading()
    lettered = [(place, y) for place, y in top if transcript.pointing._letters(place)]
    place, y = lettered[0]
    # at the top the legend, which the reading view has no use for, leaves its room to the text
    assert abs(transcript.pointing.area(place).top() - y) <= 1 or (share == 0 and bar.value() == 0)
    window.toggle_reading()
    assert abs(bar.value() - scrolled) <= 1


def test_a_pinned_token_stays_where_it_is(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(story_rounds(MARKDOWN), ghosts="all")
    ask(qtbot, window)
    wait_for_answer(qtbot, window)
    transcript, bar = window.transcript, window.transcript.verticalScrollBar()
    bar.setValue(bar.maximum() // 2)
    place = [place for place, _ in transcript.pointing.landmarks() if place.emitted is not None][6]
    window.cursor_place.pin(place)
    before = transcript.pointing.area(place).top()
    window.toggle_reading()
    assert window.cursor_place.pin_place == place
    assert abs(transcript.pointing.area(place).top() - before) <= 1


def test_what_is_copied_is_markdown_in_both_views_and_code_is_code(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window(story_rounds(MARKDOWN))
    ask(qtbot, window)
    wait_for_answer(qtbot, window)
    transcript, clipboard = window.transcript, QGuiApplication.clipboard()
    for _ in range(2):
        transcript.select_all()
        assert transcript.selected_text() == f"Tell me a story.\n\n{MARKDOWN.replace(chr(9), '    ')}"
        transcript.verticalScrollBar().setValue(150)
        qtbot.waitUntil(lambda: any(button.isVisible() for button in transcript._code_buttons))
        clipboard.clear()
        next(button for button in transcript._code_buttons if button.isVisible()).click()
        assert clipboard.text() == "if x:\n\treturn 1", "with the tab that the model wrote"
        window.toggle_reading()


def test_a_link_is_opened_only_after_asking(qtbot: QtBot, open_window: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(
        "app.conversation.link_question.QDesktopServices.openUrl", lambda url: opened.append(url.toString()) or True
    )
    window, _ = open_window(story_rounds("See [this](https://example.org/a) now.\n"), reading=True)
    ask(qtbot, window)
    wait_for_answer(qtbot, window)
    transcript = window.transcript
    block = transcript.answer_block(0)
    assert block is not None
    (box,) = rects_of(block.flow.chunks[0], 4, 8)
    corner = QPointF(transcript.column.left(), block.top - transcript.verticalScrollBar().value()) + block.origin
    point = (corner + box.center()).toPoint()
    qtbot.mouseClick(transcript.viewport(), Qt.MouseButton.LeftButton, pos=point)
    question = window.findChild(LinkQuestion)
    assert question is not None and question.informativeText() == "https://example.org/a" and opened == []
    question.copies.click()
    assert QGuiApplication.clipboard().text() == "https://example.org/a" and opened == []
    qtbot.mouseClick(transcript.viewport(), Qt.MouseButton.LeftButton, pos=point)
    question = window.findChildren(LinkQuestion)[-1]
    question.opens.click()
    assert opened == ["https://example.org/a"]


def test_what_is_no_page_is_not_opened(qtbot: QtBot) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    question = LinkQuestion("ftp://example.org/x", parent)
    assert not question.opens.isEnabled()
