"""Finding what followed when the latest tokens stood in the text before, and how often copying that is right."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence

from engine.types import MAX_GAMMA

MATCH_STEPS = (1, 2, 3, 4, 6, 9, 14, 22)
PRIOR_ODDS = (0.20, 0.40, 0.55, 0.65, 0.75, 0.85, 0.92, 0.96)
"""How often the copied token is right after a match of at least so many tokens, until the answer has shown it."""
PRIOR_WEIGHT = 8.0
"""Verdicts that `PRIOR_ODDS` counts for."""

KEY_LENGTHS = (2, 4, 8)
"""Places are found by so many latest tokens, the most first, and by the shortest match last. In a long conversation a comma
stands in a thousand places, eight tokens in a row in a few."""


class Lookup:
    """An index of a growing text.

    Args:
        longest: a match is followed back over so many tokens at most.
        shortest: a shorter match is none.
    """

    def __init__(self, longest: int = MAX_GAMMA, shortest: int = 1) -> None:
        if not 1 <= shortest <= longest:
            raise ValueError(f"shortest must be from 1 to longest, not {shortest} with longest {longest}")
        self._longest = longest
        self._keys = (*(length for length in reversed(KEY_LENGTHS) if shortest < length <= longest), shortest)
        self.restart(())

    def restart(self, tokens: Sequence[int]) -> None:
        """Another text."""
        self._tokens: list[int] = list(tokens)
        self._places: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        """By the tokens before it, as many as a key has, every index of a token that is there already, ascending."""
        self.entries = 0
        self._found: tuple[int, int, int] | None = None  # what `match` says of the text as it is

    def extend(self, tokens: Sequence[int]) -> None:
        """The text goes on."""
        self._found = None
        self._tokens.extend(tokens)

    def match(self, drafted: Sequence[int] = ()) -> tuple[int, int, int]:
        """Of the text followed by `drafted`: length of the longest match of its end with an earlier place of the text, the index
        of the token after that place, and how many places were looked at. Zeros where there is none."""
        self._index()
        if not drafted:
            if self._found is None:
                self._found = self._longest_match()
            return self._found
        self._tokens.extend(drafted)
        try:
            return self._longest_match()
        finally:
            del self._tokens[len(self._tokens) - len(drafted) :]

    def copied(self, start: int, length: int) -> list[int]:
        """`length` ids of the text from `start` on, as if it went on by repeating itself from there."""
        period = len(self._tokens) - start
        return [self._tokens[start + index % period] for index in range(length)]

    def _index(self) -> None:
        """Adds the places that have a successor; the end of the text has none yet."""
        for key in self._keys:
            for place in range(max(self.entries, key), len(self._tokens)):
                self._places[tuple(self._tokens[place - key : place])].append(place)
        self.entries = len(self._tokens)

    def _longest_match(self) -> tuple[int, int, int]:
        """Length of the longest match, the place after it, and how many places were found."""
        text, end = self._tokens, len(self._tokens)
        possible = self._longest
        for key in self._keys:
            places = self._places.get(tuple(text[-key:])) if end >= key else None
            if places is not None:
                return (*self._longest_of(places, key, possible), len(places))
            possible = key - 1
        return 0, 0, 0

    def _longest_of(self, places: Sequence[int], shortest: int, longest: int) -> tuple[int, int]:
        """Length of the longest match that ends before one of the places, and the latest such place."""
        text, end = self._tokens, len(self._tokens)
        best, start = 0, 0
        for place in reversed(places):
            if best >= min(place, longest):
                break  # an earlier place has even less before it
            if best and text[place - best - 1] != text[end - best - 1]:
                continue  # no longer than the best so far: most places end here, after one comparison
            length = shortest
            while length < min(place, longest) and text[place - length - 1] == text[end - length - 1]:
                length += 1
            if length > best:
                best, start = length, place
        return best, start


class Odds:
    """How often a copied token was right, by how many tokens matched before it."""

    def __init__(self) -> None:
        self._right = [odds * PRIOR_WEIGHT for odds in PRIOR_ODDS]
        self._judged = [PRIOR_WEIGHT] * len(PRIOR_ODDS)

    def of(self, match: int) -> float:
        """The chance, from 0 to 1, that a token copied after a match of this many tokens is right; `match` is at least 1."""
        step = bisect_right(MATCH_STEPS, match) - 1
        return self._right[step] / self._judged[step]

    def learn(self, match: int, was_right: bool) -> None:
        """Counts one verdict of the target on a token copied after a match of `match` >= 1 tokens."""
        step = bisect_right(MATCH_STEPS, match) - 1
        self._right[step] += was_right
        self._judged[step] += 1
