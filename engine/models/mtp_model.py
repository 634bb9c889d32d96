"""An MTP head (multi-token prediction): one decoder layer of its target's own family that predicts the token after the next.

A row reads the target's state at t and the embedding of token t + 1:

    x = fc([norm_e(embedding); norm_h(state)]);  y = norm(layer(x));  logits = the target's output layer of y

The next row of a chain takes y, or the layer's output before the norm, in place of the state. Embedding and output rows are the
target's.

A head may have several such layers, each with parts of its own, and then drafts that many tokens: layer k reads the output of
layer k - 1 for the same row, and the token k further on. So with each token layer k computes the row k places before the newest:

    token           t1      t2          t3          d1          d2          (t3 is the newest one, d1 and d2 are drafted)
    layer 0         h0, t1  h1, t2      h2, t3 → d1
    layer 1         -       row 0, t2   row 1, t3   row 2, d1 → d2
    layer 2         -       -           row 0, t3   row 1, d1   row 2, d2 → d3

Where the tensors are found: `engine.files.mtp_files`; families: `engine.models.mtp_families`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn

from engine.files.foreign import object_in, table
from engine.files.gguf_header import read_header
from engine.files.model_folder import CONFIG, refuse_pytorch
from engine.files.mtp_files import COPY, MISSING, HeadTensors, head_of, is_head_folder, promised
from engine.machine.host import computes_on_host
from engine.models import gguf_model
from engine.models.block_config import MAX_LAYERS
from engine.models.drafter_model import explained
from engine.models.loaded import LoadedModel
from engine.models.mtp_families import ALL_NORMS, MtpReading, architecture_of, family_of, one_layer
from engine.models.state_head import StateHead, StateHeadConfig, assemble, combined, in_running_type
from engine.target.interface import SplitTarget
from engine.target.layer_taps import layer_count
from engine.target.tree_pass import TreeRows
from engine.values.errors import DraftlightError

WHAT = "MTP head"
_EXPERT = re.compile(r"(layer\.mlp\.experts)\.([0-9]{1,6})\.(\w+)\.(\w+)")
_NORMS = re.compile(r"layers\.\d+\.(?:(?:embedding_norm|state_norm|norm)\.weight|layer\..*norm\.weight)")
_CLEAR_NORMS = (".layer.self_attn.q_norm.weight", ".layer.self_attn.k_norm.weight")
"""Norms that are far from 0 in every trained model, and so tell w from w - 1."""
_LEAST_WEIGHT = 0.5
_LAYER = re.compile(r"layers\.([0-9]{1,6})\.(.+)")
_IGNORED = ("rotary_emb.inv_freq",)


class _Layer(nn.Module):
    """One layer of a head, with the parts around it.

    Args:
        layer: the decoder layer, of an mlx-lm model. window: size of its sliding window; None for full attention.
    """

    def __init__(self, layer: nn.Module, hidden: int, eps: float, window: int | None) -> None:
        super().__init__()
        self.fc = nn.Linear(2 * hidden, hidden, bias=False)
        self.embedding_norm = nn.RMSNorm(hidden, eps)
        self.state_norm = nn.RMSNorm(hidden, eps)
        self.norm = nn.RMSNorm(hidden, eps)
        self.layer = layer
        self.window = window


class MtpModel(StateHead[MtpReading]):
    """Weights of an MTP head.

    What `advance` returns, and a chain continues from, are the outputs of the layers that have computed a row, one behind the
    other: of all after a row of the target's states, of one less after each further row of a chain.
    """

    def __init__(
        self, config: StateHeadConfig, layers: Sequence[_Layer], reading: MtpReading, zero_centred: bool = False
    ) -> None:
        super().__init__(config, WHAT, reading)
        self.layers = list(layers)
        self.zero_centred = zero_centred

    @property
    def cache_count(self) -> int:
        """Number of caches: one for each layer, and one for the outputs of each but the last, which the next row needs."""
        return 2 * len(self.layers) - 1

    @property
    def max_proposals(self) -> int:
        """As in `RowModel`."""
        return len(self.layers) if len(self.layers) > 1 else self.config.max_position_embeddings

    @property
    def cast_predicate(self) -> Any:
        """Returns which parameters may be narrowed: biases of routers stay as they are."""
        return lambda name: not name.endswith(("e_score_correction_bias", "router_bias"))

    def fuse(self, features: mx.array) -> mx.array:
        """Returns the (rows, hidden) states that the head reads, from the outputs of the target's last layer."""
        return self.final_state(features) if self.reading.normed_state else features

    def advance(self, features: mx.array, tokens: mx.array, caches: Sequence[Any], rows: TreeRows | None = None) -> mx.array:
        """As in `RowModel`."""
        features = features.astype(self.layers[0].norm.weight.dtype)
        count, parts = len(self.layers), self._parts(features)
        first = (count + 1 - len(parts)) % count  # the target's states are for all layers
        embedded, outputs = self.embedded(tokens, features), list[mx.array]()
        for index in range(first, count):
            state = parts[index - first] if first or not index else _delayed(outputs[-1], caches[count + index - 1])
            outputs.append(self._output(index, state, embedded, caches[index], rows))
        return mx.concatenate(outputs, axis=-1)

    def _parts(self, features: mx.array) -> list[mx.array]:
        """Returns the outputs of layers in what a chain continues from; a target's state is one."""
        return cast(list[mx.array], mx.split(features, features.shape[-1] // self.config.hidden_size, axis=-1))

    def _output(self, index: int, state: mx.array, embedded: mx.array, cache: Any, rows: TreeRows | None) -> mx.array:
        """Returns a layer's output for some rows, (rows, hidden)."""
        layer = self.layers[index]
        parts = [layer.embedding_norm(embedded), layer.state_norm(state)]
        x = layer.fc(mx.concatenate(parts if self.reading.embedding_first else parts[::-1], axis=-1))[None]
        with self.masked(x, [cache], rows, layer.window) as mask:
            after: mx.array = layer.layer(x, _without_first(mask, index, int(cache.offset), x.shape[1]), cache)[0]
        return layer.norm(after) if self.reading.chain_normed else after

    def logits(self, features: mx.array) -> mx.array:
        """Returns the (..., columns) logits of the first of the layers that have computed a row."""
        parts = self._parts(features)
        return self.output(parts[0] if self.reading.chain_normed else self.layers[-len(parts)].norm(parts[0]))

    def readings(self) -> Mapping[str, MtpReading]:
        """As in `StateHead`: state before or after the final norm, order of the two inputs; or norms as stored or plus one."""
        own = self.reading
        state = f"its state is that {'before' if own.normed_state else 'after'} the target's final norm"
        order = f"the {'state' if own.embedding_first else 'embedding'} comes first"
        found = combined(
            own, {state: {"normed_state": not own.normed_state}}, {order: {"embedding_first": not own.embedding_first}}
        )
        if self.zero_centred:
            for count in range(len(ALL_NORMS) + 1):
                for which in itertools.combinations(sorted(ALL_NORMS), count):
                    if frozenset(which) != own.plus_one:
                        found[f"its norms are {_norms_in_words(which)}"] = replace(own, plus_one=frozenset(which))
        return found

    @property
    def favoured(self) -> MtpReading | None:
        """As in `StateHead`: norms whose weights are near 0 are stored as w - 1. Those before the layer are so in either form."""
        if not self.zero_centred:
            return None
        means: dict[str, list[float]] = {}
        for path, stored in self.metadata.kept.items():
            part = _part_of(path)
            if part != "layer" or f"{path}.weight".endswith(_CLEAR_NORMS):
                means.setdefault(part, []).append(cast(float, stored.astype(mx.float32).mean().item()))
        raw = frozenset(part for part, values in means.items() if sum(values) / len(values) < _LEAST_WEIGHT)
        return None if raw == self.reading.plus_one else replace(self.reading, plus_one=raw)

    def read_as(self, reading: MtpReading) -> None:
        """As in `StateHead`: also stores the norms as this reading has them."""
        for path, module in self.named_modules():
            if _NORMS.fullmatch(f"{path}.weight") and "weight" in module:
                stored = self.metadata.kept.setdefault(path, module["weight"])
                is_shifted = _part_of(path) in reading.plus_one
                module["weight"] = (stored.astype(mx.float32) + 1).astype(stored.dtype) if is_shifted else stored
        super().read_as(reading)


def _delayed(output: mx.array, kept: Any) -> mx.array:
    """Returns the outputs of a layer for the rows before, (rows, hidden), and keeps these; zeros where there is none."""
    known = int(kept.offset)
    stored = kept.update_and_fetch(output[None, None], output[None, None, :, :1])[0][0, 0]
    return stored[known - 1 : -1] if known else mx.pad(output[:-1], [(1, 0), (0, 0)])


def _without_first(mask: mx.array | None, count: int, offset: int, rows: int) -> mx.array | None:
    """Returns a mask in which no row sees the first `count` rows, which a later layer does not have; those see themselves."""
    if not count:
        return mask
    columns = mx.arange(offset + rows)
    exists = (columns >= count) | (columns == mx.arange(offset, offset + rows)[:, None])
    return exists if mask is None else mask & exists


def _part_of(path: str) -> str:
    """Returns the part of `MtpReading.plus_one` to which a norm belongs."""
    path = path.split(".", 2)[2]
    return "layer" if path.startswith("layer.") else "last" if path == "norm" else "inputs"


def _norms_in_words(which: Collection[str]) -> str:
    places = {"inputs": "before the layer", "layer": "inside the layer", "last": "after the layer"}
    if len(which) in (0, len(places)):
        return "plus one" if which else "as stored"
    return f"plus one {', '.join(words for part, words in places.items() if part in which)} only"


def load_mtp(where: Path, target: LoadedModel) -> MtpModel:
    """Returns the MTP head in a folder: of the target itself, of another copy of it, or of a folder that holds the head alone. Or
    that in the target's GGUF file.

    Raises:
        DraftlightError: there is none, its family cannot be used, or its tensors differ from those that the family has.
    """
    if isinstance(target.model, SplitTarget):
        raise DraftlightError("A target that is split over several processes cannot be drafted for by its MTP head.")
    if where.is_file():
        with explained(where, WHAT):
            return _from_gguf(where, target)
    described = object_in(where / CONFIG)
    require_family(described, where, target)
    found = head_of(where, described)
    if found is None:
        refuse_pytorch(where)
        advice = MISSING if promised(described) else _WITHOUT_HEAD
        raise DraftlightError(f"{where} has no {WHAT}. {advice}")
    with explained(found.where, WHAT):
        return _from_folder(found, described, target)


_WITHOUT_HEAD = "Its files have no tensors of an MTP head. Choose ngram, or another drafter."


def require_family(described: Mapping[str, Any], folder: Path, target: LoadedModel) -> None:
    """Raises DraftlightError unless the target's MTP heads can be used and a folder with a head alone is of its family."""
    kind = str(described.get("model_type", ""))
    if kind.endswith("_assistant"):
        raise DraftlightError(
            f"{folder} is an assistant ({kind}), which reads its target's keys and values. Draftlight does not use those "
            "yet; choose ngram, or a smaller model of the same family."
        )
    family = family_of(target)
    if not is_head_folder(described):
        return
    architecture = architecture_of(target.model)
    if described.get("speculators_model_type"):
        kind = str(table(described.get("transformer_layer_config")).get("model_type", "")).removesuffix("_text")
        fits = kind == architecture
    else:
        fits = kind in family.folders
    if not fits:
        raise DraftlightError(
            f"{folder} has the {WHAT} of another architecture ({kind}) than {target.name} "
            f"({architecture}). Choose the head of this model, or ngram."
        )


def _from_folder(found: HeadTensors, described: Mapping[str, Any], target: LoadedModel) -> MtpModel:
    family = family_of(target)
    model, singles = _empty(found.layers, found.where, target, _hinted(family.reading, described))
    arrays: dict[str, mx.array] = {}
    for index, (tensors, single) in enumerate(zip(found.layers, singles, strict=True)):
        converted = _converted(_read(tensors), single, found.where)
        arrays |= {f"layers.{index}.{name}": array for name, array in converted.items()}
    assemble(model, arrays, found.where, _shown)
    if family.zero_centred:
        declared = ALL_NORMS if _is_raw(found, described, arrays) else frozenset()
        model.read_as(replace(model.reading, plus_one=declared))
    model.metadata.files = found.files
    mx.eval(model.parameters())
    return model


def _from_gguf(file: Path, target: LoadedModel) -> MtpModel:
    """Returns the head in the target's GGUF file. llama.cpp stores norms with the one added."""
    family, header = family_of(target), read_header(file)
    if not header.head:
        raise DraftlightError(f"{target.name} has no {WHAT}. {_WITHOUT_HEAD}")
    names = gguf_model.head_names(file, header)
    model, _ = _empty([layer.values() for layer in names], file, target, family.reading)
    assemble(model, gguf_model.read_head(file, header, names, model, computes_on_host()), file, _shown)
    model.metadata.files = (file,)
    mx.eval(model.parameters())
    return model


def _empty(
    names: Sequence[Collection[str]], where: Path, target: LoadedModel, reading: MtpReading
) -> tuple[MtpModel, list[nn.Module]]:
    """Returns a head with random weights, and the models that its decoder layers are from. `names`: of each layer's tensors."""
    family = family_of(target)
    if len(names) > (most := MAX_LAYERS if family.has_several else 1):
        raise DraftlightError(f"{where} has an MTP head of {len(names):,} layers, and those of this family have at most {most}.")
    inner = getattr(target.model, "language_model", target.model)
    arguments = getattr(inner, "args", None) or target.model.args  # type: ignore[attr-defined]
    hidden, eps = int(arguments.hidden_size), float(getattr(arguments, "rms_norm_eps", 1e-6))
    layers, singles = list[_Layer](), list[nn.Module]()
    for index, own in enumerate(names):
        singles.append(single := one_layer(target.model, family, own, index))
        layer = cast(Any, single).layers[0]
        is_window = family.window and getattr(layer, "is_sliding", False)
        layers.append(_Layer(layer, hidden, eps, getattr(arguments, family.window) if is_window else None))
    config = StateHeadConfig((layer_count(target.model) - 1,), hidden, target.context_length)
    return MtpModel(config, layers, reading, family.zero_centred), singles


def _hinted(reading: MtpReading, described: Mapping[str, Any]) -> MtpReading:
    """Returns a family's reading with what a configuration of MTPLX states about it."""
    contract = table(described.get("mtplx_mtp_contract"))
    state, order = str(contract.get("hidden_variant", "")), str(contract.get("concat_order", ""))
    if state.startswith(("pre", "post")):
        reading = replace(reading, normed_state=state.startswith("post"))
    if order.startswith(("hidden", "embedding")):
        reading = replace(reading, embedding_first=order.startswith("embedding"))
    return reading


def _read(tensors: Mapping[str, tuple[Path, str]]) -> dict[str, mx.array]:
    """Returns the head's arrays, lazy, without copies of the target's and in 16 or 32 bit instead of 8-bit floating point."""
    loaded: dict[Path, dict[str, mx.array]] = {}
    arrays: dict[str, mx.array] = {}
    for name, (file, there) in tensors.items():
        if file not in loaded:
            loaded[file] = cast(dict[str, mx.array], mx.load(file.as_posix()))
        if not name.startswith(COPY) and not name.endswith(_IGNORED):
            arrays[name] = loaded[file][there]
    for name in [name for name in arrays if name.endswith(".weight_scale_inv")]:
        scales, weight = arrays.pop(name), name.removesuffix("_scale_inv")
        if weight in arrays:
            arrays[weight] = _expanded(arrays[weight], scales)
    return in_running_type(arrays)


def _expanded(weight: mx.array, scales: mx.array) -> mx.array:
    """Returns a matrix of 8-bit floating-point numbers, times the scale of each of its blocks."""
    wide = mx.from_fp8(weight, dtype=mx.float32)
    sizes = [-(-length // count) for length, count in zip(wide.shape, scales.shape, strict=True)]
    size = next((size for size in (128, 64, 32) if [-(-length // size) for length in wide.shape] == list(scales.shape)), 0)
    rows, columns = (size, size) if size else sizes
    spread = mx.repeat(mx.repeat(scales.astype(mx.float32), rows, axis=0), columns, axis=1)
    expanded = wide * spread[: wide.shape[0], : wide.shape[1]]
    return expanded if computes_on_host() else expanded.astype(mx.bfloat16)


def _converted(arrays: dict[str, mx.array], single: Any, where: object) -> dict[str, mx.array]:
    """Returns the arrays with the layer's as mlx-lm's class has them, by that class's own conversion."""
    grouped: dict[tuple[str, str, str], dict[int, mx.array]] = {}
    for name in list(arrays):
        if (match := _EXPERT.fullmatch(name)) is not None:
            grouped.setdefault((match[1], match[3], match[4]), {})[int(match[2])] = arrays.pop(name)
    counts = [max(experts) + 1 for experts in grouped.values()]
    for (prefix, projection, ending), experts in grouped.items():
        if lacking := [f"{prefix}.{index}.{projection}.{ending}" for index in range(max(counts)) if index not in experts]:
            raise DraftlightError(f"{where} is not a {WHAT} that Draftlight knows how to run: it lacks {_shown(lacking[0])}.")
        stacked = mx.stack([experts[index] for index in range(len(experts))])
        arrays[f"{prefix.removesuffix('experts')}switch_mlp.{projection}.{ending}"] = stacked
    prefix = "language_model.model.layers.0." if hasattr(single, "language_model") else "model.layers.0."
    inside = {prefix + name.removeprefix("layer."): array for name, array in arrays.items() if name.startswith("layer.")}
    outside = {name: array for name, array in arrays.items() if not name.startswith("layer.")}
    if hasattr(single, "sanitize"):
        inside = single.sanitize(inside)
    return outside | {"layer." + name.removeprefix(prefix): array for name, array in inside.items()}


def _is_raw(found: HeadTensors, described: Mapping[str, Any], arrays: Mapping[str, mx.array]) -> bool:
    """Returns whether a head's norms are stored as w - 1, as published.

    The file decides: a converted one says "mlx". Conversions may have left the head's norms as they were, and a file may say
    nothing; then the norms of queries and keys decide, whose weights are far from 0.
    """
    clear = [array for name, array in arrays.items() if name.endswith(_CLEAR_NORMS)]
    mean = cast(float, mx.concatenate([array.astype(mx.float32) for array in clear]).mean().item()) if clear else 1.0
    if found.format and found.format != "mlx" and not str(described.get("model_type", "")).endswith("_mtp"):
        return True
    return mean < _LEAST_WEIGHT


def _shown(name: str) -> str:
    """Returns the name of a parameter as the families' files have it."""
    if (match := _LAYER.fullmatch(name)) is not None:
        shown = _shown(match[2])
        return shown if match[1] == "0" else f"{shown} of layer {int(match[1]) + 1}"
    name = name.removeprefix("layer.")
    for made, stored in (("self_attn.embed_q", "self_attn.kv_b_proj"), ("self_attn.unembed_out", "self_attn.kv_b_proj")):
        name = name.replace(made, stored)
    return {
        "fc.weight": "fc.weight (eh_proj, input_proj)",
        "embedding_norm.weight": "pre_fc_norm_embedding.weight (enorm, token_layernorm)",
        "state_norm.weight": "pre_fc_norm_hidden.weight (hnorm, hidden_layernorm)",
        "norm.weight": "norm.weight (shared_head.norm, final_layernorm)",
    }.get(name, name)
