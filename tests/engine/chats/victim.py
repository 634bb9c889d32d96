"""A process that works on the chats until it is killed, and prints what is saved; arguments: a folder and the kind of work."""

from __future__ import annotations

import itertools
import json
import sqlite3
import sys
from pathlib import Path

from engine.chats import ChatSettings, ChatStore, Making
from engine.chats.schema import MIGRATIONS
from engine.rounds.trace import Writer
from tests.app.fakes import make_round

HEADER = {
    "created": "2026-11-21T12:00:00.000+00:00",
    "target": {"name": "SmolLM2"},
    "drafter": {"name": "head"},
    "options": {"rule": "gumbel", "seed": 5},
    "prompt": {"messages": [{"role": "user", "content": "prompt"}]},
}


def say(**what: object) -> None:
    """One line that is out at once."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def save(store: ChatStore) -> None:
    """Conversations, messages, answers, and some of them deleted again."""
    for turn in itertools.count():
        conversation = store.create(ChatSettings())
        prompt = store.add_message(conversation, None, "user", f"prompt {turn}")
        say(message=prompt, text=f"prompt {turn}")
        begun = store.begin_answer(conversation, prompt, Making("SmolLM2"))
        store.finish_answer(begun.message, "complete", "answer " * turn)
        say(message=begun.message, text="answer " * turn)
        if turn % 3 == 2:
            store.delete_message(begun.message)
            say(message=begun.message, text=None)
            store.restore_message(begun.message)
            say(message=begun.message, text="answer " * turn)


def stream(store: ChatStore) -> None:
    """Answers, round by round."""
    conversation = store.create(ChatSettings())
    for _ in itertools.count():
        prompt = store.add_message(conversation, None, "user", "prompt")
        begun = store.begin_answer(conversation, prompt, Making("SmolLM2"))
        writer = Writer(Path(begun.trace_path), HEADER)
        text = ""
        for index in range(40):
            round_ = make_round(index, [" accepted"], f" {index}")
            writer.round(round_)
            text += round_.text
            say(message=begun.message, text=text, running=True)
        writer.summary({"finish": "length"})
        writer.close()
        store.finish_answer(begun.message, "length", text, trace_path=begun.trace_path)
        say(message=begun.message, text=text)


def slowly(rows: sqlite3.Connection) -> None:
    """A migration that takes its time, and says so."""
    rows.execute("ALTER TABLE messages ADD COLUMN stars INTEGER")
    for (number,) in rows.execute("SELECT id FROM messages").fetchall():
        rows.execute("UPDATE messages SET stars = 1, text = text || '!' WHERE id = ?", [number])
        if number % 10 == 0:
            say(migrated=number)


def main() -> None:
    """Until it is killed, or the chats are brought up to date."""
    home, work = Path(sys.argv[1]), sys.argv[2]
    if work == "migrate":
        MIGRATIONS.append(slowly)
        say(begins=True)
    with ChatStore(home) as store:
        say(opened=True)
        if work != "migrate":
            {"save": save, "stream": stream}[work](store)


if __name__ == "__main__":
    main()
