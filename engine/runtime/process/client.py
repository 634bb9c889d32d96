"""Runs an engine in another process, with the same requests and events as in this one.

The process starts with the first request, and again with the first one after its death. Everything pending at its death gets a
failure event with a sentence that says what happened. The process counts as dead when its channel ends. It is killed when it
sends no heartbeat for too long, when nothing follows a stop, or when one of its companions fails.
"""

from __future__ import annotations

import atexit
import logging
import queue
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from engine.files.logs import LESS_MEMORY, explain, lacks_memory, log_path
from engine.machine.macos import Activity
from engine.runtime.interface import EngineLike
from engine.runtime.process.launch import Child, Companions, Launch
from engine.runtime.process.wire import packed, unpacked
from engine.types import (
    DrafterReady,
    DrafterRefused,
    EngineFailed,
    Event,
    LoadFailed,
    ModelsUnloaded,
    PromptCounted,
    RunFailed,
    RunFinished,
    RunStarted,
    TaskEnd,
    TaskFailed,
)
from engine.values.errors import DraftlightError
from engine.values.requests.commands import (
    CheckDrafter,
    Close,
    Command,
    Compare,
    CountPrompt,
    IgnoreMemory,
    Load,
    Perform,
    Stop,
    Submit,
    Update,
)


@dataclass(slots=True)
class PendingRequests:
    """Requests that are still unanswered. Not thread-safe.

    Attributes:
        runs, tasks: ids whose end event is pending.
        counts: ids of pending prompt counts.
        loads: requested (target, drafter) pairs that are not ready, in order.
        begun: ids of runs that have started. stopping: those of them that were stopped.
    """

    runs: set[int] = field(default_factory=set)
    tasks: set[int] = field(default_factory=set)
    counts: set[int] = field(default_factory=set)
    loads: list[tuple[str, str]] = field(default_factory=list)
    begun: set[int] = field(default_factory=set)
    stopping: set[int] = field(default_factory=set)

    @property
    def is_running(self) -> bool:
        """Whether an answer, a task or a load is in progress."""
        return bool(self.runs or self.tasks or self.loads)

    def add(self, command: Command) -> None:
        """Records the end that a command must get."""
        match command:
            case Load(target, drafter):
                self.loads.append((target, drafter))
            case Submit(run_id):
                self.runs.add(run_id)
            case Compare(run_ids):
                self.runs.update(run_ids)
            case Perform(task_id):
                self.tasks.add(task_id)
            case CountPrompt(count_id):
                self.counts.add(count_id)
            case Stop(number) if number in self.begun:
                self.stopping.add(number)

    def remove_answered(self, event: Event) -> None:
        """Removes what an event answers."""
        match event:
            case RunStarted(run_id):
                self.begun.add(run_id)
            case RunFinished(run_id) | RunFailed(run_id):
                for ids in (self.runs, self.begun, self.stopping):
                    ids.discard(run_id)
            case PromptCounted(count_id):  # only the newest pending count is carried out
                self.counts = {count for count in self.counts if count > count_id}
            case LoadFailed(name):
                self._remove_load(0, name)
            case DrafterReady(name) | DrafterRefused(name):
                self._remove_load(1, name)
            case _ if isinstance(event, TaskEnd):
                self.tasks.discard(event.task_id)
            case _:
                pass

    def _remove_load(self, part: int, name: str) -> None:
        """Removes the oldest load if the event names its model: running answers report their models as well."""
        if self.loads and self.loads[0][part] == name:
            del self.loads[0]

    def failures(self, message: str) -> list[Event]:
        """Returns the failure events of everything pending."""
        ends: list[Event] = [LoadFailed(target, message) for target, _ in self.loads]
        ends += [RunFailed(run_id, message) for run_id in sorted(self.runs)]
        ends += [TaskFailed(task_id, message) for task_id in sorted(self.tasks)]
        ends += [PromptCounted(count_id, None, None) for count_id in sorted(self.counts)]
        return ends


POLL_INTERVAL = 0.25
"""Seconds between two checks whether the process lives."""
SILENCE = 60.0
"""Seconds without a heartbeat (sent twice a second) after which a process that does not compute counts as hanging. Native code
that holds Python's lock delays heartbeats: by 2 s for reading a tokenizer of 250,000 tokens, by 14 s for encoding 4 MB of text.
A process that computes may stay silent until the timer of `engine.runtime.process.child` ends it."""
IDLE_SHARE = 0.05
"""Share of a CPU core below which a silent process counts as not computing."""
STOP_TIMEOUT = 60.0
"""Seconds without any event after a stop until the process is killed: native code that released Python's lock hangs."""
UNREACHABLE = "The process that runs models could no longer be reached, so it was ended."
RESTART_NOTE = " The next message starts it again."
"""Appended to the message about a death, where the user can send a message."""
_log = logging.getLogger(__name__)


class ProcessEngine(EngineLike):
    """An engine in a process of its own; `engine.values.requests.commands` lists its commands.

    Args:
        launch: how to start the process.
        after: set once there is memory for models; no process is started before. None if there is no need to wait.
        restart_note: appended to the message about a death.
    """

    def __init__(self, launch: Launch | None = None, *, after: threading.Event | None = None, restart_note: str = "") -> None:
        super().__init__()
        self._again = restart_note
        self._launch = Launch() if launch is None else launch
        self._after = after
        self._lock = threading.Lock()
        self._pending = PendingRequests()
        # The engine's process keeps the machine awake for long tasks; this process must only pass on events in time.
        self._activity = Activity("Waiting for a language model", lets_sleep=True)
        self._forced: dict[IgnoreMemory, None] = {}  # a set that keeps its order
        self._loaded: Load | None = None  # the last one requested
        self._life: _Life | None = None
        self._closing = False
        atexit.register(self.close)

    @property
    def process_id(self) -> int | None:
        """Process id; None while there is no process."""
        life = self._life
        return None if life is None else life.process_id

    def send(self, command: Command) -> None:
        """As in `EngineLike`. The process is killed if it sends no event for `STOP_TIMEOUT` seconds after a running answer was
        stopped."""
        with self._lock:
            life, pending = self._life, self._pending
            match command:
                case IgnoreMemory():
                    self._forced[command] = None
                    if life is None:  # each process gets it when it starts
                        return
                case CountPrompt(number) if life is None:
                    self.put(PromptCounted(number, None, None))  # no target is loaded
                    return
                case CheckDrafter() if life is None and self._loaded is not None:
                    self._send_to_process(self._loaded)
                case Load():
                    self._loaded = command
                case Update(number) if number not in pending.runs:
                    return
                case Stop(number) if life is None or self._closing or number not in pending.runs | pending.tasks:
                    return
            self._send_to_process(command)
            pending.add(command)
            if isinstance(command, Stop) and life is not None and command.number in pending.stopping:
                life.silence_after_stop = 0.0
            self._activity.set_running(pending.is_running)

    def close(self, timeout: float = 5.0) -> bool:
        """As in `EngineLike`. A process that has not ended by then is killed, so the result is always True."""
        with self._lock:
            life = self._life
            if life is not None and not self._closing:
                self._send_to_process(Close())
            self._closing = True
        if life is not None:
            life.join(timeout)
        atexit.unregister(self.close)
        return True

    def _send_to_process(self, command: Command | Close) -> None:
        """Sends a command to the process; starts one if there is none. The caller holds the lock."""
        if self._closing:
            raise DraftlightError("The engine is closed.")
        if self._life is None:
            self._life = _Life(self._launch, self._take, self._ended, self._after, self._again)
            for forced in self._forced:
                self._life.send(packed(forced))
        self._life.send(packed(command))

    # The following methods run on a thread of `_Life`.

    def _take(self, events: list[Event]) -> None:
        """Passes events on, and restarts the time without events if a stop is pending."""
        with self._lock:
            for event in events:
                self._pending.remove_answered(event)
            self._activity.set_running(self._pending.is_running)
            if self._life is not None:
                self._life.silence_after_stop = 0.0 if self._pending.stopping else None
        self.put(*events)

    def _ended(self, message: str) -> None:
        """Emits the end of everything pending after the process has ended."""
        with self._lock:
            self._life = None
            closing = self._closing
            if closing:  # as on a thread: nothing waits for abandoned loads and counts
                self._pending.loads.clear()
                self._pending.counts.clear()
            ends, self._pending = self._pending.failures(message), PendingRequests()
            self._activity.set_running(False)
        if not closing:
            ends = [ModelsUnloaded(), *(ends or [EngineFailed(message)])]
        self.put(*ends)


class _Life:
    """One process from start to end, on three threads: one starts it and reads, one writes, one watches.

    Args:
        take: called with new events.
        ended: called once, after the last event, with a message about the end.
        after: event to wait for before the start.
        restart_note: appended to the message, unless the process was never started.

    Attributes:
        silence_after_stop: seconds without an event since a pending stop; None if no stop is pending.
    """

    def __init__(
        self,
        launch: Launch,
        take: Callable[[list[Event]], None],
        ended: Callable[[str], None],
        after: threading.Event | None,
        restart_note: str,
    ) -> None:
        self._after, self._again = after, restart_note
        self._launch = launch
        self._take = take
        self._ended = ended
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._companions: Companions | None = None
        self._child: Child | None = None
        self._reason = ""  # reason for killing it
        self._messages_received = 0  # number of messages received
        self.silence_after_stop: float | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._live, name="draftlight-process", daemon=True)
        self._thread.start()

    @property
    def process_id(self) -> int | None:
        """Process id; None before the start."""
        child = self._child
        return None if child is None else child.process.pid

    def send(self, message: bytes) -> None:
        """Queues a message; never waits."""
        self._outbox.put(message)

    def join(self, timeout: float) -> None:
        """Waits at most `timeout` seconds for the end, then kills the process. One that still waits to start is never
        started."""
        if self._after is not None and not self._after.is_set():
            self._kill("The engine was closed before it had begun.")
        self._thread.join(timeout)
        if self._thread.is_alive():
            self._kill("It did not end when it was told to.")
            self._thread.join()

    def _kill(self, reason: str) -> None:
        self._reason = self._reason or reason
        if self._child is not None:
            self._child.kill()
        if self._companions is not None:
            self._companions.stop()

    def _live(self) -> None:
        watcher = threading.Thread(target=self._watch, name="draftlight-watcher", daemon=True)
        writer = None
        message = ""
        try:
            environment: Mapping[str, str] = {}
            while not (self._after is None or self._after.wait(POLL_INTERVAL) or self._reason):
                pass
            if self._reason:
                raise DraftlightError(self._reason)
            if self._launch.companions is not None:
                self._companions = self._launch.companions()
                environment = self._companions.start()
            self._child = Child(self._launch, environment)
            if self._reason:  # killed before it was started
                raise DraftlightError(self._reason)
            watcher.start()
            with self._child.connect() as connection:
                writer = threading.Thread(target=self._write, args=(connection,), name="draftlight-writer", daemon=True)
                writer.start()
                while True:
                    events = unpacked(connection.recv_bytes())
                    self._messages_received += 1
                    if events:
                        self._raise_companion_failure(events)
                        self._take(events)
        except DraftlightError as error:
            message = str(error)
        except (OSError, EOFError):
            pass
        except Exception as error:  # the caller must get an end event
            message = explain(error, "talking to the process that runs models")
        try:
            message = self._reap(message)
            for thread in (watcher, writer):
                if thread is not None and thread.ident is not None:
                    thread.join()
        except Exception as error:
            message = explain(error, "ending the process that runs models")
        finally:  # the caller must get an end event
            self._ended(message)

    def _reap(self, message: str) -> str:
        """Removes everything that is left of the process; returns a message about its end."""
        self._over.set()
        self._outbox.put(None)
        try:
            status, output = (0, "") if self._child is None else self._child.reap()
            if self._companions is not None and status:
                self._reason = self._reason or self._failure()
        finally:
            if self._companions is not None:
                self._companions.stop()
        if self._child is None:
            return message  # never started
        was_cut_off = self._child.was_killed and not self._reason
        message = message or self._reason or (UNREACHABLE if was_cut_off else _end_in_words(status, output))
        if status:
            _log.error("The process of the engine has ended (%s). %s It said: %s", status, message, output.strip() or "nothing")
        return message + self._again

    def _write(self, connection: Connection) -> None:
        with suppress(OSError):  # the process is gone, which the reader notices
            while (message := self._outbox.get()) is not None:
                connection.send_bytes(message)

    def _watch(self) -> None:
        """Kills a process that hangs. Time is counted in polls, so that sleep of the machine or of this process does not
        count."""
        received, silence, processor_time = 0, 0.0, self._processor_seconds()
        while not self._over.wait(POLL_INTERVAL):
            silence = 0.0 if self._messages_received != received else silence + POLL_INTERVAL
            received = self._messages_received
            if self.silence_after_stop is not None:
                self.silence_after_stop += POLL_INTERVAL
            if silence >= SILENCE:
                previous, processor_time, silence = processor_time, self._processor_seconds(), 0.0
                if processor_time - previous < IDLE_SHARE * SILENCE:
                    self._kill(f"The process that runs models hung: nothing was heard of it for {SILENCE:.0f} seconds.")
            elif self.silence_after_stop is not None and self.silence_after_stop >= STOP_TIMEOUT:
                self._kill(f"The process that runs models hung: it did not stop within {STOP_TIMEOUT:.0f} seconds.")
            elif self._companions is not None and (failure := self._companions.failure()):
                self._kill(failure)

    def _processor_seconds(self) -> float:
        return (self._child.processor_seconds() if self._child is not None else None) or 0.0

    def _failure(self) -> str:
        """Returns the failure that the companions report; they may notice it a little later."""
        assert self._companions is not None
        for _ in range(10):
            if failure := self._companions.failure():
                return failure
            time.sleep(0.05)
        return ""

    def _raise_companion_failure(self, events: list[Event]) -> None:
        """Raises DraftlightError if a failure among the events was caused by a companion; everything pending then fails with
        that message. The failure event itself is not passed on: its receiver must not send a request to this process again."""
        for place, event in enumerate(events):
            if isinstance(event, (RunFailed, TaskFailed, LoadFailed)) and self._companions is not None:
                if failure := self._failure():
                    self._take(events[:place])
                    self._kill(failure)
                    raise DraftlightError(failure)
                return


def _end_in_words(status: int, output: str) -> str:
    if status == -signal.SIGABRT and lacks_memory(output):  # MLX aborts if a pass fails while nothing waits for it
        return f"The process that runs models ran out of the GPU's memory. {LESS_MEMORY}"
    if status == -signal.SIGKILL:
        return "The process that runs models was killed, as the system does when memory runs out."
    if status < 0:
        return f"The process that runs models crashed ({signal.strsignal(-status) or -status}). Details are in {log_path()}."
    return f"The process that runs models ended unexpectedly (status {status}). Details are in {log_path()}."
