"""Searching titles and messages: by the index of words where SQLite has FTS5, else by looking through all texts.

What counts as found is the same in both: every word of the query occurs, the beginning of a word is enough, upper and lower case
are alike. The index also takes accents for alike, and the other way finds words in the middle of others, which scripts without
spaces between words need.
"""

from __future__ import annotations

import functools
import re
import sqlite3
import unicodedata
from collections.abc import Iterator

_EXCERPT = 160
_BEFORE = 40
_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""Thai, Lao, Burmese, Khmer, Chinese and Japanese: here a word of the index may be a whole sentence."""

_BY_INDEX = """
SELECT m.conversation AS conversation, m.id AS message, m.text AS text FROM words
JOIN messages m ON m.id = words.rowid JOIN conversations c ON c.id = m.conversation
WHERE words MATCH ? AND m.deleted IS NULL AND c.deleted IS NULL ORDER BY words.rowid DESC
"""
_TITLES_BY_INDEX = """
SELECT c.id AS conversation, NULL AS message, c.title AS text FROM titles
JOIN conversations c ON c.id = titles.rowid WHERE titles MATCH ? AND c.deleted IS NULL ORDER BY c.updated DESC
"""
_BY_LOOKING = """
SELECT m.conversation AS conversation, m.id AS message, m.text AS text FROM messages m
JOIN conversations c ON c.id = m.conversation
WHERE {conditions} AND m.deleted IS NULL AND c.deleted IS NULL ORDER BY m.id DESC
"""
_TITLES_BY_LOOKING = """
SELECT c.id AS conversation, NULL AS message, c.title AS text FROM conversations c
WHERE {conditions} AND c.deleted IS NULL ORDER BY c.updated DESC
"""


def words_of(query: str) -> list[str]:
    """The words that are searched for."""
    return re.findall(r"\w+", query)


def found(rows: sqlite3.Connection, words: list[str], indexed: bool) -> Iterator[sqlite3.Row]:
    """What matches: titles first, then messages from the newest on; each with `conversation`, `message` and `text`."""
    if not words:
        return
    if indexed and not any(_WITHOUT_SPACES.search(word) for word in words):
        match = " ".join(f'"{word}"*' for word in words)
        yield from rows.execute(_TITLES_BY_INDEX, [match])
        yield from rows.execute(_BY_INDEX, [match])
        return
    patterns = [
        f"%{word}%" for word in words
    ]  # \w has no % in it; its _ stands for any character, which finds too much, not too little
    for query, column in ((_TITLES_BY_LOOKING, "c.title"), (_BY_LOOKING, "m.text")):
        yield from rows.execute(query.format(conditions=" AND ".join([f"{column} LIKE ?"] * len(words))), patterns)


def excerpt(text: str, words: list[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """A line around the first match, and where the words stand in it."""
    folded = _folded(text)
    pattern = re.compile("|".join(re.escape(_folded(word)) for word in sorted(words, key=len, reverse=True)))
    first = next(
        (match for match in pattern.finditer(folded) if not (match.start() and folded[match.start() - 1].isalnum())),
        pattern.search(folded),
    )
    start = max(0, first.start() - _BEFORE) if first else 0
    if start:
        start = text.find(" ", start, first.start() if first else None) + 1 or start
    shown = " ".join(text[start : start + 2 * _EXCERPT].split())
    line = ("… " if start else "") + shown[:_EXCERPT] + ("…" if len(shown) > _EXCERPT or len(text) > start + 2 * _EXCERPT else "")
    return line, tuple(match.span() for match in pattern.finditer(_folded(line)))


def _folded(text: str) -> str:
    """The text in lower case and without accents, character by character, so that places stay the same."""
    return text.lower() if text.isascii() else "".join(map(_plain_letter, text))


@functools.cache
def _plain_letter(letter: str) -> str:
    return unicodedata.normalize("NFD", letter)[0].lower()[0]
