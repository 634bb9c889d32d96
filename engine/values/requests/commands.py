"""Commands to an engine, on a thread or in a process: one frozen value for each.

Answers, tasks and counts get their ids before they are sent, in `engine.runtime.interface.Requests`, which also documents the
events that follow each command.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.values.answers import DecodingOptions, Gamma, Request, Rule
from engine.values.drafter_kinds import NO_DRAFTER
from engine.values.requests.bench import BenchRequest
from engine.values.requests.compare import CompareRequest, SampleRequest
from engine.values.requests.prove import ProveRequest
from engine.values.requests.train import TrainRequest


@dataclass(frozen=True, slots=True)
class Load:
    """Load a target, then a drafter for it."""

    target: str
    drafter: str = NO_DRAFTER


@dataclass(frozen=True, slots=True)
class CheckDrafter:
    """Check whether a model can draft for the loaded target."""

    name: str


@dataclass(frozen=True, slots=True)
class IgnoreMemory:
    """Load these models even if they will probably exhaust the memory; without names, every model."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CountPrompt:
    """Count the tokens of a prompt."""

    count_id: int
    request: Request


@dataclass(frozen=True, slots=True)
class Submit:
    """Answer a request."""

    run_id: int
    request: Request


@dataclass(frozen=True, slots=True)
class Compare:
    """Answer several requests in turns; there is a run id for each."""

    run_ids: tuple[int, ...]
    request: CompareRequest


Task = ProveRequest | BenchRequest | TrainRequest | SampleRequest
"""Request for a long task."""


@dataclass(frozen=True, slots=True)
class Perform:
    """Carry out a long task."""

    task_id: int
    request: Task


@dataclass(frozen=True, slots=True)
class Update:
    """Change an answer from its next round on; None keeps a setting. ValueError names an impossible rule or gamma."""

    run_id: int
    rule: Rule | None = None
    gamma: Gamma | None = None
    drafter: str | None = None

    def __post_init__(self) -> None:
        options = {name: value for name, value in self.changes.items() if name != "drafter"}
        DecodingOptions().replace(**options)

    @property
    def changes(self) -> dict[str, Any]:
        """The settings that change, by their names."""
        named = (("rule", self.rule), ("gamma", self.gamma), ("drafter", self.drafter))
        return {name: value for name, value in named if value is not None}


@dataclass(frozen=True, slots=True)
class Stop:
    """End an answer or a task; `number` is its id."""

    number: int


@dataclass(frozen=True, slots=True)
class Close:
    """The last command to the thread or process of an engine, sent by its `close`."""


Command = Load | CheckDrafter | IgnoreMemory | CountPrompt | Submit | Compare | Perform | Update | Stop
"""Everything that can be sent to an engine."""
