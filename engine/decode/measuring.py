"""Measures the cost of rounds on this machine, one round at a time, so that a request waits for at most one round. Before that it
checks whether the models read trees (`engine.target.tree_pass`), which takes about 15 passes.

Also measures, when a published head is first used with a target, how fast the target answers with each number of proposals.

Rounds are decoded like those of an answer. Each length is measured a few times, and the mean of the faster half counts: other
programs can only make a round slower, and the single fastest one may have run at a higher clock rate.
"""

from __future__ import annotations

import contextlib
import statistics
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Sequence

import mlx.core as mx

from engine.decode.context import DecodeContext
from engine.decode.loop import DecodeLoop
from engine.decode.policy.costs import MOST_ROWS, MachineCosts
from engine.decode.run_control import Clock
from engine.decode.target_session import target_tree_reason
from engine.drafters.alignment import fixed_question
from engine.drafters.base import Drafter, Proceed, always
from engine.drafters.draft import Draft, DraftContext, DrafterCapabilities, DraftPlan
from engine.drafters.sampler import Sampler
from engine.models.loaded import LoadedModel
from engine.target.prompt_cache import chunk_size
from engine.types import MAX_GAMMA, DecodingOptions, Round
from engine.values.wording import amount, listed

ROWS = tuple(range(1, MOST_ROWS + 1))
"""Numbers of rows to measure: all, because the time of matrix products grows in steps, on some machines higher ones for odd
numbers."""
GAMMAS = (1, 4)
TIMES = 3
FEW = 4
"""Passes of up to this many rows occur in most rounds. They are measured twice as often, and so are draft steps: if two rows seem
to cost much more than one, drafting hardly begins, and no answer shows that they do not."""
SMALLEST_CHUNK = 64
"""Minimum chunk size of models that are measured. A model with a smaller one takes long for many rows; its answers begin with the
prior cost of an unknown machine."""
PROMPT = 48
OPTIONS = DecodingOptions(gamma=MAX_GAMMA, seed=1, max_tokens=10_000, analyse=False, phase_every=0)


class _Repeater(Drafter):
    """Proposes copies of the newest token, so that the target reads a given number of rows."""

    name = "measuring"
    capabilities = DrafterCapabilities(samples=False)

    def __init__(self) -> None:
        self._gamma = 0
        self._newest = 0

    def ask(self, rows: int) -> None:
        """Sets the number of rows of the next round."""
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
    """Measures the unknown costs of a target and, if it samples, of a drafter that is not in use; yields after each round.

    If it is not resumed, results so far are kept: `costs` is changed after each part.
    """
    if drafter is not None and not drafter.tree_reason():
        target_tree_reason(target.model, None)  # else the first answer would wait for it
        yield
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
    costs.rows = {rows: _mean_of_faster_half(times) for rows, times in seen.items()}
    costs.rows[1] = min(costs.rows.values())  # one row takes no longer than several; if it seems to, its rounds were disturbed


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
        first = _mean_of_faster_half(seen[few])
        costs.steps[drafter.name] = (first, max(0.0, (_mean_of_faster_half(seen[many]) - first) / (many - few)))


DEPTHS = (0, 1, 2, 3)
"""Numbers of proposals in a round at which a published head is measured. On Apple GPUs the gain is at most at 3, often at 1."""
DEPTH_TOKENS = 32
"""Number of tokens written in each of the two runs at each of them."""


def measure_depths(
    target: LoadedModel, drafter: Drafter, proceed: Callable[[float], None], clock: Clock | None = None
) -> tuple[float, ...]:
    """Returns the tokens a second with at most each of `DEPTHS` proposals in a round.

    The target answers a fixed question with the default rule and temperature. Each depth is measured twice, in the order 0, 1, 2,
    3, 3, 2, 1, 0, so that a machine that grows slower or faster favours none.

    Args:
        drafter: one that is not in use.
        proceed: called before each run with the share that is done; may raise to interrupt.
    """
    prompt, seen = fixed_question(target), defaultdict[int, list[Round]](list)
    for turn, depth in enumerate((*DEPTHS, *reversed(DEPTHS))):
        proceed(turn / (2 * len(DEPTHS)))
        options = OPTIONS.replace(gamma=max(depth, 1), max_tokens=DEPTH_TOKENS)
        asked = DecodeContext(target.model, prompt, drafter if depth else None, options, eos_ids=(), clock=clock or Clock())
        with contextlib.closing(DecodeLoop(asked).rounds()) as rounds:
            next(rounds)  # it has one-time costs
            seen[depth] += rounds
    mx.clear_cache()
    return tuple(
        1000 * sum(len(each.emitted) for each in seen[depth]) / sum(each.milliseconds.total for each in seen[depth])
        for depth in DEPTHS
    )


def depth_words(speeds: Sequence[float]) -> str:
    """Returns the result of `measure_depths` as a sentence for the user."""
    best = speeds.index(max(speeds))
    others = listed([f"{speed:.1f} (at most {depth})" for depth, speed in enumerate(speeds) if depth])
    verdict = f"it drafts at most {amount(best, 'token')} a round at first" if best else "it pauses at first, and is tried later"
    return (
        f"Tokens per second, measured on {2 * DEPTH_TOKENS} tokens each: {speeds[0]:.1f} (no proposals in a round), {others}; "
        f"so with gamma auto {verdict}."
    )


def _mean_of_faster_half(times: Sequence[float]) -> float:
    """Returns the mean of the faster half."""
    return statistics.mean(sorted(times)[: (len(times) + 1) // 2])


def _rounds(
    target: LoadedModel,
    drafter: Drafter | None,
    options: DecodingOptions,
    lengths: Sequence[int],
    ask: Callable[[int], None],
    clock: Clock | None,
) -> Iterator[tuple[int, Round]]:
    """Yields `TIMES` rounds of each length, after a first round that does not count."""
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
