"""A training from the queue to its end. Runs on the engine thread and imports no MLX itself."""

from __future__ import annotations

import functools
from collections.abc import Callable

from engine.serving.backend import Backend
from engine.serving.jobs import LongTask
from engine.serving.model_slots import ModelSlots
from engine.types import Event, TrainingFinished, TrainingMeasured, TrainingTold
from engine.values.requests.train import HeldOut, TrainRequest


class TrainTask(LongTask[TrainRequest]):
    """The training of a draft head. Stopping it leaves everything so far on disk."""

    purpose = "training the drafter"

    def work(self, backend: Backend, slots: ModelSlots, emit: Callable[[Event], None]) -> TrainingFinished:
        """Runs the stages that were asked for on the target. Raises Stopped, or Closing, to be broken off."""

        def tell(line: str) -> None:
            """Sends a line that a user may want to read again."""
            emit(TrainingTold(self.id, line))

        def measured(held_out: HeldOut) -> None:
            """Sends a measurement on held-out text."""
            emit(TrainingMeasured(self.id, held_out))

        target = slots.target(self.request.target)
        return TrainingFinished(
            self.id, backend.train(target, self.request, tell, functools.partial(self.report, emit), measured)
        )

    def cut_off(self) -> TrainingFinished:
        """The end of a training that was stopped; the same request goes on with it."""
        return TrainingFinished(self.id, None)
