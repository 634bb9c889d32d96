"""Attaches files to a message: chosen in a dialog, dropped on the window, or pasted into the message field."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Slot
from PySide6.QtWidgets import QFileDialog, QWidget

from app.conversation.composer import Composer
from app.look.banner import Banner
from app.session.attachments import Attachment, read_attachment
from engine.values.errors import DraftlightError


class Attaching(QObject):
    """Reads files and passes them to the message field. Reports which could not be read, and which were changed."""

    def __init__(self, composer: Composer, banner: Banner, window: QWidget) -> None:
        super().__init__(window)
        self._composer, self._banner, self._window = composer, banner, window
        composer.files_wanted.connect(self.ask)
        composer.edit.files_given.connect(self.take)

    @Slot()
    def ask(self) -> None:
        """Lets the user choose files."""
        chosen, _ = QFileDialog.getOpenFileNames(self._window, "Attach text or code files")
        self.take([Path(path) for path in chosen])

    def attach(self, texts: list[Attachment]) -> None:
        """Attaches files that were already read."""
        self._composer.attach(texts)

    @Slot(list)
    def take(self, paths: list[Path]) -> None:
        """Attaches the files that can be read and explains why the others cannot."""
        problems: list[str] = []
        taken: list[Attachment] = []
        for path in paths:
            try:
                taken.append(read_attachment(path))
            except DraftlightError as error:
                problems.append(str(error))
        self.attach(taken)
        changed = [each.name for each in taken if each.normalised]
        notes = [f"Line endings changed to those of Unix: {', '.join(changed)}."] if changed else []
        if problems or notes:
            self._banner.show_message(" ".join([*problems, *notes]), "error" if problems else "note")
