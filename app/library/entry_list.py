"""A list of models, with its search field: paints rows and handles keys. All rows have one height, so that hundreds cost no more
than the visible ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QAbstractListModel, QEvent, QModelIndex, QPersistentModelIndex, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QKeyEvent, QPainter
from PySide6.QtWidgets import QAbstractItemView, QLineEdit, QListView, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.library.entries import Entry
from app.look.marks import draw_rounded, draw_text_in
from app.look.theme import Theme
from app.look.widgets import named, plain_tip

Index = QModelIndex | QPersistentModelIndex
ROW_HEIGHT = 50
"""Height of a row in pixels at text scale 1."""


class EntriesModel(QAbstractListModel):
    """The rows, filtered by words."""

    def __init__(self) -> None:
        super().__init__()
        self._entries: list[Entry] = []
        self._shown: list[Entry] = []
        self._query = ""

    def show_entries(self, entries: Sequence[Entry]) -> None:
        """Replaces the rows. If only their content changes, the list is not laid out again."""
        self._entries = list(entries)
        self._filter()

    def set_query(self, query: str) -> None:
        """Shows only rows that contain these words; all if there are none."""
        self._query = query
        self._filter()

    def _filter(self) -> None:
        shown = [entry for entry in self._entries if entry.contains(self._query)] if self._query else self._entries
        if [entry.key for entry in shown] == [entry.key for entry in self._shown]:
            changed = [at for at, (old, new) in enumerate(zip(self._shown, shown, strict=True)) if old != new]
            self._shown = list(shown)
            if changed:
                self.dataChanged.emit(self.index(changed[0]), self.index(changed[-1]))
        else:
            self.beginResetModel()
            self._shown = list(shown)
            self.endResetModel()

    def at(self, index: Index) -> Entry | None:
        """Returns the row at an index; None if the index is invalid."""
        return self._shown[index.row()] if index.isValid() and index.row() < len(self._shown) else None

    def row_of(self, key: str) -> int | None:
        """Returns the row number of a model; None if it is not shown."""
        return next((at for at, entry in enumerate(self._shown) if entry.key == key), None)

    # Qt model.

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own signature
        return 0 if parent.isValid() else len(self._shown)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Returns the name; for screen readers, the whole text of the row."""
        entry = self.at(index)
        if entry is None:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return entry.title
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tip("\n".join(part for part in (entry.title, entry.problem or entry.facts) if part))
        return entry.spoken if role == Qt.ItemDataRole.AccessibleTextRole else None


class EntryDelegate(QStyledItemDelegate):
    """Paints the name with its marks, the facts or the problem, and the progress of a download."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._scale = 1.0  # rows are measured before they are painted

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies colours and sizes."""
        self._theme, self._scale = theme, scale

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(100, max(round(ROW_HEIGHT * self._scale), 2 * option.fontMetrics.height() + round(12 * self._scale)))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paints one row."""
        model = index.model()
        entry = model.at(index) if isinstance(model, EntriesModel) else None
        if entry is None:
            return
        theme, scale = self._theme, self._scale
        area: QRect = option.rect
        state: Any = option.state
        font: QFont = QFont(option.font)
        selected = bool(state & QStyle.StateFlag.State_Selected)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if selected or state & QStyle.StateFlag.State_MouseOver:
            focused = selected and bool(state & QStyle.StateFlag.State_HasFocus)
            draw_rounded(
                painter,
                QRectF(area.adjusted(4, 1, -4, -1)),
                7,
                QColor(theme.raised),
                edge=QColor(theme.accent) if focused else Qt.PenStyle.NoPen,
            )
        inside = area.adjusted(round(14 * scale), round(5 * scale), -round(14 * scale), -round(5 * scale))
        upper = QRect(inside.left(), inside.top(), inside.width(), inside.height() // 2)
        lower = QRect(inside.left(), upper.bottom() + 1, inside.width(), inside.height() - upper.height())
        font.setPixelSize(round(12 * scale))
        painter.setFont(font)
        right = upper.right()
        for text, colour in ((entry.amount, theme.dim), (entry.mark, theme.accent)):
            if text:
                width = painter.fontMetrics().horizontalAdvance(text)
                draw_text_in(
                    painter, colour, QRect(right - width, upper.top(), width, upper.height()), Qt.AlignmentFlag.AlignVCenter, text
                )
                right -= width + round(12 * scale)
        _line(painter, lower, entry.problem or entry.facts, QColor(theme.dim))
        font.setPixelSize(round(13 * scale))
        font.setWeight(QFont.Weight.Medium)
        painter.setFont(font)
        upper.setRight(right)
        _line(painter, upper, entry.title, QColor(theme.faint if entry.problem else theme.text), Qt.TextElideMode.ElideMiddle)
        if entry.fraction is not None:
            track = QRectF(inside.left(), area.bottom() - 4, inside.width(), 3)
            draw_rounded(painter, track, 1.5, QColor(theme.line))
            painter.setBrush(QColor(theme.accent))
            painter.drawRoundedRect(QRectF(track.left(), track.top(), max(3.0, track.width() * entry.fraction), 3), 1.5, 1.5)
        painter.restore()


def _line(
    painter: QPainter, area: QRect, text: str, colour: QColor, mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight
) -> None:
    painter.setPen(colour)
    line = painter.fontMetrics().elidedText(text.replace("\n", " "), mode, area.width())
    painter.drawText(area, Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine, line)


class EntryList(QListView):
    """A list of models with one current row.

    Signals:
        chosen: (key) Enter or a double click. deleted: (key) the Delete key.
        current_changed: (key) the current row has changed; empty for none.
    """

    chosen = Signal(str)
    deleted = Signal(str)
    current_changed = Signal(str)

    def __init__(self, label: str, description: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "entryList", label, description)
        self.entries = EntriesModel()
        self.delegate = EntryDelegate(self)
        self._key = ""
        self.setModel(self.entries)
        self.setItemDelegate(self.delegate)
        self.setUniformItemSizes(True)
        self.setMouseTracking(True)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.doubleClicked.connect(lambda index: self.chosen.emit(self.key))
        self.selectionModel().currentChanged.connect(lambda *_: self._emit_moved())

    @property
    def key(self) -> str:
        """The key of the current row; empty if there is none."""
        entry = self.entries.at(self.currentIndex())
        return "" if entry is None else entry.key

    def visible_keys(self) -> list[str]:
        """Returns the keys of the visible rows."""
        inside = self.viewport().rect()
        first, last = self.indexAt(inside.topLeft()), self.indexAt(inside.bottomLeft())
        end = last.row() + 1 if last.isValid() else self.entries.rowCount()
        rows = (self.entries.at(self.entries.index(row)) for row in range(max(first.row(), 0), end))
        return [entry.key for entry in rows if entry is not None]

    def show_entries(self, entries: Sequence[Entry]) -> None:
        """Replaces the rows. The current row stays on its model, or moves to the first."""
        self.entries.show_entries(entries)
        self._restore_current()

    def set_query(self, query: str) -> None:
        """Shows only rows with these words."""
        self.entries.set_query(query)
        self._restore_current()

    def go_to(self, key: str) -> None:
        """Makes the row of a model current, if it is shown."""
        row = self.entries.row_of(key)
        if row is not None:
            self.setCurrentIndex(self.entries.index(row))

    def _restore_current(self) -> None:
        row = self.entries.row_of(self._key) if self._key else None
        if self.entries.rowCount() and not self.currentIndex().isValid():
            self.setCurrentIndex(self.entries.index(row or 0))
        self._emit_moved()

    def _emit_moved(self) -> None:
        if self.key != self._key:
            self._key = self.key
            self.current_changed.emit(self._key)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        plain = not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if plain and self.key and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.chosen.emit(self.key)
        elif plain and self.key and event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self.deleted.emit(self.key)
        else:
            super().keyPressEvent(event)


class SearchField(QLineEdit):
    """The search field of a list.

    Signals:
        changed: (words) the search words have changed.
    """

    changed = Signal(str)

    def __init__(self, label: str, list_view: QListView) -> None:
        super().__init__()
        named(self, "modelSearch", label, "Down goes to the results.")
        self.setPlaceholderText(label)
        self.setClearButtonEnabled(True)
        self._list_view = list_view
        self.textChanged.connect(self._emit_changed)

    def _emit_changed(self, text: str) -> None:
        self.changed.emit(text.strip())

    def event(self, event: QEvent) -> bool:
        """Uses Escape for clearing while the field has text."""
        if event.type() == QEvent.Type.ShortcutOverride and isinstance(event, QKeyEvent):
            if event.key() == Qt.Key.Key_Escape and self.text():
                event.accept()
                return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
        elif event.key() in (Qt.Key.Key_Down, Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._list_view.setFocus(Qt.FocusReason.TabFocusReason)
        else:
            super().keyPressEvent(event)
