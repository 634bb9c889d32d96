"""Simulates lookup drafters on the built-in target's own answers, without decoding again for each of them.

    python -m tests.benchmarks.ngram_simulation --answers FILE [--prompts FILE] [--tokens 128] [--temperature 0] [--limit 25]

A lookup's proposals depend on the text alone. Under match, under gumbel and at temperature 0 the text does not depend on the
proposals. So one plain answer per prompt shows what any lookup would have proposed, and how much of it would have been
accepted. The answers are generated once and stored in FILE; the time of a pass over M rows is measured in the same run.
Judging, recording and looking up are not counted.

Prints for each lookup, by category: the speed-up (mean over prompts of plain time / time), and tau.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import make_prompt_cache, trim_prompt_cache

from engine.decode.decoding import DecodingOptions, decode
from engine.drafters import Draft, Drafter, DraftPlan, NGram, NGramMod
from engine.models.loaded import LoadedModel
from engine.models.loading import load
from engine.types import MAX_GAMMA
from tests.engine.drafting import commit, ids_of, sampler_of, start
from tests.exactness import OWN_PROMPTS, Prompt, prompt_tokens, read_prompts

ROWS = (1, 2, 4, 6, 8, 12, 16, 24, 33, 65)
CONTEXT = 400
Curve = Callable[[int], float]


class Lookup:
    """A drafter that looks up, asked as under a fixed gamma: everything it does on the host."""

    def __init__(self, drafter: Drafter) -> None:
        self._drafter = drafter
        self._sampler = sampler_of([0])

    def start(self, tokens: Sequence[int]) -> None:
        """Follows a text."""
        start(self._drafter, tokens)

    def draft(self, limit: int) -> list[int]:
        """At most `limit` ids that it proposes next."""
        return ids_of(self._asked(limit))

    def _asked(self, limit: int) -> Draft:
        return self._drafter.propose(DraftPlan(self._drafter.name, limit), self._sampler)

    def commit(self, tokens: Sequence[int]) -> None:
        """Takes over what a round has added."""
        commit(self._drafter, tokens)


class SuffixMatch(Lookup):
    """The simple rules to beat: the longest match of the latest tokens, followed by a length that depends on the match alone."""

    def __init__(self, shortest: int, length: Callable[[int], int], longest: int) -> None:
        super().__init__(NGram(shortest=shortest, worth=0))
        self._length = length
        self._longest = longest

    def draft(self, limit: int) -> list[int]:
        """As in `Lookup`."""
        asked = self._asked(limit)
        assert asked.statistics is not None, "a lookup always says what it found"
        return ids_of(asked)[: min(self._length(asked.statistics.match), self._longest)]


RULES: dict[str, Callable[[], Lookup]] = {
    "match of 3, twice as many, to 32": lambda: SuffixMatch(3, lambda match: 2 * match, 32),
    "match of 2, one more, to 16": lambda: SuffixMatch(2, lambda match: match + 1, 16),
    "match of 2, as many, to 16": lambda: SuffixMatch(2, lambda match: match, 16),
    "match of 1, twice as many, to 16": lambda: SuffixMatch(1, lambda match: 2 * match, 16),
    **{f"ngram, worth {worth}": lambda worth=worth: Lookup(NGram(worth=worth)) for worth in (0.1, 0.15, 0.2, 0.25, 0.3, 0.4)},
    "ngram": lambda: Lookup(NGram()),
    "ngram-mod": lambda: Lookup(NGramMod()),
    "ngram-mod, n_match 12, n_min 1": lambda: Lookup(NGramMod(n_match=12, n_min=1)),
}


@dataclass(frozen=True)
class Answer:
    """One plain answer: what the rules are tried on."""

    id: str
    category: str
    temperature: float
    prompt: list[int]
    answer: list[int]


def answers(model: LoadedModel, prompts: Sequence[Prompt], tokens: int, temperature: float, kept: Path) -> list[Answer]:
    """One answer per prompt, from `kept` where it has it, else made now and added there."""
    known = [Answer(**entry) for entry in json.loads(kept.read_text())] if kept.exists() else []
    found = {(entry.id, entry.temperature): entry for entry in known}
    for prompt in prompts:
        if (prompt.id, temperature) in found:
            continue
        ids = prompt_tokens(model, prompt)
        options = DecodingOptions(temperature=temperature, seed=1, max_tokens=tokens, analyse=False, phase_every=0)
        emitted = [token.id for current in decode(model, ids, None, options) for token in current.emitted]
        found[prompt.id, temperature] = Answer(prompt.id, prompt.category, temperature, ids, emitted)
        kept.write_text(json.dumps([asdict(entry) for entry in found.values()]))
        print(f"answered {prompt.id}: {len(emitted)} tokens", flush=True)
    return [found[prompt.id, temperature] for prompt in prompts]


def verify_curve(model: LoadedModel, repetitions: int = 9) -> dict[int, float]:
    """Median milliseconds of a pass over M rows after `CONTEXT` tokens, by M, interleaved."""
    cache = make_prompt_cache(model.model)
    mx.eval(model.model(mx.zeros((1, CONTEXT), mx.int32), cache=cache))
    times: dict[int, list[float]] = {rows: [] for rows in ROWS}
    for _ in range(repetitions):
        for rows in ROWS:
            began = time.perf_counter()
            mx.eval(model.model(mx.zeros((1, rows), mx.int32), cache=cache))
            times[rows].append(1000 * (time.perf_counter() - began))
            trim_prompt_cache(cache, rows)
    return {rows: median(taken) for rows, taken in times.items()}


@dataclass(frozen=True)
class Outcome:
    """One answer under one rule; speed-up is plain time / time, `seconds` the host's time for all lookups."""

    speedup: float
    tau: float
    draft_yield: float
    seconds: float


def simulate(make: Callable[[], Lookup], answer: Answer, curve: Curve) -> Outcome:
    """Replays the answer: each round accepts what the draft has in common with it."""
    drafter = make()
    drafter.start(answer.prompt)
    place = rounds = proposed = accepted = 0
    milliseconds = host = 0.0
    while place < len(answer.answer):
        room = len(answer.answer) - place - 1
        began = time.perf_counter()
        draft = drafter.draft(min(MAX_GAMMA, room)) if room else []
        host += time.perf_counter() - began
        kept = 0
        while kept < len(draft) and draft[kept] == answer.answer[place + kept]:
            kept += 1
        drafter.commit(answer.answer[place : place + kept + 1])
        place += kept + 1
        rounds += 1
        proposed += len(draft)
        accepted += kept
        milliseconds += curve(len(draft) + 1)
    plain = len(answer.answer) * curve(1)
    return Outcome(plain / milliseconds, len(answer.answer) / rounds, accepted / max(1, proposed), host / rounds)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=Path, required=True, help="JSON file that keeps the answers")
    parser.add_argument("--prompts", type=Path, default=OWN_PROMPTS, help="JSON Lines with id, category and turns")
    parser.add_argument("--categories", default="", help="comma-separated; all if empty")
    parser.add_argument("--limit", type=int, default=25, help="prompts to take, the categories in turn")
    parser.add_argument("--tokens", type=int, default=128, help="tokens of each answer")
    parser.add_argument("--temperature", type=float, default=0.0)
    chosen = parser.parse_args(arguments)
    model = load("builtin")
    wanted = set(filter(None, chosen.categories.split(",")))
    prompts = [prompt for prompt in read_prompts(chosen.prompts) if not wanted or prompt.category in wanted][: chosen.limit]
    given = answers(model, prompts, chosen.tokens, chosen.temperature, chosen.answers)
    measured = verify_curve(model)
    print("milliseconds by rows: " + ", ".join(f"{rows}: {taken:.0f}" for rows, taken in measured.items()))

    def curve(rows: int) -> float:
        return float(np.interp(rows, list(measured), list(measured.values())))

    categories = sorted({answer.category for answer in given})
    print(f"{len(given)} answers, temperature {chosen.temperature}; speed-up (tau)")
    print(f"{'':34}" + "".join(f"{name:>14}" for name in [*categories, "all"]) + f"{'yield':>7}{'ms a draft':>12}")
    for name, make in RULES.items():
        outcomes = [(answer.category, simulate(make, answer, curve)) for answer in given]
        line = f"{name:34}"
        for category in [*categories, "all"]:
            these = [outcome for belongs, outcome in outcomes if category in (belongs, "all")]
            line += f"{mean(outcome.speedup for outcome in these):7.2f} ({mean(outcome.tau for outcome in these):.2f})"
        shares, times = zip(*((outcome.draft_yield, outcome.seconds) for _, outcome in outcomes), strict=True)
        line += f"{mean(shares):7.2f}{1000 * mean(times):12.3f}"
        print(line)


if __name__ == "__main__":
    main()
