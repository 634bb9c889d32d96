"""Runs a training from the request to its end. Runs on the engine thread and imports no MLX itself."""

from __future__ import annotations

import functools
from collections.abc import Callable

from engine.serving.backend import Backend
from engine.serving.jobs import LongTask
from engine.serving.model_slots import ModelSlots
from engine.types import Event, TrainingFinished, TrainingMeasured, TrainingTold
from engine.values.requests.train import TrainRequest


class TrainTask(LongTask[TrainRequest]):
    """Task that trains a draft head. Everything done so far stays on disk if it is stopped."""

    purpose = "training the drafter"

    def work(self, backend: Backend, slots: ModelSlots, emit: Callable[[Event], None]) -> TrainingFinished:
        """Runs the requested stages on the target. Raises Stopped or Closing if it is interrupted."""
        target = slots.target(self.request.target)
        trained = backend.train(
            target,
            self.request,
            lambda line: emit(TrainingTold(self.id, line)),
            functools.partial(self.report, emit),
            lambda held_out: emit(TrainingMeasured(self.id, held_out)),
        )
        return TrainingFinished(self.id, trained)

    def cut_off(self) -> TrainingFinished:
        """Returns the end event of a training that was stopped; the same request resumes it."""
        return TrainingFinished(self.id, None)
