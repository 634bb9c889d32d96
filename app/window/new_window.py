"""Opens another window: another process on the same data folder, so that models and crashes stay separate."""

from __future__ import annotations

import sys

from PySide6.QtCore import QProcess, QRect

from app.look.banner import Banner
from app.look.placing import FRAME
from engine.chats import count_open_stores
from engine.runtime.process.launch import is_python, own_python

_COMMAND = "app.cli.entry"


def launch_command() -> tuple[str, ...]:
    """Returns the command that starts this same copy of Draftlight: from a checkout, a package, or as the Mac application."""
    return own_python(_COMMAND) if is_python() else (sys.executable,)


def start_window() -> bool:
    """Starts a window that outlives this one; returns whether it could be started."""
    program, *arguments = launch_command()
    started = QProcess.startDetached(program, arguments)
    return bool(started[0] if isinstance(started, tuple) else started)


def open_another(banner: Banner) -> None:
    """Starts another window on the same chats, or reports that it did not start."""
    if not start_window():
        banner.show_message("Another window could not be started. Start Draftlight once more instead.")


def cascade_geometry(geometry: tuple[int, ...]) -> tuple[int, ...]:
    """Shifts a window down and to the right by one title bar per open window, so that it covers no other exactly."""
    if not geometry:
        return geometry
    step = FRAME.top() * count_open_stores()
    moved = QRect(*geometry).translated(step, step)
    return moved.x(), moved.y(), moved.width(), moved.height()
