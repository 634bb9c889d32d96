"""Finds the tensors of an MTP head (multi-token prediction): in a model's own files, in a sidecar, or in a folder of its own. No
MLX.

An MTP head is one more decoder layer that predicts the token after the next. mlx-lm drops it, and conversions may drop it and
keep what config.json says about it, so only names of tensors count. The places, in this order:

| place | names there |
|---|---|
| a sidecar beside the weights (`SIDECARS`), or the file that `mlx_lm_extra_tensors` of config.json names | any of the following |
| Qwen3-Next, Qwen3.5 and later | `mtp.fc.weight`, `mtp.layers.0.self_attn.q_proj.weight`, ... |
| DeepSeek V3, GLM, Step, after the last of N layers | `model.layers.N.eh_proj.weight`, `model.layers.N.mlp.…` |
| MiMo | `model.mtp_layers.0.input_proj.weight`, ... |
| a GGUF file, after the last of N blocks | `blk.N.nextn.eh_proj.weight`, `blk.N.attn_q.weight`, ... |
| a folder that mlx-vlm wrote | the same without `mtp.`, or `model.mtp_block.…` beside `model.eh_proj.weight` |
| a folder that speculators wrote | `mtp_layers.0.…`, with the names of MiMo |

All of these become one set of names: `fc`, `embedding_norm`, `state_norm` and `norm`, and `layer.` before those of the decoder
layer, in the names of its family.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.files.foreign import object_in, table
from engine.files.gguf_header import head_tensors
from engine.files.safetensors_header import Table, check_safetensors, stated_format
from engine.values.errors import DraftlightError, is_whole
from engine.values.wording import amount

SIDECARS = (
    "mtp.safetensors",
    "mtp/weights.safetensors",
    "mtp/model.safetensors",
    "model-mtp.safetensors",
    "model-mtp-head.safetensors",
    "model_mtp.safetensors",
)
"""Files beside a model's weights that other programs write for its head, in the order of their preference."""

COUNTS = ("mtp_num_hidden_layers", "num_nextn_predict_layers", "num_mtp_layers")
"""Settings that promise heads."""

_PREFIX = re.compile(r"(?:model\.)?(?:language_model\.)?(?:model\.)?mtp\.(?=.)")
_MTP_LAYERS = re.compile(r"(?:model\.)?mtp_layers\.([0-9]{1,6})\.(.+)")
_NUMBERED = re.compile(r"(?:language_model\.)?(?:model\.)?(?:language_model\.)?layers\.([0-9]{1,6})\.(.+)")
_OF_LAYER = re.compile(r"(?:layers\.([0-9]{1,6})|mtp_block)\.(.+)")
_ENDING = re.compile(r"(.+?)(\.(?:weight|bias|scales|biases|weight_scale_inv))")
_MARKS = ("eh_proj", "enorm", "hnorm")
"""Names that only the layer of a head has, where it is numbered like a decoder layer."""
_SCOPES = ("", "transformer.", "model.")

PARTS: Mapping[str, str] = {
    **dict.fromkeys(("fc", "eh_proj", "input_proj"), "fc"),
    **dict.fromkeys(("pre_fc_norm_embedding", "enorm", "token_layernorm"), "embedding_norm"),
    **dict.fromkeys(("pre_fc_norm_hidden", "hnorm", "hidden_layernorm"), "state_norm"),
    **dict.fromkeys(("shared_head.norm", "shared_head_norm", "final_layernorm"), "norm"),
}
"""The parts outside of the decoder layer, by the names that the families give them. Qwen's `norm` is not among them: inside a
numbered layer it would be another."""
COPIES = ("embed_tokens", "shared_head.head", "shared_head_head", "shared_head.output", "lm_head")
"""Copies of the target's embedding and output rows, which the target has anyway."""
COPY = "copy."
"""Beginning of the names of such copies."""


@dataclass(frozen=True)
class HeadTensors:
    """The tensors of a head.

    Attributes:
        where: the file or folder, for messages.
        layers: for each layer of the head, its tensors by the names of the module's docstring: the file and the name there.
        format: what the first file says that wrote it, such as "pt" or "mlx"; empty if it does not say.
        types: type and shape of each tensor of the first layer.
    """

    where: Path
    layers: tuple[Mapping[str, tuple[Path, str]], ...]
    format: str = ""
    types: Table = field(default_factory=dict)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that hold these tensors, sorted."""
        return tuple(sorted({file for layer in self.layers for file, _ in layer.values()}))

    @property
    def description(self) -> str:
        """Returns number, layers and precision of the tensors in words."""
        tensors, layers = sum(map(len, self.layers)), len(self.layers)
        bits = "quantised" if any(name.endswith(".scales") for name in self.types) else "16 bit"
        if bits == "16 bit" and any(dtype.startswith("F8") for dtype, _ in self.types.values()):
            bits = "8-bit floating point"
        if any(dtype == "F32" for name, (dtype, _) in self.types.items() if name == "fc.weight"):
            bits = "32 bit"
        return f"{amount(tensors, 'tensor')}, {amount(layers, 'layer')}, {bits}"


def is_sidecar(file: Path) -> bool:
    """Returns whether a weight file is a head's, and no part of the model that mlx-lm loads."""
    return file.name in SIDECARS


def layer_count(config: Mapping[str, Any]) -> int | None:
    """Returns the number of the model's own decoder layers; None if its configuration does not state it."""
    count = table(config.get("text_config")).get("num_hidden_layers") or config.get("num_hidden_layers")
    return count if is_whole(count) else None


def promised(config: Mapping[str, Any]) -> bool:
    """Returns whether a configuration says that the model has a head."""
    return any(
        is_whole(count) and count > 0 for part in (table(config.get("text_config")), config) for count in map(part.get, COUNTS)
    )


def names_of_heads(names: Iterable[str], layers: int | None) -> dict[str, tuple[int, str]]:
    """Returns those of a model's tensors that belong to a head: for each, the head's layer and the name inside it.

    A layer behind the model's own counts only if it has what no decoder layer has. So a model whose configuration states too few
    layers does not lose any.
    """
    found: dict[str, tuple[int, str]] = {}
    behind: dict[int, list[tuple[str, str]]] = {}
    for name in names:
        if (match := _MTP_LAYERS.fullmatch(name)) is not None:
            found[name] = (int(match[1]), _part(match[2], False))
        elif _PREFIX.match(name) is not None:
            found[name] = _inside(_PREFIX.sub("", name, count=1))
        elif layers is not None and (match := _NUMBERED.fullmatch(name)) is not None and int(match[1]) >= layers:
            behind.setdefault(int(match[1]) - layers, []).append((name, match[2]))
    for index, tensors in behind.items():
        if any(mark in rest.split(".") for _, rest in tensors for mark in _MARKS):
            found |= {name: (index, _part(rest, False)) for name, rest in tensors}
    return found


def _inside(rest: str) -> tuple[int, str]:
    """Returns layer and name of a tensor of a head, from its name without a prefix."""
    if (match := _MTP_LAYERS.fullmatch(rest)) is not None:
        return int(match[1]), _part(match[2], False)
    plain = rest.removeprefix("model.")
    if (match := _OF_LAYER.fullmatch(plain)) is not None:
        return int(match[1] or 0), _part(match[2], False)
    return 0, _part(plain, True)


def _part(rest: str, is_outside: bool) -> str:
    """Returns the name of a tensor inside a head's layer. `is_outside`: whether the file names it beside the layer."""
    match = _ENDING.fullmatch(rest)
    stem, ending = (match[1], match[2]) if match is not None else (rest, "")
    for scope in _SCOPES:
        inner = stem.removeprefix(scope)
        if inner in PARTS:
            return PARTS[inner] + ending
        if inner in COPIES:
            return f"{COPY}{inner}{ending}"
    if is_outside:
        return stem + ending
    return f"layer.{stem}{ending}"


def head_of(folder: Path, config: Mapping[str, Any]) -> HeadTensors | None:
    """Returns the head of a model folder, or of a folder that holds nothing else; None if there is none.

    Raises:
        DraftlightError: a file is damaged.
    """
    layers = layer_count(config)
    stated = table(config.get("mlx_lm_extra_tensors")).get("mtp_file")
    sidecars = [*([stated] if isinstance(stated, str) else []), *SIDECARS]
    for name in sidecars:
        if not Path(name).is_absolute() and ".." not in Path(name).parts and (folder / name).is_file():
            file = folder / name
            return _collected(file, {file: check_safetensors(file)}, layers, True)
    files = sorted(folder.glob("*.safetensors"))
    return _collected(folder, {file: check_safetensors(file) for file in files}, layers, is_head_folder(config))


def _collected(where: Path, tables: Mapping[Path, Table], layers: int | None, only_head: bool) -> HeadTensors | None:
    """Returns the head among some tensors. `only_head`: whether all of them are the head's, under whatever prefix."""
    found: dict[int, dict[str, tuple[Path, str]]] = {}
    types: Table = {}
    first: Path | None = None
    for file, tensors in tables.items():
        named = names_of_heads(tensors, layers)
        for name in tensors:
            if name in named:
                index, inner = named[name]
            elif only_head:
                index, inner = _inside(name)
            else:
                continue
            first = first or file
            found.setdefault(index, {})[inner] = (file, name)
            if not index:
                types[inner] = tensors[name]
    if first is None or sorted(found) != list(range(len(found))):
        return None
    return HeadTensors(where, tuple(found[index] for index in range(len(found))), stated_format(first), types)


def is_head_folder(config: Mapping[str, Any]) -> bool:
    """Returns whether a configuration is that of a folder with a head alone, as mlx-vlm and speculators write them."""
    return str(config.get("model_type", "")).endswith("_mtp") or config.get("speculators_model_type") == "mtp"


def head_words(where: Path) -> str:
    """Returns what a model folder or GGUF file has of an MTP head, as sentences: that begin with `PRESENT`, or `MISSING` or
    `NONE`, or what is wrong with the file."""
    config = object_in(where / "config.json")
    try:
        if where.is_file():
            tensors = head_tensors(where)
            description = amount(len(tensors), "tensor") if tensors else ""
        else:
            head = head_of(where, config)
            description = "" if head is None else head.description
    except DraftlightError as error:
        return str(error)
    if description:
        return f"{PRESENT} ({description}); the drafter auto uses it if its family is supported."
    return MISSING if promised(config) else NONE


PRESENT = "It has an MTP head"
NONE = "It has no MTP head."
MISSING = (
    "Its config.json promises an MTP head, and the files have none: most conversions drop it. Take the head from the original "
    "model (mlx_vlm.split_mtp writes a folder with it), or download the folder of this model whose name has “MTP” in it, and "
    "choose that folder as the drafter."
)
