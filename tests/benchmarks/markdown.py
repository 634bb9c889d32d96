"""Measures the time that Markdown takes while an answer streams, and whether it grows with the answer: make bench-markdown

The same long answer is laid out token by token, with and without Markdown in turn. Printed are the milliseconds per token and
their ratio, for the first and the last quarter of the answer, the longest single token, and how long the reading view takes to
be built at the end. Neither paints.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import time

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from app.conversation.letter_formats import Style
from app.conversation.reading_view import ReadingFlow
from app.conversation.text_flow import Flow
from app.look import theme as themes
from app.window.launch import make_application
from engine.lens.pieces import Kind, Piece, Spot
from tests.app.conversation.markdown_texts import RICH, at_random_borders


def pieces_of(times: int) -> list[Piece]:
    """A long answer with everything in it, cut like tokens."""
    chance = random.Random(1)
    kinds: tuple[Kind, ...] = ("accepted", "accepted", "correction", "bonus")
    parts = at_random_borders(RICH * times, chance, 7)
    return [Piece(part, chance.choice(kinds), Spot(index, True, 0)) for index, part in enumerate(parts)]


def stream(pieces: list[Piece], style: Style, markdown: bool) -> list[float]:
    """Milliseconds of processor time for each token."""
    flow, taken = Flow(style, 720, markdown), []
    for piece in pieces:
        before = time.process_time()
        flow.append([piece])
        taken.append(1000 * (time.process_time() - before))
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="how often the answer repeats itself")
    parser.add_argument("--turns", type=int, default=3, help="how often each side is measured")
    arguments = parser.parse_args()
    make_application()
    style = Style(themes.DARK, themes.reading_font(1), themes.mono_font(1))
    pieces = pieces_of(arguments.times)
    stream(pieces[:200], style, True)  # loads the parser
    runs: dict[bool, list[list[float]]] = {False: [], True: []}
    for _ in range(arguments.turns):
        for markdown, kept in runs.items():
            kept.append(stream(pieces, style, markdown))
    quarter = len(pieces) // 4
    for name, part in (("first quarter", slice(0, quarter)), ("last quarter", slice(-quarter, None))):
        plain, marked = (statistics.median(sum(run[part]) / quarter for run in runs[markdown]) for markdown in (False, True))
        print(f"{name}: {plain:.3f} ms per token without Markdown, {marked:.3f} ms with; ratio {marked / plain:.2f}")
    longest = min(max(run) for run in runs[True])
    before = time.process_time()
    ReadingFlow(style, 720, pieces)
    built = 1000 * (time.process_time() - before)
    letters = sum(len(piece.text) for piece in pieces)
    print(f"longest token: {longest:.1f} ms; reading view of {len(pieces)} tokens ({letters} letters): {built:.0f} ms")


if __name__ == "__main__":
    main()
