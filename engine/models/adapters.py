"""LoRA adapters in the formats of mlx-lm and PEFT, applied to their base model when it is loaded.

On the base's layers the adapter computes y = W x + s · B A x (Hu et al. 2021). On the CPU, where weights are expanded, s · B A is
added to W once. On a GPU the adapter stays a separate layer, because merging it would require quantising again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_unflatten
from mlx_lm.tuner.lora import LoRALinear
from mlx_lm.tuner.utils import load_adapters

from engine.files.model_folder import ADAPTER_CONFIG, ADAPTER_WEIGHTS, adapter_files, read_json
from engine.files.safetensors_header import check_safetensors, require_scales
from engine.values.errors import DraftlightError, reason_of

_UNSUPPORTED = ("use_dora", "modules_to_save", "rank_pattern", "alpha_pattern", "layer_replication", "trainable_token_indices")
"""Configuration entries of PEFT features that are not supported; an adapter that sets one of them is refused."""


def attach(model: nn.Module, folder: Path) -> None:
    """Applies the adapter to its base model. Raises DraftlightError if it does not fit or its kind is not supported."""
    (file,) = adapter_files(folder)
    require_scales(file, [check_safetensors(file)])
    config = read_json(folder / ADAPTER_CONFIG)
    try:
        if file.name == ADAPTER_WEIGHTS[0]:  # mlx-lm's
            load_adapters(model, folder.as_posix())
        else:
            _attach_peft(model, config, cast(dict[str, mx.array], mx.load(file.as_posix())))
    except DraftlightError:
        raise
    except Exception as error:  # a wrong configuration can make mlx-lm raise any exception
        raise DraftlightError(f"The adapter {folder} does not fit its base model: {reason_of(error)}") from error
    model.eval()


def merge(model: nn.Module) -> None:
    """Merges the adapters into the weights of their layers, which become plain layers again."""
    fused = [(path, module.fuse()) for path, module in model.named_modules() if hasattr(module, "fuse")]
    if fused:
        model.update_modules(tree_unflatten(fused))


def _attach_peft(model: nn.Module, config: Mapping[str, Any], weights: dict[str, mx.array]) -> None:
    if (
        config.get("peft_type") != "LORA"
        or any(config.get(name) for name in _UNSUPPORTED)
        or config.get("bias", "none") != "none"
    ):
        raise DraftlightError(
            "The adapter uses more of PEFT than plain LoRA. Merge it into its base model with PEFT (merge_and_unload), and "
            "convert the result for mlx-lm."
        )
    modules = dict(model.named_modules())
    attached: list[tuple[str, nn.Module]] = []
    for name in [name for name in weights if name.endswith(".lora_A.weight")]:
        path = name.removesuffix(".lora_A.weight").removeprefix("base_model.model.")
        matrix_a, matrix_b = weights.pop(name), weights.pop(name.replace("lora_A", "lora_B"))
        rank = matrix_a.shape[0]
        scale = float(config["lora_alpha"]) / (math.sqrt(rank) if config.get("use_rslora") else rank)
        layer = LoRALinear.from_base(modules[path], r=rank, scale=scale)
        if layer.lora_a.shape != matrix_a.T.shape or layer.lora_b.shape != matrix_b.T.shape:
            raise ValueError(f"{path} has another shape")
        layer.lora_a, layer.lora_b = matrix_a.T, matrix_b.T
        attached.append((path, layer))
    if weights or not attached:
        raise ValueError(f"{next(iter(weights), 'nothing')} is no part of a LoRA adapter")
    model.update_modules(tree_unflatten(attached))
