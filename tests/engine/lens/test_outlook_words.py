"""The considerations of automatic gamma are worded with the current figures, and nothing is said if nothing is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.lens.outlook_words import explanation, pause_reason
from engine.lens.pieces import Spot
from engine.lens.token_reasons import decision
from engine.types import Emitted, Outlook
from tests.engine.small_models import round_of

LONGER = "times as long as a plain one"
PRICE = f"Here a round with 2 proposals takes 1.30 {LONGER}; it pays from 45% accepted, and"
PARKED = Outlook(2, 1.3, 0.29, 0.45, next_try=20)


@pytest.mark.parametrize(
    ("outlook", "words"),
    [
        (PARKED, f"{PRICE} the drafter is at 29% (α). Drafting is paused, next try in 20 rounds."),
        (
            replace(PARKED, drafter="head", next_try=1),
            f"{PRICE} the trained head is at 29% (α). Drafting is paused, next try in 1 round.",
        ),
        (
            replace(PARKED, alpha=0.61),
            f"{PRICE} the drafter is at 61% (α). Drafting is paused, next try in 20 rounds, since the last one hardly paid.",
        ),
        (replace(PARKED, next_try=None), f"{PRICE} the drafter is at 29% (α)."),
        (
            replace(PARKED, alpha=0.61, next_try=None, skipped="measured"),
            f"{PRICE} the drafter is at 61% (α). "
            "Now and then a round skips drafting even when it pays, to measure the cost of a plain round.",
        ),
        (replace(PARKED, alpha=0.61, next_try=None), f"{PRICE} the drafter is at 61% (α)."),
        (
            replace(PARKED, alpha=0.61, next_try=None, skipped="last"),
            f"{PRICE} the drafter is at 61% (α). There was room for only one more token.",
        ),
        (
            replace(PARKED, alpha=0.61, next_try=None, skipped="reading"),
            f"{PRICE} the drafter is at 61% (α). This round also read the rest of the prompt, so nothing was drafted.",
        ),
        (
            Outlook(1, 1.35, 0.18, 0.35, copies=True, drafter="ngram"),
            f"Here a round with 1 proposal takes 1.35 {LONGER}; copying pays from a chance of 35%, and this copy has 18%.",
        ),
        (
            Outlook(1, 2.5, 0.9, 1.0),
            f"Here a round with 1 proposal takes 2.50 {LONGER}; no acceptance rate makes up for that, "
            "and the drafter is at 90% (α).",
        ),
    ],
)
def test_explanation_says_why_drafting_pauses_or_continues(outlook: Outlook, words: str) -> None:
    plain = replace(round_of(0, 0, 50.0), outlook=outlook, emitted=(Emitted(0, "a", b"a", "plain"),))
    assert explanation(plain) == words
    assert decision(plain, Spot(0, True, 0), greedy=True).endswith(f"the target's argmax. {words}")


def test_pause_reason_only_for_paused_rounds() -> None:
    plain, drafted = round_of(0, 0, 50.0), round_of(1, 2, 50.0)
    assert pause_reason(replace(plain, outlook=PARKED)) == "drafting paused: 29% accepted, 45% needed here"
    assert pause_reason(replace(drafted, outlook=PARKED)) == "" and "paused" not in explanation(replace(drafted, outlook=PARKED))
    assert explanation(replace(drafted, outlook=replace(PARKED, alpha=0.61))).endswith("is at 61% (α).")
    assert pause_reason(replace(plain, outlook=replace(PARKED, next_try=None))) == pause_reason(plain) == explanation(plain) == ""
