"""The pages of the window: the conversation, and the comparison, which is created when it is first opened."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QStackedWidget, QWidget

from app.compare.presets import ANSWER_WORDS, PRESETS, setup_of
from app.compare.stored import ComparisonRecorder, read_stored
from app.compare.view import CompareView
from app.look.command import Command
from app.look.theme import Theme
from app.session.engine_link import EngineLink
from app.session.session import Turn
from app.session.settings import Settings
from engine.lens.pieces import Ghosts


class Pages(QStackedWidget):
    """Switches between the conversation and the comparison.

    Args:
        conversation: the first page.
        link, settings: as in `CompareView`.
        prompt: returns the newest prompt of the conversation, which the first comparison starts with.
        recorder: as in `CompareView`.

    Signals:
        page_changed: another page is shown. changed: a comparison has started or ended.
        exported: (folder, kind) folder and format of an exported comparison.
    """

    page_changed = Signal()
    changed = Signal()
    exported = Signal(str, str)

    def __init__(
        self,
        conversation: QWidget,
        link: EngineLink,
        settings: Callable[[], Settings],
        prompt: Callable[[], str],
        recorder: ComparisonRecorder,
    ) -> None:
        super().__init__()
        self.compare: CompareView | None = None
        self._recorder = recorder
        self._link, self._settings, self._prompt = link, settings, prompt
        self._look: tuple[Theme, float] | None = None
        self._ghosts: Ghosts | None = None
        self.addWidget(conversation)

    @property
    def comparing(self) -> CompareView | None:
        """The comparison, if it is shown."""
        return self.compare if self.compare is not None and self.currentWidget() is self.compare else None

    def status_text(self) -> str:
        """Returns the state of the comparison for the status line; "" if it is not shown."""
        return "" if self.comparing is None else self.comparing.status_words

    def open_compare(self, preset: str = "") -> None:
        """Shows the comparison, with a preset if one is given."""
        view = self.compare if self.compare is not None else self._create_comparison()
        self.setCurrentWidget(view)
        if preset:
            view.show_preset(preset)
        view.bar.start.setFocus()
        self.page_changed.emit()

    def compare_answer(self, turn: Turn) -> None:
        """Shows the comparison with the prompt and settings of an answer, unless a comparison is running."""
        self.open_compare()
        if self.compare is not None and not self.compare.running:
            self.compare.show_setup(setup_of(turn, self._settings()), ANSWER_WORDS)

    @Slot(int)
    def open_stored(self, number: int) -> None:
        """Shows a comparison from the store, unless one is running."""
        self.open_compare()
        view, keeper = self.compare, self._recorder.keeper
        if view is None:
            return
        if view.running:
            view.show_note("Stop this comparison, or wait until it has finished, then open another.")
        else:
            keeper.read(partial(read_stored, number), view.show_stored, view.show_note)

    def _create_comparison(self) -> CompareView:
        view = self.compare = CompareView(self._link, self._settings, self._recorder)
        view.closed.connect(self.open_conversation)
        view.changed.connect(self.changed)
        view.exporter.exported.connect(self.exported)
        self.show_settings()
        if prompt := self._prompt():
            view.show_prompt(prompt)
        else:
            view.show_preset(PRESETS[0].id)
        if self._look is not None:
            view.set_look(*self._look)
        self.addWidget(view)
        return view

    @Slot()
    def open_conversation(self) -> None:
        """Shows the conversation; a comparison continues in the background."""
        self.setCurrentIndex(0)
        self.page_changed.emit()

    def leave_comparison(self) -> None:
        """Shows the conversation if the comparison is shown."""
        if self.comparing is not None:
            self.open_conversation()

    @Slot()
    def toggle(self) -> None:
        """Toggles between the comparison and the conversation."""
        self.open_compare() if self.comparing is None else self.open_conversation()

    @Slot()
    def demonstrate(self) -> None:
        """Shows the recorded comparison of two rules."""
        self.open_compare()
        if self.compare is not None:
            self.compare.demonstrate()

    def start_compare(self) -> None:
        """Starts the shown comparison, unless it is running."""
        if self.comparing is not None:
            self.comparing.start()

    def go_to_divergence(self) -> None:
        """Shows the first difference of the shown comparison."""
        if self.comparing is not None:
            self.comparing.go_to_divergence()

    def set_look(self, theme: Theme, scale: float) -> None:
        """Restyles the comparison, or stores the style until it is first opened."""
        self._look = (theme, scale)
        if self.compare is not None:
            self.compare.set_look(theme, scale)

    @Slot()
    def show_settings(self) -> None:
        """Applies the settings' choice of ghosts to the comparison."""
        if self.compare is not None and self._ghosts != self._settings().compare_ghosts:
            self._ghosts = self._settings().compare_ghosts
            self.compare.set_ghosts(self._ghosts)

    @Slot()
    def stop(self) -> None:
        """Stops repainting: the window is closing."""
        if self.compare is not None:
            self.compare.close_down()


def compare_commands(pages: Pages) -> list[Command]:
    """Returns the commands of the comparison and its presets, for the menus."""

    def name(preset: str) -> str:
        """Returns the command id of a preset: "compareRandomNumberAction" for "random-number"."""
        return "compare" + "".join(part.capitalize() for part in preset.split("-")) + "Action"

    return [
        Command("compareAction", "Show or hide the comparison", "Compare", pages.toggle, ("F4",)),
        Command("startCompareAction", "Start the comparison", "Compare", pages.start_compare, ("Ctrl+Return",)),
        Command("divergenceAction", "Go to the first difference", "Compare", pages.go_to_divergence, ("F7",)),
        *(
            Command(name(preset.id), preset.title, "Compare", partial(pages.open_compare, preset.id), group="preset")
            for preset in PRESETS
        ),
    ]
