"""An answer is divided where rule, drafter or gamma changed, as far as the record shows it."""

from __future__ import annotations

from dataclasses import replace

from engine.lens.dividers import dividers
from engine.rounds.metrics import stretches
from engine.types import Round, Rule
from tests.app.fakes import STORY, story_rounds
from tests.engine.lens.test_tally import Part, answer


def under(rule: Rule = "gumbel", first: int = 0, drafter: str = "head") -> list[Round]:
    rounds = story_rounds(STORY * 2)
    return [replace(round_, rule=rule, drafter=drafter) if round_.index >= first else round_ for round_ in rounds]


def test_a_change_of_gamma_alone_divides_and_one_that_changes_nothing_does_not() -> None:
    (found,) = dividers(stretches(under()), 4, [(3, 4), (5, 2), (8, 2)])
    assert (found.first, found.rule, found.title, found.label) == (5, "gumbel", "Gamma 2", "Gamma 2 from here")


def test_changes_of_one_round_have_one_divider() -> None:
    (found,) = dividers(stretches(under("rejection", 6)), "auto", [(6, 5)])
    assert found.title == "Rejection, gamma 5"
    assert found.label == "Rejection, gamma 5 from here; the text now depends on the drafter"
    assert found.from_here == "Rejection, gamma 5 from here"


def test_dividers_stand_in_the_order_of_rounds() -> None:
    found = dividers(stretches(under("rejection", 6)), 4, [(3, 2), (6, 2), (9, "auto")])
    assert [(divider.first, divider.title, divider.rule) for divider in found] == [
        (3, "Gamma 2", "gumbel"),
        (6, "Rejection", "rejection"),
        (9, "Gamma auto", "rejection"),
    ]


def test_nothing_is_said_where_nothing_is_known_or_no_drafter_heeds_it() -> None:
    assert dividers(stretches(under()), 4, []) == []
    assert dividers(stretches(under()), 4, [(0, 2)]) == [], "the answer began under it"
    assert dividers(stretches(under(drafter="none")), 4, [(5, 2)]) == []
    assert dividers([], 4, [(5, 2)]) == []
    rounds = len(under())
    assert [divider.first for divider in dividers(stretches(under()), 4, [(rounds, 2)])] == [rounds], "it is about to come"
    assert dividers(stretches(under()), 4, [(rounds + 1, 2)]) == dividers(stretches(under()), 4, [(10**400, 2)]) == []


def test_a_label_names_what_changed_and_says_once_that_the_text_depends_on_the_drafter() -> None:
    parts: list[Part] = [
        ("gumbel", "head", ["a"]),
        ("match", "head", ["a"]),
        ("rejection", "head", ["a"]),
        ("rejection", "ngram", ["a"]),
        ("block", "builtin-draft", ["a"]),
        ("gumbel", "builtin-draft", ["a"]),
        ("gumbel", "none", [""]),
    ]
    found = stretches(answer(*parts))
    assert [divider.label for divider in dividers(found, 4, [])] == [
        "Match from here",
        "Rejection from here; the text now depends on the drafter",
        "N-gram from here",
        "Block, Small draft model from here",
        "Gumbel from here",
        "No drafter from here",
    ]
    assert dividers(found, 4, [], greedy=True)[1].label == "Rejection from here"
