"""Configurations in the form of transformers 5, as its own classes write them: the logits are those that mlx-lm computes from the
same weights under the older form."""

from __future__ import annotations

import dataclasses
import importlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm.utils import load_config
from transformers import CONFIG_MAPPING

from engine.models.configuration import explained, for_mlx_lm, read_configuration, require_rotation
from engine.models.loading import load
from engine.values.errors import DraftlightError
from tests.crossings import crossed
from tests.engine import families, tiny_models
from tests.engine.families import ALTERNATING

THETA = 500000.0
TOKENS = mx.array([[5, 17, 80, 33, 90, 12, 44, 7, 61, 29, 3, 10] * 2])
BY_TYPE = {
    "full_attention": {"rope_type": "default", "rope_theta": THETA},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}
YARN = {"type": "yarn", "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
LLAMA3 = {
    "type": "llama3",
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
LINEAR = {"type": "linear", "rope_type": "linear", "factor": 4.0}

OLD: dict[str, dict[str, Any]] = {
    "apertus": {"rope_scaling": LLAMA3},
    "exaone4": {"layer_types": ALTERNATING},
    "exaone_moe": {"is_moe_layer": [False, True, True, True]},
    "gemma2": {"query_pre_attn_scalar": 32},
    "gpt_oss": {"rope_scaling": YARN},
    "granitemoehybrid": {"mamba_expand": 1},
    "laguna": {"rope_parameters": BY_TYPE},
    "llama4": {"attn_temperature_tuning": True},
    "mimo_v2_flash": {
        "rope_parameters": {kind: spec | {"partial_rotary_factor": 0.5} for kind, spec in BY_TYPE.items()},
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "attention_value_scale": 0.7,
        "moe_layer_freq": [0, 1, 1, 1],
    },
    "minimax_m3_vl": {
        "layer_types": ["full_attention", "minimax_m3_sparse"] * 2,
        "index_n_heads": 2,
        "index_block_size": 8,
        "index_topk_blocks": 2,
    },
    "nemotron_h": {"hybrid_override_pattern": "M*-M"},
}
"""What the older form must state so that transformers takes it for the same model as mlx-lm does."""

UNREADABLE = {
    "muse_glimmer": "transformers takes its flat form for the settings of pictures",
    "recurrent_gemma": "mlx-lm has no field for the base; it is refused, see below",
}
"""Architectures whose older form transformers does not read, and why."""


def known_to_transformers() -> list[str]:
    names = [name for name in families.architectures() if name not in families.NOT_BUILT and name not in UNREADABLE]
    return [name for name in names if name in CONFIG_MAPPING and name not in ("pixtral", "kimi_k25")] + ["pixtral", "kimi_k25"]


def old_form(name: str) -> dict[str, Any]:
    """A config.json with every setting of mlx-lm's class, in the form of transformers 4."""
    config = families.config_of(name)
    inner = families.text_arguments(name)
    part: dict[str, Any] = config.get("text_config", config)
    arguments = inner if "text_config" in config else importlib.import_module(f"mlx_lm.models.{name}").ModelArgs
    part |= OLD.get(name, {})
    made = arguments.from_dict(json.loads(json.dumps(part)))
    for field in dataclasses.fields(arguments):
        if (value := getattr(made, field.name)) is not None and field.name not in ("rope_parameters", "layers_block_type"):
            part.setdefault(field.name, value)
    for setting in [setting for setting, value in part.items() if value is None and setting != "rope_scaling"]:
        del part[setting]
    if "rope_theta" in part:
        part["rope_theta"] = THETA
    if name == "pixtral":
        part["model_type"] = "mistral"
        config["model_type"] = "mistral3"
    if name == "kimi_k25":
        part["model_type"] = "kimi_k2"
    plain: dict[str, Any] = json.loads(json.dumps(config))
    return plain


def saved(config: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The configuration as transformers writes it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        CONFIG_MAPPING[config["model_type"]](**json.loads(json.dumps(config))).save_pretrained(folder)
    written: dict[str, Any] = load_config(folder)
    return written


def built(config: Mapping[str, Any]) -> Any:
    """mlx-lm's model of a configuration as it stands."""
    module = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    return module.Model(module.ModelArgs.from_dict(json.loads(json.dumps(config))))


def logits(model: Any) -> np.ndarray:
    return np.array(model(TOKENS).astype(mx.float32))


def checked(config: Mapping[str, Any], rows: set[int] | frozenset[int] = frozenset()) -> Any:
    """The model that is made of a configuration in whichever form."""
    made = for_mlx_lm(config, "the model", rows)
    model = built(made)
    require_rotation(model, made, "the model")
    return model


def same_as_old(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether the model that is made of the new form computes what mlx-lm's computes of the old form."""
    mx.random.seed(0)
    model = built(old)
    families.sharpen(model, 2.0, fill=False)
    rows = {weight.shape[0] for path, weight in tree_flatten(model.parameters()) if "embed_tokens" in path}
    made = checked(new, rows)
    made.load_weights(list(tree_flatten(model.parameters())))
    return bool(np.abs(logits(made) - logits(model)).max() < 1e-4)


@pytest.mark.parametrize("name", known_to_transformers())
def test_what_transformers_5_writes_is_computed_as_the_older_form(name: str, tmp_path: Path) -> None:
    old = old_form(name)
    new = saved(old, tmp_path)
    assert same_as_old(old, new)


SCALED = crossed([YARN, LLAMA3, LINEAR], ["llama", "qwen2", "qwen3", "gemma3", "deepseek_v3", "pixtral"], together=1)


@pytest.mark.parametrize(("scaling", "name"), SCALED)
def test_scaled_positions_survive(name: str, scaling: Mapping[str, Any], tmp_path: Path) -> None:
    """Each changes the logits, as the second comparison shows. "pixtral" is here a Mistral inside of `text_config`."""
    old = old_form(name)
    part = old.get("text_config", old)
    plain = json.loads(json.dumps(old))
    part["rope_scaling"] = dict(scaling)
    part.pop("rope_parameters", None)
    new = saved(old, tmp_path)
    assert same_as_old(old, new)
    assert not same_as_old(plain, new), "the scaling changes nothing"


def test_scaling_of_one_type_of_layer_survives(tmp_path: Path) -> None:
    """Gemma 3 stretches the positions of its layers without a window only; transformers 5 states both kinds."""
    old = old_form("gemma3_text") | {"rope_scaling": LINEAR}
    new = saved(old, tmp_path)
    assert new["rope_parameters"]["sliding_attention"]["rope_type"] == "default"
    assert same_as_old(old, new)


def test_layer_types_become_the_period_of_mlx_lm(tmp_path: Path) -> None:
    for name in ("gemma3_text", "cohere2", "qwen3_next"):
        new = saved(old_form(name), tmp_path / name)
        new = {setting: value for setting, value in new.items() if "pattern" not in setting}
        assert same_as_old(old_form(name), new)
        new["layer_types"] = new["layer_types"][::-1]
        with pytest.raises(DraftlightError, match=r"states layer_types \(full_attention, "):
            for_mlx_lm(new, "the model")


QWEN3 = {"model_type": "qwen3", "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 96, "num_attention_heads": 4}
QWEN3 |= {"num_key_value_heads": 2, "vocab_size": 97, "head_dim": 16, "max_position_embeddings": 256, "rms_norm_eps": 1e-6}


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"model_type": "gemma", "rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4}}, "rope_parameters"),
        ({"model_type": "gemma", "rope_scaling": {"rope_type": "linear", "factor": 4.0}}, "rope_scaling"),
        ({"model_type": "llama", "rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
        ({"model_type": "llama", "partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"model_type": "llama", "hidden_act": "gelu"}, "hidden_act"),
        ({"model_type": "gemma2", "hidden_activation": "silu"}, "hidden_activation"),
        ({"model_type": "gemma3_text", "attn_logit_softcapping": 50.0}, "attn_logit_softcapping"),
        ({"model_type": "internlm2", "rope_parameters": BY_TYPE}, "rope_parameters"),
        (
            {
                "model_type": "olmo3",
                "layer_types": ["sliding_attention", "full_attention"],
                "rope_parameters": BY_TYPE,
            },
            "rope_parameters.sliding_attention.rope_theta",
        ),
    ],
)
def test_unread_settings_that_change_the_computation_are_refused_by_name(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(DraftlightError, match=rf"the model cannot be used: its config.json states \S*{key}"):
        for_mlx_lm(QWEN3 | changes, "the model")


@pytest.mark.parametrize(
    ("name", "parameters", "key"),
    [
        ("qwen3_moe", {"rope_theta": 1e4, **YARN}, "rope_scaling"),
        ("mixtral", {"rope_theta": 1e4, **LINEAR}, "rope_scaling"),
        ("olmo_hybrid", {"rope_theta": 1e4, **YARN}, "rope_parameters"),
        ("qwen2", {"rope_theta": 1e4, "attention_factor": 1.5, **YARN}, "rope_scaling.attention_factor"),
        ("qwen2", {"rope_theta": 1e4, "truncate": False, **YARN}, "rope_scaling.truncate"),
        ("recurrent_gemma", {"rope_theta": 5e5, "partial_rotary_factor": 0.5}, "rope_parameters.rope_theta"),
        ("qwen3", {"rope_theta": 1e4, "partial_rotary_factor": 0.5}, "rope_parameters.partial_rotary_factor"),
    ],
)
def test_a_field_that_mlx_lm_has_and_does_not_use_is_refused(name: str, parameters: dict[str, Any], key: str) -> None:
    """Only the layers of the loaded model tell."""
    config = {setting: value for setting, value in old_form(name).items() if not setting.startswith("rope")}
    with pytest.raises(DraftlightError, match=rf"states {key}"):
        checked(config | {"rope_parameters": parameters})


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "llama", "hidden_act": "swish", "partial_rotary_factor": 1.0, "rope_scaling": None},
        {"model_type": "qwen3", "hidden_act": "silu", "layer_types": ["full_attention"] * 2, "sliding_window": None},
        {"model_type": "gemma", "hidden_act": "gelu", "hidden_activation": None},
        {"model_type": "gpt_neox", "hidden_act": "gelu_fast"},
        {"model_type": "gemma2", "hidden_act": "silu", "hidden_activation": "gelu_pytorch_tanh"},
        {"model_type": "starcoder2", "hidden_act": "gelu_pytorch_tanh", "activation_function": "gelu"},
        {"model_type": "cohere2", "position_embedding_type": "rope_gptj", "rope_theta": 50000},
        {"model_type": "nemotron_h", "hybrid_override_pattern": "M*", "rope_theta": 10000.0},
        {"model_type": "llama", "tie_word_embeddings": None},
        {"model_type": "qwen2_vl", "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}},
        {"model_type": "internlm2", "rope_theta": 1e6, "rope_scaling": {"type": "dynamic", "factor": 2.0}},
    ],
)
def test_settings_equal_to_the_default_are_accepted(config: dict[str, Any]) -> None:
    for_mlx_lm(QWEN3 | config, "the model")


def test_the_usual_factor_of_yarn_may_be_stated() -> None:
    """As OLMo 3 does: 0.1 ln 8 + 1."""
    yarn = YARN | {"factor": 8.0, "attention_factor": 1.2079441541679836}
    checked(QWEN3 | {"model_type": "qwen2", "rope_theta": 1e4, "rope_scaling": yarn})


def test_what_a_file_leaves_out_is_the_default_of_transformers() -> None:
    """Head and embedding of llama are one by default in mlx-lm, and two in transformers."""
    for model_type in ("llama", "mistral", "qwen2", "qwen3"):
        config = {name: value for name, value in QWEN3.items() if name != "head_dim"} | {"model_type": model_type}
        made = for_mlx_lm(config, "the model")
        theirs = CONFIG_MAPPING[model_type](**config)
        assert made["tie_word_embeddings"] is theirs.tie_word_embeddings is False
        assert made["rope_theta"] == theirs.rope_parameters["rope_theta"]
        if model_type == "qwen3":
            assert made["head_dim"] == theirs.head_dim == 128


def test_a_nested_part_takes_what_transformers_states_outside(tmp_path: Path) -> None:
    old = old_form("qwen3_vl")
    new = saved(old | {"tie_word_embeddings": False}, tmp_path)
    del new["text_config"]["tie_word_embeddings"]
    assert for_mlx_lm(new, "the model")["text_config"]["tie_word_embeddings"] is False
    assert same_as_old(old, new)


def test_a_configuration_that_transformers_refuses_is_read_as_far_as_it_states_things() -> None:
    config = QWEN3 | {"model_type": "llama", "rms_norm_eps": "small", "rope_parameters": {"rope_theta": 5e5, **YARN}}
    made = for_mlx_lm(config, "the model")
    assert made["rope_theta"] == 5e5
    assert made["rope_scaling"]["type"] == "yarn"


def test_a_folder_answers_alike_in_both_forms(tmp_path: Path) -> None:
    old = load(tiny_models.write_folder(tmp_path / "old", rope_theta=THETA).as_posix())
    parameters = {"rope_type": "default", "rope_theta": THETA}
    new = load(tiny_models.write_folder(tmp_path / "new", rope_theta=None, rope_parameters=parameters).as_posix())
    other = load(tiny_models.write_folder(tmp_path / "other").as_posix())
    assert np.array_equal(logits(new.model), logits(old.model))
    assert not np.allclose(logits(other.model), logits(old.model))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", None),
        ("generation_config.json", b"null"),
        ("generation_config.json", b'{"eos_token_id": "caf\xe9"}'),
    ],
)
def test_a_byte_order_mark_and_damaged_recommendations_keep_no_model_from_loading(
    name: str, content: bytes | None, tmp_path: Path
) -> None:
    folder = tiny_models.write_folder(tmp_path / "model")
    expected = logits(load(str(folder)).model)
    (folder / name).write_bytes(content or b"\xef\xbb\xbf" + (folder / name).read_bytes())
    assert np.array_equal(logits(load(str(folder)).model), expected)


def test_message_separates_reason_and_remedy(tmp_path: Path) -> None:
    with pytest.raises(DraftlightError, match=r": no such thing\. Choose another\.$"), explained(tmp_path, "Choose another."):
        raise ValueError("no such thing")


def test_infinities_stay_numbers_in_either_spelling(tmp_path: Path) -> None:
    for infinity in ("Infinity", '{"__float__": "Infinity"}'):
        (tmp_path / "config.json").write_text(f'{{"model_type": "llama", "vocab_size": 9, "rope_theta": {infinity}}}')
        assert read_configuration(tmp_path)["rope_theta"] == float("inf")


def test_more_layers_than_any_model_has_are_refused_before_they_are_made() -> None:
    for config in ({"model_type": "llama"}, {"model_type": "gpt2"}):
        name = "n_layer" if config["model_type"] == "gpt2" else "num_hidden_layers"
        with pytest.raises(DraftlightError, match=f"{name} \\(1000000000\\)"):
            for_mlx_lm({**config, name: 10**9}, "the model")


def test_the_end_of_a_text_may_be_stated_inside(tmp_path: Path) -> None:
    config = {"model_type": "mistral3", "text_config": tiny_models.config() | {"model_type": "mistral", "eos_token_id": 261}}
    del config["text_config"]["rope_theta"]
    config["text_config"]["rope_parameters"] = {"rope_type": "default", "rope_theta": THETA}
    model = checked(config)
    loaded = load(tiny_models.write_model(tmp_path, model, config).as_posix())
    assert 261 in loaded.eos_ids
    assert np.array_equal(logits(loaded.model), logits(model))
