"""Converts a model's config.json to the form that mlx-lm's classes read, whichever version of transformers wrote it.

transformers 5 writes `rope_parameters`, as one object or one per layer type; version 4 wrote `rope_theta`, `rope_scaling`,
`partial_rotary_factor` and others. Some settings were renamed or are now stated per layer. mlx-lm silently uses the default of
its own class for a setting that it does not find. Therefore every setting of mlx-lm's class is looked up in the configuration
class of transformers, which knows old names, new names and the defaults that a file omits. A setting that changes what the
model computes but has no field in mlx-lm is refused.

    {"model_type": "qwen2", "rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e6}, ...}
    {"model_type": "qwen2", "rope_theta": 1e6, "rope_scaling": {"type": "yarn", "factor": 4.0, ...}, ...}
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import json
import logging
import math
import sys
import textwrap
import warnings
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import mlx.nn as nn
import mlx_lm.utils
from transformers import CONFIG_MAPPING, AutoConfig, PreTrainedConfig

from engine.files.foreign import content_of, object_in, table
from engine.files.model_folder import missing_parts
from engine.values.errors import DraftlightError, reason_of

_FULL, _SLIDING = "full_attention", "sliding_attention"
_THETA = ("rope_theta", "rotary_emb_base")
_LOCAL_THETA = ("rope_local_base_freq", "swa_rope_theta", "rope_local_theta")
_PARTIAL = ("partial_rotary_factor", "rotary_pct")
"""Names in mlx-lm's classes for the rotary base, the base of sliding-window layers, and the rotated fraction of a head."""
_EQUAL = {"block_dim": "hidden_size", "n_ctx": "n_positions"}
"""Fields of mlx-lm's classes that have another name in transformers."""
_MOVED = dict.fromkeys(_THETA, "rope_theta") | dict.fromkeys(_PARTIAL, "partial_rotary_factor")
"""Top-level names of the settings that transformers 5 stores in `rope_parameters`, with their names there."""
_OLD_LAYER_TYPES = {"linear_attention": "mamba", _FULL: "attention"}
"""Layer types of transformers 5, with their names of version 4 that mlx-lm's `granitemoehybrid` compares with."""
_LAYER_TYPE_FIELDS = ("sliding_window_pattern", "full_attention_interval", "hybrid_layer_pattern")
_MLP_TYPE_FIELDS = ("first_k_dense_replace", "moe_layer_freq", "is_moe_layer", "moe_layers_enum")
"""Fields of mlx-lm's classes that are equivalent to `layer_types` and `mlp_layer_types`."""
_FULL_LAYER_FIELDS = {"head_dim": "global_head_dim", "num_key_value_heads": "num_global_key_value_heads"}
"""Fields that `per_layer_config` states for a full-attention layer, with their names in mlx-lm's `gemma4_text`."""
_ACTIVATIONS = ("hidden_act", "hidden_activation", "activation_function")
_DECISIVE = (
    *_ACTIVATIONS,
    *_PARTIAL,
    *_THETA,
    *_LOCAL_THETA,
    "attention_multiplier",
    "attn_logit_softcapping",
    "clip_qkv",
    "embedding_multiplier",
    "final_logit_softcapping",
    "layer_types",
    "logit_scale",
    "logits_scaling",
    "mlp_layer_types",
    "no_rope_layers",
    "per_layer_config",
    "position_embedding_type",
    "query_pre_attn_scalar",
    "residual_multiplier",
    "rope_parameters",
    "rope_scaling",
    "rotary_dim",
    "use_bidirectional_attention",
    "use_parallel_residual",
)
"""Settings that change what a model computes, but neither the names nor the shapes of its weights."""
_IGNORED = ("quantization", "quantization_config", "auto_map", "num_labels", "id2label", "label2id")
_MAX_LAYERS = 10_000
"""Far more layers than any model has. Building those that a damaged file states would exhaust the memory."""
_PLAIN_ROPE = (None, "default", "mrope", "axial")
"""Types of rotary embedding that are the same as no scaling for text."""
_SCALED_ROPE = {
    "yarn": "Yarn",
    "llama3": "Llama3",
    "longrope": "SuScaled",
    "su": "SuScaled",
    "dynamic": "Dynamic",
    "proportional": "Proportional",
}
"""Types of scaling, with a part of the name of the mlx-lm layers that compute them."""


def read_configuration(folder: Path, rows: Collection[int] = ()) -> dict[str, Any]:
    """Returns a folder's config.json as mlx-lm reads it. `rows`: see `for_mlx_lm`.

    Raises:
        DraftlightError: mlx-lm cannot load it; says why.
    """
    with explained(folder):
        return for_mlx_lm(_stated(folder), folder, rows)


def _stated(folder: Path) -> dict[str, Any]:
    """Returns what `mlx_lm.utils.load_config` returns. Also reads a config.json with a byte order mark, as Windows programs
    write it, and ignores a damaged generation_config.json, from which only EOS tokens are taken."""
    stated = json.loads(content_of(folder / "config.json").decode("utf-8-sig"))  # also reads infinities
    config: dict[str, Any] = mlx_lm.utils._decode_tagged_floats(stated)
    ends = object_in(folder / "generation_config.json").get("eos_token_id")
    return config | ({"eos_token_id": ends} if ends else {})


@contextlib.contextmanager
def explained(folder: Path, advice: str = "") -> Iterator[None]:
    """Turns every exception that mlx-lm's classes raise for a wrong configuration into a DraftlightError.

    Args:
        advice: a sentence to append to the message.
    """
    try:
        yield
    except DraftlightError:
        raise
    except (Exception, SystemExit) as error:
        reason, details = _reason(error), f"{missing_parts(folder)} {advice}".rstrip()
        end = "." if details and not reason.endswith(".") else ""
        raise DraftlightError(f"{folder} cannot be loaded as an mlx-lm model: {reason}{end}{details}") from error


def _reason(error: BaseException) -> str:
    if isinstance(error, KeyError):
        return f"{error} is missing"
    if isinstance(error, SystemExit):  # raised by mlx-lm's `olmo` if a package is missing
        return "mlx-lm's code for it needs a package that is not installed."
    return reason_of(error)


def for_mlx_lm(config: Mapping[str, Any], where: object, rows: Collection[int] = ()) -> dict[str, Any]:
    """Returns the configuration with the fields of mlx-lm's classes; those of a nested text model are in its `text_config`.

    Args:
        config: config.json. where: its name in messages.
        rows: numbers of rows of the embeddings in the model's files. Some of mlx-lm's classes read the vocabulary size outside
            of the text model's part, where transformers 5 does not write it.

    Raises:
        DraftlightError: a setting that changes what the model computes has no field in mlx-lm's class.
        ValueError: mlx-lm has no class for the model.
    """
    model, arguments = mlx_lm.utils._get_classes(dict(config))
    names = set(inspect.signature(arguments).parameters)
    text = config.get("text_config")
    reads_text = "text_config" in names or "from_dict" in vars(arguments)
    is_nested = isinstance(text, Mapping) and reads_text
    part: Mapping[str, Any] = text if isinstance(text, Mapping) and is_nested else config
    for name, value in part.items():
        if name.endswith(("layer", "layers")) and isinstance(value, int) and value > _MAX_LAYERS:
            raise DraftlightError(
                f"{where} cannot be used: its config.json states {name} ({value}), more than any model has. Download the model "
                "again."
            )
    if "text_config" in names:
        names = _text_fields(model, part)
    kind = _class_of(config, part)
    if is_nested and part.get("tie_word_embeddings") is None and (tied := _tied_by_outer_settings(config, kind)) is not None:
        part = {**part, "tie_word_embeddings": tied}
    translated = _translated(part, names, kind, where)
    if not is_nested:
        return {**config, **translated}
    result = {**config, "text_config": translated}
    if (
        result.get("vocab_size") is None
        and "vocab_size" in inspect.signature(arguments).parameters
        and translated.get("vocab_size") in rows
    ):
        result["vocab_size"] = translated["vocab_size"]
    return result


def require_rotation(model: nn.Module, config: Mapping[str, Any], where: object) -> None:
    """Raises DraftlightError if the configuration states a rotary scaling that no layer of the loaded model has.

    Several of mlx-lm's classes have a field for it but do not use it, or ignore types that they do not know.

    Args:
        config: as `for_mlx_lm` returns it.
    """
    part = table(config.get("text_config")) or config
    parameters = table(part.get("rope_parameters"))
    default = _usual_rotation(_ReadByTransformers(_class_of(config, part), part))
    by_type = {
        name: spec for name, spec in parameters.items() if isinstance(spec, dict) and name in (part.get("layer_types") or ())
    }
    specs = [("rope_parameters", spec) for spec in (by_type.values() if by_type else [parameters])]
    rotary_layers = [
        layer for layer in model.modules() if "RoPE" in type(layer).__name__ or "RotaryEmbedding" in type(layer).__name__
    ]
    bases = [layer.base for layer in rotary_layers if type(layer) is nn.RoPE]
    rotated = {getattr(layer, "dims", getattr(layer, "dim", None)) for layer in rotary_layers}
    for name, spec in [("rope_scaling", table(part.get("rope_scaling"))), *specs]:
        kind = spec.get("type") or spec.get("rope_type")
        theta, partial = spec.get("rope_theta"), spec.get("partial_rotary_factor", default.get("partial_rotary_factor", 1.0))
        if kind not in _PLAIN_ROPE and spec.get("factor") != 1 and not any(_scales(layer, str(kind)) for layer in rotary_layers):
            raise _not_supported(where, name, f"a scaling of the type {kind}")
        factor = spec.get("attention_factor")
        if factor is not None and not any(
            math.isclose(factor, scale, rel_tol=1e-3) for scale in map(_length_of_rotated, rotary_layers)
        ):
            raise _not_supported(where, f"{name}.attention_factor", str(factor))
        if spec.get("truncate") is False and default.get("truncate") is not False:
            raise _not_supported(where, f"{name}.truncate", "false")
        if kind in _PLAIN_ROPE and theta is not None and bases and not any(math.isclose(theta, base) for base in bases):
            raise _not_supported(where, f"{name}.rope_theta", str(theta))
        if kind == "proportional" or partial == default.get("partial_rotary_factor", 1.0) or part.get("qk_rope_head_dim"):
            continue
        if rotary_layers and int(_head_size(part) * partial) not in rotated:
            raise _not_supported(where, f"{name}.partial_rotary_factor", str(partial))


def _scales(layer: nn.Module, kind: str) -> bool:
    """Returns whether a layer scales positions with this type of scaling."""
    if kind == "linear":
        return bool(getattr(layer, "scale", 1.0) != 1.0)
    name = next((name for sign, name in _SCALED_ROPE.items() if sign in kind), "")
    return type(layer) is not nn.RoPE and name in type(layer).__name__


def _length_of_rotated(layer: nn.Module) -> float:
    """Returns the factor by which a layer multiplies the rotated vectors."""
    return float(getattr(layer, "mscale", getattr(layer, "_scale", 1.0)))


def _head_size(part: Mapping[str, Any]) -> int:
    return int(part.get("head_dim") or part["hidden_size"] // part["num_attention_heads"])


def _text_fields(model: type, part: Mapping[str, Any]) -> set[str]:
    """Returns the names of the settings of mlx-lm's class for a nested text model."""
    sources = [sys.modules[base.__module__] for base in model.__mro__ if base.__module__.startswith("mlx_lm.models.")]
    classes: dict[str, Any] = {}
    for source in sources:
        for value in vars(source).values():
            inner = getattr(value, "ModelArgs", None) if inspect.ismodule(value) else value
            if inspect.isclass(inner) and dataclasses.is_dataclass(inner) and inner.__name__ != "BaseModelArgs":
                name = inner.__module__.rpartition(".")[2]
                if "text_config" not in inspect.signature(inner).parameters and "Vision" not in inner.__name__:
                    classes[name] = inner
    kind = str(part.get("model_type"))
    exact = classes.get(kind) or classes.get(mlx_lm.utils.MODEL_REMAPPING.get(kind, ""))
    chosen = [exact] if exact is not None else classes.values()
    return {name for each in chosen for name in inspect.signature(each).parameters}


def _tied_by_outer_settings(config: Mapping[str, Any], kind: type[PreTrainedConfig] | None) -> bool | None:
    """Returns whether a nested text model ties head and embedding, from the settings outside of its own part; None if
    unknown."""
    stated: bool | None = config.get("tie_word_embeddings")
    model_type = config.get("model_type")
    if stated is None and not hasattr(kind, "tie_word_embeddings") and model_type in CONFIG_MAPPING:
        return getattr(CONFIG_MAPPING[model_type], "tie_word_embeddings", None)
    return stated


def _class_of(config: Mapping[str, Any], part: Mapping[str, Any]) -> type[PreTrainedConfig] | None:
    """Returns the class of transformers for the text model that a part of a configuration describes; None if it has none."""
    for model_type in (part.get("model_type"), config.get("model_type")):
        config_class = CONFIG_MAPPING[model_type] if isinstance(model_type, str) and model_type in CONFIG_MAPPING else None
        if config_class is not None and (inner := config_class.sub_configs_defaults.get("text_config")) is not None:
            config_class = inner.config_class if inner.config_class is not AutoConfig else CONFIG_MAPPING[inner.model_type]
        if config_class is not None:
            return config_class
    return None


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Suppresses transformers' warnings about configurations: they address the authors of a model."""
    logger = logging.getLogger("transformers")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


class _ReadByTransformers:
    """A configuration as transformers reads it; if transformers cannot, the settings that it states itself."""

    def __init__(self, kind: type[PreTrainedConfig] | None, part: Mapping[str, Any]) -> None:
        self._kind, self._stated = kind, part
        self._config = self._read_config(part)

    def _read_config(self, part: Mapping[str, Any]) -> PreTrainedConfig | None:
        if self._kind is None:
            return None
        settings = {name: value for name, value in part.items() if name not in _IGNORED}
        if settings.get("tie_word_embeddings", True) is None:
            del settings["tie_word_embeddings"]
        try:
            with _without_warnings():
                return self._kind(**copy.deepcopy(settings))
        except Exception:  # its validators can raise any exception for a configuration of another version
            return None

    def get(self, name: str) -> Any:
        """Returns the setting, under any of its names; None if there is none."""
        return self._value(self._config, name) if self._config is not None else self._stated.get(name)

    def unstated(self, name: str, *others: str) -> Any:
        """Returns the value of the setting if the configuration stated neither it nor `others`; None if that is unknown."""
        return self._value(
            self._read_config({key: value for key, value in self._stated.items() if key not in (name, *others)}), name
        )

    @staticmethod
    def _value(settings: PreTrainedConfig | None, name: str) -> Any:
        """Returns a setting of a configuration; None if it has none."""
        if name in _MOVED:  # moved into `rope_parameters`
            rotation = table(getattr(settings, "rope_parameters", None))
            moved = (table(rotation.get(_FULL)) or rotation).get(_MOVED[name])
            return 1.0 if moved is None and name in _PARTIAL else moved
        try:
            value = getattr(settings, name, None)
        except Exception:  # a setting that differs between layers has no overall value
            return None
        return value.to_dict() if isinstance(value, PreTrainedConfig) else value

    def has(self, name: str) -> bool:
        """Returns whether the class of transformers has the setting; other settings in a file have no effect there."""
        known = "rope_parameters" if name in _MOVED or name == "rope_scaling" else name
        return hasattr(self._kind, getattr(self._kind, "attribute_map", {}).get(known, known))

    @property
    def is_known(self) -> bool:
        """Whether transformers can read the configuration."""
        return self._config is not None


def _translated(part: Mapping[str, Any], names: set[str], kind: type[PreTrainedConfig] | None, where: object) -> dict[str, Any]:
    """Returns the settings of one model under mlx-lm's names, including those that mlx-lm does not read."""
    described = _ReadByTransformers(kind, part)
    settings = {name: copy.deepcopy(value) for name, value in part.items()}
    if "rope_scaling" in names:
        settings.setdefault("rope_scaling", None)  # some of mlx-lm's classes require it
    read = set(names)
    read |= _translate_rotation(settings, names, described, where)
    read |= _translate_layer_types(settings, names, described, where)
    for name in names - {"model_type", "text_config", "rope_scaling"}:
        for source in (name, _EQUAL.get(name, name)):
            if settings.get(name) is None and (value := described.get(source)) is not None:
                settings[name] = value
    if described.is_known and "head_dim" in names and settings.get("head_dim") is None:
        settings["head_dim"] = _head_size(settings)
    if part.get("model_type") == "bailing_hybrid" and part.get("linear_head_dim"):
        settings["head_dim"] = part["linear_head_dim"]  # transformers states the head size of the other layers as `head_dim`
    types = settings.get("layer_types")
    if part.get("model_type") == "granitemoehybrid" and isinstance(types, list):
        settings["layer_types"] = [_OLD_LAYER_TYPES.get(str(kind), kind) for kind in types]
    _require_read(part, read, described, where)
    return settings


def _translate_rotation(settings: dict[str, Any], names: set[str], described: _ReadByTransformers, where: object) -> set[str]:
    """Sets mlx-lm's fields for the rotary embedding; returns the names of the settings that this covers.

    `rope_parameters` takes precedence over the fields of older versions, as in transformers.
    """
    stated = table(settings.get("rope_parameters"))
    is_old = not stated and any(settings.get(name) for name in ("rope_scaling", *_THETA))
    spec = described.get("rope_parameters") if described.is_known else {**_theta_of(settings), **stated}
    if not isinstance(spec, dict) or not (spec and (stated or described.is_known)):
        return set()
    is_by_type = any(isinstance(value, dict) for value in spec.values())
    full, sliding = (table(spec.get(_FULL)), table(spec.get(_SLIDING))) if is_by_type else (spec, {})
    if is_by_type and not full:
        return set()

    def set_field(name: str, value: Any) -> None:
        """Sets a field of mlx-lm's class."""
        if name in names and value is not None and (stated or settings.get(name) is None):
            settings[name] = value

    for name in _THETA:
        set_field(name, full.get("rope_theta"))
    for name in _LOCAL_THETA:
        set_field(name, sliding.get("rope_theta"))
    for name in _PARTIAL:
        set_field(name, full.get("partial_rotary_factor"))
    if "rope_scaling" in names and not is_old:
        settings["rope_scaling"] = _scaling(full)
    elif isinstance(scaling := settings.get("rope_scaling"), dict):
        kind = scaling.get("type") or scaling.get("rope_type")
        settings["rope_scaling"] = {"type": kind, "rope_type": kind, **scaling} if kind else scaling
    set_field("rope_parameters", copy.deepcopy(spec))
    if stated:
        _require_rotation_read(full, sliding, names, described, where)
    return {"rope_parameters", *_THETA} if stated else set()


def _theta_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {"rope_theta": settings["rope_theta"]} if settings.get("rope_theta") is not None else {}


def _kind(spec: Mapping[str, Any]) -> Any:
    return spec.get("rope_type") or spec.get("type")


def _scaling(spec: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns `rope_scaling` as transformers 4 wrote it; None for no scaling."""
    rest = {
        name: value
        for name, value in spec.items()
        if name not in ("rope_theta", "partial_rotary_factor", "rope_type", "type") and value is not None
    }
    kind = _kind(spec)
    return None if kind in _PLAIN_ROPE and not rest else {**rest, "type": kind or "default", "rope_type": kind or "default"}


def _usual_rotation(described: _ReadByTransformers) -> dict[str, Any]:
    """Returns the default rotary embedding of the model's full-attention layers."""
    default = table(described.unstated("rope_parameters", "rope_scaling", *_THETA, *_LOCAL_THETA, *_PARTIAL))
    return table(default.get(_FULL)) or default


def _require_rotation_read(
    full: Mapping[str, Any], sliding: Mapping[str, Any], names: set[str], described: _ReadByTransformers, where: object
) -> None:
    """Raises DraftlightError if `rope_parameters` states a value that mlx-lm's class has no field for and does not use by
    default."""
    if "rope_parameters" in names:
        return
    default = _usual_rotation(described)
    if _kind(full) not in _PLAIN_ROPE and "rope_scaling" not in names:
        raise _not_supported(where, "rope_parameters", f"a scaling of the type {_kind(full)}")
    if _kind(sliding) not in _PLAIN_ROPE:
        raise _not_supported(where, "rope_parameters", f"a scaling of the type {_kind(sliding)} for layers with a window")
    of_names = (("rope_theta", _THETA), ("partial_rotary_factor", (*_PARTIAL, "rotary_dim", "qk_rope_head_dim")))
    for key, fields in of_names:
        value = full.get(key)
        if value is not None and not names & set(fields) and value != default.get(key, 1.0 if key != "rope_theta" else None):
            raise _not_supported(where, f"rope_parameters.{key}", str(value))
    if sliding and not names & set(_LOCAL_THETA) and sliding.get("rope_theta") != full.get("rope_theta"):
        raise _not_supported(where, "rope_parameters.sliding_attention.rope_theta", str(sliding.get("rope_theta")))
    if sliding and sliding.get("partial_rotary_factor", 1.0) != full.get("partial_rotary_factor", 1.0):
        raise _not_supported(
            where, "rope_parameters.sliding_attention.partial_rotary_factor", str(sliding.get("partial_rotary_factor"))
        )


def _translate_layer_types(settings: dict[str, Any], names: set[str], described: _ReadByTransformers, where: object) -> set[str]:
    """Sets mlx-lm's fields for the layer types; returns the names of the settings that this covers."""
    read = set()
    for setting, fields in (("layer_types", _LAYER_TYPE_FIELDS), ("mlp_layer_types", _MLP_TYPE_FIELDS)):
        stated, kinds = settings.get(setting), described.get(setting)
        if setting in names or not isinstance(kinds, list):
            continue
        name = next((name for name in fields if name in names), "")
        if not name or not (stated or settings.get(name) is None):
            continue
        try:
            settings[name] = _pattern(name, [str(kind) for kind in kinds], settings)
        except ValueError:
            if stated:
                raise _not_supported(where, setting, ", ".join(map(str, kinds))) from None
            continue
        read.add(setting)
    if isinstance(layers := settings.get("per_layer_config"), dict) and "global_head_dim" in names:
        kinds = described.get("layer_types") or []
        full = [str(layer) for layer, kind in enumerate(kinds) if kind == _FULL]
        changes = [table(layers.get(layer)) for layer in full]
        if (
            set(layers) - set(full)
            or any(change != changes[0] for change in changes)
            or set(changes[0]) - set(_FULL_LAYER_FIELDS)
        ):
            raise _not_supported(where, "per_layer_config", str(layers))
        for name, field in _FULL_LAYER_FIELDS.items():
            settings[field] = changes[0].get(name, settings.get(name))
        read.add("per_layer_config")
    return read


def _pattern(name: str, kinds: list[str], settings: Mapping[str, Any]) -> Any:
    """Returns the types of all layers in the form of mlx-lm's field `name`. Raises ValueError if that form cannot express
    them."""
    match name:
        case "hybrid_layer_pattern":
            return [int(kind == _SLIDING) for kind in kinds]
        case "is_moe_layer":
            return [kind == "sparse" for kind in kinds]
        case "moe_layers_enum":
            return ",".join(str(layer) for layer, kind in enumerate(kinds) if kind == "sparse")
        case "moe_layer_freq":
            return [int(kind == "sparse") for kind in kinds]
        case "first_k_dense_replace":
            dense = [*kinds, "sparse"].index("sparse")
            if "dense" in kinds[dense:]:
                raise ValueError
            return dense
    if settings.get("model_type") == "exaone4":
        return "".join("L" if kind == _SLIDING else "G" for kind in kinds) if _SLIDING in kinds else None
    every = kinds.index(_FULL) + 1
    if any((kind == _FULL) != ((layer + 1) % every == 0) for layer, kind in enumerate(kinds)):
        raise ValueError
    return every


def _require_read(part: Mapping[str, Any], read: set[str], described: _ReadByTransformers, where: object) -> None:
    """Raises DraftlightError if a setting that changes the computation is neither read nor equal to the default."""
    for name in _DECISIVE:
        stated = part.get(name)
        if stated in (None, {}) or name in read or (name == "rope_scaling" and _kind(table(stated)) in _PLAIN_ROPE):
            continue
        if not described.is_known:
            if name in ("rope_parameters", "rope_scaling"):
                raise _not_supported(where, name, str(stated))
            continue
        if described.has(name) and not _equivalent(name, described.get(name), described.unstated(name)):
            raise _not_supported(where, name, str(stated))


def _equivalent(name: str, value: Any, default: Any) -> bool:
    """Returns whether two values of a setting make the model compute the same."""
    if name in _ACTIVATIONS:
        return _activation(str(value)) == _activation(str(default))
    return bool(value == default)


def _activation(name: str) -> str:
    """Returns a canonical name of the activation; mlx-lm's classes do not distinguish the approximations of gelu."""
    return "gelu" if name.startswith("gelu") else "silu" if name == "swish" else name


def _not_supported(where: object, name: str, value: str) -> DraftlightError:
    shown = textwrap.shorten(value, 80, placeholder=" …")
    return DraftlightError(
        f"{where} cannot be used: its config.json states {name} ({shown}), which changes what the model computes, and mlx-lm has "
        "nothing for it in this architecture. Choose a GGUF file of this model, or another model."
    )
