"""Drafts by prompt lookup: if the latest tokens occurred earlier in the conversation, proposes what followed them there."""

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
"""With a fixed gamma, minimum probability that a proposal is reached and right: of less likely ones four in five would be
wrong."""


class NGram(Drafter):
    """Prompt lookup (Saxena 2023) over the whole conversation, with drafts as long as they pay.

    Every earlier position counts, back to the first turn. Among the earlier occurrences of the latest tokens, the one with the
    longest match is used, the latest among equals, and what followed there is copied. A copy that reaches the end of the text
    continues with itself, so a loop is drafted as a loop.

    The probability that a copied token is right depends mainly on the length of the match before it, and each accepted proposal
    makes the match one longer. Under an automatic gamma the draft is as long as pays with these probabilities on this machine.
    Otherwise it ends before the probability that all of it is right falls below `worth`; if even the first token does not pay,
    nothing is proposed. The odds are learned within the answer, by length of the match, from every round: the possible copy is
    compared with the target's tokens even if nothing was proposed, so the drafter notices at no cost when copying pays again.

    Proposals are deterministic, so q is one-hot and every rule accepts x with probability p(x).

    Args:
        longest: maximum length of a match.
        shortest: minimum length of a match.
        worth: minimum probability that a proposal is reached and right, under any gamma; 0 always drafts as much as is allowed.
            None leaves the length to an automatic gamma, and is `USUAL_WORTH` under a fixed one.
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
        """As in `Drafter`. The tokens hold the whole conversation, so all earlier state is dropped."""
        self._clear(context.tokens)
        return True

    def estimates(self, limit: int) -> Mapping[str, Estimate]:
        """As in `Drafter`."""
        chances = self._chances(limit)
        return {self.name: Estimate(() if self._worth is not None else tuple(chances), statistics=self._statistics)}

    def propose(self, plan: DraftPlan, sampler: Sampler) -> Draft:
        """As in `Drafter`; proposes nothing if the latest tokens are new, or the match is too short to pay."""
        chances = self._chances(plan.length)
        length = len(chances) if plan.is_adaptive and self._worth is None else self._worthwhile(chances)
        return sampler.copied(self._copy[:length], chances, self._statistics)

    def _chances(self, limit: int) -> list[float]:
        """Returns the probability of each of at most `limit` copies: the odds of a match that is one token longer for each."""
        self._match, start, places = self._lookup.match()
        self._copy = self._lookup.copied(start, MAX_GAMMA) if self._match else []
        self._statistics = DrafterStatistics(hits=places, misses=int(not places), match=self._match, entries=self._lookup.entries)
        return [self._odds.of(self._match + place) for place in range(min(limit, len(self._copy)))]

    def _worthwhile(self, chances: Sequence[float]) -> int:
        """Returns the number of leading copies for which the probability that all are right is at least `worth`."""
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
