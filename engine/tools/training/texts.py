"""Records of text as tokens: their files in the work folder, and the conversion of given text to records.

A file (``.npz``) contains ``tokens`` uint32 (all records concatenated) and for each record ``lengths``, ``prompts`` (number of
leading tokens that are the prompt), ``groups`` uint32 (equal for records of the same prompt or document, which are held out
together) and ``temperatures`` float32 (of the answer; -1 if unknown). Files are only ever added, in the order of their names.
"""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.files import archives
from engine.files.foreign import json_of, open_file
from engine.files.whole_file import write_whole
from engine.models.tokenizer import Tokenizer
from engine.values.errors import DraftlightError
from engine.values.requests.train import SUFFIXES
from engine.values.wording import noun

RECORDS = 64
"""Records per file of given text."""
MIN_TOKENS = 8
"""Minimum tokens of a record; nothing can be learned from shorter ones."""
GIVEN, WRITTEN = "given", "written"
"""Prefixes of file names: given text, and text that the target wrote. In alphabetical order given text comes first."""
_OF_HEADERS = (SyntaxError, tokenize.TokenError, TypeError, OverflowError, MemoryError)
UNREADABLE = (OSError, ValueError, KeyError, *archives.UNREADABLE, *_OF_HEADERS)
"""Exceptions that NumPy raises for files that are cut off, empty, damaged or from another program: for a missing file or array,
for damaged archives, and for damaged headers, which it parses as Python and which may request any amount of memory."""
_WHOLE, _FLOATS = "ui", "f"
"""Kinds of numbers: integers and floats, by the letters of `numpy.dtype.kind`."""
_KINDS = {"tokens": _WHOLE, "lengths": _WHOLE, "prompts": _WHOLE, "groups": _WHOLE, "temperatures": _FLOATS}
_SELF_PLAY_KINDS = {"tokens": _WHOLE, "offsets": _WHOLE, "prompt_lengths": _WHOLE}
_READ_AT_ONCE = 20_000
"""Characters of a document that are tokenised together."""


@dataclass(frozen=True)
class TextRecord:
    """One text: `tokens` (length,) uint32, the answer from `prompt_length` on, which is at least 1."""

    tokens: np.ndarray
    prompt_length: int
    group: int
    temperature: float = -1.0


def group_of(tokens: Sequence[int] | np.ndarray) -> int:
    """Returns the group of a prompt or document, a hash of its tokens."""
    return zlib.crc32(np.asarray(tokens, np.uint32).tobytes())


def save(path: Path, records: Sequence[TextRecord]) -> None:
    """Writes a whole file. Raises DraftlightError."""
    arrays = {
        "tokens": np.concatenate([record.tokens for record in records]).astype(np.uint32),
        "lengths": np.array([len(record.tokens) for record in records], np.int32),
        "prompts": np.array([record.prompt_length for record in records], np.int32),
        "groups": np.array([record.group for record in records], np.uint32),
        "temperatures": np.array([record.temperature for record in records], np.float32),
    }
    write_whole(path, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]


def load(path: Path) -> list[TextRecord]:
    """Returns the records of a file. Raises DraftlightError if it is damaged."""
    try:
        tokens, lengths, prompts, groups, temperatures = _vectors(path, _KINDS)
        if not len(lengths) or lengths.min() < 1 or lengths.sum() != len(tokens):
            raise ValueError("its lengths do not match its tokens")
        parts = np.split(tokens, np.cumsum(lengths)[:-1])
        described = zip(parts, prompts.tolist(), groups.tolist(), temperatures.tolist(), strict=True)
        return [TextRecord(*record) for record in described]
    except UNREADABLE as error:
        raise DraftlightError(f"{path} is damaged ({error}). Remove it and run the command again.") from error


def _vectors(path: Path, kinds: Mapping[str, str]) -> list[np.ndarray]:
    """Returns the named arrays of an ``.npz`` file, each with one dimension and its kind of numbers. Raises one of
    `UNREADABLE`."""
    with open_file(path) as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is no archive of arrays")
        file.seek(0)
        with np.load(file) as arrays:
            vectors = [np.asarray(arrays[name]) for name in kinds]  # bytes if the member is not an array
    for (name, kind), array in zip(kinds.items(), vectors, strict=True):
        if array.ndim != 1 or array.dtype.kind not in kind:
            raise ValueError(f"{name} is not a row of {'whole numbers' if kind == _WHOLE else 'numbers'}")
    return vectors


def files(folder: Path) -> list[Path]:
    """Returns the files of a folder, oldest first: given text, then text that the target wrote."""
    return sorted(folder.glob("*.npz"))


def find(sources: Sequence[Path]) -> list[Path]:
    """Returns the text files that are named or lie in named folders, ordered by name.

    Raises:
        DraftlightError: a name is neither file nor folder, a folder has no text, or a file is of another kind.
    """
    paths: list[Path] = []
    for source in sources:
        if source.is_dir():
            members = sorted(path for path in source.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
            if not members:
                raise DraftlightError(f"There is no text in {source}: no file name ends in {', '.join(SUFFIXES)}.")
            paths += members
        elif not source.is_file():
            raise DraftlightError(f"There is no text at {source}. Give a file or a folder.")
        elif source.suffix.lower() not in SUFFIXES:
            raise DraftlightError(f"{source} is not a supported text file: its name does not end in {', '.join(SUFFIXES)}.")
        else:
            paths.append(source)
    return paths


def read_given(sources: Iterable[Path], tokenizer: Tokenizer, longest: int) -> Iterator[TextRecord]:
    """Yields the records of given text (see `find`). Documents are split into pieces of `longest` tokens, chats are cut off
    there.

    Raises:
        DraftlightError: a file cannot be read, or a line of a .jsonl file is not of a known form.
    """
    readers = {".npz": _self_play, ".jsonl": _lines}
    for source in sources:
        try:
            for record in readers.get(source.suffix.lower(), _document)(source, tokenizer, longest):
                if len(record.tokens) >= MIN_TOKENS and record.prompt_length < len(record.tokens):
                    yield record
        except (OSError, UnicodeDecodeError) as error:
            raise DraftlightError(f"{source} cannot be read as text ({error}). Text must be UTF-8.") from error


def _self_play(path: Path, tokenizer: Tokenizer, longest: int) -> Iterator[TextRecord]:
    """Yields the records of text that the target wrote for itself. The file contains ``tokens`` (integers, all records
    concatenated), ``offsets`` (record i is ``tokens[offsets[i]:offsets[i + 1]]``) and ``prompt_lengths`` (number of leading
    tokens of each record that are the prompt, chat template included; the rest is the answer)."""
    try:
        tokens, offsets, prompt_lengths = _vectors(path, _SELF_PLAY_KINDS)
        if len(offsets) != len(prompt_lengths) + 1 or offsets.min() < 0 or offsets.max() > len(tokens):
            raise ValueError("its offsets do not match its tokens")
    except UNREADABLE as error:
        raise DraftlightError(
            f"{path} is not a file of training text, or it is damaged ({error}). Remove it, or give other text, and run "
            "the command again."
        ) from error
    width = len(tokenizer.vocabulary)
    for start, end, prompt_length in zip(offsets[:-1], offsets[1:], prompt_lengths.tolist(), strict=True):
        record = tokens[start:end][:longest]
        if not 1 <= prompt_length < len(record):
            continue
        if record.min() < 0 or record.max() >= width:
            raise DraftlightError(f"{path} was written by another model: the target has only {width} {noun(width, 'token')}.")
        prompt = record[:prompt_length]
        yield TextRecord(record.astype(np.uint32), prompt_length, group_of(prompt if prompt_length >= MIN_TOKENS else record))


def _document(path: Path, tokenizer: Tokenizer, longest: int) -> Iterator[TextRecord]:
    yield from _pieces(path.read_text(encoding="utf-8-sig"), tokenizer, longest)


def _pieces(text: str, tokenizer: Tokenizer, longest: int) -> Iterator[TextRecord]:
    group = zlib.crc32(text.encode("utf-8", "replace"))
    tokens: list[int] = []
    for start in range(0, len(text), _READ_AT_ONCE):
        tokens += tokenizer.encode(text[start : start + _READ_AT_ONCE])
    first = [] if tokenizer.bos_id is None else [tokenizer.bos_id]
    step = longest - len(first)
    for start in range(0, len(tokens), step):
        yield TextRecord(np.array([*first, *tokens[start : start + step]], np.uint32), 1, group)


def _lines(path: Path, tokenizer: Tokenizer, longest: int) -> Iterator[TextRecord]:
    """Yields a record for each line of JSON: {"messages": [{"role", "content"}, ...]}, {"prompt", "answer"} or {"text"}."""
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                yield from _line(json_of(line), tokenizer, longest)
            except (ValueError, TypeError, KeyError) as error:
                if isinstance(error, UnicodeDecodeError):
                    raise
                raise DraftlightError(
                    f'{path}, line {number}, is not a chat: it must be JSON with "messages" (each with role and content, the '
                    'last one from the assistant), with "prompt" and "answer", or with "text".'
                ) from error


def _line(entry: Any, tokenizer: Tokenizer, longest: int) -> Iterator[TextRecord]:
    if "text" in entry:
        yield from _pieces(_string(entry["text"]), tokenizer, longest)
        return
    if "messages" in entry:
        messages = [{name: _string(message[name]) for name in ("role", "content")} for message in entry["messages"]]
    else:
        turns = (("user", "prompt"), ("assistant", "answer"))
        messages = [{"role": role, "content": _string(entry[name])} for role, name in turns]
    if len(messages) < 2 or messages[-1]["role"] != "assistant":
        raise ValueError("the last message must be from the assistant")
    yield chat_record(messages, tokenizer, longest)


def chat_record(messages: Sequence[dict[str, str]], tokenizer: Tokenizer, longest: int) -> TextRecord:
    """Returns the record of a conversation that ends with an answer; everything before that is the prompt."""
    prompt = tokenizer.apply_chat_template(messages[:-1], add_generation_prompt=True)
    ends = [] if tokenizer.eos_id is None else [tokenizer.eos_id]
    tokens = [*prompt, *tokenizer.encode(messages[-1]["content"]), *ends]
    return TextRecord(np.array(tokens[:longest], np.uint32), len(prompt), group_of(prompt))


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("text expected")
    return value
