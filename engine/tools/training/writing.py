"""Stage 1 of a training: the target writes text for itself, many answers in parallel.

First it writes user turns that begin with a few given words. Then it answers them, and tasks made from its earlier answers
(`engine.tools.training.prompts`). Temperatures alternate from batch to batch. Every prompt and every draw is determined by the
seed and the files already in the folder, so an interrupted command can resume. The state of an unfinished batch is saved every
`SAVE_INTERVAL` seconds.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from engine.files.whole_file import write_whole
from engine.models.loaded import LoadedModel
from engine.target.prompt_cache import make_prompt_cache
from engine.tools.training import prompts as tasks
from engine.tools.training import texts
from engine.tools.training.reading import Reader
from engine.values.errors import DraftlightError
from engine.values.wording import amount

TURN_TOKENS, TURN_TEMPERATURE = 64, 0.9
ANSWER_TOKENS = 256
TURNS_PER_TOKEN = 1 / 400
"""User turns per answer token: approximately what the share of chats needs."""
ROUND = 128
"""Prompts that are made and sorted by length together."""
MAX_ROWS = 64
CACHE_BYTES = 1_000_000_000
"""Maximum bytes of a batch's caches; long prompts are answered in smaller batches."""
SAVE_INTERVAL = 20.0
_STATE_FILE = "current.json"

Tick = Callable[[str, int], None]


@dataclass
class _Batch:
    """Texts in progress. `kind`: questions or answers; `tokens`: of each row so far; `ended`: which rows are done."""

    name: str
    kind: str
    prompts: list[list[int]]
    temperature: float
    limit: int
    ends: frozenset[int]
    seed: str
    tokens: list[list[int]]
    ended: list[bool]


class SelfplayWriter:
    """Writes text into one folder.

    Args:
        longest: maximum tokens of a record.
        tick: called after every step with what is being written (questions or answers) and the answer tokens so far; may raise
            to interrupt.
    """

    def __init__(
        self,
        target: LoadedModel,
        reader: Reader,
        folder: Path,
        longest: int,
        temperatures: Sequence[float],
        seed: int,
        tick: Tick,
    ) -> None:
        self._target, self._reader, self._folder = target, reader, folder
        self._longest, self._temperatures, self._seed, self._tick = longest, tuple(temperatures), seed, tick
        self._answer = min(ANSWER_TOKENS, longest // 2)
        self._token_bytes = cache_bytes(target.model)
        self._material = tasks.PromptMaterial()
        self._tokens = 0

    def write(self, wanted: int) -> int:
        """Writes until there are `wanted` answer tokens; returns their number.

        Raises:
            DraftlightError: the target cannot hold a conversation, or ends every answer at once.
        """
        self._write_turns(max(8, round(wanted * TURNS_PER_TOKEN)))
        number = 0
        while self._tokens < wanted:
            before = self._tokens
            for batch in self._round(number, wanted - before):
                path = self._folder / f"{batch.name}.npz"
                if not path.exists():
                    if self._tokens >= wanted:
                        break
                    self._finish(batch)
                    texts.save(path, self._records(batch))
                    self._delete_state()
                self._count_and_learn(path)
            if self._tokens == before:
                raise DraftlightError(f"{self._target.name} ends its answers immediately, so it cannot write text. Use --text.")
            number += 1
        return self._tokens

    def _write_turns(self, wanted: int) -> None:
        number = 0
        while len(self._material.turns) < wanted:
            path = self._folder / f"turns-{number:05}.json"
            if not path.exists():
                rng = random.Random(f"{self._seed} turns {number}")
                chosen = [rng.choice(tasks.STARTS) for _ in range(MAX_ROWS)]
                prompts, ends = tasks.turn_prompts(self._target.tokenizer, chosen)
                batch = self._batch(path.stem, "questions", prompts, TURN_TEMPERATURE, TURN_TOKENS, ends)
                self._finish(batch)
                decode = self._target.tokenizer.decode
                written = zip(chosen, batch.tokens, strict=True)
                whole = [start + decode(_without(tokens, ends)) for start, tokens in written if tokens[-1] in ends]
                write_whole(path, json.dumps([turn.strip() for turn in whole], ensure_ascii=False, indent=0) + "\n")
                self._delete_state()
            self._material.turns += json.loads(path.read_text(encoding="utf-8"))
            number += 1
            if number >= 3 and not self._material.turns:
                raise DraftlightError(
                    f"{self._target.name} never finishes a question of its own, so it cannot write text. Use --text."
                )

    def _round(self, number: int, missing: int) -> Iterator[_Batch]:
        """Yields batches of similar length, which depend only on text from earlier rounds. Near the end, there are only as many
        prompts as the missing answer tokens probably need."""
        rng = random.Random(f"{self._seed} round {number}")
        max_prompt = self._longest - self._answer
        prompts_ = [
            self._target.tokenizer.apply_chat_template([{"role": "user", "content": turn}], add_generation_prompt=True)
            for turn in tasks.prompts(rng, self._material, min(ROUND, 4 + missing // (self._answer // 2)))
        ]
        fitting = sorted((prompt for prompt in prompts_ if len(prompt) <= max_prompt), key=len)
        if not fitting:
            raise DraftlightError(f"No prompt fits into {amount(max_prompt, 'token')}. Increase --longest.")
        groups: list[list[list[int]]] = []
        while fitting:
            # Prompts are sorted, so the last one of a group is its longest.
            size = next(size for size in range(min(MAX_ROWS, len(fitting)), 0, -1) if self._fits(fitting[size - 1], size))
            groups.append(fitting[:size])
            fitting = fitting[size:]
        temperatures = self._temperatures
        for index, group in enumerate(groups):
            temperature = temperatures[(number + index) % len(temperatures)]
            name = f"{texts.WRITTEN}-{number:05}-{index:03}"
            yield self._batch(name, "answers", group, temperature, self._answer, self._target.eos_ids)

    def _fits(self, longest_prompt: Sequence[int], rows: int) -> bool:
        return rows == 1 or rows * (len(longest_prompt) + self._answer) * self._token_bytes <= CACHE_BYTES

    def _batch(
        self, name: str, kind: str, prompts: list[list[int]], temperature: float, limit: int, ends: frozenset[int]
    ) -> _Batch:
        """Returns the batch in its saved state, or at its beginning if none was saved."""
        begun: list[list[int]] = [[] for _ in prompts]
        seed = f"{self._seed} {name}"
        batch = _Batch(name, kind, prompts, temperature, limit, ends, seed, begun, [False] * len(prompts))
        path = self._folder / _STATE_FILE
        if path.exists():
            saved: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if saved["name"] == name and saved["prompts"] == prompts:
                batch.tokens, batch.ended = saved["tokens"], saved["ended"]
        return batch

    def _finish(self, batch: _Batch) -> None:
        """Writes until every row has ended."""
        count = len(batch.prompts)
        uniforms = np.random.default_rng(list(batch.seed.encode())).random((batch.limit, count))
        rows = np.flatnonzero(~np.array(batch.ended))
        step = max((len(batch.tokens[row]) for row in rows), default=0)
        if not len(rows):
            return
        side = self._reader.begin([[*batch.prompts[row], *batch.tokens[row]] for row in rows])
        newest = np.array([[*batch.prompts[row], *batch.tokens[row]][-1] for row in rows])
        saved = time.monotonic()
        while len(rows):
            newest = side.draw(newest, uniforms[step][rows], batch.temperature)
            step += 1
            for row, token in zip(rows, newest.tolist(), strict=True):
                batch.tokens[row].append(token)
                batch.ended[row] = token in batch.ends or step >= batch.limit
            self._report_progress(batch)
            open_ = np.flatnonzero([not batch.ended[row] for row in rows])
            if len(open_) < len(rows):
                rows, newest = rows[open_], newest[open_]
                if len(rows):
                    side.keep(open_)
            if time.monotonic() - saved > SAVE_INTERVAL:
                self._save_state(batch)
                saved = time.monotonic()

    def _report_progress(self, batch: _Batch) -> None:
        """Reports progress. Saves the state of the batch if the callback raises."""
        try:
            self._tick(batch.kind, self._tokens + (sum(map(len, batch.tokens)) if batch.kind == "answers" else 0))
        except Exception:
            self._save_state(batch)
            raise

    def _save_state(self, batch: _Batch) -> None:
        state = {"name": batch.name, "prompts": batch.prompts, "tokens": batch.tokens, "ended": batch.ended}
        write_whole(self._folder / _STATE_FILE, json.dumps(state))

    def _delete_state(self) -> None:
        (self._folder / _STATE_FILE).unlink(missing_ok=True)

    def _records(self, batch: _Batch) -> list[texts.TextRecord]:
        return [
            texts.TextRecord(np.array([*prompt, *tokens], np.uint32), len(prompt), texts.group_of(prompt), batch.temperature)
            for prompt, tokens in zip(batch.prompts, batch.tokens, strict=True)
        ]

    def _count_and_learn(self, path: Path) -> None:
        """Counts a file's answer tokens and uses its answers as material for later rounds."""
        for record in texts.load(path):
            answer = record.tokens[record.prompt_length :].tolist()
            self._tokens += len(answer)
            self._material.add(self._target.tokenizer.decode(_without(answer, self._target.eos_ids)))


def cache_bytes(model: Any) -> int:
    """Returns the bytes of cache per token, from the shapes of a pass that is never evaluated."""
    cache: list[Any] = make_prompt_cache(model)
    model(mx.array([[0]]), cache=cache)
    arrays = [part for layer in cache for part in (layer.keys, layer.values) if part is not None]
    return sum(part.shape[1] * part.shape[3] * part.dtype.size for part in arrays)


def _without(tokens: Sequence[int], ends: frozenset[int]) -> Sequence[int]:
    """Returns the tokens without a final end token."""
    return tokens[:-1] if tokens and tokens[-1] in ends else tokens
