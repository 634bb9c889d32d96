"""The command palette: finds all commands by their titles, and chats, models and presets as well."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPoint,
    QRect,
    QSize,
    Qt,
    Signal,
    Slot,
)
from PySide6.QtGui import QAction, QColor, QFontMetrics, QKeyEvent, QPainter
from PySide6.QtWidgets import QFrame, QLabel, QLineEdit, QListView, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.look.command import Command, native_keys
from app.look.marks import draw_rounded, draw_text_in
from app.look.theme import Theme, sized
from app.look.widgets import in_column, named, plain_tip
from app.look.wording import target_title
from app.session.chat import Chat
from engine.chats import ChatStore, ChatSummary

Index = QModelIndex | QPersistentModelIndex
WIDTH, ROWS = 560, 10
"""Width in pixels at text scale 1, and number of visible rows."""
MAX_MATCHES = 60
"""Maximum number of matches listed."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the palette.

    Attributes:
        note: text at the right end: the shortcut of a command, else the kind of the entry.
        reason: why it is unavailable now; empty if it is available.
        command: whether it is listed before anything is typed.
    """

    title: str
    run: Callable[[], object]
    note: str = ""
    reason: str = ""
    command: bool = False


def command_entries(commands: Iterable[Command], actions: dict[str, QAction]) -> list[Entry]:
    """Returns entries for the commands in menus, with their current state."""
    entries = []
    for command in commands:
        if not command.menu or command.id == "paletteAction":
            continue
        action = actions[command.id]
        mark = "✓ " if action.isCheckable() and action.isChecked() else ""
        keys = native_keys(command.shortcuts[0]) if command.shortcuts else ""
        reason = "" if action.isEnabled() else action.toolTip() or "Not available now."
        entries.append(Entry(mark + command.title, action.trigger, keys, reason, command=True))
    return entries


def rank(query: str, title: str) -> int | None:
    """Returns how well a title matches a query, 0 best: it starts with the query; each query word starts a word of it; it
    contains each query word; it contains the letters in order. None if nothing matches."""
    words, folded = query.casefold().split(), title.casefold()
    if folded.startswith(query.strip().casefold()):
        return 0
    if all(re.search(rf"\b{re.escape(word)}", folded) for word in words):
        return 1
    if all(word in folded for word in words):
        return 2
    return 3 if re.search(".*?".join(map(re.escape, "".join(words))), folded) else None


def matching(entries: Sequence[Entry], query: str) -> list[Entry]:
    """Returns the matching entries, best first; among equals, available ones first, then in their given order."""
    if not query.strip():
        return [entry for entry in entries if entry.command]
    ranks = ((rank(query, entry.title), bool(entry.reason), index) for index, entry in enumerate(entries))
    fitting = sorted((score, unavailable, index) for score, unavailable, index in ranks if score is not None)
    return [entries[index] for _, _, index in fitting[:MAX_MATCHES]]


class EntriesModel(QAbstractListModel):
    """The matches, for the list and for screen readers."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[Entry] = []

    def show(self, entries: list[Entry]) -> None:
        """Replaces the entries."""
        self.beginResetModel()
        self.entries = entries
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008
        return 0 if parent.isValid() else len(self.entries)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Returns the title; for a screen reader with shortcut or kind and why it is unavailable; that reason as tooltip."""
        entry = self.entries[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return entry.title
        if role == Qt.ItemDataRole.AccessibleTextRole:
            reason = f"not available now: {entry.reason}" if entry.reason else ""
            return ", ".join(filter(None, (entry.title, entry.note, reason)))
        return plain_tip(entry.reason) or None if role == Qt.ItemDataRole.ToolTipRole else None


class EntryDelegate(QStyledItemDelegate):
    """Paints a title, then why it is unavailable, and the shortcut or kind at the right end."""

    theme: Theme
    scale: float

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(80, QFontMetrics(sized(option.font, 13 * self.scale)).height() + round(14 * self.scale))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Paints one row; the selected one has a background."""
        model = index.model()
        if not isinstance(model, EntriesModel):
            return
        entry, theme, scale = model.entries[index.row()], self.theme, self.scale
        area: QRect = option.rect
        state: Any = option.state
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if state & QStyle.StateFlag.State_Selected:
            draw_rounded(painter, area.adjusted(1, 1, -2, -2), 7, QColor(theme.raised), edge=QColor(theme.faint))
        font = sized(option.font, 13 * scale)
        painter.setFont(font)
        metrics = QFontMetrics(font)
        inside = area.adjusted(round(12 * scale), 0, -round(12 * scale), 0)
        gap = round(16 * scale)
        draw_text_in(
            painter,
            theme.faint if entry.reason else theme.dim,
            inside,
            Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight,
            entry.note,
        )
        if entry.note:
            inside.setRight(inside.right() - metrics.horizontalAdvance(entry.note) - gap)
        title = metrics.elidedText(entry.title, Qt.TextElideMode.ElideRight, inside.width())
        draw_text_in(painter, theme.faint if entry.reason else theme.text, inside, Qt.AlignmentFlag.AlignVCenter, title)
        inside.setLeft(inside.left() + metrics.horizontalAdvance(title) + gap)
        if entry.reason and inside.width() > 4 * gap:
            font.setPixelSize(round(12 * scale))
            painter.setFont(font)
            reason = QFontMetrics(font).elidedText(entry.reason, Qt.TextElideMode.ElideRight, inside.width())
            painter.drawText(inside, Qt.AlignmentFlag.AlignVCenter, reason)
        painter.restore()


class Palette(QFrame):
    """A search field with a list of matches; the focus stays in the field. Enter or a click runs an entry, Escape closes.

    Signals:
        chat_chosen: (number, None) show a chat.
    """

    chat_chosen = Signal(int, object)

    def __init__(self, chat: Chat, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint | Qt.WindowType.NoDropShadowWindowHint)
        named(self, "palette", "Command palette")
        self._chat, self._window = chat, parent
        self._entries: list[Entry] = []
        self._opening = 0
        self._scale = 1.0
        self.field = named(
            QLineEdit(placeholderText="Find a command, a chat or a model"),
            "paletteField",
            "Find a command",
            "Up and Down choose, Enter runs it.",
        )
        self.field.textChanged.connect(self._find)
        self.field.installEventFilter(self)
        self.model = EntriesModel()
        self.delegate = EntryDelegate(self)
        self.list = named(QListView(), "paletteList", "Commands")
        self.list.setModel(self.model)
        self.list.setItemDelegate(self.delegate)
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setUniformItemSizes(True)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.clicked.connect(self._choose)
        self.no_matches = named(QLabel("No matches."), "settingWords")
        in_column(self.field, self.no_matches, self.list, spacing=8, margins=(10, 10, 10, 10), parent=self)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Restyles the rows."""
        self.delegate.theme, self.delegate.scale, self._scale = theme, scale, scale

    def open(self, commands: Iterable[Command], actions: dict[str, QAction]) -> None:
        """Shows the palette near the top of the window with an empty query, and adds the chats once they are read."""
        settings, window = self._chat.settings, self._window
        models = dict.fromkeys(("builtin", *settings.recent_models, settings.target))
        self._entries = [
            *command_entries(commands, actions),
            *(Entry(target_title(name), partial(self._chat.change, "target", name), "Model") for name in models),
            *(Entry(each.name, partial(self._chat.preferences.use_preset, each.name), "Preset") for each in settings.presets),
        ]
        self._opening += 1
        self.field.clear()
        self.ensurePolished()
        self.field.ensurePolished()
        row = self.delegate.sizeHint(self._option(), QModelIndex()).height()
        screen = window.screen().availableGeometry()
        width = min(round(WIDTH * self._scale), window.width() - 24, screen.width() - 16)
        other_height = self.field.sizeHint().height() + 34
        rows = max(3, min(ROWS, (window.height() - 70 - other_height) // row))
        self.list.setFixedHeight(rows * row + 6)
        self.setFixedWidth(width)
        self._find("")
        self.adjustSize()
        corner = window.mapToGlobal(QPoint((window.width() - width) // 2, min(56, max(8, window.height() - self.height() - 8))))
        self.move(corner)
        self.show()
        self.field.setFocus(Qt.FocusReason.PopupFocusReason)
        self._chat.keeper.read(ChatStore.conversations, partial(self._add_chats, self._opening))

    def _option(self) -> QStyleOptionViewItem:
        option = QStyleOptionViewItem()
        option.initFrom(self.list)
        return option

    def _add_chats(self, opening: int, chats: Sequence[ChatSummary]) -> None:
        """Adds chats to an opening of the palette; does nothing once that is closed."""
        if self.isVisible() and opening == self._opening:
            self._entries += [Entry(each.title, partial(self.chat_chosen.emit, each.id, None), "Chat") for each in chats]
            if self.field.text().strip():
                self._find(self.field.text())

    @Slot(str)
    def _find(self, query: str) -> None:
        self.model.show(matching(self._entries, query))
        self.no_matches.setVisible(not self.model.entries)
        if self.model.entries:
            self._go_to(0)

    def _go_to(self, row: int) -> None:
        self.list.setCurrentIndex(self.model.index(max(0, min(len(self.model.entries) - 1, row))))

    @Slot(QModelIndex)
    def _choose(self, index: QModelIndex) -> None:
        """Closes the palette and runs an entry. An unavailable entry stays listed with its reason."""
        if index.isValid() and not (entry := self.model.entries[index.row()]).reason:
            self.close()
            entry.run()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() != QEvent.Type.KeyPress or not isinstance(event, QKeyEvent):
            return False
        row = self.list.currentIndex().row()
        page = max(1, self.list.height() // max(1, self.list.sizeHintForRow(0)) - 1)
        moves = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1, Qt.Key.Key_PageUp: -page, Qt.Key.Key_PageDown: page}
        key = Qt.Key(event.key())
        if key in moves:
            count = max(1, len(self.model.entries))
            self._go_to((row + moves[key]) % count if abs(moves[key]) == 1 else row + moves[key])
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._choose(self.list.currentIndex())
        else:
            return False
        return True
