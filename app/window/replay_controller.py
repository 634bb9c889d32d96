"""Opens traces (from the menu, by drop, or from the command line) and runs their replay."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QEvent, QMimeData, QObject, Qt, QTimer, Slot
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QKeyEvent
from PySide6.QtWidgets import QApplication, QFileDialog, QWidget

from app.conversation.composer import Composer
from app.conversation.transcript import Transcript
from app.look.banner import Banner
from app.look.dragged import local_files
from app.replay.bar import ReplayBar
from app.replay.player import Player, Replay, Timing
from app.session.chat import Chat
from app.session.cursor import Cursor
from app.session.session import Session
from app.window.pages import Pages
from engine.files.paths import traces_folder
from engine.machine.garbage import without_collecting
from engine.rounds.trace import ENDING, PACKED, Trace, read
from engine.values.errors import DraftlightError

TICK_MS = 33
TRACE_KINDS = f"Traces (*{ENDING} *{ENDING}{PACKED});;All files (*)"
BEGINS = "The replay is paused at its beginning. Space plays it, End shows the whole answer."
NO_ROUNDS = "The trace has no rounds, so there is nothing to play."
REPLAY_NOTE = "Replay: its own settings are shown above its text. The settings here apply to your next answer."


class Host(Protocol):
    """The parts of the window that a replay uses."""

    chat: Chat
    session: Session
    cursor_place: Cursor
    banner: Banner
    composer: Composer
    transcript: Transcript
    pages: Pages

    def show_replayed(self) -> None:
        """Updates every view after the replay has moved, started or ended."""


class ReplayController(QObject):
    """Shows traces in the window's own views, and restores the conversation afterwards.

    A trace opens paused before its first round, with a note that says so. Nothing moves until the user presses Play.

    Attributes:
        bar: the controls, shown in place of the message field during a replay.
        player, replay: of the shown trace, None without one.
        clock: monotonic clock in seconds; replaced in tests.
    """

    def __init__(self, window: Host, parent: QWidget) -> None:
        super().__init__(parent)
        self._window, self._parent = window, parent
        self.bar = ReplayBar()
        self.bar.hide()
        self.player: Player | None = None
        self.replay: Replay | None = None
        self.clock: Callable[[], float] = time.monotonic
        self._last = 0.0
        self._timer = QTimer(self, interval=TICK_MS)
        self._timer.timeout.connect(self.tick)
        self.bar.toggled.connect(self.toggle)
        self.bar.stepped.connect(self.step)
        self.bar.moved.connect(self.go)
        self.bar.speed_chosen.connect(self._set_speed)
        self.bar.timing_chosen.connect(self._set_timing)
        self.bar.left.connect(self.leave)

    def watch(self) -> None:
        """Installs the event filter that receives the replay keys from the window and its views."""
        window = self._window
        for target in (self._parent, window.composer.edit.viewport(), window.transcript):
            target.installEventFilter(self)

    # Opening.

    def ask(self) -> None:
        """Asks the user for a trace."""
        folder = traces_folder()
        start = str(folder) if folder.is_dir() else ""
        chosen, _ = QFileDialog.getOpenFileName(self._parent, "Open a trace", start, TRACE_KINDS)
        if chosen:
            self.open(Path(chosen))

    def open(self, path: Path) -> None:
        """Shows a trace, or reports why it cannot be shown."""
        if self._window.session.running is not None:
            answering = self._window.session
            self._window.banner.show_message(
                "An answer is being generated. Stop it or let it finish, then open the trace.",
                holds=lambda: answering.running is not None,
            )
            return
        QApplication.setOverrideCursor(Qt.CursorShape.WaitCursor)
        try:
            with without_collecting():
                self.show(read(path))
        except DraftlightError as error:
            self._window.banner.show_message(str(error))
        finally:
            QApplication.restoreOverrideCursor()

    def show(self, trace: Trace) -> None:
        """Shows a trace that was read, before its first round."""
        window, session = self._window, self._window.session
        self._pause()
        window.pages.leave_comparison()
        window.cursor_place.forget()
        self.replay, self.player = Replay(session, trace), Player(trace.rounds)
        session.show_replay(self.replay.turns)
        self.bar.show_trace(trace.path.name, trace.missing or "", self.player)
        with without_collecting(settle=True):
            self._show()
        window.banner.hide()
        window.composer.hide()
        self.bar.show()
        window.transcript.follow()
        self.bar.setFocus(Qt.FocusReason.OtherFocusReason)
        missing = f"{trace.path.name}: {trace.missing} " if trace.missing else ""
        words, player = BEGINS if trace.rounds else NO_ROUNDS, self.player
        window.banner.show_message(
            f"{missing}{words}", "note", lambda: self.player is player and player.shown == 0 and not player.playing
        )

    @Slot()
    def leave(self) -> None:
        """Returns to the conversation as it was. A window opened for a trace loads its models now."""
        if self.replay is None:
            return
        window = self._window
        self._pause()
        self.player = self.replay = None
        window.cursor_place.forget()
        window.session.leave_replay()
        window.show_replayed()  # before any new layout: no view may hold turns that the session lacks
        self.bar.hide()
        window.banner.hide()
        window.composer.show()
        window.transcript.follow()
        window.composer.edit.setFocus()
        if window.session.model is None and not window.chat.link.busy:
            window.chat.load_models()
            window.show_replayed()

    # Playing.

    @Slot()
    def toggle(self) -> None:
        """Toggles between playing and paused."""
        if self.player is None:
            return
        if self.player.playing:
            self._pause()
            self._show()
            self._announce(f"Paused. {self.bar.place.text()}")
            return
        self.player.play()
        self._last = self.clock()
        if self.player.playing:
            self._timer.start()
            self._window.transcript.follow()
        self._show()

    @Slot(int)
    def step(self, rounds: int) -> None:
        """Moves by a number of rounds, possibly negative, and pauses."""
        if self.player is not None:
            self._pause()
            self.player.step(rounds)
            self._show()
            self._announce(self.bar.place.text())

    @Slot(int)
    def go(self, shown: int) -> None:
        """Moves to a number of shown rounds; a playing replay continues from there."""
        if self.player is not None:
            self.player.go(shown)
            self._show()

    @Slot()
    def tick(self) -> None:
        """Shows the rounds that are due."""
        if self.player is None:
            return
        now = self.clock()
        moved = self.player.advance(now - self._last)
        self._last = now
        if not self.player.playing:
            self._timer.stop()
        if moved or not self.player.playing:
            self._show()

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
            self.player.set_speed(speed)

    @Slot(str)
    def _set_timing(self, timing: Timing) -> None:
        if self.player is not None:
            self.player.set_timing(timing)
            self.bar.show_player(self.player)

    def _show(self) -> None:
        """Updates every view to the player's position."""
        if self.player is None or self.replay is None:
            return
        with without_collecting():
            self.replay.show(self.player.shown)
            self._window.session.replay_words = f"Replay, round {self.player.shown:,} of {self.player.count:,}"
            self.bar.show_player(self.player)
            self._window.show_replayed()

    def _announce(self, words: str) -> None:
        """Announces words to a screen reader."""
        if QAccessible.isActive():
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self.bar, words))

    # Qt events.

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent) and self.replay is not None:
            key = Qt.Key(event.key())
            return key not in (Qt.Key.Key_Home, Qt.Key.Key_End) and self.bar.take_key(event)  # those two scroll
        return False


def dropped_trace(data: QMimeData) -> Path | None:
    """Returns the dragged trace; None unless it is one local file named like a trace."""
    paths = local_files(data)
    return paths[0] if len(paths) == 1 and paths[0].name.lower().endswith((ENDING, ENDING + PACKED)) else None
