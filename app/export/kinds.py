"""What a session can be exported as, and writing it where the user wants it. No Qt here: the command line exports, too."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from app.export import share_card
from engine import export
from engine.lens.pieces import Ghosts
from engine.trace import PlainRun

Theme = Literal["dark", "light"]


@dataclass(frozen=True, slots=True)
class ExportKind:
    """One way to export.

    Attributes:
        id: how the command line and the settings call it.
        title: how the dialog calls it; `ending` is that of its files.
    """

    id: export.Form | Literal["card", "card-svg"]
    title: str
    ending: str

    @property
    def filter(self) -> str:
        """The kind as file dialogs write it."""
        return f"{self.title} (*{self.ending})"


KINDS: tuple[ExportKind, ...] = (
    ExportKind("html", "HTML: report in one file", ".html"),
    ExportKind("json", "JSON: settings, figures, rounds and proposals", ".json"),
    ExportKind("csv", "CSV: tables of rounds, proposals and answers", ".csv"),
    ExportKind("parquet", "Parquet: tables of rounds, proposals and answers", ".parquet"),
    ExportKind("card", "PNG: share card of the latest answer", ".png"),
    ExportKind("card-svg", "SVG: share card of the latest answer", ".svg"),
)
FILTERS = ";;".join(kind.filter for kind in KINDS)


def kind_named(name: str) -> ExportKind:
    """The kind of this id; the first for any other."""
    return next((kind for kind in KINDS if kind.id == name), KINDS[0])


def kind_chosen(path: Path, chosen_filter: str, offered: ExportKind) -> tuple[ExportKind, Path]:
    """What the user means by a name and a filter: the filter where it was changed, else the name's ending if we know it.

    Some dialogs leave the ending as it was when another filter is chosen. The right one is put in its place then, with a number
    where that name is taken, since the dialog has not asked about it.
    """
    by_filter = next((kind for kind in KINDS if kind.filter == chosen_filter), offered)
    by_name = next((kind for kind in KINDS if kind.ending == path.suffix.lower()), None)
    if by_name is not None and (by_name is by_filter or by_filter is offered):
        return by_name, path
    bare = path.stem if by_name is not None else path.name
    return by_filter, free_name(path.with_name(bare + by_filter.ending))


def free_name(path: Path) -> Path:
    """The path, or the first of "NAME (2)", "NAME (3)" and so on that is not taken."""
    number = 1
    found = path
    while os.path.lexists(found):
        number += 1
        found = path.with_name(f"{path.stem} ({number}){path.suffix}")
    return found


def export_session(
    traces: Iterable[str],
    path: Path,
    kind: ExportKind,
    theme: Theme = "dark",
    plain: Mapping[str, PlainRun] = MappingProxyType({}),
    ghosts: Ghosts = "all",
) -> tuple[Path, ...]:
    """Writes these answers, or of the last one the share card; returns what was written, `path` first.

    Args:
        theme: of a share card. A report follows the system of whoever reads it.
        ghosts: how many of them a report opens with, and a card shows.
        plain: measured plain runs by the path of the trace that each is compared with.

    Raises:
        DraftlightError: a trace cannot be read or the file not be written; then nothing has changed.
    """
    paths = tuple(traces)
    read = [replace(trace, plain=plain.get(name)) for name, trace in zip(paths, export.read_traces(paths), strict=True)]
    if kind.id == "card" or kind.id == "card-svg":  # spelled out, so that the types are told apart
        return (share_card.write(read[-1], path, theme, ghosts),)
    return export.write(read, kind.id, path, ghosts=ghosts)
