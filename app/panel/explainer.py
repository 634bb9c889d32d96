"""Opens the definitions of figures and charts, with the numbers of the shown answer."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QPoint, Slot

from app.look.theme import Theme
from app.panel.definition_popover import DefinitionPopover
from app.panel.definitions import define
from app.panel.panel import SidePanel
from app.session.chat import Chat
from app.session.session import Answer

WITH_BASELINE = ("throughput", "throughput_plot", "speed_up")
"""Definitions with a button that measures the plain speed."""


class Explainer(QObject):
    """Opens definitions for the panel, and measures the plain speed on request."""

    def __init__(self, panel: SidePanel, chat: Chat) -> None:
        super().__init__(panel)
        self.panel, self.chat = panel, chat
        self.popover = DefinitionPopover(panel)
        panel.figures.definition_wanted.connect(self.explain)
        panel.charts.definition_wanted.connect(self.explain)
        panel.charts.baseline_wanted.connect(self.measure_plain)
        panel.figures.baseline_wanted.connect(self.measure_plain)

    @Slot(str, QPoint)
    def explain(self, key: str, place: QPoint) -> None:
        """Shows the definition of `key` at a screen position, with the numbers of the shown answer."""
        self._explain(key, place, self.panel.shown.answer)

    @Slot(int, str, QPoint)
    def explain_turn(self, turn: int, key: str, place: QPoint) -> None:
        """Explains a term with the numbers of another turn's answer."""
        if turn < len(self.chat.session.turns):
            self._explain(key, place, self.chat.session.turns[turn].answer)

    def _explain(self, key: str, place: QPoint, answer: Answer | None) -> None:
        baseline = None if answer is None else self.chat.session.baseline(answer)
        action: tuple[str, Callable[[], object]] | None = None
        if (
            key in WITH_BASELINE
            and answer is self.panel.shown.answer
            and self.can_measure
            and (baseline is None or not baseline.fits)
        ):
            action = ("Measure the plain speed for this prompt", self.measure_plain)
        self.popover.show_definition(define(key, answer, baseline), place, action)

    @property
    def can_measure(self) -> bool:
        """Whether a plain run for the shown answer can be measured now."""
        return self.chat.session.may_measure(self.panel.shown.answer)

    @Slot()
    def measure_plain(self) -> None:
        """Answers the prompt of the shown answer briefly without a drafter, outside the conversation."""
        answer = self.panel.shown.answer
        if answer is not None and self.can_measure:
            self.chat.measurer.measure(answer)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Passes theme and text scale to the popover."""
        self.popover.set_look(theme, scale)
