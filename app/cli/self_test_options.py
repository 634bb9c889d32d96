"""The options of `draftlight self-test`."""

from __future__ import annotations

import argparse
from pathlib import Path

from app.cli.option import Entries, option
from engine.values.drafter_kinds import default_drafter

HELP = "load the model, decode, draw the window and quit"
DESCRIPTION = "Load the built-in model, decode a few tokens, draw the window, and quit. The exit status is 0 if everything works."


def options() -> Entries:
    """Returns the options, without the command they belong to."""
    return (option("--screenshots", metavar="FOLDER", type=Path, help="save screenshots of the main states in this folder"),)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command with its options."""
    from app.cli.self_test import self_test

    return self_test(arguments.screenshots, default_drafter())
