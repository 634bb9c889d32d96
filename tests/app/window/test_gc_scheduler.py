"""Garbage is collected between two events of the window's thread only, and thoroughly while nothing is under way."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from app.window.gc_scheduler import GcScheduler
from engine.chats import ChatSettings, ChatSummary, Conversation, StoredMessage
from engine.machine import garbage
from tests.app.driving import Open, answered


@pytest.fixture
def collector(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, real_freezing: None) -> Iterator[GcScheduler]:
    monkeypatch.setattr("app.window.gc_scheduler.IDLE_MS", 1)
    parent = QObject()
    gc.enable()
    collector = GcScheduler(parent)
    yield collector
    collector.stop()
    parent.deleteLater()
    gc.disable()  # as for every test that has an application


class Loop:
    """Garbage that only the collector removes, once nothing else refers to it."""

    died: list[threading.Thread] = []

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        self.died.append(threading.current_thread())


def garbage_here() -> weakref.ref[Loop]:
    return weakref.ref(Loop())


def test_full_collections_wait_until_no_answer_is_under_way(qtbot: QtBot, collector: GcScheduler) -> None:
    collector.update_state(busy=True, empty=False)
    assert gc.get_freeze_count() > 0, "what exists when an answer begins is set aside"
    collector.update_state(busy=False, empty=False)
    collector.update_state(busy=True, empty=False)
    left = garbage_here()
    qtbot.wait(20)
    assert left() is not None, "another answer has put it off"
    collector.update_state(busy=False, empty=False)
    qtbot.waitUntil(lambda: left() is None)


def test_garbage_is_collected_by_the_event_loop_in_its_thread(qtbot: QtBot, collector: GcScheduler) -> None:
    died = Loop.died = []

    def make() -> None:
        for _ in range(2 * gc.get_threshold()[0]):
            Loop()

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    make()
    assert not died, "nothing is collected where objects are made"
    with garbage.without_collecting():
        qtbot.wait(20)
        assert not died, "held off"
    garbage.collect()
    assert not died, "the engine leaves it to the window"
    qtbot.waitUntil(lambda: len(died) == 4 * gc.get_threshold()[0])
    assert set(died) == {threading.current_thread()}


def test_an_empty_conversation_collects_garbage_of_earlier_ones(collector: GcScheduler) -> None:
    collector.update_state(busy=False, empty=False)
    loop = Loop()
    left = weakref.ref(loop)
    collector.collect()
    del loop
    collector.collect()
    assert left() is not None, "it was set aside"
    collector.update_state(busy=False, empty=True)
    collector.collect()
    assert left() is None


def test_closing_restores_garbage_collection(qapp: object, real_freezing: None) -> None:
    gc.enable()
    parent = QObject()
    collector = GcScheduler(parent)
    collector.update_state(busy=True, empty=False)
    collector.collect()
    assert not gc.isenabled()
    collector.stop()
    assert gc.isenabled() and gc.get_freeze_count() == 0
    parent.deleteLater()


def test_a_closed_chat_is_garbage_collected_with_its_cycles(qtbot: QtBot, open_window: Open, real_freezing: None) -> None:
    window, _ = open_window()
    answered(qtbot, window)
    left = weakref.ref(window.session.turns[0].answer.text)
    gc.freeze()
    window.chat.show(
        Conversation(ChatSummary(1, "Another", 0.0, 0.0), ChatSettings(), (StoredMessage(1, None, "user", "Hi", 0.0),))
    )

    collector = window.findChild(GcScheduler)

    def gone() -> bool:
        collector.collect()  # the views beside the conversation let go of it within some milliseconds
        return left() is None

    qtbot.waitUntil(gone)
