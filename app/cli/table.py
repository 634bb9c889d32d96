"""Formats tables for a terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def align(rows: Sequence[Sequence[str]], numbers: Collection[str] = ()) -> list[str]:
    """Formats rows as lines with cells padded to the width of their columns; the first row has the headings.

    Args:
        numbers: headings of the right-aligned columns.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if heading in numbers else cell.ljust(width)
            for cell, width, heading in zip(row, widths, rows[0], strict=True)
        ).rstrip()
        for row in rows
    ]
