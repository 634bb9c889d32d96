"""Shows conversations without the rest of the window."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pytestqt.qtbot import QtBot

from app.look.theme import DARK, Theme
from engine.lens.pieces import Ghosts
from engine.types import Round
from tests.app.conversation.showing import PROMPT, Conversation, Show
from tests.app.fakes import story_rounds


@pytest.fixture
def show_conversation(qtbot: QtBot) -> Show:
    """Shows conversations with an answer in them, by default the story."""
    kept: list[Conversation] = []

    def show(
        rounds: Sequence[Round] | None = None,
        *,
        prompt: str = PROMPT,
        size: tuple[int, int] = (900, 700),
        ghosts: Ghosts = "above",
        reading: bool = False,
        theme: Theme = DARK,
        scale: float = 1.0,
        finished: bool = True,
    ) -> Conversation:
        made = Conversation(size, ghosts, reading, theme, scale)
        qtbot.addWidget(made.host)
        kept.append(made)
        with qtbot.waitActive(made.host):
            made.host.show()
        made.ask(story_rounds() if rounds is None else rounds, prompt, finished)
        return made

    return show
