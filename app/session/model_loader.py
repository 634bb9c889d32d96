"""Loads the models of the settings. If one cannot be used, falls back to another or offers a remedy, such as "Load anyway"."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, Signal

from app.look.banner import BannerAction
from app.look.wording import drafter_title, target_title
from app.session.engine_link import EngineLink
from app.session.machines import number_of_machines
from app.session.plain_baseline import Baselines
from app.session.preferences import Preferences
from app.session.session import Session
from app.session.states import EngineReplaced, Loading, Nothing, Requested
from engine.types import DrafterReady, DrafterRefused, EngineFailed, Event, LoadFailed, LoadFinished, RunFailed, Sampling
from engine.values.drafter_kinds import NO_DRAFTER, may_fit
from engine.values.wording import shortened

MOST_RECENT = 6
"""Maximum number of the user's own targets in the list of targets."""


class ModelLoader(QObject):
    """Keeps the models of the engine in line with the settings.

    Args:
        change: changes a setting as the user does (`Chat.change`), for remedies.

    Attributes:
        chosen_target: target that the user chose and that is not loaded yet; its preset applies once it is.

    Signals:
        said: (message, tone, action) as `Chat.said`.
    """

    said = Signal(str, str, object)

    def __init__(
        self,
        preferences: Preferences,
        session: Session,
        link: EngineLink,
        change: Callable[[str, object], None],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._preferences, self._session, self._link, self._change = preferences, session, link, change
        self._requested: tuple[str, str] | None = None  # models once requested, while others are set now
        self.chosen_target = ""
        target = preferences.current.target
        session.drafter = preferences.current.drafter
        session.models = Loading(target, target)  # the window requests it as soon as it is shown
        self._note_place()

    @property
    def _wanted(self) -> tuple[str, str]:
        return self._preferences.current.target, self._preferences.current.drafter

    @property
    def requested(self) -> tuple[str, str]:
        """Target and drafter requested last."""
        return self._requested or self._wanted

    @property
    def is_pending(self) -> bool:
        """Whether the models of the settings are not requested yet. Those of a chat from the store are loaded when needed."""
        return self._requested is not None

    def put_off(self, requested: tuple[str, str]) -> None:
        """Puts off the models of another chat until `load` if they differ from the models requested before."""
        self._requested = None if requested == self._wanted else requested

    def load(self, anyway: str = "") -> None:
        """Requests the models of the settings. `anyway` names one to load despite too little memory."""
        self._session.apply(Requested(*self._wanted))
        self._requested = None
        if anyway:
            self._link.ignore_memory(anyway)
        self._link.load(*self._wanted)

    def load_again(self) -> None:
        """Requests models that are pending, or that failed to load: the cause may be gone."""
        failed = self._session.model is None and not self._link.busy
        if failed or self.is_pending:
            self.load()

    def change(self, target: str, drafter: str) -> None:
        """Changes target and drafter together, so that neither is tried with the other's old value."""
        self._preferences.wanted_drafter = None
        self._preferences.set(target=target, drafter=drafter)
        self._preferences.record("target")
        self.load()

    def replace_engine(self) -> None:
        """Replaces the engine by one that runs where the settings say, and loads the models again if they were loaded."""
        session = self._session
        loads = (session.model is not None or self._link.busy) and not self.is_pending
        self._link.replace_engine(self._preferences.current)
        session.apply(EngineReplaced())
        self._note_place()
        session.baselines = Baselines()  # plain speed differs there
        if loads:
            self.load()

    def _note_place(self) -> None:
        """Notes in the session where models run."""
        settings = self._preferences.current
        self._session.machines = number_of_machines() if settings.split else 1
        self._session.engine_place = (settings.separate_process, settings.split)

    # Events

    def react(self, event: Event) -> None:
        """Reacts to an event about models that the session has applied."""
        preferences, session = self._preferences, self._session
        match event:
            case LoadFinished(model):
                self._note_recent(session.target)
                if model.sampling is not None and model.sampling != preferences.current.recommended:
                    self._recommend(model.sampling)
                chosen, self.chosen_target = self.chosen_target, ""
                if chosen == session.target and (preset := preferences.current.preset_for(chosen)) is not None:
                    preferences.use_preset(preset.name)  # it takes precedence over the recommendations
            case LoadFailed(name, message):
                self.said.emit(message, "error", self.remedy(event))
                recent = preferences.current.recent_models
                if name in recent and not event.may_force:
                    preferences.set(recent_models=tuple(one for one in recent if one != name))
                if session.model is not None and preferences.current.target == name:
                    before = session.target  # still loaded
                    preferences.set(target=before, drafter=preferences.drafter_for(before))
            case DrafterReady(warning=warning) if warning:
                self.said.emit(warning, "note", None)
            case DrafterRefused():
                self._stand_in(event)
            case EngineFailed(message):
                self.said.emit(message, "error", self.remedy(event))

    def _note_recent(self, target: str) -> None:
        """Puts a target of the user's own that was loaded at the top of the recent ones."""
        recent = self._preferences.current.recent_models
        if target not in ("", "builtin", *recent[:1]):
            others = (one for one in recent if one != target)
            self._preferences.set(recent_models=(target, *others)[:MOST_RECENT])

    def _recommend(self, sampling: Sampling) -> None:
        """Applies the recommended sampling of the target; reports a system prompt that comes with it."""
        target, before = self._session.target, self._preferences.current.system_prompt
        self._preferences.recommend(target, sampling)
        if (prompt := self._preferences.current.system_prompt) not in ("", before):
            words = f"{target_title(target)} comes with a system prompt: “{shortened(prompt)}” The options have it."
            self.said.emit(words, "note", None)

    def _stand_in(self, event: DrafterRefused) -> None:
        """Falls back from an unusable drafter to the previous one, or to none, unless the user has chosen another meanwhile."""
        refused, remedy, preferences = event.name, self.remedy(event), self._preferences
        if preferences.current.drafter != refused:
            self.said.emit(event.message, "error", remedy)
            return
        before = self._session.drafter
        if not may_fit(before, preferences.current.target):
            before = NO_DRAFTER
        if before == refused:
            before = NO_DRAFTER
            if not self._session.was_ready(refused):  # if it fitted only an earlier target, it is no longer wanted
                preferences.wanted_drafter = refused
        instead = "without a drafter" if before == NO_DRAFTER else f"with {drafter_title(before)}"
        self.said.emit(f"{event.message} Continuing {instead}.", "error", remedy)
        preferences.set(drafter=before)

    # Remedies

    def remedy(self, failure: LoadFailed | DrafterRefused | RunFailed | EngineFailed) -> BannerAction | None:
        """Returns a remedy for a failure: to load a model despite too little memory, to use this machine alone, or to use a model
        that can be loaded."""
        refused = failure.refused if isinstance(failure, RunFailed) else failure
        if isinstance(refused, LoadFailed | DrafterRefused) and refused.may_force:
            return BannerAction("Load anyway", partial(self._load_anyway, refused))
        settings, answer = self._preferences.current, self._session.answer
        if settings.split and not isinstance(failure, DrafterRefused):
            return BannerAction("Use this machine alone", partial(self._change, "split", False))
        # The answer had begun: another model would not bring the rest of it.
        had_model = isinstance(failure, RunFailed) and answer is not None and bool(answer.rounds)
        if isinstance(failure, LoadFailed | RunFailed) and isinstance(self._session.models, Nothing | Loading) and not had_model:
            words = "Try again" if settings.target == "builtin" else "Use the built-in model"
            return BannerAction(words, partial(self._change, "target", "builtin"))
        return None

    def _load_anyway(self, refused: LoadFailed | DrafterRefused) -> None:
        """Loads a model that was refused for lack of memory."""
        if isinstance(refused, LoadFailed):
            self._preferences.set(target=refused.name, drafter=self._preferences.drafter_for(refused.name))
        else:
            self._preferences.set(drafter=refused.name)
        self.load(anyway=refused.name)
