"""Frames come as often as they may cost."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from app.look.pacer import Pacer, after_changes


class Clock(SimpleNamespace):
    """Time that passes, and time in which the window's thread computes, as a test says."""

    def __init__(self) -> None:
        super().__init__(now=100.0, computed=5.0)

    def perf_counter(self) -> float:
        return float(self.now)

    def thread_time(self) -> float:
        return float(self.computed)


@pytest.mark.usefixtures("qapp")
def test_a_dear_frame_puts_the_next_one_off(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, frames = Clock(), list[float]()
    monkeypatch.setattr("app.look.pacer.time", clock)
    parent = QObject()
    pacer = Pacer(lambda: frames.append(clock.now), 0.02, 0.03, 0.4, parent)

    def comes_after(cost: float, pause: float) -> bool:
        """Whether news come at once that come so long after a frame of this cost."""
        clock.now += 10
        pacer.touch()
        assert frames[-1] == clock.now, "after a pause it comes at once"
        before, clock.computed = clock.computed, clock.computed + cost
        pacer._painted(before)
        clock.now += pause
        pacer.touch()
        came = not pacer.waits
        pacer.stop()
        return came and frames[-1] == clock.now

    assert not comes_after(0.0001, 0.029)
    assert comes_after(0.0001, 0.031), "a cheap one waits no longer than the least"
    assert not comes_after(0.004, 0.19)
    assert comes_after(0.004, 0.21), "4 ms are 2 % of 200 ms"
    assert not comes_after(0.1, 0.39)
    assert comes_after(0.1, 0.41), "news wait no longer than the most"


def test_news_that_had_to_wait_are_shown_by_one_frame(qtbot: QtBot) -> None:
    frames = []
    parent = QObject()
    pacer = Pacer(lambda: frames.append(True), 1.0, 0.5, 0.5, parent)
    for _ in range(5):
        pacer.touch()
    assert len(frames) == 1
    assert pacer.waits
    qtbot.waitUntil(lambda: not pacer.waits)
    assert len(frames) == 2


def test_what_follows_changes_comes_once_and_after_all_of_them(qtbot: QtBot) -> None:
    acts: list[bool] = []
    parent = QObject()
    throttle = after_changes(lambda: acts.append(True), 0.02, parent)
    for times in (1, 2):
        for _ in range(5):
            throttle.touch()
        assert len(acts) == times - 1 and throttle.waits
        qtbot.waitUntil(lambda: not throttle.waits)
        assert len(acts) == times
    throttle.touch()
    throttle.stop()
    qtbot.wait(40)
    assert len(acts) == 2, "a closed window does nothing more"


@pytest.mark.usefixtures("qapp")
def test_a_frame_in_the_way_is_put_off_but_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, frames, hindered = Clock(), list[float](), True
    monkeypatch.setattr("app.look.pacer.time", clock)
    parent = QObject()
    pacer = Pacer(lambda: frames.append(clock.now), 0.02, 0.03, 0.4, parent, lambda: hindered)

    def looks_again(after: float) -> None:
        """As its timer does it, which fires once."""
        assert pacer.waits
        pacer._timer.stop()
        clock.now += after
        pacer._run()

    for many in (1, 2):
        hindered = True
        clock.now += 10
        pacer.touch()
        assert len(frames) == many - 1
        looks_again(0.01)
        assert len(frames) == many - 1, "it still is"
        looks_again(0.021)
        assert frames[many - 1 :] == [clock.now], "after 30 ms it comes all the same"
    clock.now += 10
    pacer.touch()
    hindered = False
    looks_again(0.003)
    assert frames[2:] == [clock.now], "as soon as it no longer is"
    hindered = True
    clock.now += 10
    pacer.touch()
    pacer.stop()
    clock.now += 10
    pacer.touch()
    assert pacer.waits
    assert len(frames) == 3, "how long it waited before it was stopped does not count"
