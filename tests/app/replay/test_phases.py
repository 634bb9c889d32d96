"""A round phase by phase: draft, verify, judge, commit, each with a sentence."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app.look import theme as themes
from app.replay.phases import PHASES, caption
from app.replay.player import Player
from app.replay.round_steps import MOST_ROWS, RoundSteps
from engine.lens.lane_chips import chips_of
from engine.types import RULES, Round
from tests.app.fakes import make_round
from tests.trees import TREE_RULES, tree_options, tree_round, tree_rounds

CHAIN = make_round(0, ["The"], " sky", [" moon", "'s"], drafter="builtin-draft")


def test_slow_motion_stops_four_times_in_each_round_and_goes_back_the_same_way() -> None:
    player = Player([make_round(index, ["a"], "b") for index in range(3)])
    player.set_timing("phases")
    seen = [(player.staged, player.phase, player.shown)]
    for _ in range(12):
        player.play()
        seen.append((player.staged, player.phase, player.shown))
    assert seen[0] == (None, "commit", 0)
    assert [(staged, phase) for staged, phase, _ in seen[1:]] == [(index, phase) for index in range(3) for phase in PHASES]
    assert [shown for _, _, shown in seen[1:]] == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3]
    assert player.is_at_end and not player.is_playing
    player.step(1)
    back = [(player.staged, player.phase, player.shown)]
    for _ in range(12):
        player.step(-1)
        back.append((player.staged, player.phase, player.shown))
    assert back == seen[::-1]
    player.step(2)
    player.set_timing("recorded")
    assert (player.staged, player.phase) == (None, "commit"), "at full speed no round is half shown"


def test_sentences_say_what_happens() -> None:
    assert caption(CHAIN, "draft") == "Small draft model proposes 3 tokens, each after the ones before it."
    assert caption(CHAIN, "verify").startswith("One pass of the target reads all 3 proposals")
    assert caption(CHAIN, "judge").endswith("both drew the same token: 1 accepted, 1 rejected, 1 not judged.")
    assert caption(CHAIN, "commit") == (
        "1 accepted token and the target's own “sky” as the correction become text; 2 other proposals are dropped."
    )
    bonus = make_round(0, ["The"], " sky")
    assert caption(bonus, "commit") == "1 accepted token and the target's own “sky” as a bonus become text."
    assert caption(make_round(0, [], " sky"), "commit") == "The target's own “sky” becomes text."


def test_a_tree_with_one_choice_for_each_position_is_told_as_a_chain() -> None:
    only = tree_round((-1, 0, "rejected"))
    assert caption(only, "draft") == "Small draft model proposes 1 token."
    assert "reads the proposal," in caption(only, "verify")
    assert caption(only, "commit").endswith("; the proposal is dropped.")
    wide = tree_round((-1, 0, "rejected"), (-1, 1, "unjudged"))
    assert caption(wide, "draft") == "Small draft model proposes 2 choices for the next token."
    deep = tree_round((-1, 0, "accepted"), (0, 0, "rejected"), (-1, 1, "unjudged"))
    assert "a tree of 3 tokens" in caption(deep, "draft") and "the whole tree" in caption(deep, "verify")


@pytest.mark.parametrize("rule", RULES)
def test_every_phase_of_every_round_has_one_sentence(rule: str) -> None:
    rounds: list[Round] = [make_round(0, [], "x", rule=rule), make_round(1, ["a", "b"], "c", ["d"], rule=rule)]  # type: ignore[arg-type]
    if rule in TREE_RULES:
        rounds += tree_rounds(tree_options(rule))  # type: ignore[arg-type]
    for round_ in rounds:
        sentences = [caption(round_, phase) for phase in PHASES]
        assert len(set(sentences)) == 4
        assert all(sentence[0].isupper() or sentence[0].isdigit() for sentence in sentences)
        assert all(sentence.endswith(".") for sentence in sentences)


def test_the_strip_tells_verdicts_only_when_they_are_there(qtbot: QtBot) -> None:
    steps = RoundSteps()
    qtbot.addWidget(steps)
    steps.resize(600, 200)
    said = []
    for phase in PHASES:
        steps.show_phase(CHAIN, phase)
        said.append(steps.picture.accessibleDescription())
    assert said[:2] == ["The, moon, 's"] * 2
    assert said[2] == "The accepted, moon rejected, 's unjudged"
    assert said[3] == f"{said[2]}, sky correction"
    assert steps.caption.text() == caption(CHAIN, "commit")
    steps.show_phase(None, "draft", "Nothing yet.")
    assert steps.caption.text() == "Nothing yet." and not steps.picture.placed


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize("width", [360, 900])
def test_chips_are_within_the_strip_and_apart(qtbot: QtBot, width: int) -> None:
    steps = RoundSteps()
    qtbot.addWidget(steps)
    steps.set_look(themes.LIGHT, 1.0)
    steps.resize(width, 400)
    steps.show()
    wide = make_round(0, [" word"] * 14, " last")
    for round_ in (CHAIN, wide, *tree_rounds(tree_options("gumbel"))):
        steps.show_phase(round_, "commit")
        qtbot.wait(1)
        placed = steps.picture.placed
        expected = [chip for chip in chips_of(round_) if chip.row < MOST_ROWS]
        assert [each.chip for each in placed] == expected
        for at, each in enumerate(placed):
            assert each.area.right() <= steps.picture.width() + 1
            assert each.area.bottom() <= steps.picture.height()
            assert not any(each.area.intersects(other.area) for other in placed[:at])
