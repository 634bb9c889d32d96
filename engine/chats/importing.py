"""Imports the conversations of a file into a store, with a summary for the user."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.chats.exchange.reading import read_chats
from engine.chats.store import ChatStore
from engine.values.wording import amount


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


def import_chats(store: ChatStore, path: Path) -> ImportResult:
    """Imports all conversations of a file, or none. Raises DraftlightError if the file is unreadable or of an unknown format."""
    read = read_chats(path)
    numbers = store.add(read.conversations)
    imported = tuple(number for number in numbers if number is not None)
    return ImportResult(path, read.writer, imported, numbers.count(None), read.left_out)
