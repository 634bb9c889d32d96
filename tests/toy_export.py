"""Example of an added export format: this file, and the line that `tests/app/test_new_export.py` puts into the table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.exports.formats import ExportOptions
from engine.rounds.metrics import RoundCounts, counts
from engine.trace import Trace, read


def make(traces: Sequence[Trace], wanted: ExportOptions) -> dict[str, str]:
    """The text of every answer, and beside it where the traces are."""
    texts = ["".join(round_.text for round_ in trace.rounds) for trace in traces]
    return {"text": "\n".join(texts), "sources": "\n".join(str(trace.path) for trace in traces)}


def read_back(path: Path) -> dict[str, tuple[RoundCounts, ...]]:
    """The rounds, from the traces that the file beside it names."""
    sources = path.with_name(f"{path.stem}-sources{path.suffix}").read_text(encoding="utf-8").splitlines()
    return {Path(source).stem: tuple(map(counts, read(source).rounds)) for source in sources}
