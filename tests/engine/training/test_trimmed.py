"""The draft model cut from a target: it learns, is written as `engine.models.loading` reads it, and survives an interruption."""

from __future__ import annotations

import json
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.llama import Model, ModelArgs

from engine.errors import DraftlightError
from engine.models.trimmed_draft import CutModel, load_cut
from engine.training import selfplay
from engine.training.trimmed import cut, teacher

VOCABULARY = 96
"""Target tokens; the text uses those below 64, so a head of 64 loses nothing."""
SETTINGS = cut.TrainingSettings(
    steps=12, layers=(0, 2), vocabulary=64, batch_tokens=128, learning_rate=3e-3, warm_up=3, held_out=4
)


@pytest.fixture
def target() -> Model:
    """Three random layers."""
    mx.random.seed(5)
    args = ModelArgs(
        model_type="llama",
        hidden_size=32,
        num_hidden_layers=3,
        intermediate_size=48,
        num_attention_heads=4,
        num_key_value_heads=2,
        rms_norm_eps=1e-5,
        vocab_size=VOCABULARY,
        max_position_embeddings=256,
        rope_theta=1e4,
    )
    model = Model(args)
    mx.eval(model.parameters())
    return model


@pytest.fixture
def records() -> list[selfplay.Record]:
    """Text in which every token decides the next: something that can be learned."""
    generator = np.random.default_rng(3)
    lengths = generator.integers(8, 40, size=24)
    starts = generator.integers(0, 64, size=24)
    return [
        selfplay.Record(((start + 7 * np.arange(length)) % 64).astype(np.int32), 3)
        for start, length in zip(starts, lengths, strict=True)
    ]


def a_training(target: Model, records: list[selfplay.Record], **changes: object) -> cut.Training:
    target_ids = np.sort(selfplay.frequent_tokens(records, SETTINGS.vocabulary))
    labels = changes.pop("labels", None)
    settings = cut.TrainingSettings(**{**vars(SETTINGS), **changes})  # type: ignore[arg-type]
    return cut.Training(settings, cut.cut(target, settings.layers, target_ids), target_ids, records, labels)  # type: ignore[arg-type]


def weights(draft: CutModel) -> dict[str, np.ndarray]:
    return {name: np.array(value) for name, value in tree_flatten(draft.trainable_parameters())}


def test_a_cut_of_all_layers_with_the_full_head_is_the_target(target: Model) -> None:
    whole = cut.cut(target, (0, 1, 2), np.arange(VOCABULARY))
    tokens = mx.array([[1, 5, 9, 60, 95]])
    np.testing.assert_allclose(np.array(whole(tokens)), np.array(target(tokens)), atol=1e-5)


def test_cutting_leaves_the_target_as_it_was(target: Model, records: list[selfplay.Record]) -> None:
    before = {name: np.array(value) for name, value in tree_flatten(target.parameters())}
    training = a_training(target, records)
    list(training.run(2))
    after = dict(tree_flatten(target.parameters()))
    assert all(np.array_equal(before[name], np.array(after[name])) for name in before)


def test_a_few_steps_on_sampled_tokens_lower_the_loss(target: Model, records: list[selfplay.Record]) -> None:
    losses = list(a_training(target, records).run(SETTINGS.steps))
    assert len(losses) == SETTINGS.steps
    assert losses[-1] < losses[0] - 0.5


def test_a_few_steps_on_soft_labels_raise_what_would_be_accepted(
    target: Model, records: list[selfplay.Record], tmp_path: Path
) -> None:
    candidates = selfplay.frequent_tokens(records, VOCABULARY)
    teacher.label(target, records, tmp_path, candidates)
    labels = teacher.read(tmp_path, records)
    training = a_training(target, records, labels=labels, variation=1.0, steps=30)
    before = cut.measure(training, records, labels)
    list(training.run(30))
    after = cut.measure(training, records, labels)
    assert after.positions == sum(len(record.answer) for record in records)
    assert after.accepted > before.accepted + 0.05


def test_labels_are_the_targets_probabilities(target: Model, records: list[selfplay.Record], tmp_path: Path) -> None:
    teacher.label(target, records, tmp_path, np.arange(VOCABULARY))
    labels = teacher.read(tmp_path, records)
    for index in (0, 7, 23):
        record = records[index]
        logits = np.array(target(mx.array(record.tokens)[None]))[0, record.prompt_length - 1 : -1] / teacher.TEMPERATURE
        expected = np.exp(logits - logits.max(axis=-1, keepdims=True))
        expected /= expected.sum(axis=-1, keepdims=True)
        found = np.exp(labels[index].logs.astype(np.float32))
        np.testing.assert_allclose(found, np.take_along_axis(expected, labels[index].ids.astype(int), axis=-1), rtol=0.01)
        kept = np.sort(found, axis=-1)
        np.testing.assert_allclose(kept, np.sort(expected, axis=-1)[:, -teacher.LABELS :], rtol=0.01)


def test_labels_of_other_text_are_refused(target: Model, records: list[selfplay.Record], tmp_path: Path) -> None:
    teacher.label(target, records, tmp_path, np.arange(VOCABULARY))
    with pytest.raises(DraftlightError, match="a different text"):
        teacher.read(tmp_path, records[::-1])


def test_the_written_folder_loads_and_computes_the_same(target: Model, records: list[selfplay.Record], tmp_path: Path) -> None:
    training = a_training(target, records)
    list(training.run(2))
    target_ids = np.sort(selfplay.frequent_tokens(records, SETTINGS.vocabulary))
    cut.write(training.draft, target_ids, "0" * 64, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    loaded, loaded_ids = load_cut(tmp_path, config, target.model.embed_tokens)
    assert (config["model_type"], config["num_hidden_layers"], config["vocab_size"]) == ("draftlight_cut", 2, VOCABULARY)
    np.testing.assert_array_equal(np.array(loaded_ids), target_ids)
    loaded.set_dtype(mx.float32)
    tokens = mx.array(records[0].tokens)[None]
    np.testing.assert_allclose(np.array(loaded(tokens)), np.array(training.draft(tokens)), atol=5e-3)


def test_an_interrupted_training_ends_in_the_same_state(target: Model, records: list[selfplay.Record], tmp_path: Path) -> None:
    through = a_training(target, records)
    losses = list(through.run(SETTINGS.steps))
    interrupted = a_training(target, records)
    first = list(interrupted.run(5))
    interrupted.save(tmp_path / "checkpoint.safetensors", "the same")
    resumed = a_training(target, records)
    resumed.resume(tmp_path / "checkpoint.safetensors", "the same")
    assert resumed.step == 5
    np.testing.assert_allclose(first + list(resumed.run(SETTINGS.steps)), losses, rtol=1e-5)
    expected = weights(through.draft)
    for name, value in weights(resumed.draft).items():
        np.testing.assert_allclose(value, expected[name], atol=1e-5, err_msg=name)


def test_a_checkpoint_of_another_training_is_refused(target: Model, records: list[selfplay.Record], tmp_path: Path) -> None:
    training = a_training(target, records)
    training.save(tmp_path / "checkpoint.safetensors", "one")
    with pytest.raises(DraftlightError, match="other settings"):
        training.resume(tmp_path / "checkpoint.safetensors", "another")


def test_batches_hold_every_answer_token_once_with_what_precedes_it(records: list[selfplay.Record]) -> None:
    seen = []
    for batch in selfplay.batches(records, 128, seed=1):
        preceding = batch.inputs.reshape(-1)[batch.labelled]
        assert batch.inputs.size <= 128
        np.testing.assert_array_equal((preceding + 7) % 64, batch.answers)
        seen += batch.records
    assert sorted(seen) == list(range(len(records)))


def test_held_out_records_are_never_trained_on(records: list[selfplay.Record]) -> None:
    kept, held_out = selfplay.split(records, 5, seed=2)
    assert (len(kept), len(held_out)) == (len(records) - 5, 5)
    assert not {id(record) for record in kept} & {id(record) for record in held_out}


def test_text_is_read_as_documented_and_anything_else_refused(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "text.npz",
        tokens=np.arange(10, dtype=np.uint16),
        offsets=np.array([0, 4, 6, 10]),
        prompt_lengths=np.array([1, 2, 3], np.int32),
    )
    first, last = selfplay.read(tmp_path)  # the second record has no answer
    assert (first.tokens.tolist(), first.answer.tolist(), last.answer.tolist()) == ([0, 1, 2, 3], [1, 2, 3], [9])
    with pytest.raises(DraftlightError, match="There is no training text"):
        selfplay.read(tmp_path / "missing")
    damaged = tmp_path / "other.npz"
    for content in (b"no archive", b"", (tmp_path / "text.npz").read_bytes()[:-30]):
        damaged.write_bytes(content)
        with pytest.raises(DraftlightError, match=r"other\.npz is not a file of training text, or it is damaged .* Remove it"):
            selfplay.read(damaged)
    sound = {"tokens": np.arange(9), "offsets": np.array([0, 9]), "prompt_lengths": np.array([2])}
    for name, array in (("offsets", np.array(3)), ("offsets", np.array(["0", "9"])), ("prompt_lengths", np.array(["2"]))):
        np.savez(damaged, **{**sound, name: array})
        with pytest.raises(DraftlightError, match=f"{name} is not a row of whole numbers"):
            selfplay.read(damaged)
