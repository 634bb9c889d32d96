"""`draftlight train-drafter`: trains a draft head on the engine thread, and shows progress and quality."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from app.cli.engine_run import run_task
from app.cli.output import ProgressBar
from app.cli.shared_options import INTERRUPTED, add_anyway, add_target, comma_separated, request_of
from engine.types import Event, TaskFailed, TrainingFinished, TrainingMeasured, TrainingTold
from engine.values.errors import DraftlightError
from engine.values.requests.train import DEFAULT_MINUTES, DEFAULT_WRITE, KINDS, STAGES, SUFFIXES, HeldOut, TrainRequest
from engine.values.wording import amount

HELP = "train a draft head or a block drafter for your model"
DESCRIPTION = (
    "Train a small draft head or block drafter for one target from that target's own features, in four stages: the target writes "
    "training text (or --text is read), its features for that text are stored on disk, the drafter is trained and measured on "
    "held-out text, and a folder for --drafter is written. After an interruption, run the same command again to continue."
)
_CLOSE_TIMEOUT = 60.0
"""Seconds that closing may take: for a step in progress and a checkpoint."""


def _add_number(
    group: argparse._ArgumentGroup, name: str, meaning: str, kind: Callable[[str], float] = int, metavar: str | None = "N"
) -> None:
    """Adds a numeric option named like the field of `TrainRequest` that provides its default."""
    words = f"{meaning} (default: %(default)s)"
    default = TrainRequest.__dataclass_fields__[name].default
    group.add_argument(f"--{name.replace('_', '-')}", metavar=metavar, type=kind, default=default, help=words)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options to the command's parser."""
    add_target(parser)
    add_anyway(parser)
    parser.add_argument("--output", metavar="FOLDER", type=Path, required=True, help="folder for the trained drafter")
    parser.add_argument("--kind", choices=KINDS, default="head", help="what to train (default: %(default)s)")

    text = parser.add_argument_group("text")
    text.add_argument(
        "--text", metavar="PATH", type=Path, nargs="+", default=(), help=f"files or folders to train on: {', '.join(SUFFIXES)}"
    )
    text.add_argument(
        "--write",
        metavar="TOKENS",
        type=int,
        help=f"answer tokens that the target writes as training text (default: {DEFAULT_WRITE:,} without --text, else none)",
    )
    text.add_argument(
        "--temperature",
        dest="temperatures",
        metavar="X,Y",
        type=comma_separated(float, "numbers"),
        default="0,0.8",
        help="used in turn for the written text; 0 takes the most likely token (default: %(default)s)",
    )
    _add_number(text, "longest", "maximum tokens per record; longer ones are cut")

    drafter = parser.add_argument_group("drafter")
    drafter.add_argument(
        "--taps",
        metavar="A,B,C",
        type=comma_separated(int, "whole numbers"),
        help="layers to read, counted from 0 (default: one third and two thirds of the way up, and the last but one)",
    )
    _add_number(drafter, "vocabulary", "number of tokens the drafter can propose")
    drafter.add_argument(
        "--start",
        metavar="FOLDER",
        type=Path,
        help="continue this head, or a published EAGLE-3 head, keeping its layers and vocabulary; a block drafter begins with "
        "its first step",
    )

    block = parser.add_argument_group("block drafter")
    _add_number(block, "layers", "layers")
    _add_number(block, "block_size", "tokens that a block proposes at most")
    _add_number(block, "anchors", "blocks laid on each record in a step")
    block.add_argument("--both-ways", action="store_true", help="bidirectional attention within a block")

    training = parser.add_argument_group("training")
    end = training.add_mutually_exclusive_group()
    end.add_argument("--minutes", type=float, help=f"minutes to train (default: {DEFAULT_MINUTES:g})")
    end.add_argument("--steps", type=int, help="train for this many steps instead")
    _add_number(training, "steps_back", "heads only: training steps on the head's own features")
    _add_number(training, "learning_rate", "peak learning rate", float, None)
    _add_number(training, "variation", "weight of the total variation in the loss", float, None)
    copied = "weight of tokens that the n-gram drafter would get right; below 1 if it drafts too"
    _add_number(training, "copied", copied, float, "WEIGHT")
    _add_number(training, "batch_tokens", "tokens per training step; more tokens need more memory")
    patience = "in the second half, stop after this many measurements without improvement; 0 never stops early"
    _add_number(training, "patience", patience)
    _add_number(training, "seed", "random seed")

    parser.add_argument(
        "--work",
        metavar="FOLDER",
        type=Path,
        help="folder for text, features and checkpoints (default: the --output name with .work)",
    )
    parser.add_argument("--stage", choices=STAGES, help="run only this stage")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command with its options."""
    command = shlex.join(["draftlight", *arguments.words])
    return train(request_of(TrainRequest, arguments, text=tuple(arguments.text), command=command), anyway=arguments.anyway)


def train(request: TrainRequest, *, anyway: bool = False) -> int:
    """Trains and reports the result; returns the exit status: 0, or 130 after an interruption.

    Raises:
        DraftlightError: the training could not continue.
    """

    def handle(event: Event, progress: ProgressBar) -> None:
        """Prints the messages of the training and its measurements on held-out text; ignores other events."""
        match event:
            case TrainingTold(_, line):
                progress.print_line(line)
            case TrainingMeasured(_, held_out):
                progress.print_line(measured_line(held_out))

    end = run_task(
        lambda engine: engine.perform(request),
        TrainingFinished,
        anyway=anyway,
        on_event=handle,
        stop_message="stopping after this step",
        close_timeout=_CLOSE_TIMEOUT,
    )
    if isinstance(end, TaskFailed):
        raise DraftlightError(end.message)
    if end.trained is None:
        print(f"draftlight: stopped; run the same command again to continue from {request.work_folder}", file=sys.stderr)
        return INTERRUPTED
    if end.trained.held_out is not None:
        print(render(end.trained.held_out))
    if end.trained.output is not None:
        print(f"written to {end.trained.output}")
    return 0


def measured_line(held_out: HeldOut) -> str:
    """Returns a measurement in one line."""
    agreement = " ".join(f"{value:.3f}" for value in held_out.agreement)
    overlap = " ".join(f"{value:.3f}" for value in held_out.overlap)
    return f"step {held_out.step:,}, held-out text by draft position: agreement {agreement}, overlap {overlap}"


def render(held_out: HeldOut) -> str:
    """Returns a measurement as a table."""
    lines = [
        f"Acceptance on held-out text, step {held_out.step:,}, {amount(held_out.positions, 'position')}",
        "draft position            " + "".join(f"{position:>8}" for position in range(1, len(held_out.agreement) + 1)),
        "agreement, temperature 0  " + "".join(f"{value:8.3f}" for value in held_out.agreement),
        "sum min(p, q), at 0.8     " + "".join(f"{value:8.3f}" for value in held_out.overlap),
    ]
    return "\n".join(lines)
