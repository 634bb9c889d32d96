"""How far a long task on the engine thread has come, on standard error."""

from __future__ import annotations

import shutil
import sys
import time

from engine.types import Event, LoadProgress, TaskProgress
from engine.wording import duration

_BAR, _STEP = 30, 5
"""Signs of the bar at most, and by how many it is shorter where the words need the room."""
_KNOWN_AFTER = 2.0
"""Seconds before a time left is told: earlier it would be a guess."""
_LINE_EVERY = 30.0
"""Seconds between two lines about the same step where there is no terminal."""


class StatusLine:
    """A line on a terminal's standard error that is written over, and goes away when something else is to be read."""

    def __init__(self) -> None:
        self._shown = 0

    def show(self, text: str) -> None:
        """Writes over what the line says."""
        print(f"\r{text.ljust(self._shown)}", end="", file=sys.stderr, flush=True)
        self._shown = len(text)

    def clear(self) -> None:
        """Blanks the line, so that whatever is printed next starts at the left margin."""
        if self._shown:
            print(f"\r{' ' * self._shown}\r", end="", file=sys.stderr, flush=True)
            self._shown = 0


class ProgressBar(StatusLine):
    """A bar on a terminal; elsewhere a line for each step, and for a long one now and then."""

    def __init__(self) -> None:
        super().__init__()
        self._terminal = sys.stderr.isatty()
        self._step = ""
        self._told = 0.0
        self._began: tuple[float, float] | None = None
        self._fraction = 0.0

    def take(self, event: Event) -> None:
        """Show what an event says of progress; others are ignored. Why a model was not loaded, the end of the task tells."""
        match event:
            case LoadProgress(name, step):
                self._show(f"{name}: {step}", None)
            case TaskProgress(_, step, fraction):
                self._show(step, fraction)

    def say(self, text: str) -> None:
        """A line that stays, above the bar."""
        self.clear()
        print(text, file=sys.stderr, flush=True)

    def _show(self, step: str, fraction: float | None) -> None:
        left = "" if fraction is None else self._left(fraction)
        if not self._terminal:
            kind, now = step.partition(",")[0], time.perf_counter()  # what follows a comma are figures
            if kind != self._step or now - self._told > _LINE_EVERY:
                print(step if fraction is None else f"{fraction:4.0%}  {step}{left}", file=sys.stderr, flush=True)
                self._step, self._told = kind, now
            return
        text, room = step, shutil.get_terminal_size().columns - 1
        if fraction is not None:
            text = f"{fraction:4.0%}  {step}{left}"
            long = min(_BAR, (room - len(text) - 3) // _STEP * _STEP)
            full = round(fraction * long)
            text = f"[{'#' * full}{'.' * (long - full)}] {text}" if long > 0 else text
        self.show(text[:room])  # what wraps cannot be taken away again

    def _left(self, fraction: float) -> str:
        """The time left if the rest goes on like what was done since the first report, or since the fraction began anew."""
        now = time.perf_counter()
        if self._began is None or fraction < self._fraction:
            self._began = now, fraction
        self._fraction = fraction
        began, first = self._began
        if not first < fraction < 1 or now - began < _KNOWN_AFTER:
            return ""
        return f", {duration((now - began) * (1 - fraction) / (fraction - first))} left"
