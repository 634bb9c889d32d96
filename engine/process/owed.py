"""What an engine has been asked for and has not answered yet, so that everything gets an end if its process dies."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.types import (
    DrafterReady,
    DrafterRefused,
    Event,
    LoadFailed,
    PromptCounted,
    RunFailed,
    RunFinished,
    RunStarted,
    TaskEnd,
    TaskFailed,
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
