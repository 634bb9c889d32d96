"""Groups chats under headings: pinned ones first, then by the day of their last change. No Qt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from itertools import groupby

from engine.chats import ChatSummary

PINNED = "Pinned"


def heading_of(about: ChatSummary, today: date) -> str:
    """Returns the heading of a chat; days are in local time."""
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
    """Returns a Unix time as local date and time, in words."""
    local = datetime.fromtimestamp(moment)
    return f"{local.day} {local:%B %Y, %H:%M}"


def group_by_day(chats: Iterable[ChatSummary], today: date) -> Iterator[tuple[str, list[ChatSummary]]]:
    """Groups the chats under headings, keeping their order."""
    for heading, group in groupby(chats, lambda about: heading_of(about, today)):
        yield heading, list(group)
