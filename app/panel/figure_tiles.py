"""The figures of the shown answer as tiles: the speed-up first, then acceptance. Pressing one opens its definition."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QSize, Qt, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QGridLayout, QLabel, QPushButton, QSizePolicy, QWidget

from app.look import theme as themes
from app.look.widgets import in_column, named, spaced, stretch
from app.look.wording import DEFINITIONS
from app.panel.definitions import NAMES, NOT_MEASURED, figures_of
from app.session.plain_baseline import Baseline
from app.session.session import Answer

SIDE, SPACING = 16, 8
MEASURING = "measuring…"
EXAMPLES = {"speed_up": ("–", NOT_MEASURED), "alpha": ("00%", "± 00 (alpha)")}
"""The widest values of a typical answer; their width is reserved, so that the first answer does not move the tiles."""


class Tile(QPushButton):
    """One figure with its name and unit. Its tooltip is the definition; `clicked` is meant to show it in full.

    Args:
        example: a typical value and unit; their width is reserved from the start.
    """

    def __init__(self, name: str, definition: str, example: tuple[str, str] = ("", "")) -> None:
        super().__init__()
        self._example = example
        self._action: QPushButton | None = None
        self.setObjectName("tile")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.name = named(QLabel(name), "tileName")
        self.value = named(QLabel("–"), "tileValue")
        self.unit = named(QLabel(""), "tileUnit")
        self.earlier, self.earlier_unit = QLabel(), QLabel()
        self.earlier.setObjectName("tileEarlier")
        self.earlier_unit.setObjectName("tileUnit")
        for label in (self.name, self.value, self.unit, self.earlier, self.earlier_unit):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._figures = [self._figure(self.earlier, self.earlier_unit), self._figure(self.value, self.unit)]
        self.column = in_column(self.name, *self._figures, stretch(), spacing=1, margins=(9, 8, 7, 8), parent=self)
        self.earlier.hide()
        self.earlier_unit.hide()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        self.define(definition)

    @staticmethod
    def _figure(value: QLabel, unit: QLabel) -> QBoxLayout:
        row = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        row.setSpacing(5)
        row.addWidget(value, 0, Qt.AlignmentFlag.AlignBaseline)
        row.addWidget(unit, 1, Qt.AlignmentFlag.AlignBaseline)
        return row

    def add_action(self, title: str, description: str) -> QPushButton:
        """Adds a small button in the place of the unit, hidden at first; the caller that shows it hides the unit."""
        button = named(QPushButton(title), "tileAction", description, tip=description)
        button.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        button.hide()
        self._action = button
        self._figures[1].addWidget(button, 1, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        return button

    def define(self, definition: str) -> None:
        """Sets the definition, as tooltip and for screen readers."""
        self.setToolTip(f"<p>{definition}</p>")
        self.setAccessibleDescription(definition)

    def show_value(self, value: str, unit: str, earlier: tuple[str, str] | None = None) -> None:
        """Shows a formatted figure with its unit (empty for none), and sets the accessible name. `earlier` is shown above it: the
        figure before rule or drafter changed."""
        self.value.setText(value)
        self.unit.setText(unit)
        figures = [(value, unit)]
        if earlier is not None:
            self.earlier.setText(earlier[0])
            self.earlier_unit.setText(earlier[1])
            figures.insert(0, earlier)
        for label in (self.earlier, self.earlier_unit):
            label.setVisible(earlier is not None)
        self.setAccessibleName(f"{self.name.text()} {'; '.join(', '.join(filter(None, figure)) for figure in figures)}")

    def stack(self, stacked: bool) -> None:
        """Places the unit below the figure, or beside it."""
        directions = QBoxLayout.Direction
        for figure in self._figures:
            figure.setDirection(directions.TopToBottom if stacked else directions.LeftToRight)
            figure.setSpacing(0 if stacked else 5)

    def required_widths(self) -> tuple[int, int]:
        """Returns the widths in pixels that show name, figure and unit in full: with the unit beside the figure, and below it."""
        shown = [(self.value, self.unit)]
        if not self.earlier.isHidden():
            shown.append((self.earlier, self.earlier_unit))
        widths = [(value.sizeHint().width(), unit.sizeHint().width()) for value, unit in shown]
        if any(self._example):
            figures = zip((self.value, self.unit), self._example, strict=True)
            value, unit = (label.fontMetrics().horizontalAdvance(text) for label, text in figures)
            widths.append((value, unit))
        margins, name = self.column.contentsMargins(), self.name.sizeHint().width()
        margin_width = margins.left() + margins.right() + 2
        return margin_width + max(name, *(value + 5 + unit for value, unit in widths)), margin_width + max(
            name, *map(max, widths)
        )

    def sizeHint(self) -> QSize:
        return self.column.sizeHint()

    def minimumSizeHint(self) -> QSize:
        return self.column.minimumSize()

    def set_look(self, scale: float) -> None:
        """Applies semi-bold tabular digits to the figure at the text scale; colours come from the style sheet."""
        font = themes.figure_font(scale, 19)
        font.setWeight(font.Weight.DemiBold)
        self.value.setFont(font)
        self.earlier.setFont(font)
        if self._action is not None:  # as high as the unit in its place, so that nothing moves
            for widget in (self.unit, self._action):
                widget.setFixedHeight(round(17 * scale))


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
