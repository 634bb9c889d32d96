"""The plain throughput that a speed-up is measured against: always measured, never derived. No Qt in here.

Speed-up is throughput over that of a plain run of the same question: the same target, conversation, beginning and options. A
plain run is an answer without any proposal, or the short one that `Request`s of `plain_request` ask for.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

from engine.drafter_kinds import NO_DRAFTER
from engine.types import DecodingOptions, Request, RunFinished

PLAIN_TOKENS = 32
"""Tokens of a plain run that is made only to be measured."""
LONGEST_PROMPT = 4096
"""Tokens of a prompt that is read for a measurement although nobody has asked for one. A longer one takes long to read, and its
keys and values take memory."""
FEWEST_TOKENS = 12
"""A shorter run says little about speed: the first round is slower than the rest."""
KEPT = 64
"""Questions whose baseline is remembered."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """A measured plain run.

    Attributes:
        throughput: tokens per second, as for any answer. tokens: how many it was measured over.
        fits: whether it is a run of the very question it is held against; a speed-up needs that.
    """

    throughput: float
    tokens: int
    fits: bool = True


class Baselines:
    """The newest plain run of each question in a session."""

    def __init__(self) -> None:
        self._known: OrderedDict[Request, Baseline] = OrderedDict()

    def add(self, request: Request, finished: RunFinished) -> Baseline | None:
        """Remembers a finished plain run of what `request` asked; None if it was too short to measure."""
        if finished.tokens < FEWEST_TOKENS or not finished.seconds > 0:
            return None
        question, baseline = _question(request), Baseline(finished.tokens / finished.seconds, finished.tokens)
        self._known[question] = baseline
        self._known.move_to_end(question)
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        return baseline

    def of(self, request: Request) -> Baseline | None:
        """The plain run of what `request` asks, else the newest on its target, marked as not fitting."""
        question = _question(request)
        if question in self._known:
            return self._known[question]
        newest = next((known for other, known in reversed(self._known.items()) if other.target == request.target), None)
        return None if newest is None else replace(newest, fits=False)


def _question(request: Request) -> Request:
    """What a plain run of a request depends on, with everything else at its default.

    Left out are drafter, rule and gamma, which a plain run has no use for, and the seed: it decides which tokens are drawn and
    not what drawing one costs, and a new one is drawn for every answer. Temperature, filters and penalties are work of their own
    for every token, and with the stop texts and the greatest length they decide how far the text goes; each token reads all
    before it, so the conversation and what the answer begins with count too.
    """
    anything = DecodingOptions()
    options = request.options.replace(rule=anything.rule, gamma=anything.gamma, seed=anything.seed)
    return replace(request, options=options, drafter=NO_DRAFTER, conversation="", trace_path=None, kept=True, only_measures=False)


def plain_request(request: Request) -> Request:
    """The same request answered plainly and briefly, outside the conversation and without a trace. Given tokens count for its
    length."""
    options = request.options.replace(max_tokens=len(request.given) + PLAIN_TOKENS, stop=())
    return replace(request, options=options, drafter=NO_DRAFTER, conversation="", trace_path=None, kept=False, only_measures=True)
