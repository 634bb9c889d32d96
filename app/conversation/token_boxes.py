"""Finds the token at a point of a flow, and the boxes of tokens."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QTextLine

from app.conversation.chunks import Box, Chunk, line_at, lines_of
from app.conversation.text_flow import END, Flow
from engine.lens.pieces import NOWHERE, Spot

_NEAR = 4.0
"""Pixels after the last token of a line that still count as that token, because the mark of a newline is narrow."""


def spot_at(flow: Flow, point: QPointF) -> Spot | None:
    """Returns the token whose letters or blanks are at a point; None beside the text, and on text that no round has."""
    chunk = flow.chunks[flow.chunk_at(point.y())]
    if (window := chunk.window) is not None and not window[0] <= point.x() <= window[1]:
        return None
    point = chunk.inside(point)
    for ghost in flow.ghosts_above(chunk):
        if ghost.rect.adjusted(-2, 0, 2, 0).contains(point):
            return ghost.spot
    lines = lines_of(chunk)
    line = line_at(lines, point, 1.15)
    if line is None or point.y() < line.y() - 0.4 * line.height() or point.x() < line.x() - 2:
        return None
    if point.x() >= line.x() + line.naturalTextWidth():  # trailing blanks and the mark of a newline
        behind = (box for box in reversed(flow.whole_boxes(chunk)) if box.rect.top() == line.y() and box.rect.left() <= point.x())
        nearest = next(behind, None)
        spot = nearest.spot if nearest is not None and point.x() < nearest.rect.right() + _NEAR else None
    else:
        offset = line.xToCursor(point.x(), QTextLine.CursorPosition.CursorOnCharacter)
        index = bisect_right(chunk.runs, offset, key=lambda run: run.start) - 1
        spot = chunk.runs[index].spot if index >= 0 else None
    return None if spot is None or spot == NOWHERE else spot


def spot_from(flow: Flow, y: float) -> Spot | None:
    """Returns the first token at or below a height."""
    for chunk in flow.chunks[flow.chunk_at(y) :]:
        for box in flow.whole_boxes(chunk):
            if box.spot != NOWHERE and chunk.top + box.rect.top() >= y:
                return box.spot
    return None


def spot_before(flow: Flow, y: float) -> Spot | None:
    """Returns the last token at or above a height."""
    for chunk in reversed(flow.chunks[: flow.chunk_at(y) + 1]):
        for box in reversed(flow.whole_boxes(chunk)):
            if box.spot != NOWHERE and chunk.top + box.rect.bottom() <= y:
                return box.spot
    return None


def fragments_of(flow: Flow, first: Spot, last: Spot) -> list[Box]:
    """Returns the boxes of the tokens from `first` to `last`, one per line and token, relative to the flow, visible or not.

    A blank at the end of a line is left out if the letters of its word are on the next line.
    """
    found: list[Box] = []
    for chunk in flow.chunks[_chunk_of(flow.chunks, first) :]:
        start = chunk.first_spot
        if start is not None and start > last:
            break
        found += [
            box._replace(rect=chunk.outside(box.rect)) for box in flow.whole_boxes(chunk, last) if first <= box.spot <= last
        ]
    with_letters = {box.spot for box in found if not box.is_blank}
    return [box for box in found if not box.is_blank or box.spot not in with_letters]


def gap_before(flow: Flow, spot: Spot) -> QRectF:
    """Returns a narrow box for a token without letters, after the last letter before it."""
    chunk = flow.chunks[_chunk_of(flow.chunks, spot)]
    before = [box for box in flow.whole_boxes(chunk) if box.spot < spot]
    rect = chunk.outside(before[-1].rect if before else QRectF(0, 0, 0, chunk.height))
    return QRectF(rect.right(), rect.top(), 4, rect.height())


def in_window(flow: Flow, box: Box) -> Box:
    """Clips a box to the visible part of its code block; a clipped end is open. If nothing of it is visible, the box has width 0
    and is at the edge beyond which it lies."""
    window = flow.chunks[flow.chunk_at(box.rect.center().y())].window
    if window is None:
        return box
    rect = box.rect
    left, right = (min(max(x, window[0]), window[1]) for x in (rect.left(), rect.right()))
    return box._replace(
        rect=QRectF(left, rect.top(), right - left, rect.height()),
        open_left=box.open_left or left > rect.left(),
        open_right=box.open_right or right < rect.right(),
    )


def _chunk_of(chunks: Sequence[Chunk], spot: Spot) -> int:
    """Returns the index of the first chunk that may contain the token."""
    index = max(0, bisect_right(chunks, spot, key=lambda chunk: chunk.first_spot or END) - 1)
    while index and (chunks[index].first_spot or END) >= spot:  # the token may have begun in the chunk before
        index -= 1
    return index
