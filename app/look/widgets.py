"""Small widgets that every room uses: framed and labelled controls, elided labels, buttons, questions; layout helpers; and which
files are dragged or pasted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import QEvent, QMimeData, QObject, QSize, Qt, SignalInstance
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QCursor, QMouseEvent, QPainter, QPaintEvent
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
from app.look.placing import visible_part
from app.look.theme import Theme

Margins = tuple[int, int, int, int]
ClickHandler = Callable[[], object] | SignalInstance
AnyWidget = TypeVar("AnyWidget", bound=QWidget)
AnyLayout = TypeVar("AnyLayout", bound=QLayout)
AnyBox = TypeVar("AnyBox", bound=QBoxLayout)


def announce(widget: QWidget, text: str) -> None:
    """Makes a screen reader, if one runs, say these words."""
    if QAccessible.isActive():
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(widget, text))


class FocusFrame(QFrame):
    """A frame that shows the focus of a control inside it."""

    _focus_target: QWidget | None = None

    def watch(self, control: QWidget) -> None:
        """Highlights the frame while this control has the focus; may be called for several controls.

        A click on the frame itself focuses the first of them.
        """
        control.installEventFilter(self)
        if self._focus_target is None:
            self._focus_target = control

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if self._focus_target is not None:
            self._focus_target.setFocus(Qt.FocusReason.MouseFocusReason)

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


def plain_tip(text: str) -> str:
    """Returns a tooltip as plain text, for names of files, models or users.

    Qt would treat a name that looks like HTML as such, and load the pictures in it.
    """
    return f"<p style='white-space: pre-wrap'>{escape(text)}</p>" if "<" in text or "&" in text else text


class TransientDialog(QDialog):
    """A dialog that is created anew each time and deleted when it is closed."""

    def __init__(self, parent: QWidget, name: str, title: str) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        self.setWindowTitle(title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)

    def resize_to_lines(self, width: int, height: int) -> None:
        """Resizes to a width and height in lines of text, as far as there is room over the window."""
        window, line = self.parentWidget(), self.fontMetrics().lineSpacing()
        assert window is not None
        room = visible_part(window)
        self.resize(min(room.width() - 60, width * line), min(room.height() - 80, height * line))


class Question(QMessageBox):
    """A question with details in smaller text, both plain text. It is deleted when it is answered."""

    def __init__(self, parent: QWidget, name: str, question: str, details: str) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setText(question)
        self.setInformativeText(details)
        for label in self.findChildren(QLabel):  # `setTextFormat` affects only the main text
            label.setTextFormat(Qt.TextFormat.PlainText)


class DiscardQuestion(Question):
    """Asks whether to discard something; the button titled `keep_title` keeps it.

    Attributes:
        discard_button: the button that discards.
    """

    def __init__(self, parent: QWidget, question: str, details: str, keep_title: str) -> None:
        super().__init__(parent, "discardQuestion", question, details)
        self.discard_button = self.addButton("Discard", QMessageBox.ButtonRole.DestructiveRole)
        stays = self.addButton(keep_title, QMessageBox.ButtonRole.RejectRole)
        self.setDefaultButton(stays)
        self.setEscapeButton(stays)


class ReadOnlyTable(QTableWidget):
    """A read-only table for dialogs: the first column takes the remaining width, and Tab leaves the table."""

    def __init__(self, name: str, label: str, headings: Sequence[str]) -> None:
        super().__init__(0, len(headings))
        named(self, name, label)
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
    """A plain-text label that is elided on the right if it lacks room; screen readers get the whole text."""

    def __init__(self, text: str = "") -> None:
        super().__init__(text)
        self.setTextFormat(Qt.TextFormat.PlainText)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(self.palette().windowText().color())
        inside = self.contentsRect()
        text = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, inside.width())
        painter.drawText(inside, Qt.AlignmentFlag.AlignVCenter, text)
        painter.end()


def icon_button(icon_name: str, label: str, on_click: ClickHandler | None = None) -> QToolButton:
    """Returns a button with one of Draftlight's icons; `label` are its tooltip and its name for screen readers."""
    button = named(QToolButton(), "iconButton", label, tip=label)
    button.setProperty("drawing", icon_name)
    button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    if on_click is not None:
        button.clicked.connect(on_click)
    return button


def choice_box(entries: Iterable[tuple[str, object]] = (), min_characters: int = 0) -> QComboBox:
    """Returns a combo box with entries (text, value). If `min_characters` is given, it sets the width for any entries."""
    box = QComboBox()
    box.setProperty("look", "choice")
    for text, value in entries:
        box.addItem(text, value)
    if min_characters:
        box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        box.setMinimumContentsLength(min_characters)
    return box


def attach_menu(button: QToolButton, menu: QMenu) -> None:
    """Makes the button open this menu. The open menu grabs the mouse, so Qt misses that the pointer leaves the button."""
    button.setMenu(menu)

    def update_hover() -> None:
        """Checks again whether the pointer is over the button."""
        is_over = button.rect().contains(button.mapFromGlobal(QCursor.pos()))
        button.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, is_over)
        button.update()

    menu.aboutToHide.connect(update_hover)


def tint(button: QToolButton, theme: Theme, scale: float) -> None:
    """Draws a button's icon in the theme's colours, as large as the text."""
    button.setIcon(themes.icon(button.property("drawing"), theme.dim))
    button.setIconSize(QSize(round(17 * scale), round(17 * scale)))


def spaced(layout: AnyLayout, spacing: int = 0, margins: Margins = (0, 0, 0, 0)) -> AnyLayout:
    """Returns the layout with this spacing and these margins (left, top, right, bottom) in pixels."""
    layout.setContentsMargins(*margins)
    layout.setSpacing(spacing)
    return layout


Item = QWidget | QLayout | int | tuple[QWidget | QLayout | None, int] | tuple[QWidget, int, Qt.AlignmentFlag]


def in_row(*items: Item, spacing: int = 0, margins: Margins = (0, 0, 0, 0), parent: QWidget | None = None) -> QHBoxLayout:
    """Returns a row of widgets and layouts (optionally with stretch and alignment), and of extra spacing in pixels."""
    return _fill(QHBoxLayout(), items, spacing, margins, parent)


def in_column(*items: Item, spacing: int = 0, margins: Margins = (0, 0, 0, 0), parent: QWidget | None = None) -> QVBoxLayout:
    """Returns a column of the same kinds of items."""
    return _fill(QVBoxLayout(), items, spacing, margins, parent)


def stretch(share: int = 1) -> tuple[None, int]:
    """Returns an item that takes the remaining space in a row or column."""
    return None, share


def _fill(layout: AnyBox, items: tuple[Item, ...], spacing: int, margins: Margins, parent: QWidget | None) -> AnyBox:
    if parent is not None:
        parent.setLayout(layout)
    spaced(layout, spacing, margins)
    for item in items:
        if isinstance(item, int):
            layout.addSpacing(item)
            continue
        content, share, *alignment = item if isinstance(item, tuple) else (item, 0)
        if isinstance(content, QWidget):
            layout.addWidget(content, share, *alignment)
        elif isinstance(content, QLayout):
            layout.addLayout(content, share)
        else:
            layout.addStretch(share)
    return layout


def scrolling(content: QWidget, focusable: bool = False) -> QScrollArea:
    """Returns a frameless area in which a widget of its width scrolls vertically. `focusable`: whether it can get the focus."""
    area = QScrollArea()
    area.setFrameShape(QFrame.Shape.NoFrame)
    area.setWidgetResizable(True)
    area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    if not focusable:
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    area.setWidget(content)
    return area


def named(widget: AnyWidget, name: str = "", label: str = "", description: str = "", tip: str = "") -> AnyWidget:
    """Returns the widget with an object name for automation and style sheet, and texts for screen readers and the tooltip."""
    for set_value, value in (
        (widget.setObjectName, name),
        (widget.setAccessibleName, label),
        (widget.setAccessibleDescription, description),
        (widget.setToolTip, tip),
    ):
        if value:
            set_value(value)
    return widget


def text_label(name: str, text: str = "", wraps: bool = True, selectable: bool = False) -> QLabel:
    """Returns a plain-text label for names and foreign text; the style sheet uses `name`."""
    label = named(QLabel(text, textFormat=Qt.TextFormat.PlainText, wordWrap=wraps), name)
    if selectable:
        label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


def push_button(text: str, name: str, on_click: ClickHandler | None = None) -> QPushButton:
    """Returns a button with text; the style sheet uses `name`."""
    button = named(QPushButton(text), name)
    if on_click is not None:
        button.clicked.connect(on_click)
    return button


def dialog_button(text: str, on_click: Callable[[], object], tip: str = "") -> QPushButton:
    """Returns a button that is not triggered by Enter in a field of the dialog; `on_click` is called without arguments."""
    button = named(push_button(text, "quietButton", lambda: on_click()), label=text, tip=tip)
    button.setAutoDefault(False)
    return button


def restyle(widget: QWidget, property_name: str, value: object) -> None:
    """Sets a property that the style sheet uses, and applies the style sheet again."""
    widget.setProperty(property_name, value)
    widget.style().unpolish(widget)
    widget.style().polish(widget)


def local_files(data: QMimeData) -> list[Path]:
    """Returns the local files and folders in the data."""
    return [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()] if data.hasUrls() else []
