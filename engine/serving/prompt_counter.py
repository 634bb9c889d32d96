"""How long a prompt is, while it is still being written: counted on a thread of its own, so that it waits for no answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.errors import DraftlightError
from engine.files.logs import explain
from engine.serving.prompt import fitted
from engine.types import PromptCounted, Request


@dataclass(frozen=True, slots=True)
class _Reader:
    """What of a target decides how long a prompt is. The target itself stays with the engine's thread."""

    name: str
    context_length: int
    tokenizer: Any


class PromptCounter:
    """Counts prompts as the target would read them. Its thread starts with the first and makes no MLX call.

    Args:
        emit: takes the PromptCounted events, on that thread.
    """

    def __init__(self, emit: Callable[[PromptCounted], None]) -> None:
        self._emit = emit
        self._reader: _Reader | None = None
        self._wake = threading.Condition()
        self._wanted: tuple[int, Request] | None = None
        self._closing = False
        self._thread: threading.Thread | None = None

    def use(self, target: Any) -> None:
        """From now on counts for this target."""
        self._reader = _Reader(target.name, target.context_length, target.tokenizer)

    def count(self, number: int, request: Request) -> None:
        """Counts for the event of this number, in place of whatever waits to be counted. Without effect after `close`."""
        with self._wake:
            if self._closing:
                return
            self._wanted = (number, request)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="draftlight-counter", daemon=True)
                self._thread.start()
            self._wake.notify()

    def close(self) -> None:
        """Has the thread end behind the count under way."""
        with self._wake:
            self._closing = True
            self._wake.notify()

    def ended(self, timeout: float) -> bool:
        """Waits for the thread, at most so many seconds; whether it has ended."""
        if self._thread is not None:
            self._thread.join(timeout)
        return self._thread is None or not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._closing or self._wanted is not None)
                if self._closing or self._wanted is None:
                    return
                (number, request), self._wanted = self._wanted, None
            self._emit(_counted(number, request, self._reader))


def _counted(number: int, request: Request, reader: _Reader | None) -> PromptCounted:
    nothing = PromptCounted(number, None, None)
    if reader is None or not request.messages:
        return nothing
    try:
        prompt = fitted(reader, request)
    except DraftlightError:  # of the template; said when an answer is asked for
        return nothing
    except BaseException as error:  # the thread has to live
        explain(error, "counting tokens")  # into the log
        return nothing
    return PromptCounted(number, len(prompt.ids) + len(request.given), reader.context_length, prompt.dropped)
