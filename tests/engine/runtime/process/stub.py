"""A fake engine for a process of its own, which starts fast: it emits a round for each letter of the prompt."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable

from engine.runtime.interface import EngineLike
from engine.runtime.process import child
from engine.types import (
    DecodingOptions,
    DrafterReady,
    Emitted,
    LoadFinished,
    LoadStarted,
    Milliseconds,
    ModelInfo,
    PromptCounted,
    Request,
    Round,
    RoundFinished,
    RunFailed,
    RunFinished,
    RunStarted,
)
from engine.values.requests.commands import Command, Compare, CountPrompt, IgnoreMemory, Load, Stop, Submit

LOCKED_SECONDS = 2.0
MODEL = ModelInfo("stub", "stub", "0" * 64, 100, 128)


def one_round(index: int, letter: str) -> Round:
    token = Emitted(ord(letter), letter, letter.encode(), "plain")
    return Round(index, index, "none", "gumbel", (), (token,), (), Milliseconds(1.0), 1, index, text=letter)


class StubEngine(EngineLike):
    """Each prompt is a list of words. A word is a deed (`die`, `hang`, `wait`), any other one is answered letter by letter."""

    def __init__(self) -> None:
        super().__init__()
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []

    def send(self, command: Command) -> None:
        match command:
            case Load(target, drafter):
                self.put(LoadStarted(target), LoadFinished(MODEL, 0.0), DrafterReady(drafter, True))
            case IgnoreMemory(names):
                self.put(LoadStarted(f"anyway {names}"))
            case CountPrompt(number, request):
                self.put(PromptCounted(number, len(request.messages[-1].content), 100))
            case Submit(number, request):
                self._begin(number, request)
            case Compare(numbers, comparison):
                for number, request in zip(numbers, comparison.requests, strict=True):
                    self._begin(number, request)
            case Stop():
                self._stopped.set()
            case _:
                """Nothing is said, and a task never ends."""

    def _begin(self, number: int, request: Request) -> None:
        self._stopped.clear()
        thread = threading.Thread(target=self._answer, args=(number, request.messages[-1].content), daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self, timeout: float = 5.0) -> bool:
        self._stopped.set()
        for thread in self._threads:
            thread.join(timeout)
        return not any(thread.is_alive() for thread in self._threads)

    def _answer(self, number: int, prompt: str) -> None:
        self.put(RunStarted(number, DecodingOptions(seed=1), 1, "none", None))
        index = 0
        for word in prompt.split():
            if word == "fail":
                self.put(RunFailed(number, "A connection was lost."))
                return
            if word in DEEDS:
                DEEDS[word](self._stopped)
                continue
            for letter in word:
                self.put(RoundFinished(number, one_round(index, letter), time.perf_counter()))
                index += 1
                if word == "paced":
                    time.sleep(0.002)
        finish = "cancelled" if self._stopped.is_set() else "eos"
        self.put(RunFinished(number, finish, "", index, 0.1, 0.0, 0.1, None))


def _endless(stopped: threading.Event) -> None:
    """What no stop reaches, as native code that has given Python's lock back."""
    threading.Event().wait()


def _locked(stopped: threading.Event) -> None:
    """Native code that keeps Python's lock: nothing of Python's runs meanwhile.

    It begins when it is told to stop, so that what was said before has arrived.
    """
    stopped.wait()
    faulthandler.dump_traceback_later(LOCKED_SECONDS, exit=True)  # in place of `engine.runtime.process.child.LOCKED`
    ctypes.PyDLL(None).pause()


def _overflow() -> None:
    """The end of a process where the GPU has no memory for a pass, as MLX's users report it."""
    reason = "[METAL] Command buffer execution failed: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)"
    os.write(2, f"libc++abi: terminating due to uncaught exception of type std::runtime_error: {reason}\n".encode())
    os.abort()


DEEDS: dict[str, Callable[[threading.Event], object]] = {
    "kill": lambda stopped: os.kill(os.getpid(), signal.SIGKILL),
    "crash": lambda stopped: os.kill(os.getpid(), signal.SIGSEGV),
    "overflow": lambda stopped: _overflow(),
    "exit": lambda stopped: os._exit(3),
    "wait": lambda stopped: stopped.wait(),
    "pause": lambda stopped: time.sleep(0.01),
    "endless": _endless,
    "locked": _locked,
}


def engine(hurry: bool = False) -> StubEngine:
    """`hurry`: its process ends at once when whoever started it is gone."""
    global LOCKED_SECONDS
    if hurry:
        child.GRACE, LOCKED_SECONDS = 0.1, 0.3  # type: ignore[misc]
    return StubEngine()
