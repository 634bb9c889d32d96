"""The options of `draftlight train-drafter`, and the request they produce."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path

from app.cli import shared_options
from app.cli.option import Entries, Group, OneOf, Option, option
from app.cli.shared_options import ANYWAY, comma_separated, request_of
from engine.values.requests.train import DEFAULT_MINUTES, DEFAULT_WRITE, KINDS, STAGES, SUFFIXES, TrainRequest

HELP = "train a draft head or a block drafter for your model"
DESCRIPTION = (
    "Train a small draft head or block drafter for one target from that target's own features, in four stages: the target writes "
    "training text (or --text is read), its features for that text are stored on disk, the drafter is trained and measured on "
    "held-out text, and a folder for --drafter is written. After an interruption, run the same command again to continue."
)
_DEFAULT = TrainRequest.__dataclass_fields__


def _number(name: str, meaning: str, kind: Callable[[str], float] = int, metavar: str | None = "N") -> Option:
    """Returns a numeric option named like the field of `TrainRequest` that provides its default."""
    default = _DEFAULT[name].default
    words = f"{meaning} (default: %(default)s)"
    return option(f"--{name.replace('_', '-')}", metavar=metavar, type=kind, default=default, help=words)


_TEXT = (
    option(
        "--text", metavar="PATH", type=Path, nargs="+", default=(), help=f"files or folders to train on: {', '.join(SUFFIXES)}"
    ),
    option(
        "--write",
        metavar="TOKENS",
        type=int,
        help=f"answer tokens that the target writes as training text (default: {DEFAULT_WRITE:,} without --text, else none)",
    ),
    option(
        "--temperature",
        dest="temperatures",
        metavar="X,Y",
        type=comma_separated(float, "numbers"),
        default="0,0.8",
        help="used in turn for the written text; 0 takes the most likely token (default: %(default)s)",
    ),
    _number("longest", "maximum tokens per record; longer ones are cut"),
)
_DRAFTER = (
    option(
        "--taps",
        metavar="A,B,C",
        type=comma_separated(int, "whole numbers"),
        help="layers to read, counted from 0 (default: one third and two thirds of the way up, and the last but one)",
    ),
    _number("vocabulary", "number of tokens the drafter can propose"),
    option(
        "--start",
        metavar="FOLDER",
        type=Path,
        help="continue this head, or a published EAGLE-3 head, keeping its layers and vocabulary; a block drafter begins with "
        "its first step",
    ),
)
_BLOCK = (
    _number("layers", "layers"),
    _number("block_size", "tokens that a block proposes at most"),
    _number("anchors", "blocks laid on each record in a step"),
    option("--both-ways", action="store_true", help="bidirectional attention within a block"),
)
_TRAINING = (
    OneOf(
        (
            option("--minutes", type=float, help=f"minutes to train (default: {DEFAULT_MINUTES:g})"),
            option("--steps", type=int, help="train for this many steps instead"),
        )
    ),
    _number("steps_back", "heads only: training steps on the head's own features"),
    _number("learning_rate", "peak learning rate", float, None),
    _number("variation", "weight of the total variation in the loss", float, None),
    _number("copied", "weight of tokens that the n-gram drafter would get right; below 1 if it drafts too", float, "WEIGHT"),
    _number("batch_tokens", "tokens per training step; more tokens need more memory"),
    _number("patience", "in the second half, stop after this many measurements without improvement; 0 never stops early"),
    _number("seed", "random seed"),
)


def options() -> Entries:
    """Returns the options, without the command they belong to."""
    return (
        shared_options.target(),
        ANYWAY,
        option("--output", metavar="FOLDER", type=Path, required=True, help="folder for the trained drafter"),
        option("--kind", choices=KINDS, default="head", help="what to train (default: %(default)s)"),
        Group("text", _TEXT),
        Group("drafter", _DRAFTER),
        Group("block drafter", _BLOCK),
        Group("training", _TRAINING),
        option(
            "--work",
            metavar="FOLDER",
            type=Path,
            help="folder for text, features and checkpoints (default: the --output name with .work)",
        ),
        option("--stage", choices=STAGES, help="run only this stage"),
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the command with its options."""
    from app.cli.train import train

    command = shlex.join(["draftlight", *arguments.words])
    return train(request_of(TrainRequest, arguments, text=tuple(arguments.text), command=command), anyway=arguments.anyway)
