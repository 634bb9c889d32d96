"""Keeping windows and dialogs on the screen, with the frame that the desktop draws around them."""

from __future__ import annotations

from PySide6.QtCore import QMargins, QRect, QSize, Qt
from PySide6.QtGui import QGuiApplication
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


def at_most_the_screen(window: QWidget, size: QSize) -> QSize:
    """The size, or as much of it as a window with a frame may have: with a higher minimum its lower end is off the screen."""
    return size.boundedTo(window.screen().availableGeometry().marginsRemoved(FRAME).size())


def place_first(window: QWidget, geometry: tuple[int, ...]) -> QSize:
    """Puts a window where it was, if a screen is still there, else in its first size, which leaves room for a frame yet unknown.

    Returns the size that it got.
    """
    window.resize(1440, 900)
    wanted = QRect(*geometry)
    if geometry and any(screen.availableGeometry().intersects(wanted) for screen in QGuiApplication.screens()):
        window.setGeometry(wanted)
    elif (screen := QGuiApplication.primaryScreen()) is not None:
        window.resize(fitted(window.geometry(), screen.availableGeometry(), FRAME).size())
    return window.size()


def keep_on_screen(window: QWidget, size: QSize) -> None:
    """The frame is known once the window shows, and belongs on the screen too. A size other than the given one was set since."""
    if window.windowState() == Qt.WindowState.WindowNoState and window.size() == size:
        inside = fitted(window.geometry(), window.screen().availableGeometry(), frame_of(window))
        if inside != window.geometry():
            window.setGeometry(inside)
