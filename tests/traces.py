"""Writes traces for tests from any rounds, in the same way as the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.rounds.trace import Writer
from engine.types import Round


def write_trace(
    path: Path,
    rounds: Sequence[Round],
    prompt: str = "Tell me a story.",
    changes: Iterable[Mapping[str, Any]] = (),
    summary: Mapping[str, Any] | None = None,
    history: Sequence[tuple[str, str]] = (),
    read: str = "",
    **header: Any,
) -> Path:
    """Write a trace and return its path.

    Args:
        changes: of rule, gamma or drafter, each with the `index` of the first round under it.
        summary: added to the usual one. history: earlier messages as (role, text). read: the prompt as the model read it.
            header: put over the usual one.
    """
    messages = [*history, ("user", prompt)]
    writer = Writer(
        path,
        {
            "created": "2026-11-21T12:00:00.000+00:00",
            "versions": {"draftlight": "0.1.0", "mlx": "0.32.4"},
            "hardware": {"machine": "x86_64", "cores": 2, "device": "cpu"},
            "target": {"name": "SmolLM2-135M-Instruct", "sha256": "a" * 64},
            "drafter": {"name": "builtin-draft", "sha256": "b" * 64, "has_distribution": True},
            "options": {"rule": "gumbel", "temperature": 0.8, "seed": 5, "gamma": 4, "max_tokens": 64},
            "seed": 5,
            "prompt": {"messages": [{"role": role, "content": text} for role, text in messages], "ids": [1, 2, 3], "text": read},
            **header,
        },
    )
    left = list(changes)
    for round_ in rounds:
        while left and left[0]["index"] <= round_.index:
            writer.change(left.pop(0))
        writer.round(round_)
    ended = rounds[-1] if rounds else None
    writer.summary(
        {
            "finish": ended.finish if ended else "cancelled",
            "error": None,
            "text": "".join(round_.text for round_ in rounds),
            "tokens": sum(len(round_.emitted) for round_ in rounds),
            "seconds": (ended.started + ended.milliseconds.total) / 1000 if ended else 0.0,
            "prefill_seconds": 0.5,
            "seconds_to_first_token": 0.75,
            **(summary or {}),
        }
    )
    writer.close()
    return path
