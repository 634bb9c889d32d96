"""A fake engine that answers comparisons by playing recorded rounds, one of each column in turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from engine.types import (
    Event,
    Expected,
    Request,
    Round,
    RoundFinished,
    RunFailed,
    RunFinished,
    RunStarted,
    SampleTaken,
    SamplingFinished,
)
from engine.values.requests.commands import Command, Compare, Perform, Stop
from engine.values.requests.compare import CompareRequest, Sample, SampleRequest
from tests.app.fakes import FakeEngine, make_round, story_rounds


class TurnsEngine(FakeEngine):
    """Plays `scripts`, one for each column, in turns; a column without a script of its own plays the first.

    Attributes:
        failing: columns that fail instead. comparisons, samplings: what was asked for.
    """

    def __init__(self, scripts: Sequence[Sequence[Round]] = (), rounds: Iterable[Round] | None = None) -> None:
        super().__init__(rounds)
        self.scripts = [list(script) for script in scripts] or [story_rounds()]
        self.failing: set[int] = set()
        self.comparisons: list[CompareRequest] = []
        self.samplings: list[SampleRequest] = []
        self.pause_samples: int | None = None
        self._turns: dict[int, tuple[int, list[Round]]] = {}
        self._samples: tuple[int, list[Sample]] | None = None

    def send(self, command: Command) -> None:
        super().send(command)
        match command:
            case Compare(numbers, request):
                self._compare(numbers, request)
            case Perform(number, SampleRequest() as request):
                self._sample(number, request)
            case Stop(number) if number in self._turns:
                self._end(number, "cancelled")
            case Stop(number) if self._samples is not None and self._samples[0] == number:
                self.say(SamplingFinished(number, complete=False))
                self._samples = None

    def _compare(self, runs: tuple[int, ...], request: CompareRequest) -> None:
        self.comparisons.append(request)
        self.runs.extend(runs)
        for column, (run, asked) in enumerate(zip(runs, request.requests, strict=True)):
            if column in self.failing:
                self.say(RunFailed(run, "This drafter does not fit. Choose another."))
                continue
            self.say(RunStarted(run, asked.options, 40, asked.drafter, f"/traces/{run}.jsonl"))
            self._turns[run] = (0, self._script(column, asked))

    def _script(self, column: int, asked: Request) -> list[Round]:
        rounds = self.scripts[column if column < len(self.scripts) else 0]
        return [replace(round_, rule=asked.options.rule, drafter=asked.drafter) for round_ in rounds]

    def _sample(self, number: int, request: SampleRequest) -> None:
        self.samplings.append(request)
        self.tasks.append(number)
        samples = []
        for index in range(request.samples):
            for column, asked in enumerate(request.requests):
                accepted = asked.options.rule != "match" or index % 3 == 0
                made = make_round(0, ["7"] if accepted else [], ".", [] if accepted else ["3"])
                made = replace(made, expected=(Expected(1 / 3, 1.0, 1.0),) * len(made.expected))
                samples.append(Sample(column, index, index, f"{index % 10 + 1}.", "length", (made,)))
        self._samples = (number, samples)

    def _end(self, run: int, finish: Any) -> None:
        index, rounds = self._turns.pop(run)
        done = rounds[:index]
        text = "".join(round_.text for round_ in done)
        seconds = (done[-1].started + done[-1].milliseconds.total) / 1000 if done else 0.0
        tokens = sum(len(round_.emitted) for round_ in done)
        self.say(RunFinished(run, finish, text, tokens, seconds, 0.1, 0.2, f"/traces/{run}.jsonl"))

    def hurry(self) -> None:
        super().hurry()
        self._hurries |= bool(self._turns)

    def _take_turns(self, said: list[Event]) -> bool:
        """One round of each column; whether there was any."""
        running = {run: turn for run, turn in self._turns.items() if self.pause_after is None or turn[0] < self.pause_after}
        for run, (index, rounds) in running.items():
            said.append(RoundFinished(run, rounds[index]))
            self._turns[run] = (index + 1, rounds)
            if index + 1 == len(rounds):
                self._end(run, rounds[index].finish or "eos")
        return bool(running)

    def events(self, limit: int | None = None, budget: float | None = None) -> list[Event]:
        said = super().events(limit, budget)
        if self.hold:
            return said
        while self._take_turns(said) and self._hurries:
            pass
        self._hurries = False
        if self._samples is not None:
            task, samples = self._samples
            few = samples[:50] if self.pause_samples is None else samples[: self.pause_samples]
            if self.pause_samples is not None:
                self.pause_samples = 0
            self._samples = (task, samples[len(few) :])
            said += [SampleTaken(task, sample) for sample in few]
            if not self._samples[1]:
                said.append(SamplingFinished(task, complete=True))
                self._samples = None
        return said
