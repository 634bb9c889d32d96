"""Loading from every kind of source, clear refusals, and which pairs fit. Tiny random models, and the built-in one where said."""

from __future__ import annotations

import copy
import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx_lm
import numpy as np
import pytest
from mlx.utils import tree_flatten, tree_map_with_path
from mlx_lm.models import deepseek_v41
from mlx_lm.models.cache import (
    ArraysCache,
    CacheList,
    ChunkedKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    make_prompt_cache,
)
from mlx_lm.utils import save_model
from safetensors.numpy import load_file, save_file

from engine.files.builtin import SHA256
from engine.files.safetensors_header import check_safetensors
from engine.models import loading
from engine.models.loaded import LoadedModel
from engine.models.loading import load
from engine.models.pair_check import check_pair
from engine.values.errors import DraftlightError
from tests.engine import families, tiny_models

REFERENCE = json.loads((Path(__file__).parents[2] / "references" / "builtin_reference.json").read_text(encoding="utf-8"))
PROMPT = [[1, 40, 70, 100, 101, 2, 260, 262, 3, 99]]


def logits(model: Any) -> np.ndarray:
    return np.array(model(mx.array(PROMPT)))[0]


@pytest.mark.parametrize("is_long", [False, pytest.param(True, marks=pytest.mark.full)], ids=["short", "long"])
def test_logits_of_the_builtin_target_are_those_of_transformers(is_long: bool, builtin: LoadedModel) -> None:
    """Float32 here and there, summed in another order: logits of order 10 agree to 1e-3, their means over the ids to 1e-6. The
    long prompts take most of the time."""
    prompts = {row["prompt"]: REFERENCE["prompts"][row["prompt"]] for row in REFERENCE["rows"]}
    chosen = {number: ids for number, ids in prompts.items() if (len(ids) > 40) == is_long}
    made = {number: np.array(builtin.model(mx.array([ids])))[0] for number, ids in chosen.items()}
    assert len(made) == 3
    for row in (row for row in REFERENCE["rows"] if row["prompt"] in made):
        ours = made[row["prompt"]][row["position"]].astype(np.float64)
        np.testing.assert_allclose(ours[row["top_ids"]], row["top_logits"], atol=1e-3)
        assert ours.max() <= row["top_logits"][0] + 1e-3
        ids = np.arange(len(ours))
        projections = [(ours * np.cos(k * ids)).mean() for k in range(1, 5)]
        np.testing.assert_allclose(projections, row["projections"], atol=1e-6)


def test_the_builtin_target_is_described(builtin: LoadedModel) -> None:
    assert (builtin.name, builtin.sha256, builtin.context_length) == ("SmolLM2-135M-Instruct", SHA256, 8192)
    assert builtin.eos_ids == {0, 2}, "<|endoftext|> and <|im_end|>"
    assert len(builtin.vocabulary) == 49152
    assert {array.dtype for _, array in tree_flatten(builtin.model.parameters())} == {mx.float32}
    assert {type(entry) for entry in make_prompt_cache(builtin.model)} == {KVCache}


@pytest.mark.parametrize("bits", [4, 8])
def test_quantised_and_half_precision_folders_are_widened_without_rounding(bits: int, tmp_path: Path) -> None:
    model = load(tiny_models.write_folder(tmp_path / "source").as_posix()).model
    model.set_dtype(mx.float16)
    nn.quantize(model, group_size=32, bits=bits)
    folder = tiny_models.write_folder(tmp_path / "folder", quantization={"group_size": 32, "bits": bits})
    (folder / "model.safetensors").unlink()
    save_model(folder, model)
    widened = load(folder.as_posix()).model
    assert {array.dtype for _, array in tree_flatten(widened.parameters())} == {mx.float32}
    layer = model.layers[1].mlp.down_proj
    packed = np.array(layer.weight).view(np.uint8)
    levels = packed if bits == 8 else np.stack([packed & 15, packed >> 4], axis=-1).reshape(packed.shape[0], -1)
    groups = levels.reshape(levels.shape[0], -1, 32).astype(np.float32)
    scales, biases = (np.array(array).astype(np.float32)[..., None] for array in (layer.scales, layer.biases))
    expected = (groups * scales + biases).reshape(levels.shape)
    np.testing.assert_allclose(np.array(widened.layers[1].mlp.down_proj.weight), expected, atol=1e-6)


def test_another_architecture_of_mlx_lm_loads_as_it_is(tmp_path: Path) -> None:
    made = tiny_models.weights()
    for layer in range(tiny_models.LAYERS):
        for name in ("q_norm", "k_norm"):
            made[f"model.layers.{layer}.self_attn.{name}.weight"] = np.ones(16, np.float32)
    loaded = load(tiny_models.write_folder(tmp_path, made, model_type="qwen3", head_dim=16).as_posix())
    assert type(loaded.model).__module__ == "mlx_lm.models.qwen3"
    assert loaded.name == tmp_path.name
    assert np.isfinite(logits(loaded.model)).all()


def test_the_stated_context_is_taken(tmp_path: Path) -> None:
    assert load(tiny_models.write_folder(tmp_path, max_position_embeddings=77).as_posix()).context_length == 77
    useless = load(tiny_models.write_folder(tmp_path, text_config="none", max_position_embeddings=0, n_ctx=88).as_posix())
    assert useless.context_length == 88


@pytest.mark.parametrize(
    ("stated", "generation", "settings", "ends"),
    [
        (0, None, {}, {0, 2}),
        ([0, 260], None, {}, {0, 2, 260}),
        (None, None, {}, {2}),
        (2, {"eos_token_id": [0, 261]}, {}, {0, 2, 261}),
        (0, {"eos_token_id": 261}, {}, {2, 261}),
        (260, {"eos_token_id": [261, 262]}, {}, {2, 261, 262}),
        (260, {"eos_token_id": None}, {}, {2, 260}),
        (260, None, {"eos_token": None}, {260}),
        (260, None, {"eos_token": None, "special_tokens_map": {"eos_token": {"content": "<|endoftext|>"}}}, {0, 260}),
        (260, None, {"special_tokens_map": {"eos_token": "<|endoftext|>"}}, {0, 260}),
        (260, None, {"special_tokens_map": {"eos_token": "<|endoftext|>"}, "added_tokens_decoder": {}}, {2, 260}),
    ],
)
def test_an_answer_ends_with_the_tokens_it_ends_with_in_mlx_lm(
    stated: Any, generation: Any, settings: dict[str, Any], ends: set[int], tmp_path: Path
) -> None:
    """Those of generation_config.json and the tokenizer's; here also those of config.json where mlx-lm replaces them, and those
    that are known by their texts: <|endoftext|> and <|im_end|>."""
    folder = tiny_models.write_folder(tmp_path, eos_token_id=stated)
    if generation is not None:
        (folder / "generation_config.json").write_text(json.dumps(generation))
    path = folder / "tokenizer_config.json"
    written = json.loads(path.read_text()) | settings
    if special_tokens := written.pop("special_tokens_map", None):
        (folder / "special_tokens_map.json").write_text(json.dumps(special_tokens))
    path.write_text(json.dumps(written))
    _, theirs = mlx_lm.load(folder.as_posix())
    assert theirs.eos_token_ids == ends
    own = set(stated) if isinstance(stated, list) else {stated} - {None}
    assert load(folder.as_posix()).eos_ids == ends | own | {0, 2}


def test_ends_of_the_text_model_count_and_impossible_ones_do_not(tmp_path: Path) -> None:
    folder = tiny_models.write_folder(tmp_path, eos_token_id=True, text_config={"eos_token_id": [260, -1, 10_000, "x", 261.0]})
    assert load(folder.as_posix()).eos_ids == {0, 2, 260}


@pytest.mark.parametrize(("name", "kept"), [("glm4_moe", "e_score_correction_bias"), ("nemotron_h", "A_log")])
def test_on_a_gpu_what_mlx_lm_keeps_in_float32_stays_so(
    name: str, kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Types, values and logits are those of mlx-lm's own loading, but for norms stored wider than the rest."""
    sizes = families.SIZES | {"vocab_size": tiny_models.VOCABULARY}
    model, config = families.tiny(name, sizes=sizes), families.config_of(name, sizes)

    def as_converted(name: str, array: mx.array) -> mx.array:
        return array + 0.01 * mx.random.normal(array.shape) if kept in name else array.astype(mx.bfloat16)

    model.update(tree_map_with_path(as_converted, model.parameters()))
    nn.quantize(model, group_size=32, bits=8)
    folder = tiny_models.write_model(tmp_path, model, config | {"quantization": {"group_size": 32, "bits": 8}})
    theirs, _ = mlx_lm.utils.load_model(folder)
    monkeypatch.setattr(loading, "computes_on_host", lambda: False)
    ours = load(folder.as_posix()).model
    types = {name: array.dtype for name, array in tree_flatten(ours.parameters())}
    assert types == {name: array.dtype for name, array in tree_flatten(theirs.parameters())}
    assert {dtype for name, dtype in types.items() if kept in name} == {mx.float32}
    np.testing.assert_array_equal(*(np.array(each(mx.array(PROMPT)).astype(mx.float32)) for each in (ours, theirs)))


def test_on_a_gpu_norms_take_the_type_of_the_scales(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "computes_on_host", lambda: False)
    loaded = load(tiny_models.write_gguf(tmp_path / "tiny.gguf", "Q8_0").as_posix())
    assert {array.dtype for _, array in tree_flatten(loaded.model.parameters())} == {mx.uint32, mx.float16}


def test_the_digest_is_that_of_the_weights(tmp_path: Path) -> None:
    one, other = (tiny_models.write_folder(tmp_path / str(seed), tiny_models.weights(seed)) for seed in (1, 2))
    digests = [load(folder.as_posix()).sha256 for folder in (one, other, one)]
    assert digests[0] == digests[2] != digests[1]


def with_weights(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    """Changes the bytes of a folder's weights."""

    def damage(folder: Path) -> None:
        path = folder / "model.safetensors"
        path.write_bytes(change(path.read_bytes()))

    return damage


def drop_a_weight(folder: Path) -> None:
    made = tiny_models.weights()
    del made["model.norm.weight"]
    save_file(made, folder / "model.safetensors")


def write_config(text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "config.json").write_text(text) and None


REFUSED_FOLDERS: list[tuple[Callable[[Path], Any], str]] = [
    (lambda folder: (folder / "config.json").unlink(), "has no config.json"),
    (write_config("{"), r"config\.json cannot be read"),
    (write_config("[]"), "not a JSON object"),
    (write_config("{}"), "cannot be loaded as an mlx-lm model: 'model_type' is missing"),
    (write_config('{"model_type": "abacus"}'), "abacus not supported"),
    (write_config('{"model_type": "llama"}'), "cannot be loaded as an mlx-lm model"),
    (lambda folder: tiny_models.write_folder(folder, hidden_size=32), "cannot be loaded as an mlx-lm model"),
    (lambda folder: tiny_models.write_folder(folder, num_hidden_layers=3), "cannot be loaded as an mlx-lm model"),
    (lambda folder: tiny_models.write_folder(folder, num_attention_heads=0), "cannot be loaded as an mlx-lm model"),
    (lambda folder: (folder / "model.safetensors").unlink(), r"has no model\*\.safetensors"),
    (lambda folder: (folder / "tokenizer.json").unlink(), r"has no tokenizer\.json"),
    (with_weights(lambda whole: whole[:-100]), r"model\.safetensors is damaged: .* ends at byte"),
    (with_weights(lambda whole: whole[:50]), "model.safetensors is damaged: its header is cut off"),
    (with_weights(lambda whole: whole.replace(b"[64,96]", b"[96,96]")), "does not have the size of its shape"),
    (with_weights(lambda whole: b"<html>not found</html>" * 10), "model.safetensors is damaged: its header is cut off"),
    (with_weights(lambda whole: b""), "model.safetensors is damaged"),
    (drop_a_weight, "Missing 1 parameters"),
]


@pytest.mark.parametrize(("damage", "message"), REFUSED_FOLDERS)
def test_folders_that_hold_no_usable_model_are_refused_with_the_reason(
    damage: Callable[[Path], Any], message: str, tmp_path: Path
) -> None:
    damage(tiny_models.write_folder(tmp_path))
    with pytest.raises(DraftlightError, match=message):
        load(tmp_path.as_posix())


def test_a_loaded_model_stays_usable_when_another_is_refused(tiny: LoadedModel, tmp_path: Path) -> None:
    before = logits(tiny.model)
    drop_a_weight(tiny_models.write_folder(tmp_path))
    with pytest.raises(DraftlightError):
        load(tmp_path.as_posix())
    np.testing.assert_array_equal(logits(tiny.model), before)


def test_scalars_and_empty_arrays_are_no_damage(tmp_path: Path) -> None:
    save_file({"scale": np.array(2.0, np.float32), "empty": np.zeros((0, 3), np.float16)}, tmp_path / "whole.safetensors")
    check_safetensors(tmp_path / "whole.safetensors")


@pytest.mark.full
def test_damaged_weights_never_end_the_process(tmp_path: Path) -> None:
    """Bytes of the header changed at random, in a process of its own: a model or a refusal, never a crash."""
    tiny_models.write_folder(tmp_path)
    run = subprocess.run([sys.executable, "-c", DAMAGE, tmp_path.as_posix()], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    loaded, refused = map(int, run.stdout.split())
    assert loaded + refused == 150
    assert refused > 75


DAMAGE = """
import pathlib, random, sys
from engine.values.errors import DraftlightError
from engine.models.loading import load
folder = pathlib.Path(sys.argv[1])
path = folder / "model.safetensors"
whole = path.read_bytes()
header = int.from_bytes(whole[:8], "little")
outcomes = [0, 0]
generator = random.Random(1)
for trial in range(150):
    changed = bytearray(whole)
    for _ in range(generator.choice((1, 1, 4))):
        changed[generator.randrange(generator.choice((8, 8 + header)))] = generator.choice(b'0179-.,:"[]{}FI')
    path.write_bytes(changed)
    try:
        load(folder.as_posix())
        outcomes[0] += 1
    except DraftlightError:
        outcomes[1] += 1
print(*outcomes)
"""


def no_download(*_: object, **__: object) -> str:
    pytest.fail("a mistyped path must not become a download")


@pytest.mark.parametrize(
    "name",
    [
        "nothing",
        "./nothing",
        "/nowhere/at-all",
        "~/nowhere-at-all",
        "./models/mistyped",
        "a/b/c",
        "..",
        "model.gguf",
        "org/model.gguf",
        "",
    ],
)
def test_repositories_that_are_no_model_are_never_downloaded(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(loading, "offers", no_download)
    with pytest.raises(DraftlightError, match=r"no model at|no config\.json"):
        load(name)


def test_an_installation_without_the_builtin_draft_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "BUILTIN_DRAFT", tmp_path / "nothing")
    with pytest.raises(DraftlightError, match="The built-in draft model is missing"):
        load("builtin-draft")


def test_a_file_that_is_no_gguf_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(b"x")
    with pytest.raises(DraftlightError, match=r"neither a \.gguf file nor a model folder"):
        load((tmp_path / "weights.bin").as_posix())


def test_a_hub_that_cannot_be_reached_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(
        loading, "need_before_download", lambda *_: pytest.fail("it is asked again and again for what the model needs")
    )
    with pytest.raises(DraftlightError, match=r"from the Hugging Face Hub: .* is switched off by HF_HUB_OFFLINE\."):
        load("no-such-organisation/no-such-model")


# Pairs


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load(tiny_models.write_folder(tmp_path_factory.mktemp("tiny")).as_posix())


def other(loaded: LoadedModel, **changes: Any) -> LoadedModel:
    return dataclasses.replace(loaded, name="other", **changes)


def with_token(loaded: LoadedModel, index: int, token: bytes | None) -> tuple[bytes | None, ...]:
    return (*loaded.vocabulary[:index], token, *loaded.vocabulary[index + 1 :])


def with_caches(*kinds: Any) -> Any:
    return SimpleNamespace(make_cache=lambda: list(kinds))


def test_equal_tokens_make_a_pair_whatever_the_widths(tiny: LoadedModel) -> None:
    padded = other(tiny, vocabulary=(*tiny.vocabulary, None, None))
    smaller = other(tiny, vocabulary=tiny.vocabulary[:200])
    for pair in ((tiny, tiny), (tiny, padded), (padded, tiny), (tiny, smaller), (smaller, tiny)):
        assert check_pair(*pair) == loading.PairReport(True, ())


def test_tokens_that_only_one_side_has_are_no_hindrance(tiny: LoadedModel) -> None:
    assert check_pair(tiny, other(tiny, vocabulary=with_token(tiny, 100, None))).usable
    assert check_pair(other(tiny, vocabulary=with_token(tiny, 100, None)), tiny).usable


def test_the_first_differing_token_is_named(tiny: LoadedModel) -> None:
    vocabulary = with_token(other(tiny, vocabulary=with_token(tiny, 50, b"x\xff")), 60, b"y")
    report = check_pair(tiny, other(tiny, vocabulary=vocabulary))
    assert not report.usable
    (reason,) = report.reasons
    shown = repr(tiny.vocabulary[50].decode("utf-8", "backslashreplace"))
    assert reason.endswith(f"in 2 entries, first at token 50: {shown} in {tiny.name}, 'x\\\\xff' in other.")


def test_a_differing_control_token_is_called_one(tiny: LoadedModel) -> None:
    report = check_pair(tiny, other(tiny, vocabulary=with_token(tiny, 2, b"</s>")))
    assert "in 1 entry, first at control token 2: '<|im_end|>'" in report.reasons[0]


@pytest.mark.parametrize(
    ("ours", "theirs", "fits"),
    [
        (b"<|reserved_special_token_5|>", b"<|tool|>", True),
        (b"<unused7>", b"<|fim|>", True),
        (b"<|tool|>", b"<|placeholder1|>", False),  # a token like any other of the target's
        (b"<|tool|>", b"<|fim|>", False),
        (b"<reserved", b"x", False),
    ],
)
def test_a_slot_that_is_reserved_for_later_may_have_another_name(
    ours: bytes, theirs: bytes, fits: bool, tiny: LoadedModel
) -> None:
    target, drafter = (other(tiny, vocabulary=with_token(tiny, 100, name)) for name in (ours, theirs))
    assert check_pair(target, drafter).usable == fits


@pytest.mark.parametrize("token", [0, 1, 2])
def test_a_control_token_that_begins_or_ends_texts_may_not(token: int, tiny: LoadedModel) -> None:
    assert not check_pair(tiny, other(tiny, vocabulary=with_token(tiny, token, b"<unused3>"))).usable


def test_a_reserved_slot_that_the_template_uses_may_not(tiny: LoadedModel) -> None:
    writer = copy.copy(tiny.tokenizer)
    writer.chat_template = f"{tiny.tokenizer.chat_template}<unused5>"
    target = other(tiny, vocabulary=with_token(tiny, 100, b"<unused5>"))
    assert check_pair(target, tiny).usable
    assert not check_pair(dataclasses.replace(target, tokenizer=writer), tiny).usable


def test_vocabularies_without_a_common_token_are_refused(tiny: LoadedModel) -> None:
    report = check_pair(tiny, other(tiny, vocabulary=(None,) * 10))
    assert not report.usable and "no token in common" in report.reasons[0]


@pytest.mark.parametrize(
    ("caches", "reason"),
    [
        ((KVCache(), RotatingKVCache(max_size=8, keep=4)), "sliding window"),
        ((CacheList(KVCache(), RotatingKVCache(max_size=8, keep=4)),), "sliding window"),
        ((deepseek_v41.LayerCache(8),), "groups"),
        ((object(),), "cannot be rolled back"),
    ],
)
@pytest.mark.parametrize("side", ["target", "drafter"])
def test_caches_that_cannot_be_rolled_back_are_refused(caches: Any, reason: str, side: str, tiny: LoadedModel) -> None:
    bad = other(tiny, model=with_caches(*caches))
    report = check_pair(bad, tiny) if side == "target" else check_pair(tiny, bad)
    assert not report.usable
    assert report.reasons[0].startswith(f"The {side} other ")
    assert reason in report.reasons[0]


@pytest.mark.parametrize(
    "caches",
    [
        (KVCache(), QuantizedKVCache()),
        (KVCache(), RotatingKVCache(max_size=8)),
        (ChunkedKVCache(8),),
        (ArraysCache(2), CacheList(KVCache(), ArraysCache(1))),
    ],
)
def test_caches_that_can_be_rolled_back_are_taken(caches: Any, tiny: LoadedModel) -> None:
    assert check_pair(tiny, other(tiny, model=with_caches(*caches))).usable


def test_every_reason_is_reported(tiny: LoadedModel) -> None:
    bad = other(tiny, vocabulary=with_token(tiny, 50, b"?"), model=with_caches(object()), target_ids=mx.array([0, 271]))
    assert len(check_pair(tiny, bad).reasons) == 3


@pytest.mark.parametrize(
    ("ids", "reason"), [([0, 5, 271], "contains token 271"), ([-1, 3], "contains token -1"), ([4, 4], "twice")]
)
def test_a_trimmed_head_must_name_tokens_of_the_target_once(ids: list[int], reason: str, tiny: LoadedModel) -> None:
    (said,) = check_pair(tiny, other(tiny, target_ids=mx.array(ids))).reasons
    assert reason in said


# Draft models cut from the built-in target


CUT = {
    "model_type": "draftlight_cut",
    "hidden_size": 576,
    "num_hidden_layers": 2,
    "intermediate_size": 1536,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "rope_theta": 1e5,
    "rms_norm_eps": 1e-5,
    "vocab_size": 49152,
    "target_sha256": SHA256,
    "max_position_embeddings": 8192,
}


@pytest.fixture(scope="module")
def cut(builtin: LoadedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Layers 0 and 29 of the built-in target and a head of 40 tokens, as a trained draft model's folder holds them."""
    folder = tmp_path_factory.mktemp("cut")
    parameters = dict(tree_flatten(builtin.model.parameters()))
    made = {"norm.weight": parameters["model.norm.weight"]}
    for new, old in enumerate((0, 29)):
        prefix = f"model.layers.{old}."
        made |= {f"layers.{new}.{name.removeprefix(prefix)}": a for name, a in parameters.items() if name.startswith(prefix)}
    ids = np.arange(40, dtype=np.int32)[::-1] * 1000
    arrays = {name: np.array(array).astype(np.float16) for name, array in made.items()}
    arrays["head.weight"] = np.array(builtin.model.model.embed_tokens.weight)[ids].astype(np.float16)
    save_file(arrays | {"target_ids": np.ascontiguousarray(ids)}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(CUT))
    return folder


def test_a_cut_draft_computes_with_the_targets_embedding(cut: Path, builtin: LoadedModel) -> None:
    alone, shared = load(cut.as_posix()), load(cut.as_posix(), target=builtin)
    assert shared.model.model.embed_tokens is builtin.model.model.embed_tokens
    for draft in (alone, shared):
        assert {array.dtype for _, array in tree_flatten(draft.model.parameters())} == {mx.float32}
        assert draft.target_ids.tolist() == [1000 * index for index in range(39, -1, -1)]
        assert draft.vocabulary == builtin.vocabulary
        assert len(make_prompt_cache(draft.model)) == 2
        assert check_pair(builtin, draft).usable
    ids = mx.array([[1, 9690, 198, 2683, 6004]])
    made = load_file(cut / "model.safetensors")
    hidden = builtin.model.model.embed_tokens(ids)
    for layer in (builtin.model.layers[0], builtin.model.layers[29]):
        hidden = layer(hidden, "causal", None)
    expected = builtin.model.model.norm(hidden) @ mx.array(made["head.weight"].astype(np.float32)).T
    for draft in (alone, shared):
        np.testing.assert_allclose(np.array(draft.model(ids)), np.array(expected), atol=0.05)
    np.testing.assert_allclose(np.array(alone.model(ids)), np.array(shared.model(ids)), atol=1e-4)
    cache = make_prompt_cache(alone.model)
    stepwise = [np.array(alone.model(ids[:, index : index + 1], cache=cache))[0, 0] for index in range(5)]
    np.testing.assert_allclose(np.stack(stepwise), np.array(alone.model(ids))[0], atol=1e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target_sha256": "0" * 64}, "other than the built-in one"),
        ({"num_hidden_layers": 3}, "do not match"),
        ({"hidden_size": 512}, "do not match"),
        ({"num_attention_heads": 0}, "do not match"),
    ],
)
def test_a_cut_draft_that_does_not_fit_is_refused(
    changes: dict[str, Any], message: str, cut: Path, builtin: LoadedModel, tmp_path: Path
) -> None:
    (tmp_path / "model.safetensors").symlink_to(cut / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(CUT | changes))
    with pytest.raises(DraftlightError, match=message):
        load(tmp_path.as_posix(), target=builtin)


@pytest.mark.parametrize("absent", ["model.safetensors", "config.json"])
def test_a_cut_draft_without_a_file_is_refused(absent: str, cut: Path, builtin: LoadedModel, tmp_path: Path) -> None:
    for name in {"model.safetensors", "config.json"} - {absent}:
        (tmp_path / name).symlink_to(cut / name)
    with pytest.raises(DraftlightError, match=absent):
        load(tmp_path.as_posix(), target=builtin)
