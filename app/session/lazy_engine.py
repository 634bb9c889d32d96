"""An engine that is started when it is first asked for something, for a window that shows a trace needs none, and that can be
exchanged for another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from app.session.settings import Settings
from engine.events import Event, RunEvent, TaskEvent
from engine.interface import EngineLike
from engine.requests.commands import CheckDrafter, Command, Stop, Update

IN_TIME = 5.0
"""Seconds in which an engine that is replaced has to end; what it has not ended by then is cut off."""
PATIENCE = 60.0
"""Seconds that the next one then still waits for its memory: a load cannot be interrupted. What hangs never gives it back."""


class _Leaving:
    """An engine that another replaces, while it ends on a thread of its own.

    Attributes:
        engine: itself.
        is_heard: set once no end of what is under way is waited for any longer. is_drained: what it has said by then was taken.
        is_gone: set once its memory, and that of those before it (`after`), is free or no longer waited for.
    """

    def __init__(self, engine: EngineLike, after: threading.Event | None) -> None:
        self.engine = engine
        self._after = after
        self.is_heard = threading.Event()
        self.is_drained = False
        self.is_gone = threading.Event()
        self.thread = threading.Thread(target=self._end, name="draftlight-leaving", daemon=True)
        self.thread.start()

    def _end(self) -> None:
        try:
            ended = self.engine.close(IN_TIME)
            self.is_heard.set()
            limit = time.monotonic() + PATIENCE
            while not ended and time.monotonic() < limit:
                ended = self.engine.close(1.0)
            if self._after is not None:
                self._after.wait(PATIENCE)
        finally:
            self.is_heard.set()
            self.is_gone.set()


class LazyEngine(EngineLike):
    """Stands in for an engine and hands everything on to it, once there is one.

    Args:
        make: makes the engine that settings ask for. It takes requests at once, and begins with them when the event that it is
            given, if any, is set: then the engine before it has given its memory back.
    """

    def __init__(self, make: Callable[[Settings, threading.Event | None], EngineLike], settings: Settings) -> None:
        super().__init__()
        self._make = make
        self._settings = settings
        self._engine: EngineLike | None = None
        self._after: threading.Event | None = None
        self._leaving: list[_Leaving] = []

    @property
    def engine(self) -> EngineLike:
        """The engine, started now at the latest."""
        if self._engine is None:
            self._engine = self._make(self._settings, self._after)
        return self._engine

    def exchange(self, settings: Settings) -> None:
        """Ends the engine without waiting for it, answers under way as cancelled. The next one, made when it is needed, is what
        these settings ask for. What the one before still says of runs and tasks is among the events."""
        if self._engine is not None:
            leaving = _Leaving(self._engine, self._after)
            self._leaving = [*(before for before in self._leaving if before.thread.is_alive() or not before.is_drained), leaving]
            self._engine, self._after = None, leaving.is_gone
        self._settings = settings

    @property
    def is_exchanging(self) -> bool:
        """Whether an engine that was replaced may still say something."""
        return not all(leaving.is_drained for leaving in self._leaving)

    def send(self, command: Command) -> None:
        """As in `EngineLike`; starts the engine, but for commands about a target or an answer, of which there is none then."""
        if self._engine is not None or not isinstance(command, CheckDrafter | Update | Stop):
            self.engine.send(command)

    def close(self, timeout: float = 5.0) -> bool:
        """As `EngineLike.close`, those that were replaced included; True at once if the engine was never started."""
        limit = time.monotonic() + timeout
        for leaving in self._leaving:
            leaving.thread.join(max(0.0, limit - time.monotonic()))
        ended = self._engine is None or self._engine.close(max(0.0, limit - time.monotonic()))
        return ended and not any(leaving.thread.is_alive() for leaving in self._leaving)

    def events(self, limit: int | None = None, budget: float | None = None) -> list[Event]:
        """As `EngineLike.events`; empty before the engine is started."""
        for leaving in (one for one in self._leaving if not one.is_drained):
            is_last = leaving.is_heard.is_set()
            if said := leaving.engine.events(limit, budget):  # what it says of models concerns nobody any longer
                return [event for event in said if isinstance(event, RunEvent | TaskEvent)]
            leaving.is_drained = is_last
        return [] if self._engine is None else self._engine.events(limit, budget)

    def wait(self, timeout: float) -> bool:
        """As `EngineLike.wait`; False at once before the engine is started."""
        return self._engine is not None and self._engine.wait(timeout)

    @property
    def is_computing(self) -> bool:
        """As `EngineLike.is_computing`; False before the engine is started."""
        return self._engine is not None and self._engine.is_computing
