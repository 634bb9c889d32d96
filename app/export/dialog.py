"""The save dialog of an export, and the message that names the written files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from PySide6.QtCore import QStandardPaths, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget

from app.export.kinds import ExportKind, Theme, chosen_kind, export_session, filters, kind_named
from app.look import theme as themes
from app.look.banner import BannerAction
from app.look.widgets import Question
from app.session.chat import Chat
from app.session.settings import Settings
from engine.values.errors import DraftlightError
from engine.values.wording import amount


def export_answers(parent: QWidget, chat: Chat) -> None:
    """Writes the conversation to a file that the user chooses, and reports the path; remembers folder and kind."""
    settings, paths = chat.settings, chat.session.trace_paths
    if not paths:
        return
    chosen = ask_for_file(parent, settings.export_folder, kind_named(settings.export_kind), Path(paths[-1]).stem)
    if chosen is None:
        return
    kind, path = chosen
    try:
        with busy_pointer():
            written = export_session(
                paths,
                path,
                kind,
                theme_of(settings),
                chat.session.plain_runs,
                settings.ghosts,
                may_replace=replace_prompt(parent),
            )
    except DraftlightError as error:
        chat.say(str(error), "error")
        return
    if not written:
        return
    others = f" and {' and '.join(name.name for name in written[1:])} in the same folder" if written[1:] else ""
    chat.preferences.set(export_folder=str(path.parent), export_kind=kind.id)
    chat.say(f"Exported to {written[0]}{others}.", action=show_folder_action(path.parent))


def ask_for_file(parent: QWidget, folder: str, kind: ExportKind, name: str) -> tuple[ExportKind, Path] | None:
    """Returns kind and path from a save dialog; None if it was cancelled."""
    proposed = start_folder(folder) / f"draftlight-{name}{kind.ending}"
    chosen, chosen_filter = QFileDialog.getSaveFileName(parent, "Export", str(proposed), filters(), kind.filter)
    return chosen_kind(Path(chosen), chosen_filter, kind) if chosen else None


class ReplaceQuestion(Question):
    """Asks whether to replace files other than the one named in the save dialog.

    Attributes:
        replace_button: the button that allows it.
    """

    def __init__(self, parent: QWidget, existing: Sequence[Path]) -> None:
        names = "\n".join(file.name for file in existing[:8]) + ("\n…" if existing[8:] else "")
        subject = "This file exists" if len(existing) == 1 else f"These {amount(len(existing), 'file')} exist"
        super().__init__(
            parent, "replaceQuestion", f"{subject} already and would be replaced:", f"{names}\n\nin {existing[0].parent}"
        )
        self.replace_button = self.addButton("Replace", QMessageBox.ButtonRole.DestructiveRole)
        cancel = self.addButton(QMessageBox.StandardButton.Cancel)
        self.setDefaultButton(cancel)
        self.setEscapeButton(cancel)


def replace_prompt(parent: QWidget) -> Callable[[list[Path]], bool]:
    """Returns a function that asks whether files may be replaced."""

    def may_replace(existing: list[Path]) -> bool:
        """Asks with the normal pointer in place of the busy pointer."""
        question = ReplaceQuestion(parent, existing)
        QGuiApplication.setOverrideCursor(Qt.CursorShape.ArrowCursor)
        try:
            question.exec()
            return question.clickedButton() is question.replace_button
        finally:
            QGuiApplication.restoreOverrideCursor()

    return may_replace


def theme_of(settings: Settings) -> Theme:
    """Returns the theme for share cards: that of the window."""
    return "light" if themes.resolve(settings.appearance) is themes.LIGHT else "dark"


@contextmanager
def busy_pointer() -> Iterator[None]:
    """Shows the busy pointer."""
    QGuiApplication.setOverrideCursor(Qt.CursorShape.WaitCursor)
    try:
        yield
    finally:
        QGuiApplication.restoreOverrideCursor()


def documents_folder() -> Path:
    """Returns the default folder for exports: the user's documents, else the home folder."""
    folder = QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DocumentsLocation)
    return Path(folder) if folder and Path(folder).is_dir() else Path.home()


def start_folder(last: str) -> Path:
    """Returns the folder that a save dialog starts in: that of the last export if it still exists, else the default."""
    return Path(last) if last and Path(last).is_dir() else documents_folder()


def show_folder(folder: Path) -> None:
    """Opens a folder in the desktop's file manager."""
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder)))


def show_folder_action(folder: Path) -> BannerAction:
    """Returns an offer to open this folder."""
    return BannerAction("Show in folder", partial(show_folder, folder), keeps_message=True)
