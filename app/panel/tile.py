"""A tile with one figure, its name and its unit."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QBoxLayout, QLabel, QPushButton, QSizePolicy

from app.look import theme as themes
from app.look.widgets import in_column, named, stretch


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
