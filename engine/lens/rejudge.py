"""Judges a recorded answer again under another rule or with shorter drafts, from its trace alone: nothing is decoded.

The recorded rows of p and q belong to one text. So another rule can judge each round in the context that the round had, up to the
first position where it would have left that context:

- `rejection` judges the proposals that were made: their p and q are recorded, and its coin at a position of a round is a function
of the seed (`engine.noise.reference.coin`). Coins are independent of every draw, so this is rejection's verdict on these
proposals. If gumbel judged the round, rejection would have drawn other proposals.
- `match` and `gumbel` compare the target's draw with the drafter's. Both are functions of the seed and of the recorded rows, and
newer traces hold them (`Proposal.target_draw`, `coupled_draw`, `independent_draw`). The target's draws are also the text that the
two rules would emit.

After a proposal that the other rule rejects, or would not have made, nothing is known about the round. If the other rule accepts
a proposal that was rejected, it can judge the following ones as far as their p is recorded.

The rounds of a whole answer follow only if the text stays the same and each position's draws do not depend on where its round
began. That holds under gumbel, whose draws are keyed by position alone, with a draft model, whose q depends on the text alone
(`Recut`). Under match the drafter's noise is also keyed by the round's first position: rounds that begin elsewhere have other
drafts, so the result is known only until the first round begins elsewhere.

No MLX, no Qt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from engine.lens.pieces import Spot
from engine.lens.shared_wording import RULE_TITLES
from engine.lens.token_reasons import was_copied
from engine.noise import reference as noise_reference
from engine.types import INVARIANT_RULES, DecodingOptions, Expected, ExpectedRule, Proposal, Round, Rule, Status
from engine.values.drafter_kinds import drafter_kind
from engine.values.errors import DraftlightError
from engine.values.wording import amount

Change = Literal["", "accepts", "rejects", "proposes another"]
"""The other rule's departure from the record at a proposal: none; it accepts a rejected one; it rejects an accepted one; it would
have proposed another token."""

JUDGED_AGAIN: tuple[ExpectedRule, ...] = ("match", "rejection", "gumbel")
"""The rules that can judge a record again, in the order in which they are offered: those that judge one position at a time."""
TREE = (
    "This answer was drafted as trees, with several choices for a position. A trace does not hold the draws that another rule "
    "would have made for each branch, so the answer cannot be judged again."
)
"""Why a tree is not judged again."""
_TEXT_DIFFERS = "Under {rule} the text itself depends on the drafts, so rounds that begin elsewhere go on with another text."
CLOSE = 1e-4
"""Relative distance of a coin from p/q below which the verdict is unknown: the recorded p and q are rounded differently from
those that the engine compared."""


@dataclass(frozen=True, slots=True)
class TokenVerdict:
    """Verdict of the other rule at one proposal's position.

    Attributes:
        spot: the recorded proposal; status: its recorded status.
        proposed: id of the token that the rule would have proposed here.
        accepted: whether the rule accepts that token.
        change: how that differs from the record. An unjudged proposal has no recorded verdict, so it does not differ.
        drawn: id that the target draws here, under match and gumbel: the token in the text. None under rejection.
        p, q, coin: the numbers that rejection compares: it accepts if the coin is below p/q. p and q are those of the recorded
            proposal; the coin is None under the other rules.
        expected: the closed-form acceptance probabilities at this position, if recorded.
    """

    spot: Spot
    status: Status
    proposed: int
    accepted: bool
    change: Change = ""
    drawn: int | None = None
    p: float | None = None
    q: float | None = None
    coin: float | None = None
    expected: Expected | None = None

    @property
    def ratio(self) -> float | None:
        """p/q of the recorded proposal; None if p or q is unknown or q is 0."""
        return self.p / self.q if self.p is not None and self.q else None


@dataclass(frozen=True, slots=True)
class RoundVerdict:
    """Verdict of the other rule on one round.

    Attributes:
        verdicts: from the first proposal on, as far as they are known.
        complete: whether it is known how many proposals of the round the rule accepts.
    """

    round: int
    verdicts: tuple[TokenVerdict, ...]
    complete: bool

    @property
    def kept(self) -> int:
        """Number of proposals that the rule accepts, as far as known."""
        return sum(verdict.accepted for verdict in self.verdicts)

    @property
    def change(self) -> TokenVerdict | None:
        """The first departure of the rule from the record. There is at most one, because nothing is known after it."""
        return next((verdict for verdict in self.verdicts if verdict.change), None)


@dataclass(frozen=True, slots=True)
class RejudgeCounts:
    """Sums over the rounds that were judged again.

    Attributes:
        rounds: rounds with proposals, without trees; complete: those of them for which the number of accepted proposals is known.
        kept, was_kept: accepted proposals in the complete rounds, by the other rule and in the record, among those that are
            judged again.
        accepted: accepted proposals in the record, in all rounds and at any position.
        positions: number of judged positions with a known verdict.
        accepts, rejects, others: how often the rule accepts a rejected proposal, rejects an accepted one, proposes another token.
        others_kept: number of those other tokens that it accepts.
        unjudged: number of proposals without a recorded verdict on which the other rule has one.
        missing: number of rounds without any known verdict, because the trace lacks the draws.
    """

    rounds: int = 0
    complete: int = 0
    kept: int = 0
    was_kept: int = 0
    accepted: int = 0
    positions: int = 0
    accepts: int = 0
    rejects: int = 0
    others: int = 0
    others_kept: int = 0
    unjudged: int = 0
    missing: int = 0

    @property
    def changes(self) -> int:
        """Number of rounds in which the rule departs from the record."""
        return self.accepts + self.rejects + self.others

    def plus(self, round_: Round, verdict: RoundVerdict, gamma: int | None) -> RejudgeCounts:
        """Returns the sums with one more round."""
        if not round_.proposals or round_.is_tree:
            return self
        change = verdict.change
        judged = sum(token_verdict.status != "unjudged" for token_verdict in verdict.verdicts)
        recorded = min(round_.accepted, gamma or round_.accepted)
        return RejudgeCounts(
            self.rounds + 1,
            self.complete + verdict.complete,
            self.kept + (verdict.kept if verdict.complete else 0),
            self.was_kept + (recorded if verdict.complete else 0),
            self.accepted + round_.accepted,
            self.positions + judged,
            self.accepts + (change is not None and change.change == "accepts"),
            self.rejects + (change is not None and change.change == "rejects"),
            self.others + (change is not None and change.change == "proposes another"),
            self.others_kept + (change is not None and change.change == "proposes another" and change.accepted),
            self.unjudged + len(verdict.verdicts) - judged,
            self.missing + (not verdict.verdicts),
        )


@dataclass(frozen=True, slots=True)
class Cut:
    """A round that decoding with the other rule and gamma would have produced.

    Attributes:
        position: absolute index of its first token.
        accepted: number of accepted proposals. ids: its tokens, one more than that.
    """

    position: int
    accepted: int
    ids: tuple[int, ...]


class Recut:
    """The rounds that decoding the same seed with another gamma would have produced, as far as they are known. Takes the recorded
    rounds one by one, in time proportional to their tokens.

    Under match and gumbel the text is determined by the seed, so only the beginnings of the rounds change. Whether the drafter's
    draw at a position equals the text is recorded for judged proposals, but not for a bonus token, where nothing was proposed.
    After a bonus token it is unknown which proposal of its round a token is, until a draw that differs from the text ends the
    round.

    Args:
        rule: match or gumbel.
        gamma: number of proposals in a round.

    Attributes:
        rounds: the known rounds, in order.
        tokens: number of tokens of the answer so far; covered: those of them in known rounds.
    """

    def __init__(self, rule: Rule, gamma: int) -> None:
        self.rounds: list[Cut] = []
        self.tokens = self.covered = 0
        self._rule, self._gamma = rule, gamma
        self._indices = {0}  # possible indices in its round at which the next token was proposed, `gamma` for the bonus
        self._round_ids: list[int] | None = []  # ids of the current round so far; None if its beginning is unknown
        self._drafts_unknown = False

    def add(self, round_: Round) -> None:
        """Adds one recorded round."""
        for at, token in enumerate(round_.emitted):
            self._step(round_.position + at, token.id, self._agrees(round_, at))

    def _agrees(self, round_: Round, at: int) -> bool | None:
        """Returns whether the drafter's draw at a token of the text is that token; None if unknown."""
        # Under match, drafts of a round that begins elsewhere use other noise, so from there on everything is unknown.
        self._drafts_unknown = self._drafts_unknown or (
            self._rule == "match" and (self._round_ids is None or len(self._round_ids) != at)
        )
        if self._drafts_unknown or at >= len(round_.proposals):
            return None
        drawn = _draft_draw(self._rule, round_, round_.proposals[at])
        return None if drawn is None else drawn == round_.emitted[at].id

    def _step(self, position: int, token: int, agrees: bool | None) -> None:
        next_indices: set[int] = set()
        for index in self._indices:
            if index == self._gamma or agrees is not True:
                next_indices.add(0)
            if index < self._gamma and agrees is not False:
                next_indices.add(index + 1)
        self.tokens += 1
        if self._round_ids is not None:
            self._round_ids.append(token)
        if next_indices == {0}:
            if self._round_ids is not None:
                self.rounds.append(Cut(position + 1 - len(self._round_ids), len(self._round_ids) - 1, tuple(self._round_ids)))
                self.covered += len(self._round_ids)
            self._round_ids = []
        elif len(next_indices) > 1:
            self._round_ids = None
        self._indices = next_indices


class Rejudge:
    """An answer judged again, round by round, in constant time per round.

    Args:
        options: options of the answer; its seed, temperature and gamma are used.
        rule: match, rejection or gumbel.
        gamma: judges at most this many proposals of each round; None judges all.

    Raises:
        DraftlightError: such an answer cannot be judged again; the message gives the reason (`refusal`).

    Attributes:
        rounds: one verdict for each added round, in order.
        rules: the rules that judged proposals in the record.
        max_proposals: the largest number of proposals in a round.
        trees: number of rounds that drafted trees, which are left out.
        recut_reason: why `recut` is None.
    """

    def __init__(self, options: DecodingOptions, rule: str, gamma: int | None = None) -> None:
        if reason := refusal(options, rule, gamma):
            raise DraftlightError(reason)
        assert options.seed is not None
        self.rule: ExpectedRule = next(known for known in JUDGED_AGAIN if known == rule)
        self.gamma = gamma
        self.rounds: list[RoundVerdict] = []
        self.rules: set[Rule] = set()
        self.counts = RejudgeCounts()
        self.max_proposals = 0
        self._seed = options.seed
        self.trees = 0
        self._analysed = False
        self._drafter = ""
        self._recut, self.recut_reason = None, _TEXT_DIFFERS.format(rule=RULE_TITLES[self.rule]) if rule == "rejection" else ""
        length = options.gamma if gamma is None else gamma
        if not self.recut_reason and length == "auto":
            self.recut_reason = "Gamma was automatic, so the length of the drafts followed from the speed of the machine."
        elif not self.recut_reason and length != "auto":
            self._recut = Recut(self.rule, length)

    @property
    def recut(self) -> Recut | None:
        """The rounds of a whole answer under this rule and gamma; None if they do not follow from the record."""
        return None if self.recut_reason or not self.rules else self._recut

    @property
    def failure_reason(self) -> str:
        """Why the rounds so far say nothing about this rule and gamma, as a sentence; empty if they do."""
        if self.trees and not self.counts.rounds:
            return TREE
        if not self.rules:
            return "Nothing was proposed in this answer, so there is nothing to judge again."
        if not self._analysed:
            return "Analysis was off for this answer, so what the rules compare was not recorded."
        if self.gamma is not None and self.gamma > self.max_proposals:
            return (
                f"No round had more than {amount(self.max_proposals, 'proposal')}. What a longer draft would have "
                "contained is not known: the drafter has to run again."
            )
        if self.counts.missing == self.counts.rounds:
            return (
                f"This answer was recorded by an older version of Draftlight, without the draws that "
                f"{RULE_TITLES[self.rule]} compares. Generate it again to judge it again."
            )
        return ""

    def add(self, round_: Round) -> RoundVerdict:
        """Judges one more round, and returns its verdict."""
        found = rejudge_round(round_, self._seed, self.rule, self.gamma)
        self.rounds.append(found)
        self.counts = self.counts.plus(round_, found, self.gamma)
        if round_.is_tree:
            self.trees += 1
            self.recut_reason = self.recut_reason or "Some of its rounds drafted trees."
        elif round_.proposals:
            self.max_proposals = max(self.max_proposals, len(round_.proposals))
            self.rules.add(round_.rule)
            self._analysed = self._analysed or round_.proposals[0].q is not None
            self.recut_reason = self.recut_reason or self._why_no_recut(round_)
        if self._recut is not None:
            self._recut.add(round_)
        return found

    def _why_no_recut(self, round_: Round) -> str:
        if round_.rule not in INVARIANT_RULES:
            return _TEXT_DIFFERS.format(rule=RULE_TITLES[round_.rule])
        # For a head that was chosen by its path, only the statistics show that it is not a draft model.
        if not drafter_kind(round_.drafted_by).follows_text or round_.drafter_statistics is not None:
            return (
                "What this drafter proposes depends on where its round began: rounds that begin elsewhere have other proposals."
            )
        if self._drafter not in ("", round_.drafted_by):
            return "The drafter was changed during the answer."
        self._drafter = round_.drafted_by
        return ""


def rejudge(rounds: Iterable[Round], options: DecodingOptions, rule: str, gamma: int | None = None) -> Rejudge:
    """Judges a whole answer again. Arguments as in `Rejudge`.

    Raises:
        DraftlightError: the record does not allow it; the message gives the reason.
    """
    judged = Rejudge(options, rule, gamma)
    for round_ in rounds:
        judged.add(round_)
    if judged.failure_reason:
        raise DraftlightError(judged.failure_reason)
    return judged


def refusal(
    options: DecodingOptions,
    rule: str,
    gamma: int | None = None,
    temperature: float | None = None,
    rounds: Iterable[Round] = (),
) -> str:
    """Returns why an answer cannot be judged again in this way, as a sentence; empty if it can.

    Args:
        options: options of the answer. rule, gamma: those to judge with. temperature: None is the answer's own.
        rounds: those of the answer so far; trees among them are left out.
    """
    if rule == "block":
        return (
            "Block judges the proposals of a round together, from the whole of p and q. A trace holds only the likeliest tokens "
            "of each, so what block would have accepted is not known."
        )
    if rule not in JUDGED_AGAIN:
        return f"An answer can be judged again under {', '.join(JUDGED_AGAIN[:-1])} or {JUDGED_AGAIN[-1]}, not under {rule}."
    if options.temperature == 0:
        return "At temperature 0 every rule accepts only the target's argmax, so another rule changes nothing."
    if temperature not in (None, options.temperature):
        return "Another temperature changes p and q themselves, and with them the text: the models have to run again."
    if options.seed is None:
        return "The seed of this answer is not recorded, so neither are the coins and draws."
    if gamma is not None and gamma < 1:
        return "Gamma is at least 1."
    drafted = [round_.is_tree for round_ in rounds if round_.proposals]
    return TREE if drafted and all(drafted) else ""


def rejudge_round(round_: Round, seed: int, rule: Rule, gamma: int | None = None) -> RoundVerdict:
    """Returns the verdict of a rule on one round, in the context that the round had.

    Args:
        gamma: judges at most this many proposals; None judges all. Of a tree no verdict is known.
    """
    if round_.is_tree:
        return RoundVerdict(round_.index, (), False)
    limit = len(round_.proposals) if gamma is None else min(gamma, len(round_.proposals))
    verdicts: list[TokenVerdict] = []
    for at in range(limit):
        verdict = _by_coin(round_, at, seed) if rule == "rejection" else _by_draw(round_, at, rule)
        if verdict is None:
            return RoundVerdict(round_.index, tuple(verdicts), False)
        verdicts.append(verdict)
        if not verdict.accepted:
            break
        if verdict.change == "proposes another":
            return RoundVerdict(round_.index, tuple(verdicts), at + 1 == limit)
    return RoundVerdict(round_.index, tuple(verdicts), True)


def _by_coin(round_: Round, at: int, seed: int) -> TokenVerdict | None:
    proposal = round_.proposals[at]
    if proposal.p is None or not proposal.q:
        return None
    coin = noise_reference.coin(seed, round_.position + at, round_.position)
    ratio = proposal.p / proposal.q
    accepted = coin < ratio
    if round_.rule == "rejection" and proposal.status != "unjudged":
        accepted = proposal.status == "accepted"
    elif abs(coin - ratio) <= CLOSE * ratio:
        return None
    return _verdict(round_, at, proposal.id, accepted, coin=coin)


def _by_draw(round_: Round, at: int, rule: Rule) -> TokenVerdict | None:
    proposal = round_.proposals[at]
    proposed = _draft_draw(rule, round_, proposal)
    drawn = proposal.target_argmax if proposal.target_draw is None else proposal.target_draw.id
    if proposed is None or drawn is None:
        return None
    return _verdict(round_, at, proposed, proposed == drawn, drawn=drawn)


def _verdict(
    round_: Round, at: int, proposed: int, accepted: bool, drawn: int | None = None, coin: float | None = None
) -> TokenVerdict:
    proposal = round_.proposals[at]
    change: Change = ""
    if proposed != proposal.id:
        change = "proposes another"
    elif proposal.status != "unjudged" and accepted != (proposal.status == "accepted"):
        change = "accepts" if accepted else "rejects"
    expected = round_.expected[at] if at < len(round_.expected) else None
    spot = Spot(round_.index, False, at)
    return TokenVerdict(spot, proposal.status, proposed, accepted, change, drawn, proposal.p, proposal.q, coin, expected)


def _draft_draw(rule: Rule, round_: Round, proposal: Proposal) -> int | None:
    """Returns the id that the drafter proposes at a proposal's position under match or gumbel; None if it was not recorded. A
    copied proposal is not drawn, and is the same under every rule."""
    if (rule == "gumbel") == (round_.rule == "gumbel") or was_copied(round_, proposal):
        return proposal.id
    draw = proposal.coupled_draw if rule == "gumbel" else proposal.independent_draw
    return None if draw is None else draw.id
