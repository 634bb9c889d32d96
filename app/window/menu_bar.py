"""What a menu bar has beside the commands of the window: Edit and Window, which users of a Mac look for."""

from __future__ import annotations

import sys
from collections.abc import Callable

from PySide6.QtCore import QEvent, QKeyCombination
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
        Command("minimizeAction", "Minimize", "Window", _in_front(QWidget.showMinimized), ("Ctrl+M",)),
        Command("zoomAction", "Zoom", "Window", _in_front(_zoom)),
        Command("fullScreenAction", "Full screen", "Window", _in_front(_full_screen), ("Ctrl+Meta+F",)),
        Command("closeWindowAction", "Close window", "Window", _in_front(QWidget.close), ("Ctrl+W",)),
    ]


def _pressing(keys: str) -> Callable[[], None]:
    def press() -> None:
        """Straight to the widget, so that the key is not taken for the command again."""
        if (widget := QApplication.focusWidget()) is not None:
            pressed: QKeyCombination = QKeySequence(keys)[0]  # type: ignore[index]  # the stubs do not know it
            event = QKeyEvent(QEvent.Type.KeyPress, pressed.key(), pressed.keyboardModifiers())
            QApplication.sendEvent(widget, event)

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
