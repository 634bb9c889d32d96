"""What a menu bar has beside the commands of the window: Edit and Window, which users of a Mac look for."""

from __future__ import annotations

import sys
from collections.abc import Callable

from PySide6.QtCore import QEvent, QKeyCombination, QObject
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QApplication, QWidget

from app.look.command import EDIT_MENU, Command


def has_menu_bar() -> bool:
    """Whether the platform's programs have one; elsewhere all menus are below the button at the right."""
    return sys.platform == "darwin"


def edit_commands() -> list[Command]:
    """They press their keys for whatever has the keyboard, which knows what is selected there."""
    titles = {"undo": "Undo", "redo": "Redo", "cut": "Cut", "copy": "Copy", "paste": "Paste", "selectAll": "Select All"}
    keys = ("Ctrl+Z", "Ctrl+Shift+Z", "Ctrl+X", "Ctrl+C", "Ctrl+V", "Ctrl+A")
    return [
        Command(f"{name}Action", title, EDIT_MENU, _pressing(key), (key,), group="undo" if name in ("undo", "redo") else "edit")
        for (name, title), key in zip(titles.items(), keys, strict=True)
    ]


def window_menu() -> list[Command]:
    """They act on the window that is in front, be it the settings."""
    return [
        Command("minimizeAction", "Minimize", "Window", _in_front(QWidget.showMinimized), ("Ctrl+M",), in_every_window=True),
        Command("zoomAction", "Zoom", "Window", _in_front(_zoom)),
        Command("fullScreenAction", "Full screen", "Window", _in_front(_full_screen), ("Ctrl+Meta+F",), in_every_window=True),
        Command("closeWindowAction", "Close window", "Window", _in_front(QWidget.close), ("Ctrl+W",), in_every_window=True),
    ]


class _OwnKeys(QObject):
    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Qt asks whoever gets a key whether it is to be taken for a command; here it is not."""
        if event.type() != QEvent.Type.ShortcutOverride:
            return False
        event.accept()
        return True


def _pressing(keys: str) -> Callable[[], None]:
    def press() -> None:
        """Straight to the widget: taken for the command, the key would come back here without end."""
        if (widget := QApplication.focusWidget()) is not None:
            pressed: QKeyCombination = QKeySequence(keys)[0]  # type: ignore[index]  # the stubs do not know it
            event = QKeyEvent(QEvent.Type.KeyPress, pressed.key(), pressed.keyboardModifiers())
            own_keys = _OwnKeys()
            widget.installEventFilter(own_keys)
            QApplication.sendEvent(widget, event)
            widget.removeEventFilter(own_keys)

    return press


def _in_front(act: Callable[[QWidget], object]) -> Callable[[], None]:
    def run() -> None:
        """Nothing without such a window."""
        if (window := QApplication.activeWindow()) is not None:
            act(window)

    return run


def _zoom(window: QWidget) -> None:
    window.showNormal() if window.isMaximized() else window.showMaximized()


def _full_screen(window: QWidget) -> None:
    window.showNormal() if window.isFullScreen() else window.showFullScreen()
