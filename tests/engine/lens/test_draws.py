"""The scores behind a draw, computed again from the record, give the tokens that were drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from engine.lens.draws import Draws, Score, draws_at
from engine.lens.pieces import Spot, spot_of_emitted
from engine.lens.token_reasons import coins_at
from engine.noise import reference
from engine.types import DecodingOptions, Round, Rule
from tests.engine.lens.test_rejudge import answer, options, rows_of
from tests.trees import tree_options, tree_rounds


def spots(rounds: tuple[Round, ...]) -> Iterator[tuple[Round, int, Spot]]:
    """Every token of the text that a draw decided."""
    for current in rounds:
        for at in range(len(current.emitted)):
            yield current, at, spot_of_emitted(current, at)


@pytest.mark.parametrize("domain", reference.DOMAINS)
def test_noise_of_single_tokens_is_that_of_the_row(domain: str) -> None:
    ids = [0, 1, 2, 77, 4094, 4095, 4096]
    row = reference.gumbel(9, 1234, 4097, domain, 1200)
    assert np.array_equal(reference.gumbel_of(9, 1234, ids, domain, 1200), row[ids])
    assert not np.array_equal(reference.gumbel_of(9, 1235, ids, domain, 1200), row[ids])


@pytest.mark.parametrize("rule", ["gumbel", "match"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", ["chain", "tree"])
def test_the_highest_scores_are_the_recorded_draws(rule: Rule, seed: int, shape: str) -> None:
    chosen = tree_options(rule, seed) if shape == "tree" else options(rule, seed)
    rounds = tree_rounds(chosen) if shape == "tree" else answer(rule, seed)
    compared = alike = 0
    for current, at, spot in spots(rounds):
        found = draws_at(current, spot, chosen.seed, greedy=False)
        assert isinstance(found, Draws), found
        best = max(found.contenders, key=lambda each: total(each.target))
        assert best.id == found.drawn == current.emitted[at].id
        choices = current.choices(at) if current.proposals and at <= current.accepted else ()
        choices = tuple(choice for choice in choices if not choice.copied)
        if not choices:
            assert found.drafted is None
            continue
        first = max((each for each in found.contenders if each.draft is not None), key=lambda each: total(each.draft))
        assert first.id == found.drafted == choices[0].id, "a tree's first choice is the draft's best score"
        assert found.shared == (rule == "gumbel")
        compared += 1
        alike += all(each.draft.noise == each.target.noise for each in found.contenders if each.draft and each.target)
        margin = current.emitted[at].margin
        known = sorted((total(each.target) for each in found.contenders), reverse=True)
        assert margin is None or len(known) < 2 or margin <= known[0] - known[1] + 1e-3
    assert compared and alike == (compared if rule == "gumbel" else 0)


def total(score: Score | None) -> float:
    return -np.inf if score is None or score.total is None else score.total


def test_scores_are_those_of_the_whole_rows() -> None:
    chosen, rounds = options("gumbel"), answer("gumbel")
    compared = 0
    for current in rounds:
        if not current.proposals:
            continue
        p, _ = rows_of(rounds, current.index, chosen)
        for at in range(min(current.accepted + 1, len(current.proposals), len(current.emitted))):
            found = draws_at(current, spot_of_emitted(current, at), chosen.seed, greedy=False)
            assert isinstance(found, Draws)
            scale = np.float64(np.array(p.logits)[at]) / chosen.temperature
            logs = scale - np.log(np.exp(scale - scale.max()).sum()) - scale.max()
            noise = reference.gumbel(chosen.seed, current.position + at, len(logs))
            for each in found.contenders:
                if each.target is not None and each.target.total is not None:
                    assert each.target.total == pytest.approx(logs[each.id] + noise[each.id], abs=1e-3)
                    compared += 1
    assert compared > 50


def test_a_record_that_another_seed_would_not_give_shows_no_draw() -> None:
    found = [draws_at(current, spot, 999, greedy=False) for current, _, spot in spots(answer("gumbel"))]
    assert sum(isinstance(each, str) and "do not reproduce" in each for each in found) > len(found) / 2


def test_what_is_missing_is_said_and_nothing_is_made_up() -> None:
    rounds = answer("gumbel")
    current, _, spot = next(spots(rounds))
    assert "seed" in str(draws_at(current, spot, None, greedy=False))
    assert draws_at(current, spot, 0, greedy=True) == ""
    bare = answer("gumbel", analyse=False)
    assert {draws_at(each, where, 0, greedy=False) for each, _, where in spots(bare)} == {""}, "the card has a note on that"
    for each in answer("rejection"):
        for at, token in enumerate(each.emitted):
            if token.origin in ("accepted", "correction"):
                assert draws_at(each, spot_of_emitted(each, at), 0, greedy=False) == ""
    unjudged = next(
        Spot(each.index, False, at)
        for each in rounds
        for at, proposal in enumerate(each.proposals)
        if proposal.status == "unjudged"
    )
    assert draws_at(rounds[unjudged.round], unjudged, 0, greedy=False) == ""


def test_a_copied_proposal_has_no_score_of_the_draft() -> None:
    judged = 0
    for current, _, spot in spots(answer("gumbel", drafter="ngram")):
        found = draws_at(current, spot, 0, greedy=False)
        assert isinstance(found, Draws)
        assert found.drafted is None and all(each.draft is None for each in found.contenders)
        judged += bool(current.proposals)
    assert judged


def test_equal_scores_are_called_tied() -> None:
    current, at, spot = next(each for each in spots(answer("gumbel")) if len(each[0].proposals) > each[1])
    first = draws_at(current, spot, 0, greedy=False)
    assert isinstance(first, Draws) and not first.tied
    scored = [each for each in first.contenders if each.target is not None and each.target.total is not None]
    best, second = sorted(scored, key=lambda each: -total(each.target))[:2]
    assert best.target is not None and second.target is not None
    equal = np.exp(total(best.target) - second.target.noise)
    judged = current.proposals[at]
    top = tuple(replace(entry, probability=float(equal)) if entry.id == second.id else entry for entry in judged.target_top)
    changed = (*current.proposals[:at], replace(judged, target_top=top, p=float(equal) if judged.id == second.id else judged.p))
    found = draws_at(replace(current, proposals=changed), spot, 0, greedy=False)
    assert isinstance(found, Draws) and found.tied


@pytest.mark.parametrize("shape", ["chain", "tree"])
def test_a_coin_accepts_where_it_is_below_the_chance(shape: str) -> None:
    chosen: DecodingOptions = tree_options("rejection") if shape == "tree" else options("rejection")
    rounds = tree_rounds(chosen) if shape == "tree" else answer("rejection")
    tossed = 0
    for current, at, spot in spots(rounds):
        coins = coins_at(current, spot, greedy=False)
        choices = current.choices(at) if current.proposals and at <= current.accepted else ()
        assert bool(coins) == bool(choices)
        for coin, choice in zip(coins, choices, strict=False):
            assert coin.accepted == (coin.coin < coin.chance) == (choice.status == "accepted")
            rank = choice.rank
            assert coin.coin == pytest.approx(reference.coin(chosen.seed or 0, current.position + at, current.position, rank))
            if shape == "chain":
                assert choice.p is not None and choice.q
                assert coin.chance == pytest.approx(min(1.0, choice.p / choice.q), abs=1e-5)
            tossed += 1
        assert sum(coin.accepted for coin in coins) <= 1
    assert tossed > 10
    current, _, spot = next(spots(rounds))
    assert coins_at(current, spot, greedy=True) == ()
    assert all(coins_at(each, where, greedy=False) == () for each, _, where in spots(answer("gumbel")))
