"""Measures the store of conversations with many of them: make bench-chats

Fills a folder with conversations of random words (5,000 with 100,000 messages by default), then prints for each operation the
median and the largest time of several repetitions. Then the time that storing a round takes: a line in its trace, compared with
an update of the answer's row in the database. If a folder of traces is named, also their size before and after compression.
"""

from __future__ import annotations

import argparse
import gzip
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

from engine.chats import ChatSettings, ChatStore, Making
from engine.rounds.trace import Writer, read, traces_in
from tests.app.fakes import make_round

WORDS = 20_000
"""How many different ones there are; their frequencies fall as in a language (Zipf)."""


def fill(store: ChatStore, conversations: int, messages: int, chance: random.Random) -> None:
    """Conversations of prompts and answers in turn, as long as people's and models' are."""
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(WORDS)]
    weights = list(accumulate(1 / (rank + 1) for rank in range(WORDS)))
    each = messages // conversations
    for start in range(0, conversations, 100):
        with store.together():
            for _ in range(start, min(start + 100, conversations)):
                number, parent = store.create(ChatSettings()), None
                for turn in range(each):
                    text = " ".join(
                        chance.choices(
                            words, cum_weights=weights, k=chance.randint(60, 160) if turn % 2 else chance.randint(5, 30)
                        )
                    )
                    parent = store.add_message(number, parent, "assistant" if turn % 2 else "user", text)


def timed(name: str, act: Callable[[], object], repetitions: int) -> None:
    """Prints what an act takes."""
    taken = []
    for _ in range(repetitions):
        began = time.perf_counter()
        act()
        taken.append((time.perf_counter() - began) * 1000)
    print(f"{name:<58}{statistics.median(taken):9.2f} ms median {max(taken):9.2f} ms at most")


def main() -> None:
    """Fills, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=5_000)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--traces", type=Path, help="a folder of traces to compress")
    arguments = parser.parse_args()
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with ChatStore(home) as store:
            began = time.perf_counter()
            fill(store, arguments.conversations, arguments.messages, chance)
            print(
                f"filled in {time.perf_counter() - began:.1f} s, {store.folder.joinpath('chats.db').stat().st_size / 1e6:.0f} MB"
            )
        timed("open the store", lambda: ChatStore(home).close(), 10)
        with ChatStore(home) as store:
            listed = store.conversations()
            counted = Counter(
                word for each in listed[:50] for message in store.open(each.id).messages for word in message.text.split()
            )
            (common, _), (second, _), *_, (rare, _) = counted.most_common()
            timed("list all conversations", store.conversations, 10)
            timed("list the first 50", lambda: store.conversations(limit=50), 50)
            timed("open a conversation", lambda: store.open(chance.choice(listed).id), 100)
            timed("search a rare word", lambda: store.search(rare), 20)
            timed("search a common word", lambda: store.search(common), 20)
            timed("search a common beginning (one letter)", lambda: store.search("a"), 20)
            timed("search two words", lambda: store.search(f"{common} {second}"), 20)
            timed("search what does not occur", lambda: store.search("nosuchword"), 20)
            timed("search Chinese", lambda: store.search("北京"), 5)
            timed("search all (limit 5,000) for a common word", lambda: store.search(common, limit=5000), 3)
            last = listed[0].id
            timed("add a message", lambda: store.add_message(last, None, "user", "some words " * 20), 100)
            prompt = store.add_message(last, None, "user", "prompt")
            timed("begin an answer", lambda: store.begin_answer(last, prompt, Making()), 100)
            begun = store.begin_answer(last, prompt, Making())
            timed("finish an answer", lambda: store.finish_answer(begun.message, "complete", "some words " * 100), 100)
            timed("delete a conversation for good", lambda: store.purge([store.conversations(limit=2)[1].id]), 5)
            timed("check every page", store._database.is_sound, 1)
            per_round(store, Path(begun.trace_path), begun.message)
    if arguments.traces:
        compressed(arguments.traces)


def per_round(store: ChatStore, path: Path, message: int) -> None:
    """What keeping one round costs, in either way."""
    header = {"created": "2026-11-22T12:00:00.000+00:00", "prompt": {"messages": []}}
    writer = Writer(path, header)
    rounds = iter([make_round(index, [" two", " more"], " words", [" rejected"]) for index in range(1000)])
    timed("a round: its line in the trace, the journal", lambda: writer.round(next(rounds)), 1000)
    writer.close()
    text = "some words " * 200
    rows = store._database

    def change() -> None:
        """What a row that is changed in every round would cost."""
        with rows.writing() as connection:
            connection.execute("UPDATE messages SET text = ? WHERE id = ?", (text + str(time.perf_counter()), message))

    timed("a round, if the row were changed instead (not done)", change, 200)


def compressed(folder: Path) -> None:
    """What the traces of a folder take."""
    before = after = tokens = 0
    for path in traces_in(folder):
        trace = read(path)
        content = path.read_bytes() if path.exists() else gzip.decompress(path.with_name(path.name + ".gz").read_bytes())
        before += len(content)
        after += len(gzip.compress(content, 6))
        tokens += sum(len(round.emitted) for round in trace.rounds)
    if tokens:
        print(f"traces: {before / tokens:.0f} bytes a token as written, {after / tokens:.0f} compressed ({tokens} tokens)")


if __name__ == "__main__":
    main()
