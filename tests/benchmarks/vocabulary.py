"""Measures how the time of a round grows with the vocabulary, on a model that takes no time: make bench-vocabulary

    python -m tests.benchmarks.vocabulary [--vocabularies 32768 49152] [--rounds 30] [--repeats 5] [--pairs 16] [--flat] ...

Target and drafter are tables of logits shaped like a language model's, or with --flat like a random model's, where all tokens
are nearly equally likely, at temperature 2. What is left of a round of five rows is drawing, judging and analysing. For each
vocabulary it prints what mlx-lm takes for a draw (its sampler at the same temperature), for one with the log-probabilities that
its loop makes for it, and for a token of its own loop on the same table; and what the look-ups in the tables take that a round
makes. Then for each rule the milliseconds of a round, bare and analysed, what analysing adds (until the last analysis is done,
of as many rounds as are decoded), and the bare round, less its look-ups, for each of its draws beside both of mlx-lm's; what
analysing adds where the target's pass holds a matrix product beside which it can run: the mean of pairs of measurements, one
bare and one analysed, with its 95 % interval. That needs a core that nobody else uses; what the decoding thread itself computes
for it, or waits for it, is told apart. Last comes what the host takes to tell of a round what it shows, in the fastest and in
the slowest round. The other times of rounds and draws are the fastest of interleaved repeats, which a busy machine disturbs
least; with --work they are processor time of all threads instead, which it hardly disturbs, and what overlaps is counted in
full.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.generate import generate_step
from mlx_lm.sample_utils import make_sampler

from engine.decode.context import DecodeContext
from engine.decode.decoding import DecodingOptions
from engine.decode.loop import DecodeLoop
from engine.decode.run_control import Control
from engine.drafters.base import Drafter, Proceed, always
from engine.drafters.draft import Draft, DraftContext, DrafterCapabilities, DraftPlan
from engine.drafters.sampler import Sampler
from engine.serving.overlap import OverlapExecutor
from engine.tools.bench.statistics import mean_interval
from engine.types import RULES, Rule

VOCABULARIES = (32_768, 49_152, 131_072, 151_936, 262_144)
CONTEXTS = 8
GAMMA = 4
TEMPERATURE, TEMPERATURE_OF_FLAT_ROWS = 0.8, 2.0
PROMPT = [1, 2, 3]
CLOCK: Callable[[], float] = time.perf_counter


class Table(nn.Module):
    """Logits that depend on the last token alone, after a matrix product of so many milliseconds.

    Args:
        rows: (CONTEXTS, vocab) float32.
        factor: (n, n) multiplied with itself in every pass; None for a pass without cost.
    """

    def __init__(self, rows: mx.array, factor: mx.array | None = None) -> None:
        super().__init__()
        self._rows = rows
        self._factor = factor
        self.layers = [None]

    def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
        """tokens: (1, rows) ids; returns (1, rows, vocab)."""
        held = tokens.astype(mx.float32).reshape(1, 1, -1, 1)
        if cache is not None:
            cache[0].update_and_fetch(held, held)
        logits = mx.take(self._rows, tokens % CONTEXTS, axis=0)
        if self._factor is None:
            return logits
        (logits,) = mx.depends([logits], [self._factor @ self._factor])
        return logits


class TableDrafter(Drafter):
    """Samples its proposals from a table."""

    name = "table"
    capabilities = DrafterCapabilities(samples=True, sets_own_length=True)

    def __init__(self, rows: mx.array) -> None:
        self._rows = rows
        self._newest = 0

    def start(self, context: DraftContext, proceed: Proceed = always) -> bool:
        """Only the newest token matters."""
        self._newest = context.tokens[-1]
        return True

    def logits(self, token: mx.array) -> mx.array:
        """(vocab,) after a token (1,)."""
        return mx.take(self._rows, token % CONTEXTS, axis=0)[0]

    def propose(self, plan: DraftPlan, sampler: Sampler) -> Draft:
        token, limit = mx.array([self._newest]), min(plan.length, sampler.remaining)
        for step in range(limit):
            token = sampler.sample(self.logits(token))
            if step < limit - 1 and not sampler.should_continue():
                break
        return sampler.draft()

    def commit(self, path: Sequence[int], tokens: Sequence[int], hidden_states: mx.array | None) -> None:
        self._newest = tokens[-1]


def tables(vocab_size: int, flat: bool = False) -> tuple[mx.array, mx.array]:
    """Target's and drafter's rows, (CONTEXTS, vocab_size): a normal bulk, a few hundred plausible tokens, a handful of likely
    ones; the drafter's with some noise. Flat ones are a narrow bulk, with little noise."""
    generator = np.random.default_rng(vocab_size)
    target = generator.normal(0.0, 1.0 if flat else 2.0, (CONTEXTS, vocab_size))
    for row in target[:0] if flat else target:
        row[generator.integers(vocab_size, size=300)] += generator.exponential(3.0, 300)
        row[generator.integers(vocab_size, size=3)] += 12.0
    draft = target + generator.normal(0.0, 0.05 if flat else 0.7, target.shape)
    made = mx.array(target.astype(np.float32)), mx.array(draft.astype(np.float32))
    mx.eval(made)
    return made


def milliseconds(work: Callable[[], object], count: int) -> float:
    """Of one of `count` that `work` does."""
    began = CLOCK()
    work()
    return (CLOCK() - began) * 1e3 / count


def draw_of_mlx_lm(rows: mx.array, count: int, normalise: bool = False) -> float:
    """Milliseconds of its sampler for one draw, the log-probabilities given or made for it as `generate_step` does."""
    sampler = make_sampler(TEMPERATURE)
    row = rows[:1] - mx.logsumexp(rows[:1], axis=-1, keepdims=True)
    mx.eval(row)

    def draws() -> None:
        for _ in range(count):
            mx.eval(sampler(row - mx.logsumexp(row, axis=-1, keepdims=True) if normalise else row))

    return milliseconds(draws, count)


def look_ups(model: Table, drafter: TableDrafter, count: int) -> float:
    """Milliseconds of what target and drafter take of a round of GAMMA proposals. As in a round, the host computes in between, so
    that MLX's thread has fallen asleep and other arrays are in the cache."""
    other = np.zeros(2**18)
    taken = 0.0
    for _ in range(count):
        for asked in (*[partial(drafter.logits, mx.array([1]))] * GAMMA, partial(model, mx.array([PROMPT[:1] * (GAMMA + 1)]))):
            np.add(other, 1.0, out=other)
            taken += milliseconds(lambda asked=asked: mx.eval(asked()), 1)
    return taken / count


def token_of_mlx_lm(model: Table, count: int) -> float:
    """Milliseconds of a token in `generate_step`."""
    steps = generate_step(mx.array(PROMPT), model, max_tokens=count + 1, sampler=make_sampler(TEMPERATURE))
    next(steps)
    return milliseconds(lambda: list(steps), count)


class Measured(NamedTuple):
    """Of a round in the middle of an answer, whose analysis is done beside the rounds behind it.

    Attributes:
        round: milliseconds, until the last analysis is done.
        own: milliseconds of the decoding thread: what it computed, handed over, or waited for analyses.
        held: milliseconds of these in which handing over took, or waited for room.
        behind: rounds whose analysis was not done when another was handed over, at most.
    """

    round: float
    own: float = 0.0
    held: float = 0.0
    behind: float = 0.0


def round_of(model: Table, drafter: TableDrafter, rule: Rule, analyse: bool, count: int) -> Measured:
    """Decodes so many rounds, each analysed beside the next ones, as an answer does it."""
    options = DecodingOptions(
        rule=rule, temperature=TEMPERATURE, seed=1, gamma=GAMMA, max_tokens=10**9, analyse=analyse, phase_every=0
    )
    control = Control()
    outcomes = DecodeLoop(DecodeContext(model, PROMPT, drafter, options, control=control)).outcomes()
    newest = next(outcomes)
    held = 0.0
    behind = 0
    with OverlapExecutor() as beside:
        control.on_wait = beside.begin
        began, computed = CLOCK(), time.thread_time()
        for _ in range(count):
            if analyse:
                waiting = time.perf_counter()
                beside.put(newest.whole, newest.round.rows)
                held += time.perf_counter() - waiting
                behind = max(behind, beside.unfinished - 1)
            newest = next(outcomes)
        waiting = time.perf_counter()
        beside.wait()
        own = held + time.perf_counter() - waiting + time.thread_time() - computed
        return Measured(*(each * 1e3 / count for each in (CLOCK() - began, own, held)), behind)


def telling(model: Table, drafter: TableDrafter, rule: Rule, rounds: int) -> str:
    """Milliseconds that the host takes, on one thread, to complete a bare round: in words, of the fastest and of the slowest,
    each the least of three times."""
    options = DecodingOptions(rule=rule, temperature=TEMPERATURE, seed=1, gamma=GAMMA, max_tokens=10**9, phase_every=0)
    outcomes = islice(DecodeLoop(DecodeContext(model, PROMPT, drafter, options)).outcomes(), rounds)
    took = [min(milliseconds(outcome.whole, 1) for _ in range(3)) for outcome in outcomes]
    return f"{min(took):.2f} to {max(took):.2f} ms"


def factor_of(wanted: float) -> mx.array:
    """A matrix whose square takes so many milliseconds."""
    size = 512
    while True:
        factor = mx.random.normal((size, size))
        mx.eval(factor, factor @ factor)
        took = min(milliseconds(lambda factor=factor: mx.eval(factor @ factor), 1) for _ in range(5))
        if took > 0.9 * wanted:
            return factor
        size = max(size + 16, int(size * min(2.0, (wanted / took) ** (1 / 3))))


def pairs(model: Table, drafter: TableDrafter, rule: Rule, rounds: int, repeats: int) -> np.ndarray:
    """(repeats, 2, 4) of `round_of`, bare and analysed: each pair one after the other, either one first in turn."""
    measured = []
    for repeat in range(repeats):
        order = (False, True) if repeat % 2 == 0 else (True, False)
        each = {analyse: round_of(model, drafter, rule, analyse, rounds) for analyse in order}
        measured.append([each[False], each[True]])
    return np.array(measured)


def interval(differences: np.ndarray) -> str:
    """In words: of their mean, at 95 %; nothing for too few."""
    found = mean_interval(differences, 0.025)
    return "" if found is None else f" ({found[0]:.1f} to {found[1]:.1f})"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabularies", type=int, nargs="+", default=VOCABULARIES)
    parser.add_argument("--rules", nargs="+", choices=RULES, default=RULES)
    parser.add_argument("--rounds", type=int, default=30, help="rounds of one measurement")
    parser.add_argument("--repeats", type=int, default=5, help="measurements, contenders interleaved")
    parser.add_argument("--pairs", type=int, default=16, help="pairs of measurements beside a pass")
    parser.add_argument("--pass-milliseconds", type=float, default=60.0)
    parser.add_argument("--flat", action="store_true", help="rows without likely tokens, at temperature 2")
    parser.add_argument("--work", action="store_true", help="processor time instead of time")
    chosen = parser.parse_args(arguments)
    global CLOCK, TEMPERATURE
    if chosen.work:
        CLOCK = time.process_time
    if chosen.flat:
        TEMPERATURE = TEMPERATURE_OF_FLAT_ROWS
    factor = factor_of(chosen.pass_milliseconds)
    for vocab_size in chosen.vocabularies:
        target, draft = tables(vocab_size, chosen.flat)
        drafter = TableDrafter(draft)
        free, paid = Table(target), Table(target, factor)
        draw = min(draw_of_mlx_lm(target, 20) for _ in range(chosen.repeats))
        whole_draw = min(draw_of_mlx_lm(target, 20, normalise=True) for _ in range(chosen.repeats))
        token = min(token_of_mlx_lm(free, 20) for _ in range(chosen.repeats))
        looking = min(look_ups(free, drafter, 20) for _ in range(chosen.repeats))
        print(
            f"vocabulary {vocab_size:,}: mlx-lm takes {draw:.2f} ms for a draw, {whole_draw:.2f} ms with log-probabilities, "
            f"{token:.2f} ms for a token of its loop; the look-ups of a round take {looking:.2f} ms"
        )
        for rule in chosen.rules:
            draws = GAMMA + (GAMMA + 1 if rule in ("match", "gumbel") else 1)
            bare, full = pairs(free, drafter, rule, chosen.rounds, chosen.repeats)[:, :, 0].min(axis=0)
            told = telling(free, drafter, rule, chosen.rounds)
            beside = pairs(paid, drafter, rule, max(4, chosen.rounds // 4), chosen.pairs)
            (left, own, *_), spread = (beside[:, 1] - beside[:, 0]).mean(axis=0), interval(beside[:, 1, 0] - beside[:, 0, 0])
            print(
                f"  {rule:<10}bare {bare:6.2f} ms, {(bare - looking) / draws / draw:.2f} and "
                f"{(bare - looking) / draws / whole_draw:.2f} of mlx-lm's draws for each of {draws}; "
                f"analysing adds {full - bare:6.2f} ms, and {left:6.2f} ms{spread} to a round of "
                f"{beside[:, 0, 0].min():.0f} ms ({own:.2f} ms of the decoding thread); "
                f"to tell it takes {told}",
                flush=True,
            )


if __name__ == "__main__":
    main()
