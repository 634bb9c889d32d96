"""Saves the measurements of a benchmark to disk immediately, so that an interrupted one can resume. Nothing here imports MLX.

A journal is one JSON Lines file per state: the request, the models' files, the versions and the machine. Its first line
contains that state. Each further line is a measurement, flushed to disk before the next one starts. A killed process leaves at
most a partial last line, which is cut off. If anything in the state changes, a new journal starts. The old file is kept, and
resumed when its state applies again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from engine.files import lock
from engine.files.foreign import json_of, number, whole
from engine.files.whole_file import sync_to_disk
from engine.machine import provenance
from engine.rounds.codec import plain
from engine.values.requests.bench import BenchRequest, BenchRow, BenchSetup
from engine.values.wording import amount, listed

FORMAT = "draftlight.bench.journal/1"
MAX_JOURNALS = 20
"""Number of journals that are kept, newest first."""
_KINDS = get_type_hints(BenchRow)
_MAX_COUNT = 2**53
"""Upper limit for every count and time of a row."""
_WORDS = {
    "target": "the target or its file",
    "drafters": "the drafters or their files",
    "prompts": "the prompts",
    "rules": "the rules",
    "temperatures": "the temperatures",
    "gammas": "gamma",
    "max_tokens": "the maximum of tokens",
    "seed": "the seed",
    "top_p": "top-p",
    "top_k": "top-k",
    "min_p": "min-p",
    "repetition_penalty": "the repetition penalty",
    "peers": "whether mlx-lm is measured",
    "kv_bits": "the bits of the K/V cache",
    "budget": "the budget of trees",
    "width": "the width of trees",
    "versions": "a version of Draftlight, of MLX or of the system",
    "machine": "the machine",
}
"""Names, for messages, of everything that measurements depend on."""


def state_of(request: BenchRequest, setup: BenchSetup) -> dict[str, Any]:
    """Returns everything that measurements depend on, by the keys of `_WORDS`."""
    asked = plain(request)
    found = {
        "target": [setup.target.name, setup.target.sha256],
        "drafters": [[drafter.name, drafter.sha256] for drafter in setup.drafters],
        "prompts": hashlib.sha256(json.dumps(asked["prompts"]).encode()).hexdigest(),
        "versions": provenance.versions(),
        "machine": {**provenance.hardware(), "device": setup.device},
    }
    return {key: found.get(key, asked.get(key)) for key in _WORDS}


class Journal:
    """The journal of one state.

    Attributes:
        rows: earlier measurements, in the order in which they were made.
        messages: why prompts could not be measured.
        note: whether it resumes or starts again, and why; empty if there is nothing to report.
    """

    def __init__(self, folder: Path, state: Mapping[str, Any], anew: bool = False) -> None:
        """Opens the journal. `anew`: discard earlier measurements. Raises OSError if it cannot be written."""
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()[:16]}.jsonl"
        self.rows: list[BenchRow] = []
        self.messages: list[str] = []
        self.note = ""
        kept = None if anew else _read(self._path)
        if kept is not None and kept.rows and not kept.complete:
            self.rows, self.messages = kept.rows, kept.messages
            self.note = f"Goes on from {amount(len(kept.rows), 'measurement')} of {kept.began}."
            with self._path.open("r+b") as file:
                file.truncate(kept.whole_bytes)
        else:
            self.note = _reason_for_restart(folder, self._path, state)
            self._path.unlink(missing_ok=True)
            began = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
            self._append({"format": FORMAT, "began": began, "state": plain(state)})
        _delete_old(folder)

    def measured(self, row: BenchRow) -> None:
        """Saves a measurement. Raises OSError."""
        self._append({"row": plain(row)})

    def skipped(self, message: str) -> None:
        """Saves why a prompt cannot be measured. Raises OSError."""
        self._append({"message": message})

    def finished(self) -> None:
        """Marks the benchmark as complete: the same request will measure it again. Raises OSError."""
        self._append({"complete": True})

    def _append(self, entry: Mapping[str, Any]) -> None:
        with self._path.open("ab") as file:
            file.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
            file.flush()
            sync_to_disk(file.fileno())


@contextlib.contextmanager
def exclusive_use(folder: Path) -> Iterator[None]:
    """Raises DraftlightError if another benchmark is running on this machine: each would slow down the other. In a folder that
    cannot be written no check is possible."""
    busy = "Another benchmark is under way, and each would slow the other down. Wait for its end, or stop it, and try again."
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(lock.exclusive_lock(folder / "lock", busy))
        yield


class _JournalContent:
    """Content of a journal's file, up to the first invalid line."""

    def __init__(self, content: bytes) -> None:
        head, *lines = content.splitlines(keepends=True)
        header = json_of(head)
        if header["format"] != FORMAT or not head.endswith(b"\n"):
            raise ValueError("no journal")
        self.began, self.state = str(header["began"]), dict(header["state"])
        self.target, _ = map(str, self.state["target"])
        self.rows: list[BenchRow] = []
        self.messages: list[str] = []
        self.complete = False
        self.whole_bytes = len(head)
        for line in lines:
            if not line.endswith(b"\n"):
                break
            try:
                entry = json_of(line)
                if not isinstance(entry, dict):
                    raise ValueError("no entry")
                if "row" in entry:
                    self.rows.append(_row(entry["row"]))
                elif "message" in entry:
                    self.messages.append(str(entry["message"]))
            except (ValueError, KeyError, TypeError):
                break
            self.complete = self.complete or entry.get("complete") is True
            self.whole_bytes += len(line)


def _read(path: Path) -> _JournalContent | None:
    try:
        return _JournalContent(path.read_bytes())
    except (OSError, ValueError, KeyError, TypeError):  # no file, or cut off within its first line
        return None


def _row(value: Mapping[str, Any]) -> BenchRow:
    """Returns the row that `plain` converted to `value`. Raises ValueError, KeyError or TypeError if it is none."""
    fields = {name: value[name] for name in _KINDS}
    for name, kind in _KINDS.items():
        if not _fits(fields[name], kind):
            raise ValueError(f"{name} cannot be {fields[name]!r}")
    return BenchRow(**{**fields, "finishes": tuple(fields["finishes"])})


def _fits(value: object, kind: Any) -> bool:
    """Returns whether a JSON value fits the type of a row's field. Numbers must be valid counts or measurements."""
    parts = get_args(kind)
    if get_origin(kind) is Literal:
        return value in parts
    if get_origin(kind) is tuple:
        return isinstance(value, list) and all(_fits(entry, parts[0]) for entry in value)
    if parts:  # a union
        return any(_fits(value, part) for part in parts)
    if kind is int or kind is float:
        parsed = whole(value) if kind is int else number(value)
        return parsed is not None and 0 <= parsed < _MAX_COUNT
    return isinstance(value, kind)


def _reason_for_restart(folder: Path, own: Path, state: Mapping[str, Any]) -> str:
    """Returns what has changed since the newest unfinished journal of this target."""
    name = plain(state)["target"][0]
    for path in sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime, reverse=True):
        content = None if path == own else _read(path)
        if content is not None and content.rows and content.target == name:
            if content.complete:
                return ""
            changed = [words for key, words in _WORDS.items() if content.state.get(key) != plain(state)[key]]
            return (
                f"Starts anew, because {listed(changed)} changed since {content.began}. Those measurements are kept: the "
                "benchmark continues from them once everything is as before."
            )
    return ""


def _delete_old(folder: Path) -> None:
    for path in sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime, reverse=True)[MAX_JOURNALS:]:
        path.unlink(missing_ok=True)
