"""Tiny llama models in files, for tests of loading: the same random weights as a GGUF file and as an mlx-lm folder.

The `gguf` package writes and dequantises; nothing here uses the code under test.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import mlx.nn as nn
import numpy as np
from gguf.quants import dequantize, quantize
from mlx_lm.utils import save_model
from safetensors.numpy import save_file
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

HIDDEN, HEADS, KEY_VALUE_HEADS, LAYERS, FEED_FORWARD, CONTEXT = 64, 4, 2, 2, 96, 128
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "l d", "Ġwor ld", "Ġ Ġ", "Ã ©", "a b"]
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
KINDS = ("F32", "F16", "Q4_0", "Q4_1", "Q8_0")


def tokens() -> list[str]:
    """Special tokens, the 256 byte characters, then what the merges make."""
    return SPECIAL + sorted(pre_tokenizers.ByteLevel.alphabet()) + [merge.replace(" ", "") for merge in MERGES]


VOCABULARY = len(tokens())


def weights(seed: int = 0, vocabulary: int = VOCABULARY) -> dict[str, np.ndarray]:
    """Random float32 weights by their Hugging Face names, scaled so that logits are of order one."""
    generator = np.random.default_rng(seed)
    head = HIDDEN // HEADS

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (generator.standard_normal((rows, columns)) / np.sqrt(columns)).astype(np.float32)

    made = {"model.embed_tokens.weight": matrix(vocabulary, HIDDEN) * 4, "model.norm.weight": _norm(generator)}
    for layer in range(LAYERS):
        name = f"model.layers.{layer}"
        made |= {
            f"{name}.input_layernorm.weight": _norm(generator),
            f"{name}.self_attn.q_proj.weight": matrix(HEADS * head, HIDDEN) * 2,
            f"{name}.self_attn.k_proj.weight": matrix(KEY_VALUE_HEADS * head, HIDDEN) * 2,
            f"{name}.self_attn.v_proj.weight": matrix(KEY_VALUE_HEADS * head, HIDDEN),
            f"{name}.self_attn.o_proj.weight": matrix(HIDDEN, HEADS * head),
            f"{name}.post_attention_layernorm.weight": _norm(generator),
            f"{name}.mlp.gate_proj.weight": matrix(FEED_FORWARD, HIDDEN),
            f"{name}.mlp.up_proj.weight": matrix(FEED_FORWARD, HIDDEN),
            f"{name}.mlp.down_proj.weight": matrix(HIDDEN, FEED_FORWARD),
        }
    return made


def _norm(generator: np.random.Generator) -> np.ndarray:
    return (1 + 0.1 * generator.standard_normal(HIDDEN)).astype(np.float32)


def through(kind: str, made: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The weights as they are after quantising to `kind` and back, by the `gguf` package. Norms stay float32."""
    number = gguf.GGMLQuantizationType[kind]
    return {
        name: array if array.ndim == 1 else dequantize(quantize(array, number), number).reshape(array.shape).astype(np.float32)
        for name, array in made.items()
    }


_GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def _gguf_name(name: str) -> str:
    stem = name.removesuffix(".weight")
    if not stem.startswith("model.layers."):
        return f"{_GGUF_NAMES[stem]}.weight"
    layer, part = stem.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{_GGUF_NAMES[part]}.weight"


def _interleaved(name: str, array: np.ndarray) -> np.ndarray:
    """Query and key rows in llama.cpp's order: (head, half, pair) becomes (head, pair, half)."""
    heads = HEADS if "q_proj" in name else KEY_VALUE_HEADS if "k_proj" in name else 0
    if not heads:
        return array
    return np.ascontiguousarray(array.reshape(heads, 2, -1, array.shape[1]).swapaxes(1, 2).reshape(array.shape))


def metadata() -> dict[str, Any]:
    """What a complete file says about itself."""
    return {
        "llama.block_count": LAYERS,
        "llama.context_length": CONTEXT,
        "llama.embedding_length": HIDDEN,
        "llama.feed_forward_length": FEED_FORWARD,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KEY_VALUE_HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 10000.0,
        "llama.rope.dimension_count": HIDDEN // HEADS,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens(),
        "tokenizer.ggml.token_type": [3 if token in SPECIAL else 1 for token in tokens()],
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.chat_template": TEMPLATE,
    }


def write_gguf(
    path: Path,
    kind: str = "F32",
    made: dict[str, np.ndarray] | None = None,
    architecture: str = "llama",
    extra: dict[str, np.ndarray] | None = None,
    **changes: Any,
) -> Path:
    """A GGUF file of `made`, its matrices quantised to `kind`.

    `changes` replace metadata, with "__" for "." in keys; None leaves the entry out. `extra` tensors are stored as they are.
    """
    writer = gguf.GGUFWriter(path, architecture)
    entries = metadata() | {key.replace("__", "."): value for key, value in changes.items()}
    for key, value in entries.items():
        say(writer, key, value)
    for name, array in (weights() if made is None else made).items():
        number = gguf.GGMLQuantizationType["F32" if array.ndim == 1 else kind]
        writer.add_tensor(_gguf_name(name), quantize(_interleaved(name, array), number), raw_dtype=number)
    for name, array in (extra or {}).items():
        writer.add_tensor(name, array)
    finish(writer)
    return path


def say(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    """Adds an entry of metadata, of the type that its value has; None adds nothing."""
    match value:
        case None:
            return
        case bool():
            writer.add_bool(key, value)
        case str():
            writer.add_string(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case _:
            writer.add_array(key, value)


def finish(writer: gguf.GGUFWriter) -> None:
    """Writes everything that was added."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def config() -> dict[str, Any]:
    """mlx-lm's configuration of the same model."""
    return {
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "intermediate_size": FEED_FORWARD,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KEY_VALUE_HEADS,
        "rms_norm_eps": 1e-5,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": CONTEXT,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "eos_token_id": 2,
    }


def backend() -> Backend:
    """The same tokenizer as the GGUF metadata describe, as `tokenizers` writes it to `tokenizer.json`."""
    made = Backend(
        models.BPE(
            vocab={token: index for index, token in enumerate(tokens())}, merges=[tuple(merge.split(" ")) for merge in MERGES]
        )
    )
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIAL])
    return made


def write_folder(folder: Path, made: dict[str, np.ndarray] | None = None, **changes: Any) -> Path:
    """An mlx-lm folder of `made`. `changes` replace entries of config.json; None leaves the entry out."""
    described = {key: value for key, value in (config() | changes).items() if value is not None}
    _describe(folder, described)
    save_file(weights() if made is None else made, folder / "model.safetensors")
    return folder


def write_model(folder: Path, model: nn.Module, described: dict[str, Any]) -> Path:
    """An mlx-lm folder of a model of one of mlx-lm's own classes; `described` is config.json, the tokenizer is the tiny one."""
    _describe(folder, described)
    save_model(folder, model)
    return folder


def make_base(folder: Path) -> None:
    """Takes the chat template away from a folder; as with many base models, the tokenizer then begins texts with a token of its
    own."""
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    del settings["chat_template"]
    path.write_text(json.dumps(settings))
    made = backend()
    made.post_processor = processors.TemplateProcessing(
        single="<|im_start|> $A <|endoftext|>", special_tokens=[("<|im_start|>", 1), ("<|endoftext|>", 0)]
    )
    made.save((folder / "tokenizer.json").as_posix())


def write_pair(folder: Path, context: int = 3000) -> tuple[str, str]:
    """A random target of two layers and a draft model near it."""
    near = {name: array + 0.15 * weights(9)[name] for name, array in weights().items()}
    target = write_gguf(folder / "target.gguf", llama__context_length=context)
    return str(target), str(write_gguf(folder / "draft.gguf", made=near, llama__context_length=context))


def _describe(folder: Path, described: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(described))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "chat_template": TEMPLATE,
        "bos_token": "<|im_start|>",
        "eos_token": {"__type": "AddedToken", "content": "<|im_end|>", "normalized": False, "special": True},
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    backend().save((folder / "tokenizer.json").as_posix())
