"""The rows of the list: chats stand under the day on which they last changed, pinned ones before them."""

from __future__ import annotations

from datetime import date, datetime

import pytest

from app.sidebar.model import ChatsModel, day_and_time, heading_of
from engine.chats import ChatSummary

TODAY = date(2026, 11, 22)


def chat(day: date, *, pinned: bool = False) -> ChatSummary:
    at = datetime(day.year, day.month, day.day, 12).timestamp()
    return ChatSummary(1, "A chat", at, at, pinned=pinned)


@pytest.mark.parametrize(
    ("day", "heading"),
    [
        (date(2026, 11, 22), "Today"),
        (date(2026, 11, 23), "Today"),  # the clock was set back
        (date(2026, 11, 21), "Yesterday"),
        (date(2026, 11, 20), "Previous 7 days"),
        (date(2026, 11, 15), "Previous 7 days"),
        (date(2026, 11, 14), "Previous 30 days"),
        (date(2026, 10, 23), "Previous 30 days"),
        (date(2026, 10, 22), "October"),
        (date(2025, 10, 22), "October 2025"),
    ],
)
def test_heading_of_a_date(day: date, heading: str) -> None:
    assert heading_of(chat(day), TODAY) == heading


def test_pinned_chats_come_first_whatever_their_day() -> None:
    model = ChatsModel(lambda: TODAY)
    model.show_chats([chat(date(2025, 1, 1), pinned=True), chat(TODAY), chat(TODAY), chat(date(2026, 11, 21))])
    titles = [model.index(row).data() for row in range(model.rowCount())]
    assert titles == ["Pinned", "A chat", "Today", "A chat", "A chat", "Yesterday", "A chat"]


def test_day_and_time() -> None:
    assert day_and_time(datetime(2026, 11, 3, 9, 5).timestamp()) == "3 November 2026, 09:05"
