"""Finds earlier occurrences of the latest tokens in the text, and estimates how often copying what followed is right."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence

from engine.types import MAX_GAMMA, DrafterStatistics

MATCH_STEPS = (1, 2, 3, 4, 6, 9, 14, 22)
PRIOR_ODDS = (0.20, 0.40, 0.55, 0.65, 0.75, 0.85, 0.92, 0.96)
"""Prior probability that a copied token is right, after a match of at least as many tokens as in `MATCH_STEPS`."""
PRIOR_WEIGHT = 8.0
"""Pseudo-count of `PRIOR_ODDS`, in verdicts."""

KEY_LENGTHS = (2, 4, 8)
"""Numbers of latest tokens by which positions are indexed, tried from the longest on; the shortest allowed match comes last. In a
long conversation a comma occurs at a thousand positions, eight tokens in a row at a few."""


class Lookup:
    """Index of a growing text.

    Args:
        longest: maximum length of a match.
        shortest: minimum length of a match.
    """

    def __init__(self, longest: int = MAX_GAMMA, shortest: int = 1) -> None:
        if not 1 <= shortest <= longest:
            raise ValueError(f"shortest must be from 1 to longest, not {shortest} with longest {longest}")
        self._longest = longest
        self._keys = (*(length for length in reversed(KEY_LENGTHS) if shortest < length <= longest), shortest)
        self.restart(())

    def restart(self, tokens: Sequence[int]) -> None:
        """Starts another text."""
        self._tokens: list[int] = list(tokens)
        self._places: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        """Maps the tokens before a position, as many as a key has, to the ascending indexes of all known tokens that follow
        them."""
        self.entries = 0
        self._found: tuple[int, int, int] | None = None  # result of `match` for the current text

    def extend(self, tokens: Sequence[int]) -> None:
        """Appends tokens to the text."""
        self._found = None
        self._tokens.extend(tokens)

    def match(self, drafted: Sequence[int] = ()) -> tuple[int, int, int]:
        """Finds the longest match between the end of the text, followed by `drafted`, and an earlier position of the text.
        Returns its length, the index of the token after the earlier position, and the number of positions that were compared;
        zeros if there is none."""
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
        """Returns `length` ids of the text from `start` on, as if the text repeated itself from there."""
        period = len(self._tokens) - start
        return [self._tokens[start + index % period] for index in range(length)]

    def _index(self) -> None:
        """Indexes the positions that have a successor; the end of the text has none yet."""
        for key in self._keys:
            for place in range(max(self.entries, key), len(self._tokens)):
                self._places[tuple(self._tokens[place - key : place])].append(place)
        self.entries = len(self._tokens)

    def _longest_match(self) -> tuple[int, int, int]:
        """Returns the length of the longest match, the position after it, and the number of positions found."""
        text, end = self._tokens, len(self._tokens)
        possible = self._longest
        for key in self._keys:
            places = self._places.get(tuple(text[-key:])) if end >= key else None
            if places is not None:
                return (*self._longest_of(places, key, possible), len(places))
            possible = key - 1
        return 0, 0, 0

    def _longest_of(self, places: Sequence[int], shortest: int, longest: int) -> tuple[int, int]:
        """Returns the length of the longest match that ends before one of the positions, and the latest such position."""
        text, end = self._tokens, len(self._tokens)
        best, start = 0, 0
        for place in reversed(places):
            if best >= min(place, longest):
                break  # an earlier position has even fewer tokens before it
            if best and text[place - best - 1] != text[end - best - 1]:
                continue  # no longer than the best so far: most positions end here, after one comparison
            length = shortest
            while length < min(place, longest) and text[place - length - 1] == text[end - length - 1]:
                length += 1
            if length > best:
                best, start = length, place
        return best, start


class Odds:
    """Estimates how often a copied token is right, by length of the match before it."""

    def __init__(self) -> None:
        self._right = [odds * PRIOR_WEIGHT for odds in PRIOR_ODDS]
        self._judged = [PRIOR_WEIGHT] * len(PRIOR_ODDS)

    def of(self, match: int) -> float:
        """Returns the probability that a token copied after a match of this many tokens is right; `match` is at least 1."""
        step = bisect_right(MATCH_STEPS, match) - 1
        return self._right[step] / self._judged[step]

    def learn(self, match: int, was_right: bool) -> None:
        """Adds one verdict of the target on a token copied after a match of `match` >= 1 tokens."""
        step = bisect_right(MATCH_STEPS, match) - 1
        self._right[step] += was_right
        self._judged[step] += 1


class CopySource:
    """Finds what followed the latest tokens earlier in a growing text, and learns how often such copies are right.

    Args:
        tokens: the text so far.
    """

    def __init__(self, tokens: Sequence[int]) -> None:
        self._lookup = Lookup()
        self._lookup.restart(tokens)
        self._odds = Odds()

    def first(self, drafted: Sequence[int] = ()) -> tuple[int | None, float, DrafterStatistics]:
        """Returns the token that followed an earlier occurrence of the latest tokens, `drafted` included, the probability that it
        is right, and the statistics of the search; None and 0 if there is no match."""
        match, start, places = self._lookup.match(drafted)
        statistics = DrafterStatistics(places, int(not places), match, self._lookup.entries)
        return (self._lookup.copied(start, 1)[0], self._odds.of(match), statistics) if match else (None, 0.0, statistics)

    def find(self, limit: int) -> tuple[list[int], list[float]]:
        """Returns at most `limit` ids that may follow the text, and for each the probability that it is right if those before it
        are; both empty if the latest tokens are new."""
        match, start, _ = self._lookup.match()
        if not match:
            return [], []
        return self._lookup.copied(start, limit), [self._odds.of(match + place) for place in range(limit)]

    def extend(self, tokens: Sequence[int]) -> None:
        """Appends the tokens of a round, and compares them one by one with the copies that would have been made."""
        for token in tokens:
            match, start, _ = self._lookup.match()
            if match:
                self._odds.learn(match, self._lookup.copied(start, 1)[0] == token)
            self._lookup.extend((token,))
