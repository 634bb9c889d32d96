"""Training a drafter to its end, with checkpoints and measurements on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from engine.requests.train import HeldOut
from engine.training.drafter_training import DrafterTraining

SAVE_EVERY = 40.0
"""Seconds between two checkpoints: what an interruption can lose, and the step under way."""
MEASUREMENTS = 16
"""In a whole training, besides one before it."""
CHECKPOINT = "checkpoint.safetensors"

Report = Callable[[str, float], None]


def ended(training: DrafterTraining, patience: int) -> str:
    """Why there is nothing left to train, or an empty text."""
    if training.fraction >= 1:
        return "Training ran to the end."
    if patience and training.progress.since_best >= patience:
        return f"Training stopped early: no improvement in {patience} measurements in a row."
    return ""


def weights_file(folder: Path, held_out: HeldOut) -> Path:
    """Where the weights lie that this measurement is of, if it was the best."""
    return folder / f"best-{held_out.step:08}.safetensors"


def run_to_end(
    training: DrafterTraining, folder: Path, patience: int, report: Report, measured: Callable[[HeldOut], None]
) -> None:
    """Train until it has `ended`; what is needed to go on lies in `folder`.

    Args:
        report: called after every step; what it raises breaks the training off, with a checkpoint.
        measured: takes every measurement.
    """
    _measure_if_due(training, folder, report, measured)
    saved = time.monotonic()
    for _ in training.run():
        try:
            report(_step(training), min(1.0, training.fraction))
        except Exception:
            training.save(folder / CHECKPOINT)
            raise
        if _measure_if_due(training, folder, report, measured):
            saved = time.monotonic()
            if ended(training, patience):
                return
        elif time.monotonic() - saved > SAVE_EVERY:
            training.save(folder / CHECKPOINT)
            saved = time.monotonic()


def _step(training: DrafterTraining) -> str:
    progress = training.progress
    best = "" if progress.best is None else f", best overlap {progress.best.overlap[0]:.3f}"
    return f"training, step {progress.step:,}, loss {progress.loss:.3f}{best}"


def _measure_if_due(training: DrafterTraining, folder: Path, report: Report, told: Callable[[HeldOut], None]) -> bool:
    """Saves, measures and saves again when another part of the training is done; whether it did."""
    if training.fraction < len(training.progress.measured) / MEASUREMENTS:
        return False
    if training.progress.step:
        training.save(folder / CHECKPOINT)
    measured = training.measure(lambda: report("measuring on held-out text", min(1.0, training.fraction)))
    if training.note(measured):
        training.save_weights(weights_file(folder, measured))
    training.save(folder / CHECKPOINT)
    best = training.progress.best
    for file in folder.glob("best-*.safetensors"):
        if best is not None and file != weights_file(folder, best):
            file.unlink()
    told(measured)
    return True
