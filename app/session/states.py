"""The states of the models and of an answer, and the tables by which events change them. No Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from engine.types import (
    DrafterReady,
    DrafterRefused,
    EngineFailed,
    Event,
    LoadFailed,
    LoadFinished,
    LoadProgress,
    LoadStarted,
    ModelInfo,
    ModelsUnloaded,
    PrefillProgress,
    RoundFinished,
    RunChanged,
    RunFailed,
    RunFinished,
    RunStarted,
)
from engine.values.drafter_kinds import NO_DRAFTER

# The models


@dataclass(frozen=True, slots=True)
class Nothing:
    """No target is loaded, and none loads: none was requested, or it could not be loaded."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The target was loaded and is gone with the engine's process; the next message restarts both."""


@dataclass(frozen=True, slots=True)
class Loading:
    """A target is loading, and none is loaded.

    Attributes:
        target: requested name of the target that is loading or loaded.
        name: name of the model that is loading now: the target or a drafter.
        step, fraction, is_download: as in `LoadProgress`.
    """

    target: str
    name: str
    step: str = ""
    fraction: float | None = None
    is_download: bool = False


@dataclass(frozen=True, slots=True)
class Ready:
    """A target is loaded. `target` is the name it was requested by."""

    target: str
    model: ModelInfo


@dataclass(frozen=True, slots=True)
class Changing:
    """A target is loaded, and another target or a drafter is loading."""

    ready: Ready
    loading: Loading


Models = Nothing | Lost | Loading | Ready | Changing


@dataclass(frozen=True, slots=True)
class Requested:
    """The window has asked the engine to load these models. `LoadStarted` may follow much later."""

    target: str
    drafter: str


@dataclass(frozen=True, slots=True)
class EngineReplaced:
    """The engine was replaced by one without models; events of the old one about models are ignored."""


_AFTER: Mapping[type[Event | Requested | EngineReplaced], tuple[type[Models], ...]] = {
    # In state:      Nothing  Lost     Loading  Ready     Changing
    Requested:      (Loading, Loading, Loading, Changing, Changing),
    LoadStarted:    (Loading, Loading, Loading, Changing, Changing),
    LoadProgress:   (Loading, Loading, Loading, Changing, Changing),
    LoadFinished:   (Ready,   Ready,   Ready,   Ready,    Ready),
    LoadFailed:     (Nothing, Nothing, Nothing, Ready,    Ready),
    DrafterReady:   (Nothing, Lost,    Nothing, Ready,    Ready),
    DrafterRefused: (Nothing, Lost,    Nothing, Ready,    Ready),
    EngineFailed:   (Nothing, Lost,    Nothing, Ready,    Ready),
    ModelsUnloaded: (Nothing, Nothing, Nothing, Lost,     Nothing),  # a model may end the process while it loads
    EngineReplaced: (Nothing, Nothing, Nothing, Nothing,  Nothing),
}  # fmt: skip
"""State of the models after each event; other events do not change it."""


def after(models: Models, event: Event | Requested | EngineReplaced) -> Models:
    """Returns the state of the models after an event."""
    row = _AFTER.get(type(event))
    if row is None:
        return models
    kind = row[get_args(Models).index(type(models))]
    ready = models.ready if isinstance(models, Changing) else models if isinstance(models, Ready) else None
    loading = models.loading if isinstance(models, Changing) else models if isinstance(models, Loading) else None
    target = loading.target if loading is not None else ready.target if ready is not None else ""
    if kind is Ready:
        if isinstance(event, LoadFinished):
            return Ready(target or event.model.path, event.model)
        assert ready is not None
        return ready
    if kind is Loading or kind is Changing:
        loading = _loading(event, target, ready)
        return loading if ready is None else Changing(ready, loading)
    return Nothing() if kind is Nothing else Lost()


def _loading(event: object, target: str, ready: Ready | None) -> Loading:
    """Returns what is loading after an event. `target` is the one that the next `LoadFinished` or `LoadFailed` is about."""
    match event:
        case Requested(wanted, drafter):
            stays = ready is not None and ready.target == wanted and drafter != NO_DRAFTER
            return Loading(target or wanted, drafter if stays else wanted)
        case LoadProgress(name, step, fraction, is_download):
            return Loading(target or name, name, step, fraction, is_download)
        case LoadStarted(name):
            return Loading(name, name)
    raise AssertionError(f"{event} loads nothing")


# An answer

Running = Literal["waiting", "reading", "generating"]
State = Literal[Running, "finished", "failed"]
RUNNING: tuple[Running, ...] = get_args(Running)

_ANSWER_AFTER: Mapping[type[Event], tuple[State, State, State]] = {
    # In state:       waiting       reading       generating
    RunStarted:      ("reading",    "reading",    "reading"),
    PrefillProgress: ("reading",    "reading",    "reading"),
    RoundFinished:   ("generating", "generating", "generating"),
    RunChanged:      ("waiting",    "reading",    "generating"),
    RunFinished:     ("finished",   "finished",   "finished"),
    RunFailed:       ("failed",     "failed",     "failed"),
}  # fmt: skip
"""State of a running answer after each event of its run; the state of an ended answer is final."""


def answer_after(state: State, event: Event) -> State:
    """Returns the state of an answer after an event of its run."""
    if state == "finished" or state == "failed":
        return state
    return _ANSWER_AFTER[type(event)][RUNNING.index(state)]
