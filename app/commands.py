"""Commands as data: menus, shortcuts and the shortcut sheet are all made from one list."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QActionGroup, QKeySequence
from PySide6.QtWidgets import QDialog, QGridLayout, QLabel, QMenu, QVBoxLayout, QWidget


@dataclass(frozen=True, slots=True)
class Command:
    """Something the user can ask for.

    Attributes:
        id: stable name; also the action's objectName.
        menu: the menu it stands in.
        shortcuts: in Qt's portable notation, where Ctrl is the Mac's Command key; the first is shown.
        checked: whether a switch is on; None for what is no switch.
        group: switches of one group exclude each other.
    """

    id: str
    title: str
    menu: str
    run: Callable[[], object]
    shortcuts: tuple[str, ...] = ()
    checked: bool | None = None
    group: str = ""


def make_actions(commands: Iterable[Command], owner: QWidget) -> dict[str, QAction]:
    """One action per command, active in the whole window."""
    actions: dict[str, QAction] = {}
    groups: dict[str, QActionGroup] = {}
    for command in commands:
        action = QAction(command.title, owner)
        action.setObjectName(command.id)
        action.setShortcuts([QKeySequence(keys) for keys in command.shortcuts])
        action.setMenuRole(QAction.MenuRole.QuitRole if command.id == "quitAction" else QAction.MenuRole.NoRole)
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
    def called(*_: object) -> None:
        run()

    return called


def make_menus(commands: Iterable[Command], actions: dict[str, QAction], parent: QWidget) -> list[QMenu]:
    """The menus in the order in which they are first named."""
    menus: dict[str, QMenu] = {}
    last_group: dict[str, str] = {}
    for command in commands:
        menu = menus.get(command.menu)
        if menu is None:
            menu = menus[command.menu] = QMenu(command.menu, parent)
        elif last_group[command.menu] != command.group:
            menu.addSeparator()
        last_group[command.menu] = command.group
        menu.addAction(actions[command.id])
    return list(menus.values())


ELSEWHERE = (
    ("Send the message", "Return"),
    ("New line in the message", "Shift+Return"),
    ("Edit the last prompt, from an empty message", "Up"),
    ("Scroll the conversation", "PgUp"),
    ("Token before or behind, in the conversation", "Left, Right"),
    ("Round before or behind, in the conversation", "Ctrl+Left, Ctrl+Right"),
    ("Keep the verdict on a token, and choose an alternative", "Return"),
    ("Let go of a token", "Esc"),
    ("Play or pause a replay", "Space"),
    ("One round back or forward in a replay", ", ."),
    ("Leave a replay", "Esc"),
)
"""Keys that belong to one control and therefore are no commands."""


class ShortcutSheet(QDialog):
    """Every shortcut of the window."""

    def __init__(self, commands: Iterable[Command], parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName("shortcutSheet")
        self.setWindowTitle("Keyboard shortcuts")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        grid = QGridLayout()
        grid.setHorizontalSpacing(36)
        grid.setVerticalSpacing(8)
        rows = [(command.title, command.shortcuts) for command in commands if command.shortcuts]
        rows += [(title, (keys,)) for title, keys in ELSEWHERE]
        for row, (title, shortcuts) in enumerate(rows):
            keys = " or ".join(QKeySequence(text).toString(QKeySequence.SequenceFormat.NativeText) for text in shortcuts)
            grid.addWidget(QLabel(title.rstrip("…")), row, 0)
            grid.addWidget(QLabel(f"<b>{keys}</b>"), row, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 20, 24, 22)
        column.addLayout(grid)
