"""Where the rule changed, tiles and definitions have the figures of each rule instead of a blend, and say of which rounds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.look.banner import Banner
from app.look.theme import DARK
from app.panel.definitions import define, figures_of
from app.panel.panel import SidePanel
from app.session.chat import Chat
from app.session.cursor import Cursor
from app.session.session import Answer, Turn
from app.session.settings import Settings
from engine.rounds.metrics import summarise
from engine.types import DecodingOptions, Rule
from tests.app.conversation.showing import gain
from tests.app.fakes import STORY, FakeEngine, story_rounds


def answered(*rules: tuple[Rule, int]) -> Answer:
    """An answer whose rules were in force for so many rounds each, the last for the rest."""
    answer = Answer(DecodingOptions(seed=7), "head", 0.0, state="finished")
    edges = [(rule, sum(many for _, many in rules[: place + 1])) for place, (rule, many) in enumerate(rules)]
    for round_ in story_rounds(STORY * 3):
        rule = next((rule for rule, end in edges if round_.index < end), rules[-1][0])
        made = replace(round_, rule=rule)
        if rule == "rejection":  # which accepts nothing here, so that a blend is another figure
            made = replace(made, proposals=tuple(replace(proposal, status="unjudged") for proposal in made.proposals))
            made = replace(made, proposals=(replace(made.proposals[0], status="rejected"), *made.proposals[1:]))
        gain(answer, [made])
    return answer


def test_each_figure_that_a_rule_decides_is_given_for_both_rules() -> None:
    answer = answered(("gumbel", 20), ("rejection", 1))
    first, second = summarise(answer.rounds[:20]), summarise(answer.rounds[20:])
    found = figures_of(answer, None)
    for key, form in (("alpha", ".0%"), ("tau", ".2f"), ("draft_yield", ".0%")):
        assert found[key] == ((f"{getattr(first, key):{form}}", "Gumbel"), (f"{getattr(second, key):{form}}", "Rejection"))
    assert [unit for _, unit in found["throughput"]] == ["Gumbel", "Rejection"]
    assert len(found["first_token"]) == len(found["speed_up"]) == 1, "of the whole answer"
    blended = f"{answer.tally.summary.alpha:.0%}"
    assert first.alpha != second.alpha and blended not in {value for value, _ in found["alpha"]}, "no blend"


def test_with_more_changes_the_latest_two_stretches_are_shown() -> None:
    answer = answered(("match", 10), ("gumbel", 10), ("rejection", 1))
    assert [unit for _, unit in figures_of(answer, None)["alpha"]] == ["Gumbel", "Rejection"]
    lines = define("answer", answer).numbers
    of = f"Rejection in {len(answer.rounds) - 20} rounds (the latest two of 3), of different text"
    assert lines[0] == f"Gumbel in 10 rounds | {of}"


def test_definitions_compute_each_rule_separately() -> None:
    answer = answered(("gumbel", 20), ("rejection", 1))
    first = summarise(answer.rounds[:20])
    lines = define("alpha", answer).numbers
    assert f"Gumbel: {first.accepted} / ({first.accepted} + {first.rejected}) = {first.alpha:.3f}" in lines
    assert any(line.startswith("Rejection: ") for line in lines)
    taus = define("tau", answer).numbers
    assert f"Gumbel: expected: {first.predicted_tau:.2f}" in taus


def test_an_answer_under_one_rule_has_one_figure_each() -> None:
    answer = answered(("gumbel", 1))
    assert all(len(figures) == 1 for figures in figures_of(answer, None).values())
    assert define("alpha", answer).numbers[0].count("|") == 0


@pytest.mark.parametrize("width", [340, 480, 900])
def test_the_tiles_show_two_stretches_and_return_to_one(qtbot: QtBot, fonts: None, width: int) -> None:
    parent = QObject()
    chat = Chat(FakeEngine(), Settings(), None, parent)
    session = chat.session
    session.turns.append(Turn("Tell me a story.", answered(("gumbel", 20), ("rejection", 1))))
    panel = SidePanel(chat, Cursor(), Banner())
    qtbot.addWidget(panel)
    panel.set_look(DARK, 1.0)
    panel.resize(width, 800)
    panel.show()
    panel.refresh()
    QApplication.processEvents()
    tiles = panel.figures.tiles
    about = panel.heading.stretches
    assert about.isVisible() and about.text().startswith("Gumbel in 20 rounds | Rejection in ")
    assert about.text().endswith("rounds, of different text")
    assert tiles["alpha"].earlier.isVisible() and not tiles["first_token"].earlier.isVisible()
    assert tiles["alpha"].accessibleName() == (
        f"Acceptance rate {tiles['alpha'].earlier.text()}, Gumbel; {tiles['alpha'].value.text()}, Rejection"
    )
    for tile in tiles.values():
        assert tile.width() >= tile.minimumSizeHint().width() and tile.height() >= tile.minimumSizeHint().height()
        beside = [other for other in tiles.values() if other.y() == tile.y()]
        assert len({other.height() for other in beside}) == 1, "tiles of one row are as tall as each other"
    session.turns[0].answer = answered(("gumbel", 1))
    panel.refresh()
    assert not panel.heading.stretches.isVisible() and not tiles["alpha"].earlier.isVisible()
    panel.stop()
    chat.close()
