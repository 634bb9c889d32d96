"""The list view: paints rows and handles keys. All rows have one height, so that thousands cost no more than the visible ones."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractItemModel, QEvent, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QContextMenuEvent, QDrag, QFont, QKeyEvent, QPainter
from PySide6.QtWidgets import QAbstractItemView, QLineEdit, QListView, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.look import theme as themes
from app.look.command import matches_keys, native_keys
from app.look.marks import draw_rounded, draw_text_in
from app.look.theme import Theme
from app.look.widgets import named
from app.sidebar.model import ChatsModel, Index, Row

DRAG_HOT_SPOT = QPoint(-12, -14)
"""Position of the pointer relative to the upper left corner of a dragged chat's image."""


class ChatDelegate(QStyledItemDelegate):
    """Paints headings, titles and search matches."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.current: int | None = None
        self.shows_hits = False

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies colours and sizes."""
        self._theme, self._scale = theme, scale

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(80, round((50 if self.shows_hits else 32) * self._scale))

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:
        editor = named(QLineEdit(parent), "chatTitle", "Title of the chat", "Enter keeps it, Escape leaves it as it was.")
        return editor

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: Index) -> None:
        area: QRect = option.rect
        editor.setGeometry(area.adjusted(6, 1, -6, -1) if not self.shows_hits else area.adjusted(6, 1, -6, -area.height() // 3))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paints a heading, or a chat: its title, a pin, and in a search an excerpt with the match."""
        model = index.model()
        row = model.at(index) if isinstance(model, ChatsModel) else None
        if row is None:
            return
        area: QRect = option.rect
        font: QFont = QFont(option.font)
        state: Any = option.state
        theme, scale = self._theme, self._scale
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        inside = area.adjusted(round(14 * scale), 0, -round(12 * scale), 0)
        is_hovered = bool(state & QStyle.StateFlag.State_MouseOver)  # not the selection: that stays where the focus was once
        focused = bool(state & QStyle.StateFlag.State_HasFocus)
        if row.folder is not None:
            self._frame(painter, area, is_hovered, focused)
            self._paint_folder(painter, font, inside, row)
            painter.restore()
            return
        if row.about is None:
            font.setPixelSize(round(11 * scale))
            font.setWeight(QFont.Weight.DemiBold)
            painter.setFont(font)
            painter.setPen(QColor(theme.dim))
            low = inside.adjusted(0, round(8 * scale), 0, 0)
            painter.drawText(low, Qt.AlignmentFlag.AlignVCenter, row.title)
            painter.restore()
            return
        shown = row.about.id == self.current
        self._frame(painter, area, shown or is_hovered, focused)
        font.setPixelSize(round(13 * scale))
        font.setWeight(QFont.Weight.Medium if shown else QFont.Weight.Normal)
        if row.about.pinned:
            side = round(13 * scale)
            _paint_icon(
                painter, "pin", theme.faint, QRect(inside.right() - side, area.top() + (area.height() - side) // 2, side, side)
            )
            inside.setRight(inside.right() - side - 4)
        if row.about.comparison:
            side = round(14 * scale)
            _paint_icon(painter, "compare", theme.dim, QRect(inside.left(), area.top() + (area.height() - side) // 2, side, side))
            inside.setLeft(inside.left() + side + round(7 * scale))
        line = inside if not self.shows_hits else QRect(inside.left(), inside.top() + 4, inside.width(), inside.height() // 2 - 4)
        self._paint_line(painter, font, line, row.title, row.title_marks, QColor(theme.text))
        if self.shows_hits and row.excerpt:
            font.setPixelSize(round(12 * scale))
            font.setWeight(QFont.Weight.Normal)
            below = QRect(inside.left(), area.center().y(), inside.width(), inside.height() // 2 - 4)
            self._paint_line(painter, font, below, *_excerpt_at_match(row), QColor(theme.dim))
        painter.restore()

    def _frame(self, painter: QPainter, area: QRect, filled: bool, focused: bool) -> None:
        if filled or focused:
            draw_rounded(
                painter,
                area.adjusted(6, 1, -7, -2),
                7,
                QColor(self._theme.raised) if filled else None,
                edge=QColor(self._theme.accent) if focused else Qt.PenStyle.NoPen,
            )

    def _paint_folder(self, painter: QPainter, font: QFont, inside: QRect, row: Row) -> None:
        """Paints a folder with the number of its chats, or the row that leads out of it."""
        scale = self._scale
        side = round(15 * scale)
        icon_area = QRect(inside.left(), inside.center().y() - side // 2, side, side)
        _paint_icon(painter, "folder" if row.folder else "left", self._theme.dim, icon_area)
        count = f"{row.chat_count:,}" if row.folder else ""
        font.setPixelSize(round(13 * scale))
        painter.setFont(font)
        count_width = painter.fontMetrics().horizontalAdvance(count)
        draw_text_in(painter, self._theme.faint, inside, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, count)
        line = inside.adjusted(side + round(7 * scale), 0, -count_width - round(8 * scale), 0)
        self._paint_line(painter, font, line, row.title, (), QColor(self._theme.text))

    def _paint_line(
        self, painter: QPainter, font: QFont, area: QRect, text: str, marks: tuple[tuple[int, int], ...], colour: QColor
    ) -> None:
        """Paints one line with the matches highlighted; it is elided if there is no room."""
        painter.setFont(font)
        metrics = painter.fontMetrics()
        line = metrics.elidedText(text.replace("\n", " "), Qt.TextElideMode.ElideRight, area.width())
        for start, end in marks:
            if start < len(line):
                left = area.left() + metrics.horizontalAdvance(line[:start])
                width = metrics.horizontalAdvance(line[start : min(end, len(line))])
                middle = area.center().y()
                height = metrics.height()
                painter.fillRect(QRect(left, middle - height // 2, width, height), QColor(self._theme.selection))
        draw_text_in(painter, colour, area, Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine, line)


def _paint_icon(painter: QPainter, name: str, colour: str, area: QRect) -> None:
    """Paints an icon at the full resolution of the screen."""
    painter.drawPixmap(area.topLeft(), themes.pixmap(name, colour, area.width(), painter.device().devicePixelRatioF()))


def _excerpt_at_match(row: Row) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Returns the excerpt from shortly before its first match, so that the match is visible in a narrow list."""
    first = row.marks[0][0] if row.marks else 0
    cut = 0 if first < 14 else row.excerpt.rfind(" ", 0, first - 6) + 1
    if not cut:
        return row.excerpt, row.marks
    return "… " + row.excerpt[cut:], tuple((start - cut + 2, end - cut + 2) for start, end in row.marks if start >= cut)


class ChatList(QListView):
    """Signals:
    chosen: (number, message or None) the user opens a chat.
    deleted, pinned: (number) delete it; pin or unpin it.
    folder_chosen, folder_deleted: (name) show a folder, or all chats if the name is empty; remove a folder, but not its chats.
    menu_requested: (global position) the menu of the focused chat was requested.
    """

    chosen = Signal(int, object)
    deleted = Signal(int)
    pinned = Signal(int)
    folder_chosen = Signal(str)
    folder_deleted = Signal(str)
    menu_requested = Signal(object)

    def __init__(self, model: QAbstractItemModel) -> None:
        super().__init__()
        named(
            self,
            "chatList",
            "Chats",
            f"Enter opens a chat or a folder, {native_keys('F2')} renames it, Delete deletes it, P pins a chat, the menu key has "
            "everything. Chats can be dragged onto folders.",
        )
        self.delegate = ChatDelegate(self)
        self.setItemDelegate(self.delegate)
        self.setUniformItemSizes(True)
        self.setMouseTracking(True)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setDragDropMode(QAbstractItemView.DragDropMode.DragDrop)
        self.setDefaultDropAction(Qt.DropAction.MoveAction)
        self.setDropIndicatorShown(True)
        self.setModel(model)
        self.clicked.connect(self._choose)

    def show_current(self, number: int | None) -> None:
        """Highlights the chat that is shown."""
        self.delegate.current = number
        self.viewport().update()

    def number(self) -> int | None:
        """Returns the id of the focused chat."""
        row = self._row(self.currentIndex())
        return None if row is None or row.about is None else row.about.id

    def _row(self, index: Index) -> Row | None:
        model = self.model()
        return model.at(index) if isinstance(model, ChatsModel) else None

    def folder(self) -> str | None:
        """Returns the name of the focused folder, empty for the row that leads out of one."""
        row = self._row(self.currentIndex())
        return None if row is None else row.folder

    def _choose(self, index: Index) -> None:
        row = self._row(index)
        if row is not None and row.folder is not None:
            self.folder_chosen.emit(row.folder)
        elif row is not None and row.about is not None:
            self.chosen.emit(row.about.id, row.message)

    def rename(self) -> None:
        """Starts editing the title in place."""
        if self.number() is not None or self.folder():
            self.edit(self.currentIndex())

    # Qt events.

    def event(self, event: QEvent) -> bool:
        """Uses the rename key for the focused chat; elsewhere in the window it renames the shown chat."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent) and matches_keys(event, "F2"):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        number, folder = self.number(), self.folder()
        key = event.key()
        if self.state() == self.State.EditingState:
            event.accept()  # Enter ends the editing of a title, but also reaches the list
        elif matches_keys(event, "F2"):
            self.rename()
        elif (number is None and folder is None) or event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier:
            super().keyPressEvent(event)
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._choose(self.currentIndex())
        elif key == Qt.Key.Key_Backspace and folder == "":
            self.folder_chosen.emit("")
        elif key in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            if number is not None:
                self.deleted.emit(number)
            elif folder:
                self.folder_deleted.emit(folder)
        elif key == Qt.Key.Key_P and number is not None:
            self.pinned.emit(number)
        else:
            super().keyPressEvent(event)

    def startDrag(self, actions: Qt.DropAction) -> None:
        """Draws the chat below the pointer: Qt would draw it over the drop target."""
        index = self.currentIndex()
        drag = QDrag(self)
        drag.setMimeData(self.model().mimeData([index]))
        drag.setPixmap(self.viewport().grab(self.visualRect(index)))
        drag.setHotSpot(DRAG_HOT_SPOT)
        drag.exec(actions, self.defaultDropAction())

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        if event.reason() == QContextMenuEvent.Reason.Mouse:
            index = self.indexAt(event.pos())
            if (row := self._row(index)) is None or (row.about is None and not row.folder):
                return
            self.setCurrentIndex(index)
            self.menu_requested.emit(event.globalPos())
        elif self.number() is not None or self.folder():
            self.menu_requested.emit(self.viewport().mapToGlobal(self.visualRect(self.currentIndex()).bottomLeft()))
