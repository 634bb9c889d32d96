"""Definitions of the charts in words; window, pictures and report draw them in their own ways."""

from __future__ import annotations

from dataclasses import dataclass

SPEED_WINDOW = 8
"""Number of rounds in the window of the rolling throughput."""
EXPECTED_WINDOW = 16
"""Number of rounds in the window of the expected curves."""
ALPHA_WINDOW = 32
"""Number of rounds in the window of the rolling alpha."""


ChartName = str
"""A key of `CHARTS`."""


@dataclass(frozen=True, slots=True)
class ChartKind:
    """A chart in words.

    Attributes:
        title, across, up: heading and axis labels; `up` is the unit. definition: what is drawn, exactly.
        formula: how it is computed. waiting: text that is shown before there is anything to draw.
        on_screen, in_pictures: additions to the definition in the window and in pictures.
        of_proposals: whether it is empty if nothing was proposed. fewest_rounds: number of rounds below which it is empty.
        per_round: whether its x axis counts rounds.
        open: whether the window shows it by default.
    """

    name: ChartName
    title: str
    across: str
    up: str
    definition: str
    formula: str
    waiting: str
    on_screen: str = ""
    in_pictures: str = ""
    of_proposals: bool = False
    fewest_rounds: int = 1
    per_round: bool = True
    open: bool = True

    @property
    def in_window(self) -> str:
        """The definition that the window shows."""
        return self.definition + self.on_screen

    @property
    def key(self) -> str:
        """Its key among the definitions of the window, where a figure may have the same name."""
        return f"{self.name}_plot"


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
            "rule's mean acceptance probability at the positions judged. Both begin anew where the rule or the drafter changes.",
            "proposals = accepted + rejected + unjudged",
            "Rounds appear here as they are judged.",
            of_proposals=True,
            on_screen=" A number above a column says how long a draft was that does not fit; what is cut off was never judged.",
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
            of_proposals=True,
            in_pictures=" Dashed: whole answer.",
        ),
        ChartKind(
            "throughput",
            "Throughput",
            "round",
            "tokens per second",
            f"Emitted tokens per second over the last {SPEED_WINDOW} rounds.",
            f"tokens of {SPEED_WINDOW} rounds / their seconds",
            "Throughput appears after the first rounds.",
            fewest_rounds=2,
            on_screen=" The dashed line is the measured throughput of a plain run of the same target; without one there is no "
            "line.",
            in_pictures=" Dashed: whole answer.",
        ),
        ChartKind(
            "positions",
            "Acceptance by position",
            "position in the round",
            "share accepted",
            "Acceptance by position in the round. Solid: accepted / judged, over judged proposals only. Light: accepted / "
            "drafted, which includes positions that were never reached. Positions behind the last judged one are left out.",
            "accepted / judged, and accepted / drafted",
            "Acceptance by position appears after a few rounds.",
            of_proposals=True,
            per_round=False,
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
            of_proposals=True,
            per_round=False,
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
            open=False,
        ),
    )
}
