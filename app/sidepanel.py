"""The figures and charts of the newest answer. Repainted at most a dozen times a second, and never while hidden."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from app.plots import AcceptanceChart, PositionChart, ThroughputChart, TimeSplit, curve_styles
from app.session import Session
from app.theme import Theme
from app.widgets import Tile
from app.wording import DEFINITIONS, number

REFRESH_MS = 80
DASHES = {"match": "┈┈", "gumbel": "━━", "rejection": "╍╍"}
"""The lines of the expected curves, in letters."""


class SidePanel(QWidget):
    """Reads the session's newest answer whenever `touch` was called since the last repaint."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.setObjectName("sidePanel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.session = session
        self._stale = False
        self._scale = 1.0
        self._notes: list[QLabel] = []
        self._curves = ""
        self._timer = QTimer(self, singleShot=True, interval=REFRESH_MS)
        self._timer.timeout.connect(self.refresh)
        self.throughput = Tile("Throughput", DEFINITIONS["throughput"])
        self.alpha = Tile("Alpha", DEFINITIONS["alpha"])
        self.tau = Tile("Tau", DEFINITIONS["tau"])
        self.draft_yield = Tile("Draft yield", DEFINITIONS["draft_yield"])
        self.acceptance = AcceptanceChart()
        self.speed = ThroughputChart()
        self.places = PositionChart()
        self.split = TimeSplit()
        self.curve_names = QLabel()
        self.curve_names.setObjectName("sectionNote")
        self.curve_names.setMinimumWidth(1)
        self.curve_names.setWordWrap(True)
        self._arrange()

    @property
    def tiles(self) -> tuple[Tile, ...]:
        return self.throughput, self.alpha, self.tau, self.draft_yield

    def _arrange(self) -> None:
        self.grid = grid = QGridLayout()
        grid.setSpacing(8)
        for place, tile in enumerate(self.tiles):
            grid.addWidget(tile, 0, place)
        body = QWidget()
        body.setObjectName("panelBody")
        column = QVBoxLayout(body)
        column.setContentsMargins(16, 14, 16, 14)
        column.setSpacing(6)
        column.addLayout(grid)
        column.addSpacing(8)
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
        outer.setContentsMargins(1, 0, 0, 0)
        outer.addWidget(scroll)

    def _note(self, text: str) -> QLabel:
        note = QLabel(text)
        note.setObjectName("sectionNote")
        self._notes.append(note)
        return note

    def _make_room(self) -> None:
        """In a narrow panel the figures take two rows, and the charts go without their notes."""
        wide = self.width() >= 420 * self._scale
        columns = 4 if wide else 2
        for place, tile in enumerate(self.tiles):
            self.grid.addWidget(tile, place // columns, place % columns)
        for column in range(4):
            self.grid.setColumnStretch(column, 1 if column < columns else 0)
        for note in self._notes:
            note.setVisible(wide)
        self.curve_names.setText(f"expected: &nbsp;{self._curves}" if wide else self._curves)

    def touch(self) -> None:
        """Something changed: repaint soon."""
        self._stale = True
        if self.isVisible() and not self._timer.isActive():
            self._timer.start()

    def refresh(self) -> None:
        """Brings figures and charts up to date."""
        self._stale = False
        answer = self.session.answer
        tally = None if answer is None else answer.tally
        self._show_figures()
        self.acceptance.set_tally(tally, [] if answer is None else answer.changes)
        self.speed.set_tally(tally)
        self.places.set_tally(tally)
        self.split.set_tally(tally)

    def _show_figures(self) -> None:
        answer = self.session.answer
        if answer is None or not answer.tally.rounds:
            for tile in self.tiles:
                tile.show_value("–", "")
            return
        summary = answer.tally.summary
        self.throughput.show_value(number(answer.tokens_per_second, 1), "tok/s")
        spread = ""
        if summary.alpha_low is not None and summary.alpha_high is not None:
            spread = f"± {(summary.alpha_high - summary.alpha_low) / 2:.2f}"
        self.alpha.show_value(number(summary.alpha), spread)
        self.tau.show_value(number(summary.tau), f"of {summary.predicted_tau:.2f}" if summary.predicted_tau is not None else "")
        joint = summary.predicted_tau is None and summary.alpha is not None
        self.tau.define(DEFINITIONS["tau_block" if joint else "tau"])
        self.draft_yield.show_value(number(summary.draft_yield), f"of {summary.proposals:,}" if summary.proposals else "")
        self.draft_yield.define(f"{DEFINITIONS['draft_yield']} Here {summary.accepted:,} of {summary.proposals:,}.")

    def set_look(self, theme: Theme, scale: float) -> None:
        self._scale = scale
        self.setMinimumWidth(round(320 * scale))
        for tile in self.tiles:
            tile.set_look(scale)
        for chart in (self.acceptance, self.speed, self.places, self.split):
            chart.set_look(theme, scale)
        self._curves = " &nbsp;".join(
            f'<span style="color:{colour}">{DASHES[rule]}</span>&nbsp;{rule}' for rule, (colour, _) in curve_styles(theme).items()
        )
        self._make_room()
        self.refresh()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._stale:
            self.refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._make_room()

    def stop(self) -> None:
        """No more repaints: the window is closing."""
        self._timer.stop()


def _heading(title: str, note: QLabel, definition: str) -> QHBoxLayout:
    name = QLabel(title)
    name.setObjectName("sectionTitle")
    name.setToolTip(f"<p>{definition}</p>")
    row = QHBoxLayout()
    row.addWidget(name)
    note.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    row.addWidget(note, 1)
    return row
