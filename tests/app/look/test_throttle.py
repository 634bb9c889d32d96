"""Frames come as often as they may cost."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.look.throttle import Throttle, trailing_throttle


class Clock(SimpleNamespace):
    """Time that passes, and time in which the window's thread computes, as a test says."""

    def __init__(self) -> None:
        super().__init__(now=100.0, computed=5.0)

    def perf_counter(self) -> float:
        return float(self.now)

    def thread_time(self) -> float:
        return float(self.computed)


@pytest.fixture
def clock(qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of every throttle, whose own timers fire with the next events."""
    made = Clock()
    monkeypatch.setattr("app.look.throttle.time", made)
    for delay in ("PAINTED_MS", "DEFERRAL_CHECK_MS"):
        monkeypatch.setattr(f"app.look.throttle.{delay}", 0)
    return made


def test_a_slow_frame_delays_the_next_one(clock: Clock) -> None:
    frames: list[float] = []
    parent = QObject()
    throttle = Throttle(lambda: frames.append(clock.now), 0.02, 0.03, 0.4, parent)

    def comes_after(cost: float, interval: float) -> bool:
        """Whether news come at once that come so long after a frame of this cost."""
        clock.now += 10
        throttle.touch()
        assert frames[-1] == clock.now, "after a pause it comes at once"
        clock.computed += cost
        QApplication.processEvents()  # it is painted
        clock.now += interval
        throttle.touch()
        ran_at_once = not throttle.is_scheduled
        throttle.stop()
        return ran_at_once and frames[-1] == clock.now

    assert not comes_after(0.0001, 0.029)
    assert comes_after(0.0001, 0.031), "a cheap one waits no longer than the least"
    assert not comes_after(0.004, 0.19)
    assert comes_after(0.004, 0.21), "4 ms are 2 % of 200 ms"
    assert not comes_after(0.1, 0.39)
    assert comes_after(0.1, 0.41), "news wait no longer than the most"


def test_delayed_changes_are_shown_by_one_frame(qtbot: QtBot) -> None:
    frames = []
    parent = QObject()
    throttle = Throttle(lambda: frames.append(True), 1.0, 0.1, 0.1, parent)
    for _ in range(5):
        throttle.touch()
    assert len(frames) == 1
    assert throttle.is_scheduled
    qtbot.waitUntil(lambda: not throttle.is_scheduled)
    assert len(frames) == 2


def test_a_trailing_throttle_acts_once_after_several_changes(qtbot: QtBot) -> None:
    acts: list[bool] = []
    parent = QObject()
    throttle = trailing_throttle(lambda: acts.append(True), 0.02, parent)
    for times in (1, 2):
        for _ in range(5):
            throttle.touch()
        assert len(acts) == times - 1 and throttle.is_scheduled
        qtbot.waitUntil(lambda: not throttle.is_scheduled)
        assert len(acts) == times
    throttle.touch()
    throttle.stop()
    assert not throttle.is_scheduled, "a closed window does nothing more"


def test_a_frame_is_deferred_but_not_for_long(clock: Clock) -> None:
    frames, hindered = list[float](), True
    parent = QObject()
    throttle = Throttle(lambda: frames.append(clock.now), 0.02, 0.03, 0.4, parent, lambda: hindered)

    def checks_again(after: float) -> None:
        assert throttle.is_scheduled
        clock.now += after
        QApplication.processEvents()

    for many in (1, 2):
        hindered = True
        clock.now += 10
        throttle.touch()
        assert len(frames) == many - 1
        checks_again(0.01)
        assert len(frames) == many - 1, "it still is"
        checks_again(0.021)
        assert frames[many - 1 :] == [clock.now], "after 30 ms it comes all the same"
    clock.now += 10
    throttle.touch()
    hindered = False
    checks_again(0.003)
    assert frames[2:] == [clock.now], "as soon as it no longer is"
    hindered = True
    clock.now += 10
    throttle.touch()
    throttle.stop()
    clock.now += 10
    throttle.touch()
    assert throttle.is_scheduled
    assert len(frames) == 3, "how long it waited before it was stopped does not count"
