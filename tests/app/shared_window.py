"""A window that the tests of a module share. Each test finds it as if it had just opened; a new one takes four times as long.

A test that closes its window, or stores chats or settings, needs one of its own (`open_window`). The comparison page keeps its
prompt.
"""

from __future__ import annotations

from typing import Any

from PySide6.QtWidgets import QApplication, QDialog
from pytestqt.qtbot import QtBot

from app.session.settings import Settings
from app.window.window import Window
from tests.app.driving import settle
from tests.app.fakes import FakeEngine

USUAL: dict[str, Any] = {"appearance": "dark", "measure_plain": False}
"""Settings of windows in tests."""


class SharedWindow:
    """A window on a scripted engine."""

    def __init__(self) -> None:
        self.engine = FakeEngine()
        self.window = Window(self.engine, Settings(**USUAL))
        self.window.show()

    def open(
        self, qtbot: QtBot, rounds: Any = None, size: tuple[int, int] = (1440, 900), **settings: Any
    ) -> tuple[Window, FakeEngine]:
        """Shows the window in its first state with these settings, and waits for its model."""
        window = self.window
        self.engine.restart(rounds)
        preferences = window.chat.preferences
        preferences.wanted_drafter = None
        preferences.current = preferences.for_new_chats = Settings(**{**USUAL, **settings})
        preferences.changed.emit()
        window.new_chat()
        window.header.show_drawn_seed(None)
        window.panel.charts.set_open(window.settings.charts)
        window.verdicts.card.open_details(window.settings.verdict_details)
        window.transcript.highlight(None)
        window.panel.rounds.lanes.set_zoom(1.0)
        window.panel.rules.keep_marks.setChecked(False)
        window.column.find_bar.field.clear()
        window.resize(*size)
        window.show()
        window.activateWindow()
        window.chat.models.replace_engine()
        window.chat.models.load_again()
        qtbot.waitUntil(lambda: not window.chat.link.busy and window.isActiveWindow())
        window.sides.divide()
        window.composer.edit.setFocus()
        settle()
        return window, self.engine

    def leave(self, qtbot: QtBot) -> None:
        """Closes and stops everything in the window."""
        window = self.window
        assert window.ended_in_time is None, "a test that closes its window needs one of its own"
        while (popup := QApplication.activePopupWidget()) is not None:
            popup.close()
        for dialog in window.findChildren(QDialog):
            dialog.close()
        if window.slow_motion.is_on:
            window.slow_motion.toggle()
        if window.tour.isVisible():
            window.tour.end()
        window.chat.link.stop_comparison()
        window.column.find_bar.hide()
        window.composer.set_text("")
        window.new_chat()
        qtbot.waitUntil(lambda: not window.chat.link.busy)
