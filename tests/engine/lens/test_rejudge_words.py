"""The sentences about an answer that was judged again match the findings."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from engine.exports.tables import options_of
from engine.lens.rejudge import Rejudge, RejudgeCounts, rejudge
from engine.lens.rejudge_words import change_words, limits, summary, token_name
from engine.lens.shared_wording import RULE_TITLES
from engine.rounds.trace import read
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
        ({}, "Rejection would have decided as Gumbel did at all 9 judged positions."),
        ({"positions": 1}, "Rejection would have decided as Gumbel did at the 1 judged position."),
        ({"rejects": 1}, "otherwise at 1 of 9 judged positions. It would have rejected 1 accepted token."),
        ({"accepts": 1, "rejects": 2}, "It would have accepted 1 rejected token and rejected 2 accepted tokens."),
        ({"others": 1}, "It would have proposed another token at 1 (rejecting it)."),
        ({"others": 1, "others_kept": 1}, "at 1 (accepting it)."),
        (
            {"others": 3, "others_kept": 2, "accepts": 2},
            "proposed another token at 3 (accepting 2 of them) and accepted 2 rejected tokens.",
        ),
        ({"others": 3}, "at 3 (accepting none of them)."),
    ],
)
def test_changes_are_counted_in_short_sentences(counts: dict[str, int], said: str) -> None:
    again = judged("rejection", positions=counts.pop("positions", 9), **counts)
    assert said in " ".join(summary(again))


def test_accepted_proposals_are_stated_for_complete_rounds() -> None:
    some = judged("rejection", complete=4, kept=1, was_kept=3)
    where = "In the 4 of 9 rounds with proposals where the number is known, it would have accepted"
    assert f"{where} 1 proposal instead of the 3 that were accepted." in summary(some)
    every = " ".join(summary(judged("rejection", complete=9)))
    assert "In all 9 rounds with proposals it would have accepted 0 proposals, as many as" in every
    assert len(summary(judged("rejection", positions=9))) == 1


@pytest.mark.parametrize("rule", ["match", "rejection", "gumbel"])
def test_rules_have_the_names_that_they_have_everywhere(rule: str) -> None:
    for again in (judged(rule), judged(rule, 1)):
        said = " ".join((*summary(again), *limits(again)))
        changes = [found.change for found in again.rounds if found.change is not None]
        said += " ".join(change_words(change, again.rule, TRACE.rounds[change.spot.round]) for change in changes)
        assert not re.search(r"\b(match|rejection|gumbel|block)\b", said), "lower case is the name of an option, not of a rule"
        assert RULE_TITLES[again.rule] in said


def test_an_answer_under_its_own_rule_says_only_that() -> None:
    assert summary(judged("gumbel")) == ["This answer was judged by Gumbel, so nothing changes."]


def test_stated_limits_depend_on_the_rule() -> None:
    assert limits(judged("match")) == ["After the first change in a round, the drafts are unknown."]
    assert [" ".join(words.split()[:2]) for words in limits(judged("rejection"))] == ["After the", "Rejection would", "The token"]
    assert not limits(judged("gumbel"))


def test_failure_reason_is_the_whole_summary() -> None:
    again = Rejudge(OPTIONS, "rejection")
    assert summary(again) == [again.failure_reason] and "Nothing was proposed" in again.failure_reason


def test_token_name_uses_any_text_in_the_round() -> None:
    current: Round = next(one for one in TRACE.rounds if one.rejected)
    at = current.accepted
    proposal = current.proposals[at]
    assert token_name(proposal.id, current, at) == f"“{proposal.text.replace(' ', '·')}”"
    assert token_name(current.emitted[at].id, current, at) == f"“{current.emitted[at].text.replace(' ', '·')}”"
    assert proposal.independent_draw is not None
    assert token_name(proposal.independent_draw.id, current, at) == f"“{proposal.independent_draw.text.replace(' ', '·')}”"
    assert token_name(49151, current, at) == "token 49151"
