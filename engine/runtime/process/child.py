"""What runs in the process of an engine: it takes commands, sends events, and ends when whoever started it is gone.

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
from multiprocessing.connection import Connection, Listener
from typing import Any

from engine.files.logs import log_to_file
from engine.runtime.interface import EngineLike
from engine.runtime.process.wire import packed, unpacked
from engine.values.errors import DraftlightError
from engine.values.requests.commands import Close, Command

BEAT = 0.5
"""Seconds of silence after which the process says that it is alive."""
LOCKED = 300
"""Seconds for which nothing of Python's may run. Native code that computes for longer gives the lock back, or hangs."""
GRACE = 2.0
"""Seconds that an answer gets to write the end of its trace when whoever asked for it is gone."""
MOST_EVENTS = 256
"""In one message."""


def local_engine(measures: bool = False) -> EngineLike:
    """The engine of one machine."""
    from engine.runtime.worker import Engine

    return Engine(measures=measures)


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
    module, _, function = hello["engine"].partition(":")
    engine = getattr(importlib.import_module(module), function)(**hello["arguments"])
    _Service(connection, engine).serve()


class _Service:
    """One client's commands to an engine."""

    def __init__(self, connection: Connection, engine: EngineLike) -> None:
        self._connection = connection
        self._engine = engine
        self._sending = threading.Lock()

    def serve(self) -> None:
        """Until the client closes the engine or is gone; then the process has ended."""
        threading.Thread(target=self._report, name="draftlight-sender", daemon=True).start()
        while (command := self._next()) is not None:
            if isinstance(command, Close):
                while not self._engine.close(BEAT):
                    pass
                while self._engine.wait(0):
                    self._send()
                with self._sending:  # what the other thread has taken it has sent by now
                    os._exit(0)
            if not isinstance(command, Command):
                raise DraftlightError(f"An engine cannot be sent {type(command).__name__}.")
            self._engine.send(command)
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
