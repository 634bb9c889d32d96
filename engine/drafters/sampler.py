"""Samples one round's proposals from a drafter's logits."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from engine.acceptance import RoundNoise, likeliest
from engine.drafters.draft import Draft, DraftPlan, DraftTree, Expansion
from engine.drafters.tree_sampler import Draws, FixedTree, GrowingTree, TreeSampler
from engine.machine.host import computes_on_host
from engine.target.distribution import Distribution, OneHot, Shaper, latest, onto_target_ids
from engine.types import DrafterStatistics, Rule
from engine.values.tree_shape import likeliest_tree


class Sampler:
    """Samples one round's proposals, and stores the distributions that they were sampled from.

    A drafter knows neither the rule nor the noise: it asks for a token and continues after it.

    Args:
        shaper: the same as the target's, so that the same options shape q and p.
        rule: determines which noise is used.
        noise: the round's randomness.
        history: prompt and committed tokens, for penalties; the last one is the tree's root.
        vocab_size: width of the target's logits.
        plan: the plan of this round.
        policy: consulted after each token if the plan is adaptive.

    Attributes:
        may_place: whether a drafter that samples may also propose a token without sampling.
        chances: the drafter's probabilities of the tokens so far, if the plan is adaptive.
    """

    may_place = True

    def __init__(
        self,
        shaper: Shaper,
        rule: Rule,
        noise: RoundNoise,
        history: Sequence[int],
        vocab_size: int,
        plan: DraftPlan,
        policy: Expansion | None = None,
    ) -> None:
        self._draws = Draws(shaper, rule, noise, history, vocab_size)
        self._shaper = shaper
        self.vocab_size = vocab_size
        self._plan = plan
        self._policy = policy if plan.is_adaptive else None
        self.chances: list[float] = []
        self._placed: dict[int, float] = {}
        self._rows: list[Distribution] = []
        self._tokens: list[mx.array] = []

    def sample(self, logits: mx.array, target_ids: mx.array | None = None) -> mx.array:
        """Samples the next proposal.

        Args:
            logits: (draft width,) raw logits of the drafter.
            target_ids: (draft width,) for a trimmed head, else None.

        Returns:
            (1,) int32 id of the target's vocabulary, lazy.
        """
        whole = onto_target_ids(logits[None], self.vocab_size, target_ids)
        noise, history = self._draws.noise, self._draws.history
        if self._shaper.penalises and self._tokens:
            recent = latest(history, self._shaper.options.repetition_context)
            row = self._shaper.shape(whole, mx.concatenate([recent, *self._tokens]))
        else:
            row = self._shaper.shape(whole, history)
        if self._shaper.greedy:
            token = likeliest(row)
        elif self._draws.rule == "gumbel":
            token = noise.shared(row, len(self._tokens))
        else:
            token = noise.draft(row, len(self._tokens))
        token = token.astype(mx.int32)
        self._rows.append(row)
        self._tokens.append(token)
        return token

    def place(self, token: int, chance: float) -> mx.array:
        """Proposes a token without sampling, (1,) int32: its q is 1. `chance` is the probability that it is right."""
        placed = mx.array([token], dtype=mx.int32)
        self._rows.append(self._shaper.certain(token, self.vocab_size))
        self._tokens.append(placed)
        self._placed[len(self._tokens) - 1] = chance
        return placed

    @property
    def is_adaptive(self) -> bool:
        """Whether `should_continue` may return False."""
        return self._policy is not None

    @property
    def remaining(self) -> int:
        """Number of tokens that may still be sampled in this round; copies are not counted."""
        return max(0, self._plan.max_sampled - (len(self._tokens) - len(self._placed)))

    @property
    def inverse_temperature(self) -> float:
        """Factor by which `sample` multiplies logits; 1 at temperature 0."""
        return self._shaper.inverse_temperature

    @property
    def evaluates_tokens(self) -> bool:
        """Whether a token is evaluated as soon as it is sampled, so that reading it is no additional synchronisation."""
        return self._policy is not None or computes_on_host()

    def should_continue(self) -> bool:
        """Returns whether another token pays, up to the plan's length. Call it once after each token but the last. The next token
        may be a copy: before it samples, a drafter that also copies checks `remaining`.

        If the plan is adaptive, this evaluates the token just sampled and reads the drafter's probability of it. The result
        depends on the sampled tokens and on past rounds, never on a future verdict, so every rule stays exact.
        """
        if self._policy is None:
            return True
        last = len(self._tokens) - 1
        if last in self._placed:
            self.chances.append(self._placed[last])
        else:
            self.chances.append(float(np.asarray(self._rows[-1].probability_of(self._tokens[-1]))[0]))
        return self._policy.should_expand(self._plan, self.chances, last in self._placed)

    def tree(self, depth: int, copied: Sequence[int], chances: Sequence[float], samples: bool = True) -> TreeSampler:
        """Returns the sampler of this round's tree, which has budget and width of the plan.

        Args:
            depth: maximum depth of sampled nodes.
            copied: ids that are proposed without sampling, as a path from the root.
            chances: for each of them the probability that it is right if those before it are.
            samples: whether the drafter can sample; if not, the copies are all.
        """
        plan = self._plan
        if plan.grows and self._policy is not None:
            return GrowingTree(self._draws, plan, self._policy, depth if samples else 0, copied, chances)
        width, depth = (plan.width, depth) if samples else (1, min(depth, len(copied)))
        shape, nodes = likeliest_tree(plan.budget, depth, width, chances, plan.rank_chances)
        return FixedTree(self._draws, shape, dict(zip(nodes, copied, strict=False)))

    def draft(self, statistics: DrafterStatistics | None = None) -> Draft:
        """Returns all sampled and placed tokens, as a chain."""
        return Draft(self._tree(), tuple(self.chances), statistics)

    def copied(self, ids: Sequence[int], chances: Sequence[float] = (), statistics: DrafterStatistics | None = None) -> Draft:
        """Returns a chain of tokens that are proposed without sampling instead; `chances` are the probabilities that they are
        right."""
        return Draft(DraftTree.copied(self._root, ids, self.vocab_size), tuple(chances[: len(ids)]), statistics)

    @property
    def _root(self) -> int:
        return self._draws.history[-1] if self._draws.history else 0

    def _tree(self) -> DraftTree:
        if not self._tokens:
            return DraftTree.plain(self._root, self.vocab_size)
        tokens = mx.concatenate(self._tokens)
        if len(self._placed) == len(self._tokens):
            return DraftTree.chain(self._root, tokens, OneHot(tokens, self.vocab_size))
        return DraftTree.chain(self._root, tokens, Distribution.joined(self._rows), frozenset(self._placed))
