"""Judging an answer again from its record gives what the rules themselves and real decodes give.

The reference runs both models again over the text and the proposals of a round, and passes the rows to `engine.acceptance`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import mlx.core as mx
import numpy as np
import pytest

from engine import acceptance
from engine.acceptance import Judgement, RoundNoise
from engine.decode.decoding import DecodingOptions, decode
from engine.drafters import DraftModel, NGram
from engine.lens import rejudge as module
from engine.lens.rejudge import Recut, Rejudge, RoundVerdict, refusal, rejudge, rejudge_round
from engine.lens.rejudge_words import limits
from engine.noise import reference as noise_reference
from engine.noise.source import NoiseSource
from engine.rounds.codec import round_from_json, round_to_json
from engine.target.distribution import Distribution, Shaper
from engine.types import Draw, Proposal, Round
from engine.values.errors import DraftlightError
from tests.crossings import crossed
from tests.engine import tabular
from tests.engine.small_models import emitted_ids
from tests.trees import SECOND_CHOICE, TO_A_LEAF

VOCAB = 24
PAIR = tabular.pair("good", VOCAB)
TARGET, DRAFT = tabular.TabularModel(PAIR.target), tabular.TabularModel(PAIR.draft)
PROMPT = [3, 5, 7, 9, 5, 7]
RULES = ("match", "rejection", "gumbel", "block")
SEEDS = range(4)
DRAWS = ("target_draw", "coupled_draw", "independent_draw")


def options(rule: str, seed: int = 0, gamma: int = 4, **others) -> DecodingOptions:
    return DecodingOptions(**{"rule": rule, "seed": seed, "gamma": gamma, "temperature": 0.7, "max_tokens": 60} | others)


@functools.cache
def answer(rule: str, seed: int = 0, gamma: int = 4, drafter: str = "model", **others) -> tuple[Round, ...]:
    made = NGram(longest=2, shortest=1, worth=0) if drafter == "ngram" else DraftModel(DRAFT, "draft")
    return tuple(decode(TARGET, PROMPT, made, options(rule, seed, gamma, **others)))


def rows_of(rounds: Sequence[Round], index: int, chosen: DecodingOptions) -> tuple[Distribution, Distribution]:
    """Returns p (gamma + 1, vocab) and q (gamma, vocab) of a round, recomputed from the text before it and its proposals."""
    text = PROMPT + emitted_ids(rounds[:index])
    return _rows(tuple(text), tuple(proposal.id for proposal in rounds[index].proposals), chosen)


@functools.cache
def _rows(text: tuple[int, ...], drafted: tuple[int, ...], chosen: DecodingOptions) -> tuple[Distribution, Distribution]:
    ids = mx.array([*text, *drafted])[None]
    p, q = (Shaper(chosen).shape(model(ids)[0][len(text) - 1 :], list(text), ids[0, len(text) :]) for model in (TARGET, DRAFT))
    return p, q.first(len(drafted))


def judged_by(rule: str, rounds: Sequence[Round], index: int, chosen: DecodingOptions, proposals=None) -> Judgement:
    """Returns the judgement of `engine.acceptance` on a round's rows."""
    p, q = rows_of(rounds, index, chosen)
    drafted = [proposal.id for proposal in rounds[index].proposals] if proposals is None else proposals
    noise = RoundNoise(NoiseSource(chosen.seed, VOCAB), rounds[index].position)
    return acceptance.JUDGES[rule](p, q, drafted, noise)


def agrees(found: RoundVerdict, accepted: int) -> bool:
    """Returns whether everything found about a round is consistent with a rule that accepts this number of proposals."""
    verdicts = [verdict.accepted for verdict in found.verdicts]
    return verdicts == [at < accepted for at in range(len(verdicts))] and (not found.complete or found.kept == accepted)


def speculative(rounds: Sequence[Round]) -> list[Round]:
    return [current for current in rounds if current.proposals]


# What is recorded


def all_draws(rounds: Sequence[Round], index: int, chosen: DecodingOptions) -> dict[str, list[int]]:
    """Returns, by field name, the ids of every draw that could be recorded for a round, recomputed."""
    current, scale = rounds[index], Shaper(chosen).inverse_temperature
    p, q = rows_of(rounds, index, chosen)
    positions = [current.position + at for at in range(len(current.proposals))]
    drawn = {
        "target_draw": noise_reference.gumbel_argmax(np.array(p.logits)[:-1], scale, chosen.seed, positions),
        "coupled_draw": noise_reference.gumbel_argmax(np.array(q.logits), scale, chosen.seed, positions),
        "independent_draw": noise_reference.gumbel_argmax(
            np.array(q.logits), scale, chosen.seed, positions, "draft", current.position
        ),
    }
    return {name: [int(token) for token in ids] for name, ids in drawn.items()}


@pytest.mark.parametrize("rule", RULES)
def test_every_row_is_recorded_with_its_draws(rule):
    chosen, rounds = options(rule), answer(rule)
    unjudged = left_out = 0
    for current in speculative(rounds):
        p, q = rows_of(rounds, current.index, chosen)
        for name, wanted in all_draws(rounds, current.index, chosen).items():
            recorded = [getattr(proposal, name) for proposal in current.proposals]
            known = [at for at, draw in enumerate(recorded) if draw is not None]
            assert known and known == list(range(len(known))), "from the first proposal on"
            assert [recorded[at].id for at in known] == [wanted[at] for at in known], name
            left_out += len(recorded) - len(known)
        for at, proposal in enumerate(current.proposals):
            unjudged += proposal.status == "unjudged"
            assert proposal.p == pytest.approx(float(np.array(p.probabilities)[at, proposal.id]), rel=1e-3)
            assert proposal.q == pytest.approx(float(np.array(q.probabilities)[at, proposal.id]), rel=1e-3)
        assert round_from_json(round_to_json(current)) == current
    assert unjudged > 10 and left_out > 10


def with_draws(current: Round, drawn: dict[str, list[int]]) -> Round:
    """Returns the round with these draws recorded for its proposals, as far as there are any."""
    proposals = list(current.proposals)
    for name, ids in drawn.items():
        for at, token in enumerate(ids):
            proposals[at] = replace(proposals[at], **{name: Draw(token, "")})
    return replace(current, proposals=tuple(proposals))


def judged_again(rounds: Sequence[Round], chosen: DecodingOptions) -> list[object]:
    """Returns everything found about an answer, with every rule and every gamma."""
    results: list[object] = []
    for rule in ("match", "rejection", "gumbel"):
        for gamma in (None, 1, 2, 3):
            again = rejudge(rounds, chosen, rule, gamma)
            results += [again.rounds, again.counts, again.recut_reason]
            results += [] if again.recut is None else [again.recut.rounds, again.recut.tokens]
    return results


@pytest.mark.parametrize("rule", RULES)
def test_unrecorded_draws_would_add_no_information(rule):
    """No draw is recorded without need: if the last ones of a kind are removed, less is found."""
    poorer = set()
    for seed in SEEDS:
        rounds, chosen = answer(rule, seed), options(rule, seed)
        full = [with_draws(each, all_draws(rounds, each.index, chosen)) if each.proposals else each for each in rounds]
        assert judged_again(rounds, chosen) == judged_again(full, chosen)
        for name in DRAWS:
            less = [without_last(each, name) for each in rounds]
            poorer |= {name} if judged_again(less, chosen) != judged_again(rounds, chosen) else set()
    assert (
        poorer
        == {
            "match": {"coupled_draw"},  # the other two are those that the round compared
            "rejection": {"target_draw", "coupled_draw"},
            "block": {"target_draw", "coupled_draw"},
            "gumbel": {"independent_draw"},
        }[rule]
    )


def without_last(current: Round, name: str) -> Round:
    """Returns the round without its last recorded draw of a kind."""
    at = max((at for at, proposal in enumerate(current.proposals) if getattr(proposal, name) is not None), default=None)
    if at is None:
        return current
    poorer = replace(current.proposals[at], **{name: None})
    return replace(current, proposals=(*current.proposals[:at], poorer, *current.proposals[at + 1 :]))


def test_a_copied_proposal_is_its_own_draw():
    proposals = [proposal for current in answer("rejection", drafter="ngram") for proposal in current.proposals]
    known = [proposal for proposal in proposals if proposal.coupled_draw is not None]
    assert known and all(proposal.coupled_draw.id == proposal.id for proposal in known)
    assert all(proposal.independent_draw.id == proposal.id for proposal in proposals)
    assert any(proposal.target_draw.id != proposal.id for proposal in known)


def test_no_draws_recorded_without_analysis_or_at_temperature_0():
    bare = [proposal for current in answer("rejection", analyse=False) for proposal in current.proposals]
    greedy = [proposal for current in answer("rejection", temperature=0) for proposal in current.proposals]
    for proposal in (*bare, *greedy):
        assert all(getattr(proposal, name) is None for name in DRAWS)
    assert all(proposal.p is None for proposal in bare) and all(proposal.p is not None for proposal in greedy)


# Rejection on any answer


def wrong_about_rejection(rule: str, mutant=None) -> tuple[int, int, int]:
    """Returns three numbers of rounds: those about which `rejudge_round`, or a mutant of it, contradicts
    `acceptance.rejection`; those with a change; and those left open."""
    wrong = changed = open_rounds = 0
    for seed in SEEDS:
        rounds, chosen = answer(rule, seed), options(rule, seed)
        for current in speculative(rounds):
            found = (mutant or rejudge_round)(current, seed, "rejection")
            wrong += not agrees(found, int(judged_by("rejection", rounds, current.index, chosen).accepted))
            changed += found.change is not None
            open_rounds += not found.complete
    return wrong, changed, open_rounds


@pytest.mark.parametrize("rule", RULES)
def test_rejection_agrees_with_the_engine_rule_on_the_same_rows(rule):
    wrong, changed, open_rounds = wrong_about_rejection(rule)
    assert wrong == 0
    assert open_rounds <= 1, "with p of every row, only a coin as near to p/q as rounding leaves a round open"
    assert (changed == 0) == (rule == "rejection")


def test_a_coin_of_another_round_is_detected(monkeypatch):
    coin = noise_reference.coin
    wrong_key = SimpleNamespace(coin=lambda seed, position, round_position: coin(seed, position))
    monkeypatch.setattr(module, "noise_reference", wrong_key)
    assert wrong_about_rejection("gumbel")[0] > 2


def test_judging_beyond_a_rejection_is_detected():
    def mutant(current: Round, seed: int, rule: str) -> RoundVerdict:
        """Judges each proposal as if those before it had been accepted."""
        sure = [replace(one, p=1.0, q=1.0) for one in current.proposals]
        cut = [(*sure[:at], one) for at, one in enumerate(current.proposals)]
        judged = [rejudge_round(replace(current, proposals=proposals), seed, "rejection").verdicts for proposals in cut]
        return RoundVerdict(current.index, tuple(verdicts[-1] for verdicts in judged if verdicts), True)

    assert wrong_about_rejection("gumbel", mutant)[0] > 2


@pytest.mark.parametrize(("rule", "drafter"), [("match", "model"), ("gumbel", "ngram"), ("match", "ngram")])
def test_live_rejection_decode_judges_equal_proposals_equally(rule, drafter):
    compared = 0
    for seed in SEEDS:
        live = answer("rejection", seed, drafter=drafter)
        again = rejudge(answer(rule, seed, drafter=drafter), options(rule, seed), "rejection")
        for ours, real, found in zip(answer(rule, seed, drafter=drafter), live, again.rounds, strict=False):
            if emitted_ids(answer(rule, seed, drafter=drafter)[: ours.index]) != emitted_ids(live[: ours.index]):
                break
            if not ours.proposals:
                continue
            assert [proposal.id for proposal in ours.proposals] == [proposal.id for proposal in real.proposals]
            assert agrees(found, real.accepted)
            compared += 1
    assert compared >= 4


def test_without_p_of_unjudged_rows_a_round_is_open_after_a_rejection():
    """Traces from before the p of unjudged rows was recorded are like this."""
    found = 0
    for current in speculative(answer("gumbel")):
        old = replace(
            current,
            proposals=tuple(replace(one, p=None) if one.status == "unjudged" else one for one in current.proposals),
        )
        again = rejudge_round(old, 0, "rejection")
        assert len(again.verdicts) <= current.accepted + current.rejected
        if again.change is not None and again.change.change == "accepts" and current.unjudged:
            assert not again.complete
            found += 1
    assert found


# Match and gumbel on any answer


@pytest.mark.parametrize(("rule", "recorded"), crossed(["match", "gumbel"], RULES, together=1))
def test_match_and_gumbel_agree_with_the_engine_rules_on_the_same_rows(recorded, rule):
    """A rule's own proposals have the context of the record until they differ from the record's; nothing is found after
    that."""
    results = 0
    for seed in SEEDS:
        rounds, chosen = answer(recorded, seed), options(recorded, seed)
        for current, found in zip(rounds, rejudge(rounds, chosen, rule).rounds, strict=True):
            if not current.proposals:
                continue
            p, q = rows_of(rounds, current.index, chosen)
            noise = RoundNoise(NoiseSource(seed, VOCAB), current.position)
            theirs = [int(token) for token in np.array(noise.shared(q) if rule == "gumbel" else noise.draft(q))]
            judgement = acceptance.JUDGES[rule](p, q, theirs, noise)
            assert [verdict.proposed for verdict in found.verdicts] == theirs[: len(found.verdicts)]
            assert [verdict.drawn for verdict in found.verdicts] == [int(x) for x in judgement.draws[: len(found.verdicts)]]
            assert agrees(found, int(judgement.accepted)) or found.change.change == "proposes another"
            same = [verdict for verdict in found.verdicts if verdict.proposed == current.proposals[verdict.spot.at].id]
            assert len(same) >= len(found.verdicts) - 1, "nothing is told behind another proposal"
            results += len(found.verdicts)
    assert results > 60


@pytest.mark.parametrize("rule", ["match", "gumbel", "rejection"])
def test_an_answer_under_its_own_rule_changes_nothing(rule):
    again = rejudge(answer(rule), options(rule), rule)
    assert [found.kept for found in again.rounds] == [current.accepted for current in answer(rule)]
    assert again.counts.changes == 0 and again.counts.kept == again.counts.was_kept
    assert again.counts.complete == again.counts.rounds == len(speculative(answer(rule)))


@pytest.mark.parametrize("rule", ["match", "gumbel", "rejection"])
def test_fewer_proposals_of_a_round_are_judged_as_before(rule):
    again = rejudge(answer(rule), options(rule), rule, gamma=2)
    assert [found.kept for found in again.rounds] == [min(2, current.accepted) for current in answer(rule)]


# Whole answers


def rounds_at(rounds: Sequence[Round]) -> dict[int, Round]:
    return {current.position: current for current in rounds}


@pytest.mark.parametrize("recorded", ["gumbel", "match"])
def test_gumbel_decode_with_a_shorter_gamma_makes_the_predicted_rounds(recorded):
    for seed in SEEDS:
        for gamma in (1, 2, 3, 4):
            recut = rejudge(answer(recorded, seed), options(recorded, seed), "gumbel", gamma).recut
            real = rounds_at(answer("gumbel", seed, gamma))
            assert emitted_ids(answer(recorded, seed)) == emitted_ids(answer("gumbel", seed, gamma)), "no near-tie was met"
            for cut in recut.rounds:
                assert real[cut.position].accepted == cut.accepted
                assert tuple(token.id for token in real[cut.position].emitted) == cut.ids
            assert recut.tokens == 60 and recut.covered == sum(len(cut.ids) for cut in recut.rounds)
            assert recut.covered > 15


def cuts_contradicting(real: Sequence[Round], rounds: Sequence[Round], gamma: int) -> int:
    """Returns the number of rounds predicted from these ones under gumbel that a real decode does not have."""
    recut, real_rounds = Recut("gumbel", gamma), rounds_at(real)
    for current in rounds:
        recut.add(current)
    return sum(cut.position not in real_rounds or real_rounds[cut.position].accepted != cut.accepted for cut in recut.rounds)


def test_counting_a_position_without_proposal_as_accepted_is_detected():
    def filled(current: Round) -> Round:
        """The round as if the drafter had proposed its bonus token, too."""
        if len(current.emitted) <= len(current.proposals):
            return current
        bonus = Proposal(current.emitted[-1].id, "", b"", "accepted", copied=True)
        return replace(current, proposals=(*current.proposals, bonus))

    wrong = [cuts_contradicting(answer("gumbel", seed, 2), list(map(filled, answer("gumbel", seed))), 2) for seed in SEEDS]
    assert sum(wrong) > 2


@pytest.mark.parametrize("recorded", ["gumbel", "match"])
def test_match_decode_is_known_until_its_rounds_begin_elsewhere(recorded):
    """Its drafts are drawn with noise keyed by the round's first position."""
    covered = []
    for seed in SEEDS:
        for gamma in (1, 2, 3):
            recut = rejudge(answer(recorded, seed), options(recorded, seed), "match", gamma).recut
            real = answer("match", seed, gamma)
            assert [(cut.position, cut.accepted) for cut in recut.rounds] == [
                (current.position, current.accepted) for current in real[: len(recut.rounds)]
            ]
            covered.append(recut.covered)
    assert max(covered) > 4 and min(covered) < 60


def test_drafts_of_match_do_depend_on_where_their_round_began():
    """Taken for rounds under gumbel, they give a wrong prediction of a match decode with a shorter gamma."""
    wrong = 0
    for seed in SEEDS:
        taken_for_gumbel = [replace(current, rule="gumbel") for current in answer("match", seed, temperature=0.25)]
        wrong += cuts_contradicting(answer("match", seed, 1, temperature=0.25), taken_for_gumbel, 1)
    assert wrong > 2


@pytest.mark.parametrize(
    ("recorded", "rule", "drafter", "others", "reason"),
    [
        ("rejection", "gumbel", "model", {}, "Under Rejection the text itself"),
        ("gumbel", "rejection", "model", {}, "Under Rejection the text itself"),
        ("gumbel", "gumbel", "ngram", {}, "depends on where its round began"),
        ("gumbel", "gumbel", "model", {"gamma": "auto"}, "Gamma was automatic"),
    ],
)
def test_reason_is_given_where_a_whole_answer_is_unknown(recorded, rule, drafter, others, reason):
    again = rejudge(answer(recorded, drafter=drafter, **others), options(recorded, **others), rule)
    assert again.recut is None and reason in again.recut_reason


# What cannot be told


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"rule": "block"}, "together"),
        ({"rule": "luck"}, "not under luck"),
        ({"rule": "match", "gamma": 0}, "at least 1"),
        ({"rule": "match", "temperature": 1.5}, "Another temperature"),
    ],
)
def test_unanswerable_questions_are_refused_with_the_reason(asked, reason):
    assert reason in refusal(options("gumbel"), **asked)


def test_refusals_of_options_and_rounds():
    assert "argmax" in refusal(options("gumbel", temperature=0), "match")
    assert "seed" in refusal(options("gumbel").replace(seed=None), "match")
    assert not refusal(options("gumbel"), "match", temperature=0.7)
    with pytest.raises(DraftlightError, match="together"):
        Rejudge(options("gumbel"), "block")
    with pytest.raises(DraftlightError, match="Analysis was off"):
        rejudge(answer("gumbel", analyse=False), options("gumbel"), "rejection")
    with pytest.raises(DraftlightError, match="No round had more than 4 proposals"):
        rejudge(answer("gumbel"), options("gumbel"), "gumbel", 5)
    with pytest.raises(DraftlightError, match="Nothing was proposed"):
        rejudge((), options("gumbel"), "match")


def old(rounds: Sequence[Round]) -> list[Round]:
    """Returns the rounds as in traces from before the draws were recorded."""
    return [
        replace(current, proposals=tuple(replace(one, **dict.fromkeys(DRAWS)) for one in current.proposals)) for current in rounds
    ]


def test_older_traces_are_judged_as_far_as_recorded():
    with pytest.raises(DraftlightError, match="older version"):
        rejudge(old(answer("rejection")), options("rejection"), "gumbel")
    with pytest.raises(DraftlightError, match="older version"):
        rejudge(old(answer("gumbel")), options("gumbel"), "match")
    assert rejudge(old(answer("gumbel")), options("gumbel"), "rejection").counts.changes
    recut = rejudge(old(answer("gumbel")), options("gumbel"), "gumbel", 2).recut
    assert recut.rounds == rejudge(answer("gumbel"), options("gumbel"), "gumbel", 2).recut.rounds
    copied = rejudge(old(answer("gumbel", drafter="ngram")), options("gumbel"), "match")
    assert copied.counts.changes == 0 and copied.counts.missing == 0


def test_coin_too_near_to_the_ratio_gives_no_verdict():
    current = next(current for current in answer("gumbel") if current.proposals)
    coin = noise_reference.coin(0, current.position, current.position)
    near = replace(current.proposals[0], p=coin * (1 + 1e-6), q=1.0)
    assert not rejudge_round(replace(current, proposals=(near,)), 0, "rejection").verdicts


def test_trees_among_chains_are_left_out() -> None:
    chains, chosen = answer("gumbel"), options("gumbel")
    mixed = [*chains[:3], replace(SECOND_CHOICE, index=3), *chains[3:], replace(TO_A_LEAF, index=9)]
    alone, found = rejudge(chains, chosen, "rejection"), rejudge(mixed, chosen, "rejection")
    assert found.counts == alone.counts and found.counts.rounds and not found.failure_reason
    assert limits(found) == ["2 rounds with several choices for a position are left out.", *limits(alone)]
    with pytest.raises(DraftlightError, match="drafted as trees"):
        rejudge([SECOND_CHOICE, TO_A_LEAF], chosen, "match")
