"""The text of one column of a comparison: its tokens and marks, the mark where it diverges, scrolling, and what a screen reader
reads of it."""

from __future__ import annotations

from bisect import bisect_left

from PySide6.QtCore import QObject, QPointF, QRect, QRectF, QSize, Qt, Signal, Slot
from PySide6.QtGui import (
    QAccessible,
    QAccessibleInterface,
    QColor,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QAccessibleWidget

from app.compare.comparison import Column
from app.compare.comparison import Kind as Difference
from app.conversation.answer_view import AnswerView, ThoughtButton
from app.conversation.blocks import AnswerBlock
from app.conversation.chunks import lines_of
from app.conversation.letter_formats import Style
from app.conversation.token_pointer import TokenPointer
from app.look import theme as themes
from app.look.marks import faded
from app.look.theme import Theme
from app.session.cursor import Cursor
from app.session.session import Answer, Session
from app.session.token_navigation import place_of
from engine.lens.pieces import Ghosts, Kind, Piece, Spot


class CompareTextInterface(QAccessibleWidget):
    """Exposes the text as a document whose value is the answer without ghosts."""

    def __init__(self, text: CompareText) -> None:
        super().__init__(text, QAccessible.Role.Document, text.accessibleName())

    def text(self, kind: QAccessible.Text) -> str:
        """Returns the whole answer as the value; name and description are those of the widget."""
        thing = self.object()
        if kind == QAccessible.Text.Value and isinstance(thing, CompareText):
            return thing.plain_text()
        return super().text(kind)


def _factory(_: str, thing: QObject) -> QAccessibleInterface | None:
    if not isinstance(thing, CompareText):
        return None
    # Qt keeps the C++ interface as long as the widget, but not its Python half: the widget holds it.
    thing.accessible = CompareTextInterface(thing)
    return thing.accessible


def install() -> None:
    """Makes the columns accessible to screen readers; call once per process."""
    QAccessible.installFactory(_factory)


LEFT, RIGHT, TOP = 28, 14, 12.0
GUTTER = 12.0
BELOW = 10.0
"""Pixels below the last line."""
SHOWN_AT = 0.35
"""Vertical position of a token scrolled into view, relative to the height of the view."""


class TextBlock(AnswerBlock):
    """An answer without the lines above and below it, whose content the column shows elsewhere.

    Columns are compared token by token, so the text is not laid out as Markdown.

    Attributes:
        revealed: proposals that are in the text whatever the ghost setting: those rejected where the texts diverge.
    """

    markdown = False

    def __init__(self, style: Style, width: float, answer: Answer, ghosts: Ghosts, revealed: frozenset[Spot]) -> None:
        self.revealed = revealed
        super().__init__(style, width, answer, ghosts)

    def shows(self, piece: Piece, hidden: frozenset[Kind]) -> bool:
        """Returns whether a piece is in the text."""
        return piece.spot in self.revealed or super().shows(piece, hidden)

    @property
    def fold(self) -> float:
        """Height of the line that says how long the model thought; 0 if it did not."""
        return QFontMetricsF(self.small).height() + 12 if self.answer.has_thought else 0.0

    @property
    def line(self) -> float:
        """Height of the footer line in pixels: none here."""
        return 0.0

    @property
    def head(self) -> float:
        """Height of the lines above the text: none here."""
        return 0.0

    def paint(self, painter: QPainter, clip: QRectF, selection: tuple[int, int] | None) -> None:
        """Paints only the text. `clip` is relative to the block; `selection` is the selected (start, end) offsets."""
        if self.shown:
            self._paint_flow(painter, clip, selection)


class CompareText(AnswerView):
    """Shows the answer of one column. Call `sync` after it has grown.

    Attributes:
        following: whether the view scrolls along with new text.

    Signals:
        scrolled: the user has scrolled.
    """

    scrolled = Signal()

    def __init__(self, cursor: Cursor) -> None:
        super().__init__(Session())
        self.run: Column | None = None
        self.words = ""
        self._block: TextBlock | None = None
        self._mark: tuple[int, Difference] | None = None
        self._revealed: frozenset[Spot] = frozenset()
        self._moving = False
        self.pointing = TokenPointer(self, cursor, self)
        self.thought = ThoughtButton(self.viewport())
        self.thought.clicked.connect(self._toggle_thought)
        self.setObjectName("compareText")
        self.setAccessibleDescription(
            "Left and Right move from token to token in every column, Enter pins one, Page Up and Page Down scroll all columns."
        )
        self.verticalScrollBar().valueChanged.connect(self._scrolled)

    # Content.

    def show_run(self, run: Column | None) -> None:
        """Shows another column of a comparison; None for none yet."""
        self.run = run
        self.session = Session() if run is None else run.session
        if run is not None:
            run.answer.shows_thought = False
        self._mark, self._revealed, self.following = None, frozenset(), True
        self.rebuild()

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies colours and fonts and lays out the text again, a little smaller than in the conversation."""
        self.theme, self.scale = theme, scale
        self._style = Style(
            theme, themes.reading_font(scale * 14 / 15), themes.mono_font(scale, 12.5), highlighted=self.highlighted
        )
        self.thought.set_look(theme, scale)
        self.rebuild()

    def set_mark(self, position: int | None, kind: Difference) -> None:
        """Marks the position where the text diverges from another column, with the kind of the difference."""
        mark = None if position is None else (position, kind)
        if mark != self._mark:
            self._mark = mark
            if position is not None:
                self._unfold(position)
            self.viewport().update()

    def reveal_rejected(self, position: int | None) -> None:
        """Shows the rejected proposals for a position of the answer, and hides those shown before."""
        found = self.run.rejected_at(position) if self.run is not None and position is not None else ()
        revealed = frozenset(found)
        if revealed != self._revealed:
            self._revealed = revealed
            self.rebuild()

    def rebuild(self) -> None:
        """Lays out everything again, for another width or style."""
        self._block = None
        if self.run is not None:
            self._block = TextBlock(self._style, self.column.width(), self.run.answer, self.ghosts, self._revealed)
        self.sync()
        self.viewport().update()  # repaints all: `sync` repaints only what is new

    def sync(self) -> None:
        """Lays out the rounds that were added since the last call."""
        bar, unchanged = self.verticalScrollBar(), 0.0
        scrolled, shown = bar.value(), self._block is not None and self._block.shown > 0
        if self._block is not None:
            self._block.top = TOP
            self._block.grow()
            unchanged = TOP + self._block.changed_top
        height = 0 if self._block is None else round(self._block.top + self._block.origin.y() + self._block.flow.height + BELOW)
        bar.setPageStep(self.viewport().height())
        bar.setSingleStep(round(30 * self.scale))
        self._moving = True
        bar.setRange(0, max(0, height - self.viewport().height()))
        if self.following:
            bar.setValue(bar.maximum())
        self._moving = False
        area = self.viewport().rect()
        if shown and bar.value() == scrolled:
            area.setTop(round(unchanged) - scrolled - 6)  # the text above has not changed
        self._place_thought()
        self.viewport().update(area)

    # Thoughts.

    @Slot()
    def _toggle_thought(self) -> None:
        if self.run is not None:
            self.toggle_thought(self.run.answer)

    def _place_thought(self) -> None:
        """Places the button above the answer that shows how long the model thought."""
        block = self._block
        self.thought.setVisible(block is not None and block.fold > 0)
        if block is not None and block.fold:
            self.thought.show_answer(block.answer, self.theme, self.scale)
            self.thought.place(self.column, round(block.top) - self.verticalScrollBar().value(), block.fold, self.scale)

    def _is_folded(self, position: int) -> bool:
        """Returns whether an answer position is in a folded thought."""
        if self.run is None or position >= len(self.run.spots):
            return False
        answer = self.run.answer
        place = answer.text.place_of(self.run.spots[position])
        return place is not None and place < answer.folded

    def _unfold(self, position: int) -> None:
        """Shows the thought if an answer position is in it."""
        if self.run is not None and self._is_folded(position):
            self.show_thought(self.run.answer, shown=True)

    def sizeHint(self) -> QSize:
        return QSize(240, round(110 * self.scale))

    def plain_text(self) -> str:
        """Returns the answer as plain text, for screen readers."""
        return "" if self.run is None else self.run.answer.text.text

    # For the token pointer.

    @property
    def column(self) -> QRect:
        """Rectangle of the text in the viewport."""
        return QRect(LEFT, 0, max(60, self.viewport().width() - LEFT - RIGHT), self.viewport().height())

    def answer_block(self, turn: int) -> AnswerBlock | None:
        """Returns the block of the answer for turn 0, the only one in a column; None for any other, or before there is a run."""
        return self._block if turn == 0 else None

    def turn_at(self, y: float) -> tuple[int, AnswerBlock] | None:
        """Returns (0, block) at any height, since a column shows one answer; None before there is a run."""
        return None if self._block is None else (0, self._block)

    # Linked scrolling.

    @property
    def anchor(self) -> tuple[int, float] | None:
        """(position, offset): the first answer position at the upper edge, and how far below the edge its line begins, in line
        heights. None before the first token."""
        if self.run is None or not self.run.spots:
            return None
        first = bisect_left(range(len(self.run.spots) - 1), 0.0, key=self._top_of)
        return first, self._top_of(first) / self._line

    def scroll_to(self, position: int, lines: float) -> None:
        """Scrolls so that the line with a token (`position` counts tokens) is `lines` line heights below the upper edge. Beyond
        the last token, that one counts."""
        if self.run is None or not self.run.spots:
            return
        bar = self.verticalScrollBar()
        top = self._top_of(min(position, len(self.run.spots) - 1))
        self._moving = True
        bar.setValue(round(bar.value() + top - lines * self._line))
        self._moving = False
        self.following = self.at_end

    def scroll_into_view(self, position: int) -> None:
        """Scrolls an answer position into view."""
        self._unfold(position)
        self.scroll_to(position, SHOWN_AT * self.viewport().height() / self._line)
        self.following = False

    @property
    def _line(self) -> float:
        return self._style.text.pixelSize() * 1.7

    def _top_of(self, position: int) -> float:
        """Returns the upper edge of a token in viewport coordinates; for a token in a folded thought, that of its button."""
        if self._is_folded(position):
            return TOP - self.verticalScrollBar().value()
        boxes = self._boxes(position)
        return boxes[0].top() if boxes else 0.0

    def _boxes(self, position: int) -> list[QRectF]:
        assert self.run is not None
        return self.pointing.boxes(place_of(0, self.run.spots[position])) if position < len(self.run.spots) else []

    def _scrolled(self) -> None:
        self._place_thought()
        self.viewport().update()
        if not self._moving:
            self.following = self.at_end
            self.scrolled.emit()

    # Painting.

    def paint_content(self, painter: QPainter, area: QRect) -> None:
        """Paints the text with the line on its left, or the placeholder."""
        block = self._block
        if block is None or not block.shown:
            self._paint_words(painter)
            return
        self._paint_gutter(painter, block)
        painter.save()
        shift = QPointF(self.column.left(), block.top - self.verticalScrollBar().value())
        painter.setClipRect(QRectF(0, 0, self.viewport().width(), self._whole_lines(block)))
        painter.translate(shift)
        block.paint(painter, QRectF(area).translated(-shift), None)
        painter.restore()
        self.pointing.paint(painter)

    def _whole_lines(self, block: TextBlock) -> float:
        """Returns the end of the last line that is completely visible, so that the lower edge cuts no line."""
        height, scrolled = float(self.viewport().height()), block.top + block.origin.y() - self.verticalScrollBar().value()
        chunk = block.flow.chunks[block.flow.chunk_at(height - scrolled)]
        for line in lines_of(chunk):
            top = scrolled + chunk.top + line.y()
            if top < height < top + line.height() and top > 0:
                return top - 2
        return height

    def _paint_words(self, painter: QPainter) -> None:
        """Paints the placeholder: what the column waits for, or what went wrong."""
        painter.setFont(self._style.text)
        painter.setPen(QColor(self.theme.dim))
        area = QRectF(self.column).adjusted(0, TOP, 0, 0)
        painter.drawText(area, int(Qt.TextFlag.TextWordWrap | Qt.AlignmentFlag.AlignLeft), self.words)

    def _paint_gutter(self, painter: QPainter, block: TextBlock) -> None:
        """Paints a line to the left of the text: solid as far as the text equals that of the column it is compared with, dotted
        from the first different token on. That token gets a background."""
        scrolled = self.verticalScrollBar().value()
        top = block.top - scrolled
        end = top + block.origin.y() + block.flow.height
        parts = self._boxes(self._mark[0]) if self._mark is not None else []
        middle = parts[0].center().y() if parts else end
        painter.setPen(QPen(QColor(self.theme.agreed), 2))
        painter.drawLine(QPointF(GUTTER, top + 2), QPointF(GUTTER, middle - (8 if parts else 0)))
        if not parts or self._mark is None:
            return
        colour = mark_colour(self._mark[1], self.theme)
        dotted = QPen(colour, 2, Qt.PenStyle.CustomDashLine)
        dotted.setDashPattern([0.01, 2.6])
        dotted.setCapStyle(Qt.PenCapStyle.RoundCap)
        painter.setPen(dotted)
        painter.drawLine(QPointF(GUTTER, middle + 9), QPointF(GUTTER, end))
        painter.setPen(QPen(colour, 2))
        for y in (-2.5, 2.5):  # a not-equal sign
            painter.drawLine(QPointF(GUTTER - 5, middle + y), QPointF(GUTTER + 5, middle + y))
        painter.drawLine(QPointF(GUTTER + 3, middle - 7), QPointF(GUTTER - 3, middle + 7))
        for box in parts:
            painter.fillRect(box.adjusted(0, -2, 0, 3), faded(colour, 60))
            painter.fillRect(QRectF(box.left() - 1, box.top() - 3, 2, box.height() + 6), colour)

    # Qt events.

    def resizeEvent(self, event: QResizeEvent) -> None:
        if event.size().width() != event.oldSize().width():
            self.rebuild()
        else:
            self.sync()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self.pointing.hover(event.position())

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self.pointing.click(event.position())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        bar = self.verticalScrollBar()
        if self.pointing.key(event):
            return
        if event.key() in (Qt.Key.Key_Home, Qt.Key.Key_End):
            bar.setValue(0 if event.key() == Qt.Key.Key_Home else bar.maximum())
        else:
            super().keyPressEvent(event)


def mark_colour(kind: Difference, theme: Theme) -> QColor:
    """Returns the colour of a difference: expected, near-tie, or fault. Its words give the same information."""
    return QColor({"unexpected": theme.rejected, "near-tie": theme.text}.get(kind, theme.accent))
