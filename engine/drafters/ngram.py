"""Drafting by prompt lookup: when the latest tokens stood in the conversation before, propose what followed then."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from engine.blas import prefer_fast_blas

prefer_fast_blas()

import mlx.core as mx  # noqa: E402

from engine.distribution import OneHot  # noqa: E402
from engine.drafters.base import DraftPen, Proceed, Proposals, always  # noqa: E402
from engine.types import MAX_GAMMA, DrafterStatistics  # noqa: E402

MATCH_STEPS = (1, 2, 3, 4, 6, 9, 14, 22)
PRIOR_ODDS = (0.20, 0.40, 0.55, 0.65, 0.75, 0.85, 0.92, 0.96)
"""How often the copied token is right after a match of at least so many tokens, until the answer has shown it."""
PRIOR_WEIGHT = 8.0
"""Verdicts that `PRIOR_ODDS` counts for."""

KEY_LENGTHS = (2, 4, 8)
"""Places are found by so many latest tokens, the most first, and by the shortest match last. In a long conversation a comma
stands in a thousand places, eight tokens in a row in a few."""


class NGram:
    """Prompt lookup (Saxena 2023) over the whole conversation, with drafts as long as the match is worth.

    Every earlier place counts, back to the first turn. Of all places where the latest tokens stood before, the one with the
    longest match wins, the latest among equals, and what followed there is copied; a copy that reaches the end of the text goes
    on with itself, so a loop is drafted as a loop.

    How often a copied token is right depends above all on how many tokens match before it, and a proposal that was accepted makes
    the match one longer. So the draft ends before the chance that all of it is right falls below `worth`; where already the first
    token is not worth it, the drafter is silent. The odds are learned within the answer, by length of the match, from every
    round: what would have been copied is compared with what the target wrote even when nothing was proposed, so a silent drafter
    notices for free when copying pays again.

    Proposals are deterministic, so q is one-hot and every rule accepts x with probability p(x).

    Args:
        longest: a match is followed back over so many tokens at most.
        shortest: a shorter match is none.
        worth: the least chance that a proposal is reached and right; about what one more row costs in the target's pass,
            relative to a pass of one row, times the speed-up. 0 always drafts as much as is allowed.
    """

    has_distribution = False
    sets_own_length = True
    name = "ngram"

    def __init__(self, longest: int = MAX_GAMMA, shortest: int = 1, worth: float = 0.2) -> None:
        if not 1 <= shortest <= longest:
            raise ValueError(f"shortest must be from 1 to longest, not {shortest} with longest {longest}")
        if not 0 <= worth <= 1:
            raise ValueError(f"worth must be from 0 to 1, not {worth}")
        self._longest = longest
        self._keys = (*(length for length in reversed(KEY_LENGTHS) if shortest < length <= longest), shortest)
        self._worth = worth
        self.statistics: DrafterStatistics | None = None
        self._clear()

    def _clear(self) -> None:
        self._tokens: list[int] = []
        self._places: defaultdict[tuple[int, ...], list[int]] = defaultdict(list)
        """By the tokens before it, as many as a key has, every index of a token that is there already, ascending."""
        self._indexed = 0
        self._odds = _Odds()
        self._match, self._copy = 0, list[int]()

    def begin(self, tokens: Sequence[int], proceed: Proceed = always) -> bool:
        """As in `Drafter`. The tokens hold the whole conversation, so nothing of an earlier one is kept."""
        self._clear()
        self._tokens = list(tokens)
        return True

    def propose(self, limit: int, pen: DraftPen) -> Proposals | None:
        """As in `Drafter`; None when the latest tokens are new, or too short a match to be worth it."""
        draft = self.draft(limit)
        if not draft:
            return None
        proposed = mx.array(draft, dtype=mx.int32)
        return Proposals(proposed, OneHot(proposed, pen.vocab_size))

    def draft(self, limit: int) -> list[int]:
        """At most `limit` ids to stand after the text so far."""
        self._index()
        self._match, start, places = self._longest_match()
        self._copy = self._copied(start, MAX_GAMMA) if self._match else []
        self.statistics = DrafterStatistics(hits=places, misses=int(not places), match=self._match, entries=self._indexed)
        chance = 1.0
        for length in range(min(limit, len(self._copy))):
            chance *= self._odds.of(self._match + length)
            if chance < self._worth:
                return self._copy[:length]
        return self._copy[:limit]

    def observe(self, tokens: Sequence[int], features: Any = None) -> None:
        """As in `Drafter`."""
        for right, (copied, token) in enumerate(zip(self._copy, tokens, strict=False)):
            self._odds.learn(self._match + right, copied == token)
            if copied != token:
                break
        self._copy = []
        self._tokens.extend(tokens)

    def prefetch(self) -> None:
        """Nothing to start early."""

    def finish(self) -> None:
        """Nothing is kept on the device."""

    def _index(self) -> None:
        """Adds the places that have a successor; the end of the text has none yet."""
        for key in self._keys:
            for place in range(max(self._indexed, key), len(self._tokens)):
                self._places[tuple(self._tokens[place - key : place])].append(place)
        self._indexed = len(self._tokens)

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

    def _copied(self, start: int, length: int) -> list[int]:
        """`length` ids of the text from `start` on, as if it went on by repeating itself from there."""
        period = len(self._tokens) - start
        return [self._tokens[start + index % period] for index in range(length)]


class _Odds:
    """How often a copied token was right, by how many tokens matched before it."""

    def __init__(self) -> None:
        self._right = [odds * PRIOR_WEIGHT for odds in PRIOR_ODDS]
        self._judged = [PRIOR_WEIGHT] * len(PRIOR_ODDS)

    def of(self, match: int) -> float:
        step = bisect_right(MATCH_STEPS, match) - 1
        return self._right[step] / self._judged[step]

    def learn(self, match: int, was_right: bool) -> None:
        step = bisect_right(MATCH_STEPS, match) - 1
        self._right[step] += was_right
        self._judged[step] += 1
