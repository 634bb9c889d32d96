"""Decides what a finding is: any exception but the allowed ones, more than `SECONDS` of CPU time or `MEGABYTES` of memory."""

from __future__ import annotations

import contextlib
import resource
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from engine.values.errors import DraftlightError

SECONDS = 1.0
"""CPU time that one input may take; a busy machine does not make it longer."""
MEGABYTES = 256
"""By how much one input may raise the most memory that the process has had so far."""
_UNIT = 1 if sys.platform == "darwin" else 1024
_REPOSITORY = Path(__file__).parents[2].as_posix()


def finding(check: Callable[[bytes], None], data: bytes) -> str | None:
    """What is wrong with how an input is read, in a line that is the same for the same fault; None if nothing is."""
    before, begun = _most_memory(), time.perf_counter()
    try:
        check(data)
    except DraftlightError as error:
        if not str(error).strip():
            return "an empty message"
        try:
            str(error).encode()
        except UnicodeEncodeError:
            return "a message that cannot be shown"
    except Exception as error:
        return f"{type(error).__name__} at {_place(error)}"
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of Rust, derived from BaseException
            raise
        return f"PanicException at {_place(error)}"
    if time.perf_counter() - begun > SECONDS and _is_slow(check, data):
        return "slow"
    return "memory" if (_most_memory() - before) / 2**20 > MEGABYTES else None


def _is_slow(check: Callable[[bytes], None], data: bytes) -> bool:
    """Whether it takes that much CPU time once more, whose clock is too dear to be asked at every input."""
    begun = time.thread_time()
    with contextlib.suppress(DraftlightError):
        check(data)
    return time.thread_time() - begun > SECONDS


def _most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT


def _place(error: BaseException) -> str:
    """The innermost line of this project's own code."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith((f"{_REPOSITORY}/engine", f"{_REPOSITORY}/app"))]
    last = (own or frames)[-1]
    return f"{Path(last.filename).name}:{last.name}"
