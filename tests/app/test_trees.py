"""Answers that were drafted as trees, in everything of the window and the command line that reads rounds."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from app.cli.entry import main
from app.cli.terminal import RoundPainter, status_line
from app.compare.comparison import Column, ColumnSetup
from app.compare.round_strip import bar_of
from app.compare.sample_tally import SampleTally
from app.export.kinds import formats
from app.lanes.field import LaneField
from app.lanes.geometry import lane_text
from app.panel.definitions import CHART_LINES, FORMULAS
from app.replay.player import Replay
from app.rules.page import RulesPage
from app.session.cursor import Cursor, Place, ShownAnswer
from app.session.session import Answer, Session
from app.session.settings import PANEL_PAGES
from app.table.model import COLUMNS, tab_separated
from app.verdict.residual import residual_after
from app.verdict.verdict import judge, tokens_before
from engine.exports.export import csv_texts, to_html, to_json, write
from engine.lens.chart_kinds import CHARTS
from engine.lens.lane_chips import chip_text, chips_of
from engine.lens.pieces import Spot
from engine.lens.rejudge import TREE
from engine.rounds.codec import options_to_json
from engine.rounds.metrics import summarise, violations
from engine.rounds.trace import Trace, read
from engine.types import ORIGINS, RULES, Expected, Round, Rule, Status
from tests.crossings import crossed
from tests.traces import write_trace
from tests.trees import SECOND_CHOICE, TO_A_LEAF, TREE_RULES, tree_options, tree_round, tree_rounds

SEEDS = (1, 2)
trees = pytest.mark.parametrize(("rule", "seed"), crossed(TREE_RULES, SEEDS, together=1))


@pytest.fixture(scope="module")
def trace_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Rule, int], Trace]:
    """Traces of answers drafted as trees."""
    folder = tmp_path_factory.mktemp("traces")

    @functools.cache
    def made(rule: Rule, seed: int) -> Trace:
        options = tree_options(rule, seed)
        path = folder / f"{rule}-{seed}.jsonl"
        return read(write_trace(path, tree_rounds(options), options=options_to_json(options), seed=seed))

    return made


Traces = Callable[[Rule, int], Trace]


def replayed(trace: Trace) -> Answer:
    """The answer of a trace, applied to a session round by round, with a step back between."""
    session = Session(clock=lambda: 100.0)
    replay = Replay(session, trace)
    session.show_replay(replay.turns)
    for shown in (len(trace.rounds) // 2, 1, len(trace.rounds)):
        replay.show(shown)
    return replay.answer


def hand_made(*rounds: Round) -> Answer:
    made = Answer(tree_options("gumbel"), "builtin-draft", 0.0)
    made.rounds = list(rounds)
    return made


@trees
def test_a_session_has_the_text_and_the_figures_of_the_rounds(rule: Rule, seed: int, trace_of: Traces) -> None:
    trace = trace_of(rule, seed)
    answer = replayed(trace)
    assert tuple(answer.rounds) == trace.rounds
    assert answer.text.text == trace.text and answer.tally.summary == summarise(trace.rounds)
    for _, _, here in FORMULAS.values():
        assert "None" not in " ".join(here(answer, None))
    for lines in CHART_LINES.values():
        assert "nan" not in " ".join(lines(answer, None))
    painter = RoundPainter(colours=False)
    assert "".join(map(painter.paint, trace.rounds)) + painter.flush() == trace.text
    line = status_line(answer.tally.summary, "length", 0.5, seed)
    assert f"alpha {answer.tally.summary.alpha:.2f} · tau {answer.tally.summary.tau:.2f}" in line


@trees
def test_the_card_of_every_token_is_about_its_own_position(rule: Rule, seed: int, trace_of: Traces) -> None:
    answer = replayed(trace_of(rule, seed))
    for current in answer.rounds:
        own = [Spot(current.index, True, at) for at, token in enumerate(current.emitted) if token.origin != "accepted"]
        for spot in (*own, *(Spot(current.index, False, at) for at in range(len(current.proposals)))):
            found = judge(answer, spot)
            assert found is not None and "None" not in found.text().replace("None of the", "")
            above = spot.at if spot.own else current.depths[spot.at] - 1
            assert found.location.endswith(f"position {current.position + above:,}")
            marked = [entry.id for entry in (*found.target, *found.draft) if "in the text" in entry.marks]
            assert set(marked) <= {current.emitted[above].id if above < len(current.emitted) else None}
            beside = not spot.own and current.proposals[spot.at].status == "unjudged"
            assert (tokens_before(answer, spot) is None) is beside or answer.request is None
            assert residual_after(current, spot, False) == () or len(current.choices(above)) == 1
    assert judge(answer, Spot(0, False, len(answer.rounds[0].proposals))) is None


def test_where_a_token_of_a_tree_was_proposed() -> None:
    answer = hand_made(SECOND_CHOICE, TO_A_LEAF)

    def where(*spot: Any) -> str:
        found = judge(answer, Spot(*spot))
        assert found is not None
        return found.location

    assert where(0, False, 0) == "round 1, choice 2 of 2 at depth 1, position 10"
    assert where(0, False, 2) == "round 1, choice 1 of 2 at depth 1, position 10"
    assert where(0, False, 5) == "round 1, choice 1 of 1 at depth 3, position 12"
    assert where(0, True, 1) == "round 1, in place of 2 choices, position 11"
    assert where(1, True, 1) == "round 2, after 1 accepted, position 11"
    assert chip_text(SECOND_CHOICE, 3) == "“d” unjudged, choice 2 of 2 at depth 2"


@trees
def test_lanes_table_and_comparison_hold_every_proposal(rule: Rule, seed: int, trace_of: Traces) -> None:
    rounds = trace_of(rule, seed).rounds
    lanes = LaneField()
    lanes.grow(rounds)
    lanes.fit(440, 500, gutter=40, text_scale=1)
    for current in rounds:
        own = sum(token.origin != "accepted" for token in current.emitted)
        assert len(chips_of(current)) == len(current.proposals) + own and lane_text(current)
        for slot, chip in enumerate(chips_of(current)):
            assert lanes.slot_of(current.index, chip.proposal, chip.emitted) == slot and chip_text(current, slot)
        assert all(column.text(current) for column in COLUMNS if column.title != "Text")
        assert bar_of(current).counts == (current.accepted, current.rejected, current.unjudged)
    assert len(tab_separated(list(rounds)).splitlines()) == len(rounds) + 1
    column = Column(ColumnSetup("builtin-draft"), Session())
    for current in rounds:
        column.add(current)
    for current in rounds:
        for at, depth in enumerate(current.depths):
            place = column.position_of(Spot(current.index, False, at))
            assert place == current.position - rounds[0].position + depth - 1


def test_a_sample_counts_the_first_choice() -> None:
    """The expected share is about one draw of the drafter, so that an accepted second choice would not fit it."""

    class _Sample:
        text = "7"

        def __init__(self, current: Round) -> None:
            self.rounds = (current,)

    tally = SampleTally(ColumnSetup("builtin-draft"))
    for current in (SECOND_CHOICE, TO_A_LEAF):
        tally.add(_Sample(current))  # type: ignore[arg-type]
    assert (tally.judged, tally.accepted) == (2, 1)


@trees
def test_every_export_can_be_made(rule: Rule, seed: int, trace_of: Traces, tmp_path: Path, qapp: Any) -> None:
    trace = trace_of(rule, seed)
    for name, form in formats().items():
        if name == "parquet":
            pytest.importorskip("pyarrow")
        for chart in CHARTS if name == "svg" else ("positions",):
            files = write([trace], form, tmp_path / f"{name}-{chart}{next(iter(form.endings))}", chart=chart)
            assert files and all(file.stat().st_size for file in files)


@trees
def test_the_page_and_the_command_say_why_a_tree_is_not_judged_again(
    rule: Rule, seed: int, trace_of: Traces, qtbot: QtBot, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = trace_of(rule, seed)
    session, cursor = Session(clock=lambda: 100.0), Cursor()
    replay = Replay(session, trace)
    session.show_replay(replay.turns)
    replay.show(len(trace.rounds))
    page = RulesPage(ShownAnswer(session, cursor), cursor)
    qtbot.addWidget(page)
    page.refresh()
    assert page.headline.text() == TREE and not page.details.text() and not page.notes.text()
    assert page.list.changes.rowCount() == 0 and page.gamma.count() == 1
    for again in ("gumbel", "rejection"):
        assert main(["rejudge", str(trace.path), "--rule", again]) == 1
        said = capsys.readouterr()
        assert not said.out and TREE in said.err and said.err.count("\n") == 1


def test_the_window_shows_trees_on_every_page(qtbot: QtBot, open_window: Callable[..., Any], trace_of: Traces) -> None:
    window, _ = open_window()
    for rule in TREE_RULES:
        trace = trace_of(rule, SEEDS[0])
        window.replay_controller.show(trace)
        window.replay_controller.go_to(len(trace.rounds))
        for name in PANEL_PAGES:
            window.panel.show_page(name)
            window.panel.refresh()
            for current in trace.rounds[:4]:
                for at in range(len(current.proposals)):
                    window.cursor_place.point(Place(window.panel.shown.turn, current.index, at))
                    window.cursor_place.pin(Place(window.panel.shown.turn, current.index, at))
                    if name == "charts" and current.proposals[at].status != "accepted":
                        assert window.panel.pages[name].sections["positions"].chart.marker.value() == current.depths[at]
            window.grab()
        window.cursor_place.pin(None)
        window.replay_controller.go_to(3)
        window.grab()
        window.replay_controller.leave()


def test_a_damaged_tree_whose_parents_come_first_is_shown_without_a_traceback(tmp_path: Path) -> None:
    """Verdicts, ranks and figures in any order: a trace like that opens, and everything that reads rounds has words for it."""
    chance = random.Random(3)
    statuses: tuple[Status, ...] = ("accepted", "rejected", "unjudged")
    for number in range(25):
        nodes = [
            (chance.randint(-1, at - 1), chance.choice((0, 0, 1, 9)), chance.choice(statuses))
            for at in range(chance.randint(1, 7))
        ]
        made = tree_round(*nodes, rule=chance.choice(RULES))
        emitted = [
            replace(token, origin=chance.choice(ORIGINS), p=0.5) for token in made.emitted[: chance.randint(0, len(made.emitted))]
        ]
        proposals = [
            replace(token, p=chance.choice((None, 0.5)), q=chance.choice((None, 0.4, 0.0)), coin=chance.choice((None, 0.3)))
            for token in made.proposals
        ]
        expected = (Expected(0.1, 0.2, 0.3),) * chance.randint(0, 8)
        made = replace(made, emitted=tuple(emitted), proposals=tuple(proposals), expected=expected)
        trace = read(write_trace(tmp_path / f"{number}.jsonl", [made]))
        assert trace.rounds == (made,)
        answer, column = replayed(trace), Column(ColumnSetup("builtin-draft"), Session())
        column.add(made)
        for own, tokens in ((True, made.emitted), (False, made.proposals)):
            for at in range(len(tokens)):
                assert judge(answer, Spot(0, own, at)) is not None
        assert lane_text(made) and [chip_text(made, slot) for slot in range(len(chips_of(made)))]
        assert to_html([trace]) and csv_texts([trace]) and to_json([trace])
        violations([made])
