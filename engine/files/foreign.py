"""Reads untrusted files. No MLX.

Opens only regular files, restricts JSON to values that every reader supports, and treats values of an unexpected type as
missing.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from engine.values.errors import is_number, is_whole

_MAX_DEPTH = 100
"""Maximum levels of nesting. Python's recursion limit, about a thousand, could otherwise be reached in any later code."""
_ESCAPES = re.compile(r"(\\\\|\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w)|\\u[dD][89a-fA-F]\w\w")
"""Matches half a surrogate pair in JSON. Group 1 is set if it is none: an escaped backslash or a whole pair."""
_MAX_DIGITS = 20
"""Maximum characters of an integer that fits into 64 bits, sign included."""


def open_file(path: Path) -> BinaryIO:
    """Opens a file for reading. Raises OSError, also for a pipe or a device, which may have no end."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        kind = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(kind):
            raise OSError(None, "it is a folder, not a file" if stat.S_ISDIR(kind) else "it is a device or a pipe, not a file")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def content_of(path: Path) -> bytes:
    """Returns the content of a file. Raises OSError as `open_file` does."""
    with open_file(path) as file:
        return file.read()


def json_of(text: str | bytes) -> Any:
    """Parses JSON. An integer beyond 64 bits becomes a float, NaN and infinities become None, and half a surrogate pair, which
    cannot be encoded as UTF-8, becomes U+FFFD.

    Raises:
        ValueError: the text is not JSON, not UTF-8, or nested too deeply.
    """
    try:
        if isinstance(text, bytes):
            if other := placeholder_kind(text):
                raise ValueError(f"it {other}")
            text = text.decode("utf-8-sig")  # Windows programs write a byte order mark
        if "\\ud" in text or "\\uD" in text:
            text = _ESCAPES.sub(lambda found: found[1] or "\\ufffd", text)
        value = json.loads(text, parse_constant=lambda name: None, parse_int=_parse_int)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    require_shallow(value)
    return value


def placeholder_kind(beginning: bytes) -> str:
    """Recognises a stand-in for a file, such as a Git LFS pointer. Returns the rest of a sentence that says what it is and what
    to do; empty for any other file."""
    if beginning.startswith(b"version https://git-lfs.github.com/spec/"):
        return "is only Git LFS's pointer to the file. Install Git LFS and run “git lfs pull” there, or download the file again."
    if beginning.startswith(b"\x00\x05\x16\x07\x00\x02\x00\x00"):  # AppleDouble, RFC 1740
        return "only holds what macOS notes about another file. Choose the file of the same name without “._” in front."
    return ""


def object_in(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a file; an empty one if it cannot be read."""
    try:
        return table(json_of(content_of(path)))
    except (OSError, ValueError):
        return {}


def valid_entries(read: Callable[[Mapping[str, Any]], object], values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the entries of an object that `read` accepts, by bisection. `read` raises ValueError or TypeError for others."""
    try:
        read(values)
    except (ValueError, TypeError):
        names = list(values)
        half = len(names) // 2
        parts = ({name: values[name] for name in names_} for names_ in (names[:half], names[half:]) if half)
        return {name: entry for part in parts for name, entry in valid_entries(read, part).items()}
    return values


def require_shallow(value: Any) -> None:
    """Raises ValueError if lists and objects are nested more than 100 levels deep, too deep for recursive code."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return
    raise ValueError("it is nested too deeply")


def _parse_int(digits: str) -> int | float:
    number = int(digits) if len(digits) <= _MAX_DIGITS else math.inf
    return number if -(2**63) <= number < 2**63 else float(digits)


def table(value: object) -> dict[str, Any]:
    """Returns the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def entries(value: object) -> list[Any]:
    """Returns the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    """Returns the value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def number(value: object) -> float | None:
    """Returns the value if it is a number that a float can hold, else None."""
    return value if is_number(value) else None


def whole(value: object) -> int | None:
    """Returns the value if it is an integer that a double represents exactly (some JSON readers have only doubles), else None."""
    return value if is_whole(value) and abs(value) < 2**53 else None


def seconds(value: object, default: float = 0.0) -> float:
    """Returns the value if it is a time in seconds since 1970, else the default."""
    return float(value) if is_number(value) and 0 <= value < 1e11 else default
