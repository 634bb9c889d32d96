"""The dialog that finds the fastest drafter and gamma for the current target: a benchmark, its result, and a button to apply
it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QUrl, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QDialogButtonBox, QProgressBar, QPushButton, QWidget

from app.look.widgets import TransientDialog, in_column, named, stretch, text_label
from app.look.wording import target_title
from app.session.chat import Chat
from engine.exports.bench_report import to_html
from engine.files.paths import data_folder
from engine.files.whole_file import NotWritten, write_whole
from engine.tools.bench.chooser import Contender, advice
from engine.tools.bench.prompts import read_prompts
from engine.tools.bench.report import Results
from engine.types import FILTERS, BenchFinished, Event, TaskFailed, TaskProgress
from engine.values.drafter_kinds import NO_DRAFTER, benched
from engine.values.errors import DraftlightError
from engine.values.requests.bench import QUICK_GAMMAS, QUICK_MINUTES, QUICK_TOKENS, BenchRequest
from engine.values.wording import capitalised

DESCRIPTION = (
    "Measures drafters and draft lengths on short prompts of its own, with the sampling in use, beside plain decoding, for up to "
    "three minutes. Nothing is added to the chat. The less the computer does meanwhile, the more certain the result."
)
STEPS = 1000


class BenchDialog(TransientDialog):
    """Runs the benchmark on the engine thread. Closing the dialog stops it; the next benchmark resumes from what was measured."""

    def __init__(self, chat: Chat, parent: QWidget) -> None:
        super().__init__(parent, "benchDialog", "Find the fastest drafter")
        self._chat = chat
        self._results = Results(request_of(chat))
        self._running = False
        self._advised: Contender | None = None
        self.description, self.headline = text_label("", DESCRIPTION), text_label("keysHeading")
        self.details, self.step = text_label(""), text_label("")
        self.progress = named(QProgressBar(minimum=0, maximum=STEPS, textVisible=False), "benchProgress", "How much is measured")
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        self.buttons.rejected.connect(self.reject)
        self.start = self._button("Start", self._start_or_stop)
        self.start.setObjectName("primaryButton")
        self.use = self._button("Use this drafter", self._use)
        self.report = self._button("Open report", self._open_report)
        in_column(
            self.description,
            self.headline,
            self.details,
            stretch(),
            self.step,
            self.progress,
            self.buttons,
            spacing=10,
            margins=(20, 18, 20, 16),
            parent=self,
        )
        self.resize_to_lines(34, 20)
        chat.link.benched.connect(self._handle_events)
        self._show()
        self.start.setFocus()

    def _button(self, text: str, on_click: Callable[[], object]) -> QPushButton:
        button = self.buttons.addButton(text, QDialogButtonBox.ButtonRole.ActionRole)
        button.clicked.connect(on_click)
        return button

    @Slot()
    def _start_or_stop(self) -> None:
        if self._running:
            self._chat.link.stop_bench()
            self.step.setText("Stopping…")
            return
        self._results = Results(request_of(self._chat))
        try:
            self._chat.link.perform(self._results.request)
        except DraftlightError as error:
            self.step.setText(str(error))
            return
        self._running = True
        self.progress.setValue(0)
        self.step.setText("Loading…")
        self._show()

    @Slot(list)
    def _handle_events(self, events: list[Event]) -> None:
        for event in events:
            self._results.take(event)
            match event:
                case TaskProgress(fraction=fraction):
                    self.step.setText(capitalised(event.words))
                    self.progress.setValue(round(STEPS * fraction))
                case BenchFinished() | TaskFailed():
                    self._running = False
                    self.step.setText(event.message if isinstance(event, TaskFailed) else "")
                    self._show()
                case _:
                    pass

    def _show(self) -> None:
        """Shows the results and updates the buttons."""
        request, decisions = self._results.request, () if self._running else self._results.decisions()
        self._advised = decisions[0].advised if decisions else None
        conditions = self._results.conditions(titles=True)
        self.description.setVisible(not decisions)
        if decisions:
            result = advice(decisions[0], titles=True)
            self.headline.setText(result.headline)
            self.details.setText("\n\n".join([*result.details, *self._results.missing(), conditions]))
        else:
            self.headline.setText(target_title(request.target))
            self.details.setText(conditions)
        self.progress.setVisible(self._running)
        self.start.setText(
            "Stop" if self._running else "Start" if not decisions else "Measure again" if self._results.complete else "Continue"
        )
        self.use.setEnabled(self._advised is not None)
        self.report.setEnabled(bool(decisions))

    @Slot()
    def _use(self) -> None:
        if self._advised is not None:
            setting = self._advised.setting
            self._chat.change("drafter", setting.drafter)
            if setting.gamma is not None:
                self._chat.change("gamma", setting.gamma)
            self.close()

    @Slot()
    def _open_report(self) -> None:
        path = data_folder() / "bench" / "report.html"
        try:
            write_whole(path, to_html(self._results))
        except NotWritten as error:
            self.step.setText(str(error))
            return
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(path)))

    def done(self, result: int) -> None:
        """Closes the dialog and stops a running benchmark."""
        if self._running:
            self._chat.link.stop_bench()
        super().done(result)


def request_of(chat: Chat) -> BenchRequest:
    """Returns the benchmark request: the current target and settings, with the usual drafters and the current one."""
    settings = chat.settings
    usual = benched(settings.target)
    named = () if settings.drafter in (*usual, NO_DRAFTER) else (settings.drafter,)
    return BenchRequest(
        prompts=read_prompts(),
        target=settings.target,
        drafters=(*usual, *named),
        rules=(settings.rule,),
        temperatures=(settings.temperature,),
        gammas=QUICK_GAMMAS,
        max_tokens=QUICK_TOKENS,
        peers=False,
        kv_bits=settings.kv_bits,
        **{name: getattr(settings, name) for name in FILTERS},
        minutes=QUICK_MINUTES,
        journals=str(data_folder() / "bench"),
    )
