"""The words and figures of a verdict hold for the distributions they come from."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.session.session import Answer
from app.verdict.residual import residual_after
from app.verdict.verdict import Verdict, judge, probability, rank_text, tokens_before
from engine.decode.recording.analysis import Row
from engine.lens.pieces import Spot
from engine.lens.token_reasons import percent
from engine.rounds import theory
from engine.types import Candidate, DecodingOptions, Emitted, Expected, Message, Milliseconds, Proposal, Request, Round, Rule
from engine.values.answers import Status
from tests.app.fakes import make_round
from tests.trees import tree_round

TOKENS = (" the", " sea", "\n", " a", "!", " old", " lamp", " 7")
P = np.array([0.30, 0.05, 0.22, 0.15, 0.10, 0.08, 0.06, 0.04], dtype=np.float32)
Q = np.array([0.10, 0.40, 0.02, 0.20, 0.09, 0.09, 0.07, 0.03], dtype=np.float32)


def text_of(token: int) -> str:
    return TOKENS[token]


def rejected_round(rule: Rule = "rejection", p: Any = P, q: Any = Q, drafted: int = 1, drawn: int = 0, **changes: Any) -> Round:
    """A round whose only judged proposal fell, with another behind it that was not judged."""
    p_row, q_row = Row(p), Row(q)
    match, gumbel, rejection = theory.expected(p, q)
    proposal = Proposal(
        drafted,
        TOKENS[drafted],
        TOKENS[drafted].encode(),
        "rejected",
        q=q_row.of(drafted),
        p=p_row.of(drafted),
        acceptance=min(1.0, p_row.of(drafted) / q_row.of(drafted)),
        coin=0.7 if rule in ("rejection", "block") else None,
        draft_argmax=drafted if rule in ("match", "gumbel") else None,
        target_argmax=drawn if rule in ("match", "gumbel") else None,
        draft_top=q_row.candidates(text_of),
        target_top=p_row.candidates(text_of),
    )
    behind = Proposal(6, TOKENS[6], TOKENS[6].encode(), "unjudged", q=0.9)
    margin = 0.31 if rule in ("match", "gumbel") else None
    correction = Emitted(drawn, TOKENS[drawn], TOKENS[drawn].encode(), "correction", p_row.of(drawn), p_row.entropy, margin)
    made = Round(
        index=0,
        position=40,
        drafter="builtin-draft",
        rule=rule,
        proposals=(proposal, behind),
        emitted=(correction,),
        expected=(Expected(match, gumbel, rejection),),
        milliseconds=Milliseconds(10.0),
        rows=3,
        cache_length=40,
        text=TOKENS[drawn],
    )
    return replace(made, **changes)


def answer(*rounds: Round, temperature: float = 0.8, given: tuple[int, ...] = ()) -> Answer:
    options = DecodingOptions(temperature=temperature, seed=1)
    made = Answer(options, "builtin-draft", 0.0)
    made.request = Request((Message("user", "hi"),), options, given=given)
    made.rounds = list(rounds)
    return made


GHOST, BEHIND, CORRECTION = Spot(0, False, 0), Spot(0, False, 1), Spot(0, True, 0)


def verdict_on(made: Answer | Round, spot: Spot = GHOST) -> Verdict:
    """The verdict on a token of an answer, or of an answer with one round; by default on its first proposal."""
    verdict = judge(made if isinstance(made, Answer) else answer(made), spot)
    assert verdict is not None
    return verdict


def figures(made: Answer | Round, spot: Spot = GHOST) -> dict[str, str]:
    return {figure.name: figure.text for figure in verdict_on(made, spot).all_figures}


def test_the_residual_is_what_p_has_over_q_normalised() -> None:
    left = residual_after(rejected_round(), GHOST, greedy=False)
    excess = np.maximum(P.astype(float) - Q, 0)
    share = excess / excess.sum()
    listed = {entry.id for entry in left}
    assert listed >= {0, 2}
    for entry in left:
        assert entry.low - 1e-5 <= share[entry.id] <= entry.high + 1e-5
    known = {candidate.id for candidate in rejected_round().proposals[0].draft_top}
    for entry in left:
        if entry.id in known:
            assert entry.low == entry.high == pytest.approx(share[entry.id], abs=1e-5)


def test_every_share_is_exact_where_the_draft_has_few_tokens() -> None:
    q = np.array([0.1, 0.8, 0, 0, 0, 0, 0.1, 0], dtype=np.float32)
    left = residual_after(rejected_round(q=q), GHOST, greedy=False)
    excess = np.maximum(P.astype(float) - q, 0)
    assert len(left) == 5
    for entry in left:
        assert entry.low == entry.high == pytest.approx(excess[entry.id] / excess.sum(), abs=1e-5)


def test_the_residual_always_contains_the_drawn_token() -> None:
    drawn = int(np.argmin(P))
    left = {entry.id: entry for entry in residual_after(rejected_round(drawn=drawn), GHOST, greedy=False)}
    excess = np.maximum(P.astype(float) - Q, 0)
    assert left[drawn].low <= excess[drawn] / excess.sum() <= left[drawn].high + 1e-5
    for token, entry in left.items():
        others = sum(other.low for number, other in left.items() if number != token)
        assert entry.high <= 1 - others + 1e-5 or entry.high == entry.low, "shares add up to 1"


@pytest.mark.parametrize("rule", ["match", "gumbel"])
def test_no_residual_is_shown_where_the_target_drew_for_itself(rule: Rule) -> None:
    assert residual_after(rejected_round(rule), GHOST, greedy=False) == ()
    assert residual_after(rejected_round(), GHOST, greedy=True) == ()


def test_a_block_that_scales_p_shows_no_residual_but_says_the_weight() -> None:
    first = replace(rejected_round().proposals[0], status="accepted", p=0.2, q=0.4)
    base = rejected_round("block")
    kept = Emitted(1, " sea", b" sea", "accepted", 0.2)
    made = replace(
        base,
        proposals=(first, *base.proposals),
        emitted=(kept, *base.emitted),
        expected=(base.expected[0], base.expected[0]),
    )
    assert residual_after(made, Spot(0, False, 1), greedy=False) == ()
    verdict = verdict_on(made, Spot(0, True, 1))
    assert "w = 0.500" in verdict.decision
    assert residual_after(base, GHOST, greedy=False) != (), "the first proposal of a block is scaled by nothing"


def test_a_coin_close_to_the_ratio_shows_which_is_larger() -> None:
    made = rejected_round()
    first = made.proposals[0]
    assert first.p is not None and first.q is not None
    for off, accepted in ((2e-5, False), (-2e-5, True)):
        close = replace(first, coin=first.p / first.q + off, status="accepted" if accepted else "rejected")
        verdict = verdict_on(replace(made, proposals=(close, made.proposals[1])))
        coin, ratio = (float(words) for words in re.findall(r"= ([0-9]\.[0-9]+)", verdict.decision))
        assert (coin < ratio) == accepted


def test_rejection_tells_the_coin_and_the_ratio() -> None:
    made = answer(rejected_round())
    verdict = verdict_on(made)
    assert (verdict.token, verdict.data, verdict.kind) == ("·sea", "20 73 65 61", "rejected")
    assert verdict.location == "round 1, proposal 1 of 2, position 40"
    assert "u = 0.700 is not below p/q = 0.125" in verdict.decision
    assert figures(made)["p / q"] == "0.125"
    assert [(entry.token, entry.marks) for entry in verdict.target][:2] == [("·the", ("in the text",)), ("⏎", ())]
    assert verdict.draft[0].marks == ("proposed",)
    assert dict(verdict.expected)["Rejection"] == pytest.approx(float(np.minimum(P, Q).sum()), abs=1e-6)
    accepted = replace(rejected_round().proposals[0], status="accepted", p=0.5, q=0.4, coin=0.9)
    stands = verdict_on(replace(rejected_round(), proposals=(accepted,)))
    assert "whatever the coin" in stands.decision


@pytest.mark.parametrize(("rule", "words"), [("gumbel", "same noise"), ("match", "independently")])
def test_shared_noise_tells_both_draws_and_the_margin(rule: Rule, words: str) -> None:
    made = answer(rejected_round(rule))
    verdict = verdict_on(made)
    assert words in verdict.decision
    assert "“·sea”" in verdict.decision
    assert "“·the”" in verdict.decision
    assert figures(made)["Margin"] == "0.310"
    assert "Coin u" not in figures(made)


def test_an_unjudged_proposal_with_a_recorded_p_says_what_text_that_follows() -> None:
    round_ = rejected_round()
    recorded = replace(round_, proposals=(*round_.proposals[:-1], replace(round_.proposals[-1], p=0.25)))
    verdict = verdict_on(recorded, BEHIND)
    shown = next(figure for figure in verdict.all_figures if figure.name == "Target p")
    assert (shown.text, shown.note) == ("0.250", "after the proposals before it")
    assert any("p is given the proposals before it: it follows text that was rejected" in words for words in verdict.unknown)


def test_an_unjudged_proposal_without_p_carries_q_alone_and_says_so() -> None:
    made = answer(rejected_round())
    verdict = verdict_on(made, BEHIND)
    assert list(figures(made, BEHIND)) == ["Draft q"]
    assert "never judged" in verdict.decision
    assert "“·sea”" in verdict.decision
    assert any("p is unknown" in words for words in verdict.unknown)
    assert verdict.expected == ()
    assert tokens_before(made, BEHIND) is None


ALL_ON_SEA = np.where(np.arange(8) == 1, 1, 0).astype(np.float32)


def proposed(rule: Rule, copied: bool | None, drafter: str = "head", q: Any = ALL_ON_SEA) -> Round:
    """A round whose first proposal has all of q."""
    base = rejected_round(rule, q=q, drafter=drafter)
    return replace(base, proposals=(replace(base.proposals[0], copied=copied), base.proposals[1]))


@pytest.mark.parametrize("rule", ["match", "gumbel"])
@pytest.mark.parametrize("stands", [False, True])
def test_a_token_that_the_head_copied_is_not_said_to_be_drawn(rule: Rule, stands: bool) -> None:
    base = proposed(rule, copied=True)
    if stands:
        kept = replace(base.proposals[0], status="accepted", target_argmax=1)
        base = replace(base, proposals=(kept, base.proposals[1]), emitted=(replace(base.emitted[0], id=1, text=" sea"),))
    verdict = verdict_on(base)
    drew = "the same token" if stands else "“·the”"
    assert verdict.decision == f"“·sea” was copied from earlier in the text, not drawn; the target drew {drew}."
    assert "was copied: q is 1" in " ".join(verdict.unknown)
    assert not re.search("same noise|both drew|independently", verdict.text())


@pytest.mark.parametrize(
    ("made", "is_copy"),
    [
        (proposed("gumbel", copied=None, drafter="ngram"), True),
        (proposed("gumbel", copied=False), False),  # the only token that a filter left
        (proposed("gumbel", copied=None), True),  # recognised by its q
        (proposed("gumbel", copied=None, q=Q), False),
    ],
)
def test_only_a_copied_token_is_said_to_be_copied(made: Round, is_copy: bool) -> None:
    words = verdict_on(made).text()
    assert ("copied" in words, "same noise" in words) == (is_copy, not is_copy)


@pytest.mark.parametrize("rule", ["match", "gumbel", "rejection", "block"])
def test_at_temperature_0_the_rule_plays_no_part(rule: Rule) -> None:
    base = rejected_round(rule)
    greedy = replace(
        base,
        proposals=(replace(base.proposals[0], coin=None, draft_argmax=1, target_argmax=0, acceptance=0.0), base.proposals[1]),
        expected=(Expected(0.0, 0.0, 0.0),),
    )
    verdict = verdict_on(answer(greedy, temperature=0))
    assert "every rule accepts only the target's argmax, which is “·the”" in verdict.decision
    assert any("temperature 1 without filters" in words for words in verdict.unknown)
    assert "Chance to accept" not in verdict.text()
    assert verdict.residual == ()


def test_an_answer_without_analysis_says_that_nothing_was_recorded() -> None:
    bare = rejected_round(
        proposals=(Proposal(1, " sea", b" sea", "rejected"), Proposal(6, " lamp", b" lamp", "unjudged")),
        emitted=(Emitted(0, " the", b" the", "correction"),),
        expected=(),
    )
    for spot in (GHOST, BEHIND, CORRECTION):
        verdict = verdict_on(bare, spot)
        assert verdict.figures == ()
        assert "not recorded" in verdict.text()


def test_a_correction_has_the_distributions_of_the_proposal_it_replaces() -> None:
    made = answer(rejected_round())
    verdict = verdict_on(made, CORRECTION)
    assert verdict.target == verdict_on(made).target
    assert verdict.decision.startswith("Drawn from the residual in place of the rejected “·sea”")
    assert "Draft q" in figures(made, CORRECTION)


def test_a_bonus_and_a_plain_token_tell_where_they_come_from() -> None:
    rounds = make_round(0, ["one"], "two"), make_round(1, [], "three")
    bonus, plain = (verdict_on(answer(*rounds), Spot(index, True, 1 - index)) for index in (0, 1))
    assert "Every proposal was accepted" in bonus.decision
    assert "Nothing was proposed" in plain.decision
    assert bonus.expected == plain.expected == ()


def test_a_branch_keeps_the_given_and_preceding_tokens() -> None:
    made = answer(rejected_round(), replace(rejected_round(drawn=2), index=1), given=(5, 6))
    assert tokens_before(made, GHOST) == tokens_before(made, CORRECTION) == (5, 6)
    assert tokens_before(made, Spot(1, False, 0)) == (5, 6, 0)
    made.request = None
    assert tokens_before(made, GHOST) is None, "a recorded answer has no engine to go on with"


def test_tokens_after_the_end_are_explained_and_cannot_be_branched() -> None:
    base = make_round(0, ["one", "<end>", "two"], "three", finish="eos")
    made = answer(replace(base, emitted=base.emitted[:2]))
    end, behind = verdict_on(made, Spot(0, False, 1)), verdict_on(made, Spot(0, False, 2))
    assert "ends the answer" in end.text()
    assert "ended before this token" in behind.text()
    assert tokens_before(made, Spot(0, False, 1)) == (9,)
    assert tokens_before(made, Spot(0, False, 2)) is None


def test_a_rejected_proposal_behind_the_end_has_nothing_in_its_place() -> None:
    base = make_round(0, ["one", "<end>"], "two", ["three"], finish="eos")
    verdict = verdict_on(replace(base, emitted=base.emitted[:2]), Spot(0, False, 2))
    assert "nothing replaces it" in verdict.text()


def test_half_characters_among_the_alternatives_are_told_apart_by_their_ids() -> None:
    base = rejected_round()
    tops = tuple(Candidate(number, "\N{REPLACEMENT CHARACTER}", 0.2) for number in (0, 2, 3))
    verdict = verdict_on(replace(base, proposals=(replace(base.proposals[0], target_top=tops), base.proposals[1])))
    assert len({entry.token for entry in verdict.target}) == 3


NEAR = [
    (5e-4, "float32", True),
    (0.05, "float32", False),
    (0.05, "bfloat16", True),
    (0.05, None, False),
    (0.5, "bfloat16", False),
]


@pytest.mark.parametrize("name", ["Border", "Margin"])
@pytest.mark.parametrize(("gap", "logits", "near"), NEAR)
def test_a_gap_says_whether_it_is_a_near_tie(name: str, gap: float, logits: str | None, near: bool) -> None:
    base = rejected_round("gumbel")
    made = answer(replace(base, emitted=(replace(base.emitted[0], **{name.lower(): gap}),)))  # type: ignore[arg-type]
    made.logits = logits
    note = next(figure.note for figure in verdict_on(made, CORRECTION).all_figures if figure.name == name)
    assert note.startswith("near-tie") == near
    assert "Border" not in figures(base, CORRECTION)


def test_a_margin_that_is_a_lower_bound_is_marked() -> None:
    base = rejected_round("gumbel")
    ended, exact = (answer(replace(base, emitted=(replace(base.emitted[0], margin=margin),))) for margin in (1.25, 3.25))
    assert (figures(ended)["Margin"], figures(exact)["Margin"]) == ("≥ 1.25", "3.250")
    at_zero = answer(replace(base, emitted=(replace(base.emitted[0], margin=1.25),)), temperature=0)
    assert figures(at_zero)["Margin"] == "1.250", "logits are compared to the end"


def test_at_temperature_0_notes_name_only_what_is_shown() -> None:
    bonus = verdict_on(answer(make_round(0, ["one"], "two"), temperature=0), Spot(0, True, 1))
    behind = verdict_on(answer(rejected_round(), temperature=0), BEHIND)
    assert any(words.startswith("p is shown") for words in bonus.unknown)
    assert any(words.startswith("q is shown") for words in behind.unknown)


def test_missing_places_have_no_verdict() -> None:
    made = answer(rejected_round())
    for spot in (Spot(1, False, 0), Spot(0, False, 2), Spot(0, True, 1), Spot(-1, True, 0)):
        assert judge(made, spot) is None


def test_numbers_are_never_rounded_to_certainty() -> None:
    assert [probability(value) for value in (0.0, 1.0, 0.99999999, 0.9996, 0.5, 3e-7)] == [
        "0",
        "1",
        "0.99999",
        "0.99960",
        "0.500",
        "3.0e-07",
    ]
    top = rejected_round().proposals[0].target_top
    assert rank_text(0, top) == "most likely"
    assert rank_text(4, top) == "4th most likely"
    assert rank_text(7, top) == "not in the top five"
    assert rank_text(7, top[:3]) == "cannot be drawn"


@pytest.mark.parametrize(
    ("rule", "spot", "words"),
    [
        ("gumbel", GHOST, "The drafter proposed “sea”. With the same noise the target drew “the”, which takes its place."),
        ("gumbel", CORRECTION, "The drafter proposed “sea”. With the same noise the target drew “the”, which takes its place."),
        ("match", GHOST, "The drafter proposed “sea”. With noise of its own the target drew “the”, which takes its place."),
        (
            "rejection",
            CORRECTION,
            "The drafter proposed “sea”. The target wants it less than the drafter does, so a coin with a chance of 12% "
            "decided: it goes. “the” takes its place, drawn from the tokens that the drafter undervalued.",
        ),
        (
            "block",
            GHOST,
            "Block judges the proposals of a round together: 0 of 2 were accepted, and “sea” is the first that was not. “the” "
            "takes its place.",
        ),
        ("gumbel", BEHIND, "It came after the rejected “·sea”, so it was never judged."),
    ],
)
def test_a_verdict_begins_with_a_sentence_without_formulas(rule: Rule, spot: Spot, words: str) -> None:
    verdict = verdict_on(rejected_round(rule), spot)
    assert verdict.headline == words
    assert verdict.text().startswith(f"“{verdict.token}” {verdict.kind}. {words}")


@pytest.mark.parametrize("spot", [GHOST, CORRECTION, BEHIND])
@pytest.mark.parametrize("recorded", [True, False, None])
def test_a_token_outside_of_the_draft_vocabulary_is_a_reason_of_its_own(spot: Spot, recorded: bool | None) -> None:
    verdict = verdict_on(rejected_round("gumbel", outside_draft_vocabulary=recorded), spot)
    reason = "The target's token is not in the draft vocabulary, so the drafter could not propose it."
    assert (reason in verdict.headline) == bool(recorded and spot != BEHIND)


def test_the_sentence_fits_what_is_known() -> None:
    base = rejected_round()
    first = base.proposals[0]
    kept = verdict_on(replace(base, proposals=(replace(first, status="accepted", p=0.5, q=0.4),)))
    assert "stays whatever the coin" in kept.headline
    never = verdict_on(replace(base, proposals=(replace(first, p=0.0), base.proposals[1])))
    assert "gives it no chance here" in never.headline
    bare = verdict_on(replace(base, proposals=(replace(first, p=None, q=None), base.proposals[1])))
    assert "a coin decided: it was rejected" in bare.headline
    greedy = verdict_on(answer(rejected_round("gumbel"), temperature=0))
    assert "most likely token is “the”, which takes its place" in greedy.headline
    plain = verdict_on(make_round(0, [], "three"), Spot(0, True, 0))
    assert plain.headline == "Nothing was proposed in this round: The target drew “three”."


@pytest.mark.parametrize(
    ("share", "words"), [(0.0, "0%"), (1.0, "100%"), (0.125, "12%"), (0.004, "0.4%"), (3e-5, "less than 0.01%")]
)
def test_a_chance_never_reads_0_unless_it_is(share: float, words: str) -> None:
    assert percent(share) == words


def test_p_and_q_are_apart_from_the_other_figures() -> None:
    verdict = verdict_on(rejected_round())
    assert [figure.name for figure in verdict.shares] == ["Draft q", "Target p"]
    assert {figure.name for figure in verdict.figures} >= {"p / q", "Coin u"}
    assert not {figure.name for figure in verdict.shares} & {figure.name for figure in verdict.figures}


def tree_answer(*nodes: tuple[int, int, Status], ids: tuple[int, ...], text: int, rule: Rule = "gumbel") -> Answer:
    """An answer with one tree; `ids` are those of its proposals, `text` that of the target's own token."""
    made = tree_round(*nodes, rule=rule)
    proposals = tuple(replace(each, id=token, q=0.3, p=0.1) for each, token in zip(made.proposals, ids, strict=True))
    emitted = [replace(token, id=proposals[at].id) for at, token in enumerate(made.emitted[:-1])]
    own = replace(made.emitted[-1], id=text, margin=0.25)
    return answer(replace(made, proposals=proposals, emitted=(*[replace(each, margin=0.25) for each in emitted], own)))


def test_a_tree_says_the_rank_and_the_margin_of_the_targets_token() -> None:
    made = tree_answer((-1, 1, "accepted"), (0, 0, "rejected"), (-1, 0, "unjudged"), ids=(1, 2, 3), text=9)
    verdict = verdict_on(made, Spot(0, False, 0))
    assert verdict.headline == (
        "The drafter made 2 choices for this position. The target drew “a”, the drafter's second choice. Its score was 0.25 "
        "above the next best."
    )
    assert [(each.rank, each.token, each.fate, each.here) for each in verdict.siblings] == [
        (1, "·c", "not the target's token", False),
        (2, "·a", "accepted", True),
    ]
    assert "Choice 1: “·c”, not the target's token, q 0.300, p 0.100." in verdict.text()


def test_the_token_that_was_right_but_not_reached_is_named() -> None:
    nodes: tuple[tuple[int, int, Status], ...] = (
        (-1, 0, "accepted"),
        (0, 0, "rejected"),
        (0, 1, "unjudged"),
        (-1, 1, "unjudged"),
        (3, 0, "unjudged"),
    )
    made = tree_answer(*nodes, ids=(1, 2, 3, 4, 9), text=9)
    for spot in (Spot(0, False, 1), Spot(0, False, 2), Spot(0, True, 1)):
        verdict = verdict_on(made, spot)
        assert verdict.siblings[-1].fate == "right, but not reached: it followed “·d”"
        assert [each.rank for each in verdict.siblings[:-1]] == [1, 2]
    other = verdict_on(tree_answer(*nodes, ids=(1, 2, 3, 4, 5), text=9), Spot(0, True, 1))
    assert not any("right" in each.fate for each in other.siblings)
    first = verdict_on(made, Spot(0, False, 0))
    assert len(first.siblings) == 2
    branch = verdict_on(made, Spot(0, False, 4))
    assert {each.fate for each in branch.siblings} == set(), "an only choice on its branch"


def test_choices_that_rejection_did_not_try_are_not_called_rejected() -> None:
    made = tree_answer((-1, 0, "accepted"), (-1, 1, "unjudged"), ids=(1, 2), text=9, rule="rejection")
    verdict = verdict_on(made, Spot(0, False, 0))
    assert [each.fate for each in verdict.siblings] == ["accepted", "not tried"]


def test_a_copied_choice_has_no_q_of_a_draw() -> None:
    made = tree_answer((-1, 0, "accepted"), (-1, 1, "unjudged"), ids=(1, 2), text=9)
    round_ = made.rounds[0]
    copy, drawn = round_.proposals
    made.rounds[0] = replace(round_, proposals=(replace(copy, q=1.0, copied=True), replace(drawn, copied=False)))
    verdict = verdict_on(made, Spot(0, False, 0))
    assert [each.shares[0][1] for each in verdict.siblings] == ["copied", "q 0.300"]
    assert "accepted, copied, p 0.100." in verdict.text()
    assert verdict.shares[0].note == "copied, not drawn"


def test_a_chain_has_no_list_of_choices() -> None:
    for spot in (GHOST, BEHIND, CORRECTION):
        verdict = verdict_on(rejected_round(), spot)
        assert verdict.siblings == ()


def test_scores_are_read_out() -> None:
    verdict = next(
        each
        for each in (verdict_on(replace(rejected_round("gumbel"), position=place)) for place in range(300))
        if each.draws is not None and each.draws.drafted == 1
    )
    assert verdict.draws is not None and verdict.draws.drawn == 0
    said = verdict.text()
    assert "drafter and target get the same noise" in said
    target = next(each.target for each in verdict.draws.contenders if each.id == 0)
    assert target is not None and target.total is not None and f"= {target.total:.2f} (drawn)" in said
