"""The fuzz targets: each takes bytes, runs a reader on them, and uses the result as the program does at once."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tests.fuzz import mutations

REFERENCES = Path(__file__).parents[1] / "references"
TRACES = REFERENCES / "traces"


@dataclass(frozen=True)
class Target:
    """Something that reads files.

    Attributes:
        check: reads an input; raises DraftlightError where it is refused.
        seeds: sound inputs.
        mutate: changes an input in its own form; None where changes of bytes do.
    """

    check: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    mutate: mutations.Mutate | None


def in_memory() -> tempfile.TemporaryDirectory[str]:
    """A new folder, in memory where `TMPDIR` names no other place and the system has one there."""
    memory = "/dev/shm" if "TMPDIR" not in os.environ and os.access("/dev/shm", os.W_OK) else None
    return tempfile.TemporaryDirectory(prefix="draftlight-fuzz-", dir=memory)


@cache
def folder() -> Path:
    """Where inputs are written to."""
    _KEPT.append(in_memory())
    return Path(_KEPT[0].name)


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


def _file(name: str, data: bytes) -> Path:
    path = folder() / name
    path.write_bytes(data)
    return path


def _with_names(path: Path, *others: Path) -> None:
    """Makes an empty file with other names as well, so that what is written to it stands under all of them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    for other in others:
        other.parent.mkdir(exist_ok=True)
        other.hardlink_to(path)


def trace(data: bytes) -> None:
    """A trace is read, replayed, judged again, and taken for a chat."""
    from app.replay.player import Replay
    from app.session.session import Session
    from engine.chats.interrupted import making_of, state_of
    from engine.exports.tables import options_of
    from engine.lens.rejudge import refusal, rejudge
    from engine.rounds.trace import read

    found = read(_file("trace.jsonl", data))
    session = Session()
    replay = Replay(session, found)
    session.show_replay(replay.turns)
    replay.show(len(found.rounds))
    answer = replay.answer
    _ = answer.dividers, answer.thought_words, answer.tokens_per_second, answer.folded, answer.waiting_words
    making_of(found), state_of(found), found.text
    options = options_of(found)
    if not refusal(options, "rejection"):
        rejudge(found.rounds, options, "rejection")


def exports(data: bytes) -> None:
    """A trace is exported in every form of text."""
    from engine.exports.export import chart_svg, csv_texts, to_html, to_json
    from engine.rounds.trace import read

    found = read(_file("trace.jsonl", data))
    made = [to_json([found]), to_html([found]), *csv_texts([found]).values(), chart_svg([found], "proposals")]
    for text in made:
        text.encode("utf-8", "backslashreplace")


def _traces() -> list[bytes]:
    short = []
    for path in (*sorted(TRACES.glob("*.jsonl")), *sorted((REFERENCES / "rejudge").glob("*.jsonl"))):
        header, *rest = map(json.loads, path.read_bytes().splitlines())
        lines = [_shortened(line) for line in (header, *rest[:2], *(line for line in rest if line["kind"] == "change"), rest[-1])]
        short.append(_as_lines(lines))
    return [*short, _as_lines(_fuller(lines)), gzip.compress(short[0])]


def _as_lines(lines: list[Any]) -> bytes:
    return b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)


def _fuller(lines: list[Any]) -> list[Any]:
    """The lines of a trace with what those that are kept do not have: gamma auto, a thought, a change, earlier messages."""
    header, first, second, *_, summary = lines
    outlook: dict[str, Any] = {"gamma": 2, "cost": 1.3, "alpha": 0.4, "needed": 0.6, "next_try": 4}
    outlook |= {"copies": True, "drafter": "ngram", "skipped": "last"}
    statistics = {"hits": 3, "misses": 1, "match": 2, "entries": 40, "capacity": 64, "resets": 1}
    messages = [{"role": role, "content": "Why?"} for role in ("system", "user", "assistant", "user")]
    header["prompt"] = {**header["prompt"], "messages": messages, "dropped": 2}
    first |= {"outlook": outlook, "proposer": "ngram", "drafter_statistics": statistics, "text": "<think>So"}
    first["milliseconds"] = {"total": 9.0, "draft": 2.0, "verify": 5.0, "judge": 1.0, "other": 0.5, "communication": 0.5}
    second |= {"rule": "match", "text": "</think>So.", "started": 9.5}
    change = {"kind": "change", "index": 1, "rule": "match", "gamma": "auto", "drafter": second["drafter"]}
    return [header, first, change, second, summary | {"finish": "length", "prefill_seconds": 0.5}]


def _shortened(value: Any) -> Any:
    """The same with at most two entries in every list."""
    if isinstance(value, dict):
        return {key: _shortened(entry) for key, entry in value.items()}
    return [_shortened(entry) for entry in value[:2]] if isinstance(value, list) else value


def gguf(data: bytes) -> None:
    """The header of a GGUF file, whole and only its beginning, as the library and the loader read it."""
    from engine.files.gguf_header import read_beginning, read_header
    from engine.files.library import LibraryModel, _read_gguf
    from engine.values.errors import DraftlightError

    path = _file("model.gguf", data)
    try:
        read_beginning(path)
        _read_gguf(path, LibraryModel("a", "a", "a", len(data)))
    except DraftlightError:
        pass
    read_header(path)


@cache
def _gguf_metadata() -> dict[str, Any]:
    from tests.engine.tiny_models import metadata

    return {"general.architecture": "llama", **metadata()}


def _gguf_seeds() -> list[bytes]:
    def string(text: str) -> bytes:
        return struct.pack("<Q", len(text.encode())) + text.encode()

    def value(entry: Any) -> bytes:
        match entry:
            case bool():
                return struct.pack("<I?", 7, entry)
            case str():
                return struct.pack("<I", 8) + string(entry)
            case int():
                return struct.pack("<II", 4, entry)
            case float():
                return struct.pack("<If", 6, entry)
            case _:
                kind = 8 if isinstance(entry[0], str) else 5
                inner = b"".join(string(one) if kind == 8 else struct.pack("<i", one) for one in entry)
                return struct.pack("<IIQ", 9, kind, len(entry)) + inner

    short = {key: entry[:12] if isinstance(entry, list) else entry for key, entry in _gguf_metadata().items()}
    tensors = {"token_embd.weight": (2, (8, 2), 0), "blk.0.attn_q.weight": (2, (32, 1), 2), "output_norm.weight": (1, (8,), 0)}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(short))
    head += b"".join(string(key) + value(entry) for key, entry in short.items())
    start = 0
    for name, (_, shape, kind) in tensors.items():
        head += string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, start)
        start += 64
    return [head + bytes(-len(head) % 32 + start), b"GGUF" + struct.pack("<IQQ", 2, 0, 0)]


def gguf_model(data: bytes) -> None:
    """What GGUF metadata and tensors say of a model: configuration, memory, recommended sampling, tokenizer and a prompt."""
    from engine.files.gguf_header import GgufHeader, TensorInfo
    from engine.files.memory import need_of_gguf
    from engine.files.recommended_sampling import of_metadata
    from engine.models.gguf_model import read_config
    from engine.models.gguf_tokenizer import from_gguf

    try:
        document = json.loads(data)
        metadata = dict(document["metadata"])
        stated = dict(document["tensors"]).items()
        named = {str(name): TensorInfo(str(name), tuple(map(int, shape)), kind) for name, (kind, shape) in stated}
        tensors = {name: tensor for name, tensor in named.items() if _is_possible(tensor)}
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError, AttributeError):
        return
    if not all(_fits_gguf(entry) for entry in metadata.values()):
        return
    of_metadata(metadata)
    tokenizer = from_gguf(metadata, 300)
    tokenizer.raw_prompt("hello\x00 world \u202e<|im_end|>")
    assert tokenizer.switches_thinking in (True, False)
    header = GgufHeader(metadata, tensors)
    path = _file("model.gguf", b"\x00" * 4096)
    config = read_config(path, header)
    need_of_gguf("a", header, config, True)


def _is_possible(tensor: Any) -> bool:
    """Whether `read_header` lets a tensor through."""
    from engine.files.gguf_header import BLOCKS

    shape, kind = tensor.shape, tensor.kind
    return kind in BLOCKS and 1 <= len(shape) <= 4 and all(0 < one < 2**31 for one in shape) and shape[-1] % BLOCKS[kind][0] == 0


def _fits_gguf(value: Any) -> bool:
    """Whether a GGUF file can hold this: texts in UTF-8, numbers of 64 bits, lists of one kind."""
    if isinstance(value, list):
        kinds = set(map(type, value))
        return len(kinds) <= 1 and not kinds & {list, dict, type(None)} and all(map(_fits_gguf, value))
    if isinstance(value, str):
        return value.isascii() or ("\ud800" not in value and "\ud83d" not in value)
    return isinstance(value, (bool, float)) or (isinstance(value, int) and -(2**63) <= value < 2**64)


_EXPERTS = {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": 64}
_SCALES = {"logit_scale": 8.0, "residual_scale": 0.5, "embedding_scale": 2.0, "attention.scale": 0.25}
_STRETCHED = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 64}
_WINDOW = {"attention.sliding_window": 16}
_OF_KIND: dict[str, dict[str, Any]] = {
    "qwen2": _STRETCHED,
    "qwen2moe": {**_EXPERTS, "expert_shared_feed_forward_length": 64},
    "qwen3moe": _EXPERTS,
    "glm4moe": {**_EXPERTS, "expert_gating_func": 2, "expert_weights_scale": 1.5, "expert_weights_norm": True},
    "gemma2": {**_WINDOW, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
    "gemma3": _WINDOW,
    "gemma4": {
        **_WINDOW,
        "attention.sliding_window_pattern": [True, False],
        "attention.key_length": 32,
        "attention.value_length": 32,
        "attention.key_length_swa": 16,
        "attention.value_length_swa": 16,
        "rope.dimension_count_swa": 16,
        "rope.freq_base_swa": 10000.0,
        "embedding_length_per_layer_input": 0,
        "final_logit_softcapping": 30.0,
    },
    "gpt-oss": {**_EXPERTS, **_WINDOW, **_STRETCHED},
    "granite": _SCALES,
    "granitemoe": {**_EXPERTS, **_SCALES},
    "command-r": {"attention.layer_norm_epsilon": 1e-5, "logit_scale": 0.25},
    "cohere2": {**_WINDOW, "attention.layer_norm_epsilon": 1e-5, "logit_scale": 0.25},
    "starcoder2": {"attention.layer_norm_epsilon": 1e-5},
}
"""What GGUF files of some architectures say besides what all of them do."""


def _gguf_models() -> list[bytes]:
    from engine.files.gguf_architectures import ARCHITECTURES

    tensors: dict[str, Any] = {"token_embd.weight": ["F32", [275, 64]], "output_norm.weight": ["F32", [64]]}
    for layer in range(2):
        tensors |= {f"blk.{layer}.attn_q.weight": ["Q8_0", [64, 64]], f"blk.{layer}.attn_norm.weight": ["F32", [64]]}
    plain = _gguf_metadata()
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", "h", "e", "he", "\u2581he", "l", "o"]
    spelled = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": pieces,
        "tokenizer.ggml.scores": [-float(index) for index in range(len(pieces))],
        "tokenizer.ggml.token_type": [2, 3, 3, *[6] * 256, *[1] * (len(pieces) - 259)],
    }
    merged = spelled | {"tokenizer.ggml.model": "gemma4", "tokenizer.ggml.merges": ["h e", "\u2581 he"]}

    def model(kind: str, own: dict[str, Any], changed: dict[str, Any], more: dict[str, Any]) -> bytes:
        metadata = {key.replace("llama.", f"{kind}."): entry for key, entry in plain.items()} | {"general.architecture": kind}
        metadata |= {f"{kind}.{key}": entry for key, entry in {**_OF_KIND.get(kind, {}), **own}.items()} | changed
        return json.dumps({"metadata": metadata, "tensors": tensors | more}).encode()

    factors = {f"rope_factors_{side}.weight": ["F32", [8]] for side in ("long", "short")}
    return [
        *(model(kind, {}, {}, {}) for kind in ARCHITECTURES),
        model("llama", _EXPERTS, spelled, {}),
        model("gemma", {}, spelled, {}),
        model("gemma3", {"rope.scaling.type": "linear", "rope.scaling.factor": 8.0}, {}, {}),
        model("gemma4", _EXPERTS, merged, {"rope_freqs.weight": ["F32", [16]]}),
        model("phi3", {"rope.scaling.original_context_length": 64}, {}, factors),
    ]


def safetensors(data: bytes) -> None:
    """The header of a safetensors file, and the memory that its tensors will take."""
    from engine.files.memory import need_of_folder
    from engine.files.safetensors_header import check_safetensors

    need_of_folder("a", [check_safetensors(_file("model.safetensors", data))], {"quantization": {"group_size": 32}}, True)


def _safetensors_seeds() -> list[bytes]:
    entries = {
        "__metadata__": {"format": "mlx"},
        "model.embed_tokens.weight": {"dtype": "U32", "shape": [4, 2], "data_offsets": [0, 32]},
        "model.embed_tokens.scales": {"dtype": "F16", "shape": [4, 1], "data_offsets": [32, 40]},
        "model.norm.weight": {"dtype": "BF16", "shape": [4], "data_offsets": [40, 48]},
        "empty": {"dtype": "F32", "shape": [], "data_offsets": [48, 52]},
    }
    head = json.dumps(entries).encode()
    return [len(head).to_bytes(8, "little") + head + bytes(52), (2).to_bytes(8, "little") + b"{}"]


@cache
def _model_folders() -> tuple[Path, Path]:
    """Folders of a model and of an adapter, in which everything but the weights is one file with several names."""
    made, aside = folder() / "model", folder() / "adapter"
    names = ("generation_config.json", "model.safetensors.index.json", "adapter_config.json")
    _with_names(made / "config.json", *(made / name for name in names), aside / "adapter_config.json")
    (made / "model.safetensors").write_bytes(_safetensors_seeds()[0])
    (aside / "adapters.safetensors").touch()
    return made, aside


def config(data: bytes) -> None:
    """A model folder's configuration, which is the same file as that of a drafter or an adapter, by all who read it unloaded."""
    from engine.files import recommended_sampling
    from engine.files.library import LibraryModel, _read_folder
    from engine.files.model_folder import base_of, missing_parts, read_json
    from engine.models.configuration import read_configuration
    from engine.models.context_length import context_length
    from engine.values.errors import DraftlightError

    made, aside = _model_folders()
    (made / "config.json").write_bytes(data)
    recommended_sampling.of_folder(made)
    missing_parts(made)
    try:
        model = _read_folder(made, LibraryModel("a", "a", "a", 1))
        json.dumps(repr(model)).encode()
    except DraftlightError:
        pass
    with contextlib.suppress(DraftlightError):
        read_configuration(made)
    found = read_json(made / "config.json")
    context_length(found)
    base_of(aside)


def _configs() -> list[bytes]:
    from tests.engine.tiny_models import config as plain

    more = {
        "quantization": {"group_size": 64, "bits": 4, "model.embed_tokens": {"group_size": 32}},
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.5}},
        "sliding_window": 16,
        "head_dim": 16,
    }
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors"}, "metadata": {"total_size": 3}}
    sampling = {"temperature": 0.6, "top_p": 0.95, "top_k": 20, "do_sample": True, "repetition_penalty": 1.1}
    adapter = {"model": "owner/base", "base_model_name_or_path": "owner/base", "peft_type": "LORA", "lora_alpha": 16, "r": 8}
    assets = Path(__file__).parents[2] / "assets" / "drafters"
    drafters = [path.read_bytes() for path in sorted(assets.glob("*/config.json"))]
    nested = {"model_type": "gemma3", "text_config": plain(), "attention_chunk_size": 8}
    return [*(json.dumps(one).encode() for one in (plain(), plain() | more, index, sampling, adapter, nested)), *drafters]


def head(data: bytes) -> None:
    """A draft head's configuration beside its weights."""
    from engine.models.head_model import load_head

    made = folder() / "head"
    made.mkdir(exist_ok=True)
    if not (made / "model.safetensors").exists():
        (made / "model.safetensors").write_bytes(_head_weights())
    (made / "config.json").write_bytes(data)
    with _settled():
        load_head(made)


def block(data: bytes) -> None:
    """A block drafter's configuration beside the weights of the packaging that it is nearest to."""
    from engine.models.block_model import load_block
    from tests.engine.block_files import PACKAGED, written

    name = _nearest_packaging(data)
    made = folder() / f"block {name}"
    if not (made / "model.safetensors").exists():
        written(made, PACKAGED[name])
    (made / "config.json").write_bytes(data)
    with _settled():
        load_block(made)


@cache
def _published() -> tuple[Any, Path, Any, Path]:
    """A target with its EAGLE-3 head, and one with its MTP head."""
    from engine.models.loading import load
    from tests.engine import eagle_files, mtp_files

    of_eagle, of_mtp = eagle_files.write_target(folder() / "of eagle"), mtp_files.write_published(folder() / "of mtp", "qwen3_5")
    head = eagle_files.write_head(folder() / "eagle", "speculators")
    return load(str(of_eagle)), head, load(str(of_mtp)), mtp_files.write_drafter(folder() / "mtp", "qwen3_5")


def eagle_head(data: bytes) -> None:
    """The configuration of an EAGLE-3 head beside its weights."""
    from engine.models.eagle3_model import load_eagle3

    target, made, *_ = _published()
    (made / "config.json").write_bytes(data)
    with _settled():
        load_eagle3(made, target)


def mtp_head(data: bytes) -> None:
    """The configuration of a folder with an MTP head beside its weights."""
    from engine.models.mtp_model import load_mtp

    *_, target, made = _published()
    (made / "config.json").write_bytes(data)
    with _settled():
        load_mtp(made, target)


def _eagle_heads() -> list[bytes]:
    from tests.engine.eagle_files import EAGLE_HEADS

    return [json.dumps(EAGLE_HEADS["speculators"].config).encode()]


def _mtp_heads() -> list[bytes]:
    return [(_published()[3] / "config.json").read_bytes()]


@contextlib.contextmanager
def _settled() -> Iterator[None]:
    """Layers draw weights that are replaced before they are computed, and MLX's random state grows with each until it is."""
    import mlx.core as mx

    try:
        yield
    finally:
        mx.eval(mx.random.state)


def _nearest_packaging(data: bytes) -> str:
    from tests.engine.block_files import PACKAGED

    try:
        config = json.loads(data)
    except (ValueError, RecursionError):
        config = None
    stated = config.items() if isinstance(config, dict) else ()
    return max(
        PACKAGED, key=lambda name: 2 * sum(pair in PACKAGED[name].config.items() for pair in stated) - len(PACKAGED[name].config)
    )


def _blocks() -> list[bytes]:
    from tests.engine.block_files import PACKAGED

    return [json.dumps(packaged.config).encode() for packaged in PACKAGED.values()]


_HEAD = {
    "model_type": "draftlight_head",
    "target_sha256": "a" * 64,
    "taps": [0, 1],
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-5,
    "vocab_size": 20,
    "max_position_embeddings": 64,
}


def _head_weights() -> bytes:
    import numpy as np
    from safetensors.numpy import save

    shapes: dict[str, tuple[int, ...]] = {"fc": (8, 16), "qkv": (16, 16), "output": (8, 8), "gate_up": (16, 8), "down": (8, 8)}
    shapes |= {"head": (6, 8), **dict.fromkeys(("feature_norm", "embedding_norm", "mlp_norm", "norm"), (8,))}
    arrays = {name: np.zeros(shape, np.float16) for name, shape in shapes.items()}
    return save(arrays | {"target_ids": np.arange(6, dtype=np.int32)})


def tokenizer(data: bytes) -> None:
    """The tokenizer files of a folder, given as one object of objects, and a prompt."""
    from engine.models.tokenizer_files import from_folder

    try:
        files = json.loads(data)
    except (ValueError, RecursionError):
        files = {"tokenizer.json": None}
    if not isinstance(files, dict):
        return
    made = folder() / "tokenizer"
    made.mkdir(exist_ok=True)
    for name in _TOKENIZER_FILES:
        (made / name).unlink(missing_ok=True)
        if name in files:
            (made / name).write_text(json.dumps(files[name]), encoding="utf-8")
    if "tokenizer.json" not in files:
        return
    found = from_folder(made, 300)
    ids = found.raw_prompt("hello\x00 world \u202e<|im_end|> é")
    found.decode(ids)


_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.json",
    "added_tokens.json",
    "config.json",
)


def _tokenizers() -> list[bytes]:
    from tests.engine import tiny_models

    described = json.loads(tiny_models.backend().to_str())
    model = described["model"]
    model["vocab"] = {
        token: index for index, token in enumerate(["<|endoftext|>", "<|im_start|>", "<|im_end|>", *"helowrd", "he", "ll", "Ġ"])
    }
    model["merges"] = [["h", "e"], ["l", "l"]]
    settings = {
        "chat_template": tiny_models.TEMPLATE,
        "bos_token": "<|im_start|>",
        "eos_token": {"content": "<|im_end|>"},
        "add_bos_token": True,
        "added_tokens_decoder": {"0": {"content": "<|endoftext|>", "special": True}},
        "tokenizer_class": "LlamaTokenizer",
    }
    pieces = {
        **described,
        "pre_tokenizer": None,
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": "\u2581"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
            ],
        },
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<|im_start|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [],
            "special_tokens": {"<|im_start|>": {"id": "<|im_start|>", "ids": [1], "tokens": ["<|im_start|>"]}},
        },
        "truncation": {"direction": "Right", "max_length": 5, "strategy": "LongestFirst", "stride": 0},
        "padding": None,
    }
    unigram = {
        **pieces,
        "model": {
            "type": "Unigram",
            "unk_id": 0,
            "vocab": [["<unk>", 0.0], ["\u2581he", -1.0], ["l", -2.0]],
            "byte_fallback": False,
        },
    }
    named = [{"name": name, "template": tiny_models.TEMPLATE} for name in ("default", "tool_use")]
    older = {"special_tokens_map.json": {"eos_token": "<|im_end|>"}, "added_tokens.json": {"<|a|>": 40}, "config.json": {}}
    files: list[dict[str, Any]] = [
        *({"tokenizer.json": one, "tokenizer_config.json": settings} for one in (described, pieces, unigram)),
        {"tokenizer.json": described, "tokenizer_config.json": settings | {"chat_template": named}, **older},
    ]
    return [json.dumps(each).encode() for each in files]


def bare_tokenizer(data: bytes) -> None:
    """`tokenizer.model`: SentencePiece's form, or the ranks of tiktoken; beside added tokens if its length is odd."""
    from engine.models.tokenizer_files import from_folder

    made = _bare_folder(len(data) % 2 == 1)
    (made / "tokenizer.model").write_bytes(data)
    found = from_folder(made, 4096)
    found.decode(found.raw_prompt("hello\x00 world \u202e é"))


@cache
def _bare_folder(adds: bool) -> Path:
    made = folder() / f"bare {adds}"
    made.mkdir()
    (made / "config.json").write_text('{"model_type": "qwen"}')
    if adds:
        added = {"2": ("he", False), "7": ("<|a|>", True), "20": ("<|b|>", True), "22": ("own", False)}
        described = {index: {"content": text, "special": is_control} for index, (text, is_control) in added.items()}
        (made / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": described, "add_bos_token": True}))
    return made


def _bare_tokenizers() -> list[bytes]:
    import base64

    from sentencepiece import sentencepiece_model_pb2 as schema

    found = []
    for kind in (1, 2):
        model = schema.ModelProto()  # type: ignore[attr-defined]
        for index, piece in enumerate(["<unk>", "<s>", "</s>", "<0x41>", "\u2581", "h", "e", "he", "\u2581he"]):
            model.pieces.add(piece=piece, score=-float(index), type={0: 2, 1: 3, 2: 3, 3: 6}.get(index, 1))
        model.trainer_spec.model_type = kind
        model.normalizer_spec.add_dummy_prefix = True
        for model.trainer_spec.model_prefix in ("a", "aa"):  # an odd and an even length
            found.append(model.SerializeToString())
    tokens = [*(bytes([byte]) for byte in b"\x00 dehlorw\xc3\xa9"), b"he", b"ll", b"hell", b"hello"]
    ranks = b"\n".join(base64.b64encode(token) + b" %d" % rank for rank, token in enumerate(tokens))
    return [*found, ranks, ranks + b"\n"]


def chat_template(data: bytes) -> None:
    """A chat template, asked for a prompt and whether it switches thinking."""
    from engine.models.gguf_tokenizer import from_gguf
    from engine.types import Message

    tokenizer = from_gguf(_gguf_metadata() | {"tokenizer.chat_template": data.decode("utf-8", "replace")}, 300)
    assert tokenizer.switches_thinking in (True, False)
    tokenizer.apply_chat_template(
        [Message("system", "Be brief."), Message("user", "Why? <|im_end|>"), Message("assistant", "So.")]
    )


def _templates() -> list[bytes]:
    from tests.engine import tiny_models

    return [
        tiny_models.TEMPLATE.encode(),
        b"{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{{ m.role|upper ~ ns.n }}{% endfor %}",
        b"{%- macro say(m) %}{{ m['content']|trim }}{% endmacro %}{{ say(messages[0]) }}"
        b"{% if enable_thinking %}<think>{% endif %}",
        b"{% for m in messages %}{% generation %}{{ m|tojson(indent=2) }}{% endgeneration %}"
        b"{% if loop.last %}{% break %}{% endif %}{% endfor %}",
        b"{{ bos_token }}{{ strftime_now('%d %b %Y') }}"
        b"{% if messages[0].role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}",
    ]


def chats(data: bytes) -> None:
    """A file of conversations from elsewhere, as they go into the store and into the list."""
    from engine.chats.exchange.markdown import to_markdown
    from engine.chats.exchange.own import to_json
    from engine.chats.exchange.reading import may_hold_chats, read_chats

    path = _file("chats.json", data)
    may_hold_chats(path)
    found = read_chats(path).conversations
    to_json(found)
    to_markdown(found)


def _chat_files() -> list[bytes]:
    from engine.chats import Conversation, StoredMessage
    from engine.chats.exchange.own import to_json
    from engine.chats.values import ChatSummary
    from tests.engine.chats.test_exchange import CHATGPT, LM_STUDIO, MADE, SETTINGS

    messages = (
        StoredMessage(1, None, "user", "Why?", 1e9),
        StoredMessage(2, 1, "assistant", "So.", 1e9, "stopped", MADE, "a.jsonl"),
        StoredMessage(3, 1, "assistant", "No.", 1e9, continues=2),
    )
    own = to_json([Conversation(ChatSummary(1, "Sky", 1e9, 1e9), SETTINGS, messages, 1)]).encode()
    plain = [json.dumps(one).encode() for one in (CHATGPT, LM_STUDIO)]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", plain[0])
    return [own, *plain, packed.getvalue()]


def settings(data: bytes) -> None:
    """The settings file."""
    from app.session.settings import load

    found, note = load(_file("settings.json", data))
    found.recommendations(found.recommended)
    json.dumps(asdict(found), ensure_ascii=False)
    note.encode()


def hosts(data: bytes) -> None:
    """A file of hosts, and what each rank is told."""
    from engine.cluster.companions import links_of, remote_script
    from engine.cluster.hosts import read_hosts, write_hosts

    cluster = read_hosts(_file("hosts.json", data))
    variables, files = links_of(cluster)
    for rank in range(cluster.size):
        remote_script(cluster.python, rank, variables, files).encode()
        cluster.name_of(rank).encode()
    write_hosts(folder() / "again.json", cluster)
    assert read_hosts(folder() / "again.json") == cluster


def _host_files() -> list[bytes]:
    here = {"ssh": "127.0.0.1", "ips": ["10.0.0.1"], "rdma": [None, "rdma_en5"]}
    there = {"ssh": "mac2", "ips": ["10.0.0.2"], "rdma": ["rdma_en5", None]}
    whole = {"hosts": [here, there], "backend": "jaccl", "envs": ["A=1"], "sharding": "pipeline", "python": "p", "port": 5000}
    return [json.dumps(one).encode() for one in ([here, there], whole)]


def _settings_files() -> list[bytes]:
    from app.session.settings import Preset, Settings

    full = replace(
        Settings(),
        geometry=(1, 2, 800, 600),
        seed=5,
        stop=("a",),
        presets=(Preset("Story", "Be wild."),),
        recent_models=("a", "b"),
        model_presets=(("builtin", "Story"),),
        conversation=3,
        ghosts="none",
        gamma=4,
        kv_bits=8,
    )
    return [json.dumps(asdict(one)).encode() for one in (Settings(), full)]


def prompts(data: bytes) -> None:
    """A benchmark's prompts, which is documented to raise ValueError."""
    from engine.tools.bench.prompts import read_prompts

    try:
        read_prompts(_file("prompts.jsonl", data))
    except ValueError as error:
        str(error).encode()


def _prompt_files() -> list[bytes]:
    return [b"".join((Path(__file__).parents[1] / "prompts.jsonl").read_bytes().splitlines(keepends=True)[:3])]


def results(data: bytes) -> None:
    """Results that were exported, as JSON or as a table, which are read back."""
    from engine.exports.export import read_export

    is_json = data.lstrip()[:1] in (b"{", b"[")
    read_export(_file("results.json" if is_json else "results.csv", data))


def _result_files() -> list[bytes]:
    from engine.exports.export import csv_texts, to_json
    from engine.rounds.trace import read

    found = read(_file("trace.jsonl", _traces()[0]))
    return [to_json([found]).encode(), csv_texts([found])["rounds"].encode()]


def records(data: bytes) -> None:
    """Records that the program itself keeps in its folder: of models, digests, folders."""
    from engine.files import library
    from engine.files.foreign import object_in
    from engine.files.paths import data_folder

    one = data_folder() / "library.json"
    if not one.exists():
        _with_names(one, one.with_name("hashes.json"), one.with_name("model_folders.json"))
    one.write_bytes(data)
    library._read_record(), object_in(one.with_name("hashes.json")), library.added_folders()


def _record_files() -> list[bytes]:
    from engine.files.library import _VERSION, LibraryModel

    model = {"stamp": [[1, 2]], "model": asdict(LibraryModel("a", "a", "a", 1))}
    return [
        json.dumps(one).encode() for one in ({"version": _VERSION, "models": {"/a": model}}, {"a|1|2": "0" * 64}, ["/a", "/b"])
    ]


TARGETS: dict[str, Target] = {
    "chats": Target(chats, _chat_files, mutations.json_value),
    "hosts": Target(hosts, _host_files, mutations.json_value),
    "settings": Target(settings, _settings_files, mutations.json_value),
    "config": Target(config, _configs, mutations.json_value),
    "gguf": Target(gguf, _gguf_seeds, None),
    "safetensors": Target(safetensors, _safetensors_seeds, mutations.behind_length),
    "trace": Target(trace, _traces, mutations.json_lines),
    "chat-template": Target(chat_template, _templates, mutations.template),
    "tokenizer": Target(tokenizer, _tokenizers, mutations.json_value),
    "gguf-model": Target(gguf_model, _gguf_models, mutations.json_value),
    "bare-tokenizer": Target(bare_tokenizer, _bare_tokenizers, None),
    "head": Target(head, lambda: [json.dumps(_HEAD).encode()], mutations.json_value),
    "block": Target(block, _blocks, mutations.json_value),
    "eagle-head": Target(eagle_head, _eagle_heads, mutations.json_value),
    "mtp-head": Target(mtp_head, _mtp_heads, mutations.json_value),
    "prompts": Target(prompts, _prompt_files, mutations.json_lines),
    "results": Target(results, _result_files, mutations.json_value),
    "records": Target(records, _record_files, mutations.json_value),
    "exports": Target(exports, _traces, mutations.json_lines),
}
"""By name, those first that read what strangers write most often."""
