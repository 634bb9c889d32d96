"""An EAGLE-3 head (Li et al., 2025): one or a few layers on the fused outputs of some target layers.

A row reads g, fused from the outputs of target layers at t, and the embedding of token t + 1. The first layer's attention reads
twice the hidden size:

    u = [input_layernorm(embedding); hidden_norm(g)];  r = g + attention(u);  r = r + mlp(post_attention_layernorm(r))

Logits are those of norm(r). The next row of a chain takes r itself in place of g, without `fc`; with `norm_output` norm(r). The
head may have its own vocabulary, part of the target's. Settings: `engine.models.eagle3_config`.

A head of EAGLE-1 or 2 reads the target's last state, after the final norm, in place of g: the layer, whose attention has no norm
before it, gets fc([embedding; g]), its output is the next row's state, and the target's output layer makes logits of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.base import scaled_dot_product_attention
from mlx_lm.models.rope_utils import initialize_rope

from engine.files.foreign import table
from engine.files.model_folder import CONFIG, read_json, refuse_pytorch, weights_of
from engine.models.block_config import MAX_LAYERS
from engine.models.block_model import ACTIVATIONS
from engine.models.drafter_model import are_distinct, explained, load_arrays
from engine.models.eagle3_config import WHAT, EagleConfig, EagleReading, default_taps, read_eagle_config
from engine.models.loaded import LoadedModel
from engine.models.state_head import StateHead, StateHeadConfig, assemble, combined, in_running_type
from engine.target.layer_taps import embedding_of, hidden_size_of, layer_count
from engine.target.tree_pass import TreeRows
from engine.values.errors import DraftlightError
from engine.values.wording import amount

_IGNORED = ("verifier_", "rotary_emb.", "mask_hidden")
Shapes = Mapping[str, tuple[int, ...]]


class _Attention(nn.Module):
    def __init__(self, config: EagleConfig, shapes: Shapes, prefix: str, width: int) -> None:
        super().__init__()
        size, hidden = config.head_dim, config.hidden_size
        self.q_proj = nn.Linear(width, config.num_attention_heads * size, f"{prefix}q_proj.bias" in shapes)
        self.k_proj = nn.Linear(width, config.num_key_value_heads * size, f"{prefix}k_proj.bias" in shapes)
        self.v_proj = nn.Linear(width, config.num_key_value_heads * size, f"{prefix}v_proj.bias" in shapes)
        self.o_proj = nn.Linear(config.num_attention_heads * size, hidden, f"{prefix}o_proj.bias" in shapes)
        has_norms = f"{prefix}q_norm.weight" in shapes
        self.q_norm = nn.RMSNorm(size, config.rms_norm_eps) if has_norms else nn.Identity()
        self.k_norm = nn.RMSNorm(size, config.rms_norm_eps) if has_norms else nn.Identity()
        self._size = size
        self.rope = initialize_rope(
            size, config.rope_theta, False, cast(Any, config.rope_scaling), config.max_position_embeddings
        )

    def _split(self, array: mx.array) -> mx.array:
        return array.reshape(*array.shape[:2], -1, self._size)

    def __call__(self, x: mx.array, mask: mx.array | None, cache: Any) -> mx.array:
        queries = self.rope(self.q_norm(self._split(self.q_proj(x))).swapaxes(1, 2), offset=cache.offset)
        keys = self.rope(self.k_norm(self._split(self.k_proj(x))).swapaxes(1, 2), offset=cache.offset)
        keys, values = cache.update_and_fetch(keys, self._split(self.v_proj(x)).swapaxes(1, 2))
        attended = scaled_dot_product_attention(queries, keys, values, cache, self._size**-0.5, mask)
        return self.o_proj(attended.swapaxes(1, 2).reshape(*x.shape[:2], -1))


class _FeedForward(nn.Module):
    def __init__(self, config: EagleConfig, shapes: Shapes, prefix: str) -> None:
        super().__init__()
        width = shapes.get(f"{prefix}gate_proj.weight", (1,))[0]  # some files state another one in config.json
        self._activation = ACTIVATIONS[config.activation]
        self.gate_proj = nn.Linear(config.hidden_size, width, f"{prefix}gate_proj.bias" in shapes)
        self.up_proj = nn.Linear(config.hidden_size, width, f"{prefix}up_proj.bias" in shapes)
        self.down_proj = nn.Linear(width, config.hidden_size, f"{prefix}down_proj.bias" in shapes)

    def __call__(self, x: mx.array) -> mx.array:
        return self.down_proj(self._activation(self.gate_proj(x)) * self.up_proj(x))


class _Layer(nn.Module):
    """The first layer of a head, which reads embedding and state, or a later one, which reads the output of the one before."""

    def __init__(self, config: EagleConfig, shapes: Shapes, index: int) -> None:
        super().__init__()
        prefix, hidden, eps = f"layers.{index}.", config.hidden_size, config.rms_norm_eps
        is_first = not index and not config.is_second
        self.self_attn = _Attention(config, shapes, f"{prefix}self_attn.", 2 * hidden if is_first else hidden)
        self.mlp = _FeedForward(config, shapes, f"{prefix}mlp.")
        self.post_attention_layernorm = nn.RMSNorm(hidden, eps)
        if is_first or f"{prefix}hidden_norm.weight" in shapes:
            self.hidden_norm = nn.RMSNorm(hidden, eps)
        self._has_no_norm = config.is_second and not index
        if is_first or not ("hidden_norm" in self or self._has_no_norm):
            self.input_layernorm = nn.RMSNorm(hidden, eps)

    def __call__(
        self, embedded: mx.array | None, state: mx.array, normed_residual: bool, mask: mx.array | None, cache: Any
    ) -> mx.array:
        if self._has_no_norm:
            normed = state
        else:
            normed = self.hidden_norm(state) if "hidden_norm" in self else self.input_layernorm(state)
        if embedded is not None:
            residual = normed if normed_residual else state
            normed = mx.concatenate([self.input_layernorm(embedded), normed], axis=-1)
        else:
            residual = state
        residual = residual + self.self_attn(normed, mask, cache)
        after: mx.array = residual + self.mlp(self.post_attention_layernorm(residual))
        return after


class Eagle3Model(StateHead[EagleReading]):
    """Weights of an EAGLE-3 head.

    Args:
        stated: the settings. taps: the target layers that it reads, for the stated reading.
        width: hidden size of the target.
        shapes: shapes of the file's tensors by name; they determine the optional parts.
    """

    def __init__(self, stated: EagleConfig, taps: tuple[int, ...], width: int, shapes: Shapes) -> None:
        config = StateHeadConfig(taps, stated.hidden_size, stated.max_position_embeddings)
        super().__init__(config, WHAT, stated.reading)
        self.stated, self._stated_taps = stated, taps
        hidden, eps, count = stated.hidden_size, stated.rms_norm_eps, len(taps)
        if stated.is_second:
            self.fc = nn.Linear(2 * hidden, hidden, "fc.bias" in shapes)
        elif not stated.reads_final_state:
            self.fc = nn.Linear(count * width, hidden, "fc.bias" in shapes)
        if stated.norm_before_fc:
            self.input_norm = nn.RMSNorm(count * width, eps)
        if stated.fc_norm:
            self.fc_norm = [nn.RMSNorm(width, eps) for _ in taps]
        layers = 1 + max((int(name.split(".")[1]) for name in shapes if name.startswith("layers.")), default=0)
        if layers > MAX_LAYERS:
            raise ValueError(f"it has a layer {layers - 1}")
        self.layers = [_Layer(stated, shapes, index) for index in range(layers)]
        self.norm = nn.Identity() if stated.is_second else nn.RMSNorm(hidden, eps)
        if "embed_tokens.weight" in shapes:
            self.embed_tokens = nn.Embedding(shapes["embed_tokens.weight"][0], hidden)
        if "lm_head.weight" in shapes:
            self.lm_head = nn.Linear(hidden, shapes["lm_head.weight"][0], "lm_head.bias" in shapes)

    @property
    def cache_count(self) -> int:
        """As in `RowModel`."""
        return len(self.layers)

    def fuse(self, features: mx.array) -> mx.array:
        """As in `RowModel`."""
        narrow = self.layers[0].post_attention_layernorm.weight.dtype
        if self.stated.reads_final_state:
            return self.final_state(features).astype(narrow)
        features = features.astype(narrow)
        if "input_norm" in self:
            features = self.input_norm(features)
        if "fc_norm" in self:
            parts = mx.split(features, len(self.fc_norm), axis=-1)
            features = mx.concatenate([norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)], axis=-1)
        fused: mx.array = self.fc(features)
        return fused

    def advance(self, features: mx.array, tokens: mx.array, caches: Sequence[Any], rows: TreeRows | None = None) -> mx.array:
        """As in `RowModel`."""
        x = features[None]
        token = self.embedded(tokens, features)[None]
        embedded: mx.array | None = token
        if self.stated.is_second:
            x, embedded = self.fc(mx.concatenate([token, x], axis=-1)), None
        with self.masked(x, caches, rows) as mask:
            for layer, cache in zip(self.layers, caches, strict=True):
                x = layer(embedded, x, self.reading.norm_before_residual, mask, cache)
                embedded = None
        return self.norm(x[0]) if self.reading.chain_normed else x[0]

    def logits(self, features: mx.array) -> mx.array:
        """As in `RowModel`."""
        return self.output(features if self.reading.chain_normed else self.norm(features))

    def readings(self) -> Mapping[str, EagleReading]:
        """As in `StateHead`: layers one earlier or later, and where the residual stream starts."""
        if self.stated.is_second:
            return {}
        own, layers = self.reading, {}
        for shift in () if self.stated.reads_final_state else (-1, 1):
            taps = self._shifted(own.tap_shift + shift)
            if min(taps) >= -1 and max(taps) < self.metadata.target_layers:
                now = ", ".join(map(str, taps))
                words = f"it reads layers {now} instead of {', '.join(map(str, self.config.taps))}"
                layers[words] = {"tap_shift": own.tap_shift + shift}
        start = f"its residual stream starts {'before' if own.norm_before_residual else 'after'} the norm"
        return combined(own, layers, {start: {"norm_before_residual": not own.norm_before_residual}})

    def chain_readings(self) -> Mapping[str, EagleReading]:
        """Returns the other readings of a chain; none for EAGLE-1 and 2, which have no norm."""
        return {} if self.stated.is_second else super().chain_readings()

    def read_as(self, reading: EagleReading) -> None:
        """As in `StateHead`: also taps the layers of this reading."""
        self.config = replace(self.config, taps=self._shifted(reading.tap_shift))
        super().read_as(reading)

    def _shifted(self, shift: int) -> tuple[int, ...]:
        return tuple(layer + shift for layer in self._stated_taps) if not self.stated.reads_final_state else self._stated_taps


def load_eagle3(folder: Path, target: LoadedModel) -> Eagle3Model:
    """Returns the EAGLE-3 head in a folder.

    Raises:
        DraftlightError: a file is missing or damaged, or its tensors differ from those that its configuration requires.
    """
    described = read_json(folder / CONFIG)
    stated = read_eagle_config(described, folder)
    refuse_pytorch(folder)
    weights = weights_of(folder)
    arrays = {_renamed(name): array for name, array in load_arrays(folder, weights).items()}
    with explained(folder, WHAT):
        return _assembled(stated, arrays, tuple(weights), folder, described, target)


def _renamed(name: str) -> str:
    name = name.removeprefix("model.")
    return "layers.0." + name.removeprefix("midlayer.") if name.startswith("midlayer.") else name


def _assembled(
    stated: EagleConfig,
    arrays: dict[str, mx.array],
    files: tuple[Path, ...],
    folder: Path,
    described: Mapping[str, Any],
    target: LoadedModel,
) -> Eagle3Model:
    offsets, known = arrays.pop("d2t", None), arrays.pop("t2d", None)
    arrays = {name: array for name, array in arrays.items() if not name.startswith(_IGNORED)}
    arrays = in_running_type(arrays)
    shapes = {name: tuple(array.shape) for name, array in arrays.items()}
    if "fc.scales" in shapes:  # packed: its width follows from the groups
        group = int(table(described.get("quantization")).get("group_size") or 64)
        shapes["fc.weight"] = (shapes["fc.weight"][0], shapes["fc.scales"][-1] * group)
    width, layers = hidden_size_of(embedding_of(target.model)), layer_count(target.model)
    model = Eagle3Model(stated, _taps(stated, shapes, width, layers, folder), width, shapes)
    model.metadata.target_layers = layers
    assemble(model, arrays, folder, _shown)
    model.metadata.target_ids = _target_ids(stated, offsets, known, shapes, folder, target)
    model.metadata.files = files
    mx.eval(model.parameters())
    return model


def _shown(name: str) -> str:
    """Returns a parameter's name, with the authors' name of the first layer."""
    return name.replace("layers.0.", "midlayer (layers.0).")


def _taps(stated: EagleConfig, shapes: Shapes, width: int, layers: int, folder: Path) -> tuple[int, ...]:
    """Returns the tapped layers, as many as `fc` reads. Raises DraftlightError if they do not fit the target."""
    if stated.reads_final_state:
        return (layers - 1,)
    if "fc.weight" not in shapes:
        raise DraftlightError(f"{folder} is not an {WHAT} that Draftlight knows how to run: it lacks fc.weight.")
    columns = shapes["fc.weight"][-1]
    if columns % width:
        raise DraftlightError(
            f"This {WHAT} fuses {columns:,} numbers for each token, no multiple of the target's hidden size of {width:,}, so it "
            "was made for another target."
        )
    count = columns // width
    if not stated.taps and count != 3:
        raise DraftlightError(
            f"{folder} is not a usable {WHAT}: it reads {amount(count, 'layer')} of its target, and its config.json does not say "
            "which (eagle_aux_hidden_state_layer_ids)."
        )
    taps = stated.taps or default_taps(layers)
    if len(taps) != count:
        raise DraftlightError(
            f"{folder} is not a usable {WHAT}: its config.json names {amount(len(taps), 'layer')} of its target, and its "
            f"fc reads {count}. It may have been made for another target."
        )
    if stated.taps_as_outputs and max(taps) == layers:  # there is no such output, so the list counts inputs
        taps = tuple(layer - 1 for layer in taps)
    if min(taps) < -1 or max(taps) >= layers:
        raise DraftlightError(
            f"This {WHAT} reads the layers {', '.join(map(str, taps))} of its target, and this one has {layers}."
        )
    return taps


def _target_ids(
    stated: EagleConfig,
    offsets: mx.array | None,
    known: mx.array | None,
    shapes: Shapes,
    folder: Path,
    target: LoadedModel,
) -> mx.array | None:
    """Returns the target token of each column of the logits; None if columns are token ids."""
    tokens = len(target.vocabulary)
    columns = shapes["lm_head.weight"][0] if "lm_head.weight" in shapes else tokens
    if stated.draft_vocab_size not in (0, columns):
        raise DraftlightError(
            f"{folder} is not a usable {WHAT}: its config.json states a draft vocabulary of {stated.draft_vocab_size:,}, and its "
            f"output has {amount(columns, 'row')}."
        )
    if offsets is None:
        if columns < tokens and stated.draft_vocab_size:
            raise DraftlightError(
                f"{folder} is not a usable {WHAT}: it drafts {columns:,} of {amount(tokens, 'token')}, and d2t, which says which "
                "ones, is missing."
            )
        return None
    if offsets.shape != (columns,):
        raise DraftlightError(
            f"{folder} is not a usable {WHAT}: d2t names {amount(int(offsets.size), 'token')}, and its output has "
            f"{amount(columns, 'row')}."
        )
    ids = mx.arange(columns) + offsets
    listed = cast(list[int], ids.tolist())
    if listed == list(range(tokens)):
        return None
    if not are_distinct(listed, tokens, known):
        raise DraftlightError(
            f"{folder} is not a usable {WHAT}: d2t, which names the target's token of each row by its distance, does not name "
            f"distinct tokens of {target.name}, or other ones than t2d."
        )
    return ids.astype(mx.int32)
