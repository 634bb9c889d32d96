"""Builds drafters with published heads (MTP, EAGLE-3): checks how a head's files are to be read, by a probe on a text that the
target writes, and reads them that way.

What the files do not say for certain (`engine.models.state_head.StateHead.readings`) changes no text, only how much of a draft is
accepted. So every reading predicts the same tokens of the target's own answer to a fixed question, teacher-forced. The declared
reading stays unless another one predicts them better by more than three standard errors of the difference, and better than a
guess among all tokens by as much: of a head that knows nothing of its target, the least certain reading would win. The verdict
is kept by the digests of head and target, so that later loads need no probe.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import KVCache

from engine.drafters.alignment import log_chances, written_by
from engine.drafters.feature_head import loaded_head
from engine.drafters.loaded import LoadedDrafter
from engine.files.foreign import number, object_in, table, text
from engine.files.paths import data_folder
from engine.files.whole_file import NotWritten, write_whole
from engine.models.eagle3_model import load_eagle3
from engine.models.loaded import LoadedModel
from engine.models.mtp_model import load_mtp
from engine.models.state_head import JOINED, StateHead
from engine.target.layer_taps import tap
from engine.values.drafter_kinds import MTP
from engine.values.wording import amount

ROWS = 64
"""Number of tokens that each reading predicts."""
ERRORS = 3.0
"""Standard errors of the mean difference by which another reading must be better."""
FAVOURED = 1.0
"""The same for the one reading that the values in the file speak for (`StateHead.favoured`)."""
LEAST_RIGHT = 0.1
"""Share of right first drafts below which the user is warned: a head of another fine-tune, or one that is read in a wrong way
that the probe does not try."""


@dataclass(frozen=True)
class Verdict:
    """Result of a probe, in mean log-probabilities (nats) of the target's tokens.

    Attributes:
        words: what distinguishes the chosen reading; empty for the declared one.
        chain_words: the same for what a chain continues from.
        declared, chosen: mean of the declared reading, and of the chosen one.
        other: the highest mean of the readings that were not chosen; 0 if there was no other.
        error: standard error of their difference; 0 if they are the same.
        right: share of first drafts that are the target's token, as chosen.
    """

    words: str
    chain_words: str
    declared: float
    chosen: float
    other: float
    error: float
    right: float
    rows: int

    @property
    def warning(self) -> str:
        """Returns what the user should know, in numbers; empty if the head is read as declared and predicts the target."""
        if self.words or self.chain_words:
            how = JOINED.join(part for part in (self.words, self.chain_words) if part)
            gain = (
                f" (log-probability {self.chosen:.2f} instead of {self.declared:.2f} a token, difference "
                f"{self.chosen - self.declared:.2f} ± {self.error:.2f})"
                if self.words
                else ""
            )
            tokens = amount(self.rows, "token")
            return (
                f"The files of this head do not read as they state: it predicts {tokens} of the target's own text better "
                f"if {how}{gain}. It is used that way; the first draft is right {self.right:.0%} of the time."
            )
        if self.right < LEAST_RIGHT:
            return (
                f"This head predicts {self.right:.0%} of {amount(self.rows, 'token')} of the target's own text (log-probability "
                f"{self.declared:.2f} a token). It was probably made for another model; the text stays right, but few "
                "proposals will be accepted."
            )
        return ""

    @property
    def words_of_result(self) -> str:
        """Returns the result in numbers, for the first time that a head is loaded."""
        others = f", read in another way at most {self.other:.2f}" if self.other else ""
        return (
            f"Tested on {amount(self.rows, 'token')} of the target's own text: its first draft is right {self.right:.0%} of the "
            f"time (log-probability {self.chosen:.2f} a token{others})."
        )


def build_mtp(name: str, target: LoadedModel, load: Callable[[], LoadedModel]) -> LoadedDrafter:
    """Loads an MTP head (see `engine.drafters.loaded.Build`): that of the folder `name`, or the model's own, which is where its
    weights are, also if it has an adapter."""
    head = load_mtp(target.weights if name == MTP else Path(name).expanduser(), target)
    return loaded_head(head, target, name, settle(head, target))


def build_eagle3(name: str, target: LoadedModel, load: Callable[[], LoadedModel]) -> LoadedDrafter:
    """Loads an EAGLE-3 head from the folder `name` (see `engine.drafters.loaded.Build`)."""
    head = load_eagle3(Path(name).expanduser(), target)
    return loaded_head(head, target, name, settle(head, target))


def settle(head: StateHead[Any], target: LoadedModel) -> str:
    """Chooses the reading of a head for a target, and returns what the user should know about it: the result when it is first
    tested, later only a warning."""
    head.require_target(target)
    key = f"{head.sha256}|{target.sha256}"
    verdict = _recorded(key)
    if verdict is None or not _apply(head, verdict):
        verdict = probe(head, target)
        _record(key, verdict)
        return verdict.warning or verdict.words_of_result
    return verdict.warning


def probe(head: StateHead[Any], target: LoadedModel, written: tuple[list[int], int] | None = None) -> Verdict:
    """Chooses the reading of a head by its predictions, and leaves the head with it.

    Args:
        written: a text of the target, and the index of the first token that it wrote; None lets it write one.
    """
    tokens, first = written_by(target, ROWS + 1) if written is None else written
    known = np.array(tokens)
    declared = head.reading
    states: dict[tuple[int, ...], mx.array] = {}

    def first_drafts(reading: Any) -> tuple[np.ndarray, float]:
        """Returns the log-probability of each token that the head drafts first, and the share of right ones."""
        logits = _predictions(head, target, tokens, reading, states)[first:-1]
        expected = known[first + 2 :]
        best = np.array(mx.argmax(logits, axis=-1))
        columns = np.array([-1 if (column := head.column_of(int(token))) is None else column for token in expected])
        return log_chances(logits, expected, head.column_of), float((best == columns).mean())

    own, right = first_drafts(declared)
    chosen, words, best, favoured = declared, "", own, head.favoured
    tried = {name: (reading, *first_drafts(reading)) for name, reading in head.readings().items()}
    for changes in sorted({_changes(name) for name in tried}):  # several changes only if they are better than fewer
        better = [
            name
            for name, (reading, scores, _) in tried.items()
            if _changes(name) == changes and _is_better(scores, best, target, FAVOURED if reading == favoured else ERRORS)
        ]
        if better:
            words = max(better, key=lambda name: float(tried[name][1].mean()))
            chosen, best, right = tried[words]
    error = _error(best - own) if words else 0.0
    head.read_as(chosen)
    chain_words = _settle_chain(head, target, tokens, first, states)
    others = [scores for scores in (own, *(scores for _, scores, _ in tried.values())) if scores is not best]
    other = max((float(scores.mean()) for scores in others), default=0.0)
    return Verdict(words, chain_words, float(own.mean()), float(best.mean()), other, error, right, len(own))


def _settle_chain(
    head: StateHead[Any], target: LoadedModel, tokens: list[int], first: int, states: dict[tuple[int, ...], mx.array]
) -> str:
    """Chooses by the second tokens of chains what these continue from; returns what distinguishes it, or an empty text."""
    if head.max_proposals < 2:
        return ""
    declared = head.reading
    own = _second_drafts(head, target, tokens, first, declared, states)
    for words, reading in head.chain_readings().items():
        if _is_better(_second_drafts(head, target, tokens, first, reading, states), own, target):
            head.read_as(reading)
            return words
    head.read_as(declared)
    return ""


def _changes(words: str) -> int:
    """Returns the number of changes that these words name."""
    return words.count(JOINED) + 1


def _error(values: np.ndarray) -> float:
    """Returns the standard error of the mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def _is_better(scores: np.ndarray, declared: np.ndarray, target: LoadedModel, errors: float = ERRORS) -> bool:
    """Returns whether some log-probabilities are better than the declared reading's by this many standard errors, and clearly
    better than a guess."""
    guess = scores + np.log(len(target.vocabulary))
    better = scores - declared
    return bool(better.mean() > errors * _error(better) and guess.mean() > ERRORS * _error(guess))


def _rows(
    head: StateHead[Any], target: LoadedModel, tokens: list[int], reading: Any, states: dict[tuple[int, ...], mx.array]
) -> tuple[mx.array, list[KVCache]]:
    """Returns the head's outputs for all rows of a text but the last token's, and its caches after them."""
    head.read_as(reading)
    taps = head.config.taps
    if taps not in states:
        tapped = tap(target.model, taps)
        target.model(mx.array([tokens]))
        states[taps] = tapped.take()
    caches = [KVCache() for _ in range(head.cache_count)]
    return head.advance(head.fuse(states[taps][:-1]), mx.array(tokens[1:]), caches), caches


def _predictions(
    head: StateHead[Any], target: LoadedModel, tokens: list[int], reading: Any, states: dict[tuple[int, ...], mx.array]
) -> mx.array:
    """Returns (tokens - 1, columns): row i predicts token i + 2."""
    return head.logits(_rows(head, target, tokens, reading, states)[0])


def _second_drafts(
    head: StateHead[Any],
    target: LoadedModel,
    tokens: list[int],
    first: int,
    reading: Any,
    states: dict[tuple[int, ...], mx.array],
) -> np.ndarray:
    """Returns the log-probability of each token that a chain drafts second, if the first one is the target's.

    The rows are taken from the last one back, so that each step may overwrite the rows of later ones in the caches.
    """
    outputs, caches = _rows(head, target, tokens, reading, states)
    logits = []
    for row in reversed(range(first, len(tokens) - 3)):
        for cache in caches:
            cache.trim(int(cache.offset) - (row + 1))
        logits.append(head.logits(head.advance(outputs[row : row + 1], mx.array(tokens[row + 2 : row + 3]), caches)))
    return log_chances(mx.concatenate(logits[::-1]), np.array(tokens)[first + 3 :], head.column_of)


# The record of verdicts


def _apply(head: StateHead[Any], verdict: Verdict) -> bool:
    """Reads a head as a verdict says; returns False if the head has no such reading."""
    for words, readings in ((verdict.words, head.readings), (verdict.chain_words, head.chain_readings)):
        if words:
            reading = readings().get(words)
            if reading is None:
                return False
            head.read_as(reading)
    return True


def _recorded(key: str) -> Verdict | None:
    found: Mapping[str, Any] = table(object_in(_record_path()).get(key))
    numbers = {name: number(found.get(name)) for name in ("declared", "chosen", "other", "error", "right", "rows")}
    if any(value is None for value in numbers.values()):
        return None
    return Verdict(text(found.get("words")), text(found.get("chain_words")), **numbers)  # type: ignore[arg-type]


def _record(key: str, verdict: Verdict) -> None:
    with contextlib.suppress(NotWritten):  # then the next load probes again
        write_whole(_record_path(), json.dumps(object_in(_record_path()) | {key: asdict(verdict)}, indent=1), durable=False)


def _record_path() -> Path:
    return data_folder() / "head_readings.json"
