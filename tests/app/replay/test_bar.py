"""What a person does with a trace in the window: opens it in any way, plays, steps and scrubs it, and goes back."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QFileDialog,
    QLineEdit,
    QPlainTextEdit,
    QTextEdit,
    QWidget,
)
from pytestqt.qtbot import QtBot

import app.window.launch
from app.cli.entry import main
from app.conversation.screen_reader import plain_text
from app.replay.phases import PHASES, caption
from app.replay.player import EVEN_SECONDS
from app.session.cursor import Place
from app.session.lazy_engine import LazyEngine
from app.session.settings import Settings
from app.window.window import Window
from engine.rounds.trace import read
from tests.app.driving import Open, drop
from tests.app.fakes import STORY, FakeEngine, story_rounds
from tests.app.shared_window import SharedWindow
from tests.crossings import crossed
from tests.traces import write_trace

Key = Qt.Key


@pytest.fixture
def window(share_window: Open) -> Window:
    return share_window(size=(1280, 800))[0]


@pytest.fixture
def engine(window_of_module: SharedWindow) -> FakeEngine:
    return window_of_module.engine


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "story.jsonl", story_rounds())


def place(window: Window) -> str:
    """Where the replay is, in the words for a screen reader; a small window shows fewer."""
    return window.replay_controller.bar.position.accessibleDescription()


def test_a_trace_opens_paused_at_its_beginning_without_a_model(window: Window, trace: Path) -> None:
    window.replay_controller.open(trace)
    rounds = len(story_rounds())
    player = window.replay_controller.player
    assert player is not None and not player.is_playing
    assert window.session.answer is not None and window.session.answer.rounds == []
    assert window.session.turns[-1].prompt in plain_text(window.transcript), "the prompt stands there already"
    assert f"Round 0 of {rounds}" in place(window)
    assert f"Replay, round 0 of {rounds}" in window.status.line.text()
    assert "paused at its beginning" in window.banner.label.text() and window.banner.isVisible()
    assert window.replay_controller.bar.isVisible() and not window.composer.isVisible()
    assert "next answer" in window.header.rule_note, "the controls above are not the trace's"
    assert "story.jsonl" in window.replay_controller.bar.name.text()
    window.replay_controller.step(1)
    assert not window.banner.isVisible(), "it goes once the replay has moved"
    assert not window.transcript.buttons.regenerate.isVisible()
    assert not window.actions_by_id["regenerateAction"].isEnabled()
    assert window.actions_by_id["exportAction"].isEnabled()


def test_the_paused_note_hides_when_the_replay_plays(window: Window, trace: Path) -> None:
    window.replay_controller.open(trace)
    assert window.banner.isVisible()
    window.replay_controller.toggle()
    player = window.replay_controller.player
    assert player is not None and player.is_playing and player.shown == 0, "the first token comes seconds later"
    assert not window.banner.isVisible()


def test_the_menu_opens_a_trace(window: Window, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    action = window.actions_by_id["openTraceAction"]
    assert action.shortcut().toString() == "Ctrl+O"
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: ("", ""))
    action.trigger()
    assert not window.session.replaying
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(trace), ""))
    action.trigger()
    assert window.session.replaying


@pytest.mark.parametrize("where", ["window", "message field"])
def test_a_dropped_trace_opens(window: Window, trace: Path, where: str) -> None:
    target = window if where == "window" else window.composer.edit.viewport()
    assert drop(target, trace)
    assert window.session.replaying
    assert window.composer.text == "", "its path is not typed into the message"


def test_only_a_single_trace_is_accepted(window: Window, trace: Path, tmp_path: Path) -> None:
    for paths in (["/tmp/picture.png"], ["https://example.org/story.jsonl"], []):
        assert not drop(window, *paths)
    drop(window, trace, trace)  # two are files like others
    assert not window.session.replaying


def test_a_file_that_cannot_be_read_leaves_everything_as_it_is(window: Window, trace: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.jsonl"
    foreign.write_text("{}\n")
    window.replay_controller.open(foreign)
    assert "foreign.jsonl is not a Draftlight trace" in window.banner.label.text()
    assert not window.session.replaying and window.composer.isVisible()
    window.replay_controller.open(trace)
    window.replay_controller.open(tmp_path / "missing.jsonl")
    assert "missing.jsonl cannot be read" in window.banner.label.text()
    assert window.session.replaying and "story.jsonl" in window.replay_controller.bar.name.text(), "the trace before stays"


def test_a_truncated_trace_opens_with_a_note(window: Window, trace: Path) -> None:
    trace.write_bytes(trace.read_bytes()[: trace.stat().st_size // 2])
    window.replay_controller.open(trace)
    rounds = len(read(trace).rounds)
    assert 0 < rounds < len(story_rounds())
    assert "cut off" in window.banner.label.text() and "paused" in window.banner.label.text()
    assert "cut off" in window.replay_controller.bar.name.text()
    assert f"of {rounds}" in place(window)


def test_it_plays_as_recorded_and_stops_at_the_end(window: Window, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opening, now = window.replay_controller, [0.0]
    monkeypatch.setattr(opening, "clock", lambda: now[0])
    opening.open(trace)
    opening.bar.play.click()
    assert opening.bar.play.accessibleName() == "Pause (Space)"
    assert window.session.answer is not None and window.session.answer.rounds == []
    ends = [(round_.started + round_.milliseconds.total) / 1000 for round_ in story_rounds()]
    now[0] = ends[2] + 0.001
    opening.tick()
    assert len(window.session.answer.rounds) == 3
    opening.bar.speed.setCurrentIndex(opening.bar.speed.findText("4×"))
    opening.bar.speed.activated.emit(opening.bar.speed.currentIndex())
    now[0] += (ends[6] - ends[2]) / 4
    opening.tick()
    assert len(window.session.answer.rounds) == 7
    now[0] += 100
    opening.tick()
    assert window.session.answer.text.text == STORY
    assert opening.bar.play.accessibleName() == "Play (Space)"


def test_even_steps_can_be_chosen(window: Window, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opening, now = window.replay_controller, [0.0]
    monkeypatch.setattr(opening, "clock", lambda: now[0])
    opening.open(trace)
    opening.bar.timing.setCurrentIndex(1)
    opening.bar.timing.activated.emit(1)
    opening.toggle()
    now[0] = 2.5 * EVEN_SECONDS
    opening.tick()
    assert window.session.answer is not None and len(window.session.answer.rounds) == 2


def test_playing_advances_by_itself(qtbot: QtBot, window: Window, trace: Path) -> None:
    window.replay_controller.open(trace)
    window.replay_controller.bar.speed_chosen.emit(16.0)
    window.replay_controller.toggle()
    qtbot.waitUntil(lambda: window.session.answer is not None and window.session.answer.text.text == STORY)


def test_keys_play_and_step(qtbot: QtBot, window: Window, trace: Path) -> None:
    rounds = len(story_rounds())
    for target in (window.replay_controller.bar, window.transcript):
        window.replay_controller.open(trace)
        window.replay_controller.go_to(rounds)
        target.setFocus()
        qtbot.keyClick(target, Key.Key_Comma)
        qtbot.keyClick(target, Key.Key_Comma)
        assert f"Round {rounds - 2} of {rounds}" in place(window)
        qtbot.keyClick(target, Key.Key_Period)
        assert f"Round {rounds - 1} of {rounds}" in place(window)
        qtbot.keyClick(target, Key.Key_Space)
        assert window.replay_controller.player is not None and window.replay_controller.player.is_playing
        qtbot.keyClick(target, Key.Key_Space)
        assert not window.replay_controller.player.is_playing
        qtbot.keyClick(target, Key.Key_Escape)
        assert not window.session.replaying


@pytest.mark.parametrize("page", ["rounds", "charts", "table", "rules"])
def test_space_plays_and_pauses_wherever_the_keyboard_is(qtbot: QtBot, window: Window, trace: Path, page: str) -> None:
    window.chat.preferences.set(panel_page=page)
    window.replay_controller.open(trace)
    player = window.replay_controller.player
    assert player is not None
    window.replay_controller.go_to(3)
    QApplication.processEvents()
    parts = [each for each in window.findChildren(QWidget) if each.isVisible() and each.focusPolicy() & Qt.FocusPolicy.TabFocus]
    writes = (QLineEdit, QPlainTextEdit, QTextEdit)
    pressed: list[str] = []
    for button in window.findChildren(QAbstractButton):
        button.clicked.connect(lambda *_, button=button: pressed.append(button.accessibleName()))
    for part in parts:
        focused = part.focusProxy() or part
        focused.setFocus()
        if QApplication.focusWidget() is not focused or isinstance(focused, writes):
            continue
        qtbot.keyClick(focused, Key.Key_Space)
        assert player.is_playing != isinstance(focused, QAbstractSpinBox), focused
        player.pause()
    assert len(parts) > 20 and pressed == []
    assert player.shown == 3


def test_space_in_a_text_field_or_list_does_not_play(qtbot: QtBot, window: Window, trace: Path) -> None:
    window.replay_controller.open(trace)
    player = window.replay_controller.player
    assert player is not None
    window.find_in_chat()
    qtbot.keyClicks(window.column.find_bar.field, "a b")
    assert window.column.find_bar.field.text() == "a b" and not player.is_playing
    window.replay_controller.bar.speed.showPopup()
    popup = QApplication.activePopupWidget()
    assert popup is not None
    qtbot.keyClick(window.replay_controller.bar.speed.view(), Key.Key_Space)
    assert not player.is_playing
    window.replay_controller.bar.speed.hidePopup()
    window.replay_controller.leave()
    window.header.panel.setFocus()
    qtbot.keyClick(window.header.panel, Key.Key_Space)
    assert not window.settings.side_panel, "outside a replay Space presses the button"


def test_a_key_that_is_held_plays_once(qtbot: QtBot, window: Window, trace: Path) -> None:
    window.replay_controller.open(trace)
    assert not window.actions_by_id["playAction"].autoRepeat()
    window.pages.toggle()
    assert window.actions_by_id["playAction"].toolTip() == "Go back to the chat first (F4)."


def test_escape_lets_go_of_a_token_before_it_leaves_the_replay(qtbot: QtBot, window: Window, trace: Path) -> None:
    window.replay_controller.open(trace)
    window.transcript.setFocus()
    window.cursor_place.pin(Place(0, 2, proposal=0))
    qtbot.keyClick(window.transcript, Key.Key_Escape)
    assert window.cursor_place.pin_place is None and window.session.replaying
    qtbot.keyClick(window.transcript, Key.Key_Escape)
    assert not window.session.replaying


def test_a_place_that_is_pinned_is_forgotten_with_its_conversation(window: Window, trace: Path) -> None:
    window.replay_controller.open(trace)
    window.cursor_place.pin(Place(0, 2))
    window.replay_controller.open(trace)
    assert window.cursor_place.place is None
    window.cursor_place.pin(Place(0, 2))
    window.replay_controller.leave()
    assert window.cursor_place.place is None


def test_going_back_behind_a_pinned_place_is_harmless(window: Window, trace: Path) -> None:
    window.replay_controller.open(trace)
    window.cursor_place.pin(Place(0, 9, proposal=0))
    for shown in (3, 0, len(story_rounds())):
        window.replay_controller.go_to(shown)
        window.panel.refresh()
        window.grab()
    assert STORY in plain_text(window.transcript)


def test_every_page_of_the_panel_follows(window: Window, trace: Path) -> None:
    for page in ("rounds", "charts", "table"):
        window.chat.preferences.set(panel_page=page)
        window.replay_controller.open(trace)
        for shown in (5, 2, 0, 7):
            window.replay_controller.go_to(shown)
            window.panel.refresh()
            window.grab()


def test_a_trace_that_is_opened_from_the_comparison_shows_in_the_conversation(window: Window, trace: Path) -> None:
    window.pages.toggle()
    assert window.pages.comparing is not None
    window.replay_controller.open(trace)
    assert window.pages.comparing is None
    assert window.replay_controller.bar.isVisible()


def test_home_and_end_go_to_the_ends(qtbot: QtBot, window: Window, trace: Path) -> None:
    window.replay_controller.open(trace)
    assert window.replay_controller.bar.hasFocus(), "the keys work at once"
    rounds = len(story_rounds())
    for target in (window.replay_controller.bar, window.replay_controller.bar.slider):
        qtbot.keyClick(target, Key.Key_Home)
        assert f"Round 0 of {rounds}" in place(window)
        assert STORY not in plain_text(window.transcript)
        qtbot.keyClick(target, Key.Key_End)
        assert f"Round {rounds} of {rounds}" in place(window)


def test_the_slider_scrubs_and_goes_where_it_is_clicked(qtbot: QtBot, window: Window, trace: Path) -> None:
    window.replay_controller.open(trace)
    QApplication.sendPostedEvents()
    QApplication.processEvents()
    slider = window.replay_controller.bar.slider
    slider.setValue(4)
    assert window.session.answer is not None and len(window.session.answer.rounds) == 4
    assert "Round" in slider.accessibleDescription()
    qtbot.mouseClick(slider, Qt.MouseButton.LeftButton, pos=QPoint(slider.width() // 2, slider.height() // 2))
    assert len(window.session.answer.rounds) == slider.value() > 4
    slider.blockSignals(True)
    for x in range(slider.width()):
        slider.setValue(0)
        qtbot.mouseClick(slider, Qt.MouseButton.LeftButton, pos=QPoint(x, slider.height() // 2))
        assert abs(slider.value() - len(story_rounds()) * x / slider.width()) <= 1, "also between two rounds"


def test_the_side_panel_shows_the_same_as_live(window: Window, trace: Path) -> None:
    window.replay_controller.open(trace)
    window.replay_controller.go_to(len(story_rounds()))
    answer = window.session.answer
    assert answer is not None
    summary = answer.tally.summary
    window.panel.refresh()
    assert window.panel.figures.tiles["alpha"].value.text() == f"{summary.alpha:.0%}"
    window.replay_controller.go_to(3)
    window.panel.refresh()
    assert window.session.answer is not None and window.session.answer.tally.rounds == 3
    assert window.panel.figures.tiles["tau"].value.text() == f"{window.session.answer.tally.summary.tau:.2f}"


def test_the_conversation_comes_back_as_it_was(qtbot: QtBot, window: Window, engine: FakeEngine, trace: Path) -> None:
    window.send("A question of mine.")
    qtbot.waitUntil(lambda: window.session.running is None)
    window.composer.set_text("half a thought")
    before = plain_text(window.transcript)
    window.replay_controller.open(trace)
    assert "A question of mine." not in plain_text(window.transcript)
    window.send("not now")
    assert engine.requests[-1].messages[-1].content == "A question of mine.", "nothing is sent from a replay"
    window.replay_controller.bar.close_button.click()
    assert plain_text(window.transcript) == before
    assert window.composer.text == "half a thought" and window.composer.isVisible()
    window.send("And now?")
    qtbot.waitUntil(lambda: window.session.running is None)
    assert [message.content for message in engine.requests[-1].messages][::2] == ["A question of mine.", "And now?"]


def test_an_answer_under_way_is_not_interrupted(window: Window, engine: FakeEngine, trace: Path) -> None:
    engine.pause_after = 2
    window.send("A question.")
    window.replay_controller.open(trace)
    assert not window.session.replaying
    assert "being generated" in window.banner.label.text()


def test_leaving_a_window_that_was_opened_for_a_trace_loads_its_models(qtbot: QtBot, trace: Path) -> None:
    engine = FakeEngine()
    window = Window(engine, Settings())
    qtbot.addWidget(window)
    window.replay_controller.open(trace)
    assert engine.loads == []
    window.replay_controller.leave()
    assert engine.loads != []
    window.close()


def test_a_new_chat_ends_the_replay(window: Window, trace: Path) -> None:
    window.replay_controller.open(trace)
    window.new_chat()
    assert not window.session.replaying and window.session.turns == []
    assert window.composer.isVisible() and not window.replay_controller.bar.isVisible()


def test_every_control_has_a_name_and_a_place_in_the_order_of_tab(window: Window, trace: Path) -> None:
    window.replay_controller.open(trace)
    bar = window.replay_controller.bar
    controls = [*bar.findChildren(QAbstractButton), *bar.findChildren(QComboBox), bar.slider, bar]
    assert len(controls) == 10
    assert all(control.accessibleName() for control in controls)
    assert all(control.focusPolicy() & Qt.FocusPolicy.TabFocus for control in controls)


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize(("width", "scale"), crossed([560, 700, 2560], [0.8, 1.8], together=1))
def test_the_bar_has_room_in_small_and_large_windows(qtbot: QtBot, window: Window, trace: Path, width: int, scale: float) -> None:
    window.chat.preferences.set(text_scale=scale)
    window.resize(width, 900)
    window.replay_controller.open(trace)
    window.replay_controller.go_to(len(story_rounds()))
    QApplication.sendPostedEvents()
    QApplication.processEvents()
    bar = window.replay_controller.bar
    parts = [*bar.findChildren(QAbstractButton), bar.slider, bar.position, bar.speed, bar.timing]
    for part in parts:
        area = part.geometry()
        assert bar.frame.rect().contains(area), part
        assert area.width() >= min(part.minimumSizeHint().width(), part.sizeHint().width()) - 1, part
    assert bar.slider.width() > 75 * scale and bar.name.width() > 75 * scale
    if width > 560 or scale > 1:  # where the border lies depends on the font
        small = width < 800 and scale > 1
        words = ("17 of 17  ·  1.0 s", "Back") if small else (place(window), "Back to the conversation")
        assert (bar.position.text(), bar.close_button.text()) == words


# The command line


def test_the_command_opens_a_window_without_starting_an_engine(
    qapp: QApplication, home: Path, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []

    def look(*_: object) -> int:
        (window,) = [
            widget for widget in QApplication.topLevelWidgets() if isinstance(widget, Window) and widget.session.replaying
        ]
        window.replay_controller.go_to(len(story_rounds()))
        shown.append(plain_text(window.transcript))
        window.close()
        window.deleteLater()
        return 0

    def none() -> FakeEngine:
        raise AssertionError("no engine is needed")

    monkeypatch.setattr(app.window.launch, "Engine", none)
    monkeypatch.setattr(app.window.launch.QApplication, "exec", look)
    assert main(["replay", str(trace)]) == 0
    assert STORY in shown[0]
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def test_the_command_refuses_what_is_no_trace_before_any_window(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "foreign.jsonl").write_text("hello\n")
    for name in ("foreign.jsonl", "missing.jsonl"):
        assert main(["replay", str(tmp_path / name)]) == 1
        assert name in capsys.readouterr().err


def test_an_engine_is_made_when_it_is_first_asked_for_something() -> None:
    made: list[FakeEngine] = []

    def make(settings: Settings, after: threading.Event | None) -> FakeEngine:
        made.append(FakeEngine())
        return made[-1]

    engine = LazyEngine(make, Settings())
    engine.update(1, rule="match")
    engine.stop(1)
    assert engine.events() == [] and engine.close() and made == []
    engine.load("builtin", "none")
    assert made[0].loads == [("builtin", "none")]
    assert engine.events() != [] and len(made) == 1
    engine.replace_engine(Settings(separate_process=True))
    assert len(made) == 1
    engine.load("other", "none")
    assert made[1].loads == [("other", "none")] and engine.close() and made[0].closed and made[1].closed


def test_names_of_files_are_no_markup(window: Window, tmp_path: Path) -> None:
    window.replay_controller.open(write_trace(tmp_path / "<b>story.jsonl", story_rounds()))
    bar = window.replay_controller.bar
    assert bar.name.textFormat() is Qt.TextFormat.PlainText
    assert "&lt;b&gt;story.jsonl" in bar.name.toolTip()
    assert window.banner.label.textFormat() is Qt.TextFormat.PlainText


def test_slow_motion_steps_through_the_phases_by_keys_and_buttons(qtbot: QtBot, window: Window, trace: Path) -> None:
    rounds = story_rounds()
    replays = window.replay_controller
    replays.open(trace)
    replays.go_to(2)
    assert window.column.steps.isHidden()
    window.actions_by_id["slowMotionAction"].trigger()
    assert window.actions_by_id["slowMotionAction"].isChecked()
    shown = window.column.steps.picture
    assert (shown.round, shown.phase) == (rounds[1], "commit")
    text = "".join(round_.text for round_ in rounds[:2])
    actions = (
        lambda: qtbot.keyClick(replays.bar, Key.Key_Period),
        replays.bar.forward.click,
        window.actions_by_id["playAction"].trigger,
        window.actions_by_id["phaseAction"].trigger,
    )
    for phase, act in zip(PHASES, actions, strict=True):
        act()
        assert (shown.round, shown.phase) == (rounds[2], phase)
        assert window.column.steps.caption.text() == caption(rounds[2], phase)
        assert window.session.answer is not None
        assert window.session.answer.text.text == text + rounds[2].text * (phase == "commit"), "only the committed text"
    qtbot.keyClick(replays.bar, Key.Key_Comma)
    assert (shown.round, shown.phase) == (rounds[2], "judge")
    assert window.session.answer.text.text == text
    replays.bar.timing.activated.emit(0)
    assert window.column.steps.isHidden() and not window.actions_by_id["slowMotionAction"].isChecked()
    replays.leave()
    assert window.column.steps.isHidden()
