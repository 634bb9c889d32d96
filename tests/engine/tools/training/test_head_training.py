"""Training a draft head: the gradient, the chains, learning, interruptions, and what is written about it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten

from engine.drafters import FeatureHead
from engine.models.head_model import HeadConfig, HeadModel, load_head, save_head
from engine.target.layer_taps import embedding_of, tap
from engine.tools.training import features, texts
from engine.tools.training.drafter_training import POSITIONS, SHARPENING_FACTORS, HeadTraining, Plan, soft_loss, unroll
from engine.tools.training.features import Example
from engine.tools.training.lessons import common_opening, copied_right, split
from engine.tools.training.reading import TargetReader
from engine.values.errors import DraftlightError
from tests.engine.drafting import logits_shown
from tests.engine.small_models import VOCAB, tiny_llama

TAPS = (0, 1)
PLAN = Plan(steps_back=3, steps=30, minutes=None, learning_rate=3e-3, variation=0.5, copied=1.0, batch_tokens=256, seed=0)


def small_config() -> HeadConfig:
    return HeadConfig("", TAPS, 128, 192, 4, 2, 1e4, 1e-5, VOCAB, 512)


def small_head(columns: int = VOCAB, seed: int = 1) -> HeadModel:
    mx.random.seed(seed)
    head = HeadModel(small_config(), columns)
    head.metadata.target_ids = mx.arange(columns).astype(mx.int32)
    mx.eval(head.parameters())
    return head


@pytest.fixture(scope="module")
def target() -> nn.Module:
    return tiny_llama(3)


@pytest.fixture(scope="module")
def examples(target: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> list[Example]:
    """Text in which every token decides the next, with the tiny target's features; labels say that token."""
    folder = tmp_path_factory.mktemp("work")
    generator = np.random.default_rng(0)
    records = []
    for _ in range(48):
        tokens = ((generator.integers(0, 64) + 5 * np.arange(generator.integers(14, 30))) % 64).astype(np.uint32)
        records.append(texts.TextRecord(tokens, 3, int(generator.integers(0, 2**32))))
    texts.save(folder / "given-00000.npz", records)
    features.cache(TargetReader(target, TAPS), texts.files(folder), folder, VOCAB, lambda done: None)
    found = features.examples(texts.files(folder), folder)
    for name, column in (("ids", 0), ("logs", 0)):
        array = np.load(found[0].folder / f"{name}.npy")
        if name == "logs":
            array[:] = -12.0
            array[:, column] = -0.01
        else:
            sure = np.concatenate([np.append(one.tokens[1:], 0) for one in found])
            array[:] = (sure[:, None] + np.arange(array.shape[1])) % VOCAB
        np.save(found[0].folder / f"{name}.npy", array)
    return found


def a_training(target: nn.Module, examples: list[Example], plan: Plan = PLAN) -> HeadTraining:
    train, held_out = split(examples)
    return HeadTraining(plan, small_head(), embedding_of(target), train, held_out)


def weights(head: HeadModel) -> dict[str, np.ndarray]:
    return {name: np.array(array) for name, array in tree_flatten(head.trainable_parameters())}


# The loss


def plain_loss(
    hidden: mx.array, head: mx.array, columns: mx.array, labels: mx.array, weights: mx.array, sharpness: float, variation: float
) -> mx.array:
    """The same in as few words as possible, for automatic differentiation."""
    logits = (hidden @ head.T) * sharpness
    logs = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    chosen = mx.take_along_axis(logs, mx.maximum(columns, 0), axis=-1)
    drafted = mx.exp(chosen) * (columns >= 0)
    overlap = mx.minimum(labels, drafted).sum(axis=-1)
    losses = -(labels * chosen).sum(axis=-1) + variation * (labels.sum(axis=-1) - overlap)
    return (losses * weights).sum()


@pytest.mark.parametrize("variation", [0.0, 0.5])
def test_the_written_gradient_is_the_automatic_one(variation: float) -> None:
    generator = np.random.default_rng(1)
    hidden = mx.array(generator.standard_normal((7, 16)).astype(np.float32))
    head = mx.array(generator.standard_normal((20, 16)).astype(np.float32))
    columns = np.stack([generator.permutation(20)[:6] for _ in range(7)])
    columns[generator.random(columns.shape) < 0.3] = -1
    labels = generator.dirichlet(np.ones(6), 7).astype(np.float32)
    labels[columns < 0] = 0
    constants = (mx.array(columns), mx.array(labels), mx.array(generator.random(7).astype(np.float32)), 1.25, variation)
    ours, ours_by = mx.value_and_grad(soft_loss, argnums=(0, 1))(hidden, head, *constants)
    plain, plain_by = mx.value_and_grad(plain_loss, argnums=(0, 1))(hidden, head, *constants)
    np.testing.assert_allclose(float(ours), float(plain), rtol=1e-5)
    for one, other in zip(ours_by, plain_by, strict=True):
        np.testing.assert_allclose(np.array(one), np.array(other), atol=2e-5)


def test_the_gradient_scales_with_what_comes_after_the_loss() -> None:
    hidden, head = mx.ones((2, 4)), mx.arange(12).reshape(3, 4).astype(mx.float32) * 0.1
    constants = (mx.array([[0], [2]]), mx.array([[1.0], [1.0]]), mx.array([1.0, 1.0]), 1.25, 0.5)
    once = mx.grad(lambda h: soft_loss(h, head, *constants))(hidden)
    thrice = mx.grad(lambda h: 3 * soft_loss(h, head, *constants))(hidden)
    np.testing.assert_allclose(np.array(thrice), 3 * np.array(once), rtol=1e-5)


# The chains


@pytest.mark.parametrize("position", [1, 5, 8])
def test_training_sees_the_logits_that_the_drafter_will_show(target: nn.Module, position: int) -> None:
    """From every position of a text, for every step of the chain, with the same features and tokens."""
    head = small_head()
    tokens = [3, 17, 40, 8, 61, 22, 5, 90, 33, 12, 71, 28, 9, 66]
    steps = 4
    taps = tap(target, TAPS)
    target(mx.array([tokens]))
    read = taps.take_batch()
    embedded = embedding_of(target)(mx.array([tokens[1:]]))
    rows = len(tokens) - 1 - (steps - 1)
    trained = [head.logits(feature)[0] for feature in unroll(head, head.fuse(read[:, :rows]), embedded, steps)]

    known = position + 2  # the chain from position t knows the token at t + 1
    shown = logits_shown(FeatureHead(head, target), tokens[:known], tokens[known : known + steps], target)
    for step in range(steps):
        np.testing.assert_allclose(shown[step], np.array(trained[step][position]), atol=2e-4)


def test_a_chain_that_forgets_its_own_steps_is_noticed(target: nn.Module) -> None:
    """Mutant for the test above: with the earlier steps' keys left out, the logits of later steps differ."""
    head = small_head()
    tokens = mx.array([[3, 17, 40, 8, 61, 22, 5, 90, 33, 12]])
    taps = tap(target, TAPS)
    target(tokens)
    fused = head.fuse(taps.take_batch()[:, :7])
    embedded = embedding_of(target)(tokens[:, 1:])
    whole = unroll(head, fused, embedded, 3)
    alone = unroll(head, whole[0], embedded[:, 1:], 2)  # as if the first step's features were the target's
    assert np.abs(np.array(whole[1]) - np.array(alone[0])).max() > 1e-2


# Learning


def test_a_head_learns_a_predictable_text(target: nn.Module, examples: list[Example]) -> None:
    training = a_training(target, examples)
    before = training.measure()
    losses = list(training.run())
    after = training.measure()
    assert len(losses) == PLAN.steps
    assert losses[-1] < losses[0] / 2
    assert before.agreement[0] < 0.2 < 0.8 < after.agreement[0]
    assert after.agreement[2] > 0.6 and after.overlap[0] > before.overlap[0] + 0.3
    assert len(after.agreement) == len(after.overlap) == POSITIONS


def test_an_interruption_changes_nothing(target: nn.Module, examples: list[Example], tmp_path: Path) -> None:
    plan = replace(PLAN, steps=9)
    whole, first, second = (a_training(target, examples, plan) for _ in range(3))
    list(whole.run())
    for _ in first.run():
        if first.progress.step == 4:
            break
    first.note(first.measure())
    first.save(tmp_path / "checkpoint.safetensors")
    second.resume(tmp_path / "checkpoint.safetensors")
    assert second.progress == first.progress
    list(second.run())
    assert second.progress.step == plan.steps
    for name, array in weights(whole.head).items():
        np.testing.assert_array_equal(array, weights(second.head)[name], err_msg=name)


def test_a_damaged_checkpoint_is_named(target: nn.Module, examples: list[Example], tmp_path: Path) -> None:
    (tmp_path / "checkpoint.safetensors").write_bytes(b"\x10")
    with pytest.raises(DraftlightError, match=r"checkpoint\.safetensors is damaged"):
        a_training(target, examples).resume(tmp_path / "checkpoint.safetensors")
    training = a_training(target, examples)
    training.save(tmp_path / "checkpoint.safetensors")
    content = (tmp_path / "checkpoint.safetensors").read_bytes()
    (tmp_path / "checkpoint.safetensors").write_bytes(content.replace(b'measured\\": []', b'measured\\": 50'))
    with pytest.raises(DraftlightError, match=r"checkpoint\.safetensors is damaged"):
        training.resume(tmp_path / "checkpoint.safetensors")
    with pytest.raises(DraftlightError, match=r"best\.safetensors, are missing or damaged .* Remove the folder"):
        training.load_weights(tmp_path / "best.safetensors")
    training.save_weights(tmp_path / "best.safetensors")
    os.truncate(tmp_path / "best.safetensors", 900)
    with pytest.raises(DraftlightError, match=r"best\.safetensors, are missing or damaged .* Remove the folder"):
        training.load_weights(tmp_path / "best.safetensors")


def test_a_loss_that_is_no_number_ends_the_training(target: nn.Module, examples: list[Example]) -> None:
    training = a_training(target, examples)
    training.head.norm.weight = training.head.norm.weight * float("nan")
    with pytest.raises(DraftlightError, match="diverged"):
        next(training.run())


def test_held_out_split_depends_on_the_text_alone(examples: list[Example]) -> None:
    train, held_out = split(examples)
    assert held_out and not {one.group for one in train} & {one.group for one in held_out}
    more = [Example(one.tokens, one.prompt_length, one.group, one.folder, one.first) for one in reversed(examples)]
    again = split(more + more)[1]
    assert {one.group for one in again} == {one.group for one in held_out}
    with pytest.raises(DraftlightError, match="two different"):
        split([examples[0], examples[0]])


def test_common_opening_is_not_trained(target: nn.Module, examples: list[Example]) -> None:
    system = np.arange(70, 82)
    longer = [
        Example(np.concatenate([system, one.tokens]).astype(np.int32), one.prompt_length + 12, one.group, one.folder, one.first)
        for one in examples
    ]
    assert common_opening(longer) == 12
    training = a_training(target, longer)
    rows = training.lessons.wanted(longer[:1], [(np.zeros((60, 2), np.int64), np.zeros((60, 2)))], 40, 0)[0]
    assert rows[0] == 10  # the first token worth predicting is that at position 12


def test_tokens_that_copies_get_right_are_weighted_less(target: nn.Module, examples: list[Example]) -> None:
    tokens = np.array([5, 6, 7, 8, 9, 40, 5, 6, 7, 8, 9, 41], np.int32)
    assert copied_right(tokens).tolist() == [False] * 9 + [True, True, False]  # three tokens agree from the tenth on
    training = a_training(target, examples, replace(PLAN, copied=0.25))
    repeating = Example(tokens, 1, 0, examples[0].folder, 10**6)
    rows, weights, _, _ = training.lessons.wanted([repeating], [(np.zeros((12, 2), np.int64), np.zeros((12, 2)))], 10, 1)
    assert dict(zip(rows.tolist(), weights.tolist(), strict=True))[6] == 0.25  # its second step predicts the tenth token
    assert set(weights[rows != 6].tolist()) == {0.25, 1.0} and (weights == 0.25).sum() == 2


def test_a_saved_head_is_the_same_head(tmp_path: Path) -> None:
    head = small_head(40)
    save_head(head, tmp_path / "head", "# Card\n")
    loaded = load_head(tmp_path / "head")
    assert loaded.config == head.config
    assert (tmp_path / "head" / "MODEL_CARD.md").read_text() == "# Card\n"
    np.testing.assert_array_equal(np.array(loaded.target_ids), np.arange(40))
    for name, array in weights(head).items():
        np.testing.assert_array_equal(array.astype(np.float16).astype(np.float32), weights(loaded)[name])
    assert {path.name for path in (tmp_path / "head").iterdir()} == {"config.json", "model.safetensors", "MODEL_CARD.md"}


def test_sharpening_makes_the_held_out_overlap_largest_and_changes_no_likeliest_token(
    target: nn.Module, examples: list[Example]
) -> None:
    training = a_training(target, examples)
    before = training.measure()
    overlaps = {factor: training.measure(logit_factor=factor).overlapping for factor in SHARPENING_FACTORS}
    factor = training.sharpen()
    after = training.measure()
    assert overlaps[factor] == max(overlaps.values())
    assert after.overlapping == pytest.approx(overlaps[factor], abs=1e-3)
    assert after.agreement == before.agreement
