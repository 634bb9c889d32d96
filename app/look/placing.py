"""Keeping windows and dialogs on the screen, with the frame that the desktop draws around them."""

from __future__ import annotations

from PySide6.QtCore import QMargins, QRect
from PySide6.QtWidgets import QWidget

FRAME = QMargins(2, 40, 2, 8)
"""More than most desktops put around a window; what they really put is known only once it shows."""
LEAST_PART = 200
"""Pixels of a window on the screen in which something can still be placed."""


def frame_of(window: QWidget) -> QMargins:
    """What the desktop has put around a window that shows."""
    outer, inner = window.frameGeometry(), window.geometry()
    return QMargins(
        inner.left() - outer.left(), inner.top() - outer.top(), outer.right() - inner.right(), outer.bottom() - inner.bottom()
    )


def fitted(wanted: QRect, room: QRect, frame: QMargins) -> QRect:
    """The geometry next to the one wanted, without its frame, that fits into a room together with the frame."""
    inside = room.marginsRemoved(frame)
    size = wanted.size().boundedTo(inside.size())
    return QRect(
        max(inside.left(), min(wanted.left(), inside.right() + 1 - size.width())),
        max(inside.top(), min(wanted.top(), inside.bottom() + 1 - size.height())),
        size.width(),
        size.height(),
    )


def part_on_screen(window: QWidget) -> QRect:
    """What of a window's inside lies on a screen, in its own coordinates; all of it where next to nothing does."""
    screens = window.screen().availableVirtualGeometry()
    inside = QRect(window.mapFromGlobal(screens.topLeft()), screens.size()) & window.rect()
    return inside if min(inside.width(), inside.height()) >= LEAST_PART else window.rect()
