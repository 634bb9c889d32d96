"""An MTP head (multi-token prediction): one decoder layer of its target's own family that predicts the token after the next.

A row reads the target's state at t and the embedding of token t + 1:

    x = fc([norm_e(embedding); norm_h(state)]);  y = norm(layer(x));  logits = the target's output layer of y

The next row of a chain takes y, or the layer's output before the norm, in place of the state. Embedding and output rows are the
target's. Where the tensors are found: `engine.files.mtp_files`; families: `engine.models.mtp_families`.
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
from engine.files.model_folder import CONFIG
from engine.files.mtp_files import MISSING, HeadTensors, head_of, is_head_folder, promised
from engine.machine.host import computes_on_host
from engine.models.loaded import LoadedModel
from engine.models.mtp_families import ALL_NORMS, MtpFamily, MtpReading, architecture_of, family_of, one_layer
from engine.models.state_head import JOINED, StateHead, StateHeadConfig, assemble, in_running_type
from engine.target.interface import SplitTarget
from engine.target.layer_taps import layer_count
from engine.target.tree_pass import TreeRows
from engine.values.errors import DraftlightError, reason_of

WHAT = "MTP head"
_EXPERT = re.compile(r"(layer\.mlp\.experts)\.([0-9]{1,6})\.(\w+)\.(\w+)")
_NORMS = re.compile(r"(?:embedding_norm|state_norm|norm)\.weight|layer\..*norm\.weight")
_CLEAR_NORMS = ("layer.self_attn.q_norm.weight", "layer.self_attn.k_norm.weight")
"""Norms that are far from 0 in every trained model, and so tell w from w - 1."""
_LEAST_WEIGHT = 0.5
_IGNORED = ("rotary_emb.inv_freq",)


class MtpModel(StateHead[MtpReading]):
    """Weights of an MTP head.

    Args:
        layer: the decoder layer, of an mlx-lm model.
        window: size of its sliding window; None for full attention.
        depth: number of tokens that one chain may draft.
    """

    def __init__(
        self,
        config: StateHeadConfig,
        layer: nn.Module,
        eps: float,
        reading: MtpReading,
        zero_centred: bool = False,
        window: int | None = None,
        depth: int | None = None,
    ) -> None:
        super().__init__(config, WHAT, reading)
        hidden = config.hidden_size
        self.fc = nn.Linear(2 * hidden, hidden, bias=False)
        self.embedding_norm = nn.RMSNorm(hidden, eps)
        self.state_norm = nn.RMSNorm(hidden, eps)
        self.norm = nn.RMSNorm(hidden, eps)
        self.layer = layer
        self.zero_centred = zero_centred
        self._window, self._depth = window, depth

    @property
    def cache_count(self) -> int:
        """As in `RowModel`."""
        return 1

    @property
    def max_proposals(self) -> int:
        """As in `RowModel`."""
        return self.config.max_position_embeddings if self._depth is None else self._depth

    @property
    def cast_predicate(self) -> Any:
        """Returns which parameters may be narrowed: biases of routers stay as they are."""
        return lambda name: not name.endswith(("e_score_correction_bias", "router_bias"))

    def fuse(self, features: mx.array) -> mx.array:
        """Returns the (rows, hidden) states that the head reads, from the outputs of the target's last layer."""
        return self.final_state(features) if self.reading.normed_state else features

    def advance(self, features: mx.array, tokens: mx.array, caches: Sequence[Any], rows: TreeRows | None = None) -> mx.array:
        """As in `RowModel`."""
        features = features.astype(self.norm.weight.dtype)
        parts = [self.embedding_norm(self.embedded(tokens, features)), self.state_norm(features)]
        x = self.fc(mx.concatenate(parts if self.reading.embedding_first else parts[::-1], axis=-1))[None]
        with self.masked(x, caches, rows, self._window) as mask:
            after: mx.array = self.layer(x, mask, caches[0])[0]
        return self.norm(after) if self.reading.chain_normed else after

    def logits(self, features: mx.array) -> mx.array:
        """As in `RowModel`."""
        return self.output(features if self.reading.chain_normed else self.norm(features))

    def readings(self) -> Mapping[str, MtpReading]:
        """As in `StateHead`: state before or after the final norm, order of the two inputs; or norms as stored or plus one."""
        own = self.reading
        states = {"": own.normed_state}
        states[f"its state is that {'before' if own.normed_state else 'after'} the target's final norm"] = not own.normed_state
        orders = {"": own.embedding_first}
        orders[f"the {'state' if own.embedding_first else 'embedding'} comes first"] = not own.embedding_first
        found = {
            JOINED.join(part for part in (state, order) if part): replace(own, normed_state=is_normed, embedding_first=is_first)
            for state, is_normed in states.items()
            for order, is_first in orders.items()
        }
        if self.zero_centred:
            for count in range(len(ALL_NORMS) + 1):
                for which in itertools.combinations(sorted(ALL_NORMS), count):
                    if frozenset(which) != own.plus_one:
                        found[f"its norms are {_norms_in_words(which)}"] = replace(own, plus_one=frozenset(which))
        return {words: reading for words, reading in found.items() if words}

    @property
    def favoured(self) -> MtpReading | None:
        """As in `StateHead`: norms whose weights are near 0 are stored as w - 1. Those before the layer are so in either form."""
        if not self.zero_centred:
            return None
        means: dict[str, list[float]] = {}
        for path, stored in self.metadata.kept.items():
            part = _part_of(path)
            if part != "layer" or f"{path}.weight" in _CLEAR_NORMS:
                means.setdefault(part, []).append(cast(float, stored.astype(mx.float32).mean().item()))
        raw = frozenset(part for part, values in means.items() if sum(values) / len(values) < _LEAST_WEIGHT)
        return None if raw == self.reading.plus_one else replace(self.reading, plus_one=raw)

    def chain_readings(self) -> Mapping[str, MtpReading]:
        """As in `StateHead`."""
        other = not self.reading.chain_normed
        return {f"a chain continues {'after' if other else 'before'} its norm": replace(self.reading, chain_normed=other)}

    def read_as(self, reading: MtpReading) -> None:
        """As in `StateHead`: also stores the norms as this reading has them."""
        for path, module in self.named_modules():
            if _NORMS.fullmatch(f"{path}.weight") and "weight" in module:
                stored = self.metadata.kept.setdefault(path, module["weight"])
                is_shifted = _part_of(path) in reading.plus_one
                module["weight"] = (stored.astype(mx.float32) + 1).astype(stored.dtype) if is_shifted else stored
        super().read_as(reading)


def _part_of(path: str) -> str:
    """Returns the part of `MtpReading.plus_one` to which a norm belongs."""
    return "layer" if path.startswith("layer.") else "last" if path == "norm" else "inputs"


def _norms_in_words(which: Collection[str]) -> str:
    places = {"inputs": "before the layer", "layer": "inside the layer", "last": "after the layer"}
    if len(which) in (0, len(places)):
        return "plus one" if which else "as stored"
    return f"plus one {', '.join(words for part, words in places.items() if part in which)} only"


def load_mtp(folder: Path, target: LoadedModel) -> MtpModel:
    """Returns the MTP head in a folder: of the target itself, of another copy of it, or of a folder that holds the head alone.

    Raises:
        DraftlightError: there is none, its family cannot be used, or its tensors differ from those that the family has.
    """
    described = object_in(folder / CONFIG)
    if isinstance(target.model, SplitTarget):
        raise DraftlightError("A target that is split over several processes cannot be drafted for by its MTP head.")
    require_family(described, folder, target)
    family = family_of(target)
    found = head_of(folder, described)
    if found is None:
        advice = MISSING if promised(described) else "Its files have no tensors of an MTP head. Choose ngram, or another drafter."
        raise DraftlightError(f"{folder} has no {WHAT}. {advice}")
    try:
        return _assembled(found, family, described, target)
    except DraftlightError:
        raise
    except (ValueError, RuntimeError, KeyError, TypeError, IndexError, AttributeError, ArithmeticError) as error:
        raise DraftlightError(f"{found.where} is not a usable {WHAT}: {reason_of(error)}") from error


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


def _assembled(found: HeadTensors, family: MtpFamily, described: Mapping[str, Any], target: LoadedModel) -> MtpModel:
    inner = getattr(target.model, "language_model", target.model)
    arguments = getattr(inner, "args", None) or target.model.args  # type: ignore[attr-defined]
    tensors = found.layers[0]
    if len(found.layers) > 1 and not family.has_several:
        raise DraftlightError(f"{found.where} has an MTP head of {len(found.layers)} layers; this family is known with one.")
    single = one_layer(target.model, family, tensors)
    layer = cast(Any, single).layers[0]
    is_window = family.window and getattr(layer, "is_sliding", False)
    model = MtpModel(
        StateHeadConfig((layer_count(target.model) - 1,), int(arguments.hidden_size), target.context_length),
        layer,
        float(getattr(arguments, "rms_norm_eps", 1e-6)),
        _hinted(family.reading, described),
        family.zero_centred,
        getattr(arguments, family.window) if is_window else None,
        1 if len(found.layers) > 1 else None,
    )
    arrays = _read(tensors)
    arrays = _converted(arrays, single, found.where)
    assemble(model, arrays, found.where, _shown)
    if family.zero_centred:
        declared = ALL_NORMS if _is_raw(found, described, arrays) else frozenset()
        model.read_as(replace(model.reading, plus_one=declared))
    model.metadata.files = found.files
    mx.eval(model.parameters())
    return model


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
        if not name.startswith("copy.") and not name.endswith(_IGNORED):
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
    clear = [arrays[name] for name in _CLEAR_NORMS if name in arrays]
    mean = cast(float, mx.concatenate([array.astype(mx.float32) for array in clear]).mean().item()) if clear else 1.0
    if found.format and found.format != "mlx" and not str(described.get("model_type", "")).endswith("_mtp"):
        return True
    return mean < _LEAST_WEIGHT


def _shown(name: str) -> str:
    """Returns the name of a parameter as the families' files have it."""
    name = name.removeprefix("layer.")
    for made, stored in (("self_attn.embed_q", "self_attn.kv_b_proj"), ("self_attn.unembed_out", "self_attn.kv_b_proj")):
        name = name.replace(made, stored)
    return {
        "fc.weight": "fc.weight (eh_proj, input_proj)",
        "embedding_norm.weight": "pre_fc_norm_embedding.weight (enorm, token_layernorm)",
        "state_norm.weight": "pre_fc_norm_hidden.weight (hnorm, hidden_layernorm)",
        "norm.weight": "norm.weight (shared_head.norm, final_layernorm)",
    }.get(name, name)
