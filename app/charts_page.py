"""The charts of the newest answer, one below the other. The panel around it says when to bring them up to date."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from app.cursor import Cursor
from app.plots import AcceptanceChart, PositionChart, ThroughputChart, TimeSplit, curve_styles
from app.session import Session
from app.theme import Theme
from app.wording import DEFINITIONS

DASHES = {"match": "┈┈", "gumbel": "━━", "rejection": "╍╍"}
"""The lines of the expected curves, in letters."""


class ChartsPage(QWidget):
    """Reads the session's newest answer in `refresh`."""

    def __init__(self, session: Session, cursor: Cursor) -> None:
        super().__init__()
        self.session, self.cursor_place = session, cursor
        self.setAccessibleName("Charts")
        self._scale = 1.0
        self._notes: list[QLabel] = []
        self._curves = ""
        self.acceptance = AcceptanceChart()
        self.speed = ThroughputChart()
        self.places = PositionChart()
        self.split = TimeSplit()
        self.curve_names = QLabel()
        self.curve_names.setObjectName("sectionNote")
        self.curve_names.setMinimumWidth(1)
        self.curve_names.setWordWrap(True)
        self._arrange()

    def _arrange(self) -> None:
        body = QWidget()
        body.setObjectName("panelBody")
        column = QVBoxLayout(body)
        column.setContentsMargins(16, 10, 16, 14)
        column.setSpacing(6)
        column.addLayout(_heading("Proposals per round", self.curve_names, DEFINITIONS["acceptance_plot"]))
        self.acceptance.setToolTip(f"<p>{DEFINITIONS['acceptance_plot']}</p>")
        column.addWidget(self.acceptance, 6)
        column.addSpacing(8)
        column.addLayout(
            _heading("Throughput", self._note("tokens/s, last 8 rounds; dashed: mean"), DEFINITIONS["throughput_plot"])
        )
        self.speed.setToolTip(f"<p>{DEFINITIONS['throughput_plot']}</p>")
        column.addWidget(self.speed, 4)
        column.addSpacing(8)
        column.addLayout(
            _heading(
                "Acceptance by position", self._note("solid: once judged; light: of all drafted"), DEFINITIONS["position_plot"]
            )
        )
        self.places.setToolTip(f"<p>{DEFINITIONS['position_plot']}</p>")
        column.addWidget(self.places, 4)
        column.addSpacing(8)
        column.addLayout(_heading("Time of a round", self._note("newest staged round"), DEFINITIONS["time_plot"]))
        self.split.setToolTip(f"<p>{DEFINITIONS['time_plot']}</p>")
        column.addWidget(self.split)
        scroll = QScrollArea()
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setWidgetResizable(True)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(body)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(scroll)

    def _note(self, text: str) -> QLabel:
        note = QLabel(text)
        note.setObjectName("sectionNote")
        self._notes.append(note)
        return note

    def _make_room(self) -> None:
        """In a narrow panel the charts go without their notes."""
        wide = self.width() >= 420 * self._scale
        for note in self._notes:
            note.setVisible(wide)
        self.curve_names.setText(f"expected: &nbsp;{self._curves}" if wide else self._curves)

    def refresh(self) -> None:
        """Brings the charts up to date."""
        answer = self.session.answer
        tally = None if answer is None else answer.tally
        self.acceptance.set_tally(tally, [] if answer is None else answer.changes)
        self.speed.set_tally(tally)
        self.places.set_tally(tally)
        self.split.set_tally(tally)

    def set_look(self, theme: Theme, scale: float) -> None:
        self._scale = scale
        for chart in (self.acceptance, self.speed, self.places, self.split):
            chart.set_look(theme, scale)
        self._curves = " &nbsp;".join(
            f'<span style="color:{colour}">{DASHES[rule]}</span>&nbsp;{rule}' for rule, (colour, _) in curve_styles(theme).items()
        )
        self._make_room()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._make_room()


def _heading(title: str, note: QLabel, definition: str) -> QHBoxLayout:
    name = QLabel(title)
    name.setObjectName("sectionTitle")
    name.setToolTip(f"<p>{definition}</p>")
    row = QHBoxLayout()
    row.addWidget(name)
    note.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    row.addWidget(note, 1)
    return row
