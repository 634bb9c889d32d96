"""Raw completion: the model goes on with what is written, because it has no chat template or because that is wanted."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.window.window import Window
from engine.types import LoadFinished
from tests.app.driving import Open, reset_options
from tests.app.fakes import MODEL


def words(window: Window) -> tuple[str, str, str]:
    """What the empty window, the message field and the line below it say."""
    return window.column.welcome.title.text(), window.composer.edit.placeholderText(), window.composer.hint.text()


def ask(qtbot: QtBot, window: Window, text: str) -> None:
    window.composer.set_text(text)
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: bool(window.session.turns) and window.session.running is None)


def test_a_note_explains_a_model_without_a_template(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    chatting = words(window)
    engine.say(LoadFinished(replace(MODEL, has_template=False), 0.1))
    qtbot.waitUntil(lambda: words(window) != chatting)
    title, placeholder, hint = words(window)
    assert "continue" in title and "beginning" in placeholder and "no chat template" in hint
    engine.say(LoadFinished(MODEL, 0.1))
    qtbot.waitUntil(lambda: words(window) == chatting)


def test_raw_completion_can_be_chosen_and_keeps_blanks_and_line_breaks(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    ask(qtbot, window, "  A question\n")
    window.options.fields["raw"].widget.setCurrentIndex(1)
    assert window.settings.raw
    assert words(window)[2].startswith("Raw completion")
    ask(qtbot, window, "  Once upon\n")
    reset_options(window)
    assert window.options.fields["raw"].widget.currentIndex() == 0
    ask(qtbot, window, "  Another question\n")
    asked = [(request.messages[-1].content, request.template) for request in engine.requests]
    assert asked == [("A question", True), ("  Once upon\n", False), ("Another question", True)]
    assert window.composer.text == ""
