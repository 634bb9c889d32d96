"""Measures frames while rounds arrive, and when a long answer is opened and scrolled: make bench-lens

Invented rounds are replayed in real time (times `--speed`) into a window, which is painted offscreen without a screen. Each
page of the panel is open in turn, a token is pinned and ghosts are shown. A frame is a period without a reaction of the window.
Then an answer of 20,000 tokens is opened, and one of 10,000 rounds is scrolled through in each view; the time of a scroll step
includes painting. No engine runs beside it; `make bench-window` measures frames next to one.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from itertools import accumulate
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtWidgets import QAbstractScrollArea, QApplication

from app.session.cursor import Place
from app.session.settings import PANEL_PAGES, PanelPage, Settings
from app.window.launch import make_application
from app.window.window import Window
from engine.types import Event, Round, RunStarted
from tests.app.fakes import STORY, FakeEngine, story_rounds
from tests.benchmarks.frames import Frames, Stretch, summary
from tests.traces import write_trace

TOKENS = 20_000


class Replayed(FakeEngine):
    """Says each round when it is due."""

    def __init__(self, rounds: list[Round], speed: float) -> None:
        super().__init__(rounds)
        self.speed = speed
        self._began = 0.0

    def events(self, limit: int | None = None, budget: float | None = None) -> list[Event]:
        self.hold = True
        said = super().events(limit, budget)
        if any(isinstance(event, RunStarted) for event in said):
            self._began = time.perf_counter()
        while self._run is not None:
            due = self.rounds[self._next]
            if (due.started + due.milliseconds.total) / 1000 / self.speed > time.perf_counter() - self._began:
                break
            said += self._advance()
        return said


def wait(milliseconds: float) -> None:
    """Runs the event loop for so long."""
    loop = QEventLoop()
    QTimer.singleShot(round(milliseconds), loop.quit)
    loop.exec()


def generating(window: Window, page: PanelPage, seconds: float, frames: Frames) -> str:
    """The frames of so many seconds of an answer, with a page of the panel open."""
    window.chat.new()
    window.chat.preferences.set(panel_page=page)
    window.send("Tell me a story.")
    wait(800)
    window.cursor_place.pin(Place(0, 3, 0))
    window.panel.rounds.lanes.follow()
    wait(200)
    frames.start()
    wait(1000 * seconds)
    taken = frames.stop()
    window.chat.stop()
    wait(300)
    return f"{summary(taken)}; {frames.share:.0%} of a processor"


def opening(window: Window, path: Path) -> str:
    """How long a trace takes to open, and then each page of the panel until it is painted."""
    took = []
    clock, processor = time.perf_counter(), time.process_time()

    def passed(name: str) -> None:
        nonlocal clock, processor
        window.repaint()
        now = time.perf_counter(), time.process_time()
        took.append(f"{name} {now[0] - clock:.2f} s (computing {now[1] - processor:.2f})")
        clock, processor = now

    window.replay_controller.open(path)
    QApplication.processEvents()
    passed("open")
    for page in PANEL_PAGES:
        window.panel.show_page(page)
        QApplication.processEvents()
        passed(page)
    return ", ".join(took)


def scrolling(view: QAbstractScrollArea, steps: int, step: int = 0) -> str:
    """Milliseconds of each step from the middle on, painting included; `step` 0 goes all the way through in long steps."""
    bar = view.verticalScrollBar()
    taken = []
    begin = bar.maximum() // 2 if step else 0
    for index in range(steps):
        clock, processor = time.perf_counter(), time.thread_time()
        bar.setValue(begin + index * step if step else bar.maximum() * index // steps)
        view.viewport().repaint()
        taken.append(Stretch((time.perf_counter() - clock) * 1000, (time.thread_time() - processor) * 1000))
    QApplication.processEvents()
    return summary(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=8.0, help="of generating, for each page")
    parser.add_argument("--speed", type=float, default=3.0, help="how much faster than the rounds say; 1 is about 17 rounds/s")
    parser.add_argument("--size", default="1440x900")
    arguments = parser.parse_args()
    make_application()
    rounds = story_rounds(STORY * (arguments.rounds // 16 + 1))[: arguments.rounds]
    window = Window(Replayed(rounds, arguments.speed), Settings(appearance="dark"))
    window.resize(*(int(edge) for edge in arguments.size.split("x")))
    window.show()
    window.chat.models.load()
    wait(500)
    frames = Frames()
    per_second = 1000 * arguments.speed * len(rounds) / (rounds[-1].started + rounds[-1].milliseconds.total)
    print(f"Frames while {per_second:.0f} rounds arrive each second, window of {arguments.size}:")
    for page in PANEL_PAGES:
        print(f"  {page:>8}: {generating(window, page, arguments.seconds, frames)}", flush=True)
    counted = accumulate(len(round_.emitted) for round_ in rounds)
    few = rounds[: sum(count <= TOKENS for count in counted)]
    with tempfile.TemporaryDirectory() as folder:
        print(f"A trace of {TOKENS:,} tokens in {len(few):,} rounds:")
        print(f"  {opening(window, write_trace(Path(folder) / 'long.jsonl', few))}", flush=True)
        window.replay_controller.open(write_trace(Path(folder) / "longer.jsonl", rounds))
    QApplication.processEvents()
    print(f"Scrolling through {len(rounds):,} rounds, each step painted:")
    views: tuple[tuple[PanelPage | None, QAbstractScrollArea], ...] = (
        ("rounds", window.panel.rounds.lanes),
        ("table", window.panel.table.table),
        (None, window.transcript),
    )
    for shown, view in views:
        if shown is not None:
            window.panel.show_page(shown)
            QApplication.processEvents()
        name = shown or "text"
        print(f"  {name:>8}: a line at a time: {scrolling(view, 300, view.verticalScrollBar().singleStep())}")
        print(f"  {'':>8}  all the way:       {scrolling(view, 300)}")
    lanes = window.panel.rounds.lanes
    window.panel.show_page("rounds")
    for zoom in (0.25, 4.0):
        lanes.set_zoom(zoom)
        QApplication.processEvents()
        print(f"    lanes at zoom {zoom}: {scrolling(lanes, 300, lanes.field.scale.row)}")
    window.close()


if __name__ == "__main__":
    main()
