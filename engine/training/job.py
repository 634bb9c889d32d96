"""A training from the queue to its end. Runs on the engine thread and imports no MLX itself."""

from __future__ import annotations

import functools
from collections.abc import Callable

from engine.requests.train import HeldOut, TrainRequest
from engine.serving.backend import Backend
from engine.serving.jobs import LongTask
from engine.serving.slots import Library
from engine.types import Event, TrainingFinished, TrainingMeasured, TrainingTold


class TrainTask(LongTask[TrainRequest]):
    """The training of a draft head. Stopping it leaves everything so far on disk."""

    purpose = "training the drafter"

    def work(self, backend: Backend, library: Library, emit: Callable[[Event], None]) -> TrainingFinished:
        def tell(line: str) -> None:
            emit(TrainingTold(self.id, line))

        def measured(held_out: HeldOut) -> None:
            emit(TrainingMeasured(self.id, held_out))

        target = library.target(self.request.target)
        return TrainingFinished(
            self.id, backend.train(target, self.request, tell, functools.partial(self.report, emit), measured)
        )

    def cut_off(self) -> TrainingFinished:
        return TrainingFinished(self.id, None)
