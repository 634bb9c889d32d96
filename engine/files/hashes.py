"""SHA-256 digests of model files, cached on disk.

Hashing a large model takes seconds, so digests are recorded in the data folder by path, size and modification time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from engine.files.foreign import object_in, text
from engine.files.paths import data_folder
from engine.files.whole_file import NotWritten, write_whole


def file_sha256(path: Path, trust_record: bool = True) -> str:
    """Returns the hex digest of a file's content. Raises OSError if it cannot be read.

    Args:
        trust_record: use the recorded digest if size and modification time match; False always reads the file.
    """
    status = path.stat()
    key = f"{path.resolve()}|{status.st_size}|{status.st_mtime_ns}"
    record = object_in(_record_path())
    if trust_record and (digests := text(record.get(key))):
        return digests
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    others = {name: value for name, value in record.items() if not name.startswith(f"{path.resolve()}|")}
    with contextlib.suppress(NotWritten):  # then the next start hashes again
        write_whole(_record_path(), json.dumps(others | {key: digest}, indent=1), durable=False)
    return digest


def files_sha256(paths: Sequence[Path]) -> str:
    """Returns one digest for several files: that of the lines `<digest>  <file name>`, sorted by name. A single file has its own
    digest."""
    if len(paths) == 1:
        return file_sha256(paths[0])
    lines = (f"{file_sha256(path)}  {path.name}\n" for path in sorted(paths, key=lambda path: path.name))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _record_path() -> Path:
    return data_folder() / "hashes.json"
