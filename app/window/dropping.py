"""Handles files from outside: dropped on the window, attached to a message, or opened by the system."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QEvent, QMimeData, QObject, Qt, QTimer, QUrl, Signal, Slot
from PySide6.QtGui import QDropEvent, QFileOpenEvent
from PySide6.QtWidgets import QApplication, QFileDialog, QWidget

from app.conversation.composer import Composer, dropped_files
from app.look.banner import Banner
from app.look.widgets import local_files
from app.session.attachments import Attachment, is_attachable, read_attachment
from app.session.chat import Chat
from app.window.chat_column import ChatColumn
from app.window.chat_files import ChatFiles
from app.window.models_controller import ModelsController, dropped_model
from app.window.replay_controller import ReplayController, dropped_trace
from engine.chats import may_hold_chats
from engine.files.library import models_in
from engine.rounds.trace import ENDING
from engine.values.errors import DraftlightError
from engine.values.wording import amount, listed

MAX_ATTACHED_TEXTS = 20
"""Maximum number of text files attached from one folder: each has a chip, and all of them must fit the context."""
MAX_INSPECTED_FILES = 2000
"""Maximum number of files inspected in a folder; dragging more is probably a mistake."""
ACCEPTED_FILES_TEXT = (
    "You can drop the folder or .gguf file of a model, the folder of an adapter or a drafter, text and code files, a trace "
    f"({ENDING}), and exported chats."
)


class DropHandler(QObject):
    """Passes dropped files to the first handler that accepts them: a trace is replayed, chats are imported, a model is loaded,
    text is attached. All other files and folders are inspected on a background thread, then used or rejected with an explanation.

    Attributes:
        attacher: attaches files to the message.

    Signals:
        opening: files opened by the system are about to be used, in the conversation.
    """

    opening = Signal()

    def __init__(
        self,
        chat: Chat,
        replay: ReplayController,
        chat_files: ChatFiles,
        models: ModelsController,
        column: ChatColumn,
        window: QWidget,
    ) -> None:
        super().__init__(window)
        self._chat, self._replay, self._chat_files, self._models = chat, replay, chat_files, models
        self._banner, self._window = column.banner, window
        self.attacher = FileAttacher(column.composer, column.banner, window)
        self._handlers: tuple[tuple[Callable[[QMimeData], Any], Callable[[Any], object]], ...] = (
            (dropped_trace, replay.open),
            (chat_files.dropped, chat_files.import_files),
            (dropped_model, models.use_dropped),
            (dropped_files, self.attacher.attach_paths),
            (dropped_paths, self._inspect),
        )
        window.setAcceptDrops(True)
        for target in (window, column.composer.edit.viewport(), column.transcript):
            target.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if not isinstance(event, QDropEvent) or not self._dispatch(event.mimeData(), event.type() == QEvent.Type.Drop):
            return False
        event.acceptProposedAction()
        return True

    def _dispatch(self, data: QMimeData, dropped: bool) -> bool:
        """Returns whether dragged data can be used, and uses it if it was dropped."""
        for find, handle in self._handlers:
            if found := find(data):
                if dropped:
                    handle(found)
                return True
        return False

    # Files that the system opens.

    @Slot(list)
    def open(self, paths: Sequence[Path]) -> None:
        """Handles files that the system asks to open like dropped ones, except that importing chats must be confirmed.

        They are queued behind the last chat, which is still being read at startup.
        """
        window = self._window
        window.setWindowState(window.windowState() & ~Qt.WindowState.WindowMinimized)
        window.raise_()
        window.activateWindow()
        handle = partial(self._open_paths, paths)
        self._chat.keeper.read(lambda store: None, lambda _: handle(), lambda _: handle())

    def _open_paths(self, paths: Sequence[Path]) -> None:
        data = QMimeData()
        data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
        self.opening.emit()
        if chats := self._chat_files.dropped(data):
            self._chat_files.ask_and_import(chats)
        elif not self._dispatch(data, dropped=True):
            self._banner.show_message(f"{listed([path.name for path in paths])} cannot be found.")

    # Folders, and files that nothing else takes.

    def _inspect(self, paths: Sequence[Path]) -> None:
        """Uses these files and folders according to their contents, or explains what can be dropped."""
        self._models.background.run(
            lambda: [inspect(path) for path in paths],
            self._use,
            lambda error: self._banner.show_message(str(error)),
            "looking into what was dropped",
        )

    def _use(self, found: list[Contents]) -> None:
        models = [model for each in found for model in each.models]
        chats = [file for each in found for file in each.chats]
        traces = [file for each in found for file in each.traces]
        texts = [text for each in found for text in each.texts]
        others = sum(each.others for each in found)
        names = listed([each.folder.name for each in found])
        problems = " ".join(each.problem for each in found if each.problem)
        if problems:
            self._banner.show_message(problems)
        elif len(models) == 1:
            self._models.use_dropped(models[0])
        elif models:
            self._banner.show_message(
                f"{names} has {len(models):,} models. Drop one of them, or choose it from the list.", "note"
            )
            folders = [each.folder for each in found if each.models]
            self._banner.show_action("List them", partial(self._models.list_folders, folders), keeps_message=True)
        elif chats:
            self._chat_files.import_files(chats)
        elif len(traces) == 1:
            self._replay.open(traces[0])
        elif traces:
            self._banner.show_message(f"{names} has {amount(len(traces), 'trace')}. Drop one of them to replay it.", "note")
        elif len(texts) > MAX_ATTACHED_TEXTS:
            self._banner.show_message(
                f"{names} has {amount(len(texts), 'text file')}, and at most {MAX_ATTACHED_TEXTS} of a folder are attached. "
                "Drop those you need."
            )
        elif texts:
            self.attacher.attach(texts)
            skipped = f" {others:,} other file{'s were' if others > 1 else ' was'} left out." if others else ""
            texts_count = "One text file" if len(texts) == 1 else amount(len(texts), "text file")
            self._banner.show_message(f"{texts_count} of {names} will go with your message.{skipped}", "note")
        elif others:
            self._banner.show_message(f"Nothing in {names} can be used here. {ACCEPTED_FILES_TEXT}")
        else:
            self._banner.show_message(f"{names} is empty. {ACCEPTED_FILES_TEXT}")


class FileAttacher(QObject):
    """Reads files and attaches them to the message. Reports files that could not be read, and files that were changed."""

    def __init__(self, composer: Composer, banner: Banner, window: QWidget) -> None:
        super().__init__(window)
        self._composer, self._banner, self._window = composer, banner, window
        composer.files_wanted.connect(self.ask)
        composer.edit.files_given.connect(self.attach_paths)

    @Slot()
    def ask(self) -> None:
        """Lets the user choose files."""
        chosen, _ = QFileDialog.getOpenFileNames(self._window, "Attach text or code files")
        self.attach_paths([Path(path) for path in chosen])

    def attach(self, texts: list[Attachment]) -> None:
        """Attaches files that were already read."""
        self._composer.attach(texts)

    @Slot(list)
    def attach_paths(self, paths: list[Path]) -> None:
        """Attaches the files that can be read and explains why the others cannot."""
        problems: list[str] = []
        attachments: list[Attachment] = []
        for path in paths:
            try:
                attachments.append(read_attachment(path))
            except DraftlightError as error:
                problems.append(str(error))
        self.attach(attachments)
        changed = [each.name for each in attachments if each.normalised]
        notes = [f"Line endings changed to those of Unix: {', '.join(changed)}."] if changed else []
        if problems or notes:
            self._banner.show_message(" ".join([*problems, *notes]), "error" if problems else "note")


class OpenedFiles(QObject):
    """Queues files that the system asks to open (by a double-click in Finder, `open -a`, or a drop on the Dock icon) until the
    window is painted, then passes them to it.

    macOS sends one event per file. After a double-click that starts the program, they arrive before the window is painted.
    """

    def __init__(self, application: QApplication) -> None:
        super().__init__(application)
        self._receiver: Callable[[list[Path]], object] | None = None
        self._paths: list[Path] = []
        self._batch_timer = QTimer(self, singleShot=True, interval=0)  # collects files that are opened together
        self._batch_timer.timeout.connect(self._deliver)
        application.installEventFilter(self)

    def deliver_to(self, receiver: Callable[[list[Path]], object]) -> None:
        """Passes files to this function from now on."""
        self._receiver = receiver
        self._batch_timer.start()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() != QEvent.Type.FileOpen or not isinstance(event, QFileOpenEvent):
            return False
        if event.file():
            self._paths.append(Path(event.file()))
            if self._receiver is not None:
                self._batch_timer.start()
        return True

    @Slot()
    def _deliver(self) -> None:
        paths, self._paths = self._paths, []
        if paths and self._receiver is not None:
            self._receiver(paths)


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a dropped folder or file.

    Attributes:
        models: paths of models, adapters and drafters.
        chats: files with exported chats.
        traces: trace files.
        texts: files that can be attached, named by their path relative to the folder.
        others: number of other files.
        problem: why the folder could not be read.
    """

    folder: Path
    models: tuple[Path, ...] = ()
    chats: tuple[Path, ...] = ()
    traces: tuple[Path, ...] = ()
    texts: tuple[Attachment, ...] = ()
    others: int = 0
    problem: str = ""


def dropped_paths(data: QMimeData) -> list[Path]:
    """Returns the dragged files and folders if all of them are on this machine."""
    paths = local_files(data)
    return paths if len(paths) == len(data.urls()) and all(map(os.path.exists, paths)) else []


def inspect(path: Path) -> Contents:
    """Returns the contents of a folder, or the kind of a file."""
    if not path.is_dir():
        return _inspect_file(path)
    try:
        models = models_in(path)
        if models:
            return Contents(path, models=tuple(models))
        files = list(_files_below(path))
    except OSError as error:
        return Contents(path, problem=f"{path.name} cannot be read: {error.strerror or error}.")
    chats = tuple(file for file in files if file.name == "conversations.json" and may_hold_chats(file))
    if chats:
        return Contents(path, chats=chats)
    if files and all(file.name.endswith(ENDING) for file in files):
        return Contents(path, traces=tuple(files))
    texts: list[Attachment] = []
    for file in files:
        try:
            if is_attachable(file):
                texts.append(replace(read_attachment(file), name=file.relative_to(path).as_posix()))
        except DraftlightError:
            continue
    return Contents(path, texts=tuple(texts), others=len(files) - len(texts))


def _inspect_file(path: Path) -> Contents:
    """Classifies a file that was dropped together with others, or that no other handler accepted."""
    if path.suffix.lower() == ".gguf":
        return Contents(path, models=(path,))
    if path.suffix.lower() == ".safetensors":
        return Contents(path, models=tuple(models_in(path.parent, levels=0)), others=1)
    try:
        return Contents(path, texts=(read_attachment(path),))
    except DraftlightError as error:
        return Contents(path, problem=str(error))


def _files_below(folder: Path) -> Iterator[Path]:
    """Yields the visible files in a folder and its subfolders, up to `MAX_INSPECTED_FILES`. Raises OSError if the folder cannot
    be read."""
    os.scandir(folder).close()  # `os.walk` ignores errors
    count = 0
    for current, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                count += 1
                if count > MAX_INSPECTED_FILES:
                    return
                yield Path(current, name)
