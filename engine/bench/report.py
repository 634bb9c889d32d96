"""A benchmark as one JSON document, with everything that its figures depend on. Nothing here imports MLX."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from engine import provenance
from engine.bench.statistics import COVERAGE, RESAMPLES, noise_of_plain, summarise
from engine.codec import plain
from engine.requests.bench import BenchPrompt, BenchRequest, BenchRow, BenchSetup

FORMAT = "draftlight.bench/1"
METHOD = {
    "baseline": "Every setting on a prompt runs between two plain runs of the same prompt, temperature and seed; speedup is its "
    "tokens_per_second over that of these two runs together (plain_tokens / plain_seconds).",
    "conversations": "Later turns follow the answers of the first plain run, for every setting.",
    "seconds": "From the end of reading the prompt (all but its last token) to the last token; drafter and cache start empty.",
    "decoding": "Measured with analyse off and phase_every 0.",
    "peers": "mlx-lm's generate_step and speculative_generate_step on the same loaded models and prompts, read beforehand; its "
    "rule is match, it draws its own noise and yields ids without texts. Its rejected proposals are inferred from where its "
    "rounds end.",
    "summary": "speedup is the geometric mean over prompts; alpha, tau and tokens_per_second are ratios of sums over prompts.",
    "intervals": f"Percentile bootstrap over prompts, {COVERAGE:.0%}, {RESAMPLES} resamples; too narrow for few prompts.",
    "repetition": "Share of the answer's 4-grams that had occurred in it before. A repetitive answer helps every drafter.",
}


@dataclass
class Results:
    """What a benchmark has yielded so far.

    Attributes:
        messages: prompts and turns that were skipped, with the reason.
    """

    request: BenchRequest
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    setup: BenchSetup | None = None
    rows: list[BenchRow] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    complete: bool = False


def document(results: Results, *, summary: bool = True) -> dict[str, Any]:
    """The JSON document. `rows` are Draftlight's, those of mlx-lm stand under `peers` with the same keys.

    Args:
        summary: also work out the figures by category.
    """
    request, setup = results.request, results.setup
    described = {} if setup is None else plain(setup)
    target = described.get("target", {"name": request.target})
    options = {name: value for name, value in plain(request).items() if name not in ("prompts", "target", "seed")}
    return {
        "format": FORMAT,
        "complete": results.complete,
        "created": results.created,
        "versions": provenance.versions(),
        "hardware": {**provenance.hardware(), "device": described.get("device")},
        "target": {name: value for name, value in target.items() if name != "path"},
        "drafters": described.get("drafters", []),
        "options": {**options, "analyse": False, "phase_every": 0, "warm_up_tokens": described.get("warm_up_tokens")},
        "seed": request.seed,
        "prompts": [_prompt(prompt) for prompt in request.prompts],
        "method": METHOD,
        "notes": [*described.get("notes", []), *results.messages],
        "noise_of_plain": noise_of_plain(results.rows),
        "rows": _rows(results.rows, "draftlight"),
        "peers": _rows(results.rows, "mlx-lm"),
        "summary": plain(summarise(results.rows)) if summary else [],
    }


def text_of(document: dict[str, Any]) -> str:
    """The document as it is written to a file."""
    return json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _rows(rows: Sequence[BenchRow], maker: str) -> list[dict[str, Any]]:
    return [plain(row) for row in rows if row.maker == maker]


def _prompt(prompt: BenchPrompt) -> dict[str, Any]:
    """The prompt by its hash: the texts may not be ours to pass on."""
    digest = hashlib.sha256(json.dumps(prompt.turns).encode()).hexdigest()
    return {"id": prompt.id, "category": prompt.category, "turns": len(prompt.turns), "sha256": digest}
