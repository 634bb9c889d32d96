"""Cost model of a target and its drafters on this machine, and acceptance rates: measured once, stored on disk."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from engine.decode.policy.estimates import Extra, first_choices
from engine.files.foreign import content_of, json_of
from engine.files.whole_file import write_whole
from engine.types import MAX_GAMMA, Round
from engine.values.errors import DraftlightError

MOST_KEPT = 64
"""Maximum number of targets with stored costs; those used longest ago are dropped first."""
ENOUGH_VERDICTS, ALPHA_FOLLOWS = 16, 0.15
"""Number of verdicts from which an answer's acceptance rate is stored, and smoothing factor by which a stored rate follows that
many."""
FEW_ROWS = 3
"""If the largest measured pass has fewer rows than this, the cost of rows counts as unknown."""


@dataclass
class MachineCosts:
    """Costs and acceptance rates of one target.

    Attributes:
        rows: milliseconds of a round without drafting, by number of rows that the target reads.
        steps: milliseconds of the first proposal in a round and of each further one, by name of a drafter that samples.
        alphas: acceptance rate of sampled proposals in earlier answers, by drafter name and temperature.
        models: SHA-256 of the model of each drafter, by name; missing in older files.
        trees: why the target cannot read trees, empty if it can, by version of mlx-lm and bits of its keys and values.
        depths: tokens a second with 0, 1, 2, ... proposals in a round, by name of a published head, as measured on first use.
    """

    rows: dict[int, float] = field(default_factory=dict)
    steps: dict[str, tuple[float, float]] = field(default_factory=dict)
    alphas: dict[str, float] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    depths: dict[str, tuple[float, ...]] = field(default_factory=dict)
    trees: dict[str, str] = field(default_factory=dict)

    def invalidate_if_changed(self, drafter: str, sha256: str) -> None:
        """Records the model of a drafter, and drops the drafter's figures if it was another one, as when a file was replaced."""
        if self.models.get(drafter, sha256) != sha256:
            self.steps.pop(drafter, None)
            self.depths.pop(drafter, None)
            self.alphas = {name: alpha for name, alpha in self.alphas.items() if _drafter_of(name) != drafter}
        self.models[drafter] = sha256

    def alpha(self, drafter: str, temperature: float) -> float | None:
        """Returns the acceptance rate of a drafter at a temperature; None if unknown."""
        return self.alphas.get(_at(drafter, temperature))

    def depth(self, drafter: str) -> int | None:
        """Returns the number of proposals in a round that was fastest on first use, 0 if that was none; None if not measured."""
        speeds = self.depths.get(drafter)
        return speeds.index(max(speeds)) if speeds else None

    def mean_alpha(self, drafter: str) -> float | None:
        """Returns a drafter's mean acceptance rate over all temperatures with a known rate; None if there is none."""
        seen = [alpha for name, alpha in self.alphas.items() if _drafter_of(name) == drafter]
        return statistics.mean(seen) if seen else None

    def extra(self, drafter: str, samples: bool) -> Extra | None:
        """Returns the cost, beyond a plain round and in plain rounds, of a number of proposals for which the drafter makes a
        number of passes; None if too little is known."""
        if 1 not in self.rows or max(self.rows) < FEW_ROWS or (samples and drafter not in self.steps):
            return None
        first, step = self.steps[drafter] if samples else (0.0, 0.0)
        known = np.array(sorted(self.rows), dtype=float)
        # A pass over more rows takes no less time: if one seems to, other programs disturbed one of the two measurements.
        measured = np.array([self.rows[int(rows)] for rows in known])
        times = (np.maximum.accumulate(measured) + np.minimum.accumulate(measured[::-1])[::-1]) / 2
        half = int(np.searchsorted(known, known[-1] / 2))
        beyond = (times[-1] - times[half]) / max(known[-1] - known[half], 1.0)
        rows = np.arange(1, MAX_GAMMA + 2)
        passes = np.interp(rows, known, times) + np.maximum(rows - known[-1], 0) * beyond
        costs = passes / times[0] - 1
        drafts = np.where(rows > 1, first + step * (rows - 2), 0.0) / times[0]

        def extra(proposals: Any, passes: Any = None) -> Any:
            """Returns the cost of some proposals (see `Extra`)."""
            return costs[proposals] + drafts[proposals if passes is None else passes]

        return extra

    def follow(self, rounds: Iterable[Round], temperature: float) -> None:
        """Updates each drafter's acceptance rate from the rounds of an answer."""
        verdicts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
        for finished in rounds:
            if finished.proposals and not finished.proposals[0].copied:
                counts = verdicts[_at(finished.drafted_by, temperature)]
                right = first_choices(finished.proposals)
                counts[0] += sum(right)
                counts[1] += len(right)
        for name, (accepted, judged) in verdicts.items():
            if name not in self.alphas:
                if judged >= ENOUGH_VERDICTS:
                    self.alphas[name] = accepted / judged
            else:
                follows = ALPHA_FOLLOWS * min(1.0, judged / ENOUGH_VERDICTS)
                self.alphas[name] += follows * (accepted / judged - self.alphas[name])


_AT = " at "


def _at(drafter: str, temperature: float) -> str:
    return f"{drafter}{_AT}{temperature:.1f}"


def _drafter_of(name: str) -> str:
    return name.rpartition(_AT)[0]


VERSION = 2
"""Version of the file's entries: those of another version are measured again."""
MOST_ROWS = 16
"""Largest number of rows that is measured; the cost of more is extrapolated linearly."""


class StoredCosts:
    """Costs of all targets, in a file that is read on first use. If the file cannot be read or written, costs are measured
    again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: dict[str, MachineCosts] | None = None

    def of(self, key: str) -> MachineCosts:
        """Returns the costs of a target, empty if unknown; `save` stores changes in them."""
        if self._kept is None:
            self._kept = _read(self._path)
        costs = self._kept.pop(key, None) or MachineCosts()
        self._kept[key] = costs  # dicts keep insertion order: the newest is last
        return costs

    def save(self) -> None:
        """Writes the costs to the file."""
        if self._kept is None:
            return
        newest = list(self._kept.items())[-MOST_KEPT:]
        table = {
            key: {
                "rows": {str(rows): time for rows, time in sorted(costs.rows.items())},
                "steps": costs.steps,
                "alphas": costs.alphas,
                "models": costs.models,
                "depths": costs.depths,
                "trees": costs.trees,
                "version": VERSION,
            }
            for key, costs in newest
            if costs.rows or costs.alphas or costs.depths or costs.trees
        }
        try:
            write_whole(self._path, json.dumps(table, indent=1) + "\n", durable=False)
        except DraftlightError:
            return


def _read(path: Path) -> dict[str, MachineCosts]:
    try:
        table = json_of(content_of(path))
        return {str(key): _costs_of(entry) for key, entry in table.items()}
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return {}


def _costs_of(entry: Mapping[str, Any]) -> MachineCosts:
    if entry.get("version") != VERSION:
        return MachineCosts()
    rows = {int(rows): float(time) for rows, time in entry["rows"].items()}
    steps = {str(name): (float(first), float(step)) for name, (first, step) in entry["steps"].items()}
    alphas = {str(name): float(alpha) for name, alpha in entry.get("alphas", {}).items()}
    models = {str(name): str(sha256) for name, sha256 in entry.get("models", {}).items()}
    depths = {str(name): tuple(map(float, speeds)) for name, speeds in entry.get("depths", {}).items()}
    trees = {str(kind): str(reason) for kind, reason in entry.get("trees", {}).items()}
    if not all(0 <= alpha <= 1 for alpha in alphas.values()):
        raise ValueError("not shares")
    if not all(0 < time < 1e9 for time in rows.values()) or not all(0 <= time < 1e9 for pair in steps.values() for time in pair):
        raise ValueError("not times")
    return MachineCosts({known: time for known, time in rows.items() if known > 0}, steps, alphas, models, depths, trees)
