"""What a check found, before it is known how many others there are and hence how small a p-value has to be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from engine.proof.statistics import ChiSquare
from engine.types import ProofCheck

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


def level_for(findings: Sequence[Finding], false_alarm: float = FALSE_ALARM) -> float:
    """The p-value below which one check fails, so that all together fail a sound engine this rarely (Bonferroni)."""
    return false_alarm / max(1, sum(isinstance(finding.outcome, ChiSquare) for finding in findings))


def concluded(finding: Finding, level: float) -> ProofCheck:
    """The check with its verdict and with what it would have noticed."""
    outcome = finding.outcome
    if isinstance(outcome, bool):
        return ProofCheck(finding.name, finding.rule, finding.setting, finding.samples, outcome, detail=finding.detail)
    return ProofCheck(
        name=finding.name,
        rule=finding.rule,
        setting=finding.setting,
        samples=finding.samples,
        passed=outcome.p_value >= level,
        statistic=outcome.statistic,
        freedom=outcome.freedom,
        p_value=outcome.p_value,
        notices=outcome.notices(level),
        of=finding.of,
        detail=finding.detail,
    )
