"""The target's cache of past turns, so that a later turn reads only what is new.

One invariant carries everything: a kept cache holds exactly the tokens noted beside it. It is checked whenever a cache is
kept or handed out; a cache that breaks it is never used.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from engine.target.shared_prefix import common_prefix

_log = logging.getLogger(__name__)

KEPT = 2
"""Conversations whose caches are kept: two, so that going back to the one before costs nothing. Caches are large."""


class CacheTools(Protocol):
    """What must be known about a model's cache; `engine.serving.backend` has it for MLX."""

    def cache_length(self, cache: Any) -> int | None:
        """Tokens the cache has read; None for one that keeps no count."""

    def trim(self, cache: Any, length: int) -> int:
        """Forget all but the first `length` tokens, or fewer; how many are left. With 0 the cache is useless."""


@dataclass(frozen=True, slots=True)
class _Kept:
    cache: Any
    tokens: tuple[int, ...]


class ConversationCaches:
    """Caches by conversation, all of one target. Whoever changes the target calls `clear`."""

    def __init__(self, tools: CacheTools) -> None:
        self._tools = tools
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def take(self, conversation: str, prompt: Sequence[int]) -> Any | None:
        """The conversation's cache, cut back to what it shares with the prompt, or where its layers forget, to a mark before
        that (`engine.target.prompt_cache.rewind`); None where nothing can be reused.

        It holds at most all tokens but the last, which the first forward pass needs. The caller owns it from then on, and
        hands it to `keep` again once it is done: an answer that fails in between leaves nothing behind.
        """
        kept = self._kept.pop(conversation, None)
        if kept is None:
            return None
        shared = min(common_prefix(kept.tokens, prompt), len(prompt) - 1)
        if shared < 1:
            return None
        try:
            held = self._tools.trim(kept.cache, shared) if shared < len(kept.tokens) else shared
            if held < 1:
                return None
            self._check(kept.cache, held)
        except AssertionError:  # never used again, so the answer is right; it only reads more
            _log.exception("The cache of a conversation was dropped")
            return None
        return kept.cache

    def keep(self, conversation: str, cache: Any, tokens: Sequence[int]) -> None:
        """Note that the cache holds exactly these tokens. Raises AssertionError if it does not hold as many."""
        self._check(cache, len(tokens))
        self._kept[conversation] = _Kept(cache, tuple(tokens))
        self._kept.move_to_end(conversation)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def clear(self) -> None:
        """Forget every cache."""
        self._kept.clear()

    def _check(self, cache: Any, expected: int) -> None:
        length = self._tools.cache_length(cache)
        if length != expected:
            raise AssertionError(f"the cache holds {length} tokens where {expected} were committed")
