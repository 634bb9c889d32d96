"""Schedules garbage collection: young objects between two events of the window's thread, full collections only while idle.

By default, Python collects wherever an object happens to be allocated: on the engine's thread, or in the middle of a call from Qt
into Python. Qt objects found there are destroyed on the wrong thread, or leave Qt's bindings with a dangling address, which
crashes the program much later. Also, a full collection traverses every object and blocks every thread: with ten thousand rounds
of a long answer, for a tenth of a second and more.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QAbstractEventDispatcher, QObject, QTimer, Slot

from engine.machine import garbage

IDLE_MS = 1500


class GcScheduler(QObject):
    """Collects young objects when the window's thread is idle, and all objects after a longer idle time.

    Objects that exist when an answer begins, or that survive a full collection, are frozen: the next collection skips them.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._was_automatic = gc.isenabled()
        gc.disable()
        self._is_busy = False
        self._is_empty = True
        self._timer = QTimer(self, singleShot=True, interval=IDLE_MS)
        self._timer.timeout.connect(self.collect)
        self._dispatcher = QAbstractEventDispatcher.instance()
        self._dispatcher.aboutToBlock.connect(self.collect_young)

    def update_state(self, busy: bool, empty: bool) -> None:
        """Updates whether something is running, and whether the conversation is empty: frozen objects may then be garbage."""
        emptied = empty and not self._is_empty
        self._is_empty = empty
        if busy != self._is_busy or emptied:
            self._is_busy = busy
            if busy:
                gc.freeze()
                self._timer.stop()
            else:
                self._timer.start()

    def unfreeze(self) -> None:
        """Unfreezes all objects after another conversation was shown, so that the next full collection includes them."""
        gc.unfreeze()
        if not self._is_busy:
            self._timer.start()

    @Slot()
    def collect_young(self) -> None:
        """Collects young objects if Python itself would have done so by now."""
        (young, middle, _), (young_threshold, middle_threshold, _) = gc.get_count(), gc.get_threshold()
        if young > young_threshold and not garbage.is_suspended():
            gc.collect(1 if middle > middle_threshold else 0)

    @Slot()
    def collect(self) -> None:
        """Runs a full collection."""
        if self._is_empty:  # little is left to traverse
            gc.unfreeze()
        gc.collect()
        gc.freeze()

    def stop(self) -> None:
        """Restores the state found at the start."""
        self._timer.stop()
        self._dispatcher.aboutToBlock.disconnect(self.collect_young)
        gc.unfreeze()
        if self._was_automatic:
            gc.enable()
