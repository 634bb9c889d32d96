"""Selects which rounds the charts show: the newest, all, or those the user scrolled or zoomed to."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QLabel, QPushButton, QScrollBar, QWidget

from app.charts.data import DEFAULT_ROUNDS, DEFAULT_WIDTH, bin_text, span_of, span_text
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
        self.shown: int | None = DEFAULT_ROUNDS
        self.end: int | None = None
        self._rounds = 0
        self._width = DEFAULT_WIDTH
        self.range_label, self.bins_label = QLabel(), QLabel()
        for label in (self.range_label, self.bins_label):
            label.setObjectName("sectionNote")
        self.bins_label.setWordWrap(True)
        self.bins_label.hide()
        self.latest_button, self.all_button = (QPushButton(text) for text in (f"Last {DEFAULT_ROUNDS}", "All rounds"))
        for button in (self.latest_button, self.all_button):
            button.setObjectName("smallButton")
            button.setCheckable(True)
            button.setAccessibleName(f"Show {button.text().lower()}")
        self.scroll_bar = named(QScrollBar(Qt.Orientation.Horizontal), label="First visible round")
        self.scroll_bar.hide()
        in_column(
            in_row((self.range_label, 1), self.latest_button, self.all_button, spacing=6),
            self.bins_label,
            self.scroll_bar,
            spacing=5,
            parent=self,
        )
        self.latest_button.clicked.connect(self._show_latest)
        self.all_button.clicked.connect(self._show_all)
        self.scroll_bar.valueChanged.connect(self._scroll)

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
        self.range_label.setText(span_text(span, rounds))
        self.bins_label.setText(bin_text(span))
        self.bins_label.setHidden(span.each == 1)
        hidden = self.shown is None or rounds <= span.room
        if self.scroll_bar.isHidden() != hidden:
            self.scroll_bar.setHidden(hidden)
        self.scroll_bar.blockSignals(True)
        self.scroll_bar.setRange(0, max(0, rounds - span.room))
        self.scroll_bar.setPageStep(span.room)
        self.scroll_bar.setSingleStep(max(1, span.room // 10))
        self.scroll_bar.setValue(self.scroll_bar.maximum() if self.end is None else span.first)
        self.scroll_bar.blockSignals(False)
        self.latest_button.setChecked(self.shown == DEFAULT_ROUNDS and self.end is None)
        self.all_button.setChecked(self.shown is None)

    def show_until(self, end: int) -> None:
        """Shows the rounds up to before `end`; follows the newest if that is the end."""
        if self.shown is not None and self._rounds:
            self.end = None if end >= self._rounds else max(min(self.shown, self._rounds), end)
            self.changed.emit()

    def scroll_to(self, round_: int) -> None:
        """Scrolls to a round, unless it is shown already."""
        span = self.span()
        if self.shown is not None and span.centre(round_) is None:
            self.show_until(round_ + 1 if round_ >= span.last else round_ + self.shown)

    @Slot(float)
    def drag(self, rounds: float) -> None:
        """Moves the content to the right by a number of rounds, which reveals earlier ones."""
        distance = max(-self._rounds, min(self._rounds, round(rounds) or (1 if rounds > 0 else -1)))
        self.show_until((self._rounds if self.end is None else self.end) - distance * self.span().each)

    @Slot(int)
    def zoom(self, steps: int) -> None:
        """Shows more rounds for steps above 0, fewer for steps below."""
        shown = self._rounds if self.shown is None else self.shown
        larger = [zoom for zoom in ZOOMS if zoom > shown]
        smaller = [zoom for zoom in ZOOMS if zoom < shown]
        if steps > 0:
            self.shown = larger[0] if larger and larger[0] < self._rounds else None
        elif smaller:
            self.shown = smaller[-1]
        if self.shown is None:
            self.end = None
        self.changed.emit()

    @Slot()
    def _show_latest(self) -> None:
        self.shown, self.end = DEFAULT_ROUNDS, None
        self.changed.emit()

    @Slot()
    def _show_all(self) -> None:
        self.shown, self.end = None, None
        self.changed.emit()

    @Slot(int)
    def _scroll(self, first: int) -> None:
        self.show_until(first + self.span().room)
