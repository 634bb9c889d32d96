"""Sends requests to the engine and delivers its events on the UI thread: a timer takes them, and drops those of old runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.session.lazy_engine import LazyEngine
from app.session.settings import Settings
from engine.runtime.interface import EngineLike, Requests
from engine.types import (
    BenchFinished,
    DrafterChecked,
    DrafterReady,
    DrafterRefused,
    Event,
    LoadFailed,
    PromptCounted,
    Round,
    RoundFinished,
    RunFailed,
    RunFinished,
    SamplingFinished,
    TaskFailed,
)
from engine.values.events import number_of
from engine.values.requests.bench import BenchRequest
from engine.values.requests.commands import Command, Compare, CountPrompt, Load, Perform, Submit
from engine.values.requests.compare import SampleRequest

BUSY_MS = 33
CUT_OFF = "It could not be ended in time, so it was cut off."
IDLE_MS = 250
"""Polling interval while idle, which still notices an engine that fails by itself."""
BUDGET_SECONDS = 0.008


class EngineLink(QObject, Requests):
    """Sends commands to the engine and emits its events in batches.

    The timer slows down while no request is open, so that an idle window costs almost nothing.

    Signals:
        received: a list of events, oldest first, without those of forgotten runs.
        compared: a list of events of the newest comparison or sampling. benched: the same for the newest benchmark.
        checked: (DrafterChecked) whether a model can draft for the target.
        counted: (PromptCounted) the result for the prompt counted last.
        held: a round is held back, for slow motion, which shows it before it is delivered.
    """

    received = Signal(list)
    checked = Signal(object)
    counted = Signal(object)
    compared = Signal(list)
    benched = Signal(list)
    held = Signal()

    def __init__(self, engine: EngineLike, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._engine = engine
        self.numbers = engine.numbers
        self._run: int | None = None
        self._compared: tuple[int, ...] = ()
        self._benched: int | None = None
        self._loads = 0
        self._open: dict[int, type[RunFailed] | type[TaskFailed]] = {}  # open requests, each with its failure event
        self._abandoned: dict[int, type[RunFailed] | type[TaskFailed]] = {}  # open requests of replaced engines
        self._counting: int | None = None
        self._holds = False
        self._held: deque[Event] = deque()
        self._timer = QTimer(self, interval=IDLE_MS)
        self._timer.timeout.connect(self._drain)
        self._timer.start()

    @property
    def run_id(self) -> int | None:
        """The run whose events are delivered."""
        return self._run

    @property
    def busy(self) -> bool:
        """Whether any request is still open."""
        return self._loads > 0 or bool(self._open)

    @property
    def is_computing(self) -> bool:
        """As in `EngineLike.is_computing`."""
        return self._engine.is_computing

    # Slow motion: the engine goes on, and its rounds wait here. Their times are therefore the usual ones.

    @property
    def next_round(self) -> Round | None:
        """The round that is held back; None if none is."""
        return self._held[0].round if self._held and isinstance(self._held[0], RoundFinished) else None

    def hold(self, holds: bool) -> None:
        """Holds back the rounds of an answer from now on, or delivers all and holds none."""
        self._holds = holds
        if not holds:
            self.release_all()

    def release(self) -> None:
        """Delivers the round that is held back, and what follows up to the next one."""
        if self._held:
            self.received.emit([self._held.popleft(), *self._up_to_round()])

    def release_all(self) -> None:
        """Delivers everything that is held back."""
        events = [*self._held]
        self._held.clear()
        if events:
            self.received.emit(events)

    def _up_to_round(self) -> list[Event]:
        """Removes what is held back before the next round."""
        events: list[Event] = []
        while self._held and self.next_round is None:
            events.append(self._held.popleft())
        return events

    def replace_engine(self, settings: Settings) -> None:
        """Replaces the engine by one for these settings. Open requests end normally or, after a time limit, as cut off."""
        if isinstance(self._engine, LazyEngine):
            self._engine.replace_engine(settings)
            self._abandoned |= self._open
            self._loads, self._counting = 0, None
            self._timer.setInterval(BUSY_MS)

    def send(self, command: Command) -> None:
        """Sends a command. From now on events of the previous answer, comparison, benchmark or count are dropped."""
        self._engine.send(command)
        match command:
            case Load():
                self._loads += 1
            case CountPrompt(number):
                self._counting = number
            case Submit(number):
                self._run = number
                self._open[number] = RunFailed
            case Compare(numbers):
                self._compared = numbers
                self._open |= dict.fromkeys(numbers, RunFailed)
            case Perform(number, request):
                self._open[number] = TaskFailed
                if isinstance(request, SampleRequest):
                    self._compared = (number,)
                elif isinstance(request, BenchRequest):
                    self._benched = number
            case _:
                return
        self._timer.setInterval(BUSY_MS)

    def stop_comparison(self) -> None:
        """Stops every answer of the comparison, or the sampling."""
        for number in self._compared:
            self.stop(number)

    def stop_bench(self) -> None:
        """Stops the benchmark; results measured so far are kept."""
        if self._benched is not None:
            self.stop(self._benched)

    def stop_answer(self) -> None:
        """Asks the current run to end, whose last events still arrive; see `forget` for dropping them."""
        if self._run is not None:
            self.stop(self._run)

    def forget(self) -> None:
        """Stops the current run and drops its later events."""
        self.stop_answer()
        self._run = None
        self._held.clear()

    def close(self, timeout: float = 5.0) -> bool:
        """Stops and joins the engine and stops the timer. Returns False if the engine did not end in time."""
        self.forget()
        self._timer.stop()
        return self._engine.close(timeout)

    @Slot()
    def _drain(self) -> None:
        self._dispatch(self._engine.events(budget=BUDGET_SECONDS))
        if self._abandoned and isinstance(self._engine, LazyEngine) and not self._engine.is_replacing:
            # Requests still open get a failure event: the replaced engine hangs.
            left, self._abandoned = self._abandoned, {}
            self._dispatch([kind(number, CUT_OFF) for number, kind in left.items() if number in self._open])

    def _dispatch(self, events: Sequence[Event]) -> None:
        if not events:
            return
        current: list[Event] = []
        compared, benched = [], []
        for event in events:
            if isinstance(event, PromptCounted):
                self._take_counted(event)
                continue
            if isinstance(event, DrafterChecked):
                self.checked.emit(event)
                continue
            self._close_request(event)
            run = number_of(event)
            if run in self._compared:
                compared.append(event)
            elif run is not None and run == self._benched:
                benched.append(event)
            elif run is not None and run == self._run and self._holds:
                self._held.append(event)
            elif run is None or run == self._run:
                current.append(event)
        current += self._up_to_round()
        self._timer.setInterval(BUSY_MS if self.busy or self._counting is not None else IDLE_MS)
        for signal, batch in ((self.received, current), (self.compared, compared), (self.benched, benched)):
            if batch:
                signal.emit(batch)
        if self._held:
            self.held.emit()

    def _take_counted(self, event: PromptCounted) -> None:
        if event.count_id == self._counting:
            self._counting = None
            self.counted.emit(event)

    def _close_request(self, event: Event) -> None:
        match event:
            case RunFinished(number) | RunFailed(number) | SamplingFinished(number) | BenchFinished(number) | TaskFailed(number):
                self._open.pop(number, None)
            case LoadFailed() | DrafterReady() | DrafterRefused():
                self._loads = max(0, self._loads - 1)
