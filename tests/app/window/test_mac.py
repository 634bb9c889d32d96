"""The window on a Mac, as far as it can be shown elsewhere: Tab, keys, files that Finder opens, reasons in native menus."""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QFileOpenEvent, QKeySequence
from PySide6.QtWidgets import QApplication, QLabel, QMenu, QMessageBox, QWidget
from pytestqt.qtbot import QtBot

import app.look.command
import app.window.launch
import app.window.window
import engine.machine.macos
from app.look.command import WIDGET_KEYS, platform_keys
from app.window.dropping import OpenedFiles
from app.window.launch import make_application
from app.window.settings_window import SettingsWindow
from app.window.window import Window
from engine.chats import ChatStore
from tests.app.driving import Open, answered, texts
from tests.app.fakes import FakeEngine, story_rounds
from tests.engine.mac import Library
from tests.traces import write_trace

REPOSITORY = Path(__file__).parents[3]
TEXT_AND_LISTS = Qt.TabFocusBehavior(
    Qt.TabFocusBehavior.TabFocusTextControls.value | Qt.TabFocusBehavior.TabFocusListControls.value
)
"""What QCocoaTheme answers while "Keyboard navigation" is off in System Settings, as it is by default."""


@pytest.fixture
def tab_of_a_mac(qapp: QApplication) -> Iterator[None]:
    hints = qapp.styleHints()
    before = hints.tabFocusBehavior()
    hints.setTabFocusBehavior(TEXT_AND_LISTS)
    yield
    hints.setTabFocusBehavior(before)


def reached_by_tab(qtbot: QtBot, window: Window) -> set[str]:
    window.activateWindow()
    window.composer.edit.setFocus()
    seen = set()
    for _ in range(60):
        focused = QApplication.focusWidget()
        assert focused is not None
        seen.add(focused.accessibleName())
        qtbot.keyClick(focused, Qt.Key.Key_Tab)
    return seen


@pytest.mark.usefixtures("tab_of_a_mac")
def test_tab_reaches_every_control_although_keyboard_navigation_is_off(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window()
    answered(qtbot, window)
    window.panel.refresh()
    assert "Panel pages" not in reached_by_tab(qtbot, window), "the rule of a Mac is not in force"
    make_application()
    assert {"Panel pages", "Attach files", "Compare", "Menu", "Rounds"} <= reached_by_tab(qtbot, window)
    window.new_chat()
    assert "Example prompt: Code" in reached_by_tab(qtbot, window)


class Made(Exception):
    """An application would be made now."""


@pytest.mark.parametrize("from_checkout", [True, False])
def test_from_a_checkout_the_menu_bar_has_the_programs_name(from_checkout: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before there is an application, which reads it once."""
    library, given = Library(), []

    class NoneYet:
        instance = staticmethod(lambda: None)

        def __init__(self, arguments: list[str]) -> None:
            given.append(arguments)
            raise Made

    monkeypatch.setattr(engine.machine.macos, "_is_mac", lambda: True)
    monkeypatch.setattr(engine.machine.macos, "CDLL", library)
    monkeypatch.setattr(app.window.launch, "is_python", lambda: from_checkout)
    monkeypatch.setattr(app.window.launch, "QApplication", NoneYet)
    monkeypatch.setattr(sys, "argv", ["draftlight", "replay", "a.jsonl"])
    with pytest.raises(Made):
        make_application()
    assert library.information["CFBundleName"] == ("Draftlight" if from_checkout else "Python")
    assert given == [sys.argv], "without its arguments Qt would have macOS open them as files"


# Keys

OF_THE_SYSTEM = {
    *(
        "Ctrl+H",
        "Ctrl+Alt+H",
        "Ctrl+Tab",
        "Ctrl+Shift+Tab",
        "Ctrl+Space",
        "Ctrl+Alt+Space",
        "Ctrl+`",
        "Ctrl+Shift+`",
        "Ctrl+Alt+D",
    ),
    *("Ctrl+Shift+3", "Ctrl+Shift+4", "Ctrl+Shift+5", "Ctrl+Alt+Esc", "Ctrl+Shift+Q", "Ctrl+Meta+Q", "Ctrl+Meta+Space"),
    *("Ctrl+Meta+D", "Ctrl+?", "Meta+Up", "Meta+Down", "Meta+Left", "Meta+Right", "Meta+Space", "Ctrl+Alt+F5", "F11", "F12"),
    *(f"Ctrl+F{number}" for number in range(1, 9)),
    *(f"Meta+F{number}" for number in range(1, 9)),
}
"""Of macOS itself, in every program (Apple, "Mac keyboard shortcuts", HT201236)."""
OF_TEXT_FIELDS = {
    *("Ctrl+Up", "Ctrl+Down", "Ctrl+Left", "Ctrl+Right", "Alt+Up", "Alt+Down", "Alt+Left", "Alt+Right", "Alt+PgUp", "Alt+PgDown"),
    *("Ctrl+Shift+Up", "Ctrl+Shift+Down", "Ctrl+Shift+Left", "Ctrl+Shift+Right", "Ctrl+PgUp", "Ctrl+PgDown", "Meta+PgUp"),
    *(f"Meta+{letter}" for letter in "ABDEFHKNOPVY"),
    *("Alt+Backspace", "Alt+Del", "Ctrl+Backspace", "Home", "End", "PgUp", "PgDown", "Up", "Down", "Left", "Right"),
}
"""Of Qt's text fields on a Mac (KB_Mac in qplatformtheme.cpp), and Command with the page keys."""
OF_THE_CONVENTION = {
    "Ctrl+,": "settingsAction",
    "Ctrl+Q": "quitAction",
    "Ctrl+M": "minimizeAction",
    "Ctrl+W": "closeWindowAction",
    "Ctrl+Meta+F": "fullScreenAction",
    "Ctrl+N": "newChatAction",
    "Ctrl+O": "openTraceAction",
    "Ctrl+F": "findAction",
    "Ctrl+.": "stopAction",
    "Ctrl+Z": "undoAction",
    "Ctrl+Shift+Z": "redoAction",
    "Ctrl+X": "cutAction",
    "Ctrl+C": "copyAction",
    "Ctrl+V": "pasteAction",
    "Ctrl+A": "selectAllAction",
}
FREE = {"Ctrl+S", "Ctrl+P", "Ctrl+G", "Ctrl+Shift+G", "Ctrl+T", "Ctrl+Y"}
"""Have a meaning in every program that is none of ours."""
BARE_F_KEY = re.compile(r"F\d+")


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.look.command, "is_mac", lambda: True)
    monkeypatch.setattr(app.window.window, "has_menu_bar", lambda: True)


def portable(keys: QKeySequence | str) -> str:
    return QKeySequence(keys).toString(QKeySequence.SequenceFormat.PortableText)


def keys_by_command(window: Window) -> dict[str, list[str]]:
    return {name: [portable(keys) for keys in action.shortcuts()] for name, action in window.actions_by_id.items()}


@pytest.mark.usefixtures("mac")
def test_no_key_conflicts_with_macos(open_window: Open) -> None:
    window, _ = open_window()
    by_command = keys_by_command(window)
    every = [keys for its in by_command.values() for keys in its]
    assert len(every) == len(set(every)), "two commands with one key: neither would work"
    assert not set(every) & {portable(keys) for keys in OF_THE_SYSTEM | OF_TEXT_FIELDS | FREE}
    assert not [keys for keys in every if re.fullmatch(r"(Shift\+)?Alt\+.|Alt\+Shift\+.", keys)], (
        "Option with a letter types a sign"
    )
    first = [its[0] for its in by_command.values() if its]
    assert not [keys for keys in first if BARE_F_KEY.fullmatch(keys)], "a MacBook's F keys change brightness and sound"
    assert {"F1", "F3", "F4", "F6", "F7"} <= set(every), "with fn they work"
    owners = {keys: name for name, its in by_command.items() for keys in its}
    assert {keys: owners.get(portable(keys)) for keys in OF_THE_CONVENTION} == OF_THE_CONVENTION
    for place, entries in WIDGET_KEYS.items():
        for entry in entries:
            its = platform_keys(entry.keys)
            assert not BARE_F_KEY.fullmatch(its[0]), (place, entry.title)
            others = {owners.get(portable(keys)) for keys in its} - {None, entry.command, "escapeAction", "playAction"}
            assert others <= {"copyAction", "selectAllAction", "undoAction"}, "these press the key for the view itself"


def test_other_platforms_keep_their_keys(share_window: Open) -> None:
    window, _ = share_window()
    keys = keys_by_command(window)
    assert keys["panelAction"] == ["F3"] and keys["editAction"] == ["Ctrl+Up"] and keys["shortcutsAction"] == ["F1", "Ctrl+/"]


@pytest.mark.usefixtures("mac")
def test_no_text_names_a_bare_f_key_on_a_mac(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    window.pages.open_compare()
    reason = window.actions_by_id["copyAnswerAction"].toolTip()
    window.tour.begin()
    window.open_settings()
    window.models.open()
    said = [reason, *texts(window)]
    assert [words for words in said if re.search(r"\bF\d\b", words)] == []
    assert "Ctrl+5" in reason and any("Ctrl+Alt+I" in words for words in said)
    window.show_shortcuts()
    sheet = window.findChild(QWidget, "shortcutSheet")
    assert sheet is not None
    shown = [label.text() for label in sheet.findChildren(QLabel)]
    assert {"Ctrl+Alt+I or F3", "Ctrl+/ or F1", "Ctrl+Alt+R  F2", "Ctrl+Alt+Up"} <= set(shown)
    sheet.close()


@pytest.mark.usefixtures("mac")
def test_keys_with_command_work_while_the_message_has_text(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    answered(qtbot, window)
    window.composer.set_text("two\nlines")
    control, alt = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.AltModifier
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Up, control | alt)
    assert window.messages.editing.at == 0
    window.messages.cancel_editing()
    window.composer.set_text("two\nlines")
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Left, control | alt)
    assert "earlier wording" in window.banner.label.text()


@pytest.mark.usefixtures("mac")
def test_the_list_of_chats_renames_with_the_key_of_a_mac(qtbot: QtBot, open_window: Open, home: Path) -> None:
    window, _ = open_window(store=ChatStore)
    answered(qtbot, window)
    chats = window.sidebar.list
    qtbot.waitUntil(lambda: chats.model().rowCount() > 1)
    chats.setCurrentIndex(chats.model().index(1, 0))  # below its day
    chats.setFocus()
    qtbot.keyClick(chats, Qt.Key.Key_R, Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier)
    assert chats.state() == chats.State.EditingState
    qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Escape)


@pytest.mark.usefixtures("mac")
def test_command_w_closes_the_window_in_front(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    window.open_settings()
    window.models.open()
    assert window.models.dialog is not None and window.findChild(SettingsWindow) is not None
    for other in (window.models.dialog, window.findChild(SettingsWindow)):
        other.activateWindow()
        qtbot.waitUntil(lambda other=other: QApplication.activeWindow() is other)  # type: ignore[misc]
        qtbot.keyClick(other, Qt.Key.Key_W, Qt.KeyboardModifier.ControlModifier)
        assert not other.isVisible() and window.isVisible()


def test_the_documents_name_the_keys_of_a_mac() -> None:
    page = (REPOSITORY / "assets" / "docs" / "window.md").read_text(encoding="utf-8")
    rows = page.split("| elsewhere | on a Mac | |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    named: dict[str, str] = {}
    for row in rows:
        here, there = (cell.strip().split(", ") for cell in row.split("|")[1:3])
        named |= dict(zip(here, there, strict=True))
    written = {keys: portable(there.replace("Command", "Ctrl").replace("Option", "Alt")) for keys, there in named.items()}
    assert written == {keys: portable(its[0]) for keys, its in app.look.command.MAC_KEYS.items()}


# Files from Finder

QUANTISED = "small.gguf"


@pytest.fixture
def opened(qapp: QApplication) -> Iterator[OpenedFiles]:
    files = OpenedFiles(qapp)
    yield files
    qapp.removeEventFilter(files)
    files.deleteLater()


def from_finder(qapp: QApplication, *paths: Path) -> None:
    """As Qt's plugin for macOS does it: an event for each file, for the application."""
    for path in paths:
        QApplication.sendEvent(qapp, QFileOpenEvent(QUrl.fromLocalFile(str(path))))


def trace_file(folder: Path, packed: bool) -> Path:
    path = write_trace(folder / "answer.jsonl", story_rounds())
    if not packed:
        return path
    whole = path.with_name("answer.jsonl.gz")
    whole.write_bytes(gzip.compress(path.read_bytes()))
    return whole


@pytest.mark.parametrize("packed", [False, True])
def test_a_trace_opened_at_startup_is_replayed_once_the_window_shows(
    packed: bool, qtbot: QtBot, qapp: QApplication, opened: OpenedFiles, show_window: Any, home: Path, tmp_path: Path
) -> None:
    trace = trace_file(tmp_path, packed)
    from_finder(qapp, trace)  # before the window
    window = show_window(FakeEngine(), store=ChatStore)
    opened.deliver_to(window.drop_handler.open)
    qtbot.waitUntil(lambda: window.session.replaying)
    window.replay_controller.leave()
    from_finder(qapp, trace)  # and while it is open
    qtbot.waitUntil(lambda: window.session.replaying)


@pytest.fixture
def served(opened: OpenedFiles, show_window: Any, home: Path) -> Window:
    window: Window = show_window(FakeEngine(), store=ChatStore)
    opened.deliver_to(window.drop_handler.open)
    return window


def test_a_model_from_finder_becomes_the_target(qtbot: QtBot, qapp: QApplication, served: Window, tmp_path: Path) -> None:
    model, folder = tmp_path / QUANTISED, tmp_path / "folder"
    model.write_bytes(b"GGUF")
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "llama"}')
    served.pages.open_compare()
    for path in (model, folder):
        from_finder(qapp, path)
        qtbot.waitUntil(lambda path=path: served.settings.target == str(path.resolve()))  # type: ignore[misc]
    assert served.pages.comparing is None, "what is said of it is said in the chat"


@pytest.mark.parametrize("agrees", [True, False])
def test_chats_from_finder_are_imported_after_a_question(
    agrees: bool, qtbot: QtBot, qapp: QApplication, served: Window, tmp_path: Path
) -> None:
    taken: list[list[Path]] = []
    served.chats.files.import_files = taken.append  # type: ignore[method-assign, assignment]
    files = [tmp_path / "a.json", tmp_path / "b.json"]
    for file in files:
        file.write_text('{"format": "draftlight.chats/1", "chats": []}')
    from_finder(qapp, *files)
    qtbot.waitUntil(lambda: served.findChild(QMessageBox, "importQuestion") is not None)
    question = served.findChild(QMessageBox, "importQuestion")
    assert question is not None and "a.json and b.json" in question.text(), "one question for what was opened together"
    roles = QMessageBox.ButtonRole
    wanted = roles.AcceptRole if agrees else roles.RejectRole
    next(button for button in question.buttons() if question.buttonRole(button) == wanted).click()
    qtbot.waitUntil(lambda: served.findChild(QMessageBox, "importQuestion") is None)
    assert taken == ([files] if agrees else [])


def test_a_missing_file_is_named(qtbot: QtBot, qapp: QApplication, served: Window, tmp_path: Path) -> None:
    from_finder(qapp, tmp_path / "gone.json")
    qtbot.waitUntil(lambda: "gone.json" in served.banner.label.text())


# Reasons


@pytest.mark.usefixtures("mac")
def test_menus_list_why_entries_are_disabled(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    menu = next(top.menu() for top in window.menuBar().actions() if top.text() == "Chat")
    assert isinstance(menu, QMenu)

    def lines() -> list[str]:
        menu.aboutToShow.emit()
        there = [action for action in menu.actions() if action not in window.actions_by_id.values() and not action.isSeparator()]
        assert not any(action.isEnabled() for action in there)
        return [action.text() for action in there]

    before = lines()
    assert "Stop answer: No answer is being generated." in before
    assert any(re.fullmatch(r"[A-Z][a-z ]+ and \d+ others: There is no answer yet\.", line) for line in before), before
    assert lines() == before, "once each, however often the menu opens"
    answered(qtbot, window)
    assert not any(line.endswith("There is no answer yet.") for line in lines())
