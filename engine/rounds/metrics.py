"""Metrics of a run, computed from its rounds, in the terms of speculative decoding.

Everything here is a sum over rounds, so it is computed while the answer streams, in constant time per round. Nothing here imports
MLX.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, zip_longest

from engine.types import Finish, Milliseconds, Round, Rule
from engine.values.drafter_kinds import NO_DRAFTER
from engine.values.wording import amount

NORMAL_95 = 1.959963984540054
"""97.5 % quantile of the standard normal distribution: half the width of a 95 % interval."""


@dataclass(frozen=True, slots=True)
class RoundCounts:
    """The part of a round that the metrics use and the CSV export contains.

    Attributes:
        levels: greatest depth of a tree; None for a chain.
        choices: of a tree, the number of proposals at each judged position.
        ranks: of a tree, the rank of each accepted proposal.
    """

    index: int
    drafter: str
    rule: Rule
    proposals: int
    accepted: int
    rejected: int
    unjudged: int
    emitted: int
    started: float
    milliseconds: Milliseconds
    finish: Finish | None = None
    proposer: str | None = None
    levels: int | None = None
    choices: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()

    @property
    def depth(self) -> int:
        """Number of positions that something was proposed for: the number of proposals, or the levels of a tree."""
        return self.proposals if self.levels is None else self.levels


@dataclass(frozen=True, slots=True)
class PositionCounts:
    """Verdicts at one position in the rounds, 1 for the first. `proposed` counts the rounds that proposed something for it,
    however many choices a tree has there."""

    position: int
    proposed: int
    accepted: int
    rejected: int

    @property
    def conditional(self) -> float | None:
        """Accepted / judged: the probability of acceptance once it is judged. None without a verdict."""
        return ratio(self.accepted, self.accepted + self.rejected)

    @property
    def unconditional(self) -> float | None:
        """Accepted / proposed: the probability that this position is reached and accepted. None without a proposal."""
        return ratio(self.accepted, self.proposed)


@dataclass(frozen=True, slots=True)
class RankCounts:
    """Verdicts on the choices of one rank at the judged positions of trees: 0 is the drafter's first choice.

    Attributes:
        offered: number of judged positions with more than `rank` choices.
        accepted: how often the choice of this rank was accepted there; covered: how often one of at most this rank was.
    """

    rank: int
    offered: int
    accepted: int
    covered: int

    @property
    def coverage(self) -> float | None:
        """Covered / offered: the probability that one of the first `rank` + 1 choices is accepted. None without a verdict."""
        return ratio(self.covered, self.offered)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95 % interval of `coverage`, treating positions as independent; None without a verdict."""
        return wilson_interval(self.covered, self.offered) if self.offered else None


@dataclass(frozen=True, slots=True)
class TimeShares:
    """Shares of the time of the rounds that were evaluated in stages; they add up to 1."""

    draft: float
    verify: float
    judge: float
    other: float
    rounds: int
    communication: float | None = None
    """The part of `verify` that waited for other ranks; None if the target was not split."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of a run. Undefined ones are None: alpha before the first verdict, throughput before any time has passed.

    Attributes:
        alpha: accepted / (accepted + rejected); under `block` only descriptive, because the verdict is joint. In a tree a
            position where one of the choices was accepted counts as accepted, and one where none was as rejected.
        alpha_low, alpha_high: Wilson's 95 % interval of alpha, treating verdicts as independent.
        draft_yield: accepted / proposals.
        tau: emitted / rounds.
        predicted_tau: mean over rounds of (1 - alpha^(gamma + 1)) / (1 - alpha), where a plain round counts 1, gamma of a tree is
            its number of levels, and alpha is that of the rounds with the same rule and drafter. None without verdicts, and if
            `block` judged any round.
        seconds: from the end of reading the prompt to the end of the last round; of a stretch, from the start of its first round.
        throughput: emitted / seconds.
        shares: shares of the phases, from measured rounds only.
        by_position: verdicts by position in the round.
        by_rank: verdicts by rank in the rounds with a tree; empty without any.
    """

    rounds: int
    emitted: int
    proposals: int
    accepted: int
    rejected: int
    unjudged: int
    alpha: float | None
    alpha_low: float | None
    alpha_high: float | None
    draft_yield: float | None
    tau: float | None
    predicted_tau: float | None
    seconds: float
    throughput: float | None
    shares: TimeShares | None
    by_position: tuple[PositionCounts, ...]
    by_rank: tuple[RankCounts, ...] = ()


def counts(round: Round | RoundCounts) -> RoundCounts:
    """Returns the counts and times of a round; counts as they are."""
    if isinstance(round, RoundCounts):
        return round
    tree = round.is_tree
    accepted, rejected = round.accepted, round.rejected
    children = Counter(proposal.parent for proposal in round.proposals) if tree else {}
    return RoundCounts(
        index=round.index,
        drafter=round.drafter,
        rule=round.rule,
        proposals=len(round.proposals),
        accepted=accepted,
        rejected=rejected,
        unjudged=round.unjudged,
        emitted=len(round.emitted),
        started=round.started,
        milliseconds=round.milliseconds,
        finish=round.finish,
        proposer=round.proposer,
        levels=max(round.depths) if tree else None,
        choices=tuple(children[place - 1] for place in range(accepted + rejected)) if tree else (),
        ranks=tuple(proposal.rank for proposal in round.proposals[:accepted]) if tree else (),
    )


def mean_expected(round: Round, rule: Rule) -> float | None:
    """Returns the acceptance rate that theory predicts for a rule of `EXPECTED_RULES`: the mean over the judged positions, None
    if there are none."""
    return sum(getattr(place, rule) for place in round.expected) / len(round.expected) if round.expected else None


def summarise(rounds: Iterable[Round | RoundCounts]) -> Summary:
    """Returns the figures of a whole answer."""
    totals = Totals()
    for round in rounds:
        totals.add(round)
    return totals.summary()


@dataclass(slots=True)
class _Verdicts:
    """Verdicts under one rule and drafter. Predictions use them, because each rule and drafter has its own alpha."""

    accepted: int = 0
    judged: int = 0
    gammas: Counter[int] = field(default_factory=Counter)


class Totals:
    """Running sums over rounds: `add` takes constant time per round, and `summary` is independent of the number of rounds.

    Attributes:
        gammas: number of rounds, by number of proposals, or by the levels of a tree.
        jointly_judged: whether `block` judged a proposal.
    """

    def __init__(self, began: float = 0.0) -> None:
        """`began`: start of the time that counts, in milliseconds from the end of reading the prompt."""
        self._began = began
        self._verdicts: dict[tuple[Rule, str], _Verdicts] = {}
        self._rounds = self._emitted = self._proposals = self._accepted = self._rejected = self._unjudged = 0
        self.gammas: Counter[int] = Counter()
        self._proposed_at: Counter[int] = Counter()
        self._accepted_at: Counter[int] = Counter()
        self._rejected_at: Counter[int] = Counter()
        self._choices: Counter[tuple[int, int | None]] = Counter()  # positions, by number of choices and accepted rank
        self.jointly_judged = False
        self._seconds = 0.0
        self._phases = [0.0, 0.0, 0.0, 0.0]
        self._communication: float | None = None
        self._measured = 0

    def add(self, round: Round | RoundCounts) -> None:
        """Adds one round. Verdicts come in order: the accepted ones, at most one rejected, the unjudged. So the first verdicts of
        a tree are those on its levels."""
        entry = counts(round)
        self._rounds += 1
        self._emitted += entry.emitted
        self._proposals += entry.proposals
        self._accepted += entry.accepted
        self._rejected += entry.rejected
        self._unjudged += entry.unjudged
        self.gammas[entry.depth] += 1
        self._proposed_at.update(range(entry.depth))
        self._accepted_at.update(range(entry.accepted))
        self._rejected_at.update(range(entry.accepted, entry.accepted + entry.rejected))
        self._choices.update(zip_longest(entry.choices, entry.ranks))
        self.jointly_judged = self.jointly_judged or (entry.rule == "block" and entry.proposals > 0)
        verdicts = self._verdicts.setdefault((entry.rule, entry.proposer or entry.drafter), _Verdicts())
        verdicts.accepted += entry.accepted
        verdicts.judged += entry.accepted + entry.rejected
        verdicts.gammas[entry.depth] += 1
        times = entry.milliseconds
        self._seconds = (entry.started + times.total - self._began) / 1000
        if times.measured:
            self._measured += 1
            for place, value in enumerate((times.draft, times.verify, times.judge, times.other)):
                self._phases[place] += value or 0.0
            if times.communication is not None:
                self._communication = (self._communication or 0.0) + times.communication

    def summary(self) -> Summary:
        """Returns the figures so far."""
        judged = self._accepted + self._rejected
        low, high = wilson_interval(self._accepted, judged) if judged else (None, None)
        return Summary(
            rounds=self._rounds,
            emitted=self._emitted,
            proposals=self._proposals,
            accepted=self._accepted,
            rejected=self._rejected,
            unjudged=self._unjudged,
            alpha=self.alpha,
            alpha_low=low,
            alpha_high=high,
            draft_yield=ratio(self._accepted, self._proposals),
            tau=self.tau,
            predicted_tau=self.predicted_tau,
            seconds=self._seconds,
            throughput=ratio(self._emitted, self._seconds),
            shares=self._shares(),
            by_position=tuple(
                PositionCounts(place + 1, self._proposed_at[place], self._accepted_at[place], self._rejected_at[place])
                for place in range(max(self.gammas, default=0))
            ),
            by_rank=self._by_rank(),
        )

    def _by_rank(self) -> tuple[RankCounts, ...]:
        found = []
        for rank in range(max((offered for offered, _ in self._choices), default=0)):
            taken = Counter[int | None]()
            for (offered, accepted), many in self._choices.items():
                taken[accepted] += many * (offered > rank)
            covered = sum(taken[each] for each in range(rank + 1))
            found.append(RankCounts(rank, taken.total(), taken[rank], covered))
        return tuple(found)

    @property
    def rounds(self) -> int:
        """Number of rounds counted."""
        return self._rounds

    @property
    def alpha(self) -> float | None:
        """Accepted / (accepted + rejected) so far, without unjudged proposals; None without a verdict."""
        return ratio(self._accepted, self._accepted + self._rejected)

    @property
    def tau(self) -> float | None:
        """Emitted tokens / rounds so far, including the target's own token of each round; None before the first round."""
        return ratio(self._emitted, self._rounds)

    @property
    def predicted_tau(self) -> float | None:
        """Mean over rounds of `expected_emitted`, each rule and drafter with its own alpha; None without a verdict, and if
        verdicts were joint."""
        if not self._predicts:
            return None
        expected = 0.0
        for verdicts in self._verdicts.values():
            alpha = ratio(verdicts.accepted, verdicts.judged) or 0.0
            emitted = list(accumulate(alpha**power for power in range(max(verdicts.gammas) + 1)))
            expected += math.fsum(many * emitted[gamma] for gamma, many in verdicts.gammas.items())
        return expected / self._rounds

    def expected_lengths(self) -> tuple[float, ...]:
        """Returns the expected number of rounds for each accepted length 0, 1, ..., each rule and drafter with its own alpha;
        empty without a verdict or if verdicts were joint."""
        if not self._predicts:
            return ()
        expected = [0.0] * (max(self.gammas) + 1)
        for verdicts in self._verdicts.values():
            alpha = ratio(verdicts.accepted, verdicts.judged) or 0.0
            for length, many in enumerate(expected_lengths(alpha, verdicts.gammas)):
                expected[length] += many
        return tuple(expected)

    @property
    def _predicts(self) -> bool:
        return not self.jointly_judged and self._accepted + self._rejected > 0

    def _shares(self) -> TimeShares | None:
        whole = sum(self._phases)
        if not whole > 0:
            return None
        draft, verify, judge, other = (part / whole for part in self._phases)
        waiting = None if self._communication is None else self._communication / whole
        return TimeShares(draft, verify, judge, other, self._measured, waiting)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive rounds under one rule and one drafter: a change of either begins a new one.

    Attributes:
        first: index of its first round.
        rule: the rule in force. Without a drafter it judges nothing, so there a change of rule begins no stretch.
        totals: sums of its rounds alone; their time begins with the first of them.
    """

    first: int
    rule: Rule
    drafter: str
    totals: Totals

    @property
    def summary(self) -> Summary:
        """Figures of its rounds so far."""
        return self.totals.summary()


class Stretches:
    """Splits an answer into stretches, in order: `add` takes constant time per round."""

    def __init__(self) -> None:
        self.found: list[Stretch] = []

    def add(self, round: Round | RoundCounts) -> bool:
        """Adds one round; returns whether a stretch begins with it."""
        entry = counts(round)
        newest = self.found[-1] if self.found else None
        begins = newest is None or newest.drafter != entry.drafter or (newest.rule != entry.rule and entry.drafter != NO_DRAFTER)
        if newest is None or begins:
            newest = Stretch(entry.index, entry.rule, entry.drafter, Totals(entry.started))
            self.found.append(newest)
        newest.totals.add(entry)
        return begins


def stretches(rounds: Iterable[Round | RoundCounts]) -> tuple[Stretch, ...]:
    """Returns a whole answer in stretches, in order; none without rounds."""
    result = Stretches()
    for round in rounds:
        result.add(round)
    return tuple(result.found)


class Rolling:
    """Alpha and throughput over the latest rounds, for plots. `add` takes constant time per round.

    Attributes:
        accepted, judged: numbers of proposals in the window.
    """

    def __init__(self, window: int = 32) -> None:
        """`window`: number of latest rounds that count."""
        if window < 1:
            raise ValueError(f"window must be at least 1, not {window}")
        self._latest: deque[RoundCounts] = deque()
        self._window = window
        self.accepted = self.judged = 0
        self._emitted = 0

    def add(self, round: Round | RoundCounts) -> None:
        """Adds one round and removes the one that leaves the window."""
        entry = counts(round)
        self._latest.append(entry)
        self._shift(entry, 1)
        if len(self._latest) > self._window:
            self._shift(self._latest.popleft(), -1)

    def _shift(self, entry: RoundCounts, sign: int) -> None:
        self.accepted += sign * entry.accepted
        self.judged += sign * (entry.accepted + entry.rejected)
        self._emitted += sign * entry.emitted

    @property
    def alpha(self) -> float | None:
        """Accepted / judged; None while the window holds no verdict."""
        return ratio(self.accepted, self.judged)

    @property
    def throughput(self) -> float | None:
        """Emitted tokens per second, from the start of the oldest round in the window to the end of the newest."""
        if not self._latest:
            return None
        newest = self._latest[-1]
        return ratio(self._emitted, (newest.started + newest.milliseconds.total - self._latest[0].started) / 1000)


def expected_emitted(alpha: float, gamma: int) -> float:
    """Returns the mean number of tokens that a round of gamma proposals emits if each is accepted with probability alpha: 1 +
    alpha + ... + alpha^gamma.

    Leviathan et al. 2023, equation 1, as a sum so that alpha = 1 needs no special case.
    """
    return math.fsum(min(max(alpha, 0.0), 1.0) ** power for power in range(gamma + 1))


def expected_lengths(alpha: float, gammas: Mapping[int, int]) -> tuple[float, ...]:
    """Returns the expected number of rounds that accept 0, 1, ... proposals, if each is accepted independently with probability
    alpha.

    A round of gamma proposals accepts k < gamma with probability alpha^k (1 - alpha), and all gamma with probability alpha^gamma.

    gammas: number of rounds, by number of proposals; rounds without proposals do not count.
    """
    result = [0.0] * (max(gammas, default=0) + 1)
    for gamma, many in gammas.items():
        if gamma:
            for length in range(gamma):
                result[length] += many * alpha**length * (1 - alpha)
            result[gamma] += many * alpha**gamma
    return tuple(result)


def wilson_interval(accepted: int, judged: int, deviations: float = NORMAL_95) -> tuple[float, float]:
    """Returns Wilson's score interval of a proportion, by default 95 %. `judged` must be above 0. (Wilson, JASA 22, 1927.)"""
    share = accepted / judged
    square = deviations**2 / judged
    centre = (share + square / 2) / (1 + square)
    reach = deviations * math.sqrt(share * (1 - share) / judged + square / (4 * judged)) / (1 + square)
    return max(0.0, centre - reach), min(1.0, centre + reach)


def violations(rounds: Iterable[Round | RoundCounts]) -> tuple[str, ...]:
    """Returns the identities of speculative decoding that the rounds violate, as sentences; none in a valid trace.

    Every proposal has one verdict; at most one is rejected, and in a chain only then later ones are unjudged; a round emits the
    accepted tokens and one more, or fewer if the answer ends. In a tree, parents come before their children, the accepted
    proposals are one path from the root, and the rejected one is the first choice at its end.
    """
    found: list[str] = []
    for round in rounds:
        entry = counts(round)
        if entry.proposals != entry.accepted + entry.rejected + entry.unjudged:
            found.append(f"Round {entry.index + 1}: {amount(entry.proposals, 'proposal')}, but not as many verdicts.")
        if entry.rejected > 1 or (entry.unjudged and not entry.rejected and entry.levels is None):
            found.append(f"Round {entry.index + 1}: {entry.rejected} rejected and {entry.unjudged} unjudged is impossible.")
        if entry.emitted > entry.accepted + 1 or (entry.finish is None and entry.emitted != entry.accepted + 1):
            found.append(f"Round {entry.index + 1}: {entry.accepted} accepted, but {entry.emitted} emitted.")
        if isinstance(round, Round) and any(proposal.status != "accepted" for proposal in round.proposals[: entry.accepted]):
            found.append(f"Round {entry.index + 1}: an accepted proposal comes after one that was not.")
        elif isinstance(round, Round) and round.is_tree and (wrong := _wrong_in_tree(round)):
            found.append(f"Round {entry.index + 1}: {wrong}.")
    return tuple(found)


def _wrong_in_tree(round: Round) -> str:
    """Returns what is impossible in a tree whose accepted proposals come first; empty if nothing is."""
    for at, proposal in enumerate(round.proposals):
        if proposal.parent is None or not -1 <= proposal.parent < at:
            return "a proposal comes before the one it follows"
        if proposal.status == "accepted" and proposal.parent != at - 1:
            return "the accepted proposals are not one path"
        if proposal.status == "rejected" and (at, proposal.parent, proposal.rank) != (round.accepted, round.accepted - 1, 0):
            return "the rejected proposal is not the first choice after the accepted ones"
    if not round.rejected and round.choices(round.accepted):
        return "nothing was rejected at the end of the path, although something was proposed there"
    if len({(proposal.parent, proposal.rank) for proposal in round.proposals}) < len(round.proposals):
        return "two proposals for one position have the same rank"
    return ""


def ratio(part: float, whole: float) -> float | None:
    """Returns the share of a part in a whole; None if the whole is 0, or so small that the share overflows."""
    share = part / whole if whole > 0 else math.inf
    return share if share < math.inf else None
