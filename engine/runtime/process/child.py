"""The process of an engine: it receives commands, sends events, and ends when its parent is gone.

Standard input is the lifeline: it stays open while the parent lives. At its end this process ends too, even if the engine's
thread hangs in native code. If that code holds Python's interpreter lock, no Python thread can run. Then a timer of
`faulthandler`, which needs no lock, ends the process and prints the stack of every thread.
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
"""Heartbeat interval: seconds without an event after which an empty message is sent."""
LOCKED = 300
"""Seconds after which the process ends if no Python code runs. Native code that computes longer releases the lock, or hangs."""
GRACE = 2.0
"""Seconds that an answer has to finish its trace when the client is gone."""
MAX_EVENTS = 256
"""Maximum number of events per message."""


def local_engine(measures: bool = False) -> EngineLike:
    """Returns the engine for one machine."""
    from engine.runtime.worker import Engine

    return Engine(measures=measures)


def main() -> None:
    """Serves the client given on standard input, and ends with it."""
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
    os.dup2(2, 1)  # output printed by libraries must not enter the channel
    connection = listener.accept()
    with contextlib.suppress(FileNotFoundError):  # already removed by the client with its folder
        listener.close()
    module, _, function = hello["engine"].partition(":")
    engine = getattr(importlib.import_module(module), function)(**hello["arguments"])
    _Service(connection, engine).serve()


class _Service:
    """Passes one client's commands to an engine."""

    def __init__(self, connection: Connection, engine: EngineLike) -> None:
        self._connection = connection
        self._engine = engine
        self._sending = threading.Lock()

    def serve(self) -> None:
        """Serves until the client closes the engine or is gone; then ends the process."""
        threading.Thread(target=self._report, name="draftlight-sender", daemon=True).start()
        while (command := self._next()) is not None:
            if isinstance(command, Close):
                while not self._engine.close(BEAT):
                    pass
                while self._engine.wait(0):
                    self._send()
                with self._sending:  # wait for events that the other thread has taken
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
        """Sends events as they come, and heartbeats."""
        with contextlib.suppress(OSError):  # the client is gone; the lifeline ends the process
            while True:
                self._engine.wait(BEAT)
                self._send()

    def _send(self) -> None:
        """Sends all pending events; an empty message is a heartbeat."""
        with self._sending:
            self._connection.send_bytes(packed(self._engine.events(MAX_EVENTS)))


def _watch_lifeline() -> None:
    ready: list[int] = []
    while not ready:
        faulthandler.dump_traceback_later(LOCKED, exit=True)
        ready = select.select([0], [], [], 1.0)[0]
    time.sleep(GRACE)
    _end()


def _end() -> None:
    """Ends the process and everything that it started, if nothing else does."""
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)
