"""Links the cursors and the scrolling of the columns of a comparison by answer position."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from app.compare.column import CompareColumn
from app.session.cursor import Place
from app.session.token_navigation import place_of, spot_of


class LinkedColumns:
    """Keeps the columns at the same position. Columns without an answer are left alone."""

    def __init__(self, columns: Sequence[CompareColumn]) -> None:
        self._columns = columns
        self._busy = False
        for column in columns:
            column.cursor_place.moved.connect(partial(self._follow, column, False))
            column.cursor_place.pinned.connect(partial(self._follow, column, True))
            column.text.scrolled.connect(partial(self._scroll, column))

    def scroll_into_view(self, position: int) -> None:
        """Scrolls a position into view in every column, and pins it."""
        self._busy = True
        for column in self._columns:
            if column.run is not None:
                column.text.scroll_into_view(position)
                if position < len(column.run.spots):
                    column.cursor_place.pin(place_of(0, column.run.spots[position]))
        self._busy = False

    def _follow(self, source: CompareColumn, pin: bool, place: Place | None) -> None:
        """Highlights the same answer position in every column."""
        if self._busy or source.run is None:
            return
        self._busy = True
        position = None if place is None else position_of(source, place)
        for column in self._columns:
            if column is source or column.run is None:
                continue
            spots = column.run.spots
            target = place_of(0, spots[position]) if position is not None and position < len(spots) else None
            column.cursor_place.pin(target) if pin else column.cursor_place.point(target)
        self._busy = False

    def _scroll(self, source: CompareColumn) -> None:
        """Scrolls the other columns so that the same answer position is at the same height."""
        if self._busy or (anchor := source.text.anchor) is None:
            return
        self._busy = True
        for column in self._columns:
            if column is not source and column.run is not None:
                column.text.scroll_to(*anchor)
        self._busy = False


def position_of(column: CompareColumn, place: Place) -> int | None:
    """Returns the answer position of a place in a column, for a whole round that of its first token; None if it has none."""
    run = column.run
    if run is None:
        return None
    if place.whole_round:
        return next((at for at, spot in enumerate(run.spots) if spot.round == place.round), None)
    spot = spot_of(place, run.answer)
    return None if spot is None else run.position_of(spot)
