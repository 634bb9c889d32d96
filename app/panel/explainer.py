"""Explains figures and charts: a popover with the definition, the numbers of an answer and their meaning."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QPoint, Qt, Slot
from PySide6.QtWidgets import QFrame, QSizePolicy, QWidget

from app.look.theme import Theme, mono_font
from app.look.widgets import in_column, named, push_button, text_label
from app.panel.definitions import Definition, define
from app.session.chat import Chat
from app.session.cursor import ShownAnswer
from app.session.session import Answer

WITH_BASELINE = ("throughput", "throughput_plot", "speed_up")
"""Definitions with a button that measures the plain speed."""
WIDTH = 380


class Explainer(QObject):
    """Opens definitions with the numbers of the answer that the panel shows, and measures the plain speed on request."""

    def __init__(self, chat: Chat, shown: ShownAnswer, parent: QWidget) -> None:
        super().__init__(parent)
        self._chat, self._shown = chat, shown
        self.popover = DefinitionPopover(parent)

    @Slot(str, QPoint)
    def explain(self, key: str, position: QPoint) -> None:
        """Shows the definition of `key` at a screen position, with the numbers of the shown answer."""
        self._explain(key, position, self._shown.answer)

    @Slot(int, str, QPoint)
    def explain_turn(self, turn: int, key: str, position: QPoint) -> None:
        """Explains a term with the numbers of another turn's answer."""
        if turn < len(self._chat.session.turns):
            self._explain(key, position, self._chat.session.turns[turn].answer)

    def _explain(self, key: str, position: QPoint, answer: Answer | None) -> None:
        baseline = None if answer is None else self._chat.session.baseline(answer)
        action: tuple[str, Callable[[], object]] | None = None
        if key in WITH_BASELINE and answer is self._shown.answer and self.can_measure and (baseline is None or not baseline.fits):
            action = ("Measure the plain speed for this prompt", self.measure_plain)
        self.popover.show_definition(define(key, answer, baseline), position, action)

    @property
    def can_measure(self) -> bool:
        """Whether a plain run for the shown answer can be measured now."""
        return self._chat.session.may_measure(self._shown.answer)

    @Slot()
    def measure_plain(self) -> None:
        """Answers the prompt of the shown answer briefly without a drafter, outside the conversation."""
        answer = self._shown.answer
        if answer is not None and self.can_measure:
            self._chat.measurer.measure(answer)


class DefinitionPopover(QFrame):
    """Floats beside the widget that opened it; Escape or a click elsewhere closes it."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint | Qt.WindowType.NoDropShadowWindowHint)
        named(self, "popover", "Definition")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._scale = 1.0
        self._callback: Callable[[], object] | None = None
        self.title, self.formula, self.numbers, self.explanation = (
            text_label(f"definition{name}") for name in ("Title", "Formula", "Here", "Words")
        )
        self.action = push_button("", "quietButton")
        self.action.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.action.clicked.connect(self._run_and_close)
        in_column(
            self.title,
            self.formula,
            self.numbers,
            self.explanation,
            self.action,
            spacing=8,
            margins=(18, 14, 18, 16),
            parent=self,
        )

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies the fixed-width font to formula and figures at the text scale; colours come from the style sheet."""
        self._scale = scale
        for label in (self.formula, self.numbers):
            label.setFont(mono_font(scale, 12))

    def show_definition(
        self, definition: Definition, position: QPoint, action: tuple[str, Callable[[], object]] | None = None
    ) -> None:
        """Opens with the upper left corner at a screen position, moved if needed to fit the screen.

        Args:
            action: (title, function) of a button below the words.
        """
        self.title.setText(definition.title)
        self.formula.setText(definition.formula)
        self.formula.setHidden(not definition.formula)
        self.numbers.setText("\n".join(definition.numbers))
        self.numbers.setHidden(not definition.numbers)
        self.explanation.setText(definition.explanation)
        self.setAccessibleDescription(" ".join(filter(None, (definition.formula, *definition.numbers, definition.explanation))))
        self._callback = None if action is None else action[1]
        self.action.setHidden(action is None)
        if action is not None:
            self.action.setText(action[0])
        self._move_beside(position)
        self.show()
        (self.action if action is not None else self).setFocus(Qt.FocusReason.PopupFocusReason)

    def _move_beside(self, position: QPoint) -> None:
        self.ensurePolished()
        width = round(WIDTH * self._scale)
        layout = self.layout()
        assert layout is not None
        layout.invalidate()  # the layout has cached the size for other words
        self.resize(width, layout.totalHeightForWidth(width))
        parent = self.parentWidget()
        screen = (parent.screen() if parent is not None else self.screen()).availableGeometry()
        left = max(screen.left() + 8, min(position.x(), screen.right() - width - 8))
        self.move(left, max(screen.top() + 8, min(position.y(), screen.bottom() - self.height() - 8)))

    def _run_and_close(self) -> None:
        callback = self._callback
        self.close()
        if callback is not None:
            callback()
