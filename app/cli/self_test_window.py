"""Checks that this installation can draw: runs the window with the real engine through one short answer."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QEventLoop, QMessageLogContext, QTimer, QtMsgType, qInstallMessageHandler
from PySide6.QtWidgets import QApplication

from app.export.raster import png_of
from app.look.typefaces import CODE, TEXT, load_bundled
from app.session.settings import Settings
from app.window.launch import make_application
from app.window.window import Window
from engine.files.whole_file import write_whole
from engine.runtime.worker import Engine

PROMPT = "Write a short story about a lighthouse keeper who finds a message in a bottle."
LOAD_SECONDS, ANSWER_SECONDS = 300.0, 300.0
HARMLESS_WARNINGS = "This plugin does not support"
COMPARED = (("with-without", "compare"), ("chain-tree", "trees"))
"""Presets of comparisons that are drawn, with the names of their pictures."""


def run(screenshots: Path | None) -> int:
    """Loads, answers, draws and closes; returns 0 if all of it succeeded. `screenshots` is a folder for pictures of the main
    states. Raises NotWritten if one cannot be saved."""
    application = make_application()
    warnings: list[str] = []
    previous = qInstallMessageHandler(_collector(warnings))
    start = time.perf_counter()
    # For pictures, a temperature at which the rules differ: the built-in target's own is 0.2.
    settings = Settings(max_tokens=64) if screenshots is None else Settings(max_tokens=200, temperature=0.8)
    settings = replace(settings, measure_plain=False, motion="off")  # each picture must show a single state
    window = Window(Engine(), replace(settings, appearance="dark", seed=7))
    try:
        window.first_painted.connect(lambda: print(f"first paint after {time.perf_counter() - start:.2f} s"))
        window.resize(1440, 900)
        window.show()
        problem = _check_states(application, window, screenshots)
    finally:
        window.close()
        window.deleteLater()
        qInstallMessageHandler(previous)
        for trace in window.session.trace_paths:
            with contextlib.suppress(OSError):
                Path(trace).unlink()
    if not problem and not window.ended_in_time:
        problem = "The engine did not stop."
    for line in filter(None, [problem, *warnings]):
        print(f"self-test: {line}", file=sys.stderr)
    return 1 if problem or warnings else 0


def _check_states(application: QApplication, window: Window, screenshots: Path | None) -> str:
    """Runs through the states; returns the error message, or ""."""

    def draw_state(name: str) -> bool:
        """Draws the window in both themes, saves the pictures if requested, and returns whether anything was painted."""
        painted = []
        for appearance in ("light", "dark"):
            window.chat.preferences.set(appearance=appearance)
            for _ in range(2):  # changed texts first, then the layout that follows
                application.processEvents()
            image = window.grab().toImage()
            if screenshots is not None:
                write_whole(screenshots / f"{name}-{appearance}.png", png_of(image))
            low = image.height() - 4
            painted.append(not image.isNull() and image.pixelColor(4, low) == image.pixelColor(4, low - 1))
        return all(painted)

    def banner_text() -> str:
        """Returns the message in the window's banner; empty if there is none."""
        return window.banner.label.text() if window.banner.isVisible() else ""

    if not {TEXT, CODE} <= set(load_bundled()):
        return f"The typefaces {TEXT} and {CODE} could not be loaded, only {', '.join(load_bundled()) or 'none'}."
    painted = [draw_state("first-start")]
    window.chat.models.load()
    window.send(PROMPT)
    session = window.session
    _wait(lambda: session.loading is not None or session.model is not None or bool(banner_text()), 5)
    painted.append(draw_state("loading"))
    min_rounds = 8 if screenshots is None else 40
    if not _wait(lambda: session.answer is None or session.answer.tally.rounds > min_rounds or bool(banner_text()), LOAD_SECONDS):
        return "The first rounds never arrived."
    if banner_text() or session.answer is None:
        return banner_text() or "There is no answer."
    painted.append(draw_state("mid-answer"))
    if not _wait(lambda: session.running is None, ANSWER_SECONDS):
        return "The answer never finished."
    if banner_text():
        return banner_text()
    window.panel.refresh()
    painted.append(draw_state("finished"))
    if screenshots is not None and not all(_compare(window, draw_state, *shown) for shown in COMPARED):
        return "The comparison never finished."
    return "" if all(painted) else "The window drew nothing."


def _compare(window: Window, draw_state: Callable[[str], bool], preset: str, name: str) -> bool:
    """Runs the comparison of a preset and draws it; returns whether it finished."""
    window.pages.open_compare(preset)
    view = window.pages.compare
    assert view is not None
    view.start()
    if not _wait(lambda: not view.running, ANSWER_SECONDS):
        return False
    draw_state(name)
    for trace in view.comparison.traces if view.comparison is not None else ():
        with contextlib.suppress(OSError):
            Path(trace).unlink()
    return True


def _wait(done: Callable[[], bool], seconds: float) -> bool:
    """Runs the event loop until `done`; returns whether that happened in time."""
    loop = QEventLoop()
    timeout = QTimer(singleShot=True, interval=round(seconds * 1000))
    timeout.timeout.connect(loop.quit)
    poll = QTimer(interval=20)
    poll.timeout.connect(lambda: loop.quit() if done() else None)
    timeout.start()
    poll.start()
    if not done():
        loop.exec()
    timeout.stop()
    poll.stop()
    return done()


def _collector(warnings: list[str]) -> Callable[[QtMsgType, QMessageLogContext, str], None]:
    def collect(kind: QtMsgType, _: QMessageLogContext, message: str) -> None:
        """Collects Qt's warnings and errors, except those that start with `HARMLESS_WARNINGS`."""
        if kind not in (QtMsgType.QtDebugMsg, QtMsgType.QtInfoMsg) and not message.startswith(HARMLESS_WARNINGS):
            warnings.append(message)

    return collect
