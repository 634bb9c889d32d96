"""What `prove` is asked for, what its checks find, and its report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from engine.values.answers import SEED_LIMIT, ModelInfo
from engine.values.errors import Limits, is_whole, require_fields
from engine.values.statistics import ChiSquare

Effort = Literal["quick", "default", "thorough"]
Plant = Literal["shared-noise", "residual-from-p", "stale-noise", "unfiltered-q", "dropped-draw"]
EFFORTS: tuple[Effort, ...] = get_args(Effort)
PLANTS: tuple[Plant, ...] = get_args(Plant)
"""Defects that `prove` can plant on purpose, to show that it notices them: each is a mistake that was made by someone, and biases
the text without making it look wrong."""
DESCRIPTIONS: dict[Plant, str] = {
    "shared-noise": "the ratio test draws its correction with the noise that the rejected proposal was drawn with",
    "residual-from-p": "a rejected proposal is replaced by a draw from p instead of from the residual",
    "stale-noise": "block verification keys its noise by position alone, so a later round reuses the discarded draws",
    "unfiltered-q": "the ratio test uses q from before the filter, not the filtered q that the proposal was drawn from",
    "dropped-draw": "a drafter that chooses its own draft length takes back its latest token if that token was unlikely",
}

NEEDS_DISTRIBUTION: tuple[Plant, ...] = ("shared-noise", "stale-noise", "unfiltered-q", "dropped-draw")
"""Without effect on a drafter whose proposals are deterministic."""


_LIMITS: Limits = {
    "seed": (lambda seed: is_whole(seed) and 0 <= seed < SEED_LIMIT, "a whole number from 0 to 2^53 - 1"),
    "effort": (lambda effort: effort in EFFORTS, f"one of {', '.join(EFFORTS)}"),
    "plant": (lambda plant: plant is None or plant in PLANTS, f"one of {', '.join(PLANTS)}"),
}
"""Of `ProveRequest`."""


@dataclass(frozen=True, slots=True)
class ProveRequest:
    """Checks of exactness to run on a pair.

    Attributes:
        drafter: None is the built-in draft model, or prompt lookup where that does not fit.
        seed: every draw of the checks follows from it.
        plant: a defect to plant on purpose.
    """

    target: str = "builtin"
    drafter: str | None = None
    seed: int = 0
    effort: Effort = "default"
    plant: Plant | None = None

    def __post_init__(self) -> None:
        require_fields(self, _LIMITS)


@dataclass(frozen=True, slots=True)
class ProofCheck:
    """One thing that was checked.

    Attributes:
        name: what was compared with what.
        rule: under which rule, "plain" without proposals, "" where no rule is involved.
        setting: the options and positions it was checked at.
        samples: draws, decodes, tokens or values that were compared.
        statistic, freedom, p_value: of the chi-square test; None where equality was checked.
        notices: the smallest deviation that would have failed with 99 % probability: `of` says of what. None if unknown.
        detail: what was measured, in words.
    """

    name: str
    rule: str
    setting: str
    samples: int
    passed: bool
    statistic: float | None = None
    freedom: int | None = None
    p_value: float | None = None
    notices: float | None = None
    of: Literal["total variation", "acceptance rate", "accepted count", ""] = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ProofReport:
    """What `prove` found.

    Attributes:
        note: why the drafter is not the one that was meant, else "".
        false_alarm: probability that a sound engine fails any of the statistical checks.
        level: the p-value below which one of them fails.
        seconds: without loading.
    """

    target: ModelInfo
    drafter: str
    note: str
    seed: int
    effort: Effort
    plant: Plant | None
    device: str
    false_alarm: float
    level: float
    checks: tuple[ProofCheck, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether every check passed; a sound engine fails with probability `false_alarm`."""
        return all(check.passed for check in self.checks)


FALSE_ALARM = 1e-4
"""Probability that a sound engine fails any of the statistical checks of one run."""


@dataclass(frozen=True)
class Finding:
    """One check. `outcome` is a statistic, or for what must be equal whether it was. The rest is as in `ProofCheck`."""

    name: str
    rule: str
    setting: str
    samples: int
    outcome: ChiSquare | bool
    of: Literal["total variation", "acceptance rate", "accepted count", ""] = ""
    detail: str = ""
