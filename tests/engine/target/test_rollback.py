"""Speculation on models whose caches forget: windows, chunks, recurrent states. Tiny random models of mlx-lm's own files."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from engine.decoding import decode
from engine.drafters import DraftModel
from engine.drafters.base import Drafter
from engine.target import prompt_cache as caches
from engine.target.recurrent_cache import RecurrentCache
from engine.target.window_cache import WindowCache
from engine.types import DecodingOptions
from tests.engine.families import WINDOW, Scripted, tiny, varies
from tests.engine.small_models import PROMPT, emitted_ids, greedy_of_mlx_lm, same_up_to_near_ties

FAMILIES = ("cohere2", "llama4", "lfm2", "qwen3_next", "mamba")
"""Windows, chunks, convolutions beside attention, linear attention beside it, and nothing but recurrent layers."""
LENGTH = 4 * WINDOW
PLAIN = DecodingOptions(temperature=0, max_tokens=LENGTH, analyse=True)


@functools.cache
def greedy(family: str) -> tuple[int, ...]:
    """mlx-lm's own greedy text, with mlx-lm's own caches."""
    text = greedy_of_mlx_lm(model(family), PROMPT, LENGTH)
    assert varies(text), "equality would prove nothing"
    return tuple(text)


@functools.cache
def model(family: str, seed: int = 0) -> Any:
    return tiny(family, seed)


def is_greedy(family: str, drafter: Drafter | None, gamma: int) -> bool:
    rounds = list(decode(model(family), PROMPT, drafter, PLAIN.replace(gamma=gamma)))
    assert drafter is None or any(current.rejected for current in rounds)
    return same_up_to_near_ties(rounds, greedy(family))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_plain_answer_is_mlx_lms_past_the_window(family: str) -> None:
    assert is_greedy(family, None, 1)


@pytest.mark.parametrize(("every", "gamma"), [(3, 4), (5, 8), (9, 30)])
@pytest.mark.parametrize("family", FAMILIES)
def test_rejected_tokens_leave_no_trace_in_the_text(family: str, every: int, gamma: int) -> None:
    assert is_greedy(family, Scripted([*PROMPT, *greedy(family)], every), gamma)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_draft_model_may_be_of_such_a_family(family: str) -> None:
    assert is_greedy(family, DraftModel(model(family, 1)), 3)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_model_that_drafts_for_itself_is_never_wrong(family: str) -> None:
    """Its own cache is rolled back too: a drafter whose state were wrong would propose other tokens."""
    rounds = list(decode(model(family), PROMPT, DraftModel(model(family)), PLAIN.replace(gamma=4)))
    assert emitted_ids(rounds) == list(greedy(family))
    assert sum(current.rejected for current in rounds) == 0


def without_state(cache: RecurrentCache, length: int) -> None:
    """A roll-back that forgets to restore the state."""
    cache.offset = length


def test_a_state_that_is_not_restored_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecurrentCache, "cut", without_state)
    with pytest.raises(AssertionError, match="differs at token"):
        is_greedy("qwen3_next", Scripted([*PROMPT, *greedy("qwen3_next")], 3), 4)


def test_a_window_that_is_too_short_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "WindowCache", lambda size: WindowCache(size - 2))
    with pytest.raises(AssertionError, match="differs at token"):
        is_greedy("cohere2", None, 1)
