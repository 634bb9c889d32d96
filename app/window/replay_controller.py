"""Opens traces (from the menu, by drop, or from the command line) and runs their replay."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QObject, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QApplication, QFileDialog, QWidget

from app.look.widgets import announce, local_files
from app.replay.player import Player, Replay, Timing
from app.session.chat import Chat
from app.session.cursor import Cursor
from app.window.chat_column import ChatColumn
from engine.files.paths import traces_folder
from engine.machine.garbage import without_collecting
from engine.rounds.trace import ENDING, PACKED, Trace, read
from engine.types import Round
from engine.values.errors import DraftlightError

TICK_MS = 33
TRACE_KINDS = f"Traces (*{ENDING} *{ENDING}{PACKED});;All files (*)"
PAUSED_NOTE = "The replay is paused at its beginning. Space plays it, End shows the whole answer."
FIRST_STEP = "Full stop or Space shows the draft of the first round, and then phase by phase what becomes of it."
NO_ROUNDS = "The trace has no rounds, so there is nothing to play."


class ReplayController(QObject):
    """Shows traces in the window's own views, and restores the conversation afterwards.

    A trace opens paused before its first round, with a note that says so. Nothing moves until the user presses Play.

    Attributes:
        bar: the controls, shown in place of the message field during a replay.
        player, replay: of the shown trace, None without one.
        clock: monotonic clock in seconds; replaced in tests.

    Signals:
        opening: a trace is about to be shown in the conversation.
        moved: the session has other rounds: the replay has moved, started or ended.
    """

    opening = Signal()
    moved = Signal()

    def __init__(self, chat: Chat, cursor: Cursor, column: ChatColumn, window: QWidget) -> None:
        super().__init__(window)
        self._chat, self._session, self._cursor, self._parent = chat, chat.session, cursor, window
        self._banner, self._composer, self._transcript = column.banner, column.composer, column.transcript
        self.bar, self.steps = column.replay_bar, column.steps
        self.player: Player | None = None
        self.replay: Replay | None = None
        self.clock: Callable[[], float] = time.monotonic
        self._last = 0.0
        self._timer = QTimer(self, interval=TICK_MS)
        self._timer.timeout.connect(self.tick)
        self.bar.toggled.connect(self.toggle)
        self.bar.stepped.connect(self.step)
        self.bar.moved.connect(self.go_to)
        self.bar.speed_chosen.connect(self._set_speed)
        self.bar.timing_chosen.connect(self.set_timing)
        self.bar.close_requested.connect(self.leave)
        for target in (window, self._composer.edit.viewport(), self._transcript):
            target.installEventFilter(self)  # for the keys of a replay

    # Opening.

    def ask_for_trace(self) -> None:
        """Opens a file dialog for a trace, and shows the trace that the user chooses."""
        folder = traces_folder()
        start = str(folder) if folder.is_dir() else ""
        chosen, _ = QFileDialog.getOpenFileName(self._parent, "Open a trace", start, TRACE_KINDS)
        if chosen:
            self.open(Path(chosen))

    def open(self, path: Path) -> None:
        """Shows a trace, or reports why it cannot be shown."""
        if (session := self._session).running is not None:
            self._banner.show_message(
                "An answer is being generated. Stop it or let it finish, then open the trace.",
                is_valid=lambda: session.running is not None,
            )
            return
        QApplication.setOverrideCursor(Qt.CursorShape.WaitCursor)
        try:
            with without_collecting():
                self.show(read(path))
        except DraftlightError as error:
            self._banner.show_message(str(error))
        finally:
            QApplication.restoreOverrideCursor()

    def show(self, trace: Trace) -> None:
        """Shows a trace that was read, before its first round."""
        self._pause()
        self.opening.emit()
        self._cursor.forget()
        self.replay, self.player = Replay(self._session, trace), Player(trace.rounds)
        self._session.show_replay(self.replay.turns)
        self.bar.show_trace(trace.path.name, trace.missing or "", self.player)
        with without_collecting(freeze=True):
            self._show()
        self._banner.hide()
        self._composer.hide()
        self.bar.show()
        self._transcript.follow()
        self.bar.setFocus(Qt.FocusReason.OtherFocusReason)
        missing = f"{trace.path.name}: {trace.missing} " if trace.missing else ""
        note, player = PAUSED_NOTE if trace.rounds else NO_ROUNDS, self.player
        self._banner.show_message(
            f"{missing}{note}", "note", lambda: self.player is player and player.shown == 0 and not player.is_playing
        )

    @Slot()
    def leave(self) -> None:
        """Returns to the conversation as it was. A window opened for a trace loads its models now."""
        if self.replay is None:
            return
        self._pause()
        self.player = self.replay = None
        self._cursor.forget()
        self._session.leave_replay()
        self.moved.emit()  # before any new layout: no view may hold turns that the session lacks
        self.bar.hide()
        self.steps.hide()
        self._banner.hide()
        self._composer.show()
        self._transcript.follow()
        self._composer.edit.setFocus()
        if self._session.model is None and not self._chat.link.busy:
            self._chat.models.load()
            self.moved.emit()

    # Playing.

    @Slot()
    def toggle(self) -> None:
        """Toggles between playing and paused; in slow motion goes to the next phase."""
        if self.player is None:
            return
        if self.player.timing == "phases":
            self.step(1)
            return
        if self.player.is_playing:
            self._pause()
            self._show()
            announce(self.bar, f"Paused. {self.bar.position.text()}")
            return
        self.player.play()
        self._last = self.clock()
        if self.player.is_playing:
            self._timer.start()
            self._transcript.follow()
        self._show()

    @Slot(int)
    def step(self, steps: int) -> None:
        """Moves by a number of rounds, possibly negative, and pauses; in slow motion by phases."""
        if self.player is not None:
            self._pause()
            self.player.step(steps)
            self._show()
            announce(self.bar, self.bar.position.text() if self.steps.isHidden() else self.steps.caption.accessibleName())

    @Slot(int)
    def go_to(self, shown: int) -> None:
        """Moves to a number of shown rounds; a playing replay continues from there."""
        if self.player is not None:
            self.player.go_to(shown)
            self._show()

    @Slot()
    def tick(self) -> None:
        """Shows the rounds that are due."""
        if self.player is None:
            return
        now = self.clock()
        moved = self.player.advance(now - self._last)
        self._last = now
        if not self.player.is_playing:
            self._timer.stop()
        if moved or not self.player.is_playing:
            self._show()
        elif self._transcript.is_moving:
            self._transcript.sync(only_rounds=True)

    def stop(self) -> None:
        """Stops the timer: the window is closing."""
        self._timer.stop()
        gc.unfreeze()

    def _pause(self) -> None:
        self._timer.stop()
        if self.player is not None:
            self.player.pause()

    @Slot(float)
    def _set_speed(self, speed: float) -> None:
        if self.player is not None:
            self.player.speed = speed

    @Slot(str)
    def set_timing(self, timing: Timing) -> None:
        """Sets the timing; slow motion pauses at the shown round."""
        if self.player is not None:
            self.player.set_timing(timing)
            if timing == "phases":
                self._timer.stop()
            self._show()

    def _show(self) -> None:
        """Updates every view to the player's position."""
        if self.player is None or self.replay is None:
            return
        with without_collecting():
            self.replay.show(self.player.shown)
            self._session.replay_words = f"Replay, round {self.player.shown:,} of {self.player.count:,}"
            self.bar.show_player(self.player)
            self._show_phase(self.player, self.replay.trace.rounds)
            self.moved.emit()

    def _show_phase(self, player: Player, rounds: Sequence[Round]) -> None:
        """Shows the phase of a round in slow motion."""
        if player.timing != "phases":
            self.steps.hide()
            return
        self.steps.buttons.hide()
        self.steps.show_phase(None if player.staged is None else rounds[player.staged], player.phase, FIRST_STEP)

    # Qt events.

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent) and self.replay is not None:
            key = Qt.Key(event.key())
            return key not in (Qt.Key.Key_Home, Qt.Key.Key_End) and self.bar.handle_key(event)  # those two scroll
        return False


def dropped_trace(data: QMimeData) -> Path | None:
    """Returns the dragged trace; None unless it is one local file named like a trace."""
    paths = local_files(data)
    return paths[0] if len(paths) == 1 and paths[0].name.lower().endswith((ENDING, ENDING + PACKED)) else None
