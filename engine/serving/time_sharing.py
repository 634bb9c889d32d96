"""Several answers at once, in turns of one round. Runs on the engine thread.

The next turn goes to the answer that has used the least time of its own. So all have had an equal share of the machine at any
moment, and stand where they would stand had each been alone on a machine of that share: which is ahead tells which is faster.
Taking turns round by round instead would give a setting with long rounds more of the machine, and hide what it costs.

An answer that fails says so and leaves its turns to the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from engine.serving.answer import turns
from engine.serving.backend import Backend
from engine.serving.jobs import Run
from engine.serving.model_slots import Closing, ModelSlots
from engine.types import Event


def take_turns(runs: Sequence[Run], backend: Backend, slots: ModelSlots, emit: Callable[[Event], None]) -> None:
    """Produce all answers, or report why there is none. Raises nothing but Closing."""
    began = time.perf_counter()
    under_way = {run: turns(run, backend, slots, emit, shared_since=began) for run in runs}
    used = dict.fromkeys(runs, -1.0)  # each reads its prompt before any goes on
    closing: Closing | None = None
    while under_way:
        run = min(under_way, key=lambda run: (not run.stopped, used[run]))  # one that was stopped ends at once
        try:
            used[run] = next(under_way[run])
        except StopIteration:
            del under_way[run]
        except Closing as error:
            del under_way[run]
            closing = error
    if closing is not None:
        raise closing
