"""Warms up a GPU while models load: makes it compile the kernels that an answer's rounds run.

Metal compiles a kernel or a fused expression on first use, which takes some tens of milliseconds each. During an answer, that
would slow down its first rounds and distort the estimates of an automatic gamma. So a few rounds are decoded beforehand. MLX's
CPU back-end compiles nothing, so there is no warm-up on it.
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
"""All filters at once. Their values do not matter, because none is compiled into a kernel (`Shaper`)."""


def is_needed() -> bool:
    """Returns whether MLX compiles anything on first use here."""
    return not computes_on_host()


def warm_up(target: LoadedModel, drafter: Drafter | None = None) -> None:
    """Decodes a few rounds of a loaded model, or of a pair with a drafter that is not in use.

    With a drafter, every rule is run, because the verdicts compare its distribution with the target's. A drafter that only copies
    adds nothing.
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
