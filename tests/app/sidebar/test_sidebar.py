"""The list of chats: what it shows, and everything it can do, by key."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QEvent, QPoint, QRect, Qt
from PySide6.QtGui import QAction, QDrag, QImage, QKeyEvent, QKeySequence, QPainter
from PySide6.QtWidgets import QApplication, QInputDialog, QLineEdit, QMenu, QStyleOptionViewItem
from pytestqt.qtbot import QtBot

from app.sidebar.deleted_dialog import DeletedDialog
from app.sidebar.model import day_and_time
from app.sidebar.traces_dialog import TracesDialog
from app.window.window import Window
from engine.chats import ChatSettings, ChatStore, Making, Retention
from tests.app.driving import settled, wait_for_answer
from tests.app.fakes import FakeEngine

TITLES = ("Lighthouses", "Dinner", "Regular expressions")


@pytest.fixture
def window(show_window: Callable[..., Any], home: Path, qtbot: QtBot) -> Window:
    with ChatStore(home) as store:
        for title in TITLES:
            chat = store.create(ChatSettings())
            prompt = store.add_message(chat, None, "user", title)
            store.add_message(chat, prompt, "assistant", f"All about {title.lower()}, and a café.")
    shown: Window = show_window(FakeEngine(), store=partial(ChatStore, wait=0.2), size=(1280, 800))
    shown.sidebar.start()
    qtbot.waitUntil(lambda: shown.sidebar.model.chat_count == len(TITLES))
    return shown


def titles(window: Window) -> list[str]:
    model = window.sidebar.model
    return [str(model.index(row).data()) for row in range(model.rowCount())]


def go_to(window: Window, title: str) -> None:
    window.sidebar.list.setCurrentIndex(window.sidebar.model.index(titles(window).index(title)))
    window.sidebar.list.setFocus()


def test_chats_are_grouped_by_day_newest_first(window: Window) -> None:
    assert titles(window) == ["Today", "Regular expressions", "Dinner", "Lighthouses"]


def test_enter_opens_a_chat_and_the_list_marks_it(qtbot: QtBot, window: Window) -> None:
    go_to(window, "Dinner")
    qtbot.keyClick(window.sidebar.list, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: bool(window.session.turns))
    assert window.session.newest_prompt == "Dinner"
    assert window.sidebar.list.delegate.current == window.chat.stored_chat.number == window.settings.conversation


def test_a_click_on_a_chat_focuses_the_message_field(qtbot: QtBot, window: Window) -> None:
    sidebar = window.sidebar.list
    where = sidebar.visualRect(window.sidebar.model.index(titles(window).index("Dinner"))).center()
    qtbot.mouseClick(sidebar.viewport(), Qt.MouseButton.LeftButton, pos=where)
    qtbot.waitUntil(lambda: window.session.newest_prompt == "Dinner")
    assert window.focusWidget() is window.composer.edit, "in the list P would pin the chat, and Backspace delete it"
    window.actions_by_id["transcriptAction"].trigger()
    qtbot.keyClick(window.transcript, Qt.Key.Key_Space)
    qtbot.keyClick(window.transcript, Qt.Key.Key_P, Qt.KeyboardModifier.ControlModifier)
    assert window.composer.text == "" and window.focusWidget() is window.transcript
    qtbot.keyClicks(window.transcript, "P")
    assert window.composer.text == "P" and window.focusWidget() is window.composer.edit


def open_menu(window: Window) -> QMenu:
    """The menu of the chat or folder with the keyboard."""
    window.sidebar.list.menu_requested.emit(QPoint())
    return window.sidebar.findChildren(QMenu, options=Qt.FindChildOption.FindDirectChildrenOnly)[-1]


@pytest.mark.parametrize("row", ["Dinner", "Recipes"])
def test_the_keys_shown_in_the_list_menu_run_its_entries(
    row: str, qtbot: QtBot, window: Window, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compared by what arrives: each entry is triggered, then its key is pressed."""
    sidebar = window.sidebar
    with ChatStore(home) as store:
        store.move(next(about.id for about in store.conversations() if about.title == "Lighthouses"), "Recipes")
    sidebar.reload()
    qtbot.waitUntil(lambda: "Recipes" in titles(window))
    done: list[str] = []
    for signal in ("chosen", "deleted", "folder_chosen", "folder_deleted", "pinned"):
        getattr(sidebar.list, signal).disconnect()
    for target, name in (
        *((sidebar, name) for name in ("show_folder", "_remove_folder", "_toggle_pin")),
        (sidebar.list, "rename"),
    ):
        monkeypatch.setattr(target, name, lambda *_, name=name: done.append(name))
    for signal, same in (
        ("chosen", "chosen"),
        ("deleted", "deleted"),
        ("folder_chosen", "show_folder"),
        ("folder_deleted", "_remove_folder"),
        ("pinned", "_toggle_pin"),
    ):
        getattr(sidebar.list, signal).connect(lambda *_, same=same: done.append(same))
    for signal in ("chosen", "deleted"):
        getattr(sidebar, signal).disconnect()
        getattr(sidebar, signal).connect(lambda *_, signal=signal: done.append(signal))
    go_to(window, row)
    menu = open_menu(window)
    shown = [(action, action.text().partition("\t")[2]) for action in menu.actions()]
    assert sum(bool(keys) for _, keys in shown) == (4 if row == "Dinner" else 3)
    for action, keys in shown:
        if keys:
            done.clear()
            action.trigger()
            assert len(done) == 1, action.text()
            pressed: Any = QKeySequence(keys.replace("Enter", "Return"))[0]
            qtbot.keyClick(sidebar.list, pressed.key(), pressed.keyboardModifiers())
            assert done == done[:1] * 2, action.text()
    menu.close()


def test_f2_elsewhere_renames_the_shown_chat(qtbot: QtBot, window: Window) -> None:
    window.composer.edit.setFocus()
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_F2)
    assert "first message" in window.banner.label.text()
    go_to(window, "Dinner")
    qtbot.keyClick(window.sidebar.list, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: bool(window.session.turns))
    window.chat.preferences.set(sidebar=False)
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_F2)
    qtbot.waitUntil(lambda: window.sidebar.findChild(QInputDialog) is not None)
    question = window.sidebar.findChild(QInputDialog)
    assert isinstance(question, QInputDialog) and question.textValue() == "Dinner"
    question.setTextValue("Supper")
    question.accept()
    window.chat.preferences.set(sidebar=True)
    qtbot.waitUntil(lambda: "Supper" in titles(window))
    assert window.ghosts == "above", "the ghosts have a key of their own"


def test_f2_in_the_list_renames_the_focused_chat_in_place(qtbot: QtBot, window: Window, home: Path) -> None:
    go_to(window, "Dinner")
    override = QKeyEvent(QEvent.Type.ShortcutOverride, Qt.Key.Key_F2, Qt.KeyboardModifier.NoModifier)
    override.ignore()
    QApplication.sendEvent(window.sidebar.list, override)
    assert override.isAccepted()
    qtbot.keyClick(window.sidebar.list, Qt.Key.Key_F2)
    editor = window.sidebar.list.findChild(QLineEdit, "chatTitle")
    assert isinstance(editor, QLineEdit)
    assert editor.text() == "Dinner"
    editor.setText("Supper")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: "Supper" in titles(window))
    with ChatStore(home) as store:
        assert "Supper" in [about.title for about in store.conversations()]


def test_p_pins_and_unpins(qtbot: QtBot, window: Window) -> None:
    go_to(window, "Lighthouses")
    qtbot.keyClick(window.sidebar.list, Qt.Key.Key_P)
    qtbot.waitUntil(lambda: titles(window)[:2] == ["Pinned", "Lighthouses"])
    assert window.sidebar.list.currentIndex().data() == "Lighthouses", "the keyboard stays on its chat"
    qtbot.keyClick(window.sidebar.list, Qt.Key.Key_P)
    qtbot.waitUntil(lambda: titles(window)[0] == "Today")


def test_deleting_the_shown_chat_can_be_undone(qtbot: QtBot, window: Window) -> None:
    go_to(window, "Dinner")
    qtbot.keyClick(window.sidebar.list, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: bool(window.session.turns))
    window.sidebar.list.setFocus()
    qtbot.keyClick(window.sidebar.list, Qt.Key.Key_Delete)
    qtbot.waitUntil(lambda: "Dinner" not in titles(window))
    assert window.session.turns == []
    assert "deleted" in window.banner.label.text()
    window.banner.action.click()
    qtbot.waitUntil(lambda: "Dinner" in titles(window) and bool(window.session.turns))


def test_chats_deleted_at_any_time_are_listed_and_restored_by_key(qtbot: QtBot, window: Window, home: Path) -> None:
    with ChatStore(home, clock=lambda: 1_760_000_000.0) as store:
        for about in store.conversations():
            store.delete(about.id)
    window.sidebar.reload()
    qtbot.waitUntil(lambda: not titles(window))
    window.actions_by_id["deletedAction"].trigger()
    qtbot.waitUntil(lambda: len(window.findChildren(DeletedDialog)) == 1)
    (dialog,) = window.findChildren(DeletedDialog)
    table = dialog.table
    qtbot.waitUntil(table.hasFocus)
    cells = [[cell.text() for column in (0, 1) if (cell := table.item(row, column))] for row in range(table.rowCount())]
    assert {title for title, _ in cells} == set(TITLES)
    assert {deleted for _, deleted in cells} == {day_and_time(1_760_000_000.0)}
    first, second, third = (title for title, _ in cells)
    table.clearSelection()
    table.doubleClicked.emit(table.model().index(0, 0))
    assert table.rowCount() == 3, "nothing is selected"
    table.selectRow(0)
    qtbot.keyClick(table, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: first in titles(window))
    assert second not in titles(window), "those that were not chosen stay deleted"
    qtbot.keyClick(table, Qt.Key.Key_Tab)
    assert not table.hasFocus()
    table.setFocus()
    table.selectAll()
    dialog.restore.click()
    qtbot.waitUntil(lambda: {second, third} <= {*titles(window)})
    qtbot.waitUntil(lambda: not window.findChildren(DeletedDialog))
    assert "2 chats" in window.banner.label.text()
    window.banner.action.click()
    qtbot.waitUntil(lambda: window.session.newest_prompt in (second, third))
    with ChatStore(home) as store:
        assert not store.conversations(deleted=True)


def test_deleted_chats_open_from_the_menu_or_report_that_there_are_none(qtbot: QtBot, window: Window) -> None:
    choose(window, "Dinner", "Deleted chats…")
    qtbot.waitUntil(lambda: "no deleted chats" in window.banner.label.text())


def test_a_copy_is_independent(qtbot: QtBot, window: Window) -> None:
    go_to(window, "Dinner")
    number = window.sidebar.list.number()
    assert number is not None
    window.sidebar.duplicated.emit(number)
    qtbot.waitUntil(lambda: "Dinner (copy)" in titles(window) and bool(window.session.turns))
    assert window.chat.stored_chat.number != number


def test_search_finds_words_of_messages_and_opens_the_message(qtbot: QtBot, window: Window) -> None:
    window.sides.search_chats()
    qtbot.keyClicks(window.sidebar.search, "cafe light")
    qtbot.waitUntil(lambda: titles(window) == ["Lighthouses"])
    row = window.sidebar.model.at(window.sidebar.model.index(0))
    assert row is not None
    assert [row.excerpt[start:end].lower() for start, end in row.marks] == ["light", "café"]
    qtbot.keyClick(window.sidebar.search, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: bool(window.session.turns))
    assert window.session.newest_prompt == "Lighthouses"


def test_a_search_without_matches_is_explained_and_cleared_by_escape(qtbot: QtBot, window: Window) -> None:
    window.sides.search_chats()
    qtbot.keyClicks(window.sidebar.search, "nowhere")
    qtbot.waitUntil(window.sidebar.empty.isVisible)
    assert "“nowhere”" in window.sidebar.empty.text()
    qtbot.keyClick(window.sidebar.search, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: window.sidebar.model.chat_count == len(TITLES))


def choose(window: Window, title: str, entry: str) -> bool:
    """Chooses an entry, also of a submenu, in the menu of a row; returns whether it is checked now."""
    go_to(window, title)
    menu = open_menu(window)
    actions = [each for action in menu.actions() for each in (action, *_below(action))]
    action = next(each for each in actions if each.text().partition("\t")[0] == entry)
    action.trigger()
    checked = action.isChecked()
    menu.close()
    return checked


def _below(action: QAction) -> list[QAction]:
    menu = action.menu()
    return menu.actions() if isinstance(menu, QMenu) else []


def test_chats_go_into_folders_by_menu_and_drag_and_a_folder_lists_its_own(
    qtbot: QtBot, window: Window, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sidebar = window.sidebar
    choose(window, "Dinner", "New folder…")
    (question,) = sidebar.findChildren(QInputDialog)
    question.setTextValue("Food & drink")
    question.accept()
    qtbot.waitUntil(lambda: titles(window)[:2] == ["Folders", "Food & drink"])
    assert not choose(window, "Dinner", "Food && drink"), "it was checked, for the chat is in it"

    number = next(at for at in range(6) if (row := sidebar.model.at(sidebar.model.index(at))) and row.title == "Lighthouses")
    hung: list[QPoint] = []
    monkeypatch.setattr(QDrag, "exec", lambda drag, *_: hung.append(drag.hotSpot()))
    sidebar.list.setCurrentIndex(sidebar.model.index(number))
    sidebar.list.startDrag(Qt.DropAction.MoveAction)
    assert hung[0].y() < 0, "below the pointer, and not over what it points at"
    data = sidebar.model.mimeData([sidebar.model.index(number)])
    folder = sidebar.model.index(1)
    move = Qt.DropAction.MoveAction
    assert not sidebar.model.canDropMimeData(data, move, -1, -1, sidebar.model.index(3)), "a chat is no folder"
    assert sidebar.model.canDropMimeData(data, move, -1, -1, folder)
    sidebar.model.dropMimeData(data, move, -1, -1, folder)
    qtbot.waitUntil(lambda: (row := sidebar.model.at(sidebar.model.index(1))) is not None and row.chat_count == 2)

    go_to(window, "Food & drink")
    qtbot.keyClick(sidebar.list, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: titles(window)[0] == "All chats")
    assert sorted(titles(window)[2:]) == ["Dinner", "Lighthouses"]
    window.new_chat()
    window.send("Breakfast")
    qtbot.waitUntil(lambda: "Breakfast" in titles(window))
    wait_for_answer(qtbot, window)
    go_to(window, "All chats")
    qtbot.keyClick(sidebar.list, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: "Regular expressions" in titles(window))

    go_to(window, "Food & drink")
    qtbot.keyClick(sidebar.list, Qt.Key.Key_F2)
    editor = sidebar.list.findChild(QLineEdit, "chatTitle")
    assert isinstance(editor, QLineEdit)
    editor.setText("Kitchen")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: "Kitchen" in titles(window))
    with ChatStore(home) as store:
        assert {about.title for about in store.conversations(folder="Kitchen")} == {"Breakfast", "Dinner", "Lighthouses"}

    go_to(window, "Kitchen")
    qtbot.keyClick(sidebar.list, Qt.Key.Key_Delete)
    qtbot.waitUntil(lambda: "Kitchen" not in titles(window))
    assert {"Breakfast", "Dinner", "Lighthouses"} <= {*titles(window)}, "its chats stay"
    window.banner.action.click()
    qtbot.waitUntil(lambda: "Kitchen" in titles(window))


def test_the_traces_of_a_comparison_count_as_soon_as_the_chat_is_shown_again(qtbot: QtBot, window: Window, home: Path) -> None:
    window.sidebar.reload()
    qtbot.waitUntil(lambda: window.sidebar.traces.text().endswith("kB"))
    window.pages.open_compare()
    with ChatStore(home) as store:
        store.traces.new_path().write_bytes(b"x" * 3_000_000)
    window.pages.toggle()
    qtbot.waitUntil(lambda: window.sidebar.traces.text() == "Traces: 3.0 MB")


def test_the_traces_dialog_shows_sizes_and_sets_the_retention(qtbot: QtBot, window: Window, home: Path) -> None:
    with ChatStore(home) as store:
        about = store.conversations()[0]
        path = store.traces.new_path()
        path.write_bytes(b"x" * 2_000_000)
        begun = store.begin_answer(about.id, store.open(about.id).messages[-1].id, Making(), trace_path=str(path))
        store.finish_answer(begun.message, "complete", "Long.", trace_path=str(path))
    window.sidebar.reload()
    qtbot.waitUntil(lambda: window.sidebar.traces.text() == "Traces: 2.0 MB")
    window.chats.restore()
    qtbot.waitUntil(lambda: "kB" in window.sidebar.traces.text())  # compressed, as at each start
    with ChatStore(home, clock=lambda: time.time() - 40 * 86_400) as store:
        path = store.traces.new_path()
        path.write_bytes(b"x" * 2_000_000)
        begun = store.begin_answer(about.id, begun.message, Making(), trace_path=str(path))
        store.finish_answer(begun.message, "complete", "Long.", trace_path=str(path))
        other = store.traces.new_path()  # no chat refers to it
        other.write_bytes(b"x" * 3_000_000)
    os.utime(other, (time.time() - 40 * 86_400,) * 2)
    window.sidebar.reload()
    qtbot.waitUntil(lambda: window.sidebar.traces.text() == "Traces: 5.0 MB")
    window.sidebar.traces.click()
    (dialog,) = window.findChildren(TracesDialog)
    qtbot.waitUntil(lambda: dialog.table.rowCount() == 2)
    cells = [dialog.table.item(row, column) for row in (0, 1) for column in (0, 1)]
    assert [cell.text() for cell in cells if cell is not None] == ["Comparisons and other runs", "3.0 MB", about.title, "2.0 MB"]
    assert dialog.total.text() == "5.0 MB in all, kept forever"
    dialog.days.setValue(30)
    assert dialog.retention == Retention(days=30), "a number that is changed is chosen"
    dialog.by_size.setChecked(True)
    dialog.megabytes.setValue(10)
    assert dialog.retention == Retention(bytes=10_000_000)
    dialog.by_days.setChecked(True)
    dialog.accept()
    for gone in (path, other):  # at once: the user has just said so
        qtbot.waitUntil(lambda gone=gone: not [*gone.parent.glob(f"{gone.name}*")])  # type: ignore[misc]
    qtbot.waitUntil(lambda: "kB" in window.sidebar.traces.text())
    with ChatStore(home) as store:
        assert store.traces.retention == Retention(days=30)


@pytest.mark.parametrize("kept", [Retention(10**10), Retention(bytes=10**17), Retention(0.4, 10**8)])
def test_a_retention_that_the_controls_cannot_show_stays_until_they_are_touched(
    qtbot: QtBot, window: Window, home: Path, kept: Retention
) -> None:
    with ChatStore(home) as store:
        store.traces.retention = kept
    window.chats.show_traces()
    (dialog,) = window.findChildren(TracesDialog)
    qtbot.waitUntil(lambda: dialog.retention == kept)
    dialog.reject()


def test_traces_may_be_closed_before_their_sizes_are_read(qtbot: QtBot, window: Window) -> None:
    window.chats.show_traces()
    (dialog,) = window.findChildren(TracesDialog)
    dialog.reject()
    QApplication.sendPostedEvents(dialog, QEvent.Type.DeferredDelete)
    assert not window.findChildren(TracesDialog)
    read: list[int] = []
    window.chat.keeper.read(lambda store: store.changes(), read.append)
    qtbot.waitUntil(lambda: bool(read))


def test_changes_of_another_process_are_shown(qtbot: QtBot, window: Window, home: Path) -> None:
    window.sidebar.check_external_changes()
    settled(qtbot, window)
    with ChatStore(home) as other:
        other.add_message(other.create(ChatSettings()), None, "user", "From elsewhere")
    window.sidebar.check_external_changes()
    qtbot.waitUntil(lambda: "From elsewhere" in titles(window))


def test_the_list_hides_itself_in_a_narrow_window_and_is_remembered(qtbot: QtBot, window: Window) -> None:
    assert window.sidebar.isVisible()
    window.resize(1100, 800)
    assert not window.sidebar.isVisible()
    window.sides.toggle_panel()
    assert window.sidebar.isVisible(), "there is room beside the conversation alone"
    window.sides.toggle_chats()
    assert not window.sidebar.isVisible()
    assert not window.settings.sidebar


@pytest.fixture
def narrow(window: Window) -> Window:
    """A window that has no room for list, conversation and panel side by side."""
    window.resize(1024, 700)
    assert not window.sidebar.isVisible() and window.panel.isVisible()
    return window


@pytest.mark.parametrize("by", ["button", "key", "search", "menu"])
def test_in_a_narrow_window_the_list_opens_over_the_conversation(by: str, qtbot: QtBot, narrow: Window) -> None:
    before = narrow.sides.splitter.geometry()
    if by == "button":
        narrow.header.sidebar.click()
    elif by == "menu":
        narrow.actions_by_id["sidebarAction"].trigger()
    else:
        modifiers = Qt.KeyboardModifier.ControlModifier
        if by == "search":
            modifiers |= Qt.KeyboardModifier.ShiftModifier
        qtbot.keyClick(narrow.composer.edit, Qt.Key.Key_B if by == "key" else Qt.Key.Key_F, modifiers)
    assert narrow.sidebar.isVisible() and narrow.sides.drawer.is_open and narrow.settings.sidebar
    assert QApplication.focusWidget() is (narrow.sidebar.search if by == "search" else narrow.sidebar.list)
    assert narrow.header.sidebar.isChecked() and narrow.actions_by_id["sidebarAction"].isChecked()
    assert narrow.sides.splitter.geometry() == before, "nothing makes room for it"
    top = narrow.sidebar.mapTo(narrow, narrow.sidebar.rect().center())
    assert narrow.sidebar.isAncestorOf(narrow.childAt(top)), "it is in front"
    assert narrow.sidebar.height() == narrow.sides.splitter.height()
    qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Escape)
    assert not narrow.sidebar.isVisible() and not narrow.header.sidebar.isChecked()
    assert QApplication.focusWidget() is narrow.composer.edit
    assert narrow.settings.sidebar, "Escape closes it until it is opened again, in this window alone"


def test_the_list_over_the_conversation_closes(qtbot: QtBot, narrow: Window) -> None:
    list_, left, control = narrow.sidebar.list, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.ControlModifier

    def choose_by_mouse() -> None:
        where = list_.visualRect(narrow.sidebar.model.index(titles(narrow).index("Dinner"))).center()
        qtbot.mouseClick(list_.viewport(), left, pos=where)

    def choose_by_key() -> None:
        go_to(narrow, "Dinner")
        qtbot.keyClick(list_, Qt.Key.Key_Return)

    for way, close in {
        "click": lambda: qtbot.mouseClick(narrow.panel, left, pos=QPoint(5, 5)),
        "button": lambda: qtbot.mouseClick(narrow.header.sidebar, left),
        "key": lambda: qtbot.keyClick(list_, Qt.Key.Key_B, control),
        "focus": lambda: qtbot.keyClick(list_, Qt.Key.Key_L, control),
        "chat": choose_by_mouse,
        "new": lambda: qtbot.mouseClick(narrow.sidebar.new, left),
        "enter": choose_by_key,
    }.items():
        narrow.resize(1024, 700)
        narrow.sides.toggle_chats()
        assert narrow.sidebar.isVisible(), way
        close()
        assert not narrow.sidebar.isVisible() and not narrow.sides.drawer.is_open, way
        assert QApplication.focusWidget() is narrow.composer.edit or way in ("click", "button"), way
        if way in ("chat", "enter"):
            qtbot.waitUntil(lambda: narrow.session.newest_prompt == "Dinner")
        narrow.resize(1400, 800)
        assert narrow.sidebar.isVisible(), way
        assert narrow.sidebar.geometry().right() < narrow.sides.splitter.geometry().left(), way


def test_the_list_over_the_conversation_stays_for_its_own_menus_and_a_wider_window(qtbot: QtBot, narrow: Window) -> None:
    narrow.sides.toggle_chats()
    go_to(narrow, "Dinner")
    qtbot.mouseClick(narrow.sidebar.list.viewport(), Qt.MouseButton.RightButton, pos=QPoint(30, 60))
    narrow.sidebar.list.rename()
    assert narrow.sides.drawer.is_open
    editor = narrow.sidebar.list.findChild(QLineEdit, "chatTitle")
    assert isinstance(editor, QLineEdit)
    qtbot.keyClick(editor, Qt.Key.Key_Escape)
    assert narrow.sides.drawer.is_open, "Escape ends the editing of the title first"
    narrow.resize(1024, 640)
    assert narrow.sidebar.height() == narrow.sides.splitter.height()
    narrow.resize(1400, 800)
    assert not narrow.sides.drawer.is_open and narrow.sidebar.isVisible()
    assert narrow.sides.splitter.geometry().left() == narrow.sidebar.width()


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_every_row_is_painted(qtbot: QtBot, window: Window, theme: Any) -> None:
    window.chat.preferences.set(appearance=theme)
    area = window.sidebar.list.grab().toImage()
    for row in range(window.sidebar.model.rowCount()):
        where = window.sidebar.list.visualRect(window.sidebar.model.index(row))
        part: QImage = area.copy(where)
        colours = {part.pixel(x, part.height() // 2 + 2) for x in range(part.width())}
        assert len(colours) > 3, f"row {row} has no words"


def test_the_pin_is_as_sharp_as_the_screen(qtbot: QtBot, window: Window) -> None:
    go_to(window, "Dinner")
    qtbot.keyClick(window.sidebar.list, Qt.Key.Key_P)
    qtbot.waitUntil(lambda: titles(window)[0] == "Pinned")
    picture = QImage(400, 64, QImage.Format.Format_RGB32)
    picture.setDevicePixelRatio(2)
    picture.fill(Qt.GlobalColor.black)
    option = QStyleOptionViewItem()
    option.rect = QRect(0, 0, 200, 32)
    painter = QPainter(picture)
    window.sidebar.list.delegate.paint(painter, option, window.sidebar.model.index(1))
    painter.end()
    of_the_pin = [(x, y) for x in range(340, 376, 2) for y in range(0, 64, 2)]
    points = [{picture.pixel(x + across, y + down) for across in (0, 1) for down in (0, 1)} for x, y in of_the_pin]
    assert any(len(pixels) > 1 for pixels in points), "each point has four pixels, and not all are alike"
