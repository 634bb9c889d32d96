"""The charts of one answer, one below the other. The panel triggers the updates."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QPoint, Signal, Slot
from PySide6.QtGui import QFocusEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from app.charts.chart import KEYS_TEXT, Chart, width_beside_plot
from app.charts.data import legend_text
from app.charts.range_bar import RoundRange
from app.charts.section import Section
from app.look.theme import Theme
from app.look.widgets import in_column, named, push_button, scrolling, stretch
from app.session.cursor import Cursor, Place, ShownAnswer
from app.session.plain_baseline import Baseline
from app.session.session import NO_ROUNDS_YET, Answer, is_plain
from engine.lens.chart_kinds import CHARTS, ChartName
from engine.lens.charts import Material, spec_of


class ChartsPage(QWidget):
    """Shows the charts of the answer that `refresh` reads; all charts by round show the same rounds.

    Signals:
        definition_requested: (key, global position) a title was pressed.
        menu_requested: (chart, global position) the menu of a chart was requested.
        folded: (names) the charts that are open now.
        baseline_requested: the plain speed should be measured.
    """

    definition_requested = Signal(str, QPoint)
    menu_requested = Signal(str, QPoint)
    folded = Signal(tuple)
    baseline_requested = Signal()

    def __init__(self, answers: ShownAnswer, cursor: Cursor) -> None:
        super().__init__()
        self.answers, self.session, self.cursor_place = answers, answers.session, cursor
        self.setAccessibleName("Charts")
        self.range = RoundRange()
        self._theme: Theme | None = None
        self._scale = 1.0
        self._material: Material | None = None
        self.sections: dict[ChartName, Section] = {name: Section(kind) for name, kind in CHARTS.items()}
        self.measure = named(
            push_button("Measure plain speed", "smallButton", self.baseline_requested),
            label="Measure the plain speed",
            tip="Runs the last prompt briefly without a drafter. The result is not added to the conversation.",
        )
        self.sections["throughput"].extra.addWidget(self.measure)
        self._arrange()
        self._connect()
        self.set_open(name for name, kind in CHARTS.items() if kind.open)

    def _arrange(self) -> None:
        body = named(QWidget(), "panelBody")
        self._column = in_column(self.range, *self.sections.values(), stretch(), spacing=5, margins=(16, 8, 16, 12), parent=body)
        self.area = scrolling(body)
        in_column(self.area, parent=self)

    def _connect(self) -> None:
        self.range.changed.connect(self.refresh)
        self.area.verticalScrollBar().valueChanged.connect(self._refresh_visible)
        self.cursor_place.moved.connect(self._moved)
        self.cursor_place.pinned.connect(self._pinned)
        for section in self.sections.values():
            section.folded.connect(self._update_folds)
            section.definition_requested.connect(self._define)
            section.menu_requested.connect(self._menu_at_button)
            section.chart_created.connect(self._connect_chart)

    @Slot(object)
    def _connect_chart(self, chart: Chart) -> None:
        chart.menu_requested.connect(self._menu_at)
        if chart.kind.per_round:
            chart.pointed.connect(self._point)
            chart.picked.connect(self._pin_or_unpin)
            chart.dragged.connect(self.range.drag)
            chart.zoomed.connect(self.range.zoom)
            chart.stepped.connect(self._step)

    # Content.

    @property
    def open(self) -> tuple[ChartName, ...]:
        """The charts that are not folded away."""
        return tuple(name for name, section in self.sections.items() if section.is_open)

    def set_open(self, names: Iterable[str]) -> None:
        """Unfolds these charts and folds the others, without emitting signals, so that stored settings can be restored."""
        wanted = set(names)
        for name, section in self.sections.items():
            section.set_open(name in wanted)
        self._distribute_height()

    def _distribute_height(self) -> None:
        """Distributes the remaining height among the open charts."""
        for section in self.sections.values():
            self._column.setStretchFactor(section, 0 if not section.is_open else 6 if len(section.kind.heights) > 1 else 4)

    @Slot()
    def _update_folds(self) -> None:
        self._distribute_height()
        self._show_baseline(self.answers.answer)
        self._refresh_visible()
        self.folded.emit(self.open)

    @Slot()
    def refresh(self) -> None:
        """Updates the charts; those out of view are updated when they are scrolled into view."""
        answer = self.answers.answer
        self.range.set_rounds(0 if answer is None else answer.tally.rounds)
        self._material = None if answer is None else self._material_of(answer)
        for section in self.sections.values():
            section.is_stale = True
        self._show_baseline(answer)
        self._refresh_visible()

    def _material_of(self, answer: Answer) -> Material:
        baseline = self.session.baseline(answer)
        return Material(
            tally=answer.tally,
            span=self.range.span(),
            dividers=[(divider.first, divider.title) for divider in answer.dividers],
            plain=None if baseline is None else baseline.throughput,
            plain_is_comparable=baseline is None or baseline.fits,
            never="" if answer.waiting_words == NO_ROUNDS_YET else answer.waiting_words,
        )

    @Slot()
    def _refresh_visible(self) -> None:
        if not self.isVisible():
            return
        shown = [(section, section.chart) for section in self.sections.values() if section.is_open]
        self._column.activate()  # lays out charts created just now
        for section, chart in shown:
            if section.is_stale and self._is_visible(section):
                section.is_stale = False
                chart.show_spec(spec_of(section.kind, self._material))
                self._mark(section)

    def _is_visible(self, section: Section) -> bool:
        viewport = self.area.viewport()
        return section.rect().translated(section.mapTo(viewport, QPoint(0, 0))).intersects(viewport.rect())

    def _show_baseline(self, answer: Answer | None) -> None:
        ended = answer is not None and not answer.running and answer.request is not None and answer.tally.rounds > 0
        ended = ended and answer is not None and not is_plain(answer)
        baseline: Baseline | None = None if answer is None else self.session.baseline(answer)
        is_missing = baseline is None or not baseline.fits
        offers_measurement = ended and is_missing and self.sections["throughput"].is_open
        self.measure.setVisible(offers_measurement)
        self.sections["throughput"].extra.setContentsMargins(6 if offers_measurement else 0, 0, 0, 0)
        self.measure.setEnabled(self.session.measurement is None)
        self.measure.setText("Measure plain speed" if self.session.measurement is None else "Measuring…")

    # Shared cursor.

    def _highlighted(self) -> Place | None:
        """Returns the highlighted place; None if there is none in the shown answer."""
        place = self.cursor_place.place
        return place if place is not None and place.turn == self.answers.turn else None

    @Slot(object)
    def _moved(self, place: Place | None) -> None:
        if self.isVisible():
            for section in self.sections.values():
                self._mark(section)

    def _position(self, place: Place) -> int | None:
        """Returns the position in its round, from 0, of a highlighted proposal; None if no proposal is highlighted."""
        if self.answers.answer is None or place.proposal is None:
            return None
        depths = self.answers.answer.rounds[place.round].depths
        return depths[place.proposal] - 1 if place.proposal < len(depths) else None

    def _mark(self, section: Section) -> None:
        """Marks the highlighted round in a chart, and shows its values, or else the legend."""
        if not section.is_open or section.is_stale or self._material is None or self._theme is None:
            return
        chart, place, tally = section.chart, self._highlighted(), self._material.tally
        spec, theme = chart.spec, self._theme
        if spec.empty or place is None or not 0 <= place.round < tally.rounds:
            x = None
        elif chart.kind.place is None:
            x = self._material.span.centre(place.round)
        else:
            x = chart.kind.place(tally.statuses[place.round].tolist(), self._position(place))
        chart.mark(x)
        if place is None or x is None or not chart.kind.per_round:
            section.show_legend(*([legend_text(note, theme) for note in notes] for notes in (spec.notes, spec.lower_notes)))
            if not chart.hasFocus():
                keys = KEYS_TEXT if chart.kind.per_round else ""
                chart.setAccessibleDescription(f"{spec.empty or spec.words} {keys}".strip())
            return
        title, values = spec.reading(place.round)
        text = f"{title}: {values}"
        section.readout.set_variants((text, text), (values, values))
        if chart.hasFocus():
            chart.setAccessibleDescription(text)

    @Slot(object)
    def _pinned(self, place: Place | None) -> None:
        """Scrolls a round that was pinned elsewhere into view."""
        if place is not None and self._material is not None and self._highlighted() is not None:
            self.range.scroll_to(place.round)

    def _place_of(self, x: float | None) -> Place | None:
        index = None if x is None or self._material is None else self._material.span.column(x)
        return None if index is None else Place(self.answers.turn, index)

    @Slot(object)
    def _point(self, x: float | None) -> None:
        self.cursor_place.point(self._place_of(x))

    @Slot(object)
    def _pin_or_unpin(self, x: float | None) -> None:
        """Pins a round, or unpins it."""
        place = self.cursor_place.place if x is None else self._place_of(x)
        self.cursor_place.pin(None if place == self.cursor_place.pin_place else place)

    @Slot(int)
    def _step(self, rounds: int) -> None:
        if self._material is None or not self._material.tally.rounds:
            return
        span, newest = self._material.span, self._material.tally.rounds - 1
        place = self._highlighted()
        current = None if place is None else place.round
        index = span.last - 1 if current is None and abs(rounds) == 1 else (current or 0) + rounds * span.each
        index = max(0, min(newest, index))
        self.range.scroll_to(index)
        self.cursor_place.point(Place(self.answers.turn, index))

    # Requests.

    @Slot(str, QWidget)
    def _define(self, key: str, title: QWidget) -> None:
        self.definition_requested.emit(key, title.mapToGlobal(QPoint(0, title.height() + 4)))

    @Slot()
    def _menu_at_button(self) -> None:
        section = self.sender()
        if isinstance(section, Section):
            self.menu_requested.emit(section.kind.name, section.more.mapToGlobal(QPoint(0, section.more.height())))

    @Slot(QPoint)
    def _menu_at(self, position: QPoint) -> None:
        chart = self.sender()
        if isinstance(chart, Chart):
            self.menu_requested.emit(chart.kind.name, position)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Restyles and redraws every chart, since legends contain the theme's colours."""
        self._theme, self._scale = theme, scale
        for section in self.sections.values():
            section.set_look(theme, scale)
            section.show_legend(())
        self.range.set_width(self._plot_width())
        self.refresh()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Focuses the first chart. A focus proxy would do that too, but Tab would then skip the widgets before it."""
        next(iter(self.sections.values())).chart.setFocus(event.reason())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._theme is not None and self.range.set_width(self._plot_width()):
            self.refresh()
        self._refresh_visible()

    def _plot_width(self) -> int:
        """Returns the width of a chart's plot in pixels, from the page's width."""
        margins = self._column.contentsMargins()
        return self.width() - margins.left() - margins.right() - width_beside_plot(self._scale)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._refresh_visible()
        self._moved(None)
