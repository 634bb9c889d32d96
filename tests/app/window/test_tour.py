"""The tour and About: shown on demand, left at any time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.window.about import About
from app.window.tour import tour_stops
from app.window.window import Window
from engine.chats import ChatStore
from engine.machine import provenance
from engine.machine.mlx_import import device_name
from tests.app.fakes import FakeEngine


def test_the_tour_points_at_one_part_after_the_other_and_can_be_left(
    qtbot: QtBot, show_window: Callable[..., Any], home: Path
) -> None:
    window: Window = show_window(FakeEngine(), store=partial(ChatStore, wait=0.2))
    tour = window.tour
    assert not tour.isVisible()
    window.actions_by_id["tourAction"].trigger()
    targets = {stop.title: stop.target for stop in tour_stops(window.header, window.column, window.panel, window.sidebar)}
    seen = []
    while tour.isVisible():
        place = targets[tour.title.text()]()
        assert place is not None
        area = QRect(place.mapTo(window, QPoint(0, 0)), place.size())
        assert tour.outline.geometry().contains(area.center())
        assert window.rect().contains(tour.geometry()), "the card stays in the window"
        seen.append(tour.title.text())
        assert tour.legend.isVisible() == (tour.title.text() == "The lens")
        tour.forward.click()
    assert seen == ["Ask something", "The lens", "Rules", "Rounds and charts", "Your chats", "Everything else"]
    assert not tour.outline.isVisible()
    window.show_tour()
    tour.forward.click()
    tour.back.click()
    assert tour.title.text() == "Ask something"
    frame = window.composer.frame
    window.resize(700, 560)  # without panel and list
    qtbot.waitUntil(lambda: window.rect().contains(tour.geometry()))
    qtbot.waitUntil(lambda: tour.outline.geometry().contains(QRect(frame.mapTo(window, QPoint(0, 0)), frame.size())))
    for _ in range(3):
        tour.forward.click()
    assert tour.title.text() == "Rounds and charts" and tour.isVisible()
    assert not tour.outline.isVisible(), "nothing is framed in place of what has gone"
    window.escape()
    assert not tour.isVisible()
    window.show_tour()
    assert tour.position.text() == "1 of 4", "panel and list are not shown, so they are left out"
    qtbot.keyClick(tour.skip, Qt.Key.Key_Space)
    assert not tour.isVisible()

    window.show_tour()
    for letter in "Hi you":
        focused = window.focusWidget()
        assert focused is not None
        qtbot.keyClicks(focused, letter)
    assert window.composer.text == "Hi you", "who begins to write has left the tour"
    assert not tour.isVisible()

    window.actions_by_id["aboutAction"].trigger()
    (about,) = window.findChildren(About)
    about.copy_button.click()
    copied = QApplication.clipboard().text()
    assert f"draftlight {provenance.version()}" in copied and "PySide6 " in copied
    assert str(home) in about.versions.text()
    assert f"MLX computes on {device_name()}" in about.versions.text()
    about.reject()
