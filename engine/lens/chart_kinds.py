"""The table of charts: the texts of each, and the function of `engine.lens.charts` that describes it.

Window and command line import this table when they start, so it must stay quick to import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

SPEED_WINDOW = 8
"""Window of the rolling throughput, in rounds."""
EXPECTED_WINDOW = 16
"""Window of the expected curves, in rounds."""
ALPHA_WINDOW = 32
"""Window of the rolling alpha, in rounds."""


ChartName = str
"""A key of `CHARTS`."""


@dataclass(frozen=True, slots=True)
class ChartKind:
    """Texts and properties of a chart.

    Attributes:
        title, across, up: heading and axis labels; `up` is the unit.
        definition: exactly what is drawn.
        formula: how it is computed.
        waiting: text shown before there is anything to draw.
        spec: "module:function" that makes a `ChartSpec` from an `engine.lens.charts.Material`.
        export_note: addition to the definition in pictures.
        needs_proposals: whether it is empty if nothing was proposed.
        needs_trees: whether it is empty if no trees were drafted; a report then leaves it out.
        min_rounds: number of rounds below which it is empty.
        place: None if the x axis is rounds. Otherwise returns the x position, if any, of a round with these accepted, rejected
            and unjudged counts, or of its proposal for a position, from 0.
        heights: minimum heights of the panels in the window, from the top, in pixels at text scale 1.
        open: whether the window shows it by default.
    """

    name: ChartName
    title: str
    across: str
    up: str
    definition: str
    formula: str
    waiting: str
    spec: str
    export_note: str = ""
    needs_proposals: bool = False
    needs_trees: bool = False
    min_rounds: int = 1
    place: Callable[[Sequence[float], int | None], float | None] | None = None
    heights: tuple[int, ...] = (84,)
    open: bool = True

    @property
    def per_round(self) -> bool:
        """Whether the x axis is rounds."""
        return self.place is None

    @property
    def key(self) -> str:
        """Key of its definition in the window; the suffix distinguishes it from the figure of the same name."""
        return f"{self.name}_plot"


def _position(statuses: Sequence[float], place: int | None) -> float | None:
    """Returns a proposal's position in its round, from 1, given it from 0."""
    return None if place is None else place + 1.0


def _nowhere(statuses: Sequence[float], place: int | None) -> None:
    """Returns None: a choice of a tree has no verdict of its own that the chart would count."""


def _accepted(statuses: Sequence[float], place: int | None) -> float | None:
    """Returns how many proposals the round accepted; None if it had none."""
    return statuses[0] if any(statuses) else None


TAU_FORMULA = "emitted tokens / rounds\nexpected: mean of (1 − alpha^(gamma + 1)) / (1 − alpha)"
CHARTS: dict[ChartName, ChartKind] = {
    kind.name: kind
    for kind in (
        ChartKind(
            "proposals",
            "Proposals per round",
            "round",
            "proposals",
            "One column per round (in a long answer, the mean of a bin of rounds): filled = accepted, hatched = rejected, "
            f"outlined = unjudged. Below, on an axis of its own: the accepted tokens per round over the last {EXPECTED_WINDOW} "
            "rounds, and those to expect of the same rounds under each rule, the mean of a + a² + … + a^gamma, where a is the "
            "rule's mean acceptance probability at the positions judged; trees have none. Both begin anew where the rule or the "
            "drafter changes. "
            "A number above a column says how long a draft was that does not fit; what is cut off was never judged.",
            "proposals = accepted + rejected + unjudged",
            "Rounds appear here as they are judged.",
            "engine.lens.charts:proposals",
            needs_proposals=True,
            heights=(150, 58),
        ),
        ChartKind(
            "alpha",
            f"Alpha, last {ALPHA_WINDOW} rounds",
            "round",
            "alpha",
            f"Accepted / (accepted + rejected) over the last {ALPHA_WINDOW} rounds, starting anew where the rule or the drafter "
            "changes. The band is Wilson's 95% interval, treating verdicts as independent.",
            "accepted / (accepted + rejected)",
            "Alpha appears after the first verdict.",
            "engine.lens.charts:alpha",
            needs_proposals=True,
            export_note=" Dotted: whole answer.",
        ),
        ChartKind(
            "throughput",
            "Throughput",
            "round",
            "tokens per second",
            f"Emitted tokens per second over the last {SPEED_WINDOW} rounds. The dashed line is the measured throughput of a "
            "plain run of the same target; without one there is no line.",
            f"tokens of {SPEED_WINDOW} rounds / their seconds",
            "Throughput appears after the first rounds.",
            "engine.lens.charts:throughput",
            min_rounds=2,
            export_note=" Dotted: whole answer.",
        ),
        ChartKind(
            "positions",
            "Acceptance by position",
            "position in the round",
            "share accepted",
            "Acceptance by position in the round. Solid: accepted / judged, over judged proposals only. Light: accepted / "
            "drafted, which includes positions that were never reached. Positions behind the last judged one are left out. In a "
            "tree the position is the depth, and it is accepted if one of its choices was.",
            "accepted / judged, and accepted / drafted",
            "Acceptance by position appears after a few rounds.",
            "engine.lens.charts:positions",
            needs_proposals=True,
            place=_position,
            heights=(98,),
        ),
        ChartKind(
            "choices",
            "Acceptance by choice",
            "choice for a position",
            "share of positions",
            "How often the first, second, … choice of a tree was the accepted one. A bar is about the judged positions that had "
            "this choice. Solid: it was accepted. Light: one before it was. Their sum, the coverage, is the chance that this "
            "choice or one before it is right, with Wilson's 95% interval, treating positions as independent.",
            "accepted / positions with this choice",
            "Acceptance by choice appears after the first tree.",
            "engine.lens.charts:choices",
            needs_trees=True,
            place=_nowhere,
            heights=(98,),
            open=False,
        ),
        ChartKind(
            "tau",
            "Tau so far",
            "round",
            "tokens per round",
            "Emitted tokens per round since the answer, or the rule or drafter in force, began. The dashed line is what alpha so "
            "far lets one expect: the mean over rounds of (1 − alpha^(gamma + 1)) / (1 − alpha). Under Block there is none, "
            "because it judges jointly.",
            TAU_FORMULA,
            "Tau appears after the first round.",
            "engine.lens.charts:tau",
            open=False,
        ),
        ChartKind(
            "lengths",
            "Accepted lengths",
            "accepted proposals",
            "rounds",
            "How many rounds accepted 0, 1, 2, … of their proposals. The dashed outline is the expected count if each proposal "
            "were accepted with probability alpha (that of the round's rule and drafter), independently of the others; Block has "
            "none.",
            "alpha^k (1 − alpha); if all are accepted, alpha^gamma",
            "Accepted lengths appear after a few rounds.",
            "engine.lens.charts:lengths",
            needs_proposals=True,
            place=_accepted,
            heights=(104,),
            open=False,
        ),
        ChartKind(
            "times",
            "Time per round",
            "round",
            "milliseconds",
            "Where a round's time goes, in milliseconds. A stacked bar is a round timed by phase; waiting for each phase makes "
            "it a little slower. For the other rounds only the total is known: the short lines.",
            "draft + verify + judge + other",
            "Round times appear after the first round.",
            "engine.lens.charts:times",
            heights=(96,),
            open=False,
        ),
    )
}
