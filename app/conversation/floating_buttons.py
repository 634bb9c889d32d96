"""Pools of buttons that float over the conversation, one for each thing in view, such as a code block or a thought."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Generic, TypeVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QToolButton, QWidget

from app.look.widgets import named

Thing = TypeVar("Thing")
Button = TypeVar("Button", bound=QToolButton)


def floating(parent: QWidget, name: str) -> QToolButton:
    """Returns a hidden button for use over text. Its mouse pointer is an arrow."""
    button = named(QToolButton(parent), name)
    button.setCursor(Qt.CursorShape.ArrowCursor)
    button.hide()
    return button


class FloatingButtons(Generic[Button, Thing]):
    """A pool of buttons, one per thing in view; buttons are created when first needed and reused.

    Args:
        make: creates a button. pressed: called with the thing whose button was pressed.
    """

    def __init__(self, make: Callable[[], Button], pressed: Callable[[Thing], object]) -> None:
        self.buttons: list[Button] = []
        self._make, self._pressed = make, pressed
        self._things: list[Thing] = []

    def show_for(self, things: list[Thing]) -> Iterable[tuple[Button, Thing]]:
        """Shows one button for each thing, hides the rest, and returns the shown ones for placing."""
        while len(self.buttons) < len(things):
            button = self._make()
            button.clicked.connect(partial(self._press, len(self.buttons)))
            self.buttons.append(button)
        self._things = things
        for index, button in enumerate(self.buttons):
            button.setVisible(index < len(things))
        return zip(self.buttons, things, strict=False)

    @property
    def shown(self) -> Iterable[tuple[Button, Thing]]:
        """The buttons that show, each with its thing."""
        return zip(self.buttons, self._things, strict=False)

    def _press(self, index: int) -> None:
        if index < len(self._things):
            self._pressed(self._things[index])
