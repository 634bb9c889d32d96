"""Sanitises terminal output: names of files, models and chats, and messages about them, may contain anything."""

from __future__ import annotations

import re
import sys
from typing import Any, TextIO

_OWN_SEQUENCES = re.compile(r"\x1b\[(?:(?:[02349]|38;5;\d+)(?:;(?:[2349]|38;5;\d+))*m|K)|\A\r|\r\Z")
"""The escape sequences that Draftlight itself writes: colours, clearing a line, and returning to its start."""


class _Guarded:
    """A terminal stream that makes all other control characters visible and escapes what its encoding lacks."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes the sanitised text."""
        from engine.lens.pieces import without_controls  # not every command needs it

        if not text.isprintable() and text != "\n":
            parts, codes = _OWN_SEQUENCES.split(text), [*_OWN_SEQUENCES.findall(text), ""]
            text = "".join(without_controls(part) + code for part, code in zip(parts, codes, strict=True))
        encoding = self._stream.encoding or "utf-8"
        return self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def guard_terminals() -> None:
    """Guards standard output and error from now on, if they are terminals."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and stream.isatty():
            setattr(sys, name, _Guarded(stream))
