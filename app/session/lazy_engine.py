"""An engine proxy that starts its engine on first use (a window that only shows a trace needs none) and can replace it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from app.session.settings import Settings
from engine.runtime.interface import EngineLike
from engine.values.events import Event, RunEvent, TaskEvent
from engine.values.requests.commands import CheckDrafter, Command, Stop, Update

IN_TIME = 5.0
"""Time that a replaced engine has to end, in seconds; requests still open after that are cut off."""
PATIENCE = 60.0
"""Time that the next engine waits for the replaced one to free its memory, in seconds. A load cannot be interrupted, and a hung
engine never frees its memory."""


class _RetiringEngine:
    """A replaced engine that is ending on its own thread.

    Attributes:
        engine: the replaced engine.
        is_closed: set when the engine reports no more events. is_drained: whether all events up to then were taken.
        is_released: set when this engine and the one before it (`after`) have freed their memory, or time is up.
    """

    def __init__(self, engine: EngineLike, after: threading.Event | None) -> None:
        self.engine = engine
        self._after = after
        self.is_closed = threading.Event()
        self.is_drained = False
        self.is_released = threading.Event()
        self.thread = threading.Thread(target=self._end, name="draftlight-leaving", daemon=True)
        self.thread.start()

    def _end(self) -> None:
        try:
            ended = self.engine.close(IN_TIME)
            self.is_closed.set()
            limit = time.monotonic() + PATIENCE
            while not ended and time.monotonic() < limit:
                ended = self.engine.close(1.0)
            if self._after is not None:
                self._after.wait(PATIENCE)
        finally:
            self.is_closed.set()
            self.is_released.set()


class LazyEngine(EngineLike):
    """A proxy that forwards everything to an engine once one is started.

    Args:
        make: creates the engine for given settings. It accepts requests at once, but starts them only when the given event, if
            any, is set: the previous engine has then freed its memory.
    """

    def __init__(self, make: Callable[[Settings, threading.Event | None], EngineLike], settings: Settings) -> None:
        super().__init__()
        self._make = make
        self._settings = settings
        self._engine: EngineLike | None = None
        self._after: threading.Event | None = None
        self._leaving: list[_RetiringEngine] = []

    @property
    def engine(self) -> EngineLike:
        """The engine; created on first access."""
        if self._engine is None:
            self._engine = self._make(self._settings, self._after)
        return self._engine

    def replace_engine(self, settings: Settings) -> None:
        """Ends the engine without waiting and cancels its answers. The next engine is created when needed, with these settings.
        Remaining run and task events of the old one are still delivered."""
        if self._engine is not None:
            leaving = _RetiringEngine(self._engine, self._after)
            self._leaving = [*(before for before in self._leaving if before.thread.is_alive() or not before.is_drained), leaving]
            self._engine, self._after = None, leaving.is_released
        self._settings = settings

    @property
    def is_replacing(self) -> bool:
        """Whether a replaced engine may still deliver events."""
        return not all(leaving.is_drained for leaving in self._leaving)

    def send(self, command: Command) -> None:
        """Sends a command and starts the engine if needed; before that, drops commands that only concern a started engine."""
        if self._engine is not None or not isinstance(command, CheckDrafter | Update | Stop):
            self.engine.send(command)

    def close(self, timeout: float = 5.0) -> bool:
        """Closes the engine and those that it replaced. Returns True at once if none was ever started."""
        limit = time.monotonic() + timeout
        for leaving in self._leaving:
            leaving.thread.join(max(0.0, limit - time.monotonic()))
        ended = self._engine is None or self._engine.close(max(0.0, limit - time.monotonic()))
        return ended and not any(leaving.thread.is_alive() for leaving in self._leaving)

    def events(self, limit: int | None = None, budget: float | None = None) -> list[Event]:
        """As in `EngineLike.events`; empty before the engine is started."""
        for leaving in (one for one in self._leaving if not one.is_drained):
            is_last = leaving.is_closed.is_set()
            if said := leaving.engine.events(limit, budget):  # its events about models no longer apply
                return [event for event in said if isinstance(event, RunEvent | TaskEvent)]
            leaving.is_drained = is_last
        return [] if self._engine is None else self._engine.events(limit, budget)

    def wait(self, timeout: float) -> bool:
        """As in `EngineLike.wait`; False at once before the engine is started."""
        return self._engine is not None and self._engine.wait(timeout)

    @property
    def is_computing(self) -> bool:
        """As in `EngineLike.is_computing`; False before the engine is started."""
        return self._engine is not None and self._engine.is_computing
