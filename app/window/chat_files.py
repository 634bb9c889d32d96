"""Imports and exports chats as files: import by dialog or drop, export of one chat or all of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QMimeData, QObject, Slot
from PySide6.QtWidgets import QFileDialog, QMessageBox, QWidget

from app.export.dialog import documents_folder, show_folder_action, start_folder
from app.export.kinds import free_name
from app.look.banner import Banner
from app.look.widgets import Question, local_files
from app.session.chat import Chat
from engine.chats import ChatStore, ImportResult, import_chats, may_hold_chats, to_json, to_markdown
from engine.exports.formats import named_as
from engine.files.logs import explain
from engine.files.whole_file import write_whole
from engine.values.errors import DraftlightError
from engine.values.wording import amount, listed

IMPORT_KINDS = "Chats (*.json *.zip);;All files (*)"
IMPORT_NOTE = "They are added to the list of chats. Chats that are there already are left as they are."
MARKDOWN_KIND, JSON_KIND = "Markdown (*.md)", "JSON, can be imported again (*.json)"


class ChatFiles(QObject):
    """Moves chats between files and the store; reading and writing happens on the keeper's thread.

    Args:
        open_chat: shows the chat with an id.
    """

    def __init__(self, chat: Chat, banner: Banner, window: QWidget, open_chat: Callable[[int], None]) -> None:
        super().__init__(window)
        self._chat, self._banner, self._window, self._open_chat = chat, banner, window, open_chat
        self._dragged: tuple[list[Path], bool] = ([], False)

    # Import.

    def ask_for_import(self) -> None:
        """Lets the user choose files."""
        chosen, _ = QFileDialog.getOpenFileNames(self._window, "Import chats", str(documents_folder()), IMPORT_KINDS)
        self.import_files([Path(path) for path in chosen])

    def ask_and_import(self, paths: list[Path]) -> None:
        """Imports the chats in files that were opened from outside, after asking the user."""
        names = listed([path.name for path in paths])
        question = Question(self._window, "importQuestion", f"Import the chats in {names}?", IMPORT_NOTE)
        question.setDefaultButton(question.addButton("Import", QMessageBox.ButtonRole.AcceptRole))
        question.addButton(QMessageBox.StandardButton.Cancel)
        question.accepted.connect(partial(self.import_files, paths))
        question.open()

    def import_files(self, paths: list[Path]) -> None:
        """Imports the chats in files and reports the result for each."""
        if paths:
            self._banner.show_message("Importing chats…", "note")
            self._chat.keeper.read(partial(_import, paths), self._report_import, self._report_error)

    def _report_import(self, found: tuple[list[ImportResult], list[str]]) -> None:
        files, problems = found
        self._chat.recorder.written.emit()
        results = [f"{each.words}." if len(files) == 1 else f"{each.path.name}: {each.words}." for each in files]
        self._banner.show_message(" ".join([*problems, *results]), "error" if problems else "note")
        new = next((each.numbers[0] for each in files if each.numbers), None)
        if new is not None and not problems:
            self._banner.show_action("Show", partial(self._open_chat, new))

    @Slot(str)
    def _report_error(self, message: str) -> None:
        self._banner.show_message(message)

    # Export.

    def export_shown(self) -> None:
        """Asks for a file and writes the shown chat to it."""
        if self._chat.stored_chat.number is not None:
            self.export(self._chat.stored_chat.number)

    @Slot(int)
    def export(self, number: int) -> None:
        """Asks for a file and writes a chat to it."""
        self._chat.keeper.read(
            lambda store: store.open(number).about.title, partial(self._ask_for_path, [number]), self._report_error
        )

    def export_all(self) -> None:
        """Asks for a file and writes all chats to it."""
        self._chat.keeper.read(
            lambda store: [about.id for about in store.conversations()], self._ask_for_path_of_all, self._report_error
        )

    def _ask_for_path_of_all(self, numbers: list[int]) -> None:
        if numbers:
            self._ask_for_path(numbers, "chats")
        else:
            self._banner.show_message("There are no chats to export.", "note")

    def _ask_for_path(self, numbers: list[int], name: str) -> None:
        """Asks for a file and writes these chats to it."""
        settings, keeper = self._chat.settings, self._chat.keeper
        kinds = f"{MARKDOWN_KIND};;{JSON_KIND}"
        proposed = str(start_folder(settings.export_folder) / f"{file_name(name)}.md")
        chosen, kind = QFileDialog.getSaveFileName(self._window, "Export chats", proposed, kinds)
        if not chosen:
            return
        path = chosen_path(chosen, kind)
        self._chat.preferences.set(export_folder=str(path.parent))
        keeper.read(partial(_export_to, numbers, path), partial(self._report_export, path), self._report_error)

    def _report_export(self, path: Path, count: int) -> None:
        self._chat.say(f"{amount(count, 'chat')} exported to {path}.", action=show_folder_action(path.parent))

    # Drag and drop.

    def dropped(self, data: QMimeData) -> list[Path]:
        """Returns the dragged files if all of them may contain chats. The check is cached, since every mouse move asks."""
        paths = local_files(data) if self._chat.keeper.stores else []
        if paths != self._dragged[0]:
            self._dragged = (paths, bool(paths) and all(map(may_hold_chats, paths)))
        return paths if self._dragged[1] else []


def chosen_path(name: str, kind: str) -> Path:
    """Returns the path for a name and a filter of the dialog. A name without the right ending gets it, and a number if the result
    exists: the dialog asked only about the name as entered."""
    path, ending = Path(name), ".json" if kind == JSON_KIND else ".md"
    return path if path.suffix.lower() in (ending, ".json") else free_name(named_as(path, ending))


def file_name(title: str) -> str:
    """Returns a title as a file name without ending that every system accepts."""
    cleaned = "".join(letter if letter.isalnum() or letter in " -_" else " " for letter in title)
    return " ".join(cleaned.split())[:60].strip() or "chat"


def _import(paths: list[Path], store: ChatStore) -> tuple[list[ImportResult], list[str]]:
    """Imports files; returns the results and the error messages."""
    files: list[ImportResult] = []
    problems: list[str] = []
    for path in paths:
        try:
            files.append(import_chats(store, path))
        except DraftlightError as error:
            problems.append(explain(error, "importing chats"))
    return files, problems


def _export_to(numbers: list[int], path: Path, store: ChatStore) -> int:
    """Writes the chats with these ids; returns how many."""
    chats = (store.open(number) for number in numbers)
    write_whole(path, to_json(chats) if path.suffix.lower() == ".json" else to_markdown(chats))
    return len(numbers)
