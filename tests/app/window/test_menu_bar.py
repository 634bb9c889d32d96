"""The menu bar of a Mac, made on any platform from the same table of commands."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

import app.window.window
from app.window.window import Window
from tests.app.driving import Open, answered


def menus(window: Window) -> dict[str, list[QAction]]:
    bar = window.menuBar().actions()
    return {top.text(): [each for each in top.menu().actions() if not each.isSeparator()] for top in bar}  # type: ignore[attr-defined]


def test_only_a_mac_has_a_menu_bar_with_edit_and_window(qtbot: QtBot, open_window: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.window.window, "has_menu_bar", lambda: False)
    plain, _ = open_window()
    assert not menus(plain) and "copyAction" not in plain.actions_by_id
    monkeypatch.setattr(app.window.window, "has_menu_bar", lambda: True)
    window, _ = open_window()
    bar = menus(window)
    assert list(bar) == ["File", "Chat", "Edit", "View", "Compare", "Go", "Window", "Help"]
    assert {action for its in bar.values() for action in its} == {
        window.actions_by_id[command.id] for command in window.commands if command.menu
    }
    keys = [each.toString() for action in window.findChildren(QAction) for each in action.shortcuts()]
    assert len(keys) == len(set(keys)), "two commands with one key: neither would work"
    roles = {action.text(): action.menuRole() for its in bar.values() for action in its}
    special = {text: role for text, role in roles.items() if role != QAction.MenuRole.NoRole}
    by_words = {text for text, role in special.items() if role == QAction.MenuRole.TextHeuristicRole}
    assert by_words == {"Undo", "Redo", "Cut", "Copy", "Paste", "Select All"}, "in the words that Qt knows"
    assert {text: role for text, role in special.items() if text not in by_words} == {
        "Settings…": QAction.MenuRole.PreferencesRole,
        "Quit": QAction.MenuRole.QuitRole,
        "About Draftlight": QAction.MenuRole.AboutRole,
    }, "these go into the menu with the program's name, and nothing else does by its words"

    edit = window.composer.edit
    monkeypatch.setattr(QApplication, "focusWidget", lambda: edit)
    edit.setPlainText("keep the lamp")
    for name in ("selectAll", "cut"):
        window.actions_by_id[f"{name}Action"].trigger()
    assert edit.toPlainText() == "" and QGuiApplication.clipboard().text() == "keep the lamp"
    window.actions_by_id["pasteAction"].trigger()
    assert edit.toPlainText() == "keep the lamp"
    window.actions_by_id["undoAction"].trigger()
    assert edit.toPlainText() == ""

    answered(qtbot, window)
    monkeypatch.setattr(QApplication, "focusWidget", lambda: window.transcript)
    for by_key in (True, False):
        QGuiApplication.clipboard().clear()
        for key, name in ((Qt.Key.Key_A, "selectAll"), (Qt.Key.Key_C, "copy")):
            if by_key:
                qtbot.keyClick(window.transcript, key, Qt.KeyboardModifier.ControlModifier)
            else:
                window.actions_by_id[f"{name}Action"].trigger()
        assert QGuiApplication.clipboard().text().startswith("Tell me a story."), "what is no field takes its keys itself"

    other = QWidget()
    qtbot.addWidget(other)
    other.show()
    monkeypatch.setattr(QApplication, "activeWindow", lambda: other)
    window.actions_by_id["fullScreenAction"].trigger()
    assert other.isFullScreen() and not window.isFullScreen()
    window.actions_by_id["closeWindowAction"].trigger()
    assert not other.isVisible() and window.isVisible(), "the window in front, not always the main one"
