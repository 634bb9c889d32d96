"""The comparison page: starts a comparison or a sampling, shows its columns, and the first difference or the result above
them."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable
from dataclasses import replace

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from app.compare.column import CompareColumn, LinkedColumns
from app.compare.comparison import MOST_COLUMNS, Comparison, Setup, with_column
from app.compare.controls import CompareBar
from app.compare.difference_line import LONGEST_HEADLINE, DifferenceLine, difference_words
from app.compare.exporting import ComparisonExporter
from app.compare.findings import MISSING, agreement_words, conclusion, drawing_words, rule_findings, tree_finding
from app.compare.presets import PRESETS, TARGET, Preset, recorded_comparison
from app.compare.rule_band import RuleBand
from app.compare.sample_tally import SampleTally, Sampling
from app.compare.stored import ComparisonRecorder, StoredComparison
from app.conversation.legend import Legend
from app.look.banner import Banner
from app.look.theme import Theme
from app.look.throttle import trailing_throttle
from app.look.widgets import in_column, in_row, named, scrolling
from app.session.engine_link import EngineLink
from app.session.settings import Settings
from engine.lens.pieces import Ghosts, Kind
from engine.types import SEED_LIMIT, Event, Request
from engine.values.errors import DraftlightError
from engine.values.requests.compare import CompareRequest, SampleRequest
from engine.values.wording import amount

REFRESH_SECONDS = 0.08
AXIS_STEP = 1.3
BEFORE_CHANGES = "Found before you changed the settings:"


class CompareView(QWidget):
    """Starts comparisons and shows them. Repaints are throttled to about a dozen per second, with none while hidden.

    Args:
        link: sends requests to the engine.
        settings: returns the window's settings, which provide target, drafter and sampling options.
        recorder: stores comparisons among the chats.

    Signals:
        closed: the user goes back to the chat.
        changed: a comparison has started or ended, or its settings were edited.
    """

    closed = Signal()
    changed = Signal()

    def __init__(self, link: EngineLink, settings: Callable[[], Settings], recorder: ComparisonRecorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._requests: tuple[Request, ...] = ()
        named(self, "compareView", "Compare")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.link = link
        self.settings = settings
        self.shown: Comparison | Sampling | None = None
        self._preset: Preset | None = None
        self._recorded_on = ""
        self._stale = False
        self._repaints = trailing_throttle(self.refresh, REFRESH_SECONDS, self)
        self.bar = CompareBar()
        self.bar.back.connect(self.closed)
        self.bar.started.connect(self.start)
        self.bar.stopped.connect(self.stop)
        self.bar.extended.connect(self.extend)
        self.bar.exported.connect(self.export)
        self.bar.preset.connect(self.show_preset)
        self.bar.edited.connect(self._edited)
        self.banner = Banner()
        self.exporter = ComparisonExporter(settings, self.banner, self)
        self.legend = Legend()
        self.legend.chosen.connect(self._highlight)
        self.difference = DifferenceLine()
        self.difference.go.clicked.connect(self.go_to_divergence)
        self.band = RuleBand(MOST_COLUMNS // 2)
        self.columns = [CompareColumn(index) for index in range(MOST_COLUMNS)]
        self.links = LinkedColumns(self.columns)
        for column in self.columns:
            self._connect(column)
        side_by_side = named(QWidget(), "panelBody")
        in_row(*((column, 1) for column in self.columns), parent=side_by_side)
        area = self._area = scrolling(side_by_side)  # for small windows with large text
        in_column(
            self.bar, self.banner, self.difference, self.band, in_row(self.legend, margins=(7, 3, 12, 3)), (area, 1), parent=self
        )
        link.compared.connect(self.receive)
        self._prepare(PRESETS[0])

    def _connect(self, column: CompareColumn) -> None:
        index = column.index
        column.removed.connect(lambda: self.remove(index))
        column.edited.connect(self._edited)

    # Setup.

    @property
    def setup(self) -> Setup:
        """The comparison set by the controls."""
        return self.bar.setup(tuple(column.controls.setup for column in self._shown))

    @property
    def _shown(self) -> list[CompareColumn]:
        return [column for column in self.columns if not column.isHidden()]

    @property
    def comparison(self) -> Comparison | None:
        """The shown answers; None while samples or nothing are shown."""
        return self.shown if isinstance(self.shown, Comparison) else None

    @property
    def tallies(self) -> list[SampleTally]:
        """The statistics of the shown samples; empty while answers or nothing are shown."""
        return self.shown.tallies if isinstance(self.shown, Sampling) else []

    @property
    def running(self) -> bool:
        """Whether answers or samples of this comparison are still being generated."""
        return self.shown is not None and self.shown.running

    @property
    def may_export(self) -> bool:
        """Whether there is something to export (a sample, or an answer with a trace) and nothing is running."""
        there = self.comparison.traces if self.comparison is not None else self.tallies and self.tallies[0].samples
        return bool(there) and not self.running

    @property
    def status_words(self) -> str:
        """The status of this page in words."""
        shown = self.shown
        if shown is None:
            return "Ready to compare"
        if self._recorded_on:
            return "Recorded comparison"
        if shown.running and isinstance(shown, Sampling):
            return f"Drawing {amount(shown.setup.samples, 'sample')} in each of {amount(len(shown.tallies), 'column')}"
        if shown.running:
            return f"Comparing {amount(len(shown.setup.columns), 'answer')}, one round each in turn"
        if self.outdated:
            return "Changed since this comparison. Start compares again"
        failed = isinstance(shown, Comparison) and shown.lacks_answers
        return "Comparison ended with an error" if failed else "Comparison done"

    @property
    def outdated(self) -> bool:
        """Whether the controls were changed since the shown comparison was started."""
        if self.shown is None or self.running:
            return False
        started, setup = self.shown.setup, self.setup
        return (setup if setup.seed is not None else replace(setup, seed=started.seed)) != started

    def show_setup(self, setup: Setup, words: str, target: str | None = None) -> None:
        """Shows another comparison, not started yet, in place of the shown one. `target`: that of the settings by default."""
        self.banner.hide()
        self._preset, self._recorded_on = None, ""
        self.shown = None
        self.bar.show_setup(setup, words)
        self.bar.show_drawn_seed(None)
        self._show_columns(setup, target)
        for column in self.columns:
            column.show_run(None)
        self._show_expected()
        self._level(anew=True)
        self._show_state()

    def _show_expected(self) -> None:
        """Shows what a comparison of rules will find, before it is started."""
        setup = self.setup
        empty = Comparison(setup, setup.requests(self.settings().target, self.settings().options()))
        self.band.show_findings(rule_findings(empty))
        self.difference.show_words(words=drawing_words(setup), parted=False)

    def _show_columns(self, setup: Setup, target: str | None = None) -> None:
        settings = self.settings()
        for column in self.columns:
            column.setVisible(column.index < len(setup.columns))
            if column.index < len(setup.columns):
                own = setup.columns[column.index]
                column.show_setup(own, setup.own_prompts, (settings.drafter,), target or settings.target)
                column.show_title(*setup.titles(own, target or settings.target))

    @Slot(str)
    def show_preset(self, name: str) -> None:
        """Shows a preset, ready to start. Does nothing while a comparison runs."""
        preset = next((preset for preset in PRESETS if preset.id == name), None)
        if preset is None or self.running:
            return
        if not (preset.recorded and self.settings().target == TARGET and self.show_recorded(preset)):
            self._prepare(preset)

    def _prepare(self, preset: Preset) -> None:
        """Shows a preset with the window's settings, ready to start."""
        setup = preset.make(self.settings())
        self.show_setup(setup, preset.about(setup, self.settings()))
        self._preset = preset

    def demonstrate(self) -> None:
        """Shows the recorded result of the first preset, whatever the target. Does nothing while a comparison runs."""
        if not self.running and not self.show_recorded(PRESETS[0]):
            self._prepare(PRESETS[0])

    def show_recorded(self, preset: Preset) -> bool:
        """Shows the recorded result of a preset where its texts diverge; returns False if it cannot be read."""
        try:
            comparison, machine = recorded_comparison(preset)
        except DraftlightError:
            return False
        self.show_setup(comparison.setup, "")
        self._preset = preset
        self._recorded_on = machine
        self._show_comparison(comparison)
        self._show_about()
        return True

    def _show_comparison(self, comparison: Comparison) -> None:
        """Shows a comparison that is over, where its texts diverge."""
        self.shown = comparison
        for column, run in zip(self.columns, comparison.columns, strict=False):
            column.show_run(run)
        self.legend.show()
        self.refresh()
        self.changed.emit()
        QTimer.singleShot(0, self, self._show_divergence)  # once the columns have their sizes

    @Slot()
    def _show_divergence(self) -> None:
        """Shows where the texts diverge, with the verdicts, or else their beginnings."""
        if self.comparison is None or self.running:
            return
        position = self.comparison.divergence
        if position is not None:
            self.links.scroll_into_view(position)
            return
        for column in self._shown:
            column.text.scroll_into_view(0)

    @Slot(object)
    def show_stored(self, found: StoredComparison) -> None:
        """Shows a comparison from the store. Does nothing while one runs."""
        if self.running:
            return
        self.show_setup(found.setup, "", found.target)
        self._show_comparison(found.comparison())
        if None in found.traces:
            self.banner.show_message("Rounds of this comparison are gone with their traces. Its texts are kept.", "note")

    @Slot(str)
    def show_note(self, message: str) -> None:
        """Shows a message above the columns."""
        self.banner.show_message(message, "note")

    def show_prompt(self, prompt: str) -> None:
        """Uses a prompt. The words and the recorded result of a preset are removed, since they are about its own prompt."""
        if self._recorded_on and self._preset is not None:
            self._prepare(self._preset)
        self._preset = None
        self.bar.prompt.setPlainText(prompt)
        self.bar.show_words("")

    @Slot()
    def extend(self) -> None:
        """Adds a column, with a rule that no other column has."""
        setup = self.setup
        if not self.running and len(setup.columns) < MOST_COLUMNS:
            self._show_columns(with_column(setup))
            if self.shown is None:
                self._show_expected()
            self._show_about()
            self._show_state()

    def remove(self, index: int) -> None:
        """Removes a column, and with it the shown results."""
        setup = self.setup
        if not self.running and len(setup.columns) > 2:
            kept = tuple(column for place, column in enumerate(setup.columns) if place != index)
            self.show_setup(replace(setup, columns=kept), "")

    @Slot()
    def _edited(self) -> None:
        if self.shown is None:
            setup, target = self.setup, self.settings().target
            self._show_expected()
            for column in self._shown:
                column.show_title(*setup.titles(column.controls.setup, target))
        elif self.comparison is not None:
            self._show_result(self.comparison)
        self._show_about()
        self._show_state()
        self.changed.emit()

    def _show_about(self) -> None:
        """Shows the words of the preset that are still true for the current controls."""
        if self._preset is None:
            return
        words = self._preset.about(self.setup, Settings() if self._recorded_on else self.settings())
        recorded = f"Recorded with the built-in models ({self._recorded_on})." if self._recorded_on else ""
        self.bar.show_words(" ".join(filter(None, (recorded, words))))

    # Running.

    @Slot()
    def start(self) -> None:
        """Starts the comparison set by the controls. Does nothing without a prompt or while one runs."""
        if self._recorded_on and self._preset is not None and not self.outdated and self.settings().target != TARGET:
            self._prepare(self._preset)  # the recording's drafters are for its own target
        setup, settings = self.setup, self.settings()
        if self.running or not all(setup.prompt_of(column).strip() for column in setup.columns):
            return
        if self._recorded_on:
            self._recorded_on = ""
            self._show_about()
        if setup.seed is None:
            setup = replace(setup, seed=secrets.randbelow(SEED_LIMIT))
            self.bar.show_drawn_seed(setup.seed)
        setup = replace(setup, template=setup.template and not settings.raw)
        title = self._preset.title if self._preset is not None and self._preset.about(setup, settings) else ""
        requests = setup.requests(settings.target, settings.options(), settings.system_prompt, settings.thinking)
        requests = requests if setup.samples else self._recorder.with_traces(requests)
        self.banner.hide()
        for column, own in zip(self.columns, setup.columns, strict=False):
            column.show_title(*setup.titles(own, settings.target))
        self.legend.setVisible(not setup.samples)
        self._level(anew=True)
        self.shown = Sampling(setup, settings.target) if setup.samples else Comparison(setup, requests)
        try:
            if isinstance(self.shown, Comparison):
                self.shown.started(self.link.compare(CompareRequest(requests)))
                self._requests = requests
                self._recorder.begin(self.shown, requests, title)
            else:
                self.link.perform(SampleRequest(requests, setup.samples))
        except DraftlightError as error:
            self.shown.failed(str(error))
        if isinstance(self.shown, Comparison):
            for column, run in zip(self.columns, self.shown.columns, strict=False):
                column.show_run(run)
        for column, tally in zip(self.columns, self.tallies, strict=False):
            column.show_samples(tally, setup.samples)
        self._show_problem()
        self.changed.emit()
        self.refresh()

    def _show_problem(self) -> None:
        """Shows why samples are no longer drawn. Answers that failed say so themselves."""
        if isinstance(self.shown, Sampling) and self.shown.problem:
            self.banner.show_message(self.shown.problem, "error")

    @Slot()
    def stop(self) -> None:
        """Stops every column; the text so far stays."""
        if self.running:
            self.link.stop_comparison()

    def let_go(self) -> bool:
        """Unpins a token, or leaves the one that the arrow keys reached; returns False if there is none."""
        held = any(column.text.pointing.holds for column in self.columns)
        for column in self.columns if held else ():
            column.text.pointing.let_go()
        return held

    @Slot(list)
    def receive(self, events: list[Event]) -> None:
        """Applies the engine's events for this comparison."""
        was_running, open_columns = self.running, self._open_columns
        if self.shown is not None:
            for event in events:
                self.shown.apply(event)
        self._store(open_columns, ended=True)
        if was_running and not self.running:
            self._show_problem()
            self.refresh()
            self._show_first_difference()
            self.changed.emit()
        else:
            self.touch()

    @property
    def _open_columns(self) -> list[int]:
        """The indices of the columns whose answers have not ended."""
        columns = [] if self.comparison is None else self.comparison.columns
        return [index for index, column in enumerate(columns) if column.answer.running]

    def _store(self, indices: Iterable[int], ended: bool) -> None:
        """Stores the answers of columns: those that have ended, or those that have not."""
        for index in indices:
            if self.comparison is not None and self.comparison.columns[index].answer.running != ended:
                self._recorder.finish(self.comparison.columns[index], self._requests[index])

    def _show_first_difference(self) -> None:
        """Shows where the texts diverge, with the verdicts, after a comparison that contrasts rules; not if the user has scrolled
        or pinned something."""
        position = self.comparison.divergence if self.comparison is not None and self.comparison.setup.rules else None
        untouched = all(column.text.following and not column.text.pointing.holds for column in self._shown)
        if position is not None and untouched:
            self.links.scroll_into_view(position)

    def touch(self) -> None:
        """Schedules a repaint."""
        self._stale = True
        if self.isVisible():
            self._repaints.touch()

    @Slot()
    def refresh(self) -> None:
        """Updates every column."""
        self._stale = False
        if self.comparison is not None:
            self._sync(self.comparison)
        elif isinstance(self.shown, Sampling):
            for column in self.columns[: len(self.tallies)]:
                column.sync_samples(self.shown.largest)
            self._level()
        self._show_state()

    def _sync(self, comparison: Comparison) -> None:
        seconds = max(run.answer.tally.summary.seconds for run in comparison.columns)
        if comparison.running:  # in steps, so that strips are not redrawn for every round
            seconds = AXIS_STEP ** math.ceil(math.log(max(seconds, 0.5), AXIS_STEP))
        cells = max(run.usual_proposals for run in comparison.columns)
        for column in self.columns[: len(comparison.columns)]:
            column.sync(comparison, seconds, cells)
        self._show_result(comparison)
        self._level()

    def _show_result(self, comparison: Comparison) -> None:
        """Shows the result, and whether the controls were changed since."""
        found = rule_findings(comparison)
        self.band.show_findings(found)
        if found:
            headline, words = conclusion(comparison)[0], drawing_words(comparison.setup)
            if not headline and not comparison.running and any(finding.kind in ("waiting", "failed") for finding in found):
                headline = MISSING
            until, least = "", f"{LONGEST_HEADLINE} {words}"
        else:
            headline, gained = tree_finding(comparison)
            words = f"{gained} {difference_words(comparison)}".strip()
            until, least = agreement_words(comparison), words
        if self.outdated and (headline or words):
            headline = " ".join(filter(None, (BEFORE_CHANGES, headline)))
        self.difference.show_words(headline, words, until=until, least=least, parted=comparison.divergence is not None)

    def _level(self, anew: bool = False) -> None:
        """Aligns the beginnings of the texts below the words above them. They move up only for another comparison."""
        for labels in ([column.figures for column in self._shown], [column.relation for column in self._shown]):
            for label in labels if anew else ():
                label.setMinimumHeight(0)  # `heightForWidth` is never below it
            height = max((label.heightForWidth(label.width()) for label in labels if not label.isHidden()), default=0)
            for label in labels:
                label.setMinimumHeight(height)

    def _show_state(self) -> None:
        setup, running = self.setup, self.running
        may_start = all(setup.prompt_of(column).strip() for column in setup.columns)
        recorded = bool(self._recorded_on) and not self.outdated
        self.bar.set_state(running, may_start, len(setup.columns) < MOST_COLUMNS, self.may_export, recorded)
        for column in self._shown:
            column.set_state(running, len(setup.columns) > 2)

    @Slot()
    def export(self) -> None:
        """Exports what is shown to a file that the user chooses."""
        if self.shown is not None:
            self.exporter.ask(self.shown)

    @Slot()
    def go_to_divergence(self) -> None:
        """Scrolls to the first difference in every column, and pins it."""
        if self.comparison is not None and (position := self.comparison.divergence) is not None:
            self._area.ensureWidgetVisible(self.columns[0].text)
            self.links.scroll_into_view(position)

    # Look.

    def set_look(self, theme: Theme, scale: float) -> None:
        """Passes theme and text scale to bar, banner and every column."""
        self.bar.set_look(theme, scale)
        self.band.set_look(theme, scale)
        self.banner.set_look(theme, scale)
        self.legend.set_look(theme, scale)
        for column in self.columns:
            column.set_look(theme, scale)

    @Slot(object)
    def _highlight(self, kind: Kind | None) -> None:
        """Highlights the tokens of one kind in every column."""
        for column in self.columns:
            column.text.highlight(kind)

    def set_ghosts(self, ghosts: Ghosts) -> None:
        """Sets which ghosts the texts of all columns show."""
        self.legend.show_ghosts(ghosts)
        for column in self.columns:
            column.text.set_ghosts(ghosts)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._stale:
            self.refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.touch()

    def close_down(self) -> None:
        """Stops repainting and stores what there is: the window is closing."""
        self._repaints.stop()
        self._store(self._open_columns, ended=False)
