"""What each rule was to accept at the same positions: the comparison that a change of rule is made to show.

Every judged position carries the acceptance probability under match, gumbel and rejection in closed form (`Round.expected`),
whichever rule was in force. Their means over the positions that one rule and drafter reached differ by the rules alone: same
contexts, same drafts, so most of the noise of two separate answers is gone. Nothing here imports MLX.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.lens.shared_wording import RULE_TITLES, filter_words
from engine.lens.token_reasons import was_copied
from engine.rounds.metrics import NORMAL_95
from engine.types import EXPECTED_RULES, DecodingOptions, ExpectedRule, Round, Rule
from engine.values.wording import amount

FEWEST_ROUNDS = 8
"""With fewer rounds nothing is said of differences: an interval from so few is not worth its name."""
ALIKE = 0.03
"""Rules whose means lie within this are as good as the same."""
COLD = 0.3
"""At temperatures up to this one most distributions have all but one token's probability near 0."""
WARM = 0.8
"""The temperature at which to see the rules differ: the one that answers have unless told otherwise."""
_NARROW: dict[str, Callable[[float], bool]] = {
    "top_p": lambda mass: mass <= 0.5,
    "top_k": lambda tokens: tokens <= 5,
    "min_p": lambda share: share >= 0.3,
}
"""Which values of a filter that is on leave few tokens to choose from."""
_NEARLY_ONE = 0.95
_POSITIONS, _ACCEPTED = 0, 1 + len(EXPECTED_RULES)


@dataclass(frozen=True, slots=True)
class Interval:
    """A difference of two shares and the ends of its 95 % interval; `low` and `high` are None before the second round."""

    value: float
    low: float | None
    high: float | None

    @property
    def covers_zero(self) -> bool:
        """Whether there may be no difference at all; also where the interval is not known."""
        return self.low is None or self.high is None or self.low <= 0 <= self.high


@dataclass(frozen=True, slots=True)
class RuleComparison:
    """What the rules were to accept, and what was accepted, at the positions that one rule and drafter judged.

    Attributes:
        rule, drafter: in force in these rounds.
        rounds: rounds with at least one of the positions.
        positions: judged proposals that count. Copied ones do not, because with q = 1 every rule accepts with probability p.
        copied: judged proposals that were copied.
        all_copied: nothing was drawn: the copied proposals are all there is to show, and count.
        expected: per rule the mean acceptance probability over the positions.
        accepted: accepted / positions, under any rule.
        happened: the same, to be compared with the mean of the rule in force; None under block, which judges jointly.
        differences: per other rule its mean less that of `reference`, paired position by position.
        surprise: `happened` less the mean of the rule in force; None under block.
    """

    rule: Rule
    drafter: str
    rounds: int
    positions: int
    copied: int
    all_copied: bool
    expected: dict[ExpectedRule, float]
    accepted: float
    happened: float | None
    differences: dict[ExpectedRule, Interval]
    surprise: Interval | None

    @property
    def reference(self) -> ExpectedRule:
        """The rule that the others are compared with: the one in force, or rejection in place of block."""
        return "rejection" if self.rule == "block" else self.rule

    @property
    def too_few(self) -> bool:
        """Whether there are too few rounds to say anything of differences."""
        return self.rounds < FEWEST_ROUNDS

    @property
    def alike(self) -> bool:
        """Whether the three means are as good as the same."""
        return max(self.expected.values()) - min(self.expected.values()) < ALIKE

    @property
    def clear(self) -> tuple[ExpectedRule, ...]:
        """The other rules whose difference from `reference` can be told from 0."""
        return () if self.too_few else tuple(rule for rule, found in self.differences.items() if not found.covers_zero)


class _Sums:
    """Sums over the rounds under one rule and drafter, and the sums of all products, from which every interval follows.

    A round is a vector: its positions, what each rule was to accept of them, and what was accepted.
    """

    def __init__(self) -> None:
        self.rounds = 0
        self._sums: NDArray[np.float64] = np.zeros(_ACCEPTED + 1)
        self._products: NDArray[np.float64] = np.zeros((_ACCEPTED + 1, _ACCEPTED + 1))
        self._new: list[list[float]] = []  # many rounds at once cost little more than one: arrays are slow to make

    def add(self, row: list[float]) -> None:
        """Count the row of one round more."""
        self.rounds += 1
        self._new.append(row)

    @property
    def sums(self) -> NDArray[np.float64]:
        """The sum of all rows."""
        self._take_in()
        return self._sums

    @property
    def products(self) -> NDArray[np.float64]:
        """The sum of the products of every two entries of a row."""
        self._take_in()
        return self._products

    def _take_in(self) -> None:
        if self._new:
            rows = np.array(self._new)
            self._sums += rows.sum(axis=0)
            self._products += rows.T @ rows
            self._new.clear()

    def interval(self, weights: NDArray[np.float64]) -> Interval:
        """The share sum(weights . row) / positions, with the delta method's interval for means of clusters.

        Rounds are the clusters: positions of one round depend on each other, and a round ends with its first rejection, so that
        not even their number is fixed. The residual of a round is its weighted sum less the share times its positions; their
        squares give the variance (Cochran, Sampling Techniques, 1977, section 6.3, with k / (k - 1) for k rounds), and Student's
        t with k - 1 degrees the width. Rounds count as independent of each other.
        """
        positions = self.sums[_POSITIONS]
        share = float(weights @ self.sums / positions)
        if self.rounds < 2:
            return Interval(share, None, None)
        residual = weights.copy()
        residual[_POSITIONS] -= share
        spread = max(0.0, float(residual @ self.products @ residual)) * self.rounds / (self.rounds - 1)
        reach = student_95(self.rounds - 1) * math.sqrt(spread) / float(positions)
        return Interval(share, share - reach, share + reach)


class RuleComparisons:
    """The comparison under each rule and drafter of one answer. `add` and `newest` cost the same for every round."""

    def __init__(self) -> None:
        self._drawn: dict[tuple[Rule, str], _Sums] = {}
        self._copied: dict[tuple[Rule, str], _Sums] = {}
        self._newest: tuple[Rule, str] | None = None

    @classmethod
    def of(cls, rounds: Iterable[Round]) -> RuleComparisons:
        """The comparisons of a whole answer."""
        result = cls()
        for round_ in rounds:
            result.add(round_)
        return result

    def add(self, round_: Round) -> None:
        """Count one round more; one without proposals or analysis changes nothing but the rule and drafter in force."""
        self._newest = (round_.rule, round_.drafter)
        drawn, copied = [0.0] * (_ACCEPTED + 1), [0.0] * (_ACCEPTED + 1)
        for proposal, expected in zip(round_.proposals, round_.expected, strict=False):  # the unjudged have none
            row = copied if was_copied(round_, proposal) else drawn
            entries = (1, expected.match, expected.gumbel, expected.rejection, proposal.status == "accepted")
            for place, entry in enumerate(entries):
                row[place] += entry
        for row, groups in ((drawn, self._drawn), (copied, self._copied)):
            if row[_POSITIONS]:
                groups.setdefault(self._newest, _Sums()).add(row)

    @property
    def newest(self) -> RuleComparison | None:
        """Under the rule and drafter of the newest round; None where nothing of theirs was judged yet."""
        return None if self._newest is None else self._under(*self._newest)

    @property
    def all(self) -> tuple[RuleComparison, ...]:
        """Under each rule and drafter that judged something, in the order in which they came into force."""
        found = (self._under(*key) for key in dict.fromkeys((*self._drawn, *self._copied)))
        return tuple(comparison for comparison in found if comparison is not None)

    def _under(self, rule: Rule, drafter: str) -> RuleComparison | None:
        drawn, copied = self._drawn.get((rule, drafter)), self._copied.get((rule, drafter))
        sums = drawn or copied
        if sums is None:
            return None
        positions = sums.sums[_POSITIONS]
        expected = {name: float(sums.sums[index]) / float(positions) for index, name in enumerate(EXPECTED_RULES, start=1)}
        reference = 1 + EXPECTED_RULES.index("rejection" if rule == "block" else rule)
        accepted = float(sums.sums[_ACCEPTED] / positions)
        happened = None if rule == "block" else accepted
        return RuleComparison(
            rule=rule,
            drafter=drafter,
            rounds=sums.rounds,
            positions=round(positions),
            copied=0 if copied is None else round(copied.sums[_POSITIONS]),
            all_copied=drawn is None,
            expected=expected,
            accepted=accepted,
            happened=happened,
            differences={
                name: sums.interval(_difference(index, reference))
                for index, name in enumerate(EXPECTED_RULES, start=1)
                if index != reference
            },
            surprise=None if happened is None else sums.interval(_difference(_ACCEPTED, reference)),
        )


def _difference(one: int, other: int) -> NDArray[np.float64]:
    weights = np.zeros(_ACCEPTED + 1)
    weights[one], weights[other] = 1.0, -1.0
    return weights


def student_95(freedom: int) -> float:
    """97.5 % of Student's t with so many degrees of freedom lie below; off by at most 0.5 % from 4 degrees on, too narrow below.

    By the expansion in 1 / freedom (Abramowitz and Stegun 26.7.5), because the program does without scipy.
    """
    z = NORMAL_95
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / freedom**power for power, term in enumerate(terms))


# In words


def share(value: float) -> str:
    """A share as it stands in running text: .45, and 1.00 for all."""
    words = f"{value:.2f}"
    return words[1:] if words.startswith("0.") else words


def positions_words(comparison: RuleComparison) -> str:
    """How many judged positions count, and how many were copied."""
    many = amount(comparison.positions, "judged position")
    if comparison.all_copied:
        return f"{many}, {'all ' * (comparison.positions != 1)}copied"
    copied = amount(comparison.copied, "copied one")
    return f"{many}, plus {copied} that every rule accepts alike" if comparison.copied else many


def comparison_sentence(comparison: RuleComparison) -> str:
    """All figures in one sentence."""
    expected = " · ".join(f"{RULE_TITLES[rule]} {share(value)}" for rule, value in comparison.expected.items())
    happened = f"{share(comparison.accepted)} happened under {RULE_TITLES[comparison.rule]}"
    joint = "" if comparison.happened is not None else ", which judges jointly, so nothing is expected of it"
    return f"At {positions_words(comparison)}: {expected} expected; {happened}{joint}."


def happened_words(comparison: RuleComparison) -> str:
    """What the rule in force was to accept and did, and at how many positions."""
    title, where = RULE_TITLES[comparison.rule], positions_words(comparison)
    if comparison.happened is None:
        return f"{title}: {share(comparison.accepted)} happened at {where}. It judges jointly, so nothing is expected of it."
    expected, happened = share(comparison.expected[comparison.reference]), share(comparison.happened)
    return f"{title}: {expected} expected, {happened} happened at {where}."


def difference_sentence(comparison: RuleComparison, intervals: bool = True) -> str:
    """How much more or less the other rules accept of the same proposals, as far as that can be told."""
    if comparison.too_few:
        return f"Too few rounds to tell the rules apart: {comparison.rounds} of {FEWEST_ROUNDS}."
    known = comparison.clear
    parts = [_difference_words(rule, comparison.differences[rule], intervals) for rule in known]
    unknown = " and ".join(RULE_TITLES[rule] for rule in comparison.differences if rule not in known)
    reference = RULE_TITLES[comparison.reference]
    told = f"Of the same proposals, {' and '.join(parts)} than {reference}." if parts else ""
    return f"{told} Too few rounds to tell {unknown} from {reference}.".strip() if unknown else told


def _difference_words(rule: ExpectedRule, found: Interval, intervals: bool) -> str:
    ends = sorted(abs(end) for end in (found.low, found.high) if end is not None)
    range_ = f" ({share(ends[0])} to {share(ends[1])})" if intervals else ""
    return f"{RULE_TITLES[rule]} accepts {share(abs(found.value))} {'more' if found.value > 0 else 'less'}{range_}"


def likeness(comparison: RuleComparison, options: DecodingOptions) -> str:
    """Why the three means are as good as the same; empty where they are not, or where that cannot be said yet."""
    if comparison.all_copied:
        return "Every proposal was copied from the text (q = 1), so every rule accepts it with the same probability p."
    if not comparison.alike or (comparison.too_few and options.temperature > 0):
        return ""
    reasons = [*_sampling_reasons(options)]
    if not reasons and min(comparison.expected.values()) >= _NEARLY_ONE:
        reasons.append("drafter and target are nearly identical, or both nearly certain")
    if not reasons and max(comparison.expected.values()) <= ALIKE:
        reasons.append("the drafter hardly ever proposes what the target would say")
    if not reasons:
        reasons.append("where both models are nearly certain, every rule accepts or rejects alike")
    return f"Hardly any difference: {reasons[0]}."


def helps_to_warm(comparison: RuleComparison, options: DecodingOptions) -> bool:
    """Whether a higher temperature is likely to show a difference that is not seen now."""
    cold = options.temperature <= COLD and not any(_filter_reasons(options.replace(temperature=WARM)))
    return cold and comparison.alike and not comparison.all_copied


def _sampling_reasons(options: DecodingOptions) -> Iterable[str]:
    if options.temperature == 0:
        yield "at temperature 0 every rule accepts only the target's most likely token"
    elif options.temperature <= COLD:
        yield f"at temperature {options.temperature:g} each model gives one token nearly all the probability"
    yield from _filter_reasons(options)


def _filter_reasons(options: DecodingOptions) -> Sequence[str]:
    narrow = [words for name, words in filter_words(options).items() if name in _NARROW and _NARROW[name](getattr(options, name))]
    return [f"{' and '.join(narrow)} leave{'s' * (len(narrow) == 1)} few tokens to choose from"] if narrow else []
