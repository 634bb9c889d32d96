"""The outcomes of an answer's rounds, as the serving side gets them."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any

from engine.clock import Clock
from engine.decode.loop import DecodeLoop
from engine.decode.outcome import RoundOutcome
from engine.drafters.base import Drafter
from engine.run_control import Control
from engine.types import DecodingOptions


def outcomes_of(
    model: Any,
    prompt: Sequence[int],
    drafter: Drafter | None,
    options: DecodingOptions,
    control: Control | None = None,
    eos_ids: Iterable[int] | None = None,
) -> Generator[RoundOutcome, None, None]:
    """Decodes an answer; nothing is analysed unless its outcome is asked for that."""
    loop = DecodeLoop(model, prompt, drafter, options, None, eos_ids, None, control or Control(), 0, Clock(), None)
    return loop.outcomes()
