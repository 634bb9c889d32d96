"""What passes of a target and steps of its drafters take here: measured once, kept on disk, corrected by what is seen."""

from __future__ import annotations

import json
import statistics
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.errors import DraftlightError
from engine.files.foreign import content_of, json_of
from engine.files.whole_file import write_whole
from engine.types import MAX_GAMMA, Round

MOST_KEPT = 64
"""Targets whose costs are kept; those measured longest ago go first."""
ENOUGH = 4
"""Plain rounds of an answer that say what one costs there, and rounds of one length that say what that costs."""
ENOUGH_VERDICTS, ALPHA_FOLLOWS = 16, 0.15
"""The same of proposals, and of their alpha: what is asked changes."""
FEW_ROWS = 3
"""Where passes of fewer rows than this are all that is known, nothing is known of rows."""
MOST_WRONG = 4.0
"""No answer is believed that what is known of rows is wrong by a larger factor."""
FOLLOWS = 0.2
"""How far a kept figure follows that of one answer: other programs run now and then."""


@dataclass
class MachineCosts:
    """Of one target.

    Attributes:
        rows: milliseconds of a round by the rows that the target reads, nothing drafted.
        steps: of each drafter that draws, milliseconds of its first proposal in a round and of each further one.
        alphas: how often what a drafter drew was accepted in answers so far, by its name and the temperature.
        models: SHA-256 of the model that these are of, by the drafter's name; none of figures from before this was noted.
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
        """What is to be expected of a drafter's alpha; None where nothing was seen of it."""
        return self.alphas.get(_at(drafter, temperature))

    def usual_alpha(self, drafter: str) -> float | None:
        """The mean over the temperatures at which answers have shown its alpha; None where none has."""
        seen = [alpha for name, alpha in self.alphas.items() if _drafter_of(name) == drafter]
        return statistics.mean(seen) if seen else None

    def extra(self, drafter: str, draws: bool) -> Callable[[int], float] | None:
        """What a round of so many proposals takes longer than a plain one, in plain rounds; None where too little is known."""
        if 1 not in self.rows or max(self.rows) < FEW_ROWS or (draws and drafter not in self.steps):
            return None
        first, step = self.steps[drafter] if draws else (0.0, 0.0)
        plain = self.rows[1]

        def of(gamma: int) -> float:
            """No draft costs less than none: where the times say so, they are noise."""
            return 0.0 if gamma < 1 else (max(self._of_rows(gamma + 1), plain) + first + step * (gamma - 1)) / plain - 1

        known = [of(gamma) for gamma in range(MAX_GAMMA + 1)]
        return known.__getitem__

    def _of_rows(self, rows: int) -> float:
        """On straight lines between what was measured. Beyond, on the steepest line to the last of them from one of half its
        rows or fewer: two neighbours alone, one of them disturbed, would tell of passes that grow cheaper with their rows."""
        times = self._rising()
        known = list(times)
        last = known[-1]
        if rows > last:
            slopes = [(times[last] - times[low]) / (last - low) for low in known if 2 * low <= last]
            return times[last] + max(0.0, *slopes) * (rows - last)
        after = min(max(bisect_left(known, rows), 1), len(known) - 1)
        low, high = known[after - 1], known[after]
        return times[low] + (times[high] - times[low]) * (rows - low) / (high - low)

    def _rising(self) -> dict[int, float]:
        """Returns `rows` in order, fitted by isotonic regression: a pass over more rows takes no less time. Where one seems to,
        other programs disturbed the measurement, and those rows would look free for ever."""
        pools: list[list[int]] = []
        for rows in sorted(self.rows):
            pools.append([rows])
            while len(pools) > 1 and self._mean(pools[-2]) > self._mean(pools[-1]):
                pools[-2:] = [pools[-2] + pools[-1]]
        return {rows: self._mean(pool) for pool in pools for rows in pool}

    def _mean(self, pool: Sequence[int]) -> float:
        return sum(self.rows[rows] for rows in pool) / len(pool)

    def follow(self, rounds: Iterable[Round], temperature: float) -> None:
        """Takes in what an answer has shown. Only ratios to its own plain rounds count: the machine may have been busy with
        something else all the time."""
        verdicts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
        plain: list[float] = []
        by_rows: defaultdict[int, list[float]] = defaultdict(list)
        steps: defaultdict[str, list[float]] = defaultdict(list)
        for finished in rounds:
            times = finished.milliseconds
            if finished.proposals and not finished.proposals[0].copied:
                counts = verdicts[_at(finished.drafted_by, temperature)]
                counts[0] += finished.accepted
                counts[1] += finished.accepted + finished.rejected
            if not finished.index or times.total <= 0:
                continue  # the first round pays for much that no other does
            if finished.queued:
                continue  # without a drafter rounds overlap, and take less
            if not finished.proposals:
                plain.append(times.total)
            elif all(proposal.copied for proposal in finished.proposals):
                by_rows[finished.rows].append(times.total)
            elif times.draft is not None:
                steps[finished.drafted_by].append(times.draft / len(finished.proposals))
        self._follow_alphas(verdicts)
        if len(plain) < ENOUGH:
            return
        usual = statistics.median(plain)
        self.rows.setdefault(1, usual)
        scale = self.rows[1] / usual
        if max(self.rows) >= FEW_ROWS:
            self._correct(by_rows, scale)
        else:  # nothing was measured beforehand
            medians = {rows: statistics.median(seen) * scale for rows, seen in by_rows.items() if len(seen) >= ENOUGH}
            self.rows |= {rows: max(time, self.rows[1]) for rows, time in medians.items()}
        for drafter, drafted in steps.items():
            if len(drafted) >= ENOUGH:
                each = statistics.median(drafted) * scale
                first, step = self.steps.get(drafter, (each, each))
                mean = (first + step) / 2
                change = 1 + FOLLOWS * (each / mean - 1) if mean > 0 else 1.0
                self.steps[drafter] = (first * change, step * change)

    def _follow_alphas(self, verdicts: Mapping[str, Sequence[int]]) -> None:
        """Takes in how many proposals of each drafter were accepted, of so many that were judged; of few the less."""
        for name, (accepted, judged) in verdicts.items():
            if name not in self.alphas:
                if judged >= ENOUGH_VERDICTS:
                    self.alphas[name] = accepted / judged
            else:
                follows = ALPHA_FOLLOWS * min(1.0, judged / ENOUGH_VERDICTS)
                self.alphas[name] += follows * (accepted / judged - self.alphas[name])

    def _correct(self, by_rows: Mapping[int, Sequence[float]], scale: float) -> None:
        """Has all that further rows cost follow what copies cost in an answer, by one factor: a factor for each number of rows
        would be known well for those that were read often, and their neighbours would look cheap or dear beside them.

        Args:
            by_rows: milliseconds of rounds. scale: what makes them comparable with `rows`.
        """
        plain = self.rows[1]
        supposed = {rows: max(self._of_rows(rows) - plain, 0.0) for rows in by_rows}
        weight = sum(supposed[rows] ** 2 * len(seen) for rows, seen in by_rows.items())
        if weight <= 0 or sum(map(len, by_rows.values())) < ENOUGH:
            return
        more = sum(supposed[rows] * (statistics.median(seen) * scale - plain) * len(seen) for rows, seen in by_rows.items())
        change = 1 + FOLLOWS * (min(max(more / weight, 1 / MOST_WRONG), MOST_WRONG) - 1)
        for rows, time in self.rows.items():
            self.rows[rows] = plain + (time - plain) * change if time > plain else time


_AT = " at "


def _at(drafter: str, temperature: float) -> str:
    return f"{drafter}{_AT}{temperature:.1f}"


def _drafter_of(name: str) -> str:
    return name.rpartition(_AT)[0]


VERSION = 2
"""Of the entries of the file: those of another version are measured anew."""
MOST_ROWS = 16
"""Passes of up to so many rows are measured; what more cost goes on in a straight line."""


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
