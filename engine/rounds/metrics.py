"""What a run's rounds add up to, in the words of speculative decoding.

Everything here is sums over rounds, so it is computed while the answer streams and costs the same per round however long
the answer gets. Nothing here imports MLX.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from engine.types import Finish, Milliseconds, Round, Rule
from engine.values.drafter_kinds import NO_DRAFTER
from engine.values.wording import amount

NORMAL_95 = 1.959963984540054
"""97.5 % of a standard normal variable lies below: half the width of a 95 % interval."""


@dataclass(frozen=True, slots=True)
class RoundCounts:
    """What the metrics need of a round; what the CSV export keeps of it."""

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


@dataclass(frozen=True, slots=True)
class PositionCounts:
    """Verdicts on the proposals that stood at one place of their rounds, 1 for the first.

    `conditional` is accepted / judged: the chance to be accepted once it is looked at. `unconditional` is accepted /
    proposed: the chance that this place is reached and accepted. Both None where nothing is known.
    """

    position: int
    proposed: int
    accepted: int
    rejected: int

    @property
    def conditional(self) -> float | None:
        """Accepted / judged: the chance to be accepted once it is looked at. None without a verdict."""
        return ratio(self.accepted, self.accepted + self.rejected)

    @property
    def unconditional(self) -> float | None:
        """Accepted / proposed: the chance that this place is reached and accepted. None without a proposal."""
        return ratio(self.accepted, self.proposed)


@dataclass(frozen=True, slots=True)
class TimeShares:
    """Shares of the time of the rounds that were evaluated in stages; they add up to 1."""

    draft: float
    verify: float
    judge: float
    other: float
    rounds: int
    communication: float | None = None
    """What of `verify` was waiting for other ranks; None where the target was not split."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A run in figures. What has no value yet is None: alpha before the first verdict, throughput before any time passed.

    Attributes:
        alpha: accepted / (accepted + rejected); under `block` it only describes, because the verdict is joint.
        alpha_low, alpha_high: Wilson's 95 % interval of alpha, as if verdicts were independent.
        draft_yield: accepted / proposals.
        tau: emitted / rounds.
        predicted_tau: mean over rounds of (1 - alpha^(gamma + 1)) / (1 - alpha), a plain round counting 1 and alpha being that of
            the rounds with the same rule and drafter. None without verdicts and as soon as `block` judged a round.
        seconds: from the end of reading the prompt to the end of the last round; of a stretch, from the start of its first round.
        throughput: emitted / seconds.
        shares: where the time went, from measured rounds only.
        by_position: verdicts by place in the round.
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


def counts(round: Round) -> RoundCounts:
    """The counts and times of a round."""
    return RoundCounts(
        index=round.index,
        drafter=round.drafter,
        rule=round.rule,
        proposals=len(round.proposals),
        accepted=round.accepted,
        rejected=round.rejected,
        unjudged=round.unjudged,
        emitted=len(round.emitted),
        started=round.started,
        milliseconds=round.milliseconds,
        finish=round.finish,
        proposer=round.proposer,
    )


def mean_expected(round: Round, rule: Rule) -> float | None:
    """The chance to accept that theory predicts for a rule of `EXPECTED_RULES`: the mean over the judged positions, if any."""
    return sum(getattr(place, rule) for place in round.expected) / len(round.expected) if round.expected else None


def summarise(rounds: Iterable[Round | RoundCounts]) -> Summary:
    """The figures of a whole answer."""
    totals = Totals()
    for round in rounds:
        totals.add(round)
    return totals.summary()


@dataclass(slots=True)
class _Verdicts:
    """Verdicts under one rule and drafter: what predictions are made of, because another rule or drafter has another alpha."""

    accepted: int = 0
    judged: int = 0
    gammas: Counter[int] = field(default_factory=Counter)


class Totals:
    """Running sums over rounds: `add` costs the same for every round, `summary` the same for every answer.

    Attributes:
        gammas: how many rounds had so many proposals.
        jointly_judged: whether `block` judged a proposal.
    """

    def __init__(self, began: float = 0.0) -> None:
        """`began`: when the time that counts begins, in milliseconds from the end of reading the prompt."""
        self._began = began
        self._verdicts: dict[tuple[Rule, str], _Verdicts] = {}
        self._rounds = self._emitted = self._proposals = self._accepted = self._rejected = self._unjudged = 0
        self.gammas: Counter[int] = Counter()
        self._proposed_at: Counter[int] = Counter()
        self._accepted_at: Counter[int] = Counter()
        self._rejected_at: Counter[int] = Counter()
        self.jointly_judged = False
        self._seconds = 0.0
        self._phases = [0.0, 0.0, 0.0, 0.0]
        self._communication: float | None = None
        self._measured = 0

    def add(self, round: Round | RoundCounts) -> None:
        """Count one round more. Verdicts stand in order: the accepted ones, at most one rejected, the unjudged."""
        entry = counts(round) if isinstance(round, Round) else round
        self._rounds += 1
        self._emitted += entry.emitted
        self._proposals += entry.proposals
        self._accepted += entry.accepted
        self._rejected += entry.rejected
        self._unjudged += entry.unjudged
        self.gammas[entry.proposals] += 1
        self._proposed_at.update(range(entry.proposals))
        self._accepted_at.update(range(entry.accepted))
        self._rejected_at.update(range(entry.accepted, entry.accepted + entry.rejected))
        self.jointly_judged = self.jointly_judged or (entry.rule == "block" and entry.proposals > 0)
        verdicts = self._verdicts.setdefault((entry.rule, entry.proposer or entry.drafter), _Verdicts())
        verdicts.accepted += entry.accepted
        verdicts.judged += entry.accepted + entry.rejected
        verdicts.gammas[entry.proposals] += 1
        times = entry.milliseconds
        self._seconds = (entry.started + times.total - self._began) / 1000
        if times.measured:
            self._measured += 1
            for place, value in enumerate((times.draft, times.verify, times.judge, times.other)):
                self._phases[place] += value or 0.0
            if times.communication is not None:
                self._communication = (self._communication or 0.0) + times.communication

    def summary(self) -> Summary:
        """The figures so far."""
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
        )

    @property
    def rounds(self) -> int:
        """How many rounds were counted."""
        return self._rounds

    @property
    def alpha(self) -> float | None:
        """Accepted / (accepted + rejected) so far, leaving out unjudged proposals; None without a verdict."""
        return ratio(self._accepted, self._accepted + self._rejected)

    @property
    def tau(self) -> float | None:
        """Emitted tokens / rounds so far, the target's own token of each round included; None before the first round."""
        return ratio(self._emitted, self._rounds)

    @property
    def predicted_tau(self) -> float | None:
        """The mean over rounds of `expected_emitted`, each rule and drafter by its own alpha; None without a verdict, and where
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
        """Rounds to expect per accepted length 0, 1, ..., each rule and drafter by its own alpha; none before a verdict or where
        verdicts were joint."""
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
        rule: in force; without a drafter nothing is judged by it, so that a change of rule begins no stretch there.
        totals: the sums of its rounds alone; their time begins with the first of them.
    """

    first: int
    rule: Rule
    drafter: str
    totals: Totals

    @property
    def summary(self) -> Summary:
        """The figures of its rounds so far."""
        return self.totals.summary()


class Stretches:
    """An answer in stretches, in order: `add` costs the same for every round."""

    def __init__(self) -> None:
        self.found: list[Stretch] = []

    def add(self, round: Round | RoundCounts) -> bool:
        """Count one round more; whether a stretch begins with it."""
        entry = counts(round) if isinstance(round, Round) else round
        newest = self.found[-1] if self.found else None
        begins = newest is None or newest.drafter != entry.drafter or (newest.rule != entry.rule and entry.drafter != NO_DRAFTER)
        if newest is None or begins:
            newest = Stretch(entry.index, entry.rule, entry.drafter, Totals(entry.started))
            self.found.append(newest)
        newest.totals.add(entry)
        return begins


def stretches(rounds: Iterable[Round | RoundCounts]) -> tuple[Stretch, ...]:
    """A whole answer in stretches, in order; none without rounds."""
    result = Stretches()
    for round in rounds:
        result.add(round)
    return tuple(result.found)


class Rolling:
    """Alpha and throughput over the latest rounds, for plots. `add` costs the same for every round.

    Attributes:
        accepted, judged: proposals in the window.
    """

    def __init__(self, window: int = 32) -> None:
        """`window`: how many of the latest rounds count."""
        if window < 1:
            raise ValueError(f"window must be at least 1, not {window}")
        self._latest: deque[RoundCounts] = deque()
        self._window = window
        self.accepted = self.judged = 0
        self._emitted = 0

    def add(self, round: Round | RoundCounts) -> None:
        """Count one round more and forget the one that left the window."""
        entry = counts(round) if isinstance(round, Round) else round
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
        """Emitted tokens a second, from the start of the oldest round in the window to the end of the newest."""
        if not self._latest:
            return None
        newest = self._latest[-1]
        return ratio(self._emitted, (newest.started + newest.milliseconds.total - self._latest[0].started) / 1000)


def expected_emitted(alpha: float, gamma: int) -> float:
    """Tokens a round of gamma proposals emits on average if each is accepted with chance alpha: 1 + alpha + ... + alpha^gamma.

    Leviathan et al. 2023, equation 1, as a sum so that alpha = 1 needs no special case.
    """
    return math.fsum(min(max(alpha, 0.0), 1.0) ** power for power in range(gamma + 1))


def expected_lengths(alpha: float, gammas: Mapping[int, int]) -> tuple[float, ...]:
    """Rounds to expect that accept 0, 1, ... proposals, if each proposal is accepted with chance alpha on its own.

    A round of gamma proposals accepts k < gamma with chance alpha^k (1 - alpha), and all gamma with chance alpha^gamma.

    gammas: how many rounds had so many proposals; those without any do not count.
    """
    result = [0.0] * (max(gammas, default=0) + 1)
    for gamma, many in gammas.items():
        if gamma:
            for length in range(gamma):
                result[length] += many * alpha**length * (1 - alpha)
            result[gamma] += many * alpha**gamma
    return tuple(result)


def wilson_interval(accepted: int, judged: int, deviations: float = NORMAL_95) -> tuple[float, float]:
    """Wilson's score interval of a proportion, 95 % unless told otherwise. `judged` is above 0. (Wilson, JASA 22, 1927.)"""
    share = accepted / judged
    square = deviations**2 / judged
    centre = (share + square / 2) / (1 + square)
    reach = deviations * math.sqrt(share * (1 - share) / judged + square / (4 * judged)) / (1 + square)
    return max(0.0, centre - reach), min(1.0, centre + reach)


def violations(rounds: Iterable[Round | RoundCounts]) -> tuple[str, ...]:
    """Which identities of speculative decoding the rounds break, as sentences; none in a sound trace.

    Every proposal has one verdict; at most one is rejected, and nothing is unjudged without it; a round emits what was
    accepted and one token more, less only where the answer ends.
    """
    found: list[str] = []
    for round in rounds:
        entry = counts(round) if isinstance(round, Round) else round
        if entry.proposals != entry.accepted + entry.rejected + entry.unjudged:
            found.append(f"Round {entry.index + 1}: {amount(entry.proposals, 'proposal')}, but not as many verdicts.")
        if entry.rejected > 1 or (entry.unjudged and not entry.rejected):
            found.append(f"Round {entry.index + 1}: {entry.rejected} rejected and {entry.unjudged} unjudged is impossible.")
        if entry.emitted > entry.accepted + 1 or (entry.finish is None and entry.emitted != entry.accepted + 1):
            found.append(f"Round {entry.index + 1}: {entry.accepted} accepted, but {entry.emitted} emitted.")
        if isinstance(round, Round) and any(proposal.status != "accepted" for proposal in round.proposals[: entry.accepted]):
            found.append(f"Round {entry.index + 1}: an accepted proposal comes after one that was not.")
    return tuple(found)


def ratio(part: float, whole: float) -> float | None:
    """The share of a part in a whole; None of nothing, and of so little that no number holds it."""
    share = part / whole if whole > 0 else math.inf
    return share if share < math.inf else None
