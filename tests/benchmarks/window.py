"""What the window costs the engine: tokens per second with every view open, against the same engine alone: make bench-window

The built-in target without a drafter answers the same prompt with the same seed, alternately with and without a window
(painted offscreen where there is no screen), and the ratio of the medians is printed. Read the ratio: both sides ran in turn on
the same machine.
"""

from __future__ import annotations

import argparse
import os
import statistics

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEventLoop, QTimer

from app.main import make_application
from app.settings import Settings
from app.window import Window
from engine.types import DecodingOptions, LoadFailed, Message, Request, RunFailed, RunFinished
from engine.worker import Engine

PROMPT = "Write a short story about a lighthouse keeper who finds a message in a bottle."


def alone(engine: Engine, options: DecodingOptions) -> float:
    """Tokens per second of one answer that nobody watches."""
    run_id = engine.submit(Request((Message("user", PROMPT),), options))
    while True:
        engine.wait(1.0)
        for event in engine.events():
            if isinstance(event, RunFinished) and event.run_id == run_id:
                return event.tokens / event.seconds
            if isinstance(event, (RunFailed, LoadFailed)):
                raise SystemExit(event.message)


def watched(window: Window) -> float:
    """Tokens per second of one answer in the window."""
    loop = QEventLoop()
    look = QTimer(interval=50)
    look.timeout.connect(lambda: loop.quit() if window.session.running is None else None)
    window.chat.new()
    window.send(PROMPT)
    look.start()
    loop.exec()
    look.stop()
    answer = window.session.answer
    if answer is None or answer.result is None:
        raise SystemExit(window.banner.words.text())
    return answer.result.tokens / answer.result.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--pairs", type=int, default=5)
    arguments = parser.parse_args()
    make_application()
    engine = Engine()
    settings = Settings(drafter="none", seed=7, max_tokens=arguments.tokens)
    window = Window(engine, settings)
    window.show()
    alone(engine, settings.options())  # loads
    sides: dict[str, list[float]] = {"alone": [], "window": []}
    for _ in range(arguments.pairs):
        sides["alone"].append(alone(engine, settings.options()))
        sides["window"].append(watched(window))
    window.close()
    medians = {side: statistics.median(values) for side, values in sides.items()}
    for side, values in sides.items():
        print(f"{side:>7}: median {medians[side]:.1f} tokens/s of {', '.join(f'{value:.1f}' for value in values)}")
    print(f"  ratio: {medians['window'] / medians['alone']:.3f}")


if __name__ == "__main__":
    main()
