"""When Python may look for garbage: between two events of the window's thread, and thoroughly only while nothing is under way.

Left to itself, Python collects wherever an object happens to be made: in the engine's thread, or in the middle of a call from Qt
into Python. Objects of Qt that are found there die in the wrong thread, or leave Qt's bindings with the address of an object that
is gone, which crashes the program much later. And a full collection walks over every object there is and stops every thread
meanwhile: with the ten thousand rounds of a long answer for a tenth of a second and more.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QAbstractEventDispatcher, QObject, QTimer, Slot

from engine import garbage

IDLE_MS = 1500


class GcScheduler(QObject):
    """Collects young objects when the window's thread has nothing to do, and all once nothing has been under way for a while.

    What has stayed until an answer begins, or through a full collection, is set aside: the next one does not walk over it.
    """

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._was_automatic = gc.isenabled()
        gc.disable()
        self._busy = False
        self._empty = True
        self._timer = QTimer(self, singleShot=True, interval=IDLE_MS)
        self._timer.timeout.connect(self.collect)
        self._dispatcher = QAbstractEventDispatcher.instance()
        self._dispatcher.aboutToBlock.connect(self.collect_young)

    def show_state(self, busy: bool, empty: bool) -> None:
        """Whether something is under way, and whether the conversation is empty: what was set aside may be garbage then."""
        emptied = empty and not self._empty
        self._empty = empty
        if busy != self._busy or emptied:
            self._busy = busy
            if busy:
                gc.freeze()
                self._timer.stop()
            else:
                self._timer.start()

    def take_in(self) -> None:
        """What was set aside may be garbage: another conversation is shown. The next full collection walks over it, too."""
        gc.unfreeze()
        if not self._busy:
            self._timer.start()

    @Slot()
    def collect_young(self) -> None:
        """The young objects, if Python itself would have done so by now."""
        (young, middle, _), (most_young, most_middle, _) = gc.get_count(), gc.get_threshold()
        if young > most_young and not garbage.held_off():
            gc.collect(1 if middle > most_middle else 0)

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
        self._dispatcher.aboutToBlock.disconnect(self.collect_young)
        gc.unfreeze()
        if self._was_automatic:
            gc.enable()
