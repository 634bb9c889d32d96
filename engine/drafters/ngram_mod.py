"""Drafts by n-gram hashing: llama.cpp's ngram-mod, for long verbatim repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import mlx.core as mx

from engine.drafters.base import Drafter, Proceed, always
from engine.drafters.draft import Draft, DraftContext, DrafterCapabilities, DraftPlan
from engine.drafters.loaded import LoadedDrafter
from engine.drafters.sampler import Sampler
from engine.models.loaded import LoadedModel
from engine.types import DrafterStatistics

MULTIPLIER = 6364136223846793005
WORD = 2**64 - 1
CHUNK = 32
"""New n-grams are inserted once there are more than this many new tokens."""
LARGEST_FILL = 0.25
LOW_ACCEPTANCE, LOW_STREAK = 0.25, 5


class NGramMod(Drafter):
    """ngram-mod (llama.cpp, `common/ngram-mod.cpp` and `common/speculative.cpp`, pull requests 19164 and 22168).

    A table stores one next token per hash of `n_match` tokens, without keys: n-grams that share a slot overwrite each other,
    which wastes rows of a pass but never changes the text. A draft looks up its tokens one after the other, each by the `n_match`
    tokens before it. It is only used if at least `n_min` are found, so it applies to long repeats alone.

    Differences from llama.cpp: There, all conversations share one pool. Here the table belongs to the drafter and to one
    conversation: it is kept while texts continue each other, and emptied when another text begins, so that no answer depends on
    other conversations. Occupancy counts slots when they are filled (there, when they are overwritten), and low acceptance refers
    to the proposals that remain after `limit` cut the draft.

    Proposals are deterministic, so q is one-hot and every rule accepts x with probability p(x).

    Args:
        n_match: number of tokens that are hashed.
        n_min: minimum length of a draft; a shorter one is dropped.
        n_max: maximum length of a draft.
        size: number of slots of the table.
    """

    capabilities = DrafterCapabilities(samples=False, sets_own_length=True)
    name = "ngram-mod"

    def __init__(self, n_match: int = 24, n_min: int = 48, n_max: int = 64, size: int = 4 * 1024 * 1024) -> None:
        if n_match < 1 or size < 1:
            raise ValueError(f"n_match and size must be at least 1, not {n_match} and {size}")
        if not 1 <= n_min <= n_max:
            raise ValueError(f"n_min must be from 1 to n_max, not {n_min} with n_max {n_max}")
        self._n_match = n_match
        self._n_min = n_min
        self._n_max = n_max
        self._size = size
        self._oldest_weight = pow(MULTIPLIER, n_match, WORD + 1)
        self._statistics: DrafterStatistics | None = None
        self._tokens: list[int] = []
        self._forget()

    def _forget(self) -> None:
        self._table: dict[int, int] = {}  # filled slots only, so the length is the occupancy
        self._inserted = 0  # n-grams that begin before this token have been inserted
        self._drafted = 0
        self._low = 0
        self._resets = 0

    def start(self, context: DraftContext, proceed: Proceed = always) -> bool:
        """As in `Drafter`. Inserts every n-gram of the text; if the table is then too full, it is emptied."""
        tokens = context.tokens
        if self._tokens != list(tokens[: len(self._tokens)]):
            self._forget()
        self._tokens = list(tokens)
        self._inserted = self._drafted = self._low = 0
        if len(self._tokens) >= self._n_match:
            self._insert(len(self._tokens))
            if len(self._table) > LARGEST_FILL * self._size:
                self._reset()
        return True

    def propose(self, plan: DraftPlan, sampler: Sampler) -> Draft:
        """As in `Drafter`; proposes nothing unless `n_min` tokens are found, even if the plan allows fewer."""
        return sampler.copied(self.draft(plan.length), statistics=self._statistics)

    def draft(self, limit: int) -> list[int]:
        """Returns at most `limit` ids that follow the text so far."""
        known = len(self._tokens) - 1  # the newest token is used for the lookup, but not inserted yet
        self._drafted = 0
        if known < self._n_match:
            self._statistics = self._lookups(0, 0)
            return []
        if self._inserted + CHUNK < known:
            self._insert(known)
        draft = self._looked_up()
        self._statistics = self._lookups(len(draft), int(len(draft) < self._n_max))
        if len(draft) < self._n_min:
            return []
        draft = draft[:limit]
        self._drafted = len(draft)
        return draft

    def commit(self, path: Sequence[int], tokens: Sequence[int], hidden_states: mx.array | None) -> None:
        """As in `Drafter`. A streak of bad drafts empties the table; the whole text is inserted again before the next draft."""
        self._tokens.extend(tokens)
        if self._drafted:
            accepted = min(len(tokens) - 1, self._drafted)
            self._low = self._low + 1 if accepted < LOW_ACCEPTANCE * self._drafted else 0
            self._drafted = 0
            if self._low >= LOW_STREAK:
                self._reset()
                self._low = self._inserted = 0

    def _reset(self) -> None:
        self._table = {}
        self._resets += 1

    def _insert(self, length: int) -> None:
        """Inserts the new n-grams among the first `length` tokens that have a successor there."""
        text = self._tokens[self._inserted : length]
        for hashed, following in zip(self._hashes(text), text[self._n_match :], strict=False):
            self._table[hashed % self._size] = following
        self._inserted = length - self._n_match

    def _looked_up(self) -> list[int]:
        """Returns up to `n_max` ids, each found by the `n_match` before it."""
        text = self._tokens[-self._n_match :]
        hashed = next(self._hashes(text))
        for _ in range(self._n_max):
            following = self._table.get(hashed % self._size)
            if following is None:
                break
            text.append(following)
            hashed = self._rolled(hashed, text[-self._n_match - 1], following)
        return text[self._n_match :]

    def _hashes(self, text: Sequence[int]) -> Iterator[int]:
        """Yields the hash of each n-gram of the text: its tokens folded in order, h * MULTIPLIER + token, in 64 bits."""
        hashed = 0
        for token in text[: self._n_match]:
            hashed = (hashed * MULTIPLIER + token) & WORD
        yield hashed
        for index in range(self._n_match, len(text)):
            hashed = self._rolled(hashed, text[index - self._n_match], text[index])
            yield hashed

    def _rolled(self, hashed: int, oldest: int, newest: int) -> int:
        """Returns the rolling hash one token further."""
        return (hashed * MULTIPLIER + newest - oldest * self._oldest_weight) & WORD

    def _lookups(self, hits: int, misses: int) -> DrafterStatistics:
        return DrafterStatistics(
            hits=hits,
            misses=misses,
            match=self._n_match if hits else 0,
            entries=len(self._table),
            capacity=self._size,
            resets=self._resets,
        )


def build(name: str, target: LoadedModel, load: Callable[[], LoadedModel]) -> LoadedDrafter:
    """As in `engine.drafters.loaded.Build`."""
    return LoadedDrafter(name, NGramMod(), make=NGramMod)
