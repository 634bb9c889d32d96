"""What a head learns from: which text is held out, in which batches the rest comes, and what each step of the chains is told."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import mlx.core as mx
import numpy as np

from engine.drafters.lookup import Lookup
from engine.tools.training import features
from engine.tools.training.features import Example
from engine.values.errors import DraftlightError

HELD_OUT_SHARE = 0.04
SHARPNESS = 1.25
"""Inverse of the labels' temperature, 0.8: the app's default."""
DECAY = 0.85
"""Weight of each further step of a chain: it counts only where the ones before were accepted."""
PROMPT_WEIGHT = 0.3
"""Of positions inside prompts, which are many and less like what will be drafted."""
SHORTEST_COPY = 3
"""Tokens that have to agree before a copy counts."""
WINDOW = 256
"""Records sorted by length together: little padding, and batches still differ from epoch to epoch."""


@dataclass(frozen=True)
class Targets:
    """Of one step of the chains: which rows count (positions,), how much, and their labels (positions, LABELS)."""

    rows: mx.array
    weights: mx.array
    columns: mx.array
    labels: mx.array


def split(examples: Sequence[Example]) -> tuple[list[Example], list[Example]]:
    """Examples to train on and those held out. It depends on the text of prompts and documents alone, so more text never moves
    one from here to there, and all answers to a prompt are on one side.

    Raises:
        DraftlightError: there is too little text for both.
    """
    groups = {example.group for example in examples}
    require_several(groups)
    limit = max(HELD_OUT_SHARE * 2**32, min(groups) + 1)
    return [one for one in examples if one.group >= limit], [one for one in examples if one.group < limit]


def require_several(groups: Collection[int]) -> None:
    """Raises DraftlightError unless some of these different groups of text can be held out from the others."""
    if len(groups) < 2:
        raise DraftlightError(
            "There is too little text to hold some out for measuring. Give at least two different documents or chats."
        )


def common_opening(examples: Sequence[Example]) -> int:
    """Tokens that all examples begin with: a system prompt, which nobody has to draft."""
    first = examples[0].tokens
    shared = len(first)
    for example in examples:
        shared = min(shared, len(example.tokens))
        differs = np.flatnonzero(first[:shared] != example.tokens[:shared])
        shared = int(differs[0]) if len(differs) else shared
    return shared


def copied_right(tokens: np.ndarray) -> np.ndarray:
    """(length,) bool: which tokens follow from a copy, as the n-gram drafter makes them, of the text so far. A head that works
    beside that drafter, or where it would, gains nothing from learning them."""
    right = np.zeros(len(tokens), bool)
    lookup = Lookup()
    for position, token in enumerate(tokens.tolist()):
        length, start, _ = lookup.match()
        right[position] = length >= SHORTEST_COPY and lookup.copied(start, 1)[0] == token
        lookup.extend((token,))
    return right


class Shapes(Protocol):
    """What is asked of a drafter's configuration."""

    @property
    def taps(self) -> tuple[int, ...]:
        """Target layers that it reads."""

    @property
    def hidden_size(self) -> int:
        """Width of one of these."""

    @property
    def vocab_size(self) -> int:
        """Rows of the target's embedding."""


class Lessons:
    """Turns records into arrays for a drafter.

    Args:
        target_ids: (vocabulary,) of the head. embedding: the target's, ids to vectors.
        copied: weight of tokens that a copy gets right.
        first: position of the first chain of each record: what all records begin with is not learned.

    Attributes:
        column: by target id, the head's column, -1 outside.
    """

    def __init__(self, config: Shapes, target_ids: np.ndarray, embedding: Any, copied: float, first: int) -> None:
        self._config, self._embedding, self._copied, self._first = config, embedding, copied, first
        self._copies: dict[tuple[Path, int], np.ndarray] = {}
        self.column = np.full(config.vocab_size, -1, np.int32)
        self.column[target_ids] = np.arange(len(target_ids))

    def long_enough(self, examples: Sequence[Example], steps: int) -> list[Example]:
        """Those that have a position for every step of a chain."""
        return [one for one in examples if len(one) - 2 - (steps - 1) > self._first]

    def prepare(self, batch: Sequence[Example], steps: int) -> tuple[mx.array, mx.array, list[Targets]]:
        """Inputs and embeddings as `load` gives them, and what each step of the chains learns, weights adding up to 1."""
        inputs, embedded, labels = self.load(batch, steps)
        targets = []
        for step in range(steps):
            rows, weights, ids, logs = self.wanted(batch, labels, inputs.shape[1], step)
            columns = self.column[ids]
            probabilities = np.where(columns >= 0, softmax(logs * SHARPNESS), np.float32(0))
            targets.append(Targets(*(mx.array(part) for part in (rows, weights * DECAY**step, columns, probabilities))))
        total = mx.concatenate([target.weights for target in targets]).sum()
        return inputs, embedded, [Targets(one.rows, one.weights / total, one.columns, one.labels) for one in targets]

    def load(self, batch: Sequence[Example], steps: int) -> tuple[mx.array, mx.array, list[tuple[np.ndarray, np.ndarray]]]:
        """Features (batch, rows, taps x hidden), embeddings of the tokens from position 1 on (batch, rows + steps, hidden), and
        labels of each example. The last two positions begin no chain."""
        longest = max(map(len, batch))
        config = self._config
        tokens = np.zeros((len(batch), longest + steps), np.int32)
        inputs = np.zeros((len(batch), longest - 2, len(config.taps) * config.hidden_size), np.float32)
        labels = []
        for row, example in enumerate(batch):
            tokens[row, : len(example)] = example.tokens
            read, ids, logs = features.load(example)
            inputs[row, : len(example) - 2] = read[:-2]
            labels.append((ids, logs))
        embedded = self._embedding(mx.array(tokens[:, 1:])).astype(mx.float32)
        return mx.array(inputs), embedded, labels

    def wanted(
        self,
        batch: Sequence[Example],
        labels: Sequence[tuple[np.ndarray, np.ndarray]],
        rows: int,
        step: int,
        prompts: bool = True,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Of the chains' step: rows that have a label, in the flattened batch, their weights, and the labels' ids and logs."""
        parts: list[tuple[np.ndarray, ...]] = []
        for number, (example, (ids, logs)) in enumerate(zip(batch, labels, strict=True)):
            start = self._first if prompts else max(self._first, example.prompt_length - 2 - step)
            positions = np.arange(start, len(example) - 2 - step)
            answers = positions + 2 + step >= example.prompt_length
            weights = np.where(answers, 1, PROMPT_WEIGHT).astype(np.float32)
            if prompts and self._copied < 1:
                weights[self.copies_in(example)[positions + 2 + step]] *= self._copied
            label = positions + 1 + step
            parts.append((number * rows + positions, weights, ids[label].astype(np.int64), logs[label].astype(np.float32)))
        flat, weights, all_ids, all_logs = (np.concatenate(part) for part in zip(*parts, strict=True))
        return flat.astype(np.int32), weights, all_ids, all_logs

    def copies_in(self, example: Example) -> np.ndarray:
        """`copied_right`, found once for each record."""
        key = (example.folder, example.first)
        if key not in self._copies:
            self._copies[key] = copied_right(example.tokens)
        return self._copies[key]


def shuffled(examples: Sequence[Example], batch_tokens: int, generator: np.random.Generator) -> list[list[Example]]:
    """Every example once, in batches of at most `batch_tokens` padded tokens (or one record)."""
    order = generator.permutation(len(examples))
    batches: list[list[Example]] = []
    for start in range(0, len(order), WINDOW):
        window = sorted((examples[index] for index in order[start : start + WINDOW]), key=len)
        batches += groups(window, batch_tokens)
    return [batches[index] for index in generator.permutation(len(batches))]


def groups(by_length: Sequence[Example], batch_tokens: int) -> list[list[Example]]:
    """Batches of neighbours, each of at most `batch_tokens` padded tokens or of one record.

    Args:
        by_length: the shortest first, so that the newest record of a batch says how long its rows are.
    """
    groups: list[list[Example]] = []
    for example in by_length:
        if not groups or (len(groups[-1]) + 1) * len(example) > batch_tokens:
            groups.append([])
        groups[-1].append(example)
    return groups


def softmax(logits: np.ndarray) -> np.ndarray:
    """Over the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
