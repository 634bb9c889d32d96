"""Ranges of the numbers that a user sets: which values can be given, how they are worded, and how a typed one is read."""

from __future__ import annotations

import math
import re
import reprlib
from dataclasses import dataclass

_WHOLE = re.compile(r"-?(\d+|\d{1,3}(,\d{3})+)", re.ASCII)
_DECIMAL = re.compile(r"-?(\d+([.,]\d*)?|[.,]\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_LONGEST = 400
"""Characters of a number that is read: Python takes quadratic time for the digits of an integer."""


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from `lowest` to `highest`.

    Attributes:
        whole: only whole numbers.
        word: what can be given in place of a number, such as "auto"; empty for nothing.
    """

    lowest: float
    highest: float
    whole: bool = False
    word: str = ""

    @property
    def short(self) -> str:
        """The bounds alone: "0 to 5", "1 to 64, or auto"."""
        return f"{_plain(self.lowest)} to {_plain(self.highest)}{f', or {self.word}' if self.word else ''}"

    @property
    def words(self) -> str:
        """The range as messages name it: "a number from 0 to 5", "a whole number from 1 to 64, or auto"."""
        return f"a {'whole ' if self.whole else ''}number from {self.short}"

    def holds(self, number: float) -> bool:
        """Returns whether a number lies in the range."""
        return self.lowest <= number <= self.highest and not (self.whole and number != int(number))

    def read(self, text: str) -> int | float:
        """Reads a number as people write it: blanks around it, a decimal comma and thousands apart by commas are understood.

        Raises:
            ValueError: it is no such number, or lies outside the range.
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


def _plain(bound: float) -> str:
    return f"{int(bound):,}" if bound == int(bound) else f"{bound:g}"
