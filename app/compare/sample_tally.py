"""Many short answers under each setting of a comparison: the run, its statistics, and their JSON file. No Qt."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from app.compare.comparison import ColumnSetup, Setup
from engine.files.whole_file import write_whole
from engine.lens.rule_comparison import first_choice
from engine.rounds.codec import round_to_json
from engine.rounds.metrics import wilson_interval
from engine.types import EXPECTED_RULES, Event, SampleTaken, SamplingFinished, TaskFailed
from engine.values.requests.compare import Sample

SCHEMA = "draftlight.samples/1"
NUMBERS = range(1, 11)
_FIRST_NUMBER = re.compile(r"\s*(\d+)")


def number_in(text: str) -> int | None:
    """Returns the number that a text begins with; None if it begins with something else, or with a number outside 1 to 10."""
    found = _FIRST_NUMBER.match(text)
    value = int(found.group(1)) if found else None
    return value if value in NUMBERS else None


class SampleTally:
    """Running statistics of the samples of one setting.

    Attributes:
        numbers: how often each number was drawn; None counts everything else.
        judged, accepted: verdicts on the first proposal of each sample.
    """

    def __init__(self, setup: ColumnSetup) -> None:
        self.setup = setup
        self.samples: list[Sample] = []
        self.numbers: Counter[int | None] = Counter()
        self.judged = 0
        self.accepted = 0
        self._expected: list[float] = []
        self._squares: list[float] = []

    def add(self, sample: Sample) -> None:
        """Adds one sample."""
        self.samples.append(sample)
        self.numbers[number_in(sample.text)] += 1
        first = sample.rounds[0]
        if not first.proposals:
            return
        self.judged += 1
        self.accepted += first_choice(first, 0).status == "accepted"
        if first.expected:
            self._squares.append(first.expected[0].match)
            if self.setup.rule in EXPECTED_RULES:
                self._expected.append(getattr(first.expected[0], self.setup.rule))

    @property
    def share(self) -> float | None:
        """Share of accepted first proposals; None before the first verdict."""
        return self.accepted / self.judged if self.judged else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95 % interval of `share`; None before the first verdict."""
        return wilson_interval(self.accepted, self.judged) if self.judged else None

    @property
    def expected(self) -> float | None:
        """The rule's closed-form acceptance at the first position; None under block, which judges jointly."""
        return _mean(self._expected)

    @property
    def squares(self) -> float | None:
        """Sum of p q at the first position; if the target drafts for itself, the sum of the squared probabilities.
        None before the first sample."""
        return _mean(self._squares)


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


class Sampling:
    """Many short answers under each setting of a comparison, which the engine draws in turn.

    Attributes:
        running: whether the engine still draws.
        tallies: one per setting.
        problem: why drawing ended early; empty if it did not.
    """

    def __init__(self, setup: Setup, target: str) -> None:
        self.setup, self.target = setup, target
        self.running = True
        self.tallies = [SampleTally(column) for column in setup.columns]
        self.problem = ""

    def apply(self, event: Event) -> None:
        """Applies one event; ignores all but those of samples."""
        match event:
            case SampleTaken(sample=sample):
                self.tallies[sample.request].add(sample)
            case SamplingFinished():
                self.running = False
            case TaskFailed(message=message):
                self.failed(message)

    def failed(self, message: str) -> None:
        """Records that the engine refused or ended the drawing."""
        self.running, self.problem = False, message

    @property
    def largest(self) -> int:
        """The highest count of any number or of the rest, in all settings."""
        return max(max(tally.numbers.values(), default=1) for tally in self.tallies)


def write_samples(path: Path, setup: Setup, target: str, tallies: Sequence[SampleTally]) -> Path:
    """Writes every sample with its rounds, and the statistics, as JSON. Raises DraftlightError if the file cannot be written."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "target": target,
        "prompt": setup.prompt,
        "template": setup.template,
        "seed": setup.seed,
        "max_tokens": setup.max_tokens,
        "settings": [
            {
                **asdict(tally.setup),
                "samples": len(tally.samples),
                "first_proposal": {
                    "judged": tally.judged,
                    "accepted": tally.accepted,
                    "interval_95": tally.interval,
                    "closed_form": tally.expected,
                    "sum_p_q": tally.squares,
                },
                "numbers": {"other" if number is None else str(number): many for number, many in tally.numbers.items()},
                "answers": [
                    {"seed": sample.seed, "text": sample.text, "rounds": [round_to_json(round_) for round_ in sample.rounds]}
                    for sample in tally.samples
                ],
            }
            for tally in tallies
        ],
    }
    write_whole(path, json.dumps(document, ensure_ascii=False, indent=1) + "\n")
    return path
