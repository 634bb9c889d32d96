"""A block drafter: a few transformer layers that fill a whole block of masked slots in one pass.

The idea is DFlash's (Chen et al., arXiv 2602.06036). At all positions before the newest token, the outputs of some target
layers are fused into one row each. Every draft layer projects these rows to its own keys and values, next to those of the
block. The rows are thus injected into each layer and are never the input of one. The block is [newest token, mask, mask, ...];
its slots are at consecutive positions, starting with that of the newest token (the anchor).

Some files add parts: a Markov head, which adds to a slot's logits a bias that depends on the token before (DeepSpec); a
confidence head; DFlash 2's convolutions over the slots and its selector, which rescores the most likely candidates of a slot by
the token before.

A paired drafter (`BlockConfig.paired`) starts like a draft head (`engine.models.head_model`): the head's first step fills the
first slot. All other slots are filled from its output in one pass, as in P-EAGLE.

Embedding and output rows are the target's unless the file has its own. `engine.models.block_config` lists the file formats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten
from mlx_lm.models.rope_utils import initialize_rope

from engine.files.model_folder import CONFIG, read_json, weights_of
from engine.machine.host import computes_on_host
from engine.models.block_config import BlockConfig, read_block_config
from engine.models.drafter_model import (
    MISMATCH,
    DrafterModel,
    Metadata,
    are_distinct,
    explained,
    load_arrays,
    require_exactly,
    write_drafter,
)
from engine.models.loading import to_float32
from engine.target.layer_taps import dense, output_module_of
from engine.values.drafter_kinds import BLOCK_FOLDER
from engine.values.errors import DraftlightError
from engine.values.wording import amount, noun

if TYPE_CHECKING:
    from engine.models.loaded import LoadedModel

Attend = Callable[[mx.array, mx.array, mx.array], mx.array]
"""Attention of one layer, context included. Takes the block's queries (blocks, heads, slots, head size), and its keys and
values (blocks, kv heads, slots, head size); returns (blocks, heads, slots, head size)."""

BUILTIN_BLOCK = Path(__file__).resolve().parents[2] / "assets" / "drafters" / "smollm2-135m-block"
"""Folder of the block drafter trained for the built-in target; it continues from the built-in head."""


def _rows(layer: nn.Module, x: mx.array) -> mx.array:
    """Returns the layer's output for (blocks, slots, width) with one matrix product: MLX's CPU back-end would make one per
    block."""
    made: mx.array = layer(x.reshape(-1, x.shape[-1]))
    return made.reshape(*x.shape[:-1], -1)


class _Attention(nn.Module):
    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        hidden, size, bias = config.hidden_size, config.head_dim, config.attention_bias
        width = 2 * hidden if config.paired else hidden
        self.q_proj = nn.Linear(width, config.num_attention_heads * size, bias=bias)
        self.k_proj = nn.Linear(width, config.num_key_value_heads * size, bias=bias)
        self.v_proj = nn.Linear(width, config.num_key_value_heads * size, bias=bias)
        self.o_proj = nn.Linear(config.num_attention_heads * size, hidden, bias=bias)
        self.q_norm = nn.Identity() if config.paired else nn.RMSNorm(size, config.rms_norm_eps)
        self.k_norm = nn.Identity() if config.paired else nn.RMSNorm(size, config.rms_norm_eps)
        self._size = size
        self._rope = initialize_rope(
            size,
            config.rope_theta,
            config.rope_interleaved,
            cast(Any, config.rope_scaling),
            config.max_position_embeddings,
        )

    def _split(self, array: mx.array) -> mx.array:
        return array.reshape(*array.shape[:2], -1, self._size).swapaxes(1, 2)

    def keys_and_values(self, rows: mx.array, start: Any) -> tuple[mx.array, mx.array]:
        """Returns (blocks, kv heads, rows, head size) each, for rows (blocks, rows, width) from position `start` (int or
        (blocks,))."""
        keys = self._rope(self.k_norm(self._split(_rows(self.k_proj, rows))), offset=start)
        return keys, self._split(_rows(self.v_proj, rows))

    def __call__(self, x: mx.array, start: Any, attend: Attend) -> mx.array:
        queries = self._rope(self.q_norm(self._split(_rows(self.q_proj, x))), offset=start)
        attended = attend(queries, *self.keys_and_values(x, start))
        return _rows(self.o_proj, attended.swapaxes(1, 2).reshape(*x.shape[:2], -1))


ACTIVATIONS: dict[str, Callable[[mx.array], mx.array]] = {
    "silu": nn.silu,
    "gelu": nn.gelu,
    "gelu_tanh": nn.gelu_approx,
    "quick_gelu": nn.gelu_fast_approx,
    "relu": nn.relu,
    "relu2": nn.relu2,
}
"""Functions by `BlockConfig.activation`."""


class _FeedForward(nn.Module):
    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self._activation = ACTIVATIONS[config.activation]
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def __call__(self, x: mx.array) -> mx.array:
        return _rows(self.down_proj, self._activation(_rows(self.gate_proj, x)) * _rows(self.up_proj, x))


class _Convolution(nn.Module):
    """Causal depth-wise convolution over the slots (DFlash 2), before and after a sub-layer, with slot-dependent kernels."""

    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        hidden, self._kernel, self._group = config.hidden_size, config.conv_kernel_size, config.conv_group_size
        self._groups = hidden // self._group
        self.base_kernel = mx.zeros((2, self._kernel, hidden))
        self.kernel_projection = nn.Linear(hidden, 2 * self._kernel * self._groups, bias=False)

    def around(self, x: mx.array, sub_layer: Callable[[mx.array], mx.array]) -> mx.array:
        """Returns the sub-layer's output for normalised inputs (blocks, slots, hidden), convolved before and after."""
        dynamic = self.kernel_projection(x).reshape(*x.shape[:2], 2, self._kernel, self._groups)
        return self._convolved(sub_layer(self._convolved(x, dynamic, 0)), dynamic, 1)

    def _convolved(self, x: mx.array, dynamic: mx.array, which: int) -> mx.array:
        slots = x.shape[1]
        padded = mx.pad(x, [(0, 0), (self._kernel - 1, 0), (0, 0)])
        total = mx.zeros_like(x)
        for offset in range(self._kernel):
            first = self._kernel - 1 - offset
            taps = self.base_kernel[which, offset] + mx.repeat(dynamic[:, :, which, offset], self._group, axis=-1)
            total = total + taps * padded[:, first : first + slots]
        return total


class _Layer(nn.Module):
    def __init__(self, config: BlockConfig) -> None:
        super().__init__()
        self.self_attn = _Attention(config)
        self.mlp = _FeedForward(config)
        self.input_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        if config.conv_kernel_size:
            self.attention_conv = _Convolution(config)
            self.mlp_conv = _Convolution(config)

    def __call__(self, x: mx.array, beside: mx.array | None, start: Any, attend: Attend) -> mx.array:
        def attention(normed: mx.array) -> mx.array:
            """Returns the attention sub-layer's output for normalised inputs."""
            joined = normed if beside is None else mx.concatenate([normed, beside], axis=-1)
            return self.self_attn(joined, start, attend)

        normed = self.input_layernorm(x)
        x = x + (self.attention_conv.around(normed, attention) if "attention_conv" in self else attention(normed))
        normed = self.post_attention_layernorm(x)
        return x + (self.mlp_conv.around(normed, self.mlp) if "mlp_conv" in self else self.mlp(normed))


class _MarkovHead(nn.Module):
    """Logit bias that depends on the token before (DeepSpec); `kind` is plain, gated or rnn."""

    def __init__(self, hidden: int, rank: int, vocabulary: int, columns: int, kind: str) -> None:
        super().__init__()
        self.markov_w1 = nn.Embedding(vocabulary, rank)
        self.markov_w2 = nn.Linear(rank, columns, bias=False)
        self._kind, self.rank, self.columns = kind, rank, columns
        if kind == "gated":
            self.gate_proj = nn.Linear(hidden + rank, rank)
        elif kind == "rnn":
            self.joint_proj = nn.Linear(2 * rank + hidden, 3 * rank)

    def __call__(self, hidden: mx.array, before: mx.array, state: mx.array | None) -> tuple[mx.array, mx.array | None]:
        """Returns the logit bias (rows, columns) and the next state, from `hidden` (rows, hidden) and the tokens before
        (rows,)."""
        read, state = self.read(hidden, before, state)
        return self.markov_w2(read), state

    def read(self, hidden: mx.array, before: mx.array, state: mx.array | None) -> tuple[mx.array, mx.array | None]:
        """Returns the same (rows, rank) before the projection to columns, and the next state."""
        embedded = self.markov_w1(before)
        if self._kind == "gated":
            embedded = mx.sigmoid(self.gate_proj(mx.concatenate([hidden, embedded], axis=-1))) * embedded
        elif self._kind == "rnn":
            state = mx.zeros_like(embedded) if state is None else state
            joint = self.joint_proj(mx.concatenate([state, embedded, hidden], axis=-1))
            gate, candidate, output = mx.split(joint, 3, axis=-1)
            gate = mx.sigmoid(gate)
            state = gate * state + (1 - gate) * mx.tanh(candidate)
            embedded = mx.tanh(output)
        return embedded, state


class _ConfidenceHead(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.proj = nn.Linear(width, 1)


class _Selector(nn.Module):
    """Candidate selector of DFlash 2: rescores the most likely candidates of a slot by the token before."""

    def __init__(self, hidden: int, rank: int, vocabulary: int) -> None:
        super().__init__()
        self.predecessor_codebook = mx.zeros((vocabulary, rank))
        self.successor_codebook = mx.zeros((vocabulary, rank))
        self.hidden_projection = nn.Linear(hidden, rank, bias=False)

    def scores(self, logits: mx.array, candidates: mx.array, hidden: mx.array, before: mx.array) -> mx.array:
        """Returns scores (candidates,) from their logits, `hidden` (hidden,) and the token before (1,)."""
        weighed = self.predecessor_codebook[before[0]] * self.hidden_projection(hidden)
        return logits + (self.successor_codebook[candidates] * weighed).sum(axis=-1)


class _Metadata(Metadata):
    """Attributes that are not weights; `matrix`: the subset of the target's output rows that `bind` copied."""

    matrix: mx.array | None = None


class BlockModel(DrafterModel):
    """Weights of a block drafter, and all of its arithmetic except attention. Arrays are (blocks, slots, hidden) unless stated.

    Args:
        shapes: shapes of the file's arrays by name; they determine the optional parts. None for a model without optional parts.
    """

    def __init__(self, config: BlockConfig, shapes: Mapping[str, tuple[int, ...]] | None = None) -> None:
        super().__init__()
        self.config = config
        hidden, shapes = config.hidden_size, shapes or {}
        self.layers = [_Layer(config) for _ in range(config.num_hidden_layers)]
        self.fc = nn.Linear(len(config.taps) * hidden, hidden, bias=False)
        self.hidden_norm = nn.RMSNorm(hidden, config.rms_norm_eps)
        self.norm = nn.RMSNorm(hidden, config.rms_norm_eps)
        if config.paired:
            self.embedding_norm = nn.RMSNorm(hidden, config.rms_norm_eps)
            self.mask_norm = nn.RMSNorm(hidden, config.rms_norm_eps)
            self.mask_features = mx.zeros((config.block_size - 1, hidden))
            self.mask_embeddings = mx.zeros((config.block_size - 1, hidden))
        self.metadata: _Metadata = _Metadata()
        if "embed_tokens.weight" in shapes:
            self.embed_tokens = nn.Embedding(config.vocab_size, hidden)
        columns = shapes.get("lm_head.weight", shapes.get("markov_head.markov_w2.weight", (config.vocab_size,)))[0]
        if "lm_head.weight" in shapes:
            self.lm_head = nn.Linear(hidden, columns, bias=False)
        markov = [name.removeprefix("markov_head.") for name in shapes if name.startswith("markov_head.")]
        if markov or config.markov_rank:
            found = "rnn" if "joint_proj.weight" in markov else "gated" if "gate_proj.weight" in markov else "plain"
            rank = _rank(shapes, "markov_head.markov_w1") or config.markov_rank
            self.markov_head = _MarkovHead(hidden, rank, config.vocab_size, columns, config.markov_kind or found)
        if config.has_confidence_head or any(name.startswith("confidence_head.") for name in shapes):
            self.confidence_head = _ConfidenceHead(_rank(shapes, "confidence_head.proj") or hidden)
        if config.selector_top_k or any(name.startswith("candidate_selector.") for name in shapes):
            rank = _rank(shapes, "candidate_selector.predecessor_codebook")
            self.candidate_selector = _Selector(hidden, rank, config.vocab_size)

    # Properties

    @property
    def confidence_widths(self) -> tuple[int, ...]:
        """Input widths that a confidence head may have: a slot's output, alone or with the Markov embedding of the token
        before."""
        hidden = self.config.hidden_size
        return (hidden, hidden + self.markov_head.rank) if "markov_head" in self else (hidden,)

    @property
    def has_independent_slots(self) -> bool:
        """Whether the logits of a slot do not depend on the token drawn before it."""
        return not any(name in self for name in ("markov_head", "candidate_selector", "confidence_head"))

    @property
    def first_markov_slot(self) -> int:
        """First slot that the Markov head applies to. In a paired block the first slot has already read the token before it."""
        return int(self.config.paired)

    @property
    def output_rows(self) -> mx.array:
        """(columns, hidden): the drafter's own rows, or the subset of the target's rows that `bind` copied."""
        rows = self.lm_head.weight if "lm_head" in self else self.metadata.matrix
        assert rows is not None, "the block drafter is bound to its target"
        return rows

    def require_target(self, target: LoadedModel) -> None:
        """Raises DraftlightError if the drafter may not draft for this target."""
        if reason := block_reason(self.config, target):
            raise DraftlightError(reason)

    def bind(self, target: Any) -> None:
        """Takes the target's embedding and output rows where the file has none of its own.

        Raises:
            DraftlightError: they cannot be found in the target, or have another width.
        """
        self.take_embedding(target, "block drafter", self.config.hidden_size)
        rows = int(self.metadata.embedding.weight.shape[0])
        if self.config.mask_token_id >= rows:
            raise DraftlightError(
                f"This block drafter fills its block with token {self.config.mask_token_id}, but the target has "
                f"{rows:,} {noun(rows, 'token')}, "
                "so it was made for another target."
            )
        self._require_columns(target)
        if "lm_head" in self:
            self.metadata.rows = self.lm_head
        elif self.target_ids is None:
            self.take_output_rows(target)
        else:
            head = dense(output_module_of(target), self.target_ids)
            head = head.astype(self.norm.weight.dtype)
            mx.eval(head)
            self.metadata.matrix = head
            self.metadata.rows = lambda hidden: hidden @ head.T

    def _require_columns(self, target: Any) -> None:
        """Raises DraftlightError unless the columns are tokens of the target and match the width of the drafter's own parts."""
        tokens = int(output_module_of(target).weight.shape[0])
        width = tokens if self.target_ids is None else cast(int, self.target_ids.max().item()) + 1
        own = self.markov_head.columns if "markov_head" in self and "lm_head" not in self and self.target_ids is None else tokens
        if width > tokens or own != tokens:
            raise DraftlightError(
                f"This block drafter was made for a target with {max(width, own):,} {noun(max(width, own), 'token')}, "
                f"and this one has {tokens:,}. Choose "
                "the drafter that was trained for it, or ngram."
            )

    # Computation

    def fuse(self, features: mx.array) -> mx.array:
        """Returns the rows (rows, hidden) that are cached, fused from the tapped outputs (rows, taps x hidden)."""
        fused: mx.array = self.fc(features.astype(self.hidden_norm.weight.dtype))
        return fused if self.config.paired else self._normed(fused)

    def _normed(self, fused: mx.array) -> mx.array:
        return self.hidden_norm(fused)

    def context(self, fused: mx.array, after: mx.array) -> mx.array:
        """Returns the rows (rows, width) that keys and values are made of, from `fuse` and the token after each row (rows,)."""
        return mx.concatenate([self._normed(fused), self._embedded(after)], axis=-1) if self.config.paired else fused

    def _embedded(self, tokens: mx.array) -> mx.array:
        embedded: mx.array = self.metadata.embedding(tokens).astype(self.norm.weight.dtype)
        if self.config.embedding_scale != 1:
            embedded = embedded * self.config.embedding_scale
        return self.embedding_norm(embedded) if self.config.paired else embedded

    def slot_outputs(
        self, tokens: mx.array, newest: mx.array, slots: int, start: Any, attend: Callable[[int], Attend]
    ) -> mx.array:
        """Returns the normalised output of the last layer for every slot.

        Args:
            tokens: (blocks,) the anchors. newest: (blocks, hidden) output of `fuse` for the row before each anchor.
            start: position of the anchors, an int or (blocks,). attend: attention by layer index.
        """
        if self.config.paired:
            return self._paired_slot_outputs(self._embedded(tokens)[:, None], newest[:, None], slots, start, attend)
        masks = mx.full((tokens.shape[0], slots - 1), self.config.mask_token_id, dtype=mx.int32)
        x = self._embedded(mx.concatenate([tokens[:, None].astype(mx.int32), masks], axis=1))
        for index, layer in enumerate(self.layers):
            x = layer(x, None, start, attend(index))
        return self.norm(x)

    def slot_range(self, layer: int, anchor: Any, slots: int) -> tuple[Any, int]:
        """Returns the slots that a layer fills: the position of the first, which equals the number of context rows they attend
        to, and their number. `anchor`: position of the anchor, a number or an array."""
        if not self.config.paired:
            return anchor, slots
        return (anchor, slots - 1) if layer else (anchor - 1, 1)

    def _paired_slot_outputs(
        self, tokens: mx.array, newest: mx.array, slots: int, anchor: Any, attend: Callable[[int], Attend]
    ) -> mx.array:
        first = self.layers[0](newest, tokens, anchor - 1, attend(0))
        normed: mx.array = self.norm(first)
        if slots == 1:
            return normed
        x = first + self.mask_features[: slots - 1]
        beside = mx.broadcast_to(self.mask_embeddings[: slots - 1], x.shape)
        for index, layer in enumerate(self.layers[1:], start=1):
            x = layer(x, beside, anchor, attend(index))
        return mx.concatenate([normed, self.mask_norm(x)], axis=1)

    def logits(self, hidden: mx.array) -> mx.array:
        """Returns (..., columns) for normalised outputs (..., hidden), before Markov head and selector."""
        logits: mx.array = self.metadata.rows(hidden)
        config = self.config
        if config.logit_scale != 1:
            logits = logits * config.logit_scale
        return mx.tanh(logits / config.logit_cap) * config.logit_cap if config.logit_cap else logits

    def slot_logits(
        self, slot: int, logits: mx.array, hidden: mx.array, before: mx.array, state: mx.array | None
    ) -> tuple[mx.array, mx.array | None, mx.array | None]:
        """Returns the final logits of one slot. Slots are walked from left to right.

        Args:
            slot: index of the slot. logits: (columns,) and hidden: (hidden,), from `logits` and `slot_outputs`.
            before: (1,) the token before the predicted one.
            state: the state returned for the previous slot; None for the first.

        Returns:
            Logits (columns,), the target ids of the columns (None if columns are token ids), and the state for the next slot.
        """
        columns = self.target_ids
        if "markov_head" in self and slot >= self.first_markov_slot:
            bias, state = self.markov_head(hidden[None], before, state)
            logits = logits + bias[0]
        if "candidate_selector" in self:
            top = min(self.config.selector_top_k, logits.shape[-1])
            chosen = mx.argpartition(logits, kth=-top)[-top:]
            ids = chosen if columns is None else columns[chosen]
            logits, columns = self.candidate_selector.scores(logits[chosen], ids, hidden, before), ids.astype(mx.int32)
        return logits, columns, state

    def is_confident(self, hidden: mx.array, before: mx.array) -> bool:
        """Returns whether the confidence head accepts this slot (arguments as for `slot_logits`); True without such a head."""
        if "confidence_head" not in self:
            return True
        proj = self.confidence_head.proj
        if proj.weight.shape[-1] != hidden.shape[-1]:
            hidden = mx.concatenate([hidden, self.markov_head.markov_w1(before)[0]])
        return cast(float, mx.sigmoid(proj(hidden)).item()) >= self.config.confidence_threshold


def _rank(shapes: Mapping[str, tuple[int, ...]], name: str) -> int:
    """Returns the width of a matrix."""
    shape = shapes.get(name) or shapes.get(f"{name}.weight") or (0, 0)
    return shape[-1]


def block_reason(config: BlockConfig, target: LoadedModel) -> str | None:
    """Returns why a block drafter cannot draft for a target, as sentences; None if it can."""
    if config.target_sha256 and config.target_sha256 != target.sha256:
        return (
            f"This block drafter was not trained for {target.name}. It reads its target's features, so it works with that target "
            "only. Train one with draftlight train-drafter --kind block, or choose ngram."
        )
    tokens = max((token + 1 for token, entry in enumerate(target.vocabulary) if entry is not None), default=0)
    if tokens > config.vocab_size:
        return (
            f"This block drafter was made for a target with {config.vocab_size:,} "
            f"{noun(config.vocab_size, 'token')}, and {target.name} has {tokens:,}. "
            "Choose the drafter that was trained for it, or ngram."
        )
    return None


def save_block(model: BlockModel, folder: Path, config: Mapping[str, Any], card: str) -> None:
    """Writes a drafter in Draftlight's own packaging, with its card and float16 weights. Raises DraftlightError as
    `write_drafter`."""
    arrays = {name: array.astype(mx.float16) for name, array in dict(tree_flatten(model.parameters())).items()}
    if model.target_ids is not None:
        arrays["target_ids"] = model.target_ids.astype(mx.int32)
    write_drafter(folder, arrays, config, card)


def load_block(folder: Path, half: mx.Dtype = mx.bfloat16) -> BlockModel:
    """Returns a block drafter of any packaging that `engine.models.block_config` supports. On the CPU its weights are float32.
    On a GPU quantised weights stay as stored, and others become `half`.

    Raises:
        DraftlightError: a file is missing or damaged, or its arrays differ from those that its configuration requires.
    """
    described = read_json(folder / CONFIG)
    config = read_block_config(described, folder)
    weights = weights_of(folder)
    arrays = load_arrays(folder, weights)
    with explained(folder, "block drafter", MISMATCH):
        return _assembled(config, described.get("quantization"), arrays, tuple(weights), folder, half)


def _assembled(
    config: BlockConfig,
    quantised: Any,
    arrays: dict[str, mx.array],
    files: tuple[Path, ...],
    folder: Path,
    half: mx.Dtype,
) -> BlockModel:
    arrays = {name.removeprefix("model."): array for name, array in arrays.items()}
    offsets, known = arrays.pop("d2t", None), arrays.pop("t2d", None)
    target_ids = arrays.pop("target_ids", None)
    if offsets is not None:
        target_ids = mx.arange(offsets.shape[0]) + offsets
    model = BlockModel(config, _shapes(arrays, quantised))
    if quantised is not None:
        nn.quantize(
            model,
            group_size=int(quantised["group_size"]),
            bits=int(quantised["bits"]),
            mode=quantised.get("mode", "affine"),
            class_predicate=lambda path, module: hasattr(module, "to_quantized") and f"{path}.scales" in arrays,
        )
    require_exactly(dict(tree_flatten(model.parameters())), arrays, folder, "a block drafter")
    if "candidate_selector" in model and not config.selector_top_k:
        raise DraftlightError(f"{folder} is not a usable block drafter: its config.json has no selector_top_k.")
    if target_ids is None and (columns := config.draft_vocab_size) not in (0, config.vocab_size):
        raise DraftlightError(
            f"{folder} is not a usable block drafter: it drafts {columns:,} of {amount(config.vocab_size, 'token')}, "
            "and d2t, which says which ones, is missing."
        )
    if "confidence_head" in model and model.confidence_head.width not in model.confidence_widths:
        raise DraftlightError(
            f"{folder} is not a block drafter that Draftlight knows how to run: its confidence head reads something else."
        )
    model.load_weights(list(arrays.items()))
    if target_ids is not None:
        model.metadata.target_ids = target_ids.astype(mx.int32)
        _require_vocabulary(model, known, folder)
    model.metadata.files = files
    if computes_on_host():
        to_float32(model)
    elif quantised is None:
        model.set_dtype(half)
    mx.eval(model.parameters())
    model.eval()
    return model


def _shapes(arrays: Mapping[str, mx.array], quantised: Any) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the arrays; for quantised ones, the shapes before quantisation."""
    shapes = {name: tuple(array.shape) for name, array in arrays.items()}
    for name in list(shapes):
        scales = shapes.get(name.removesuffix("weight") + "scales") if name.endswith(".weight") else None
        if scales is not None and quantised is not None:
            shapes[name] = (*scales[:-1], scales[-1] * int(quantised["group_size"]))
    return shapes


def _require_vocabulary(model: BlockModel, known: mx.array | None, folder: Path) -> None:
    """Raises DraftlightError unless the draft vocabulary names one distinct target token for each column."""
    ids = cast(list[int], cast(mx.array, model.target_ids).tolist())
    columns = next((rows.weight.shape[0] for name, rows in model.items() if name == "lm_head"), len(ids))
    if len(ids) != columns or not are_distinct(ids, model.config.vocab_size, known):
        raise DraftlightError(f"{folder} is not a usable block drafter: its table of draft tokens does not fit its vocabulary.")


def config_to_write(config: BlockConfig) -> dict[str, Any]:
    """Returns the config.json of Draftlight's own packaging: the fields of DFlash, and those that only `BlockConfig` has."""
    inside = {
        "mask_token_id": config.mask_token_id,
        "target_layer_ids": list(config.taps),
        "block_size": config.block_size,
        "output_multiplier": config.logit_scale,
    }
    same = (
        "target_sha256", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "head_dim", "rms_norm_eps", "vocab_size", "max_position_embeddings", "rope_theta",
    )  # fmt: skip
    stated = {name: value for name, value in asdict(config).items() if name in same}
    if config.paired:
        stated["paired"] = True
    return {"model_type": BLOCK_FOLDER, **stated, "is_causal": config.causal[0], "dflash_config": inside}
