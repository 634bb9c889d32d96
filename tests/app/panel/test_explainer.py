"""In the window: figures that explain themselves, the plain speed measured on demand, and pictures saved from menus."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QFileDialog
from pytestqt.qtbot import QtBot

from app.conversation.screen_reader import plain_text
from app.look.wording import DEFINITIONS
from app.panel.definitions import NAMES
from app.session import settings as stored
from app.session.plain_baseline import PLAIN_TOKENS
from app.window.view_updates import ViewUpdates
from app.window.window import Window
from engine.lens.chart_kinds import CHARTS
from engine.types import LoadFinished, LoadStarted, RunFailed, RunFinished
from tests.app.charts.test_charts import levels_of
from tests.app.driving import Open, at_rest, wait_for_answer
from tests.app.fakes import MODEL, FakeEngine, make_round, story_rounds
from tests.traces import write_trace

PLAIN = [make_round(index, [], f" w{index}", drafter="none", started=50.0 * index, total=50.0) for index in range(16)]
Opened = tuple[Window, FakeEngine]


def with_answer(qtbot: QtBot, opened: Opened) -> Opened:
    window, _ = opened
    window.send("Tell me a story.")
    wait_for_answer(qtbot, window)
    window.panel.refresh()
    return opened


@pytest.fixture
def opened(qtbot: QtBot, share_window: Open) -> Opened:
    """The shared window with an answer and its charts."""
    return with_answer(qtbot, share_window(panel_page="charts"))


def test_a_tile_opens_its_definition_by_mouse_and_by_key(qtbot: QtBot, opened: Opened) -> None:
    window, _ = opened
    tile, popover = window.panel.figures.tiles["alpha"], window.panel.explainer.popover
    qtbot.mouseClick(tile, Qt.MouseButton.LeftButton)
    assert popover.isVisible() and popover.explanation.text() == DEFINITIONS["alpha"]
    qtbot.keyClick(popover, Qt.Key.Key_Escape)
    assert not popover.isVisible()
    tile.setFocus()
    qtbot.keyClick(tile, Qt.Key.Key_Space)
    assert popover.isVisible()
    popover.close()


@pytest.mark.usefixtures("fonts")
def test_the_summary_below_an_answer_opens_all_its_figures(qtbot: QtBot, opened: Opened) -> None:
    window, _ = opened
    transcript = window.transcript
    block = transcript.answer_block(0)
    assert block is not None
    left = next(x for x in range(600) if block.figure_at(float(x), block.line / 2) == "answer")
    y = round(block.top + block.footer_top + block.line / 2 - transcript.verticalScrollBar().value())
    qtbot.mouseClick(transcript.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(transcript.column.left() + left + 2, y))
    assert window.panel.explainer.popover.isVisible()
    here = window.panel.explainer.popover.numbers.text()
    for key, tile in window.panel.figures.tiles.items():
        assert f"{NAMES[key]} {tile.value.text()}" in here
    window.panel.explainer.popover.close()
    lines = (block.line / 2, block.foot - 1)
    assert {block.figure_at(float(x), y) for y in lines for x in range(600)} == {"", "answer", "invariant"}


def test_the_plain_speed_is_measured_without_entering_the_conversation(qtbot: QtBot, opened: Opened) -> None:
    window, engine = opened
    answer = window.session.turns[0].answer
    text = plain_text(window.transcript)
    speed_up = window.panel.figures.tiles["speed_up"]
    assert (speed_up.value.text(), speed_up.unit.text()) == ("–", "not measured")
    engine.rounds = list(PLAIN)
    qtbot.mouseClick(window.panel.charts.measure, Qt.MouseButton.LeftButton)
    assert window.session.measurement is not None
    qtbot.waitUntil(lambda: window.session.measurement is None)
    window.panel.refresh()
    request = engine.requests[-1]
    assert (request.drafter, request.conversation) == ("none", "")
    assert request.messages == engine.requests[0].messages
    assert len(window.session.turns) == 1 and window.session.answer is answer
    assert plain_text(window.transcript) == text
    baseline = window.session.baseline(answer)
    assert baseline is not None and baseline.fits and baseline.throughput == pytest.approx(20.0)
    speed = answer.tokens_per_second
    assert speed is not None
    assert window.panel.figures.tiles["speed_up"].value.text() == f"{speed / 20.0:.2f}"
    chart = window.panel.charts.sections["throughput"].chart
    assert levels_of(chart) == [pytest.approx(20.0)]
    assert window.panel.charts.measure.isHidden()


def moved(after: list[QPoint], before: list[QPoint]) -> int:
    """The farthest that one of these points has moved, in pixels."""
    return max((a - b).manhattanLength() for a, b in zip(after, before, strict=True))


@pytest.mark.parametrize("width", [1024, *(pytest.param(width, marks=pytest.mark.full) for width in (1280, 1440)), 2560])
def test_nothing_moves_when_an_answer_ends_or_its_speed_up_arrives(qtbot: QtBot, opened: Opened, width: int) -> None:
    window, engine = opened
    window.resize(width, 900)
    story = list(engine.rounds)
    engine.pause_after = 6
    window.chat.regenerate()
    qtbot.waitUntil(lambda: window.session.running is not None and window.session.running.tally.rounds == 6)

    def places() -> list[QPoint]:
        window.panel.refresh()
        QApplication.processEvents()
        block, panel = window.transcript.answer_block(0), window.panel
        assert block is not None
        parts = [*panel.figures.tiles.values(), panel.tabs, *(section.chart for section in panel.charts.sections.values())]
        return [part.mapTo(window, QPoint(0, 0)) for part in parts if part.isVisible()] + [QPoint(0, round(block.top))]

    while_running = at_rest(qtbot, places)
    engine.pause_after = None
    qtbot.waitUntil(lambda: window.session.running is None)
    ended = at_rest(qtbot, places)
    assert moved(ended, while_running) <= 1, "more than what a layout rounds"
    engine.rounds = list(PLAIN)
    refreshes: list[bool] = []
    updates = window.findChild(ViewUpdates)
    updates.refreshed.connect(lambda: refreshes.append(window.session.measurement is not None))
    window.panel.explainer.measure_plain()
    qtbot.waitUntil(lambda: window.session.measurement is None)
    assert refreshes.count(True) < len(PLAIN) / 4, "nothing is painted beside rounds of which the speed alone is wanted"
    assert moved(at_rest(qtbot, places), ended) <= 1
    assert window.panel.figures.tiles["speed_up"].unit.text() == "× plain"
    engine.rounds = story


def test_an_answer_under_other_settings_offers_a_new_measurement(qtbot: QtBot, opened: Opened) -> None:
    window, engine = opened
    story = list(engine.rounds)
    engine.rounds = list(PLAIN)
    window.panel.explainer.measure_plain()
    qtbot.waitUntil(lambda: window.session.measurement is None)
    window.panel.refresh()
    assert window.panel.figures.tiles["speed_up"].unit.text() == "× plain"
    engine.rounds = story
    window.chat.preferences.set(temperature=0.0)
    window.chat.regenerate()
    qtbot.waitUntil(lambda: window.session.running is None)
    window.panel.refresh()
    assert window.panel.figures.tiles["speed_up"].unit.text() == "not measured"
    assert not window.panel.charts.measure.isHidden() and window.panel.explainer.can_measure
    assert "other conditions" in window.panel.charts.sections["throughput"].note.longest_text


def test_a_plain_answer_is_not_measured_against_itself(qtbot: QtBot, opened: Opened) -> None:
    window, engine = opened
    engine.rounds = list(PLAIN)
    window.chat.preferences.set(drafter="none")
    window.send("Tell me a story.")
    qtbot.waitUntil(lambda: window.session.running is None)
    window.panel.refresh()
    assert window.panel.charts.measure.isHidden() and not window.panel.explainer.can_measure
    assert "a plain run" in window.panel.charts.sections["throughput"].note.longest_text
    assert (window.panel.figures.tiles["speed_up"].value.text(), window.panel.figures.tiles["speed_up"].unit.text()) == ("–", "")


def test_sending_a_message_ends_the_measuring(qtbot: QtBot, opened: Opened) -> None:
    window, engine = opened
    engine.hold = True
    window.panel.explainer.measure_plain()
    assert window.session.measurement is not None
    engine.hold = False
    window.send("Another one.")
    assert window.session.measurement is None
    qtbot.waitUntil(lambda: window.session.running is None)
    assert len(window.session.turns) == 2
    assert window.session.baseline(window.session.turns[1].answer) is None


def test_a_plain_run_that_is_too_short_is_reported(qtbot: QtBot, opened: Opened) -> None:
    window, engine = opened
    engine.rounds = PLAIN[:3]
    window.panel.explainer.measure_plain()
    qtbot.waitUntil(lambda: window.session.measurement is None)
    assert "too short" in window.banner.label.text()
    assert window.session.baseline(window.session.turns[0].answer) is None


def test_folded_charts_are_saved(qtbot: QtBot, open_window: Open, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    window, _ = with_answer(qtbot, open_window(path=path, panel_page="charts"))
    window.panel.charts.sections["alpha"].fold.click()
    window.panel.charts.sections["tau"].fold.click()
    assert "alpha" not in window.settings.charts and "tau" in window.settings.charts
    kept, note = stored.load(path)
    assert not note and kept.charts == window.settings.charts
    again, _ = open_window(charts=kept.charts)
    assert again.panel.charts.open == kept.charts


def test_a_chart_is_saved_and_copied_from_its_menu(opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    window, _ = opened
    target = tmp_path / "alpha.svg"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(target), "SVG image (*.svg)"))
    window.panel.charts.sections["alpha"].more.click()
    assert window.panel.picture_menu.menu.isVisible()
    window.panel.picture_menu.save_svg.trigger()
    window.panel.picture_menu.menu.close()
    assert "Alpha" in target.read_text(encoding="utf-8") and "alpha.svg" in window.banner.label.text()
    window.panel.picture_menu.copy.trigger()
    assert QGuiApplication.clipboard().image().width() > 900
    QGuiApplication.clipboard().clear()


def test_a_name_without_an_ending_gets_that_of_the_chosen_kind(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, _ = opened
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / "card"), "SVG image (*.svg)"))
    window.actions_by_id["shareCardAction"].trigger()
    assert (tmp_path / "card.svg").read_bytes().startswith(b"<?xml")


def test_the_share_card_and_all_charts_come_from_the_menu(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, _ = opened
    window.session.turns[0].answer.trace_path = str(write_trace(tmp_path / "kept.jsonl", story_rounds()))
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / "card.png"), "PNG image (*.png)"))
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(tmp_path / "charts"))
    window.actions_by_id["shareCardAction"].trigger()
    window.actions_by_id["saveChartsAction"].trigger()
    assert (tmp_path / "card.png").stat().st_size > 10_000
    assert (tmp_path / "charts" / "kept-tau.png").exists()
    assert len(list((tmp_path / "charts").iterdir())) == 2 * len(CHARTS)


def test_without_an_answer_there_is_nothing_to_draw(opened: Opened) -> None:
    window, _ = opened
    window.new_chat()
    for name in ("shareCardAction", "saveChartsAction"):
        assert not window.actions_by_id[name].isEnabled()
        assert "no answer" in window.actions_by_id[name].toolTip()


class MeasuredAlone:
    """A window whose idle time passes at once, with what its tile of the speed-up says."""

    def __init__(self, qtbot: QtBot, opened: Opened) -> None:
        self.qtbot = qtbot
        self.window, self.engine = opened
        self.engine.rounds = list(PLAIN)
        self.answer = self.window.session.turns[-1].answer

    @property
    def tile(self) -> tuple[str, str]:
        self.window.panel.refresh()
        tile, measure = self.window.panel.figures.tiles["speed_up"], self.window.panel.figures.measure
        return tile.value.text(), measure.text() if measure.isVisible() else tile.unit.text()

    def begin(self) -> None:
        """Switches it on. Not in a fixture, behind which events are handled."""
        self.window.chat.preferences.set(measure_plain=True)

    def idle(self) -> None:
        """The pause has passed, as often as it may."""
        for _ in range(3):
            self.qtbot.wait(30)


@pytest.fixture
def alone(qtbot: QtBot, open_window: Open, monkeypatch: pytest.MonkeyPatch) -> MeasuredAlone:
    monkeypatch.setattr("app.session.plain_measurer.PAUSE_MS", 20)
    return MeasuredAlone(qtbot, with_answer(qtbot, open_window()))


def test_the_tile_offers_a_measurement_and_shows_it_running(qtbot: QtBot, alone: MeasuredAlone) -> None:
    window, engine = alone.window, alone.engine
    alone.idle()
    assert alone.tile == ("–", "Measure") and len(engine.requests) == 1, "switched off, nothing is measured by itself"
    engine.hold = True
    qtbot.mouseClick(window.panel.figures.measure, Qt.MouseButton.LeftButton)
    assert alone.tile == ("–", "measuring…") and not window.panel.explainer.popover.isVisible()
    engine.hold = False
    qtbot.waitUntil(lambda: alone.tile[1] == "× plain")
    assert engine.requests[-1].only_measures


def test_the_plain_speed_is_measured_while_nothing_else_happens(qtbot: QtBot, alone: MeasuredAlone) -> None:
    window, engine = alone.window, alone.engine
    text, first = plain_text(window.transcript), engine.requests[0]
    alone.begin()
    qtbot.waitUntil(lambda: alone.tile[1] == "× plain")
    asked = engine.requests[-1]
    expected = replace(first.options, max_tokens=PLAIN_TOKENS)
    assert (asked.messages, asked.options, asked.target, asked.drafter) == (first.messages, expected, first.target, "none")
    assert (asked.conversation, asked.kept, asked.only_measures) == ("", False, True)
    assert plain_text(window.transcript) == text and window.session.answer is alone.answer and window.session.drafter != "none"
    alone.idle()
    assert len(engine.requests) == 2, "once is enough"


def test_typing_postpones_the_measurement_and_sending_ends_it(qtbot: QtBot, alone: MeasuredAlone) -> None:
    window, engine = alone.window, alone.engine
    engine.hold = True
    alone.begin()
    qtbot.waitUntil(lambda: window.session.measurement is not None)
    window.composer.edit.setFocus()
    qtbot.keyClicks(window.composer.edit, "Go on")
    assert window.session.measurement is None and engine.stopped == [engine.runs[1]] and alone.tile == ("–", "Measure")
    qtbot.waitUntil(lambda: window.session.measurement is not None)
    engine.hold, engine.rounds = False, story_rounds()
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)
    assert engine.stopped == [engine.runs[1], engine.runs[2]] and window.session.measurement is None
    assert engine.requests[-1].messages[-1].content == "Go on" and not engine.requests[-1].only_measures
    wait_for_answer(qtbot, window)
    assert [turn.prompt for turn in window.session.turns] == ["Tell me a story.", "Go on"] and window.banner.isHidden()


@pytest.mark.parametrize("why", ["too short", "failed", "cut off"])
def test_a_failed_automatic_measurement_is_silent_and_not_repeated(qtbot: QtBot, alone: MeasuredAlone, why: str) -> None:
    window, engine = alone.window, alone.engine
    engine.hold, engine.rounds = True, PLAIN[:3]
    alone.begin()
    qtbot.waitUntil(lambda: window.session.measurement is not None)
    if why == "failed":
        engine.say(RunFailed(engine.runs[1], "There is no memory left."))
    elif why == "cut off":  # the engine was asked for something else
        engine.say(RunFinished(engine.runs[1], "cancelled", "", 2, 0.1, 0.1, 0.2, None))
    else:
        engine.hold = False
    # What was cut off may have been begun again before anybody looks.
    qtbot.waitUntil(lambda: window.session.measurement is None or len(engine.requests) > 2)
    engine.rounds = list(PLAIN)
    alone.idle()
    assert window.banner.isHidden()
    assert (len(engine.requests) > 2) == (why == "cut off"), "only what was cut off is made again"
    engine.hold = False


@pytest.mark.parametrize("other", ["model", "files", "place", "machine", "long", "short"])
def test_only_local_answers_are_measured_automatically(qtbot: QtBot, alone: MeasuredAlone, other: str) -> None:
    window, answer = alone.window, alone.answer
    match other:
        case "model":
            window.session.apply(LoadStarted("/models/other"))
            window.session.apply(LoadFinished(MODEL, 1.0))
        case "files":
            answer.model_hash = "1" * 64
        case "place":
            answer.made_in = (True, False)
        case "machine":
            answer.other_machine = True
        case "long":
            answer.prefill = (9999, 9999)
        case _:
            answer.made_in = None  # it was read from a trace
    alone.begin()
    alone.idle()
    assert len(alone.engine.requests) == 1 and alone.tile == ("–", "Measure")
    qtbot.mouseClick(window.panel.figures.measure, Qt.MouseButton.LeftButton)
    if other in ("model", "files", "place", "machine"):
        assert "Regenerate the answer to measure" in window.banner.label.text() and len(alone.engine.requests) == 1
    else:
        qtbot.waitUntil(lambda: alone.tile[1] == "× plain")
