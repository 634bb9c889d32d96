"""The engine as those see it who do not want it in their own process: the same requests, the same events.

A process is started with the first request, and again with the first one after a death. Whatever was open when it died gets a
failed end with a sentence that says what happened. It is seen as dead when its channel ends; it is killed when it has been silent
for too long, when a stop was not followed by anything at all, or when one of its companions has failed.
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
class Owed:
    """What is still to be answered. For one thread at a time.

    Attributes:
        runs, tasks: ids whose end is to come.
        counts: ids of prompts that are being counted.
        loads: (target, drafter) that were asked for and are not ready, in their order.
        begun: those of the runs that have started. stopping: those of them that were told to stop.
    """

    runs: set[int] = field(default_factory=set)
    tasks: set[int] = field(default_factory=set)
    counts: set[int] = field(default_factory=set)
    loads: list[tuple[str, str]] = field(default_factory=list)
    begun: set[int] = field(default_factory=set)
    stopping: set[int] = field(default_factory=set)

    @property
    def is_running(self) -> bool:
        """Whether an answer, a task or a load is under way."""
        return bool(self.runs or self.tasks or self.loads)

    def add(self, command: Command) -> None:
        """Writes down what a command is to be answered by."""
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

    def settle(self, event: Event) -> None:
        """Strikes off what an event answers."""
        match event:
            case RunStarted(run_id):
                self.begun.add(run_id)
            case RunFinished(run_id) | RunFailed(run_id):
                for ids in (self.runs, self.begun, self.stopping):
                    ids.discard(run_id)
            case PromptCounted(count_id):  # of counts that wait only the newest is made: those before it are never heard of
                self.counts = {count for count in self.counts if count > count_id}
            case LoadFailed(name):
                self._settle_load(0, name)
            case DrafterReady(name) | DrafterRefused(name):
                self._settle_load(1, name)
            case _ if isinstance(event, TaskEnd):
                self.tasks.discard(event.task_id)
            case _:
                pass

    def _settle_load(self, part: int, name: str) -> None:
        """Answers tell of their models, too; only the one that was asked for first can be meant."""
        if self.loads and self.loads[0][part] == name:
            del self.loads[0]

    def failures(self, message: str) -> list[Event]:
        """The ends of all that is open, for want of better ones."""
        ends: list[Event] = [LoadFailed(target, message) for target, _ in self.loads]
        ends += [RunFailed(run_id, message) for run_id in sorted(self.runs)]
        ends += [TaskFailed(task_id, message) for task_id in sorted(self.tasks)]
        ends += [PromptCounted(count_id, None, None) for count_id in sorted(self.counts)]
        return ends


LOOK = 0.25
"""Seconds between two looks at whether the process lives."""
SILENCE = 60.0
"""Seconds without a sign of life, which comes twice a second, after which a process that does not compute either counts as
hanging. Native code that keeps Python's lock delays it: reading a tokenizer of 250,000 tokens by 2 s, encoding 4 MB of text by
14 s. If it computes, it has until the timer of `engine.runtime.process.child` ends it."""
IDLE_SHARE = 0.05
"""Of a processor; with less, a silent process does not compute."""
UNHEARD = 60.0
"""Seconds without any event after which a stop counts as unheard: native code hangs that has given Python's lock back."""
CUT_OFF = "The process that runs models could no longer be reached, so it was ended."
AGAIN = " The next message starts it again."
"""What is said of a death to those who can send one."""
_log = logging.getLogger(__name__)


class ProcessEngine(EngineLike):
    """An engine in a process of its own; everything that it can be sent is in `engine.values.requests.commands`.

    Args:
        launch: how the process is started.
        after: set once there is memory for models; no process is started before. None where there is already.
        again: what is added to the sentence about a death.
    """

    def __init__(
        self,
        launch: Launch | None = None,
        *,
        after: threading.Event | None = None,
        again: str = "",
    ) -> None:
        super().__init__()
        self._again = again
        self._launch = Launch() if launch is None else launch
        self._after = after
        self._lock = threading.Lock()
        self._owed = Owed()
        # The process of the engine keeps the machine awake for long tasks; here the events have to be passed on in time.
        self._activity = Activity("Waiting for a language model", lets_sleep=True)
        self._forced: dict[IgnoreMemory, None] = {}  # a set that keeps their order
        self._loaded: Load | None = None  # what was asked for last
        self._life: _Life | None = None
        self._closing = False
        atexit.register(self.close)

    @property
    def process_id(self) -> int | None:
        """The number of the process; None while there is none."""
        life = self._life
        return None if life is None else life.process_id

    def send(self, command: Command) -> None:
        """As in `EngineLike`. If nothing at all is heard for `UNHEARD` seconds after an answer was stopped, the process is
        killed."""
        with self._lock:
            life, owed = self._life, self._owed
            match command:
                case IgnoreMemory():
                    self._forced[command] = None
                    if life is None:  # it is said to each process as it starts
                        return
                case CountPrompt(number) if life is None:
                    self._events.put(PromptCounted(number, None, None))  # no target is loaded
                    return
                case CheckDrafter() if life is None and self._loaded is not None:
                    self._tell(self._loaded)
                case Load():
                    self._loaded = command
                case Update(number) if number not in owed.runs:
                    return
                case Stop(number) if life is None or self._closing or number not in owed.runs | owed.tasks:
                    return
            self._tell(command)
            owed.add(command)
            if isinstance(command, Stop) and life is not None and command.number in owed.stopping:
                life.unheard = 0.0
            self._activity.set_running(owed.is_running)

    def close(self, timeout: float = 5.0) -> bool:
        """As in `EngineLike`. A process that has not ended by then is killed, so it always has."""
        with self._lock:
            life = self._life
            if life is not None and not self._closing:
                self._tell(Close())
            self._closing = True
        if life is not None:
            life.join(timeout)
        atexit.unregister(self.close)
        return True

    def _tell(self, command: Command | Close) -> None:
        """Sends a command to the process; starts one if there is none. Whoever calls this holds the lock."""
        if self._closing:
            raise DraftlightError("The engine is closed.")
        if self._life is None:
            self._life = _Life(self._launch, self._take, self._ended, self._after, self._again)
            for forced in self._forced:
                self._life.send(packed(forced))
        self._life.send(packed(command))

    # What follows runs on a thread of the process's life.

    def _take(self, events: list[Event]) -> None:
        """Hands events on. As long as a stop is still to be followed, the time without any is counted."""
        with self._lock:
            for event in events:
                self._owed.settle(event)
            self._activity.set_running(self._owed.is_running)
            if self._life is not None:
                self._life.unheard = 0.0 if self._owed.stopping else None
        self._events.put(*events)

    def _ended(self, message: str) -> None:
        """The process is gone. Nothing that was asked of it is left open."""
        with self._lock:
            self._life = None
            closing = self._closing
            if closing:  # as on a thread: nobody waits for a load or a count that was given up
                self._owed.loads.clear()
                self._owed.counts.clear()
            ends, self._owed = self._owed.failures(message), Owed()
            self._activity.set_running(False)
        if not closing:
            ends = [ModelsUnloaded(), *(ends or [EngineFailed(message)])]
        self._events.put(*ends)


class _Life:
    """One process, from its start to its end, on three threads: one starts it and reads, one writes, one watches.

    Args:
        take: gets the events, as they come.
        ended: gets a sentence about the end, once, after the last event.
        after: waited for before it is started.
        again: what is added to the sentence, unless it never was started.

    Attributes:
        unheard: seconds without an event since a stop that is to be followed; None where there is none.
    """

    def __init__(
        self,
        launch: Launch,
        take: Callable[[list[Event]], None],
        ended: Callable[[str], None],
        after: threading.Event | None,
        again: str,
    ) -> None:
        self._after, self._again = after, again
        self._launch = launch
        self._take = take
        self._ended = ended
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._companions: Companions | None = None
        self._child: Child | None = None
        self._reason = ""  # why it was killed
        self._signs = 0  # of life
        self.unheard: float | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._live, name="draftlight-process", daemon=True)
        self._thread.start()

    @property
    def process_id(self) -> int | None:
        """None before it is started."""
        child = self._child
        return None if child is None else child.process.pid

    def send(self, message: bytes) -> None:
        """Sends it when the process can take it; never waits."""
        self._outbox.put(message)

    def join(self, timeout: float) -> None:
        """Waits for the end, at most so many seconds, then kills the process. One that is not to begin yet never does."""
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
            while not (self._after is None or self._after.wait(LOOK) or self._reason):
                pass
            if self._reason:
                raise DraftlightError(self._reason)
            if self._launch.companions is not None:
                self._companions = self._launch.companions()
                environment = self._companions.start()
            self._child = Child(self._launch, environment)
            if self._reason:  # it was to be killed before it was there
                raise DraftlightError(self._reason)
            watcher.start()
            with self._child.connect() as connection:
                writer = threading.Thread(target=self._write, args=(connection,), name="draftlight-writer", daemon=True)
                writer.start()
                while True:
                    events = unpacked(connection.recv_bytes())
                    self._signs += 1
                    if events:
                        self._look_for_cause(events)
                        self._take(events)
        except DraftlightError as error:
            message = str(error)
        except (OSError, EOFError):
            pass
        except Exception as error:  # whatever it is, whoever waits has to be told
            message = explain(error, "talking to the process that runs models")
        try:
            message = self._bury(message)
            for thread in (watcher, writer):
                if thread is not None and thread.ident is not None:
                    thread.join()
        except Exception as error:
            message = explain(error, "ending the process that runs models")
        finally:  # whatever else goes wrong, whoever waits is told
            self._ended(message)

    def _bury(self, message: str) -> str:
        """Sees that nothing is left of it; why it has ended, in a sentence."""
        self._over.set()
        self._outbox.put(None)
        try:
            status, said = (0, "") if self._child is None else self._child.bury()
            if self._companions is not None and status:
                self._reason = self._reason or self._failure()
        finally:
            if self._companions is not None:
                self._companions.stop()
        if self._child is None:
            return message  # it was never started
        was_cut_off = self._child.was_killed and not self._reason
        message = message or self._reason or (CUT_OFF if was_cut_off else _end_in_words(status, said))
        if status:
            _log.error("The process of the engine has ended (%s). %s It said: %s", status, message, said.strip() or "nothing")
        return message + self._again

    def _write(self, connection: Connection) -> None:
        with suppress(OSError):  # it is gone, which the reader sees
            while (message := self._outbox.get()) is not None:
                connection.send_bytes(message)

    def _watch(self) -> None:
        """Kills what hangs. Time is counted in looks: while the machine sleeps, or this process is stopped, none passes."""
        signs, silent, worked = 0, 0.0, self._processor_seconds()
        while not self._over.wait(LOOK):
            silent = 0.0 if self._signs != signs else silent + LOOK
            signs = self._signs
            if self.unheard is not None:
                self.unheard += LOOK
            if silent >= SILENCE:
                before, worked, silent = worked, self._processor_seconds(), 0.0
                if worked - before < IDLE_SHARE * SILENCE:
                    self._kill(f"The process that runs models hung: nothing was heard of it for {SILENCE:.0f} seconds.")
            elif self.unheard is not None and self.unheard >= UNHEARD:
                self._kill(f"The process that runs models hung: it did not stop within {UNHEARD:.0f} seconds.")
            elif self._companions is not None and (failure := self._companions.failure()):
                self._kill(failure)

    def _processor_seconds(self) -> float:
        return (self._child.processor_seconds() if self._child is not None else None) or 0.0

    def _failure(self) -> str:
        """What the companions say of a failure; they may see it a little later."""
        assert self._companions is not None
        for _ in range(10):
            if failure := self._companions.failure():
                return failure
            time.sleep(0.05)
        return ""

    def _look_for_cause(self, events: list[Event]) -> None:
        """Raises DraftlightError, in whose words all that is open fails, if a failure among the events is one of the companions.
        It is not handed on itself: whoever hears of it must not ask this process again."""
        for place, event in enumerate(events):
            if isinstance(event, (RunFailed, TaskFailed, LoadFailed)) and self._companions is not None:
                if failure := self._failure():
                    self._take(events[:place])
                    self._kill(failure)
                    raise DraftlightError(failure)
                return


def _end_in_words(status: int, said: str) -> str:
    if status == -signal.SIGABRT and lacks_memory(said):  # as MLX ends where a pass fails that nobody waits for
        return f"The process that runs models ran out of the GPU's memory. {LESS_MEMORY}"
    if status == -signal.SIGKILL:
        return "The process that runs models was killed, as the system does when memory runs out."
    if status < 0:
        return f"The process that runs models crashed ({signal.strsignal(-status) or -status}). Details are in {log_path()}."
    return f"The process that runs models ended unexpectedly (status {status}). Details are in {log_path()}."
