"""Writes tiny checkpoint folders: config.json, safetensors files as published, and a tokenizer of one hundred tokens.

Nothing but NumPy, `safetensors` and `tokenizers` is needed, because the scripts under `tests/references` write the same folders.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<unk>"]
CHARACTERS = ["Ġ", *map(chr, range(33, 127)), "Ċ"]
"""Byte-level names of ASCII's printable characters and of the line feed."""
VOCABULARY = len(SPECIAL) + len(CHARACTERS)
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
PUBLISHED = {"format": "pt"}
"""Metadata of the safetensors files of Hugging Face checkpoints."""
CONVERTED = {"format": "mlx"}
"""Metadata of the safetensors files that MLX's converters write."""


def tokenizer() -> Tokenizer:
    """Returns a byte-level tokenizer of single characters; it knows ASCII only."""
    vocabulary = {token: index for index, token in enumerate(SPECIAL + CHARACTERS)}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIAL])
    return made


def write_description(folder: Path, config: Mapping[str, Any], tokens: bool = True) -> None:
    """Writes config.json and, unless `tokens` is False as in many drafter repositories, the tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    if not tokens:
        return
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "chat_template": TEMPLATE, "eos_token": "<|im_end|>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer().save((folder / "tokenizer.json").as_posix())


def write_tensors(path: Path, made: Mapping[str, np.ndarray], metadata: Mapping[str, str] = PUBLISHED) -> None:
    """Writes a safetensors file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(dict(made), path, dict(metadata))
