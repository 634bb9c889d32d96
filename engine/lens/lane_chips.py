"""Lays out the tokens of a round as chips in columns and rows, for the window's lanes and for the drawings of exports.

A chain is one row: its proposals, then the target's own token. In a tree a column is a position of the text, and the first row is
the text that the round adds: the accepted proposals and the target's own token. All other choices are below it, in the column of
their position:

    proposed      cat (sat, ran)    dog (ran (off))          the target's tokens: cat ran away

    column        0       1       2
    row 0         cat     ran     away
    row 1                 sat
    row 2         dog     ran     off

The second "ran" is the token that the text has at its position, but it follows "dog", so it was not reached. A trace does not
hold the target's draws beside the path, so this is all that is known of a choice that might have been right.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import Literal

from engine.lens.pieces import visible, where_proposed
from engine.types import Round

Kind = Literal["accepted", "rejected", "unjudged", "correction", "bonus", "plain"]
NOT_REACHED = "the token of the text at this position, on a branch that was not reached"


@dataclass(frozen=True, slots=True)
class Chip:
    """One token of a lane: a proposal, or the target's own token.

    Attributes:
        proposal, emitted: its index in the round, as in `app.session.cursor.Place`; exactly one of them is given.
        text: with white space and undecodable bytes made visible.
        column, row: its place, from 0.
        parent: of a tree, the index of the chip that it follows; None in the first column and in a chain.
        not_reached: whether it is a choice of a tree that was not reached, and is the token that the text has at its position.
    """

    kind: Kind
    text: str
    proposal: int | None = None
    emitted: int | None = None
    column: int = 0
    row: int = 0
    parent: int | None = None
    not_reached: bool = False


def shown_text(text: str, raw: bytes = b"") -> str:
    """Returns a token's text for a chip: `engine.lens.pieces.visible` without the blank before a word."""
    if text.startswith(" ") and text.strip():
        text, raw = text[1:], raw[1:]
    return visible(text, raw)


def chips_of(round_: Round) -> list[Chip]:
    """Returns the proposals in order, then the target's own token."""
    chips = [
        Chip(token.status, shown_text(token.text, token.bytes), proposal=at, column=at)
        for at, token in enumerate(round_.proposals)
    ]
    path = 0
    if round_.is_tree:
        path = _path_length(round_)
        chips = _stacked(round_, chips, path)
    column = path if round_.is_tree else len(chips)
    for at, token in enumerate(round_.emitted):
        if token.origin != "accepted":
            parent = path - 1 if path else None
            chips.append(Chip(token.origin, shown_text(token.text, token.bytes), emitted=at, column=column, parent=parent))
            column += 1
    return chips


def _path_length(round_: Round) -> int:
    """Returns the number of accepted proposals of a tree, which are its first ones and follow each other."""
    for at, token in enumerate(round_.proposals):
        if token.status != "accepted" or token.parent != at - 1:
            return at
    return len(round_.proposals)


def _stacked(round_: Round, chips: list[Chip], path: int) -> list[Chip]:
    """Returns the chips of a tree's proposals in their columns and rows. A choice that others follow is below those that follow
    the choices above it, so the lines between two columns never overlap."""
    proposals, depths, emitted = round_.proposals, round_.depths, round_.emitted
    parents = [
        -1 if proposal.parent is None or not -1 <= proposal.parent < at else proposal.parent
        for at, proposal in enumerate(proposals)
    ]
    children: dict[int, list[int]] = defaultdict(list)
    for at in sorted(range(len(proposals)), key=lambda at: (at >= path, proposals[at].rank, at)):
        children[parents[at]].append(at)
    used: Counter[int] = Counter()  # the last row in use at each depth; the first one is the text's
    rows = [0] * len(proposals)
    waiting = children[-1][::-1]
    while waiting:
        at = waiting.pop()
        waiting += children[at][::-1]
        if at >= path:
            depth, above = depths[at], 1 if parents[at] < 0 else max(1, rows[parents[at]])
            rows[at] = used[depth] = max(above, used[depth] + 1, used[depth + 1] + 1 if children[at] else 0)
    return [
        replace(
            chip,
            column=depth - 1,
            row=row,
            parent=parent if parent >= 0 else None,
            not_reached=chip.kind == "unjudged" and depth <= len(emitted) and emitted[depth - 1].id == proposal.id,
        )
        for chip, proposal, depth, row, parent in zip(chips, proposals, depths, rows, parents, strict=True)
    ]


def size_of(round_: Round) -> tuple[int, int]:
    """Returns the number of columns and of rows that the chips of a round take, each at least 1."""
    if not round_.is_tree:
        own = sum(token.origin != "accepted" for token in round_.emitted)
        return len(round_.proposals) + max(1, own), 1
    chips = chips_of(round_)
    return 1 + max(chip.column for chip in chips), 1 + max(chip.row for chip in chips)


def chip_text(round_: Round, slot: int) -> str:
    """Describes a chip, given its index among those of the round, in a phrase."""
    chip = chips_of(round_)[slot]
    place = "the target's own token" if chip.proposal is None else where_proposed(round_, chip.proposal)
    return f"“{chip.text}” {chip.kind}, {place}{f', {NOT_REACHED}' if chip.not_reached else ''}"
