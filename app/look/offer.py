"""What a message offers to do: the maker of the message makes the offer, too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Offer:
    """A button beside a message: its label, and what pressing it does. `stays`: the message stays after that."""

    title: str
    act: Callable[[], object]
    stays: bool = False
