"""GGUF files: weights against the `gguf` package, the whole model against an mlx-lm folder, and damaged files."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import gguf
import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.utils import load_model

from engine.files.gguf_architectures import ARCHITECTURES
from engine.files.gguf_header import BLOCKS, read_header
from engine.models import gguf_blocks
from engine.models.loading import load
from engine.values.errors import DraftlightError
from tests.engine import gguf_files, tiny_models

PROMPT = [[1, 40, 70, 100, 101, 2, 260, 262, 3, 99]]


def logits(model: Any) -> np.ndarray:
    return np.array(model(mx.array(PROMPT)))[0]


TOKENS = mx.array([np.random.default_rng(1).integers(3, tiny_models.VOCABULARY, 40).tolist()])
"""Longer than every window."""
EACH = [(name, gguf_files.MATRIX_KINDS[index % len(gguf_files.MATRIX_KINDS)]) for index, name in enumerate(gguf_files.KINDS)]


@pytest.mark.parametrize(("name", "kind"), EACH)
def test_an_architecture_gives_the_logits_of_the_mlx_lm_folder_it_was_made_from(name: str, kind: str, tmp_path: Path) -> None:
    file, folder = gguf_files.write_pair(name, kind, tmp_path)
    expected, _ = load_model(folder)
    expected.set_dtype(mx.float32)
    reference = np.array(expected(TOKENS))
    assert reference.std() > 0.3, "logits that differ from token to token"
    np.testing.assert_allclose(np.array(load(file.as_posix()).model(TOKENS)), reference, atol=1e-4)


def test_every_architecture_and_every_type_is_tried() -> None:
    assert {gguf.MODEL_ARCH_NAMES[kind.arch] for kind in gguf_files.KINDS.values()} == ARCHITECTURES.keys()
    assert {kind for _, kind in EACH} == set(gguf_files.MATRIX_KINDS) == set(BLOCKS)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("llama, experts", kind) for kind in sorted(gguf_blocks.AFFINE)),
        ("gemma3", "Q4_0"),
        ("gemma3", "Q5_K"),
        ("llama, experts", "MXFP4"),
    ],
)
def test_a_gpu_keeps_what_mlx_can_hold_quantised_without_loss(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every layer: attention, stacked experts, embedding; in float16, and in bfloat16 where an architecture needs it."""
    file, folder = gguf_files.write_pair(name, kind, tmp_path)
    monkeypatch.setattr("engine.models.loading.computes_on_host", lambda: False)
    loaded = load(file.as_posix())
    assert loaded.form == f"{kind} kept quantised"
    weights = mx.load((folder / "model.safetensors").as_posix())
    kept = {path: layer for path, layer in loaded.model.named_modules() if hasattr(layer, "scales")}
    assert len(kept) == sum(array.ndim > 1 and ".gate." not in path for path, array in weights.items())
    for path, layer in kept.items():
        unpacked = gguf_files.unpacked(layer)
        np.testing.assert_array_equal(np.array(unpacked), np.array(weights[f"{path}.weight"]), err_msg=path)
    half = mx.bfloat16 if name == "gemma3" else mx.float16
    assert loaded.model.layers[0].input_layernorm.weight.dtype == half
    assert loaded.model(TOKENS).dtype == half, "activations that do not widen on the way"


def test_a_gpu_expands_the_other_types_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, _ = gguf_files.write_pair("qwen3", "Q6_K", tmp_path)
    assert load(file.as_posix()).form == "Q6_K, expanded to 32 bits"
    monkeypatch.setattr("engine.models.loading.computes_on_host", lambda: False)
    loaded = load(file.as_posix())
    assert loaded.form == "Q6_K expanded to 16 bits"
    assert loaded.model.layers[0].self_attn.q_proj.weight.dtype == mx.float16


def test_a_file_and_a_folder_of_the_same_weights_are_alike(tmp_path: Path) -> None:
    made = tiny_models.weights()
    from_file = load(tiny_models.write_gguf(tmp_path / "tiny.gguf", "Q8_0", made).as_posix())
    from_folder = load(tiny_models.write_folder(tmp_path / "folder", tiny_models.through("Q8_0", made)).as_posix())
    np.testing.assert_allclose(logits(from_file.model), logits(from_folder.model), atol=2e-4)
    assert from_file.vocabulary == from_folder.vocabulary
    assert from_file.eos_ids == from_folder.eos_ids == {0, 2}
    assert from_file.context_length == from_folder.context_length == tiny_models.CONTEXT


def test_quantised_layers_run_natively_where_a_gpu_would_keep_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tiny_models.write_gguf(tmp_path / "tiny.gguf", "Q4_1")
    widened = load(path.as_posix())
    monkeypatch.setattr("engine.models.loading.computes_on_host", lambda: False)
    native = load(path.as_posix())
    attention = native.model.layers[0].self_attn.q_proj
    assert (attention.bits, attention.group_size, attention.scales.dtype) == (4, 32, mx.float16)
    assert native.model.layers[0].input_layernorm.weight.dtype == mx.float16
    difference = np.abs(logits(native.model).astype(np.float32) - logits(widened.model))
    assert difference.mean() < 0.05, "more than half precision explains, with logits of order 4"


def test_a_separate_output_head_is_used(tmp_path: Path) -> None:
    made = tiny_models.weights()
    tied = logits(load(tiny_models.write_gguf(tmp_path / "tied.gguf", made=made).as_posix()).model)
    made["lm_head.weight"] = made["model.embed_tokens.weight"][::-1].copy()
    untied = logits(load(tiny_models.write_gguf(tmp_path / "untied.gguf", made=made).as_posix()).model)
    np.testing.assert_allclose(untied, tied[:, ::-1], atol=1e-5)


def test_rotary_factors_act_as_mlx_lms_llama3_scaling(tmp_path: Path) -> None:
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    folder = load(tiny_models.write_folder(tmp_path / "folder", rope_scaling=scaling).as_posix())
    plain = 10000.0 ** (np.arange(0, 16, 2) / 16)
    factors = (np.array(folder.model.layers[0].self_attn.rope._freqs) / plain).astype(np.float32)
    assert factors.max() > 7
    file = load(tiny_models.write_gguf(tmp_path / "tiny.gguf", extra={"rope_freqs.weight": factors}).as_posix())
    np.testing.assert_allclose(logits(file.model), logits(folder.model), atol=1e-4)


def test_padded_embeddings_widen_the_vocabulary_with_unknown_ids(tmp_path: Path) -> None:
    made = tiny_models.weights(vocabulary=tiny_models.VOCABULARY + 5)
    loaded = load(tiny_models.write_gguf(tmp_path / "tiny.gguf", made=made).as_posix())
    assert len(loaded.vocabulary) == logits(loaded.model).shape[-1] == tiny_models.VOCABULARY + 5
    assert loaded.vocabulary[-5:] == (None,) * 5


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"architecture": "rwkv6"}, r"architecture 'rwkv6'.*llama, qwen2"),
    ({"llama__block_count": 3}, "do not form 3 layers"),
    ({"llama__block_count": None}, "llama.block_count is None"),
    ({"llama__block_count": 2**31}, "do not form 2147483648 layers"),
    ({"llama__block_count": 2.5}, "llama.block_count is 2.5, not a whole number"),
    ({"llama__context_length": 64.0}, "llama.context_length is 64.0, not a whole number"),
    ({"llama__feed_forward_length": 2**31}, "weights do not match"),
    ({"llama__attention__head_count": 0}, "llama.attention.head_count is 0"),
    ({"llama__attention__head_count": 3}, "uneven heads"),
    ({"llama__attention__head_count_kv": [2, 1]}, r"head_count_kv is \[2, 1\]"),
    ({"llama__attention__head_count": 16, "llama__rope__dimension_count": None}, "weights do not match"),
    ({"llama__embedding_length": 32}, "layers of width 32"),
    ({"llama__feed_forward_length": 64}, "weights do not match"),
    ({"llama__attention__layer_norm_rms_epsilon": None}, "layer_norm_rms_epsilon is None"),
    ({"llama__expert_count": 8}, "expert_used_count is None"),
    ({"llama__rope__scaling__type": "yarn"}, "rope.scaling.factor is None"),
    ({"llama__rope__scaling__type": "longrope"}, "rotary scaling 'longrope'"),
    ({"llama__rope__dimension_count": 8}, "partly rotated heads"),
    ({"extra": {"blk.0.attn_sinks.weight": np.zeros(4, np.float32)}}, "blk.0.attn_sinks.weight"),
    ({"extra": {"blk.0.attn_q.scales": np.zeros((4, 4), np.float32)}}, "blk.0.attn_q.scales"),
    ({"extra": {"blk.2.nextn.eh_proj.weight": np.zeros((4, 4), np.float32)}}, "does not have .blk.2.nextn.eh_proj"),
    ({"extra": {"integers.weight": np.zeros(4, np.int32)}}, "type I32"),
    ({"tokenizer__ggml__model": None}, "no tokenizer"),
    ({"tokenizer__ggml__tokens": None}, "no tokenizer"),
    ({"tokenizer__ggml__model": "llama"}, "no scores"),
    ({"tokenizer__ggml__model": "rwkv"}, "of type 'rwkv'"),
    ({"tokenizer__ggml__merges": None}, "no merges"),
    ({"tokenizer__ggml__pre": "default"}, "pre-tokeniser 'default'"),
    ({"tokenizer__ggml__pre": None}, "pre-tokeniser None"),
    ({"tokenizer__ggml__pre": [1, 2]}, r"pre-tokeniser \[1, 2\]"),
    ({"tokenizer__ggml__token_type": 3}, "token types are 3"),
    ({"tokenizer__ggml__token_type": [1, 1]}, "2 token types"),
    ({"tokenizer__ggml__tokens": ["a", "a"], "tokenizer__ggml__token_type": [1, 1]}, "1 different token of 2"),
    ({"tokenizer__ggml__merges": ["h e", "nothing here"]}, "tokenizer is damaged"),
    ({"tokenizer__ggml__merges": ["h e l"]}, "tokenizer is damaged"),
    ({"tokenizer__ggml__eos_token_id": 10_000}, "begin or end token is 10000"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_does_not_make_a_supported_llama_is_refused_with_the_reason(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tiny_models.write_gguf(tmp_path / "tiny.gguf", **changes)
    with pytest.raises(DraftlightError, match=message):
        load(path.as_posix())


@pytest.mark.parametrize("kind", ["TQ1_0", "TQ2_0"])
def test_other_quantisations_are_refused_by_name(kind: str, tmp_path: Path) -> None:
    made = {name: np.zeros((256, 256), np.float32) if array.ndim > 1 else array for name, array in tiny_models.weights().items()}
    with pytest.raises(DraftlightError, match=f"type {kind} .*Q4_0"):
        load(tiny_models.write_gguf(tmp_path / "tiny.gguf", kind, made).as_posix())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a GGUF file"),
        (b"GG", "is not a GGUF file"),
        (b"PK\x03\x04 an archive", "is not a GGUF file"),
        (b"<html>not found</html>", "is not a GGUF file"),
        (b"GGUF\x00\x00\x00\x03" + bytes(16), "version 50331648"),
        (b"tjgg\x01\x00\x00\x00" + bytes(16), "is not a GGUF file but of an older format"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "only Git LFS's pointer .*git lfs pull"),
        (b"GGUF\x01\x00\x00\x00" + bytes(16), "version 1;"),
        (b"GGUF\x03\x00\x00\x00" + b"\xff" * 16, "claims to have 18446744073709551615 entries"),
        (b"GGUF\x03\x00\x00\x00" + bytes(16), "architecture None"),
    ],
)
def test_files_that_are_not_gguf_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "file.gguf"
    path.write_bytes(content)
    with pytest.raises(DraftlightError, match=message):
        load(path.as_posix())


NO_MODELS: list[tuple[dict[str, Any], str]] = [
    ({"split__count": 2, "split__no": 1}, "is part 2 of 2 of a model that is split into several files. .*--merge"),
    ({"general__type": "adapter", "adapter__type": "lora"}, r"is an adapter \(LoRA\) .*base model"),
    ({"architecture": "clip"}, r"\(mmproj\) .* Choose the other GGUF file"),
    ({"general__type": "mmproj"}, r"\(mmproj\) .* Choose the other GGUF file"),
    ({"general__type": "imatrix"}, "is an importance matrix"),
    ({"architecture": "controlvector"}, "is a control vector"),
    ({"architecture": "nomic-bert"}, "is an embedding model"),
    ({"llama__pooling_type": 3}, "is an embedding model"),
    ({"made": {}}, "contains no weights"),
]


@pytest.mark.parametrize(("changes", "message"), NO_MODELS, ids=[message for _, message in NO_MODELS])
def test_a_gguf_file_that_is_no_language_model_is_called_what_it_is(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tiny_models.write_gguf(tmp_path / "tiny.gguf", **({"architecture": "llama"} | changes))
    with pytest.raises(DraftlightError, match=message):
        load(path.as_posix())


def test_a_part_without_metadata_and_a_file_for_big_endian_machines_are_called_that(tmp_path: Path) -> None:
    path = tmp_path / "file.gguf"
    for endian, message in (
        (gguf.GGUFEndian.LITTLE, "is part 3 of 3"),
        (gguf.GGUFEndian.BIG, "is a GGUF file for big-endian machines"),
    ):
        writer = gguf.GGUFWriter(path, "llama", endianess=endian)
        writer.kv_data[0].clear()  # as llama-gguf-split writes all parts but the first
        writer.add_uint16("split.no", 2)
        writer.add_uint16("split.count", 3)
        writer.add_tensor("blk.1.attn_q.weight", np.zeros((64, 64), np.float32))
        tiny_models.finish(writer)
        with pytest.raises(DraftlightError, match=message):
            load(path.as_posix())


def test_a_pooling_type_of_none_is_no_hindrance(tmp_path: Path) -> None:
    load(tiny_models.write_gguf(tmp_path / "tiny.gguf", llama__pooling_type=0, split__count=1, general__type="model").as_posix())


def test_a_file_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    whole = tiny_models.write_gguf(tmp_path / "tiny.gguf", "Q4_0").read_bytes()
    path = tmp_path / "cut.gguf"
    for length in sorted({*range(0, 200, 7), *range(200, len(whole) - 1, 997), len(whole) - 40, len(whole) - 33}):
        path.write_bytes(whole[:length])
        with pytest.raises(DraftlightError, match=r"incomplete|not a GGUF file"):
            read_header(path)


PLACES = (64, 2000, 13_000)
"""Damage is likelier where counts and lengths stand; the header of the tiny file has 13,000 bytes."""


MUCH = pytest.param(300, marks=pytest.mark.full)


@pytest.mark.parametrize("times", [30, MUCH])
@pytest.mark.parametrize("name", ["qwen3", "gemma4"])
def test_any_damage_gives_a_model_or_a_refusal(name: str, times: int, tmp_path: Path) -> None:
    """Bytes changed at random, a few or many, and numbers that are enormous; nothing but DraftlightError comes out."""
    path, _ = gguf_files.write_pair(name, "Q4_0", tmp_path)
    whole, generator = path.read_bytes(), random.Random(1)
    refusals = []
    for _ in range(times):
        changed = bytearray(whole)
        for _ in range(generator.choice((1, 1, 4, 40))):
            at = generator.randrange(generator.choice(PLACES))
            with_what = generator.choice((b"\0", b"\x01", b"\x7f", b"\xff", b"\xff" * 8, b"\xff\xff\xff\x7f", b"\0\0\0\x80"))
            changed[at : at + len(with_what)] = with_what
        path.write_bytes(changed)
        try:
            load(path.as_posix())
        except DraftlightError as error:
            refusals.append(str(error))
    assert len(refusals) > 0.4 * times
    assert max(map(len, refusals)) < 1500, "no table of the file's own contents"


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    """Between the header and the weights: gone, shorter, and of an architecture that reads tensors for its configuration."""
    for name in ("llama", "phi3"):
        path, _ = gguf_files.write_pair(name, "Q4_0", tmp_path / name)
        size = path.stat().st_size
        with pytest.raises(DraftlightError, match=r"has changed while it was read: .* is cut off"):
            load(path.as_posix(), make_room=lambda need, path=path, size=size: os.truncate(path, size // 2))
        (tmp_path / name / "again").mkdir()
        path, _ = gguf_files.write_pair(name, "Q4_0", tmp_path / name / "again")
        with pytest.raises(DraftlightError, match="cannot be read: No such file"):
            load(path.as_posix(), make_room=lambda need, path=path: path.unlink())


def test_a_folder_that_vanishes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    folder = tiny_models.write_folder(tmp_path / "folder")
    with pytest.raises(DraftlightError, match="cannot be loaded as an mlx-lm model"):
        load(folder.as_posix(), make_room=lambda need: shutil.rmtree(folder))
