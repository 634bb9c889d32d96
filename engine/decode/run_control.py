"""How other threads steer an answer under way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict

from engine.types import DecodingOptions, Gamma, Rule

if TYPE_CHECKING:  # another thread that steers an answer need not have imported MLX
    from engine.drafters.base import Drafter


class Settings(TypedDict, total=False):
    """What of the options may change in mid-answer."""

    rule: Rule
    gamma: Gamma


class Changes(Settings, total=False):
    """What was requested, or takes effect. A drafter may be requested by name; what takes effect is the drafter itself."""

    drafter: Drafter | str | None


class _Keep:
    """Marks an argument that was not given, where None means something."""


_KEEP = _Keep()


class Control:
    """The handle by which another thread steers a running answer. Requests take effect at a round boundary.

    Args:
        on_prefill: called on the decoding thread with (prompt tokens read, prompt tokens to read).

    Attributes:
        on_wait: called on the decoding thread when it is about to wait: for a pass of the target, for a drafter that is loaded,
            or for the end of the answer. Work for another thread is best begun then.
        on_changes: called on the decoding thread with what was requested; gives what of it takes effect. Where drafters are
            requested by name, it puts them in its place.
        continues: whether the answer goes on with the text of the prompt, so that a space at its beginning belongs to it.
        is_computing: whether the decoding thread is between two passes of the target, drafting included: what another thread of
            the process does in Python then slows it down.
    """

    on_prefill: Callable[[int, int], None]
    on_wait: Callable[[], None]
    on_changes: Callable[[Changes], Changes]
    is_computing: bool

    def __init__(self, on_prefill: Callable[[int, int], None] | None = None) -> None:
        self.tell_nobody()
        self.continues = False
        if on_prefill is not None:
            self.on_prefill = on_prefill
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._changes: Changes = {}

    def tell_nobody(self) -> None:
        """Calls nobody back from now on. Who was called is let go of, with the models that it holds."""
        self.on_prefill = lambda done, total: None
        self.on_wait = lambda: None
        self.on_changes = lambda changes: changes
        self.is_computing = False

    def waits(self) -> None:
        """The decoding thread is about to wait."""
        self.is_computing = False
        self.on_wait()

    def resumes(self) -> None:
        """A pass that it waited for is there."""
        self.is_computing = True

    def stop(self) -> None:
        """Ends the answer within one round or one chunk of the prompt."""
        self._stopped.set()

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called; looked at between rounds and between chunks of the prompt, from any thread."""
        return self._stopped.is_set()

    def update(
        self,
        *,
        rule: Rule | None = None,
        gamma: Gamma | None = None,
        drafter: Drafter | str | _Keep | None = _KEEP,
    ) -> None:
        """Changes what is given; `drafter=None` goes on without one. Raises ValueError for impossible values."""
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
        """What takes effect of what was requested since the last call."""
        with self._lock:
            changes, self._changes = self._changes, {}
        if not changes:
            return changes
        if "drafter" in changes:
            self.waits()
        return self.on_changes(changes)
