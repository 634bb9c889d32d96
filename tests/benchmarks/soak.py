"""Uses the real window for hours and measures whether anything grows: make bench-soak ARGS="--minutes 120"

Chats go on with the built-in model and with two tiny random ones (an mlx-lm folder and a GGUF file): prompts with and without
files, other answers, changes of rule, gamma, drafter and model, comparisons, exports, replays, other chats, deleted chats,
settings, palette, themes. Every minute a line says what the process takes: memory, memory of MLX, objects of Python, widgets,
threads, open files, and the size of the data folder. At the end the slope of each is given, over the last two thirds, with its
95 % interval. The data folder grows with the traces of the answers, which are kept; nothing else should. `--tracemalloc` names
what grew; it is slow.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import os
import statistics
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import mlx.core as mx
from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication

from app.session.attachments import read_attachment
from app.session.settings import PANEL_PAGES, Settings, settings_path
from app.window.launch import make_application
from app.window.settings_window import SettingsWindow
from app.window.window import Window
from engine.chats import ChatStore
from engine.exports.export import FORMATS, read_traces, write
from engine.runtime.worker import Engine
from tests.engine import tiny_models

KEPT_CHATS = 12
WAIT_SECONDS = 600.0
PROMPTS = (
    "Write a short story about a lighthouse keeper who finds a message in a bottle.",
    "Explain in *Markdown*, with a list and a table, why the sky is blue.",
    "Write a Python function that reverses a list, and say what each line does.",
    "Repeat after me: one two three four five six seven eight nine ten.",
)
FIGURES = ("RSS MB", "MLX MB", "objects", "widgets", "threads", "files open", "data MB")


class Soak:
    """The window, and what is done with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.models = {
            "builtin": ("head", "builtin-draft", "ngram", "ngram-mod", "none"),
            tiny_models.write_folder(folder / "tiny").as_posix(): ("ngram", "ngram-mod", "none"),
            tiny_models.write_gguf(folder / "tiny.gguf", "Q8_0").as_posix(): ("none", "ngram"),
        }
        (folder / "notes.py").write_text("def answer() -> int:\n    return 42\n" * 40)
        self.window = Window(Engine(), Settings(max_tokens=40, seed=7), settings_path(), "", ChatStore)
        self.window.resize(1280, 800)
        self.window.show()
        self.done = dict.fromkeys(("answers", "loads", "comparisons", "exports", "replays", "chats", "late"), 0)

    def steps(self) -> Iterator[Callable[[], None]]:
        """What is done, one after the other, without end."""
        prompts = itertools.cycle(PROMPTS)
        models = itertools.cycle(self.models.items())
        for turn in itertools.count():
            target, drafters = next(models)
            yield lambda target=target, drafters=drafters: self.load(target, drafters[0])
            for drafter in drafters:
                yield lambda drafter=drafter: self.load(self.window.settings.target, drafter)
                yield lambda: self.ask(next(prompts))
                yield lambda turn=turn: self.ask_and_change(next(prompts), ("match", "rejection", "gumbel", "block")[turn % 4])
                yield self.answer_again
            yield self.attach
            yield self.export
            yield self.replay
            yield self.look
            if turn % 3 == 0:
                yield self.compare
            yield self.other_chats

    def load(self, target: str, drafter: str) -> None:
        """Chooses a model and a drafter."""
        self.window.chat.models.change(target, drafter)
        self.wait(lambda: self.window.session.loading is None)
        self.done["loads"] += 1

    def ask(self, prompt: str) -> None:
        """Sends a prompt and waits for the answer."""
        self.window.send(prompt)
        self.wait(lambda: self.window.session.running is None)
        self.done["answers"] += 1

    def ask_and_change(self, prompt: str, rule: str) -> None:
        """Sends a prompt, changes rule and gamma in mid-answer, and stops it now and then."""
        window = self.window
        window.send(prompt)
        self.wait(lambda: window.session.running is None or window.session.running.tally.rounds > 3)
        window.chat.change("rule", rule)
        window.chat.change("gamma", 3)
        if rule == "block":
            window.stop()
        self.wait(lambda: window.session.running is None)
        window.chat.change("gamma", "auto")
        self.done["answers"] += 1

    def answer_again(self) -> None:
        """Another answer to the same prompt, in another view."""
        self.window.toggle_reading()
        self.window.messages.regenerate()
        self.wait(lambda: self.window.session.running is None)
        self.window.messages.step_sibling(-1)
        self.done["answers"] += 1

    def attach(self) -> None:
        """A prompt with a file."""
        self.window.composer.attach([read_attachment(self.folder / "notes.py")])
        self.window.composer.set_text("What does this do?")
        self.window.composer.submit()
        self.wait(lambda: self.window.session.running is None)
        self.done["answers"] += 1

    def export(self) -> None:
        """What is shown as every kind of file."""
        paths = [path for path in self.window.session.trace_paths if Path(path).exists()]
        if not paths:
            return
        traces = read_traces(paths[-2:])
        for name, form in FORMATS.items():
            if name != "parquet":
                for path in write(traces, form, self.folder / f"export{next(iter(form.endings))}"):
                    path.unlink()
        self.done["exports"] += 1

    def replay(self) -> None:
        """The last answer from its trace, forth and back."""
        window = self.window
        paths = [path for path in window.session.trace_paths if Path(path).exists()]
        if not paths:
            return
        window.replay_controller.open(Path(paths[-1]))
        for _ in range(6):
            window.replay_controller.step(-1)
            self.rest(20)
        window.replay_controller.leave()
        self.done["replays"] += 1

    def look(self) -> None:
        """Pages, themes, settings, palette, search; each is painted."""
        window = self.window
        for page in PANEL_PAGES:
            window.open_page(page)
            self.paint()
        window.chat.preferences.set(appearance="dark" if window.settings.appearance == "light" else "light")
        window.actions_by_id["largerAction"].trigger()
        self.paint()
        window.actions_by_id["normalAction"].trigger()
        window.open_settings()
        window.open_palette()
        self.rest(50)
        window.palette_popup.close()
        window.findChild(SettingsWindow).close()
        window.sides.search_chats()
        window.sidebar.search.setText("lighthouse")
        self.rest(300)
        window.sidebar.search.clear()
        self.paint()

    def compare(self) -> None:
        """A comparison from beginning to end."""
        self.window.pages.open_compare("with-without")
        view = self.window.pages.compare
        assert view is not None
        view.start()
        self.wait(lambda: not view.running)
        self.paint()
        for trace in view.comparison.traces if view.comparison is not None else ():
            with contextlib.suppress(OSError):
                Path(trace).unlink()
        self.window.pages.leave_comparison()
        self.done["comparisons"] += 1

    def other_chats(self) -> None:
        """Shows another chat, begins a new one, and deletes the oldest ones."""
        keeper, chats = self.window.chat.keeper, self.window.chats
        listed: list[list[int]] = []
        keeper.read(lambda store: [each.id for each in store.conversations()], listed.append)
        self.wait(lambda: bool(listed))
        for number in listed[0][KEPT_CHATS:]:
            chats.delete(number)
        if len(listed[0]) > 1:
            chats.open(listed[0][1])
            self.rest(300)
            self.wait(lambda: self.window.session.loading is None)
            self.paint()
        self.window.new_chat()
        self.rest(100)
        self.done["chats"] += 1

    def wait(self, until: Callable[[], bool]) -> None:
        """Runs the window until something is so."""
        loop, look = QEventLoop(), QTimer(interval=20)
        began = time.monotonic()
        look.timeout.connect(lambda: loop.quit() if until() or time.monotonic() - began > WAIT_SECONDS else None)
        look.start()
        loop.exec()
        look.stop()
        if not until():
            self.done["late"] += 1
            self.window.stop()

    def rest(self, milliseconds: int) -> None:
        """Runs the window for a while."""
        loop = QEventLoop()
        QTimer.singleShot(milliseconds, loop.quit)
        loop.exec()

    def paint(self) -> None:
        """Paints the window once."""
        QApplication.processEvents()
        image: QImage = self.window.grab().toImage()
        assert not image.isNull()


def figures(data: Path) -> tuple[float, ...]:
    """What the process takes now, by FIGURES."""
    gc.collect()
    taken = sum(path.stat().st_size for path in data.rglob("*") if path.is_file())
    return (
        _resident() / 1e6,
        (mx.get_active_memory() + mx.get_cache_memory()) / 1e6,
        len(gc.get_objects()) + gc.get_freeze_count(),
        len(QApplication.allWidgets()),
        threading.active_count(),
        len(os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd")),
        taken / 1e6,
    )


def _resident() -> int:
    if sys.platform == "linux":
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def slope(minutes: list[float], values: list[float]) -> tuple[float, float]:
    """Growth in an hour by least squares, and half the width of its 95 % interval.

    Neighbouring minutes are alike, so the interval counts every fifth of them only.
    """
    if len(values) < 3:
        return 0.0, float("inf")
    line = statistics.linear_regression(minutes, values)
    spread = statistics.fsum((y - line.intercept - line.slope * x) ** 2 for x, y in zip(minutes, values, strict=True))
    middle = statistics.fmean(minutes)
    width = statistics.fsum((x - middle) ** 2 for x in minutes)
    error = (spread / max(1, len(values) - 2) / width * 5) ** 0.5 if width else 0.0
    return 60 * line.slope, 60 * 2 * error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--tracemalloc", action="store_true", help="name the lines whose memory grew most")
    arguments = parser.parse_args()
    if arguments.tracemalloc:
        tracemalloc.start()
    with tempfile.TemporaryDirectory() as made:
        models = os.environ.get("DRAFTLIGHT_HOME")
        home = Path(made) / "home"
        home.mkdir()
        _link_models(Path(models).expanduser() if models else None, home)
        os.environ["DRAFTLIGHT_HOME"] = home.as_posix()
        make_application()
        soak = Soak(Path(made))
        began = time.monotonic()
        rows: list[tuple[float, ...]] = []
        snapshot = None
        print("minute  " + "  ".join(f"{name:>10}" for name in FIGURES), flush=True)
        for step in soak.steps():
            step()
            minute = (time.monotonic() - began) / 60
            if not rows or minute >= rows[-1][0] + 1:
                rows.append((minute, *figures(home)))
                print(f"{minute:6.1f}  " + "  ".join(f"{value:10,.1f}" for value in rows[-1][1:]), soak.done, flush=True)
                if arguments.tracemalloc and snapshot is None and minute > arguments.minutes / 3:
                    snapshot = tracemalloc.take_snapshot()
            if minute > arguments.minutes:
                break
        late = [row for row in rows if row[0] >= rows[-1][0] / 3]
        print(f"\n{soak.done}\nGrowth in an hour, from minute {late[0][0]:.0f} to {late[-1][0]:.0f}:")
        for place, name in enumerate(FIGURES, start=1):
            growth, half = slope([row[0] for row in late], [row[place] for row in late])
            print(f"{name:>12}: {growth:+10.2f} ± {half:.2f}   ({late[0][place]:,.1f} to {late[-1][place]:,.1f})")
        if snapshot is not None:
            for difference in tracemalloc.take_snapshot().compare_to(snapshot, "lineno")[:20]:
                print(difference)
        soak.window.close()
        print("the engine ended in time" if soak.window.ended_in_time else "the engine did not end in time")


def _link_models(models: Path | None, home: Path) -> None:
    """The built-in model is where it was."""
    from engine.files.builtin import builtin_path

    if models is None or builtin_path().is_file():
        (home / "models").symlink_to(builtin_path().parents[1])


if __name__ == "__main__":
    main()
