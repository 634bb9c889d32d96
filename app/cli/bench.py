"""`draftlight bench`: runs a benchmark on the engine thread, shows its progress, and writes a table and a file."""

from __future__ import annotations

import sys
import time
from itertools import groupby
from pathlib import Path

from app.cli.engine_run import run_task
from app.cli.output import ProgressBar, align
from app.cli.shared_options import INTERRUPTED
from engine.cluster.hosts import Cluster
from engine.exports.bench_report import to_html
from engine.files.whole_file import write_whole
from engine.tools.bench.chooser import advice
from engine.tools.bench.report import Results, document, text_of
from engine.tools.bench.statistics import BenchFigures, Interval, noise_of_plain
from engine.types import BenchFinished, BenchSkipped, BenchStarted, Event, TaskFailed
from engine.values.drafter_kinds import NO_DRAFTER
from engine.values.errors import DraftlightError
from engine.values.requests.bench import BenchRequest, BenchSetting
from engine.values.wording import amount, size

SAVE_INTERVAL = 30.0
"""Seconds between two versions of the JSON file, so that it can be inspected during the run."""


def bench(
    request: BenchRequest,
    json_path: Path | None = None,
    html_path: Path | None = None,
    *,
    anyway: bool = False,
    cluster: Cluster | None = None,
) -> int:
    """Measures, then prints the recommended drafter and the table. Returns the exit status: 0, or 130 after an interruption.

    Args:
        cluster: machines to split the target over.

    Raises:
        DraftlightError: the benchmark could not continue. Earlier measurements are still printed and written.
    """
    results = Results(request)
    saved = time.perf_counter()

    def save_periodically() -> None:
        """Writes the rows measured so far to the JSON file, at most once every `SAVE_INTERVAL` seconds."""
        nonlocal saved
        due = results.rows and not results.complete and time.perf_counter() - saved > SAVE_INTERVAL
        if json_path is not None and due:
            write_whole(json_path, text_of(document(results, summary=False)))
            saved = time.perf_counter()

    def handle(event: Event, progress: ProgressBar) -> None:
        """Records an event, and reports deviations from the requested benchmark."""
        results.take(event)
        match event:
            case BenchStarted(_, setup):
                for note in setup.notes:
                    progress.print_line(note)
            case BenchSkipped(_, message):
                progress.print_line(message)

    end = run_task(
        lambda engine: engine.perform(request),
        BenchFinished,
        anyway=anyway,
        cluster=cluster,
        on_event=handle,
        on_poll=save_periodically,
    )
    if results.rows or not isinstance(end, TaskFailed):
        print(render(results))
    if json_path is not None and results.setup is not None:
        write_whole(json_path, text_of(document(results)))
    if html_path is not None and results.setup is not None:
        write_whole(html_path, to_html(results))
    if isinstance(end, TaskFailed):
        raise DraftlightError(end.message)
    if not results.complete:
        reason = "the time is over" if results.out_of_time else "stopped"
        print(f"draftlight: {reason}; run the same command again to continue", file=sys.stderr)
    return 0 if results.complete or results.out_of_time else INTERRUPTED


_HEADINGS = (
    "",
    "drafter",
    "rule",
    "T",
    "gamma",
    "tokens/s",
    "plain",
    "speed-up",
    "",
    "alpha",
    "",
    "tau",
    "TTFT s",
    "repeated",
    "memory",
)
_TEXTS = ("drafter", "rule", "")
_DASH = "-"


def render(results: Results) -> str:
    """Returns the table, with an explanation of its figures below."""
    figures = results.figures()
    lines: list[str] = []
    if results.setup is not None:
        names = ", ".join(drafter.name for drafter in results.setup.drafters) or "no drafter"
        lines += [
            f"{results.setup.target.name} with {names}, seed {results.request.seed}, on {results.setup.device}",
            f"Sampling: {results.sampling()}",
        ]
    if not figures:
        return "\n".join([*lines, "Nothing was measured.", *results.missing()])
    lines += ["", *_answer(results), "", *_table(figures), "", *_notes(results)]
    return "\n".join(lines)


def _answer(results: Results) -> list[str]:
    """Returns which drafter and gamma to use, by temperature."""
    lines = []
    for decision in results.decisions():
        recommendation = advice(decision)
        prefix = f"At temperature {decision.temperature:g}: " if len(results.request.temperatures) > 1 else ""
        lines += [f"{prefix}{recommendation.headline}", *(f"  {detail}" for detail in recommendation.details)]
    return lines + results.missing() + list(filter(None, [results.left_out()]))


def _table(figures: tuple[BenchFigures, ...]) -> list[str]:
    headings, *rows = align([_HEADINGS, *map(_cells, figures)], {*_HEADINGS} - {*_TEXTS})
    lines = [headings]
    prompts = {entry.category: entry.prompts for entry in figures}
    for category, block in groupby(zip(figures, rows, strict=True), lambda pair: pair[0].category):
        lines += [f"{category}, {amount(prompts[category], 'prompt')}", *(row for _, row in block)]
    return lines


def _cells(entry: BenchFigures) -> tuple[str, ...]:
    setting = entry.setting
    return (
        "",
        name_of(setting),
        setting.rule or _DASH,
        f"{setting.temperature:g}",
        _DASH if setting.gamma is None else str(setting.gamma),
        _number(entry.tokens_per_second, 1),
        _number(entry.plain_tokens_per_second, 1),
        _number(entry.speedup, 2),
        _range(entry.speedup_interval, 2),
        _number(entry.alpha, 2),
        _range(entry.alpha_interval, 2),
        _number(entry.tau, 2),
        _number(entry.seconds_to_first_token, 2),
        _DASH if entry.repetition is None else f"{entry.repetition:.0%}",
        _DASH if entry.peak_memory is None else size(entry.peak_memory),
    )


def name_of(setting: BenchSetting) -> str:
    """Returns the drafter, and the program if it is not Draftlight."""
    if setting.maker == "draftlight":
        return setting.drafter
    return "mlx-lm" if setting.drafter == NO_DRAFTER else f"mlx-lm, {setting.drafter}"


def _number(value: float | None, digits: int) -> str:
    return _DASH if value is None else f"{value:.{digits}f}"


def _range(interval: Interval | None, digits: int) -> str:
    return "" if interval is None else f"{interval[0]:.{digits}f} to {interval[1]:.{digits}f}"


def _notes(results: Results) -> list[str]:
    lines = [
        "Speed-up: tokens/s divided by the tokens/s of the plain runs before and after; geometric mean over prompts. Ranges: 95%",
        "intervals over prompts; those of alpha and tau (bootstraps) are too narrow for few prompts. TTFT s: time to first token",
        "in seconds. Repeated: share of 4-grams the answer had already used; repetition helps every drafter. Memory: peak of",
        "MLX's arrays (target, this drafter, caches, computation). What the window shows of",
        "each round (probabilities, alternatives, times by phase) was not computed during the runs.",
    ]
    if memory := results.memory_of_process():
        lines.append(memory)
    noise = noise_of_plain(results.rows)
    if noise is not None:
        lines.append(
            f"Plain runs of the same prompt differed by a median factor of {noise:.2f}: the noise level of this machine."
        )
    comparable = [row for row in results.rows if row.same_text is not None]
    if comparable:
        equal_count = sum(row.same_text is True for row in comparable)
        lines.append(
            f"{equal_count} of {amount(len(comparable), 'answer')} that should equal the plain one did; near-ties can make "
            "the others differ."
        )
    lines += results.setup.notes if results.setup is not None else ()
    lines += results.messages
    if not results.complete:
        reason = "the time was over" if results.out_of_time else "stopped early"
        lines.append(f"INCOMPLETE: {reason}; {amount(len(results.rows), 'measurement')} made by then.")
    return lines
