"""Paints the menus with the keys that a Mac shows: QT_QPA_PLATFORM=offscreen python -m tests.mac_menus menus.png

Only the words and keys are those of a Mac; the frames are Qt's.
"""

from __future__ import annotations

import sys
from unittest.mock import patch

from PySide6.QtGui import QKeySequence, QPainter, QPixmap
from PySide6.QtWidgets import QMenu

SIGNS = dict(
    zip(["Meta", "Alt", "Shift", "Ctrl", "Return", "Backspace", "Up", "Down", "Left", "Right", "Esc"], "⌃⌥⇧⌘↩⌫↑↓←→⎋", strict=True)
)
GAP = 16


def as_on_a_mac(keys: QKeySequence) -> str:
    """Keys with a Mac's signs, modifiers in Apple's order."""
    *modifiers, key = keys.toString(QKeySequence.SequenceFormat.PortableText).replace("++", "+plus").split("+")
    signs = [SIGNS[each] for each in ("Meta", "Alt", "Shift", "Ctrl") if each in modifiers]
    return "".join(signs) + SIGNS.get(key, key).replace("plus", "+")


def picture(menus: list[QMenu]) -> QPixmap:
    """The menus side by side."""
    painted = []
    for menu in menus:
        menu.aboutToShow.emit()
        for action in menu.actions():
            if keys := action.shortcuts():
                action.setText(f"{action.text()}\t{as_on_a_mac(keys[0])}")
                action.setShortcuts([])
        menu.resize(menu.sizeHint())
        painted.append(menu.grab())
    whole = QPixmap(sum(each.width() + GAP for each in painted) + GAP, max(each.height() for each in painted) + 2 * GAP)
    whole.fill("#8899aa")
    painter, left = QPainter(whole), GAP
    for each in painted:
        painter.drawPixmap(left, GAP, each)
        left += each.width() + GAP
    painter.end()
    return whole


def main() -> int:
    """Makes the picture; returns the exit status."""
    from app.look.command import platform_keys
    from app.session.settings import Settings
    from app.window.launch import make_application
    from app.window.window import Window
    from tests.app.fakes import FakeEngine

    application = make_application()
    with (
        patch("app.look.command.is_mac", lambda: True),
        patch("app.look.command._native_texts", lambda keys: [as_on_a_mac(QKeySequence(each)) for each in platform_keys(keys)]),
        patch("app.window.window.has_menu_bar", lambda: True),
    ):
        window = Window(FakeEngine(), Settings(appearance="light"))  # type: ignore[arg-type]
        menus = [action.menu() for action in window.menuBar().actions()]
        saved = picture([menu for menu in menus if isinstance(menu, QMenu)]).save(sys.argv[1])
        window.close()
    application.processEvents()
    return 0 if saved else 1


if __name__ == "__main__":
    sys.exit(main())
