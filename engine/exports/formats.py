"""The formats in which answers are exported. A new format is a module in `engine/exports/` and an entry in `FORMATS`.

The module has a function that makes an export (`Make`) and, if rounds can be read back, one that reads them (`Read`). Window and
command line take everything else from the entry, so this module must stay quick to import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import cast

from engine.lens.pieces import Ghosts
from engine.rounds.metrics import RoundCounts
from engine.rounds.trace import Trace


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """Options of an export, for formats that have them.

    Attributes:
        chart: a name of `engine.lens.chart_kinds.CHARTS`.
        theme: "dark" or "light", for pictures, which show the latest answer.
        compared: whether the window compares the answers side by side; a share card then shows all of them.
        verdict: results of that comparison, a sentence each.
        ghosts: the ghosts that the answer shows at first; None for the format's default.
        ending: ending of the file's name, one of the format's.
    """

    chart: str = "proposals"
    theme: str = "light"
    ghosts: Ghosts | None = None
    ending: str = ""
    compared: bool = False
    verdict: tuple[str, ...] = ()


_ENDINGS = """arrow bmp csv doc docx gif gz htm html jpeg jpg json jsonl log md ods odt parquet pdf png rtf svg tar tex tsv txt
webp xls xlsx xml yaml yml zip"""
OTHER_ENDINGS = frozenset(f".{ending}" for ending in _ENDINGS.split())
"""File endings that are replaced when another format is chosen. Any other text behind a dot counts as part of the name."""

Make = Callable[[Sequence[Trace], ExportOptions], Mapping[str, str | bytes]]
"""A function that returns the parts of an export by name. The first is the file itself; others are saved beside it as
NAME-part.ending."""
Read = Callable[[Path], dict[str, tuple[RoundCounts, ...]]]
"""A function that returns the rounds of every answer in a file, by trace name. Raises DraftlightError for other files."""


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """Description of an export format, available without importing its module.

    Attributes:
        name: its key in menus, on the command line and in stored settings.
        content: a few words on what it contains.
        endings: possible file endings, each with its name for people; the first is the default.
        make: "module:function", a `Make`.
        read: "module:function", a `Read`; empty if rounds cannot be read back.
        printable: whether it is text that can be written to a terminal.
        in_dialog: whether the window's export dialog offers it.
    """

    name: str
    content: str
    endings: Mapping[str, str]
    make: str
    read: str = ""
    printable: bool = True
    in_dialog: bool = True

    def maker(self) -> Make:
        """Imports and returns the function named by `make`."""
        return cast(Make, resolve_name(self.make))

    def reader(self) -> Read:
        """Imports and returns the function named by `read`."""
        return cast(Read, resolve_name(self.read))


def named_as(path: Path, ending: str) -> Path:
    """Returns the path with this ending: "report" and "report.txt" become "report.csv", "report.v2" becomes "report.v2.csv"."""
    name = path.name.rstrip(".")
    while (known_ending := Path(name).suffix.lower()) in OTHER_ENDINGS and known_ending != ending:
        name = name[: -len(known_ending)].rstrip(".")
    return path.with_name(name if known_ending == ending else (name or "export") + ending)


FORMATS: dict[str, ExportFormat] = {
    known.name: known
    for known in (
        ExportFormat("html", "report in one file", {".html": "HTML"}, "engine.exports.report:make"),
        ExportFormat(
            "json",
            "settings, figures, rounds and proposals",
            {".json": "JSON"},
            "engine.exports.json_file:make",
            "engine.exports.json_file:read_json_export",
        ),
        ExportFormat(
            "csv",
            "tables of rounds, proposals, answers and stretches",
            {".csv": "CSV"},
            "engine.exports.csv_files:make",
            "engine.exports.csv_files:read_rounds_csv",
        ),
        ExportFormat(
            "parquet",
            "tables of rounds, proposals, answers and stretches",
            {".parquet": "Parquet"},
            "engine.exports.parquet_files:make",
            "engine.exports.parquet_files:read_rounds_parquet",
            printable=False,
        ),
        ExportFormat("svg", "one chart of the latest answer", {".svg": "SVG"}, "engine.exports.svg_charts:make", in_dialog=False),
    )
}
"""All formats in the order of menus; pictures that need fonts are in `app.export.kinds`."""
