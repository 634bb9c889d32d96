"""Work that nothing waits for, beside the engine thread: what is shown of a round while the next one runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from types import TracebackType
from typing import Self


class Beside:
    """One thread that does one task after another, never more than one behind.

    Numpy computes without the interpreter's lock, so tasks made of its operations run while MLX computes or Python goes on.
    Nothing may be asked of MLX here. Use it as a context, which waits for what is under way. Like the engine thread it keeps no
    process from ending, which a pool of `concurrent.futures` does.
    """

    def __init__(self) -> None:
        self._tasks: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._is_free = threading.Event()
        self._is_free.set()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._work, name="draftlight-beside", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._tasks.put(None)
        self._thread.join()

    def put(self, task: Callable[[], object]) -> None:
        """Begins the task, once the one before is done. Raises what that one raised; then nothing is begun."""
        self.wait()
        self._is_free.clear()
        self._tasks.put(task)

    def wait(self) -> None:
        """Until nothing is under way. Raises what the last task raised, once."""
        self._is_free.wait()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except Exception as error:  # whoever waits is told
                self._error = error
            del task  # with the arrays that it holds
            self._is_free.set()
