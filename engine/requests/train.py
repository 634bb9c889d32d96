"""What a training of a draft head is asked for and what it tells meanwhile, as plain values. Nothing here imports MLX."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Literal, get_args

from engine.errors import require
from engine.values import SEED_LIMIT

Stage = Literal["text", "features", "train", "folder"]
STAGES: tuple[Stage, ...] = get_args(Stage)
Kind = Literal["head", "block"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""In this order; `engine/training/README.md` says what each reads and writes."""

DEFAULT_WRITE = 1_000_000
"""Answer tokens to write where no text is given: heads trained on less over-fit."""
DEFAULT_MINUTES = 60.0
SUFFIXES = (".txt", ".md", ".jsonl", ".npz")


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
        _whole("write", self.write, 0)
        _whole("vocabulary", self.vocabulary, 16)
        _whole("steps-back", self.steps_back, 1, 16)
        _whole("layers", self.layers, 1, 16)
        _whole("block-size", self.block_size, 1, 32)
        _whole("anchors", self.anchors, 1)
        _whole("steps", self.steps, 1)
        _whole("batch-tokens", self.batch_tokens, 64)
        _whole("longest", self.longest, 32)
        _whole("patience", self.patience, 0)
        _whole("seed", self.seed, 0, SEED_LIMIT - 1)
        require(bool(self.temperatures), "temperature", "at least one number", self.temperatures)
        for temperature in self.temperatures:
            require(math.isfinite(temperature) and temperature >= 0, "temperature", "numbers of at least 0", temperature)
        if self.minutes is not None:
            require(math.isfinite(self.minutes) and self.minutes > 0, "minutes", "a number above 0", self.minutes)
            require(self.steps is None, "minutes", "omitted when steps is given", self.minutes)
        require(math.isfinite(self.learning_rate) and self.learning_rate > 0, "learning-rate", "above 0", self.learning_rate)
        require(math.isfinite(self.variation) and self.variation >= 0, "variation", "at least 0", self.variation)
        require(0 <= self.copied <= 1, "copied", "a number from 0 to 1", self.copied)
        if self.taps is not None:
            orderly = bool(self.taps) and min(self.taps) >= 0 and list(self.taps) == sorted(set(self.taps))
            require(orderly, "taps", "distinct layer numbers from 0, in ascending order", self.taps)
        require(self.kind in KINDS, "kind", f"one of {', '.join(KINDS)}", self.kind)
        require(self.stage is None or self.stage in STAGES, "stage", f"one of {', '.join(STAGES)}", self.stage)

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


def _whole(name: str, value: int | None, least: int, most: int | None = None) -> None:
    fits = value is None or (isinstance(value, int) and value >= least and (most is None or value <= most))
    upper = "" if most is None else f" and at most {most}"
    require(fits, name, f"a whole number of at least {least}{upper}", value)
