"""A tree read in one pass gives each node the logits of its own path, on every architecture that is not known to need chains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from engine.target import prompt_cache as caches
from engine.target import tree_pass
from engine.target.quantised_cache import make_quantised_cache
from engine.target.tree_pass import CHECKED, TreeCheck, TreeRows, check_trees, keep_path, tree_check
from engine.values.tree_shape import TreeShape
from tests.engine.families import NOT_BUILT, architectures, tiny
from tests.engine.small_models import tiny_llama

RECURRENT = frozenset(
    """baichuan_m1 bailing_hybrid bailing_moe_linear bailing_moe_v3 deepseek_v41 falcon_h1 gear granitemoehybrid jamba kimi_k3
    kimi_linear lfm2 lfm2-vl lfm2_moe longcat_flash_ngram mamba mamba2 nemotron_h olmo_hybrid plamo2 qwen3_5 qwen3_5_moe
    qwen3_next recurrent_gemma rwkv7""".split()  # noqa: SIM905  (a list of thirty strings is one a line)
)
CHUNKS = frozenset({"llama4"})
OTHER_POSITIONS = frozenset({"gpt2", "gpt_bigcode", "nanochat", "plamo3", "talkie"})
"""Positions are added to the embedding, or rotated without a module, or a mask is made without asking the cache."""
TOLERANCE = 1e-4


def checked(name: str, bits: int | None = None) -> TreeCheck:
    model = tiny(name, 0, 3.0, True) if bits is None else tiny(name, 0, 3.0, True, head_dim=32)

    def make() -> Any:
        return caches.make_prompt_cache(model) if bits is None else make_quantised_cache(model, bits, name)

    return check_trees(model, make)


def expected_reason(name: str) -> str:
    if name in RECURRENT:
        return "recurrent layers"
    if name in CHUNKS:
        return "in chunks"
    return "other logits" if name in OTHER_POSITIONS else ""


def check_architecture(name: str) -> None:
    found, reason = checked(name), expected_reason(name)
    assert (reason in found.reason) if reason else (found.reason == ""), found
    if not reason:
        assert found.difference is not None and found.difference < TOLERANCE


COMMON = ("llama", "gemma3_text", "gpt_oss", "deepseek_v3", "gpt2", "llama4", "qwen3_next")


@pytest.mark.parametrize("name", COMMON)
def test_a_common_architecture_reads_trees_or_says_why_not(name: str) -> None:
    check_architecture(name)


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(set(architectures()) - NOT_BUILT.keys() - set(COMMON)))
def test_an_architecture_reads_trees_or_says_why_not(name: str) -> None:
    check_architecture(name)


@pytest.mark.parametrize("name", ["llama", "gemma3_text"])
def test_quantised_keys_and_values_read_trees(name: str) -> None:
    assert checked(name, 8).reason == ""


# Faulty variants of the pass, each noticed by the check


def every_node_in_view(layer: Any, rows: TreeRows) -> Callable[..., mx.array]:
    return real_mask(layer, TreeRows(rows.depths, np.tril(np.ones_like(rows.visible))))


def rows_as_positions(kind: type, depths: mx.array, held: int) -> type:
    return real_positions(kind, mx.arange(depths.shape[0]), held)


def unmoved(cache: Any, length: int, rows: list[int], whose: str) -> None:
    real_keep(cache, length, range(len(rows)), whose)


real_mask, real_positions, real_keep = tree_pass._mask_of, tree_pass._at_depths, tree_pass.keep_path


@pytest.mark.parametrize(
    ("part", "fault"), [("_mask_of", every_node_in_view), ("_at_depths", rows_as_positions), ("keep_path", unmoved)]
)
def test_a_wrong_mask_position_or_path_is_noticed(part: str, fault: Callable[..., Any]) -> None:
    with patch.object(tree_pass, part, fault):
        assert "other logits" in checked("llama").reason


def test_a_window_by_rows_instead_of_depth_is_noticed() -> None:
    def by_rows(layer: Any, rows: TreeRows) -> Callable[..., mx.array]:
        return real_mask(layer, TreeRows(np.arange(len(rows.depths)), rows.visible))

    with patch.object(tree_pass, "_mask_of", by_rows):
        assert "other logits" in checked("gemma3_text").reason
        assert checked("qwen3").reason == "", "without a window, depths matter to positions only"


# The pass


MODEL = tiny_llama(0)
TEXT, NODES = [5, 6, 7, 8], [9, 10, 11, 12, 13, 14, 15, 16]


def read(cache: Any, tokens: list[int]) -> np.ndarray:
    return np.array(MODEL(mx.array([tokens]), cache=cache)[0])


def test_levels_read_one_after_the_other_are_read_like_the_whole_tree() -> None:
    whole, parts = caches.make_prompt_cache(MODEL), caches.make_prompt_cache(MODEL)
    read(whole, TEXT), read(parts, TEXT)
    wanted = np.array(tree_pass.tree_pass(MODEL, whole, mx.array(NODES), TreeRows.whole(CHECKED)))
    held, depths = list[int](), np.array(CHECKED.depths)
    for level in range(max(CHECKED.depths) + 1):
        nodes = [node for node in range(CHECKED.size + 1) if CHECKED.depths[node] == level]
        rows = [*held, *nodes]
        found = tree_pass.tree_pass(
            MODEL, parts, mx.array([NODES[node] for node in nodes]), TreeRows(depths[rows], CHECKED.visible[np.ix_(nodes, rows)])
        )
        np.testing.assert_allclose(np.array(found), wanted[nodes], atol=2e-5)
        held = rows


def test_the_model_reads_chains_as_before_after_a_tree() -> None:
    before = [(type(module), module) for _, module in MODEL.named_modules()]
    cache = caches.make_prompt_cache(MODEL)
    read(cache, TEXT)
    tree_pass.tree_pass(MODEL, cache, mx.array(NODES), TreeRows.whole(CHECKED))
    assert [(type(module), module) for _, module in MODEL.named_modules()] == before
    assert all("make_mask" not in vars(layer) for layer in cache)


def test_a_failed_pass_leaves_model_and_cache_as_they_were() -> None:
    cache = caches.make_prompt_cache(MODEL)
    read(cache, TEXT)

    def failing(tokens: mx.array, cache: Any) -> mx.array:
        raise MemoryError

    with pytest.raises(MemoryError):
        tree_pass.tree_pass(failing, cache, mx.array(NODES), TreeRows.whole(CHECKED), MODEL)
    assert not any(type(module).__base__ is nn.RoPE for _, module in MODEL.named_modules())
    assert all("make_mask" not in vars(layer) for layer in cache)


@pytest.mark.parametrize("path", [[0], [0, 1, 2], [0, 2, 5, 7], [0, 3]])
def test_what_follows_a_kept_path_is_what_follows_its_text(path: list[int]) -> None:
    tree, plain = caches.make_prompt_cache(MODEL), caches.make_prompt_cache(MODEL)
    read(tree, TEXT)
    tree_pass.tree_pass(MODEL, tree, mx.array(NODES), TreeRows.whole(TreeShape((0, 0, 1, 1, 2, 3, 5))))
    keep_path(tree, len(TEXT), path, "target")
    if path == CHECKED.path_to(path[-1]):
        read(plain, [*TEXT, *(NODES[node] for node in path)])
        np.testing.assert_allclose(read(tree, [20, 21]), read(plain, [20, 21]), atol=2e-5)
    assert caches.cache_length(tree) == len(TEXT) + len(path) + 2 * (path == CHECKED.path_to(path[-1]))


def test_a_model_is_checked_once_for_each_kind_of_cache() -> None:
    model, calls = tiny_llama(3), list[object]()

    def make() -> Any:
        calls.append(None)
        return caches.make_prompt_cache(model)

    first = tree_check(model, make, None)
    count = len(calls)
    assert tree_check(model, make, None) is first and len(calls) == count
    tree_check(model, make, 8)
    assert len(calls) > count


def test_a_model_that_refuses_the_pass_gets_chains_with_the_reason() -> None:
    class Refusing(nn.Module):
        layers = (None,)

        def __call__(self, tokens: mx.array, cache: Any) -> mx.array:
            raise ValueError("no such mask")

    refusing = Refusing()
    assert "no such mask" in check_trees(refusing, lambda: caches.make_prompt_cache(refusing)).reason
