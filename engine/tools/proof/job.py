"""Runs a proof from the request to its report. Runs on the engine thread and imports no MLX itself."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine.serving.backend import Backend
from engine.serving.jobs import LongTask
from engine.serving.model_slots import ModelSlots
from engine.types import Event, ModelInfo, ProofCheck, ProofReport, ProveRequest, TaskFinished
from engine.values.drafter_kinds import HEAD, NGRAM
from engine.values.errors import DraftlightError
from engine.values.requests.prove import FALSE_ALARM, Finding
from engine.values.statistics import ChiSquare

if TYPE_CHECKING:  # the module itself needs no MLX
    from engine.drafters.loaded import LoadedDrafter


class ProofTask(LongTask[ProveRequest]):
    """Task that runs the checks of a pair."""

    purpose = "checking the pair"

    def work(self, backend: Backend, slots: ModelSlots, emit: Callable[[Event], None]) -> TaskFinished:
        """Loads the pair, runs every check and returns the report. Its level depends on the number of checks."""
        request = self.request
        target = slots.target(request.target)
        drafter, note = _drafter(request.drafter, slots)
        began = time.perf_counter()
        progress = functools.partial(self.report, emit)
        findings: list[Finding] = list(backend.prove(target, drafter.drafter, request, progress))
        level = level_for(findings)
        report = ProofReport(
            target=ModelInfo(target.name, str(target.path), target.sha256, target.context_length, len(target.vocabulary)),
            drafter=drafter.name,
            note=note,
            seed=request.seed,
            effort=request.effort,
            plant=request.plant,
            device=backend.device(),
            false_alarm=FALSE_ALARM,
            level=level,
            checks=tuple(concluded(finding, level) for finding in findings),
            seconds=time.perf_counter() - began,
        )
        return TaskFinished(self.id, report)

    def cut_off(self) -> TaskFinished:
        """Returns the end event of checks that were stopped: without a report, since its level needs all checks."""
        return TaskFinished(self.id, None)


def level_for(findings: Sequence[Finding], false_alarm: float = FALSE_ALARM) -> float:
    """Returns the p-value below which a check fails. All checks together fail a correct engine this rarely (Bonferroni)."""
    return false_alarm / max(1, sum(isinstance(finding.outcome, ChiSquare) for finding in findings))


def concluded(finding: Finding, level: float) -> ProofCheck:
    """Returns the check with its verdict and the effect that it would have detected."""
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


def _drafter(name: str | None, slots: ModelSlots) -> tuple[LoadedDrafter, str]:
    """Returns the requested drafter; without one, the built-in head, or prompt lookup with a note."""
    if name is not None:
        return slots.drafter(name), ""
    try:
        return slots.drafter(HEAD), ""
    except DraftlightError as error:
        return slots.drafter(NGRAM), f"using {NGRAM} instead of {HEAD}: {error}"
