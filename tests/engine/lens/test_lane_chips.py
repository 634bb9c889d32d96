"""The layout of a round's tokens as chips: a chain in one row, a tree with its text in the first row."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from engine.lens.lane_chips import chip_text, chips_of, size_of
from engine.types import Emitted, Round
from tests.app.fakes import make_round
from tests.trees import SECOND_CHOICE, TO_A_LEAF, TREE_RULES, tree_options, tree_round, tree_rounds

WORDS = ("cat", "ran", "dog", "sat", "ran", "off")
NUMBERS = (1, 2, 3, 4, 2, 5)


def example() -> Round:
    """The tree in the documentation of `engine.lens.lane_chips`."""
    made = tree_round(
        (-1, 0, "accepted"), (0, 1, "accepted"), (-1, 1, "unjudged"), (0, 0, "unjudged"), (2, 0, "unjudged"), (4, 0, "unjudged")
    )
    proposals = tuple(
        replace(token, id=number, text=f" {word}", bytes=f" {word}".encode())
        for token, number, word in zip(made.proposals, NUMBERS, WORDS, strict=True)
    )
    emitted = (
        Emitted(1, " cat", b" cat", "accepted"),
        Emitted(2, " ran", b" ran", "accepted"),
        Emitted(9, " away", b"", "bonus"),
    )
    return replace(made, proposals=proposals, emitted=emitted)


def test_a_chain_is_one_row_and_nothing_in_it_is_connected() -> None:
    round_ = make_round(0, [" a"], " c", [" x", " y"])
    chips = chips_of(round_)
    assert [(chip.column, chip.row, chip.parent, chip.not_reached) for chip in chips] == [
        (column, 0, None, False) for column in range(4)
    ]
    assert size_of(round_) == (4, 1)


def test_a_tree_has_the_text_in_its_first_row_and_the_other_choices_below_it() -> None:
    chips = chips_of(example())
    places = {(chip.column, chip.row): chip.text for chip in chips}
    assert [[places.get((column, row), "") for column in range(3)] for row in range(3)] == [
        ["cat", "ran", "away"],
        ["", "sat", ""],
        ["dog", "ran", "off"],
    ]
    texts = [None if chip.parent is None else chips[chip.parent].text for chip in chips]
    assert texts == [None, "cat", None, "cat", "dog", "ran", "ran"]
    assert size_of(example()) == (3, 3)


def test_a_choice_beside_the_path_that_the_text_has_there_was_not_reached() -> None:
    round_ = example()
    (slot,) = [slot for slot, chip in enumerate(chips_of(round_)) if chip.not_reached]
    assert slot == 4
    assert chip_text(round_, slot) == (
        "“ran” unjudged, choice 1 of 1 at depth 2, the token of the text at this position, on a branch that was not reached"
    )
    elsewhere = replace(round_, emitted=(replace(round_.emitted[0], id=9), replace(round_.emitted[1], id=1), round_.emitted[2]))
    assert not any(chip.not_reached for chip in chips_of(elsewhere)), "the same token at another position is another one"


def test_where_no_choice_was_accepted_the_first_row_has_the_correction() -> None:
    chips = chips_of(tree_round((-1, 0, "rejected"), (-1, 1, "unjudged"), (0, 0, "unjudged")))
    assert [(chip.kind, chip.column, chip.row) for chip in chips] == [
        ("rejected", 0, 1),
        ("unjudged", 0, 2),
        ("unjudged", 1, 1),
        ("correction", 0, 0),
    ]


def check(round_: Round) -> None:
    """No two chips share a place, and no two lines between the same columns overlap."""
    chips = chips_of(round_)
    assert len({(chip.column, chip.row) for chip in chips}) == len(chips)
    assert size_of(round_) == (1 + max(chip.column for chip in chips), 1 + max(chip.row for chip in chips))
    spans: dict[tuple[int, int], list[int]] = {}
    for chip in chips:
        if chip.parent is not None:
            parent = chips[chip.parent]
            assert parent.column == chip.column - 1
            spans.setdefault((chip.column, chip.parent), [parent.row]).append(chip.row)
    for (column, one), rows in spans.items():
        for (other_column, other), other_rows in spans.items():
            if column == other_column and one != other:
                assert max(rows) < min(other_rows) or max(other_rows) < min(rows)


@pytest.mark.parametrize("rule", TREE_RULES)
def test_chips_and_lines_of_decoded_trees_never_overlap(rule: str) -> None:
    rounds = tree_rounds(tree_options(rule))  # type: ignore[arg-type]
    for round_ in rounds:
        check(round_)
        row = sorted((chip.column, chip.text) for chip in chips_of(round_) if not chip.row)
        if round_.is_tree:
            assert "".join(f" {text}" for _, text in row) == "".join(token.text for token in round_.emitted)
    check(SECOND_CHOICE)
    check(TO_A_LEAF)


def test_chips_and_lines_of_trees_of_any_shape_never_overlap() -> None:
    chance = random.Random(1)
    for _ in range(60):
        path = chance.randint(0, 4)
        nodes = [(at - 1, 0, "accepted") for at in range(path)]
        nodes += [(chance.randint(-1, at - 1), at, "unjudged") for at in range(path, path + chance.randint(1, 20))]
        check(tree_round(*nodes))  # type: ignore[arg-type]
