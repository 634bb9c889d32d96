"""`draftlight train-drafter`: trains a draft head on the engine thread, and shows how far it is and how good."""

from __future__ import annotations

import sys

from app.cli_chat import interruptions
from app.progress import Progress
from engine.errors import DraftlightError
from engine.training.request import HeldOut, TrainRequest
from engine.types import TaskFailed, TrainingFinished, TrainingMeasured, TrainingTold
from engine.worker import Engine

INTERRUPTED = 130
_TICK = 0.25
_CLOSING = 60.0
"""Seconds that an end may take: a step under way and a checkpoint."""


def train(request: TrainRequest) -> int:
    """Train and say what came of it; returns the exit status: 0, or 130 if it was interrupted.

    Raises:
        DraftlightError: why it could not go on.
    """
    engine = Engine()
    progress = Progress()
    end: TrainingFinished | TaskFailed | None = None
    try:
        task_id = engine.train(request)
        with interruptions() as interrupted:
            stopping = False
            while end is None:
                if interrupted() and not stopping:
                    stopping = True
                    engine.stop(task_id)
                    progress.say("stopping after this step")
                engine.wait(_TICK)
                for event in engine.events():
                    progress.take(event)
                    match event:
                        case TrainingTold(_, line):
                            progress.say(line)
                        case TrainingMeasured(_, held_out):
                            progress.say(measured_line(held_out))
                        case TrainingFinished() | TaskFailed() if event.task_id == task_id:
                            end = event
                        case _:
                            pass
    finally:
        progress.clear()
        engine.close(_CLOSING)
    if isinstance(end, TaskFailed):
        raise DraftlightError(end.message)
    if end.trained is None:
        print(f"draftlight: stopped; the same command goes on with what lies in {request.work_folder}", file=sys.stderr)
        return INTERRUPTED
    if end.trained.held_out is not None:
        print(rendered(end.trained.held_out))
    if end.trained.output is not None:
        print(f"written to {end.trained.output}")
    return 0


def measured_line(held_out: HeldOut) -> str:
    """A measurement in one line."""
    agreement = " ".join(f"{value:.3f}" for value in held_out.agreement)
    overlap = " ".join(f"{value:.3f}" for value in held_out.overlap)
    return f"step {held_out.step:,}, held out by position: agreement {agreement}, overlap {overlap}"


def rendered(held_out: HeldOut) -> str:
    """A measurement as a table."""
    lines = [
        f"Acceptance on held-out text, step {held_out.step:,}, {held_out.positions:,} positions",
        "draft position            " + "".join(f"{position:>8}" for position in range(1, len(held_out.agreement) + 1)),
        "agreement, temperature 0  " + "".join(f"{value:8.3f}" for value in held_out.agreement),
        "sum min(p, q), at 0.8     " + "".join(f"{value:8.3f}" for value in held_out.overlap),
    ]
    return "\n".join(lines)
