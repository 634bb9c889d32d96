"""Reads files of conversations in any supported format, and imports them into a store."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.chats.exchange import chatgpt, lm_studio, own
from engine.chats.store import ChatStore
from engine.chats.values import Conversation
from engine.files import archives
from engine.files.foreign import entries, json_of, open_file
from engine.values.errors import DraftlightError
from engine.values.wording import amount

FORMATS = {"Draftlight": own, "ChatGPT": chatgpt, "LM Studio": lm_studio}
"""The formats, each a module with `matches` and `conversations_in`, by the program that writes it."""
_MEMBER = re.compile(r"(?:.*/)?conversations(?:-\d+)?\.json", re.DOTALL)
"""Names in ChatGPT's archives: `conversations.json`; since 2026 `conversations-000.json`, `conversations-001.json` and so on."""
_MAX_BYTES = 4 * 2**30
_MAX_COMPRESSION = 200
"""Maximum compression ratio. Text is compressed to about a tenth; an archive beyond this limit is no export."""
_BEGINNING = 65_536
_MARKS = (b'"draftlight.chats/', b'"mapping"', b'"versions"')
"""Byte strings near the beginning of each program's files."""


@dataclass(frozen=True, slots=True)
class ReadChats:
    """The content of a file: its conversations, the program that wrote it, and the number of entries left out."""

    conversations: tuple[Conversation, ...]
    writer: str
    left_out: int


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The result of an import.

    Attributes:
        numbers: those of the new conversations.
        writer: program that wrote the file.
        existing: number of conversations that were in the store already. left_out: number of entries without a text to import.
    """

    path: Path
    writer: str
    numbers: tuple[int, ...]
    existing: int
    left_out: int

    @property
    def words(self) -> str:
        """The result as a sentence for users, without a full stop."""
        count = len(self.numbers)
        notes = [
            f"{self.existing} {'was' if self.existing == 1 else 'were'} there already" if self.existing else "",
            f"{amount(self.left_out, 'entry', 'entries')} without text, of tools for example, "
            f"{'was' if self.left_out == 1 else 'were'} left out"
            if self.left_out
            else "",
        ]
        remarks = "; ".join(filter(None, notes))
        return f"{amount(count, 'chat')} imported from {self.writer}{f' ({remarks})' if remarks else ''}"


def read_chats(path: Path) -> ReadChats:
    """Returns the conversations of a file: Draftlight's own, ChatGPT's `conversations.json` or the archive it comes in, or LM
    Studio's.

    Raises:
        DraftlightError: it cannot be read, or has none of these formats.
    """
    try:
        documents = [json_of(content) for content in _contents(path)]
        document = documents[0] if len(documents) == 1 else [entry for part in documents for entry in entries(part)]
    except OSError as error:
        raise DraftlightError(f"{path} cannot be read: {error.strerror or error}.") from None
    except (ValueError, *archives.UNREADABLE) as error:
        raise _not_an_export(path, str(error)) from None
    for writer, form in FORMATS.items():
        if form.matches(document):
            try:
                found, left_out = form.conversations_in(document)
            except ValueError as error:
                raise DraftlightError(f"{path} cannot be imported: {error}.") from None
            return ReadChats(tuple(found), writer, left_out)
    raise _not_an_export(path, "it has none of their shapes")


def import_chats(store: ChatStore, path: Path) -> ImportResult:
    """Imports all conversations of a file, or none. Raises DraftlightError if the file is unreadable or of an unknown format."""
    read = read_chats(path)
    numbers = store.add(read.conversations)
    imported = tuple(number for number in numbers if number is not None)
    return ImportResult(path, read.writer, imported, numbers.count(None), read.left_out)


def may_hold_chats(path: Path) -> bool:
    """Returns whether the beginning of a file looks like one of these formats. Only `read_chats` makes sure."""
    try:
        with open_file(path) as file:
            if zipfile.is_zipfile(file):
                with zipfile.ZipFile(file) as archive:
                    return any(map(_MEMBER.fullmatch, archive.namelist()))
            if path.suffix.lower() != ".json":
                return False
            file.seek(0)
            beginning = file.read(_BEGINNING)
    except (OSError, ValueError, *archives.UNREADABLE):
        return False
    return any(mark in beginning for mark in _MARKS)


def _contents(path: Path) -> Iterator[bytes]:
    """Yields the content of a file, or the parts of an export in an archive, sorted by name."""
    with open_file(path) as file:
        if not zipfile.is_zipfile(file):
            file.seek(0)
            yield file.read()
            return
        with zipfile.ZipFile(file) as archive:
            parts = sorted(
                (part for part in archive.infolist() if _MEMBER.fullmatch(part.filename)), key=lambda part: part.filename
            )
            size = sum(part.file_size for part in parts)
            if not parts or size > min(_MAX_BYTES, _MAX_COMPRESSION * sum(part.compress_size for part in parts)):
                raise ValueError("there is no conversations.json of a usable size in it")
            for part in parts:
                yield archive.read(part)


def _not_an_export(path: Path, reason: str) -> DraftlightError:
    return DraftlightError(
        f"{path} cannot be imported ({reason}). Draftlight reads its own exports, conversations.json or the archive of a ChatGPT "
        "export, and LM Studio's conversation files."
    )
