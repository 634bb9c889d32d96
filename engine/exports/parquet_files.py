"""Writes the tables as Parquet and reads them back. pyarrow is optional, so it is imported only when it is needed."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.exports.formats import ExportOptions
from engine.exports.tables import Table, by_answer, names, tables
from engine.machine.provenance import version
from engine.rounds.codec import plain
from engine.rounds.metrics import RoundCounts
from engine.rounds.trace import Trace
from engine.values.errors import DraftlightError

SCHEMA = "draftlight.tables/1"


def make(traces: Sequence[Trace], wanted: ExportOptions) -> dict[str, bytes]:
    """Returns the tables by name, as in `engine.exports.formats.Make`.

    The metadata of every file hold the headers of the traces, and so all provenance, under `draftlight`.

    Raises:
        DraftlightError: pyarrow is not installed.
    """
    arrow, parquet = _pyarrow()
    about = {
        "schema": SCHEMA,
        "draftlight": version(),
        "traces": {name: plain(trace.header) for name, trace in zip(names(traces), traces, strict=True)},
    }
    files = {}
    for name, content in tables(traces).items():
        buffer = io.BytesIO()
        table = _arrow_table(arrow, content, {"draftlight": json.dumps({**about, "table": name})})
        parquet.write_table(table, buffer, compression="zstd")
        files[name] = buffer.getvalue()
    return files


def read_rounds_parquet(path: Path) -> dict[str, tuple[RoundCounts, ...]]:
    """Returns the rounds of every answer in an exported file of rounds.

    Raises:
        DraftlightError: the file is another one or damaged, or pyarrow is not installed.
    """
    arrow, parquet = _pyarrow()
    try:
        with path.open("rb") as file:
            table = parquet.read_table(file)
        about = json.loads((table.schema.metadata or {}).get(b"draftlight", b"{}"))
        if about.get("schema") != SCHEMA or about.get("table") != "rounds":
            raise ValueError("it contains no table of rounds")
        return by_answer(table.to_pylist())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, arrow.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DraftlightError(f"{path} is not a table of rounds exported by Draftlight ({reason}).") from None


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DraftlightError(
            "Parquet needs the package pyarrow, which is not installed: pip install 'draftlight[parquet]'. "
            "CSV and JSON contain the same tables without it."
        ) from None
    return pyarrow, pyarrow.parquet


def _arrow_table(arrow: Any, table: Table, metadata: dict[str, str]) -> Any:
    candidate = arrow.struct([("id", arrow.int64()), ("text", arrow.string()), ("probability", arrow.float64())])
    types = {
        "text": arrow.string(),
        "whole": arrow.int64(),
        "number": arrow.float64(),
        "candidates": arrow.list_(candidate),
    }
    schema = arrow.schema([(name, types[kind]) for name, kind in table.columns.items()], metadata=metadata)
    columns = [
        arrow.array([_value(row.get(name), kind) for row in table.rows], type=types[kind]) for name, kind in table.columns.items()
    ]
    return arrow.Table.from_arrays(columns, schema=schema)


def _value(value: Any, kind: str) -> Any:
    """Converts a value to its column's type; returns None for values of another type, which other programs may have written."""
    if kind == "text":
        return value.encode("utf-8", errors="backslashreplace").decode() if isinstance(value, str) else None
    if kind == "candidates":
        return [{**entry, "text": _value(entry["text"], "text")} for entry in value or ()]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "whole":
        return value if isinstance(value, int) and is_number and -(2**63) <= value < 2**63 else None
    return float(value) if is_number else None
