"""The base class of the conversation and of a comparison's columns: a painted view of answers whose tokens can be pointed at."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QEvent, QPointF, QRect, QSize, Qt, Signal, Slot
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QWheelEvent
from PySide6.QtWidgets import QToolButton, QWidget

from app.conversation.blocks import AnswerBlock
from app.conversation.letter_formats import Style
from app.look import theme as themes
from app.look.marks import PaintedView, draw_focus_frame
from app.look.theme import DARK, Theme
from app.look.widgets import named, tint
from app.session.cursor import Place
from app.session.session import Answer, Session
from app.session.token_navigation import token_at
from app.verdict.verdict import Verdict, judge
from engine.lens.pieces import Ghosts, Kind, hidden_kinds


class AnswerView(PaintedView):
    """Lays text out in a column and scrolls up and down.

    Attributes:
        following: whether new text keeps the end in view. It stops when the user scrolls away and resumes at the end.

    Signals:
        left: the mouse pointer has left the text.
    """

    left = Signal()

    def __init__(self, session: Session, ghosts: Ghosts = "all") -> None:
        super().__init__()
        self.session = session
        self.theme: Theme = DARK
        self.scale = 1.0
        self.ghosts = ghosts
        self.highlighted: Kind | None = None
        self.following = True
        self.accessible: object = None
        self._style = Style(DARK, themes.reading_font(1.0), themes.mono_font(1.0))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setMouseTracking(True)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)  # `paintEvent` fills it

    @property
    def hidden(self) -> frozenset[Kind]:
        """The kinds of tokens that are left out of the text."""
        return hidden_kinds(self.ghosts, self.highlighted)

    @property
    def at_end(self) -> bool:
        """Whether the end is in view, within 4 pixels. `following` says whether the view scrolls along with new text."""
        return self.verticalScrollBar().value() >= self.verticalScrollBar().maximum() - 4

    @property
    def column(self) -> QRect:
        """The column of text in viewport coordinates."""
        raise NotImplementedError

    def answer_block(self, turn: int) -> AnswerBlock | None:
        """Returns the block of a turn's answer, by the turn's index in the session; None if there is none."""
        raise NotImplementedError

    def corner_of(self, block: AnswerBlock) -> QPointF:
        """Returns the top left corner of the text of a block in the viewport."""
        return QPointF(self.column.left(), block.top - self.verticalScrollBar().value()) + block.origin

    def turn_at(self, y: float) -> tuple[int, AnswerBlock] | None:
        """Returns the answer at a height of the document in pixels, as (index of its turn, its block); None between answers."""
        raise NotImplementedError

    def verdict_at(self, place: Place | None) -> Verdict | None:
        """Returns the verdict on the token at a place; None for a whole round and for a place that the turns lack."""
        found = token_at(self.session.turns, place)
        return None if found is None else judge(*found)

    def rebuild(self) -> None:
        """Lays out everything again, for another width or style."""
        raise NotImplementedError

    def set_ghosts(self, ghosts: Ghosts) -> None:
        """Sets which proposed but not accepted tokens are shown."""
        self.ghosts = ghosts
        self.rebuild()

    @Slot(object)
    def highlight(self, kind: Kind | None) -> None:
        """Highlights the tokens of one kind, even if they are usually hidden, and dims the rest; None ends that."""
        self.highlighted = kind
        self._style = replace(self._style, highlighted=kind)
        self.rebuild()

    def show_thought(self, answer: Answer, shown: bool) -> None:
        """Shows or folds the thoughts of an answer without moving their line."""
        bar, answer.shows_thought = self.verticalScrollBar(), shown
        value, self.following = bar.value(), False
        self.rebuild()
        bar.setValue(value)
        self.following = self.at_end

    def toggle_thought(self, answer: Answer) -> None:
        """Shows the thoughts of an answer if they are folded, and folds them if they are shown."""
        self.show_thought(answer, not answer.shows_thought)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.fillRect(event.rect(), QColor(self.theme.background))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self.paint_content(painter, event.rect())
        if self.has_keyboard_focus:
            draw_focus_frame(painter, self.viewport().rect().adjusted(1, 1, -2, -2), self.theme)
        painter.end()

    def paint_content(self, painter: QPainter, area: QRect) -> None:
        """Paints the part of the text that is in an area of the viewport, on the background."""
        raise NotImplementedError

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Leave:
            self.left.emit()
        return super().viewportEvent(event)

    def code_moved(self) -> None:
        """Repaints after a code block was scrolled sideways."""
        self.viewport().update()

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.angleDelta().y() > 0:
            self.following = False
        super().wheelEvent(event)


class ThoughtButton(QToolButton):
    """The line above an answer that says how long the model thought first; a press shows or folds the thoughts."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, toolButtonStyle=Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        named(self, "thoughtButton")
        self.setCursor(Qt.CursorShape.ArrowCursor)
        self.hide()

    def set_look(self, theme: Theme, scale: float) -> None:
        """Draws the arrow in the theme's colours, a little smaller than the text."""
        if self.property("drawing"):
            tint(self, theme, scale)
            self.setIconSize(QSize(round(13 * scale), round(13 * scale)))

    def show_answer(self, answer: Answer, theme: Theme, scale: float) -> None:
        """Says how long the model thought before this answer."""
        drawing = "chevron" if answer.shows_thought else "chevron-right"
        if self.property("drawing") != drawing:
            self.setProperty("drawing", drawing)
            self.set_look(theme, scale)
        if self.text() != answer.thought_words:
            self.setText(answer.thought_words)
        words = thought_action(answer)
        named(self, label=answer.thought_words, description=words, tip=words)

    def place(self, column: QRect, top: float, height: float, scale: float) -> None:
        """Moves the button to a height of the viewport, with its arrow in line with the column's text."""
        width = min(self.sizeHint().width(), column.width())
        self.setGeometry(column.left() - round(12 * scale), round(top), width, round(height))


def thought_action(answer: Answer) -> str:
    """Returns the caption of the action that shows or folds the thoughts of an answer."""
    return "Fold the thoughts away" if answer.shows_thought else "Show the thoughts"
