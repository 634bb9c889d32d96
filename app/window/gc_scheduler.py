"""When Python may look through all its objects for garbage: not while an answer is generated.

A full collection walks over every object there is and stops every thread meanwhile: with the ten thousand rounds of a long answer
for a tenth of a second and more. Nearly nothing of what an answer makes is ever garbage that only a collection finds.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, QTimer, Slot

IDLE_MS = 1500
NEVER = 1_000_000_000


class IdleCollector(QObject):
    """Puts full collections off until nothing has been under way for a while; young objects are collected as ever.

    What has stayed until an answer begins, or through a collection, is set aside: the next collection does not walk over it.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._usual = gc.get_threshold()
        self._busy = False
        self._empty = True
        self._timer = QTimer(self, singleShot=True, interval=IDLE_MS)
        self._timer.timeout.connect(self.collect)

    def show_state(self, busy: bool, empty: bool) -> None:
        """Whether something is under way, and whether the conversation is empty: what was set aside may be garbage then."""
        emptied = empty and not self._empty
        self._empty = empty
        if busy != self._busy or emptied:
            self._busy = busy
            young, middle, old = self._usual
            gc.set_threshold(young, middle, NEVER if busy else old)
            if busy:
                gc.freeze()
                self._timer.stop()
            else:
                self._timer.start()

    @Slot()
    def collect(self) -> None:
        """A full collection."""
        if self._empty:  # little is left to walk over
            gc.unfreeze()
        gc.collect()
        gc.freeze()

    def stop(self) -> None:
        """Leaves everything as it was found."""
        self._timer.stop()
        gc.set_threshold(*self._usual)
        gc.unfreeze()
