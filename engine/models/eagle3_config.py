"""Configuration of an EAGLE head: reads the config.json of both packagings of EAGLE-3, and that of EAGLE-1 and 2, into one
`EagleConfig`.

- The authors' (yuhuili, SpecForge, AngelSlim and most others): settings of the layer at the top level, layer names `midlayer` or
  `layers.0`, optional `eagle_config`.
- speculators (vLLM; RedHatAI): `speculators_model_type` eagle3, settings of the layer in `transformer_layer_config`.

Which layers of the target a head reads has two spellings in published files, one apart. speculators, and files that name the
last layer's output by the number of layers, count the hidden states of transformers: id i is the input of layer i, the output of
layer i - 1. SpecForge counts the outputs of layers. As in SGLang (sgl-project/sglang#25454), a list that begins with 1 is taken
as outputs. Without a list a head reads the inputs of layers 2, N // 2 and N - 3 of N.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from engine.files.foreign import table
from engine.models.block_config import CANNOT_UNDERSTAND, ConfigReader
from engine.models.drafter_model import explained
from engine.models.state_head import HeadReading
from engine.values.errors import DraftlightError, is_whole

WHAT = "EAGLE-3 head"
_KNOWN_LAYERS = ("", "llama", "qwen2", "qwen3", "mistral", "eagle", "eagle3")
"""Model types whose layers are computed as those of Llama."""


@dataclass(frozen=True)
class EagleReading(HeadReading):
    """A way to read an EAGLE-3 head.

    Attributes:
        tap_shift: added to the layers that `EagleConfig.taps` names.
        norm_before_residual: whether the residual stream starts from the normed state.
    """

    tap_shift: int = 0
    norm_before_residual: bool = False


@dataclass(frozen=True)
class EagleConfig:
    """Settings of an EAGLE-3 head. Widths and optional parts follow from the tensors.

    Attributes:
        taps: target layers that the file states, counted from 0 (-1 is the embedding); empty if it states none.
        taps_as_outputs: whether the file's list was taken as outputs of layers, because it begins with 1.
        reads_final_state: whether it reads the target's last state, after its final norm, instead of layers.
        is_second: whether it is of EAGLE-1 or 2, which share a head: `fc` fuses embedding and state, its first layer has no norm
            before its attention, and neither a norm nor an output layer of its own follows.
        reading: as the file states it.
        norm_before_fc, fc_norm: whether one norm of all tapped outputs, or one for each, comes before they are fused.
    """

    packaging: Literal["authors", "speculators"]
    hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    max_position_embeddings: int
    rope_theta: float
    rope_scaling: Mapping[str, Any] | None
    activation: str
    taps: tuple[int, ...]
    reads_final_state: bool
    reading: EagleReading
    norm_before_fc: bool
    fc_norm: bool
    draft_vocab_size: int
    is_second: bool = False
    taps_as_outputs: bool = False


class _EagleReader(ConfigReader):
    what = WHAT


def read_eagle_config(config: Mapping[str, Any], where: object) -> EagleConfig:
    """Returns the settings from a config.json. `where` names the file in messages.

    Raises:
        DraftlightError: a field is missing or invalid, or asks for something that is not supported.
    """
    with explained(where, WHAT, CANNOT_UNDERSTAND):
        return _read(config, where)


def _read(config: Mapping[str, Any], where: object) -> EagleConfig:
    kind = config.get("speculators_model_type")
    if kind not in (None, "eagle3"):
        raise DraftlightError(
            f"{where} is a drafter of the speculators type {kind}. Of the EAGLE family Draftlight uses EAGLE-3 heads (eagle3)."
        )
    reader = _EagleReader(config, "speculators" if kind else "DFlash", where)
    model_type = str(table(config.get("transformer_layer_config")).get("model_type", config.get("model_type") or ""))
    if model_type not in _KNOWN_LAYERS:
        raise DraftlightError(f"{where} is not a usable {WHAT}: its layer is of the type {model_type}, and not one of Llama's.")
    reader.require_neutral()
    layer = reader.layer()
    theta, scaling, interleaved = reader.rope((None,))
    if interleaved:
        raise reader.unknown("rope_interleave", True)
    names = [str(name) for name in config.get("architectures") or ()]
    is_second = any("Eagle" in name for name in names) and not any("3" in name for name in names) and not kind
    if "sliding_attention" in (reader.find("layer_types") or ()):
        raise reader.unknown("layer_types", reader.find("layer_types"))
    taps, as_outputs, final = ((), False, True) if is_second else _taps(config, reader)
    settings = EagleConfig(
        packaging="speculators" if kind else "authors",
        rope_theta=theta,
        rope_scaling=scaling,
        taps=taps,
        reads_final_state=final,
        reading=EagleReading(
            norm_before_residual=bool(reader.find("norm_before_residual")), chain_normed=bool(reader.find("norm_output"))
        ),
        norm_before_fc=bool(reader.find("norm_before_fc")),
        fc_norm=bool(reader.find("fc_norm")),
        is_second=is_second,
        taps_as_outputs=as_outputs,
        **layer,
    )
    if settings.norm_before_fc and settings.fc_norm:
        raise DraftlightError(f"{where} is not a usable {WHAT}: norm_before_fc and fc_norm exclude each other.")
    return settings


def _taps(config: Mapping[str, Any], reader: ConfigReader) -> tuple[tuple[int, ...], bool, bool]:
    """Returns the tapped layers that a file states, whether they were taken as outputs, and whether it reads the final state
    instead."""
    inside = table(config.get("eagle_config"))
    if inside.get("use_aux_hidden_state") is False:
        return (), False, True
    name = "eagle_aux_hidden_state_layer_ids"
    stated = inside.get(name) or inside.get("target_layer_ids") or reader.find(name)
    if stated is None:
        return (), False, False
    if not isinstance(stated, list) or not stated or not all(is_whole(layer) and layer >= 0 for layer in stated):
        raise reader.unknown(name, stated)
    are_outputs = stated[0] == 1 and not config.get("speculators_model_type")
    return tuple(layer if are_outputs else layer - 1 for layer in stated), are_outputs, False


def default_taps(layers: int) -> tuple[int, ...]:
    """Returns the layers whose outputs a head reads that states none, of a target with this number of layers."""
    return (1, layers // 2 - 1, layers - 4)
