"""What a terminal gets to see: names of files, models and chats, and messages about them, may contain anything."""

from __future__ import annotations

import re
import sys
from typing import Any, TextIO

_OWN = re.compile(r"\x1b\[(?:(?:[02349]|38;5;\d+)(?:;(?:[2349]|38;5;\d+))*m|K)|\A\r|\r\Z")
"""What Draftlight itself commands terminals: colours, clearing a line, and beginning it anew."""


class _Guarded:
    """A terminal's stream in which all other control characters are made visible, and what it cannot write is escaped."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes the text."""
        from engine.lens.pieces import without_controls  # not every command needs it

        if not text.isprintable() and text != "\n":
            parts, codes = _OWN.split(text), [*_OWN.findall(text), ""]
            text = "".join(without_controls(part) + code for part, code in zip(parts, codes, strict=True))
        encoding = self._stream.encoding or "utf-8"
        return self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def guard_terminals() -> None:
    """From now on standard output and error are guarded, where they are terminals."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and stream.isatty():
            setattr(sys, name, _Guarded(stream))
