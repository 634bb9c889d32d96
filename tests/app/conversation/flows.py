"""Reads properties of a flow and of a whole text, for several tests."""

from __future__ import annotations

from PySide6.QtCore import QRectF

from app.conversation.line_formats import LineFormat, formats_in
from app.conversation.markdown_source import read
from app.conversation.text_flow import Flow
from app.conversation.token_boxes import fragments_of
from engine.lens.pieces import Spot


def boxes_of(flow: Flow, first: Spot, last: Spot) -> list[QRectF]:
    """The rectangles of the tokens from `first` to `last`."""
    return [box.rect for box in fragments_of(flow, first, last)]


def formats_of(source: str) -> list[LineFormat]:
    """The formats of the lines of a source that is parsed as a whole."""
    return formats_in(read(source, references=False))
