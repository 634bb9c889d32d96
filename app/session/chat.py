"""What the user's wishes do: carries them between the settings, the session and the engine. Paints nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal, Slot

from app.look.wording import drafter_title, target_title
from app.session import settings as stored
from app.session.engine_link import EngineLike, EngineLink
from app.session.plain_baseline import FEWEST_TOKENS, plain_request
from app.session.session import Answer, Session, Turn
from app.session.settings import Settings
from engine.drafter_kinds import NO_DRAFTER, may_fit
from engine.errors import DraftlightError
from engine.files.whole_file import NotWritten
from engine.lens.shared_wording import FINISH_WORDS
from engine.types import (
    DecodingOptions,
    DrafterReady,
    DrafterRefused,
    EngineFailed,
    Event,
    LoadFailed,
    LoadFinished,
    LoadStarted,
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
        self._put_aside: str | None = None  # the drafter the user wishes for, while another has to stand in
        self._unsaved = ""
        self._too_large: LoadFailed | DrafterRefused | None = None
        self._replaced: Turn | None = None
        self._plain: tuple[int, Answer] | None = None
        self.session = Session()
        self.session.drafter = settings.drafter
        self.session.loading = settings.target  # the window asks for it as soon as it stands
        self.link = EngineLink(engine, self)
        self.link.received.connect(self._received)

    # Conversation

    def send(self, text: str, instead_of_last: bool = False) -> None:
        """Asks for an answer to `text`; while a model loads, it waits for it. Nothing happens while an answer is under way or a
        replay is shown."""
        if self.session.running is None and not self.session.replaying:
            self._ask(text, self.settings.options(), instead_of_last)

    @Slot(tuple, int, str)
    def branch(self, kept: tuple[int, ...], token: int, text: str) -> None:
        """Answers the last prompt again with what an answer began with, another token, and whatever follows from there.

        The seed is that of the answer it leaves, so that under a drafter-invariant rule the token alone makes the difference.
        """
        if self.session.running is not None or self.session.replaying or not self.session.turns:
            return
        turn, options = self.session.turns[-1], self.settings.options()
        if options.seed is None:
            options = options.replace(seed=turn.answer.options.seed)
        self._ask(turn.prompt, options, instead_of_last=True, given=(*kept, token), chosen=text)

    @Slot(int)
    def show_sibling(self, by: int) -> None:
        """Shows the answer to the last prompt that was made before, -1, or after, 1, the one that shows."""
        if self.session.running is not None or self.session.replaying or not self.session.turns:
            return
        turn = self.session.turns[-1]
        if turn.has_sibling(by):
            turn.answer = turn.answers[turn.shown + by]
            self.changed.emit()

    def _ask(
        self,
        text: str,
        options: DecodingOptions,
        instead_of_last: bool,
        given: tuple[int, ...] = (),
        chosen: str = "",
    ) -> None:
        self._stop_measuring()
        self._replaced = self.session.turns.pop() if instead_of_last and self.session.turns else None
        settings, session = self.settings, self.session
        answer = session.add_turn(text, options, settings.drafter, target_title(settings.target))
        answer.chosen = chosen
        answer.shows_thought = False
        if self._replaced is not None and self._replaced.prompt == text:
            session.turns[-1].siblings = [*self._replaced.answers, answer]
        request = Request(
            messages=session.messages(settings.system_prompt),
            options=answer.options,
            target=settings.target,
            drafter=settings.drafter,
            conversation=f"window-{session.conversation}",
            given=given,
            template=not settings.raw,
            thinking=settings.thinking,
        )
        answer.request = request
        self.seed_drawn.emit(None)
        try:
            answer.run_id = self.link.submit(request)
        except DraftlightError as error:
            answer.state = "failed"
            self.unanswered.emit(str(error))
        self.changed.emit()

    def regenerate(self, same_seed: bool = False) -> None:
        """Answers the last prompt again; the answer there is stays as a sibling. The seed can be that of this answer, unless the
        settings have one."""
        if self.session.turns and self.session.running is None and not self.session.replaying:
            turn, options = self.session.turns[-1], self.settings.options()
            if same_seed and options.seed is None:
                options = options.replace(seed=turn.answer.options.seed)
            self._ask(turn.prompt, options, instead_of_last=True)

    @property
    def replaced(self) -> Turn | None:
        """The turn in whose place the newest one stands."""
        return self._replaced

    def withdraw(self) -> str:
        """Takes the newest turn out of the conversation and returns its prompt; the turn it replaced comes back."""
        prompt = self.session.turns.pop().prompt
        if self._replaced is not None:
            self.session.turns.append(self._replaced)
            self._replaced = None
        self.changed.emit()
        return prompt

    def new(self) -> None:
        """Leaves the conversation for an empty one."""
        self._stop_measuring()
        self.link.forget()
        self._replaced = None
        self.session.clear()
        self.changed.emit()

    def stop(self) -> None:
        """Asks the engine to end the answer, or the plain run that is measured; what is there so far stays."""
        if self.session.running is not None or self._plain is not None:
            self.link.stop()

    def measure_plain(self, answer: Answer) -> None:
        """Answers a prompt briefly without a drafter, outside the conversation, to have a speed to compare its answer with."""
        if answer.request is None or self.session.running is not None or self._plain is not None:
            return
        if answer.request.target != self.session.target:
            self.said.emit("A different target is loaded now. Regenerate the answer to measure with it.", "note")
            return
        try:
            self._plain = (self.link.submit(plain_request(answer.request)), answer)
        except DraftlightError as error:
            self.said.emit(str(error), "error")
            return
        self.session.measuring = True
        self.changed.emit()

    def _stop_measuring(self) -> None:
        if self._plain is not None:
            self.link.stop()
            self._plain, self.session.measuring = None, False

    # Settings

    @Slot(str, object)
    def change(self, name: str, value: object) -> None:
        """Takes in a setting from a control; what can act in the middle of an answer does."""
        wished_again = name == "drafter" and self._put_aside is not None
        if getattr(self.settings, name) == value and not wished_again:
            if name == "target" and self.session.model is None and not self.link.busy:
                self.load_models()  # it failed; whatever was in the way may be gone
            return
        changes = {name: value}
        if name == "drafter":
            self._put_aside = None
        elif name == "target":
            changes["drafter"] = self._drafter_for(str(value))
        self.keep(**changes)
        if self.session.running is not None and name in LIVE:
            self.link.update(**{name: value})  # type: ignore[arg-type]
        elif name in ("target", "drafter"):
            self.load_models()

    def _drafter_for(self, target: str) -> str:
        """The drafter the user wishes for, or none where that fits the built-in target only."""
        wished = self._put_aside or self.settings.drafter
        fits = may_fit(wished, target)
        self._put_aside = None if fits else wished
        return wished if fits else NO_DRAFTER

    def keep(self, **changes: object) -> None:
        """Puts settings in force and writes them down; a drafter that only stands in is not written down."""
        self.settings = replace(self.settings, **changes)  # type: ignore[arg-type]
        if self._settings_path is not None:
            lasting = self.settings
            if self._put_aside is not None and may_fit(self._put_aside, lasting.target):
                lasting = replace(lasting, drafter=self._put_aside)
            try:
                stored.save(self._settings_path, lasting)
            except NotWritten as error:
                self._say_unsaved(error)
        self.changed.emit()

    def _say_unsaved(self, error: NotWritten) -> None:
        """Once, and again only for another reason: a folder that cannot be written to must not cost a note per click."""
        reason = error.strerror or str(error)
        if reason != self._unsaved:
            self._unsaved = reason
            self.said.emit(
                f"The settings could not be saved to {self._settings_path}: {reason}. Your changes last until you quit.", "note"
            )

    def may_load_anyway(self, message: str) -> bool:
        """Whether it is a message that the newest load was refused for want of memory alone."""
        return self._too_large is not None and self._too_large.message in message

    def load_anyway(self) -> None:
        """Loads the model that was refused for want of memory, whatever comes of it."""
        refused, self._too_large = self._too_large, None
        if refused is None:
            return
        if isinstance(refused, LoadFailed):
            self.keep(target=refused.name, drafter=self._drafter_for(refused.name))
        else:
            self.keep(drafter=refused.name)
        self.load_models(anyway=refused.name)

    def load_models(self, anyway: str = "") -> None:
        """Asks for the models of the settings. What is loading is said at once: the engine may be long in starting.

        `anyway`: which of them is loaded however little memory there is.
        """
        there = self.session.model is not None and self.session.target == self.settings.target
        self.session.loading = self.settings.drafter if there and self.settings.drafter != NO_DRAFTER else self.settings.target
        self.session.load_step, self.session.load_fraction = "", None
        self.link.load(self.settings.target, self.settings.drafter, anyway)

    # Events

    @Slot(list)
    def _received(self, events: list[Event]) -> None:
        for event in events:
            if self._plain is not None and getattr(event, "run_id", None) == self._plain[0]:
                self._measured(event)
                continue
            if self._plain is not None and isinstance(event, DrafterReady) and event.name == NO_DRAFTER:
                continue  # of the plain run; the conversation goes on with its own
            self.session.apply(event)
            self._react(event)
        self.received.emit(events)

    def _measured(self, event: Event) -> None:
        """An event of the plain run that only measures."""
        if self._plain is None or not isinstance(event, (RunFinished, RunFailed)):
            return
        answer = self._plain[1]
        self._plain, self.session.measuring = None, False
        if isinstance(event, RunFailed):
            self.said.emit(f"The plain speed could not be measured. {event.message}", "error")
        elif answer.request is not None and self.session.baselines.add(answer.request, event) is None:
            self.said.emit(f"The plain run ended before {FEWEST_TOKENS} tokens, which is too short to measure its speed.", "note")

    def _react(self, event: Event) -> None:
        if isinstance(event, (LoadFailed, DrafterRefused)):
            self._too_large = event if event.may_force else None
        match event:
            case LoadStarted():
                self._too_large = None
            case LoadFinished(model) if model.sampling is not None and model.sampling != self.settings.recommended:
                self.keep(**self.settings.recommendations(model.sampling))
            case LoadFailed(name, message):
                self.said.emit(message, "error")
                if self.session.model is not None and self.settings.target == name:
                    before = self.session.target  # still loaded
                    self.keep(target=before, drafter=self._drafter_for(before))
            case DrafterRefused(name, message):
                self._stand_in(name, message)
            case RunStarted(_, options):
                self.seed_drawn.emit(options.seed)
            case RunFinished(finish=finish, trace_error=trace_error):
                self.finished.emit(f"Answer finished: {FINISH_WORDS[finish]}")
                if trace_error:
                    self.said.emit(f"{trace_error} The answer is complete, but its metrics cannot be exported.", "note")
            case RunFailed(_, message):
                self.unanswered.emit(message)
            case EngineFailed(message):
                self.said.emit(message, "error")

    def _stand_in(self, refused: str, message: str) -> None:
        """Another drafter for one that cannot be used: the one before, or none. The user may have chosen another meanwhile."""
        if self.settings.drafter != refused:
            self.said.emit(message, "error")
            return
        before = self.session.drafter
        if before == refused:
            before = NO_DRAFTER
            if not self.session.was_ready(refused):  # one that fitted an earlier target only is not wished for any longer
                self._put_aside = refused
        going_on = "without a drafter" if before == NO_DRAFTER else f"with {drafter_title(before)}"
        self.said.emit(f"{message} Continuing {going_on}.", "error")
        self.keep(drafter=before)

    def close(self) -> bool:
        """Ends the engine; False if it did not end in time."""
        return self.link.close()
