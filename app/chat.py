"""What the user's wishes do: carries them between the settings, the session and the engine. Paints nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal, Slot

from app import settings as stored
from app.exporting import export_session
from app.link import EngineLike, EngineLink
from app.session import Session
from app.settings import Settings
from app.wording import FINISH_WORDS
from engine.errors import DraftlightError
from engine.types import (
    DrafterRefused,
    EngineFailed,
    Event,
    LoadFailed,
    Request,
    RunFailed,
    RunFinished,
    RunStarted,
)

LIVE = ("rule", "gamma", "drafter")
"""Settings that act in the middle of an answer."""


class Chat(QObject):
    """One user, one conversation at a time, one engine.

    Attributes:
        session: what the views show. settings: what is in force from the next answer on.

    Signals:
        received: (events) the session has taken them in.
        changed: the session or the settings have changed in another way.
        said: (message, tone) something the user should read; tone is "error" or "note".
        unanswered: (message) the newest prompt got no whole answer.
        seed_drawn: (seed or None) the seed of the newest answer.
        finished: (words) the newest answer has ended.
    """

    received = Signal(list)
    changed = Signal()
    said = Signal(str, str)
    unanswered = Signal(str)
    seed_drawn = Signal(object)
    finished = Signal(str)

    def __init__(self, engine: EngineLike, settings: Settings, settings_path: Path | None, parent: QObject) -> None:
        super().__init__(parent)
        self.settings = settings
        self._settings_path = settings_path
        self.session = Session()
        self.session.drafter = settings.drafter
        self.link = EngineLink(engine, self)
        self.link.received.connect(self._received)

    # Conversation

    def send(self, text: str, instead_of_last: bool = False) -> None:
        """Asks for an answer to `text`; while a model loads, it waits for it. Nothing happens while an answer is under way."""
        if self.session.running is not None:
            return
        if instead_of_last and self.session.turns:
            self.session.turns.pop()
        settings, session = self.settings, self.session
        answer = session.add_turn(text, settings.options(), settings.drafter)
        request = Request(
            messages=session.messages(settings.system_prompt),
            options=answer.options,
            target=settings.target,
            drafter=settings.drafter,
            conversation=f"window-{session.conversation}",
        )
        self.seed_drawn.emit(None)
        try:
            answer.run_id = self.link.submit(request)
        except DraftlightError as error:
            answer.state = "failed"
            self.unanswered.emit(str(error))
        self.changed.emit()

    def regenerate(self) -> None:
        """Answers the last prompt again, in place of the answer there is."""
        if self.session.turns:
            self.send(self.session.turns[-1].prompt, instead_of_last=True)

    def withdraw(self) -> str:
        """Takes the newest turn out of the conversation and returns its prompt."""
        prompt = self.session.turns.pop().prompt
        self.changed.emit()
        return prompt

    def new(self) -> None:
        """Leaves the conversation for an empty one."""
        self.link.forget()
        self.session.clear()
        self.changed.emit()

    def stop(self) -> None:
        if self.session.running is not None:
            self.link.stop()

    # Settings

    @Slot(str, object)
    def change(self, name: str, value: object) -> None:
        """Takes in a setting from a control; what can act in the middle of an answer does."""
        if getattr(self.settings, name) == value:
            return
        changes = {name: value}
        if name == "target" and value != "builtin" and self.settings.drafter == "builtin-draft":
            changes["drafter"] = "none"  # that one was trained for the built-in target and fits no other
        self.keep(**changes)
        if self.session.running is not None and name in LIVE:
            self.link.update(**{name: value})  # type: ignore[arg-type]
        elif name in ("target", "drafter"):
            self.load_models()

    def keep(self, **changes: object) -> None:
        """Puts settings in force and writes them down."""
        self.settings = replace(self.settings, **changes)  # type: ignore[arg-type]
        if self._settings_path is not None:
            try:
                stored.save(self._settings_path, self.settings)
            except OSError as error:
                self.said.emit(f"The settings could not be saved: {error.strerror or error}.", "note")
        self.changed.emit()

    def load_models(self) -> None:
        """Asks for the models of the settings."""
        self.link.load(self.settings.target, self.settings.drafter)

    # Events

    @Slot(list)
    def _received(self, events: list[Event]) -> None:
        for event in events:
            self.session.apply(event)
            self._react(event)
        self.received.emit(events)

    def _react(self, event: Event) -> None:
        match event:
            case LoadFailed(name, message):
                self.said.emit(message, "error")
                if self.session.model is not None and self.settings.target == name:
                    self.keep(target=self.session.target)  # the model before is still loaded
            case DrafterRefused(_, message):
                self.said.emit(message, "error")
                before = self.session.drafter
                self.keep(drafter=before if before != self.settings.drafter else "none")
            case RunStarted(_, options):
                self.seed_drawn.emit(options.seed)
            case RunFinished(finish=finish):
                self.finished.emit(f"Answer finished: {FINISH_WORDS[finish]}")
            case RunFailed(_, message):
                self.unanswered.emit(message)
            case EngineFailed(message):
                self.said.emit(message, "error")

    def export(self, path: Path) -> None:
        """Writes the conversation's metrics, as CSV if the name ends so and else as JSON."""
        try:
            written = export_session(self.session.trace_paths, path)
        except DraftlightError as error:
            self.said.emit(str(error), "error")
        else:
            self.said.emit(f"Metrics written to {' and '.join(str(name) for name in written)}.", "note")

    def close(self) -> bool:
        """Ends the engine; False if it did not end in time."""
        return self.link.close()
