"""Request for training a drafter, its progress and its result, as plain values. Nothing here imports MLX."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Any, Literal, get_args

from engine.values.answers import SEED_LIMIT
from engine.values.errors import Limits, require, require_fields

Stage = Literal["text", "features", "train", "folder"]
STAGES: tuple[Stage, ...] = get_args(Stage)
Kind = Literal["head", "block"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""Stages and kinds, each in this order; `engine/tools/training/README.md` says what each stage reads and writes."""

DEFAULT_WRITE = 1_000_000
"""Number of answer tokens to write if no text is given: heads trained on less over-fit."""
DEFAULT_MINUTES = 60.0
SUFFIXES = (".txt", ".md", ".jsonl", ".npz")


def _whole(least: int, most: int | None = None) -> tuple[Callable[[Any], bool], str]:
    """Returns the limit of an integer that may be omitted."""

    def fits(value: object) -> bool:
        """Returns whether a value is None or lies between the limits."""
        return value is None or (isinstance(value, int) and value >= least and (most is None or value <= most))

    return fits, f"a whole number of at least {least}" + ("" if most is None else f" and at most {most}")


_LIMITS: Limits = {
    "write": _whole(0),
    "vocabulary": _whole(16),
    "steps_back": _whole(1, 16),
    "layers": _whole(1, 16),
    "block_size": _whole(1, 32),
    "anchors": _whole(1),
    "steps": _whole(1),
    "batch_tokens": _whole(64),
    "longest": _whole(32),
    "patience": _whole(0),
    "seed": _whole(0, SEED_LIMIT - 1),
    "minutes": (lambda minutes: minutes is None or (math.isfinite(minutes) and minutes > 0), "a number above 0"),
    "learning_rate": (lambda rate: math.isfinite(rate) and rate > 0, "above 0"),
    "variation": (lambda weight: math.isfinite(weight) and weight >= 0, "at least 0"),
    "copied": (lambda weight: 0 <= weight <= 1, "a number from 0 to 1"),
    "taps": (
        lambda taps: taps is None or (bool(taps) and min(taps) >= 0 and list(taps) == sorted(set(taps))),
        "distinct layer numbers from 0, in ascending order",
    ),
    "kind": (lambda kind: kind in KINDS, f"one of {', '.join(KINDS)}"),
    "stage": (lambda stage: stage is None or stage in STAGES, f"one of {', '.join(STAGES)}"),
}
"""Limits of `TrainRequest`."""


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """Request to train one draft head or block drafter. ValueError names an impossible field.

    Attributes:
        kind: head or block drafter.
        target: name or path that `engine.models.loading.load` accepts.
        output: the drafter folder to write.
        text: files and folders of training text, of the types in `SUFFIXES`.
        write: number of answer tokens that the target writes; None writes `DEFAULT_WRITE` if no text is given, else none.
        temperatures: of the written answers, alternating by batch; 0 is greedy.
        taps: target layers to read, counted from 0; None spreads three over its depth.
        vocabulary: tokens that the head can propose.
        steps_back: for a head, the number of steps whose own feature is fed back in training.
        layers, block_size, anchors, both_ways: for a block drafter, its layers, the slots of its block, the blocks that are laid
            on each record in a step, and whether slots see those after them.
        minutes, steps: duration of the training, one or the other; both None is `DEFAULT_MINUTES`. Minutes count training alone.
        learning_rate: the highest learning rate; it then falls linearly.
        variation: weight of the total variation in the loss, next to the cross-entropy.
        copied: weight of tokens that copying what followed an earlier occurrence of the same words would have predicted.
        batch_tokens: padded tokens of one step, which limits the memory.
        longest: maximum length of a record in tokens; longer ones are cut.
        patience: early stopping: number of measurements without an improvement, in the second half; 0 never stops early.
        start: a head of the same target and taps to start from (it becomes a block drafter's first slot), or None.
        work: folder of text, features and checkpoints; None is the output's name with `.work`.
        stage: the only stage to run; None runs all four.
        command: the command line, for the model card.
    """

    output: Path
    kind: Kind = "head"
    target: str = "builtin"
    text: tuple[Path, ...] = ()
    write: int | None = None
    temperatures: tuple[float, ...] = (0.0, 0.8)
    taps: tuple[int, ...] | None = None
    vocabulary: int = 8192
    steps_back: int = 3
    layers: int = 2
    block_size: int = 6
    anchors: int = 32
    both_ways: bool = False
    minutes: float | None = None
    steps: int | None = None
    learning_rate: float = 5e-4
    variation: float = 0.5
    copied: float = 1.0
    batch_tokens: int = 2048
    longest: int = 1024
    patience: int = 5
    start: Path | None = None
    seed: int = 0
    work: Path | None = None
    stage: Stage | None = None
    command: str = ""

    def __post_init__(self) -> None:
        require_fields(self, _LIMITS, "-")
        require(bool(self.temperatures), "temperature", "at least one number", self.temperatures)
        for temperature in self.temperatures:
            require(math.isfinite(temperature) and temperature >= 0, "temperature", "numbers of at least 0", temperature)
        require(self.minutes is None or self.steps is None, "minutes", "omitted when steps is given", self.minutes)

    @property
    def work_folder(self) -> Path:
        """Folder of text, features and checkpoints: `work`, or beside the output, with `.work` added to its name."""
        return self.output.with_name(self.output.name + ".work") if self.work is None else self.work

    @property
    def tokens_to_write(self) -> int:
        """Number of answer tokens that the target writes: `write`, or its default."""
        if self.write is not None:
            return self.write
        return 0 if self.text else DEFAULT_WRITE

    @property
    def minutes_to_train(self) -> float | None:
        """Duration of the training in minutes; None if steps are counted."""
        return None if self.steps is not None else self.minutes or DEFAULT_MINUTES


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Quality of a drafter on text that it was not trained on, by position in the draft, the first one first.

    Attributes:
        step: number of training steps so far.
        agreement: share of positions where drafter and target have the same likeliest token: acceptance at temperature 0.
        overlap: mean sum of min(p, q), both at temperature 0.8: acceptance under rejection there.
        positions: number of measurements at the first position.
    """

    step: int
    agreement: tuple[float, ...]
    overlap: tuple[float, ...]
    positions: int

    @property
    def score(self) -> float:
        """Criterion for the best weights: expected accepted tokens of a round, mean of both temperatures."""
        return (_accepted(self.agreement) + self.overlapping) / 2

    @property
    def overlapping(self) -> float:
        """Expected accepted tokens of a round at temperature 0.8."""
        return _accepted(self.overlap)


@dataclass(frozen=True, slots=True)
class Trained:
    """Result of a training: the folder, if that stage was run, and the newest measurement of its weights, if there is one."""

    output: Path | None
    held_out: HeldOut | None


def _accepted(chances: tuple[float, ...]) -> float:
    """Returns the expected number of accepted proposals of a chain, each position independent of the ones before."""
    return sum(accumulate(chances, mul))
