"""Small controls that every room uses: a framed control with its label, a label that ends with dots, icon buttons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TypeVar

from PySide6.QtCore import QEvent, QObject, QSize, Qt, SignalInstance
from PySide6.QtGui import QCursor, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QBoxLayout,
    QComboBox,
    QDialog,
    QFrame,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QLayout,
    QMenu,
    QMessageBox,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QTableWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.look import theme as themes
from app.look.theme import Theme

Margins = tuple[int, int, int, int]
Pressed = Callable[[], object] | SignalInstance
AnyWidget = TypeVar("AnyWidget", bound=QWidget)
AnyLayout = TypeVar("AnyLayout", bound=QLayout)
AnyBox = TypeVar("AnyBox", bound=QBoxLayout)


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
            restyle(self, "focused", event.type() == QEvent.Type.FocusIn)
        return False


class LabelledControl(FocusFrame):
    """A labelled control in the header."""

    def __init__(self, label: str, control: QWidget, *extra: QWidget) -> None:
        super().__init__()
        self.setObjectName("chip")
        row = spaced(QHBoxLayout(self), 7, (10, 0, 6, 0))
        self.words = QLabel(label)
        self.words.setBuddy(control)
        for widget in (self.words, control, *extra):
            row.addWidget(widget)
        self.watch(control)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)


def plain_tip(words: str) -> str:
    """A tooltip that says what files, models or users are called.

    Qt would take a name that looks like HTML for that, and load the pictures in it.
    """
    return f"<p style='white-space: pre-wrap'>{escape(words)}</p>" if "<" in words or "&" in words else words


class PassingDialog(QDialog):
    """A dialog that is made anew each time, and gone once it is closed."""

    def __init__(self, parent: QWidget, name: str, title: str) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        self.setWindowTitle(title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)


class Question(QMessageBox):
    """A question, and more about it in smaller letters. Neither is markup; it is gone once it is answered."""

    def __init__(self, parent: QWidget, name: str, question: str, more: str) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setText(question)
        self.setInformativeText(more)
        for label in self.findChildren(QLabel):  # `setTextFormat` concerns the first text alone
            label.setTextFormat(Qt.TextFormat.PlainText)


class DiscardQuestion(Question):
    """Asks whether to discard something, in a button `keeps` that leaves it as it is.

    Attributes:
        discards: the button that does.
    """

    def __init__(self, parent: QWidget, question: str, more: str, keeps: str) -> None:
        super().__init__(parent, "discardQuestion", question, more)
        self.discards = self.addButton("Discard", QMessageBox.ButtonRole.DestructiveRole)
        stays = self.addButton(keeps, QMessageBox.ButtonRole.RejectRole)
        self.setDefaultButton(stays)
        self.setEscapeButton(stays)


class ReadingTable(QTableWidget):
    """A table of a dialog that only shows: the first column has what room there is, and Tab leads out of it."""

    def __init__(self, name: str, words: str, headings: Sequence[str]) -> None:
        super().__init__(0, len(headings))
        named(self, name, words)
        self.setHorizontalHeaderLabels(headings)
        header = self.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setHighlightSections(False)
        self.verticalHeader().hide()
        self.setShowGrid(False)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setTabKeyNavigation(False)


class ElidedLabel(QLabel):
    """A label that ends with dots where it has no room; its text stays whole for everybody who reads it. It is no markup."""

    def __init__(self, words: str = "") -> None:
        super().__init__(words)
        self.setTextFormat(Qt.TextFormat.PlainText)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(self.palette().windowText().color())
        inside = self.contentsRect()
        words = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, inside.width())
        painter.drawText(inside, Qt.AlignmentFlag.AlignVCenter, words)
        painter.end()


def icon_button(drawing: str, words: str, pressed: Pressed | None = None) -> QToolButton:
    """A button that shows one of our drawings; `words` name it for everybody who cannot see it."""
    button = named(QToolButton(), "iconButton", words, tip=words)
    button.setProperty("drawing", drawing)
    button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    if pressed is not None:
        button.clicked.connect(pressed)
    return button


def choice_box(entries: Iterable[tuple[str, object]] = (), shortest: int = 0) -> QComboBox:
    """A box to choose from these, each with its value; with `shortest` as wide as so many letters, however long the entries."""
    box = QComboBox()
    box.setProperty("look", "choice")
    for words, value in entries:
        box.addItem(words, value)
    if shortest:
        box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        box.setMinimumContentsLength(shortest)
    return box


def give_menu(button: QToolButton, menu: QMenu) -> None:
    """The button opens this menu. While that is open it has the mouse, so Qt does not notice that the button is left."""
    button.setMenu(menu)

    def look() -> None:
        """Looks again whether the mouse is over the button."""
        over = button.rect().contains(button.mapFromGlobal(QCursor.pos()))
        button.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, over)
        button.update()

    menu.aboutToHide.connect(look)


def tint(button: QToolButton, theme: Theme, scale: float) -> None:
    """Draws a button's icon in the theme's colours, as large as the text."""
    button.setIcon(themes.icon(button.property("drawing"), theme.dim))
    button.setIconSize(QSize(round(17 * scale), round(17 * scale)))


def spaced(layout: AnyLayout, spacing: int = 0, margins: Margins = (0, 0, 0, 0)) -> AnyLayout:
    """The layout with so many pixels between its items and around them: left, top, right, bottom."""
    layout.setContentsMargins(*margins)
    layout.setSpacing(spacing)
    return layout


Item = QWidget | QLayout | int | tuple[QWidget | QLayout | None, int] | tuple[QWidget, int, Qt.AlignmentFlag]


def in_row(*items: Item, spacing: int = 0, margins: Margins = (0, 0, 0, 0), parent: QWidget | None = None) -> QHBoxLayout:
    """These from left to right, so many pixels apart: widgets and layouts, with their stretch and alignment, or more pixels."""
    return _filled(QHBoxLayout(), items, spacing, margins, parent)


def in_column(*items: Item, spacing: int = 0, margins: Margins = (0, 0, 0, 0), parent: QWidget | None = None) -> QVBoxLayout:
    """The same from top to bottom."""
    return _filled(QVBoxLayout(), items, spacing, margins, parent)


def stretch(share: int = 1) -> tuple[None, int]:
    """What takes the room that is left in a row or column."""
    return None, share


def _filled(layout: AnyBox, items: tuple[Item, ...], spacing: int, margins: Margins, parent: QWidget | None) -> AnyBox:
    if parent is not None:
        parent.setLayout(layout)
    spaced(layout, spacing, margins)
    for item in items:
        if isinstance(item, int):
            layout.addSpacing(item)
            continue
        inside, share, *alignment = item if isinstance(item, tuple) else (item, 0)
        if isinstance(inside, QWidget):
            layout.addWidget(inside, share, *alignment)
        elif isinstance(inside, QLayout):
            layout.addLayout(inside, share)
        else:
            layout.addStretch(share)
    return layout


def scrolling(inside: QWidget, keys: bool = False) -> QScrollArea:
    """A frameless area in which a widget as wide as it scrolls up and down. `keys`: whether the keyboard can go to it."""
    area = QScrollArea()
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setWidgetResizable(True)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    if not keys:
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    area.setWidget(inside)
    return area


def named(widget: AnyWidget, name: str = "", words: str = "", description: str = "", tip: str = "") -> AnyWidget:
    """The widget, named for automation and the style sheet, and in words for a screen reader and whoever points at it."""
    for give, given in (
        (widget.setObjectName, name),
        (widget.setAccessibleName, words),
        (widget.setAccessibleDescription, description),
        (widget.setToolTip, tip),
    ):
        if given:
            give(given)
    return widget


def text_label(name: str, words: str = "", wraps: bool = True, selectable: bool = False) -> QLabel:
    """A label for names and texts of others, which are no markup; `name` tells the style sheet what it looks like."""
    label = named(QLabel(words, textFormat=Qt.TextFormat.PlainText, wordWrap=wraps), name)
    if selectable:
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


def push_button(words: str, name: str, pressed: Pressed | None = None) -> QPushButton:
    """A button with words on it; `name` tells the style sheet what it looks like."""
    button = named(QPushButton(words), name)
    if pressed is not None:
        button.clicked.connect(pressed)
    return button


def dialog_button(words: str, pressed: Callable[[], object], tip: str = "") -> QPushButton:
    """A button that Enter in a field of the dialog does not press; `pressed` hears nothing of whether it is checked."""
    button = named(push_button(words, "quietButton", lambda: pressed()), words=words, tip=tip)
    button.setAutoDefault(False)
    return button


def restyle(widget: QWidget, aspect: str, value: object) -> None:
    """Sets a property that the style sheet looks at, and has the widget styled anew."""
    widget.setProperty(aspect, value)
    widget.style().unpolish(widget)
    widget.style().polish(widget)
