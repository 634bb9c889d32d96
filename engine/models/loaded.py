"""A loaded model with its tokenizer and metadata."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import mlx.core as mx

from engine.files.hashes import files_sha256
from engine.models.tokenizer import Tokenizer
from engine.target.interface import TargetModel
from engine.types import Sampling


@dataclass(frozen=True)
class LoadedModel:
    """A model that is ready to run, with its tokenizer and metadata.

    Attributes:
        model: a callable with mlx-lm's interface, (tokens (batch, rows), cache=) -> logits (batch, rows, width).
        eos_ids: tokens that end an answer.
        vocabulary: bytes of every token id, None for ids without a token; as long as the logits are wide (for a trimmed head:
            as long as the target's vocabulary).
        context_length: maximum number of tokens that the model was made for, prompt included.
        name: shown to users. path: the file or folder.
        sampling: the publisher's recommended sampling settings, as far as the files state them.
        form: text that describes how the weights of a GGUF file are stored; empty for other files.
        target_ids: (K,) int32 for a trimmed head: the target token of each column of the logits; else None.
    """

    model: TargetModel = field(repr=False)
    tokenizer: Tokenizer = field(repr=False)
    eos_ids: frozenset[int]
    vocabulary: tuple[bytes | None, ...] = field(repr=False)
    context_length: int
    name: str
    path: str
    target_ids: mx.array | None = field(default=None, repr=False)
    weight_files: tuple[Path, ...] = field(default=(), repr=False)
    form: str = ""
    sampling: Sampling = ()

    @property
    def weights(self) -> Path:
        """The folder of the weights, or the GGUF file; of the base model if there is an adapter."""
        if not self.weight_files:
            return Path(self.path)
        first = self.weight_files[0]
        return first.parent if first.suffix == ".safetensors" else first

    @cached_property
    def sha256(self) -> str:
        """Digest of the weight files (see `engine.files.hashes`), computed at first use and recorded in the data folder."""
        return files_sha256(self.weight_files)
