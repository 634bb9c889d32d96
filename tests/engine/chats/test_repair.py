"""A damaged file is set aside, never thrown away, and everything in it that can be read lives on in a new one."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.chats import ChatsDamaged, ChatSettings, ChatStore, Making, Retention
from tests.app.fakes import make_round
from tests.engine.chats.homes import database, is_sound
from tests.traces import write_trace

PAGE = 4096

CONVERSATIONS, TURNS = 12, 20


@pytest.fixture(autouse=True)
def _damage_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """What cannot be read is noted in the log, which is no fault of these tests."""
    yield
    assert all(record.name == "engine.chats.repair" for record in caplog.records)
    caplog.clear()


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, str]]:
    """A data folder with chats of some hundred pages, and the texts of their messages."""
    home, texts = tmp_path_factory.mktemp("furnished"), dict[int, str]()
    chance = random.Random(5)
    with ChatStore(home) as store, store.together():
        store.traces.retention = Retention(days=9)
        for index in range(CONVERSATIONS):
            conversation = store.create(ChatSettings(system=f"system {index}"), title=f"title {index}")
            parent = None
            for turn in range(TURNS):
                text = " ".join(f"word{chance.randrange(1000)}" for _ in range(chance.choice((5, 50, 800))))
                parent = store.add_message(conversation, parent, "assistant" if turn % 2 else "user", text)
                texts[parent] = text
    with database(home) as rows:
        rows.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return home, texts


@pytest.fixture
def texts(furnished: tuple[Path, dict[int, str]], tmp_path: Path) -> dict[int, str]:
    """The texts of the messages in `tmp_path`, a copy of the furnished folder."""
    home, texts = furnished
    shutil.copytree(home, tmp_path, dirs_exist_ok=True)
    return texts


def kept(store: ChatStore) -> dict[int, str]:
    """The texts of all messages."""
    return {message.id: message.text for each in store.conversations() for message in store.open(each.id).messages}


def pages_of(home: Path, table: str) -> list[int]:
    """The pages, from 0 on, that a table's rows lie in."""
    with database(home) as rows:
        query = "SELECT pageno - 1 FROM dbstat WHERE name = ? AND pagetype = 'leaf'"
        return [page for (page,) in rows.execute(query, [table])]


def overwrite(path: Path, start: int, content: bytes) -> None:
    """Puts other bytes into a file."""
    with path.open("r+b") as file:
        file.seek(start)
        file.write(content)


@pytest.mark.parametrize("length", [16, 100], ids=["its name", "the whole header"])
def test_a_file_whose_beginning_is_overwritten_comes_back_whole(texts: dict[int, str], tmp_path: Path, length: int) -> None:
    overwrite(tmp_path / "chats" / "chats.db", 0, b"\xa5" * length)
    with ChatStore(tmp_path) as store:
        (note,) = store.notes
        assert f"{CONVERSATIONS} conversations with {len(texts)} messages could be read" in note
        assert kept(store) == texts
        assert sorted(each.title for each in store.conversations()) == sorted(f"title {n}" for n in range(CONVERSATIONS))
        assert store.traces.retention == Retention(days=9)
        assert store.search(texts[1].split()[0])
        (aside,) = store.folder.glob("chats-damaged-*.db")
        assert aside.read_bytes().startswith(b"\xa5" * length)
        assert str(aside) in note
    with ChatStore(tmp_path) as store:
        assert store.notes == []
        assert kept(store) == texts


def test_messages_in_sound_pages_are_kept_when_others_are_damaged(texts: dict[int, str], tmp_path: Path) -> None:
    pages = pages_of(tmp_path, "messages")
    hurt = pages[len(pages) // 2]
    overwrite(tmp_path / "chats" / "chats.db", hurt * PAGE, b"\xff" * PAGE)
    with ChatStore(tmp_path) as store, pytest.raises(ChatsDamaged, match=r"Quit every Draftlight and start it again"):
        kept(store)
    with ChatStore(tmp_path) as store:
        (note,) = store.notes
        assert "could not be read" in note
        found = kept(store)
        lost = [number for number in texts if found.get(number) != texts[number]]
        assert 0 < len(lost) < 40, "a page holds a few dozen short messages at most"
        assert all(found[number] == "(This message could not be read.)" for number in lost if number in found)
        assert is_sound(tmp_path)
        for each in store.conversations():
            assert all(
                message.parent is None or message.parent in store.open(each.id).by_id for message in store.open(each.id).messages
            )
        store.add_message(1, 1, "assistant", "and on it goes")


@pytest.mark.parametrize("wrong", [0.0, 1e9], ids=["as it should", "once years ahead"])
def test_weekly_check_finds_unread_damage(texts: dict[int, str], tmp_path: Path, wrong: float) -> None:
    if wrong:
        with ChatStore(tmp_path, clock=lambda: time.time() + wrong) as store:
            store.tidy()
    overwrite(tmp_path / "chats" / "chats.db", pages_of(tmp_path, "messages")[-2] * PAGE + 4, b"\xff" * 64)
    with ChatStore(tmp_path) as store:
        assert store.notes == []
        with pytest.raises(ChatsDamaged):
            store.tidy()
    with ChatStore(tmp_path) as store:
        assert "rebuilt" in store.notes[0]
        store.tidy()


def test_unreadable_file_is_rebuilt_from_traces(tmp_path: Path) -> None:
    with ChatStore(tmp_path) as store:
        conversation = store.create(ChatSettings())
        prompt = store.add_message(conversation, None, "user", "Tell me a story.")
        begun = store.begin_answer(conversation, prompt, Making("SmolLM2"))
        write_trace(Path(begun.trace_path), [make_round(0, [" Once"], " upon"), make_round(1, [" a"], " time", finish="eos")])
        store.finish_answer(begun.message, "complete", " Once upon a time", trace_path=begun.trace_path)
        store.import_traces()
        store.tidy()
    (tmp_path / "chats" / "chats.db").write_bytes(random.Random(1).randbytes(50_000))
    with ChatStore(tmp_path) as store:
        assert "0 conversations with 0 messages" in store.notes[0]
        assert store.import_traces() == 1
        (listed,) = store.conversations()
        assert [message.text for message in store.open(listed.id).path] == ["Tell me a story.", " Once upon a time"]


def test_a_file_that_another_has_open_is_not_touched(texts: dict[int, str], tmp_path: Path) -> None:
    with ChatStore(tmp_path):
        overwrite(tmp_path / "chats" / "chats.db", 0, b"\xa5" * 16)
        with pytest.raises(ChatsDamaged, match="another Draftlight has them open"):
            ChatStore(tmp_path)
    assert not list((tmp_path / "chats").glob("chats-damaged-*"))
    with ChatStore(tmp_path) as store:
        assert "rebuilt" in store.notes[0]


def test_a_repair_that_was_killed_before_its_last_step_is_finished(texts: dict[int, str], tmp_path: Path) -> None:
    file = tmp_path / "chats" / "chats.db"
    file.rename(file.with_suffix(".rebuilt"))
    with ChatStore(tmp_path) as store:
        assert kept(store) == texts


def test_chats_of_a_later_version_are_left_alone(texts: dict[int, str], tmp_path: Path) -> None:
    with database(tmp_path) as rows:
        rows.execute("PRAGMA user_version = 99")
    before = (tmp_path / "chats" / "chats.db").read_bytes()
    with pytest.raises(Exception, match=r"later version of Draftlight\. Use that version"):
        ChatStore(tmp_path)
    assert (tmp_path / "chats" / "chats.db").read_bytes() == before


@pytest.mark.parametrize("seed", range(3))
def test_any_damage_ends_in_usable_chats(texts: dict[int, str], tmp_path: Path, seed: int) -> None:
    """Bytes are overwritten anywhere: the chats open, with a note or without, and what is read is what was written."""
    chance, file = random.Random(seed), tmp_path / "chats" / "chats.db"
    for _ in range(chance.choice((1, 5))):
        overwrite(file, chance.randrange(file.stat().st_size), chance.randbytes(chance.choice((1, 40, 3000))))
    for _ in range(2):  # what is met in use is mended at the next start
        try:
            with ChatStore(tmp_path) as store:
                found = kept(store)
                store.add_message(store.create(ChatSettings()), None, "user", "new")
                store.tidy()
                break
        except ChatsDamaged:
            continue
    else:
        pytest.fail("the chats do not work again")
    wrong = [number for number, text in found.items() if number in texts and text != texts[number]]
    assert len(found) > len(texts) // 2
    assert len(wrong) < 40
