"""A process that is killed with SIGKILL at any moment loses at most the round that was being written."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.chats import ChatSettings, ChatStore
from tests.engine.chats import victim
from tests.engine.chats.homes import database, is_sound

ROOT = Path(__file__).parents[3]
MESSAGES = 300


def killed(home: Path, work: str, chance: random.Random) -> list[dict[str, Any]]:
    """Lets a process work in this folder, kills it at a random moment, and returns what it had said by then."""
    lines: list[dict[str, Any]] = []
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.engine.chats.victim", str(home), work], stdout=subprocess.PIPE, cwd=ROOT
    )
    assert process.stdout is not None
    with process.stdout:
        for _ in range(chance.randrange(1, 60)):
            if not (line := process.stdout.readline()):
                break
            lines.append(json.loads(line))
        until = time.perf_counter() + chance.random() * 0.003
        while time.perf_counter() < until:  # so that it dies between two lines, too
            pass
        os.kill(process.pid, signal.SIGKILL)
        rest = process.stdout.read().split(b"\n")[:-1]  # what it had said before it died
    process.wait(timeout=30)
    return lines + [json.loads(line) for line in rest]


def check_saved(home: Path, said: list[dict[str, Any]]) -> None:
    """Everything that was said to be saved is there."""
    with ChatStore(home) as store:
        assert is_sound(home)
        kept = {message.id: message for each in store.conversations() for message in store.open(each.id).messages}
        told: dict[int, dict[str, Any]] = {line["message"]: line for line in said if "message" in line}
        *_, newest = [0, *told]
        for number, line in told.items():
            if number == newest and (number not in kept or line["text"] is None):
                continue  # the act behind the last one said may have been done
            message = kept[number]
            if line.get("running"):
                assert message.text.startswith(line["text"])
                assert message.state in ("interrupted", "length")
            else:
                assert message.text == line["text"]
        assert not any(message.state == "running" for message in kept.values())
        interrupted = [message for message in kept.values() if message.state == "interrupted"]
        assert len(interrupted) <= 1
        assert len(store.notes) == len(interrupted)
        assert len(list((store.folder / "open").iterdir())) == 1, "nothing of the killed one is left"


def check_migrated(home: Path) -> None:
    """The tables are of the old version or of the new one, whole, and their copy is there as soon as they are of the new one."""
    with database(home) as rows:
        version = rows.execute("PRAGMA user_version").fetchone()[0]
        found = [text for (text,) in rows.execute("SELECT text FROM messages ORDER BY id")]
    assert found == [f"m{each}" + "!" * (version - 1) for each in range(MESSAGES)]
    if version > 1:
        with closing(sqlite3.connect(home / "chats" / "chats-before-version-2.db")) as rows:
            before = [text for (text,) in rows.execute("SELECT text FROM messages ORDER BY id")]
        assert before == [f"m{each}" for each in range(MESSAGES)]


def check_finished(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start brings the tables up to date, and keeps a copy of what they were."""
    with monkeypatch.context() as patch:
        patch.setattr("engine.chats.schema.MIGRATIONS", [*victim.MIGRATIONS[:1], quietly])
        with ChatStore(home) as store:
            assert store.open(1).messages[-1].text == f"m{MESSAGES - 1}!"
    check_migrated(home)


def furnish(home: Path) -> None:
    """Chats of the first version."""
    with ChatStore(home) as store, store.together():
        conversation = store.create(ChatSettings())
        for each in range(MESSAGES):
            store.add_message(conversation, None, "user", f"m{each}")


@pytest.mark.parametrize("moments", [2, pytest.param(100, marks=pytest.mark.full)], ids=["a few moments", "a hundred moments"])
@pytest.mark.parametrize("work", ["save", "stream", "migrate"])
def test_kill_loses_nothing_that_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: str, moments: int) -> None:
    chance = random.Random(f"{work} {moments}")
    for moment in range(moments):
        home = tmp_path / str(moment)
        if work == "migrate":
            furnish(home)
        said = killed(home, work, chance)
        assert said, "it was killed before it began"
        if work == "migrate":
            check_migrated(home)
            check_finished(home, monkeypatch)
        else:
            check_saved(home, said)


def quietly(rows: sqlite3.Connection) -> None:
    """The migration of the victim."""
    rows.execute("ALTER TABLE messages ADD COLUMN stars INTEGER")
    rows.execute("UPDATE messages SET stars = 1, text = text || '!'")


def test_writer_that_saves_too_late_is_detected(tmp_path: Path) -> None:
    """Mutant: it reports a text as saved that is not."""
    with ChatStore(tmp_path) as store:
        conversation = store.create(ChatSettings())
        first = store.add_message(conversation, None, "user", "saved")
    check_saved(tmp_path, [{"message": first, "text": "saved"}])
    with pytest.raises(KeyError):
        check_saved(tmp_path, [{"message": 98, "text": "lost"}, {"message": first, "text": "saved"}])
