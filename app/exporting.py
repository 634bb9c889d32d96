"""Writing a conversation's metrics where the user wants them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from engine import export


def export_session(traces: Iterable[str], path: Path) -> tuple[Path, ...]:
    """Writes the metrics of these answers, as CSV if the name ends so and else as JSON; returns what was written.

    Raises:
        DraftlightError: a trace cannot be read or the file not be written.
    """
    read = export.read_traces(traces)
    return export.write_csv(read, path) if path.suffix.lower() == ".csv" else export.write_json(read, path)
