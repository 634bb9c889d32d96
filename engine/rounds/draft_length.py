"""Choosing gamma while decoding: the draft length that pays most, or none, by past rounds and the drafter's own confidence."""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from engine.types import Outlook, Round, Skipped

LARGEST_AUTO = 8
"""The number of tokens that may be drawn in one round. Longer chains seldom pay; copies are not counted."""
FIRST_DRAWN = 2
"""The same before the first verdict on what a drafter drew: a drafter that is wrong must not hold the answer up."""

CHANCES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97)
"""Bounds of the classes in which a drafter's chances are held against what became of its proposals."""
CLASS_WEIGHT = 4.0

PRIOR_ALPHA, PRIOR_WEIGHT = 0.5, 4.0
"""What is supposed of a drafter's alpha, and as much as how many verdicts that counts."""
KNOWN_WEIGHT = 8.0
"""The same where earlier answers have shown its alpha. A small draft model's alphas differ from text to text as they would by
chance in ten verdicts at temperature 0 and twenty at 0.8; the next question may be of another kind, so a little less counts."""
DECAY = 0.97
REMEMBERED = 64
PRIOR_SLOPE = 0.15
"""What one more proposal costs relative to a plain round, until measured."""
SLOPE_WEIGHT = 6.0
"""How much that counts beside what was measured: as much as so many rounds that are one proposal off the mean."""
MEASURED_WEIGHT = 8.0
"""The same where the machine's costs were measured beforehand, with a short text: over a long one rows may cost twice as much."""
FIRST_WEIGHT, BACK_WEIGHT = 1.0, 4.0
"""How much the suppositions count that the first proposal costs what the others do, and that taking tokens back costs nothing: as
much as so many rounds."""
OUTLIER = 3.0
"""A round that took so many times as long as usual was disturbed, and counts as this long."""

MARGIN = 0.03
"""Drafting that is slower than no drafting by this share is parked, and goes on once it is as much faster."""
FIRST_PAUSE, LONGEST_PAUSE = 24, 128
"""Rounds without proposals before drafting is tried again; twice as many after each try that was in vain. A try is one verdict
more, and takes a third of a round longer, with what the drafter has to catch up on."""
FADE = 0.99
"""What remains of the weight of old verdicts with each round that drafting rests."""
LOOK_AT_PLAIN, LONGEST_LOOK = 4, 32
"""After so many rounds in a row with proposals there is such a look, and after twice as many each time another of one round,
where nobody has measured, or what is known of costs leaves drafting little to gain: as long as all rounds draft, their times do
not tell what they would take without."""
LITTLE_FASTER = 1.25
"""Drafting gains little if it is thought to be less than so many times as fast as not drafting."""

Kind = Literal["drafted", "plain"]
"""Kinds of rounds whose times are fitted: with proposals, or behind tokens taken back; and plain ones."""
Extra = Callable[[int], float]
"""What a round of so many proposals takes longer than one of none, as a share of that."""


@dataclass(frozen=True, slots=True)
class _Costs:
    """Milliseconds of a round, up to a constant factor: `plain` without proposals, `first` more with any, `proposal` for each
    unit of `extra`, and `back` for each time that tokens are taken back."""

    plain: float
    first: float
    proposal: float
    back: float
    extra: Extra

    def of(self, gamma: int, alpha: float) -> float:
        """What is to be expected of a round of so many proposals, each accepted with this probability."""
        return self.plain + self.more(0, gamma, 1.0, alpha**gamma)

    def relative(self, gamma: int, alpha: float) -> float:
        """The same in plain rounds."""
        return self.of(gamma, alpha) / self.plain

    def more(self, drafted: int, gamma: int, stands: float, reached: float) -> float:
        """What `gamma` >= 1 proposals cost more than `drafted` ones, where the latter are all accepted with the one chance and
        the former with the other."""
        begun = 0.0 if drafted else self.first
        return begun + self.proposal * (self.extra(gamma) - self.extra(drafted)) + self.back * (stands - reached)


class FixedGamma:
    """The gamma that the user chose."""

    rests = False

    def __init__(self, gamma: int) -> None:
        self.gamma = gamma

    def choose(self) -> int:
        """How many proposals to ask for: always the same number."""
        return self.gamma

    def observe(self, finished: Round, chances: Sequence[float] = ()) -> None:
        """A fixed gamma learns nothing."""

    def outlook(self) -> Outlook | None:
        """Nothing is weighed."""
        return None


class AutoGamma:
    """Maximises tokens per millisecond: before a round (`choose`, `begins`, `length`) or token by token (`goes_on`).

    Time is fitted to the times of recent rounds over what their proposals cost, and over what the round before did. If it took
    tokens back, a recurrent layer reads what it is to keep once more, with the next pass, so a rejection is paid for a round
    later: otherwise that would look like a price of every round, which speaks for longer drafts.

    A drafter that asks after each token goes on while what may still follow is worth the time that it takes, at the tokens per
    millisecond of late: that of proposals, and that of taking tokens back if one of them were the first to be rejected. What the
    drafter's chances are worth is learned from what became of its proposals. A drafter that copies knows its chances beforehand.

    Where no length is faster than none, drafting is parked: rounds go without proposals, and now and then one tries again, the
    more seldom the oftener it was in vain. Parking and going on need a margin, so noise of the clock does not make it flutter. An
    answer begins with what earlier ones showed, and a few verdicts of its own count for more.

    The choice depends on past rounds and on what was drawn in this one, never on a verdict to come, so every rule stays exact;
    under match and gumbel the text does not depend on it, while under rejection and block it may differ between two runs, as
    their rounds do.

    Args:
        extra: what proposals cost on this machine, where that was measured.
        draws: whether the drafter draws; then a round that began with a copied token tells nothing of its alpha.
        alpha: what is supposed of its alpha, by earlier answers.

    Attributes:
        is_parked: whether drafting was given up until a try shows that it pays.
    """

    def __init__(self, extra: Extra | None = None, draws: bool = False, alpha: float | None = None) -> None:
        self._measured = extra
        self.draws = draws
        supposed, weight = (PRIOR_ALPHA, PRIOR_WEIGHT) if alpha is None else (alpha, KNOWN_WEIGHT)
        self._accepted = supposed * weight
        self._rejected = (1 - supposed) * weight
        self._has_verdicts = alpha is not None
        # By kind, so that a long rest does not make it forget what drafts cost or what a plain round takes by itself.
        self._times: dict[Kind, _Moments] = {kind: _Moments() for kind in ("drafted", "plain")}
        self._latest: deque[tuple[float, int]] = deque(maxlen=REMEMBERED)  # time, emitted
        self._took_back = False
        self._fitted: _Costs | None = None
        self._is_begun = False
        self._knows_plain = extra is not None
        self._drafted, self._look = 0, LOOK_AT_PLAIN  # rounds in a row with proposals, and after how many one goes without
        self.is_parked = False
        self._pause = FIRST_PAUSE
        self._wait = 0  # rounds without proposals before the next try
        self._offered: Sequence[float] = ()
        bounds = (0.0, *CHANCES, 1.0)
        middles = [(low + high) / 2 for low, high in pairwise(bounds)]
        self._classes = [[CLASS_WEIGHT * middle, CLASS_WEIGHT] for middle in middles]  # accepted, judged

    # What is asked before and during a round; none of it changes anything but what `outlook` says

    @property
    def looks_at_plain(self) -> bool:
        """Whether the next round goes without proposals for the sake of its time alone."""
        return self._wait > 0 and not self.is_parked

    @property
    def rests(self) -> bool:
        """Whether the next round goes without proposals, unless copies that seem sure are at hand."""
        return self._wait > 0

    def choose(self) -> int:
        """How many proposals to ask for of a drafter that does not ask itself; none while drafting is parked."""
        if self.rests:
            return 0
        return min(self._best(), self.most_drawn) if self.draws else self._best()

    @property
    def most_drawn(self) -> int:
        """The number of tokens that may be drawn in the next round, copies not counted."""
        return LARGEST_AUTO if self._has_verdicts else FIRST_DRAWN

    def begins(self) -> bool:
        """Whether a drafter that has to draw to know its chances may begin."""
        self._offered = ()
        return not self.rests

    def length(self, chances: Sequence[float]) -> int:
        """How many proposals pay of those that are accepted with these chances, each given those before it."""
        self._offered = chances
        worths = [0.0, *self._worths(chances)]
        return worths.index(max(worths))

    def gain(self, chances: Sequence[float] = (), gamma: int | None = None) -> float:
        """What a round of proposals is worth at the best length, or at a given gamma. Of copies the chances are known; of what is
        drawn, the alpha of late."""
        worths = self._worths(chances or (self.alpha,) * LARGEST_AUTO)
        return max(worths) if gamma is None else worths[min(gamma, len(worths)) - 1]

    def _worths(self, chances: Sequence[float]) -> list[float]:
        """Of one proposal, of two, up to all: what they bring more than a plain round, in tokens, less what their time would
        bring at the speed of late."""
        costs, speed = self._costs(), self._speed()
        worths, reached = [], 1.0
        gained = 0.0
        for gamma, chance in enumerate(chances, start=1):
            reached *= chance
            gained += reached
            worths.append(gained - speed * costs.more(0, gamma, 1.0, reached))
        return worths

    def faster(self) -> float:
        """How many times as fast as plain rounds drafted ones are, at their best length, by what is known."""
        best, alpha = self._best(), self.alpha
        return _tau(alpha, best) / self._costs().relative(best, alpha)

    def step_cost(self) -> float:
        """What a second proposal takes, in plain rounds."""
        costs = self._costs()
        return costs.more(1, 2, 1.0, 1.0) / costs.plain

    def goes_on(self, chances: Sequence[float]) -> bool:
        """Whether further proposals pay after those to which the drafter gave these chances."""
        stands = 1.0
        for chance in chances:
            accepted, judged = self._classes[bisect_right(CHANCES, chance)]
            stands *= accepted / judged
        costs, speed, drafted = self._costs(), self._speed(), len(chances)
        gain, reached = 0.0, stands
        # One more row may cost a step to the machine that the rows after it do not, so the first need not pay by itself.
        for gamma in range(drafted + 1, max(drafted + 1, LARGEST_AUTO) + 1):
            reached *= self.alpha
            gain += reached
            if gain >= speed * costs.more(drafted, gamma, stands, reached):
                return True
        return False

    def outlook(self) -> Outlook | None:
        """What was weighed for this round, in figures; None before anything is known of plain rounds."""
        offered, self._offered = self._offered, ()
        if not self._knows_plain:
            return None
        costs = self._costs()
        if offered:
            return Outlook(1, costs.relative(1, offered[0]), offered[0], _needed(costs, 1), copies=True)
        best = self._best()
        wait = self._wait if self.is_parked else None
        skipped: Skipped | None = "measured" if self.looks_at_plain else None
        return Outlook(best, costs.relative(best, self.alpha), self.alpha, _needed(costs, best), wait, skipped=skipped)

    # What is learned

    def observe(self, finished: Round, chances: Sequence[float] = ()) -> None:
        """Learns from a round; `chances` are those that the drafter gave to the first of its proposals."""
        proposals = finished.proposals
        self._knows_plain |= not proposals
        self._drafted = self._drafted + 1 if proposals else 0
        if self._is_begun:  # the first round pays for much that no other does
            time = self._undisturbed(finished.milliseconds.total)
            kind: Kind = "drafted" if proposals or self._took_back else "plain"
            self._times[kind].add(self._extra(len(proposals)), time, self._took_back)
            self._latest.append((time, len(finished.emitted)))
            self._fitted = None
        self._is_begun = True
        self._took_back = finished.accepted < len(proposals)
        for chance, proposal in zip(chances, proposals, strict=False):
            if proposal.status == "unjudged":
                break
            counts = self._classes[bisect_right(CHANCES, chance)]
            counts[0] += proposal.status == "accepted"
            counts[1] += 1
        if proposals and not (self.draws and proposals[0].copied):
            self._has_verdicts = True
            self._accepted = self._accepted * DECAY + finished.accepted
            self._rejected = self._rejected * DECAY + finished.rejected
            self._tried(finished.accepted == len(proposals))
        else:
            self.rested()

    def watch(self, finished: Round) -> None:
        """A round in which another drafter proposed: what it brought is the speed to beat."""
        self._latest.append((self._undisturbed(finished.milliseconds.total), len(finished.emitted)))
        self._took_back = finished.accepted < len(finished.proposals)
        self.rested(fades=True)

    def rested(self, fades: bool = False) -> None:
        """A round in which this drafter drew nothing; what was known of it counts less where it is parked, or another draws."""
        self._wait = max(0, self._wait - 1)
        if self.is_parked or fades:
            self._accepted *= FADE
            self._rejected *= FADE

    def _tried(self, all_accepted: bool) -> None:
        """Parks drafting, or goes on with it, by what the rounds so far say."""
        faster = self.faster()
        if not self.is_parked:
            if faster < 1 - MARGIN:
                self.is_parked, self._pause = True, FIRST_PAUSE
                self._wait = self._pause
            elif not self._knows_plain:
                self._wait = 1 if len(self._latest) >= LOOK_AT_PLAIN else 0
            elif faster < LITTLE_FASTER and self._drafted >= self._look:
                self._wait, self._look = 1, min(2 * self._look, LONGEST_LOOK)
        elif faster > 1 + MARGIN:
            self.is_parked = False
        elif not all_accepted:
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
            self._wait = self._pause

    def _undisturbed(self, time: float) -> float:
        """The time of a round; one that took many times as long as is usual was disturbed."""
        if len(self._latest) < 4:
            return time
        return min(time, OUTLIER * statistics.median(time for time, _ in self._latest))

    # What follows from it

    @property
    def alpha(self) -> float:
        """How often its proposals were accepted of late."""
        return self._accepted / (self._accepted + self._rejected)

    def _best(self) -> int:
        """The length that a drafter of this alpha does best with, at least 1."""
        costs, alpha = self._costs(), self.alpha
        return max(range(1, LARGEST_AUTO + 1), key=lambda gamma: _tau(alpha, gamma) / costs.of(gamma, alpha))

    def _speed(self) -> float:
        """Tokens per millisecond of late; at least that of plain rounds, which may be had at any time."""
        plain = 1 / self._costs().plain
        spent = sum(time for time, _ in self._latest)
        if len(self._latest) < 4 or spent <= 0:
            return plain
        return max(plain, sum(emitted for _, emitted in self._latest) / spent)

    def _extra(self, gamma: int) -> float:
        """What so many proposals cost, in proposals as they are supposed to be without a measurement."""
        return float(gamma) if self._measured is None or not gamma else self._measured(gamma) / PRIOR_SLOPE

    def _costs(self) -> _Costs:
        if self._fitted is None:
            self._fitted = self._fit()
        return self._fitted

    def _fit(self) -> _Costs:
        """Least squares over the remembered rounds, drawn towards what is supposed of them."""
        sums = np.sum([moments.sums for moments in self._times.values()], axis=0)
        if not sums[0, 0]:
            return _Costs(1.0, 0.0, PRIOR_SLOPE, 0.0, self._extra)
        _, _, extra, _, mean_time = (sums[0] / sums[0, 0]).tolist()
        supposed = np.array([0.0, 0.0, PRIOR_SLOPE, 0.0]) * mean_time / (1 + PRIOR_SLOPE * extra)
        slope_weight = SLOPE_WEIGHT if self._measured is None else MEASURED_WEIGHT
        weights = np.array([0.0, FIRST_WEIGHT, slope_weight, BACK_WEIGHT])
        found = np.linalg.solve(sums[:-1, :-1] + np.diag(weights), sums[:-1, -1] + weights * supposed)
        plain, first, slope, back = found.tolist()
        plain = max(plain, mean_time * 0.1, 1e-9)
        # Times are noisy. A proposal that seemed to cost nothing would be followed by others without end.
        return _Costs(plain, max(first, 0.0), max(slope, float(supposed[2]) / 2), max(back, 0.0), self._extra)


class _Moments:
    """Sums over the latest rounds, of products of: one, whether anything was proposed, what that costs, whether the round before
    took tokens back, and the round's time.

    Attributes:
        sums: (5, 5).
    """

    def __init__(self) -> None:
        self.sums = np.zeros((5, 5))
        self._latest: deque[np.ndarray] = deque()

    def add(self, extra: float, time: float, took_back: bool) -> None:
        """Counts one round more and forgets the one that is too long ago."""
        seen = np.array((1.0, extra > 0, extra, took_back, time))
        products = np.outer(seen, seen)
        self._latest.append(products)
        self.sums = self.sums + products
        if len(self._latest) > REMEMBERED:
            self.sums = self.sums - self._latest.popleft()


def _tau(alpha: float, gamma: int) -> float:
    if alpha > 1 - 1e-9:
        return gamma + 1.0
    return float((1 - alpha ** (gamma + 1)) / (1 - alpha))


def _needed(costs: _Costs, gamma: int) -> float:
    """The alpha from which rounds of so many proposals are as fast as plain ones, as in `_Costs.relative`; 1 where none is."""
    low, high = 0.0, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        pays = _tau(middle, gamma) >= costs.relative(gamma, middle)
        low, high = (low, middle) if pays else (middle, high)
    return high
