"""Several drafters as one: each round whichever is expected to gain most proposes, or none."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import mlx.core as mx

from engine.drafter_kinds import AUTO, LoadedDrafter
from engine.drafters.base import (
    Copier,
    Drafter,
    DraftPen,
    Listener,
    Offer,
    Proceed,
    Proposals,
    always,
    begin_with,
    listener_of,
    statistics_of,
)
from engine.types import DrafterStatistics

LEFT_BEHIND = 32
"""Rounds without its proposals after which a draft model is told nothing more until it is wanted again."""


class Automatic:
    """Members that follow one text, of which one proposes in each round.

    Copying costs nothing, and a head has to hear what the target reads, so those always follow. A draft model reads nothing
    before it is wanted, and then what it lacks in one go.

    Args:
        members: at least one; at most one of them listens.
    """

    sets_own_length = True

    def __init__(self, members: Sequence[Drafter]) -> None:
        self.name = AUTO
        self.members = {member.name: member for member in members}
        self.has_distribution = any(member.has_distribution for member in members)
        self.proposer: str | None = None
        self.statistics: DrafterStatistics | None = None
        self._committed: list[int] = []
        self._bits: int | None = None
        self._idle: dict[str, int] = {}  # rounds since a reader proposed, of those that have caught up
        self._read: dict[str, int] = {}  # tokens of the text that it had read when it was left behind

    def keep_keys_in(self, kv_bits: int | None) -> None:
        """As in `Drafter`."""
        self._bits = kv_bits

    def _reads(self, member: Drafter) -> bool:
        """Whether a member has a text of its own to read."""
        return member.has_distribution and listener_of(member) is None

    @property
    def _following(self) -> Iterable[Drafter]:
        return [member for name, member in self.members.items() if not self._reads(member) or name in self._idle]

    def begin(self, tokens: Sequence[int], proceed: Proceed = always) -> bool:
        """As in `Drafter`; draft models wait until they are wanted."""
        self._committed = list(tokens)
        self._idle = {}
        self.proposer = None
        return all(begin_with(member, tokens, self._bits, proceed) for member in self._following)

    def propose(self, limit: int, pen: DraftPen) -> Proposals | None:
        """As in `Drafter`: the pen says who is to propose."""
        self.statistics = None
        self.proposer = pen.choose_drafter({name: self._offer(member, limit) for name, member in self.members.items()})
        if self.proposer is None:
            return None
        member = self.members[self.proposer]
        if self._reads(member):
            if self.proposer not in self._idle:
                begin_with(member, self._committed, self._bits, always)
            self._idle[self.proposer] = 0
        proposals = member.propose(pen.limit_of(member, limit), pen)
        self.statistics = statistics_of(member)
        return proposals

    def _offer(self, member: Drafter, limit: int) -> Offer:
        chances = tuple(member.copies(limit)) if isinstance(member, Copier) else ()
        behind = (
            0 if member.name in self._idle or not self._reads(member) else len(self._committed) - self._read.get(member.name, 0)
        )
        return Offer(chances, max(behind, 0))

    def observe(self, tokens: Sequence[int], features: Any = None) -> None:
        """As in `Drafter`."""
        for member in self._following:
            member.observe(tokens, features if listener_of(member) is not None else None)
        self._committed.extend(tokens)
        for name in list(self._idle):
            self._idle[name] += 1
            if self._idle[name] > LEFT_BEHIND:
                self._leave(name)

    def _leave(self, name: str) -> None:
        self.members[name].finish()
        self._read[name] = len(self._committed)
        del self._idle[name]

    def prefetch(self) -> None:
        """As in `Drafter`: of the member that proposed last, which will probably go on."""
        if self.proposer is not None:
            self.members[self.proposer].prefetch()

    def finish(self) -> None:
        """As in `Drafter`."""
        for member in self._following:
            member.finish()
        self._read |= dict.fromkeys(self._idle, len(self._committed))


class ListeningAutomatic(Automatic):
    """The same where one of the members reads the target's features."""

    def __init__(self, members: Sequence[Drafter]) -> None:
        super().__init__(members)
        self._listener: Listener = next(found for member in members if (found := listener_of(member)) is not None)

    def listen(self, target: Any, tokens: Sequence[int]) -> None:
        """As in `Listener`."""
        self._listener.listen(target, tokens)

    def hear(self, start: int, rows: int) -> None:
        """As in `Listener`."""
        self._listener.hear(start, rows)

    def take_features(self) -> mx.array:
        """As in `Listener`."""
        return self._listener.take_features()


def automatic(members: Sequence[Drafter]) -> Automatic:
    """One drafter of several."""
    listens = any(listener_of(member) is not None for member in members)
    return ListeningAutomatic(members) if listens else Automatic(members)


def together(loaded: Sequence[LoadedDrafter]) -> LoadedDrafter:
    """One loaded drafter of several."""
    make = functools.partial(_renewed, tuple(loaded))
    return LoadedDrafter(AUTO, make(), make=make)


def _renewed(loaded: Sequence[LoadedDrafter]) -> Automatic:
    return automatic([each.renewed() for each in loaded])
