"""The button beside a message of a banner: its label, and what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BannerAction:
    """A button beside a message: its label and its action. With `keeps_message`, the message stays after a click."""

    title: str
    act: Callable[[], object]
    keeps_message: bool = False
