"""Checks what is lost when Draftlight is killed: make bench-killed

Starts processes that save, stream, migrate the tables, or are the window with an answer of a tiny model under way; kills each
with SIGKILL at a random moment, opens the data that is left, and prints what was lost of what had been reported or shown as
saved. A row fails if a saved message is lost, more than the last round of a running answer is lost, or a table is neither
old nor new.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from engine.chats import ChatStore
from engine.chats import schema as tables
from tests.engine.chats.test_killed import check_migrated, check_saved, furnish, killed, quietly
from tests.engine.tiny_models import write_gguf

ROOT = Path(__file__).parents[2]


def stored_work(home: Path, work: str, chance: random.Random) -> Counter[str]:
    """One process on the store; what it had said, and what state it left answers in."""
    if work == "migrate":
        furnish(home)
    said = killed(home, work, chance)
    if work != "migrate":
        check_saved(home, said)
        with ChatStore(home) as store:
            messages = [message for each in store.conversations() for message in store.open(each.id).messages]
        return Counter(
            said=len(said), messages=len(messages), interrupted=sum(message.state == "interrupted" for message in messages)
        )
    check_migrated(home)
    before = [*tables.MIGRATIONS]
    try:
        tables.MIGRATIONS[:] = [before[0], quietly]
        with ChatStore(home) as store:
            return Counter(said=len(said), messages=len(store.open(1).messages))
    finally:
        tables.MIGRATIONS[:] = before


def window_work(home: Path, model: Path, chance: random.Random) -> Counter[str]:
    """One window, killed while it answers; every text that was shown must be there, but for the last round."""
    environment = os.environ | {"DRAFTLIGHT_HOME": str(home), "QT_QPA_PLATFORM": "offscreen"}
    command = [sys.executable, "-m", "tests.benchmarks.killed", "--window", str(model)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT, env=environment)
    assert process.stdout is not None
    lines = []
    with process.stdout:
        for _ in range(chance.randrange(1, 60)):
            if not (line := process.stdout.readline()):
                break
            lines.append(json.loads(line))
        time.sleep(chance.random() * 0.05)
        os.kill(process.pid, signal.SIGKILL)
        lines += [json.loads(line) for line in process.stdout.read().split(b"\n")[:-1]]
    process.wait(timeout=30)
    shown: dict[str, str] = {line["prompt"]: line["text"] for line in lines}
    with ChatStore(home) as store:
        chats = [store.open(each.id) for each in store.conversations()]
    messages = [message for chat in chats for message in chat.messages]
    answers = {
        chat.by_id[message.parent].text: message
        for chat in chats
        for message in chat.messages
        if message.role == "assistant" and message.parent is not None
    }
    for prompt, text in shown.items():
        assert prompt in answers, f"the answer to {prompt!r} is lost"
        assert answers[prompt].text.startswith(text), f"of the answer to {prompt!r} more than the last round is lost"
    interrupted = sum(message.state == "interrupted" for message in messages)
    return Counter(said=len(lines), messages=len(messages), interrupted=interrupted)


def be_window(model: Path) -> None:
    """A window that asks a tiny model one thing after the other and says what it shows, until it is killed."""
    from PySide6.QtCore import QTimer

    from app.session.settings import Settings
    from app.window.launch import make_application
    from app.window.window import Window
    from engine.runtime.worker import Engine

    application = make_application()
    window = Window(Engine(), Settings(target=str(model), drafter="ngram", max_tokens=120), None, store=ChatStore)
    window.show()
    window.chats.restore()

    def look() -> None:
        """Says what shows, and asks on when an answer has ended."""
        if window.session.model is None:
            return
        if window.session.turns:
            turn = window.session.turns[-1]
            print(json.dumps({"prompt": turn.prompt, "text": turn.answer.text.text}), flush=True)
        if window.session.running is None:
            window.chat.send(f"prompt {len(window.session.turns)}")

    timer = QTimer(interval=5)
    timer.timeout.connect(look)
    timer.start()
    application.exec()


def main() -> None:
    """Kills, looks, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=100, help="of each kind of work on the store")
    parser.add_argument("--windows", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--window", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.window is not None:
        be_window(asked.window)
        return
    print(f"{'killed while':<14}{'moments':>9}{'said or shown':>15}{'messages kept':>15}{'interrupted':>13}{'lost':>6}")
    failed = False
    for work in ("save", "stream", "migrate", "window"):
        chance, found, lost = random.Random(f"{work} {asked.seed}"), Counter[str](), 0
        moments = asked.windows if work == "window" else asked.moments
        with tempfile.TemporaryDirectory() as folder:
            model = write_gguf(Path(folder) / "tiny.gguf", llama__context_length=3000)
            for moment in range(moments):
                home = Path(folder) / f"{work}-{moment}"
                try:
                    found += window_work(home, model, chance) if work == "window" else stored_work(home, work, chance)
                except (AssertionError, KeyError) as error:
                    lost += 1
                    print(f"{work}, moment {moment}: {error}", file=sys.stderr)
        failed |= lost > 0
        print(
            f"{work:<14}{moments:>9}{found['said']:>15,}{found['messages']:>15,}{found['interrupted']:>13}{lost:>6}", flush=True
        )
    sys.exit(failed)


if __name__ == "__main__":
    main()
