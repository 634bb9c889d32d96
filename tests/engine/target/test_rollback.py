"""Speculation on models whose caches forget: windows, chunks, recurrent states. Uses tiny random models of mlx-lm's own
classes.

`make test-full` (test_families) and tests/benchmarks/families.py run the same checks on every architecture.
"""

from __future__ import annotations

import functools
from contextlib import closing
from typing import Any

import pytest

from engine.decode.decoding import Control, decode
from engine.drafters import DraftModel
from engine.target import prompt_cache as caches
from engine.target.recurrent_cache import RecurrentCache
from engine.target.window_cache import ChunkCache, WindowCache
from engine.types import DecodingOptions
from tests.crossings import crossed
from tests.engine.families import WINDOW, Scripted
from tests.engine.family_checks import SCRIPTS, Family
from tests.engine.small_models import PROMPT, emitted_ids, same_up_to_near_ties

FAMILIES = ("cohere2", "llama4", "lfm2", "qwen3_next", "mamba")
"""Architectures with windows, chunks, convolutions next to attention, linear attention next to it, and only recurrent
layers."""
GREEDY = DecodingOptions(temperature=0, phase_every=0)


@functools.cache
def family(name: str) -> Family:
    return Family(name, 4 * WINDOW)


def some(*names: str) -> list[Any]:
    """All families; in every run these ones, which have what the others have in it."""
    return [pytest.param(name, marks=() if name in names else pytest.mark.full) for name in FAMILIES]


def scripted(name: str, every: int = 3, gamma: int = 4) -> None:
    family(name).is_greedy(Scripted([*PROMPT, *family(name).greedy], every), gamma)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_plain_answer_is_mlx_lms_past_the_window(name: str) -> None:
    family(name).plain()


@pytest.mark.parametrize(("name", "script"), crossed(FAMILIES, SCRIPTS, together=1, times=2))
def test_rejected_tokens_leave_no_trace_in_the_text(name: str, script: tuple[int, int]) -> None:
    scripted(name, *script)


@pytest.mark.parametrize("name", some("cohere2"))
def test_a_draft_model_may_be_of_such_a_family(name: str) -> None:
    family(name).draft_of_family()


@pytest.mark.parametrize("name", some("lfm2", "mamba"))
def test_a_model_that_drafts_for_itself_is_never_wrong(name: str) -> None:
    family(name).drafts_for_itself()


@pytest.mark.parametrize("name", [pytest.param("cohere2", marks=pytest.mark.full), "lfm2"])
def test_a_seed_has_one_text(name: str) -> None:
    family(name).one_text_for_a_seed()


@pytest.mark.parametrize("name", ["llama4", pytest.param("qwen3_next", marks=pytest.mark.full)])
def test_penalties_see_the_text_and_not_what_was_rejected(name: str) -> None:
    family(name).penalties()


@pytest.mark.parametrize("name", ["cohere2", "lfm2"])
def test_buffers_that_are_renewed_at_every_few_tokens_lose_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WindowCache, "step", 8)
    monkeypatch.setattr("engine.target.window_cache.SLACK", 5)
    scripted(name)


def test_chunks_whose_front_is_dropped_at_every_few_tokens_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChunkCache, "step", 8)
    monkeypatch.setattr("engine.target.window_cache.SLACK", 5)
    scripted("llama4")


# Twins: broken roll-backs that must be detected


def without_state(cache: RecurrentCache, length: int) -> None:
    """Rolls back without restoring the state."""
    cache.offset = length


def test_a_state_that_is_not_restored_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecurrentCache, "cut", without_state)
    with pytest.raises(AssertionError, match="differs at token"):
        scripted("qwen3_next")


def test_a_state_to_which_the_kept_tokens_are_not_added_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RecurrentCache, "_read_again", lambda cache, noted, rows: None)
    with pytest.raises(AssertionError, match="differs at token"):
        scripted("lfm2")


def test_a_window_that_is_too_short_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "WindowCache", lambda size: WindowCache(size - 2))
    with pytest.raises(AssertionError, match="differs at token"):
        family("cohere2").plain()


def test_chunks_that_are_too_short_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ChunkCache, "step", 8)
    monkeypatch.setattr("engine.target.window_cache.SLACK", -WINDOW)
    with pytest.raises(AssertionError, match="differs at token"):
        family("llama4").plain()


# Between turns


@pytest.mark.parametrize("name", ["cohere2", pytest.param("llama4", marks=pytest.mark.full), "lfm2"])
def test_turns_from_a_kept_cache_are_those_from_scratch(name: str) -> None:
    family(name).turns()


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "LARGEST_CHUNK", 8)
    monkeypatch.setattr(caches, "SMALLEST_CHUNK", 8)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("name", FAMILIES)
def test_an_interrupted_prompt_leaves_a_cache_that_goes_on(name: str) -> None:
    text = [*PROMPT, *family(name).greedy]
    prompt, control = text[:50], Control()

    def stop(done: int, total: int) -> None:
        if done >= 24:
            control.stop()

    control.on_prefill = stop
    cache = caches.make_prompt_cache(family(name).model)
    assert list(decode(family(name).model, prompt, None, GREEDY, cache=cache, control=control)) == []
    assert caches.cache_length(cache) == 24
    rounds = list(decode(family(name).model, prompt, Scripted(text, 3), GREEDY.replace(max_tokens=15, gamma=4), cache=cache))
    same_up_to_near_ties(rounds, text[50:65])


@pytest.mark.parametrize(("name", "drafting"), crossed(FAMILIES, [True, False], together=1))
def test_an_interrupted_answer_leaves_a_cache_that_goes_on(name: str, drafting: bool) -> None:
    text = [*PROMPT, *family(name).greedy]
    drafter = Scripted(text, 3) if drafting else None
    cache = caches.make_prompt_cache(family(name).model)
    with closing(decode(family(name).model, PROMPT, drafter, GREEDY.replace(gamma=4, max_tokens=60), cache=cache)) as answer:
        emitted = emitted_ids([next(answer) for _ in range(9)])
    held = [*PROMPT, *emitted]
    assert caches.cache_length(cache) == len(held) - 1
    rounds = list(decode(family(name).model, held, None, GREEDY.replace(max_tokens=12), cache=cache))
    same_up_to_near_ties(rounds, text[len(held) : len(held) + 12])


@pytest.mark.parametrize("name", some("lfm2"))
def test_a_draft_model_follows_an_edited_text(name: str) -> None:
    """After an edit it proposes what a new draft model proposes that never saw the first text."""
    model = family(name).sibling()
    text = [*PROMPT, *family(name).greedy]
    edited = [*text[:30], 3, 5, 8]
    used, fresh = DraftModel(model), DraftModel(model)
    list(decode(family(name).model, text[:30], used, GREEDY.replace(max_tokens=20, gamma=3)))

    def proposed(drafter: DraftModel) -> list[list[int]]:
        rounds = list(decode(family(name).model, edited, drafter, GREEDY.replace(max_tokens=8, gamma=3)))
        return [[proposal.id for proposal in current.proposals] for current in rounds]

    assert proposed(used) == proposed(fresh)


# Checkpoints


def answered(name: str, length: int) -> list[object]:
    """Returns the cache of an answer of `length` tokens."""
    cache = caches.make_prompt_cache(family(name).model)
    list(decode(family(name).model, PROMPT, None, GREEDY.replace(max_tokens=length), cache=cache))
    return cache


@pytest.mark.parametrize(
    ("name", "back"), [("lfm2", len(PROMPT) - 1), ("cohere2", len(PROMPT) + 10), ("llama4", len(PROMPT) + 10)]
)
def test_a_cache_goes_back_to_the_nearest_place_it_still_knows(name: str, back: int) -> None:
    """A recurrent state goes back to a checkpoint; windows and chunks go back a few tokens, to any position."""
    cache = answered(name, 40)
    assert caches.rewind(cache, len(PROMPT) + 10, "target") == back
    assert caches.rewind(cache, 2, "target") == (0 if name == "lfm2" else 2)
    assert not caches.cache_length(cache) if name == "lfm2" else caches.cache_length(cache) == 2


def test_a_window_that_lost_its_rows_goes_back_to_a_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WindowCache, "step", 8)
    monkeypatch.setattr("engine.target.window_cache.SLACK", 0)
    assert caches.rewind(answered("cohere2", 60), len(PROMPT) + 10, "target") == len(PROMPT) - 1


def test_marks_take_no_more_memory_than_stated_and_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    states = [layer for layer in answered("lfm2", 20) if isinstance(layer, RecurrentCache)]
    places = [len(PROMPT) - 1, len(PROMPT) + 19]
    assert all(sorted(layer.marks) == places for layer in states)
    monkeypatch.setattr(caches, "MARKED_BYTES", sum(layer.nbytes for layer in states))  # room for one checkpoint
    assert all(list(layer.marks) == places[1:] for layer in answered("lfm2", 20) if isinstance(layer, RecurrentCache))
    assert caches.rewind(answered("lfm2", 20), 20, "target") == 0
