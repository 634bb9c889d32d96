"""The families of MTP heads: how each head's one decoder layer is made from its target's configuration, and how it is read.

The layer is mlx-lm's own class, taken out of a model of the target's class that has one layer. Sources of the settings below: the
loaders of transformers, vLLM and mlx-lm, and measurements published in ModelTC/LightLLM#1402, waybarrios/vllm-mlx#660,
ggml-org/llama.cpp#24025, ROCm/ATOM#1764 and vLLM#38339.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import mlx.nn as nn

from engine.models.loaded import LoadedModel
from engine.models.state_head import HeadReading
from engine.values.errors import DraftlightError


@dataclass(frozen=True)
class MtpReading(HeadReading):
    """A way to read an MTP head.

    Attributes:
        normed_state: whether it reads the target's state after the target's final norm, as the output layer does; else before.
        embedding_first: whether the token's embedding comes before the state in what `fc` reads.
        plus_one: which norms are stored as w - 1: "layer" for those of the decoder layer, "inputs" for the two before it, "last"
            for the one after it.
    """

    normed_state: bool = True
    embedding_first: bool = True
    plus_one: frozenset[str] = frozenset()
    chain_normed: bool = True


ALL_NORMS = frozenset({"layer", "inputs", "last"})

Change = Callable[[Mapping[str, Any], Collection[str], int], Mapping[str, Any]]
"""Returns the settings of a model with one layer, which is the head's, from those of the target, the names of the head's tensors
and the number of its layer, from 0."""


@dataclass(frozen=True)
class MtpFamily:
    """One family of MTP heads.

    Attributes:
        change: see `Change`.
        reading: how its heads are read, apart from the norms.
        zero_centred: whether the published norms are w - 1.
        window: name of the setting with the size of the layer's window, if its type is a sliding one.
        has_several: whether a head may have several layers, each with parts of its own.
        folders: model types of the folders that mlx-vlm writes for its heads.
    """

    change: Change
    reading: MtpReading = MtpReading()
    zero_centred: bool = False
    window: str = ""
    has_several: bool = True
    folders: tuple[str, ...] = ()


def _has_experts(names: Collection[str]) -> bool:
    return any(".mlp.experts." in name or ".mlp.switch_mlp." in name for name in names)


def _of_qwen(settings: Mapping[str, Any], names: Collection[str], index: int) -> Mapping[str, Any]:
    """Full attention also in hybrids, experts where the file has them."""
    has_experts = _has_experts(names)
    change: dict[str, Any] = {"full_attention_interval": 1, "layer_types": None}
    if "mlp_only_layers" in settings:
        change |= {"mlp_only_layers": [] if has_experts else [0], "decoder_sparse_step": 1}
    return change if has_experts else {**change, "num_experts": 0}


def _of_deepseek(settings: Mapping[str, Any], names: Collection[str], index: int) -> Mapping[str, Any]:
    """Experts even where the target's first layers are dense."""
    return {"first_k_dense_replace": 0 if _has_experts(names) else 1, "moe_layer_freq": 1}


def _of_step(settings: Mapping[str, Any], names: Collection[str], index: int) -> Mapping[str, Any]:
    """A layer behind the target's own; per-layer settings are longer than the target."""
    layer = settings["num_hidden_layers"] + index
    per_layer = ("layer_types", "rope_theta", "partial_rotary_factors", "swiglu_limits", "swiglu_limits_shared")
    change = {
        name: [value[layer]] if layer < len(value) else None
        for name in per_layer
        if isinstance(value := settings.get(name), list)
    }
    if change.get("layer_types", True) is None or ("rope_theta" in change and change["rope_theta"] is None):
        raise DraftlightError(
            "The configuration of this target does not say which kind of attention its MTP head has, so the head cannot be used."
        )
    return {**change, "moe_layers_enum": ""}


_QWEN = MtpFamily(_of_qwen, zero_centred=True, has_several=False, folders=("qwen3_5_mtp", "qwen3_5_moe_mtp", "qwen3_next_mtp"))
_DEEPSEEK = MtpFamily(_of_deepseek, folders=("deepseek_v3_mtp", "glm4_moe_mtp", "glm4_moe_lite_mtp"))

FAMILIES: Mapping[str, MtpFamily] = {
    "qwen3_next": _QWEN,
    "qwen3_5": _QWEN,
    "qwen3_5_moe": _QWEN,
    "deepseek_v3": _DEEPSEEK,
    "glm4_moe": _DEEPSEEK,
    "glm4_moe_lite": _DEEPSEEK,
    "step3p5": MtpFamily(
        _of_step,
        MtpReading(normed_state=False, chain_normed=False),
        zero_centred=True,
        window="sliding_window",
        folders=("step3p5_mtp",),
    ),
    "mimo": MtpFamily(lambda settings, names, index: {}, MtpReading(embedding_first=False), folders=("mimo_mtp",)),
}
"""Families by the name of mlx-lm's model file."""

_NOT_STUDIED = "its layout is not known well enough to be computed correctly"
REFUSED: Mapping[str, str] = {
    "qwen4_exp": "it has sparse attention and hyper-connections, which mlx-lm does not compute in a head",
    "deepseek_v32": "its attention chooses positions with an index of its own, which mlx-lm does not compute in a head",
    "glm_moe_dsa": "its attention chooses positions with an index of its own, which mlx-lm does not compute in a head",
    "mimo_v2_flash": "sources disagree about which state of the target its three layers read",
    "nemotron_h": "sources disagree about which state of the target it reads",
    "minimax_m3": "it is not known which state of the target it reads",
    "minimax_m3_vl": "it is not known which state of the target it reads",
    **dict.fromkeys(("ernie4_5_moe", "longcat_flash", "exaone_moe", "kimi_k2", "kimi_k3", "bailing_hybrid"), _NOT_STUDIED),
}
"""Why the heads of other architectures are refused."""


def architecture_of(model: Any) -> str:
    """Returns the name of mlx-lm's model file with the class of a model; empty if it is none of mlx-lm's."""
    names = (kind.__module__ for kind in type(model).__mro__)
    return next((name.rpartition(".")[2] for name in names if name.startswith("mlx_lm.models.")), "")


def family_of(target: LoadedModel) -> MtpFamily:
    """Returns the family of a target's heads. Raises DraftlightError with the reason if they cannot be used."""
    architecture = architecture_of(target.model)
    if architecture not in FAMILIES:
        reason = REFUSED.get(architecture, "Draftlight computes no MTP heads of this architecture")
        raise DraftlightError(f"The MTP head of {target.name} ({architecture or 'unknown'}) cannot be used: {reason}.")
    return FAMILIES[architecture]


def one_layer(target: Any, family: MtpFamily, names: Collection[str], index: int = 0) -> nn.Module:
    """Returns a model of the target's class whose only decoder layer is like the head's. Its weights are random, lazy, and never
    computed.

    Args:
        names: of the head's tensors. index: number of its layer.
    """
    arguments = copy.copy(target.args)
    nested = getattr(arguments, "text_config", None)
    settings = nested if isinstance(nested, dict) else dataclasses.asdict(arguments)
    changed = {**family.change(settings, names, index), "num_hidden_layers": 1}
    if isinstance(nested, dict):
        arguments.text_config = {**nested, **{name: value for name, value in changed.items() if value is not None}}
    else:
        for name, value in changed.items():
            if name in settings:
                setattr(arguments, name, value)
    kind = next(kind for kind in type(target).__mro__ if kind.__module__.startswith("mlx_lm.models."))
    made: nn.Module = kind(arguments)
    return made
