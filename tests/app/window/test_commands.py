"""One table has every key: what the window listens to, what the sheet shows and what the documentation promises are the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt, QTimer
from PySide6.QtGui import QAction, QCursor, QKeySequence, QShortcut
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QMenu, QWidget
from pytestqt.qtbot import QtBot

import app.look.command
from app.compare.sample_tally import Sampling
from app.look.command import EDIT_MENU, ESCAPE, WIDGET_KEYS
from app.session.cursor import Place
from app.window.commands import window_commands
from app.window.window import Window
from engine.values.requests.compare import CompareRequest
from tests.app.driving import Open, answered, ask, texts, wait_for_answer

REPOSITORY = Path(__file__).parents[3]


def portable(keys: str) -> str:
    return QKeySequence(keys).toString(QKeySequence.SequenceFormat.PortableText)


def keys_of_the_table(window: Window) -> set[str]:
    own = (keys for entries in WIDGET_KEYS.values() for entry in entries for keys in entry.keys)
    return {portable(keys) for keys in (*own, *(keys for command in window.commands for keys in command.shortcuts))}


def keys_of_the_window(window: Window) -> Iterator[str]:
    """What Qt itself would take a key for."""
    for action in window.findChildren(QAction):
        yield from (keys.toString(QKeySequence.SequenceFormat.PortableText) for keys in action.shortcuts())
    for shortcut in window.findChildren(QShortcut):
        yield shortcut.key().toString(QKeySequence.SequenceFormat.PortableText)
    for button in window.findChildren(QAbstractButton):
        yield button.shortcut().toString(QKeySequence.SequenceFormat.PortableText)


class KeysOfAMac(QKeySequence):
    """As Qt writes them there."""

    def toString(self, format: QKeySequence.SequenceFormat = QKeySequence.SequenceFormat.PortableText) -> str:
        words = super().toString(QKeySequence.SequenceFormat.PortableText)
        is_portable = format == QKeySequence.SequenceFormat.PortableText
        return words if is_portable else words.replace("Ctrl+", "⌘").replace("Shift+", "⇧").replace("Return", "↩")


def test_no_text_names_a_key_that_a_mac_lacks(qtbot: QtBot, open_window: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.look.command, "QKeySequence", KeysOfAMac)
    window, _ = open_window()
    answered(qtbot, window)
    window.open_settings()
    window.models.open()
    window.show_shortcuts()
    window.messages.edit_answer(0)
    window.pages.open_compare()
    window.tour.begin()
    told = texts(window)
    assert [words for words in told if "Ctrl" in words] == []
    assert any("⌘K" in words for words in told)


@pytest.mark.usefixtures("fonts")
def test_long_menus_are_divided_and_fit_a_small_screen(share_window: Open) -> None:
    window, _ = share_window()
    menus = [entry.menu() for entry in window.header.menu.menu().actions()]
    for menu in menus:
        together = "".join("|" if action.isSeparator() else "." for action in menu.actions()).split("|")
        assert max(map(len, together)) <= 11, f"{menu.title()}: {together}"
        assert menu.sizeHint().height() <= 720, menu.title()


def test_every_shortcut_of_the_window_is_a_command(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window()
    window.pages.open_compare()
    ours = {portable(keys) for command in window.commands for keys in command.shortcuts}
    theirs = {keys for keys in keys_of_the_window(window) if keys and not keys.startswith("Alt+")}
    assert theirs == ours, "a shortcut that was set elsewhere is not in the list of commands"
    everything = [keys for command in window.commands for keys in command.shortcuts]
    assert len(everything) == len(set(everything))


@pytest.mark.parametrize("menu_bar", [False, True])
def test_no_key_of_a_view_is_that_of_another_command(menu_bar: bool, share_window: Open) -> None:
    """In a view, Qt asks the view first, so a menu would show a key that does something else there."""
    window, _ = share_window()
    commands = window_commands(window, menu_bar)
    of_command: dict[str, str] = {}
    for command in commands:
        for keys in command.shortcuts:
            assert of_command.setdefault(portable(keys), command.id) == command.id, keys
    passed_on = {command.id for command in commands if command.menu == EDIT_MENU}  # to whatever has the keyboard
    for place, entries in WIDGET_KEYS.items():
        taken = [portable(keys) for entry in entries for keys in entry.keys]
        assert len(taken) == len(set(taken)), place
        for entry in entries:
            of_window = {of_command[portable(keys)] for keys in entry.keys if portable(keys) in of_command}
            if place != "In a replay":
                of_window.discard("playAction")  # a command of replays alone, where Space has no other meaning, as the sheet says
            assert of_window - passed_on == ({entry.command} if entry.command else set()), (place, entry.title)


def test_every_key_of_the_menus_runs_its_command_wherever_the_keyboard_is(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    answered(qtbot, window)
    ran: list[str] = []
    for name, action in window.actions_by_id.items():
        action.triggered.disconnect()
        action.triggered.connect(lambda *_, name=name: ran.append(name))
    window.panel.charts.set_open(("throughput",))
    views: dict[str, list[QWidget]] = {
        "rounds": [window.composer.edit, window.transcript, window.header.compare, window.panel.rounds.lanes],
        "table": [window.panel.table.table],
        "charts": [window.panel.charts.sections["throughput"].chart],
    }
    pressed = 0
    for page, widgets in views.items():
        window.open_page(page)  # type: ignore[arg-type]
        for widget in widgets:
            widget.setFocus()
            for command in window.commands:
                for keys in command.shortcuts if command.id != "playAction" else ():  # Space presses buttons outside a replay
                    ran.clear()
                    combination: Any = QKeySequence(keys)[0]
                    qtbot.keyClick(widget, combination.key(), combination.keyboardModifiers())
                    expected = [command.id] if window.actions_by_id[command.id].isEnabled() else []
                    assert ran == expected, (keys, widget.objectName())
                    pressed += bool(expected)
    assert pressed > 200


def test_a_shortcut_outside_the_commands_is_detected(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    window.composer.send.setShortcut("F12")
    assert "F12" in set(keys_of_the_window(window)) - keys_of_the_table(window)


def test_every_key_that_a_widget_takes_is_in_the_table(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window()
    source = "".join(path.read_text(encoding="utf-8") for path in (REPOSITORY / "app").rglob("*.py"))
    taken = {portable(QKeySequence(getattr(Qt.Key, name)).toString()) for name in re.findall(r"Qt\.Key\.(Key_\w+)", source)}
    taken = {{"Enter": "Return"}.get(keys, keys) for keys in taken}
    assert len(taken) > 12
    assert taken <= keys_of_the_table(window)


def test_the_sheet_shows_every_key_with_what_it_does(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window()
    window.show_shortcuts()
    sheet = window.findChild(QWidget, "shortcutSheet")
    assert sheet is not None
    shown = [label.text() for label in sheet.findChildren(QLabel)]
    assert ESCAPE in shown
    for command in window.commands:
        assert not command.shortcuts or command.title.rstrip("…") in shown
    for place, entries in WIDGET_KEYS.items():
        assert place in shown
        assert all(entry.title in shown for entry in entries)
    words = " ".join(shown).replace(" or ", " ").split()
    native = (QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText) for keys in keys_of_the_table(window))
    assert {keys.replace("Return", "Enter") for keys in native} <= set(words), "keys have the name that is printed on most"
    sheet.close()


def keys_of_the_documents() -> list[str]:
    """The keys in the documentation's table: any in the first column, and those with Ctrl or Shift in its words."""
    rows = (
        (REPOSITORY / "assets" / "docs" / "window.md")
        .read_text(encoding="utf-8")
        .split("| key (", 1)[1]
        .split("\n\n", 1)[0]
        .splitlines()[2:]
    )
    named = re.findall(r"(?<!\+)\b(?:Enter|Esc|Up|Left|Right|F\d+)\b", " ".join(row.split("|")[1] for row in rows))
    named += re.findall(r"(?:(?:Ctrl|Shift)\+)+(?:Enter|Left|Right|[A-Z\d\[\]])", " ".join(rows))
    return [name.replace("Enter", "Return") for name in named]


def test_the_documentation_names_only_existing_keys(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window()
    promised = keys_of_the_documents()
    assert {"F1", "F7", "Ctrl+Return", "Ctrl+Shift+S", "Ctrl+[", "Ctrl+3", "Shift+Return", "Esc"} <= set(promised)
    assert {portable(keys) for keys in promised} <= keys_of_the_table(window)


def test_comparison_keys_do_nothing_on_other_pages(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
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


@pytest.mark.parametrize("where", ["rounds", "table", "charts", "conversation", "message", "rule", "status"])
def test_escape_lets_go_of_a_pin_before_it_stops_the_answer(where: str, qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    engine.pause_after = 3
    ask(qtbot, window)
    qtbot.waitUntil(lambda: window.session.turns[0].answer.tally.rounds == 3)
    if where in ("rounds", "table", "charts"):
        window.open_page(where)  # type: ignore[arg-type]
    views: dict[str, QWidget] = {
        "rounds": window.panel.rounds.lanes,
        "table": window.panel.table.table,
        "charts": window.panel.charts.sections["throughput"].chart,
        "conversation": window.transcript,
        "message": window.composer.edit,
        "rule": window.header.rule.buttons["gumbel"],
        "status": window.status.ghosts,
    }
    view = views[where]
    view.setFocus()
    window.cursor_place.pin(Place(0, 0))
    qtbot.keyClick(view, Qt.Key.Key_Escape)
    assert window.cursor_place.pin_place is None
    assert window.cursor_place.place is None
    assert engine.stopped == []
    qtbot.keyClick(view, Qt.Key.Key_Escape)
    assert engine.stopped == [engine.runs[0]]


def test_escape_acts_in_the_order_of_the_shortcut_sheet(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    window.activateWindow()
    answered(qtbot, window)
    window.banner.show_message("Something went wrong.")
    window.messages.edit_last()
    window.cursor_place.pin(Place(0, 0))
    window.open_options()

    def left() -> list[str]:
        there = {
            "popover": window.options.isVisible(),
            "pin": window.cursor_place.pin_place is not None,
            "editing": window.composer.edit_note.isVisible(),
            "answer": window.session.running is not None,
            "replay": window.session.replaying,
            "message": window.banner.isVisible(),
        }
        return [name for name, still in there.items() if still]

    def press() -> list[str]:
        if (popup := QApplication.activePopupWidget()) is None:
            window.activateWindow()  # a popover takes that with it on this platform
        qtbot.keyClick(popup or window.composer.edit, Qt.Key.Key_Escape)
        return left()

    assert left() == ["popover", "pin", "editing", "message"]
    assert press() == ["pin", "editing", "message"]
    assert press() == ["editing", "message"]
    assert press() == ["message"]
    engine.pause_after = 2
    ask(qtbot, window, "Another.")
    qtbot.waitUntil(lambda: window.session.turns[-1].answer.tally.rounds == 2)
    window.banner.show_message("Something went wrong.")
    window.cursor_place.pin(Place(1, 0))
    assert left() == ["pin", "answer", "message"]
    assert press() == ["answer", "message"]
    press()
    wait_for_answer(qtbot, window)
    assert left() == ["message"]
    assert press() == []
    assert press() == [], "and then nothing, however often it is pressed"
    assert len(window.session.turns) == 2


def test_escape_in_a_comparison_lets_go_and_then_stops(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    window.pages.open_compare()
    view = window.pages.comparing
    assert view is not None
    stopped: list[bool] = []
    view.stop = lambda: stopped.append(True)  # type: ignore[method-assign]
    view.shown = Sampling(view.setup, "builtin")
    column = view.columns[0]
    column.text.pointing.walking = True
    qtbot.keyClick(view.bar.prompt, Qt.Key.Key_Escape)
    assert not column.text.pointing.walking and not stopped
    qtbot.keyClick(view.bar.prompt, Qt.Key.Key_Escape)
    assert stopped
    assert window.pages.comparing is view, "it stays open"
    view.shown = None


def test_enter_presses_every_button_that_tab_reaches(qtbot: QtBot, open_window: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    window, _ = open_window()
    window.activateWindow()
    answered(qtbot, window)
    seen: set[str] = set()

    def walk(start: QWidget) -> None:
        start.setFocus()
        for _ in range(80):
            focused = QApplication.focusWidget()
            assert focused is not None
            if isinstance(focused, QAbstractButton) and focused.isEnabled():
                pressed: list[bool] = []
                monkeypatch.setattr(focused, "click", lambda pressed=pressed: pressed.append(True), raising=False)
                qtbot.keyClick(focused, Qt.Key.Key_Return)
                qtbot.keyClick(focused, Qt.Key.Key_Enter, Qt.KeyboardModifier.KeypadModifier)
                assert len(pressed) == 2, focused.accessibleName()
                seen.add(focused.accessibleName() or focused.text())
            qtbot.keyClick(focused, Qt.Key.Key_Tab)

    for page in ("rounds", "charts", "table"):
        window.open_page(page)  # type: ignore[arg-type]
        walk(window.composer.edit)
    window.pages.open_compare()
    assert window.pages.comparing is not None
    window.pages.comparing.bar.prompt.setPlainText("Hello")
    walk(window.pages.comparing.bar.prompt)
    window.pages.open_conversation()
    window.open_options()
    walk(window.options.fields["stop"].widget)
    window.options.close()
    wanted = {"Compare", "Menu", "Copy the answer", "Regenerate", "Start", "Presets", "Reset to defaults"}
    assert wanted <= seen


def test_enter_on_start_starts_the_comparison(qtbot: QtBot, open_window: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    window, _ = open_window()
    window.activateWindow()
    window.pages.open_compare()
    view = window.pages.comparing
    assert view is not None
    asked: list[CompareRequest] = []

    def compare(request: CompareRequest) -> tuple[int, ...]:
        asked.append(request)
        return tuple(range(len(request.requests)))

    monkeypatch.setattr(view.link, "compare", compare)
    view.bar.prompt.setPlainText("Hello")
    view.bar.start.setFocus()
    qtbot.keyClick(view.bar.start, Qt.Key.Key_Return)
    assert len(asked) == 1


def test_enter_opens_the_menu(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    window.activateWindow()
    window.header.menu.setFocus()
    opened: list[str] = []

    def close() -> None:
        menu = QApplication.activePopupWidget()
        assert menu is not None
        opened.append(type(menu).__name__)
        menu.close()

    QTimer.singleShot(0, window, close)
    qtbot.keyClick(window.header.menu, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: opened == ["QMenu"])


def test_a_menu_button_is_not_highlighted_after_the_pointer_left_by_the_menu(
    qtbot: QtBot, share_window: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, _ = share_window()
    button = window.header.menu
    menu = button.menu()
    for away, over in ((QPoint(-99, 99), False), (button.rect().center(), True)):
        monkeypatch.setattr(QCursor, "pos", lambda away=away: button.mapToGlobal(away))
        button.setAttribute(Qt.WidgetAttribute.WA_UnderMouse)  # as a mouse does that enters it
        menu.popup(QPoint(0, 0))
        menu.close()
        assert button.underMouse() == over


def test_commands_that_need_an_answer_say_so_until_there_is_one(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    names = [f"{name}Action" for name in ("regenerate", "edit", "copyAnswer", "export", "saveCharts", "shareCard")]
    actions = [window.actions_by_id[name] for name in names]
    for action in actions:
        assert not action.isEnabled()
        assert action.toolTip().startswith("There is no answer"), action.objectName()
    assert all(menu.toolTipsVisible() for menu in window.header.menu.menu().findChildren(QMenu))
    control = Qt.KeyboardModifier.ControlModifier
    for widget, key, words in (
        (window.composer.edit, Qt.Key.Key_E, "There is no answer to export yet."),
        (window.header.compare, Qt.Key.Key_R, "There is no answer yet."),
        (window.transcript, Qt.Key.Key_Period, "No answer is being generated."),
    ):
        qtbot.keyClick(widget, key, control)
        assert window.banner.isVisible() and window.banner.label.text() == words
    window.banner.hide()
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Q, control | Qt.KeyboardModifier.AltModifier)
    assert not window.banner.isVisible(), "keys of no command say nothing"
    engine.pause_after = 2
    ask(qtbot, window)
    qtbot.waitUntil(lambda: window.session.turns[0].answer.tally.rounds == 2)
    assert window.actions_by_id["shareCardAction"].isEnabled()
    assert "Stop the answer" in window.actions_by_id["regenerateAction"].toolTip()
    engine.pause_after = None
    wait_for_answer(qtbot, window)
    window.session.turns[0].answer.trace_path = "trace.jsonl"
    window.chat.changed.emit()
    for action in actions:
        assert action.isEnabled(), action.objectName()
        assert action.toolTip() == action.text().rstrip("…")
    window.new_chat()
    assert not any(action.isEnabled() for action in actions)


def test_chat_commands_are_disabled_while_the_comparison_shows(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    answered(qtbot, window)
    window.pages.open_compare()
    for name in ("regenerateAction", "copyAnswerAction", "shareCardAction"):
        assert window.actions_by_id[name].toolTip() == "Go back to the chat first (F4)."
    assert not window.actions_by_id["exportAction"].isEnabled(), "nothing has been compared"
    comparing = window.pages.comparing
    assert comparing is not None and not comparing.bar.export.isEnabled()
    qtbot.keyClick(comparing.bar.export, Qt.Key.Key_R, Qt.KeyboardModifier.ControlModifier)
    assert comparing.banner.label.text() == "Go back to the chat first (F4)." and comparing.banner.isVisible()
    window.pages.open_conversation()
    assert window.actions_by_id["copyAnswerAction"].isEnabled()
