"""Every state of the models and of an answer, with every event: what a user then sees. Events lead to each state."""

from __future__ import annotations

from typing import Any

import pytest
from PySide6.QtCore import QObject

from app.look.banner import BannerAction
from app.session.chat import Chat
from app.session.session import Session
from app.session.settings import Settings
from app.session.states import EngineReplaced, Requested
from app.window.status_strip import phase_text
from engine.types import (
    DecodingOptions,
    DrafterReady,
    DrafterRefused,
    EngineFailed,
    LoadFailed,
    LoadFinished,
    LoadProgress,
    LoadStarted,
    ModelsUnloaded,
    PrefillProgress,
    RoundFinished,
    RunChanged,
    RunFailed,
    RunFinished,
    RunStarted,
)
from tests.app.fakes import MODEL, FakeEngine, make_round

OPTIONS = DecodingOptions()
A, B, DRAFT = "/models/a", "/models/b", "/models/draft"

NO_MODEL = "No model loaded: send a message to load it, or choose another target above"
WAYS: dict[str, list[Any]] = {
    "nothing": [LoadFailed(A, "There is no model.")],
    "loading": [LoadStarted(A), LoadProgress(A, "reading weights")],
    "ready": [LoadStarted(A), LoadFinished(MODEL, 1.0)],
    "another target": [LoadStarted(A), LoadFinished(MODEL, 1.0), LoadStarted(B)],
    "a drafter": [LoadStarted(A), LoadFinished(MODEL, 1.0), LoadProgress(DRAFT, "reading weights")],
    "lost": [LoadStarted(A), LoadFinished(MODEL, 1.0), ModelsUnloaded()],
}
"""The events that lead to each state of the models."""

Seen = tuple[str, str, bool]
"""The loaded target; the status line; and whether another model is offered if an answer fails now, which would be in vain where
the engine's process has ended with a model that was loaded."""
NONE: Seen = ("", NO_MODEL, True)
LOST: Seen = ("", NO_MODEL, False)
READY: Seen = (A, "Ready", False)
LOADING: Seen = ("", "Loading a, reading weights", True)
TO_B: Seen = ("", "Loading b", True)
A_TO_B: Seen = (A, "Loading b", False)
A_TO_DRAFT: Seen = (A, "Loading draft", False)
GOES_ON, A_GOES_ON = ("", "Loading b, reading weights, 50%", True), (A, "Loading b, reading weights, 50%", False)

THEN: dict[str, tuple[Any, tuple[Seen, Seen, Seen, Seen, Seen, Seen]]] = {
    # nothing, loading, ready, another target, a drafter, lost
    "a target is requested": (Requested(B, "none"), (TO_B, TO_B, A_TO_B, A_TO_B, A_TO_B, TO_B)),
    "a drafter of a is requested": (
        Requested(A, DRAFT),
        (("", "Loading a", True), ("", "Loading a", True), A_TO_DRAFT, A_TO_DRAFT, A_TO_DRAFT, ("", "Loading a", True)),
    ),
    "a target begins to load": (LoadStarted(B), (TO_B, TO_B, A_TO_B, A_TO_B, A_TO_B, TO_B)),
    "a load goes on": (
        LoadProgress(B, "reading weights", 0.5),
        (GOES_ON, GOES_ON, A_GOES_ON, A_GOES_ON, A_GOES_ON, GOES_ON),
    ),
    "a target is loaded": (
        LoadFinished(MODEL, 1.0),
        ((MODEL.path, "Ready", False), READY, READY, (B, "Ready", False), READY, (MODEL.path, "Ready", False)),
    ),
    "a target cannot be loaded": (LoadFailed(B, "There is no model."), (NONE, NONE, READY, READY, READY, NONE)),
    "a drafter is ready": (DrafterReady("ngram", False), (NONE, NONE, READY, READY, READY, LOST)),
    "a drafter is refused": (DrafterRefused(DRAFT, "It does not fit."), (NONE, NONE, READY, READY, READY, LOST)),
    "the engine fails": (EngineFailed("It could not be closed."), (NONE, NONE, READY, READY, READY, LOST)),
    "the models are gone": (ModelsUnloaded(), (NONE, NONE, LOST, NONE, NONE, NONE)),
    "the engine is replaced": (EngineReplaced(), (NONE, NONE, NONE, NONE, NONE, NONE)),
    "an answer begins": (
        RunStarted(99, OPTIONS, 5, "none", None),
        (NONE, LOADING, READY, A_TO_B, (A, "Loading draft, reading weights", False), LOST),
    ),
}


@pytest.mark.usefixtures("qapp")
@pytest.mark.parametrize(("at", "state"), list(enumerate(WAYS)), ids=list(WAYS))
@pytest.mark.parametrize("then", THEN)
def test_every_event_in_every_state_of_the_models(at: int, state: str, then: str) -> None:
    """A lost transition leaves what was seen before: a load that seems never to end, a model that is no longer there, or the
    offer of another model where that is in vain. Events that a state ignores are among the rows, and so is an answer's, which
    no state heeds."""
    event, seen = THEN[then]
    parent = QObject()
    chat = Chat(FakeEngine(), Settings(target=A), None, parent)
    actions: list[BannerAction | None] = []
    chat.unanswered.connect(lambda message, may_drop, action: actions.append(action))
    for step in (*WAYS[state], event):
        if isinstance(step, Requested | EngineReplaced):
            chat.session.apply(step)
        else:
            chat.link.received.emit([step])
    assert (chat.session.target, phase_text(chat.session)) == seen[at][:2]
    chat.link.received.emit([RunFailed(98, "It went wrong.")])
    assert [action is not None for action in actions] == [seen[at][2]]
    chat.close()


@pytest.mark.usefixtures("qapp")
def test_an_engine_that_was_not_asked_yet_leaves_no_load_that_never_ends_when_it_is_replaced() -> None:
    parent = QObject()
    chat = Chat(FakeEngine(), Settings(target=A), None, parent)
    assert phase_text(chat.session) == "Loading a", "the window will ask for it"
    chat.change("separate_process", True)
    assert phase_text(chat.session) == NO_MODEL
    chat.close()


def test_what_is_loaded_has_the_name_of_the_load_that_ended() -> None:
    """The second request is made while the first target still loads, and the first of them ends first."""
    session = Session()
    first: list[Any] = [LoadStarted(A), Requested(B, "none"), LoadFinished(MODEL, 1.0)]
    for step in first:
        session.apply(step)
    assert session.target == A
    second: list[Any] = [LoadStarted(B), LoadFailed(B, "There is no model."), LoadFinished(MODEL, 0.0)]
    for step in second:
        session.apply(step)
    assert session.target == A


STARTED, PREFILL, ROUND = (
    RunStarted(1, OPTIONS, 5, "none", None),
    PrefillProgress(1, 2, 5),
    RoundFinished(1, make_round(0, [], "a")),
)
CHANGED = RunChanged(1, 1, "match", 4, "none")
FINISHED, FAILED = RunFinished(1, "eos", "a", 1, 1.0, 0.1, 0.1, None), RunFailed(1, "Out of memory.")
ANSWER_WAYS: dict[str, list[Any]] = {
    "waiting": [],
    "reading": [STARTED],
    "generating": [STARTED, ROUND],
    "finished": [STARTED, ROUND, FINISHED],
    "failed": [STARTED, ROUND, FAILED],
}
ANSWER_THEN: list[tuple[Any, tuple[str, str, str]]] = [
    (STARTED, ("reading", "reading", "reading")),
    (PREFILL, ("reading", "reading", "reading")),
    (ROUND, ("generating", "generating", "generating")),
    (CHANGED, ("waiting", "reading", "generating")),
    (FINISHED, ("finished", "finished", "finished")),
    (FAILED, ("failed", "failed", "failed")),
]


@pytest.mark.parametrize("state", ANSWER_WAYS)
@pytest.mark.parametrize(("event", "states"), ANSWER_THEN, ids=lambda value: type(value).__name__)
def test_every_event_in_every_state_of_an_answer(state: str, event: Any, states: tuple[str, str, str]) -> None:
    """A lost transition leaves an answer that seems to wait or to run for ever, or lets an event that comes late reopen one that
    has ended: it would keep the message field shut."""
    session = Session()
    session.add_turn("Hello", OPTIONS, "none").run_id = 1
    for step in ANSWER_WAYS[state]:
        session.apply(step)
    answer = session.turns[0].answer
    before = (answer.text.text, answer.message, answer.finish)
    session.apply(event)
    if state in ("finished", "failed"):
        assert (answer.state, answer.text.text, answer.message, answer.finish) == (state, *before), "it has ended"
        assert session.idle
    else:
        assert answer.state == states[("waiting", "reading", "generating").index(state)]
        assert session.idle == (answer.state in ("finished", "failed"))
