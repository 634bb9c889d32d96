"""Measuring what rounds cost on this machine, a round at a time, so that whoever wants an answer waits for one round at most.

Rounds are decoded as those of an answer are. Each of one length is seen a few times, and the faster half of them counts: what
else runs on the machine can only make a round longer, and the fastest alone may have met the machine at a higher speed.
"""

from __future__ import annotations

import contextlib
import statistics
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence

import mlx.core as mx

from engine.decode.clock import Clock
from engine.decode.context import DecodeContext
from engine.decode.loop import DecodeLoop
from engine.decode.policy.costs import MOST_ROWS, MachineCosts
from engine.drafters.base import Drafter, Proceed, always
from engine.drafters.draft import Draft, DraftContext, DrafterCapabilities, DraftPlan
from engine.drafters.sampler import Sampler
from engine.models.loaded import LoadedModel
from engine.target.prompt_cache import chunk_size
from engine.types import MAX_GAMMA, DecodingOptions, Round

ROWS = tuple(range(1, MOST_ROWS + 1))
"""All of them: products of matrices take steps, on some machines dearer ones for odd numbers of rows."""
GAMMAS = (1, 4)
TIMES = 3
FEW = 4
"""Passes of up to this many rows are what most rounds take. They are measured twice as often, and so are draft steps: where two
rows seem to cost much more than one, drafting hardly begins, and no answer shows that they do not."""
SMALLEST_CHUNK = 64
"""A model that reads fewer tokens of a prompt at once takes long for many rows, and is not measured: each answer begins with the
costs that are supposed of an unknown machine."""
PROMPT = 48
OPTIONS = DecodingOptions(gamma=MAX_GAMMA, seed=1, max_tokens=10_000, analyse=False, phase_every=0)


class _Repeater(Drafter):
    """Proposes the newest token as often as the target is to read rows."""

    name = "measuring"
    capabilities = DrafterCapabilities(samples=False)

    def __init__(self) -> None:
        self._gamma = 0
        self._newest = 0

    def ask(self, rows: int) -> None:
        """Has the next round read this many rows."""
        self._gamma = rows - 1

    def start(self, context: DraftContext, proceed: Proceed = always) -> bool:
        """As in `Drafter`."""
        self._newest = context.tokens[-1]
        return True

    def propose(self, plan: DraftPlan, sampler: Sampler) -> Draft:
        """As in `Drafter`."""
        return sampler.copied([self._newest] * min(self._gamma, plan.length))

    def commit(self, path: Sequence[int], tokens: Sequence[int], hidden_states: mx.array | None) -> None:
        """As in `Drafter`."""
        self._newest = tokens[-1]


def measure(
    target: LoadedModel, drafter: Drafter | None, costs: MachineCosts, clock: Clock | None = None
) -> Generator[None, None, None]:
    """Measures what is not known yet of a target and, if it draws, a drafter that nobody else uses; pauses after each round.

    What it has found when it is not asked to go on is kept: `costs` is changed after each part.
    """
    if chunk_size(target.model) < SMALLEST_CHUNK:
        return
    if any(rows not in costs.rows for rows in ROWS):
        yield from _measure_rows(target, costs, clock)
    for member in () if drafter is None else drafter.members.values():
        if member.capabilities.samples and member.name not in costs.steps:
            yield from _measure_steps(target, member, costs, clock)


def _measure_rows(target: LoadedModel, costs: MachineCosts, clock: Clock | None) -> Generator[None, None, None]:
    repeater = _Repeater()
    seen = defaultdict[int, list[float]](list)
    for rows, finished in _rounds(target, repeater, OPTIONS, (*ROWS, *ROWS[:FEW]), repeater.ask, clock):
        seen[rows].append(finished.milliseconds.total)
        yield
    costs.rows = {rows: _usual(times) for rows, times in seen.items()}
    costs.rows[1] = min(costs.rows.values())  # one row takes no longer than several: else its rounds were disturbed


def _measure_steps(
    target: LoadedModel, drafter: Drafter, costs: MachineCosts, clock: Clock | None
) -> Generator[None, None, None]:
    options = OPTIONS.replace(phase_every=1)
    seen = defaultdict[int, list[float]](list)
    for gamma in GAMMAS:
        for _, finished in _rounds(target, drafter, options.replace(gamma=gamma), (gamma,) * 2, lambda _: None, clock):
            time = finished.milliseconds.draft
            if time is not None and len(finished.proposals) == gamma:
                seen[gamma].append(time)
            yield
    if len(seen) == len(GAMMAS):
        few, many = GAMMAS
        first = _usual(seen[few])
        costs.steps[drafter.name] = (first, max(0.0, (_usual(seen[many]) - first) / (many - few)))


def _usual(times: Sequence[float]) -> float:
    """The mean of the faster half."""
    return statistics.mean(sorted(times)[: (len(times) + 1) // 2])


def _rounds(
    target: LoadedModel,
    drafter: Drafter | None,
    options: DecodingOptions,
    lengths: Sequence[int],
    ask: Callable[[int], None],
    clock: Clock | None,
) -> Iterator[tuple[int, Round]]:
    """Rounds of each length, as often as is measured, with a first one that counts for none."""
    vocabulary = min(len(target.vocabulary), 1000)
    prompt = [(7 * place + 3) % vocabulary for place in range(PROMPT)]
    ask(lengths[0])
    context = DecodeContext(target.model, prompt, drafter, options, clock=clock or Clock())
    with contextlib.closing(DecodeLoop(context).rounds()) as rounds:
        next(rounds)
        for _ in range(TIMES):
            for length in lengths:
                ask(length)
                yield length, next(rounds)
    mx.clear_cache()
