"""The charts of one answer, one below the other. The panel around it says when to bring them up to date."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QPoint, Qt, Signal, Slot
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QScrollArea, QScrollBar, QVBoxLayout, QWidget

from app.baseline import Baseline
from app.chart import Chart
from app.chart_data import CHARTS, SHOWN_ROUNDS, ChartName, Material, readout, span_of, span_words
from app.chart_notes import note_wordings
from app.charts_places import LengthsChart, PositionChart
from app.charts_rounds import AlphaChart, ProposalsChart, TauChart
from app.charts_speed import ThroughputChart, TimesChart
from app.cursor import Cursor, Place
from app.sections import Section
from app.session import Answer
from app.shown import Shown
from app.theme import Theme

ZOOMS = (30, 60, 120, 240, 480, 1200, 2400, 4800, 12000)


class ChartsPage(QWidget):
    """Reads the answer that is shown in `refresh`; every chart per round shows the same rounds.

    Attributes:
        shown: rounds that show, None for all. end: the round behind the last one that shows, None at the newest.

    Signals:
        definition_wanted: (key, global position) a title was pressed.
        menu_wanted: (chart, global position) what can be done with a chart.
        folded: (names) the charts that are open now.
        baseline_wanted: the plain speed should be measured.
    """

    definition_wanted = Signal(str, QPoint)
    menu_wanted = Signal(str, QPoint)
    folded = Signal(tuple)
    baseline_wanted = Signal()

    def __init__(self, answers: Shown, cursor: Cursor) -> None:
        super().__init__()
        self.answers, self.session, self.cursor_place = answers, answers.session, cursor
        self.setAccessibleName("Charts")
        self.shown: int | None = SHOWN_ROUNDS
        self.end: int | None = None
        self._theme: Theme | None = None
        self._material: Material | None = None
        charts: tuple[Chart, ...] = (
            ProposalsChart(),
            AlphaChart(),
            ThroughputChart(),
            PositionChart(),
            TauChart(),
            LengthsChart(),
            TimesChart(),
        )
        self.sections: dict[ChartName, Section] = {chart.kind.name: Section(chart) for chart in charts}
        self.curve_names = self.sections["proposals"].note
        self.measure = QPushButton("Measure plain speed")
        self.measure.setObjectName("smallButton")
        self.measure.setAccessibleName("Measure the plain speed")
        self.measure.setToolTip("Answers the last prompt briefly without a drafter, outside the conversation.")
        self.measure.clicked.connect(self.baseline_wanted)
        self.sections["throughput"].extra.addWidget(self.measure)
        self._arrange()
        self._connect()
        self.set_open(name for name, kind in CHARTS.items() if kind.open)

    def _arrange(self) -> None:
        self.where = QLabel()
        self.where.setObjectName("sectionNote")
        self.few, self.all = (QPushButton(words) for words in (f"Last {SHOWN_ROUNDS}", "All rounds"))
        for button in (self.few, self.all):
            button.setObjectName("smallButton")
            button.setCheckable(True)
            button.setAccessibleName(f"Show {button.text().lower()}")
        self.few.setChecked(True)
        self.slide = QScrollBar(Qt.Orientation.Horizontal)
        self.slide.setObjectName("roundSlide")
        self.slide.setAccessibleName("First round that shows")
        self.slide.hide()
        top = QHBoxLayout()
        top.setSpacing(6)
        top.addWidget(self.where, 1)
        top.addWidget(self.few)
        top.addWidget(self.all)
        body = QWidget()
        body.setObjectName("panelBody")
        self._column = column = QVBoxLayout(body)
        column.setContentsMargins(16, 8, 16, 12)
        column.setSpacing(5)
        column.addLayout(top)
        column.addWidget(self.slide)
        for section in self.sections.values():
            column.addWidget(section)
        column.addStretch(1)
        self.area = QScrollArea()
        self.area.setFrameShape(QFrame.Shape.NoFrame)
        self.area.setWidgetResizable(True)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.area.setWidget(body)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(self.area)
        self.setFocusProxy(self.sections["proposals"].chart)

    def _connect(self) -> None:
        self.few.clicked.connect(self._show_few)
        self.all.clicked.connect(self._show_all)
        self.slide.valueChanged.connect(self._slid)
        self.area.verticalScrollBar().valueChanged.connect(self._catch_up)
        self.cursor_place.moved.connect(self._moved)
        self.cursor_place.pinned.connect(self._pinned)
        for section in self.sections.values():
            section.folded.connect(self._folded)
            section.definition_wanted.connect(self._define)
            section.menu_wanted.connect(self._menu_at_button)
            chart = section.chart
            chart.menu_wanted.connect(self._menu_at)
            if chart.kind.per_round:
                chart.pointed.connect(self._pointed)
                chart.picked.connect(self._picked)
                chart.dragged.connect(self._dragged)
                chart.zoomed.connect(self._zoomed)
                chart.stepped.connect(self._stepped)

    # What shows

    @property
    def open(self) -> tuple[ChartName, ...]:
        """The charts that are not folded away."""
        return tuple(name for name, section in self.sections.items() if section.open)

    def set_open(self, names: Iterable[str]) -> None:
        wanted = set(names)
        for name, section in self.sections.items():
            section.set_open(name in wanted)
        self._share_room()

    def _share_room(self) -> None:
        """The height that is left goes to the charts that are open."""
        for name, section in self.sections.items():
            self._column.setStretchFactor(section, 0 if not section.open else 6 if name == "proposals" else 4)

    @Slot()
    def _folded(self) -> None:
        self._share_room()
        self._show_baseline(self.answers.answer)
        self._catch_up()
        self.folded.emit(self.open)

    def refresh(self) -> None:
        """Brings the charts up to date; those out of sight wait until they are seen."""
        answer = self.answers.answer
        self._material = None if answer is None else self._material_of(answer)
        for section in self.sections.values():
            section.stale = True
        self._show_span()
        self._show_baseline(answer)
        self._catch_up()

    def _material_of(self, answer: Answer) -> Material:
        baseline = self.session.baseline(answer)
        return Material(
            tally=answer.tally,
            span=span_of(answer.tally.rounds, self.shown, self.end),
            changes=[change.index for change in answer.changes],
            plain=None if baseline is None else baseline.throughput,
            same_prompt=baseline is None or baseline.same_prompt,
        )

    @Slot()
    def _catch_up(self) -> None:
        if not self.isVisible():
            return
        for section in self.sections.values():
            if section.stale and section.open and self._in_sight(section.chart):
                section.stale = False
                section.chart.show_material(self._material)
                self._mark(section, self._marked())

    def _in_sight(self, chart: Chart) -> bool:
        seen = self.area.viewport()
        return chart.rect().translated(chart.mapTo(seen, QPoint(0, 0))).intersects(seen.rect())

    def _show_span(self) -> None:
        """The words above the charts, and the slide where not every round shows."""
        rounds = 0 if self._material is None else self._material.tally.rounds
        self.where.setText("" if self._material is None else span_words(self._material.span, rounds))
        span = None if self._material is None else self._material.span
        hidden = span is None or self.shown is None or rounds <= span.room
        if self.slide.isHidden() != hidden:
            self.slide.setHidden(hidden)
        if span is not None and not hidden:
            self.slide.blockSignals(True)
            self.slide.setRange(0, max(0, rounds - span.room))
            self.slide.setPageStep(span.room)
            self.slide.setSingleStep(max(1, span.room // 10))
            self.slide.setValue(self.slide.maximum() if self.end is None else span.first)
            self.slide.blockSignals(False)
        self.few.setChecked(self.shown == SHOWN_ROUNDS and self.end is None)
        self.all.setChecked(self.shown is None)

    def _show_baseline(self, answer: Answer | None) -> None:
        ended = answer is not None and not answer.running and answer.request is not None and answer.tally.rounds > 0
        known: Baseline | None = None if answer is None else self.session.baseline(answer)
        lacking = known is None or not known.same_prompt
        self.measure.setVisible(ended and lacking and self.sections["throughput"].open)
        self.measure.setEnabled(not self.session.measuring)
        self.measure.setText("Measuring…" if self.session.measuring else "Measure plain speed")

    # Which rounds show

    @Slot()
    def _show_few(self) -> None:
        self.shown, self.end = SHOWN_ROUNDS, None
        self.refresh()

    @Slot()
    def _show_all(self) -> None:
        self.shown, self.end = None, None
        self.refresh()

    @Slot(int)
    def _slid(self, first: int) -> None:
        if self._material is not None:
            self._go(first + self._material.span.room)

    @Slot(float)
    def _dragged(self, rounds: float) -> None:
        if self._material is not None and self.shown is not None:
            far = max(-self._material.tally.rounds, min(self._material.tally.rounds, round(rounds) or (1 if rounds > 0 else -1)))
            self._go((self.end or self._material.tally.rounds) - far * self._material.span.each)

    def _go(self, end: int) -> None:
        """Shows the rounds up to before `end`, or goes on following where that is the newest."""
        if self._material is not None and self.shown is not None:
            rounds = self._material.tally.rounds
            self.end = None if end >= rounds else max(min(self.shown, rounds), end)
            self.refresh()

    @Slot(int)
    def _zoomed(self, steps: int) -> None:
        if self._material is None:
            return
        rounds, shown = self._material.tally.rounds, self.shown or self._material.tally.rounds
        wider = steps > 0
        fitting = [zoom for zoom in ZOOMS if (zoom > shown if wider else zoom < shown)]
        wanted = (fitting[0] if wider else fitting[-1]) if fitting else None
        if wanted is not None or wider:
            self.shown = None if wanted is None or wanted >= max(rounds, SHOWN_ROUNDS + 1) else wanted
            self.end = None if self.shown is None else self.end
            self.refresh()

    # One cursor

    def _marked(self) -> int | None:
        """The round that is pointed at, if it is one of the answer that shows."""
        place = self.cursor_place.place
        return place.round if place is not None and place.turn == self.answers.turn else None

    @Slot(object)
    def _moved(self, place: Place | None) -> None:
        if self.isVisible():
            for section in self.sections.values():
                self._mark(section, self._marked())

    def _mark(self, section: Section, round_: int | None) -> None:
        material, chart = self._material, section.chart
        if not section.open or material is None or self._theme is None:
            return
        name = chart.kind.name
        centre = None if round_ is None or not chart.kind.per_round else material.span.centre(round_)
        chart.mark(centre)
        if centre is None or round_ is None:
            section.note.set_words(*note_wordings(name, material, self._theme))
        else:
            words = readout(name, material, round_)
            section.note.set_words((words, words), (short := words.partition(": ")[2], short))
            if chart.hasFocus():
                chart.setAccessibleDescription(words)

    @Slot(object)
    def _pinned(self, place: Place | None) -> None:
        """A round that was pinned elsewhere comes into sight."""
        if place is not None and self._material is not None and self._marked() is not None:
            if self._material.span.centre(place.round) is None and self.shown is not None:
                self._go(place.round + self.shown // 2)

    def _place_of(self, across: float | None) -> Place | None:
        index = None if across is None or self._material is None else self._material.span.column(across)
        return None if index is None else Place(self.answers.turn, index)

    @Slot(object)
    def _pointed(self, across: float | None) -> None:
        self.cursor_place.point(self._place_of(across))

    @Slot(object)
    def _picked(self, across: float | None) -> None:
        """Pins a round, or lets it go if it is pinned."""
        place = self.cursor_place.place if across is None else self._place_of(across)
        self.cursor_place.pin(None if place == self.cursor_place.pin_place else place)

    @Slot(int)
    def _stepped(self, rounds: int) -> None:
        if self._material is None or not self._material.tally.rounds:
            return
        span, newest = self._material.span, self._material.tally.rounds - 1
        now = self._marked()
        index = span.last - 1 if now is None and abs(rounds) == 1 else (now or 0) + rounds * span.each
        index = max(0, min(newest, index))
        if span.centre(index) is None and self.shown is not None:
            self._go(index + 1 if rounds > 0 else index + self.shown)
        self.cursor_place.point(Place(self.answers.turn, index))

    # Asked for

    @Slot(str, QWidget)
    def _define(self, key: str, title: QWidget) -> None:
        self.definition_wanted.emit(key, title.mapToGlobal(QPoint(0, title.height() + 4)))

    @Slot()
    def _menu_at_button(self) -> None:
        section = self.sender()
        if isinstance(section, Section):
            self.menu_wanted.emit(section.chart.kind.name, section.more.mapToGlobal(QPoint(0, section.more.height())))

    @Slot(QPoint)
    def _menu_at(self, position: QPoint) -> None:
        chart = self.sender()
        if isinstance(chart, Chart):
            self.menu_wanted.emit(chart.kind.name, position)

    def set_look(self, theme: Theme, scale: float) -> None:
        self._theme = theme
        for section in self.sections.values():
            section.set_look(theme, scale)
            section.note.set_words()
        self.refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._catch_up()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._catch_up()
        self._moved(None)
