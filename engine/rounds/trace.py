"""The trace of an answer: JSON Lines, `draftlight.trace/1`, one file per answer.

Every line is one JSON object in UTF-8 with a `kind`:

- `header` comes first: `schema`, `created` (UTC), versions, hardware, the models with their hashes, every option with the seed
that was drawn, the prompt as messages, text and token ids, and under `given` the given beginning of the answer as text and token
ids, empty unless it branches off another answer. If `kept` is false, it does not become a chat.
- `round`: one `engine.types.Round`; see `engine.rounds.codec` for how its values look.
- `change`: rule, gamma or drafter took effect from round `index` on.
- `summary` comes last: how the answer ended, its text, times and metrics. Without it the answer was cut off.

A trace may be compressed, as `NAME.jsonl.gz`; it is then found under the name `NAME.jsonl`.

A line is written to the operating system in one call, at the latest before the next round but one begins, so a killed process
loses at most two rounds. Only a power failure can lose more: the file is forced to the disk after the header and at the end, but
not after each round, because that would cost milliseconds per round. Nothing here imports MLX.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import logging
import os
import re
import secrets
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from engine.files.foreign import content_of, entries, require_shallow, table, text
from engine.files.whole_file import sync_to_disk
from engine.machine.garbage import without_collecting
from engine.rounds.codec import plain, round_from_json, round_to_json
from engine.types import Round
from engine.values.errors import DraftlightError
from engine.values.wording import amount

SCHEMA = "draftlight.trace/1"
_FAMILY = "draftlight.trace/"
ENDING, PACKED = ".jsonl", ".gz"
"""Ending of a trace's file name, and the one that is added for a compressed trace."""
_GZIP = b"\x1f\x8b"
_DENSEST = 200
"""Highest accepted compression ratio. A trace is compressed to about a quarter; a file with a higher ratio is not a trace."""
_NAME = re.compile(r"([0-9]{8})-([0-9]{6})-[0-9a-f]{6}" + re.escape(ENDING))
"""Matches the names that `trace_name` returns."""
_OPENING = f'{{"kind":"header","schema":"{SCHEMA}"'.encode()
_LINE_ENDS = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}
"""Escapes for characters that JSON allows inside a text, but at which many readers end a line."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlainRun:
    """A measured run of the same request without a drafter: `throughput` in tokens per second over `tokens` tokens."""

    throughput: float
    tokens: int


@dataclass(frozen=True, slots=True)
class Trace:
    """Contents of a trace.

    Attributes:
        path: the file that was read.
        header, changes, summary: as written, without `kind`; `summary` is None in a cut-off trace.
        rounds: the complete rounds up to the first damage.
        missing: the part that the file lacks, as a sentence for the user; None if it is complete.
        plain: the plain run it is compared with. It is not in the file: the caller that measured it adds it with
            `dataclasses.replace`.
    """

    path: Path
    header: dict[str, Any]
    rounds: tuple[Round, ...]
    changes: tuple[dict[str, Any], ...]
    summary: dict[str, Any] | None
    missing: str | None
    plain: PlainRun | None = None

    def part(self, name: str) -> dict[str, Any]:
        """Returns a table of the header; empty if it is missing. A trace may come from anywhere, so the properties below allow
        for that."""
        return table(self.header.get(name))

    @property
    def is_kept(self) -> bool:
        """Whether a chat may be made of it. Older traces do not say, and may."""
        return self.header.get("kept") is not False

    @property
    def given_text(self) -> str:
        """Given beginning of the answer; empty unless it branches off another."""
        return text(self.part("given").get("text"))

    @property
    def given_ids(self) -> tuple[int, ...]:
        """The tokens of `given_text`."""
        return tuple(token for token in entries(self.part("given").get("ids")) if isinstance(token, int))

    @property
    def text(self) -> str:
        """Text of the answer as far as its rounds go, including its given beginning."""
        return self.given_text + "".join(round.text for round in self.rounds)

    @property
    def messages(self) -> list[tuple[str, str]]:
        """Role and text of every message of the conversation, the prompt last."""
        found = [(entry.get("role"), entry.get("content")) for entry in map(table, entries(self.part("prompt").get("messages")))]
        return [(role, said) for role, said in found if isinstance(role, str) and isinstance(said, str)]


class Writer:
    """Writes one trace, line by line. Disk errors are never raised: the answer matters more than its record.

    After the first failure nothing more is written, the file ends with a complete line, and `failure` describes the error. An
    existing file is never overwritten.
    """

    def __init__(self, path: Path | None, header: Mapping[str, Any]) -> None:
        """Creates the file, and its folder if needed, and writes the header. Without a path nothing is written."""
        self.path = path
        self.failure: str | None = None
        self._descriptor: int | None = None
        self._length = 0
        if path is None:
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        except OSError as error:
            self._fail(error)
        self._write("header", {"schema": SCHEMA, **header})
        self._force()

    def round(self, round: Round) -> None:
        """Appends a round."""
        self._write("round", round_to_json(round))

    def change(self, change: Mapping[str, Any]) -> None:
        """Appends a change of rule, gamma or drafter; `index` is the first round under it."""
        self._write("change", change)

    def summary(self, summary: Mapping[str, Any]) -> None:
        """Appends the summary."""
        self._write("summary", summary)

    def close(self) -> None:
        """Forces the file to the disk and closes it. A second call does nothing."""
        self._force()
        if self._descriptor is not None:
            try:
                os.close(self._descriptor)
            except OSError as error:
                self._fail(error)
            self._descriptor = None

    def _write(self, kind: str, value: Mapping[str, Any]) -> None:
        if self._descriptor is None or self.failure is not None:
            return
        line = encode_line(kind, value)
        written = 0
        try:
            while written < len(line):
                written += os.write(self._descriptor, line[written:])
        except OSError as error:
            with contextlib.suppress(OSError):  # a full disk still allows truncation
                os.ftruncate(self._descriptor, self._length)
            self._fail(error)
            return
        self._length += len(line)

    def _force(self) -> None:
        if self._descriptor is None or self.failure is not None:
            return
        try:
            sync_to_disk(self._descriptor)
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        if self.failure is None:
            self.failure = f"The trace {self.path} is incomplete: {error.strerror or error}."
            _log.error("%s", self.failure)


def encode_line(kind: str, value: Mapping[str, Any]) -> bytes:
    """Returns one line of a trace, including its line end."""
    entry = {"kind": kind, **plain(value)}
    line = json.dumps(entry, ensure_ascii=False, allow_nan=False, separators=(",", ":")).translate(_LINE_ENDS) + "\n"
    try:
        return line.encode()
    except UnicodeEncodeError:  # half a surrogate pair, as terminals and clipboards can produce
        return (json.dumps(entry, allow_nan=False, separators=(",", ":")) + "\n").encode()


def read(path: str | os.PathLike[str]) -> Trace:
    """Reads a trace, also one that was cut off or is still being written.

    Raises:
        DraftlightError: the file cannot be read, is not a trace, is of a later format, or ends inside its header.
    """
    path = Path(path)
    if path.name.endswith(ENDING + PACKED):
        path = path.with_suffix("")
    content = _content(path).removeprefix(codecs.BOM_UTF8)  # editors and other programs write a BOM
    written = content.rstrip(b" \t\r\n")  # or blank lines at the end
    is_open = b"\n" not in content[len(written) :]
    lines = written.split(b"\n")
    header = _header(path, lines[0], is_cut=len(lines) == 1 and is_open)
    with without_collecting():
        return _body(path, header, lines, is_open)


def trace_name(created: datetime) -> str:
    """Returns a new file name; names sort by time."""
    return f"{created:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}{ENDING}"


def named_at(name: str) -> float | None:
    """Returns the time at which `trace_name` returned this name, in seconds since 1970; None for other names."""
    found = _NAME.fullmatch(name)
    try:
        return None if found is None else datetime.fromisoformat(f"{found[1]}T{found[2]}Z").timestamp()
    except ValueError:  # no such day
        return None


def has_summary(path: Path) -> bool:
    """Returns whether the last line of an uncompressed trace is its summary, after which nothing is written. Raises OSError."""
    content = content_of(path)
    return content.endswith(b"\n") and content[content.rfind(b"\n", 0, -1) + 1 :].startswith(b'{"kind":"summary"')


def traces_in(folder: Path) -> list[Path]:
    """Returns the traces in a folder, each under its uncompressed name, in order of names."""
    packed = (path.with_suffix("") for path in folder.glob(f"*{ENDING}{PACKED}"))
    return sorted({*folder.glob(f"*{ENDING}"), *packed})


def _content(path: Path) -> bytes:
    """Returns the content of the file, or of the compressed one in its place. A truncated compressed file gives its readable
    part."""
    try:
        try:
            content = content_of(path)
        except FileNotFoundError:
            content = content_of(path.with_name(path.name + PACKED))
    except (OSError, ValueError) as error:
        raise DraftlightError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    if not content.startswith(_GZIP):
        return content
    unpacking = zlib.decompressobj(wbits=31)
    try:
        return unpacking.decompress(content, _DENSEST * len(content))
    except zlib.error:
        raise DraftlightError(f"{path} is damaged: it cannot be decompressed.") from None


def _body(path: Path, header: dict[str, Any], lines: list[bytes], is_open: bool) -> Trace:
    """Reads the lines after the header, up to the first damage; `is_open` if the last line has no line end."""
    rounds: list[Round] = []
    changes: list[dict[str, Any]] = []
    summary: dict[str, Any] | None = None
    missing: str | None = None
    for number, line in enumerate(lines[1:], start=2):
        try:
            entry = _decode_line(line)
            kind = entry.pop("kind", None)
            if kind == "round":
                rounds.append(_next_round(entry, len(rounds)))
            elif kind == "change":
                changes.append(entry)
            elif kind == "summary":
                summary = entry
        except ValueError as error:
            missing = _describe(number, len(lines), is_open, len(rounds), str(error))
            break
    if missing is None and summary is None:
        missing = f"The answer was cut off: its summary is missing. {_count(len(rounds))} complete."
    return Trace(path, header, tuple(rounds), tuple(changes), summary, missing)


def _header(path: Path, line: bytes, is_cut: bool) -> dict[str, Any]:
    try:
        header = _decode_line(line)
    except ValueError:
        if is_cut and (line.startswith(_OPENING) or _OPENING.startswith(line)):
            raise DraftlightError(
                f"{path} ends inside its header, before the first round, so there is nothing to read."
            ) from None
        raise DraftlightError(f"{path} is not a Draftlight trace.") from None
    schema = header.pop("schema", None)
    if header.pop("kind", None) != "header" or not isinstance(schema, str) or not schema.startswith(_FAMILY):
        raise DraftlightError(f"{path} is not a Draftlight trace.")
    if schema != SCHEMA:
        raise DraftlightError(f"{path} is written in {ascii(schema)[1:-1]}; this version of Draftlight reads {SCHEMA}.")
    return header


def _decode_line(line: bytes) -> dict[str, Any]:
    """Returns the object on a line. Raises ValueError, also for bad UTF-8 and bad JSON."""
    try:
        entry = json.loads(line.decode(), parse_constant=lambda name: None)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(entry, dict):
        raise ValueError("it is not an object")
    if entry.get("kind") != "round":  # the codec checks every type of a round
        require_shallow(entry)
    return entry


def _next_round(entry: dict[str, Any], index: int) -> Round:
    round = round_from_json(entry)
    if round.index != index:
        raise ValueError(f"round {index + 1} is missing")
    return round


def _describe(number: int, count: int, is_open: bool, rounds: int, reason: str) -> str:
    if number == count and is_open:
        return f"The answer was cut off: line {number} is incomplete. {_count(rounds)} complete."
    rest = count - number
    after = f", and {rest} after it not read" if rest else ""
    return f"Line {number} is damaged ({reason}){after}. {_count(rounds)} complete."


def _count(rounds: int) -> str:
    return f"{amount(rounds, 'round')} {'is' if rounds == 1 else 'are'}"
