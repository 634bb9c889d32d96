"""The engine's events on the UI thread: drained by a timer under a time budget, stale runs dropped."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.session.lazy_engine import LazyEngine
from app.session.settings import Settings
from engine.interface import EngineLike
from engine.requests.bench import BenchRequest
from engine.requests.compare import CompareRequest, SampleRequest
from engine.types import (
    BenchFinished,
    DrafterChecked,
    DrafterReady,
    DrafterRefused,
    Event,
    Gamma,
    LoadFailed,
    PromptCounted,
    Request,
    Rule,
    RunFailed,
    RunFinished,
    SamplingFinished,
    TaskFailed,
)

BUSY_MS = 33
CUT_OFF = "It could not be ended in time, so it was cut off."
IDLE_MS = 250
"""Nothing is expected then; an engine that fails on its own accord is still heard."""
BUDGET_SECONDS = 0.008


class EngineLink(QObject):
    """Asks the engine for things and reports what it says, batch by batch.

    The timer slows down while nothing is under way, so an idle window costs next to nothing.

    Signals:
        received: a list of events, oldest first, without those of forgotten runs.
        compared: a list of events of the newest comparison or sampling. benched: the same of the newest benchmark.
        checked: (DrafterChecked) whether a model can draft for the target.
        counted: (PromptCounted) the prompt that was counted last.
    """

    received = Signal(list)
    checked = Signal(object)
    counted = Signal(object)
    compared = Signal(list)
    benched = Signal(list)

    def __init__(self, engine: EngineLike, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._engine = engine
        self._run: int | None = None
        self._compared: tuple[int, ...] = ()
        self._benched: int | None = None
        self._loads = 0
        self._open: dict[int, type[RunFailed] | type[TaskFailed]] = {}  # what is under way, and as what it fails
        self._left: dict[int, type[RunFailed] | type[TaskFailed]] = {}  # those of them that engines of before have to end
        self._counting: int | None = None
        self._timer = QTimer(self, interval=IDLE_MS)
        self._timer.timeout.connect(self._drain)
        self._timer.start()

    @property
    def run_id(self) -> int | None:
        """The run whose events are let through."""
        return self._run

    @property
    def busy(self) -> bool:
        """Whether the engine still owes an answer to something."""
        return self._loads > 0 or bool(self._open)

    @property
    def is_computing(self) -> bool:
        """As `EngineLike.is_computing`."""
        return self._engine.is_computing

    def exchange(self, settings: Settings) -> None:
        """Has another engine serve, as these settings ask for. Whatever is under way ends, by itself or as cut off."""
        if isinstance(self._engine, LazyEngine):
            self._engine.exchange(settings)
            self._left |= self._open
            self._loads, self._counting = 0, None
            self._timer.setInterval(BUSY_MS)

    def load(self, target: str, drafter: str, anyway: str = "") -> None:
        """Asks for a target and a drafter; what comes of it arrives through `received`. `anyway`: which of them is loaded however
        little memory there is."""
        if anyway:
            self._engine.ignore_memory(anyway)
        self._loads += 1
        self._timer.setInterval(BUSY_MS)
        self._engine.load(target, drafter)

    def submit(self, request: Request) -> int:
        """Starts a run; events of earlier ones are dropped from now on."""
        self._run = self._engine.submit(request)
        self._begun(RunFailed, self._run)
        return self._run

    def check_drafter(self, name: str) -> None:
        """Has a model on this machine checked as a drafter for the loaded target; `checked` says what came of it."""
        self._engine.check_drafter(name)

    def count_prompt(self, request: Request) -> None:
        """Has the tokens of a prompt counted, in place of one that is still to be counted."""
        self._counting = self._engine.count_prompt(request)
        self._timer.setInterval(BUSY_MS)

    def compare(self, request: CompareRequest) -> tuple[int, ...]:
        """Starts answers that take turns; events of an earlier comparison are dropped from now on."""
        self._compared = self._engine.compare(request)
        self._begun(RunFailed, *self._compared)
        return self._compared

    def sample(self, request: SampleRequest) -> int:
        """Starts drawing samples, in place of an earlier comparison."""
        self._compared = (self._engine.sample(request),)
        self._begun(TaskFailed, *self._compared)
        return self._compared[0]

    def _begun(self, fails_as: type[RunFailed] | type[TaskFailed], *numbers: int) -> None:
        self._open |= dict.fromkeys(numbers, fails_as)
        self._timer.setInterval(BUSY_MS)

    def stop_comparison(self) -> None:
        """Stops every answer of the comparison, or the sampling."""
        for run in self._compared:
            self._engine.stop(run)

    def bench(self, request: BenchRequest) -> None:
        """Starts a benchmark; `benched` says what comes of it. Raises DraftlightError if the engine is closed."""
        self._benched = self._engine.bench(request)
        self._begun(TaskFailed, self._benched)

    def stop_bench(self) -> None:
        """Stops the benchmark; what it has measured is kept."""
        if self._benched is not None:
            self._engine.stop(self._benched)

    def update(self, *, rule: Rule | None = None, gamma: Gamma | None = None, drafter: str | None = None) -> None:
        """Asks the current run for another rule, gamma or drafter."""
        if self._run is not None:
            self._engine.update(self._run, rule=rule, gamma=gamma, drafter=drafter)

    def stop(self) -> None:
        """Asks the current run to end, whose last events still arrive; see `forget` for dropping them."""
        if self._run is not None:
            self._engine.stop(self._run)

    def forget(self) -> None:
        """Stops the current run and lets none of its later events through."""
        self.stop()
        self._run = None

    def close(self, timeout: float = 5.0) -> bool:
        """Stops, joins and goes quiet. False if the engine did not end in time."""
        self.forget()
        self._timer.stop()
        return self._engine.close(timeout)

    @Slot()
    def _drain(self) -> None:
        self._hand_on(self._engine.events(budget=BUDGET_SECONDS))
        if self._left and isinstance(self._engine, LazyEngine) and not self._engine.is_exchanging:
            # Whatever has no end yet gets one: the engine of before hangs.
            left, self._left = self._left, {}
            self._hand_on([kind(number, CUT_OFF) for number, kind in left.items() if number in self._open])

    def _hand_on(self, events: Sequence[Event]) -> None:
        if not events:
            return
        current, compared, benched = [], [], []
        for event in events:
            if isinstance(event, PromptCounted):
                self._take_count(event)
                continue
            if isinstance(event, DrafterChecked):
                self.checked.emit(event)
                continue
            self._count(event)
            run = getattr(event, "run_id", getattr(event, "task_id", None))
            if run in self._compared:
                compared.append(event)
            elif run is not None and run == self._benched:
                benched.append(event)
            elif run is None or run == self._run:
                current.append(event)
        self._timer.setInterval(BUSY_MS if self.busy or self._counting is not None else IDLE_MS)
        if current:
            self.received.emit(current)
        if compared:
            self.compared.emit(compared)
        if benched:
            self.benched.emit(benched)

    def _take_count(self, event: PromptCounted) -> None:
        if event.count_id == self._counting:
            self._counting = None
            self.counted.emit(event)

    def _count(self, event: Event) -> None:
        match event:
            case RunFinished(number) | RunFailed(number) | SamplingFinished(number) | BenchFinished(number) | TaskFailed(number):
                self._open.pop(number, None)
            case LoadFailed() | DrafterReady() | DrafterRefused():
                self._loads = max(0, self._loads - 1)
