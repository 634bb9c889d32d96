"""Measures how long a long trace takes to open in the window, and to step back in: make bench-opening

An invented trace (no model is needed) is opened in a window with every view, painted offscreen without a screen. Besides the
wall time, the processor time of this process is printed, which other programs disturb less. Stepping back is the expensive
part: the answer is built anew up to that round.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication

from app.session.settings import Settings
from app.window.launch import make_application
from app.window.window import Window
from engine.types import Candidate, Round
from tests.app.fakes import STORY, FakeEngine, make_round, tokens_of
from tests.traces import write_trace


def long_rounds(tokens: int, gamma: int) -> Iterator[Round]:
    """Rounds that emit about so many tokens, with five alternatives on either side of every proposal, as in analysed ones."""
    chance, words = random.Random(1), tokens_of(STORY)
    top = tuple(Candidate(index, words[index], 0.5 / (index + 1)) for index in range(5))
    emitted, index, started = 0, 0, 0.0
    while emitted < tokens:
        accepted = min(gamma, int(chance.expovariate(0.7)))
        kept = [chance.choice(words) for _ in range(accepted)]
        last = "\n\n" if index % 40 == 39 else chance.choice(words)
        ghosts = [chance.choice(words) for _ in range(gamma - accepted)]
        made = make_round(index, kept, last, ghosts, started=started, staged=index % 16 == 0, position=40 + emitted)
        proposals = tuple(replace(proposal, draft_top=top, target_top=top) for proposal in made.proposals)
        emitted, index, started = emitted + len(made.emitted), index + 1, started + 61.0
        yield replace(made, proposals=proposals, finish="length" if emitted >= tokens else None)


def timed(what: str, act: Callable[[], object]) -> None:
    """Prints how long something takes until the window is painted again."""
    clock, processor = time.perf_counter(), time.process_time()
    act()
    QApplication.processEvents()
    print(f"{what:<34} {time.perf_counter() - clock:6.2f} s   processor {time.process_time() - processor:6.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--gamma", type=int, default=4)
    arguments = parser.parse_args()
    make_application()
    with tempfile.TemporaryDirectory() as folder:
        path = write_trace(Path(folder) / "long.jsonl", list(long_rounds(arguments.tokens, arguments.gamma)))
        window = Window(FakeEngine(), Settings(appearance="dark"))
        window.resize(1280, 800)
        window.show()
        QApplication.processEvents()
        timed(f"open {arguments.tokens:,} tokens", lambda: (window.replay_controller.open(path), window.grab()))
        player = window.replay_controller.player
        if player is None:
            raise SystemExit(window.banner.label.text())
        print(f"{'':<34} {player.count:,} rounds, {path.stat().st_size / 1e6:.0f} MB")
        bar = window.transcript.verticalScrollBar()
        timed("scroll by 100 pages", lambda: [_scroll(window, round(bar.maximum() * page / 100)) for page in range(100)])
        timed("back to the middle", lambda: (window.replay_controller.go_to(player.count // 2), window.grab()))
        timed("next round", lambda: (window.replay_controller.step(1), window.grab()))
        timed("previous round", lambda: (window.replay_controller.step(-1), window.grab()))
        timed("to the end", lambda: (window.replay_controller.go_to(player.count), window.grab()))
        window.close()


def _scroll(window: Window, value: int) -> None:
    window.transcript.verticalScrollBar().setValue(value)
    QApplication.processEvents()
    window.transcript.grab()


if __name__ == "__main__":
    main()
