"""Wording of amounts and lists for users. Imports nothing, so that every module can use it."""

from __future__ import annotations

from collections.abc import Sequence


def listed(words: Sequence[str]) -> str:
    """Returns the words as a list in a sentence: "a", "a and b", "a, b and c"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def capitalised(words: str) -> str:
    """Returns the words with an upper-case first letter; the others do not change."""
    return words[:1].upper() + words[1:]


def shortened(words: str) -> str:
    """Returns a text on one line, cut to at most 200 characters."""
    line = " ".join(words.split())
    return line if len(line) <= 200 else f"{line[:199]}…"


def size(amount: float) -> str:
    """Returns an amount of bytes for people: "20 kB", "2.4 MB", "312 MB", "3.4 GB"."""
    if amount >= 999.5e6:
        return f"{amount / 1e9:,.1f} GB"
    if amount > 999e3:
        return f"{amount / 1e6:.1f} MB" if amount < 9.95e6 else f"{amount / 1e6:.0f} MB"
    return f"{-(-amount // 1000):.0f} kB"  # rounded up, so that a small file is not "0 kB"


def seconds(value: float | None) -> str:
    """Returns a measured time: decimals below 10 s, minutes from 100 s on, a dash for None."""
    if value is None:
        return "–"
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s" if value < 100 else f"{int(value // 60)} min {int(value % 60)} s"


def duration(seconds: float) -> str:
    """Returns an estimated duration, rounded: "40 s", "12 min", "2 h 05 min"."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"


def noun(count: float, singular: str, plural: str = "") -> str:
    """Returns the noun that follows a count: "token" after 1, else "tokens" or the given plural."""
    return singular if count == 1 else plural or f"{singular}s"


def amount(count: int, singular: str, plural: str = "") -> str:
    """Returns a count with its noun: "1 token", "1,024 tokens", "2 entries"."""
    return f"{count:,} {noun(count, singular, plural)}"
