"""Taking conversations of a file into a store, and what is said about that."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.chats.exchange.reading import read_chats
from engine.chats.store import ChatStore
from engine.values.wording import amount


@dataclass(frozen=True, slots=True)
class TakenIn:
    """What came of a file.

    Attributes:
        numbers: of the conversations that are new.
        writer: the program that wrote the file.
        there: how many of its conversations were there already. left_out: how many entries have no text that could be kept.
    """

    path: Path
    writer: str
    numbers: tuple[int, ...]
    there: int
    left_out: int

    @property
    def words(self) -> str:
        """The same in a sentence without its full stop."""
        many = len(self.numbers)
        notes = [
            f"{self.there} {'was' if self.there == 1 else 'were'} there already" if self.there else "",
            f"{amount(self.left_out, 'entry', 'entries')} without text, of tools for example, "
            f"{'was' if self.left_out == 1 else 'were'} left out"
            if self.left_out
            else "",
        ]
        told = "; ".join(filter(None, notes))
        return f"{amount(many, 'chat')} imported from {self.writer}{f' ({told})' if told else ''}"


def take_in(store: ChatStore, path: Path) -> TakenIn:
    """Takes the conversations of a file in, all or none. Raises DraftlightError if it cannot be read or is of no known kind."""
    read = read_chats(path)
    numbers = store.add(read.conversations)
    new = tuple(number for number in numbers if number is not None)
    return TakenIn(path, read.writer, new, numbers.count(None), read.left_out)
