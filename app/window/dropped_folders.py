"""Handles folders dropped on the window, and files that no other handler takes: uses them or explains why not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QMimeData, QObject
from PySide6.QtWidgets import QWidget

from app.look.banner import Banner
from app.look.dragged import local_files
from app.session.attachments import Attachment, is_attachable, read_attachment
from app.window.attaching import Attaching
from app.window.chat_files import ChatFiles
from app.window.models_controller import ModelsController
from engine.chats import may_hold_chats
from engine.files.library import models_in
from engine.rounds.trace import ENDING
from engine.values.errors import DraftlightError
from engine.values.wording import amount, listed

MOST_TEXTS = 20
"""Maximum text files attached from one folder: each has a chip, and all of them have to fit the context."""
MOST_LOOKED_AT = 2000
"""Maximum files inspected in a folder; a drag of more is probably a mistake."""
WHAT_CAN_BE_DROPPED = (
    "You can drop the folder or .gguf file of a model, the folder of an adapter or a drafter, text and code files, a trace "
    f"({ENDING}), and exported chats."
)


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a dropped folder.

    Attributes:
        models: paths of models, adapters and drafters. chats: files with exported chats. traces: trace files.
        texts: files that can be attached, named by their path relative to the folder. others: number of other files.
        problem: why the folder could not be read.
    """

    folder: Path
    models: tuple[Path, ...] = ()
    chats: tuple[Path, ...] = ()
    traces: tuple[Path, ...] = ()
    texts: tuple[Attachment, ...] = ()
    others: int = 0
    problem: str = ""


class DroppedFolders(QObject):
    """Inspects folders on a background thread and passes their contents to the matching handler.

    Args:
        open_trace: shows a trace.
    """

    def __init__(
        self,
        models: ModelsController,
        chat_files: ChatFiles,
        attaching: Attaching,
        open_trace: Callable[[Path], None],
        banner: Banner,
        window: QWidget,
    ) -> None:
        super().__init__(window)
        self._models, self._chat_files, self._attaching, self._banner = models, chat_files, attaching, banner
        self._open_trace = open_trace

    def take(self, paths: Sequence[Path]) -> None:
        """Uses these files and folders in the way that fits their contents, or explains what can be dropped."""
        self._models.background.do(
            lambda: [contents_of(path) for path in paths],
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
            self._banner.offer("List them", partial(self._models.list_folders, [each.folder for each in found if each.models]))
        elif chats:
            self._chat_files.take_in(chats)
        elif len(traces) == 1:
            self._open_trace(traces[0])
        elif traces:
            self._banner.show_message(f"{names} has {amount(len(traces), 'trace')}. Drop one of them to replay it.", "note")
        elif len(texts) > MOST_TEXTS:
            self._banner.show_message(
                f"{names} has {amount(len(texts), 'text file')}, and at most {MOST_TEXTS} of a folder are attached. "
                "Drop those you need."
            )
        elif texts:
            self._attaching.attach(texts)
            left_out = f" {others:,} other file{'s were' if others > 1 else ' was'} left out." if others else ""
            what = "One text file" if len(texts) == 1 else amount(len(texts), "text file")
            self._banner.show_message(f"{what} of {names} will go with your message.{left_out}", "note")
        elif others:
            self._banner.show_message(f"Nothing in {names} can be used here. {WHAT_CAN_BE_DROPPED}")
        else:
            self._banner.show_message(f"{names} is empty. {WHAT_CAN_BE_DROPPED}")


def dropped_anything(data: QMimeData) -> list[Path]:
    """Returns the dragged files and folders if all of them are on this machine."""
    paths = local_files(data)
    return paths if len(paths) == len(data.urls()) and all(map(os.path.exists, paths)) else []


def contents_of(path: Path) -> Contents:
    """Returns the contents of a folder, or the kind of a file."""
    if not path.is_dir():
        return _of_file(path)
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


def _of_file(path: Path) -> Contents:
    """Classifies a file that was dropped together with others, or that is not text."""
    if path.suffix.lower() == ".gguf":
        return Contents(path, models=(path,))
    if path.suffix.lower() == ".safetensors":
        return Contents(path, models=tuple(models_in(path.parent, levels=0)), others=1)
    try:
        return Contents(path, texts=(read_attachment(path),))
    except DraftlightError as error:
        return Contents(path, problem=str(error))


def _files_below(folder: Path) -> Iterator[Path]:
    """Yields the visible files in a folder and its subfolders, up to `MOST_LOOKED_AT`. Raises OSError if the folder cannot be
    read."""
    os.scandir(folder).close()  # `os.walk` ignores errors
    many = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                many += 1
                if many > MOST_LOOKED_AT:
                    return
                yield Path(place, name)
