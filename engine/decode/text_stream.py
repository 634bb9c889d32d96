"""Streams text from token bytes: joins characters across tokens, finds stop texts, holds back their possible beginnings."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class ByteTokenizer(Protocol):
    """A tokenizer that knows the exact bytes of each token."""

    def token_bytes(self, token: int, /) -> bytes:
        """Returns the bytes of a token."""


@runtime_checkable
class SpacedTokenizer(ByteTokenizer, Protocol):
    """A tokenizer that also knows how its decoder begins a text, as `engine.models.tokenizer` does.

    Attributes:
        leading_spaces: number of spaces that the decoder removes at the beginning of a text.
    """

    leading_spaces: int


class BareTokenizer(Protocol):
    """Any other tokenizer."""

    def decode(self, ids: list[int], /) -> str:
        """Returns the text of tokens."""


AnyTokenizer = ByteTokenizer | BareTokenizer


class CharacterStream:
    """Decodes UTF-8 that arrives in pieces; a piece that ends inside a character adds nothing until it is completed."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, piece: bytes) -> str:
        """Returns the characters that the piece completes; invalid bytes become U+FFFD."""
        return self._decoder.decode(piece)

    def finish(self) -> str:
        """Returns the replacement of an unfinished character at the end: U+FFFD, or nothing."""
        return self._decoder.decode(b"", final=True)


class StopScanner:
    """Finds stop texts in a growing text and releases the text before them.

    Args:
        stops: non-empty texts, any of which ends the answer.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""

    def push(self, text: str) -> tuple[str, bool]:
        """Adds the next piece; returns the text that may be shown now, and whether a stop text was completed.

        The text is cut before the earliest stop text; nothing may be pushed after that.
        """
        if not self._stops:
            return text, False
        self._held += text
        found = [index for index in (self._held.find(stop) for stop in self._stops) if index >= 0]
        if found:
            released = self._held[: min(found)]
            self._held = ""
            return released, True
        keep = max(_overlap(self._held, stop) for stop in self._stops)
        released = self._held[: len(self._held) - keep]
        self._held = self._held[len(self._held) - keep :]
        return released, False

    @property
    def holds_back(self) -> bool:
        """Whether text is held back because it may begin a stop text."""
        return bool(self._held)

    def finish(self) -> str:
        """Returns the text that was held back and does not belong to a stop text."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Returns the length of the longest suffix of `text` that begins `stop` without completing it."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0


class AnswerText:
    """Text of one answer as its tokens arrive.

    Args:
        tokenizer: has `token_bytes(id)`. One that only has `decode(ids)` also works, as far as it decodes single tokens
            correctly. None leaves all texts empty.
        stops: stop texts.
        silent: ids that add nothing to the text (end of sequence).
        continues: the answer continues a text, so a space at its beginning belongs to it. Otherwise leading spaces are removed as
            in the model's own decoder (`leading_spaces` of the tokenizer).
    """

    def __init__(
        self, tokenizer: AnyTokenizer | None, stops: Sequence[str], silent: frozenset[int], continues: bool = False
    ) -> None:
        self._tokenizer = tokenizer
        self._silent = silent
        self._characters = CharacterStream()
        self._scanner = StopScanner(stops)
        self._pieces: list[str] = []
        self._bytes: dict[int, bytes] = {}
        self._spaces = 0  # to be removed from the next token
        if isinstance(tokenizer, SpacedTokenizer) and not continues:
            self._spaces = tokenizer.leading_spaces

    def begin(self, tokens: Sequence[int]) -> str:
        """Adds the given tokens that the answer begins with, and returns their text. Stop texts are only found after them."""
        return "".join(map(self._added, tokens))

    def push(self, token: int) -> tuple[str, bool]:
        """Adds the next token; returns the same as `StopScanner.push`."""
        piece = self._added(token)
        self._pieces.append(piece)
        return self._scanner.push(piece)

    def _added(self, token: int) -> str:
        """Returns the text that a token adds."""
        piece = "" if token in self._silent else self._characters.push(self.bytes_of(token))
        spaces, self._spaces = self._spaces, 0
        return piece[min(spaces, len(piece) - len(piece.lstrip(" "))) :]

    def finish(self) -> str:
        """Returns the rest of an answer that no stop text ended; it counts as text of the last token."""
        unfinished = self._characters.finish()
        if unfinished and self._pieces:
            self._pieces[-1] += unfinished
        released, stopped = self._scanner.push(unfinished)
        return released if stopped else released + self._scanner.finish()

    @property
    def holds_back(self) -> bool:
        """Whether text is held back because it may begin a stop text."""
        return self._scanner.holds_back

    def latest(self, count: int) -> list[str]:
        """Returns the texts that the latest `count` tokens added."""
        return self._pieces[len(self._pieces) - count :]

    def bytes_of(self, token: int) -> bytes:
        """Returns the exact bytes of a token."""
        known = self._bytes.get(token)
        if known is None:
            known = self._bytes[token] = self._look_up(token)
        return known

    def text_of(self, token: int) -> str:
        """Returns the text of the token alone, with bytes that are not characters replaced."""
        return self.bytes_of(token).decode("utf-8", errors="replace")

    def _look_up(self, token: int) -> bytes:
        if self._tokenizer is None:
            return b""
        if isinstance(self._tokenizer, ByteTokenizer):
            return self._tokenizer.token_bytes(token)
        return self._tokenizer.decode([token]).encode()
