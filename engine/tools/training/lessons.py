"""Prepares training data: which text is held out, the batches of the rest, and the labels of each step of the chains."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from engine.drafters.lookup import Lookup
from engine.models.block_config import BlockConfig
from engine.models.head_model import HeadConfig
from engine.tools.training import features
from engine.tools.training.features import Example
from engine.values.errors import DraftlightError

HELD_OUT_SHARE = 0.04
SHARPNESS = 1.25
"""Inverse of the labels' temperature, 0.8, which is the app's default."""
DECAY = 0.85
"""Factor of the weight of each further chain step: a step counts only if those before it were accepted."""
PROMPT_WEIGHT = 0.3
"""Weight of positions inside prompts, which are many and less similar to what will be drafted."""
MIN_COPY_LENGTH = 3
"""Tokens that must match before a copy counts."""
WINDOW = 256
"""Number of records that are sorted by length together: little padding, and batches still differ between epochs."""


@dataclass(frozen=True)
class Targets:
    """Labels of one step of the chains: rows that count (positions,), their weights, and labels (positions, LABELS)."""

    rows: mx.array
    weights: mx.array
    columns: mx.array
    labels: mx.array


def split(examples: Sequence[Example]) -> tuple[list[Example], list[Example]]:
    """Returns the examples to train on and the held-out ones. The split depends only on the text of prompts and documents: more
    text never moves an example to the other side, and all answers to a prompt are on one side.

    Raises:
        DraftlightError: there is too little text for both.
    """
    groups = {example.group for example in examples}
    require_several(groups)
    limit = max(HELD_OUT_SHARE * 2**32, min(groups) + 1)
    return [one for one in examples if one.group >= limit], [one for one in examples if one.group < limit]


def require_several(groups: Collection[int]) -> None:
    """Raises DraftlightError if there are too few different groups of text to hold some of them out."""
    if len(groups) < 2:
        raise DraftlightError(
            "There is too little text to hold some out for measuring. Give at least two different documents or chats."
        )


def common_opening(examples: Sequence[Example]) -> int:
    """Returns the number of tokens that all examples begin with: a system prompt, which is never drafted."""
    first = examples[0].tokens
    shared = len(first)
    for example in examples:
        shared = min(shared, len(example.tokens))
        differs = np.flatnonzero(first[:shared] != example.tokens[:shared])
        shared = int(differs[0]) if len(differs) else shared
    return shared


def copied_right(tokens: np.ndarray) -> np.ndarray:
    """Returns (length,) bool: which tokens the n-gram drafter would copy correctly from the text so far. A head that runs
    beside that drafter gains nothing from learning them."""
    right = np.zeros(len(tokens), bool)
    lookup = Lookup()
    for position, token in enumerate(tokens.tolist()):
        length, start, _ = lookup.match()
        right[position] = length >= MIN_COPY_LENGTH and lookup.copied(start, 1)[0] == token
        lookup.extend((token,))
    return right


class Lessons:
    """Converts records to training arrays.

    Args:
        target_ids: (vocabulary,) of the head. embedding: the target's, ids to vectors.
        copied: weight of tokens that a copy predicts correctly.

    Attributes:
        first: position of each record's first chain, which predicts the second token after it; what all records begin with is not
            learned.
        column: by target id, the head's column; -1 if it has none.
    """

    def __init__(
        self, config: HeadConfig | BlockConfig, target_ids: np.ndarray, embedding: Any, copied: float, first: int
    ) -> None:
        self._config, self._embedding, self._copied, self.first = config, embedding, copied, first
        self._copies: dict[tuple[Path, int], np.ndarray] = {}
        self.column = np.full(config.vocab_size, -1, np.int32)
        self.column[target_ids] = np.arange(len(target_ids))

    def long_enough(self, examples: Sequence[Example], steps: int) -> list[Example]:
        """Returns the examples that have a position for every step of a chain."""
        return [one for one in examples if len(one) - 2 - (steps - 1) > self.first]

    def prepare(self, batch: Sequence[Example], steps: int) -> tuple[mx.array, mx.array, list[Targets]]:
        """Returns inputs and embeddings as `load` does, and the labels of each chain step, with weights that sum to 1."""
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
        """Returns features (batch, rows, taps x hidden), embeddings of the tokens from position 1 on (batch, rows + steps,
        hidden), and the labels of each example. No chain begins at the last two positions."""
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
        """Returns for a chain step: rows of the flattened batch that have a label, their weights, and the labels' ids and
        logs."""
        parts: list[tuple[np.ndarray, ...]] = []
        for number, (example, (ids, logs)) in enumerate(zip(batch, labels, strict=True)):
            start = self.first if prompts else max(self.first, example.prompt_length - 2 - step)
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
        """Returns `copied_right` of the record, computed once."""
        key = (example.folder, example.first)
        if key not in self._copies:
            self._copies[key] = copied_right(example.tokens)
        return self._copies[key]


def shuffled(examples: Sequence[Example], batch_tokens: int, generator: np.random.Generator) -> list[list[Example]]:
    """Returns every example once, in batches of at most `batch_tokens` padded tokens (or one record)."""
    order = generator.permutation(len(examples))
    batches: list[list[Example]] = []
    for start in range(0, len(order), WINDOW):
        window = sorted((examples[index] for index in order[start : start + WINDOW]), key=len)
        batches += groups(window, batch_tokens)
    return [batches[index] for index in generator.permutation(len(batches))]


def groups(by_length: Sequence[Example], batch_tokens: int) -> list[list[Example]]:
    """Returns batches of consecutive records, each of at most `batch_tokens` padded tokens or of one record.

    Args:
        by_length: shortest first, so that the last record of a batch determines the padded length.
    """
    groups: list[list[Example]] = []
    for example in by_length:
        if not groups or (len(groups[-1]) + 1) * len(example) > batch_tokens:
            groups.append([])
        groups[-1].append(example)
    return groups


def softmax(logits: np.ndarray) -> np.ndarray:
    """Returns the softmax over the last axis."""
    powers = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
