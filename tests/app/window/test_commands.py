"""One table has every key: what the window listens to, what the sheet shows and what README promises are the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QMenu, QWidget
from pytestqt.qtbot import QtBot

from app.look.command import ELSEWHERE, ESCAPE, escape_is_wanted
from app.session.cursor import Place
from app.window.window import Window
from tests.app.window import test_window
from tests.app.window.test_window import Open, ask, wait_for_answer

open_window = test_window.open_window
REPOSITORY = Path(__file__).parents[3]


def portable(keys: str) -> str:
    return QKeySequence(keys).toString(QKeySequence.SequenceFormat.PortableText)


def keys_of_the_table(window: Window) -> set[str]:
    own = (keys for entries in ELSEWHERE.values() for entry in entries for keys in entry.keys)
    return {portable(keys) for keys in (*own, *(keys for command in window.commands for keys in command.shortcuts))}


def keys_of_the_window(window: Window) -> Iterator[str]:
    """What Qt itself would take a key for."""
    for action in window.findChildren(QAction):
        yield from (keys.toString(QKeySequence.SequenceFormat.PortableText) for keys in action.shortcuts())
    for shortcut in window.findChildren(QShortcut):
        yield shortcut.key().toString(QKeySequence.SequenceFormat.PortableText)
    for button in window.findChildren(QAbstractButton):
        yield button.shortcut().toString(QKeySequence.SequenceFormat.PortableText)


def test_every_shortcut_of_the_window_is_a_command(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    window.pages.open_compare()
    ours = {portable(keys) for command in window.commands for keys in command.shortcuts}
    theirs = {keys for keys in keys_of_the_window(window) if keys and not keys.startswith("Alt+")}
    assert theirs == ours, "a shortcut that was set elsewhere is not in the list of commands"
    everything = [keys for command in window.commands for keys in command.shortcuts]
    assert len(everything) == len(set(everything))


def test_a_shortcut_set_elsewhere_would_be_noticed(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    window.composer.send.setShortcut("F12")
    assert "F12" in set(keys_of_the_window(window)) - keys_of_the_table(window)


def test_every_key_that_a_widget_takes_is_in_the_table(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    source = "".join(path.read_text(encoding="utf-8") for path in (REPOSITORY / "app").rglob("*.py"))
    taken = {portable(QKeySequence(getattr(Qt.Key, name)).toString()) for name in re.findall(r"Qt\.Key\.(Key_\w+)", source)}
    taken = {{"Enter": "Return"}.get(keys, keys) for keys in taken}
    assert len(taken) > 12
    assert taken <= keys_of_the_table(window)


def test_the_sheet_shows_every_key_with_what_it_does(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    window.show_shortcuts()
    sheet = window.findChild(QWidget, "shortcutSheet")
    assert sheet is not None
    shown = [label.text() for label in sheet.findChildren(QLabel)]
    assert ESCAPE in shown
    for command in window.commands:
        assert not command.shortcuts or command.title.rstrip("…") in shown
    for place, entries in ELSEWHERE.items():
        assert f"<b>{place}</b>" in shown
        assert all(entry.title in shown for entry in entries)
    words = " ".join(shown).replace(" or ", " ").split()
    native = (QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText) for keys in keys_of_the_table(window))
    assert set(native) <= set(words)
    sheet.close()


def keys_of_the_readme() -> list[str]:
    """The keys in README's table of keys: any in the first column, and those with Ctrl or Shift in its words."""
    rows = (REPOSITORY / "README.md").read_text(encoding="utf-8").split("| key (", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    named = re.findall(r"(?<!\+)\b(?:Enter|Esc|Up|Left|Right|F\d+)\b", " ".join(row.split("|")[1] for row in rows))
    named += re.findall(r"(?:(?:Ctrl|Shift)\+)+(?:Enter|[A-Z\d\[\]])", " ".join(rows))
    return [name.replace("Enter", "Return") for name in named]


def test_readme_promises_no_other_keys(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    promised = keys_of_the_readme()
    assert {"F1", "F7", "Ctrl+Return", "Ctrl+Shift+S", "Ctrl+[", "Ctrl+3", "Shift+Return", "Esc"} <= set(promised)
    assert {portable(keys) for keys in promised} <= keys_of_the_table(window)


def test_the_keys_of_a_comparison_are_free_elsewhere(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    for name in ("startCompareAction", "divergenceAction"):
        assert not window.actions_by_id[name].isEnabled()
    window.composer.set_text("Hello")
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert len(engine.requests) == 1, "in the message it sends"
    wait_for_answer(qtbot, window)
    window.pages.open_compare()
    for name in ("startCompareAction", "divergenceAction"):
        assert window.actions_by_id[name].isEnabled()
    window.pages.open_conversation()
    assert not window.actions_by_id["divergenceAction"].isEnabled()


@pytest.mark.parametrize("page", ["rounds", "table"])
def test_escape_lets_go_of_a_pinned_round_before_it_stops_the_answer(page: str, qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    engine.pause_after = 3
    ask(qtbot, window)
    window.open_page(page)  # type: ignore[arg-type]
    cursor = window.cursor_place
    cursor.pin(Place(0, 0))
    view = window.panel.rounds.lanes if page == "rounds" else window.panel.table.table
    view.setFocus()
    qtbot.keyClick(view, Qt.Key.Key_Escape)
    assert cursor.pin_place is None
    assert engine.stopped == []
    qtbot.keyClick(view, Qt.Key.Key_Escape)
    assert engine.stopped == [1]


def test_only_escape_is_taken_from_the_window_and_only_while_something_is_held(qtbot: QtBot) -> None:
    def event(kind: QEvent.Type, key: Qt.Key) -> QKeyEvent:
        made = QKeyEvent(kind, key, Qt.KeyboardModifier.NoModifier)
        made.ignore()
        return made

    assert QApplication.instance() is not None
    override, press = QEvent.Type.ShortcutOverride, QEvent.Type.KeyPress
    assert escape_is_wanted(held := event(override, Qt.Key.Key_Escape), lambda: True) and held.isAccepted()
    assert not escape_is_wanted(free := event(override, Qt.Key.Key_Escape), lambda: False) and not free.isAccepted()
    assert not escape_is_wanted(event(override, Qt.Key.Key_F4), lambda: True)
    assert not escape_is_wanted(event(press, Qt.Key.Key_Escape), lambda: True), "the press itself goes to keyPressEvent"


def test_commands_that_need_an_answer_say_so_until_there_is_one(qtbot: QtBot, open_window: Open) -> None:
    window, engine = open_window()
    names = [f"{name}Action" for name in ("regenerate", "edit", "copyAnswer", "export", "saveCharts", "shareCard")]
    actions = [window.actions_by_id[name] for name in names]
    for action in actions:
        assert not action.isEnabled()
        assert action.toolTip().startswith("There is no answer"), action.objectName()
    assert all(menu.toolTipsVisible() for menu in window.header.menu.menu().findChildren(QMenu))
    engine.pause_after = 2
    ask(qtbot, window)
    qtbot.waitUntil(lambda: window.session.turns[0].answer.tally.rounds == 2)
    assert window.actions_by_id["shareCardAction"].isEnabled()
    assert "Stop the answer" in window.actions_by_id["regenerateAction"].toolTip()
    engine.pause_after = None
    wait_for_answer(qtbot, window)
    window.session.turns[0].answer.trace_path = "trace.jsonl"
    window._refresh()
    for action in actions:
        assert action.isEnabled(), action.objectName()
        assert action.toolTip() == action.text().rstrip("…")
    window.new_chat()
    assert not any(action.isEnabled() for action in actions)


def test_the_commands_of_the_chat_wait_for_its_return(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    ask(qtbot, window)
    wait_for_answer(qtbot, window)
    window.pages.open_compare()
    for name in ("regenerateAction", "copyAnswerAction", "shareCardAction"):
        assert window.actions_by_id[name].toolTip() == "Go back to the chat first (F4)."
    assert not window.actions_by_id["exportAction"].isEnabled(), "nothing has been compared"
    assert not window.pages.comparing.bar.export.isEnabled()  # type: ignore[union-attr]
    window.pages.open_conversation()
    assert window.actions_by_id["copyAnswerAction"].isEnabled()
