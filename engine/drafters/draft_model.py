"""Drafts with a smaller language model that shares the target's vocabulary."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np

from engine.drafters.base import Drafter, Proceed, always
from engine.drafters.draft import Draft, DraftContext, DrafterCapabilities, DraftPlan
from engine.drafters.loaded import LoadedDrafter
from engine.drafters.lookup import CopySource
from engine.drafters.sampler import Sampler
from engine.drafters.tree_sampler import TreeSampler
from engine.models.loaded import LoadedModel
from engine.models.pair_check import check_pair
from engine.target.interface import PromptCache, TargetModel
from engine.target.prompt_cache import (
    check_cache,
    chunk_size,
    logits_width,
    make_prompt_cache,
    mark,
    read_prompt,
    require_rollback,
    rewind,
    trim_to,
    watch,
)
from engine.target.quantised_cache import make_quantised_cache
from engine.target.shared_prefix import common_prefix
from engine.target.tree_pass import TreeRows, keep_path, tree_check, tree_pass
from engine.values.errors import DraftlightError


class DraftModel(Drafter):
    """An ordinary mlx-lm model as drafter; it works for any target with the same vocabulary.

    Args:
        model: a LoadedModel, or a bare callable `(tokens, cache=...) -> logits`.
        name: shown to the user; the model's own name if empty.
        target_ids: (draft width,) target id of each column of a trimmed head; None if the ids are the same.

    Attributes:
        cache: the model's cache of the text.

    Raises:
        DraftlightError: the model's cache cannot be rolled back.
    """

    capabilities = DrafterCapabilities(samples=True, sets_own_length=True)

    def __init__(self, model: LoadedModel | TargetModel, name: str = "", target_ids: mx.array | None = None) -> None:
        self._target_ids = target_ids
        self._context_length: int | None = None
        self.name = name or "draft model"
        if not isinstance(model, LoadedModel):
            self._model = model
        else:
            self._model, self._context_length = model.model, model.context_length
            self._target_ids = model.target_ids if target_ids is None else target_ids
            self.name = name or model.name
        self._kv_bits: int | None = None
        self._reset()
        require_rollback(self.cache, "draft model")
        self._chunk = chunk_size(self._model)
        self._largest_id = None if self._target_ids is not None else logits_width(self._model) - 1

    def _empty_cache(self) -> PromptCache:
        """Returns a cache of the target's precision, or of full precision if the model cannot use that; its proposals are judged
        in either case."""
        if self._kv_bits is not None:
            with contextlib.suppress(DraftlightError):
                return make_quantised_cache(self._model, self._kv_bits, self.name)
        return make_prompt_cache(self._model)

    def _reset(self) -> None:
        self.cache = self._empty_cache()
        self._committed: list[int] = []
        # Number of committed tokens in the cache, drafted ones follow them; while a step is queued, the number of all committed
        # tokens.
        self._read = 0
        self._ahead = 0  # number of drafted tokens of a chain in the cache
        self._nodes: list[int] = []  # nodes of a tree in the cache, in the order of its rows
        self._copies: CopySource | None = None  # begun with the first tree
        self._queued: mx.array | None = None

    def start(self, context: DraftContext, proceed: Proceed = always) -> bool:
        """As in `Drafter`. Tokens that the cache already holds are not read again; a text that is too long to draft for is not
        read at all."""
        if context.kv_bits != self._kv_bits:
            self._kv_bits = context.kv_bits
            self._reset()
        tokens = context.tokens
        self._ahead, self._queued, self._nodes, self._copies = 0, None, [], None
        common = min(self._read, len(tokens) - 1, common_prefix(self._committed, tokens))
        common = rewind(self.cache, common, "drafter")
        self._committed, self._read = list(tokens), common
        if self._is_full:
            return True
        if not read_prompt(self._known, self.cache, self._committed[common:-1], proceed, self._chunk):
            self._reset()
            return False
        self._read = len(self._committed) - 1
        mark(self.cache)
        watch(self.cache)
        return True

    def propose(self, plan: DraftPlan, sampler: Sampler) -> Draft:
        """Proposes a tree if the plan allows siblings, else a chain. A chain stays lazy unless the policy may end it early."""
        limit = min(plan.length, sampler.remaining)
        if self._context_length is not None:
            limit = min(limit, self._context_length - len(self._committed))
        if limit < 1:
            return sampler.draft()
        if plan.width > 1:
            return self._grown(min(limit, plan.levels), sampler)
        logits = self._first_step()
        for step in range(limit):
            token = sampler.sample(logits, self._target_ids)
            if step + 1 == limit or not sampler.should_continue():
                break
            logits = self._step(token)
            self._ahead += 1
        return sampler.draft()

    def _grown(self, depth: int, sampler: Sampler) -> Draft:
        """Proposes a tree: the copy of what followed the latest tokens earlier, if there is one, with the model's own choices
        beside and below it.

        The model reads all nodes whose children are wanted and whose tokens are known in one pass, and samples their children.
        """
        if self._copies is None:
            self._copies = CopySource(self._committed)
        copied, chances = self._copies.find(depth)
        growing = sampler.tree(depth, copied, chances)
        if growing.waiting:
            logits = self._first_step()[None]
            if growing.waiting[0] == 0:
                growing.expand([0], logits, self._target_ids)
        while nodes := growing.unread(self._nodes):
            growing.expand_waiting(nodes, self._tree_step(nodes, growing), self._target_ids)
        return growing.draft()

    def _tree_step(self, nodes: Sequence[int], growing: TreeSampler) -> mx.array:
        """Returns the (nodes, draft width) logits after some nodes of a tree, whose ancestors the cache has or gets with them."""
        rows = [*self._nodes, *nodes]
        depths = np.array(growing.shape.depths)[rows] - 1  # the root is committed
        visible = growing.shape.visible[np.ix_(nodes, rows)]
        self._nodes = rows
        return tree_pass(self._known, self.cache, growing.tokens(nodes), TreeRows(depths, visible), self._model)

    def tree_reason(self) -> str:
        """Returns why the model cannot read a tree; empty if it can. The first call reads a small tree and its paths."""
        return tree_check(self._model, self._empty_cache, self._kv_bits).reason

    def commit(self, path: Sequence[int], tokens: Sequence[int], hidden_states: mx.array | None) -> None:
        """As in `Drafter`. Accepted drafted tokens stay in the cache."""
        if self._copies is not None:
            self._copies.extend(tokens)
        if self._nodes:
            rows = [self._nodes.index(node) for node in path[1:] if node in self._nodes]
            keep_path(self.cache, self._read, rows, "drafter")
            self._ahead = len(rows)
        kept = min(self._ahead, len(tokens) - 1)
        # The last of `tokens` is the target's own; those before it are the accepted proposals, which are in the cache.
        self._committed.extend(tokens)
        self._read += kept
        self._ahead -= kept
        self._drop_drafts()
        self._queued = None
        check_cache(self.cache, self._read, "drafter")

    def prefetch(self) -> None:
        """Queues the next round's first step, which depends only on the committed tokens, not on rule or noise."""
        if self._queued is None and not self._is_full:
            self._queued = self._first_step()
            mx.async_eval(self._queued)

    def finish(self) -> None:
        """As in `Drafter`: reads the last proposal if it is missing, or rolls a queued step back. If the text has outgrown the
        model's context, nothing is read."""
        target = max(0, len(self._committed) - 1)
        self._read = min(self._read, target)  # a queued step is not settled yet: it is rolled back together with the drafts
        self._drop_drafts()
        if self._read < target and not self._is_full:
            self._step(mx.array(self._committed[self._read : target]))
            self._read = target
        self._queued = None
        check_cache(self.cache, self._read, "drafter")
        mark(self.cache)

    @property
    def _is_full(self) -> bool:
        """Whether the text has reached the model's context; from then on it neither proposes nor reads."""
        return self._context_length is not None and len(self._committed) >= self._context_length

    def _first_step(self) -> mx.array:
        """Returns the (draft width,) logits after all committed tokens."""
        if self._queued is None:
            self._queued = self._step(mx.array(self._committed[self._read :]))
            self._read = len(self._committed)
        queued, self._queued = self._queued, None
        return queued

    def _step(self, tokens: mx.array) -> mx.array:
        """Returns the (draft width,) logits after the last of (n,) tokens."""
        return self._known(tokens[None], cache=self.cache)[0, -1]

    def _known(self, tokens: mx.array, cache: PromptCache) -> mx.array:
        """Runs the model on the target's ids. An id beyond its vocabulary is replaced by its last one, because MLX does not check
        bounds."""
        known = tokens if self._largest_id is None else mx.minimum(tokens, self._largest_id)
        return self._model(known, cache=cache)

    def _drop_drafts(self) -> None:
        trim_to(self.cache, self._read, "drafter")
        self._ahead, self._nodes = 0, []


def build(name: str, target: LoadedModel, load: Callable[[], LoadedModel]) -> LoadedDrafter:
    """As in `engine.drafters.loaded.Build`."""
    model = load()
    report = check_pair(target, model)
    if not report.usable:
        raise DraftlightError(f"{name} cannot draft for {target.name}: {' '.join(report.reasons)}")
    make = functools.partial(DraftModel, model, name)
    return LoadedDrafter(name, make(), model.sha256, model, make)
