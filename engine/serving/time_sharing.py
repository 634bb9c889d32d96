"""Several answers in parallel, in turns of one round, and short answers drawn many times. Runs on the engine thread.

Scheduling is fair by time: the next turn goes to the answer that has used the least time. At any moment all answers have had an
equal share of the machine, and have progressed as if each ran alone on a machine of that share: the one that is ahead is
faster. Round-robin turns would give settings with long rounds more time, and hide their cost.

An answer that fails reports it, and leaves its turns to the others.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

from engine.decode.context import DecodeContext
from engine.serving.answer import turns
from engine.serving.backend import Backend
from engine.serving.jobs import LongTask, Run
from engine.serving.model_slots import Closing, ModelSlots
from engine.serving.prompt import prompt_of
from engine.types import SEED_LIMIT, Event, Request, Round, SampleTaken, SamplingFinished
from engine.values.requests.compare import Sample, SampleRequest


def take_turns(runs: Sequence[Run], backend: Backend, slots: ModelSlots, emit: Callable[[Event], None]) -> None:
    """Produces all answers, or reports why there is none. Raises nothing but Closing."""
    began = time.perf_counter()
    running = {run: turns(run, backend, slots, emit, shared_since=began) for run in runs}
    used = dict.fromkeys(runs, -1.0)  # negative: all read their prompts before the first round
    closing: Closing | None = None
    while running:
        run = min(running, key=lambda run: (not run.stopped, used[run]))  # a stopped one ends at once
        try:
            used[run] = next(running[run])
        except StopIteration:
            del running[run]
        except Closing as error:
            del running[run]
            closing = error
    if closing is not None:
        raise closing


class SampleTask(LongTask[SampleRequest]):
    """Short answers that are drawn many times with each of several settings.

    The settings alternate from sample to sample, so that an early stop leaves equally many of each. A prompt is read once per
    setting: after every sample the cache is rolled back to its end.
    """

    purpose = "sampling"

    def work(self, backend: Backend, slots: ModelSlots, emit: Callable[[Event], None]) -> SamplingFinished:
        """Draws all samples, and sends `SampleTaken` for each complete one. Raises Stopped or Closing if it is interrupted."""
        sources = [_Source(request, self, backend, slots) for request in self.request.requests]
        for index in range(self.request.samples):
            for number, source in enumerate(sources):
                self.proceed()
                sample = source.draw(number, index)
                if sample is not None:
                    emit(SampleTaken(self.id, sample))
        self.proceed()
        return SamplingFinished(self.id, complete=True)

    def cut_off(self) -> SamplingFinished:
        """Returns the end event of sampling that was stopped; the samples so far remain valid."""
        return SamplingFinished(self.id, complete=False)


class _Source:
    """One setting to draw samples with: its prompt, and its own drafter and cache."""

    def __init__(self, request: Request, task: SampleTask, backend: Backend, slots: ModelSlots) -> None:
        self._request, self._task, self._backend = request, task, backend
        self._target = slots.target(request.target)
        self._drafter = slots.drafter(request.drafter).renewed()
        self._prompt = prompt_of(self._target, request).ids
        self._cache: Any = None

    def draw(self, number: int, index: int) -> Sample | None:
        """Returns the next sample; None if it was interrupted."""
        seed = ((self._request.options.seed or 0) + index) % SEED_LIMIT
        options = self._request.options.replace(seed=seed)
        cache = self._read_cache()
        rounds: list[Round] = []
        context = DecodeContext(self._target, self._prompt, self._drafter, options, cache=cache, control=self._task)
        with contextlib.closing(self._backend.decode(context)) as outcomes:
            rounds.extend(outcome.whole_at_once(context.clock) for outcome in outcomes)
        self._cache = cache
        finish = rounds[-1].finish if rounds else None
        if finish in (None, "cancelled"):
            return None
        return Sample(number, index, seed, "".join(round.text for round in rounds), finish, tuple(rounds))

    def _read_cache(self) -> Any:
        """Returns a cache with all of the prompt but its last token, as far as it was read before. The caller owns it."""
        cache, self._cache = self._cache, None
        count = len(self._prompt) - 1
        if cache is not None and count and (self._backend.cache_length(cache) or 0) >= count and self._backend.trim(cache, count):
            return cache
        return self._backend.make_cache(self._target, self._request.options.kv_bits)
