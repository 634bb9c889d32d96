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
    for index, new_gamma in changes:
        if new_gamma != gamma:
            gammas[index] = new_gamma
        gamma = new_gamma
    result = []
    for number, (previous, stretch) in enumerate(pairwise(stretches), start=1):
        suffix = f", gamma {gammas.pop(stretch.first)}" if stretch.first in gammas else ""
        title, label = stretch_title(stretch, previous) + suffix, change_words(stretches, number, greedy, suffix)
        result.append(Divider(stretch.first, stretch.rule, title, label))
    for index, new_gamma in gammas.items():
        current = next((stretch for stretch in reversed(stretches) if stretch.first <= index), None)
        if index and current is not None and current.drafter != NO_DRAFTER and index <= current.first + current.summary.rounds:
            title = f"Gamma {new_gamma}"
            result.append(Divider(index, current.rule, title, f"{title} from here"))
    return sorted(result, key=lambda divider: divider.first)
