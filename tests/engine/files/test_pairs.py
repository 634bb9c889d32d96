"""Which draft model is suggested for which target: by the catalogue, and only what is stated there."""

from __future__ import annotations

import re

import pytest

from engine.files.hub import HUB_ID
from engine.files.library import LibraryModel
from engine.files.pairs import catalogue, plain, suggestions


def model(name: str, size: int = 100, problem: str = "") -> LibraryModel:
    return LibraryModel(name, f"/models/{name}", "LM Studio", size, problem=problem)


def test_every_pair_has_a_source_a_repository_and_distinct_patterns() -> None:
    for pair in catalogue():
        assert pair.source.startswith("https://")
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


def test_smallest_usable_local_drafter_is_suggested() -> None:
    target = model("Qwen2.5-14B-Instruct")
    small, large = model("qwen2.5:0.5b", 300), model("mlx-community/Qwen2.5-0.5B-Instruct-bf16", 990)
    broken = model("Qwen2.5-0.5B-Instruct-4bit", 280, "2 of 3 weight files are missing.")
    (found,) = suggestions(target, [target, large, broken, small])
    assert found.local_model == small
    (found,) = suggestions(target, [target, broken])
    assert found.local_model is None
