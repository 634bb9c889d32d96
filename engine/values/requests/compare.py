"""Requests for comparisons and samples, and the samples, as plain values.

Several answers to one prompt, or to one each, each under its own settings. `engine.serving.time_sharing` decodes the answers of a
comparison in turns and draws short ones many times.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.values.answers import Finish, Request, Round
from engine.values.ranges import RANGES


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """Answers to be decoded in turns on one target.

    Requests that are to share a seed must name it: for a seed of None, each answer draws its own.

    Raises:
        ValueError: fewer than two requests, or more than one target.
    """

    requests: tuple[Request, ...]

    def __post_init__(self) -> None:
        if len(self.requests) < 2:
            raise ValueError(f"a comparison needs at least two requests, not {len(self.requests)}")
        _check_target(self.requests)


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """Short answers, each drawn many times.

    Attributes:
        requests: one for each setting. The first sample has the seed of its options (None counts as 0), each further one the next
            seed.
        samples: number of answers to each request.

    Raises:
        ValueError: no request, more than one target, or an impossible number of samples.
    """

    requests: tuple[Request, ...]
    samples: int

    def __post_init__(self) -> None:
        if not self.requests:
            raise ValueError("sampling needs at least one request")
        if not RANGES["samples"].holds(self.samples):
            raise ValueError(f"samples must be {RANGES['samples'].words}, not {self.samples:,}")
        _check_target(self.requests)


@dataclass(frozen=True, slots=True)
class Sample:
    """One of the answers.

    Attributes:
        request: index of its request. index: number of earlier samples of that request.
    """

    request: int
    index: int
    seed: int
    text: str
    finish: Finish
    rounds: tuple[Round, ...]


def _check_target(requests: tuple[Request, ...]) -> None:
    if len({request.target for request in requests}) > 1:
        raise ValueError("all requests must name the same target: only one is loaded at a time")
