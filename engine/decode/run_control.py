"""Control of a running answer from other threads, and its clock, which leaves out the turns of other answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict

from engine.types import DecodingOptions, Gamma, Rule

if TYPE_CHECKING:  # a thread that controls an answer need not import MLX
    from engine.drafters.base import Drafter


class Settings(TypedDict, total=False):
    """Options that may change during an answer."""

    rule: Rule
    gamma: Gamma


class Changes(Settings, total=False):
    """Requested or applied changes. A drafter may be requested by name; applied changes hold the drafter itself."""

    drafter: Drafter | str | None


class _Keep:
    """Sentinel for an argument that was not given, where None has a meaning."""


_KEEP = _Keep()


class Control:
    """Handle by which another thread controls a running answer. Requests take effect between two rounds.

    Args:
        on_prefill: called on the decoding thread with (prompt tokens read, prompt tokens to read).

    Attributes:
        on_wait: called on the decoding thread when it is about to wait for a pass of the target, for a drafter to load, or for
            the end of the answer. This is the best moment to start work on another thread.
        on_changes: called on the decoding thread with the requested changes; returns those that take effect. It replaces names of
            drafters by the drafters.
        continues: whether the answer continues the text of the prompt, so that a space at its beginning belongs to it.
        is_computing: whether the decoding thread is between two passes of the target, drafting included. Python code on another
            thread of the process would slow it down then.
    """

    on_prefill: Callable[[int, int], None]
    on_wait: Callable[[], None]
    on_changes: Callable[[Changes], Changes]
    is_computing: bool

    def __init__(self, on_prefill: Callable[[int, int], None] | None = None) -> None:
        self.clear_callbacks()
        self.continues = False
        if on_prefill is not None:
            self.on_prefill = on_prefill
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._changes: Changes = {}

    def clear_callbacks(self) -> None:
        """Removes all callbacks, so that the objects behind them, and the models that those hold, can be freed."""
        self.on_prefill = lambda done, total: None
        self.on_wait = lambda: None
        self.on_changes = lambda changes: changes
        self.is_computing = False

    def waits(self) -> None:
        """Records that the decoding thread is about to wait, and calls `on_wait`."""
        self.is_computing = False
        self.on_wait()

    def resumes(self) -> None:
        """Records that the pass is done that the decoding thread waited for."""
        self.is_computing = True

    def stop(self) -> None:
        """Ends the answer within one round or one chunk of the prompt."""
        self._stopped.set()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called; checked between rounds and between chunks of the prompt. May be read from any thread."""
        return self._stopped.is_set()

    def update(
        self,
        *,
        rule: Rule | None = None,
        gamma: Gamma | None = None,
        drafter: Drafter | str | _Keep | None = _KEEP,
    ) -> None:
        """Requests changes; `drafter=None` removes the drafter. Raises ValueError for impossible values."""
        settings: Settings = {}
        if rule is not None:
            settings["rule"] = rule
        if gamma is not None:
            settings["gamma"] = gamma
        DecodingOptions(**settings)
        with self._lock:
            self._changes = {**self._changes, **settings}
            if not isinstance(drafter, _Keep):
                self._changes["drafter"] = drafter

    def take_changes(self) -> Changes:
        """Returns the changes that take effect among those requested since the last call."""
        with self._lock:
            changes, self._changes = self._changes, {}
        if not changes:
            return changes
        if "drafter" in changes:
            self.waits()
        return self.on_changes(changes)


class Clock:
    """Counts the seconds of one answer, from an arbitrary moment on."""

    def __init__(self) -> None:
        self._away = 0.0
        self.waited = 0.0  # seconds spent for the next round so far

    def __call__(self) -> float:
        return time.perf_counter() - self._away

    def exclude(self, since: float) -> None:
        """Leaves out the time since `since`, a reading of this clock."""
        self._away += self() - since

    def wait(self, finish_queued: Callable[[], None]) -> None:
        """Waits for the work that the answer has queued for its next round, before other answers have their turn."""
        began = self()
        finish_queued()
        self.carry_over(self() - began)

    def carry_over(self, seconds: float) -> None:
        """Adds time that the next round's pass, queued by the previous round, took before the next round began."""
        self.waited += seconds

    def pop_carry_over(self) -> float:
        """Returns the seconds that were spent for the round before it began, and resets them to 0. The round's timer adds
        them."""
        waited, self.waited = self.waited, 0.0
        return waited
