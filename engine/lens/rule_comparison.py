"""Expected acceptance of each rule at the same positions: shows the effect of changing the rule.

Every judged position carries the acceptance probability under match, gumbel and rejection in closed form (`Round.expected`),
whichever rule was in force. Over the positions that one rule and drafter reached, their means differ only because of the rules:
contexts and drafts are the same, so most of the noise between two separate answers is gone. Nothing here imports MLX.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.lens.shared_wording import RULE_TITLES, filter_words
from engine.lens.token_reasons import was_copied
from engine.rounds.metrics import NORMAL_95
from engine.types import EXPECTED_RULES, DecodingOptions, Expected, ExpectedRule, Proposal, Round, Rule
from engine.values.wording import amount

MIN_ROUNDS = 8
"""Minimum number of rounds for statements about differences: an interval from fewer is unreliable."""
BLOCK = 4
"""Number of token positions whose rounds, those of all compared answers, count as one cluster."""
ALIKE = 0.03
"""Rules are called alike if their means are within this distance."""
COLD = 0.3
"""Highest temperature at which most distributions put nearly all probability on one token."""
WARM = 0.8
"""Default temperature of answers, at which the rules visibly differ."""
_NARROW: dict[str, Callable[[float], bool]] = {
    "top_p": lambda mass: mass <= 0.5,
    "top_k": lambda tokens: tokens <= 5,
    "min_p": lambda share: share >= 0.3,
}
"""Predicates by filter: True for values that leave few tokens to choose from."""
_NEARLY_ONE = 0.95
_POSITIONS, _ACCEPTED = 0, 1 + len(EXPECTED_RULES)


@dataclass(frozen=True, slots=True)
class Interval:
    """A difference of two shares with its 95 % interval; `low` and `high` are None before the second round."""

    value: float
    low: float | None
    high: float | None

    @property
    def covers_zero(self) -> bool:
        """Whether the difference may be 0, or its interval is unknown."""
        return self.low is None or self.high is None or self.low <= 0 <= self.high


@dataclass(frozen=True, slots=True)
class RuleComparison:
    """Expected acceptance of each rule, and the observed acceptance, at the positions that one rule and drafter judged.

    Attributes:
        rule, drafter: rule and drafter of these rounds.
        rounds: number of rounds with at least one of the positions.
        positions: number of judged proposals that count; in a tree, of positions, where the drafter's first choice counts. Copied
            ones do not, because with q = 1 every rule accepts with probability p.
        copied: number of judged proposals that were copied.
        trees: whether any of them was a choice in a tree.
        all_copied: True if nothing was drawn; then the copied proposals count, because there are no others.
        expected: for each rule, the mean acceptance probability over the positions.
        accepted: accepted / positions, under any rule.
        observed: the same, comparable with the mean of the rule in force; None under block, which judges jointly.
        differences: for each other rule, its mean minus that of `reference`, paired position by position.
        observed_minus_expected: `observed` minus the mean of the rule in force; None under block.
    """

    rule: Rule
    drafter: str
    rounds: int
    positions: int
    copied: int
    all_copied: bool
    expected: dict[ExpectedRule, float]
    accepted: float
    observed: float | None
    differences: dict[ExpectedRule, Interval]
    observed_minus_expected: Interval | None
    trees: bool = False

    @property
    def reference(self) -> ExpectedRule:
        """The rule that the others are compared with: the one in force, or rejection if that is block."""
        return "rejection" if self.rule == "block" else self.rule

    @property
    def has_too_few_rounds(self) -> bool:
        """Whether there are too few rounds for statements about differences."""
        return self.rounds < MIN_ROUNDS

    @property
    def alike(self) -> bool:
        """Whether the three means are practically equal."""
        return max(self.expected.values()) - min(self.expected.values()) < ALIKE

    @property
    def significant_rules(self) -> tuple[ExpectedRule, ...]:
        """The other rules that differ significantly from `reference`."""
        return () if self.has_too_few_rounds else tuple(rule for rule, gap in self.differences.items() if not gap.covers_zero)


@dataclass(frozen=True, slots=True)
class PairedAcceptance:
    """Expected acceptance of the rules at all positions that several answers judged.

    Attributes:
        blocks: number of blocks of `BLOCK` tokens with at least one of the positions.
        positions: as in `RuleComparison`, over all answers.
        expected: for each rule, the mean acceptance probability over the positions.
        differences: for each rule but `reference`, its mean minus that of `reference`, paired position by position.
    """

    reference: ExpectedRule
    blocks: int
    positions: int
    expected: dict[ExpectedRule, float]
    differences: dict[ExpectedRule, Interval]

    @property
    def has_too_few_blocks(self) -> bool:
        """Whether there are too few blocks for statements about differences."""
        return self.blocks < MIN_ROUNDS


class _Sums:
    """Sums over the rounds under one rule and drafter, and the sums of all products, from which every interval is computed.

    The row of a round is a vector: number of positions, sum of each rule's acceptance probabilities, number of accepted
    proposals.
    """

    def __init__(self) -> None:
        self.rounds = 0
        self._sums: NDArray[np.float64] = np.zeros(_ACCEPTED + 1)
        self._products: NDArray[np.float64] = np.zeros((_ACCEPTED + 1, _ACCEPTED + 1))
        self._new: list[list[float]] = []  # added in batches, because making an array costs more than adding a row

    def add(self, row: list[float]) -> None:
        """Adds the row of one round."""
        self.rounds += 1
        self._new.append(row)

    @property
    def sums(self) -> NDArray[np.float64]:
        """Sum of all rows."""
        self._accumulate()
        return self._sums

    @property
    def products(self) -> NDArray[np.float64]:
        """Sum of the outer products of the rows."""
        self._accumulate()
        return self._products

    @property
    def expected(self) -> dict[ExpectedRule, float]:
        """Mean acceptance probability of each rule over the positions."""
        positions = float(self.sums[_POSITIONS])
        return {name: float(self.sums[index]) / positions for index, name in enumerate(EXPECTED_RULES, start=1)}

    def differences(self, reference: ExpectedRule) -> dict[ExpectedRule, Interval]:
        """Mean of each other rule minus that of `reference`, with its interval."""
        base = 1 + EXPECTED_RULES.index(reference)
        indices = {name: index for index, name in enumerate(EXPECTED_RULES, start=1) if index != base}
        return {name: self.interval(_difference(index, base)) for name, index in indices.items()}

    def _accumulate(self) -> None:
        if self._new:
            rows = np.array(self._new)
            self._sums += rows.sum(axis=0)
            self._products += rows.T @ rows
            self._new.clear()

    def interval(self, weights: NDArray[np.float64]) -> Interval:
        """Returns the share sum(weights . row) / positions, with the delta method's interval for means of clusters.

        Rounds are the clusters: positions of one round depend on each other, and a round ends with its first rejection, so that
        even their number is random. The residual of a round is its weighted sum minus the share times its positions. The squares
        of the residuals give the variance (Cochran, Sampling Techniques, 1977, section 6.3, with k / (k - 1) for k rounds), and
        Student's t with k - 1 degrees gives the width. Rounds are treated as independent.
        """
        positions = self.sums[_POSITIONS]
        share = float(weights @ self.sums / positions)
        if self.rounds < 2:
            return Interval(share, None, None)
        residual = weights.copy()
        residual[_POSITIONS] -= share
        spread = max(0.0, float(residual @ self.products @ residual)) * self.rounds / (self.rounds - 1)
        half_width = student_95(self.rounds - 1) * math.sqrt(spread) / float(positions)
        return Interval(share, share - half_width, share + half_width)


class RuleComparisons:
    """Comparisons for each rule and drafter of one answer. `add` and `newest` take constant time per round."""

    def __init__(self) -> None:
        self._drawn: dict[tuple[Rule, str], _Sums] = {}
        self._copied: dict[tuple[Rule, str], _Sums] = {}
        self._trees: set[tuple[Rule, str]] = set()
        self._blocks: dict[int, NDArray[np.float64]] = {}
        self._newest: tuple[Rule, str] | None = None

    @classmethod
    def of(cls, rounds: Iterable[Round]) -> RuleComparisons:
        """Returns the comparisons of a whole answer."""
        result = cls()
        for round_ in rounds:
            result.add(round_)
        return result

    def add(self, round_: Round) -> None:
        """Adds one round; one without proposals or analysis only updates the rule and drafter in force."""
        self._newest = (round_.rule, round_.drafter)
        drawn, copied = [0.0] * (_ACCEPTED + 1), [0.0] * (_ACCEPTED + 1)
        if round_.is_tree and round_.expected:
            self._trees.add(self._newest)
        for place, expected in enumerate(round_.expected[: len(round_.proposals)]):  # unjudged proposals have no entry
            first = first_choice(round_, place)
            is_copied = was_copied(round_, first)
            if is_copied and round_.is_tree and first.p is not None:  # what is recorded is about the drawn choices beside it
                expected = Expected(first.p, first.p, first.p)
            row = copied if is_copied else drawn
            entries = (1, expected.match, expected.gumbel, expected.rejection, first.status == "accepted")
            for column, entry in enumerate(entries):
                row[column] += entry
        for row, groups in ((drawn, self._drawn), (copied, self._copied)):
            if row[_POSITIONS]:
                groups.setdefault(self._newest, _Sums()).add(row)
        if drawn[_POSITIONS]:
            block = round_.position // BLOCK
            self._blocks[block] = self._blocks.get(block, np.zeros(len(drawn))) + np.array(drawn)

    @property
    def blocks(self) -> Mapping[int, NDArray[np.float64]]:
        """The sums of the rows of drawn proposals, as in `_Sums`, by block of `BLOCK` token positions."""
        return self._blocks

    @property
    def newest(self) -> RuleComparison | None:
        """Comparison under the rule and drafter of the newest round; None if they have not judged anything yet."""
        return None if self._newest is None else self._under(*self._newest)

    @property
    def all(self) -> tuple[RuleComparison, ...]:
        """Comparisons under each rule and drafter that judged something, in the order in which they came into force."""
        found = (self._under(*key) for key in dict.fromkeys((*self._drawn, *self._copied)))
        return tuple(comparison for comparison in found if comparison is not None)

    def _under(self, rule: Rule, drafter: str) -> RuleComparison | None:
        drawn, copied = self._drawn.get((rule, drafter)), self._copied.get((rule, drafter))
        sums = drawn or copied
        if sums is None:
            return None
        positions = sums.sums[_POSITIONS]
        reference: ExpectedRule = "rejection" if rule == "block" else rule
        accepted = float(sums.sums[_ACCEPTED] / positions)
        observed = None if rule == "block" else accepted
        return RuleComparison(
            rule=rule,
            drafter=drafter,
            rounds=sums.rounds,
            positions=round(positions),
            copied=0 if copied is None else round(copied.sums[_POSITIONS]),
            all_copied=drawn is None,
            expected=sums.expected,
            accepted=accepted,
            observed=observed,
            differences=sums.differences(reference),
            observed_minus_expected=(
                None if observed is None else sums.interval(_difference(_ACCEPTED, 1 + EXPECTED_RULES.index(reference)))
            ),
            trees=(rule, drafter) in self._trees,
        )


def paired_acceptance(answers: Iterable[RuleComparisons], reference: ExpectedRule) -> PairedAcceptance | None:
    """Returns the rules' expected acceptance at the positions of all answers to one prompt together, whichever rule was in force
    there. Copied proposals do not count. None before the first position.

    Answers may share their text, and with it the target's distributions, so rounds of different answers are not independent. The
    clusters of the intervals are therefore blocks of token positions, across all answers.
    """
    rows: dict[int, NDArray[np.float64]] = {}
    for answer in answers:
        for block, row in answer.blocks.items():
            rows[block] = rows[block] + row if block in rows else row
    sums = _Sums()
    for row in rows.values():
        sums.add(list(row))
    if not rows:
        return None
    return PairedAcceptance(reference, len(rows), round(sums.sums[_POSITIONS]), sums.expected, sums.differences(reference))


def first_choice(round_: Round, place: int) -> Proposal:
    """Returns the drafter's first choice at a judged position, which is what the closed forms are about: in a chain the proposal,
    in a tree perhaps one that was passed over."""
    choices = round_.choices(place)
    return choices[0] if choices else round_.proposals[place]


def _difference(one: int, other: int) -> NDArray[np.float64]:
    weights = np.zeros(_ACCEPTED + 1)
    weights[one], weights[other] = 1.0, -1.0
    return weights


def student_95(degrees: int) -> float:
    """Returns the 97.5 % quantile of Student's t; off by at most 0.5 % from 4 degrees of freedom on, too small below.

    Uses the expansion in 1 / freedom (Abramowitz and Stegun 26.7.5), because the program does without scipy.
    """
    z = NORMAL_95
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / degrees**power for power, term in enumerate(terms))


# Wording


def share(value: float) -> str:
    """Returns a share for running text: 45%."""
    return f"{value:.0%}"


def positions_words(comparison: RuleComparison) -> str:
    """Returns the number of judged tokens that count: "42 judged tokens", or "42 first choices" if trees were drafted."""
    many = amount(comparison.positions, "first choice" if comparison.trees else "judged token")
    return f"{many} ({'all ' * (comparison.positions != 1)}copied)" if comparison.all_copied else many


def _not_counted(comparison: RuleComparison) -> str:
    """Returns a sentence on the copied tokens, which every rule accepts alike; "" without any."""
    if comparison.all_copied or not comparison.copied:
        return ""
    return f" {amount(comparison.copied, 'copied token')} not counted."


def comparison_sentence(comparison: RuleComparison) -> str:
    """Returns all figures in one or two sentences."""
    expected = " · ".join(f"{RULE_TITLES[rule]} {share(value)}" for rule, value in comparison.expected.items())
    joint = "" if comparison.observed is not None else ", which judges jointly and has no expected value,"
    observed = f"{RULE_TITLES[comparison.rule]}{joint} accepted {share(comparison.accepted)}"
    return f"Expected of {positions_words(comparison)}: {expected}; {observed}.{_not_counted(comparison)}"


def observed_words(comparison: RuleComparison) -> str:
    """Returns expected and observed acceptance under the rule in force, with the number of positions, in words."""
    title, positions = RULE_TITLES[comparison.rule], positions_words(comparison)
    if comparison.observed is None:
        joint = "It judges jointly and has no expected value."
        return f"{title} accepted {share(comparison.accepted)} of {positions}. {joint}{_not_counted(comparison)}"
    expected, observed = share(comparison.expected[comparison.reference]), share(comparison.observed)
    return f"{title} accepted {observed} of {positions} (expected {expected}).{_not_counted(comparison)}"


def difference_sentence(comparison: RuleComparison, intervals: bool = True) -> str:
    """Returns how much more or less the other rules accept of the same proposals, as far as the differences are significant."""
    if comparison.has_too_few_rounds:
        return f"Collecting data: {comparison.rounds} of {MIN_ROUNDS} rounds."
    significant = comparison.significant_rules
    parts = [_difference_words(rule, comparison.differences[rule], intervals) for rule in significant]
    unknown = " and ".join(RULE_TITLES[rule] for rule in comparison.differences if rule not in significant)
    reference = RULE_TITLES[comparison.reference]
    what = "first choices" if comparison.trees else "proposals"
    finding = f"Of the same {what}, {' and '.join(parts)} than {reference}." if parts else ""
    return f"{finding} Too few rounds to tell {unknown} from {reference}.".strip() if unknown else finding


def _difference_words(rule: ExpectedRule, interval: Interval, intervals: bool) -> str:
    ends = sorted(abs(end) for end in (interval.low, interval.high) if end is not None)
    range_ = f" ({100 * ends[0]:.0f} to {100 * ends[1]:.0f})" if intervals else ""
    return (
        f"{RULE_TITLES[rule]} accepts {100 * abs(interval.value):.0f} points {'more' if interval.value > 0 else 'less'}{range_}"
    )


def similarity_reason(comparison: RuleComparison, options: DecodingOptions) -> str:
    """Returns why the three means are practically equal; empty if they are not, or if there are too few rounds to say so."""
    if comparison.all_copied:
        return "Every proposal was copied from the text (q = 1), so every rule accepts it with the same probability p."
    if not comparison.alike or (comparison.has_too_few_rounds and options.temperature > 0):
        return ""
    reasons = [*_sampling_reasons(options)]
    if not reasons and min(comparison.expected.values()) >= _NEARLY_ONE:
        reasons.append("drafter and target are nearly identical, or both nearly certain")
    if not reasons and max(comparison.expected.values()) <= ALIKE:
        reasons.append("the drafter hardly ever proposes what the target would say")
    if not reasons:
        reasons.append("where both models are nearly certain, every rule accepts or rejects alike")
    return f"Hardly any difference: {reasons[0]}."


def warmer_would_help(comparison: RuleComparison, options: DecodingOptions) -> bool:
    """Returns whether a higher temperature is likely to show a difference that is not visible now."""
    return rules_nearly_coincide(options) and comparison.alike and not comparison.all_copied


def rules_nearly_coincide(options: DecodingOptions) -> bool:
    """Returns whether the rules accept nearly the same because of the temperature, and no filter narrows the choice as well."""
    return options.temperature <= COLD and not any(_filter_reasons(options.replace(temperature=WARM)))


def _sampling_reasons(options: DecodingOptions) -> Iterable[str]:
    if options.temperature == 0:
        yield "at temperature 0 every rule accepts only the target's most likely token"
    elif options.temperature <= COLD:
        yield f"at temperature {options.temperature:g} each model gives one token nearly all the probability"
    yield from _filter_reasons(options)


def _filter_reasons(options: DecodingOptions) -> Sequence[str]:
    narrow = [words for name, words in filter_words(options).items() if name in _NARROW and _NARROW[name](getattr(options, name))]
    return [f"{' and '.join(narrow)} leave{'s' * (len(narrow) == 1)} few tokens to choose from"] if narrow else []
