"""Ranges of numbers that a user sets: their bounds, their wording, and parsing of a typed value."""

from __future__ import annotations

import math
import re
import reprlib
from dataclasses import dataclass

_WHOLE = re.compile(r"-?(\d+|\d{1,3}(,\d{3})+)", re.ASCII)
_DECIMAL = re.compile(r"-?(\d+([.,]\d*)?|[.,]\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_LONGEST = 400
"""Longest text that is parsed, in characters: parsing an integer takes quadratic time in its digits."""


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from `lowest` to `highest`.

    Attributes:
        whole: only whole numbers.
        keywords: values other than numbers, such as "auto".
    """

    lowest: float
    highest: float
    whole: bool = False
    keywords: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """The bounds and keywords alone: "0 to 5", "1 to 64, or auto", "1 to 64, auto, or chain"."""
        *others, last = (f"{_plain(self.lowest)} to {_plain(self.highest)}", *self.keywords)
        return ", ".join([*others, f"or {last}"]) if others else last

    @property
    def words(self) -> str:
        """The range as messages name it: "a number from 0 to 5", "a whole number from 1 to 64, or auto"."""
        return f"a {'whole ' if self.whole else ''}number from {self.short}"

    def holds(self, number: float) -> bool:
        """Returns whether a number lies in the range."""
        return self.lowest <= number <= self.highest and not (self.whole and number != int(number))

    def nearest(self, number: float) -> float:
        """Returns the number of the range that is nearest to another."""
        return min(self.highest, max(self.lowest, number))

    def read(self, text: str) -> int | float:
        """Parses a number as people write it: surrounding blanks, a decimal comma and commas between thousands are accepted.

        Raises:
            ValueError: it is not such a number, or lies outside the range.
        """
        written = text.strip()
        if len(written) <= _LONGEST:
            if self.whole and _WHOLE.fullmatch(written):
                number: int | float = int(written.replace(",", ""))
            elif not self.whole and _DECIMAL.fullmatch(written):
                number = float(written.replace(",", "."))
            else:
                number = math.nan
            if self.holds(number):
                return number
        raise ValueError(f"must be {self.words}, not {reprlib.repr(text)}")


RANGES = {
    "temperature": Range(0, 5),
    "top_p": Range(0, 1),
    "top_k": Range(0, 1_000_000, whole=True),
    "min_p": Range(0, 1),
    "repetition_penalty": Range(0.1, 3),
    "max_tokens": Range(1, 1_000_000, whole=True),
    "seed": Range(0, 2**53 - 1, whole=True),  # JSON readers which know only doubles keep it exact
    "gamma": Range(1, 64, whole=True, keywords=("auto",)),
    "budget": Range(1, 64, whole=True, keywords=("auto", "chain")),
    "width": Range(1, 8, whole=True),
    "samples": Range(1, 10_000, whole=True),
    "text_scale": Range(0.8, 1.8),
}
"""The limits of every setting that is a number, in the window and on the command line, by its name."""


def _plain(bound: float) -> str:
    return f"{int(bound):,}" if bound == int(bound) else f"{bound:g}"
