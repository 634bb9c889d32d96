"""One forward pass over a tree of tokens, without a change to mlx-lm's model files.

Three things make an mlx-lm model read a tree. Its attention asks the cache for a mask (`make_mask`): during the pass each layer's
cache answers with the committed rows plus the node's ancestors. It rotates queries and keys by their positions (`rope`): during
the pass that is each node's depth instead of its row. And its keys carry their positions already, so afterwards the rows of the
accepted path are moved together and the others cut (`keep_path`).

A model with another name for its rope, or positions of another kind, would be silently wrong. So a small tree is compared with
its paths before a model's first tree (`check_trees`), and chains are used where they differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.models.cache import KVCache, QuantizedKVCache
from numpy.typing import NDArray

from engine.target.interface import PromptCache, SplitTarget
from engine.target.prompt_cache import leaves_of, logits_width, read_prompt, trim_to, watch
from engine.target.window_cache import ChunkCache, WindowCache
from engine.values.tree_shape import TreeShape

ROPE_NAMES = ("rope", "rotary_emb")
"""Attributes under which mlx-lm's attention layers have their rotary embedding."""
CHECKED = TreeShape((0, 0, 1, 1, 2, 3, 5))
"""The tree that `check_trees` compares with its paths: five leaves, four levels, a node with two children at each of three."""
CHECKED_TEXT = 24
"""Number of tokens before that tree."""
NOISE_FACTOR, LEAST_DIFFERENCE = 8.0, 1e-4
"""Tolerance of `check_trees`: a tree agrees with its paths if their logits differ by at most this many times as much as two
passes of different length over one path do, or by this share of the spread of the logits. A wrong position or mask changes them
by a hundred times that."""
_KEPT_AS, _ROPES_KEPT_AS = "_draftlight_trees", "_draftlight_ropes"


@dataclass(frozen=True)
class TreeCheck:
    """Whether a model can read trees.

    Attributes:
        reason: why it cannot, as the end of a sentence; empty if it can.
        difference: largest difference between a logit of the tree and that of its path, and of the passes after it; None if there
            was nothing to compare.
        rounding: largest difference between a path read in one pass and token by token.
    """

    reason: str = ""
    difference: float | None = None
    rounding: float | None = None


@dataclass(frozen=True)
class TreeRows:
    """The rows of a pass over nodes of a tree, some of which the cache may already hold.

    Attributes:
        depths: (held + new,) depth of each node, in the order of the cache's rows; 0 is the position after the committed rows.
        visible: (new, held + new) bool, whether a new node attends to a node.
    """

    depths: NDArray[np.int_]
    visible: NDArray[np.bool_]

    @property
    def held(self) -> int:
        """Number of nodes that the cache holds before the pass."""
        return self.visible.shape[1] - self.visible.shape[0]

    def mask(self, committed: int) -> mx.array:
        """Returns (new, committed + held + new) bool: what each new node attends to, all committed rows included."""
        return mx.array(np.concatenate([np.ones((len(self.visible), committed), np.bool_), self.visible], axis=1))

    @classmethod
    def whole(cls, shape: TreeShape) -> TreeRows:
        """Returns the rows of a pass over all nodes of a tree, root included."""
        return cls(np.array(shape.depths), shape.visible)


def tree_pass(
    model: Callable[..., mx.array], cache: Sequence[Any], tokens: mx.array, rows: TreeRows, module: Any = None
) -> mx.array:
    """Returns (new, vocab) logits after each of (new,) nodes, and appends the nodes to the cache in this order.

    Args:
        module: the mlx-lm model, if `model` only calls it.
    """
    with reading_nodes(model if module is None else module, cache, rows):
        logits: mx.array = model(tokens[None], cache=cache)[0]
    return logits


@contextmanager
def reading_nodes(model: Any, cache: Sequence[Any], rows: TreeRows) -> Iterator[None]:
    """Gives the caches the tree's masks and the ropes the nodes' positions, for one pass."""
    depths = mx.array(rows.depths[rows.held :], mx.int32)
    ropes, leaves = _ropes_of(model), leaves_of(cache)
    kinds = {kind: _at_depths(kind, depths, rows.held) for kind in map(type, ropes)}
    for rope in ropes:
        rope.__class__ = kinds[type(rope)]
    for layer in leaves:
        layer.make_mask = _mask_of(layer, rows)  # an attribute of the object hides the method of its class
    try:
        yield
    finally:
        for rope in ropes:
            rope.__class__ = type(rope).__base__
        for layer in leaves:
            del layer.make_mask


def _ropes_of(model: Any) -> list[Any]:
    """Returns the rotary embeddings of a model's attention layers, each once. They are searched for once: a large model has
    thousands of modules."""
    found: dict[int, Any] | None = model.__dict__.get(_ROPES_KEPT_AS)
    if found is None:
        attributes = [getattr(module, name, None) for _, module in model.named_modules() for name in ROPE_NAMES]
        found = {id(rope): rope for rope in attributes if isinstance(rope, nn.Module)}
        model.__dict__[_ROPES_KEPT_AS] = found
    return list(found.values())


def _at_depths(kind: type, depths: mx.array, held: int) -> type:
    """Returns a subclass of a rotary embedding that gives each row of a pass its node's position.

    Args:
        depths: (rows,) int32. held: rows that the cache holds beyond the committed ones: the model's offset includes them.
    """

    def call(rope: Any, x: mx.array, offset: Any = 0, *arguments: Any, **named: Any) -> Any:
        """Rotates (1, heads, rows, width) as (rows, heads, 1, width), which takes one position a row."""
        if x.shape[-2] != depths.shape[0]:  # no row a node: not the queries or keys of this pass
            return kind.__call__(rope, x, offset, *arguments, **named)
        turned = kind.__call__(rope, x.transpose(2, 1, 0, 3), offset - held + depths, *arguments, **named)
        return turned.transpose(2, 1, 0, 3)

    return type(kind.__name__, (kind,), {"__call__": call})


def _mask_of(layer: Any, rows: TreeRows) -> Callable[..., mx.array]:
    """Returns the function that answers for a layer's `make_mask`: (rows, rows in view) bool."""

    def make_mask(N: int, window_size: int | None = None, return_array: bool = False, **named: Any) -> mx.array:
        """Returns the committed rows and the ancestors of each node; of a window those within its reach by depth."""
        is_window = isinstance(layer, WindowCache)
        fetched = min(layer.max_size - 1, layer.offset) if is_window else layer.offset
        window = window_size or (layer.max_size if is_window else None)
        depths, new = rows.depths, rows.depths[rows.held :]
        committed = max(0, fetched - rows.held)
        before = np.ones((N, committed), np.bool_)
        inside = rows.visible[:, max(0, rows.held - fetched) :]
        if window:
            before = np.arange(-committed, 0)[None] > new[:, None] - window
            seen = depths[max(0, rows.held - fetched) :]
            inside = inside & (new[:, None] - seen[None] < window)
        return mx.array(np.concatenate([before, inside], axis=1))

    return make_mask


def keep_path(cache: Sequence[Any], length: int, rows: Sequence[int], whose: str) -> None:
    """Keeps some rows of a tree, in this order, behind the first `length` tokens of a cache, and cuts all others.

    Args:
        rows: indexes of the nodes among the rows of the tree, ascending.
    """
    if list(rows) != list(range(len(rows))):
        for layer in leaves_of(cache):
            start = length - getattr(layer, "start_position", 0)
            ids = mx.array([start + row for row in rows])
            for name in ("keys", "values"):
                buffers = getattr(layer, name)
                for buffer in buffers if isinstance(buffers, (tuple, list)) else (buffers,):
                    buffer[..., start : start + len(rows), :] = mx.take(buffer, ids, axis=2)
    trim_to(cache, length + len(rows), whose)


def structural_reason(model: Any, cache: Sequence[Any]) -> str:
    """Returns why a model cannot read trees, judging by its kind and the layers of its cache alone; empty if it may."""
    if isinstance(model, SplitTarget):
        return "it is split over several processes"
    for layer in leaves_of(cache):
        if isinstance(layer, ChunkCache):
            return "its attention works in chunks"
        if not (isinstance(layer, WindowCache) or type(layer) in (KVCache, QuantizedKVCache)):
            return "it has recurrent layers, which would need a state for each branch"
    return ""


def check_trees(model: Any, make_cache: Callable[[], PromptCache]) -> TreeCheck:
    """Compares a small tree with its paths, and what follows a kept path with the same text read anew.

    Args:
        make_cache: returns an empty cache like the one that trees will be read into.
    """
    try:
        if reason := structural_reason(model, make_cache()):
            return TreeCheck(reason)
        return _compared(model, make_cache)
    except Exception as error:  # a model that cannot take such a mask or position may raise anything
        return TreeCheck(f"it refuses to read one ({error})")


def _compared(model: Any, make_cache: Callable[[], PromptCache]) -> TreeCheck:
    ids = [3 + 7 * index % max(1, logits_width(model) - 3) for index in range(CHECKED_TEXT + CHECKED.size + 3)]
    text, nodes, after = ids[:CHECKED_TEXT], ids[CHECKED_TEXT:-2], mx.array(ids[-2:])

    def fresh() -> PromptCache:
        """Returns a cache that has read the text."""
        cache = make_cache()
        read_prompt(model, cache, text, lambda done, total: True)
        watch(cache)
        return cache

    def read(cache: PromptCache, tokens: Sequence[int] | mx.array) -> NDArray[np.float32]:
        """Returns (tokens, vocab) logits of a pass."""
        given = tokens if isinstance(tokens, mx.array) else mx.array(list(tokens))
        return np.array(model(given[None], cache=cache)[0].astype(mx.float32))

    cache = fresh()
    tree = np.array(tree_pass(model, cache, mx.array(nodes), TreeRows.whole(CHECKED)).astype(mx.float32))
    leaves = [node for node, children in enumerate(CHECKED.children) if not children]
    longest = CHECKED.path_to(max(leaves, key=lambda leaf: CHECKED.depths[leaf]))
    keep_path(cache, len(text), longest, "target")
    following = read(cache, after)
    difference, rounding, spread = 0.0, 0.0, float(np.ptp(tree))
    plain = fresh()
    for path in map(CHECKED.path_to, leaves):
        rows = read(plain, [nodes[node] for node in path])
        difference = max(difference, float(np.abs(tree[path] - rows).max()))
        if path == longest:
            difference = max(difference, float(np.abs(read(plain, after) - following).max()))
            trim_to(plain, len(text), "target")
            singly = np.concatenate([read(plain, [nodes[node]]) for node in path])
            rounding = float(np.abs(singly - rows).max())
        trim_to(plain, len(text), "target")
    if not difference <= max(NOISE_FACTOR * rounding, LEAST_DIFFERENCE * spread):  # false for NaN, too
        return TreeCheck("a small tree gives other logits than its paths", difference, rounding)
    return TreeCheck("", difference, rounding)


def tree_check(model: Any, make_cache: Callable[[], PromptCache], kind: object) -> TreeCheck:
    """Returns the result of `check_trees`, which is kept with the model. `kind`: of the cache, such as its number of bits."""
    kept = kept_checks(model)
    if kind not in kept:
        kept[kind] = check_trees(model, make_cache)
    return kept[kind]


def kept_checks(model: Any) -> dict[object, TreeCheck]:
    """Returns the results of `tree_check` for a model so far, by kind of cache. An entry that is added takes the place of a
    check."""
    kept: dict[object, TreeCheck] = model.__dict__.setdefault(_KEPT_AS, {})
    return kept
