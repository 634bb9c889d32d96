"""The plain throughput that a speed-up is relative to: always measured, never derived. No Qt.

Speed-up is throughput divided by that of a plain run of the same question: same target, conversation, beginning and options. A
plain run is an answer without any proposal, or the short run of a `plain_request`.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

from engine.types import DecodingOptions, Request, RunFinished
from engine.values.drafter_kinds import NO_DRAFTER

PLAIN_TOKENS = 32
"""Tokens in a plain run made only as a measurement."""
LONGEST_PROMPT = 4096
"""Longest prompt, in tokens, for an automatic measurement. A longer one takes long to read, and its keys and values take
memory."""
FEWEST_TOKENS = 12
"""Minimum tokens for a measurement: the first round is slower than the rest, which distorts shorter runs."""
KEPT = 64
"""Maximum number of questions whose baseline is remembered; the oldest are dropped."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """A measured plain run.

    Attributes:
        throughput: tokens per second, as for any answer. tokens: number of tokens measured.
        fits: whether it answers exactly the question it is compared with; a speed-up requires that.
    """

    throughput: float
    tokens: int
    fits: bool = True


class Baselines:
    """The newest plain run of each question in a session."""

    def __init__(self) -> None:
        self._known: OrderedDict[Request, Baseline] = OrderedDict()

    def add(self, request: Request, finished: RunFinished) -> Baseline | None:
        """Stores a finished plain run of `request`; returns None if it was too short to measure."""
        if finished.tokens < FEWEST_TOKENS or not finished.seconds > 0:
            return None
        question, baseline = _question(request), Baseline(finished.tokens / finished.seconds, finished.tokens)
        self._known[question] = baseline
        self._known.move_to_end(question)
        while len(self._known) > KEPT:
            self._known.popitem(last=False)
        return baseline

    def of(self, request: Request) -> Baseline | None:
        """Returns the plain run of the question in `request`, else the newest on its target with `fits` false."""
        question = _question(request)
        if question in self._known:
            return self._known[question]
        newest = next((known for other, known in reversed(self._known.items()) if other.target == request.target), None)
        return None if newest is None else replace(newest, fits=False)


def _question(request: Request) -> Request:
    """Returns the cache key of a request: only the fields that affect plain speed, everything else at its default.

    Drafter, rule, gamma and the size of trees do not affect a plain run. The seed decides which tokens are drawn, not what
    drawing costs, and it differs for every answer. Temperature, filters and penalties cost time for every token. Stop texts and
    the maximum length decide how far the text goes. Every token attends to all before it, so the conversation and the given
    beginning count, too.
    """
    anything = DecodingOptions()
    meaningless = ("rule", "gamma", "budget", "width", "seed")
    options = request.options.replace(**{name: getattr(anything, name) for name in meaningless})
    return replace(request, options=options, drafter=NO_DRAFTER, conversation="", trace_path=None, kept=True, only_measures=False)


def plain_request(request: Request) -> Request:
    """Returns a plain, short version of a request, outside the conversation and without a trace. Given tokens count towards its
    length."""
    options = request.options.replace(max_tokens=len(request.given) + PLAIN_TOKENS, stop=())
    return replace(request, options=options, drafter=NO_DRAFTER, conversation="", trace_path=None, kept=False, only_measures=True)
