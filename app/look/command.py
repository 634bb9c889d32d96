"""Commands and keys as data: menus, shortcuts and the shortcut sheet are all made from one list."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Slot
from PySide6.QtGui import QAction, QActionGroup, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QAbstractButton, QApplication, QBoxLayout, QGridLayout, QLabel, QMenu, QWidget
from shiboken6 import isValid

from app.look.placing import FRAME
from app.look.widgets import TransientDialog, in_column, named, push_button, scrolling, spaced

MENU_ROLES = {
    "quitAction": QAction.MenuRole.QuitRole,
    "settingsAction": QAction.MenuRole.PreferencesRole,
    "aboutAction": QAction.MenuRole.AboutRole,
}
"""Commands that macOS shows in the application's own menu."""
EDIT_MENU = "Edit"
"""Qt recognises these titles on a Mac and makes native items of them, which also work in the system's own file dialogs."""


MAC_KEYS: dict[str, tuple[str, ...]] = {
    "F1": ("Ctrl+/", "F1"),
    "F2": ("Ctrl+Alt+R", "F2"),
    "F3": ("Ctrl+Alt+I", "F3"),
    "F4": ("Ctrl+5", "F4"),
    "F6": ("Ctrl+Shift+R", "F6"),
    "F7": ("Ctrl+Shift+D", "F7"),
    "F8": ("Ctrl+Alt+S", "F8"),
    "F9": ("Ctrl+Alt+P", "F9"),
    "Ctrl+G": ("Ctrl+Alt+G",),
    "Ctrl+Up": ("Ctrl+Alt+Up",),
    "Ctrl+PgUp": ("Ctrl+Alt+Left",),
    "Ctrl+PgDown": ("Ctrl+Alt+Right",),
}
"""Keys on a Mac that replace those used by macOS itself: a MacBook's F keys change brightness and sound unless fn is held,
Command+G finds again, and in a text field Command with Up and the page keys moves the text cursor."""


def is_mac() -> bool:
    """Returns whether the keys of a Mac apply."""
    return sys.platform == "darwin"


def platform_keys(keys: Iterable[str]) -> tuple[str, ...]:
    """Returns the keys of this platform without duplicates, in the order in which they are shown."""
    return tuple(dict.fromkeys(its for each in keys for its in (MAC_KEYS.get(each, (each,)) if is_mac() else (each,))))


def matches_keys(event: QKeyEvent, keys: str) -> bool:
    """Returns whether a key event is one of these keys on this platform."""
    return QKeySequence(event.keyCombination()) in map(QKeySequence, platform_keys((keys,)))


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the user interface.

    Attributes:
        id: stable name; also the action's objectName.
        menu: the menu that contains it; empty for none.
        shortcuts: in Qt's portable notation, where Ctrl is the Mac's Command key; the first is shown. A Mac has those of
            `MAC_KEYS` instead.
        checked: whether a switch is on; None if it is no switch.
        group: the menu section, between separators; the switches of a section are exclusive.
        in_every_window: whether its keys also work in the program's other windows.
    """

    id: str
    title: str
    menu: str
    run: Callable[[], object]
    shortcuts: tuple[str, ...] = ()
    checked: bool | None = None
    group: str = ""
    in_every_window: bool = False


def make_actions(commands: Iterable[Command], owner: QWidget) -> dict[str, QAction]:
    """Returns one action per command, active in the whole window."""
    actions: dict[str, QAction] = {}
    groups: dict[str, QActionGroup] = {}
    for command in commands:
        action = QAction(command.title, owner)
        action.setObjectName(command.id)
        action.setShortcuts([QKeySequence(keys) for keys in platform_keys(command.shortcuts)])
        if command.in_every_window:
            action.setShortcutContext(Qt.ShortcutContext.ApplicationShortcut)
        default_role = QAction.MenuRole.TextHeuristicRole if command.menu == EDIT_MENU else QAction.MenuRole.NoRole
        action.setMenuRole(MENU_ROLES.get(command.id, default_role))
        if command.checked is not None:
            action.setCheckable(True)
            action.setChecked(command.checked)
        if command.group:
            groups.setdefault(command.group, QActionGroup(owner)).addAction(action)
        action.triggered.connect(_without_arguments(command.run))
        owner.addAction(action)
        actions[command.id] = action
    return actions


def _without_arguments(run: Callable[[], object]) -> Callable[..., None]:
    def run_command(*_: object) -> None:
        """Runs the command without the argument `checked` of Qt's `triggered`."""
        run()

    return run_command


def set_availability(action: QAction, reason: str = "") -> None:
    """Enables a command, or disables it with the reason as its tooltip in the menu."""
    action.setEnabled(not reason)
    action.setToolTip(reason)


def make_menus(commands: Iterable[Command], actions: dict[str, QAction], parent: QWidget) -> list[QMenu]:
    """Returns the menus in the order of their first command."""
    menus: dict[str, QMenu] = {}
    last_group: dict[str, str] = {}
    for command in commands:
        if not command.menu:
            continue
        menu = menus.get(command.menu)
        if menu is None:
            menu = menus[command.menu] = QMenu(command.menu, parent)
            menu.setToolTipsVisible(True)
        elif last_group[command.menu] != command.group:
            menu.addSeparator()
        last_group[command.menu] = command.group
        menu.addAction(actions[command.id])
    return list(menus.values())


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys that the focused widget handles in its own `keyPressEvent`, so that they are no commands.

    Attributes:
        command: id of the window's command with the same key, because it does the same elsewhere.
    """

    title: str
    keys: tuple[str, ...]
    command: str = ""


WIDGET_KEYS: dict[str, tuple[Keys, ...]] = {
    "In the message field": (
        Keys("Send the message", ("Return",)),
        Keys("New line", ("Shift+Return",)),
        Keys("Edit the last prompt, if the field is empty", ("Up",)),
        Keys("Undo, also the attaching of a long pasted text", ("Ctrl+Z",)),
    ),
    "In a field for a number": (
        Keys("Apply the typed value", ("Return", "Tab")),
        Keys("Restore the value", ("Esc",), "escapeAction"),
        Keys("More, less", ("Up", "Down")),
    ),
    "In the conversation and in compared answers": (
        Keys("Previous or next token", ("Left", "Right")),
        Keys("Previous or next round", ("Ctrl+Left", "Ctrl+Right")),
        Keys("Pin a token's verdict and choose an alternative", ("Return",)),
        Keys("Scroll, including the verdict", ("Up", "Down", "PgUp", "PgDown", "Space")),
        Keys("Go to start or end", ("Home", "End")),
        Keys("Scroll code sideways, in the conversation", ("Shift+Left", "Shift+Right")),
        Keys("Copy, select all", ("Ctrl+C", "Ctrl+A")),
    ),
    "While finding in a chat": (Keys("Next or previous", ("Return", "Shift+Return")),),
    "In the list of chats": (
        Keys("Open", ("Return",)),
        Keys("Rename", ("F2",), "renameAction"),
        Keys("Delete", ("Del", "Backspace")),
        Keys("Pin or unpin", ("P",)),
        Keys("From the search to the results", ("Down",)),
    ),
    "In the Models window": (
        Keys("Use or download the model", ("Return",)),
        Keys("Delete it, or cancel its download", ("Del", "Backspace")),
        Keys("From the search to the list", ("Down",)),
    ),
    "In the rounds": (
        Keys("Previous or next round", ("Up", "Down", "PgUp", "PgDown")),
        Keys("Previous or next token of the round", ("Left", "Right")),
        Keys("First or latest round", ("Home", "End")),
        Keys("Zoom in, zoom out, fit", ("+", "=", "-", "0")),
        Keys("Pin or unpin a token or round", ("Return", "Space")),
    ),
    "In a chart": (
        Keys("Previous or next round, ten rounds", ("Left", "Right", "PgUp", "PgDown")),
        Keys("First or latest round", ("Home", "End")),
        Keys("Scroll", ("Shift+Left", "Shift+Right")),
        Keys("Show fewer or more rounds", ("+", "-")),
        Keys("Pin or unpin a round", ("Return", "Space")),
    ),
    "In the table": (
        Keys("Pin or unpin a round", ("Return",)),
        Keys("Copy the selected rows, or all", ("Ctrl+C",)),
    ),
    "In the strip of slow motion": (Keys("Previous or next phase of the round", (",", ".")),),
    "In a replay": (
        Keys("Play or pause, wherever the keyboard is, except in a text field", ("Space",), "playAction"),
        Keys("Previous or next round, in slow motion phase", (",", ".")),
        Keys("Go to start or end, on the bar", ("Home", "End")),
    ),
}
"""Keys by the widget that has the focus."""
ESCAPE = (
    "Esc does the first of these that applies: restores a number being typed; closes a menu, a list, a dialog, the tour or the "
    "list of chats over the conversation; unpins a token or round; cancels editing; stops the answer or the comparison; closes "
    "the replay; dismisses the message."
)


class EnterKeyFilter(QObject):
    """Presses the focused button when Enter is typed. Without this filter, Qt presses it on Space, and on Enter only in dialogs.

    The event filter is installed on the focused button alone, so other widgets handle Enter themselves and have no overhead.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        self._watched: QAbstractButton | None = None
        application.focusChanged.connect(self._follow_focus)

    @Slot()
    def _follow_focus(self) -> None:
        """Ignores the signal's arguments: the widget that loses the focus may be half destroyed, and wrapping it in a Python
        object may crash."""
        if self._watched is not None and isValid(self._watched):
            self._watched.removeEventFilter(self)
        now = QApplication.focusWidget()
        self._watched = now if isinstance(now, QAbstractButton) else None
        if self._watched is not None:
            self._watched.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() != QEvent.Type.KeyPress or not isinstance(event, QKeyEvent) or not isinstance(watched, QAbstractButton):
            return False
        unmodified = not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if event.key() not in (Qt.Key.Key_Return, Qt.Key.Key_Enter) or not unmodified:
            return False
        if not event.isAutoRepeat():
            watched.click()
        return True


class ShortcutSheet(TransientDialog):
    """A list of all keys of the window: shortcuts of commands by menu, and keys of focused widgets.

    It has two columns, or one on a narrow screen, and scrolls if the screen is too low.
    """

    def __init__(self, commands: Iterable[Command], parent: QWidget) -> None:
        super().__init__(parent, "shortcutSheet", "Keyboard shortcuts")
        self._grids: list[QGridLayout] = []
        body = QWidget()
        columns = self._columns = spaced(QBoxLayout(QBoxLayout.Direction.LeftToRight, body), 48, (0, 0, 12, 0))
        for _ in range(2):
            self._grids.append(grid := QGridLayout())
            grid.setHorizontalSpacing(36)
            grid.setVerticalSpacing(5)
            columns.addLayout(grid)
        in_menus = (command for command in commands if command.shortcuts and command.menu)
        for menu, group in groupby(in_menus, lambda command: command.menu):
            self._add(0, menu, [(command.title.rstrip("…"), " or ".join(_native_texts(command.shortcuts))) for command in group])
        for context, entries in WIDGET_KEYS.items():
            self._add(1, context, [(entry.title, "  ".join(_native_texts(entry.keys))) for entry in entries])
        for grid in self._grids:
            grid.setRowStretch(grid.rowCount(), 1)
        note = QLabel(ESCAPE, wordWrap=True)
        self.area = named(scrolling(body, focusable=True), label="Keyboard shortcuts")
        close = push_button("Close", "quietButton", self.reject)
        in_column(
            (self.area, 1), note, (close, 0, Qt.AlignmentFlag.AlignRight), spacing=14, margins=(24, 20, 24, 16), parent=self
        )
        self._fit(parent.screen().availableGeometry().marginsRemoved(FRAME).size())

    def _fit(self, available: QSize) -> None:
        """Resizes to show all keys, up to the size of the screen."""
        self.ensurePolished()
        body, layout = self.area.widget(), self.layout()
        assert layout is not None and body is not None
        margins = layout.contentsMargins()
        extra_width = margins.left() + margins.right() + self.area.verticalScrollBar().sizeHint().width()
        if body.sizeHint().width() + extra_width > available.width():
            self._columns.setDirection(QBoxLayout.Direction.TopToBottom)
            self._columns.setSpacing(14)
        width = min(available.width(), body.sizeHint().width() + extra_width)
        self.area.setMinimumHeight(body.sizeHint().height())
        wanted = layout.totalHeightForWidth(width)
        self.area.setMinimumHeight(0)
        self.resize(width, min(wanted, available.height()))

    def _add(self, column: int, heading: str, rows: list[tuple[str, str]]) -> None:
        grid = self._grids[column]
        if grid.count():
            grid.setRowMinimumHeight(grid.rowCount(), 8)
        title_label = named(QLabel(heading), "keysHeading")
        grid.addWidget(title_label, grid.rowCount(), 0, 1, 2)
        for title, keys in rows:
            row = grid.rowCount()
            grid.addWidget(QLabel(title), row, 0)
            grid.addWidget(QLabel(keys), row, 1)


def title_with_key(title: str, context: str, entry: str) -> str:
    """Returns the title of a menu's entry with its first key in `WIDGET_KEYS`, which the menu shows at the right."""
    keys = next(each.keys for each in WIDGET_KEYS[context] if each.title == entry)
    return f"{title}\t{native_keys(keys[0])}"


def native_keys(keys: str) -> str:
    """Returns the first of these keys on this platform, in its notation."""
    return _native_texts((keys,))[0]


def _native_texts(keys: Iterable[str]) -> list[str]:
    native = QKeySequence.SequenceFormat.NativeText
    return [QKeySequence(each).toString(native).replace("Return", "Enter") for each in platform_keys(keys)]
