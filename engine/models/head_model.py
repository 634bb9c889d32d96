"""A draft head: one transformer layer on the target's features, run autoregressively on its own output.

The idea is EAGLE's (Li et al., 2024; its third version, 2025, for several tapped layers and training on own features). At
position t the head reads the outputs of a few target layers, fused into one vector, and the embedding of token t + 1. It
predicts token t + 2, and outputs a feature that replaces that of position t + 1 in the next step.

A folder contains

- `config.json`: {"model_type": "draftlight_head", "target_sha256": digest of the target's weights, "taps": [layer, ...] counted
  from 0, and hidden_size, intermediate_size, num_attention_heads, num_key_value_heads, rope_theta, rms_norm_eps, vocab_size
  (rows of the target's embedding), max_position_embeddings};
- `model.safetensors` (float16): `fc` (hidden, taps x hidden), `feature_norm`, `embedding_norm`, `mlp_norm`, `norm` (hidden,),
  `qkv` ((heads + 2 kv heads) x head size, 2 hidden), `output` (hidden, heads x head size), `gate_up` (2 x intermediate, hidden),
  `down` (hidden, intermediate), `head` (K, hidden), `target_ids` int32 (K,): column j of the logits means target_ids[j];
- `MODEL_CARD.md`.

The embedding is not in the folder: the target's is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import mlx.core as mx
import mlx.nn as nn
from mlx.utils import tree_flatten

from engine.files.model_folder import CONFIG, read_json
from engine.files.safetensors_header import check_safetensors
from engine.machine.host import computes_on_host
from engine.models.drafter_model import MISMATCH, DrafterModel, explained, load_arrays, write_drafter
from engine.target.layer_taps import embedding_of
from engine.target.tree_pass import TreeRows
from engine.values.drafter_kinds import HEAD_FOLDER
from engine.values.errors import DraftlightError

if TYPE_CHECKING:
    from engine.models.loaded import LoadedModel

BUILTIN_HEAD = Path(__file__).resolve().parents[2] / "assets" / "drafters" / "smollm2-135m-head"
"""The head trained for the built-in target."""


_NOT_COMPUTED = (
    "rope_scaling",
    "rope_parameters",
    "sliding_window",
    "attention_bias",
    "mlp_bias",
    "final_logit_softcapping",
    "quantization",
)
"""Settings that a head's layer does not support; a head that states one of them was made for another program."""


@dataclass(frozen=True)
class HeadConfig:
    """The shapes of a head; the names are those of `config.json`.

    Attributes:
        taps: target layers whose outputs are fused, counted from 0, in the order of `fc`'s columns.
        target_sha256: digest of the weights of the target it was trained for; empty if it fits any target.
    """

    target_sha256: str
    taps: tuple[int, ...]
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    rope_theta: float
    rms_norm_eps: float
    vocab_size: int
    max_position_embeddings: int

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads


class HeadModel(DrafterModel):
    """Weights of a draft head and the arithmetic of its layer, except attention. Arrays are (batch, rows, hidden) unless
    stated."""

    def __init__(self, config: HeadConfig, columns: int) -> None:
        super().__init__()
        self.config = config
        hidden, size = config.hidden_size, config.head_size
        self.fc = nn.Linear(len(config.taps) * hidden, hidden, bias=False)
        self.feature_norm = nn.RMSNorm(hidden, config.rms_norm_eps)
        self.embedding_norm = nn.RMSNorm(hidden, config.rms_norm_eps)
        self.qkv = nn.Linear(2 * hidden, (config.num_attention_heads + 2 * config.num_key_value_heads) * size, bias=False)
        self.output = nn.Linear(config.num_attention_heads * size, hidden, bias=False)
        self.mlp_norm = nn.RMSNorm(hidden, config.rms_norm_eps)
        self.gate_up = nn.Linear(hidden, 2 * config.intermediate_size, bias=False)
        self.down = nn.Linear(config.intermediate_size, hidden, bias=False)
        self.norm = nn.RMSNorm(hidden, config.rms_norm_eps)
        self.head = nn.Linear(hidden, columns, bias=False)

    @property
    def target_ids(self) -> mx.array:
        """(columns,) int32: the target token of each column of the logits."""
        return cast(mx.array, self.metadata.target_ids)

    def require_target(self, target: LoadedModel) -> None:
        """Raises DraftlightError unless the head was trained for this target."""
        if reason := head_reason(self.config.target_sha256, target):
            raise DraftlightError(reason)

    @property
    def cache_count(self) -> int:
        """As in `engine.drafters.feature_head.RowModel`."""
        return 1

    @property
    def max_proposals(self) -> int:
        """As in `RowModel`: its chain has no limit of its own."""
        return self.config.max_position_embeddings

    def bind(self, target: Any) -> None:
        """Takes the target's token embedding. Raises DraftlightError if it cannot be found."""
        self.metadata.embedding = embedding_of(target)

    def advance(self, features: mx.array, tokens: mx.array, caches: Sequence[Any], rows: TreeRows | None = None) -> mx.array:
        """As in `RowModel`."""
        (cache,) = caches
        offset = int(cache.offset)
        positions: int | mx.array = offset
        mask: str | mx.array | None = "causal" if features.shape[0] > 1 else None
        if rows is not None:
            positions, mask = mx.array(offset - rows.held + rows.depths[rows.held :], mx.int32), rows.mask(offset - rows.held)
        embedded = self.metadata.embedding(tokens).astype(features.dtype)
        queries, keys, values = self.project(features[None], embedded[None], positions)
        keys, values = cache.update_and_fetch(keys, values)
        attended = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=self.config.head_size**-0.5, mask=mask)
        return self.layer_output(features[None], attended)[0]

    def fuse(self, features: mx.array) -> mx.array:
        """Returns (rows, hidden), fused from the tapped outputs (rows, taps x hidden)."""
        return self.fc(features.astype(self.fc.weight.dtype))

    def project(self, feature: mx.array, embedding: mx.array, offset: int | mx.array) -> tuple[mx.array, mx.array, mx.array]:
        """Returns queries (batch, heads, rows, head size), keys and values (batch, kv heads, rows, head size), with rotary
        embeddings for positions from `offset` on, or for the (rows,) positions of one sequence."""
        config = self.config
        joined = mx.concatenate([self.feature_norm(feature), self.embedding_norm(embedding)], axis=-1)
        batch, rows, _ = joined.shape
        heads, kv_heads, size = config.num_attention_heads, config.num_key_value_heads, config.head_size
        split = self.qkv(joined).reshape(batch, rows, heads + 2 * kv_heads, size).transpose(0, 2, 1, 3)
        queries, keys, values = mx.split(split, [heads, heads + kv_heads], axis=1)
        return self._rotate(queries, offset), self._rotate(keys, offset), values

    def _rotate(self, array: mx.array, offset: int | mx.array) -> mx.array:
        if isinstance(offset, mx.array):  # one position a row: as many sequences of one row
            return self._rotated(array.transpose(2, 1, 0, 3), offset).transpose(2, 1, 0, 3)
        return self._rotated(array, offset)

    def _rotated(self, array: mx.array, offset: int | mx.array) -> mx.array:
        return mx.fast.rope(
            array, self.config.head_size, traditional=False, base=self.config.rope_theta, scale=1.0, offset=offset
        )

    def layer_output(self, feature: mx.array, attended: mx.array) -> mx.array:
        """Returns the layer's output, from the feature that it read and the attention output (batch, heads, rows, head
        size)."""
        batch, _, rows, _ = attended.shape
        feature = feature + self.output(attended.transpose(0, 2, 1, 3).reshape(batch, rows, -1))
        gate, up = mx.split(self.gate_up(self.mlp_norm(feature)), 2, axis=-1)
        return feature + self.down(nn.silu(gate) * up)

    def logits(self, feature: mx.array) -> mx.array:
        """Returns (..., columns) for the layer's output (..., hidden)."""
        return self.head(self.norm(feature))


def _require_plain(config: Mapping[str, Any], folder: Path) -> None:
    """Raises DraftlightError if the configuration states a setting that the layer does not compute."""
    for name in _NOT_COMPUTED:
        if config.get(name):
            raise DraftlightError(
                f"{folder} is not a usable draft head: its config.json states {name}, which a head does not have."
            )
    activation, heads, hidden = config.get("hidden_act", "silu"), config["num_attention_heads"], config["hidden_size"]
    if activation not in ("silu", "swish"):
        raise DraftlightError(f"{folder} is not a usable draft head: its hidden_act is {activation!r}, and a head has silu.")
    if config.get("head_dim") not in (None, hidden // heads):
        raise DraftlightError(
            f"{folder} is not a usable draft head: its head_dim is {config['head_dim']!r}, and {heads} heads share {hidden}."
        )


def head_reason(sha256: str, target: LoadedModel) -> str | None:
    """Returns why a head trained for the target of this digest cannot draft for `target`, as sentences; None if it can."""
    if not sha256 or target.sha256 == sha256:
        return None
    return (
        f"This head was not trained for {target.name}. A head reads its target's features, so it works with that "
        "target only. Train one with draftlight train-drafter, or choose ngram."
    )


def save_head(head: HeadModel, folder: Path, card: str) -> None:
    """Writes a head and its model card, with float16 weights. Raises DraftlightError as `write_drafter`."""
    weights = dict(tree_flatten(head.trainable_parameters()))
    arrays = {name.removesuffix(".weight"): array.astype(mx.float16) for name, array in weights.items()}
    arrays["target_ids"] = head.target_ids.astype(mx.int32)
    write_drafter(folder, arrays, {"model_type": HEAD_FOLDER, **asdict(head.config)}, card)


def load_head(folder: Path, half: mx.Dtype = mx.bfloat16) -> HeadModel:
    """Returns a head: in float32 on the CPU, in `half` on a GPU. bfloat16 has the range for every target's features.

    Raises:
        DraftlightError: a file is missing or damaged, or the weights do not fit the configuration.
    """
    config = read_json(folder / CONFIG)
    if config.get("model_type") != HEAD_FOLDER:
        raise DraftlightError(f"{folder} is not a draft head: its config.json gives the model type {config.get('model_type')!r}.")
    path = folder / "model.safetensors"
    weights = load_arrays(path, {path: check_safetensors(path)})
    with explained(folder, "draft head", MISMATCH):
        _require_plain(config, folder)
        named = {field.name: config[field.name] for field in fields(HeadConfig)}
        target_ids = weights.pop("target_ids").astype(mx.int32)
        head = HeadModel(HeadConfig(**{**named, "taps": tuple(named["taps"])}), len(target_ids))
        head.load_weights([(f"{name}.weight", array) for name, array in weights.items()])
        head.metadata.target_ids = target_ids
        head.metadata.files = (path,)
        head.set_dtype(mx.float32 if computes_on_host() else half)
        mx.eval(head.parameters(), target_ids)
    head.eval()
    return head
