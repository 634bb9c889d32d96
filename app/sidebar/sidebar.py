"""The list of chats with its search, updated from the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QEvent, QObject, QPoint, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QAction, QKeyEvent
from PySide6.QtWidgets import QInputDialog, QLabel, QLineEdit, QMenu, QStackedLayout, QWidget

from app.look.command import native_keys, title_with_key
from app.look.theme import Theme
from app.look.throttle import trailing_throttle
from app.look.widgets import ElidedLabel, icon_button, in_column, in_row, named, push_button, tint
from app.session.chat import Chat
from app.sidebar.chat_list import ChatList
from app.sidebar.model import ChatsModel, Row
from engine.chats import ChatStore, ChatSummary, Hit
from engine.values.wording import size

WIDTH = 252
"""Pixels at text scale 1."""
MAX_HITS = 200
SEARCH_DELAY_MS, EXTERNAL_CHECK_MS = 120, 2000
"""Milliseconds from typing to a search, and between checks for changes of other processes."""
RELOAD_DELAY_SECONDS = 0.06
"""Seconds from a change to reading the list again."""


class Sidebar(QWidget):
    """Lists the chats by date, or the matches of a search.

    Signals:
        chosen: (number, message or None) show a chat, at a message if a search found that.
        new_chat_requested: start an empty chat.
        deleted, duplicated, exported: (number) delete, copy or export a chat.
        folder_removed: (name, numbers) a folder was removed, which had these chats.
        traces_wanted, deleted_wanted: show the size of the traces; show the deleted chats.

    Attributes:
        folder: the folder whose chats are listed; None for all chats.
    """

    chosen = Signal(int, object)
    new_chat_requested = Signal()
    deleted = Signal(int)
    duplicated = Signal(int)
    exported = Signal(int)
    folder_removed = Signal(str, tuple)
    traces_requested = Signal()
    deleted_chats_requested = Signal()

    def __init__(self, chat: Chat) -> None:
        super().__init__()
        self._chat = chat
        self._request = 0
        self._seen_change: int | None = None
        self.folder: str | None = None
        self._folders: tuple[str, ...] = ()
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        named(self, "sidebar", "Chats")
        self.model = ChatsModel()
        self.list = ChatList(self.model)
        self.search = named(
            QLineEdit(placeholderText="Search chats", clearButtonEnabled=True),
            "chatSearch",
            "Search chats",
            "Finds words in titles and messages. Down goes to the results.",
        )
        self.search.installEventFilter(self)
        self.new = icon_button("new-chat", f"New chat ({native_keys('Ctrl+N')})", self.new_chat_requested.emit)
        self.title = named(ElidedLabel("Chats"), "sectionTitle")
        self.empty = named(QLabel(wordWrap=True, alignment=Qt.AlignmentFlag.AlignTop), "chatsEmpty")
        self._content = QWidget()
        self._stack = QStackedLayout(self._content)
        self._stack.addWidget(self.empty)
        self._stack.addWidget(self.list)
        self.traces = named(
            push_button("", "tracesButton", self.traces_requested),
            label="Traces",
            description="What all traces take, those of chats and of other runs, and how long they are kept.",
        )
        in_column(
            in_row((self.title, 1), self.new, spacing=2, margins=(14, 8, 8, 4)),
            in_row(self.search, margins=(10, 0, 10, 6)),
            (self._content, 1),
            self.traces,
            margins=(0, 0, 1, 0),
            parent=self,
        )
        self._search_timer = QTimer(self, singleShot=True, interval=SEARCH_DELAY_MS)
        self._search_timer.timeout.connect(self.reload)
        self._reload = trailing_throttle(self.reload, RELOAD_DELAY_SECONDS, self)
        self._external_timer = QTimer(self, interval=EXTERNAL_CHECK_MS)
        self._external_timer.timeout.connect(self.check_external_changes)
        self.search.textChanged.connect(self._search_changed)
        self.list.chosen.connect(self.chosen)
        self.list.deleted.connect(self.deleted)
        self.list.pinned.connect(self._toggle_pin)
        self.list.menu_requested.connect(self._open_menu)
        self.list.folder_chosen.connect(self.show_folder)
        self.list.folder_deleted.connect(self._remove_folder)
        self.model.renamed.connect(self._rename)
        self.model.folder_renamed.connect(self._rename_folder)
        self.model.moved.connect(self._move)
        chat.recorder.written.connect(self._reload.touch)
        chat.opened.connect(self._show_current)
        self._show_state()

    # Content.

    def set_look(self, theme: Theme, scale: float) -> None:
        """Restyles the list."""
        tint(self.new, theme, scale)
        self.list.delegate.set_look(theme, scale)
        self.list.reset()
        self.setFixedWidth(round(WIDTH * scale))

    @Slot()
    def reload(self) -> None:
        """Reads the list again, or repeats the search."""
        keeper, query = self._chat.keeper, self.search.text().strip()
        self._request += 1
        if query:
            keeper.read(lambda store: store.search(query, MAX_HITS), partial(self._show_hits, self._request), self._show_failure)
        else:
            keeper.read(_chats_and_size, partial(self._show_chats, self._request), self._show_failure)

    def _show_chats(self, request: int, found: tuple[Sequence[ChatSummary], int]) -> None:
        if request != self._request:
            return
        chats, traces = found
        self._folders = tuple(sorted({about.folder for about in chats if about.folder}, key=str.casefold))
        if self.folder not in self._folders:
            self.folder = None
        self.title.setText(self.folder or "Chats")
        self.traces.setText(f"Traces: {size(traces)}")
        self._show(False, partial(self.model.show_chats, chats, self.folder))

    def _show_hits(self, request: int, hits: Sequence[Hit]) -> None:
        if request == self._request:
            self._show(True, partial(self.model.show_hits, hits))

    def _show(self, are_hits: bool, fill: Callable[[], None]) -> None:
        """Replaces the rows, keeping the focused chat or folder and the scroll position."""
        if self.list.state() == self.list.State.EditingState:
            self._reload.touch()  # a title is being edited
            return
        number, folder = self.list.number(), self.list.folder()
        scrolled = self.list.verticalScrollBar().value()
        self.list.delegate.shows_hits = are_hits
        fill()
        self._show_current()
        row = self.model.row_of(number) if folder is None else self.model.row_of_folder(folder)
        if row is not None:
            self.list.setCurrentIndex(self.model.index(row))
        self.list.verticalScrollBar().setValue(scrolled)
        self._show_state()

    def _show_failure(self, message: str) -> None:
        self.empty.setText(message)
        if not self.model.rowCount():
            self._stack.setCurrentWidget(self.empty)

    def _show_state(self) -> None:
        if self.model.rowCount():
            self._stack.setCurrentWidget(self.list)
            return
        message = f"No chat has “{self.search.text().strip()}” in its title or messages." if self.search.text().strip() else ""
        self.empty.setText(message or "Your chats appear here as soon as you send a message. They stay on this computer.")
        self._stack.setCurrentWidget(self.empty)

    @Slot()
    def _show_current(self) -> None:
        self.list.show_current(self._chat.stored_chat.number)

    @Slot(str)
    def _search_changed(self, text: str) -> None:
        self._search_timer.start()

    @Slot()
    def check_external_changes(self) -> None:
        """Reads the list again if another process has changed the chats."""
        if self._external_timer.isActive() and self.isVisible():
            self._chat.keeper.read(lambda store: store.changes(), self._apply_change_number)

    def _apply_change_number(self, number: int) -> None:
        if self._seen_change is not None and number != self._seen_change:
            self.reload()
        self._seen_change = number

    def start(self) -> None:
        """Reads the list, and again whenever another process changes it."""
        self._external_timer.start()
        self.reload()

    def stop(self) -> None:
        """Stops reading: the window is closing."""
        for timer in (self._search_timer, self._reload, self._external_timer):
            timer.stop()

    # Requests.

    def go_to_search(self) -> None:
        """Focuses the search field."""
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.selectAll()

    def go_to_list(self) -> None:
        """Focuses the shown chat in the list, or the search if there are no chats."""
        if self.list.isHidden() or not self.model.rowCount():
            self.go_to_search()
            return
        row = None if self._chat.stored_chat.number is None else self.model.row_of(self._chat.stored_chat.number)
        if row is not None:
            self.list.setCurrentIndex(self.model.index(row))
        self._enter_list(choose=False)

    @Slot(str)
    def show_folder(self, folder: str) -> None:
        """Lists only the chats of a folder, or all if the name is empty, and makes the first row current."""
        self.folder = folder or None
        self.search.clear()
        self.list.setCurrentIndex(self.model.index(0))
        self.reload()

    @Slot(int, str)
    def _move(self, number: int, folder: str) -> None:
        self._write(lambda store: store.move(number, folder))

    @Slot(str, str)
    def _rename_folder(self, folder: str, name: str) -> None:
        if self.folder == folder:
            self.folder = name
        self._write(lambda store: store.rename_folder(folder, name))

    @Slot(str)
    def _remove_folder(self, folder: str) -> None:
        """Removes a folder, but not its chats."""
        self._chat.keeper.write(lambda store: store.rename_folder(folder, ""), partial(self._report_removed, folder))

    def _report_removed(self, folder: str, numbers: tuple[int, ...]) -> None:
        self._chat.recorder.written.emit()
        self.folder_removed.emit(folder, numbers)

    def _ask_for_folder(self, number: int) -> None:
        """Asks for the name of a new folder for a chat."""
        self._ask_for_text("New folder", "Name of the folder:", "", partial(self._move_to_new_folder, number))

    def _ask_for_text(self, title: str, label: str, text: str, on_answer: Callable[[str], None]) -> None:
        question = QInputDialog(self)
        question.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        question.setWindowTitle(title)
        question.setLabelText(label)
        question.setTextValue(text)
        question.textValueSelected.connect(on_answer)
        question.open()

    def rename_shown(self) -> None:
        """Asks for a new title of the shown chat. The title comes from the store, because the list of chats may be hidden, or
        filtered so that it lacks this chat."""
        number, keeper = self._chat.stored_chat.number, self._chat.keeper
        if number is None:
            self._chat.say("This chat has no title, because it is not saved.")
            return

        def title(store: ChatStore) -> str:
            """Returns the title from the store, which may be newer than the list."""
            return next((about.title for about in store.conversations() if about.id == number), "")

        label = "Title of the chat; empty for its first message:"
        keeper.read(title, lambda title_now: self._ask_for_text("Rename chat", label, title_now, partial(self._rename, number)))

    def _move_to_new_folder(self, number: int, folder: str) -> None:
        if folder.strip():
            self._move(number, folder.strip())

    @Slot(int, str)
    def _rename(self, number: int, title: str) -> None:
        self._write(lambda store: store.rename(number, title))

    @Slot(int)
    def _toggle_pin(self, number: int) -> None:
        row = self.model.row_of(number)
        chat = None if row is None else self.model.at(self.model.index(row))
        if chat is not None and chat.about is not None:
            pinned = not chat.about.pinned
            self._write(lambda store: store.pin(number, pinned))

    def _write(self, work: Callable[[ChatStore], object]) -> None:
        self._chat.keeper.write(work, self._chat.recorder.notify)

    @Slot(object)
    def _open_menu(self, position: QPoint) -> None:
        number = self.list.number()
        row = self.model.at(self.list.currentIndex())
        if row is None or (row.about is None and not row.folder):
            return
        menu = QMenu(self)
        self._fill(menu, number, row)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(position)

    def _fill(self, menu: QMenu, number: int | None, row: Row) -> None:
        """Adds the actions for a chat or a folder."""
        if row.folder:
            _add_entry(menu, "Open", partial(self.show_folder, row.folder))
            _add_entry(menu, "Rename", self.list.rename)
            menu.addSeparator()
            _add_entry(menu, "Remove folder, keep its chats", partial(self._remove_folder, row.folder), "Delete")
        if number is None or row.about is None:
            return
        _add_entry(menu, "Open", partial(self.chosen.emit, number, row.message))
        _add_entry(menu, "Rename", self.list.rename)
        _add_entry(menu, "Unpin" if row.about.pinned else "Pin", partial(self._toggle_pin, number), "Pin or unpin")
        menu.addAction("Duplicate", partial(self.duplicated.emit, number))
        menu.addAction("Export…", partial(self.exported.emit, number))
        folders = menu.addMenu("Move to folder")
        for folder in self._folders:
            action = folders.addAction(folder.replace("&", "&&"), partial(self._move, number, folder))
            action.setCheckable(True)
            action.setChecked(folder == row.about.folder)
        folders.addSeparator()
        folders.addAction("New folder…", partial(self._ask_for_folder, number))
        folders.addAction("No folder", partial(self._move, number, "")).setEnabled(bool(row.about.folder))
        menu.addSeparator()
        _add_entry(menu, "Delete", partial(self.deleted.emit, number))
        menu.addAction("Deleted chats…", self.deleted_chats_requested.emit)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Handles keys in the search field: Escape clears the search first; Down moves to the list."""
        if not isinstance(event, QKeyEvent):
            return False
        escape = event.key() == Qt.Key.Key_Escape and bool(self.search.text())
        if event.type() == QEvent.Type.ShortcutOverride and escape:
            event.accept()
            return True
        if event.type() == QEvent.Type.KeyPress and escape:
            self.search.clear()
            return True
        if event.type() == QEvent.Type.KeyPress and event.key() in (Qt.Key.Key_Down, Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._enter_list(choose=event.key() != Qt.Key.Key_Down)
            return True
        return False

    def _enter_list(self, choose: bool) -> None:
        first = next((at for at in range(self.model.rowCount()) if self.model.flags(self.model.index(at))), None)
        if first is None:
            return
        if self.list.number() is None:
            self.list.setCurrentIndex(self.model.index(first))
        if choose and (row := self.model.at(self.list.currentIndex())) is not None and row.about is not None:
            self.chosen.emit(row.about.id, row.message)
        else:
            self.list.setFocus(Qt.FocusReason.TabFocusReason)


def _add_entry(menu: QMenu, title: str, run: Callable[[], object], entry: str = "") -> QAction:
    """Adds an entry to the menu, with the key that the list assigns to it."""
    return menu.addAction(title_with_key(title, "In the list of chats", entry or title), run)


def _chats_and_size(store: ChatStore) -> tuple[Sequence[ChatSummary], int]:
    return store.conversations(), store.traces.bytes()
