"""Choosing in each round who drafts, if anybody: whichever member of several is expected to gain most."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.drafters.base import Offer
from engine.rounds.draft_length import LARGEST_AUTO, LONGEST_PAUSE, MARGIN, AutoGamma
from engine.types import Gamma, Outlook, Round

BURST = 3
"""Rounds in a row of a drafter that is tried beside the one that does best: one alone says next to nothing."""
FAR_BEHIND = 0.85
"""One that is slower than the best by more than this, and has failed again, is not tried further for now."""
FIRST_TRY, SECOND_TRY = 4, 8
"""Rounds before the others are tried for the first time, and again; twice as many after each further try that was in vain."""
CATCHING_UP = 2.0
"""Plain rounds that catching up may take for a try."""
HORIZON = 32
"""Plain rounds in whose time an advantage has to make up for catching up."""
READING = 0.1
"""What reading a token takes of a draft step: many are read in one pass."""


class DrafterChoice:
    """Weighs members against each other and against no proposals at all, round by round.

    What is known of each is an `AutoGamma` of its own. Copies have chances that are known before anything is drawn. Of those that
    draw, the one that does best is in favour; another is tried now and then for a few rounds, the more seldom the oftener it was
    in vain, and only where catching up with the text takes little. As of lengths, the choice depends on past rounds and on the
    text alone, so every rule stays exact.

    Args:
        members: how proposals are weighed for each, by name.
        gamma: the gamma of the user. A number is what members are compared at, and then nobody rests.
    """

    def __init__(self, members: Mapping[str, AutoGamma], gamma: Gamma) -> None:
        self._members = members
        self._fixed = None if gamma == "auto" else gamma
        drawing = [name for name, lengths in members.items() if lengths.draws]
        self._favourite = max(drawing, key=lambda name: members[name].faster(), default=None)
        self._waits = {name: FIRST_TRY * place for place, name in enumerate(self._ranked(drawing))}
        self._pauses = dict.fromkeys(drawing, SECOND_TRY)
        self._bursts = dict.fromkeys(drawing, 0)
        self._chosen: str | None = None
        self._has_begun = False

    def _ranked(self, drawing: Sequence[str]) -> list[str]:
        return sorted(drawing, key=lambda name: (name != self._favourite, -self._members[name].faster()))

    # Before a round

    @property
    def rests(self) -> bool:
        """Whether nobody will draw in the next round; somebody may copy all the same."""
        return self._fixed is None and all(lengths.rests for lengths in self._members.values() if lengths.draws)

    def choose(self) -> int:
        """How many proposals to ask for at most, of members that do not set their own length."""
        return self._fixed or LARGEST_AUTO

    def of(self, name: str) -> AutoGamma | None:
        """What the pen of a member asks; None where gamma is fixed."""
        return self._members[name] if self._fixed is None else None

    def choose_drafter(self, offers: Mapping[str, Offer]) -> str | None:
        """Who is to propose; None if nobody."""
        self._chosen = None
        if self._fixed is None and self._looks_at_plain:
            return None
        drawing = self._drawing(offers)
        gains = {name: self._gain(name, offer) for name, offer in offers.items() if offer.chances or name == drawing}
        # Whether drawing pays at all is settled by parking, which minds the margin; copies have to pay by themselves.
        paying = [name for name, gain in gains.items() if name == drawing or gain > 0 or self._fixed is not None]
        self._chosen = max(paying, key=lambda name: (gains[name], name == drawing), default=None)
        return self._chosen

    @property
    def _looks_at_plain(self) -> bool:
        return any(lengths.looks_at_plain for lengths in self._members.values())

    def _drawing(self, offers: Mapping[str, Offer]) -> str | None:
        """Which of the members that draw has its turn: one that is due to be tried, or the one in favour."""
        if not self._has_begun and self._favourite in offers:
            self._begin(offers)
        awake = [name for name in self._waits if name in offers and (self._fixed is not None or not self._members[name].rests)]
        for name in awake:
            if name != self._favourite and self._waits[name] <= 0 and self._catching_up(name, offers[name]) <= CATCHING_UP:
                return name
        return self._favourite if self._favourite in awake else next(iter(awake), None)

    def _begin(self, offers: Mapping[str, Offer]) -> None:
        """Before the first draw: a little that one is thought to be faster is not worth that it first reads a long prompt."""
        self._has_begun = True
        worth = {
            name: HORIZON * self._members[name].faster() - self._catching_up(name, offers[name])
            for name in self._waits
            if name in offers
        }
        best = max(worth, key=lambda name: (worth[name], name == self._favourite))
        if best != self._favourite and self._favourite is not None:
            self._waits[best], self._waits[self._favourite] = 0, FIRST_TRY
            self._favourite = best

    def _catching_up(self, name: str, offer: Offer) -> float:
        """What it takes to read what it has not read, in plain rounds."""
        return READING * offer.behind * max(self._members[name].step_cost(), 0.0)

    def _gain(self, name: str, offer: Offer) -> float:
        lengths = self._members[name]
        gain = lengths.gain(offer.chances, self._fixed)
        return gain - (self._catching_up(name, offer) / SECOND_TRY if lengths.draws and not offer.chances else 0.0)

    def outlook(self) -> Outlook | None:
        """What was weighed for the member that proposes, or else for the one that draws best."""
        name = self._chosen or self._favourite or next(iter(self._members), None)
        if name is None or self._fixed is not None:
            return None
        found = self._members[name].outlook()
        return None if found is None else replace(found, drafter=name, skipped="measured" if self._looks_at_plain else None)

    # After it

    def observe(self, finished: Round, chances: Sequence[float] = ()) -> None:
        """Learns from a round, whoever drafted it."""
        proposer = finished.proposer
        for name, lengths in self._members.items():
            if name == proposer or proposer is None:
                lengths.observe(finished, chances if name == proposer else ())
            else:
                lengths.watch(finished)
        for name in self._waits:
            if name != proposer:
                self._waits[name] -= 1
        if proposer in self._waits and proposer != self._favourite:
            self._tried(proposer, finished.accepted == len(finished.proposals))

    def _tried(self, name: str, all_accepted: bool) -> None:
        """Another than the one in favour has drawn: it takes its place, goes on for a few rounds, or waits longer."""
        self._bursts[name] += 1
        favourite = self._favourite
        beside = math.inf if favourite is None else self._members[name].faster() / self._members[favourite].faster()
        if beside > 1 + MARGIN:
            if self._bursts[name] < BURST:
                return
            self._favourite = name
            self._pauses[name] = SECOND_TRY
            if favourite is not None:
                self._waits[favourite] = SECOND_TRY
        elif self._bursts[name] >= BURST or (beside < FAR_BEHIND and not all_accepted):
            self._waits[name] = self._pauses[name]
            self._pauses[name] = min(2 * self._pauses[name], LONGEST_PAUSE)
        else:
            return
        self._bursts[name] = 0
