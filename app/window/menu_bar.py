"""The menus that only a menu bar has: Edit and Window, as expected on a Mac."""

from __future__ import annotations

import sys
from collections.abc import Callable

from PySide6.QtCore import QEvent, QKeyCombination, QObject, Slot
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QApplication, QMenu, QWidget

from app.look.command import EDIT_MENU, Command


def has_menu_bar() -> bool:
    """Returns whether the platform has menu bars; elsewhere all menus are below the button at the right."""
    return sys.platform == "darwin"


def edit_commands() -> list[Command]:
    """Returns the editing commands. They send their keys to the focused widget, which knows its selection."""
    titles = {"undo": "Undo", "redo": "Redo", "cut": "Cut", "copy": "Copy", "paste": "Paste", "selectAll": "Select All"}
    keys = ("Ctrl+Z", "Ctrl+Shift+Z", "Ctrl+X", "Ctrl+C", "Ctrl+V", "Ctrl+A")
    return [
        Command(f"{name}Action", title, EDIT_MENU, _key_sender(key), (key,), group="undo" if name in ("undo", "redo") else "edit")
        for (name, title), key in zip(titles.items(), keys, strict=True)
    ]


def window_menu() -> list[Command]:
    """Returns the window commands, which act on the active window, the settings window included."""
    return [
        Command(
            "minimizeAction", "Minimize", "Window", _on_active_window(QWidget.showMinimized), ("Ctrl+M",), in_every_window=True
        ),
        Command("zoomAction", "Zoom", "Window", _on_active_window(_zoom)),
        Command(
            "fullScreenAction", "Full screen", "Window", _on_active_window(_full_screen), ("Ctrl+Meta+F",), in_every_window=True
        ),
        Command(
            "closeWindowAction", "Close window", "Window", _on_active_window(QWidget.close), ("Ctrl+W",), in_every_window=True
        ),
    ]


class DisabledReasons(QObject):
    """Lists at the end of a menu why entries are disabled: native Mac menus show no tooltips, which explain it elsewhere."""

    def __init__(self, menu: QMenu) -> None:
        super().__init__(menu)
        self._menu = menu
        self._lines: list[QAction] = []
        menu.aboutToShow.connect(self._show)

    @Slot()
    def _show(self) -> None:
        for line in self._lines:
            self._menu.removeAction(line)
            line.deleteLater()
        titles: dict[str, list[str]] = {}
        for action in self._menu.actions():
            if action.isVisible() and not action.isEnabled() and not action.isSeparator():
                titles.setdefault(action.toolTip(), []).append(action.text().rstrip("…"))
        self._lines = [self._menu.addSeparator()] if titles else []
        for reason, entries in titles.items():
            names = ", ".join(entries) if len(entries) < 3 else f"{entries[0]} and {len(entries) - 1} others"
            line = self._menu.addAction(f"{names}: {reason}".replace("&", "&&"))
            line.setMenuRole(QAction.MenuRole.NoRole)
            line.setEnabled(False)
            self._lines.append(line)


class _ShortcutOverrideFilter(QObject):
    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Accepts Qt's ShortcutOverride event, so that the key goes to the widget rather than to a shortcut."""
        if event.type() != QEvent.Type.ShortcutOverride:
            return False
        event.accept()
        return True


def _key_sender(keys: str) -> Callable[[], None]:
    def press() -> None:
        """Sends the key directly to the widget: as a shortcut, it would trigger this command again, endlessly."""
        if (widget := QApplication.focusWidget()) is not None:
            pressed: QKeyCombination = QKeySequence(keys)[0]  # type: ignore[index]  # missing in the stubs
            event = QKeyEvent(QEvent.Type.KeyPress, pressed.key(), pressed.keyboardModifiers())
            override_filter = _ShortcutOverrideFilter()
            widget.installEventFilter(override_filter)
            QApplication.sendEvent(widget, event)
            widget.removeEventFilter(override_filter)

    return press


def _on_active_window(act: Callable[[QWidget], object]) -> Callable[[], None]:
    def run() -> None:
        """Calls `act` with the active window; does nothing if no window is active."""
        if (window := QApplication.activeWindow()) is not None:
            act(window)

    return run


def _zoom(window: QWidget) -> None:
    window.showNormal() if window.isMaximized() else window.showMaximized()


def _full_screen(window: QWidget) -> None:
    window.showNormal() if window.isFullScreen() else window.showFullScreen()
