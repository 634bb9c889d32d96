"""A screen reader gets the conversation as it is read: Markdown rendered in the reading view, as it was written in the other."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QAccessible

from app.conversation import screen_reader
from app.conversation.screen_reader import ConversationText, offset_of, place_at, plain_text, spoken
from app.session.token_navigation import place_of
from tests.app.conversation.markdown_texts import RICH
from tests.app.conversation.showing import PROMPT, Conversation, Show
from tests.app.fakes import story_rounds

WRITTEN = "# A **bold** head\n\n- one *item*\n- [link](http://a.b)\n\n| a | b |\n|---|---|\n| 1 | `2` |\n\nThe end 😀."
READ = "A bold head\n• one item\n• link\na, b\n1, 2\nThe end 😀."


def value(shown: Conversation) -> str:
    screen_reader.install()
    interface = QAccessible.queryAccessibleInterface(shown.transcript)
    assert interface is not None
    return interface.text(QAccessible.Text.Value)


def test_the_reading_view_gives_the_read_text_and_the_token_view_what_was_written(show_conversation: Show) -> None:
    shown = show_conversation(story_rounds(WRITTEN), reading=True)
    assert value(shown) == f"You: {PROMPT}\nAnswer: {READ}"
    shown.transcript.set_reading(False)
    assert value(shown) == f"You: {PROMPT}\nAnswer: {WRITTEN}"


def test_no_syntax_is_left_of_a_rich_answer(show_conversation: Show) -> None:
    told = value(show_conversation(story_rounds(RICH), reading=True))
    assert not any(sign in told for sign in ("**", "```", "](http", "|:--", "$$", "# Spec"))
    assert all(words in told for words in ("drafter", "def accept(coin):", "☑ exact", "rejection, "))


@pytest.mark.parametrize("reading", [True, False])
@pytest.mark.parametrize("text", [WRITTEN, RICH])
def test_letters_and_tokens_belong_together_in_both_views(show_conversation: Show, text: str, reading: bool) -> None:
    """Where a token begins, that token stands; a mark that shows nothing stands where the next letters do."""
    transcript = show_conversation(story_rounds(text), reading=reading).transcript
    whole = ConversationText(transcript)
    assert whole.characterCount() == len(plain_text(transcript).encode("utf-16-le")) // 2
    shown = sorted({spot for part, spot in spoken(transcript, 0) if part})
    assert len(shown) > 10
    for spot in shown[:: max(1, len(shown) // 40)]:
        place = place_of(0, spot)
        assert place_at(transcript, offset_of(transcript, place)) == place
    assert place_at(transcript, 0) is None, "in the prompt"
