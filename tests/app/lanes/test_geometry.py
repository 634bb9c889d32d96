"""Where lanes, chips and ticks stand. No window is needed to know."""

from __future__ import annotations

import math

import pytest

from app.lanes.field import WHOLE_LANE, LaneField
from app.lanes.geometry import (
    Extent,
    lane_text,
    phases_of,
    round_up,
    scale_for,
    ticks,
    time_label,
    time_text,
)
from engine.lens.lane_chips import chip_text, chips_of, shown_text
from engine.types import Round
from tests.app.fakes import STORY, make_round, story_rounds


def field(rounds: list[Round], width: float = 440, height: float = 500, **attributes: object) -> LaneField:
    lanes = LaneField()
    for name, value in attributes.items():
        setattr(lanes, name, value)
    lanes.grow(rounds)
    lanes.fit(width, height, gutter=40, text_scale=1)
    return lanes


def test_a_lane_has_its_proposals_in_order_and_the_targets_own_token_last() -> None:
    chips = chips_of(make_round(3, [" a", " b"], " c", [" x", " y"]))
    assert [chip.kind for chip in chips] == ["accepted", "accepted", "rejected", "unjudged", "correction"]
    assert [chip.text for chip in chips] == ["a", "b", "x", "y", "c"]
    assert [(chip.proposal, chip.emitted) for chip in chips] == [(0, None), (1, None), (2, None), (3, None), (None, 2)]
    assert [chip.kind for chip in chips_of(make_round(0, [" a"], " c"))] == ["accepted", "bonus"]
    assert [chip.kind for chip in chips_of(make_round(0, [], " c"))] == ["plain"]


@pytest.mark.parametrize(
    ("text", "raw", "shown"),
    [(" word", b" word", "word"), ("\n", b"\n", "⏎"), ("  ", b"  ", "··"), (" ", b" ", "·"), ("\t", b"\t", "⇥")],
)
def test_chips_make_white_space_visible_and_leave_out_the_blank_before_a_word(text: str, raw: bytes, shown: str) -> None:
    assert shown_text(text, raw) == shown


def test_a_chip_with_half_a_character_shows_its_bytes() -> None:
    assert "E2 80" in shown_text("�", b"\xe2\x80")


def test_parts_are_drawn_only_where_they_were_measured() -> None:
    assert phases_of(make_round(0, [" a"], " b", total=60)) == [("whole", 0.0, 60)]
    staged = phases_of(make_round(0, [" a"], " b", total=100, staged=True))
    assert [phase for phase, _, _ in staged] == ["draft", "verify", "judge", "other"]
    starts, lengths = [start for _, start, _ in staged], [length for _, _, length in staged]
    assert starts == pytest.approx([0, 20, 90, 93])
    assert sum(lengths) == pytest.approx(100)
    assert "phases not timed" in time_text(make_round(0, [" a"], " b"))
    assert time_text(make_round(0, [" a"], " b", total=100, staged=True)) == (
        "100 ms: draft 20.0 ms, verify 70.0 ms, judge 3.0 ms, other 7.0 ms."
    )


def test_text_of_a_lane() -> None:
    words = lane_text(make_round(4, [" a"], " b", [" x", " y"], total=50))
    for part in ("Round 5", "Gumbel", "3 proposals", "1 accepted, 1 rejected, 1 unjudged", "correction “b”", "50.0 ms"):
        assert part in words
    assert "nothing proposed" in lane_text(make_round(0, [], " b"))
    assert chip_text(make_round(0, [" a"], " b", [" x"]), 1) == "“x” rejected, proposal 2 of 2"
    assert "own token" in chip_text(make_round(0, [" a"], " b", [" x"]), 2)


def test_the_axis_spans_typical_rounds_and_is_stable() -> None:
    extent = Extent()
    extent.add([make_round(i, [" a"], " b", total=50 + i % 3) for i in range(100)])
    assert extent.span == 60
    extent.add([make_round(100, [" a"], " b", total=5000)])
    assert extent.span == 60, "one slow round does not squeeze the others"
    extent.add([make_round(i, [" a"], " b", total=300) for i in range(101, 160)])
    assert extent.span == 300


def test_the_axis_shrinks_only_where_half_of_it_would_do() -> None:
    extent = Extent()
    for total, count, span in ((300, 10, 300), (200, 300, 300), (100, 7000, 100)):
        extent.add([make_round(0, [" a"], " b", total=total)] * count)
        assert extent.span == span


@pytest.mark.parametrize(("value", "expected"), [(0.07, 0.08), (1, 1), (1.01, 1.25), (83, 100), (59, 60), (4200, 5000), (0, 1)])
def test_spans_are_round_numbers(value: float, expected: float) -> None:
    assert round_up(value) == pytest.approx(expected)


def test_at_zoom_1_a_typical_round_fits_with_all_its_chips() -> None:
    lanes = field(story_rounds(STORY * 5))
    scale = lanes.scale
    assert lanes.extent.span * scale.per_ms <= lanes.lanes_width
    assert lanes.extent.typical_count * scale.slot <= lanes.lanes_width
    assert lanes.total_width <= lanes.lanes_width + 1
    assert scale.is_readable(scale.slot_in(5))


def test_zooming_in_lengthens_bars_and_zooming_out_puts_more_lanes_in_view() -> None:
    extent = Extent()
    extent.add(story_rounds())
    scales = [scale_for(extent, 400, 500, zoom, "round", 1.0) for zoom in (0.25, 0.5, 1, 2, 8)]
    assert [scale.per_ms for scale in scales] == sorted(scale.per_ms for scale in scales)
    assert scales[0].row < scales[1].row < scales[2].row < scales[3].row
    assert all(scale.chip_top + scale.chip <= scale.bar_top for scale in scales)
    assert all(scale.bar_top + scale.bar <= scale.row for scale in scales)


def test_round_and_token_at_a_point() -> None:
    lanes = field(story_rounds(STORY * 5), y=62)
    row, slot = lanes.scale.row, lanes.scale.slot
    top = lanes.top_of(5)
    assert lanes.at(40 + 1.5 * slot, top + 5) == (5, 1)
    assert lanes.at(40 + 1.5 * slot, top + row - 1) == (5, WHOLE_LANE), "the bar is the round's"
    assert lanes.at(10, top + 5) == (5, WHOLE_LANE), "so is its number"
    assert lanes.at(40 + 4.5 * slot, top + 5) == (5, 4), "the correction"
    assert lanes.at(10, 501) is None
    assert field(story_rounds()[:2]).at(50, 400) is None


def test_slot_of_a_place() -> None:
    lanes = field([make_round(0, [" a"], " b", [" x", " y"])])
    assert [lanes.slot_of(0, proposal, emitted) for proposal, emitted in ((0, None), (2, None), (None, 1), (9, None))] == [
        0,
        2,
        3,
        WHOLE_LANE,
    ]


def test_only_visible_lanes_are_requested() -> None:
    lanes = field(story_rounds(STORY * 60), height=500)
    assert lanes.count > 900
    lanes.y = 500 * lanes.scale.row
    seen = lanes.lanes_between(0, 500)
    assert seen[0] == 500
    assert len(seen) <= 500 // lanes.scale.row + 2
    assert list(field([]).lanes_between(0, 500)) == []


def test_on_the_answers_clock_rounds_are_at_their_times() -> None:
    rounds = story_rounds(STORY * 20)
    lanes = field(rounds, clock="answer")
    starts = [lanes.start_of(index) for index in range(10)]
    assert starts[0] == lanes.gutter
    assert starts == sorted(starts)
    assert starts[3] - starts[2] == pytest.approx((rounds[3].started - rounds[2].started) * lanes.scale.per_ms)
    last = lanes.lanes_between(0, 500)[-1]
    assert lanes.start_of(last) < lanes.width, "a screenful of rounds is in view"
    lanes.y = 100 * lanes.scale.row
    assert lanes.start_of(100) == pytest.approx(lanes.gutter)
    lanes.y += lanes.scale.row // 2
    assert lanes.gutter - lanes.scale.per_ms * 100 < lanes.start_of(100) < lanes.gutter, "moving evenly while lanes scroll by"


def test_a_pause_is_the_time_between_two_rounds() -> None:
    lanes = field([make_round(0, [], " a", total=50), make_round(1, [], " b", started=80, total=50)])
    assert [lanes.pause_after(index) for index in (0, 1)] == [30, 0]


def test_revealing_a_lane_scrolls_as_little_as_needed() -> None:
    lanes = field(story_rounds(STORY * 20), height=500)
    row = lanes.scale.row
    lanes.y = 20 * row
    assert lanes.offset_to_show(25) == lanes.y
    assert lanes.offset_to_show(3) == 3 * row
    assert lanes.offset_to_show(60) == 61 * row - 500


def test_a_shortened_answer_is_laid_out_again() -> None:
    rounds = story_rounds(STORY * 5)
    lanes = field(rounds)
    lanes.grow(rounds[:4])
    assert (lanes.count, lanes.extent.rounds) == (4, 4)


def test_ticks_are_round_times_far_enough_apart() -> None:
    assert ticks(0, 100, per_ms=4, min_distance=70) == [
        (0, "0 ms"),
        (20, "20 ms"),
        (40, "40 ms"),
        (60, "60 ms"),
        (80, "80 ms"),
        (100, "100 ms"),
    ]
    marks = ticks(13_250, 14_900, per_ms=0.25, min_distance=76)
    assert [label for _, label in marks] == ["13.5 s", "14.0 s", "14.5 s"]
    assert all(math.isclose(at % 500, 0) for at, _ in marks)
    assert ticks(5, 4, 1, 70) == []
    assert time_label(0.25, 0.05) == "0.25 ms"
    assert time_label(120_000, 1000) == "120 s"


def test_only_unusually_long_lanes_have_narrower_chips() -> None:
    rounds = [make_round(i, [" a"] * (30 if i % 5 == 4 else 1), " b", [" x"]) for i in range(40)]
    lanes = field(rounds)
    scale = lanes.scale
    assert scale.is_readable(scale.slot_in(3))
    assert not scale.is_readable(scale.slot_in(32))
    assert 32 * scale.slot_in(32) <= scale.max_chips_width <= lanes.lanes_width
    assert lanes.at(40 + 31.5 * scale.slot_in(32), lanes.top_of(4) + 5) == (4, 31)
