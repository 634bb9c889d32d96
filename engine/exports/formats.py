"""What formats answers are exported in. A new one is a file in `engine/exports/` and a line here; nothing else has to know it.

The file has a function that makes an export (`Make`), and one that reads the rounds back (`Read`) if that is possible; the line
says the rest. Window and command line read the line, so nothing here takes long to import.
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
class Wanted:
    """How an export is wanted, for formats that leave something open.

    Attributes:
        chart: a name of `engine.lens.chart_kinds.CHARTS`. theme: "dark" or "light", of pictures, which show the latest answer.
        compared: whether the answers stand side by side, so that a share card shows all of them.
        verdict: what their comparison has found, a sentence each.
        ghosts: how many of them the answer shows at first; None leaves it to the format.
        ending: of the file's name, one of the format's.
    """

    chart: str = "proposals"
    theme: str = "light"
    ghosts: Ghosts | None = None
    ending: str = ""
    compared: bool = False
    verdict: tuple[str, ...] = ()


OTHER_ENDINGS = frozenset(
    f".{ending}"
    for ending in (
        *(
            "arrow",
            "bmp",
            "csv",
            "doc",
            "docx",
            "gif",
            "gz",
            "htm",
            "html",
            "jpeg",
            "jpg",
            "json",
            "jsonl",
            "log",
            "md",
            "ods",
            "odt",
        ),
        *("parquet", "pdf", "png", "rtf", "svg", "tar", "tex", "tsv", "txt", "webp", "xls", "xlsx", "xml", "yaml", "yml", "zip"),
    )
)
"""Endings that say what is in a file, so one that says something else is replaced. Other words after a dot belong to the name."""

Make = Callable[[Sequence[Trace], Wanted], Mapping[str, str | bytes]]
"""The parts of an export by name. The first one is the file itself; others lie beside it as NAME-part.ending."""
Read = Callable[[Path], dict[str, tuple[RoundCounts, ...]]]
"""The rounds of every answer in the file, by the name of its trace. Raises DraftlightError for any other file."""


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """What is known of a format before anything is exported.

    Attributes:
        name: by which it is selected, typed and stored.
        content: what is in it, in a few words.
        endings: what the names of its files may end in, each with its name for people; the first is the usual one.
        make: "module:function", a `Make`.
        read: "module:function", a `Read`; empty where no rounds can be read back.
        printable: whether it is text, which can go to a terminal.
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
        """The function that `make` names."""
        return cast(Make, resolve_name(self.make))

    def reader(self) -> Read:
        """The function that `read` names."""
        return cast(Read, resolve_name(self.read))


def named_as(path: Path, ending: str) -> Path:
    """Returns the path with this ending: "report" and "report.txt" become "report.csv", "report.v2" becomes "report.v2.csv"."""
    name = path.name.rstrip(".")
    while (found := Path(name).suffix.lower()) in OTHER_ENDINGS and found != ending:
        name = name[: -len(found)].rstrip(".")
    return path.with_name(name if found == ending else (name or "export") + ending)


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
        ExportFormat("svg", "one chart of the latest answer", {".svg": "SVG"}, "engine.exports.charts:make", in_dialog=False),
    )
}
"""In the order in which they are offered; pictures that need fonts are in `app.export.kinds`."""
