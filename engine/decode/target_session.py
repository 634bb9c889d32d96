"""The target of one answer: its cache, the prefetched pass, the hidden states that a drafter reads, and if it reads trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import mlx.core as mx

from engine.decode.run_control import Clock
from engine.drafters.base import Drafter, Proceed, reading
from engine.drafters.draft import DraftTree
from engine.models.loaded import LoadedModel
from engine.target import prompt_cache as caches
from engine.target.interface import PromptCache, SplitTarget, TargetModel
from engine.target.layer_taps import Taps, tap
from engine.target.quantised_cache import empty_cache
from engine.target.tree_pass import TreeRows, keep_path, tree_check, tree_pass
from engine.types import DecodingOptions


class Scored(NamedTuple):
    """One forward pass of the target.

    Attributes:
        logits: (nodes, vocab), after each node of the tree.
        hidden_states: (nodes, layers x hidden) of the same pass if the drafter reads them, else None.
    """

    logits: mx.array
    hidden_states: mx.array | None

    def hidden_states_of(self, path: Sequence[int]) -> mx.array | None:
        """Returns the lazy (len(path), layers x hidden) hidden states of these nodes."""
        if self.hidden_states is None or list(path) == list(range(len(path))):
            return None if self.hidden_states is None else self.hidden_states[: len(path)]
        return self.hidden_states[mx.array(list(path))]


class TargetSession:
    """Reads the prompt, scores the tree of each round and rolls back rejected nodes.

    Args:
        target: a LoadedModel, or a bare mlx-lm style module.
        cache: extended in place; None for an empty one.
        kv_bits: bits of an empty cache's keys and values; None for full precision.
        clock: receives the time of a pass that is queued ahead.

    Attributes:
        vocab_size: width of the logits.
    """

    def __init__(self, target: LoadedModel | TargetModel, cache: PromptCache | None, kv_bits: int | None, clock: Clock) -> None:
        self._target = target
        name, self._model = _name_and_model(target)
        self._cache = empty_cache(self._model, kv_bits, name) if cache is None else cache
        self._clock = clock
        self._can_prefetch = caches.can_hide(self._cache)
        self._prefetched: mx.array | None = None  # (1, vocab) logits
        self._taps: Taps | None = None
        self._read = 0  # committed tokens that the cache holds
        self._links = self._model.links if isinstance(self._model, SplitTarget) else None
        self.vocab_size = caches.logits_width(self._model)

    def require_prompt(self, prompt: Sequence[int]) -> None:
        """Raises ValueError unless all ids are in the vocabulary and the cache holds a proper prefix of the prompt."""
        wrong = next((token for token in prompt if not 0 <= token < self.vocab_size), None)
        if wrong is not None:
            raise ValueError(f"prompt_tokens must be from 0 to {self.vocab_size - 1}, not {wrong}")
        length = caches.cache_length(self._cache)
        if (length or 0) >= len(prompt):
            raise ValueError("cache must hold a proper prefix of the prompt")
        if length is None and not caches.is_empty(self._cache):
            raise ValueError("cache must be empty: it keeps no count of the tokens it has read")

    def require_rollback(self) -> None:
        """Raises DraftlightError if the cache cannot be rolled back."""
        caches.require_rollback(self._cache, "target")

    @property
    def target(self) -> LoadedModel | TargetModel:
        """The model as passed to the constructor."""
        return self._target

    @property
    def read(self) -> int:
        """Number of tokens in the cache."""
        return caches.cache_length(self._cache) or 0

    def follow_with(self, drafter: Drafter | None) -> None:
        """Keeps the hidden states that this drafter reads from now on."""
        layers = () if drafter is None else drafter.capabilities.hidden_layers
        self._taps = tap(self._model, layers) if layers else None

    def read_prompt(self, prompt: Sequence[int], drafter: Drafter | None, proceed: Proceed) -> bool:
        """Reads all but the last prompt token; the first round scores from there. Returns False if `proceed` cancelled it."""
        read = self.read
        if drafter is not None and self._taps is not None:
            proceed = reading(drafter, self._taps, proceed, read)
        if not caches.read_prompt(self._model, self._cache, prompt[read:-1], proceed):
            return False
        self._read = len(prompt) - 1
        caches.check_cache(self._cache, self._read, "target")
        caches.mark(self._cache)
        caches.watch(self._cache)
        return True

    def drop_prefetched(self) -> None:
        """Drops a pass that was queued ahead, for example when a drafter joins during an answer."""
        self._prefetched = None
        self._clock.pop_carry_over()

    def score(self, tree: DraftTree) -> Scored:
        """Runs the target on the nodes of a tree, or uses the pass that was queued for its root."""
        prefetched, self._prefetched = self._prefetched, None
        if prefetched is not None:
            caches.show_newest(self._cache)
            return Scored(prefetched, None)
        if tree.shape.is_chain:
            logits = self._model(tree.tokens[None], cache=self._cache)[0]
        else:
            logits = tree_pass(self._model, self._cache, tree.tokens, TreeRows.whole(tree.shape))
        return Scored(logits, None if self._taps is None else self._taps.take())

    @property
    def has_prefetched(self) -> bool:
        """Whether the next round's pass is already queued."""
        return self._prefetched is not None

    def prefetch(self, token: mx.array, before: Sequence[mx.array]) -> float:
        """Queues the next round's plain pass over a token that the host does not know yet.

        Args:
            token: () int32.
            before: arrays that the host reads in this round. They are queued first: the device works in order, and the host would
                otherwise wait for the whole pass.

        Returns:
            Seconds that this took: most of a pass on the CPU back-end, which blocks its caller. The timer counts them towards the
            next round, to which the pass belongs; otherwise the first round would seem to take two passes, and the last none.
        """
        if not self._can_prefetch:
            return 0.0
        mx.async_eval(*before)
        began = self._clock()
        self._prefetched = self._model(token.reshape(1, 1), cache=self._cache)[0]
        mx.async_eval(self._prefetched)
        caches.hide_newest(self._cache)
        took = self._clock() - began
        self._clock.carry_over(took)
        return took

    def commit(self, path: Sequence[int]) -> None:
        """Keeps the rows of these nodes of the tree, a path from the root on."""
        keep_path(self._cache, self._read, path, "target")
        self._read += len(path)

    def mark(self) -> None:
        """Marks the state at the end of an answer, so that a later answer can return to it."""
        caches.mark(self._cache)

    def time_communication(self, is_timed: bool) -> None:
        """Sets whether a split target times its collectives in the next pass."""
        if self._links is not None:
            self._links.timed = is_timed

    def take_communication(self) -> float | None:
        """Returns the milliseconds that the collectives of the timed pass took; None for a target that is not split."""
        return None if self._links is None else self._links.take()


def chains_reason(options: DecodingOptions, drafter: Drafter | None, target: LoadedModel | TargetModel) -> str:
    """Returns why an answer drafts chains, as a sentence for the user; empty if it drafts trees, or if nobody asked for them.

    The first call for a target or draft model reads a small tree and its paths with it (`engine.target.tree_pass`).
    """
    if not options.asks_for_trees or options.width == 1 or drafter is None:
        return ""
    if options.rule == "block":
        return "Block judges the proposals of a round as one chain, so no trees are drafted."
    if reason := drafter.tree_reason():
        return f"{drafter.name} drafts chains instead of trees: {reason}."
    if reason := target_tree_reason(target, options.kv_bits):
        return f"Chains are drafted instead of trees, because {_name_and_model(target)[0]} cannot read trees: {reason}."
    return ""


def target_tree_reason(target: LoadedModel | TargetModel, kv_bits: int | None) -> str:
    """Returns why a target cannot read trees, as the end of a sentence; empty if it can."""
    name, model = _name_and_model(target)
    return tree_check(model, lambda: empty_cache(model, kv_bits, name), kv_bits).reason


def _name_and_model(target: LoadedModel | TargetModel) -> tuple[str, TargetModel]:
    return (target.name, target.model) if isinstance(target, LoadedModel) else ("The model", target)
