"""Draft models cut from a target: a few of its layers, a trimmed head, and the target's own token embedding.

A folder holds

- `config.json`: {"model_type": "draftlight_cut", "target_sha256": digest of the target's file, and the llama fields
  hidden_size, num_hidden_layers, intermediate_size, num_attention_heads, num_key_value_heads, rope_theta, rms_norm_eps,
  vocab_size (rows of the shared embedding), max_position_embeddings};
- `model.safetensors` (float16): `layers.{i}.…` in mlx-lm's llama naming (`layers.0.self_attn.q_proj.weight`), `norm.weight`,
  `head.weight` (K, hidden), `target_ids` int32 (K,): column j of the logits belongs to target token target_ids[j];
- `MODEL_CARD.md`.

The embedding is not in the folder: the target's is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.models.llama import LlamaModel, ModelArgs

from engine.files.safetensors_header import check_safetensors
from engine.models.drafter_model import MISMATCH, explained, load_arrays


class TrimmedModel(nn.Module):
    """Callable like any mlx-lm model: tokens (batch, rows) int -> logits (batch, rows, K)."""

    def __init__(self, config: dict[str, Any], head_size: int) -> None:
        super().__init__()
        self.args = ModelArgs.from_dict({**config, "model_type": "llama"})
        self.model = LlamaModel(self.args)
        self.head = nn.Linear(self.args.hidden_size, head_size, bias=False)

    def __call__(
        self, inputs: mx.array, cache: Sequence[Any] | None = None, input_embeddings: mx.array | None = None
    ) -> mx.array:
        return self.head(self.model(inputs, cache, input_embeddings))

    @property
    def layers(self) -> list[nn.Module]:
        """The transformer layers, under the name that mlx-lm expects when it creates a cache."""
        return self.model.layers


def load_trimmed(folder: Path, config: dict[str, Any], embedding: nn.Module) -> tuple[TrimmedModel, mx.array]:
    """Loads the draft model with `embedding` as its token embedding.

    Returns:
        The model and its `target_ids` (K,) int32, both lazy (nothing is evaluated).

    Raises:
        DraftlightError: a file is missing or damaged, or the weights do not fit the configuration.
    """
    path = folder / "model.safetensors"
    weights = load_arrays(path, {path: check_safetensors(path)})
    with explained(folder, "draft model", MISMATCH):
        target_ids = weights.pop("target_ids").astype(mx.int32)
        model = TrimmedModel(config, len(target_ids))
        model.model.embed_tokens = embedding
        own = [("head.weight", weights.pop("head.weight"))] + [(f"model.{name}", array) for name, array in weights.items()]
        shared = [(f"model.embed_tokens.{name}", array) for name, array in embedding.items() if isinstance(array, mx.array)]
        model.load_weights(own + shared)
    model.eval()
    return model, target_ids
