"""What a comparison knows: where texts part, whether that was to be expected, and what a sample counts. No window."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.compare.comparison import ColumnSetup, Comparison, Setup, drafter_words, with_column
from app.compare.difference_line import difference_words
from app.compare.presets import PRESETS, Preset
from app.compare.sample_tally import SampleTally, number_in, write_samples
from app.session.settings import Settings
from engine.lens.pieces import Spot
from engine.types import DecodingOptions, Expected, Finish, Round, RoundFinished, RunFinished, RunStarted
from engine.values.requests.compare import CompareRequest, Sample, SampleRequest
from tests.app.fakes import make_round

PLAIN = ColumnSetup(drafter="none")
GUMBEL = ColumnSetup(rule="gumbel")
MATCH = ColumnSetup(rule="match")
REJECTION = ColumnSetup(rule="rejection")


def compared(*columns: ColumnSetup, logits: str | None = "float32", **changes: Any) -> Comparison:
    """A comparison whose runs are 1, 2, and so on, on a target with logits of this type."""
    setup = Setup("Tell me a story.", columns, **{"seed": 1, **changes})
    comparison = Comparison(setup, setup.requests("builtin", DecodingOptions()), clock=lambda: 0.0)
    comparison.started(range(1, len(columns) + 1))
    for run, column in enumerate(comparison.columns, 1):
        comparison.apply(RunStarted(run, column.answer.options, 10, column.setup.drafter, f"/traces/{run}.jsonl", logits=logits))
    return comparison


def rounds_of(words: Sequence[str], margin: float | None = 0.5, accepted: int = 0, milliseconds: float = 10.0) -> list[Round]:
    """Rounds that emit these words, `accepted` + 1 at a time; a token's id is its word's."""
    made: list[Round] = []
    size = accepted + 1
    for index, start in enumerate(range(0, len(words), size)):
        part = list(words[start : start + size])
        base = make_round(index, part[:-1], part[-1], ["ghost"], position=10 + start, started=milliseconds * index)
        tokens = tuple(replace(token, id=sum(map(ord, token.text)), margin=margin) for token in base.emitted)
        made.append(replace(base, emitted=tokens, milliseconds=replace(base.milliseconds, total=milliseconds)))
    return made


def grow(comparison: Comparison, run: int, rounds: Sequence[Round]) -> None:
    for round_ in rounds:
        comparison.apply(RoundFinished(run, round_))


def end(comparison: Comparison, run: int, finish: Finish = "length", seconds: float = 1.0) -> None:
    answer = comparison.columns[run - 1].answer
    tokens = sum(len(round_.emitted) for round_ in answer.rounds)
    comparison.apply(RunFinished(run, finish, answer.text.text, tokens, seconds, 0.1, 0.2, answer.trace_path))


TEXT = ["The", " last", " lamp", " had", " burned"]


def test_each_run_feeds_its_own_column_and_no_other() -> None:
    comparison = compared(PLAIN, GUMBEL)
    grow(comparison, 2, rounds_of(TEXT))
    assert [len(column.tokens) for column in comparison.columns] == [0, 5]
    comparison.apply(RoundFinished(7, rounds_of(TEXT)[0]))
    assert comparison.columns[0].answer.text.text == ""
    assert comparison.columns[1].answer.text.text == "The last lamp had burned"


def test_equal_texts_are_called_the_same_so_far_and_then_altogether() -> None:
    comparison = compared(PLAIN, GUMBEL)
    assert (relation := comparison.relation(1)) is not None and relation.kind == "waiting"
    grow(comparison, 1, rounds_of(TEXT[:3]))
    grow(comparison, 2, rounds_of(TEXT, accepted=1))
    relation = comparison.relation(1)
    assert relation is not None
    assert relation.words == "Same text as A so far: 3 of 3 tokens."
    grow(comparison, 1, rounds_of(TEXT)[3:])
    for run in (1, 2):
        end(comparison, run)
    relation = comparison.relation(1)
    assert relation is not None and relation.complete
    assert relation.words == "Same text as A: 5 of 5 tokens."
    assert comparison.divergence is None


def test_rules_with_fresh_noise_are_expected_to_part_from_the_others() -> None:
    comparison = compared(REJECTION, GUMBEL)
    grow(comparison, 1, rounds_of(TEXT, margin=None))
    grow(comparison, 2, rounds_of([*TEXT[:2], " ship"]))
    relation = comparison.relation(1)
    assert relation is not None
    assert (relation.kind, relation.first, relation.same) == ("expected", 2, 2)
    assert "Rejection draws fresh noise" in relation.words
    assert comparison.divergence == 2
    assert [column.tokens[2].margin for column in comparison.columns] == [None, 0.5]


@pytest.mark.parametrize(
    "margin, logits, kind, said",
    [
        (2e-4, "float32", "near-tie", "Near-tie:"),
        (0.03, "bfloat16", "near-tie", "Near-tie in bfloat16:"),
        (0.03, "float16", "near-tie", "Near-tie in float16:"),
        (0.03, "float32", "unexpected", "a margin of 0.09 is not a near-tie"),
        (0.03, None, "unexpected", "report this"),
        (0.4, "bfloat16", "unexpected", "report this"),
        (1.25 / 3, "bfloat16", "unexpected", "a margin of 1.25 or more is not a near-tie"),
    ],
)
def test_texts_that_had_to_be_equal_part_at_a_near_tie_of_their_precision_or_are_flagged(
    margin: float, logits: str | None, kind: str, said: str
) -> None:
    comparison = compared(PLAIN, GUMBEL, logits=logits)
    grow(comparison, 1, rounds_of(TEXT, margin=margin))
    grow(comparison, 2, rounds_of([*TEXT[:4], " sunk"], margin=margin * 3))
    relation = comparison.relation(1)
    assert relation is not None
    assert (relation.kind, relation.first) == (kind, 4)
    assert said in relation.words


@pytest.mark.parametrize("side", [1, 2])
@pytest.mark.parametrize("border, kind", [(2e-4, "near-tie"), (0.3, "unexpected"), (None, "unexpected")])
def test_a_token_at_the_border_of_the_filters_explains_a_parting_at_a_large_margin(
    side: int, border: float | None, kind: str
) -> None:
    """It shows where the token was emitted: on either side."""
    comparison = compared(PLAIN, GUMBEL)
    for run, text in ((1, TEXT), (2, [*TEXT[:4], " sunk"])):
        *before, last = rounds_of(text, margin=0.4)
        at_border = replace(last.emitted[0], border=border if run == side else 0.9)
        grow(comparison, run, [*before, replace(last, emitted=(at_border,))])
    relation = comparison.relation(1)
    assert relation is not None and (relation.kind, relation.first) == (kind, 4)
    assert ("passes the filters by only 0.0002 in one text and not in the other" in relation.words) == (kind == "near-tie")
    words = difference_words(comparison)
    assert "margin 0.4, border 0.9" in words and (border is None or f"border {border:.3g}" in words)


@pytest.mark.parametrize(
    "one, two, must_equal",
    [
        (PLAIN, GUMBEL, True),
        (PLAIN, replace(REJECTION, drafter="none"), True),
        (MATCH, replace(GUMBEL, drafter="ngram", gamma=7), True),
        (replace(REJECTION, temperature=0.0), replace(GUMBEL, temperature=0.0), True),
        (replace(REJECTION, gamma=3), replace(REJECTION, gamma=3), True),
        (REJECTION, REJECTION, False),
        (REJECTION, GUMBEL, False),
        (GUMBEL, replace(GUMBEL, temperature=0.5), False),
        (PLAIN, ColumnSetup(rule="block"), False),
    ],
)
def test_what_must_give_the_same_text_follows_from_rule_temperature_and_drafter(
    one: ColumnSetup, two: ColumnSetup, must_equal: bool
) -> None:
    comparison = compared(one, two)
    grow(comparison, 1, rounds_of(TEXT))
    grow(comparison, 2, rounds_of(["A", *TEXT[1:]]))
    relation = comparison.relation(1)
    assert relation is not None
    assert (relation.kind == "unexpected") == must_equal
    if one.temperature != two.temperature:
        assert "temperatures differ" in relation.words


def test_a_column_is_held_against_the_earlier_one_that_must_have_its_text() -> None:
    comparison = compared(REJECTION, PLAIN, GUMBEL)
    for run, text in ((1, ["A", *TEXT[1:]]), (2, TEXT), (3, TEXT)):
        grow(comparison, run, rounds_of(text))
    assert [relation.other for index in (1, 2) if (relation := comparison.relation(index))] == [0, 1]
    assert [relation.kind for index in (1, 2) if (relation := comparison.relation(index))] == ["expected", "same"]
    assert [comparison.divergence_of(index) for index in range(3)] == [0, 0, None]


def test_a_text_that_ends_while_the_other_goes_on_parts_there_unless_only_its_length_was_limited() -> None:
    comparison = compared(PLAIN, GUMBEL)
    grow(comparison, 1, rounds_of(TEXT))
    grow(comparison, 2, rounds_of(TEXT[:3]))
    end(comparison, 2, "cancelled")
    assert comparison.divergence is None
    other = compared(PLAIN, GUMBEL)
    grow(other, 1, rounds_of(TEXT))
    grow(other, 2, rounds_of(TEXT[:3]))
    end(other, 2, "eos")
    assert other.divergence == 3


def test_columns_with_prompts_of_their_own_are_not_compared() -> None:
    comparison = compared(replace(GUMBEL, prompt="a story"), replace(GUMBEL, prompt="code"), own_prompts=True)
    assert [column.prompt for column in comparison.columns] == ["a story", "code"]
    grow(comparison, 1, rounds_of(TEXT))
    grow(comparison, 2, rounds_of(["def", *TEXT[1:]]))
    assert comparison.relation(1) is None
    assert comparison.divergence is None


def test_positions_count_answer_tokens_and_a_ghost_stands_where_it_would_have_stood() -> None:
    column = compared(GUMBEL, GUMBEL).columns[0]
    for round_ in rounds_of(["a", "b", "c", "d"], accepted=1):
        column.session.apply(RoundFinished(1, round_))
        column.add(round_)
    assert column.spots == [Spot(0, False, 0), Spot(0, True, 1), Spot(1, False, 0), Spot(1, True, 1)]
    assert [column.position_of(spot) for spot in column.spots] == [0, 1, 2, 3]
    assert column.position_of(Spot(1, False, 1)) == 3, "the rejected proposal stands where the correction is"
    assert column.position_of(Spot(9, True, 0)) is None


def test_one_long_round_does_not_set_the_scale_of_all_strips() -> None:
    column = compared(GUMBEL, GUMBEL).columns[0]
    assert column.usual_proposals == 0
    for proposals, many in ((2, 30), (3, 20), (40, 2)):
        for _ in range(many):
            column.add(make_round(0, ["a"] * proposals, "b"))
    assert column.usual_proposals == 3


def test_the_speed_up_is_measured_against_the_plain_column_of_the_same_prompt() -> None:
    comparison = compared(GUMBEL, PLAIN, replace(GUMBEL, prompt="x"))
    grow(comparison, 1, rounds_of(TEXT))
    grow(comparison, 2, rounds_of(TEXT))
    end(comparison, 1, seconds=0.5)
    end(comparison, 2, seconds=1.0)
    assert comparison.speed_up(0) == pytest.approx(2.0)
    assert comparison.speed_up(1) is None
    assert compared(GUMBEL, REJECTION).speed_up(0) is None


def test_no_speed_up_is_measured_against_a_plain_column_at_another_temperature() -> None:
    cold = replace(GUMBEL, temperature=0.0)
    comparison = compared(PLAIN, cold, replace(PLAIN, temperature=0.0))
    for run, seconds in ((1, 4.0), (2, 0.5), (3, 1.0)):
        grow(comparison, run, rounds_of(TEXT))
        end(comparison, run, seconds=seconds)
    assert comparison.speed_up(1) == pytest.approx(2.0)
    assert compared(PLAIN, cold).speed_up(1) is None


def test_a_failed_run_says_why_and_the_other_goes_on() -> None:
    comparison = compared(PLAIN, GUMBEL)
    comparison.failed("The engine is closed.")
    assert not comparison.running
    assert {column.answer.message for column in comparison.columns} == {"The engine is closed."}


def test_requests_share_seed_length_and_filters_and_differ_in_what_their_columns_say() -> None:
    setup = Setup("Hi", (replace(REJECTION, gamma=4, temperature=0.3), PLAIN), seed=7, max_tokens=50)
    requests = setup.requests("builtin", DecodingOptions(top_k=20), "Be brief.")
    CompareRequest(requests)
    assert [request.options.seed for request in requests] == [7, 7]
    assert [request.options.max_tokens for request in requests] == [50, 50]
    assert [request.options.top_k for request in requests] == [20, 20]
    assert [(r.options.rule, r.options.gamma, r.options.temperature, r.drafter) for r in requests] == [
        ("rejection", 4, 0.3, "head"),
        ("gumbel", "auto", 0.8, "none"),
    ]
    assert [message.role for message in requests[0].messages] == ["system", "user"]
    assert not any(request.kept for request in requests), "no chats are made of their traces"
    raw = replace(setup, template=False).requests("builtin", DecodingOptions(), "Be brief.")
    assert [message.role for message in raw[0].messages] == ["user"] and not raw[0].template


def test_another_column_has_a_rule_that_none_has_yet() -> None:
    setup = Setup("Hi", (REJECTION, GUMBEL))
    assert [column.rule for column in with_column(with_column(setup)).columns] == ["rejection", "gumbel", "match", "block"]


def test_a_target_that_drafts_for_itself_is_named_so() -> None:
    assert drafter_words("builtin", "builtin") == "The target itself"
    assert ColumnSetup(drafter="builtin", rule="match").title("builtin") == "Match, The target itself"
    assert PLAIN.title("builtin") == "No drafter"


@pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.id)
@pytest.mark.parametrize(
    "settings", [Settings(), Settings(drafter="none", temperature=0.0), Settings(target="/models/mine.gguf", drafter="none")]
)
def test_every_preset_can_be_asked_for_under_any_settings(preset: Preset, settings: Settings) -> None:
    setup = preset.make(settings)
    requests = setup.requests(settings.target, settings.options())
    if setup.samples:
        SampleRequest(requests, setup.samples)
        assert {request.drafter for request in requests} == {settings.target}, "the target drafts for itself"
    else:
        CompareRequest(requests)
    assert all(setup.prompt_of(column).strip() for column in setup.columns)
    assert 2 <= len(setup.columns) <= 4
    if settings.target != "builtin":
        assert "builtin-draft" not in {request.drafter for request in requests}, "it fits the built-in target only"


# Samples


def sample(index: int, accepted: bool, text: str, request: int = 0, match: float = 0.3) -> Sample:
    made = make_round(0, ["1"] if accepted else [], "x", [] if accepted else ["2"])
    expected = (Expected(match, 0.6, 1.0),) * max(1, len(made.expected))
    return Sample(request, index, 10 + index, text, "length", (replace(made, expected=expected),))


@pytest.mark.parametrize(
    "text, number", [("7, of course", 7), (" 10.", 10), ("11", None), ("0", None), ("seven", None), ("", None), ("1 2", 1)]
)
def test_the_number_drawn_is_the_one_a_text_begins_with(text: str, number: int | None) -> None:
    assert number_in(text) == number


def test_first_proposals_are_counted_beside_the_closed_form() -> None:
    tally = SampleTally(MATCH)
    for index in range(10):
        tally.add(sample(index, index < 4, "7" if index < 6 else "3"))
    assert (tally.accepted, tally.judged, tally.share) == (4, 10, 0.4)
    assert tally.interval is not None and tally.interval[0] < 0.4 < tally.interval[1]
    assert tally.expected == pytest.approx(0.3)
    assert tally.squares == pytest.approx(0.3)
    assert (tally.numbers[7], tally.numbers[3], tally.numbers[None]) == (6, 4, 0)
    rejection, block = SampleTally(REJECTION), SampleTally(ColumnSetup(rule="block"))
    for one in (rejection, block):
        one.add(sample(0, True, "7"))
    assert rejection.expected == pytest.approx(1.0)
    assert block.expected is None, "block judges a round jointly"


def test_samples_are_written_with_their_rounds_and_what_they_add_up_to(tmp_path: Path) -> None:
    tally = SampleTally(MATCH)
    tally.add(sample(0, True, "7"))
    setup = Setup("A number: ", (MATCH,), seed=10, samples=1)
    written = json.loads(write_samples(tmp_path / "samples.json", setup, "builtin", [tally]).read_text(encoding="utf-8"))
    (settings,) = written["settings"]
    assert written["schema"] == "draftlight.samples/1"
    assert settings["first_proposal"]["accepted"] == 1
    assert settings["numbers"] == {"7": 1}
    assert settings["answers"][0]["seed"] == 10
    assert settings["answers"][0]["rounds"][0]["proposals"][0]["status"] == "accepted"
