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

    After a collection everything that is left is set aside, so that the next one does not walk over the same rounds again.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._usual = gc.get_threshold()
        self._busy = False
        self._conversation = 0
        self._anew = False
        self._timer = QTimer(self, singleShot=True, interval=IDLE_MS)
        self._timer.timeout.connect(self.collect)

    def show_state(self, busy: bool, conversation: int) -> None:
        """Whether something is under way, and the number of the conversation: what was set aside of another may be garbage."""
        if conversation != self._conversation:
            self._conversation, self._anew = conversation, True
        if busy != self._busy:
            self._busy = busy
            young, middle, old = self._usual
            gc.set_threshold(young, middle, NEVER if busy else old)
            self._timer.stop() if busy else self._timer.start()

    @Slot()
    def collect(self) -> None:
        """A full collection."""
        if self._anew:
            gc.unfreeze()
        self._anew = False
        gc.collect()
        gc.freeze()

    def stop(self) -> None:
        """Leaves everything as it was found."""
        self._timer.stop()
        gc.set_threshold(*self._usual)
        gc.unfreeze()
