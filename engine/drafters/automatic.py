"""Combines several drafters into one: in each round the policy names the member that proposes, or none."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import mlx.core as mx

from engine.drafters.base import Drafter, Proceed, always
from engine.drafters.draft import Draft, DraftContext, DrafterCapabilities, DraftPlan, Estimate
from engine.drafters.loaded import LoadedDrafter
from engine.drafters.sampler import Sampler
from engine.values.drafter_kinds import AUTO

MAX_IDLE_ROUNDS = 32
"""Number of rounds without its proposals after which a draft model stops following the text until it is used again."""


class Automatic(Drafter):
    """Members that follow the same text, one of which proposes in each round.

    Copying costs nothing, and a head needs the hidden states that the target computes anyway, so those always follow the text. A
    draft model reads nothing until it is used, and then reads everything that it has missed at once.

    Args:
        members: at least one; at most one of them reads hidden states.
    """

    def __init__(self, members: Sequence[Drafter]) -> None:
        self.name = AUTO
        self._members = {member.name: member for member in members}
        self.capabilities = DrafterCapabilities(
            samples=any(member.capabilities.samples for member in members),
            sets_own_length=True,
            hidden_layers=next((layers for member in members if (layers := member.capabilities.hidden_layers)), ()),
        )
        self._context: DraftContext | None = None
        self._committed: list[int] = []
        self._proposer: str | None = None
        self._idle: dict[str, int] = {}  # rounds since a draft model proposed, for those that have caught up
        self._read: dict[str, int] = {}  # tokens of the text that it had read when it stopped following

    @property
    def members(self) -> Mapping[str, Drafter]:
        """As in `Drafter`."""
        return self._members

    def _reads_text(self, member: Drafter) -> bool:
        """Returns whether a member reads the text itself, which costs passes of its own."""
        return member.capabilities.samples and not member.capabilities.hidden_layers

    @property
    def _following(self) -> Iterable[Drafter]:
        return [member for name, member in self._members.items() if not self._reads_text(member) or name in self._idle]

    def start(self, context: DraftContext, proceed: Proceed = always) -> bool:
        """As in `Drafter`; draft models only start when they are used."""
        self._context = context
        self._committed = list(context.tokens)
        self._idle = {}
        self._proposer = None
        return all(member.start(context, proceed) for member in self._following)

    def read(self, start: int, hidden_states: mx.array) -> None:
        """As in `Drafter`."""
        for member in self._members.values():
            if member.capabilities.hidden_layers:
                member.read(start, hidden_states)

    def estimates(self, limit: int) -> Mapping[str, Estimate]:
        """As in `Drafter`."""
        found: dict[str, Estimate] = {}
        for name, member in self._members.items():
            estimate = member.estimates(limit)[name]
            if self._reads_text(member) and name not in self._idle:
                unread = max(0, len(self._committed) - self._read.get(name, 0))
                estimate = replace(estimate, unread=unread)
            found[name] = estimate
        return found

    def propose(self, plan: DraftPlan, sampler: Sampler) -> Draft:
        """As in `Drafter`."""
        assert plan.drafter is not None, "the loop asks nobody in a plain round"
        self._proposer = plan.drafter
        member = self._members[plan.drafter]
        if self._reads_text(member):
            if plan.drafter not in self._idle:
                assert self._context is not None, "a text was given to `start` before"
                member.start(replace(self._context, tokens=self._committed, read=len(self._committed) - 1))
            self._idle[plan.drafter] = 0
        draft = member.propose(plan, sampler)
        return replace(draft, proposer=plan.drafter if draft.tree.size else None)

    def commit(self, path: Sequence[int], tokens: Sequence[int], hidden_states: mx.array | None) -> None:
        """As in `Drafter`."""
        for member in self._following:
            member.commit(path, tokens, hidden_states if member.capabilities.hidden_layers else None)
        self._committed.extend(tokens)
        for name in list(self._idle):
            self._idle[name] += 1
            if self._idle[name] > MAX_IDLE_ROUNDS:
                self._leave(name)

    def _leave(self, name: str) -> None:
        self._members[name].finish()
        self._read[name] = len(self._committed)
        del self._idle[name]

    def prefetch(self) -> None:
        """As in `Drafter`, for the member that proposed last, which will probably propose again."""
        if self._proposer is not None:
            self._members[self._proposer].prefetch()

    def finish(self) -> None:
        """As in `Drafter`."""
        for member in self._following:
            member.finish()
        self._read |= dict.fromkeys(self._idle, len(self._committed))


def combined(loaded: Sequence[LoadedDrafter], warnings: Sequence[str] = ()) -> LoadedDrafter:
    """Combines several loaded drafters into one, which has their warnings, too."""
    make = functools.partial(_renewed, tuple(loaded))
    warning = " ".join(filter(None, (*warnings, *(each.warning for each in loaded))))
    return LoadedDrafter(AUTO, make(), make=make, warning=warning)


def _renewed(loaded: Sequence[LoadedDrafter]) -> Automatic:
    return Automatic([drafter for each in loaded if (drafter := each.renewed()) is not None])
