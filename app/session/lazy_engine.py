"""An engine that is started when it is first asked for something, for a window that shows a trace needs none, and that can be
exchanged for another."""

from __future__ import annotations

from collections.abc import Callable

from app.session.settings import Settings
from engine.drafter_kinds import NO_DRAFTER
from engine.interface import EngineLike
from engine.requests.bench import BenchRequest
from engine.requests.compare import CompareRequest, SampleRequest
from engine.requests.train import TrainRequest
from engine.types import Event, Gamma, ProveRequest, Request, Rule


class LazyEngine:
    """Stands in for an engine and hands everything on to it, once there is one.

    Args:
        make: makes the engine that settings ask for.
    """

    def __init__(self, make: Callable[[Settings], EngineLike], settings: Settings) -> None:
        self._make = make
        self._settings = settings
        self._engine: EngineLike | None = None
        self._last_words: list[Event] = []

    @property
    def engine(self) -> EngineLike:
        """The engine, started now at the latest."""
        if self._engine is None:
            self._engine = self._make(self._settings)
        return self._engine

    def exchange(self, settings: Settings) -> None:
        """Ends the engine, answers under way as cancelled. The next one, started when it is needed, is what these settings ask
        for. What the one before has said last is still among the events."""
        if self._engine is not None:
            self._engine.close()
            self._last_words += self._engine.events()
            self._engine = None
        self._settings = settings

    def load(self, target: str, drafter: str = NO_DRAFTER) -> None:
        """As `EngineLike.load`; starts the engine."""
        self.engine.load(target, drafter)

    def ignore_memory(self, *names: str) -> None:
        """As `EngineLike.ignore_memory`; starts the engine."""
        self.engine.ignore_memory(*names)

    def submit(self, request: Request) -> int:
        """As `EngineLike.submit`; starts the engine."""
        return self.engine.submit(request)

    def check_drafter(self, name: str) -> None:
        """As `EngineLike.check_drafter`; says nothing before the engine is started, when there is no target."""
        if self._engine is not None:
            self._engine.check_drafter(name)

    def count_prompt(self, request: Request) -> int:
        """As `EngineLike.count_prompt`; starts the engine."""
        return self.engine.count_prompt(request)

    def compare(self, request: CompareRequest) -> tuple[int, ...]:
        """As `EngineLike.compare`; starts the engine."""
        return self.engine.compare(request)

    def sample(self, request: SampleRequest) -> int:
        """As `EngineLike.sample`; starts the engine."""
        return self.engine.sample(request)

    def bench(self, request: BenchRequest) -> int:
        """As `EngineLike.bench`; starts the engine."""
        return self.engine.bench(request)

    def prove(self, request: ProveRequest) -> int:
        """As `EngineLike.prove`; starts the engine."""
        return self.engine.prove(request)

    def train(self, request: TrainRequest) -> int:
        """As `EngineLike.train`; starts the engine."""
        return self.engine.train(request)

    def update(self, run_id: int, *, rule: Rule | None = None, gamma: Gamma | None = None, drafter: str | None = None) -> None:
        """As `EngineLike.update`; does nothing before the engine is started, when there is no run."""
        if self._engine is not None:
            self._engine.update(run_id, rule=rule, gamma=gamma, drafter=drafter)

    def stop(self, run_id: int) -> None:
        """As `EngineLike.stop`; does nothing before the engine is started, when there is no run."""
        if self._engine is not None:
            self._engine.stop(run_id)

    def close(self, timeout: float = 5.0) -> bool:
        """As `EngineLike.close`; True at once if the engine was never started."""
        return self._engine is None or self._engine.close(timeout)

    def events(self, limit: int | None = None, budget: float | None = None) -> list[Event]:
        """As `EngineLike.events`; empty before the engine is started."""
        if self._last_words:
            last_words, self._last_words = self._last_words, []
            return last_words
        return [] if self._engine is None else self._engine.events(limit, budget)

    def wait(self, timeout: float) -> bool:
        """As `EngineLike.wait`; False at once before the engine is started."""
        return self._engine is not None and self._engine.wait(timeout)
