"""What a session can be exported as, and writing it where the user wants it. No Qt here: the command line exports, too."""

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
"""Formats that need what the engine has not: fonts, and pixels."""


@dataclass(frozen=True, slots=True)
class ExportKind:
    """One way to export in the window: a format and what the name of its files ends in.

    Attributes:
        id: how the settings call it.
        title: how the dialog calls it.
    """

    id: str
    title: str
    ending: str
    form: ExportFormat

    @property
    def filter(self) -> str:
        """The kind as file dialogs write it."""
        return f"{self.title} (*{self.ending})"


def formats() -> dict[str, ExportFormat]:
    """Every format by its name."""
    return FORMATS | PICTURES


def kinds() -> tuple[ExportKind, ...]:
    """What the dialog offers. A format with two endings is two kinds."""
    return tuple(
        ExportKind(form.name if place == 0 else f"{form.name}-{ending[1:]}", f"{words}: {form.content}", ending, form)
        for form in formats().values()
        if form.in_dialog
        for place, (ending, words) in enumerate(form.endings.items())
    )


def filters() -> str:
    """All kinds as file dialogs write them."""
    return ";;".join(kind.filter for kind in kinds())


def kind_named(name: str) -> ExportKind:
    """The kind of this id; the first for any other."""
    return next((kind for kind in kinds() if kind.id == name), kinds()[0])


def kind_chosen(path: Path, chosen_filter: str, offered: ExportKind) -> tuple[ExportKind, Path]:
    """What the user means by a name and a filter: the filter where it was changed, else the name's ending if we know it.

    Some dialogs leave the ending as it was when another filter is chosen. The right one is put in its place then, as in place of
    the ending of any other kind of file, with a number where that name is taken, since the dialog has not asked about it.
    """
    by_filter = next((kind for kind in kinds() if kind.filter == chosen_filter), offered)
    by_name = next((kind for kind in kinds() if kind.ending == path.suffix.lower()), None)
    if by_name is not None and (by_name == by_filter or by_filter == offered):
        return by_name, path
    bare = path if by_name is None else path.with_name(path.stem)
    return by_filter, free_name(named_as(bare, by_filter.ending))


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
    compared: bool = False,
    may_replace: Callable[[list[Path]], bool] = lambda existing: True,
    verdict: tuple[str, ...] = (),
) -> tuple[Path, ...]:
    """Writes these answers, or a share card of the latest or of all compared ones; returns what was written, `path` first.

    Args:
        theme: of a share card. A report follows the system of whoever reads it.
        ghosts: how many of them a report opens with, and a card shows.
        compared: whether they stand side by side. verdict: what their comparison has found, a sentence each.
        plain: measured plain runs by the path of the trace that each is compared with.
        may_replace: called with the files beside `path` that are there already; where it returns False, nothing is written.

    Raises:
        DraftlightError: a trace cannot be read or the file not be written; then nothing has changed.
    """
    from engine.exports import export  # numpy comes with it, which the command line does without until it exports

    paths = tuple(traces)
    read = [replace(trace, plain=plain.get(name)) for name, trace in zip(paths, export.read_traces(paths), strict=True)]

    def may_replace_others(existing: list[Path]) -> bool:
        """The dialog has asked about `path` itself."""
        others = [file for file in existing if file != path]
        return not others or may_replace(others)

    return export.write(
        read, kind.form, path, theme=theme, ghosts=ghosts, compared=compared, may_replace=may_replace_others, verdict=verdict
    )
