"""Dividers of an answer where rule, drafter or gamma changed, with their labels: the same in text, rounds, charts and exports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from engine.lens.shared_wording import stretch_title
from engine.rounds.metrics import Stretch
from engine.types import INVARIANT_RULES, Gamma, Rule
from engine.values.drafter_kinds import NO_DRAFTER


@dataclass(frozen=True, slots=True)
class Divider:
    """A position at which other settings came into force.

    Attributes:
        first: index of the first round under the new settings, above 0.
        rule: the rule in force from there on.
        title: the change in few words: "Rejection", "Rejection, gamma 5", "Gamma 5".
        now_depends: whether the text depends on the drafter from there on, for the first time.
    """

    first: int
    rule: Rule
    title: str
    now_depends: bool = False

    @property
    def from_here(self) -> str:
        """The change as a short label."""
        return f"{self.title} from here"

    @property
    def label(self) -> str:
        """The change as a label that also says if the text depends on the drafter from there on."""
        return f"{self.from_here}; the text now depends on the drafter" if self.now_depends else self.from_here


def dividers(
    stretches: Sequence[Stretch], gamma: Gamma, changes: Iterable[tuple[int, Gamma]], greedy: bool = False
) -> list[Divider]:
    """Returns the dividers in order of rounds; the time depends on the number of changes, not of rounds.

    Args:
        gamma: at the start.
        changes: (index of a round, gamma from there on), in order. Entries are ignored if they change nothing, belong to rounds
            without a drafter, or to rounds that do not exist yet.
        greedy: whether the temperature is 0, where no text depends on the drafter.
    """
    gammas: dict[int, Gamma] = {}
    for index, new_gamma in changes:
        if new_gamma != gamma:
            gammas[index] = new_gamma
        gamma = new_gamma
    result = []
    depended = greedy or any(map(_depends_on_drafter, stretches[:1]))
    for previous, stretch in pairwise(stretches):
        suffix = f", gamma {gammas.pop(stretch.first)}" if stretch.first in gammas else ""
        now_depends = not depended and _depends_on_drafter(stretch)
        result.append(Divider(stretch.first, stretch.rule, stretch_title(stretch, previous) + suffix, now_depends))
        depended = depended or now_depends
    for index, new_gamma in gammas.items():
        current = next((stretch for stretch in reversed(stretches) if stretch.first <= index), None)
        if index and current is not None and current.drafter != NO_DRAFTER and index <= current.first + current.summary.rounds:
            result.append(Divider(index, current.rule, f"Gamma {new_gamma}"))
    return sorted(result, key=lambda divider: divider.first)


def _depends_on_drafter(stretch: Stretch) -> bool:
    return stretch.drafter != NO_DRAFTER and stretch.rule not in INVARIANT_RULES
