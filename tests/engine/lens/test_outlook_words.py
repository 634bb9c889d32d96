"""The considerations of automatic gamma are worded with the current figures, and nothing is said if nothing is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.lens.outlook_words import SKIPPED, explanation, pause_reason
from engine.lens.pieces import Spot
from engine.lens.token_reasons import decision
from engine.types import Emitted, Outlook
from tests.engine.small_models import round_of

PARKED = Outlook(2, 1.3, 0.29, 0.45, next_try=20)


@pytest.mark.parametrize(
    ("outlook", "facts"),
    [
        (PARKED, ("2 proposals takes 1.30 times", "from 45% accepted", "the drafter is at 29%", "next try in 20 rounds.")),
        (replace(PARKED, drafter="head", next_try=1), ("the trained head is at 29%", "next try in 1 round.")),
        (replace(PARKED, alpha=0.61), ("at 61%", "next try in 20 rounds, since the last one hardly paid.")),
        (replace(PARKED, next_try=None), ("from 45% accepted", "the drafter is at 29% (α).")),
        *((replace(PARKED, next_try=None, skipped=skipped), (f"at 29% (α). {words}",)) for skipped, words in SKIPPED.items()),
        (Outlook(1, 1.35, 0.18, 0.35, copies=True), ("1 proposal takes 1.35 times", "copying pays from a chance of 35%", "18%.")),
        (Outlook(1, 2.5, 0.9, 1.0), ("no acceptance rate", "the drafter is at 90% (α).")),
    ],
)
def test_explanation_says_why_drafting_pauses_or_continues(outlook: Outlook, facts: tuple[str, ...]) -> None:
    plain = replace(round_of(0, 0, 50.0), outlook=outlook, emitted=(Emitted(0, "a", b"a", "plain"),))
    said = explanation(plain)
    assert all(fact in said for fact in facts) and said.endswith(facts[-1]), said
    assert ("paused" in said) == (outlook.next_try is not None)
    assert decision(plain, Spot(0, True, 0), greedy=True).endswith(f". {said}")


def test_pause_reason_only_for_paused_rounds() -> None:
    plain, drafted = round_of(0, 0, 50.0), round_of(1, 2, 50.0)
    assert pause_reason(replace(plain, outlook=PARKED)) == "drafting paused: 29% accepted, 45% needed here"
    assert pause_reason(replace(drafted, outlook=PARKED)) == "" and "paused" not in explanation(replace(drafted, outlook=PARKED))
    assert explanation(replace(drafted, outlook=replace(PARKED, alpha=0.61))).endswith("is at 61% (α).")
    assert pause_reason(replace(plain, outlook=replace(PARKED, next_try=None))) == pause_reason(plain) == explanation(plain) == ""
