"""An answer in a terminal: tokens coloured by where they came from, what was rejected struck out where it stood."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TextIO

from engine.lens.pieces import Kind, ReadingOrder, without_controls
from engine.lens.shared_wording import FINISH_WORDS
from engine.metrics import Summary
from engine.types import Finish, Round

STYLES: dict[Kind, str] = {
    "accepted": "38;5;37",
    "correction": "4;38;5;172",
    "bonus": "3;38;5;68",
    "plain": "",
    "rejected": "2;9",
    "unjudged": "2;3;9",
}
"""Select Graphic Rendition codes. Each origin differs by more than its colour, but accepted from plain, as most text is."""


def wants_colour(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether to colour: only on a terminal that can, and unless NO_COLOR is set (no-color.org)."""
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


class RoundPainter:
    """Turns rounds into text for a coloured terminal.

    The shown text is exactly the rounds' `text`: what a possible stop text holds back waits here with its colours. Control
    characters of the model are made visible, so an answer cannot command the terminal.

    Args:
        ghosts: whether rejected and unjudged proposals are shown where they stood.
    """

    def __init__(self, ghosts: bool = True) -> None:
        self._ghosts = ghosts
        self._order = ReadingOrder()

    def paint(self, round: Round) -> str:
        """What the round adds, with colour codes."""
        pieces = self._order.add(round)
        return "".join(_styled(piece.text, piece.kind) for piece in pieces if self._ghosts or not piece.ghost)


def legend() -> str:
    """The kinds of tokens, each in its own style."""
    return " ".join(_styled(kind, kind) for kind in STYLES)


def status_line(summary: Summary, finish: Finish, seconds_to_first_token: float | None, seed: int | None) -> str:
    """The answer in one line of figures."""
    parts = [
        f"{summary.emitted} tokens",
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


def _styled(text: str, kind: Kind) -> str:
    """The text in its style. Styles end before a line does, so that they cannot run on into what follows."""
    visible = without_controls(text)
    code = STYLES[kind]
    if not code:
        return visible
    return "\n".join(f"\x1b[{code}m{line}\x1b[0m" if line else "" for line in visible.split("\n"))
