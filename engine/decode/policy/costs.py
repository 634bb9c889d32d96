"""Costs of a target's passes and its drafters' steps on this machine, and acceptance rates: measured once, kept on disk."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from engine.files.foreign import content_of, json_of
from engine.files.whole_file import write_whole
from engine.types import MAX_GAMMA, Round
from engine.values.errors import DraftlightError

MOST_KEPT = 64
"""Targets whose costs are kept; those measured longest ago go first."""
ENOUGH_VERDICTS, ALPHA_FOLLOWS = 16, 0.15
"""Verdicts of an answer from which an acceptance rate is stored, and the share by which a stored one follows that many."""
FEW_ROWS = 3
"""Where passes of fewer rows than this are all that is known, nothing is known of rows."""


@dataclass
class MachineCosts:
    """The figures of one target.

    Attributes:
        rows: milliseconds of a round by the number of rows that the target reads, drafting not included.
        steps: milliseconds of the first proposal in a round and of each further one, by the name of a drafter that samples.
        alphas: acceptance rate of sampled proposals in earlier answers, by the drafter's name and the temperature.
        models: SHA-256 of the model behind a drafter's figures, by its name; missing in figures from before this was noted.
    """

    rows: dict[int, float] = field(default_factory=dict)
    steps: dict[str, tuple[float, float]] = field(default_factory=dict)
    alphas: dict[str, float] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)

    def now_drafts(self, drafter: str, sha256: str) -> None:
        """Forgets what is known of a drafter if another model has its name now, as where a file was replaced."""
        if self.models.get(drafter, sha256) != sha256:
            self.steps.pop(drafter, None)
            self.alphas = {name: alpha for name, alpha in self.alphas.items() if _drafter_of(name) != drafter}
        self.models[drafter] = sha256

    def alpha(self, drafter: str, temperature: float) -> float | None:
        """Returns the acceptance rate of a drafter at a temperature; None where nothing was seen of it."""
        return self.alphas.get(_at(drafter, temperature))

    def usual_alpha(self, drafter: str) -> float | None:
        """Returns the mean acceptance rate over the temperatures that answers have shown; None where none has."""
        seen = [alpha for name, alpha in self.alphas.items() if _drafter_of(name) == drafter]
        return statistics.mean(seen) if seen else None

    def extra(self, drafter: str, samples: bool) -> Callable[[int], float] | None:
        """Returns the cost of a number of proposals beyond a plain round, in plain rounds; None where too little is known."""
        if 1 not in self.rows or max(self.rows) < FEW_ROWS or (samples and drafter not in self.steps):
            return None
        first, step = self.steps[drafter] if samples else (0.0, 0.0)
        known = np.array(sorted(self.rows), dtype=float)
        # A pass over more rows takes no less time: where one seems to, other programs disturbed one of the two measurements.
        measured = np.array([self.rows[int(rows)] for rows in known])
        times = (np.maximum.accumulate(measured) + np.minimum.accumulate(measured[::-1])[::-1]) / 2
        half = int(np.searchsorted(known, known[-1] / 2))
        beyond = (times[-1] - times[half]) / max(known[-1] - known[half], 1.0)
        rows = np.arange(1, MAX_GAMMA + 2)
        passes = np.interp(rows, known, times) + np.maximum(rows - known[-1], 0) * beyond
        drafts = np.where(rows > 1, first + step * (rows - 2), 0.0)
        costs = ((passes + drafts) / times[0] - 1).tolist()
        return costs.__getitem__

    def follow(self, rounds: Iterable[Round], temperature: float) -> None:
        """Takes in how often each drafter's proposals were accepted in an answer."""
        verdicts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
        for finished in rounds:
            if finished.proposals and not finished.proposals[0].copied:
                counts = verdicts[_at(finished.drafted_by, temperature)]
                counts[0] += finished.accepted
                counts[1] += finished.accepted + finished.rejected
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
"""Of the entries of the file: those of another version are measured anew."""
MOST_ROWS = 16
"""Passes of up to this many rows are measured; the cost of more is extrapolated in a straight line."""


class KeptCosts:
    """The costs of all targets, in a file that is read when they are first asked for. A file that cannot be read or written is as
    good as none: costs are measured again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: dict[str, MachineCosts] | None = None

    def of(self, key: str) -> MachineCosts:
        """Those of a target, which may know nothing yet; what changes in them is kept by `save`."""
        if self._kept is None:
            self._kept = _read(self._path)
        costs = self._kept.pop(key, None) or MachineCosts()
        self._kept[key] = costs  # the newest stands last
        return costs

    def save(self) -> None:
        """Writes down what is known."""
        if self._kept is None:
            return
        newest = list(self._kept.items())[-MOST_KEPT:]
        table = {
            key: {
                "rows": {str(rows): time for rows, time in sorted(costs.rows.items())},
                "steps": costs.steps,
                "alphas": costs.alphas,
                "models": costs.models,
                "version": VERSION,
            }
            for key, costs in newest
            if costs.rows or costs.alphas
        }
        try:
            write_whole(self._path, json.dumps(table, indent=1) + "\n", lasting=False)
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
    if not all(0 <= alpha <= 1 for alpha in alphas.values()):
        raise ValueError("not shares")
    if not all(0 < time < 1e9 for time in rows.values()) or not all(0 <= time < 1e9 for pair in steps.values() for time in pair):
        raise ValueError("not times")
    return MachineCosts({known: time for known, time in rows.items() if known > 0}, steps, alphas, models)
