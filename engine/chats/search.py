"""Full-text search in titles and messages.

A title or message matches if it contains every term of the query. Terms are separated by spaces and may be symbols or parts of
words. Case, accents and full or half width are ignored, as are invisible characters: joiners, soft hyphens, and Markdown's marks
of emphasis and code inside a word. There is no index, so all texts are read: an index of words misses parts of words, an index of
letter sequences misses short terms, and not every SQLite supports them.
"""

from __future__ import annotations

import functools
import re
import sqlite3
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

_EXCERPT = 160
_BEFORE = 40
_ACCENTS = "\u0300-\u036f"
_INVISIBLE = "\u00ad\u200b-\u200d\u2060\ufe0f\ufeff"
_UNSEEN = f"[{_ACCENTS}{_INVISIBLE}*`]*"
"""Characters that may stand between two letters of a match."""
_CASED = (
    *((0x41, 0x250), (0x370, 0x590), (0x1E00, 0x2000), (0x2100, 0x2200)),  # Latin, Greek, Cyrillic, Armenian; letter-like symbols
    *((0x10A0, 0x1100), (0x13A0, 0x1400), (0x1C80, 0x1CC0), (0xAB70, 0xABC0)),  # Georgian, Cherokee
    *((0x24B6, 0x24EA), (0x2C00, 0x2D30), (0xA640, 0xA7D0)),  # encircled letters; Glagolitic, Coptic, more Cyrillic and Latin
    *((0xFB00, 0xFB07), (0xFF01, 0xFFEF)),  # ligatures; letters of full and half width
)
"""Blocks of letters that have another case, another width or accents."""

_TITLES = """
SELECT c.id AS conversation, NULL AS message, c.title AS text FROM conversations c
WHERE c.deleted IS NULL ORDER BY c.updated DESC
"""
_MESSAGES = """
SELECT m.conversation AS conversation, m.id AS message, m.text AS text FROM messages m
JOIN conversations c ON c.id = m.conversation
WHERE m.deleted IS NULL AND c.deleted IS NULL ORDER BY m.id DESC
"""

_ASCII_MARKS = str.maketrans("", "", "*`")


class Term(NamedTuple):
    """A term of a query.

    Attributes:
        pattern: finds the term in any text.
        plain: the term in lower case if it is ASCII and has no Markdown marks; else empty.
    """

    pattern: re.Pattern[str]
    plain: str

    def is_in(self, text: str) -> bool:
        """Returns whether a text has the term. Most terms and texts are ASCII, and compared ten times as fast as others."""
        if self.plain and text.isascii():
            return self.plain in text.translate(_ASCII_MARKS).lower()
        return self.pattern.search(text) is not None


Terms = list[Term]


def terms_of(query: str) -> Terms:
    """Returns a term for each word of a query, in order; an empty list if the query has only blanks and invisible characters."""
    terms = re.sub(f"[{_INVISIBLE}]", "", unicodedata.normalize("NFC", query)).split()
    joined = "|".join(sorted((folded for folded in _letters_by_folded() if len(folded) > 1), key=len, reverse=True))
    parts = re.compile(f"{joined}|.", re.IGNORECASE)
    return [
        Term(
            re.compile(_UNSEEN.join(map(_pattern, parts.findall(term)))),
            term.lower() if term.isascii() and term == term.translate(_ASCII_MARKS) else "",
        )
        for term in terms
    ]


def found(rows: sqlite3.Connection, terms: Terms) -> Iterator[sqlite3.Row]:
    """Yields the matches, titles first, then messages, newest first. Each has `conversation`, `message` and `text`."""
    if terms:
        for query in (_TITLES, _MESSAGES):
            yield from (row for row in rows.execute(query) if all(term.is_in(row["text"]) for term in terms))


def excerpt(text: str, terms: Terms) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Returns a line around the first match, and the (start, end) of the terms in it."""
    matches = [match.start() for term in terms if (match := term.pattern.search(text))]
    first = min(matches, default=0)
    start = max(0, first - _BEFORE)
    if start:
        start = text.find(" ", start, first) + 1 or start
    shown = " ".join(text[start : start + 2 * _EXCERPT].split())
    line = ("… " if start else "") + shown[:_EXCERPT] + ("…" if len(shown) > _EXCERPT or len(text) > start + 2 * _EXCERPT else "")
    return line, _without_overlap(sorted(match.span() for term in terms for match in term.pattern.finditer(line)))


def _without_overlap(spans: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for start, end in spans:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(joined)


@functools.cache
def _pattern(part: str) -> str:
    """Returns a pattern for all variants of a letter, or of a sequence of letters that a single letter can replace.

    "e" gives [eéÉ…], "ss" gives (?:[ßẞ]|[sSſ…][sSſ…]).
    """
    folded = _folded(part)
    variants = {*_letters_by_folded().get(folded, ""), *(part if len(part) == 1 else ""), *(folded if len(folded) == 1 else "")}
    each = f"[{re.escape(''.join(sorted(variants)))}]"
    return each if len(folded) == 1 else f"(?:{each}|{_UNSEEN.join(map(_pattern, folded))})"


@functools.cache
def _letters_by_folded() -> dict[str, str]:
    letters: dict[str, str] = {}
    for letter in (chr(code) for block in _CASED for code in range(*block)):
        folded = _folded(letter)
        if folded.strip():
            letters[folded] = letters.get(folded, "") + letter
    return letters


def _folded(letters: str) -> str:
    """Returns letters in lower case, decomposed and without accents; the letters themselves if nothing else is left."""
    decomposed = unicodedata.normalize("NFKD", letters).casefold()
    return re.sub(f"[{_ACCENTS}]", "", decomposed) or letters
