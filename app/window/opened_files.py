"""Handles files that the system asks to open: by a double-click in Finder, `open -a`, or a drop on the Dock icon."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QTimer, Slot
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication

from app.window.window import Window


class OpenedFiles(QObject):
    """Queues the files until the window is painted, then passes them to it.

    macOS sends one event per file. After a double-click that starts the program, they arrive before the window is painted.
    """

    def __init__(self, application: QApplication) -> None:
        super().__init__(application)
        self._window: Window | None = None
        self._paths: list[Path] = []
        self._soon = QTimer(self, singleShot=True, interval=0)  # collects files that are opened together
        self._soon.timeout.connect(self._hand_on)
        application.installEventFilter(self)

    def serve(self, window: Window) -> None:
        """Passes files to this window once it has been painted."""
        window.first_painted.connect(lambda: self._begin(window))

    def _begin(self, window: Window) -> None:
        self._window = window
        self._soon.start()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() != QEvent.Type.FileOpen or not isinstance(event, QFileOpenEvent):
            return False
        if event.file():
            self._paths.append(Path(event.file()))
            if self._window is not None:
                self._soon.start()
        return True

    @Slot()
    def _hand_on(self) -> None:
        paths, self._paths = self._paths, []
        if paths and self._window is not None:
            self._window.open_files(paths)
