"""The conversation on screen: a scroll area with a block per message, which paints only visible blocks and lays out only new
text. Also scrolling, following new text, selecting, the context menu, and the keys."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import partial

from PySide6.QtCore import QEvent, QPoint, QPointF, QRect, QRectF, Qt, QTimer, Signal, Slot
from PySide6.QtGui import (
    QContextMenuEvent,
    QFontMetricsF,
    QGuiApplication,
    QHelpEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QApplication, QMenu, QToolTip

from app.conversation.answer_buttons import AnswerButtons
from app.conversation.answer_view import AnswerView, thought_action
from app.conversation.blocks import AnswerBlock, Block, UserBlock
from app.conversation.chunks import CodeScroll
from app.conversation.hit_testing import Hit, Selection
from app.conversation.legend import Legend
from app.conversation.letter_formats import Style
from app.conversation.message_tools import MessageTools
from app.conversation.token_pointer import TokenPointer
from app.look import theme as themes
from app.look.command import native_keys
from app.look.theme import Theme
from app.look.widgets import named
from app.session.cursor import Cursor, Place
from app.session.session import Answer, Session
from app.session.token_navigation import spot_of
from engine.lens.pieces import Ghosts, Kind
from engine.lens.shared_wording import unseen_words

MEASURE, WIDE_MEASURE = 74, 88
"""Width of the column in characters of English text; lines of 65 to 75 characters are easiest to read. The wider one is that of a
column in a wide view, which would be lost in it otherwise."""
SAMPLE = "It was a bright cold day in April, and the clocks were striking thirteen; the keeper looked up. "
TOP = 26.0
DRAG = 40
"""Milliseconds between two scroll steps while text is selected and the mouse pointer is beyond an edge."""
LEGEND_GAP = 8
"""Pixels between the legend and the answer below it."""
LEGEND_INDENT = 7
"""Pixels by which the legend extends to the left of the column, so that its words align with the text."""


class Transcript(AnswerView):
    """Shows a session's turns. Call `sync` after the session has changed.

    Attributes:
        may_move: whether the verdicts on new rounds appear one after the other.

    Signals:
        regenerate: the user asked for another answer to the last prompt.
        wanted: (action, turn, whether its prompt) the user asked for one of `message_tools.TITLES`.
        scrolled: the view was scrolled.
        code_scrolled: a code block was scrolled sideways.
        reading_wanted: the user asked to switch between token view and reading view.
        link_wanted: (address) a link was clicked or chosen in a menu; the receiver asks whether to open it.
        figure_wanted: (turn, definition, global position) a figure below an answer was clicked.
    """

    regenerate = Signal()
    wanted = Signal(str, int, bool)
    scrolled = Signal()
    code_scrolled = Signal()
    reading_wanted = Signal()
    link_wanted = Signal(str)
    figure_wanted = Signal(int, str, QPoint)

    def __init__(
        self,
        session: Session,
        theme: Theme,
        scale: float,
        ghosts: Ghosts,
        cursor: Cursor,
        reading: bool = False,
    ) -> None:
        super().__init__(session, ghosts)
        self.reading = reading
        self.may_move = False
        self.status = ""
        self.fraction: float | None = None
        self.blocks: list[Block] = []
        self.selection = Selection()
        self._pressed: QPointF | None = None
        self._resize_timer = QTimer(self, singleShot=True, interval=40)
        self._resize_timer.timeout.connect(self._resized)
        self._dragged = QPointF()
        self._drag = QTimer(self, interval=DRAG)
        self._drag.timeout.connect(self._drag_step)
        named(
            self,
            "transcript",
            "Conversation",
            "Prompts and answers. Left and Right move between tokens and read out the verdict, "
            f"{native_keys('Ctrl+Left')} and {native_keys('Ctrl+Right')} between rounds. Enter pins the verdict, Escape closes "
            f"it. Up, Down and Page keys scroll, {native_keys('Shift+Left')} and {native_keys('Shift+Right')} scroll code "
            f"sideways, {native_keys('Ctrl+A')} selects all, {native_keys('Ctrl+C')} copies.",
        )
        self.viewport().setCursor(Qt.CursorShape.IBeamCursor)
        self.pointing = TokenPointer(self, cursor, self)
        self.pointing.cursor.pinned.connect(self._unfold)
        self.verticalScrollBar().valueChanged.connect(self._scrolled)
        self.buttons = AnswerButtons(
            self.viewport(),
            lambda block: self.toggle_thought(block.answer),
            lambda turn: self.wanted.emit("continue", turn, False),
            self.code_moved,
        )
        self.buttons.latest.clicked.connect(self._follow_from_button)
        self.buttons.copy.clicked.connect(self.copy_answer)
        self.buttons.regenerate.clicked.connect(self.regenerate)
        self.buttons.reading.clicked.connect(self._ask_for_other_view)
        self._before_switch: tuple[list[tuple[Place, int]], int] = ([], -1)
        self.tools = MessageTools(self, self.buttons.more, self)
        self.tools.wanted.connect(self.wanted)
        self.legend = Legend(self.viewport())
        self.legend.hide()
        self.legend.chosen.connect(self.highlight)
        self.legend.show_ghosts(ghosts)
        self.set_look(theme, scale)

    @Slot()
    def _ask_for_other_view(self) -> None:
        self.buttons.reading.setChecked(self.reading)  # until the setting has changed
        self.reading_wanted.emit()

    # What is shown

    def set_look(self, theme: Theme, scale: float) -> None:
        """Sets colours and fonts and lays the whole conversation out again."""
        self.theme, self.scale = theme, scale
        self._style = Style(theme, themes.reading_font(scale), themes.mono_font(scale), highlighted=self.highlighted)
        letter = QFontMetricsF(self._style.text).horizontalAdvance(SAMPLE) / len(SAMPLE)
        self._measure, self._wide_measure = round(MEASURE * letter), round(WIDE_MEASURE * letter)
        self.legend.set_look(theme, scale)
        self.buttons.set_look(theme, scale)
        self.tools.set_look(theme, scale)
        self.rebuild()

    def set_ghosts(self, ghosts: Ghosts) -> None:
        """Sets which proposed but not accepted tokens are shown."""
        self.legend.show_ghosts(ghosts)
        super().set_ghosts(ghosts)

    @Slot(object)
    def highlight(self, kind: Kind | None) -> None:
        """Highlights the tokens of one kind, even if they are hidden otherwise, and dims the rest; None ends that."""
        self.legend.show_chosen(kind)
        super().highlight(kind)

    def set_reading(self, reading: bool) -> None:
        """Switches finished answers to the reading view or the token view; the pinned or first visible token keeps its
        position."""
        if reading == self.reading:
            return
        self.reading = reading
        kept, scrolled = self._before_switch
        if scrolled != self.verticalScrollBar().value() or self.pointing.cursor.pin_place is not None:
            kept = self.pointing.landmarks()
        if self.session.running is None:
            self.following = False
        self.rebuild(kept)
        self.following = self.following or self.at_end
        self._before_switch = (kept, self.verticalScrollBar().value())  # switching back restores the same position

    def rebuild(self, landmarks: list[tuple[Place, int]] | None = None) -> None:
        """Lays out everything again, for another width, style or conversation; keeps the scroll position."""
        self._resize_timer.stop()
        bar = self.verticalScrollBar()
        share = bar.value() / max(1, bar.maximum())
        kept = landmarks or ([] if self.following or not share else self.pointing.landmarks())  # at the top it stays there
        before = self.blocks
        self.blocks = []
        self.selection.select(None, None)
        self.sync()
        for old, new in zip(before, self.blocks, strict=False):
            if isinstance(old, AnswerBlock) and isinstance(new, AnswerBlock) and old.answer is new.answer:
                new.flow.scroll_code(old.flow.code_offsets)
        self._place_buttons()
        if not self.following:
            bar.setValue(round(share * bar.maximum()))
            self.pointing.return_to(kept)

    @Slot()
    def _resized(self) -> None:
        """Lays out everything again once resizing has ended, if the width of the column changed."""
        if self.blocks and self.blocks[-1].width != self.column.width():
            self.rebuild()

    def sync(self, only_rounds: bool = False) -> None:
        """Updates the view from the session: new turns, new rounds, another state of the newest answer.

        Args:
            only_rounds: only rounds are new, so everything keeps its position unless a line is added.
        """
        answers, known = [turn.answer for turn in self.session.turns], len(self.blocks) // 2
        if [block.answer for block in self._answer_blocks] != answers[:known]:
            self.blocks = []
            self.selection.select(None, None)
            self.pointing.cursor.forget()
            known = 0
        self.pointing.check()
        for turn in self.session.turns[known:]:
            self.blocks.append(UserBlock(self._style, self.column.width(), turn.prompt))
            self.blocks.append(AnswerBlock(self._style, self.column.width(), turn.answer, self.ghosts, self.reading))
        if (newest := self._newest) is not None:
            newest.status, newest.fraction, newest.may_move = self.status, self.fraction, self.may_move
            scrolled = self.verticalScrollBar().value()
            kept = self.pointing.landmarks() if newest.switches_view and not self.following and newest.shown else []
            if newest.switches_view:
                self.selection.select(None, None)  # offsets of the other view do not apply
            bottom = newest.top + newest.height
            newest.grow()
            grown = len(answers) != known or newest.top + newest.height != bottom
            if grown or not only_rounds or newest.fold or newest.flow.codes or newest.flow.code_scrolls:
                self._place()
            if kept:
                self.pointing.return_to(kept)
            if len(answers) == known and self.verticalScrollBar().value() == scrolled:
                rest = self.viewport().rect()
                rest.setTop(round(newest.top + newest.changed_top) - scrolled - 4)
                rest.setBottom(round(max(bottom, newest.top + newest.height)) - scrolled)
                self.viewport().update(rest)  # the text above has not changed, and there is none below
                return
        self._place()
        self.viewport().update()

    @property
    def is_moving(self) -> bool:
        """Whether verdicts are just appearing in the newest answer, so that a frame is due even if nothing arrives."""
        return self._newest is not None and bool(self._newest.motion)

    def _place(self) -> None:
        self.tools.reserve_room(self.blocks)
        dropped_turns = self.session.dropped_turns
        words = self.dropped_words
        for turn, block in enumerate(self.blocks[::2]):
            if isinstance(block, UserBlock) and block.divide(words if words and turn == dropped_turns else ""):
                self.viewport().update()
        top = TOP
        for index, block in enumerate(self.blocks):
            if index == 1 and self._shows_tokens:
                top += self.legend.heightForWidth(self.column.width()) + LEGEND_GAP
            block.top = top
            top += block.height
        bar = self.verticalScrollBar()
        bar.setPageStep(self.viewport().height())
        bar.setSingleStep(round(36 * self.scale))
        following = self.following
        bar.setRange(0, max(0, round(top) - self.viewport().height()))
        if following:
            bar.setValue(bar.maximum())
        self.following = following
        self._place_buttons()

    @property
    def dropped_words(self) -> str:
        """A note that the oldest turns did not fit into the context of the newest answer; empty if all did."""
        dropped_turns = self.session.dropped_turns
        return f"{unseen_words(dropped_turns)}: the context is too small for all" if dropped_turns else ""

    @property
    def _shows_tokens(self) -> bool:
        """Whether any answer is in the token view, whose marks the legend explains."""
        return any(isinstance(block, AnswerBlock) and not block.shows_reading_view for block in self.blocks)

    def _place_legend(self) -> None:
        """Places the legend above the first answer. While a kind is highlighted, it stays in view, because a click on it ends
        that."""
        if not self._shows_tokens:
            self.legend.hide()
            return
        width = self.column.width()
        height = self.legend.heightForWidth(width)
        y = round(self.blocks[1].top) - height - LEGEND_GAP - self.verticalScrollBar().value()
        self.legend.setGeometry(self.column.left() - LEGEND_INDENT, y if self.highlighted is None else max(0, y), width, height)
        self.legend.setVisible(self.legend.geometry().bottom() >= 0)

    def _place_buttons(self) -> None:
        self._place_legend()
        in_view, session = [*self._in_view()], self.session
        self.tools.place(in_view, round(26 * self.scale))
        self.buttons.place(
            self.column,
            self.verticalScrollBar().value(),
            self._newest,
            [(block, top) for _, block, top in in_view if isinstance(block, AnswerBlock)],
            not session.replaying and not session.read_only,
            [
                (index // 2, block, top)
                for index, block, top in in_view
                if isinstance(block, AnswerBlock) and self._can_continue(index // 2, block.answer)
            ],
        )
        self.buttons.reading.setChecked(self.reading)
        self.buttons.latest.setVisible(not self.at_end)

    def _can_continue(self, at: int, answer: Answer) -> bool:
        """Returns whether the answer of a turn ended early and can be continued now."""
        session = self.session
        here = at < len(session.turns) and session.turns[at].answer is answer
        return answer.ended_early and here and session.idle and not session.why_not_continue(at)

    def _in_view(self) -> Iterator[tuple[int, Block, float]]:
        """Yields the messages that are at least partly in view, as (index, block, y of its top in the viewport)."""
        scrolled, height = self.verticalScrollBar().value(), self.viewport().height()
        first = self._block_at(scrolled) if self.blocks else 0
        for index, block in enumerate(self.blocks[first:], first):
            if block.top > scrolled + height:
                return
            yield index, block, block.top - scrolled

    def _answers_in_view(self) -> Iterator[tuple[AnswerBlock, float]]:
        """Yields the answers that are at least partly in view, as (block, y of its top in the viewport)."""
        return ((block, top) for _, block, top in self._in_view() if isinstance(block, AnswerBlock))

    @Slot(object)
    def _unfold(self, place: Place | None) -> None:
        """Unfolds the thoughts if a token in them was pinned in another view."""
        if place is None or (block := self.answer_block(place.turn)) is None or not block.answer.folded:
            return
        spot = spot_of(place, block.answer)
        at = block.answer.text.first_of_round(place.round) if spot is None else block.answer.text.place_of(spot)
        if at is not None and at < block.answer.folded:
            self.show_thought(block.answer, shown=True)
            self.pointing.show(place)

    def unread_in_view(self) -> list[Answer]:
        """Returns the answers in view whose trace has not been loaded yet, the newest first."""
        return [block.answer for block, _ in self._answers_in_view() if block.answer.unread][::-1]

    def read_again(self, answer: Answer) -> None:
        """Rebuilds the block of an answer whose text or tokens were replaced, without moving the view."""
        found = (turn for turn, block in enumerate(self._answer_blocks) if block.answer is answer)
        if (turn := next(found, None)) is None:
            return
        before, bar = self._answer_blocks[turn], self.verticalScrollBar()
        above = before.top + before.height <= bar.value()
        block = AnswerBlock(self._style, self.column.width(), answer, self.ghosts, self.reading)
        self.blocks[2 * turn + 1] = block
        self.selection.select(None, None)
        value = bar.value()
        self._place()
        if above and not self.following:
            bar.setValue(round(value + block.height - before.height))
        self.viewport().update()

    @property
    def column(self) -> QRect:
        """The column of text in viewport coordinates."""
        return self.column_in(self.viewport().width())

    def column_in(self, whole: int, least: float = 0.0) -> QRect:
        """Returns the column in a view of this width; the message field is aligned with it.

        Args:
            least: minimum width in pixels at text scale 1, if the view is wide enough, for contents wider than text.
        """
        margin = 44 if whole > 620 else 18
        measure = max(self._measure, min(self._wide_measure, round(0.6 * whole)))
        width = max(120, min(whole - 2 * margin, max(measure, round(least * self.scale))))
        return QRect((whole - width) // 2, 0, width, self.viewport().height())

    @property
    def _answer_blocks(self) -> list[AnswerBlock]:
        return [block for block in self.blocks if isinstance(block, AnswerBlock)]

    @property
    def _newest(self) -> AnswerBlock | None:
        return self.answer_block(len(self.blocks) // 2 - 1)

    def answer_block(self, turn: int) -> AnswerBlock | None:
        """Returns the block of a turn's answer."""
        block = self.blocks[2 * turn + 1] if 0 <= 2 * turn + 1 < len(self.blocks) else None
        return block if isinstance(block, AnswerBlock) else None

    def turn_at(self, y: float) -> tuple[int, AnswerBlock] | None:
        """Returns the answer at a height of the document, with the index of its turn."""
        index = self._block_at(y) if self.blocks else 0
        block = self.answer_block(index // 2) if index % 2 else None
        return None if block is None else (index // 2, block)

    # Scrolling

    def follow(self) -> None:
        """Scrolls to the end and follows new text."""
        self.following = True
        self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())
        self.buttons.latest.hide()

    def top_of(self, index: int, offset: int) -> float:
        """Returns the y of a letter of a block in the document, in pixels."""
        block = self.blocks[index]
        return block.top + block.origin.y() + block.flow.chunks[block.flow.chunk_of(offset)].top

    def go_to_range(self, index: int, start: int, end: int) -> None:
        """Selects a range of a block and scrolls to it."""
        self.selection.select((index, start), (index, end))
        bar, top = self.verticalScrollBar(), self.top_of(index, start)
        if not bar.value() + TOP <= top <= bar.value() + self.viewport().height() - 3 * TOP:
            self.following = False
            bar.setValue(round(top - self.viewport().height() / 3))
        flow = self.blocks[index].flow
        if flow.reveal(flow.area_of(start, end)):
            self.code_moved()
        self.viewport().update()

    def go_to(self, turn: int, prompt: bool) -> None:
        """Scrolls to the prompt of a turn, or to its answer."""
        index = 2 * turn + (not prompt)
        if index < len(self.blocks):
            self.following = False
            self.verticalScrollBar().setValue(round(self.blocks[index].top - TOP))

    def _follow_from_button(self) -> None:
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        self.follow()

    def _scrolled(self) -> None:
        self.following = self.at_end
        self.pointing.leave()
        self._place_buttons()
        self.viewport().update()
        self.scrolled.emit()

    # Scrolling code sideways

    def code_moved(self) -> None:
        """Repaints after a code block was scrolled sideways."""
        self.pointing.leave()
        self._place_buttons()
        self.viewport().update()
        self.code_scrolled.emit()

    def _code_scroll_for_keys(self) -> CodeScroll | None:
        """Returns the scrollable code block that contains the cursor, or else the first one in view."""
        area, height = self.pointing.area(self.pointing.cursor.place), self.viewport().height()
        hit = None if area.isEmpty() or not 0 <= area.center().y() < height else self.hit(area.center().toPointF())
        if hit is not None and hit.code_scroll is not None:
            return hit.code_scroll
        for block, top in self._answers_in_view():
            for scroll in block.flow.code_scrolls if block.shown else ():
                if top + block.origin.y() + scroll.bottom > 0 and top + block.origin.y() + scroll.top < height:
                    return scroll
        return None

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scrolls the code block under the pointer sideways, with Shift or by a horizontal wheel or touchpad; otherwise the
        conversation."""
        delta, point = event.angleDelta(), event.position()
        shifted = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        by = delta.x() or (delta.y() if shifted else 0)
        hit = self.hit(point) if abs(by) > (0 if shifted else abs(delta.y())) else None
        scroll = None if hit is None else hit.code_scroll
        if scroll is None or not scroll.left <= point.x() - self.column.left() <= scroll.right:
            super().wheelEvent(event)
            return
        lines = by / 120 * QApplication.wheelScrollLines()
        if scroll.move(scroll.offset - lines * self.verticalScrollBar().singleStep()):
            self.code_moved()
        event.accept()

    # Selection

    def hit(self, point: QPointF) -> Hit | None:
        """Returns what is at a point of the viewport; None in an empty conversation."""
        if not self.blocks:
            return None
        y = point.y() + self.verticalScrollBar().value()
        index = self._block_at(y)
        return Hit(index, self.blocks[index], QPointF(point.x() - self.column.left(), y - self.blocks[index].top))

    def _block_at(self, y: float) -> int:
        """Returns the index of the block at a height of the document, or of the nearest one."""
        return max(0, bisect_right(self.blocks, y, key=lambda block: block.top) - 1)

    def selected_text(self) -> str:
        """The selected text without ghosts; turns are separated by a blank line."""
        return self.selection.text(self.blocks)

    def select_all(self) -> None:
        """Selects everything from the first prompt to the end of the newest answer."""
        if self.blocks:
            self.selection.select((0, 0), (len(self.blocks) - 1, self.blocks[-1].flow.length))
            self.viewport().update()

    def copy(self) -> None:
        """Copies the selected text; leaves the clipboard alone if nothing is selected."""
        if text := self.selected_text():
            QGuiApplication.clipboard().setText(text)

    def copy_answer(self) -> None:
        """Copies the newest answer to the clipboard, without rejected proposals and without thoughts. An answer that consists of
        thoughts alone is copied whole."""
        if self._newest is not None:
            text = self._newest.answer.text
            QGuiApplication.clipboard().setText(text.answer or text.text)

    # Qt

    def paint_content(self, painter: QPainter, area: QRect) -> None:
        """Paints the blocks in an area of the viewport, and outlines the tokens that are pinned or pointed at."""
        column = self.column
        for index, block, top in self._in_view():
            if top > area.bottom() or top + block.height < area.top():
                continue
            painter.save()
            painter.translate(column.left(), top)
            clip = QRectF(area).translated(-column.left(), -top)
            block.paint(painter, clip, self.selection.within(index, block.flow.length))
            painter.restore()
        self.pointing.paint(painter)

    def viewportEvent(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            hit = self.hit(QPointF(event.pos()))
            QToolTip.showText(event.globalPos(), "" if hit is None else hit.explanation, self.viewport())
            return True
        return super().viewportEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        if event.size().width() != event.oldSize().width():
            if event.oldSize().width() <= 0 or not self.blocks:
                self.rebuild()
            else:
                self._resize_timer.start()
                self._place_buttons()  # the column moves before the text is laid out
        else:
            self._place()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            hit = self.hit(event.position())
            position = None if hit is None else hit.position
            if event.modifiers() & Qt.KeyboardModifier.ShiftModifier and self.selection.anchor is not None:
                self._pressed = None  # this selects
            else:
                self.selection.anchor, self._pressed = position, event.position()
            self.selection.end = position
            self.viewport().update()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if event.buttons() & Qt.MouseButton.LeftButton and self.selection.anchor is not None:
            self._dragged = event.position()
            self._drag_step()
        elif not event.buttons():
            self.pointing.hover(event.position())
            hit = self.hit(event.position())
            is_button = hit is not None and bool(hit.figure or hit.link_to_open)
            self.viewport().setCursor(Qt.CursorShape.PointingHandCursor if is_button else Qt.CursorShape.IBeamCursor)

    def _drag_step(self) -> None:
        """Extends the selection to the pointer. Beyond an edge of the view or of a scrollable code block, it also scrolls in
        steps."""
        bar, point, height = self.verticalScrollBar(), self._dragged, self.viewport().height()
        down = -1 if point.y() < 0 else 1 if point.y() > height else 0
        bar.setValue(bar.value() + down * bar.singleStep())
        hit = self.hit(QPointF(point.x(), min(max(0.0, point.y()), height - 1.0)))
        scroll = None if hit is None else hit.code_scroll
        x = point.x() - self.column.left()
        aside = 0 if scroll is None else -1 if x < scroll.left else 1 if x > scroll.right else 0
        if scroll is not None and scroll.move(scroll.offset + aside * bar.singleStep()):
            self.code_moved()
        if down or aside:
            self._drag.start()
        else:
            self._drag.stop()
        hit = self.hit(point)
        self.selection.end = None if hit is None else hit.position
        self.viewport().update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._drag.stop()
        pressed, self._pressed = self._pressed, None
        if pressed is not None and (event.position() - pressed).manhattanLength() < QApplication.startDragDistance():
            hit = self.hit(event.position())
            if hit is not None and hit.figure:
                self.figure_wanted.emit(hit.turn, hit.figure, event.globalPosition().toPoint() + QPoint(0, 12))
            elif hit is not None and hit.link_to_open:
                self.link_wanted.emit(hit.link_to_open)
            else:
                self.pointing.click(event.position())

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        if (hit := self.hit(event.position())) is None:
            return
        self.pointing.let_go()  # the first click has pinned a token
        start, end = hit.block.flow.word_at(hit.position[1])
        self.selection.select((hit.index, start), (hit.index, end))
        self.viewport().update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        bar = self.verticalScrollBar()
        moves = {
            Qt.Key.Key_Up: bar.value() - bar.singleStep(),
            Qt.Key.Key_Down: bar.value() + bar.singleStep(),
            Qt.Key.Key_PageUp: bar.value() - bar.pageStep(),
            Qt.Key.Key_PageDown: bar.value() + bar.pageStep(),
            Qt.Key.Key_Space: bar.value() + bar.pageStep(),
            Qt.Key.Key_Home: 0,
            Qt.Key.Key_End: bar.maximum(),
        }
        if self.pointing.key(event):
            return
        aside = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()))
        if aside is not None and event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier == Qt.KeyboardModifier.ShiftModifier:
            scroll = self._code_scroll_for_keys()
            if scroll is not None and scroll.move(scroll.offset + aside * bar.singleStep()):
                self.code_moved()
            return
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif event.matches(QKeySequence.StandardKey.SelectAll):
            self.select_all()
        elif (target := moves.get(Qt.Key(event.key()))) is not None:
            bar.setValue(target)
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        menu, hit = QMenu(self), self.hit(QPointF(event.pos()))
        menu.addAction("Copy", self.copy).setEnabled(bool(self.selection))
        menu.addAction("Select all", self.select_all).setEnabled(hit is not None)
        if hit is not None and hit.code:
            menu.addAction("Copy code", partial(QGuiApplication.clipboard().setText, hit.code))
        if hit is not None and hit.link:
            menu.addSeparator()
            menu.addAction("Open link…", partial(self.link_wanted.emit, hit.link))
            menu.addAction("Copy link", partial(QGuiApplication.clipboard().setText, hit.link))
        if hit is not None and hit.answer is not None and hit.answer.fold:
            answer = hit.answer.answer
            menu.addAction(thought_action(answer), partial(self.toggle_thought, answer))
        menu.addSeparator()
        menu.addAction("Show tokens" if self.reading else "Reading view", self.reading_wanted.emit)
        if hit is not None:
            menu.addSeparator()
            self.tools.fill(menu, (hit.turn, hit.answer is None))
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(event.globalPos())
