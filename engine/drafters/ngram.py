"""Drafting by prompt lookup: when the latest tokens stood in the conversation before, propose what followed then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from operator import mul

import mlx.core as mx

from engine.drafters.base import Drafter, Proceed, always
from engine.drafters.draft import Draft, DraftContext, DrafterCapabilities, DraftPlan, Estimate
from engine.drafters.loaded import LoadedDrafter
from engine.drafters.lookup import Lookup, Odds
from engine.drafters.sampler import Sampler
from engine.models.loaded import LoadedModel
from engine.types import MAX_GAMMA, DrafterStatistics

USUAL_WORTH = 0.2
"""Least chance that a proposal is reached and right, where gamma is fixed: of less likely ones four in five would be wrong."""


class NGram(Drafter):
    """Prompt lookup (Saxena 2023) over the whole conversation, with drafts as long as the match is worth.

    Every earlier place counts, back to the first turn. Of all places where the latest tokens stood before, the one with the
    longest match wins, the latest among equals, and what followed there is copied; a copy that reaches the end of the text goes
    on with itself, so a loop is drafted as a loop.

    How often a copied token is right depends above all on how many tokens match before it, and a proposal that was accepted makes
    the match one longer. So under an automatic gamma the draft is as long as pays with these chances on this machine, and else it
    ends before the chance that all of it is right falls below `worth`; where already the first token does not pay, the drafter is
    silent. The odds are learned within the answer, by length of the match, from every
    round: what would have been copied is compared with what the target wrote even when nothing was proposed, so a silent drafter
    notices for free when copying pays again.

    Proposals are deterministic, so q is one-hot and every rule accepts x with probability p(x).

    Args:
        longest: a match is followed back over so many tokens at most.
        shortest: a shorter match is none.
        worth: the least chance that a proposal is reached and right, whatever gamma says; 0 always drafts as much as is allowed.
            None is what an automatic gamma finds worth it, and `USUAL_WORTH` where gamma is fixed.
    """

    name = "ngram"

    def __init__(self, longest: int = MAX_GAMMA, shortest: int = 1, worth: float | None = None) -> None:
        if worth is not None and not 0 <= worth <= 1:
            raise ValueError(f"worth must be from 0 to 1, not {worth}")
        self._lookup = Lookup(longest, shortest)
        self._worth = worth
        self.capabilities = DrafterCapabilities(samples=False, copies=worth is None, sets_own_length=True)
        self._statistics: DrafterStatistics | None = None
        self._clear(())

    def _clear(self, tokens: Sequence[int]) -> None:
        self._lookup.restart(tokens)
        self._odds = Odds()
        self._match, self._copy = 0, list[int]()

    def start(self, context: DraftContext, proceed: Proceed = always) -> bool:
        """As in `Drafter`. The tokens hold the whole conversation, so nothing of an earlier one is kept."""
        self._clear(context.tokens)
        return True

    def estimates(self, limit: int) -> Mapping[str, Estimate]:
        """As in `Drafter`."""
        chances = self._chances(limit)
        return {self.name: Estimate(() if self._worth is not None else tuple(chances), statistics=self._statistics)}

    def propose(self, plan: DraftPlan, sampler: Sampler) -> Draft:
        """As in `Drafter`; nothing when the latest tokens are new, or too short a match to be worth it."""
        chances = self._chances(plan.length)
        length = len(chances) if plan.is_adaptive and self._worth is None else self._worthwhile(chances)
        return sampler.copied(self._copy[:length], chances, self._statistics)

    def _chances(self, limit: int) -> list[float]:
        """Returns the probability of each of at most `limit` copies: the odds of a match of one more token with each."""
        self._match, start, places = self._lookup.match()
        self._copy = self._lookup.copied(start, MAX_GAMMA) if self._match else []
        self._statistics = DrafterStatistics(hits=places, misses=int(not places), match=self._match, entries=self._lookup.entries)
        return [self._odds.of(self._match + place) for place in range(min(limit, len(self._copy)))]

    def _worthwhile(self, chances: Sequence[float]) -> int:
        """How many come before the chance that all of them are right falls below what they must be worth."""
        least = USUAL_WORTH if self._worth is None else self._worth
        return next((place for place, reached in enumerate(accumulate(chances, mul)) if reached < least), len(chances))

    def commit(self, path: Sequence[int], tokens: Sequence[int], hidden_states: mx.array | None) -> None:
        """As in `Drafter`."""
        for right, (copied, token) in enumerate(zip(self._copy, tokens, strict=False)):
            self._odds.learn(self._match + right, copied == token)
            if copied != token:
                break
        self._copy = []
        self._lookup.extend(tokens)


def build(name: str, target: LoadedModel, load: Callable[[], LoadedModel]) -> LoadedDrafter:
    """As in `engine.drafters.loaded.Build`."""
    return LoadedDrafter(name, NGram(), make=NGram)
