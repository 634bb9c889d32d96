"""`draftlight self-test`: checks that this installation loads, decodes and draws."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from app.cli.engine_run import follow
from engine.rounds.trace import read
from engine.types import DecodingOptions, Event, Message, Request, RoundFinished, RunFailed, RunFinished
from engine.values.drafter_kinds import default_drafter
from engine.values.errors import DraftlightError
from engine.values.wording import amount

HELP = "load the model, decode, draw the window and quit"
DESCRIPTION = "Load the built-in model, decode a few tokens, draw the window, and quit. The exit status is 0 if everything works."


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options to the command's parser."""
    parser.add_argument("--screenshots", metavar="FOLDER", type=Path, help="save screenshots of the main states in this folder")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command with its options."""
    return self_test(arguments.screenshots, default_drafter())


def self_test(screenshots: Path | None, drafter: str) -> int:
    """Decodes a few tokens with the built-in model, reads their trace, draws the window; returns the exit status.

    Raises:
        DraftlightError: what does not work.
    """
    with tempfile.TemporaryDirectory() as folder:
        print(_decode(Path(folder) / "self-test.jsonl", drafter), flush=True)
    from app.cli.self_test_window import run

    status = run(screenshots)
    print("drew the window" if status == 0 else "the window could not be drawn")
    return status


def _decode(path: Path, drafter: str) -> str:
    from engine.runtime.worker import Engine  # slow to import

    request = Request(
        (Message("user", "Say hello."),), DecodingOptions(seed=1, max_tokens=16), drafter=drafter, trace_path=str(path)
    )
    events: list[Event] = []
    engine = Engine()
    try:
        end = follow(engine, engine.submit(request), (RunFinished, RunFailed), events.append)
    finally:
        ended = engine.close()
    if isinstance(end, RunFailed):
        raise DraftlightError(end.message)
    if not ended:
        raise DraftlightError("The engine thread did not stop.")
    rounds = [event for event in events if isinstance(event, RoundFinished)]
    trace = read(path)
    if trace.missing or len(trace.rounds) != len(rounds) or not end.tokens:
        raise DraftlightError(f"The answer's trace is wrong: {trace.missing or amount(len(trace.rounds), 'round')}.")
    return (
        f"decoded {amount(end.tokens, 'token')} in {amount(len(rounds), 'round')} with {drafter}, "
        f"{end.tokens / end.seconds:.1f} tokens/s"
    )
