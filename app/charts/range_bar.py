"""Selects which rounds the charts show: the newest, all, or those the user scrolled or zoomed to."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QLabel, QPushButton, QScrollBar, QWidget

from app.charts.data import SHOWN_ROUNDS, USUAL_WIDTH, bin_words, span_of, span_words
from app.look.widgets import in_column, in_row, named
from engine.lens.bins import RoundSpan

ZOOMS = (30, 60, 120, 240, 480, 1200, 2400, 4800, 12000)


class RoundRange(QWidget):
    """A line of text, two buttons and, if not every round is shown, a scroll bar.

    Attributes:
        shown: number of rounds shown, None for all. end: index after the last one shown, None to follow the newest.

    Signals:
        changed: the shown rounds have changed.
    """

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.shown: int | None = SHOWN_ROUNDS
        self.end: int | None = None
        self._rounds = 0
        self._width = USUAL_WIDTH
        self.where, self.bins = QLabel(), QLabel()
        for label in (self.where, self.bins):
            label.setObjectName("sectionNote")
        self.bins.setWordWrap(True)
        self.bins.hide()
        self.few, self.all = (QPushButton(words) for words in (f"Last {SHOWN_ROUNDS}", "All rounds"))
        for button in (self.few, self.all):
            button.setObjectName("smallButton")
            button.setCheckable(True)
            button.setAccessibleName(f"Show {button.text().lower()}")
        self.slide = named(QScrollBar(Qt.Orientation.Horizontal), label="First visible round")
        self.slide.hide()
        in_column(in_row((self.where, 1), self.few, self.all, spacing=6), self.bins, self.slide, spacing=5, parent=self)
        self.few.clicked.connect(self._show_few)
        self.all.clicked.connect(self._show_all)
        self.slide.valueChanged.connect(self._slid)

    def span(self) -> RoundSpan:
        """Returns the shown rounds."""
        return span_of(self._rounds, self.shown, self.end, self._width)

    def set_width(self, width: int) -> bool:
        """Sets the plots' width in pixels; returns whether the shown rounds or the bins have changed."""
        before, self._width = self.span(), width
        return self.span() != before

    def set_rounds(self, rounds: int) -> None:
        """Sets the number of rounds of the answer."""
        self._rounds = rounds
        if self.end is not None and self.end >= rounds:
            self.end = None
        span = self.span()
        self.where.setText(span_words(span, rounds))
        self.bins.setText(bin_words(span))
        self.bins.setHidden(span.each == 1)
        hidden = self.shown is None or rounds <= span.room
        if self.slide.isHidden() != hidden:
            self.slide.setHidden(hidden)
        self.slide.blockSignals(True)
        self.slide.setRange(0, max(0, rounds - span.room))
        self.slide.setPageStep(span.room)
        self.slide.setSingleStep(max(1, span.room // 10))
        self.slide.setValue(self.slide.maximum() if self.end is None else span.first)
        self.slide.blockSignals(False)
        self.few.setChecked(self.shown == SHOWN_ROUNDS and self.end is None)
        self.all.setChecked(self.shown is None)

    def go(self, end: int) -> None:
        """Shows the rounds up to before `end`; follows the newest if that is the end."""
        if self.shown is not None and self._rounds:
            self.end = None if end >= self._rounds else max(min(self.shown, self._rounds), end)
            self.changed.emit()

    def bring(self, round_: int) -> None:
        """Scrolls to a round, unless it is shown already."""
        span = self.span()
        if self.shown is not None and span.centre(round_) is None:
            self.go(round_ + 1 if round_ >= span.last else round_ + self.shown)

    @Slot(float)
    def drag(self, rounds: float) -> None:
        """Moves the content to the right by a number of rounds, which reveals earlier ones."""
        far = max(-self._rounds, min(self._rounds, round(rounds) or (1 if rounds > 0 else -1)))
        self.go((self._rounds if self.end is None else self.end) - far * self.span().each)

    @Slot(int)
    def zoom(self, steps: int) -> None:
        """Shows more rounds for steps above 0, fewer for steps below."""
        shown = self._rounds if self.shown is None else self.shown
        wider = [zoom for zoom in ZOOMS if zoom > shown]
        closer = [zoom for zoom in ZOOMS if zoom < shown]
        if steps > 0:
            self.shown = wider[0] if wider and wider[0] < self._rounds else None
        elif closer:
            self.shown = closer[-1]
        if self.shown is None:
            self.end = None
        self.changed.emit()

    @Slot()
    def _show_few(self) -> None:
        self.shown, self.end = SHOWN_ROUNDS, None
        self.changed.emit()

    @Slot()
    def _show_all(self) -> None:
        self.shown, self.end = None, None
        self.changed.emit()

    @Slot(int)
    def _slid(self, first: int) -> None:
        self.go(first + self.span().room)
