"""Reads the headers of GGUF files without trusting them.

Every count, length and offset is checked against the size of the file before anything is read or allocated, so a truncated,
foreign or hostile file is refused with a message. Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from engine.files.foreign import open_file, placeholder_kind
from engine.values.errors import DraftlightError, is_whole
from engine.values.wording import noun

Part = TypeVar("Part")
_MAGIC = b"GGUF"
_OLDER_VERSIONS = (b"lmgg", b"fmgg", b"tjgg", b"algg")
"""Magic bytes of llama.cpp's formats before GGUF."""
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_MAX_ENTRIES = 2**24
_MAX_DIMENSIONS = 4
_LONG_LIST = 4096
_BLOCK = re.compile(r"blk\.([0-9]{1,6})\.(nextn\.)?")
_TYPE_NAMES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K",
    13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S",
    22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 30: "BF16", 34: "TQ1_0",
    35: "TQ2_0", 39: "MXFP4",
}  # fmt: skip
BLOCKS = {
    "F32": (1, 4), "F16": (1, 2), "BF16": (1, 2), "Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24),
    "Q8_0": (32, 34), "Q2_K": (256, 84), "Q3_K": (256, 110), "Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210),
    "IQ4_NL": (32, 18), "IQ4_XS": (256, 136), "MXFP4": (32, 17),
}  # fmt: skip
"""Weights and bytes in one block of each supported type (ggml, `ggml-common.h`)."""


_ENCODERS = frozenset(
    {
        *("bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2", "jina-bert-v3", "modern-bert", "eurobert"),
        *("gemma-embedding", "llama-embed", "t5encoder"),
    }
)
"""Architectures of embedding models."""
_POOLED = (1, 2, 3, 4)
"""Values of `pooling_type` of models that return one vector or one score for a whole text; 0 means no pooling."""


@dataclass(frozen=True)
class TensorInfo:
    """A tensor: `shape` in the order of MLX and numpy (rows first), `kind` a key of BLOCKS, `start` the offset in the file."""

    name: str
    shape: tuple[int, ...]
    kind: str
    start: int = 0

    @property
    def size(self) -> int:
        """The bytes of the tensor in the file."""
        weights, taken = BLOCKS[self.kind]
        return math.prod(self.shape) // weights * taken


@dataclass(frozen=True)
class GgufHeader:
    """The header of a GGUF file: metadata by key, as plain Python values, and tensors by name.

    Attributes:
        head: the tensors of the model's MTP head. llama.cpp stores it as further blocks behind the model's own; `tensors` and the
            block count in `metadata` are without them.
    """

    metadata: dict[str, Any]
    tensors: dict[str, TensorInfo]
    head: dict[str, TensorInfo] = field(default_factory=dict)


class _Damaged(Exception):
    pass


def read_header(path: Path) -> GgufHeader:
    """Reads and checks the header of a GGUF file, including that every tensor lies inside the file.

    Raises:
        DraftlightError: the file cannot be read, is no GGUF file, is truncated or damaged, or has a tensor type that is not in
            BLOCKS.
    """
    return _read(path, _Reader.header)


def not_a_model_reason(metadata: Mapping[str, Any], tensor_count: int | None = None) -> str:
    """Recognises metadata of files that are no language model. Returns the rest of a sentence that says what the file is and what
    to do; empty if it may be a language model.

    Entries: `gguf-py/gguf/constants.py` of https://github.com/ggml-org/llama.cpp.
    """
    architecture, kind, parts = (metadata.get(key) for key in ("general.architecture", "general.type", "split.count"))
    if isinstance(parts, int) and parts > 1:
        number = metadata.get("split.no")
        return (
            f"is part {number + 1 if isinstance(number, int) else '?'} of {parts} of a model that is split into several files. "
            "Join them with llama-gguf-split --merge FIRST-PART NEW-FILE, and choose the new file."
        )
    if kind == "adapter" or "adapter.type" in metadata:
        return (
            "is an adapter (LoRA) for another model, not a model. Choose its base model, or put both into one file with "
            "llama-export-lora; adapters of mlx-lm and PEFT can be used as they are, in their folders."
        )
    if kind == "mmproj" or architecture == "clip":
        return "reads images or sound for a model (mmproj) and is not the model itself. Choose the other GGUF file of the model."
    if kind == "imatrix" or architecture == "imatrix":
        return "is an importance matrix, which llama.cpp quantises models with. Choose the model itself."
    if architecture == "controlvector":
        return "is a control vector for another model. Choose the model itself."
    if architecture in _ENCODERS or metadata.get(f"{architecture}.pooling_type") in _POOLED:
        return "is an embedding model: it turns texts into vectors and writes none. Choose a model that chats."
    if tensor_count == 0 and architecture is not None:
        return "contains no weights, as a file for a vocabulary alone does. Choose a file with the whole model."
    return ""


def is_gguf(path: Path) -> bool:
    """Returns whether a file begins with GGUF's magic bytes; its name does not matter."""
    try:
        with open_file(path) as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def read_beginning(path: Path) -> dict[str, Any]:
    """Returns the metadata before the first long list, the vocabulary. It describes the model, and is read without megabytes.

    Raises:
        DraftlightError: as in `read_header`.
    """
    return _read(path, _Reader.beginning)


def head_tensors(path: Path) -> dict[str, TensorInfo]:
    """Returns the tensors of a file's MTP head. Reads the vocabulary only if the metadata count a head.

    Raises:
        DraftlightError: as in `read_header`.
    """
    is_promised = any(key.endswith(".nextn_predict_layers") for key in read_beginning(path))
    return read_header(path).head if is_promised else {}


def _read(path: Path, part: Callable[[_Reader], Part]) -> Part:
    try:
        with open_file(path) as file:
            return part(_Reader(file, path.stat().st_size))
    except OSError as error:
        raise DraftlightError(f"{path} cannot be read: {error.strerror or error}.") from error
    except _Damaged as error:
        raise DraftlightError(f"{path.name} {error}") from error


def _without_head(metadata: dict[str, Any], tensors: dict[str, TensorInfo]) -> GgufHeader:
    """Returns a header whose last blocks are the model's MTP head if the metadata count some and tensors named `nextn` agree, or
    if the file has left those blocks out."""
    architecture = metadata.get("general.architecture")
    blocks, of_head = (metadata.get(f"{architecture}.{key}") for key in ("block_count", "nextn_predict_layers"))
    if not (is_whole(blocks) and is_whole(of_head) and 0 < of_head < blocks):
        return GgufHeader(metadata, tensors)
    own = blocks - of_head
    found = {name: match for name in tensors if (match := _BLOCK.match(name)) and int(match[1]) >= own}
    if found and not any(match[2] for match in found.values()):
        return GgufHeader(metadata, tensors)
    return GgufHeader(
        metadata | {f"{architecture}.block_count": own},
        {name: tensor for name, tensor in tensors.items() if name not in found},
        {name: tensors[name] for name in found},
    )


class _Reader:
    """Reads values one after another, never past the end of the file."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size

    def header(self) -> GgufHeader:
        """Reads the whole header, from the beginning of the file. Raises _Damaged with the rest of a sentence about the file."""
        tensor_count, entry_count = self._counts()
        metadata: dict[str, Any] = {}
        for _ in range(entry_count):
            key = self._string()
            metadata[key] = self._value(self._scalar("I"))
        if reason := not_a_model_reason(metadata, tensor_count):
            raise _Damaged(reason)
        tensors: dict[str, TensorInfo] = {}
        for _ in range(tensor_count):
            tensor = self._tensor()
            if tensor.name in tensors:
                raise _Damaged(f"is damaged: it contains the tensor {tensor.name} twice. Download it again.")
            tensors[tensor.name] = tensor
        return _without_head(metadata, self._with_file_offsets(metadata, tensors))

    def beginning(self) -> dict[str, Any]:
        """Reads the entries before the first list of more than `_LONG_LIST` values. Raises _Damaged as `header` does."""
        metadata: dict[str, Any] = {}
        for _ in range(self._counts()[1]):
            key, kind = self._string(), self._scalar("I")
            if kind == _ARRAY:
                at = self._file.tell()
                _, count = self._scalar("I"), self._count()
                if count > _LONG_LIST:
                    break
                self._file.seek(at)
            metadata[key] = self._value(kind)
        return metadata

    def _counts(self) -> tuple[int, int]:
        """Reads the magic bytes and the version, and returns the stated numbers of tensors and of metadata entries."""
        magic = self._bytes(4, "is not a GGUF file")
        if magic != _MAGIC:
            if other := placeholder_kind(magic + self._file.read(60)):
                raise _Damaged(other)
            older = " but of an older format of llama.cpp" if magic in _OLDER_VERSIONS else ""
            raise _Damaged(f"is not a GGUF file{older}. Choose a .gguf file or an mlx-lm folder.")
        version = self._scalar("I")
        if version.to_bytes(4, "little")[:2] == b"\0\0" and version:
            raise _Damaged(
                f"is a GGUF file for big-endian machines (its version reads as version {version}). Choose the file for others, "
                "whose name usually lacks “be”."
            )
        if version not in _VERSIONS:
            raise _Damaged(f"is a GGUF file of version {version}; versions 2 and 3 are supported. Convert the model again.")
        return self._count(), self._count()

    def _with_file_offsets(self, metadata: dict[str, Any], tensors: dict[str, TensorInfo]) -> dict[str, TensorInfo]:
        """Returns the tensors with `start` relative to the file instead of its data. Raises _Damaged if one ends outside."""
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 8 or alignment & (alignment - 1):
            raise _Damaged(f"is damaged: its alignment is {alignment!r}. Download it again.")
        data = -(-self._file.tell() // alignment) * alignment
        for name, tensor in tensors.items():
            end = data + tensor.start + tensor.size
            if tensor.start % alignment or end > self._size:
                raise _Damaged(f"is incomplete or damaged: {name} ends at byte {end} of {self._size}. Download it again.")
        return {name: replace(tensor, start=data + tensor.start) for name, tensor in tensors.items()}

    def _tensor(self) -> TensorInfo:
        name = self._string()
        dimensions = self._scalar("I")
        if not 1 <= dimensions <= _MAX_DIMENSIONS:
            raise _Damaged(f"is damaged: {name!r} has {dimensions} dimensions. Download it again.")
        shape = tuple(self._scalar("Q") for _ in range(dimensions))[::-1]
        number = self._scalar("I")
        kind = _TYPE_NAMES.get(number, f"number {number}")
        if kind not in BLOCKS:
            raise _Damaged(
                f"contains weights of type {kind} ({name}), which is not supported. "
                f"Choose a file quantised as {', '.join(BLOCKS)}, or an mlx-lm folder."
            )
        if not all(0 < extent < 2**31 for extent in shape) or shape[-1] % BLOCKS[kind][0]:
            raise _Damaged(f"is damaged: {name} has the impossible shape {shape} for {kind}. Download it again.")
        return TensorInfo(name, shape, kind, self._scalar("Q"))

    def _value(self, kind: int, nested: bool = False) -> Any:
        if kind == _STRING:
            return self._string()
        if kind in _SCALARS:
            return self._scalar(_SCALARS[kind])
        if kind != _ARRAY or nested:
            raise _Damaged(f"is damaged or too new: it contains a value of the unknown type {kind}. Download it again.")
        element, count = self._scalar("I"), self._count()
        if element in _SCALARS:
            form = f"<{count}{_SCALARS[element]}"
            return list(struct.unpack(form, self._bytes(struct.calcsize(form))))
        return [self._value(element, nested=True) for _ in range(count)]

    def _string(self) -> str:
        raw = self._bytes(self._scalar("Q"))
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise _Damaged("is damaged: a string in it is not UTF-8. Download it again.") from error

    def _count(self) -> int:
        count: int = self._scalar("Q")
        if count > _MAX_ENTRIES:
            raise _Damaged(f"is damaged: it claims to have {count} {noun(count, 'entry', 'entries')}. Download it again.")
        return count

    def _scalar(self, form: str) -> Any:
        return struct.unpack("<" + form, self._bytes(struct.calcsize("<" + form)))[0]

    def _bytes(self, count: int, message: str = "is incomplete: its header ends too early") -> bytes:
        if count > self._size:
            raise _Damaged(f"{message}. Download it again.")
        raw = self._file.read(count)
        if len(raw) < count:
            raise _Damaged(f"{message}. Download it again.")
        return raw
