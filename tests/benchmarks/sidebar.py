"""Measures the list of chats in the window with many of them: make bench-sidebar

Fills a folder as make bench-chats does (5,000 chats with 100,000 messages by default), opens a window on it (painted offscreen
without a screen), and prints how long listing, scrolling, searching and opening take. Searching includes the pause that the
window makes after a key. "Longest" is the longest time without a reaction of the window.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication

from app.session.settings import Settings
from app.window.launch import make_application
from app.window.window import Window
from engine.chats import ChatStore
from tests.app.fakes import FakeEngine
from tests.benchmarks.chats import fill

PATIENCE = 60.0
STEPS = 200
"""Places that are scrolled to, evenly from the first chat to the last."""


def until(there: Callable[[], bool]) -> tuple[float, float]:
    """Milliseconds until something is there, and those of the longest event on the way."""
    began, longest = time.perf_counter(), 0.0
    while not there():
        if time.perf_counter() - began > PATIENCE:
            raise TimeoutError
        event = time.perf_counter()
        QApplication.processEvents()
        longest = max(longest, time.perf_counter() - event)
        time.sleep(0.001)
    return (time.perf_counter() - began) * 1000, longest * 1000


def measured(name: str, act: Callable[[], object], there: Callable[[], bool]) -> None:
    """Prints what an act takes until its result is there."""
    began = time.perf_counter()
    act()
    own = (time.perf_counter() - began) * 1000
    took, longest = until(there)
    print(f"{name:<40}{own + took:8.0f} ms, longest {max(own, longest):.0f} ms")


def search(window: Window, words: str) -> None:
    """Types words into the search field and waits for what is found."""
    rows = window.sidebar.model._rows
    measured(f"search {words!r}", partial(window.sidebar.search.setText, words), lambda: window.sidebar.model._rows is not rows)


def main() -> None:
    """Fills, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chats", type=int, default=5_000)
    parser.add_argument("--messages", type=int, default=100_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DRAFTLIGHT_HOME"] = folder
        with ChatStore() as store:
            fill(store, arguments.chats, arguments.messages, random.Random(1))
            titles = [each.title.split()[0] for each in store.conversations(limit=3)]
        application = make_application()
        window = Window(FakeEngine(), Settings(sidebar=True), Path(folder) / "settings.json", "", ChatStore)
        window.resize(1280, 800)
        window.show()
        QApplication.processEvents()
        sidebar = window.sidebar
        measured(f"list {arguments.chats:,} chats", sidebar.start, lambda: sidebar.model.chat_count >= arguments.chats)
        bar, taken = sidebar.list.verticalScrollBar(), []
        for step in range(STEPS):
            began = time.perf_counter()
            bar.setValue(bar.maximum() * step // (STEPS - 1))
            sidebar.list.viewport().repaint()
            taken.append((time.perf_counter() - began) * 1000)
        print(f"{'scroll and paint':<40}{statistics.median(taken):8.1f} ms median, {max(taken):.1f} ms at most")
        for words in titles:
            search(window, words)
        number = sidebar.model._rows[0].about.id
        measured("open a chat", partial(window.chats.open, number), lambda: window.chat.stored_chat.number == number)
        window.close()
        application.processEvents()


if __name__ == "__main__":
    main()
