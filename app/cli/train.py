"""`draftlight train-drafter`: trains a draft head on the engine thread, and shows progress and quality."""

from __future__ import annotations

import sys

from app.cli.engine_run import run_task
from app.cli.progress import ProgressBar
from app.cli.shared_options import INTERRUPTED
from engine.types import Event, TaskFailed, TrainingFinished, TrainingMeasured, TrainingTold
from engine.values.errors import DraftlightError
from engine.values.requests.train import HeldOut, TrainRequest
from engine.values.wording import amount

_CLOSE_TIMEOUT = 60.0
"""Seconds that closing may take: for a step in progress and a checkpoint."""


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
        lambda engine: engine.train(request),
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
