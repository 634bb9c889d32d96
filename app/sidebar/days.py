"""Under which heading a chat stands: pinned ones first, then by the day on which they last changed. No Qt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from itertools import groupby

from engine.chats import Listed

PINNED = "Pinned"


def heading_of(about: Listed, today: date) -> str:
    """The words above a chat; days are those of the local clock."""
    if about.pinned:
        return PINNED
    day = datetime.fromtimestamp(about.updated).date()
    if day >= today:
        return "Today"
    if day == today - timedelta(days=1):
        return "Yesterday"
    if day >= today - timedelta(days=7):
        return "Previous 7 days"
    if day >= today - timedelta(days=30):
        return "Previous 30 days"
    return f"{day:%B}" if day.year == today.year else f"{day:%B %Y}"


def day_and_time(moment: float) -> str:
    """Seconds since 1970 as a date and a time of the local clock, in words."""
    local = datetime.fromtimestamp(moment)
    return f"{local.day} {local:%B %Y, %H:%M}"


def grouped(chats: Iterable[Listed], today: date) -> Iterator[tuple[str, list[Listed]]]:
    """The chats in their order, in groups under one heading each."""
    for heading, group in groupby(chats, lambda about: heading_of(about, today)):
        yield heading, list(group)
