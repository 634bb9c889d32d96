"""A file of conversations, whoever wrote it."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

from engine.chats.exchange import chatgpt, lm_studio, own
from engine.chats.values import Conversation
from engine.errors import DraftlightError
from engine.files import archives
from engine.files.foreign import json_of, open_file

FORMATS = {"Draftlight": own, "ChatGPT": chatgpt, "LM Studio": lm_studio}
"""A format is a module with `matches` and `conversations_in`."""
_MEMBER = "conversations.json"
_LARGEST = 4 * 2**30
_DENSEST = 200
"""Text is compressed to about a tenth; what claims to be more than this is no export."""
_BEGINNING = 65_536
_MARKS = (b'"draftlight.chats/', b'"mapping"', b'"versions"')
"""What stands near the beginning of the files of each program."""


@dataclass(frozen=True, slots=True)
class ReadChats:
    """What a file holds: its conversations, who wrote it, and how many entries could not be taken from it."""

    conversations: tuple[Conversation, ...]
    writer: str
    left_out: int


def read_chats(path: Path) -> ReadChats:
    """The conversations of a file: Draftlight's own, ChatGPT's `conversations.json` or the archive it comes in, or LM Studio's.

    Raises:
        DraftlightError: it cannot be read, or is none of these.
    """
    try:
        document = json_of(_content(path))
    except OSError as error:
        raise DraftlightError(f"{path} cannot be read: {error.strerror or error}.") from None
    except (ValueError, *archives.UNREADABLE) as error:
        raise _foreign(path, str(error)) from None
    for writer, form in FORMATS.items():
        if form.matches(document):
            try:
                found, left_out = form.conversations_in(document)
            except ValueError as error:
                raise DraftlightError(f"{path} cannot be imported: {error}.") from None
            return ReadChats(tuple(found), writer, left_out)
    raise _foreign(path, "it has none of their shapes")


def may_hold_chats(path: Path) -> bool:
    """Whether a file looks like one of these from its beginning; only `read_chats` knows."""
    try:
        with open_file(path) as file:
            if zipfile.is_zipfile(file):
                with zipfile.ZipFile(file) as archive:
                    return any(entry.rpartition("/")[2] == _MEMBER for entry in archive.namelist())
            if path.suffix.lower() != ".json":
                return False
            file.seek(0)
            beginning = file.read(_BEGINNING)
    except (OSError, ValueError, *archives.UNREADABLE):
        return False
    return any(mark in beginning for mark in _MARKS)


def _content(path: Path) -> bytes:
    with open_file(path) as file:
        if not zipfile.is_zipfile(file):
            file.seek(0)
            return file.read()
        with zipfile.ZipFile(file) as archive:
            names = [entry for entry in archive.infolist() if entry.filename.rpartition("/")[2] == _MEMBER]
            if not names or names[0].file_size > min(_LARGEST, _DENSEST * names[0].compress_size):
                raise ValueError(f"there is no {_MEMBER} of a usable size in it")
            return archive.read(names[0])


def _foreign(path: Path, reason: str) -> DraftlightError:
    return DraftlightError(
        f"{path} cannot be imported ({reason}). Draftlight reads its own exports, conversations.json or the archive of a ChatGPT "
        "export, and LM Studio's conversation files."
    )
