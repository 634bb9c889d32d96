"""What is written and not sent is kept with its chat, goes with it, and is no part of what was said."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.chats import ChatSettings, ChatStore, to_json, to_markdown
from engine.chats.schema import MIGRATIONS
from engine.values.errors import DraftlightError
from tests.engine.chats.homes import database


def chat(store: ChatStore) -> tuple[int, int]:
    """A chat and its prompt."""
    number = store.create(ChatSettings())
    return number, store.add_message(number, None, "user", "said")


def unsent(store: ChatStore, conversation: int | None) -> list[tuple[int | None, str]]:
    """What is written for a conversation, each text with the prompt that it is to stand in place of."""
    return [(each.prompt, each.text) for each in store.unsent.take(conversation)]


def kept_bytes(home: Path) -> bytes:
    """All that is on the disk of the chats."""
    return b"".join(path.read_bytes() for path in sorted((home / "chats").glob("chats*")))


def test_unsent_text_is_stored_for_chats_prompts_and_new_chats(tmp_path: Path) -> None:
    with ChatStore(tmp_path) as store:
        (one, prompt), (other, _) = chat(store), chat(store)
        number = store.unsent.keep(None, one, None, "half")
        assert store.unsent.keep(number, one, None, "half a message\n\0 \ud83d") == number
        store.unsent.keep(None, one, prompt, "said otherwise")
        store.unsent.keep(None, None, None, "new")
        gone = store.unsent.keep(None, other, None, "sent soon")
        assert store.unsent.keep(gone, other, None, "") is None
    with ChatStore(tmp_path) as again:
        assert unsent(again, one) == [(None, "half a message\n\0 \\ud83d"), (prompt, "said otherwise")]
        assert (unsent(again, None), unsent(again, other)) == ([(None, "new")], [])


def test_text_of_another_open_store_is_left_alone(tmp_path: Path) -> None:
    with ChatStore(tmp_path) as third:
        with ChatStore(tmp_path) as one, ChatStore(tmp_path) as other:
            number, _ = chat(one)
            one.unsent.keep(None, number, None, "first")
            other.unsent.keep(None, number, None, "second")
            assert (unsent(one, number), unsent(other, number)) == ([(None, "first")], [(None, "second")])
            assert unsent(third, number) == []
        assert unsent(third, number) == [(None, "first"), (None, "second")], "both are closed"
        with ChatStore(tmp_path) as late:
            assert unsent(late, number) == [], "the third has taken them"


def test_text_taken_by_another_store_is_left_alone_by_its_writer(tmp_path: Path) -> None:
    """As a window does whose store was damaged and is opened anew."""
    with ChatStore(tmp_path) as one:
        number, _ = chat(one)
        kept, cleared = one.unsent.keep(None, number, None, "first"), one.unsent.keep(None, number, None, "second")
    with ChatStore(tmp_path) as again:
        assert again.unsent.keep(kept, number, None, "first, longer") == kept, "nobody else has it"
    with ChatStore(tmp_path) as other:
        taken = unsent(other, number)
        assert taken == [(None, "second"), (None, "first, longer")]
        with ChatStore(tmp_path) as again:
            assert again.unsent.keep(kept, number, None, "first, otherwise") != kept
            again.unsent.keep(cleared, number, None, "")
        assert unsent(other, number) == [*taken, (None, "first, otherwise")]


def test_unsent_text_is_read_from_a_read_only_file(tmp_path: Path) -> None:
    with ChatStore(tmp_path) as store:
        number, _ = chat(store)
        store.unsent.keep(None, number, None, "half")
    with ChatStore(tmp_path, wait=0.05) as store, database(tmp_path) as other:
        other.execute("BEGIN IMMEDIATE")
        assert unsent(store, number) == [(None, "half")]
        other.execute("ROLLBACK")


def test_unsent_text_is_deleted_and_restored_with_its_chat(store: ChatStore, tmp_path: Path) -> None:
    number, prompt = chat(store)
    kept = store.unsent.keep(None, number, None, "a secret half")
    store.unsent.keep(None, number, prompt, "a secret other")
    store.delete(number)
    store.restore(number)
    assert unsent(store, number) == [(None, "a secret half"), (prompt, "a secret other")]
    store.purge([number])
    assert unsent(store, number) == [] and b"a secret" not in kept_bytes(tmp_path)
    for conversation, prompted in ((number, None), (chat(store)[0], prompt)):
        with pytest.raises(DraftlightError) as told:
            store.unsent.keep(kept, conversation, prompted, "more")
        assert type(told.value) is DraftlightError, "trying again would not help"
    assert b"more" not in kept_bytes(tmp_path)
    other, _ = chat(store)
    assert store.unsent.keep(None, other, None, "elsewhere") != kept, "no number means two texts"


def test_cleared_unsent_text_leaves_the_disk(store: ChatStore, tmp_path: Path) -> None:
    number = store.unsent.keep(None, None, None, "a secret half")
    assert b"a secret" in kept_bytes(tmp_path)
    store.unsent.keep(number, None, None, "")
    assert b"a secret" not in kept_bytes(tmp_path)


def test_unsent_text_is_not_part_of_the_conversation(store: ChatStore) -> None:
    number, prompt = chat(store)
    store.unsent.keep(None, number, None, "half")
    store.unsent.keep(None, number, prompt, "half")
    copy = store.duplicate(number)
    assert unsent(store, copy) == [] and not store.search("half")
    whole = store.open(number)
    assert "half" not in str(to_json([whole])) and "half" not in to_markdown([whole])


def test_file_of_an_earlier_version_gets_the_table_and_stays_readable_there(tmp_path: Path) -> None:
    with ChatStore(tmp_path) as store:
        number, _ = chat(store)
    with database(tmp_path) as rows:
        rows.execute("DROP TABLE unsent")
    with ChatStore(tmp_path) as store:
        store.unsent.keep(None, number, None, "half")
    with database(tmp_path) as rows:
        assert rows.execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS) == 1
        rows.execute("PRAGMA foreign_keys = ON")
        rows.execute("DELETE FROM messages WHERE conversation = ?", [number])  # as the earlier one deletes a chat for good
        rows.execute("DELETE FROM conversations WHERE id = ?", [number])
        assert rows.execute("SELECT count(*) FROM unsent").fetchone()[0] == 0


def test_a_file_of_an_earlier_version_is_read_where_nothing_can_be_written(tmp_path: Path) -> None:
    with ChatStore(tmp_path) as store:
        number, _ = chat(store)
    with database(tmp_path) as rows:
        rows.execute("DROP TABLE unsent")
        rows.execute("BEGIN IMMEDIATE")
        with ChatStore(tmp_path, wait=0.05) as store:
            assert [each.text for each in store.open(number).messages] == ["said"]
            rows.execute("ROLLBACK")
            store.unsent.keep(None, number, None, "half")
            assert unsent(store, number) == [(None, "half")]


@pytest.mark.parametrize("earlier", [False, True])
def test_damaged_file_is_rebuilt_with_unsent_texts(tmp_path: Path, earlier: bool, caplog: pytest.LogCaptureFixture) -> None:
    with ChatStore(tmp_path) as store:
        number, prompt = chat(store)
        store.unsent.keep(None, number, prompt, "said otherwise")
        store.unsent.keep(None, None, None, "new")
    if earlier:
        with database(tmp_path) as rows:
            rows.execute("DROP TABLE unsent")
    with (tmp_path / "chats" / "chats.db").open("r+b") as file:
        file.write(b"\xa5" * 16)
    with ChatStore(tmp_path) as store:
        (note,) = store.notes
        assert "1 conversation with 1 message could be read. The damaged file" in note
        assert unsent(store, number) == ([] if earlier else [(prompt, "said otherwise")])
        assert unsent(store, None) == ([] if earlier else [(None, "new")])
    caplog.clear()
