"""Writes the tables as CSV and reads them back.

A cell that a spreadsheet would run as a formula gets a leading apostrophe, which spreadsheets hide and the reader removes.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.exports.formats import ExportOptions
from engine.exports.tables import FIRST_ROUND_COLUMN, LATER_ROUND_COLUMNS, ROUND_COLUMNS, Kind, Table, by_answer, tables
from engine.rounds.metrics import RoundCounts
from engine.rounds.trace import Trace
from engine.values.errors import DraftlightError

LINE_END = "\r\n"
_FORMULA_STARTS = tuple("=+-@＝＋－＠\t\r\n'")


def make(traces: Sequence[Trace], wanted: ExportOptions) -> dict[str, str]:
    """As in `engine.exports.formats.Make`."""
    return csv_texts(traces)


def csv_texts(traces: Sequence[Trace]) -> dict[str, str]:
    """Returns the tables as CSV, by name."""
    return {name: _text(table) for name, table in tables(traces).items()}


def read_rounds_csv(path: Path) -> dict[str, tuple[RoundCounts, ...]]:
    """Returns the rounds of every answer in an exported table of rounds. Raises DraftlightError for another or a cut file."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            text = file.read()
        if not text.endswith(LINE_END):
            raise ValueError("its last line is incomplete")
        table = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        columns = list(table.fieldnames or ())
        known = [name for name in ROUND_COLUMNS if name in columns or name not in LATER_ROUND_COLUMNS]
        if columns not in (known, [FIRST_ROUND_COLUMN if name == "round" else name for name in known]):
            raise ValueError("its columns are different")
        rows = []
        for row in table:
            if list(row) != columns:
                raise ValueError("a row has too many cells")
            rows.append({name: unguarded(cell) if ROUND_COLUMNS.get(name) == "text" else cell for name, cell in row.items()})
        return by_answer(rows)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, csv.Error) as error:
        raise DraftlightError(f"{path} is not a table of rounds exported by Draftlight ({error}).") from None


def guarded(text: str) -> str:
    """Puts an apostrophe in front of a text that a spreadsheet might run as a formula, with or without leading blanks."""
    return "'" + text if text.startswith(_FORMULA_STARTS) or text.lstrip().startswith(_FORMULA_STARTS) else text


def unguarded(text: str) -> str:
    """Undoes `guarded`."""
    return text[1:] if text.startswith("'") else text


def _text(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=LINE_END)
    writer.writerow(table.columns)
    for row in table.rows:
        writer.writerow([_cell(row.get(name), kind) for name, kind in table.columns.items()])
    return text.getvalue()


def _cell(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    if kind == "candidates":
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")) if value else None
    return guarded(value) if isinstance(value, str) else value
