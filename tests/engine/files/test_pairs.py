"""Which draft model is suggested for which target: by the catalogue, and only what is stated there."""

from __future__ import annotations

import re

import pytest

from engine.files.hub import HUB_ID
from engine.files.library import LibraryModel
from engine.files.pairs import catalogue, plain, recommended, suggestions


def model(name: str, size: int = 100, problem: str = "", only_drafts: bool = False) -> LibraryModel:
    return LibraryModel(name, f"/models/{name}", "LM Studio", size, problem=problem, only_drafts=only_drafts)


def test_every_pair_has_a_source_a_repository_and_distinct_patterns() -> None:
    """The source of EAGLE-3 heads names publishers, not repositories."""
    for pair in catalogue():
        assert pair.source.startswith("https://") and pair.kind in ("model", "mtp", "eagle3")
        if pair.kind == "eagle3" and not pair.repository:
            continue
        assert HUB_ID.fullmatch(pair.repository)
        drafter = plain(pair.repository)
        assert re.search(pair.drafters, drafter), "what can be downloaded is not taken for the drafter once it is here"
        assert not re.search(pair.targets, drafter), "the drafter is suggested for itself"


@pytest.mark.parametrize(
    ("target", "drafter"),
    [
        ("mlx-community/Qwen2.5-32B-Instruct-4bit", "Qwen2.5 0.5B"),
        ("qwen2.5:7b-instruct-q4_K_M", "Qwen2.5 0.5B"),
        ("bartowski/Qwen2.5-Coder-14B-Instruct-GGUF/Qwen2.5-Coder-14B-Instruct-Q6_K", "Qwen2.5 Coder 0.5B"),
        ("Qwen/Qwen3-8B-GGUF: Qwen3-8B-Q4_K_M.gguf", "Qwen3 0.6B"),
        ("mlx-community/Meta-Llama-3.1-8B-Instruct-4bit", "Llama 3.2 1B"),
        ("llama3.3:70b", "Llama 3.1 8B"),
        ("mlx-community/gemma-3-27b-it-4bit", "Gemma 3 1B"),
        ("mlx-community/Qwen2.5-0.5B-Instruct-4bit", ""),
        ("mlx-community/Qwen3-30B-A3B-4bit", ""),
        ("HuggingFaceTB/SmolLM2-1.7B-Instruct", ""),
    ],
)
def test_drafter_of_the_family_is_suggested_for_every_spelling(target: str, drafter: str) -> None:
    assert [found.pair.title for found in suggestions(model(target), ())] == ([drafter] if drafter else [])


@pytest.mark.parametrize(
    ("target", "head", "title"),
    [
        ("mlx-community/Qwen3.6-27B-4bit", "mlx-community/Qwen3.6-27B-MTP-4bit", "MTP head of Qwen3.6 27B"),
        ("Qwen/Qwen3.5-4B", "Qwen3.5-4B-MTP-4bit", "MTP head of Qwen3.5 4B"),
        ("mlx-community/Qwen3-8B-4bit", "somebody/Qwen3-8B_eagle3", "EAGLE-3 head for Qwen3 8B"),
        ("mlx-community/Meta-Llama-3.1-8B-Instruct-4bit", "EAGLE3-LLaMA3.1-Instruct-8B", "EAGLE-3 head for Llama 3.1 8B"),
        ("gemma-4-31b-it-4bit", "gemma-4-31B-it-speculator.eagle3", "EAGLE-3 head for Gemma 4 31B"),
    ],
)
def test_a_head_on_this_machine_is_suggested_for_its_target_only(target: str, head: str, title: str) -> None:
    here = model(head, only_drafts=True)
    found = suggestions(model(target), [model(target), here])[0]
    assert (found.pair.title, found.local_model) == (title, here)
    assert all(found.local_model is None for found in suggestions(model("Qwen2.5-14B-Instruct"), [here]))
    assert not any(found.local_model for found in suggestions(here, [here])), "a head drafts for no head"
    assert not any(found.local_model for found in suggestions(model(target), [model(head)])), "a whole model is no head"


def test_a_head_without_a_repository_is_not_offered_for_download() -> None:
    assert [found.pair.title for found in suggestions(model("Qwen3-8B"), ())] == ["Qwen3 0.6B"]
    assert all(found.repository for found in recommended())
    (offered,) = (found for found in recommended() if found.repository == "mlx-community/Qwen3.6-27B-MTP-4bit")
    assert offered.weights is None, "27 billion is the size of its target"


def test_smallest_usable_local_drafter_is_suggested() -> None:
    target = model("Qwen2.5-14B-Instruct")
    small, large = model("qwen2.5:0.5b", 300), model("mlx-community/Qwen2.5-0.5B-Instruct-bf16", 990)
    broken = model("Qwen2.5-0.5B-Instruct-4bit", 280, "2 of 3 weight files are missing.")
    (found,) = suggestions(target, [target, large, broken, small])
    assert found.local_model == small
    (found,) = suggestions(target, [target, broken])
    assert found.local_model is None
