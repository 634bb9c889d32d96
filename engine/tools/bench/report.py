"""Converts a benchmark to one JSON document that includes everything its figures depend on. Nothing here imports MLX."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from engine.lens.shared_wording import drafter_title, filter_words
from engine.machine import provenance
from engine.rounds.codec import plain
from engine.tools.bench.chooser import Decision, advice, decide
from engine.tools.bench.statistics import (
    COVERAGE,
    MIN_PROMPTS,
    RESAMPLES,
    BenchFigures,
    noise_of_plain,
    prompts_measured,
    summarise,
    whole_blocks,
)
from engine.types import BenchFinished, BenchMeasured, BenchSkipped, BenchStarted, DecodingOptions, Event
from engine.values.drafter_kinds import DRAFTERS, NO_DRAFTER, may_fit
from engine.values.requests.bench import BenchPrompt, BenchRequest, BenchRow, BenchSetup
from engine.values.wording import amount, listed, noun, size

FORMAT = "draftlight.bench/1"
METHOD = {
    "baseline": "Up to three settings on a prompt run between two plain runs of the same prompt, temperature and seed; speedup "
    "is tokens_per_second over that of these two runs together, each weighted by how near it was in time (plain_tokens / "
    "plain_seconds).",
    "conversations": "Later turns follow the answers of the first plain run, for every setting.",
    "seconds": "From the end of reading the prompt (all but its last token) to the last token; drafter and cache start empty.",
    "decoding": "What the window shows of each round (probabilities, alternatives, times by phase) is not worked out meanwhile: "
    "analyse is off, phase_every 0.",
    "peers": "mlx-lm's generate_step and speculative_generate_step on the same loaded models and prompts, read beforehand, "
    "with its own filters and repetition penalty, set alike; its rule is match, it draws its own noise and yields ids without "
    "texts. Its rejected proposals are inferred from where its rounds end.",
    "summary": "speedup is the geometric mean over prompts; alpha, tau and tokens_per_second are ratios of sums over prompts. "
    "Prompts on which not every setting was measured are left out, unless there is no other.",
    "intervals": f"{COVERAGE:.0%}, over prompts. Of speed-ups Student's, of their logarithms, from {MIN_PROMPTS} prompts on; of "
    f"alpha and tau percentile bootstraps with {RESAMPLES} resamples, too narrow for few prompts.",
    "choices": "Settings are compared prompt by prompt, Student's t on differences of log speed-ups, Bonferroni over the "
    "settings; a winner beats every other setting and plain decoding, and a false one is called in at most 5% of benchmarks.",
    "peak_memory": "Bytes of MLX's arrays at their most during the answer, without those of the other drafters that are loaded; "
    "what Python, numpy, the tokenizer and the libraries take is not counted. process_peak_memory_bytes counts everything in "
    "the process that measured, with all drafters loaded, since it was started; of a split target that is the process of rank 0.",
    "repetition": "Share of the answer's 4-grams that had occurred in it before. A repetitive answer helps every drafter.",
}


@dataclass
class Results:
    """Results of a benchmark so far.

    Attributes:
        messages: prompts and turns that were skipped, with the reason.
        out_of_time: whether it ended because its time limit was reached.
        process_peak_memory: as in `BenchFinished`; None before the end.
    """

    request: BenchRequest
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    setup: BenchSetup | None = None
    rows: list[BenchRow] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    complete: bool = False
    out_of_time: bool = False
    process_peak_memory: int | None = None

    def take(self, event: Event) -> None:
        """Adds the results of an event of the benchmark; ignores other events."""
        match event:
            case BenchStarted(_, setup):
                self.setup = setup
            case BenchMeasured(_, row):
                self.rows.append(row)
            case BenchSkipped(_, message):
                self.messages.append(message)
            case BenchFinished(_, complete, out_of_time, peak):
                self.complete, self.out_of_time, self.process_peak_memory = complete, out_of_time, peak
            case _:
                pass

    def figures(self) -> tuple[BenchFigures, ...]:
        """Returns the figures of the rows, with every setting on the same prompts."""
        return summarise(whole_blocks(self.rows, () if self.setup is None else self.setup.settings))

    def decisions(self) -> tuple[Decision, ...]:
        """Returns the choice of a setting for each temperature."""
        return () if self.setup is None else decide(self.rows, self.setup.settings, self.request.target)

    def sampling(self) -> str:
        """Returns a sentence with the temperatures and filters of all answers."""
        on = filter_words(DecodingOptions(temperature=max(self.request.temperatures), **self.request.filters)).values()
        temperatures = listed([f"{temperature:g}" for temperature in self.request.temperatures])
        named = f"{noun(len(self.request.temperatures), 'temperature')} {temperatures}"
        return ", ".join([named, *on]) if on else f"{named}, no filters"

    def left_out(self, titles: bool = False) -> str:
        """Returns a sentence with the drafters that fit the target but were not measured; empty if there are none or nothing
        was measured yet. `titles`: name them as in the window, not as on the command line."""
        if self.setup is None or not self.rows:
            return ""
        request = self.request
        others = [
            name
            for name, kind in DRAFTERS.items()
            if name not in (NO_DRAFTER, *request.drafters) and kind.fits != "inside" and may_fit(name, request.target)
        ]
        words = [*(drafter_title(name) if titles else name for name in others), *self.setup.own]
        return f"Not measured: {listed(words)}." if words else ""

    def conditions(self, titles: bool = False) -> str:
        """Returns sentences on the sampling, on trees and on drafters that were not measured."""
        budget, width = self.request.budget, self.request.width
        trees = "" if not isinstance(budget, int) else f" Trees of at most {amount(budget, 'proposal')}, {width} for a position."
        return f"Sampling: {self.sampling()}.{trees} {self.left_out(titles)}".rstrip()

    def memory_of_process(self) -> str:
        """Returns a sentence on the peak memory of the measuring process; empty if it is unknown."""
        if self.process_peak_memory is None:
            return ""
        peak = size(self.process_peak_memory)
        return f"The process that measured, with all drafters loaded and everything counted, took at most {peak}."

    def missing(self) -> list[str]:
        """Returns sentences on what was requested but not measured."""
        if self.complete or self.setup is None:
            return []
        requested, lines = len(self.request.prompts), []
        for temperature, (complete, part) in prompts_measured(self.rows, self.setup.settings).items():
            scope = f" at temperature {temperature:g}" if len(self.request.temperatures) > 1 else ""
            lines.append(f"Every setting was measured on {complete} of {amount(requested, 'prompt')}{scope}.")
            if part:
                lines[-1] += f" {part} more {'were' if part > 1 else 'was'} begun and {'do' if part > 1 else 'does'} not count."
        return lines


def document(results: Results, *, summary: bool = True) -> dict[str, Any]:
    """Returns the JSON document. `rows` are Draftlight's; those of mlx-lm are under `peers`, with the same keys.

    Args:
        summary: whether to include the figures by category.
    """
    request, setup = results.request, results.setup
    described = {} if setup is None else plain(setup)
    target = described.get("target", {"name": request.target})
    options = {
        name: value for name, value in plain(request).items() if name not in ("prompts", "target", "seed", "journals", "anew")
    }
    return {
        "format": FORMAT,
        "complete": results.complete,
        "created": results.created,
        "versions": provenance.versions(),
        "hardware": {**provenance.hardware(), "device": described.get("device")},
        "process_peak_memory_bytes": results.process_peak_memory,
        "target": {name: value for name, value in target.items() if name != "path"},
        "drafters": described.get("drafters", []),
        "options": {**options, "analyse": False, "phase_every": 0, "warm_up_tokens": described.get("warm_up_tokens")},
        "seed": request.seed,
        "prompts": [_prompt(prompt) for prompt in request.prompts],
        "method": METHOD,
        "notes": [*described.get("notes", []), *results.messages],
        "missing": results.missing(),
        "left_out": results.left_out(),
        "choices": [_choice(decision) for decision in results.decisions()] if summary else [],
        "noise_of_plain": noise_of_plain(results.rows),
        "rows": _rows(results.rows, "draftlight"),
        "peers": _rows(results.rows, "mlx-lm"),
        "summary": plain(results.figures()) if summary else [],
    }


def text_of(document: dict[str, Any]) -> str:
    """Returns the document as text for a file."""
    return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _choice(decision: Decision) -> dict[str, Any]:
    words = advice(decision)
    described = plain(decision)
    return {
        **{key: described[key] for key in ("temperature", "prompts", "verdict", "resolution")},
        "advised": described["advised"] and described["advised"]["setting"],
        "best": [entry["setting"] for entry in described["best"]],
        "contenders": described["contenders"],
        "words": [words.headline, *words.details],
    }


def _rows(rows: Sequence[BenchRow], maker: str) -> list[dict[str, Any]]:
    return [plain(row) for row in rows if row.maker == maker]


def _prompt(prompt: BenchPrompt) -> dict[str, Any]:
    """Returns the prompt with hashes instead of its texts, which may not be ours to publish."""
    digest = hashlib.sha256(json.dumps(prompt.turns).encode()).hexdigest()
    return {"id": prompt.id, "category": prompt.category, "turns": len(prompt.turns), "sha256": digest}
