"""The judges alone: every rule keeps the target's law, accepts as often as the closed forms say, and broken variants are caught.

Thousands of answers are decoded at once with `mx.vmap`: drafting, rounds and bookkeeping are written out here, only the judges
are the engine's. The noise is numpy's, laid out as the engine's: shared by position, everything else by round and position.
Under vmap nothing can be evaluated in between, so these are the judges as they run on a GPU; that they judge alike where
exponentials are left to the host has a test of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache, lru_cache
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.acceptance import JUDGES, Judgement, RoundNoise
from engine.noise.source import NO_TOKEN, NoiseSource, coin, gumbel
from engine.rounds import theory
from engine.target.distribution import Distribution, HostDistribution, OneHot
from engine.types import EXPECTED_RULES, INVARIANT_RULES, RATIO_RULES, Expected
from tests.crossings import crossed
from tests.engine.statistics import CERTAIN, FALSE_ALARM, chi_square, rate, total
from tests.engine.tabular import DRAFTERS, ORDER, distribution, law_of_text, pair
from tests.engine.test_block_law import block_acceptance

GAMMA = 3
TOKENS = 4
ANSWERS = 25_000
RULES = tuple(JUDGES)
PROMPT = [1, 0]
CASES = crossed(DRAFTERS, RULES, together=1, times=2)
"""Each drafter with two rules in every run, and with all in a full one."""


def cases(*rules: str) -> list[Any]:
    """Those with these rules."""
    return [case for case in CASES if case.values[1] in rules]


class DrawnNoise:
    """Stands where RoundNoise stands, on noise that was drawn beforehand.

    shared: (gamma + 1, vocab); coins: (gamma,); residual: (gamma, vocab).
    """

    def __init__(self, shared: mx.array, coins: mx.array, residual: mx.array) -> None:
        self.shared_rows, self.coin_values, self.residual_rows = shared, coins, residual

    def shared(self, rows: Distribution, first: int = 0) -> mx.array:
        return self.shared_and_margins(rows, first)[0]

    def shared_and_margins(self, rows: Distribution, first: int = 0) -> tuple[mx.array, mx.array]:
        return mx.argmax(rows.scores + self.shared_rows[first : first + rows.rows], axis=-1), mx.zeros(rows.rows)

    def coins(self, count: int) -> mx.array:
        return self.coin_values[:count]

    def residual(self, row: Distribution, index: mx.array) -> mx.array:
        return mx.argmax(row.scores + mx.take(self.residual_rows, index.reshape(1), axis=0), axis=-1)


Judge = Callable[[Distribution, Distribution | OneHot, mx.array, DrawnNoise], Judgement]


@dataclass(frozen=True)
class Setup:
    """What is decoded, and the ways in which a twin does it wrongly.

    Attributes:
        p: (vocab, vocab, vocab) the target's conditionals, the law the text must follow.
        drawn_from: the same for the drafter: what proposals are drawn from.
        p_judged, q_judged: what the judge is told they were.
        one_hot: the judge gets the drafter's rows as OneHot.
        shared_draft: proposals are drawn with the noise that the target's draws use.
        residual_as_draft: the correction is drawn with the noise that the proposal was drawn with.
        rounds_apart: noise of draft, coins and residual is fresh in every round.
    """

    rule: str
    p: np.ndarray
    drawn_from: np.ndarray
    p_judged: np.ndarray
    q_judged: np.ndarray
    one_hot: bool = False
    shared_draft: bool = False
    residual_as_draft: bool = False
    rounds_apart: bool = True


def setup(rule: str, drafter: str, vocab_size: int = 3, seed: int = 0, temperature: float = 1.0, top_p: float = 1.0) -> Setup:
    tables = pair(drafter, vocab_size, seed)
    p = distribution(tables.target, temperature, top_p)
    width = tables.draft.shape[-1]
    missing = np.full((*tables.draft.shape[:-1], max(vocab_size - width, 0)), -np.inf)
    q = distribution(np.concatenate([tables.draft, missing], axis=-1)[..., :vocab_size], temperature, top_p)
    return Setup(rule, p, q, p, q, one_hot=drafter == "one-hot", shared_draft=rule == "gumbel")


@dataclass(frozen=True)
class Played:
    """One entry a round of each answer that had not yet all its tokens.

    texts: (answers, TOKENS). before: two of (rounds, gamma), the tokens before the drafted positions. accepted: (rounds,).
    acceptance: (rounds, gamma) as the judge gave it.
    """

    setup: Setup
    texts: np.ndarray
    before: tuple[np.ndarray, np.ndarray]
    accepted: np.ndarray
    acceptance: np.ndarray


def gumbels(generator: np.random.Generator, *shape: int) -> np.ndarray:
    return -np.log(generator.standard_exponential(shape, dtype=np.float32) + np.float32(1e-30))


@lru_cache(maxsize=2)
def noise_of(answers: int, vocab_size: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Shared, draft and residual noise and coins for every token of many answers, all but the shared ones for every round."""
    generator = np.random.default_rng(seed)
    span = TOKENS + GAMMA
    shared = gumbels(generator, answers, span, vocab_size)
    drafts = gumbels(generator, TOKENS, answers, span, vocab_size)
    residuals = gumbels(generator, TOKENS, answers, span, vocab_size)
    coins = np.floor(generator.random((TOKENS, answers, span)) * 2**24).astype(np.float32) / np.float32(2**24)
    return shared, drafts, residuals, coins


def play(setup: Setup, answers: int = ANSWERS, judge: Judge | None = None, seed: int = 0) -> Played:
    """Decodes the first TOKENS tokens of many answers; rounds may reach beyond them."""
    judge = judge or JUDGES[setup.rule]
    vocab_size = setup.p.shape[-1]
    shared, drafts, residuals, coins = noise_of(answers, vocab_size, seed)
    with np.errstate(divide="ignore"):
        log_drawn_from, log_p_judged, log_q_judged = (
            mx.array(np.log(table).astype(np.float32)) for table in (setup.drawn_from, setup.p_judged, setup.q_judged)
        )

    def one_round(
        history: mx.array, shared: mx.array, draft: mx.array, coins: mx.array, residual: mx.array
    ) -> tuple[mx.array, ...]:
        text = [history[0], history[1]]
        for step in range(GAMMA):
            noise = shared[step] if setup.shared_draft else draft[step]
            text.append(mx.argmax(log_drawn_from[text[-2], text[-1]] + noise))
        proposals = mx.stack(text[ORDER:])
        p = Distribution(mx.stack([log_p_judged[text[index], text[index + 1]] for index in range(GAMMA + 1)]))
        q = Distribution(mx.stack([log_q_judged[text[index], text[index + 1]] for index in range(GAMMA)]))
        noises = DrawnNoise(shared, coins, draft if setup.residual_as_draft else residual)
        verdict = judge(p, OneHot(proposals, vocab_size) if setup.one_hot else q, proposals, noises)
        return proposals, verdict.accepted, verdict.token, verdict.acceptance

    texts = np.zeros((answers, ORDER + TOKENS + GAMMA + 1), dtype=np.int64)
    texts[:, :ORDER] = PROMPT
    emitted = np.zeros(answers, dtype=np.int64)
    records = []
    for index in range(TOKENS):
        active = np.flatnonzero(emitted < TOKENS)
        if not active.size:
            break
        keyed_by, at = index if setup.rounds_apart else 0, emitted[active]

        def window(rows: np.ndarray, length: int, at: np.ndarray = at) -> mx.array:
            """(answers, length, ...): the noise of the round's own positions."""
            return mx.array(rows[np.arange(len(at))[:, None], at[:, None] + np.arange(length)])

        history = texts[active[:, None], at[:, None] + np.arange(ORDER)]
        proposals, accepted, token, acceptance = (
            np.array(values)
            for values in mx.vmap(one_round)(
                mx.array(history),
                window(shared[active], GAMMA + 1),
                window(drafts[keyed_by, active], GAMMA),
                window(coins[keyed_by, active], GAMMA),
                window(residuals[keyed_by, active], GAMMA),
            )
        )
        following = np.pad(proposals, ((0, 0), (0, 1)))
        following[np.arange(len(active)), accepted] = token
        texts[active[:, None], ORDER + at[:, None] + np.arange(GAMMA + 1)] = following
        emitted[active] += accepted + 1
        whole = np.concatenate([history, proposals], axis=1)
        records.append((whole[:, :GAMMA].astype(np.int8), whole[:, 1 : GAMMA + 1].astype(np.int8), accepted, acceptance))
    second_last, last, accepted, acceptance = (np.concatenate(parts) for parts in zip(*records, strict=True))
    return Played(setup, texts[:, ORDER : ORDER + TOKENS].astype(np.int8), (second_last, last), accepted, acceptance)


@cache
def sound(rule: str, drafter: str, vocab_size: int = 3) -> Played:
    """Played by the engine's own judge: several claims look at the same answers."""
    return play(setup(rule, drafter, vocab_size))


def law_p_value(played: Played, tokens: int = TOKENS) -> float:
    """The first `tokens` tokens of the answers against their joint law under the target."""
    vocab_size = played.setup.p.shape[-1]
    cells = np.ravel_multi_index(played.texts[:, :tokens].T, (vocab_size,) * tokens)
    return chi_square(np.bincount(cells, minlength=vocab_size**tokens), law_of_text(played.setup.p, PROMPT, tokens).ravel())


def judged(played: Played) -> tuple[np.ndarray, np.ndarray]:
    """(rounds, gamma) masks: the positions that were judged, and those that were accepted."""
    position = np.arange(GAMMA)
    return position <= played.accepted[:, None], position < played.accepted[:, None]


@pytest.mark.parametrize("rule", RULES)
def test_what_the_lists_of_rules_say_is_what_the_judges_do(rule: str) -> None:
    """Invariant rules emit the target's own draws; ratio rules compare coins; the others that are listed have a closed form."""
    rows = Distribution(mx.zeros((GAMMA + 1, 3))), Distribution(mx.zeros((GAMMA, 3)))
    noise = DrawnNoise(mx.zeros((GAMMA + 1, 3)), mx.zeros(GAMMA), mx.zeros((GAMMA, 3)))
    verdict = JUDGES[rule](*rows, mx.zeros(GAMMA, mx.int32), noise)
    assert (rule in INVARIANT_RULES, rule in RATIO_RULES) == (verdict.draws is not None, verdict.coins is not None)
    assert (rule in EXPECTED_RULES) == hasattr(theory, f"{rule}_probability")
    assert tuple(field.name for field in fields(Expected)) == EXPECTED_RULES


# The target's law


@pytest.mark.parametrize(("drafter", "rule"), CASES)
def test_texts_follow_the_target_across_rounds(rule: str, drafter: str) -> None:
    """81 texts of four tokens, one to four rounds each."""
    played = sound(rule, drafter)
    assert len(played.accepted) > ANSWERS
    assert law_p_value(played) > FALSE_ALARM


@pytest.mark.parametrize(("drafter", "rule"), CASES)
def test_eight_tokens_follow_the_target_across_rounds(rule: str, drafter: str) -> None:
    """512 texts of three tokens."""
    assert law_p_value(sound(rule, drafter, vocab_size=8), tokens=3) > FALSE_ALARM


@pytest.mark.parametrize("rule", RULES)
def test_filtered_and_tempered_texts_follow_the_target(rule: str) -> None:
    whole = setup(rule, "good", vocab_size=8, temperature=0.7, top_p=0.8)
    assert (whole.p == 0).any()
    assert (whole.drawn_from == 0).any()
    assert law_p_value(play(whole), tokens=3) > FALSE_ALARM


@pytest.mark.full
@pytest.mark.parametrize("vocab_size", [3, 8])
@pytest.mark.parametrize("drafter", DRAFTERS)
@pytest.mark.parametrize("rule", RULES)
def test_many_texts_follow_many_targets(rule: str, drafter: str, vocab_size: int) -> None:
    """Ten tables, 200,000 answers each: a text of probability 0.05 would be noticed when it is off by 0.004."""
    for seed in range(10):
        whole = setup(rule, drafter, vocab_size, seed=seed + 1)
        played = play(whole, 200_000 if vocab_size == 3 else 100_000, seed=seed)
        assert law_p_value(played, tokens=4 if vocab_size == 3 else 3) > FALSE_ALARM / 10


# Twins: the same test must notice a broken decoder


def p_value_of_twin(twin: Setup, judge: Judge | None = None, answers: int = ANSWERS, tokens: int = TOKENS) -> float:
    return law_p_value(play(twin, answers, judge), tokens)


def correcting(drawn_from: Callable[[mx.array, mx.array], mx.array]) -> Judge:
    """The ratio test with its correction drawn from something else than (p - q)+: a function of p and q."""

    def judge(p: Distribution, q: Distribution, proposals: mx.array, noise: DrawnNoise) -> Judgement:
        verdict = JUDGES["rejection"](p, q, proposals, noise)
        rejected = mx.minimum(verdict.accepted, GAMMA - 1)
        wrong = Distribution.from_probabilities(drawn_from(p.row(rejected).probabilities, q.row(rejected).probabilities))
        correction = noise.residual(wrong, rejected).reshape(()).astype(mx.int32)
        return replace(verdict, token=mx.where(verdict.accepted == GAMMA, verdict.token, correction))

    return judge


def unnormalised(p: mx.array, q: mx.array) -> mx.array:
    """(p - q)+ as it is; what is missing to 1 goes to the last id."""
    excess = mx.maximum(p - q, 0.0)
    last = mx.arange(excess.shape[-1]) == excess.shape[-1] - 1
    return excess + mx.where(last, 1.0 - excess.sum(), 0.0)


def block_to_first_failure(p: Distribution, q: Distribution, proposals: mx.array, noise: DrawnNoise) -> Judgement:
    """Judges each position by block's acceptance and its own coin but stops at the first failure, as the ratio test would."""
    verdict = JUDGES["block"](p, q, proposals, noise)
    leading = mx.cumprod((noise.coins(GAMMA) < verdict.acceptance).astype(mx.int32)).sum().astype(mx.int32)
    return replace(verdict, accepted=leading)


@pytest.mark.parametrize(
    "drawn_from", [lambda p, q: p, lambda p, q: mx.abs(p - q), unnormalised], ids=["p", "|p - q|", "(p - q)+"]
)
def test_a_wrong_residual_is_noticed(drawn_from: Callable[[mx.array, mx.array], mx.array]) -> None:
    assert p_value_of_twin(setup("rejection", "good"), correcting(drawn_from)) < CERTAIN


def test_stopping_a_block_at_its_first_failure_is_noticed() -> None:
    assert p_value_of_twin(setup("block", "good"), block_to_first_failure) < CERTAIN


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_a_ratio_test_on_shared_noise_is_noticed(rule: str) -> None:
    """The correction is drawn with the noise that its proposal was drawn with."""
    twin = replace(setup(rule, "bad", vocab_size=8), residual_as_draft=True)
    assert p_value_of_twin(twin, tokens=3) < CERTAIN


def test_a_block_drafted_with_the_shared_noise_is_noticed() -> None:
    """The verdict has looked at the draws that fell; a later round would draft with them again, or draw its bonus."""
    twin = replace(setup("block", "bad"), shared_draft=True)
    assert p_value_of_twin(twin, answers=50_000) < CERTAIN


def test_noise_keyed_by_position_alone_under_block_is_noticed() -> None:
    twin = replace(setup("block", "bad"), rounds_apart=False)
    assert p_value_of_twin(twin, answers=50_000) < CERTAIN


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_a_q_from_before_the_filter_is_noticed(rule: str) -> None:
    filtered = setup(rule, "good", vocab_size=8, top_p=0.7)
    twin = replace(filtered, q_judged=setup(rule, "good", vocab_size=8).drawn_from)
    assert p_value_of_twin(twin, tokens=3) < CERTAIN


@pytest.mark.parametrize("rule", RULES)
def test_a_p_cut_to_the_drafters_vocabulary_is_noticed(rule: str) -> None:
    narrow = setup(rule, "narrow")
    cut = narrow.p * (np.arange(3) < 2)
    twin = replace(narrow, p_judged=cut / cut.sum(axis=-1, keepdims=True))
    assert p_value_of_twin(twin) < CERTAIN


# How often proposals are accepted


@pytest.mark.parametrize(("drafter", "rule"), cases("match", "rejection", "gumbel"))
def test_every_judged_position_is_accepted_as_the_closed_form_says(rule: str, drafter: str) -> None:
    played = sound(rule, drafter, vocab_size=8)
    form = {"match": 0, "gumbel": 1, "rejection": 2}[rule]
    tables = zip(played.setup.p.reshape(-1, 8), played.setup.drawn_from.reshape(-1, 8), strict=True)
    wanted = np.array([theory.expected(p, q)[form] for p, q in tables]).reshape(8, 8)[played.before]
    judged_at, accepted_at = judged(played)
    for position in range(GAMMA):
        here = judged_at[:, position]
        if not here.any():
            continue
        assert rate(accepted_at[here, position], wanted[here, position]) > FALSE_ALARM


@pytest.mark.parametrize(("drafter", "rule"), cases("match", "rejection", "gumbel"))
def test_every_judged_position_is_accepted_as_its_judge_says(rule: str, drafter: str) -> None:
    """`acceptance` is given the proposal, so it must also be right among likely and among unlikely ones."""
    played = sound(rule, drafter, vocab_size=8)
    judged_at, accepted_at = judged(played)
    outcomes, wanted = accepted_at[judged_at], played.acceptance[judged_at]
    for band in (wanted < 0.5, wanted >= 0.5):
        assert rate(outcomes[band], wanted[band]) > FALSE_ALARM


@pytest.mark.parametrize(("drafter", "rule"), cases("block"))
def test_block_accepts_as_many_as_its_acceptances_add_up_to(rule: str, drafter: str) -> None:
    played = sound(rule, drafter, vocab_size=8)
    assert total(played.accepted, played.acceptance.sum(axis=1), bound=GAMMA) > FALSE_ALARM
    for position in range(GAMMA):
        assert rate(played.accepted > position, np.clip(played.acceptance[:, position], 0, 1)) > FALSE_ALARM


def test_the_rules_keep_their_order() -> None:
    """In the first round, where all rules see the same contexts; 25,000 rounds, differences of several per cent."""
    means = {rule: sound(rule, "good").accepted[:ANSWERS].mean() for rule in RULES}
    assert means["block"] > means["rejection"] > means["gumbel"] > means["match"]


def test_block_gives_the_reference_acceptance() -> None:
    generator = np.random.default_rng(0)
    for _ in range(20):
        p, q = generator.dirichlet(np.full(6, 0.5), 5), generator.dirichlet(np.full(6, 0.5), 4)
        block = [int(generator.choice(6, p=row)) for row in q]
        verdict = JUDGES["block"](mx.array(p), mx.array(q), block, real_noise(6))
        assert np.array(verdict.acceptance) == pytest.approx(block_acceptance(p, q, block), abs=1e-5)


def test_gumbel_acceptance_averages_to_the_closed_form() -> None:
    """Over the proposals the drafter may draw, P(accept | x) weighs up to P(accept)."""
    generator = np.random.default_rng(1)
    p, q = generator.dirichlet(np.full(6, 0.5)), generator.dirichlet(np.full(6, 0.5))
    given = [float(JUDGES["gumbel"](rows(p, p), rows(q), [token], real_noise(6)).acceptance[0]) for token in range(6)]
    assert np.dot(q, given) == pytest.approx(theory.gumbel_probability(p, q), abs=1e-6)


KINDS = (HostDistribution, Distribution)


@pytest.mark.parametrize("one_hot", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_judging_is_the_same_with_numpy(rule: str, one_hot: bool) -> None:
    generator = np.random.default_rng(2)
    for seed in range(40):
        p, q = generator.dirichlet(np.full(6, 0.5), 4), generator.dirichlet(np.full(6, 0.5), 3)
        proposals = [int(generator.choice(6, p=row)) for row in q]
        verdicts = []
        for kind in KINDS:
            drafted = OneHot(mx.array(proposals), 6) if one_hot else kind.from_probabilities(mx.array(q))
            verdicts.append(JUDGES[rule](kind.from_probabilities(mx.array(p)), drafted, proposals, real_noise(6, seed)))
        by_numpy, device = verdicts
        assert int(by_numpy.accepted) == int(device.accepted)
        assert int(by_numpy.token) == int(device.token)
        if device.draws is not None:
            judged = int(device.accepted) + 1
            assert by_numpy.draws.tolist() == device.draws.tolist()[:judged]
            assert by_numpy.margins.tolist() == pytest.approx(device.margins.tolist()[:judged], abs=1e-5)
        assert np.array(by_numpy.acceptance) == pytest.approx(np.array(device.acceptance), abs=1e-5)


@pytest.mark.parametrize("one_hot", [False, True])
@pytest.mark.parametrize("rule", RATIO_RULES)
def test_numpy_judges_long_rows_as_the_lazy_graph_does(rule: str, one_hot: bool) -> None:
    """Drafters that are far off, near, and equal but for the last bits."""
    generator = np.random.default_rng(4)
    corrections = 0
    for seed in range(24):
        p = generator.normal(0.0, 3.0, (4, 6_001)).astype(np.float32)
        q = p[:3] + generator.normal(0.0, (2.0, 0.3, 1e-6)[seed % 3], (3, 6_001)).astype(np.float32)
        proposals = [int(row.argmax()) for row in q + generator.gumbel(size=q.shape)]
        verdicts = []
        for kind in KINDS:
            drafted = OneHot(mx.array(proposals), 6_001) if one_hot else kind(mx.array(q), 1.25)
            found = JUDGES[rule](kind(mx.array(p), 1.25), drafted, proposals, real_noise(6_001, seed))
            verdicts.append((int(found.accepted), int(found.token)))
        assert verdicts[0] == verdicts[1]
        corrections += verdicts[0][0] < 3
    assert corrections > 3


@pytest.mark.parametrize("damaged", ["p0", "p1", "p3", "q0", "q2"])
@pytest.mark.parametrize(("width", "kind"), [(50, HostDistribution), (6_001, HostDistribution), (50, Distribution)])
@pytest.mark.parametrize("rule", RULES)
def test_a_row_without_a_finite_logit_breaks_nothing_off(rule: str, width: int, kind: type[Distribution], damaged: str) -> None:
    """Where it decides, there is no token, which `check_drawn` says in words."""
    generator = np.random.default_rng(8)
    for seed in range(6):
        logits = {"p": generator.normal(0.0, 3.0, (4, width)), "q": generator.normal(0.0, 3.0, (3, width))}
        proposals = [int(row.argmax()) for row in logits["q"]]
        logits["p"][range(2), proposals[:2]] += 9.0  # so that the first ones stand
        logits[damaged[0]][int(damaged[1])] = -np.inf
        p, q = (kind(mx.array(rows.astype(np.float32)), 1.25) for rows in logits.values())
        found = JUDGES[rule](p, q, proposals, real_noise(width, seed))
        if damaged[0] == "p" and int(found.accepted) >= int(damaged[1]):
            assert int(found.token) == NO_TOKEN


# Hand cases, with the engine's own noise


def rows(*distributions: np.ndarray | list[float]) -> mx.array:
    return mx.array(np.array(distributions, dtype=np.float32))


def real_noise(vocab_size: int, seed: int = 0, position: int = 5) -> RoundNoise:
    return RoundNoise(NoiseSource(seed, vocab_size), position)


def test_every_purpose_has_its_own_stream_and_all_but_shared_follow_the_round() -> None:
    """300 tokens and ten seeds: two streams would not draw the same ids by chance."""
    generator = np.random.default_rng(3)
    for seed in range(10):
        noise = real_noise(300, seed, position=5)
        logits = mx.array(generator.normal(size=(1, 300)).astype(np.float32))
        row, twice = Distribution(logits), Distribution(mx.concatenate([logits, logits]))

        def drawn(position: int, domain: str, seed: int = seed, logits: mx.array = logits) -> int:
            return int(mx.argmax(logits[0] + gumbel(seed, position, 300, domain, 5)))

        assert [int(token) for token in noise.shared(twice, first=1)] == [drawn(6, "shared"), drawn(7, "shared")]
        assert noise.draft(row, 2).item() == drawn(7, "draft")
        assert noise.residual(row, mx.array(2)).item() == drawn(7, "residual")
        assert noise.coins(3).tolist() == [coin(seed, position, 5) for position in (5, 6, 7)]


def test_the_ratio_test_accepts_the_worked_example_with_1_1_and_04() -> None:
    q = rows([0.6, 0.4, 0.0], [0.3, 0.7, 0.0], [0.25, 0.25, 0.5])
    p = rows([0.8, 0.2, 0.0], [0.25, 0.75, 0.0], [0.4, 0.4, 0.2], [1.0, 0.0, 0.0])
    verdict = JUDGES["rejection"](p, q, [0, 1, 2], real_noise(3))
    assert np.array(verdict.acceptance) == pytest.approx([1.0, 1.0, 0.4], abs=1e-6)


def test_two_uniform_draws_over_ten_match_one_time_in_ten() -> None:
    verdict = JUDGES["match"](rows(*[[0.1] * 10] * 3), rows(*[[0.1] * 10] * 2), [3, 7], real_noise(10))
    assert np.array(verdict.acceptance) == pytest.approx([0.1, 0.1])


@pytest.mark.parametrize("rule", ["rejection", "gumbel", "block"])
def test_equal_distributions_are_always_accepted(rule: str) -> None:
    row = [0.5, 0.3, 0.2, 0.0]
    for seed in range(30):
        noise = real_noise(4, seed)
        q, p = rows(row, row), rows(row, row, row)
        proposals = noise.shared(Distribution.from_probabilities(q)) if rule == "gumbel" else [seed % 3, (seed + 1) % 3]
        verdict = JUDGES[rule](p, q, proposals, noise)
        assert int(verdict.accepted) == 2
        assert np.array(verdict.acceptance) == pytest.approx([1.0, 1.0], abs=1e-5)


def test_gumbel_accepts_the_worked_example_0407_of_the_time() -> None:
    whole = setup("gumbel", "good", vocab_size=4)
    p = np.broadcast_to([0.5, 0.3, 0.2, 0.0], whole.p.shape)
    q = np.broadcast_to([0.0, 0.4, 0.3, 0.3], whole.p.shape)
    played = play(replace(whole, p=p, drawn_from=q, p_judged=p, q_judged=q))
    judged_at, accepted_at = judged(played)
    outcomes = accepted_at[judged_at]
    assert rate(outcomes, np.full(outcomes.shape, 6 / 25 + 1 / 6)) > FALSE_ALARM


@pytest.mark.parametrize("rule", RULES)
def test_a_disjoint_drafter_is_never_accepted(rule: str) -> None:
    q, p = rows([0.0, 0.0, 1.0], [0.0, 0.0, 1.0]), rows(*[[0.5, 0.5, 0.0]] * 3)
    for seed in range(20):
        verdict = JUDGES[rule](p, q, [2, 2], real_noise(3, seed))
        assert int(verdict.accepted) == 0
        assert int(verdict.token) in (0, 1)
        assert np.array(verdict.acceptance) == pytest.approx([0.0, 0.0])


@pytest.mark.parametrize("rule", RULES)
def test_mismatched_shapes_are_refused(rule: str) -> None:
    with pytest.raises(ValueError, match="one row more"):
        JUDGES[rule](rows([0.5, 0.5]), rows([0.5, 0.5]), [0], real_noise(2))
    with pytest.raises(ValueError, match="same vocabulary"):
        JUDGES[rule](rows(*[[0.5, 0.5, 0.0]] * 2), rows([0.5, 0.5]), [0], real_noise(3))
