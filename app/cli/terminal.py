"""Formats an answer for a terminal: tokens coloured by origin, rejected proposals struck out where they were proposed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TextIO

from engine.lens.pieces import Kind, Piece, ReadingOrder, without_controls
from engine.lens.shared_wording import FINISH_WORDS
from engine.lens.thoughts import ThoughtFinder
from engine.rounds.metrics import Summary
from engine.types import Finish, Round
from engine.values.wording import amount

STYLES: dict[Kind, str] = {
    "accepted": "38;5;37",
    "correction": "4;38;5;172",
    "bonus": "3;38;5;68",
    "plain": "",
    "rejected": "2;9",
    "unjudged": "2;3;9",
}
"""Select Graphic Rendition codes. Each origin differs by more than its colour, except accepted from plain, which is most of the
text."""


DIM = "2"
"""Code that dims the model's thought, regardless of its tokens' origin."""


def wants_colour(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Returns whether to use colours: only on a terminal that supports them, and unless NO_COLOR is set (no-color.org)."""
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


class RoundPainter:
    """Turns rounds into text for a terminal.

    The output is exactly the rounds' `text`. Pieces are held back here, with their colours, while they may belong to a stop text
    or to the mark of a thought. On a coloured terminal, control characters of the model are made visible, so that an answer
    cannot send escape sequences.

    Args:
        ghosts: shows rejected and unjudged proposals where they were proposed; only with colours, which distinguish them.
        thoughts: shows the model's thought, dimmed.
        colours: uses colours.
    """

    def __init__(self, ghosts: bool = True, thoughts: bool = True, colours: bool = True) -> None:
        self._ghosts = ghosts and colours
        self._thoughts = thoughts
        self.colours = colours
        self._order = ReadingOrder()
        self._finder = ThoughtFinder()
        self._pending: list[Piece] = []
        self._skips_blanks = False

    def open_thought(self) -> None:
        """Starts the answer inside a thought that the prompt has opened."""
        self._finder = ThoughtFinder(opened=True)

    def paint(self, round: Round) -> str:
        """Returns the text that the round adds, with colour codes if enabled."""
        parts = []
        for piece in self._order.add(round):
            thinking = self._finder.state in ("undecided", "open")
            if not piece.ghost:
                self._finder.take(piece.text)
            self._pending.append(piece)
            if self._finder.state != "undecided":
                parts += [self._render(each, thinking and self._finder.state != "none") for each in self._pending]
                self._pending = []
        return "".join(parts)

    def flush(self) -> str:
        """Returns the text still held back at the end of the answer."""
        pending, self._pending = self._pending, []
        return "".join(self._render(piece, thought=False) for piece in pending)

    def _render(self, piece: Piece, thought: bool) -> str:
        if piece.ghost and not self._ghosts:
            return ""
        if not self._thoughts and thought:
            self._skips_blanks = True
            after_thought = self._finder.behind if self._finder.state == "closed" and not piece.ghost else 0
            piece = replace(piece, text=piece.text[len(piece.text) - after_thought :])
            thought = False
        if self._skips_blanks and not piece.ghost:  # the blank lines after a hidden thought
            piece = replace(piece, text=piece.text.lstrip())
            self._skips_blanks = not piece.text
        if not piece.text or (piece.ghost and self._skips_blanks):
            return ""
        return _styled(piece.text, piece.kind, thought) if self.colours else piece.text


def legend() -> str:
    """Returns the kinds of tokens, each in its style."""
    return " ".join(_styled(kind, kind) for kind in STYLES)


def status_line(summary: Summary, finish: Finish, seconds_to_first_token: float | None, seed: int | None) -> str:
    """Returns the figures of the answer in one line."""
    parts = [
        amount(summary.emitted, "token"),
        _figure(summary.throughput, "{:.1f} tokens/s"),
        _figure(summary.alpha, "alpha {:.2f}") if summary.proposals else "",
        _figure(summary.tau, "tau {:.2f}"),
        _figure(seconds_to_first_token, "first token after {:.2f} s"),
        FINISH_WORDS[finish],
        "" if seed is None else f"seed {seed}",
    ]
    return " · ".join(part for part in parts if part)


def _figure(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def _styled(text: str, kind: Kind, thought: bool = False) -> str:
    """Returns the text in its style. Styles end before each line does, so that they do not run into the next."""
    visible = without_controls(text)
    code = ";".join(filter(None, (DIM if thought else "", STYLES[kind])))
    if not code:
        return visible
    return "\n".join(f"\x1b[{code}m{line}\x1b[0m" if line else "" for line in visible.split("\n"))
