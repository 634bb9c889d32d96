"""Keeps windows and dialogs on the screen, including the frame that the desktop draws around them."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QMargins, QObject, QRect, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

FRAME = QMargins(2, 40, 2, 8)
"""Estimate of a window's frame, larger than most desktops draw; the real one is known only once the window shows."""
MIN_VISIBLE_PART = 200
"""Smallest width and height in pixels of a window's visible part in which something can be placed."""


def frame_of(window: QWidget) -> QMargins:
    """Returns the margins of the frame that the desktop has drawn around a visible window."""
    outer, inner = window.frameGeometry(), window.geometry()
    return QMargins(
        inner.left() - outer.left(), inner.top() - outer.top(), outer.right() - inner.right(), outer.bottom() - inner.bottom()
    )


def fit_into(wanted: QRect, available: QRect, frame: QMargins) -> QRect:
    """Returns the geometry nearest to `wanted`, without frame, that fits into `available` together with the frame."""
    inside = available.marginsRemoved(frame)
    size = wanted.size().boundedTo(inside.size())
    return QRect(
        max(inside.left(), min(wanted.left(), inside.right() + 1 - size.width())),
        max(inside.top(), min(wanted.top(), inside.bottom() + 1 - size.height())),
        size.width(),
        size.height(),
    )


def visible_part(window: QWidget) -> QRect:
    """Returns the part of a window's inside that is on a screen, in its own coordinates; all of it if that part is too small."""
    screens = window.screen().availableVirtualGeometry()
    inside = QRect(window.mapFromGlobal(screens.topLeft()), screens.size()) & window.rect()
    return inside if min(inside.width(), inside.height()) >= MIN_VISIBLE_PART else window.rect()


def limit_to_screen(window: QWidget, size: QSize) -> QSize:
    """Limits a size to the screen, minus the frame. With a larger minimum, a window's lower end would be off the screen."""
    return size.boundedTo(window.screen().availableGeometry().marginsRemoved(FRAME).size())


def restore_geometry(window: QWidget, geometry: tuple[int, ...]) -> QSize:
    """Restores a window's geometry if its screen is still there, else sets the default size, with room for an estimated frame.

    Returns the new size.
    """
    window.resize(1440, 900)
    wanted = QRect(*geometry)
    if geometry and any(screen.availableGeometry().intersects(wanted) for screen in QGuiApplication.screens()):
        window.setGeometry(wanted)
    elif (screen := QGuiApplication.primaryScreen()) is not None:
        window.resize(fit_into(window.geometry(), screen.availableGeometry(), FRAME).size())
    return window.size()


def move_onto_screen(window: QWidget, size: QSize) -> None:
    """Moves a window with its now known frame onto the screen, unless its size is no longer `size`."""
    if window.windowState() == Qt.WindowState.WindowNoState and window.size() == size:
        inside = fit_into(window.geometry(), window.screen().availableGeometry(), frame_of(window))
        if inside != window.geometry():
            window.setGeometry(inside)


class FirstPaint(QObject):
    """Signals:
    painted: the window has been painted for the first time.
    """

    painted = Signal()

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint:
            watched.removeEventFilter(self)
            QTimer.singleShot(0, self, self.painted.emit)
        return False
