"""`draftlight` without a command, and `draftlight replay`: both open the window."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

from engine.rounds.trace import read
from engine.values.errors import DraftlightError

HELP = "show a trace in the window, without a model"
DESCRIPTION = (
    "Open a trace in the window and play it, step through it or scrub it, with its text, rounds and charts. No model is loaded."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options to the command's parser."""
    parser.add_argument("path", metavar="TRACE", type=Path, help="a trace (*.jsonl); an incomplete one works too")


def open_window(arguments: argparse.Namespace) -> int:
    """Runs the window until it is closed. Raises DraftlightError without Qt."""
    if importlib.util.find_spec("PySide6") is None:
        raise DraftlightError("The window needs PySide6, which is not installed. `draftlight chat` works without it.")
    from app.window.launch import run

    return run(arguments)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command `replay` with its options. Raises DraftlightError."""
    arguments.trace = read(arguments.path)
    return open_window(arguments)
