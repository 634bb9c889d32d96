"""`draftlight prove`: checks whether decoding with a pair of models is exact, and reports it as a table and as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from app.cli.engine_run import run_task
from app.cli.output import align
from app.cli.shared_options import INTERRUPTED, add_anyway, add_hosts, add_models, add_seed, hosts_of, output_file, request_of
from engine.cluster.hosts import Cluster
from engine.files.whole_file import write_whole
from engine.machine import provenance
from engine.rounds.codec import plain
from engine.types import PLANTS, ProofCheck, ProofReport, ProveRequest, TaskFailed, TaskFinished
from engine.values.errors import DraftlightError
from engine.values.requests.prove import DESCRIPTIONS
from engine.values.wording import amount

HELP = "check that decoding with a pair of models is exact"
DESCRIPTION = (
    "Check that decoding with these models is exact. Compares the noise with known answers, the tokens each rule emits with the "
    "target's own probabilities, acceptance rates with what theory predicts, and the text of one seed across drafters and draft "
    "lengths. Takes a few minutes. The exit status is 0 if every check passes, 1 if any fails, and 3 if a planted defect was not "
    "detected."
)
NOT_DETECTED = 3
FORMAT = "draftlight.proof/1"
_HEADINGS = ("check", "rule", "at", "sample", "statistic", "p-value", "detectable", "verdict")
_NUMBERS = ("sample", "statistic", "p-value", "detectable")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options to the command's parser."""
    add_models(parser)
    add_anyway(parser)
    add_hosts(parser)
    add_seed(parser)
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--quick", dest="effort", action="store_const", const="quick", help="smaller samples; takes about a minute"
    )
    group.add_argument(
        "--thorough",
        dest="effort",
        action="store_const",
        const="thorough",
        help="larger samples; takes about half an hour",
    )
    parser.add_argument(
        "--json", dest="json_path", metavar="FILE", type=output_file, help="also write the full report to this file, as JSON"
    )
    parser.add_argument("--plant", choices=PLANTS, help="plant this defect on purpose, to see that the checks detect it")


def run(arguments: argparse.Namespace) -> int:
    """Runs the command with its options."""
    return prove(request_of(ProveRequest, arguments), arguments.json_path, anyway=arguments.anyway, cluster=hosts_of(arguments))


def prove(request: ProveRequest, json_path: Path | None = None, *, anyway: bool = False, cluster: Cluster | None = None) -> int:
    """Runs the checks and prints the results. Returns the exit status: 0 if all passed, 1 if any failed, and 3 if none failed
    although a defect was planted. `cluster`: machines to split the target over."""
    end = run_task(lambda engine: engine.perform(request), TaskFinished, anyway=anyway, cluster=cluster)
    if isinstance(end, TaskFailed):
        raise DraftlightError(end.message)
    if end.report is None:
        print("draftlight: stopped before any conclusion", file=sys.stderr)
        return INTERRUPTED
    print(render(end.report))
    if json_path is not None:
        _write(end.report, json_path)
    if not end.report.passed:
        return 1
    return 0 if end.report.plant is None else NOT_DETECTED


def render(report: ProofReport) -> str:
    """Returns the report as text."""
    lines = [f"{report.target.name} with {report.drafter}, seed {report.seed}, {report.effort} run, on {report.device}"]
    if report.note:
        lines.append(f"Note: {report.note}")
    if report.plant is not None:
        lines.append(f"A DEFECT WAS PLANTED on purpose in the simulated rounds: {report.plant}, {DESCRIPTIONS[report.plant]}.")
    lines += [
        "",
        *align([_HEADINGS, *map(_cells, report.checks)], _NUMBERS),
        "",
        *_details(report.checks),
        *_conclusion(report),
    ]
    return "\n".join(lines)


def _cells(check: ProofCheck) -> tuple[str, ...]:
    verdict = "passed" if check.passed else "FAILED"
    start = (check.name, check.rule, check.setting, f"{check.samples:,}")
    if check.p_value is None or check.statistic is None:
        return (*start, "equality", "", "", verdict)
    if check.freedom == 0:
        return (*start, "too few", "", "", verdict)
    detectable = "" if check.notices is None else f"{check.notices:.3f}"
    return (*start, f"{check.statistic:.1f} / {check.freedom}", f"{check.p_value:.2g}", detectable, verdict)


def _details(checks: tuple[ProofCheck, ...]) -> list[str]:
    """Returns the measurements of the checks that have details."""
    details = [f"  {check.name}, {check.rule}, {check.setting}: {check.detail}" for check in checks if check.detail]
    return ["What was measured:", *details, ""] if details else []


def _conclusion(report: ProofReport) -> list[str]:
    failed = [check for check in report.checks if not check.passed]
    statistical = sum(check.p_value is not None for check in report.checks)
    lines = [
        "Statistic: chi-square / degrees of freedom. Detectable: the deviation (total variation over tokens, acceptance rate, or",
        "accepted proposals per round) that would have failed the check with 99% probability.",
        f"A check fails below p = {report.level:.2g}, so a correct engine fails one or more of {statistical} statistical checks "
        f"with probability {report.false_alarm:g}.",
        *_power(report),
        f"{len(report.checks) - len(failed)} of {amount(len(report.checks), 'check')} passed in {report.seconds:.0f} s.",
    ]
    if report.plant is not None and failed:
        lines.append(f"The planted defect was detected by {amount(len(failed), 'check')}. The engine itself is unchanged.")
    elif report.plant is not None:
        lines.append("The planted defect was NOT detected: its effect on this pair is too small, or the sample was.")
    elif failed:
        lines.append("Decoding with this pair is not exact. Please report this with the output of --json.")
    return lines


def _power(report: ProofReport) -> list[str]:
    """Returns the worst detectable deviation among the simulated rounds, and among the complete decodes."""
    lines = []
    for name, subject in (
        ("emitted tokens against p", "A rule whose tokens were off by a total variation of"),
        ("decoded tokens against forward passes", "A whole decode whose first two tokens were off by"),
    ):
        sizes = [check.notices for check in report.checks if check.name == name]
        known = [size for size in sizes if size is not None]
        if sizes and len(known) == len(sizes):
            lines.append(f"{subject} {max(known):.3f} would have been detected with 99% probability.")
        elif sizes:
            lines.append(f"The sample for {name} is too small to be sure of detecting a deviation.")
    return lines


def _write(report: ProofReport, path: Path) -> None:
    document: dict[str, Any] = {
        "format": FORMAT,
        "versions": provenance.versions(),
        "hardware": provenance.hardware(),
        **plain(report),
        "passed": report.passed,
    }
    if report.plant is not None:
        document["planted"] = DESCRIPTIONS[report.plant]
    write_whole(path, json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n")
