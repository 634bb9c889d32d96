"""Request for `prove`, the findings of its checks, and its report."""

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
"""Defects that `prove` can plant on purpose, to show that it notices them. Each is a mistake that someone has made, and biases
the text without making it look wrong."""
DESCRIPTIONS: dict[Plant, str] = {
    "shared-noise": "the ratio test draws its correction with the noise that the rejected proposal was drawn with",
    "residual-from-p": "a rejected proposal is replaced by a draw from p instead of from the residual",
    "stale-noise": "block verification keys its noise by position alone, so a later round reuses the discarded draws",
    "unfiltered-q": "the ratio test uses q from before the filter, not the filtered q that the proposal was drawn from",
    "dropped-draw": "a drafter that chooses its own draft length takes back its latest token if that token was unlikely",
}

NEEDS_DISTRIBUTION: tuple[Plant, ...] = ("shared-noise", "stale-noise", "unfiltered-q", "dropped-draw")
"""Defects that have no effect on a drafter whose proposals are deterministic."""


_LIMITS: Limits = {
    "seed": (lambda seed: is_whole(seed) and 0 <= seed < SEED_LIMIT, "a whole number from 0 to 2^53 - 1"),
    "effort": (lambda effort: effort in EFFORTS, f"one of {', '.join(EFFORTS)}"),
    "plant": (lambda plant: plant is None or plant in PLANTS, f"one of {', '.join(PLANTS)}"),
}
"""Limits of `ProveRequest`."""


@dataclass(frozen=True, slots=True)
class ProveRequest:
    """Checks of exactness to run on a pair.

    Attributes:
        drafter: None is the built-in draft model, or prompt lookup if that does not fit.
        seed: determines every draw of the checks.
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
    """Result of one check.

    Attributes:
        name: the two things that were compared.
        rule: the rule that was checked; "plain" without proposals, "" if no rule is involved.
        setting: the options and positions of the check.
        samples: number of draws, decodes, tokens or values that were compared.
        statistic, freedom, p_value: of the chi-square test; None if equality was checked.
        notices: the smallest deviation, of the quantity `of`, that would have failed with 99 % probability. None if unknown.
        detail: the measurement, in words.
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
    """Report of `prove`.

    Attributes:
        note: why the drafter is not the requested one, else "".
        false_alarm: probability that a correct engine fails any of the statistical checks.
        level: the p-value below which a statistical check fails.
        seconds: duration without loading.
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
        """Whether every check passed; a correct engine fails with probability `false_alarm`."""
        return all(check.passed for check in self.checks)


FALSE_ALARM = 1e-4
"""Probability that a correct engine fails any of the statistical checks of one run."""


@dataclass(frozen=True)
class Finding:
    """One finding. `outcome` is a statistic, or for a check of equality whether it held. The other fields are as in
    `ProofCheck`."""

    name: str
    rule: str
    setting: str
    samples: int
    outcome: ChiSquare | bool
    of: Literal["total variation", "acceptance rate", "accepted count", ""] = ""
    detail: str = ""
