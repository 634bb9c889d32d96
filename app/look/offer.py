"""An action that a message offers as a button."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Offer:
    """A button beside a message: its label and its action. With `stays`, the message remains after the button was pressed."""

    title: str
    act: Callable[[], object]
    stays: bool = False
