"""Sentences about the tokens of a tree, their places in the text, and the refusal to judge a tree again."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from engine.lens.pieces import Spot, judged_at, pieces, place_of, where_proposed
from engine.lens.rejudge import JUDGED_AGAIN, TREE, refusal, rejudge, rejudge_round
from engine.lens.rule_comparison import RuleComparisons, comparison_sentence, first_choice
from engine.lens.tally import Tally
from engine.lens.token_reasons import decision, limitations
from engine.types import Expected, Proposal, Round, Rule
from engine.values.errors import DraftlightError
from tests.trees import SECOND_CHOICE, TO_A_LEAF, TREE_RULES, tree_options, tree_rounds

OWN_SECOND, OWN_LEAF = Spot(0, True, 1), Spot(1, True, 1)


def said(round_: Round, spot: Spot, greedy: bool = False) -> str:
    return decision(round_, spot, greedy).split(" The 4 unjudged")[0].split(" The 2 unjudged")[0]


def drawn(round_: Round, *tokens: int) -> Round:
    """The round with the target's own draws, as match and gumbel record them."""
    proposals = [
        replace(token, draft_argmax=token.id, target_argmax=drawn) for token, drawn in zip(round_.proposals, tokens, strict=False)
    ]
    return replace(round_, proposals=(*proposals, *round_.proposals[len(proposals) :]))


def test_the_choices_of_a_position_are_named_where_the_target_drew_another() -> None:
    made = drawn(SECOND_CHOICE, 0, 90)
    assert said(made, Spot(0, False, 0)) == "The target drew “·a”, choice 2 of 2 for this position."
    assert said(made, Spot(0, False, 1)) == (
        "The target drew “·own”, which is none of the 2 choices for this position: “·b” and “·d”."
    )
    assert said(made, OWN_SECOND) == (
        "The token that the target drew. It is none of the 2 choices for this position: “·b” and “·d”."
    )
    assert said(made, Spot(0, False, 2)) == (
        "Another choice for the same position as “·a”, which was accepted because it is the target's draw."
    )
    assert said(made, Spot(0, False, 3)) == (
        "Another choice for the same position as “·b”, which was rejected. The target's draw was “·own”, none of the choices."
    )
    assert said(made, Spot(0, False, 4)) == "It followed “·c”, which was not accepted, so it was never judged."
    assert said(made, Spot(0, False, 5)) == "It followed “·b”, which was not accepted, so it was never judged."


def test_at_temperature_0_the_argmax_is_named() -> None:
    made = drawn(replace(SECOND_CHOICE, rule="rejection"), 0, 90)
    assert said(made, Spot(0, False, 0), greedy=True) == "The target's argmax is “·a”, choice 2 of 2 for this position."
    assert said(made, OWN_SECOND, greedy=True).startswith("The target's argmax. It is none of the 2 choices")


def test_rejection_names_its_choices_in_the_order_in_which_they_were_tried() -> None:
    coins = {2: (0.9, 0.5), 0: (0.25, 0.75), 1: (0.6, 0.1), 3: (0.7, 0.2)}
    proposals = [
        replace(token, p=0.1, q=0.2, coin=coins[at][0], acceptance=coins[at][1]) if at in coins else token
        for at, token in enumerate(SECOND_CHOICE.proposals)
    ]
    made = replace(SECOND_CHOICE, rule="rejection", proposals=tuple(proposals))
    assert said(made, Spot(0, False, 0)) == (
        "Choice 2 of 2 for this position, judged by what the choices before it left of p: “·a” (u = 0.250, below its chance "
        "0.750). It was tried before and not accepted: “·c” (u = 0.900, not below its chance 0.500)."
    )
    tried = "“·b” (u = 0.600, not below its chance 0.100), then “·d” (u = 0.700, not below its chance 0.200)"
    assert said(made, Spot(0, False, 1)) == (
        f"None of the 2 choices for this position was accepted, tried in this order: {tried}."
    )
    assert said(made, OWN_SECOND) == (
        f"Drawn from what 2 choices for this position left of p, none of which was accepted. They were tried in this order: "
        f"{tried}."
    )
    assert said(made, Spot(0, False, 2)) == (
        "Another choice for the same position as “·a”, which was accepted. This one was tried before it: its coin u = 0.900 is "
        "not below its chance 0.500."
    )
    leaf = replace(TO_A_LEAF, rule="rejection")
    assert said(leaf, Spot(1, False, 2)) == (
        "Another choice for the same position as “·a”, which was accepted before this one was tried."
    )


def test_a_bonus_follows_a_path_to_its_end() -> None:
    assert said(TO_A_LEAF, OWN_LEAF) == (
        "Nothing was proposed after the accepted tokens, so the same pass gave one extra token: drawn by the target."
    )
    assert judged_at(TO_A_LEAF, OWN_LEAF) is None, "the second recorded proposal is no verdict on the second position"
    assert judged_at(SECOND_CHOICE, OWN_SECOND) is SECOND_CHOICE.proposals[1]


def test_only_a_branch_that_was_left_follows_text_that_is_not_there() -> None:
    made = replace(SECOND_CHOICE, proposals=tuple(replace(token, p=0.5, q=0.5) for token in SECOND_CHOICE.proposals))
    told = [
        any("follows text that was rejected" in note for note in limitations(made, Spot(0, False, at), False)) for at in range(6)
    ]
    assert told == [False, False, False, False, True, True]


@pytest.mark.parametrize("rule", TREE_RULES)
def test_pieces_of_trees_join_to_the_text_and_every_spot_is_that_of_its_token(rule: Rule) -> None:
    rounds = tree_rounds(tree_options(rule))
    found = list(pieces(rounds))
    assert "".join(piece.text for piece in found if not piece.ghost) == "".join(current.text for current in rounds)
    assert [piece.spot for piece in found] == sorted(piece.spot for piece in found), "in reading order"
    assert len(found) == len({piece.spot for piece in found})
    for piece in found:
        current = rounds[piece.spot.round]
        token = current.emitted[piece.spot.at] if piece.spot.own else current.proposals[piece.spot.at]
        assert token.text.strip() == piece.text.strip()
        if not piece.spot.own:
            parent, above = current.proposals[piece.spot.at].parent, 0
            while current.is_tree and parent is not None and parent >= 0:
                parent, above = current.proposals[parent].parent, above + 1
            assert place_of(current, piece.spot) == (above if current.is_tree else piece.spot.at)


def test_a_proposal_is_placed_by_choice_and_depth() -> None:
    assert [where_proposed(SECOND_CHOICE, at) for at in (0, 3, 5)] == [
        "choice 2 of 2 at depth 1",
        "choice 2 of 2 at depth 2",
        "choice 1 of 1 at depth 3",
    ]


@pytest.mark.parametrize("recorded", TREE_RULES)
@pytest.mark.parametrize("rule", JUDGED_AGAIN)
def test_a_tree_is_not_judged_again(recorded: Rule, rule: Rule) -> None:
    options = tree_options(recorded)
    rounds = tree_rounds(options)
    tree = next(current for current in rounds if current.is_tree)
    assert refusal(options, rule) == "", "a budget alone may have drafted chains"
    assert refusal(options, rule, rounds=rounds) == TREE and TREE.count("trace does not hold the draws") == 1
    assert rejudge_round(tree, 1, rule).verdicts == () and not rejudge_round(tree, 1, rule).complete
    with pytest.raises(DraftlightError, match="A trace does not hold the draws"):
        rejudge(rounds, options, rule)


def test_closed_forms_are_compared_with_the_first_choices() -> None:
    """The recorded expectation is about one draw of the drafter, so an accepted second choice is no success of it."""
    expected = (Expected(0.25, 0.5, 0.75), Expected(0.25, 0.5, 0.75))
    (found,) = RuleComparisons.of([replace(SECOND_CHOICE, expected=expected)]).all
    assert (found.positions, found.accepted, found.expected["gumbel"]) == (2, 0.0, 0.5)
    assert comparison_sentence(found).startswith("Expected of 2 first choices: Match 25%")
    assert first_choice(SECOND_CHOICE, 0) is SECOND_CHOICE.proposals[2]
    copy = replace(SECOND_CHOICE.proposals[2], copied=True, p=0.125, q=1.0)
    copied = replace(SECOND_CHOICE, expected=expected[:1], proposals=(*SECOND_CHOICE.proposals[:2], copy))
    (found,) = RuleComparisons.of([copied]).all
    assert found.all_copied and set(found.expected.values()) == {0.125}, "p of the copy, not what a draw beside it would have had"


def test_series_count_levels_and_predict_nothing_of_trees() -> None:
    expected = (Expected(0.25, 0.5, 0.75),)
    tally = Tally.of([replace(SECOND_CHOICE, expected=expected), replace(TO_A_LEAF, expected=expected)])
    assert tally.gammas == {3: 1, 1: 1} and len(tally.judged_positions()) == 2
    assert all(value != value for value in tally.expected[-1]) and tally.accepted[-1] == 1
    chain = replace(TO_A_LEAF, proposals=(Proposal(0, " a", b" a", "accepted"),), expected=expected, drafter="ngram", index=2)
    tally.add(chain)
    assert list(tally.expected[-1]) == [0.25, 0.5, 0.75], "another drafter begins a stretch of its own"


@pytest.mark.parametrize("rule", TREE_RULES)
def test_every_token_of_a_tree_has_its_reason(rule: Rule) -> None:
    for current in tree_rounds(tree_options(rule)):
        own = [Spot(current.index, True, at) for at, token in enumerate(current.emitted) if token.origin != "accepted"]
        for spot in (*own, *(Spot(current.index, False, at) for at in range(len(current.proposals)))):
            for greedy in (False, True):
                words = decision(current, spot, greedy)
                assert re.search(r"\w\.$|”\.$|\)\.$|\.$", words) and "None" not in words.replace("None of the", ""), words
                assert all(note.endswith(".") for note in limitations(current, spot, greedy))
