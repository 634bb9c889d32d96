"""Full collections wait until nothing is under way, and leave no trace behind."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from app.window.gc_scheduler import NEVER, IdleCollector


@pytest.fixture
def collector(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> Iterator[IdleCollector]:
    monkeypatch.setattr("app.window.gc_scheduler.IDLE_MS", 1)
    parent = QObject()
    collector = IdleCollector(parent)
    yield collector
    collector.stop()
    parent.deleteLater()


def test_nothing_old_is_collected_while_something_is_under_way(qtbot: QtBot, collector: IdleCollector) -> None:
    usual = gc.get_threshold()
    collector.show_state(busy=True, empty=False)
    assert gc.get_threshold() == (*usual[:2], NEVER)
    assert gc.get_freeze_count() > 0
    gc.unfreeze()
    collector.show_state(busy=False, empty=False)
    assert gc.get_threshold() == usual
    qtbot.waitUntil(lambda: gc.get_freeze_count() > 0)


def test_another_answer_puts_the_collection_off_again(collector: IdleCollector) -> None:
    collector.show_state(busy=True, empty=False)
    collector.show_state(busy=False, empty=False)
    collector.show_state(busy=True, empty=False)
    assert not collector._timer.isActive()


def test_garbage_of_earlier_conversations_is_found_in_an_empty_one(collector: IdleCollector) -> None:
    class Loop:
        def __init__(self) -> None:
            self.itself = self

    collector.show_state(busy=False, empty=False)
    left = [Loop()]
    collector.collect()
    left.clear()
    collector.collect()
    assert any(isinstance(thing, Loop) for thing in _everything()), "it was set aside"
    collector.show_state(busy=False, empty=True)
    collector.collect()
    gc.unfreeze()
    assert not any(isinstance(thing, Loop) for thing in gc.get_objects())


def _everything() -> list[object]:
    gc.unfreeze()
    found = gc.get_objects()
    gc.freeze()
    return found


def test_closing_leaves_everything_as_it_was(collector: IdleCollector) -> None:
    usual = gc.get_threshold()
    collector.show_state(busy=True, empty=False)
    collector.collect()
    collector.stop()
    assert (gc.get_threshold(), gc.get_freeze_count()) == (usual, 0)
