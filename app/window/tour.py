"""A short tour: a card that moves from one part of the window to the next and explains it. It can be left at any time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QRectF, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QColor, QPaintEvent, QPen
from PySide6.QtWidgets import QFrame, QLabel, QWidget

from app.conversation.legend import Legend
from app.look.command import native_keys
from app.look.marks import smooth_painter
from app.look.theme import Theme
from app.look.widgets import in_column, in_row, named, push_button
from app.panel.panel import SidePanel
from app.sidebar.sidebar import Sidebar
from app.window.chat_column import ChatColumn
from app.window.header import Header

WIDTH, GAP, EDGE = 380, 14, 10


@dataclass(frozen=True, slots=True)
class Stop:
    """One stop of the tour.

    Attributes:
        target: returns the widget that this stop explains; None if the widget is hidden, which skips the stop.
        shows_legend: whether the card shows the legend of token marks.
    """

    title: str
    text: str
    target: Callable[[], QWidget | None]
    shows_legend: bool = False


def tour_stops(header: Header, column: ChatColumn, panel: SidePanel, sidebar: Sidebar) -> tuple[Stop, ...]:
    """Returns the stops. The lens comes early: it is what sets Draftlight apart."""
    return (
        Stop(
            "Ask something",
            "A small drafter proposes several tokens at a time, and your model judges them in one pass. What you read is the "
            "text of your model.",
            lambda: column.composer.frame,
        ),
        Stop(
            "The lens",
            "Every token of an answer shows what became of it. Rest the pointer on one for the reason; click it to choose "
            f"another and branch off there. {native_keys('Ctrl+G')} shows fewer marks, {native_keys('F6')} none.",
            lambda: column.stack,
            shows_legend=True,
        ),
        Stop(
            "Rules",
            "How proposals are judged. Change the rule while an answer runs and watch what happens. Whichever you choose, "
            "the model's output distribution stays the same. “Rejection against Gumbel” on the first screen shows what differs.",
            lambda: header.rule,
        ),
        Stop(
            "Rounds and charts",
            "The same rounds over time, as charts and as a table, and what another rule would have accepted. "
            f"{native_keys('F3')} hides them.",
            lambda: _if_shown(panel),
        ),
        Stop(
            "Your chats",
            "Everything is kept on this computer only: answers with their rounds and other versions, and for 30 days what you "
            "delete.",
            lambda: _if_shown(sidebar),
        ),
        Stop(
            "Everything else",
            f"This menu has all commands. {native_keys('Ctrl+K')} finds them by name, and {native_keys('F1')} lists the keys. "
            "The tour is under Help.",
            lambda: header.menu,
        ),
    )


def _if_shown(widget: QWidget) -> QWidget | None:
    return widget if widget.isVisible() else None


class Outline(QWidget):
    """Draws a frame around the explained widget; transparent to the mouse."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.colour = QColor()
        self.hide()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = smooth_painter(self)
        painter.setPen(QPen(self.colour, 3))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(2, 2, -2, -2), 9, 9)
        painter.end()


class Tour(QFrame):
    """Signals:
    ended: the tour was finished or left.
    """

    ended = Signal()

    def __init__(self, window: QWidget, stops: Sequence[Stop]) -> None:
        super().__init__(window)
        self._window, self._stops, self._index = window, stops, 0
        self._active_stops: list[Stop] = []
        named(self, "tour", "Tour")
        self.outline = Outline(window)
        self.title = named(QLabel(), "cardTitle")
        self.text = QLabel(wordWrap=True)
        self.legend = named(Legend(), "tourLegend")
        self.legend.setEnabled(False)
        self.position = named(QLabel(), "verdictHint")
        self.skip = push_button("Skip", "quietButton", self.end)
        self.back = push_button("Back", "quietButton", self.go_back)
        self.forward = push_button("Next", "quietButton", self.go_on)
        in_column(
            self.title,
            self.text,
            self.legend,
            in_row((self.position, 1), self.skip, self.back, self.forward, spacing=8),
            spacing=8,
            margins=(18, 14, 18, 14),
            parent=self,
        )
        self._reposition_timer = QTimer(self, singleShot=True, interval=0)  # after the window's layout
        self._reposition_timer.timeout.connect(self._reposition)
        window.installEventFilter(self)
        self.hide()

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies colours and text scale."""
        self.outline.colour = QColor(theme.accent)
        self.legend.set_look(theme, scale)
        self.setFixedWidth(round(WIDTH * scale))
        if self.isVisible():
            self._show()

    def begin(self) -> None:
        """Shows the first stop."""
        self._active_stops = [stop for stop in self._stops if stop.target() is not None]
        self._index = 0
        self._show()
        self.forward.setFocus(Qt.FocusReason.OtherFocusReason)

    @Slot()
    def go_on(self) -> None:
        """Shows the next stop; ends the tour after the last."""
        self._index += 1
        self.end() if self._index >= len(self._active_stops) else self._show()

    @Slot()
    def go_back(self) -> None:
        """Shows the previous stop."""
        self._index = max(0, self._index - 1)
        self._show()

    @Slot()
    def end(self) -> None:
        """Ends the tour."""
        self.hide()
        self.outline.hide()
        self.ended.emit()

    def _show(self) -> None:
        stop = self._active_stops[self._index]
        target = stop.target()
        last = self._index == len(self._active_stops) - 1
        self.title.setText(stop.title)
        self.text.setText(stop.text)
        self.setAccessibleDescription(f"{stop.title}. {stop.text}")
        self.legend.setVisible(stop.shows_legend)
        self.position.setText(f"{self._index + 1} of {len(self._active_stops)}")
        self.back.setEnabled(self._index > 0)
        self.skip.setVisible(not last)
        self.forward.setText("Done" if last else "Next")
        layout = self.layout()
        assert layout is not None
        layout.activate()
        self.resize(self.width(), layout.totalHeightForWidth(self.width()))
        area = self._window.rect()
        is_visible = target is not None and target.isVisible()  # the window may have become narrower or show another page
        if target is not None and is_visible:
            area = QRect(target.mapTo(self._window, QPoint(0, 0)), target.size()).intersected(area)
            self.outline.setGeometry(area.adjusted(-3, -3, 3, 3).intersected(self._window.rect()))
        self.move(self._corner(area))
        self.outline.setVisible(is_visible)
        self.show()
        for part in (self.outline, self):
            part.raise_()
        self.outline.update()

    @Slot()
    def _reposition(self) -> None:
        if self.isVisible():
            self._show()

    def _corner(self, area: QRect) -> QPoint:
        """Returns the card's corner: below, above, left or right of the widget, whichever first has room; else inside it at the
        bottom."""
        available = self._window.rect().adjusted(EDGE, EDGE, -EDGE, -EDGE)
        size = self.size()
        x = max(available.left(), min(area.center().x() - size.width() // 2, available.right() - size.width()))
        y = max(available.top(), min(area.center().y() - size.height() // 2, available.bottom() - size.height()))
        inside = QPoint(x, max(y, min(area.bottom(), available.bottom()) - GAP - size.height()))
        candidates = (
            QPoint(x, area.bottom() + GAP),
            QPoint(x, area.top() - GAP - size.height()),
            QPoint(area.left() - GAP - size.width(), y),
            QPoint(area.right() + GAP, y),
        )
        return next((at for at in candidates if available.contains(QRect(at, size))), inside)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and self.isVisible():
            self._reposition_timer.start()
        return False
