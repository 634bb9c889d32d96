"""The plain throughput that a speed-up is measured against: always measured, never derived. No Qt in here.

Speed-up is throughput over that of a plain run on the same prompt, model and machine. A plain run is an answer without any
proposal, or the short one that `Request`s of `plain_request` ask for.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

from engine.drafter_kinds import NO_DRAFTER
from engine.types import Message, Request, RunFinished

PLAIN_TOKENS = 32
"""Tokens of a plain run that is made only to be measured."""
FEWEST_TOKENS = 12
"""A shorter run says little about speed: the first round is slower than the rest."""
KEPT = 64
"""Prompts whose baseline is remembered."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """A measured plain run.

    Attributes:
        throughput: tokens per second, as for any answer. tokens: how many it was measured over.
        same_prompt: whether it answered the prompt it is compared on.
    """

    throughput: float
    tokens: int
    same_prompt: bool = True


class Baselines:
    """The newest plain run of each target and prompt in a session."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, tuple[Message, ...]], Baseline] = OrderedDict()

    def add(self, target: str, messages: tuple[Message, ...], finished: RunFinished) -> Baseline | None:
        """Remembers a finished plain run; None if it was too short to measure."""
        if finished.tokens < FEWEST_TOKENS or not finished.seconds > 0:
            return None
        baseline = Baseline(finished.tokens / finished.seconds, finished.tokens)
        self._known[target, messages] = baseline
        self._known.move_to_end((target, messages))
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        return baseline

    def of(self, target: str, messages: tuple[Message, ...]) -> Baseline | None:
        """The plain run of this prompt, else the newest of this target, marked as one of another prompt."""
        if (target, messages) in self._known:
            return self._known[target, messages]
        newest = next((known for (name, _), known in reversed(self._known.items()) if name == target), None)
        return None if newest is None else replace(newest, same_prompt=False)


def plain_request(request: Request) -> Request:
    """The same request answered plainly and briefly, outside the conversation."""
    options = request.options.replace(max_tokens=PLAIN_TOKENS, stop=())
    return replace(request, options=options, drafter=NO_DRAFTER, conversation="", trace_path=None, given=())
