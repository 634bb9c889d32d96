"""The figures of the shown answer as tiles: the speed-up first, then acceptance. Pressing one opens its definition."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QSize, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QGridLayout, QWidget

from app.look.widgets import spaced
from app.look.wording import DEFINITIONS
from app.panel.definitions import NAMES, NOT_MEASURED, figures_of
from app.panel.tile import Tile
from app.session.plain_baseline import Baseline
from app.session.session import Answer

SIDE, SPACING = 16, 8
MEASURING = "measuring…"
EXAMPLES = {"speed_up": ("–", NOT_MEASURED), "alpha": ("00%", "± 00 (alpha)")}
"""The widest values of a typical answer; their width is reserved, so that the first answer does not move the tiles."""


class FigureTiles(QWidget):
    """Six tiles in one, two or three rows. Each keeps its place while its figure is unknown.

    Signals:
        definition_requested: (key, global position) a tile was pressed.
        baseline_requested: the plain speed should be measured.
    """

    definition_requested = Signal(str, QPoint)
    baseline_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.tiles = {key: Tile(name, DEFINITIONS[key], EXAMPLES.get(key, ("", ""))) for key, name in NAMES.items()}
        self.measure = self.tiles["speed_up"].add_action("Measure", "Measure the plain speed for this prompt")
        self.measure.clicked.connect(self.baseline_requested)
        self._max_widths = {False: 0, True: 0}  # with units beside or below; only grows, so that figures do not move
        self._arrangement = (0, False)
        self._grid = spaced(QGridLayout(self), SPACING, (SIDE, 5, SIDE, 0))
        self._grid.setSizeConstraint(QGridLayout.SizeConstraint.SetNoConstraint)
        for key, tile in self.tiles.items():
            tile.setProperty("figure", key)
            tile.clicked.connect(self._explain)
        self._arrange()

    def show_answer(self, answer: Answer | None, baseline: Baseline | None) -> None:
        """Shows the figures of an answer; dashes if there is none yet."""
        figures = figures_of(answer, baseline)
        for key, tile in self.tiles.items():
            *earlier, newest = figures.get(key, (("–", ""),))
            tile.show_value(*newest, earlier=earlier[0] if earlier else None)
        if answer is not None and figures:
            summary = answer.tally.summary
            is_joint = answer.tally.stretches[-1].totals.jointly_judged
            self.tiles["tau"].define(DEFINITIONS["tau_block" if is_joint else "tau"])
            definition = f"{DEFINITIONS['draft_yield']} Here {summary.accepted:,} of {summary.proposals:,}."
            self.tiles["draft_yield"].define(definition)
        self._arrange()

    def show_measuring(self, measuring: bool, may_measure: bool) -> None:
        """Shows in the tile of the speed-up that the plain speed is being measured, or the button that starts it."""
        tile = self.tiles["speed_up"]
        unmeasured = tile.unit.text() == NOT_MEASURED
        if unmeasured and measuring:
            tile.show_value(tile.value.text(), MEASURING)
        self.measure.setVisible(unmeasured and may_measure)
        tile.unit.setVisible(self.measure.isHidden())

    def set_look(self, scale: float) -> None:
        """Sizes the tiles to the text scale and lays them out again."""
        self._max_widths = {False: 0, True: 0}
        for tile in self.tiles.values():
            tile.set_look(scale)
        self._arrange()

    def _arrange(self) -> None:
        """Uses more rows in a narrow panel, and places units below the figures."""
        tiles = list(self.tiles.values())
        for stacked, widths in enumerate(zip(*(tile.required_widths() for tile in tiles), strict=True)):
            self._max_widths[bool(stacked)] = max(self._max_widths[bool(stacked)], *widths)
        available = self.width() - 2 * SIDE + SPACING
        arrangements = ((6, False), (3, False), (3, True))
        fitting = (
            (columns, stacked)
            for columns, stacked in arrangements
            if available >= columns * (self._max_widths[stacked] + SPACING)
        )
        arrangement = columns, stacked = next(fitting, (2, False))
        if arrangement == self._arrangement:
            return
        self._arrangement = arrangement
        for index, tile in enumerate(tiles):
            tile.stack(stacked)
            self._grid.addWidget(tile, index // columns, index % columns)
        for column in range(len(tiles)):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)

    @Slot()
    def _explain(self) -> None:
        tile = self.sender()
        if isinstance(tile, Tile):
            self.definition_requested.emit(tile.property("figure"), tile.mapToGlobal(QPoint(0, tile.height() + 6)))

    def minimumSizeHint(self) -> QSize:
        """Returns a width that permits the narrowest arrangement, whatever the current one is."""
        return QSize(2 * SIDE, self._grid.minimumSize().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()
