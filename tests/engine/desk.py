"""An engine on a thread or in a process, asked for answers, with everything that came out of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from engine.rounds.trace import Trace, read
from engine.runtime.interface import EngineLike
from engine.types import DecodingOptions, Event, Message, Request, Round, RoundFinished, RunFailed, RunFinished, option_names
from engine.values.events import number_of
from tests.engine.fakes import PATIENCE


def request(text: str = "hi", **changes: Any) -> Request:
    """A request for three tokens of seed 1; changes may be of the options or of the request."""
    options = {"seed": 1, "max_tokens": 3, **{name: changes.pop(name) for name in option_names() if name in changes}}
    return Request(changes.pop("messages", (Message("user", text),)), DecodingOptions(**options), **changes)


def trace_of(finished: RunFinished) -> Trace:
    """The trace of an answer, which is whole."""
    assert finished.trace_path is not None
    trace = read(finished.trace_path)
    assert trace.missing is None and trace.summary is not None
    return trace


class Desk:
    """An engine, its events so far, and requests to it. As a context, it closes the engine at the end."""

    def __init__(self, engine: EngineLike) -> None:
        self.engine = engine
        self.seen: list[Event] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        assert self.engine.close(PATIENCE)

    def collect(self, done: Callable[[], object]) -> None:
        """Takes events until something holds."""
        while not done():
            assert self.engine.wait(PATIENCE), f"nothing came any more; seen: {self.seen[-4:]}"
            self.seen += self.engine.events()

    def of(self, kind: type[Any], number: int | None = None) -> list[Any]:
        """The events of a kind, or those of them that belong to an answer or task."""
        return [event for event in self.seen if type(event) is kind and number in (None, number_of(event))]

    def until(self, kind: type[Any], many: int = 1, number: int | None = None) -> list[Any]:
        """Takes events until there are this many of a kind; returns all of that kind."""
        self.collect(lambda: len(self.of(kind, number)) >= many)
        return self.of(kind, number)

    def ends(self, runs: Sequence[int]) -> list[Any]:
        """Waits for the end of every run; returns them in the order of the runs."""
        self.collect(lambda: all(self.of(RunFinished, run) or self.of(RunFailed, run) for run in runs))
        return [(self.of(RunFinished, run) + self.of(RunFailed, run))[0] for run in runs]

    def rounds(self, run: int | None = None) -> list[Round]:
        return [event.round for event in self.of(RoundFinished, run)]

    def text(self, run: int) -> str:
        return "".join(round.text for round in self.rounds(run))

    def ask(self, text: str = "hi", **changes: Any) -> int:
        return self.engine.submit(request(text, **changes))

    def answer(self, text: str = "hi", **changes: Any) -> RunFinished:
        (end,) = self.ends([self.ask(text, **changes)])
        assert isinstance(end, RunFinished), end
        return end

    def failure(self, text: str = "hi", **changes: Any) -> RunFailed:
        (end,) = self.ends([self.ask(text, **changes)])
        assert isinstance(end, RunFailed), end
        return end
