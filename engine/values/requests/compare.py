"""What a comparison is asked for and what its samples are: plain values.

Several answers to one prompt, or to one each, under settings of their own. `engine.serving.time_sharing` lets them take turns,
`engine.serving.time_sharing` draws short ones many times.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.values.answers import Finish, Request, Round

MAX_SAMPLES = 10_000


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """Answers to be decoded in turns on one target.

    Requests that are to share a seed have to name it: one of None is drawn for each answer by itself.

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
        requests: one for each setting. The first sample has the seed of its options, 0 for None, each further one the next seed.
        samples: how many answers to each request.

    Raises:
        ValueError: no request, more than one target, or an impossible number of samples.
    """

    requests: tuple[Request, ...]
    samples: int

    def __post_init__(self) -> None:
        if not self.requests:
            raise ValueError("sampling needs at least one request")
        if not 1 <= self.samples <= MAX_SAMPLES:
            raise ValueError(f"samples must be from 1 to {MAX_SAMPLES:,}, not {self.samples:,}")
        _check_target(self.requests)


@dataclass(frozen=True, slots=True)
class Sample:
    """One of the answers.

    Attributes:
        request: index of its request. index: how many samples of that request came before.
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
