"""Has a GPU compile, while models load, what the rounds of an answer run.

Metal compiles a kernel or a fused expression when it is first used, which takes some tens of milliseconds each. Within an answer
that would fall into its first rounds, and into what an automatic gamma learns from them. So a few rounds are decoded beforehand.
MLX's CPU back-end compiles nothing, so nothing is done there.
"""

from __future__ import annotations

import contextlib
from itertools import islice

from engine.decode.decoding import decode
from engine.drafters.base import Drafter
from engine.machine.host import computes_on_host
from engine.models.loaded import LoadedModel
from engine.types import RULES, DecodingOptions

PROMPT = (0, 1)
ROUNDS = 2
OPTIONS = DecodingOptions(gamma=2, seed=1)
FILTERED = OPTIONS.replace(top_k=20, top_p=0.9, min_p=0.05, repetition_penalty=1.1)
"""Every filter at once. Their values do not matter, since none is compiled into a kernel (`Shaper`)."""


def is_needed() -> bool:
    """Whether anything is compiled here at first use."""
    return not computes_on_host()


def warm_up(target: LoadedModel, drafter: Drafter | None = None) -> None:
    """Decodes a few rounds of a loaded model, or of a pair whose drafter nobody else uses.

    A drafter adds the rules, whose verdicts compare its distribution with the target's; one that copies adds nothing.
    """
    settings: list[DecodingOptions] = []
    if drafter is None:
        settings = [OPTIONS, FILTERED]
    elif drafter.capabilities.samples:
        settings = [OPTIONS.replace(rule=rule) for rule in RULES]
    for options in settings:
        with contextlib.closing(decode(target.model, PROMPT, drafter, options)) as rounds:
            for _ in islice(rounds, ROUNDS):
                pass
