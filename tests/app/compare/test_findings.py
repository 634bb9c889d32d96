"""What a comparison of rules says it has found: only what its columns show. No window."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.compare.comparison import ColumnSetup, Comparison, Setup
from app.compare.difference_line import result_sentences
from app.compare.findings import (
    CONTRARY,
    MISSING,
    RuleFigure,
    agreement_words,
    conclusion,
    drawing_words,
    rule_findings,
    tree_finding,
)
from engine.types import Expected, Rule, RunFailed
from tests.app.compare.test_comparison import TEXT, compared, end, grow, rounds_of
from tests.app.fakes import make_round
from tests.trees import tree_round

FOUR = tuple(ColumnSetup(rule=rule, drafter=drafter) for rule in ("gumbel", "rejection") for drafter in ("head", "builtin-draft"))


def ended(*texts: list[str]) -> Comparison:
    """Gumbel with two drafters, then Rejection with the same two, whose answers have these texts."""
    comparison = compared(*FOUR)
    for run, text in enumerate(texts, 1):
        grow(comparison, run, rounds_of(text))
        end(comparison, run)
    return comparison


def test_each_rule_says_whether_its_text_stayed() -> None:
    gumbel, rejection = rule_findings(ended(TEXT, TEXT, TEXT, [*TEXT[:3], " was", " lit"]))
    assert (gumbel.kind, gumbel.columns) == ("same", (0, 1))
    assert gumbel.words == "Gumbel: same text with both drafters: 5 of 5 tokens."
    assert (rejection.kind, rejection.columns) == ("expected", (2, 3))
    assert rejection.words == "Rejection: the texts of C and D diverge at token 4. Same probabilities, different dice."
    assert [finding.figures[0].value for finding in (gumbel, rejection)] == ["Same text", "Different text"]


def test_rejection_texts_that_happen_to_agree_are_not_said_to_part() -> None:
    _, rejection = rule_findings(ended(TEXT, TEXT, TEXT, TEXT))
    assert rejection.kind == "same"
    assert "same text" in rejection.words


def test_a_gumbel_text_that_changes_is_never_called_expected() -> None:
    gumbel, _ = rule_findings(ended(TEXT, [*TEXT[:3], " was", " lit"], TEXT, TEXT))
    assert gumbel.kind == "unexpected"
    assert "should be identical" in gumbel.words


def test_while_answers_run_only_what_is_known_is_said() -> None:
    comparison = compared(*FOUR)
    assert [finding.kind for finding in rule_findings(comparison)] == ["waiting", "waiting"]
    for run in (1, 2):
        grow(comparison, run, rounds_of(TEXT[:3]))
    gumbel, rejection = rule_findings(comparison)
    assert gumbel.words == "Gumbel: same text with both drafters so far: 3 tokens."
    assert rejection.kind == "waiting"
    assert conclusion(comparison) == ("", "")


@pytest.mark.parametrize(
    "columns",
    [
        FOUR[:2],
        FOUR[:3],
        (FOUR[0], FOUR[2], FOUR[1], FOUR[3]),
        (*FOUR[:3], ColumnSetup(rule="rejection", drafter="none")),
        (*FOUR[:3], ColumnSetup(rule="rejection", drafter="ngram", temperature=0.2)),
    ],
    ids=["one rule", "a rule with one column", "not side by side", "no drafter", "two temperatures"],
)
def test_other_comparisons_have_no_findings_by_rule(columns: tuple[ColumnSetup, ...]) -> None:
    assert Setup("Tell me a story.", columns).rules == ()
    assert rule_findings(compared(*columns)) == ()


def test_columns_are_held_against_the_first_of_their_rule() -> None:
    comparison = ended(TEXT, TEXT, TEXT, TEXT)
    assert [comparison.letters_compared_with(index) for index in range(4)] == ["B", "", "D", ""]
    assert comparison.relation(2) is None


def judged(more: float, rejection: tuple[int, int] = (12, 12)) -> Comparison:
    """Answers of 24 rounds, in which Rejection is expected to accept `more` than Gumbel at every position; under Gumbel every
    other proposal was accepted, under Rejection so many of how many rounds' proposals."""
    comparison = compared(*FOUR)
    for run in range(1, 5):
        rule = FOUR[run - 1].rule
        accepted, rejected = rejection if rule == "rejection" else (12, 12)
        rounds = []
        for index in range(accepted + rejected):
            kept = index < accepted
            base = make_round(index, ["a"] if kept else [], "b", [] if kept else ["ghost"], rule=rule, position=10 + 2 * index)
            expected = Expected(0.2, 0.5, 0.5 + more + 0.001 * (index % 3))
            rounds.append(replace(base, expected=(expected,)))
        grow(comparison, run, rounds)
        end(comparison, run)
    return comparison


def test_acceptance_is_compared_at_the_same_positions_with_its_interval() -> None:
    comparison = judged(0.06)
    headline, words = conclusion(comparison)
    assert headline == "Gumbel kept the text when the drafter changed; Rejection happened to keep it."
    assert words == (
        "At the same positions, Rejection is expected to accept 6.1 points more than Gumbel (95% interval 6.1 to 6.1)."
    )
    gumbel, rejection = (finding.figures[1] for finding in rule_findings(comparison))
    assert gumbel == RuleFigure("50.0% accepted", "expected of 96 proposals")
    assert rejection == RuleFigure("56.1% accepted", "of the same proposals: +6.1 points (95%: 6.1 to 6.1)")


def test_speed_is_that_of_all_answers_under_a_rule() -> None:
    for finding in rule_findings(comparison := judged(0.06)):
        answers = [comparison.columns[index].answer for index in finding.columns]
        tokens = sum(answer.tally.summary.emitted for answer in answers)
        seconds = sum(answer.tally.summary.emitted / (answer.tokens_per_second or 0) for answer in answers)
        assert finding.figures[2] == RuleFigure(f"{tokens / seconds:.1f} tokens/s", "speed with both drafters")


@pytest.mark.parametrize(
    ("rules", "temperature", "said"),
    [
        (("gumbel", "rejection"), 0.8, "only Gumbel fixes the draw, so that the drafter cannot change the text. Under Rejection"),
        (("match", "gumbel"), 0.8, "both fix the draw"),
        (("rejection", "block"), 0.8, "neither fixes the draw"),
        (("gumbel", "rejection"), 0.0, "nothing is drawn"),
    ],
)
def test_one_sentence_says_how_the_rules_draw(rules: tuple[Rule, Rule], temperature: float, said: str) -> None:
    columns = tuple(ColumnSetup(rule=rule, temperature=temperature) for rule in rules for _ in range(2))
    assert said in drawing_words(Setup("Tell me a story.", columns))
    assert drawing_words(Setup("Tell me a story.", columns[:3])) == ""


def test_texts_that_were_stopped_before_they_could_part_prove_nothing_of_rejection() -> None:
    comparison = compared(*FOUR)
    for run in range(1, 5):
        grow(comparison, run, rounds_of(TEXT[:3]))
        end(comparison, run, "cancelled")
    assert conclusion(comparison)[0] == (
        "Gumbel kept the text when the drafter changed; Rejection kept it until the answers were stopped."
    )


def test_a_measured_alpha_that_seems_to_say_the_opposite_is_explained() -> None:
    assert result_sentences(judged(0.06, rejection=(4, 20)))[-1] == CONTRARY
    assert CONTRARY not in result_sentences(judged(0.06, rejection=(14, 10)))
    assert CONTRARY not in conclusion(judged(0.06, rejection=(4, 20)))[1], "the page shows no alphas where rules are contrasted"


def test_no_difference_is_claimed_that_cannot_be_told_from_chance() -> None:
    _, words = conclusion(judged(-0.001))
    assert words == "There are too few tokens to tell which rule accepts more."
    assert conclusion(ended(TEXT, TEXT, TEXT, TEXT))[1] == "There are too few tokens to tell which rule accepts more."


def test_nothing_is_concluded_from_texts_that_should_not_have_parted() -> None:
    headline, _ = conclusion(ended(TEXT, [*TEXT[:3], " was", " lit"], TEXT, TEXT))
    assert headline == ""


def test_texts_are_the_same_only_where_all_have_come_to_their_end() -> None:
    for second, said in ((TEXT, "The texts are the same."), (TEXT[:2], "The texts are the same as far as they go.")):
        comparison = compared(*FOUR[:2])
        for run, text in enumerate((TEXT, second), 1):
            grow(comparison, run, rounds_of(text))
            assert agreement_words(comparison) == "No difference so far."
            end(comparison, run, "length" if text == TEXT else "cancelled")
        assert agreement_words(comparison) == said
    comparison = compared(*FOUR[:2])
    for run in (1, 2):
        comparison.apply(RunFailed(run, "The model is damaged."))
    assert agreement_words(comparison) == MISSING, "two answers without text are not the same text"


CHAIN_TREE = (ColumnSetup(budget=None), ColumnSetup(budget=8))


def test_what_a_tree_gained_is_counted() -> None:
    comparison = compared(*CHAIN_TREE)
    assert tree_finding(comparison) == ("", "")
    taken = tree_round((-1, 1, "accepted"), (0, 0, "accepted"), (-1, 0, "unjudged"))
    passed = tree_round((-1, 0, "accepted"), (-1, 1, "unjudged"), index=1)
    tokens = [token.text for round_ in (taken, passed) for token in round_.emitted]
    ids = [token.id for round_ in (taken, passed) for token in round_.emitted]
    chain = [replace(each, emitted=(replace(each.emitted[0], id=own),)) for each, own in zip(rounds_of(tokens), ids, strict=True)]
    grow(comparison, 1, chain)
    grow(comparison, 2, [taken, passed])
    headline, words = tree_finding(comparison)
    assert headline == "The tree gave 2.50 tokens per pass, the chain 1.00: 150% more so far, for the same text."
    assert words == (
        "At 1 position the target took a choice of the tree other than the drafter's first. 2 passes of the target instead of 5."
    )
    end(comparison, 1)
    end(comparison, 2)
    assert "so far" not in tree_finding(comparison)[0] and result_sentences(comparison)[0] == tree_finding(comparison)[0]


def test_a_tree_that_was_not_drafted_has_gained_nothing() -> None:
    comparison = compared(*CHAIN_TREE)
    for run in (1, 2):
        grow(comparison, run, rounds_of(TEXT))
    headline, words = tree_finding(comparison)
    assert "0% more" in headline and words.startswith("No tree was drafted")


@pytest.mark.parametrize(
    "columns",
    [
        (ColumnSetup(), ColumnSetup()),
        (ColumnSetup(), ColumnSetup(budget=8, rule="rejection")),
        (ColumnSetup(drafter="none"), ColumnSetup(drafter="none", budget=8)),
        (ColumnSetup(budget=4), ColumnSetup(budget=8)),
        (*CHAIN_TREE, ColumnSetup(budget=16)),
    ],
)
def test_only_a_chain_and_a_tree_alike_in_all_else_are_called_that(columns: tuple[ColumnSetup, ...]) -> None:
    assert Setup("Tell me a story.", columns).trees is None
    assert Setup("Tell me a story.", CHAIN_TREE[::-1]).trees == (1, 0)
