"""Traces beside the chats: the journal of a running answer, compressed later, kept as long as the user says, and old ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.chats import ChatSettings, ChatStore, Making, Retention
from engine.rounds.trace import Writer, named_at, read
from tests.app.fakes import make_round, story_rounds
from tests.engine.chats.homes import DAY, Clock, database
from tests.engine.chats.victim import HEADER
from tests.traces import write_trace


def answered(store: ChatStore, tokens: int = 100) -> tuple[int, int, Path]:
    """A conversation with one answer that has a trace; its number, that of the answer, and the trace's path."""
    conversation = store.create(ChatSettings())
    prompt = store.add_message(conversation, None, "user", "Tell me a story.")
    begun = store.begin_answer(conversation, prompt, Making("SmolLM2"))
    path = write_trace(Path(begun.trace_path), [make_round(index, [" so"], " on") for index in range(tokens // 2)])
    store.finish_answer(begun.message, "length", " so on" * (tokens // 2), trace_path=begun.trace_path)
    return conversation, begun.message, path


def compared(store: ChatStore, tokens: int = 100) -> Path:
    """A trace that no message refers to, as comparisons write them."""
    rounds = [make_round(index, [" so"], " on") for index in range(tokens // 2)]
    return write_trace(store.traces.new_path(), rounds, kept=False)


def there(path: Path) -> list[str]:
    """The endings under which a trace lies there."""
    return sorted(found.name.removeprefix(path.stem) for found in path.parent.glob(f"{path.stem}*"))


def test_traces_are_compressed_once_their_answer_has_ended(store: ChatStore) -> None:
    conversation, answer, path = answered(store)
    whole, size = read(path), path.stat().st_size
    assert store.traces.bytes() == store.traces.bytes_by_conversation()[conversation] == size
    prompt = store.open(conversation).path[0].id
    running = store.begin_answer(conversation, prompt, Making("SmolLM2"))
    Writer(Path(running.trace_path), HEADER).close()
    store.tidy()
    assert not path.exists()
    assert Path(running.trace_path).exists(), "one that is being written stays as it is"
    assert read(path) == whole
    packed = path.with_name(path.name + ".gz")
    assert store.traces.bytes_by_conversation()[conversation] == packed.stat().st_size
    assert packed.stat().st_size < size / 5
    assert packed.stat().st_mode & 0o777 == 0o600
    assert store.open(conversation).by_id[answer].trace == str(path)


def test_a_compression_that_was_killed_is_done_again(store: ChatStore) -> None:
    _, _, path = answered(store)
    path.with_name(path.name + ".gz").write_bytes(b"\x1f\x8b half")
    whole = read(path)
    store.tidy()
    assert not path.exists()
    assert read(path) == whole


def test_expired_traces_are_deleted_and_messages_stay(store: ChatStore, clock: Clock) -> None:
    conversation, _, old = answered(store)
    clock.now += 10 * DAY
    _, _, new = answered(store)
    store.traces.retention = Retention(days=5)
    store.tidy(requested=True)
    assert read(new)
    assert there(old) == []
    message = store.open(conversation).path[-1]
    assert message.trace is None
    assert message.text
    assert conversation not in store.traces.bytes_by_conversation()


@pytest.mark.parametrize("of", ["a chat", "a comparison"])
def test_expired_traces_are_deleted_at_the_second_start(store: ChatStore, clock: Clock, of: str) -> None:
    store.import_traces()
    path = compared(store) if of == "a comparison" else answered(store)[2]
    store.traces.retention = Retention(days=5)
    for _ in range(2):
        store.tidy()
        assert read(path)
        clock.now += 20 * DAY
    store.tidy()
    assert there(path) == []


def test_a_retention_has_limits_of_its_own() -> None:
    assert Retention(bytes=10**300).days is None
    with pytest.raises(ValueError, match="days"):
        Retention(days=-1)


def test_traces_of_comparisons_count_and_are_compressed_like_those_of_chats(store: ChatStore) -> None:
    store.import_traces()
    conversation, _, path = answered(store)
    other = compared(store)
    whole, size = read(other), other.stat().st_size
    assert store.traces.bytes_of_unreferenced() == size
    assert store.traces.bytes() == store.traces.bytes_by_conversation()[conversation] + size
    store.tidy()
    assert there(path) == there(other) == [".jsonl.gz"]
    assert read(other) == whole
    assert store.traces.bytes_of_unreferenced() < size / 5
    assert store.traces.bytes() == store.traces.bytes_by_conversation()[conversation] + store.traces.bytes_of_unreferenced()


def test_traces_of_comparisons_and_chats_are_deleted_by_size_and_age_oldest_first(store: ChatStore, clock: Clock) -> None:
    store.import_traces()
    paths = []
    for _ in range(3):
        paths.append(answered(store)[2])
        clock.now += DAY
        paths.append(compared(store))
        clock.now += DAY
    store.tidy()
    each = store.traces.bytes() // 6
    store.traces.retention = Retention(bytes=int(3.5 * each))
    store.tidy()
    assert [bool(there(path)) for path in paths] == [False, False, False, True, True, True]
    assert store.traces.bytes() <= 3.5 * each
    store.traces.retention = Retention(bytes=10**300)
    store.tidy()
    assert all(map(there, paths[3:]))
    store.traces.retention = Retention(days=2.5)
    store.tidy(requested=True)
    assert [bool(there(path)) for path in paths[3:]] == [False, True, True]


def test_both_limits_scan_the_folder_once_and_count_compressed_sizes(
    store: ChatStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.import_traces()
    paths = []
    for _ in range(2):
        for make in (compared, lambda store: answered(store)[2]):
            paths.append(make(store))
            clock.now += DAY
    size = paths[0].stat().st_size
    store.traces.retention = Retention(days=3.5, bytes=size)
    looks: list[Path] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: looks.append(folder) or scandir(folder))
    store.tidy(requested=True)
    assert looks.count(store.traces.folder) == 1
    assert [there(path) for path in paths] == [[], *[[".jsonl.gz"]] * 3], "three take less than one did"
    store.traces.retention = Retention(days=3.5, bytes=int(2.5 * store.traces.bytes() / 3))
    store.tidy(requested=True)
    assert [bool(there(path)) for path in paths] == [False, False, True, True]


def test_a_trace_that_an_answer_may_still_add_to_is_left_alone(store: ChatStore, clock: Clock) -> None:
    store.import_traces()
    store.traces.retention = Retention(days=0, bytes=0)
    path = store.traces.new_path()
    writer = Writer(path, HEADER)
    for index in range(2):
        writer.round(make_round(index, [" so"], " on"))
        os.utime(path, (clock.now, clock.now))
        clock.now += DAY / 2
        store.tidy(requested=True)
        assert there(path) == [".jsonl"]
        assert store.traces.bytes_of_unreferenced() == path.stat().st_size
    writer.close()
    store.traces.retention = Retention()
    clock.now += DAY
    store.tidy(requested=True)
    assert there(path) == [".jsonl.gz"], "whoever wrote it was killed long ago"
    assert len(read(path).rounds) == 2


def test_traces_that_may_become_chats_are_left_alone_until_they_have(store: ChatStore) -> None:
    rounds = [make_round(0, [" so"], " on", finish="eos")]
    path, other = write_trace(store.traces.new_path(), rounds), compared(store)
    store.traces.retention = Retention(days=0, bytes=0)
    store.tidy(requested=True)
    assert there(path) == there(other) == [".jsonl"]
    store.traces.retention = Retention()
    assert store.import_traces() == 1
    store.tidy(requested=True)
    assert there(path) == there(other) == [".jsonl.gz"]


def test_nothing_else_in_the_folder_of_the_traces_is_touched_or_counted(store: ChatStore, tmp_path: Path) -> None:
    store.import_traces()
    rounds = [make_round(0, [" so"], " on", finish="eos")]
    trace = compared(store)
    folder = store.traces.folder
    names = ["mine.jsonl", "20261121-120000-abcdef.json", "20261321-120000-abcdef.jsonl", f"copy of {trace.name}", "notes.txt"]
    files = [write_trace(folder / name, rounds) for name in names]
    files.append(write_trace(folder / "old" / trace.name, rounds))
    files.append(write_trace(tmp_path / trace.name, rounds))
    link, place = store.traces.new_path(), store.traces.new_path()
    link.symlink_to(files[-1])
    place.mkdir()
    store.tidy(requested=True)
    assert store.traces.bytes() == trace.with_name(f"{trace.name}.gz").stat().st_size
    store.traces.retention = Retention(days=0, bytes=0)
    store.tidy(requested=True)
    assert there(trace) == []
    assert all(read(path).missing is None for path in [*files, link])
    assert place.is_dir()


def test_the_name_of_a_trace_says_when_it_was_begun(store: ChatStore, clock: Clock) -> None:
    assert named_at(store.traces.new_path().name) == int(clock.now)


def test_a_trace_is_deleted_with_the_last_conversation_that_shares_it(store: ChatStore, tmp_path: Path) -> None:
    conversation, _, path = answered(store)
    copy = store.duplicate(conversation)
    store.purge([conversation])
    assert store.open(copy).path[-1].trace == str(path)
    assert read(path)
    store.purge([copy])
    assert list((tmp_path / "traces").iterdir()) == []


def test_a_trace_that_lies_elsewhere_is_never_touched(store: ChatStore, tmp_path: Path) -> None:
    conversation = store.create(ChatSettings())
    prompt = store.add_message(conversation, None, "user", "prompt")
    path = write_trace(tmp_path / "mine" / "answer.jsonl", story_rounds())
    begun = store.begin_answer(conversation, prompt, Making())
    store.finish_answer(begun.message, "complete", "text", trace_path=str(path))
    store.tidy()
    store.purge([conversation])
    assert path.exists()


def test_interrupted_answer_is_recovered_from_its_trace(tmp_path: Path) -> None:
    store = ChatStore(tmp_path)
    conversation = store.create(ChatSettings())
    prompt = store.add_message(conversation, None, "user", "prompt")
    begun, silent = (store.begin_answer(conversation, prompt, Making("SmolLM2")) for _ in range(2))
    writer = Writer(Path(begun.trace_path), HEADER)
    for index in range(3):
        writer.round(make_round(index, [" so"], " on"))
    with ChatStore(tmp_path) as other:
        assert other.open(conversation).by_id[begun.message].state == "running", "its writer is still there"
        assert other.notes == []
    writer.close()
    store.close()
    with ChatStore(tmp_path) as other:
        answer = other.open(conversation).by_id[begun.message]
        assert (answer.state, answer.text) == ("interrupted", " so on" * 3)
        assert answer.made is not None
        assert (answer.made.figures.tokens, answer.made.settings.options.seed) == (6, 5)
        assert other.open(conversation).by_id[silent.message].text == ""
        (note,) = other.notes
        assert "2 answers were interrupted" in note and "Continue" in note


def test_interrupted_answers_do_not_keep_chats_from_opening_while_another_writes(tmp_path: Path) -> None:
    with ChatStore(tmp_path) as store:
        conversation = store.create(ChatSettings())
        prompt = store.add_message(conversation, None, "user", "prompt")
        begun = store.begin_answer(conversation, prompt, Making("SmolLM2"))
    with database(tmp_path) as other:
        other.execute("BEGIN IMMEDIATE")
        with ChatStore(tmp_path, wait=0.05) as store:
            assert store.open(conversation).by_id[begun.message].state == "running"
    with ChatStore(tmp_path) as store:
        assert store.open(conversation).by_id[begun.message].state == "interrupted"


def test_earlier_traces_become_conversations_once(store: ChatStore, tmp_path: Path) -> None:
    folder = tmp_path / "traces"
    first = [("user", "How are you?"), ("assistant", "Fine.")]

    def trace(
        name: str,
        minute: int,
        prompt: str,
        answer: str,
        key: str = "window-0",
        history: Sequence[tuple[str, str]] = (),
        **header: object,
    ) -> None:
        rounds = [make_round(0, [], answer, finish="eos")]
        created = f"2026-11-21T{12 + minute // 60}:{minute % 60:02}:00.000+00:00"
        write_trace(folder / name, rounds, prompt, history=history, created=created, conversation=key, **header)

    trace("1.jsonl", 0, "How are you?", "Fine.")
    trace("2.jsonl", 1, "How are you?", "Well.")
    trace("3.jsonl", 2, "Good.", "Thanks.", history=[("system", "Be kind."), *first])
    trace("4.jsonl", 3, "How are you?", "Alone.", key="")
    trace("5.jsonl", 4, "How are you?", "Alone again.", key="")
    trace("later.jsonl", 100, "How are you?", "Later.")
    trace("compared.jsonl", 5, "How are you?", "A column.", key="", kept=False)
    (folder / "6.jsonl").write_text("{}\n")
    (folder / "7.jsonl").write_bytes((folder / "1.jsonl").read_bytes()[:100])
    assert store.import_traces() == 4
    assert store.import_traces() == 0
    (note,) = store.notes
    assert f"{folder}/6.jsonl is not a Draftlight trace" in note and "1 more" in note
    later, alone_again, alone, chat = sorted(store.conversations(), key=lambda each: -each.created)
    assert [message.text for message in store.open(alone.id).path] == ["How are you?", "Alone."]
    assert store.open(later.id).path[-1].text == "Later.", "more than an hour after the others of that name"
    assert store.open(alone_again.id).path[-1].text == "Alone again."
    opened = store.open(chat.id)
    assert sorted(message.text for message in opened.messages) == ["Fine.", "Good.", "How are you?", "Thanks.", "Well."]
    thanks = next(message for message in opened.messages if message.text == "Thanks.")
    assert [message.text for message in opened.path_to(thanks.id)] == ["How are you?", "Fine.", "Good.", "Thanks."]
    assert chat.title == "How are you?"
    assert thanks.made is not None
    assert (thanks.made.model, thanks.state) == ("SmolLM2-135M-Instruct", "complete")
    assert read(thanks.trace or "").rounds
    store.traces.retention = Retention(days=1, bytes=None)
    store.tidy(requested=True)
    assert (folder / "1.jsonl").exists() and read(thanks.trace or "").rounds, "files of the user's own names are theirs"
