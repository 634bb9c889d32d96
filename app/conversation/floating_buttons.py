"""Pools of widgets, one for each thing in view, such as a code block, a thought or an alternative."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Generic, TypeVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QToolButton, QWidget

from app.look.widgets import named

Thing = TypeVar("Thing")
Widget = TypeVar("Widget", bound=QWidget)
Button = TypeVar("Button", bound=QAbstractButton)


def floating(parent: QWidget, name: str) -> QToolButton:
    """Returns a hidden button for use over text. Its mouse pointer is an arrow."""
    button = named(QToolButton(parent), name)
    button.setCursor(Qt.CursorShape.ArrowCursor)
    button.hide()
    return button


class WidgetPool(Generic[Widget, Thing]):
    """A pool of widgets, one per thing in view; widgets are created when first needed and reused.

    Attributes:
        widgets: all widgets, shown or not.
    """

    def __init__(self, make: Callable[[], Widget]) -> None:
        self.widgets: list[Widget] = []
        self._make = make
        self._things: Sequence[Thing] = ()

    def show_for(self, things: Sequence[Thing]) -> Iterable[tuple[Widget, Thing]]:
        """Shows one widget for each thing, hides the rest, and returns the shown ones for placing."""
        self.widgets += [self._make() for _ in things[len(self.widgets) :]]
        self._things = things
        for index, widget in enumerate(self.widgets):
            widget.setVisible(index < len(things))
        return self.shown

    @property
    def shown(self) -> Iterable[tuple[Widget, Thing]]:
        """The shown widgets, each with its thing."""
        return zip(self.widgets, self._things, strict=False)

    def thing_of(self, widget: Widget) -> Thing | None:
        """Returns the thing that a widget is shown for."""
        return next((thing for other, thing in self.shown if other is widget), None)


class FloatingButtons(WidgetPool[Button, Thing]):
    """A pool of buttons.

    Args:
        pressed: called with the thing whose button was pressed.
    """

    def __init__(self, make: Callable[[], Button], pressed: Callable[[Thing], object]) -> None:
        super().__init__(partial(self._connected, make))
        self._pressed = pressed

    def _connected(self, make: Callable[[], Button]) -> Button:
        button = make()
        button.clicked.connect(partial(self._press, button))
        return button

    def _press(self, button: Button) -> None:
        if (thing := self.thing_of(button)) is not None:
            self._pressed(thing)
