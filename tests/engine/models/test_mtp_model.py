"""MTP heads: logits as other implementations compute them, whatever the packaging, and clear words where a head is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten

from engine.files.mtp_files import head_words, names_of_heads
from engine.models import mtp_families
from engine.models.loaded import LoadedModel
from engine.models.loading import load
from engine.models.mtp_families import ALL_NORMS
from engine.models.mtp_model import MtpModel, load_mtp
from engine.models.unloaded_pair import published_heads
from engine.target.layer_taps import final_norm_of
from engine.values.drafter_kinds import MTP, MTP_FOLDER, type_stated
from engine.values.errors import DraftlightError
from tests.engine import gguf_files
from tests.engine.checkpoint_folders import CONVERTED, PUBLISHED, write_description, write_tensors
from tests.engine.eagle_files import write_target
from tests.engine.head_rounds import TOLERANCE, differences, loaded
from tests.engine.mtp_files import FAMILIES, reference, stacked, write_drafter, write_promise, write_published


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], LoadedModel]:
    """Published checkpoints, each written and loaded once."""
    known: dict[str, LoadedModel] = {}

    def target(family: str) -> LoadedModel:
        if family not in known:
            known[family] = loaded(write_published(tmp_path_factory.mktemp("published") / family, family))
        return known[family]

    return target


def head_of(target: LoadedModel, where: Path | None = None) -> MtpModel:
    head = load_mtp(where or target.weights, target)
    head.bind(target.model)
    return head


def is_like_reference(head: MtpModel, target: LoadedModel, family: str) -> bool:
    return max(differences(head, target, reference(family)["rounds"])) < TOLERANCE


def computes_reference(target: LoadedModel, family: str) -> bool:
    """Whether the target's own logits are right: then mlx-lm has not read the head's tensors as its own."""
    return all(
        np.abs(np.array(target.model(mx.array([current["text"][:-1]]))[0, -1]) - current["target"]).max() < TOLERANCE
        for current in reference(family)["rounds"]
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_those_of_a_second_implementation(family: str, targets: Callable[[str], LoadedModel]) -> None:
    target = targets(family)
    assert computes_reference(target, family)
    assert is_like_reference(head_of(target), target, family)


# GGUF files


def write_gguf(path: Path, changes: Mapping[str, np.ndarray | None] = MappingProxyType({}), kind: str = "F32") -> Path:
    made = FAMILIES["glm4_moe"]
    tensors = {**made.target_weights(), **made.head_weights(), **changes}
    present = stacked({name: array for name, array in tensors.items() if array is not None})
    return gguf_files.write_published(path, "glm4moe", made.config, present, kind)


def test_a_head_in_a_gguf_file_gives_the_logits_of_a_second_implementation(tmp_path: Path) -> None:
    target = loaded(write_gguf(tmp_path / "model.gguf"))
    assert published_heads(target) == [MTP]
    assert computes_reference(target, "glm4_moe")
    assert is_like_reference(head_of(target), target, "glm4_moe")


@pytest.mark.parametrize("is_promised", [True, False])
def test_a_gguf_target_without_the_tensors_of_its_head_loads(is_promised: bool, tmp_path: Path) -> None:
    made = FAMILIES["glm4_moe"]
    config = made.config if is_promised else made.config | {"num_nextn_predict_layers": 0}
    file = gguf_files.write_published(tmp_path / "model.gguf", "glm4moe", config, stacked(made.target_weights()))
    target = loaded(file)
    assert len(target.model.layers) == made.config["num_hidden_layers"]
    with pytest.raises(DraftlightError, match=r"has no MTP head\. .*Choose ngram"):
        head_of(target)


def test_a_gpu_keeps_the_head_of_a_gguf_file_quantised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_gguf(tmp_path / "model.gguf", kind="Q8_0")
    expected = dict(tree_flatten(head_of(loaded(file)).parameters()))
    for module in ("loading", "mtp_model", "state_head"):
        monkeypatch.setattr(f"engine.models.{module}.computes_on_host", lambda: False)
    head = load_mtp(file, loaded(file))
    kept = {path: layer for path, layer in head.named_modules() if hasattr(layer, "scales")}
    assert {"layers.0.fc", "layers.0.layer.mlp.switch_mlp.up_proj", "layers.0.layer.self_attn.q_proj"} <= kept.keys()
    for path, layer in kept.items():
        np.testing.assert_allclose(np.array(gguf_files.unpacked(layer)), np.array(expected[f"{path}.weight"]), atol=1e-6)


def test_what_the_head_of_a_gguf_file_lacks_or_has_too_much_is_named(tmp_path: Path) -> None:
    target = loaded(write_gguf(tmp_path / "whole.gguf"))
    cut = write_gguf(tmp_path / "cut.gguf", {"model.layers.3.hnorm.weight": None})
    with pytest.raises(DraftlightError, match=r"it lacks .*hnorm"):
        load_mtp(cut, target)
    strange = write_gguf(tmp_path / "strange.gguf", {"blk.3.attn_sinks.weight": np.zeros(4, np.float32)})
    with pytest.raises(DraftlightError, match=r"contains unknown weights \(blk.3.attn_sinks"):
        load_mtp(strange, target)


# Wrong readings


def _read(head: MtpModel, **changes: Any) -> None:
    head.read_as(replace(head.reading, **changes))


def _halves(head: MtpModel, **_: Any) -> None:
    """The gate's rows as the second half of q_proj, instead of head by head."""
    attention = head.layers[0].layer["self_attn"]
    weight = attention.q_proj.weight
    rows = weight.reshape(2, attention.num_attention_heads, -1, weight.shape[-1])
    attention.q_proj.weight = rows.swapaxes(0, 1).reshape(weight.shape)


def _unshifted(head: MtpModel, **_: Any) -> None:
    """The token of the state instead of the one after it."""
    embedded = head.embedded
    head.embedded = lambda tokens, like: embedded(mx.concatenate([tokens[:1], tokens[:-1]]), like)  # type: ignore[method-assign]


def _norm_of_target(head: MtpModel, target: LoadedModel) -> None:
    head.layers[0].norm = final_norm_of(target.model)


def _not_trimmed(head: MtpModel, **_: Any) -> None:
    advance = head.advance

    def longer(features: mx.array, tokens: mx.array, caches: Any, rows: Any = None) -> mx.array:
        for cache in caches:
            if cache.keys is not None and features.shape[0] > 1:
                cache.offset += 1
        return advance(features, tokens, caches, rows)

    head.advance = longer  # type: ignore[method-assign]


WRONG: dict[str, Callable[..., None]] = {
    "state first": lambda head, **_: _read(head, embedding_first=not head.reading.embedding_first),
    "state before the norm": lambda head, **_: _read(head, normed_state=not head.reading.normed_state),
    "chain before the norm": lambda head, **_: _read(head, chain_normed=not head.reading.chain_normed),
    "norm of the target": _norm_of_target,
    "token not shifted": _unshifted,
    "rows left in the cache": _not_trimmed,
}
OF_QWEN: dict[str, Callable[..., None]] = {
    "norms as stored": lambda head, **_: _read(head, plus_one=frozenset()),
    "norms plus one in the layer only": lambda head, **_: _read(head, plus_one=frozenset({"layer"})),
    "norms plus one twice": lambda head, **_: [_twice(head.layers[0][name]) for name in ("norm", "state_norm")],
    "gate rows in halves": _halves,
}


def _twice(norm: Any) -> None:
    norm.weight = norm.weight + 1


def _first_layer_alone(head: MtpModel, **_: Any) -> None:
    """The first layer for each token of a chain."""
    head.layers[1:] = head.layers[:1] * 2


def _rows_that_are_missing(head: MtpModel, **_: Any) -> None:
    """Later layers see the rows that they do not have."""
    for layer in head.layers:
        layer.layer = _Unmasked(layer.layer)


class _Unmasked(nn.Module):
    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def __call__(self, x: mx.array, mask: mx.array | None, cache: Any) -> mx.array:
        return self.layer(x, None if mask is None else mask | (mx.arange(mask.shape[1]) < 2), cache)


OF_STEP = {"first layer alone": _first_layer_alone, "rows that are missing": _rows_that_are_missing}


@pytest.mark.parametrize(
    ("family", "wrong"),
    [("qwen3_5", name) for name in (*WRONG, *OF_QWEN)]
    + [("mimo", "state first"), ("glm4_moe", "chain before the norm")]
    + [("step3p5", name) for name in ("chain before the norm", *OF_STEP)],
)
def test_a_wrong_reading_gives_other_logits(family: str, wrong: str, targets: Callable[[str], LoadedModel]) -> None:
    target = targets(family)
    head = head_of(target)
    (WRONG | OF_QWEN | OF_STEP)[wrong](head, target=target)
    head.bind = lambda target: None  # type: ignore[method-assign]
    assert max(differences(head, target, reference(family)["rounds"])) > 100 * TOLERANCE


@pytest.mark.parametrize(
    ("family", "change", "surplus"),
    [
        ("qwen3_5", {}, "self_attn"),  # its first layer has linear attention
        ("glm4_moe", {"first_k_dense_replace": 1}, r"mlp\.gate\.weight"),  # its first layer has no experts
    ],
)
def test_a_layer_like_the_targets_first_one_does_not_take_the_head(
    family: str, change: dict[str, Any], surplus: str, targets: Callable[[str], LoadedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = targets(family)
    wrong = replace(mtp_families.FAMILIES[family], change=lambda settings, names, index: change)
    monkeypatch.setattr(mtp_families, "FAMILIES", {family: wrong})
    with pytest.raises(DraftlightError, match=rf"it lacks .*; it has unknown tensors: .*{surplus}"):
        head_of(target)


# Packagings


def arrays_of(family: str) -> dict[str, np.ndarray]:
    return FAMILIES[family].head_weights()


def beside(folder: Path, family: str, arrays: Mapping[str, np.ndarray], name: str = "mtp.safetensors", **more: Any) -> Path:
    """Writes a model's configuration, and its head's tensors in a file beside the weights."""
    write_description(folder, {**FAMILIES[family].config, **more}, tokens=False)
    write_tensors(folder / name, arrays)
    return folder


def in_layout_of_mlx(family: str) -> dict[str, np.ndarray]:
    """The head's tensors with the norms that a converter has made, still under the published names."""
    return {
        name: array + 1 if array.ndim == 1 and FAMILIES[family].zero_centred else array
        for name, array in arrays_of(family).items()
    }


@pytest.mark.parametrize(
    "name",
    [
        "mtp.safetensors",
        "mtp/weights.safetensors",
        "mtp/model.safetensors",
        "model-mtp.safetensors",
        "model-mtp-head.safetensors",
        "model_mtp.safetensors",
        "heads/other.safetensors",
    ],
)
def test_a_head_is_found_beside_its_model(name: str, targets: Callable[[str], LoadedModel], tmp_path: Path) -> None:
    stated = {"mlx_lm_extra_tensors": {"mtp_file": name}} if name.startswith("heads") else {}
    folder = beside(tmp_path, "qwen3_5", arrays_of("qwen3_5"), name, **stated)
    assert is_like_reference(head_of(targets("qwen3_5"), folder), targets("qwen3_5"), "qwen3_5")


@pytest.mark.parametrize(
    ("family", "is_raw"), [("qwen3_5", True), ("qwen3_5_moe", False), ("qwen3_next", True), ("qwen3_next", False)]
)
def test_a_converted_model_may_have_a_published_or_a_converted_head(
    family: str, is_raw: bool, targets: Callable[[str], LoadedModel], tmp_path: Path
) -> None:
    """As MLX writes both: the head among the target's tensors, with norms as their weight, in a file that says mlx."""
    weights = {name: np.array(array) for name, array in tree_flatten(targets(family).model.parameters())}
    head = arrays_of(family) if is_raw else in_layout_of_mlx(family)
    write_description(tmp_path / "converted", FAMILIES[family].config)
    write_tensors(tmp_path / "converted" / "model.safetensors", weights | head, CONVERTED)
    target = loaded(tmp_path / "converted")
    assert head_of(target).reading.plus_one == (ALL_NORMS if is_raw else frozenset())
    assert is_like_reference(head_of(target), target, family)


@pytest.mark.parametrize("family", ["qwen3_5_moe", "glm4_moe_lite"])
def test_a_head_may_have_a_folder_of_its_own(family: str, targets: Callable[[str], LoadedModel], tmp_path: Path) -> None:
    """The layout of mlx-vlm has no prefixes, converted norms and stacked experts; GLM's also copies the target's rows."""
    folder = write_drafter(tmp_path, family, tokens=False)
    assert is_like_reference(head_of(targets(family), folder), targets(family), family)
    with pytest.raises(DraftlightError, match="contains only a drafter"):
        load(str(folder))


def test_eight_bit_floating_point_is_expanded_by_its_blocks(targets: Callable[[str], LoadedModel], tmp_path: Path) -> None:
    name = "mtp.layers.0.mlp.up_proj.weight"
    arrays = {key: mx.array(array) for key, array in arrays_of("qwen3_5").items()}
    scale = mx.array([[0.5]])
    narrow = mx.to_fp8(arrays[name] / scale)
    expected = mx.from_fp8(narrow, dtype=mx.float32) * scale
    folder = beside(tmp_path, "qwen3_5", {})
    mx.save_safetensors((folder / "mtp.safetensors").as_posix(), arrays | {name: narrow, f"{name}_scale_inv": scale}, PUBLISHED)
    assert mx.array_equal(head_of(targets("qwen3_5"), folder).layers[0].layer["mlp"].up_proj.weight, expected)


def test_speculators_folders_are_read(targets: Callable[[str], LoadedModel], tmp_path: Path) -> None:
    family = "qwen3_next"
    names = {"mtp.fc.": "input_proj.", "mtp.norm.": "final_layernorm.", "mtp.layers.0.": ""}
    names |= {"mtp.pre_fc_norm_hidden.": "hidden_layernorm.", "mtp.pre_fc_norm_embedding.": "token_layernorm."}
    arrays = {
        next(f"mtp_layers.0.{new}{name.removeprefix(old)}" for old, new in names.items() if name.startswith(old)): array
        for name, array in arrays_of(family).items()
    }
    config = {"speculators_model_type": "mtp", "transformer_layer_config": dict(FAMILIES[family].config)}
    write_description(tmp_path, config, tokens=False)
    write_tensors(tmp_path / "model.safetensors", arrays)
    assert is_like_reference(head_of(targets(family), tmp_path), targets(family), family)


@pytest.mark.parametrize("family", ["qwen3_5", "qwen3_5_moe"])
def test_a_head_in_four_bits_is_read_by_its_shapes(family: str, targets: Callable[[str], LoadedModel], tmp_path: Path) -> None:
    """The reference was quantised and computed by mlx-vlm. The head's own shapes decide, not the target's quantisation."""
    folder = write_drafter(tmp_path, family, tokens=False, bits=4)
    config = json.loads((folder / "config.json").read_text())
    for stated in ("quantization", "quantization_config"):
        del config[stated]
    (folder / "config.json").write_text(json.dumps(config))
    assert is_like_reference(head_of(targets(family), folder), targets(family), f"{family}-4bit")


# Refusals


def test_a_promise_without_tensors_says_how_to_get_them(tmp_path: Path) -> None:
    target = loaded(write_promise(tmp_path, "qwen3_5"))
    with pytest.raises(DraftlightError, match=r"promises an MTP head.*split_mtp"):
        load_mtp(tmp_path, target)


def test_a_head_in_pytorchs_format_says_how_to_convert_it(tmp_path: Path, targets: Callable[[str], LoadedModel]) -> None:
    write_description(tmp_path, {"model_type": "qwen3_5_mtp"}, tokens=False)
    (tmp_path / "pytorch_model.bin").write_bytes(b"PK")
    with pytest.raises(DraftlightError, match=r"only in PyTorch's format .* Convert them to model\.safetensors"):
        load_mtp(tmp_path, targets("qwen3_5"))


@pytest.mark.parametrize(
    ("family", "without", "more", "message"),
    [
        (
            "qwen3_5_moe",
            ("mtp.layers.0.self_attn.k_proj.weight", "mtp.pre_fc_norm_hidden.weight"),
            {"mtp.layers.0.self_attn.surplus.weight": (4, 4)},
            r"lacks pre_fc_norm_hidden.*, self_attn\.k_proj\.weight; .*unknown tensors: self_attn\.surplus\.weight",
        ),
        ("step3p5", ("model.layers.4.self_attn.k_proj.weight",), {}, r"it lacks self_attn\.k_proj\.weight of layer 2\."),
        ("qwen3_next", ("mtp.layers.0.mlp.experts.2.up_proj.weight",), {}, r"lacks mlp\.experts\.2\.up_proj\.weight"),
        ("qwen3_5", (), {"mtp.fc.weight": (32, 64)}, r"fc\.weight .* is \(32, 64\) instead of \(64, 128\)"),
        ("qwen3_5", (), {"mtp.layers.1.input_layernorm.weight": (64,)}, "an MTP head of 2 layers, and .* at most 1"),
    ],
)
def test_tensors_that_do_not_fit_are_named(
    family: str,
    without: Sequence[str],
    more: Mapping[str, tuple[int, ...]],
    message: str,
    targets: Callable[[str], LoadedModel],
    tmp_path: Path,
) -> None:
    arrays = {name: array for name, array in arrays_of(family).items() if name not in without}
    arrays |= {name: np.zeros(shape, np.float32) for name, shape in more.items()}
    with pytest.raises(DraftlightError, match=message):
        load_mtp(beside(tmp_path, family, arrays), targets(family))


@pytest.mark.parametrize(("family", "reason"), [("nemotron_h", "sources disagree"), ("llama", "no MTP heads of this")])
def test_other_families_are_refused_by_name(family: str, reason: str) -> None:
    from tests.engine.families import tiny

    target = LoadedModel(tiny(family), None, frozenset(), (b"",) * 97, 4096, "Other", "/nowhere")  # type: ignore[arg-type]
    with pytest.raises(DraftlightError, match=rf"Other \({family}\) cannot be used: .*{reason}"):
        load_mtp(Path("/nowhere"), target)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "gemma4_assistant", "backbone_hidden_size": 64}, "reads its target's keys and values"),
        ({"model_type": "glm4_moe_lite_mtp"}, r"another architecture \(glm4_moe_lite_mtp\)"),
    ],
)
def test_heads_of_other_kinds_are_refused_in_words(
    config: dict[str, Any], message: str, targets: Callable[[str], LoadedModel], tmp_path: Path
) -> None:
    write_description(tmp_path, config, tokens=False)
    assert type_stated(config) == MTP_FOLDER
    with pytest.raises(DraftlightError, match=message):
        load_mtp(tmp_path, targets("qwen3_5"))


@pytest.mark.parametrize(
    ("names", "layers", "heads"),
    [
        (["model.layers.4.eh_proj.weight", "model.layers.40.mlp.gate.weight", "model.layers.3.mlp.gate.weight"], 4, 1),
        (["model.layers.4.self_attn.q_proj.weight"], 4, 0),  # the configuration may state too few layers
        (
            ["language_model.mtp.fc.weight", "model.mtp.norm.weight", "mtp.layers.0.x", "model.mtp_layers.0.input_proj.weight"],
            4,
            4,
        ),
        (["model.layers.0.mtp_gate.weight", "model.embed_tokens.weight"], 4, 0),
        (["mtp.fc.weight"], None, 1),
    ],
)
def test_only_tensors_of_heads_are_kept_from_mlx_lm(names: list[str], layers: int | None, heads: int) -> None:
    assert list(names_of_heads(names, layers)) == names[:heads]


def test_the_list_of_models_says_what_there_is_of_a_head(tmp_path: Path) -> None:
    assert "an MTP head (15 tensors, 1 layer, 32 bit)" in head_words(write_published(tmp_path / "there", "qwen3_5"))
    assert "promises an MTP head" in head_words(write_promise(tmp_path / "promised", "qwen3_5"))
    assert head_words(write_target(tmp_path / "none")) == "It has no MTP head."
    assert "an MTP head (25 tensors)" in head_words(write_gguf(tmp_path / "model.gguf"))
