"""Training a block drafter: blocks at many anchors at once are those of run time, nothing leaks, and it learns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from engine.decode.decoding import DecodingOptions, decode
from engine.drafters.block import BlockDrafter
from engine.drafters.feature_head import FeatureHead
from engine.models.block_model import BlockModel
from engine.models.block_unroll import unroll_blocks
from engine.models.loaded import LoadedModel
from engine.target.layer_taps import embedding_of, tap
from engine.tools.training import features, texts
from engine.tools.training.drafter_training import BlockTraining, Plan
from engine.tools.training.features import Example
from engine.tools.training.first_weights import block_config_for, config_for, fresh_block, fresh_head
from engine.tools.training.reading import TargetReader
from tests.engine.block_files import random_block
from tests.engine.drafting import logits_shown
from tests.engine.small_models import VOCAB, emitted_ids, tiny_llama

TAPS = (0, 1)
PLAN = Plan(
    steps_back=4, steps=40, minutes=None, learning_rate=3e-3, variation=0.5, copied=1.0, batch_tokens=256, seed=0, anchors=8
)
SLOTS = 4
TEXT = [int(token) for token in np.random.default_rng(2).integers(0, VOCAB, 20)]


@pytest.fixture(scope="module")
def target() -> nn.Module:
    return tiny_llama(3)


def features_of(target: nn.Module, text: list[int]) -> mx.array:
    taps = tap(target, TAPS)
    target(mx.array([text]))
    return taps.take()


def unrolled(block: BlockModel, features: mx.array, text: list[int], anchors: list[int], slots: int) -> np.ndarray:
    return np.array(unroll_blocks(block, features[: max(anchors)], mx.array(anchors), mx.array(text), slots))


LAYERS: dict[str, dict[str, Any]] = {
    "two ways": {"is_causal": False},
    "causal": {"is_causal": True},
    "paired": {"is_causal": True, "paired": True},
    "windows": {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 6, "is_causal": None},
}


@pytest.mark.parametrize("layers", LAYERS)
def test_a_block_of_training_is_that_of_run_time(target: nn.Module, layers: str) -> None:
    block = random_block(taps=TAPS, **LAYERS[layers])
    anchors = [3, 9, 10, 17]
    whole = features_of(target, TEXT)
    block.bind(target)
    trained = unrolled(block, whole, TEXT, anchors, SLOTS)
    drafter = BlockDrafter(block, target, copies=False)
    for anchor, hidden in zip(anchors, trained, strict=True):
        shown = logits_shown(drafter, TEXT[: anchor + 1], [1] * SLOTS, target)
        np.testing.assert_allclose(shown, np.array(block.logits(mx.array(hidden))), atol=2e-3)


def test_nothing_at_or_after_the_anchor_nor_another_block_is_seen(target: nn.Module) -> None:
    block = random_block(taps=TAPS, is_causal=False)
    block.bind(target)
    whole = features_of(target, TEXT)
    plain = unrolled(block, whole, TEXT, [5, 9, 14], 4)
    changed = mx.concatenate([whole[:9], mx.random.normal(whole[9:].shape)])
    other = [*TEXT[:10], *([7] * 10)]
    np.testing.assert_array_equal(plain[:2], unrolled(block, changed, other, [5, 9, 14], 4)[:2])
    earlier = mx.concatenate([whole[:8], mx.random.normal(whole[8:].shape)])
    seen = unrolled(block, earlier, TEXT, [5, 9, 14], 4)
    assert abs(seen[1] - plain[1]).max() > 1e-2, "what is before the anchor is seen"
    np.testing.assert_array_equal(seen[0], plain[0])


def loaded(target: nn.Module) -> LoadedModel:
    return LoadedModel(target, None, frozenset(), (b"a",) * VOCAB, 512, "a model", "", weight_files=())  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def examples(target: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> list[Example]:
    """What the tiny target itself writes after one prompt, thrice: a text to be learned by heart."""
    folder = tmp_path_factory.mktemp("work")
    options = DecodingOptions(temperature=0.0, max_tokens=40, analyse=False)
    text = np.array([5, 9, 2, *emitted_ids(list(decode(target, [5, 9, 2], None, options)))], np.uint32)
    texts.save(folder / "given-00000.npz", [texts.TextRecord(text, 3, group) for group in (1, 2, 3)])
    features.cache(TargetReader(target, TAPS), texts.files(folder), folder, VOCAB, lambda done: None)
    return features.examples(texts.files(folder), folder)


def begun(target: nn.Module, paired: bool, layers: int, size: int) -> BlockModel:
    """A block drafter before its training."""
    ids = np.arange(VOCAB, dtype=np.int32)
    config = block_config_for(loaded(target), TAPS, layers, size, causal=True, mask=0, paired=paired)
    head = fresh_head(loaded(target), config_for(loaded(target), TAPS), ids, seed=1) if paired else None
    return fresh_block(loaded(target), config, ids, 1, head)


def test_a_paired_block_begins_with_the_first_step_of_the_head_it_comes_from(target: nn.Module) -> None:
    head = fresh_head(loaded(target), config_for(loaded(target), TAPS), np.arange(VOCAB, dtype=np.int32), seed=1)
    config = block_config_for(loaded(target), TAPS, layers=2, size=3, causal=True, mask=0, paired=True)
    block = BlockDrafter(fresh_block(loaded(target), config, np.arange(VOCAB, dtype=np.int32), 1, head), target, copies=False)
    first = FeatureHead(head, target, copies=False)
    ours, heads = (logits_shown(drafter, TEXT, [1], target)[0] for drafter in (block, first))
    np.testing.assert_allclose(ours, heads, atol=1e-4)


def test_a_block_drafter_that_knows_a_text_by_heart_has_whole_blocks_accepted(target: nn.Module, examples: list[Example]) -> None:
    block = begun(target, paired=False, layers=2, size=4)
    plan = replace(PLAN, steps=100, anchors=40, learning_rate=5e-3)
    losses = list(BlockTraining(plan, block, embedding_of(target), examples[:1], examples[1:2]).run())
    assert losses[-1] < 0.5 * losses[0]
    text = examples[0].tokens.tolist()
    options = DecodingOptions(temperature=0.0, gamma=4, max_tokens=40, analyse=False)
    rounds = list(decode(target, text[:3], BlockDrafter(block, target, copies=False), options))
    assert emitted_ids(rounds) == text[3:]
    assert [current.accepted for current in rounds[:-1]] == [4] * (len(rounds) - 1)


def test_paired_block_trains_all_slots_but_the_heads(target: nn.Module, examples: list[Example]) -> None:
    block = begun(target, paired=True, layers=2, size=3)
    plan = replace(PLAN, steps=50, steps_back=3, anchors=40, learning_rate=5e-3)
    training = BlockTraining(plan, block, embedding_of(target), examples[:1], examples[1:2])
    before = training.measure().agreement
    list(training.run())
    after = training.measure().agreement
    assert after[0] == before[0] < 0.5 < 0.9 < min(after[1:]), (before, after)


@pytest.mark.parametrize("paired", [False, True])
def test_an_interruption_changes_nothing(target: nn.Module, examples: list[Example], paired: bool, tmp_path: Path) -> None:
    def training(steps: int) -> BlockTraining:
        block = begun(target, paired, layers=1, size=3)
        plan = replace(PLAN, steps=steps, steps_back=3, anchors=4)
        return BlockTraining(plan, block, embedding_of(target), examples[:1], examples[1:2])

    whole, first = training(4), training(4)
    expected = list(whole.run())
    parts = [loss for _, loss in zip(range(2), first.run(), strict=False)]
    first.save(tmp_path / "checkpoint.safetensors")
    second = training(4)
    second.resume(tmp_path / "checkpoint.safetensors")
    assert parts + list(second.run()) == expected
    assert whole.measure() == second.measure()
    whole.save_weights(tmp_path / "best.safetensors")
    third = training(4)
    third.load_weights(tmp_path / "best.safetensors")
    assert whole.measure().overlap == third.measure().overlap
