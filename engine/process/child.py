"""What runs in the process of an engine: it takes requests, sends events, and ends when whoever started it is gone.

Standard input is the lifeline. It stays open for as long as whoever started the process lives; at its end the process ends, too,
even if the engine's thread hangs in native code. Should that code keep Python's lock, so that no thread of Python's can run, a
timer of `faulthandler`, which needs no lock, ends the process and says where every thread stood.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import json
import os
import select
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from multiprocessing.connection import Connection, Listener
from typing import Any

from engine.errors import DraftlightError
from engine.files.logs import log_to_file
from engine.interface import EngineLike
from engine.process.wire import packed, unpacked

BEAT = 0.5
"""Seconds of silence after which the process says that it is alive."""
LOCKED = 300
"""Seconds for which nothing of Python's may run. Native code that computes for longer gives the lock back, or hangs."""
GRACE = 2.0
"""Seconds that an answer gets to write the end of its trace when whoever asked for it is gone."""
ASKED = (
    *("load", "check_drafter", "ignore_memory", "count_prompt", "submit", "compare", "sample"),
    *("prove", "bench", "train", "update", "stop"),
)
CLOSE = "close"
MOST_EVENTS = 256
"""In one message."""


def local_engine(ids: Iterator[int], measures: bool = False) -> EngineLike:
    """The engine of one machine."""
    from engine.worker import Engine

    return Engine(measures=measures, ids=ids)


def main() -> None:
    """Serves one client, as standard input says, and ends with it."""
    line = sys.stdin.buffer.readline()
    if not line:
        return
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log_to_file()
    hello = json.loads(line)
    threading.Thread(target=_watch_lifeline, name="draftlight-lifeline", daemon=True).start()
    listener = Listener(hello["address"], "AF_UNIX", authkey=bytes.fromhex(hello["key"]))
    os.write(1, b".")
    os.dup2(2, 1)  # what libraries print is no answer to anybody
    connection = listener.accept()
    with contextlib.suppress(FileNotFoundError):  # the client removes its folder
        listener.close()
    ids: deque[int] = deque()
    module, _, function = hello["engine"].partition(":")
    engine = getattr(importlib.import_module(module), function)(iter(ids.popleft, None), **hello["arguments"])
    _Service(connection, engine, ids).serve()


class _Service:
    """One client's requests to an engine. `ids`: where the engine finds the numbers that the client has given."""

    def __init__(self, connection: Connection, engine: EngineLike, ids: deque[int]) -> None:
        self._connection = connection
        self._engine = engine
        self._ids = ids
        self._sending = threading.Lock()

    def serve(self) -> None:
        """Until the client closes the engine or is gone; then the process has ended."""
        threading.Thread(target=self._report, name="draftlight-sender", daemon=True).start()
        while (asked := self._next()) is not None:
            name, ids, arguments, named = asked
            if name == CLOSE:
                while not self._engine.close(BEAT):
                    pass
                while self._engine.wait(0):
                    self._send()
                with self._sending:  # what the other thread has taken it has sent by now
                    os._exit(0)
            if name not in ASKED:
                raise DraftlightError(f"An engine cannot be asked to {name}.")
            self._ids.extend(ids)
            getattr(self._engine, name)(*arguments, **named)
        self._engine.close(GRACE)
        _end()

    def _next(self) -> Any:
        try:
            return unpacked(self._connection.recv_bytes())
        except (EOFError, OSError):
            return None

    def _report(self) -> None:
        """Sends events as they come, and now and then a sign of life."""
        with contextlib.suppress(OSError):  # nobody reads any longer; the lifeline ends the rest
            while True:
                self._engine.wait(BEAT)
                self._send()

    def _send(self) -> None:
        """Sends the events there are, perhaps none."""
        with self._sending:
            self._connection.send_bytes(packed(self._engine.events(MOST_EVENTS)))


def _watch_lifeline() -> None:
    over: list[int] = []
    while not over:
        faulthandler.dump_traceback_later(LOCKED, exit=True)
        over = select.select([0], [], [], 1.0)[0]
    time.sleep(GRACE)
    _end()


def _end() -> None:
    """The end of the process and of all that it has started, when nobody else ends them."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)
