"""Measures what the window costs: tokens per second with every view open and without a window: make bench-window

The built-in pair answers the same prompt with the same seed, in turn without a window and with one (painted offscreen without a
screen). The panel shows rounds, charts, table and rules in turn, with ghosts shown and a token pinned; each turn begins with
the other side. The mean ratio within a turn is printed with its 95 % interval. Further turns measure the window's frames beside
the engine, because that measurement takes time, too. Verdicts appear one after the other unless --motion off; --pages takes
some of the pages, for more turns in the same time:

    python -m tests.benchmarks.window --turns 20 --frame-turns 0 --pages rounds

--vocabulary pads the target's tokens with unknown ids, for the figures of a larger vocabulary. Without a GPU the pass uses
every core, and the window's computations slow it down. With --pass-milliseconds the target is its first layer alone, and each
pass sleeps for that time, as if another device computed it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from PySide6.QtCore import QEventLoop, QTimer

from app.session.cursor import Place
from app.session.settings import PANEL_PAGES, PanelPage, Settings
from app.window.launch import make_application
from app.window.window import Window
from engine.models import loading
from engine.models.loaded import LoadedModel
from engine.runtime.worker import Engine
from engine.target.layer_taps import embedding_of
from engine.tools.bench.statistics import mean_interval
from engine.types import DecodingOptions, LoadFailed, Message, Request, RunFailed, RunFinished
from tests.benchmarks.frames import Frames, Stretch, summary

PROMPT = "Write a short story about a lighthouse keeper who finds a message in a bottle."
LOOK_MS = 250
"""How often is looked whether the answer has ended."""


def alone(engine: Engine, options: DecodingOptions, drafter: str) -> float:
    """Tokens per second of one answer that nobody watches."""
    run_id = engine.submit(Request((Message("user", PROMPT),), options, drafter=drafter))
    while True:
        engine.wait(1.0)
        for event in engine.events():
            if isinstance(event, RunFinished) and event.run_id == run_id:
                return event.tokens / event.seconds
            if isinstance(event, (RunFailed, LoadFailed)):
                raise SystemExit(event.message)


class Elsewhere(nn.Module):
    """A layer that is computed by another device, for the processor, which sleeps meanwhile."""

    def __init__(self, layer: nn.Module, seconds: float, waits: Callable[[], object]) -> None:
        super().__init__()
        self._waits = waits
        self._layer = layer
        self.use_sliding = layer.use_sliding  # read by mlx-lm's llama
        self._seconds = seconds

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """As the layer, later."""
        self._waits()
        time.sleep(self._seconds)
        return self._layer(*arguments, **options)


def change_targets(change: Callable[[Any], None]) -> None:
    """Has every target that is loaded from now on changed, given its model."""
    original = loading.load

    def changed(*arguments: Any, **options: Any) -> LoadedModel:
        """As the original."""
        loaded = original(*arguments, **options)
        if loaded.target_ids is None:
            change(loaded.model)
        return loaded

    loading.load = changed


def pad(model: Any, vocab_size: int) -> None:
    """Gives the model logits of this width."""
    table = embedding_of(model)
    known, width = table.weight.shape
    if vocab_size > known:
        table.weight = mx.concatenate([table.weight, mx.zeros((vocab_size - known, width), table.weight.dtype)])
        model.args.vocab_size = vocab_size


def send_elsewhere(model: Any, milliseconds: float, waits: Callable[[], object]) -> None:
    """Leaves the model its first layer, in which a pass sleeps, and says when it does."""
    model.model.layers = [Elsewhere(model.model.layers[0], milliseconds / 1000, waits)]


def waits(engine: Engine) -> None:
    """As the engine's thread says it before a pass that is evaluated: here it waits while the graph is built already."""
    for job in list(engine._runs.values()):
        job.waits()


def watched(window: Window, page: PanelPage, frames: Frames) -> tuple[float, list[Stretch], float]:
    """Tokens per second of one answer in the window, its frames while the rounds came, and its thread's share of a processor."""
    loop = QEventLoop()
    look = QTimer(interval=50)

    def follow() -> None:
        answer = window.session.answer
        if window.session.running is None:
            loop.quit()
        elif answer is not None and len(answer.rounds) > 2 and window.cursor_place.pin_place is None:
            window.cursor_place.pin(Place(0, 1, 0))
            window.panel.rounds.lanes.follow()
            look.setInterval(LOOK_MS)
            frames.start()

    look.timeout.connect(follow)
    ended = window.chat.finished.connect(frames.stop)
    window.chat.new()
    window.cursor_place.forget()
    window.chat.preferences.set(panel_page=page)
    window.send(PROMPT)
    look.start()
    loop.exec()
    look.stop()
    window.chat.finished.disconnect(ended)
    answer = window.session.answer
    if answer is None or answer.result is None:
        raise SystemExit(window.banner.label.text())
    return answer.result.tokens / answer.result.seconds, frames.stretches, frames.share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--turns", type=int, default=5, help="how often each side answers")
    parser.add_argument("--frame-turns", type=int, default=2, help="how often frames are timed")
    parser.add_argument("--vocabulary", type=int, help="pad the target's to so many")
    parser.add_argument("--pass-milliseconds", type=float, help="of a target that another device computes")
    parser.add_argument("--motion", choices=("on", "off"), default="on")
    parser.add_argument("--pages", type=lambda names: tuple(names.split(",")), default=PANEL_PAGES, help="of the panel")
    parser.add_argument("--drafter", default=Settings().drafter)
    arguments = parser.parse_args()
    make_application()
    if arguments.vocabulary:
        change_targets(partial(pad, vocab_size=arguments.vocabulary))
    if arguments.pass_milliseconds:
        change_targets(partial(send_elsewhere, milliseconds=arguments.pass_milliseconds, waits=lambda: waits(engine)))
    engine = Engine()
    settings = Settings(drafter=arguments.drafter, seed=7, max_tokens=arguments.tokens, motion=arguments.motion)
    window = Window(engine, settings)
    window.resize(1440, 900)
    window.show()
    frames = Frames()
    alone(engine, settings.options(), settings.drafter)  # loads
    sides: dict[str, list[float]] = {"alone": [], **{page: [] for page in arguments.pages}}
    stretches: dict[str, list[Stretch]] = {page: [] for page in arguments.pages}
    shares: dict[str, list[float]] = {page: [] for page in arguments.pages}
    frames.ticking = False
    names = list(sides)
    for turn in range(arguments.turns):
        for side in names[turn % len(names) :] + names[: turn % len(names)]:
            if side == "alone":
                sides[side].append(alone(engine, settings.options(), settings.drafter))
                continue
            speed, _, share = watched(window, side, frames)
            shares[side].append(share)
            sides[side].append(speed)
    frames.ticking = True
    for _ in range(arguments.frame_turns):
        for page in arguments.pages:
            stretches[page] += watched(window, page, frames)[1]
    window.close()
    for side, values in sides.items():
        ratios = np.divide(values, sides["alone"])
        interval = mean_interval(ratios, 0.025) if side != "alone" else None
        spread = "" if interval is None else f" ({interval[0]:.3f} to {interval[1]:.3f})"
        print(f"{side:>7}: {ratios.mean():.3f}{spread}; {', '.join(f'{value:.1f}' for value in values)} tokens/s")
    print("Frames while generating, and the share of a processor that the window takes:")
    for name, lengths in stretches.items():
        timed = f"{summary(lengths)}; " if lengths else ""
        print(f"{name:>7}: {timed}{statistics.median(shares[name]):.1%} of a processor")


if __name__ == "__main__":
    main()
