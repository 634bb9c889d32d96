"""Dividers of an answer where rule, drafter or gamma changed, with their labels: the same in text, rounds, charts and exports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from engine.lens.shared_wording import change_words, stretch_title
from engine.rounds.metrics import Stretch
from engine.types import Gamma, Rule
from engine.values.drafter_kinds import NO_DRAFTER


@dataclass(frozen=True, slots=True)
class Divider:
    """A position at which other settings came into force.

    Attributes:
        first: index of the first round under the new settings, above 0.
        rule: the rule in force from there on.
        title: the change in few words: "Rejection", "Rejection, gamma 5", "Gamma 5".
        label: the change as a label for the position; it also says if the text depends on the drafter from there on.
    """

    first: int
    rule: Rule
    title: str
    label: str

    @property
    def from_here(self) -> str:
        """The change as a short label."""
        return f"{self.title} from here"


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
    for index, wanted in changes:
        if wanted != gamma:
            gammas[index] = wanted
        gamma = wanted
    found = []
    for place, (before, stretch) in enumerate(pairwise(stretches), start=1):
        also = f", gamma {gammas.pop(stretch.first)}" if stretch.first in gammas else ""
        title, label = stretch_title(stretch, before) + also, change_words(stretches, place, greedy, also)
        found.append(Divider(stretch.first, stretch.rule, title, label))
    for index, wanted in gammas.items():
        at = next((stretch for stretch in reversed(stretches) if stretch.first <= index), None)
        if index and at is not None and at.drafter != NO_DRAFTER and index <= at.first + at.summary.rounds:
            title = f"Gamma {wanted}"
            found.append(Divider(index, at.rule, title, f"{title} from here"))
    return sorted(found, key=lambda divider: divider.first)
