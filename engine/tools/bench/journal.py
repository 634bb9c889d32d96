"""What a benchmark has measured so far, kept on the disk at once, so that an interrupted one goes on. Nothing here imports MLX.

A journal is one file of JSON Lines for each state of things: what is asked, the files of the models, the versions, the machine.
Its first line says that state; each line after it is a measurement, forced to the disk before the next one begins. Whoever is
killed leaves at most half a line at the end, which is cut off. As soon as anything is another, so is the file, and a benchmark
starts anew; the old file stays, and is gone on with when everything is as before.
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
from engine.files.whole_file import force
from engine.machine import provenance
from engine.rounds.codec import plain
from engine.values.requests.bench import BenchRequest, BenchRow, BenchSetup
from engine.values.wording import amount, listed

FORMAT = "draftlight.bench.journal/1"
KEPT = 20
"""Journals that are kept, the newest ones."""
_KINDS = get_type_hints(BenchRow)
_LARGEST = 2**53
"""No count and no time of a row is as large."""
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
    "versions": "a version of Draftlight, of MLX or of the system",
    "machine": "the machine",
}
"""Everything that measurements depend on, as a message calls it."""


def state_of(request: BenchRequest, setup: BenchSetup) -> dict[str, Any]:
    """Everything that measurements depend on, by the keys of `_WORDS`."""
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
    """The journal of one state of things.

    Attributes:
        rows: what was measured before, in the order of measuring.
        messages: what was said of prompts that could not be measured.
        note: whether this goes on or starts anew, and why; empty if there is nothing to say.
    """

    def __init__(self, folder: Path, state: Mapping[str, Any], anew: bool = False) -> None:
        """`anew`: forget what was measured. Raises OSError where nothing can be written."""
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
            self.note = _why_anew(folder, self._path, state)
            self._path.unlink(missing_ok=True)
            began = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
            self._append({"format": FORMAT, "began": began, "state": plain(state)})
        _forget_old(folder)

    def measured(self, row: BenchRow) -> None:
        """Keep a measurement. Raises OSError."""
        self._append({"row": plain(row)})

    def skipped(self, message: str) -> None:
        """Keep what is said of a prompt that cannot be measured. Raises OSError."""
        self._append({"message": message})

    def finished(self) -> None:
        """Everything is measured: the same request will measure it again. Raises OSError."""
        self._append({"complete": True})

    def _append(self, entry: Mapping[str, Any]) -> None:
        with self._path.open("ab") as file:
            file.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
            file.flush()
            force(file.fileno())


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Raises DraftlightError if another benchmark is under way on this machine: each would slow the other down. Where nothing can
    be written there is no telling."""
    busy = "Another benchmark is under way, and each would slow the other down. Wait for its end, or stop it, and try again."
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(lock.alone(folder / "lock", busy))
        yield


class _Kept:
    """What a journal's file holds, up to the first line that is not whole."""

    def __init__(self, content: bytes) -> None:
        head, *lines = content.splitlines(keepends=True)
        begun = json_of(head)
        if begun["format"] != FORMAT or not head.endswith(b"\n"):
            raise ValueError("no journal")
        self.began, self.state = str(begun["began"]), dict(begun["state"])
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


def _read(path: Path) -> _Kept | None:
    try:
        return _Kept(path.read_bytes())
    except (OSError, ValueError, KeyError, TypeError):  # there is none, or it was cut off within its first line
        return None


def _row(value: Mapping[str, Any]) -> BenchRow:
    """The row that `plain` made `value` of. Raises ValueError, KeyError or TypeError where it made none."""
    known = {name: value[name] for name in _KINDS}
    for name, kind in _KINDS.items():
        if not _fits(known[name], kind):
            raise ValueError(f"{name} cannot be {known[name]!r}")
    return BenchRow(**{**known, "finishes": tuple(known["finishes"])})


def _fits(value: object, kind: Any) -> bool:
    """Whether a JSON value is of the kind of one of a row's fields, all of whose numbers count or measure something."""
    parts = get_args(kind)
    if get_origin(kind) is Literal:
        return value in parts
    if get_origin(kind) is tuple:
        return isinstance(value, list) and all(_fits(entry, parts[0]) for entry in value)
    if parts:  # a union
        return any(_fits(value, part) for part in parts)
    if kind is int or kind is float:
        found = whole(value) if kind is int else number(value)
        return found is not None and 0 <= found < _LARGEST
    return isinstance(value, kind)


def _why_anew(folder: Path, own: Path, state: Mapping[str, Any]) -> str:
    """What has changed since the newest journal of this target that was not finished."""
    name = plain(state)["target"][0]
    for path in sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime, reverse=True):
        kept = None if path == own else _read(path)
        if kept is not None and kept.rows and kept.target == name:
            if kept.complete:
                return ""
            changed = [words for key, words in _WORDS.items() if kept.state.get(key) != plain(state)[key]]
            return (
                f"Starts anew, because {listed(changed)} changed since {kept.began}. What was measured then is kept, and "
                "gone on with when everything is as it was."
            )
    return ""


def _forget_old(folder: Path) -> None:
    for path in sorted(folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime, reverse=True)[KEPT:]:
        path.unlink(missing_ok=True)
