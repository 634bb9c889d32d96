"""Code that is wider than its place keeps its lines and scrolls sideways as a block."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QPointF, QRectF, Qt
from PySide6.QtGui import QGuiApplication, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.conversation.blocks import AnswerBlock
from app.conversation.chunks import Chunk, CodeScroll
from app.conversation.find import FindBar
from app.conversation.letter_formats import Style
from app.conversation.reading_view import ReadingFlow
from app.conversation.text_flow import CODE_LINE, CODE_LINES, Flow
from app.conversation.token_boxes import spot_at
from app.conversation.transcript import Transcript
from app.look import theme as themes
from app.session.token_navigation import place_of as at_spot
from engine.lens.pieces import Piece, Spot
from tests.app.conversation.flows import boxes_of
from tests.app.conversation.showing import Conversation, Show
from tests.app.fakes import story_rounds

LONG = "    found = " + " + ".join(f"word_{number}" for number in range(30))
TEXT = f"Before.\n\n```python\ndef find():\n{LONG}\n    return found\n```\n\nBetween.\n\n```\nshort = 1\n```\n\nBehind.\n"
SHIFT = Qt.KeyboardModifier.ShiftModifier


def tokens(text: str, letters: int = 4) -> list[Piece]:
    starts = range(0, len(text), letters)
    return [Piece(text[at : at + letters], "accepted", Spot(index, True, 0)) for index, at in enumerate(starts)]


def laid_out(text: str, reads: bool, width: float = 420) -> Flow:
    style = Style(themes.DARK, themes.reading_font(1), themes.mono_font(1))
    if reads:
        return ReadingFlow(style, width, tokens(text))
    flow = Flow(style, width, markdown=True)
    for piece in tokens(text):
        flow.append([piece])
    flow.finish()
    return flow


def line_with(flow: Flow, words: str) -> Chunk:
    return next(chunk for chunk in flow.chunks if words in chunk.text)


@pytest.mark.usefixtures("qapp", "fonts")
@pytest.mark.parametrize("reads", [False, True])
def test_lines_of_code_are_kept_and_every_token_is_found_wherever_its_block_is_scrolled(reads: bool) -> None:
    flow = laid_out(TEXT, reads)
    (scroll,) = flow.code_scrolls
    assert all(chunk.layout is not None and chunk.layout.lineCount() == 1 for chunk in flow.chunks if chunk.code)
    seen: set[Spot] = set()
    spots = {run.spot for chunk in flow.chunks if chunk.code for run in chunk.runs if chunk.text[run.start : run.end].strip()}
    for offset in range(0, round(scroll.limit) + 150, 150):
        scroll.move(offset)
        for spot in spots:
            for box in boxes_of(flow, spot, spot):
                chunk = flow.chunks[flow.chunk_at(box.center().y())]
                window = chunk.window or (0.0, flow.width)
                if window[0] < box.center().x() < window[1]:
                    assert spot_at(flow, box.center()) == spot
                    at = flow.offset_at(box.center())
                    assert chunk.start <= at <= chunk.start + chunk.length
                    seen.add(spot)
                elif chunk.window is not None:
                    assert spot_at(flow, box.center()) is None, "out of sight"
    assert seen == spots, "every token comes into sight"
    assert line_with(flow, "short").window is None and line_with(flow, "Between").offset == 0
    assert flow.text_between(0, flow.length) == TEXT


@pytest.mark.usefixtures("qapp", "fonts")
@pytest.mark.parametrize("reads", [False, True])
def test_a_place_is_scrolled_into_sight_and_no_further(reads: bool) -> None:
    flow = laid_out(TEXT, reads)
    chunk, (scroll,) = line_with(flow, "word_29"), flow.code_scrolls
    at = chunk.start + chunk.text.index("word_29")
    assert flow.area_of(at, at + 7).left() > flow.width
    assert flow.reveal(flow.area_of(at, at + 7))
    area = flow.area_of(at, at + 7)
    assert scroll.left < area.left() and area.right() < scroll.right
    assert flow.offset_at(QPointF(area.left() + 1, area.center().y())) == at
    assert not flow.reveal(area), "it is in sight"
    flow.reveal(flow.area_of(chunk.start, chunk.start + 1))
    assert scroll.offset == 0
    assert not flow.reveal(flow.area_of(0, 3)), "text does not scroll"


@pytest.mark.usefixtures("qapp", "fonts")
def test_an_open_block_scrolls_while_it_grows_and_lays_out_no_line_again() -> None:
    style = Style(themes.DARK, themes.reading_font(1), themes.mono_font(1))
    flow = Flow(style, 420, markdown=True)
    flow.append(tokens(f"```python\n{LONG}\n" + "x = 1\n" * 40))
    (scroll,) = flow.code_scrolls
    scroll.move(200)
    layouts, bottom = [chunk.layout for chunk in flow.chunks], scroll.bottom
    flow.append([Piece("y = 2\n", "plain", Spot(9999, True, 0))])
    assert [chunk.layout for chunk in flow.chunks][: len(layouts) - 1] == layouts[:-1]
    assert flow.code_scrolls == [scroll] and scroll.offset == 200 and scroll.bottom > bottom
    assert flow.chunks[-1].offset == 200, "also of the line that is open"
    flow.append([Piece("```\n\nText", "plain", Spot(10000, True, 0))])
    flow.finish()
    assert flow.code_scrolls == [scroll] and scroll.offset == 200, "also when it is coloured"
    assert flow.chunks[-1].offset == 0 and flow.chunks[-1].top >= scroll.bottom
    assert [chunk.below > 0 for chunk in flow.chunks].count(True) == 1, "room for one bar"


@pytest.mark.usefixtures("qapp", "fonts")
def test_a_line_without_end_is_broken_so_that_a_token_costs_the_same() -> None:
    flow = Flow(Style(themes.DARK, themes.reading_font(1), themes.mono_font(1)), 420, markdown=True)
    for piece in tokens("```\n" + "x = 1, " * 900, letters=20):
        flow.append([piece])
    assert max(len(chunk.text) for chunk in flow.chunks) <= CODE_LINE * (CODE_LINES + 1)
    assert max(chunk.layout.lineCount() for chunk in flow.chunks if chunk.layout) <= CODE_LINES


@pytest.mark.usefixtures("qapp", "fonts")
def test_what_turns_out_to_be_no_code_does_not_widen_the_block() -> None:
    """A line that is further left than its item ends the code of the item, which only a later line tells."""
    flow = laid_out(f"- ```\n  y\n{'out ' * 60}\n\nend\n", reads=False)
    assert flow.code_scrolls == []
    assert not any(chunk.window for chunk in flow.chunks)


@pytest.mark.usefixtures("qapp", "fonts")
def test_code_beside_other_answers_and_in_prompts_is_wrapped() -> None:
    flow = Flow(Style(themes.DARK, themes.reading_font(1), themes.mono_font(1)), 420)
    flow.append(tokens(TEXT))
    assert flow.code_scrolls == [] and flow.natural_width <= 420


# In the conversation


def opened(show_conversation: Show, reads: bool) -> tuple[Conversation, AnswerBlock, CodeScroll]:
    shown = show_conversation(story_rounds(TEXT), reading=reads, size=(700, 420))
    shown.transcript.verticalScrollBar().setValue(0)
    block = shown.transcript.answer_block(0)
    assert block is not None and block.shows_reading_view is reads
    return shown, block, block.flow.code_scrolls[0]


def point_of(transcript: Transcript, block: AnswerBlock, area: QRectF) -> QPoint:
    """The middle of an area of the flow, in the viewport."""
    return (area.center() + transcript.corner_of(block)).toPoint()


def turn_wheel(transcript: Transcript, at: QPoint, angle: QPoint, modifiers: Qt.KeyboardModifier) -> None:
    viewport = transcript.viewport()
    event = QWheelEvent(
        at.toPointF(), viewport.mapToGlobal(at).toPointF(), QPoint(), angle, Qt.MouseButton.NoButton, modifiers,
        Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    QApplication.sendEvent(viewport, event)


@pytest.mark.parametrize("reads", [False, True])
def test_wheel_bar_and_keys_scroll_a_block(qtbot: QtBot, show_conversation: Show, reads: bool) -> None:
    shown, block, scroll = opened(show_conversation, reads)
    transcript, none = shown.transcript, Qt.KeyboardModifier.NoModifier
    vertical = transcript.verticalScrollBar()
    over = point_of(transcript, block, QRectF(100, scroll.top + 40, 1, 1))
    turn_wheel(transcript, over, QPoint(0, -120), SHIFT)
    assert scroll.offset > 0 and vertical.value() == 0
    turn_wheel(transcript, over, QPoint(0, 120), SHIFT)
    turn_wheel(transcript, over, QPoint(-60, 4), none)
    touched = scroll.offset
    assert touched > 0 and vertical.value() == 0, "a touchpad goes sideways"
    (bar,) = (bar for bar in transcript.buttons.bars.widgets if bar.isVisible())
    assert (bar.value(), bar.maximum()) == (round(scroll.offset), round(scroll.limit))
    under = point_of(transcript, block, QRectF(0, scroll.bottom - 1, 1, 1)).y()
    assert bar.geometry().top() < under <= bar.geometry().bottom() + 1
    turn_wheel(transcript, over, QPoint(0, -120), none)
    assert scroll.offset == touched, "without Shift the conversation scrolls"
    vertical.setValue(0)
    qtbot.mousePress(bar, Qt.MouseButton.LeftButton, pos=QPoint(bar.width() // 3, bar.height() // 2))
    QTest.mouseMove(bar, QPoint(bar.width() // 2, bar.height() // 2))
    qtbot.mouseRelease(bar, Qt.MouseButton.LeftButton, pos=QPoint(bar.width() // 2, bar.height() // 2))
    assert scroll.offset == bar.value() > touched
    transcript.setFocus()
    before = scroll.offset
    qtbot.keyClick(transcript, Qt.Key.Key_Left, SHIFT)
    assert scroll.offset < before
    qtbot.keyClick(transcript, Qt.Key.Key_Right, SHIFT | Qt.KeyboardModifier.KeypadModifier)
    assert scroll.offset == before
    shown.host.resize(660, 420)
    transcript.rebuild()
    assert transcript.answer_block(0).flow.code_scrolls[0].offset == before, "another width keeps it"  # type: ignore[union-attr]


@pytest.mark.parametrize("reads", [False, True])
def test_walking_finding_and_pinning_bring_a_token_into_sight(qtbot: QtBot, show_conversation: Show, reads: bool) -> None:
    shown, block, scroll = opened(show_conversation, reads)
    transcript, bar = shown.transcript, FindBar(shown.transcript)
    qtbot.addWidget(bar)
    bar.field.setText("word_29")
    assert bar.count.text() == "1 of 1"
    assert scroll.offset > 0 and transcript.selected_text() == "word_29"
    chunk = line_with(block.flow, "word_29")
    spot = chunk.runs[-1].spot
    scroll.move(0)
    transcript.code_moved()
    place = at_spot(0, spot)
    area = transcript.pointing.area(place)
    assert area.width() <= 2 and area.center().x() >= transcript.column.right() - 2, "at the edge while it is out of sight"
    transcript.setFocus()
    transcript.pointing.go(place)
    assert scroll.offset > 0
    assert transcript.pointing.place_at(transcript.pointing.area(place).center().toPointF()) == place
    scroll.move(0)
    transcript.pointing.let_go()
    transcript.pointing.cursor.pin(place)
    assert scroll.offset > 0, "pinned in another view"


@pytest.mark.parametrize("reads", [False, True])
def test_a_drag_past_the_edge_scrolls_and_selects_to_the_end(qtbot: QtBot, show_conversation: Show, reads: bool) -> None:
    shown, block, scroll = opened(show_conversation, reads)
    transcript, viewport = shown.transcript, shown.transcript.viewport()
    chunk = line_with(block.flow, "word_0")
    start = chunk.start + chunk.text.index("found")
    first = point_of(transcript, block, block.flow.area_of(start, start))
    qtbot.mousePress(viewport, Qt.MouseButton.LeftButton, pos=first)
    scroll.move(scroll.limit - 150)  # the rest of the way takes several steps
    beyond = QPoint(transcript.column.right() + 20, first.y())
    QTest.mouseMove(viewport, beyond)
    qtbot.waitUntil(lambda: scroll.offset == scroll.limit, timeout=8000)
    qtbot.mouseRelease(viewport, Qt.MouseButton.LeftButton, pos=beyond)
    transcript.copy()
    assert QGuiApplication.clipboard().text().rstrip("\n") == LONG.strip()
