"""The kinds of export, and the export of a session to a file. No Qt, because the command line exports, too."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from engine.exports.formats import FORMATS, ExportFormat, named_as
from engine.lens.pieces import Ghosts
from engine.rounds.trace import PlainRun

Theme = Literal["dark", "light"]

PICTURES: dict[str, ExportFormat] = {
    known.name: known
    for known in (
        ExportFormat(
            "png", "one chart of the latest answer", {".png": "PNG"}, "app.export.pictures:make", printable=False, in_dialog=False
        ),
        ExportFormat(
            "card",
            "share card of the latest answer or comparison",
            {".png": "PNG", ".svg": "SVG"},
            "app.export.share_card:make",
            printable=False,
        ),
    )
}
"""Formats that need fonts or pixels, which the engine does without."""


@dataclass(frozen=True, slots=True)
class ExportKind:
    """A choice in the export dialog: a format and a file ending.

    Attributes:
        id: its key in the settings.
        title: its name in the dialog.
    """

    id: str
    title: str
    ending: str
    form: ExportFormat

    @property
    def filter(self) -> str:
        """The name filter for file dialogs."""
        return f"{self.title} (*{self.ending})"


def formats() -> dict[str, ExportFormat]:
    """Returns every format by its name."""
    return FORMATS | PICTURES


def kinds() -> tuple[ExportKind, ...]:
    """Returns the kinds that the dialog offers; a format with two endings is two kinds."""
    return tuple(
        ExportKind(form.name if index == 0 else f"{form.name}-{ending[1:]}", f"{name}: {form.content}", ending, form)
        for form in formats().values()
        if form.in_dialog
        for index, (ending, name) in enumerate(form.endings.items())
    )


def filters() -> str:
    """Returns the name filters of all kinds for a file dialog."""
    return ";;".join(kind.filter for kind in kinds())


def kind_named(name: str) -> ExportKind:
    """Returns the kind with this id, or the first kind if there is none."""
    return next((kind for kind in kinds() if kind.id == name), kinds()[0])


def chosen_kind(path: Path, chosen_filter: str, offered: ExportKind) -> tuple[ExportKind, Path]:
    """Returns kind and path for a name and a filter from the dialog.

    A changed filter takes precedence over the name's ending. Some dialogs keep the old ending when the filter changes; it is then
    replaced, like the endings of other kinds of file. If the new name exists, a number is appended, since the dialog asked only
    about the old one.
    """
    by_filter = next((kind for kind in kinds() if kind.filter == chosen_filter), offered)
    by_name = next((kind for kind in kinds() if kind.ending == path.suffix.lower()), None)
    if by_name is not None and (by_name == by_filter or by_filter == offered):
        return by_name, path
    stem = path if by_name is None else path.with_name(path.stem)
    return by_filter, free_name(named_as(stem, by_filter.ending))


def free_name(path: Path) -> Path:
    """Returns the path, or the first of "NAME (2)", "NAME (3)", ... that does not exist."""
    number = 1
    candidate = path
    while os.path.lexists(candidate):
        number += 1
        candidate = path.with_name(f"{path.stem} ({number}){path.suffix}")
    return candidate


def export_session(
    traces: Iterable[str],
    path: Path,
    kind: ExportKind,
    theme: Theme = "dark",
    plain: Mapping[str, PlainRun] = MappingProxyType({}),
    ghosts: Ghosts = "all",
    compared: bool = False,
    may_replace: Callable[[list[Path]], bool] = lambda existing: True,
    verdict: tuple[str, ...] = (),
) -> tuple[Path, ...]:
    """Writes these answers, or a share card of the latest or of all compared ones; returns the written files, `path` first.

    Args:
        theme: of a share card. A report follows the theme of its reader's system.
        ghosts: the ghosts that a report shows at first, and that a card shows.
        compared: whether the answers are compared side by side.
        verdict: results of the comparison, a sentence each.
        plain: measured plain runs, by the trace path of the answer that each is compared with.
        may_replace: called with the existing files beside `path`; nothing is written if it returns False.

    Raises:
        DraftlightError: a trace cannot be read or a file cannot be written; nothing has changed then.
    """
    from engine.exports import export  # imports numpy, which would delay the start of the command line

    paths = tuple(traces)
    answers = [replace(trace, plain=plain.get(name)) for name, trace in zip(paths, export.read_traces(paths), strict=True)]

    def may_replace_others(existing: list[Path]) -> bool:
        """Returns whether existing files may be replaced. Asks about all except `path`, which the dialog has confirmed."""
        others = [file for file in existing if file != path]
        return not others or may_replace(others)

    return export.write(
        answers, kind.form, path, theme=theme, ghosts=ghosts, compared=compared, may_replace=may_replace_others, verdict=verdict
    )
