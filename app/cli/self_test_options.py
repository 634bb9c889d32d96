"""The options of `draftlight self-test`."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.drafter_kinds import default_drafter

HELP = "load the model, decode, draw the window and quit"
DESCRIPTION = "Load the built-in model, decode a few tokens, draw the window, and quit. The exit status is 0 if everything works."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options, but for the command that they belong to."""
    parser.add_argument("--screenshots", metavar="FOLDER", type=Path, help="save screenshots of the main states in this folder")


def run(arguments: argparse.Namespace) -> int:
    """The command, with the arguments of `add_arguments`."""
    from app.cli.self_test import self_test

    return self_test(arguments.screenshots, default_drafter())
