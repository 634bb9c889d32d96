"""Draws the tree of a round as SVG, from the same layout as the lanes of the window (`engine.lens.lane_chips`)."""

from __future__ import annotations

from engine.exports.svg import Drawing, Palette
from engine.lens.lane_chips import Chip, chip_text, chips_of, size_of
from engine.types import Round
from engine.values.wording import amount

CHIP, STACK, GAP = 17.0, 20.0, 14.0
"""Height of a chip, distance of the rows, and gap between two columns, in pixels."""
LETTER, MAX_LETTERS = 6.6, 16
"""Estimated width of a letter in pixels; longer texts are cut off."""
DASH = "3 2"


def tree_drawing(round_: Round, palette: Palette) -> Drawing:
    """Returns the tree of a round as a drawing: the text in the first row, the other choices below it. The tooltip of a chip
    describes it, with p and q of a proposal."""
    chips = chips_of(round_)
    texts = [chip.text if len(chip.text) <= MAX_LETTERS else f"{chip.text[: MAX_LETTERS - 1]}…" for chip in chips]
    columns, rows = size_of(round_)
    widths = [0.0] * columns
    for chip, text in zip(chips, texts, strict=True):
        widths[chip.column] = max(widths[chip.column], LETTER * len(text) + 12, 26)
    lefts = [sum(widths[:column]) + column * GAP + 1 for column in range(len(widths))]
    words = f"Tree of round {round_.index + 1}: {amount(len(round_.proposals), 'proposal')}, {round_.accepted} accepted."
    width = lefts[-1] + widths[-1] + 1
    drawing = Drawing(f"tree{round_.index}", width, rows * STACK, palette, words)
    for chip in chips:
        if chip.parent is not None:
            parent = chips[chip.parent]
            start, end = lefts[parent.column] + widths[parent.column], lefts[chip.column]
            turn, above, below = end - GAP / 2, _middle(parent), _middle(chip)
            corners = [(start, above), (turn, above), (turn, below), (end, below)]
            drawing.curve(corners, palette.unjudged if chip.row else palette.accepted, 1 if chip.row else 2)
    for slot, (chip, text) in enumerate(zip(chips, texts, strict=True)):
        drawing.begin_group(_description(round_, slot, chip))
        _draw_chip(drawing, chip, text, lefts[chip.column], widths[chip.column])
        drawing.end_group()
    return drawing


def _middle(chip: Chip) -> float:
    return chip.row * STACK + STACK / 2


def _description(round_: Round, slot: int, chip: Chip) -> str:
    proposal = None if chip.proposal is None else round_.proposals[chip.proposal]
    known = () if proposal is None else (("p", proposal.p), ("q", proposal.q))
    return "; ".join([chip_text(round_, slot), *(f"{name} {value:.2f}" for name, value in known if value is not None)])


def _draw_chip(drawing: Drawing, chip: Chip, text: str, x: float, width: float) -> None:
    palette, y = drawing.palette, _middle(chip) - CHIP / 2
    colour = palette.accepted if chip.not_reached else getattr(palette, "line" if chip.kind == "plain" else chip.kind)
    if chip.kind in ("accepted", "rejected"):
        drawing.rect(x, y, width, CHIP, palette.accepted_tint if chip.kind == "accepted" else palette.panel, radius=3)
    is_dashed = chip.kind in ("unjudged", "bonus") and not chip.not_reached
    corners = [(x, y), (x + width, y), (x + width, y + CHIP), (x, y + CHIP), (x, y)]
    drawing.curve(corners, colour, 1.6 if chip.not_reached or not chip.row else 1, DASH if is_dashed else "")
    if chip.kind == "correction":
        drawing.line((x, y + CHIP - 1), (x + width, y + CHIP - 1), colour, 2.5)
    dim = chip.kind == "unjudged" and not chip.not_reached
    drawing.text(x + width / 2, y + 12.5, text, palette.dim if dim else palette.text, anchor="middle")
    if chip.kind == "rejected":
        drawing.line((x + 4, y + CHIP / 2), (x + width - 4, y + CHIP / 2), colour)
