"""Helpers that use the window as a person would: ask, wait, choose."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QComboBox, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from app.look.fields import NumberField
from app.window.palette import command_entries
from app.window.tour import tour_stops
from app.window.window import Window
from engine.chats import ChatsNotSaved, ChatStore
from tests.app.fakes import FakeEngine

Measured = TypeVar("Measured")
Open = Callable[..., tuple[Window, FakeEngine]]


def ask(qtbot: QtBot, window: Window, text: str = "Tell me a story.") -> None:
    window.composer.edit.setFocus()
    qtbot.keyClicks(window.composer.edit, text)
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)


def hasten(window: Window) -> None:
    """What a scripted engine has still to say comes at once. The window is painted after each round otherwise, which is most of
    the work of a test that looks at a whole answer."""
    engine = window.chat.link._engine
    if isinstance(engine, FakeEngine):
        engine.hurry()


def wait_for_answer(qtbot: QtBot, window: Window) -> None:
    hasten(window)
    qtbot.waitUntil(lambda: bool(window.session.turns) and window.session.running is None)


def settled(qtbot: QtBot, window: Window) -> None:
    """Everything asked of the store so far is done."""
    done: list[object] = []
    window.chat.keeper.read(lambda store: True, done.append)
    qtbot.waitUntil(lambda: bool(done))


def answered(qtbot: QtBot, window: Window, text: str = "Tell me a story.") -> None:
    """Asks, and waits until the answer has ended and, if the window stores chats, is stored."""
    ask(qtbot, window, text)
    wait_for_answer(qtbot, window)
    if window.chat.keeper.stores:
        settled(qtbot, window)


def texts(window: Window) -> list[str]:
    """Everything that the window and its dialogs say to a reader, a pointer or a screen reader."""
    said = [stop.text for stop in tour_stops(window.header, window.column, window.panel, window.sidebar)]
    said += [entry.note for entry in command_entries(window.commands, window.actions_by_id)]
    for widget in (window, *window.findChildren(QWidget)):
        said += [widget.toolTip(), widget.accessibleName(), widget.accessibleDescription()]
        said += [str(widget.property(name) or "") for name in ("text", "placeholderText", "whatsThis")]
    return said


class FullDisk:
    """No new chat can be written while it is `full`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = True
        create = ChatStore.create

        def fails(store: ChatStore, *arguments: Any, **more: Any) -> int:
            if self.full:
                raise ChatsNotSaved("The disk is full.")
            return create(store, *arguments, **more)

        monkeypatch.setattr(ChatStore, "create", fails)


def status(window: Window) -> str:
    return window.status.line.text()


def choose(box: QComboBox, data: str) -> None:
    index = box.findData(data)
    box.setCurrentIndex(index)
    box.activated.emit(index)


def settle() -> None:
    """Lets layouts that follow from one another come to rest."""
    for _ in range(6):
        QApplication.processEvents()


def at_rest(qtbot: QtBot, measure: Callable[[], Measured]) -> Measured:
    """What is measured, once it is the same three times in a row: figures and layouts may follow some milliseconds later."""
    last: list[Measured] = []

    def rests() -> bool:
        last.append(measure())
        return len(last) > 2 and last[-1] == last[-2] == last[-3]

    qtbot.waitUntil(rests)
    return last[-1]


def type_in(qtbot: QtBot, field: NumberField, text: str, end: Qt.Key | None = Qt.Key.Key_Return) -> None:
    """Types like a person: the whole content is selected, then each key is seen by everything before the next one comes."""
    field.window().activateWindow()
    field.setFocus(Qt.FocusReason.MouseFocusReason)
    settle()
    focused = QApplication.focusWidget()
    assert focused is field
    qtbot.keyClick(focused, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    for letter in text:
        qtbot.keyClicks(focused, letter)
        settle()
    if end is not None:
        qtbot.keyClick(focused, end)
        settle()


def reset_options(window: Window) -> None:
    """Presses the button that resets the sampling options."""
    next(each for each in window.options.findChildren(QPushButton) if each.text() == "Reset to defaults").click()


def dragged(*paths: Path | str) -> QMimeData:
    """Returns the data of a drag: paths of files, or web addresses."""
    data = QMimeData()
    data.setUrls([QUrl(path) if "://" in str(path) else QUrl.fromLocalFile(str(path)) for path in paths])  # type: ignore[arg-type]
    return data


def drop(target: QWidget, *paths: Path | str) -> bool:
    """Drags files over a widget and lets go of them there if it takes them; returns whether it does."""
    data, copy = dragged(*paths), Qt.DropAction.CopyAction
    left, plain = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    over = QDragEnterEvent(QPoint(5, 5), copy, data, left, plain)
    over.ignore()
    QApplication.sendEvent(target, over)
    if over.isAccepted():
        QApplication.sendEvent(target, QDropEvent(QPointF(5, 5), copy, data, left, plain))
    return over.isAccepted()
