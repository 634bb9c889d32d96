"""Slow motion: stops a running answer, or a replay, at each phase of a round."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal, Slot
from PySide6.QtWidgets import QWidget

from app.look.widgets import announce
from app.replay.phases import PHASES, Phase
from app.session.chat import Chat
from app.window.chat_column import ChatColumn
from app.window.replay_controller import ReplayController
from engine.types import Round

ASK = "Slow motion is on: send a message, and the answer stops at each phase of a round."
WAITING = "The next round is being computed."


class SlowMotion(QObject):
    """Shows an answer phase by phase. The engine is not slowed down: its rounds wait in `EngineLink` until they are shown.

    Signals:
        toggled: slow motion was turned on or off.
    """

    toggled = Signal()

    def __init__(self, chat: Chat, column: ChatColumn, replays: ReplayController, window: QWidget) -> None:
        super().__init__(window)
        self._chat, self._session, self._link, self._steps, self._replays = chat, chat.session, chat.link, column.steps, replays
        self._is_live = False
        self._phase: Phase = "commit"
        self._committed: Round | None = None
        chat.link.held.connect(self._round_held)
        column.steps.stepped.connect(self.step)
        column.steps.left.connect(self.toggle)

    @property
    def is_on(self) -> bool:
        """Whether the shown answer, live or replayed, is in slow motion."""
        player = self._replays.player
        return self._is_live if player is None else player.timing == "phases"

    @Slot()
    def toggle(self) -> None:
        """Turns slow motion on or off: of the replay if there is one, else of answers from now on."""
        player = self._replays.player
        if player is not None:
            self._replays.set_timing("recorded" if player.timing == "phases" else "phases")
        else:
            self._is_live = not self._is_live
            self._phase, self._committed = "commit", None
            self._link.hold(self._is_live)
        self.toggled.emit()

    @Slot()
    def forward(self) -> None:
        """Goes to the next phase, or begins slow motion."""
        self.step(1) if self.is_on else self.toggle()

    @Slot(int)
    def step(self, steps: int) -> None:
        """Goes to the next phase (1) or back to the previous one of the same round (-1)."""
        if self._replays.player is not None:
            self._replays.step(steps)
            return
        following, at = self._link.next_round, PHASES.index(self._phase)
        if not self._is_live or following is None or (steps < 0 and self._phase in ("commit", "draft")):
            return
        self._phase = PHASES[(at + steps) % len(PHASES)]
        if self._phase == "commit":
            self._committed = following
            self._link.release()
        self.refresh()
        announce(self._steps, self._steps.caption.accessibleName())

    @Slot()
    def _round_held(self) -> None:
        if self._session.running is None:
            self._link.release_all()  # of a plain run, which only measures
        self.refresh()

    @Slot()
    def refresh(self) -> None:
        """Updates the strip to the phase and to the state of the answer."""
        if self._replays.player is not None:
            return
        if not self._is_live:
            self._steps.hide()
            return
        following, answer, running = self._link.next_round, self._session.answer, self._session.running is not None
        if answer is None or self._committed not in answer.rounds[-1:]:
            self._committed = None  # that of another answer
        if following is None:
            self._phase = "commit"
        elif self._phase == "commit" and self._committed is None:
            self._phase = "draft"  # an answer begins with its first draft
        shown = self._committed if self._phase == "commit" else following
        self._steps.buttons.show()
        self._steps.forward.setEnabled(following is not None)
        self._steps.back.setEnabled(self._phase in ("verify", "judge"))
        self._steps.show_phase(shown, self._phase, WAITING if running else ASK)
