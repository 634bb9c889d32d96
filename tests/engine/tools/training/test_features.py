"""Features and soft labels: what is kept on disk is what the target says, and both readers agree."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from engine.machine.device import kind
from engine.target.layer_taps import embedding_of, tap
from engine.tools.training import features, reading, texts
from engine.tools.training.drafter_training import unroll
from engine.tools.training.first_weights import config_for, fresh_head
from engine.tools.training.reading import LABELS, CpuLlama, Read, TargetReader, default_taps
from engine.values.errors import DraftlightError
from tests.engine.small_models import VOCAB, greedy_of_mlx_lm, tiny_llama, tiny_qwen3

TAPS = (0, 2)
TEXTS = [np.array(text, np.uint32) for text in ([3, 50, 7, 7, 91, 12, 60], [9, 9, 41], [88, 2, 17, 33, 5])]


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return tiny_llama(4, layers=3)


def in_order(read: Read) -> tuple[np.ndarray, np.ndarray]:
    """Ids and log-probabilities, likeliest first."""
    order = np.argsort(-read.logs.astype(np.float32), axis=-1, kind="stable")
    return np.take_along_axis(read.ids, order, axis=-1), np.take_along_axis(read.logs, order, axis=-1)


def test_labels_are_the_likeliest_tokens_with_their_probabilities(model: nn.Module) -> None:
    reads = TargetReader(model, TAPS).read(TEXTS)
    for text, read in zip(TEXTS, reads, strict=True):
        logits = np.array(model(mx.array(text[None].astype(np.int32)))[0]).astype(np.float64)
        logs = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
        ids, kept = in_order(read)
        assert ids.shape == (len(text), LABELS)
        np.testing.assert_array_equal(ids[:, 0], logs.argmax(axis=-1))
        np.testing.assert_allclose(np.take_along_axis(logs, ids, axis=-1), kept, atol=2e-2)
        left_out = np.sort(logs, axis=-1)[:, -LABELS - 1]
        assert (kept.min(axis=-1) >= left_out - 2e-2).all()


@pytest.mark.skipif(kind() != "cpu", reason="what a GPU takes beside the logits is not known")
def test_labels_take_little_memory_beside_the_logits_of_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    length, width = 256, 10_000
    reader, texts = TargetReader(tiny_llama(4, vocab=width), (0, 1)), [np.arange(length) % 90]
    (whole,) = reader.read(texts)
    monkeypatch.setattr(reading, "_LOGITS", 16 * width)
    mx.clear_cache()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    (read,) = reader.read(texts)
    assert mx.get_peak_memory() - before < 1.5 * 4 * length * width
    for ours, expected in zip(in_order(read), in_order(whole), strict=True):
        np.testing.assert_array_equal(ours, expected)


def test_a_text_reads_the_same_alone_and_beside_longer_ones(model: nn.Module) -> None:
    reader = TargetReader(model, TAPS)
    together = reader.read(TEXTS)
    for text, read in zip(TEXTS, together, strict=True):
        (alone,) = reader.read([text])
        np.testing.assert_allclose(read.features.astype(np.float32), alone.features.astype(np.float32), atol=2e-2)


def test_numpy_reads_what_mlx_reads(model: nn.Module) -> None:
    assert CpuLlama.fits(model)
    for ours, mlx in zip(CpuLlama(model, TAPS).read(TEXTS), TargetReader(model, TAPS).read(TEXTS), strict=True):
        np.testing.assert_allclose(ours.features.astype(np.float32), mlx.features.astype(np.float32), atol=5e-3)
        np.testing.assert_array_equal(in_order(ours)[0][:, :3], in_order(mlx)[0][:, :3])
        np.testing.assert_allclose(in_order(ours)[1], in_order(mlx)[1], atol=1e-2)


def test_numpy_leaves_other_models_to_mlx() -> None:
    assert not CpuLlama.fits(tiny_qwen3(1))
    quantised = tiny_llama(1)
    nn.quantize(quantised, group_size=64, bits=4)
    assert not CpuLlama.fits(quantised)


@pytest.mark.parametrize("kind", [TargetReader, CpuLlama])
def test_answers_side_by_side_are_those_written_alone(model: nn.Module, kind: type[TargetReader] | type[CpuLlama]) -> None:
    prompts = [[3, 50, 7, 7, 91], [9], [88, 2, 17]]
    batch = kind(model, TAPS).begin(prompts)
    newest = np.array([prompt[-1] for prompt in prompts])
    rows = np.arange(3)
    written: list[list[int]] = [[], [], []]
    for step in range(70):  # past the room that the caches begin with
        newest = batch.draw(newest, np.zeros(len(rows)), 0.0)
        for row, token in zip(rows, newest.tolist(), strict=True):
            written[row].append(token)
        if step == 5:  # the longest prompt ends first
            rows, newest = rows[1:], newest[1:]
            batch.keep(np.array([1, 2]))
    for row, length in ((0, 6), (1, 70), (2, 70)):
        assert written[row] == greedy_of_mlx_lm(model, prompts[row], length)


@pytest.mark.parametrize("kind", [TargetReader, CpuLlama])
def test_a_uniform_number_picks_the_token_it_falls_on(model: nn.Module, kind: type[TargetReader] | type[CpuLlama]) -> None:
    prompt = [3, 50, 7]
    logits = np.array(model(mx.array([prompt]))[0, -1]).astype(np.float64) / 0.8
    shares = np.exp(logits - logits.max())
    ends = np.cumsum(shares / shares.sum())
    for uniform in (0.0, 0.2, 0.5, 0.77, 0.999999):
        token = int(kind(model, TAPS).begin([prompt]).draw(np.array(prompt[-1:]), np.array([uniform]), 0.8)[0])
        assert (ends[token - 1] if token else 0) - 1e-5 <= uniform <= ends[token] + 1e-5


def test_features_on_disk_are_those_of_their_record(model: nn.Module, tmp_path: Path) -> None:
    records = [texts.TextRecord(text, 2, index * 10**9) for index, text in enumerate(TEXTS)]
    texts.save(tmp_path / "given-00000.npz", records[:2])
    texts.save(tmp_path / "given-00001.npz", records[2:])
    reader = TargetReader(model, TAPS)
    done: list[int] = []
    features.cache(reader, texts.files(tmp_path), tmp_path, VOCAB, done.append)
    found = features.examples(texts.files(tmp_path), tmp_path)
    assert [one.prompt_length for one in found] == [2, 2, 2] and done[-1] == sum(map(len, TEXTS)) == sum(done[-1:])
    assert done == sorted(done) and done[0] == 0, "the first pass may take long"
    for text, example in zip(TEXTS, found, strict=True):
        np.testing.assert_array_equal(example.tokens, text)
        kept, ids, _ = features.load(example)
        (alone,) = reader.read([text])
        np.testing.assert_allclose(kept.astype(np.float32), alone.features.astype(np.float32), atol=2e-2)
        assert isinstance(kept, np.memmap) and ids.dtype == np.uint16
    size = sum((found[0].folder / f"{name}.npy").stat().st_size for name in ("features", "ids", "logs"))
    rows = len(TEXTS[0]) + len(TEXTS[1])
    assert size - 3 * 128 == rows * features.bytes_per_token(2, 128, VOCAB)


def test_stored_features_are_not_read_again(model: nn.Module, tmp_path: Path) -> None:
    class Interrupted(Exception):
        pass

    for number in range(3):
        texts.save(tmp_path / f"given-{number:05}.npz", [texts.TextRecord(TEXTS[number], 1, number)])
    read: list[int] = []

    class Counting(TargetReader):
        def read(self, texts: list[np.ndarray]) -> list[Read]:  # type: ignore[override]
            read.append(len(texts[0]))
            return super().read(texts)

    def interrupt(done: int) -> None:
        if done > len(TEXTS[0]):
            raise Interrupted

    reader = Counting(model, TAPS)
    with pytest.raises(Interrupted):
        features.cache(reader, texts.files(tmp_path), tmp_path, VOCAB, interrupt)
    with pytest.raises(DraftlightError, match="does not have all its features yet"):
        features.examples(texts.files(tmp_path), tmp_path)
    features.cache(reader, texts.files(tmp_path), tmp_path, VOCAB, lambda done: None)
    assert read.count(len(TEXTS[0])) == 1 and len(features.examples(texts.files(tmp_path), tmp_path)) == 3


def test_features_of_another_text_are_noticed(model: nn.Module, tmp_path: Path) -> None:
    texts.save(tmp_path / "given-00000.npz", [texts.TextRecord(TEXTS[0], 1, 0)])
    features.cache(TargetReader(model, TAPS), texts.files(tmp_path), tmp_path, VOCAB, lambda done: None)
    texts.save(tmp_path / "given-00000.npz", [texts.TextRecord(TEXTS[1], 1, 0)])
    with pytest.raises(DraftlightError, match="a different text"):
        features.examples(texts.files(tmp_path), tmp_path)


def test_damaged_features_give_a_remedy(model: nn.Module, tmp_path: Path) -> None:
    texts.save(tmp_path / "given-00000.npz", [texts.TextRecord(TEXTS[0], 1, 0)])
    features.cache(TargetReader(model, TAPS), texts.files(tmp_path), tmp_path, VOCAB, lambda done: None)
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    for name in ("features", "ids", "logs"):
        file = folder / f"{name}.npy"
        whole = file.read_bytes()
        for damaged in (b"", whole[:-1], b"PK\x03\x04", whole.replace(b"'shape': (7,", b"'shape': ((,")):
            file.write_bytes(damaged)
            with pytest.raises(DraftlightError, match=r"given-00000-000 is damaged \(.*\)\. Remove it and run"):
                features.examples(texts.files(tmp_path), tmp_path)
        np.save(file, np.array(3))
        with pytest.raises(DraftlightError, match=rf"given-00000-000 is damaged \({name}\.npy is no table\)"):
            features.examples(texts.files(tmp_path), tmp_path)
        file.write_bytes(whole)
    assert len(features.examples(texts.files(tmp_path), tmp_path)) == 1


def test_the_taps_are_spread_over_the_depth() -> None:
    assert default_taps(30) == (9, 20, 28)
    assert default_taps(2) == (0, 1) and default_taps(1) == (0,)
    for layers in range(1, 100):
        taps = default_taps(layers)
        assert taps == tuple(sorted(set(taps))) and 0 <= taps[0] <= taps[-1] < layers


class _Loaded:
    """As much of a loaded target as the head's shape needs."""

    name, sha256, context_length = "tiny", "", 512

    def __init__(self, model: nn.Module) -> None:
        self.model = model


@pytest.mark.parametrize("make", [tiny_llama, tiny_qwen3])
@pytest.mark.parametrize("bits", [None, 4])
def test_a_head_starts_from_the_targets_last_layer(make: type, bits: int | None) -> None:
    """Quantised targets too: the copies are what the quantised layer computes with."""
    model = make(7)
    if bits is not None:
        nn.quantize(model, group_size=64, bits=bits)
    ids = np.array([1, 4, 90], np.int32)
    config = config_for(_Loaded(model), TAPS[:1])  # type: ignore[arg-type]
    head = fresh_head(_Loaded(model), config, ids, 0)  # type: ignore[arg-type]
    vector = mx.random.normal((1, 128))
    mlp = model.layers[-1].mlp
    np.testing.assert_allclose(np.array(head.down(mx.ones((1, 256)))), np.array(mlp.down_proj(mx.ones((1, 256)))), atol=1e-3)
    gate, up = mx.split(head.gate_up(vector), 2, axis=-1)
    np.testing.assert_allclose(np.array(gate), np.array(mlp.gate_proj(vector)), atol=1e-3)
    np.testing.assert_allclose(np.array(up), np.array(mlp.up_proj(vector)), atol=1e-3)
    np.testing.assert_allclose(np.array(head.head(vector)), np.array(model.lm_head(vector))[:, ids], atol=1e-3)


def test_a_head_fits_a_target_whose_heads_do_not_fill_its_hidden_size() -> None:
    model = tiny_qwen3(2)
    model.args.head_dim = 48
    config = config_for(_Loaded(model), (0, 1))  # type: ignore[arg-type]
    assert config.hidden_size == config.head_size * config.num_attention_heads
    assert config.num_attention_heads % config.num_key_value_heads == 0
    head = fresh_head(_Loaded(model), config, np.arange(5, dtype=np.int32), 0)  # type: ignore[arg-type]
    taps = tap(model, (0, 1))
    model(mx.array([[1, 2, 3, 4, 5]]))
    embedded = embedding_of(model)(mx.array([[2, 3, 4, 5]]))
    (feature,) = unroll(head, head.fuse(taps.take_batch()[:, :4]), embedded, 1)
    assert head.logits(feature).shape == (1, 4, 5)
