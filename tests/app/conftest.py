"""Fixtures and guards of the window's tests: no Qt object outlives its test, and no wait depends on the load of the machine.

There is one application per process, so only `qapp` makes it: a test that lets the command line make its own runs that in a
process of its own.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from tests.engine.fakes import PATIENCE


@pytest.fixture
def qtbot(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> QtBot:
    """Waits as long as all tests do. pytest-qt gives up after one or five seconds, which a busy machine may take."""
    for wait in ("waitActive", "waitExposed", "waitUntil"):
        monkeypatch.setattr(qtbot, wait, partial(getattr(qtbot, wait), timeout=round(1000 * PATIENCE)))
    return qtbot


@pytest.fixture
def fonts(qapp: Any) -> None:
    """For claims about what fits: any font will do, but Qt's own boxes, which it draws where there is none, are twice as wide."""
    from PySide6.QtGui import QFont, QFontInfo

    if not QFontInfo(QFont()).family():
        pytest.skip("needs a font (apt-get install fonts-dejavu-core)")


@pytest.fixture
def show_window(qtbot: QtBot, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Shows a window on a scripted engine, which speaks faster than real ones, and waits for its model; closes it in the end.

    Takes the engine, perhaps the path of the settings file and a note, the size, what opens the store of chats, and settings by
    name.
    """
    monkeypatch.setattr("app.session.engine_link.BUSY_MS", 5)
    from app.session.settings import Settings
    from app.window.window import Window
    from tests.app.shared_window import USUAL

    windows: list[Window] = []

    def show(
        engine: Any,
        path: Path | None = None,
        note: str = "",
        *,
        size: tuple[int, int] = (1440, 900),
        store: Any = None,
        **settings: Any,
    ) -> Window:
        window = Window(engine, Settings(**{**USUAL, **settings}), path, note, store)
        qtbot.addWidget(window)
        windows.append(window)
        window.resize(*size)
        window.show()
        qtbot.waitExposed(window)
        window.chat.models.load()
        qtbot.waitUntil(lambda: window.session.model is not None)
        return window

    yield show
    for window in windows:
        window.close()


@pytest.fixture
def open_window(show_window: Callable[..., Any]) -> Callable[..., Any]:
    """Opens windows on scripted engines that answer in these rounds; returns each with its engine."""
    from tests.app.fakes import FakeEngine

    def opened(rounds: Any = None, path: Path | None = None, note: str = "", **settings: Any) -> Any:
        engine = FakeEngine(rounds)
        return show_window(engine, path, note, **settings), engine

    return opened


@pytest.fixture(scope="module")
def window_of_module(qapp: Any) -> Iterator[Any]:
    """See `tests.app.shared_window`."""
    from tests.app.shared_window import SharedWindow

    gc.disable()  # as for every test that has an application
    shared = SharedWindow()
    yield shared
    shared.window.close()
    shared.window.deleteLater()


@pytest.fixture
def share_window(qtbot: QtBot, window_of_module: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Opens the window that all tests of a module share, otherwise as `open_window`. A test calls it once."""
    monkeypatch.setattr("app.session.engine_link.BUSY_MS", 5)
    yield partial(window_of_module.open, qtbot)
    window_of_module.leave(qtbot)


@pytest.fixture(autouse=True)
def nothing_of_qt_left(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fails a test that leaves a running QThread or QTimer, a busy thread pool or an open window, and says where it began.

    pytest-qt closes the widgets given to `qtbot.addWidget` before fixtures are torn down, so whatever is found here
    would have stayed.
    """
    from PySide6.QtCore import QCoreApplication, QEvent, QThread, QThreadPool, QTimer

    if "qapp" not in request.fixturenames:
        there = QCoreApplication.instance()
        yield
        assert QCoreApplication.instance() is there, "makes a Qt application, which every later test would get: ask for qapp"
        return
    request.getfixturevalue("qapp")
    from PySide6.QtGui import QCursor
    from PySide6.QtWidgets import QApplication
    from shiboken6 import isValid

    timers = _record_starts(monkeypatch, QTimer)
    threads = _record_starts(monkeypatch, QThread)
    before, font = [*QApplication.topLevelWidgets()], QApplication.font()

    yield

    def settle() -> None:
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        QCoreApplication.processEvents()

    def is_shared(qt_object: Any) -> bool:
        """Whether it belongs to a window that was there before the test, and that others share."""
        while (parent := qt_object.parent()) is not None:
            qt_object = parent
        return qt_object in before

    def left_over() -> list[Any]:
        found = [widget for widget in QApplication.topLevelWidgets() if isValid(widget) and not is_shared(widget)]
        return [widget for widget in found if widget.isVisible()] if "window_of_module" in request.fixturenames else found

    def alive(started: list[tuple[Callable[[], Any], str]]) -> Iterator[tuple[Any, str]]:
        for reference, where in started:
            qt_object = reference()
            if qt_object is not None and isValid(qt_object) and not is_shared(qt_object):
                yield qt_object, where

    settle()
    if left_over():
        gc.collect()  # a window in a reference cycle is garbage, not a leak
        settle()

    QCursor.setPos(0, 0)  # a window that opens under the pointer is hovered from the start
    QApplication.setFont(font)  # a window sets it for its text size, and widgets made without a window take it over

    problems = [f"QTimer still active, started at {where}" for timer, where in alive(timers) if timer.isActive()]
    problems += [f"QThread still running, started at {where}" for thread, where in alive(threads) if thread.isRunning()]
    problems += [f"open window: {widget!r} {widget.objectName()} {widget.windowTitle()}" for widget in left_over()]
    if not QThreadPool.globalInstance().waitForDone(30_000):
        problems.append("the global thread pool is still busy")
    assert not problems, "\n".join(problems)


def _record_starts(monkeypatch: pytest.MonkeyPatch, kind: type) -> list[tuple[Callable[[], Any], str]]:
    """Every object of this Qt class that is started from now on, by reference, with the line that did it."""
    started: list[tuple[Callable[[], Any], str]] = []
    start = kind.start  # type: ignore[attr-defined]

    def recording(self: Any, *arguments: Any) -> None:
        caller = sys._getframe(1)
        # One with a parent lives on without its Python object; one without must be free to die with it.
        reference = weakref.ref(self) if self.parent() is None else (lambda: self)
        started.append((reference, f"{caller.f_code.co_filename}:{caller.f_lineno}"))
        start(self, *arguments)

    monkeypatch.setattr(kind, "start", recording)
    return started
