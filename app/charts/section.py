"""A chart with its heading: it can be folded, its title opens the definition, and a note shows the legend or values."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QWidget

from app.charts.chart import Chart
from app.charts.data import LegendText
from app.look import theme as themes
from app.look.theme import Theme
from app.look.widgets import icon_button, in_column, in_row, named, push_button, stretch, tint
from engine.lens.chart_kinds import ChartKind

NARROW = 400
"""Width at text scale 1 below which the note is placed below the title."""


class Note(QLabel):
    """Shows the longest of several wordings that fits, or elides the shortest if none does."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("sectionNote")
        self.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._variants: tuple[LegendText, ...] = ()

    def set_variants(self, *variants: LegendText) -> None:
        """Sets the wordings, from the longest to the shortest."""
        if variants != self._variants:
            self._variants = variants
            self._fit()

    @property
    def longest_text(self) -> str:
        """The longest wording, without mark-up."""
        return self._variants[0][1] if self._variants else ""

    def _fit(self) -> None:
        metrics, available = self.fontMetrics(), self.contentsRect().width() - 4
        for rich, plain in self._variants:
            if metrics.horizontalAdvance(plain) <= available:
                self.setText(rich)
                return
        last = self._variants[-1][1] if self._variants else ""
        self.setText(metrics.elidedText(last, Qt.TextElideMode.ElideRight, max(0, available)))

    def minimumSizeHint(self) -> QSize:
        return QSize(1, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()


class Section(QWidget):
    """One chart of the page, created on first access, since a window seldom shows the page first.

    Signals:
        chart_created: (chart) it was created.
        folded: (open) the user has folded or unfolded it.
        definition_requested: (key, widget to show it at).
        menu_requested: the menu of the chart was requested.
    """

    chart_created = Signal(object)
    folded = Signal(bool)
    definition_requested = Signal(str, QWidget)
    menu_requested = Signal()

    def __init__(self, kind: ChartKind) -> None:
        super().__init__()
        self.kind = kind
        self.is_open = True
        self.is_stale = True
        self._chart: Chart | None = None
        self._theme: Theme | None = None
        self._scale = 1.0
        title = kind.title
        self.fold = icon_button("chevron", f"Show or hide {title}", self._toggle)
        self.title = named(push_button(title, "sectionTitle"), label=f"What {title} means", tip=f"<p>{kind.definition}</p>")
        self.title.setCursor(Qt.CursorShape.PointingHandCursor)
        self.title.clicked.connect(self._explain)
        self.note = Note()
        self.lower_note = Note() if len(kind.heights) > 1 else None
        self.extra = QHBoxLayout()
        self.more = icon_button("more", f"Options for {title}", self.menu_requested.emit)
        row = in_row(
            self.fold,
            self.title,
            (self.note, 1),
            stretch(0),  # takes the space while the note is below
            self.extra,
            self.more,
            spacing=2,
        )
        column = in_column(row, spacing=2, parent=self)
        if self.lower_note is not None:
            self.lower_note.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
            column.addWidget(self.lower_note)
        self._row, self._column, self._note_below = row, column, False

    @property
    def readout(self) -> Note:
        """The note that shows the values of a round: that of the lower panels, so that the legend above stays."""
        return self.note if self.lower_note is None else self.lower_note

    def show_legend(self, notes: Sequence[LegendText], lower_notes: Sequence[LegendText] = ()) -> None:
        """Shows the legend, and that of the lower panels if there are several; each in several wordings."""
        self.note.set_variants(*notes)
        if self.lower_note is not None:
            self.lower_note.set_variants(*lower_notes)

    @property
    def chart(self) -> Chart:
        """The chart; created on first access."""
        if self._chart is None:
            self._chart = chart = Chart(self.kind)
            if self._theme is not None:
                chart.set_look(self._theme, self._scale)
            self._column.addWidget(chart, 1)
            chart.setVisible(self.is_open)
            self.chart_created.emit(chart)
        return self._chart

    def set_open(self, open_: bool) -> None:
        """Unfolds or folds the chart without emitting `folded`; it is redrawn when next visible."""
        if open_ != self.is_open:
            self.is_open = open_
            if self._chart is not None:
                self._chart.setVisible(open_)
            self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred if open_ else QSizePolicy.Policy.Fixed)
            for note in filter(None, (self.note, self.lower_note)):
                note.setVisible(open_)
            if not open_:
                self.show_legend(())
            self.is_stale = True
            self._update_fold_button()

    def _toggle(self) -> None:
        self.set_open(not self.is_open)
        self.folded.emit(self.is_open)

    def _explain(self) -> None:
        self.definition_requested.emit(self.kind.key, self.title)

    def _place_note(self) -> None:
        """Places the note beside the title, or below it if the section is narrow."""
        below = self.width() < NARROW * self._scale
        self.note.setContentsMargins(round(8 * self._scale) if below else 0, 0, 0, 0)
        if self.lower_note is not None:
            self.lower_note.setContentsMargins(round(8 * self._scale), 0, 0, 0)
        if below != self._note_below:
            self._note_below = below
            self._column.insertWidget(1, self.note) if below else self._row.insertWidget(2, self.note, 1)
            side = Qt.AlignmentFlag.AlignLeft if below else Qt.AlignmentFlag.AlignRight
            self.note.setAlignment(side | Qt.AlignmentFlag.AlignVCenter)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place_note()

    def _update_fold_button(self) -> None:
        label = f"{'Collapse' if self.is_open else 'Expand'} {self.kind.title}"
        self.fold.setProperty("drawing", "chevron" if self.is_open else "chevron-right")
        self.fold.setAccessibleName(label)
        self.fold.setToolTip(label)
        if self._theme is not None:
            self.fold.setIcon(themes.icon(self.fold.property("drawing"), self._theme.dim))

    def set_look(self, theme: Theme, scale: float) -> None:
        """Tints the buttons of the heading and restyles the chart."""
        self._theme, self._scale = theme, scale
        self._place_note()
        for button in (self.fold, self.more):
            tint(button, theme, scale)
            button.setIconSize(QSize(round(13 * scale), round(13 * scale)))
        if self._chart is not None:
            self._chart.set_look(theme, scale)
        self._update_fold_button()
