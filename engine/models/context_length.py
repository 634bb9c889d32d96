"""Context length of a model, from the configuration in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transformers import CONFIG_MAPPING

from engine.files.foreign import table
from engine.values.errors import is_number, is_whole

_KEYS = (
    "max_position_embeddings",
    "n_positions",
    "n_ctx",
    "max_seq_len",
    "max_sequence_length",
    "max_context_length",
    "seq_length",
    "model_max_length",
)
_UNSTATED = 2048


def context_length(config: Mapping[str, Any], arguments: object = None) -> int:
    """Returns the maximum number of tokens, prompt included.

    The stated value is used. A configuration may omit the default of its class in transformers, as gemma 3 from 4B on omits its
    131,072; that default comes next. Then comes the default of mlx-lm's class, then a cautious 2048.

    YaRN stretches the length, and its scaling states the original length. Under other scalings the stated length is used
    unchanged: some publishers state the stretched length there, others the original one.

    Args:
        config: config.json, in which the text model's part may be nested as `text_config`.
        arguments: mlx-lm's `ModelArgs` of the loaded model.
    """
    text = table(config.get("text_config"))
    merged = {**text, **config}
    # Cohere's position embeddings are rotary, and `max_position_embeddings` is the 8,192 of a table it does not have.
    keys = _KEYS[::-1] if str(merged.get("model_type")).startswith("cohere") else _KEYS
    lengths = [
        *(merged.get(key) for key in keys),
        *(_default_in_transformers(part.get("model_type")) for part in (text, config)),
        *(getattr(arguments, key, None) for key in keys),
    ]
    length = next((length for length in lengths if is_whole(length) and length > 0), _UNSTATED)
    parameters = table(merged.get("rope_parameters"))  # of transformers 5, one object or one for each type of layer
    return max(length, *map(_stretched, (merged.get("rope_scaling"), parameters, *parameters.values())))


def _default_in_transformers(model_type: object) -> Any:
    try:
        described = CONFIG_MAPPING[model_type]
    except (KeyError, TypeError):  # TypeError if the type is not a string
        return None
    described = described.sub_configs.get("text_config", described)
    names = getattr(described, "attribute_map", {})
    return getattr(described, names.get("max_position_embeddings", "max_position_embeddings"), None)


def _stretched(scaling: object) -> int:
    """Returns the length that a YaRN scaling (Peng et al. 2023) stretches to; 0 for anything else."""
    if not isinstance(scaling, dict) or "yarn" not in (scaling.get("rope_type"), scaling.get("type")):
        return 0
    original, factor = scaling.get("original_max_position_embeddings"), scaling.get("factor")
    length = original * factor if is_whole(original) and is_number(factor) else 0
    return int(length) if is_number(length) else 0
