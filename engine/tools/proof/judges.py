"""Checks of the judges on real rows: the emitted tokens follow p, and the acceptance rates match the closed forms.

Thousands of rounds are simulated on an artificial process made of real rows. Its positions are independent: whatever was
emitted before, position i has the distributions p_i and q_i of one position in a real answer. The law of a whole text is thus
known and no forward pass is needed, so tens of thousands of texts take seconds. Each row is cut to its most likely tokens plus
one that stands for the rest. This makes a draw cheap; the result is another process, and just as exact.

Rounds are simulated as `engine.decode.decoding` runs them. A drafter that sets its own length stops where `AdaptivePolicy`
decides at the beginning of an answer. The judges are the real ones, and every draw is keyed by seed, absolute position, domain
and round. Texts that are simulated together have different positions in one seed's stream, like answers after prompts of
different lengths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from engine.acceptance import JUDGES, Draft, Judge, Judgement, RoundNoise
from engine.decode.policy.adaptive import AdaptivePolicy
from engine.drafters.draft import DrafterCapabilities, DraftPlan
from engine.drafters.sampler import Sampler
from engine.noise.source import NoiseSource
from engine.rounds import theory
from engine.target.distribution import Distribution, OneHot, Shaper
from engine.tools.proof.contexts import Rows, Tick
from engine.tools.proof.goodness_of_fit import mean, rates, table
from engine.types import RATIO_RULES, RULES, DecodingOptions, Plant, Rule
from engine.values.requests.prove import Finding
from engine.values.statistics import ChiSquare
from engine.values.wording import amount

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LIKELIEST = 255
GAMMA = 4
"""Proposals per round; the maximum if the drafter sets its own length."""
UNSURE = 0.3
"""The planted defect dropped-draw discards a drawn token whose probability was below this."""
TOKENS = 3
"""Emitted tokens that are checked; a text of this length takes one to three rounds."""
DRAFTER = "drafter"
PROPOSALS = TOKENS - 1 + GAMMA
"""Number of positions with a proposal that a text may reach."""
SPAN = PROPOSALS + 2
"""Distance between the positions of two texts in the stream of one seed."""
TOGETHER = 500


def _policy() -> AdaptivePolicy:
    """Returns the draft-length policy without any history of the drafter."""
    return AdaptivePolicy({DRAFTER: DrafterCapabilities(samples=True, sets_own_length=True)})


@dataclass(frozen=True)
class Process:
    """The process. p: (PROPOSALS + 1, vocab). q: (PROPOSALS, vocab), from which proposals are drawn; q_judged: (PROPOSALS,
    vocab), given to the judge. proposals: (PROPOSALS,), those of a deterministic drafter, else None."""

    p: Floats
    q: Floats
    q_judged: Floats
    proposals: Integers | None

    @property
    def vocab_size(self) -> int:
        """Width of the rows: at most `LIKELIEST` + 1, because the other tokens of a model are merged into one."""
        return self.p.shape[1]


@dataclass(frozen=True)
class Rounds:
    """One round of each of several texts: proposals (texts, GAMMA), of which the first `length` (texts,) count; and (texts,)
    each: accepted, token, and the sum of the judge's `acceptance`."""

    proposals: Integers
    length: Integers
    accepted: Integers
    token: Integers
    expected: Floats


@dataclass(frozen=True)
class Played:
    """Results of the simulation. texts: (draws, TOKENS). By judged proposal: `position`, and `stood`, whether it was accepted.
    By round: `accepted`, and `expected`, the sum of the judge's `acceptance`."""

    texts: Integers
    position: Integers
    stood: NDArray[np.bool_]
    accepted: Integers
    expected: Floats


def process_of(contexts: Sequence[Rows], plant: Plant | None = None) -> Process:
    """Returns a process from the rows of several contexts, each cut to the most likely tokens of p + q and one for the rest.

    Rows are chosen where p and q overlap and p is uncertain: where the drafter is nearly always right or wrong, a check shows
    little.
    """
    p, q = np.concatenate([rows.p[:-1] for rows in contexts]), np.concatenate([rows.q for rows in contexts])
    unfiltered = np.concatenate([rows.unfiltered_q for rows in contexts])
    telling = np.minimum(p, q).sum(axis=1) * (1 - (p**2).sum(axis=1))
    one_hot = contexts[0].one_hot
    cut: list[tuple[Floats, Floats, Floats]] = []
    for index in np.resize(np.argsort(-telling, kind="stable"), PROPOSALS):
        order = np.argsort(-(p[index] + q[index] * (1 + one_hot)), kind="stable")  # a one-hot proposal comes first
        cut.append((_lumped(p[index], order), _lumped(q[index], order), _lumped(unfiltered[index], order)))
    last = contexts[0].p[-1]
    p_rows = np.stack([entry[0] for entry in cut] + [_lumped(last, np.argsort(-last, kind="stable"))])
    q_rows = np.stack([entry[1] for entry in cut])
    probabilities = np.stack([entry[2] for entry in cut]) if plant == "unfiltered-q" else q_rows
    return Process(p_rows, q_rows, probabilities, np.zeros(PROPOSALS, dtype=np.int64) if one_hot else None)


def _lumped(row: Floats, order: Integers) -> Floats:
    """Returns (at most LIKELIEST + 1,): the values of a row in the order of the indices `order`. All after the first LIKELIEST
    are summed into one value."""
    ordered = row[order]
    return ordered if len(ordered) <= LIKELIEST + 1 else np.append(ordered[:LIKELIEST], ordered[LIKELIEST:].sum())


class _DrawnNoise(RoundNoise):
    """Replaces RoundNoise with noise that was drawn beforehand, inside a function that is mapped over many rounds.

    shared: (at most gamma + 1, vocab), the rows from `first` on; coins: (gamma,); residual: (gamma, vocab).
    """

    def __init__(self, shared: mx.array, first: int, coins: mx.array, residual: mx.array) -> None:
        self._shared, self._first, self._coins, self._residual = shared, first, coins, residual

    def shared_and_margins(self, rows: Distribution, first: int = 0) -> tuple[mx.array, mx.array]:
        """Adds the noise that was drawn for these positions (see `RoundNoise`); margins are not computed."""
        begin = first - self._first
        return mx.argmax(rows.scores + self._shared[begin : begin + rows.rows], axis=-1), mx.zeros(rows.rows)

    def coins(self, count: int) -> mx.array:
        """Returns the first `count` of the coins that were drawn (see `RoundNoise`)."""
        return self._coins[:count]

    def residual(self, row: Distribution, index: mx.array) -> mx.array:
        """Adds the noise that was drawn for this position (see `RoundNoise`)."""
        return mx.argmax(row.scores + mx.take(self._residual, index.reshape(1), axis=0), axis=-1)


def _corrected_from_p(judge: Judge) -> Judge:
    """Returns the judge with the planted defect residual-from-p."""

    def judged(p: Distribution, q: Draft, proposals: mx.array, noise: RoundNoise) -> Judgement:
        """Returns the judge's verdict with the correction drawn from p instead of (p - q)+: a defect that `prove` must
        detect."""
        verdict = judge(p, q, proposals, noise)
        rejected = mx.minimum(verdict.accepted, q.rows - 1)
        correction = noise.residual(p.row(rejected), rejected).reshape(()).astype(mx.int32)
        return replace(verdict, token=mx.where(verdict.accepted == q.rows, verdict.token, correction))

    return judged  # type: ignore[return-value]  # only ever called with rows


class SimulatedRounds:
    """Simulates rounds of a process under a rule, with a planted defect (if any) and a fixed or automatic gamma."""

    def __init__(self, process: Process, rule: Rule, plant: Plant | None = None, auto: bool = False) -> None:
        self.process, self.rule = process, rule
        self._auto = auto and process.proposals is None  # a deterministic drafter does not use the sampler
        self._drops = plant == "dropped-draw"
        self._ratio = rule in RATIO_RULES
        self._judge = _corrected_from_p(JUDGES[rule]) if plant == "residual-from-p" and self._ratio else JUDGES[rule]
        self._residual_domain = "draft" if plant == "shared-noise" and self._ratio else "residual"
        self._fresh = not (plant == "stale-noise" and rule == "block")
        with np.errstate(divide="ignore"):
            self._log_p = mx.array(np.log(process.p).astype(np.float32))
            self._log_q = mx.array(np.log(process.q).astype(np.float32))
            self._log_q_judged = mx.array(np.log(process.q_judged).astype(np.float32))
        self._rounds = mx.vmap(self._one_round)

    def play(self, seed: int, draws: int, tick: Tick) -> Played:
        """Simulates texts of TOKENS tokens; the last round may produce more."""
        batches = []
        for number, first in enumerate(range(0, draws, TOGETHER)):
            tick()
            batches.append(self._texts(seed + number, min(TOGETHER, draws - first)))
        return Played(*(np.concatenate(parts) for parts in zip(*batches, strict=True)))

    def round(self, seed: int, position: Integers, start: Integers) -> Rounds:
        """Simulates one round of each text.

        position: (texts,) absolute index of the round's first token; start: (texts,) its index within the text.
        """
        with mx.stream(mx.cpu):  # hand-written kernels cannot be mapped, so the noise runs on the CPU
            source = NoiseSource(seed, self.process.vocab_size)
            where = mx.array(position.astype(np.uint32))[:, None] + mx.arange(GAMMA + 1, dtype=mx.uint32)
            first = where[:, :1]

            def rows(domain: str, columns: slice) -> mx.array:
                """Returns noise (texts, columns, vocab) of some of the round's positions."""
                wanted = where[:, columns]
                own = mx.broadcast_to(first, wanted.shape).reshape(-1) if self._fresh else None
                return source.rows(wanted.reshape(-1), domain, own).reshape(*wanted.shape, -1)

            nothing, proposed = mx.zeros((len(position), 1, 1)), slice(GAMMA)
            shared = rows("shared", slice(self._shared_from, None))
            residual = rows(self._residual_domain, proposed) if self._ratio else nothing
            coins = nothing[:, 0]
            if self._ratio:
                own = mx.broadcast_to(first, (len(position), GAMMA)).reshape(-1) if self._fresh else None
                coins = source.coins(where[:, proposed].reshape(-1), own).reshape(-1, GAMMA)
            at = mx.array(start)[:, None]
            p = self._log_p[at + mx.arange(GAMMA + 1)]
            q, probabilities = self._log_q[at + mx.arange(GAMMA)], self._log_q_judged[at + mx.arange(GAMMA)]
            draft = shared[:, proposed] if self.rule == "gumbel" else rows("draft", proposed)
            drawn = q if self.process.proposals is not None else q + draft
            proposals = mx.argmax(drawn, axis=-1).astype(mx.int32)
            chances = mx.exp(mx.take_along_axis(q, proposals[:, :, None], axis=-1)[:, :, 0])
            length = self._lengths(np.array(chances))
            results = np.zeros((3, len(position)))
            for count in np.unique(length):
                chosen = np.flatnonzero(length == count)
                some = mx.array(chosen)
                if count:
                    parts = (p[some, : count + 1], probabilities[some, :count], proposals[some, :count])
                    outcome = self._rounds(*parts, shared[some], coins[some], residual[some])
                else:
                    plain = mx.argmax(p[some, 0] + shared[some, 0], axis=-1)
                    outcome = (mx.zeros(plain.shape), plain, mx.zeros(plain.shape))
                mx.eval(*outcome)
                results[:, chosen] = [np.array(values) for values in outcome]
        accepted, token = results[:2].astype(np.int64)
        return Rounds(np.array(proposals).astype(np.int64), length, accepted, token, results[2])

    def _lengths(self, chances: Floats) -> Integers:
        """Returns (texts,): how many of the proposals drawn with these probabilities (texts, GAMMA) are submitted."""
        lengths = np.full(len(chances), GAMMA)
        if not self._auto:
            return lengths
        plan, policy = DraftPlan(DRAFTER, GAMMA, GAMMA, is_adaptive=True), _policy()
        for text, drawn in enumerate(chances.tolist()):
            for count in range(1, GAMMA):
                if self._drops and drawn[count - 1] < UNSURE:
                    lengths[text] = count - 1
                    break
                if not policy.should_expand(plan, drawn[:count]):
                    lengths[text] = count
                    break
        return lengths

    def real_round(self, seed: int, position: int) -> tuple[list[int], int, int]:
        """Returns proposals, accepted and token of a text's first round, with decoding's own noise and sampler and no
        defect."""
        noise = RoundNoise(NoiseSource(seed, self.process.vocab_size), position)
        p = Distribution(self._log_p[: GAMMA + 1])
        if self.process.proposals is not None:
            proposals = mx.array(self.process.proposals[:GAMMA].astype(np.int32))
            probabilities: Draft = OneHot(proposals, self.process.vocab_size)
        else:
            plan = DraftPlan(DRAFTER, GAMMA, GAMMA, is_adaptive=self._auto)
            shaper = Shaper(DecodingOptions(temperature=1.0))
            sampler = Sampler(shaper, self.rule, noise, [], self.process.vocab_size, plan, _policy())
            for step in range(GAMMA):
                sampler.sample(self._log_q[step])
                if step + 1 == GAMMA or not sampler.should_continue():
                    break
            tree = sampler.draft().tree
            if not tree.size:
                return [], 0, int(noise.shared(p.first(1)))
            proposals, probabilities = tree.drafted, tree.q
        verdict = JUDGES[self.rule](p.first(probabilities.rows + 1), probabilities, proposals, noise)
        mx.eval(proposals, verdict.accepted, verdict.token)
        return [int(token) for token in np.array(proposals)], int(verdict.accepted), int(verdict.token)

    @property
    def _shared_from(self) -> int:
        """First position of the round that draws `shared` noise: under a ratio test only a bonus or plain token uses it."""
        return GAMMA if self._ratio and not self._auto else 0

    def _one_round(
        self, p: mx.array, probabilities: mx.array, proposals: mx.array, shared: mx.array, coins: mx.array, residual: mx.array
    ) -> tuple[mx.array, ...]:
        one_hot = self.process.proposals is not None
        judged: Draft = OneHot(proposals, self.process.vocab_size) if one_hot else Distribution(probabilities)
        noise = _DrawnNoise(shared, self._shared_from, coins, residual)
        verdict = self._judge(Distribution(p), judged, proposals, noise)
        return verdict.accepted, verdict.token, verdict.acceptance.sum()

    def _texts(self, seed: int, draws: int) -> tuple[NDArray[np.generic], ...]:
        base = SPAN * np.arange(draws)
        texts = np.zeros((draws, TOKENS + GAMMA), dtype=np.int64)
        emitted = np.zeros(draws, dtype=np.int64)
        records: list[tuple[NDArray[np.generic], ...]] = []
        while (active := np.flatnonzero(emitted < TOKENS)).size:
            start = emitted[active]
            played = self.round(seed, base[active] + start, start)
            accepted = played.accepted
            following = np.pad(played.proposals, ((0, 0), (0, 1)))
            following[np.arange(len(active)), accepted] = played.token
            texts[active[:, None], start[:, None] + np.arange(GAMMA + 1)] = following
            emitted[active] += accepted + 1
            step = np.arange(GAMMA)
            judged = (step <= accepted[:, None]) & (step < played.length[:, None])
            positions = (start[:, None] + step)[judged]
            records.append((positions, (step < accepted[:, None])[judged], accepted, played.expected))
        return texts[:, :TOKENS], *(np.concatenate(parts) for parts in zip(*records, strict=True))


REAL_ROUNDS = 24
"""Rounds per rule that are also judged singly, with the noise of a decode."""
CLASSES = 3
"""Number of the most likely tokens that joint tables distinguish at each position; the rest share one class."""
SEEDS_APART = 100_000


@dataclass(frozen=True)
class CheckSetting:
    """Rows of several contexts with the same options, and whether the drafter sets its own length."""

    label: str
    contexts: tuple[Rows, ...]
    auto: bool = False


def synthetic_setting() -> CheckSetting:
    """Returns rows that come from no model. They show defects of the two ratio rules that a pair's own rows may hide: q is
    nearly certain and p is not. Drafts are therefore long, rejections leave a large residual, and unlikely tokens are drawn
    often enough."""
    p, q = np.array([0.3, 0.6, 0.1]), np.array([0.02, 0.95, 0.03])
    rows = Rows(np.tile(p, (PROPOSALS + 1, 1)), np.tile(q, (PROPOSALS, 1)), np.tile(q, (PROPOSALS, 1)), False, mx.zeros((0, 3)))
    return CheckSetting("made-up rows, auto", (rows,), auto=True)


def round_checks(setting: CheckSetting, rule: Rule, draws: int, seed: int, plant: Plant | None, tick: Tick) -> Iterator[Finding]:
    """Yields all checks of one rule with one setting, on `draws` texts."""
    process = process_of(setting.contexts, plant)
    played = SimulatedRounds(process, rule, plant, setting.auto).play(seed + SEEDS_APART * RULES.index(rule), draws, tick)
    for position in range(TOKENS):
        where = f"{setting.label}, token {position + 1}"
        yield Finding("emitted tokens against p", rule, where, draws, _emitted(process, played, position), "total variation")
    yield Finding("three tokens together, in bins", rule, setting.label, draws, _jointly(process, played), "total variation")
    yield _accepted_count(setting.label, played) if rule == "block" else _coupling(setting.label, rule, process, played)


def same_as_decoding(setting: CheckSetting, rule: Rule, seed: int) -> Finding:
    """Checks that rounds simulated together equal, token by token, those judged singly with the noise and sampler of
    `decode`."""
    whole = SimulatedRounds(process_of(setting.contexts), rule, auto=setting.auto)
    positions = SPAN * np.arange(REAL_ROUNDS)
    played = whole.round(seed, positions, np.zeros(REAL_ROUNDS, dtype=np.int64))
    drafts = [row[:length].tolist() for row, length in zip(played.proposals, played.length, strict=True)]
    together = list(zip(drafts, played.accepted.tolist(), played.token.tolist(), strict=True))
    alone = [whole.real_round(seed, int(position)) for position in positions]
    unequal = sum(one != other for one, other in zip(together, alone, strict=True))
    detail = "" if not unequal else f"{amount(unequal, 'round')} {'differs' if unequal == 1 else 'differ'}"
    return Finding("rounds as in decoding", rule, setting.label, REAL_ROUNDS, unequal == 0, detail=detail)


def coupling_on_full_rows(setting: CheckSetting, seeds: int, seed: int, tick: Tick) -> Finding:
    """Checks that draft and target agree as often as the closed form says when they draw from whole rows with the same
    noise."""
    agreed, trials, chances = [], [], []
    for number, rows in enumerate(setting.contexts):
        if rows.one_hot:
            continue
        with np.errstate(divide="ignore"):
            log_p, log_q = mx.array(np.log(rows.p).astype(np.float32)), mx.array(np.log(rows.q).astype(np.float32))
        count = len(rows.q)
        equal = np.zeros(count, dtype=np.int64)
        for draw in range(seeds):
            tick()
            source = NoiseSource(seed + SEEDS_APART * number + draw, rows.p.shape[1])
            positions = list(range(count))
            target, draft = source.argmax(log_p[:count], 1.0, positions), source.argmax(log_q, 1.0, positions)
            equal += np.array(target == draft)
        agreed.append(equal)
        trials.append(np.full(count, seeds))
        chances.append([theory.gumbel_probability(p, q) for p, q in zip(rows.p[:count], rows.q, strict=True)])
    successes, tried, wanted = np.concatenate(agreed), np.concatenate(trials), np.concatenate(chances)
    detail = f"measured {successes.sum() / tried.sum():.4f}, theory predicts {(tried * wanted).sum() / tried.sum():.4f}"
    outcome = rates(successes, tried, wanted)
    return Finding(
        "coupling on the whole vocabulary", "gumbel", setting.label, int(tried.sum()), outcome, "acceptance rate", detail
    )


def _emitted(process: Process, played: Played, position: int) -> ChiSquare:
    law = process.p[position]
    return table(np.bincount(played.texts[:, position], minlength=len(law)), law)


def _jointly(process: Process, played: Played) -> ChiSquare:
    """Tests all tokens of the texts jointly: their law is the product of the rows, because positions are independent."""
    law, cells = np.ones(1), np.zeros(len(played.texts), dtype=np.int64)
    for position in range(TOKENS):
        row = process.p[position]
        classes = np.full(len(row), CLASSES)
        classes[np.argsort(-row, kind="stable")[:CLASSES]] = np.arange(min(CLASSES, len(row)))
        law = np.outer(law, np.bincount(classes, weights=row, minlength=CLASSES + 1)).ravel()
        cells = cells * (CLASSES + 1) + classes[played.texts[:, position]]
    return table(np.bincount(cells, minlength=len(law)), law)


def _coupling(label: str, rule: Rule, process: Process, played: Played) -> Finding:
    form = {"match": 0, "gumbel": 1, "rejection": 2}[rule]
    chances = np.array([theory.expected(p, q)[form] for p, q in zip(process.p[:-1], process.q, strict=True)])
    trials = np.bincount(played.position, minlength=PROPOSALS)
    successes = np.bincount(played.position[played.stood], minlength=PROPOSALS)
    judged = int(trials.sum())
    detail = f"measured {successes.sum() / judged:.4f}, theory predicts {(trials * chances).sum() / judged:.4f}"
    outcome = rates(successes, trials, chances)
    return Finding("acceptance of judged positions", rule, label, judged, outcome, "acceptance rate", detail)


def _accepted_count(label: str, played: Played) -> Finding:
    detail = f"measured {played.accepted.mean():.4f} per round, sum of acceptances {played.expected.mean():.4f}"
    outcome = mean(played.accepted - played.expected)
    return Finding("accepted count", "block", label, len(played.accepted), outcome, "accepted count", detail)
