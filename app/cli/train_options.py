"""The options of `draftlight train-drafter`, and the request they make."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from app.cli.shared_options import add_anyway, add_target, listed, request_of
from engine.requests.train import DEFAULT_MINUTES, DEFAULT_WRITE, KINDS, STAGES, SUFFIXES, TrainRequest

HELP = "train a draft head or a block drafter for your model"
DESCRIPTION = (
    "Train a small draft head or block drafter for one target from that target's own features, in four stages: the target writes "
    "training text (or --text is read), its features for that text are stored on disk, the drafter is trained and measured on "
    "held-out text, and a folder for --drafter is written. After an interruption, run the same command again to continue."
)
_DEFAULT = TrainRequest.__dataclass_fields__


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options, but for the command that they belong to."""
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
        type=listed(float, "numbers"),
        default="0,0.8",
        help="used in turn for the written text; 0 takes the most likely token (default: %(default)s)",
    )
    _number(text, "--longest", "longest", "maximum tokens per record; longer ones are cut")
    head = parser.add_argument_group("drafter")
    head.add_argument(
        "--taps",
        metavar="A,B,C",
        type=listed(int, "whole numbers"),
        help="layers to read, counted from 0 (default: one third and two thirds of the way up, and the last but one)",
    )
    _number(head, "--vocabulary", "vocabulary", "number of tokens the drafter can propose")
    head.add_argument(
        "--start",
        metavar="FOLDER",
        type=Path,
        help="continue this head, keeping its layers and vocabulary; a block drafter begins with its first step",
    )
    block = parser.add_argument_group("block drafter")
    _number(block, "--layers", "layers", "layers")
    _number(block, "--block-size", "block_size", "tokens that a block proposes at most")
    _number(block, "--anchors", "anchors", "blocks laid on each record in a step")
    block.add_argument("--both-ways", action="store_true", help="let the places of a block see those after them, too")
    training = parser.add_argument_group("training")
    length = training.add_mutually_exclusive_group()
    length.add_argument("--minutes", type=float, help=f"minutes to train (default: {DEFAULT_MINUTES:g})")
    length.add_argument("--steps", type=int, help="train for this many steps instead")
    _number(training, "--steps-back", "steps_back", "steps fed with the head's own features; of a head")
    training.add_argument(
        "--learning-rate", type=float, default=_DEFAULT["learning_rate"].default, help="peak learning rate (default: %(default)s)"
    )
    training.add_argument(
        "--variation",
        type=float,
        default=_DEFAULT["variation"].default,
        help="weight of the total variation in the loss (default: %(default)s)",
    )
    training.add_argument(
        "--copied",
        metavar="WEIGHT",
        type=float,
        default=_DEFAULT["copied"].default,
        help="weight of tokens that the n-gram drafter would get right; below 1 if it drafts too (default: %(default)s)",
    )
    _number(training, "--batch-tokens", "batch_tokens", "tokens per training step; more tokens need more memory")
    _number(
        training,
        "--patience",
        "patience",
        "in the second half, stop after this many measurements without improvement; 0 never stops early",
    )
    _number(training, "--seed", "seed", "random seed")
    parser.add_argument(
        "--work",
        metavar="FOLDER",
        type=Path,
        help="folder for text, features and checkpoints (default: the --output name with .work)",
    )
    parser.add_argument("--stage", choices=STAGES, help="run only this stage")


def _number(group: argparse._ArgumentGroup, option: str, name: str, meaning: str) -> None:
    group.add_argument(option, metavar="N", type=int, default=_DEFAULT[name].default, help=f"{meaning} (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """The command, with the arguments of `add_arguments`."""
    from app.cli.train import train

    command = shlex.join(["draftlight", *arguments.words])
    return train(request_of(TrainRequest, arguments, text=tuple(arguments.text), command=command), anyway=arguments.anyway)
