"""What a training of a draft head is asked for and what it tells meanwhile, as plain values. Nothing here imports MLX."""

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
"""In this order; `engine/tools/training/README.md` says what each reads and writes."""

DEFAULT_WRITE = 1_000_000
"""Answer tokens to write where no text is given: heads trained on less over-fit."""
DEFAULT_MINUTES = 60.0
SUFFIXES = (".txt", ".md", ".jsonl", ".npz")


def _whole(least: int, most: int | None = None) -> tuple[Callable[[Any], bool], str]:
    """The limits of a whole number that may be left out."""

    def fits(value: object) -> bool:
        """Whether it lies between them."""
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
"""Of `TrainRequest`."""


@dataclass(frozen=True, slots=True)
class TrainRequest:
    """One draft head or block drafter to train. ValueError names an impossible field.

    Attributes:
        kind: which of the two.
        target: as `engine.models.loading.load` knows it.
        output: the drafter folder to write.
        text: files and folders of text to learn from, of the kinds in `SUFFIXES`.
        write: answer tokens that the target writes itself; None writes `DEFAULT_WRITE` where no text is given, else none.
        temperatures: of the written answers, taken in turn batch by batch; 0 is greedy.
        taps: target layers to read, counted from 0; None spreads three over its depth.
        vocabulary: tokens that the head can propose.
        steps_back: steps whose own feature is fed back in training; of a head.
        layers, block_size, anchors, both_ways: of a block drafter: its layers, the slots of its block, the blocks that are laid
            on each record in a step, and whether slots see those after them.
        minutes, steps: how long to train, one or the other; both None is `DEFAULT_MINUTES`. Minutes count training alone.
        learning_rate: the highest; it then falls linearly.
        variation: weight of the total variation beside the cross-entropy.
        copied: weight of tokens that a copy of what followed the same words before would have got right.
        batch_tokens: padded tokens of one step, which bounds the memory.
        longest: records are cut to this many tokens.
        patience: measurements without a better one, in the second half, after which training stops early; 0 never does.
        start: a head of the same target and taps to go on from (a block drafter's first slot is its first step), or None.
        work: where text, features and checkpoints lie; None is the output's name with `.work`.
        stage: run this one alone; None runs all four.
        command: as it was given, for the card.
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
        """Where text, features and checkpoints lie: `work`, or beside the output, with `.work` added to its name."""
        return self.output.with_name(self.output.name + ".work") if self.work is None else self.work

    @property
    def tokens_to_write(self) -> int:
        """Answer tokens that the target writes itself: `write`, or what its default means here."""
        if self.write is not None:
            return self.write
        return 0 if self.text else DEFAULT_WRITE

    @property
    def minutes_to_train(self) -> float | None:
        """None where steps are counted."""
        return None if self.steps is not None else self.minutes or DEFAULT_MINUTES


@dataclass(frozen=True, slots=True)
class HeldOut:
    """How well a drafter meets its target on text that it was not trained on, by position of the draft, the first one first.

    Attributes:
        step: training steps behind it.
        agreement: share of positions where both have the same likeliest token: acceptance at temperature 0.
        overlap: mean sum of min(p, q), both at temperature 0.8: acceptance under rejection there.
        positions: how many were measured at the first.
    """

    step: int
    agreement: tuple[float, ...]
    overlap: tuple[float, ...]
    positions: int

    @property
    def score(self) -> float:
        """What decides which weights are the best: expected accepted tokens of a round, the mean of both temperatures."""
        return (_accepted(self.agreement) + self.overlapping) / 2

    @property
    def overlapping(self) -> float:
        """Expected accepted tokens of a round at temperature 0.8."""
        return _accepted(self.overlap)


@dataclass(frozen=True, slots=True)
class Trained:
    """What a command made: the folder, if that stage was run, and the newest measurement of its weights, if there is one."""

    output: Path | None
    held_out: HeldOut | None


def _accepted(chances: tuple[float, ...]) -> float:
    """How many proposals of a chain are accepted in expectation, each position independent of the ones before."""
    return sum(accumulate(chances, mul))
