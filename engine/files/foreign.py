"""What may come from anywhere: only files are opened, JSON is what every reader of it can take, and of its values what is not of
the kind that is asked for counts as missing. No MLX."""

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

_DEEPEST = 100
"""Levels of nesting. Python's own limit is reached at about a thousand, in whatever code comes next."""
_ESCAPES = re.compile(r"(\\\\|\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w)|\\u[dD][89a-fA-F]\w\w")
"""What looks like half a surrogate pair in JSON; in the group what is none."""
_LONGEST_WHOLE = 20
"""Characters of a whole number that 64 bits may hold."""


def open_file(path: Path) -> BinaryIO:
    """The file, open for reading. A pipe or a device, which may have no end, is refused. Raises OSError."""
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
    """All of the file. Raises OSError as `open_file`."""
    with open_file(path) as file:
        return file.read()


def json_of(text: str | bytes) -> Any:
    """The value of a JSON text. A whole number that 64 bits do not hold is a float, NaN and infinities are
    None, and half a surrogate pair, which no text can hold that is written or sent, is U+FFFD.

    Raises:
        ValueError: it is no JSON, no UTF-8, or nested too deeply.
    """
    try:
        if isinstance(text, bytes):
            if other := stands_for_another(text):
                raise ValueError(f"it {other}")
            text = text.decode("utf-8-sig")  # Windows programs write the mark
        if "\\ud" in text or "\\uD" in text:
            text = _ESCAPES.sub(lambda found: found[1] or "\\ufffd", text)
        value = json.loads(text, parse_constant=lambda name: None, parse_int=_whole)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    require_shallow(value)
    return value


def stands_for_another(beginning: bytes) -> str:
    """What a file is instead of its content, and what to do, as the rest of a sentence about it; empty if it is none of these."""
    if beginning.startswith(b"version https://git-lfs.github.com/spec/"):
        return "is only Git LFS's pointer to the file. Install Git LFS and run “git lfs pull” there, or download the file again."
    if beginning.startswith(b"\x00\x05\x16\x07\x00\x02\x00\x00"):  # AppleDouble, RFC 1740
        return "only holds what macOS notes about another file. Choose the file of the same name without “._” in front."
    return ""


def object_in(path: Path) -> dict[str, Any]:
    """The JSON object in a file; empty where there is no sound one."""
    try:
        return table(json_of(content_of(path)))
    except (OSError, ValueError):
        return {}


def sound_part(read: Callable[[Mapping[str, Any]], object], given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entries of an object that `read` takes, judged one by one; it raises ValueError or TypeError for what it does not."""
    try:
        read(given)
    except (ValueError, TypeError):
        names = list(given)
        half = len(names) // 2
        parts = ({name: given[name] for name in some} for some in (names[:half], names[half:]) if half)
        return {name: entry for part in parts for name, entry in sound_part(read, part).items()}
    return given


def require_shallow(value: Any) -> None:
    """Raises ValueError where lists and objects are nested too deeply for whoever goes through them."""
    level = [value]
    for _ in range(_DEEPEST):
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


def _whole(digits: str) -> int | float:
    number = int(digits) if len(digits) <= _LONGEST_WHOLE else math.inf
    return number if -(2**63) <= number < 2**63 else float(digits)


def table(value: object) -> dict[str, Any]:
    """An object; empty for anything else."""
    return value if isinstance(value, dict) else {}


def entries(value: object) -> list[Any]:
    """A list; empty for anything else."""
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    """A text; empty for anything else."""
    return value if isinstance(value, str) else ""


def number(value: object) -> float | None:
    """A number that a float holds."""
    return value if is_number(value) else None


def whole(value: object) -> int | None:
    """A whole number that JSON readers which know only doubles keep exact."""
    return value if is_whole(value) and abs(value) < 2**53 else None


def seconds(value: object, otherwise: float = 0.0) -> float:
    """A time in seconds since 1970."""
    return float(value) if is_number(value) and 0 <= value < 1e11 else otherwise
