"""A request to prove, from the queue to its report. Runs on the engine thread and imports no MLX itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from engine.backend import Backend, LoadedDrafter
from engine.errors import DraftlightError
from engine.library import Closing, Library
from engine.logs import explain
from engine.proof.findings import FALSE_ALARM, Finding, concluded, level_for
from engine.types import Event, ModelInfo, ProofReport, ProveRequest, TaskFailed, TaskFinished, TaskProgress

PREFERRED_DRAFTER, FALLBACK_DRAFTER = "head", "ngram"
_REPORT_EVERY = 0.1


class _Stopped(Exception):
    """Breaks off the checks."""


class Task:
    """A submitted request, and what other threads ask of it meanwhile: to stop."""

    def __init__(self, task_id: int, request: ProveRequest) -> None:
        self.id = task_id
        self.request = request
        self.stopped = False

    def stop(self) -> None:
        """End the task at its next tick. Any thread."""
        self.stopped = True


def carry_out(task: Task, backend: Backend, library: Library, emit: Callable[[Event], None]) -> None:
    """Check, or report why that cannot be. Raises nothing but Closing."""
    try:
        emit(TaskFinished(task.id, _report(task, backend, library, emit)))
    except (_Stopped, Closing) as error:
        emit(TaskFinished(task.id, None))
        if isinstance(error, Closing):
            raise
    except Exception as error:
        library.forget_drafters()
        emit(TaskFailed(task.id, explain(error, "checking the pair")))


def _report(task: Task, backend: Backend, library: Library, emit: Callable[[Event], None]) -> ProofReport:
    request = task.request
    if task.stopped:
        raise _Stopped
    target = library.target(request.target)
    drafter, note = _drafter(request.drafter, library)
    told = 0.0

    def progress(step: str, fraction: float) -> None:
        nonlocal told
        if task.stopped:
            raise _Stopped
        now = time.perf_counter()
        if now - told >= _REPORT_EVERY:
            told = now
            emit(TaskProgress(task.id, step, fraction))

    began = time.perf_counter()
    findings: list[Finding] = list(backend.prove(target, drafter.drafter, request, progress))
    level = level_for(findings)
    return ProofReport(
        target=_info(target),
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


def _drafter(name: str | None, library: Library) -> tuple[LoadedDrafter, str]:
    """The drafter that was asked for; where none was, the built-in head or, with a note, prompt lookup."""
    if name is not None:
        return library.drafter(name), ""
    try:
        return library.drafter(PREFERRED_DRAFTER), ""
    except DraftlightError as error:
        return library.drafter(FALLBACK_DRAFTER), f"{FALLBACK_DRAFTER} drafts instead of {PREFERRED_DRAFTER}: {error}"


def _info(target: Any) -> ModelInfo:
    return ModelInfo(target.name, str(target.path), target.sha256, target.context_length, len(target.vocabulary))
