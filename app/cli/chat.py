"""`draftlight chat`: streams one answer to the terminal, using the same engine as the window."""

from __future__ import annotations

import sys
from pathlib import Path

from app.cli.engine_run import follow, interruptions, running_engine
from app.cli.output import StatusLine
from app.cli.saved_answer import SavedAnswer
from app.cli.shared_options import INTERRUPTED
from app.cli.terminal import RoundPainter, legend, status_line, wants_colour
from engine.cluster.hosts import Cluster
from engine.lens.outlook_words import explanation, pause_reason
from engine.lens.pieces import without_controls
from engine.lens.rule_comparison import RuleComparisons, comparison_sentence
from engine.lens.shared_wording import no_template, unseen_words
from engine.rounds.metrics import Totals
from engine.types import (
    DrafterReady,
    Event,
    LoadFinished,
    LoadProgress,
    ModelInfo,
    PrefillProgress,
    Request,
    Round,
    RoundFinished,
    RunFailed,
    RunFinished,
    RunStarted,
)
from engine.values.wording import amount


def chat(
    request: Request,
    *,
    ghosts: bool = True,
    thoughts: bool = True,
    json_lines: bool = False,
    anyway: bool = False,
    cluster: Cluster | None = None,
    saving: SavedAnswer | None = None,
) -> int:
    """Streams the answer to standard output and a line of figures to standard error. Returns the exit status.

    Args:
        cluster: machines to split the target over.
        saving: stores the answer in its conversation; None stores nothing but its trace.
    """
    view = _JsonLines() if json_lines else _Text(ghosts, thoughts)
    notes = _Notes(request)

    def handle(event: Event) -> None:
        """Handles an event: prints notes, shows and saves the answer."""
        notes.handle(event)
        view.handle(event)
        if saving is not None:
            saving.handle(event)

    with running_engine(anyway, cluster) as engine, interruptions() as interrupted:
        end = follow(engine, engine.submit(request), (RunFinished, RunFailed), handle, interrupted)
    view.end(end)
    if isinstance(end, RunFailed):
        print(f"draftlight: {end.message}{_hint(end)}", file=sys.stderr)
        return 1
    if notes.context_is_full and saving is not None:
        print("draftlight: `draftlight chat --continue --when-full drop` continues without the oldest turns.", file=sys.stderr)
    return INTERRUPTED if interrupted() else 0


def _hint(failed: RunFailed) -> str:
    """Returns a sentence, preceded by a blank, that names the option that would have avoided the failure; empty if no option
    would have."""
    if failed.refused is not None and failed.refused.may_force:
        return " The option for that is --anyway."
    return " The option that leaves out the oldest turns is --when-full drop." if failed.may_drop else ""


class _Progress(StatusLine):
    """A progress line shown until the answer begins; only on a terminal."""

    def show(self, text: str) -> None:
        """Overwrites the line on standard error; does nothing if that is not a terminal."""
        if sys.stderr.isatty():
            super().show(text)

    def handle(self, event: Event) -> None:
        """Shows the progress of loading and of reading the prompt; clears the line at the first round or the end of the run."""
        match event:
            case LoadProgress(name, step, fraction):
                self.show(f"{name}: {step}" + ("" if fraction is None else f", {fraction:.0%}"))
            case PrefillProgress(_, done, total) if done < total:
                self.show(f"reading the prompt, {done:,} of {amount(total, 'token')}")
            case RoundFinished() | RunFinished() | RunFailed():
                self.clear()


class _Notes:
    """Notes on how the request is carried out, written to standard error before the answer begins.

    Attributes:
        context_is_full: the answer ended because the context is full, and older turns could be left out.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._model: ModelInfo | None = None
        self.context_is_full = False

    def handle(self, event: Event) -> None:
        """Records the loaded model, and prints notes when the answer starts."""
        if isinstance(event, RunStarted) and event.chains:
            self._print(event.chains)
        match event:
            case LoadFinished(model):
                self._model = model
                if self._request.thinking != "auto" and self._request.template and not model.switches_thinking:
                    self._print(f"the chat template of {model.name} has no switch for thinking, so --thinking changes nothing.")
            case DrafterReady(warning=warning) if warning:
                self._print(warning)
            case RunFinished(finish="context") if len(self._request.messages) > 2:
                self.context_is_full = True
            case RunStarted(dropped=dropped) if dropped and self._model is not None:
                messages = [message for message in self._request.messages if message.role != "system"]
                turns = sum(message.role == "user" for message in messages[:dropped])
                limit = amount(self._model.context_length, "token")
                self._print(f"{unseen_words(turns)}, because {self._model.name} reads at most {limit}.")
            case RunStarted(template=False) if self._request.template and self._model is not None:
                unused = ", and the system prompt is not used" if self._request.messages[0].role == "system" else ""
                self._print(f"{no_template(self._model.name)}{unused}.")

    def _print(self, text: str) -> None:
        print(f"draftlight: {text}", file=sys.stderr)


class _Text:
    """The answer as text, coloured if the terminal supports it, with the model's thought dimmed."""

    def __init__(self, ghosts: bool, thoughts: bool) -> None:
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
        self._painter = RoundPainter(ghosts, thoughts, wants_colour(sys.stdout))
        self._progress = _Progress()
        self._totals = Totals()
        self._comparisons = RuleComparisons()
        self._paused: list[Round] = []
        self._seed: int | None = None
        self._at_line_start = True

    def handle(self, event: Event) -> None:
        """Prints the text of each finished round at once and records its figures for the closing line."""
        self._progress.handle(event)
        match event:
            case RunStarted():
                self._seed = event.options.seed
                if event.in_thought:
                    self._painter.open_thought()
                self._write(without_controls(event.given) if self._painter.colours else event.given)
            case RoundFinished(_, round):
                self._totals.add(round)
                self._comparisons.add(round)
                if pause_reason(round):
                    self._paused.append(round)
                self._write(self._painter.paint(round))

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
        if text:
            self._at_line_start = text.endswith("\n")

    def end(self, end: RunFinished | RunFailed) -> None:
        """Ends the last line and prints the figures to standard error; after a failed run, only ends the line."""
        self._write(self._painter.flush())
        if not self._at_line_start:
            sys.stdout.write("\n")
            sys.stdout.flush()
        if isinstance(end, RunFailed):
            return
        print(status_line(self._totals.summary(), end.finish, end.seconds_to_first_token, self._seed), file=sys.stderr)
        if self._paused:
            counts = f"{len(self._paused):,} of {amount(self._totals.summary().rounds, 'round')}"
            print(f"Drafting paused in {counts}. The last of them: {explanation(self._paused[-1])}", file=sys.stderr)
        if (comparison := self._comparisons.newest) is not None:
            print(comparison_sentence(comparison), file=sys.stderr)
        if self._painter.colours and wants_colour(sys.stderr):
            print(legend(), file=sys.stderr)
        _warn_if_incomplete(end)


class _JsonLines:
    """The lines of the answer's trace, as they are written."""

    def __init__(self) -> None:
        self._progress = _Progress()
        self._path: Path | None = None
        self._copied = 0

    def handle(self, event: Event) -> None:
        """Copies to standard output the complete lines that the trace file has gained with this event."""
        self._progress.handle(event)
        if isinstance(event, RunStarted) and event.trace_path is not None:
            self._path = Path(event.trace_path)
        if self._path is not None and isinstance(event, (RunStarted, RoundFinished, RunFinished, RunFailed)):
            self._copy()

    def _copy(self) -> None:
        assert self._path is not None
        with self._path.open("rb") as trace:
            trace.seek(self._copied)
            new_bytes = trace.read()
        complete_lines = new_bytes[: new_bytes.rfind(b"\n") + 1]
        self._copied += len(complete_lines)
        sys.stdout.buffer.write(complete_lines)
        sys.stdout.buffer.flush()

    def end(self, end: RunFinished | RunFailed) -> None:
        """Warns on standard error if the trace is incomplete."""
        if isinstance(end, RunFinished):
            _warn_if_incomplete(end)


def _warn_if_incomplete(end: RunFinished) -> None:
    if end.trace_error is not None:
        print(f"draftlight: {end.trace_error}", file=sys.stderr)
