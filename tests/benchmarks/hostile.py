"""Measures the window with hostile answers: python -m tests.benchmarks.hostile [NAME ...] [--tokens 1000000]

The engine thread runs a script in place of a model. Its answers have control characters, HTML, reversed writing directions,
endless lines and blanks, deeply nested Markdown, bytes that are no characters, and any number of tokens.

Each answer streams into the token view, is shown in the reading view, scrolled, and traversed with the keyboard. Printed are
the longest time without a reaction of the window, the memory, and the size of the trace, which is read back and must have every
token. A server on the loopback records whether anything was fetched.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from engine.decode.context import DecodeContext, RoundOutcome

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEventLoop, Qt, QTimer
from PySide6.QtTest import QTest

from app.session.settings import Settings
from app.window.launch import make_application
from app.window.window import Window
from engine.rounds.trace import read
from engine.runtime.worker import Engine
from engine.types import Round
from tests.app.fakes import make_round
from tests.benchmarks.frames import Frames, Stretch
from tests.engine.fakes import FakeBackend, FakeTarget
from tests.listening import listening

LINE = 1_000_000


def answers(address: str, tokens: int) -> dict[str, Callable[[], Iterator[str]]]:
    """Tokens of each hostile answer."""

    def cut(text: str, length: int = 4) -> Iterator[str]:
        return (text[at : at + length] for at in range(0, len(text), length))

    controls = "".join(map(chr, (*range(32), *range(127, 160)))) + "\x1b[2J\x1b]0;title\x07\x1b[8mhidden\x9b31m\ufffe\uffff"
    html = (
        f"<script>fetch('{address}a')</script><img src='{address}b'><iframe src='{address}c'></iframe>\n\n"
        f"![x]({address}d.png) [l]({address}e) <{address}f>\n\n![y](file:///etc/hostname) <img src='file:///etc/hostname'>\n\n"
        f"<style>@import '{address}g';</style><link rel=stylesheet href='{address}h'> <svg onload=alert(1)>\n\n"
    )
    return {
        "plain": lambda: cut("A plain answer of usual words. " * 400),
        "control characters": lambda: cut(controls * 60),
        "HTML": lambda: cut(html * 40),
        "turned directions": lambda: cut("\u202eabc\u2066def\u2067\u202dאבג\u200f\u061c " * 1500),
        "a line in one token": lambda: iter(["x" * LINE]),
        "a line in many tokens": lambda: cut("x" * LINE, 8),
        "a line of wide letters": lambda: cut("漢" * (LINE // 4), 4),
        "blanks": lambda: cut(" " * LINE, 16),
        "line breaks": lambda: cut("\n" * (LINE // 8), 8),
        "marks on one letter": lambda: cut("e" + "\u0301" * 20_000, 4),
        "joined pictures": lambda: cut("👩‍" * 20_000, 2),
        "no characters": lambda: iter(["\ufffd"] * 40_000),
        "quotes in quotes": lambda: cut(">" * 20_000 + " x\n", 8),
        "lists in lists": lambda: cut("".join(f"{'  ' * (n % 300)}- x\n" for n in range(3000)), 8),
        "brackets": lambda: cut("[" * 40_000, 8),
        "links": lambda: cut("[a](" * 15_000, 8),
        "stars": lambda: cut("*a **b " * 8_000, 8),
        "backticks": lambda: cut("".join("`" * count + "x" for count in range(1, 400)), 8),
        "a wide table": lambda: cut(
            ("|" + " a |" * 600 + "\n") + ("|" + "--|" * 600 + "\n") + ("|" + " b |" * 600 + "\n") * 20, 8
        ),
        "code": lambda: cut("```python\n" + "((((" * 30_000 + "\n```\n", 8),
        "mathematics": lambda: cut("$$" + "\\frac{" * 8_000 + "$$", 8),
        "open mathematics": lambda: cut("\\[\n" * 8_000, 4),
        "tokens": lambda: (f"w{number} " for number in range(tokens)),
    }


def rounds_of(tokens: Iterator[str]) -> list[Round]:
    """Rounds of up to 20 tokens."""
    found: list[Round] = []
    batch: list[str] = []
    position = 40
    for token in tokens:
        batch.append(token)
        if len(batch) == 20:
            found.append(make_round(len(found), batch[:-1], batch[-1], [" no"], position=position, started=50.0 * len(found)))
            position, batch = position + 20, []
    found.append(make_round(len(found), batch, ".", finish="eos", position=position, started=50.0 * len(found)))
    return found


class Scripted(FakeBackend):
    """A model that answers with these rounds, whatever it is asked."""

    def __init__(self, rounds: list[Round]) -> None:
        super().__init__()
        self.rounds = rounds

    def load(self, *arguments: Any) -> FakeTarget:
        target = super().load(*arguments)
        target.context_length = 10**8
        return target

    def decode(self, context: DecodeContext) -> Generator[RoundOutcome, None, None]:
        cache: Any = context.cache
        cache.tokens.extend(context.prompt_tokens[len(cache.tokens) : -1])
        for round_ in self.rounds:
            cache.tokens.extend([0] * len(round_.emitted))
            yield RoundOutcome(round_)


def wait(until: Callable[[], bool], seconds: float = 900) -> bool:
    """Runs the window; whether it came to that in time."""
    loop, look, began = QEventLoop(), QTimer(interval=10), time.monotonic()
    look.timeout.connect(lambda: loop.quit() if until() or time.monotonic() - began > seconds else None)
    look.start()
    loop.exec()
    look.stop()
    return until()


def rest(milliseconds: int) -> None:
    """Runs the window for a while."""
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


def _answered(window: Window) -> bool:
    return window.session.running is None and bool(window.session.turns) and window.session.turns[-1].answer.finish is not None


def longest(stretches: list[Stretch]) -> float:
    """Milliseconds that the window's thread computed at a stretch, at most."""
    return max((stretch.computing for stretch in stretches), default=0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--tokens", type=int, default=50_000, help="of the answer that has nothing but many")
    arguments = parser.parse_args()
    make_application()
    columns = ("tokens", "coming", "reading", "scroll", "keys", "resize")
    print(f"{'answer':24} {' '.join(f'{name:>8}' for name in columns)}   longest ms, memory, trace")

    with listening() as (address, asked), tempfile.TemporaryDirectory() as home:
        os.environ["DRAFTLIGHT_HOME"] = home
        for name, make in answers(address, arguments.tokens).items():
            if not arguments.names or name in arguments.names:
                go_through(name, rounds_of(make()), asked)


def go_through(name: str, rounds: list[Round], asked: list[str]) -> None:
    """One answer in a window of its own; prints a line about it."""
    window = Window(Engine(lambda: Scripted(rounds)), Settings(appearance="dark", max_tokens=10**8))
    window.resize(1280, 800)
    window.show()
    window.chat.models.load()
    frames, told = Frames(), []
    frames.start()
    window.send("Be hostile.")
    came = wait(partial(_answered, window))
    told.append(longest(frames.stop()))
    frames.start()
    window.toggle_reading()
    rest(300)
    told.append(longest(frames.stop()))
    frames.start()
    bar = window.transcript.verticalScrollBar()
    for share in (0.0, 0.3, 0.6, 1.0):
        bar.setValue(round(share * bar.maximum()))
        rest(60)
    window.toggle_reading()
    for share in (0.0, 0.3, 0.6, 1.0):
        bar.setValue(round(share * bar.maximum()))
        rest(60)
    told.append(longest(frames.stop()))
    frames.start()
    window.transcript.setFocus()
    for key in (Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Return, Qt.Key.Key_Escape, Qt.Key.Key_End, Qt.Key.Key_Left):
        QTest.keyClick(window.transcript, key)
        rest(40)
    told.append(longest(frames.stop()))
    frames.start()
    window.resize(900, 700)
    rest(300)
    told.append(longest(frames.stop()))
    told_of = window.session.trace_paths[-1] if came else ""
    kept = sum(len(each.emitted) for each in read(told_of).rounds) if told_of else 0
    megabytes = Path(told_of).stat().st_size / 1e6 if told_of else 0.0
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    count = sum(len(each.emitted) for each in rounds)
    print(
        f"{name:24} {count:8,} " + " ".join(f"{value:8.0f}" for value in told) + f"   {memory:6.0f} MB, trace {megabytes:.1f} MB"
        f"{'' if kept == count else f'  THE TRACE HAS {kept:,}'}"
        f"{'' if came else '  did not come to its end'}{'  FETCHED ' + ' '.join(asked) if asked else ''}",
        flush=True,
    )
    window.close()
    window.deleteLater()
    rest(50)


if __name__ == "__main__":
    main()
