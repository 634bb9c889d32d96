"""Small parts the window is built from: chips, the rule selector, tiles, cards and icon buttons."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import (
    QBoxLayout,
    QButtonGroup,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLayout,
    QLayoutItem,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.look import theme as themes
from app.look.theme import Theme
from app.look.wording import RULE_NOTES, RULE_TITLES
from engine.types import RULES, Rule


class FlowLayout(QLayout):
    """Rows of widgets that wrap where the width ends; rows are centred vertically on their tallest member."""

    def __init__(self, spacing: int) -> None:
        super().__init__()
        self._items: list[QLayoutItem] = []
        self.setSpacing(spacing)

    def addItem(self, item: QLayoutItem) -> None:
        self._items.append(item)

    def count(self) -> int:
        """How many items are laid out; part of what Qt asks of every layout."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:
        return Qt.Orientation(0)  # a layout would otherwise take whatever height is left

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self._arrange(QRect(0, 0, width, 0), move=False)

    def sizeHint(self) -> QSize:
        widths = [item.sizeHint().width() for item in self._items]
        return QSize(
            sum(widths) + self.spacing() * max(0, len(widths) - 1), max((i.sizeHint().height() for i in self._items), default=0)
        )

    def minimumSize(self) -> QSize:
        size = QSize()
        for item in self._items:
            size = size.expandedTo(item.minimumSize())
        return size

    def setGeometry(self, rect: QRect) -> None:
        super().setGeometry(rect)
        self._arrange(rect, move=True)

    def _arrange(self, rect: QRect, move: bool) -> int:
        y, row = rect.top(), list[QLayoutItem]()
        used = 0
        rows = []
        for item in self._items:
            widget = item.widget()
            if widget is not None and widget.isHidden():
                continue
            width = item.sizeHint().width()
            if row and used + self.spacing() + width > rect.width():
                rows.append(row)
                row, used = [], 0
            used += width + (self.spacing() if row else 0)
            row.append(item)
        if row:
            rows.append(row)
        for line in rows:
            height = max(item.sizeHint().height() for item in line)
            x = rect.left()
            for item in line:
                size = item.sizeHint().boundedTo(QSize(rect.width(), height))
                if move:
                    item.setGeometry(QRect(QPoint(x, y + (height - size.height()) // 2), size))
                x += size.width() + self.spacing()
            y += height + 8
        return y - 8 - rect.top() if rows else 0


class FocusFrame(QFrame):
    """A frame that shows the focus of a control inside it."""

    _first: QWidget | None = None

    def watch(self, control: QWidget) -> None:
        """Lights up the frame while this control has the keyboard; may be called for several controls.

        A click on the frame itself goes to the first of them.
        """
        control.installEventFilter(self)
        if self._first is None:
            self._first = control

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if self._first is not None:
            self._first.setFocus(Qt.FocusReason.MouseFocusReason)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in (QEvent.Type.FocusIn, QEvent.Type.FocusOut):
            self.setProperty("focused", event.type() == QEvent.Type.FocusIn)
            self.style().unpolish(self)
            self.style().polish(self)
        return False


class LabelledControl(FocusFrame):
    """A labelled control in the header."""

    def __init__(self, label: str, control: QWidget, *extra: QWidget) -> None:
        super().__init__()
        self.setObjectName("chip")
        row = QHBoxLayout(self)
        row.setContentsMargins(10, 0, 6, 0)
        row.setSpacing(7)
        self.words = QLabel(label)
        self.words.setBuddy(control)
        for widget in (self.words, control, *extra):
            row.addWidget(widget)
        self.watch(control)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)


class RuleSelector(QFrame):
    """One button per rule; arrow keys move between them.

    Args:
        rules: those to choose from. name: for automation. words: for a screen reader.

    Signals:
        chosen: the user picked another rule.
    """

    chosen = Signal(str)

    def __init__(self, rules: Sequence[Rule] = RULES, name: str = "ruleSelector", words: str = "Acceptance rule") -> None:
        super().__init__()
        self.setObjectName(name)
        self.setAccessibleName(words)
        self.setAccessibleDescription("How proposed tokens are judged. Can be changed during an answer.")
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        group = QButtonGroup(self)
        self.buttons: dict[Rule, QPushButton] = {}
        for rule in rules:
            button = QPushButton(RULE_TITLES[rule])
            button.setCheckable(True)
            button.setProperty("rule", rule)
            button.setAccessibleName(f"Rule {RULE_TITLES[rule]}")
            button.setAccessibleDescription(RULE_NOTES[rule])
            button.setToolTip(RULE_NOTES[rule])
            group.addButton(button)
            row.addWidget(button)
            self.buttons[rule] = button
        group.buttonClicked.connect(self._clicked)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)

    @property
    def rule(self) -> Rule:
        """The rule whose button is down."""
        return next(rule for rule, button in self.buttons.items() if button.isChecked())

    def set_rule(self, rule: Rule) -> None:
        """Presses a rule's button without emitting `chosen`."""
        self.buttons[rule].setChecked(True)
        for name, button in self.buttons.items():  # Tab reaches the rule in force; Qt sees to that only after a first visit
            button.setFocusPolicy(Qt.FocusPolicy.StrongFocus if name == rule else Qt.FocusPolicy.ClickFocus)

    def _clicked(self) -> None:
        self.chosen.emit(self.rule)


class Tile(QPushButton):
    """One figure with its name and unit; its definition is a tooltip, and whoever listens to `clicked` shows it in full."""

    def __init__(self, name: str, definition: str) -> None:
        super().__init__()
        self.setObjectName("tile")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.name = QLabel(name)
        self.name.setObjectName("tileName")
        self.value = QLabel("–")
        self.value.setObjectName("tileValue")
        self.unit = QLabel("")
        self.unit.setObjectName("tileUnit")
        self.earlier, self.earlier_unit = QLabel(), QLabel()
        self.earlier.setObjectName("tileEarlier")
        self.earlier_unit.setObjectName("tileUnit")
        for label in (self.name, self.value, self.unit, self.earlier, self.earlier_unit):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        column = self.column = QVBoxLayout(self)
        column.setContentsMargins(9, 8, 7, 8)
        column.setSpacing(1)
        column.addWidget(self.name)
        self._figures = [
            self._figure(value, unit) for value, unit in ((self.earlier, self.earlier_unit), (self.value, self.unit))
        ]
        for figure in self._figures:
            column.addLayout(figure)
        column.addStretch(1)
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

    def define(self, definition: str) -> None:
        """Sets what the figure means, as tooltip and for screen readers."""
        self.setToolTip(f"<p>{definition}</p>")
        self.setAccessibleDescription(definition)

    def show_value(self, value: str, unit: str, earlier: tuple[str, str] | None = None) -> None:
        """Shows a figure as text already formatted, with its unit (empty for none), and reads out both with the name; above it,
        what the figure was before rule or drafter changed, where they did."""
        self.value.setText(value)
        self.unit.setText(unit)
        told = [(value, unit)]
        if earlier is not None:
            self.earlier.setText(earlier[0])
            self.earlier_unit.setText(earlier[1])
            told.insert(0, earlier)
        for label in (self.earlier, self.earlier_unit):
            label.setVisible(earlier is not None)
        self.setAccessibleName(f"{self.name.text()} {'; '.join(', '.join(filter(None, figure)) for figure in told)}")

    def stack(self, stacked: bool) -> None:
        """Puts the unit below the figure, or beside it."""
        directions = QBoxLayout.Direction
        for figure in self._figures:
            figure.setDirection(directions.TopToBottom if stacked else directions.LeftToRight)
            figure.setSpacing(0 if stacked else 5)

    def width_needed(self, stacked: bool) -> int:
        """Pixels within which name, figure and unit are whole."""
        shown = [(self.value, self.unit)]
        if not self.earlier.isHidden():
            shown.append((self.earlier, self.earlier_unit))
        widths = [(value.sizeHint().width(), unit.sizeHint().width()) for value, unit in shown]
        figure = max(max(pair) if stacked else pair[0] + 5 + pair[1] for pair in widths)
        margins = self.column.contentsMargins()
        return margins.left() + margins.right() + 2 + max(self.name.sizeHint().width(), figure)

    def sizeHint(self) -> QSize:
        return self.column.sizeHint()

    def minimumSizeHint(self) -> QSize:
        return self.column.minimumSize()

    def set_look(self, scale: float) -> None:
        """Sets the figure in semi-bold digits of one width at the text scale; colours come from the style sheet."""
        font = themes.figure_font(scale, 19)
        font.setWeight(font.Weight.DemiBold)
        self.value.setFont(font)
        self.earlier.setFont(font)


class PromptCard(QPushButton):
    """An example prompt in the empty conversation."""

    def __init__(self, drawing: str, title: str, prompt: str) -> None:
        super().__init__()
        self.setObjectName("promptCard")
        self.setAccessibleName(f"Example prompt: {title}")
        self.setAccessibleDescription(prompt)
        self.prompt = prompt
        self.drawing = drawing
        self.picture = QLabel()
        heading = QLabel(title)
        heading.setObjectName("cardTitle")
        words = QLabel(prompt)
        words.setObjectName("cardText")
        words.setWordWrap(True)
        for label in (self.picture, heading, words):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        top = QHBoxLayout()
        top.setSpacing(8)
        top.addWidget(self.picture)
        top.addWidget(heading, 1)
        column = self.column = QVBoxLayout(self)
        column.setContentsMargins(14, 12, 14, 12)
        column.setSpacing(5)
        column.addLayout(top)
        column.addWidget(words)
        column.addStretch(1)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)

    def sizeHint(self) -> QSize:
        return self.column.sizeHint()

    def minimumSizeHint(self) -> QSize:
        return self.column.minimumSize()

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self.column.heightForWidth(width)

    def set_look(self, theme: Theme) -> None:
        """Draws the card's picture in the accent colour."""
        self.picture.setPixmap(themes.pixmap(self.drawing, theme.accent, 18, self.devicePixelRatioF()))


class ElidedLabel(QLabel):
    """A label that ends with dots where it has no room; its text stays whole for everybody who reads it."""

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(self.palette().windowText().color())
        inside = self.contentsRect()
        words = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, inside.width())
        painter.drawText(inside, Qt.AlignmentFlag.AlignVCenter, words)
        painter.end()


NARROWEST_BRACKET = 9
"""In pixels; over a comma a narrower one would be a blot."""


def bracket_over(painter: QPainter, box: QRectF, theme: Theme) -> None:
    """The mark of a token that another rule would have judged otherwise: a bracket lying over it, which no verdict has."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    colour = QColor(theme.text)
    wide = max(NARROWEST_BRACKET, round(box.width()))
    top, left = round(box.top()) - 3, round(box.center().x() - wide / 2)
    painter.fillRect(left, top, wide, 2, colour)
    painter.fillRect(left, top, 2, 5, colour)
    painter.fillRect(left + wide - 2, top, 2, 5, colour)
    painter.restore()


def frame_focus(painter: QPainter, area: QRect, theme: Theme) -> None:
    """The frame of a painted view that was reached by key."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(QColor(theme.accent), 1))
    painter.drawRect(area)


def icon_button(drawing: str, words: str, pressed: Callable[[], object] | None = None) -> QToolButton:
    """A button that shows one of our drawings; `words` name it for everybody who cannot see it."""
    button = QToolButton()
    button.setObjectName("iconButton")
    button.setProperty("drawing", drawing)
    button.setToolTip(words)
    button.setAccessibleName(words)
    button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    if pressed is not None:
        button.clicked.connect(pressed)
    return button


def tint(button: QToolButton, theme: Theme, scale: float) -> None:
    """Draws a button's icon in the theme's colours, as large as the text."""
    button.setIcon(themes.icon(button.property("drawing"), theme.dim))
    button.setIconSize(QSize(round(17 * scale), round(17 * scale)))
