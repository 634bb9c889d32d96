"""An answer in a terminal: tokens coloured by where they came from, what was rejected struck out where it stood."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TextIO

from engine.lens.pieces import Kind, Piece, ReadingOrder, without_controls
from engine.lens.shared_wording import FINISH_WORDS
from engine.lens.thoughts import ThoughtFinder
from engine.metrics import Summary
from engine.types import Finish, Round
from engine.wording import amount

STYLES: dict[Kind, str] = {
    "accepted": "38;5;37",
    "correction": "4;38;5;172",
    "bonus": "3;38;5;68",
    "plain": "",
    "rejected": "2;9",
    "unjudged": "2;3;9",
}
"""Select Graphic Rendition codes. Each origin differs by more than its colour, but accepted from plain, as most text is."""


DIM = "2"
"""What the model thinks before it answers is dimmed, whatever became of its tokens."""


def wants_colour(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether to colour: only on a terminal that can, and unless NO_COLOR is set (no-color.org)."""
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


class RoundPainter:
    """Turns rounds into text for a terminal.

    The shown text is exactly the rounds' `text`: what a possible stop text holds back waits here with its colours, and what may
    become the mark of a thought until that is decided. On a coloured terminal control characters of the model are made visible,
    so an answer cannot command the terminal.

    Args:
        ghosts: whether rejected and unjudged proposals are shown where they stood; only in colour, which tells them apart.
        thoughts: whether what the model thinks first is shown, dimmed.
        colours: whether there are any.
    """

    def __init__(self, ghosts: bool = True, thoughts: bool = True, colours: bool = True) -> None:
        self._ghosts = ghosts and colours
        self._thoughts = thoughts
        self.colours = colours
        self._order = ReadingOrder()
        self._finder = ThoughtFinder()
        self._waiting: list[Piece] = []
        self._skipping = False

    def open_thought(self) -> None:
        """The answer begins inside a thought, which its prompt has opened."""
        self._finder = ThoughtFinder(opened=True)

    def paint(self, round: Round) -> str:
        """What the round adds, with colour codes if there are colours."""
        parts = []
        for piece in self._order.add(round):
            thinking = self._finder.state in ("undecided", "open")
            if not piece.ghost:
                self._finder.take(piece.text)
            self._waiting.append(piece)
            if self._finder.state != "undecided":
                parts += [self._shown(each, thinking and self._finder.state != "none") for each in self._waiting]
                self._waiting = []
        return "".join(parts)

    def rest(self) -> str:
        """What was still waiting when the answer ended."""
        waiting, self._waiting = self._waiting, []
        return "".join(self._shown(piece, thought=False) for piece in waiting)

    def _shown(self, piece: Piece, thought: bool) -> str:
        if piece.ghost and not self._ghosts:
            return ""
        if not self._thoughts and thought:
            self._skipping = True
            behind = self._finder.behind if self._finder.state == "closed" and not piece.ghost else 0
            piece = replace(piece, text=piece.text[len(piece.text) - behind :])
            thought = False
        if self._skipping and not piece.ghost:  # the blank lines behind a thought that is left out
            piece = replace(piece, text=piece.text.lstrip())
            self._skipping = not piece.text
        if not piece.text or (piece.ghost and self._skipping):
            return ""
        return _styled(piece.text, piece.kind, thought) if self.colours else piece.text


def legend() -> str:
    """The kinds of tokens, each in its own style."""
    return " ".join(_styled(kind, kind) for kind in STYLES)


def status_line(summary: Summary, finish: Finish, seconds_to_first_token: float | None, seed: int | None) -> str:
    """The answer in one line of figures."""
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
    """The text in its style. Styles end before a line does, so that they cannot run on into what follows."""
    visible = without_controls(text)
    code = ";".join(filter(None, (DIM if thought else "", STYLES[kind])))
    if not code:
        return visible
    return "\n".join(f"\x1b[{code}m{line}\x1b[0m" if line else "" for line in visible.split("\n"))
