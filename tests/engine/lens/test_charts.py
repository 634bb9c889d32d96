"""What the charts show of an answer: whole, in words as in marks, and nothing that mixes two rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from app.charts.data import DEFAULT_ROUNDS, span_of
from engine.lens.bins import interrupted_columns
from engine.lens.chart_kinds import CHARTS
from engine.lens.chart_spec import Bars, ChartSpec, Whiskers
from engine.lens.charts import Material, spec_of
from engine.lens.tally import Tally
from engine.types import Expected, Round
from tests.app.fakes import STORY, make_round, story_rounds
from tests.trees import SECOND_CHOICE, TO_A_LEAF

LONG = story_rounds(STORY * 10)


def mixed_rules(first: int = 20, second: int = 25) -> list[Round]:
    """Two accepted of two under gumbel, then none of two under rejection, whose expected chances differ as much."""
    rounds = [make_round(index, ["a", "b"], "c", started=60.0 * index, rule="gumbel") for index in range(first)]
    for index in range(first, first + second):
        rounds.append(make_round(index, [], "c", ["x", "y"], started=60.0 * index, rule="rejection", drafter="ngram"))
    chances = (Expected(0.9, 0.9, 0.9), Expected(0.1, 0.1, 0.1))
    return [replace(one, expected=(chances[one.rule == "rejection"],) * len(one.expected)) for one in rounds]


def described(name: str, rounds: Sequence[Round], shown: int | None = DEFAULT_ROUNDS, width: int = 400) -> ChartSpec:
    """A chart of these rounds, as the window describes it."""
    return spec_of(CHARTS[name], Material(Tally.of(rounds), span_of(len(rounds), shown, width=width)))


def test_readouts_name_the_round_and_its_numbers() -> None:
    index = len(LONG) - 5
    round_ = LONG[index]
    assert described("proposals", LONG).readout(index) == (
        f"round {index + 1}: {round_.accepted} accepted, {round_.rejected} rejected, {round_.unjudged} unjudged"
    )
    tally = Tally.of(LONG)
    alpha, low, high = tally.alphas[index].tolist()
    assert described("alpha", LONG).readout(index) == f"round {index + 1}: {alpha:.2f}, interval {low:.2f} to {high:.2f}"
    tau, expected = tally.taus[index].tolist()
    assert described("tau", LONG).readout(index) == f"round {index + 1}: {tau:.2f}, expected {expected:.2f}"
    assert described("throughput", LONG).readout(index) == f"round {index + 1}: {tally.speeds[index]:.1f} tokens/s"
    staged = next(round_ for round_ in reversed(LONG) if round_.milliseconds.measured)
    times = described("times", LONG)
    assert f"verify {staged.milliseconds.verify:.1f} ms" in times.readout(staged.index)
    assert "phases not timed" in times.readout(staged.index - 1)


def test_a_column_of_many_rounds_reads_out_their_mean() -> None:
    rounds = LONG * 20
    spec = described("proposals", rounds, None)
    assert spec.span is not None
    mean = sum(round_.accepted for round_ in rounds[: spec.span.each]) / spec.span.each
    assert spec.readout(7).startswith(f"rounds 1 to {spec.span.each}: {mean:.1f} accepted")


def test_readout_omits_values_that_are_not_drawn() -> None:
    """A bin that a change of the rule divides has no point in the lines that look back."""
    spec = described("alpha", mixed_rules(133, 400), None, 250)
    assert spec.span is not None and spec.span.each > 1 and 133 % spec.span.each
    assert spec.readout(133).endswith("no data")


def test_times_keep_the_gaps_between_staged_rounds() -> None:
    totals, bars = (mark for mark in described("times", LONG, None, 2000).panels[0].marks if isinstance(mark, Bars))
    assert len(bars.x) and len(bars.x) + len(totals.x) == len(LONG)
    assert bars.x.tolist() == [round_.index + 1 for round_ in LONG if round_.milliseconds.measured]


def test_charts_say_why_they_are_empty() -> None:
    plain = [make_round(index, [], "a", started=60.0 * index) for index in range(5)]
    about_proposals = {"proposals", "alpha", "positions", "choices", "lengths"}
    for rounds, empty in ((LONG, {"choices"}), ([SECOND_CHOICE, TO_A_LEAF], set()), (plain, about_proposals), ([], set(CHARTS))):
        assert {name for name in CHARTS if described(name, rounds).empty} == empty
    for kind in CHARTS.values():
        assert spec_of(kind, None).empty == described(kind.name, []).empty == kind.waiting
    assert "No trees" in described("choices", LONG).empty


def test_acceptance_by_choice_stacks_this_choice_on_the_earlier_ones() -> None:
    """The three judged positions of two trees: the second of two choices, none of two, and the first of three was accepted."""
    spec = described("choices", [SECOND_CHOICE, TO_A_LEAF])
    bars, whiskers = spec.panels[0].marks
    assert isinstance(bars, Bars) and isinstance(whiskers, Whiskers)
    assert bars.x.tolist() == [1, 2, 3] == whiskers.x.tolist()
    assert bars.values == pytest.approx(np.array([[0, 1 / 3], [1 / 3, 1 / 3], [1, 0]])), "earlier choices, then this one"
    assert bars.titles[1] == "Choice 2: accepted at 1 of 3 positions, it or one before it at 2 (0.67)"
    z = 1.959963984540054  # Wilson's interval of 2 of 3, as its authors' textbook formula has it
    centre, reach = (2 + z * z / 2) / (3 + z * z), z / (3 + z * z) * (2 * 1 / 3 + z * z / 4) ** 0.5
    assert (whiskers.low[1], whiskers.high[1]) == pytest.approx((centre - reach, centre + reach))


def test_the_positions_of_a_tree_are_its_depths() -> None:
    judged, drafted = described("positions", [SECOND_CHOICE, TO_A_LEAF]).panels[0].marks
    assert isinstance(judged, Bars) and isinstance(drafted, Bars)
    assert judged.values[:, 0].tolist() == [1, 0] and drafted.values[:, 0].tolist() == [1, 0]
    assert judged.titles == ("Position 1: 2 of 2 judged (1.00)", "Position 2: 0 of 1 judged (0.00)")


@pytest.mark.parametrize("first", [20, 133])
@pytest.mark.parametrize("shown", [DEFAULT_ROUNDS, None])
def test_no_point_of_a_line_mixes_two_rules(first: int, shown: int | None) -> None:
    """Everything that looks back or predicts is one of two values, each on its side of the change; a window or a bin across it
    would be between them."""
    rounds = mixed_rules(first, 180 - first)
    tally = Tally.of(rounds)
    span = span_of(len(rounds), shown, width=250)
    for rows, before, after in (
        (tally.accepted.rows, 2.0, 0.0),
        (tally.expected.rows[:, 0], 0.9 + 0.81, 0.1 + 0.01),
        (tally.alphas.rows[:, 0], 1.0, 0.0),
        (tally.taus.rows[:, 0], 3.0, 1.0),
        (tally.taus.rows[:, 1], 3.0, 1.0),
    ):
        x, values = interrupted_columns(rows, span, tally.stretches)
        known = np.isfinite(values)
        left = x < first + 0.5
        assert values[known & left] == pytest.approx(before) and values[known & ~left] == pytest.approx(after)
        assert (known & ~left).any()
        if span.first < first and (first - span.first) % span.each == 0:
            assert known[x > first + 0.5][0], "a bin that begins with the change has one rule"
        if span.first < first:
            assert np.isnan(values[x == first + 0.5]).all() and (x == first + 0.5).any(), "the line is broken there"


def test_cells_too_low_to_distinguish_become_one_bar() -> None:
    (cells,) = described("proposals", LONG).panels[0].marks
    assert isinstance(cells, Bars) and cells.cells
    high, low = cells.boxes(0.7, True), cells.boxes(0.7, False)
    assert sum(map(len, low)) < sum(map(len, high))
    for many, one in zip(high, low, strict=True):
        assert sum(box[3] for box in one) == sum(box[3] for box in many), "nothing is lost"


@pytest.mark.parametrize("shown", [DEFAULT_ROUNDS, None])
@pytest.mark.parametrize("name", CHARTS)
def test_the_bars_never_leave_their_axis(name: str, shown: int | None) -> None:
    """Whatever is drawn of a round ends at the top of its axis, in every chart of bars and at every zoom."""
    rounds = [*LONG, make_round(len(LONG), ["a"], "b", ["c"] * 54, started=60.0 * len(LONG))]
    for panel in described(name, rounds, shown).panels:
        for mark in panel.marks:
            if isinstance(mark, Bars):
                for cells in {False, mark.cells}:
                    tops = [low + height for boxes in mark.boxes(0.7, cells) for _, low, _, height in boxes]
                    assert max(tops) <= panel.up.high
