"""The sentences about an answer that was judged again hold for what was found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.exports.tables import options_of
from engine.lens.rejudge import Rejudge, RejudgeCounts, rejudge
from engine.lens.rejudge_words import limits, summary, token_name
from engine.trace import read
from engine.types import Round

TRACE = read(Path(__file__).parents[2] / "references" / "rejudge" / "gumbel-draft-model.jsonl")
OPTIONS = options_of(TRACE)


def judged(rule: str, gamma: int | None = None, **counts: int) -> Rejudge:
    again = rejudge(TRACE.rounds, OPTIONS, rule, gamma)
    if counts:
        again.counts = replace(RejudgeCounts(rounds=9, positions=9), **counts)
    return again


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({}, "At these 9 positions rejection would have decided as gumbel did."),
        ({"positions": 1, "rejects": 1}, "At 1 position rejection would have rejected 1 that gumbel kept; the text"),
        ({"accepts": 1, "rejects": 2}, "would have kept 1 token that gumbel rejected and rejected 2 that it kept; the text"),
        ({"others": 1}, "would have proposed another token at 1, rejecting it;"),
        ({"others": 3, "others_kept": 2, "accepts": 2}, "proposed another token at 3, keeping 2 of them and kept 2 tokens that"),
        ({"others": 3}, "keeping none of them;"),
    ],
)
def test_changes_are_counted_in_one_sentence(counts: dict[str, int], said: str) -> None:
    again = judged("rejection", positions=counts.pop("positions", 9), **counts)
    assert said in summary(again)[0]


def test_kept_proposals_are_told_of_rounds_that_are_known_to_the_end() -> None:
    some = judged("rejection", complete=4, kept=1, was_kept=3)
    assert "In 4 of 9 rounds the number is known: rejection would have kept 1 proposal, where gumbel kept 3." in summary(some)
    assert "In all 9 rounds rejection would have kept" in " ".join(summary(judged("rejection", complete=9)))
    assert len(summary(judged("rejection", positions=9))) == 1


def test_an_answer_under_its_own_rule_says_only_that() -> None:
    assert summary(judged("gumbel")) == ["This answer was judged by gumbel, so nothing changes."]


def test_what_is_not_told_depends_on_the_rule() -> None:
    assert not limits(judged("match"))
    assert [words.split()[0] for words in limits(judged("rejection"))] == ["Rejection", "What"]


def test_trouble_is_all_that_is_said() -> None:
    again = Rejudge(OPTIONS, "rejection")
    assert summary(again) == [again.trouble] and "Nothing was proposed" in again.trouble


def test_a_token_is_named_by_whatever_the_round_tells_of_it() -> None:
    current: Round = next(one for one in TRACE.rounds if one.rejected)
    at = current.accepted
    proposal = current.proposals[at]
    assert token_name(proposal.id, current, at) == f"“{proposal.text.replace(' ', '·')}”"
    assert token_name(current.emitted[at].id, current, at) == f"“{current.emitted[at].text.replace(' ', '·')}”"
    assert proposal.independent_draw is not None
    assert token_name(proposal.independent_draw.id, current, at) == f"“{proposal.independent_draw.text.replace(' ', '·')}”"
    assert token_name(49151, current, at) == "token 49151"
