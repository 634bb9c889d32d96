"""A screen reader gets the conversation as it is read: Markdown rendered in the reading view, as it was written in the other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtGui import QAccessible
from pytestqt.qtbot import QtBot

from app.conversation import screen_reader
from app.conversation.screen_reader import ConversationText, offset_of, place_at, plain_text, spoken
from app.session.token_navigation import place_of
from app.window.window import Window
from tests.app.conversation.markdown_texts import RICH
from tests.app.fakes import FakeEngine, story_rounds

WRITTEN = "# A **bold** head\n\n- one *item*\n- [link](http://a.b)\n\n| a | b |\n|---|---|\n| 1 | `2` |\n\nThe end 😀."
READ = "A bold head\n• one item\n• link\na, b\n1, 2\nThe end 😀."


@pytest.fixture
def read(qtbot: QtBot, show_window: Callable[..., Window]) -> Callable[..., Window]:
    screen_reader.install()

    def opened(text: str, reading: bool) -> Window:
        window = show_window(FakeEngine(story_rounds(text)), reading=reading)
        window.send("Tell me")
        qtbot.waitUntil(lambda: bool(window.session.turns) and window.session.running is None)
        return window

    return opened


def value(window: Window) -> str:
    interface = QAccessible.queryAccessibleInterface(window.transcript)
    assert interface is not None
    return interface.text(QAccessible.Text.Value)


def test_the_reading_view_gives_the_read_text_and_the_token_view_what_was_written(read: Callable[..., Window]) -> None:
    window = read(WRITTEN, True)
    assert value(window) == f"You: Tell me\nSmolLM2 135M: {READ}"
    window.toggle_reading()
    assert value(window) == f"You: Tell me\nSmolLM2 135M: {WRITTEN}"


def test_no_syntax_is_left_of_a_rich_answer(read: Callable[..., Window]) -> None:
    told = value(read(RICH, True))
    assert not any(sign in told for sign in ("**", "```", "](http", "|:--", "$$", "# Spec"))
    assert all(words in told for words in ("drafter", "def accept(coin):", "• exact", "rejection, ")) or "☑ exact" in told


@pytest.mark.parametrize("reading", [True, False])
@pytest.mark.parametrize("text", [WRITTEN, RICH])
def test_letters_and_tokens_belong_together_in_both_views(read: Callable[..., Window], text: str, reading: bool) -> None:
    """Where a token begins, that token stands; a mark that shows nothing stands where the next letters do."""
    window = read(text, reading)
    transcript = window.transcript
    whole = ConversationText(transcript)
    assert whole.characterCount() == len(plain_text(transcript).encode("utf-16-le")) // 2
    shown = {spot for part, spot in spoken(transcript, 0) if part}
    assert len(shown) > 10
    for spot in shown:
        place = place_of(0, spot)
        assert place_at(transcript, offset_of(transcript, place)) == place
    assert place_at(transcript, 0) is None, "in the prompt"
