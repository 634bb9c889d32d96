"""Where an answer is divided because rule, drafter or gamma changed, and in which words: the same in text, rounds, charts and
what is exported."""

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
    """A place where other settings came into force.

    Attributes:
        first: index of the first round under them, above 0.
        rule: in force from there on.
        title: what changed, in few words: "Rejection", "Rejection, gamma 5", "Gamma 5".
        label: the same as a label for the place, and whether the text's being the same with any drafter ends there.
    """

    first: int
    rule: Rule
    title: str
    label: str

    @property
    def from_here(self) -> str:
        """What changes, as the short label of a place."""
        return f"{self.title} from here"


def dividers(
    stretches: Sequence[Stretch], gamma: Gamma, changes: Iterable[tuple[int, Gamma]], greedy: bool = False
) -> list[Divider]:
    """In order of rounds; costs by the number of changes, not of rounds.

    Args:
        gamma: at the start. changes: (index of a round, the gamma from there on), in order; those that change nothing are left
            out, those that no drafter heeds, and those of rounds that have not come.
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
