"""Terminal output of commands: text without foreign control sequences, tables, and the progress of long tasks."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Collection, Sequence
from typing import Any, TextIO

from engine.types import Event, LoadProgress, TaskProgress
from engine.values.wording import duration

_OWN_SEQUENCES = re.compile(r"\x1b\[(?:(?:[02349]|38;5;\d+)(?:;(?:[2349]|38;5;\d+))*m|K)|\A\r|\r\Z")
"""The escape sequences that Draftlight itself writes: colours, clearing a line, and returning to its start."""
_BAR, _STEP = 30, 5
"""Maximum characters of the bar, and the steps in which it shrinks if the words need the room."""
_ESTIMATE_AFTER = 2.0
"""Seconds before the remaining time is estimated: earlier estimates would be guesses."""
_LINE_INTERVAL = 30.0
"""Seconds between two lines about the same step without a terminal."""


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


def align(rows: Sequence[Sequence[str]], numbers: Collection[str] = ()) -> list[str]:
    """Formats rows as lines with cells padded to the width of their columns; the first row has the headings.

    Args:
        numbers: headings of the right-aligned columns.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if heading in numbers else cell.ljust(width)
            for cell, width, heading in zip(row, widths, rows[0], strict=True)
        ).rstrip()
        for row in rows
    ]


class StatusLine:
    """A line on a terminal's standard error that is overwritten, and cleared before other output."""

    def __init__(self) -> None:
        self._shown = 0

    def show(self, text: str) -> None:
        """Overwrites the line."""
        print(f"\r{text.ljust(self._shown)}", end="", file=sys.stderr, flush=True)
        self._shown = len(text)

    def clear(self) -> None:
        """Clears the line, so that further output starts at the left margin."""
        if self._shown:
            print(f"\r{' ' * self._shown}\r", end="", file=sys.stderr, flush=True)
            self._shown = 0


class ProgressBar(StatusLine):
    """A bar on a terminal; elsewhere a line per step, and more for a long one."""

    def __init__(self) -> None:
        super().__init__()
        self._terminal = sys.stderr.isatty()
        self._step = ""
        self._last_line = 0.0
        self._start: tuple[float, float] | None = None
        self._fraction = 0.0

    def handle(self, event: Event) -> None:
        """Shows the progress in an event; ignores other events. Why a model was not loaded is reported at the end of the task."""
        match event:
            case LoadProgress(name, step):
                self._show(f"{name}: {step}", None, f"{name}: {step}")
            case TaskProgress(_, step, fraction):
                self._show(event.words, fraction, step)

    def print_line(self, text: str) -> None:
        """Prints a permanent line above the bar."""
        self.clear()
        print(text, file=sys.stderr, flush=True)

    def _show(self, words: str, fraction: float | None, step: str) -> None:
        """Shows words with the remaining time. Without a terminal, a step gets a line when it begins, and then now and then."""
        left = "" if fraction is None else self._remaining(fraction)
        if not self._terminal:
            now = time.perf_counter()
            if step != self._step or now - self._last_line > _LINE_INTERVAL:
                print(words if fraction is None else f"{fraction:4.0%}  {words}{left}", file=sys.stderr, flush=True)
                self._step, self._last_line = step, now
            return
        text, columns = words, shutil.get_terminal_size().columns - 1
        if fraction is not None:
            text = f"{fraction:4.0%}  {words}{left}"
            bar_width = min(_BAR, (columns - len(text) - 3) // _STEP * _STEP)
            full = round(fraction * bar_width)
            text = f"[{'#' * full}{'.' * (bar_width - full)}] {text}" if bar_width > 0 else text
        self.show(text[:columns])  # a wrapped line could not be cleared

    def _remaining(self, fraction: float) -> str:
        """Returns the remaining time, extrapolated from the speed since the first report, or since the fraction restarted."""
        now = time.perf_counter()
        if self._start is None or fraction < self._fraction:
            self._start = now, fraction
        self._fraction = fraction
        began, first = self._start
        if not first < fraction < 1 or now - began < _ESTIMATE_AFTER:
            return ""
        return f", {duration((now - began) * (1 - fraction) / (fraction - first))} left"
