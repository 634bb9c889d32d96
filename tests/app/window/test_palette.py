"""The command palette: what is found, in what order, and that it is done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.look.command import native_keys
from app.window.palette import Entry, Palette, matching, rank
from app.window.window import Window
from engine.chats import ChatSettings, ChatStore
from tests.app.driving import settle
from tests.app.fakes import FakeEngine
from tests.app.look.test_large_text import cut_off


@pytest.mark.parametrize(
    ("query", "title", "expected"),
    [
        ("go to", "Go to the charts", 0),
        ("CHARTS go", "Go to the charts", 1),
        ("har", "Go to the charts", 2),
        ("gtch", "Go to the charts", 3),
        ("charts", "Go to the table", None),
        (".*", "Anything", None),
        ("é", "Café", 2),
    ],
)
def test_rank_of_a_title(query: str, title: str, expected: int | None) -> None:
    assert rank(query, title) == expected


def test_the_best_match_is_first_and_available_entries_come_before_others() -> None:
    def entry(title: str, reason: str = "", command: bool = True) -> Entry:
        return Entry(title, lambda: None, reason=reason, command=command)

    entries = [entry("Larger text"), entry("Text size", "No."), entry("Text"), entry("My text", command=False)]
    assert [each.title for each in matching(entries, "text")] == ["Text", "Text size", "Larger text", "My text"]
    assert [each.title for each in matching(entries, " ")] == ["Larger text", "Text size", "Text"]


def titles(palette: Palette) -> list[str]:
    return [entry.title for entry in palette.model.entries]


def test_commands_chats_and_models_are_found_and_chosen_by_keys(
    qtbot: QtBot, show_window: Callable[..., Any], home: Path
) -> None:
    with ChatStore(home) as store:
        number = store.create(ChatSettings())
        store.add_message(number, None, "user", "Lighthouses of the north")
    engine = FakeEngine()
    window: Window = show_window(engine, store=lambda: ChatStore(home), recent_models=("/models/tiny-llama",))
    palette, field = window.palette_popup, window.palette_popup.field

    def open_palette(query: str) -> None:
        qtbot.keyClick(window, Qt.Key.Key_K, Qt.KeyboardModifier.ControlModifier)
        assert palette.isVisible() and field.text() == ""
        qtbot.keyClicks(field, query)

    open_palette("")
    listed = {command.title for command in window.commands if command.menu and command.id != "paletteAction"}
    assert {title.removeprefix("✓ ") for title in titles(palette)} == listed
    qtbot.keyClick(field, Qt.Key.Key_Escape)
    assert not palette.isVisible()

    open_palette("side panel")
    assert titles(palette)[0] == "✓ Side panel" and palette.model.entries[0].note == "F3"
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert not palette.isVisible() and not window.settings.side_panel

    open_palette("regenerate")
    entry, index = palette.model.entries[0], palette.model.index(0)
    assert entry.reason == "There is no answer yet."
    spoken = f"Regenerate, {native_keys('Ctrl+R')}, not available now: There is no answer yet."
    assert index.data(Qt.ItemDataRole.AccessibleTextRole) == spoken
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert palette.isVisible() and not engine.requests, "it says why, and stays"
    field.setText("no such thing at all")
    assert palette.no_matches.isVisible() and not titles(palette)
    palette.close()

    open_palette("go to the ")
    many = len(titles(palette))
    qtbot.keyClick(field, Qt.Key.Key_Up)
    assert palette.list.currentIndex().row() == many - 1
    qtbot.keyClick(field, Qt.Key.Key_Down)
    qtbot.keyClick(field, Qt.Key.Key_Down)
    assert palette.list.currentIndex().row() == 1
    palette.close()

    open_palette("lighthouses")
    qtbot.waitUntil(lambda: titles(palette) == ["Lighthouses of the north"])
    qtbot.keyClick(field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: window.chat.stored_chat.number == number)
    assert window.session.turns[0].prompt == "Lighthouses of the north"

    open_palette("tiny")
    qtbot.waitUntil(lambda: titles(palette)[:1] == ["tiny-llama"])
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert window.settings.target == "/models/tiny-llama"


@pytest.mark.usefixtures("fonts")
@pytest.mark.parametrize("size", [(560, 460), (1280, 800)])
def test_the_verdict_card_stays_inside_the_window(qtbot: QtBot, show_window: Callable[..., Any], size: tuple[int, int]) -> None:
    window = show_window(FakeEngine(), size=size, text_scale=1.5 if size[0] > 1000 else 1.0)
    window.open_palette()
    settle()
    assert window.frameGeometry().contains(window.palette_popup.geometry()) and not list(cut_off(window.palette_popup))
    assert window.palette_popup.list.visualRect(window.palette_popup.model.index(2)).bottom() < window.palette_popup.list.height()
    window.palette_popup.close()
