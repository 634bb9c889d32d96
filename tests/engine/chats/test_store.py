"""Conversations and their trees: nothing that was written gets lost, whatever is done, in whatever order."""

from __future__ import annotations

import os
import random
import sqlite3
import stat
import subprocess
import sys
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.chats import (
    RESTORABLE_DAYS,
    ChatsBusy,
    ChatSettings,
    ChatsNotSaved,
    ChatStore,
    ChatSummary,
    Conversation,
    Figures,
    Making,
    StoredMessage,
)
from engine.chats.values import UNTITLED
from engine.types import DecodingOptions
from engine.values.errors import DraftlightError
from tests.engine.chats.homes import DAY, Clock, database, is_sound

SETTINGS = ChatSettings(
    "Be brief.", "builtin", "ngram", DecodingOptions(rule="block", gamma="auto", seed=7, stop=("end",)), True, "on"
)
MADE = Making("SmolLM2", SETTINGS, Figures(12, 0.5, 24.0, 0.75, 2.5, 30, 0.125))


def held(store: ChatStore, *texts: str) -> tuple[int, list[int]]:
    """A conversation of these prompts and answers in turn, and the numbers of its messages."""
    conversation = store.create(SETTINGS)
    numbers: list[int] = []
    for index, text in enumerate(texts):
        parent = numbers[-1] if numbers else None
        role = "assistant" if index % 2 else "user"
        numbers.append(store.add_message(conversation, parent, role, text))  # type: ignore[arg-type]
    return conversation, numbers


def texts(conversation: Conversation) -> list[str]:
    """What shows."""
    return [message.text for message in conversation.path]


def test_saved_chats_are_there_when_opened_again(tmp_path: Path) -> None:
    with ChatStore(tmp_path) as store:
        conversation = store.create(SETTINGS, folder="Work")
        prompt = store.add_message(conversation, None, "user", "What is\tspeculative decoding?\nIn short.")
        begun = store.begin_answer(conversation, prompt, Making("SmolLM2", SETTINGS))
        store.finish_answer(begun.message, "length", "A draft \ud800 and 😀\0", MADE, begun.trace_path)
        store.pin(conversation)
    with ChatStore(tmp_path) as store:
        (listed,) = store.conversations()
        assert listed.title == "What is speculative decoding?"
        assert (listed.pinned, listed.folder, listed.named) == (True, "Work", False)
        opened = store.open(conversation)
        assert opened.settings == SETTINGS
        question, answer = opened.path
        assert (question.role, question.text) == ("user", "What is\tspeculative decoding?\nIn short.")
        assert (answer.state, answer.text, answer.made) == ("length", "A draft \\ud800 and 😀\0", MADE)
        assert answer.trace == begun.trace_path
        assert opened.settings.system == "Be brief." and opened.path_to(answer.id) == [question, answer]


def test_only_the_user_can_read_the_files(store: ChatStore) -> None:
    held(store, "secret")
    for path in store.folder.parent.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_another_answer_and_an_edited_prompt_stand_beside_the_old_ones(store: ChatStore) -> None:
    conversation, (first, answer, second) = held(store, "one", "ein", "two")
    again = store.add_message(conversation, first, "assistant", "uno")
    assert texts(store.open(conversation)) == ["one", "uno"]
    edited = store.add_message(conversation, None, "user", "One?")
    assert texts(store.open(conversation)) == ["One?"]
    store.choose(second)
    opened = store.open(conversation)
    assert texts(opened) == ["one", "ein", "two"], "the way to a message shows with it, and what was behind an answer is there"
    assert [each.id for each in opened.siblings(answer)] == [answer, again]
    assert [each.id for each in opened.siblings(first)] == [first, edited]


def test_titles_come_from_the_first_prompt_unless_the_user_gives_one(store: ChatStore) -> None:
    conversation, _ = held(store, "\n\n  Why is   the sky blue, and why is it red in the evening when the sun goes down?\nThanks")
    about = store.open(conversation).about
    assert about.title == "Why is the sky blue, and why is it red in the evening when…"
    store.rename(conversation, "  Sky \n colours ")
    store.add_message(conversation, None, "user", "something else")
    assert store.open(conversation).about.title == "Sky colours"
    store.rename(conversation, "")
    again = store.open(conversation).about
    assert again == replace(about, updated=again.updated)
    named = store.create(SETTINGS, title="Mine")
    store.add_message(named, None, "user", "prompt")
    assert store.open(named).about.title == "Mine"


@pytest.mark.parametrize("stays", [False, True])
def test_a_refused_prompt_gives_no_title_and_the_first_answered_one_does(store: ChatStore, stays: bool) -> None:
    conversation, (refused,) = held(store, "far too long")
    store.finish_answer(store.begin_answer(conversation, refused, MADE).message, "failed", "")
    assert store.open(conversation).about.title == UNTITLED
    if not stays:
        store.delete_message(refused)
        store.delete(conversation)
    prompt = store.add_message(conversation, None, "user", "short enough")
    store.finish_answer(store.begin_answer(conversation, prompt, MADE).message, "complete", "Yes.")
    assert store.open(conversation).about.title == "short enough"
    later = store.add_message(conversation, store.open(conversation).path[-1].id, "user", "too long again")
    store.finish_answer(store.begin_answer(conversation, later, MADE).message, "failed", "")
    assert store.open(conversation).about.title == "short enough"


def test_a_refused_prompt_that_is_answered_at_last_gives_the_title(store: ChatStore) -> None:
    conversation, (prompt,) = held(store, "one")
    store.finish_answer(store.begin_answer(conversation, prompt, MADE).message, "failed", "")
    store.finish_answer(store.begin_answer(conversation, prompt, MADE).message, "stopped", "ein")
    assert store.open(conversation).about.title == "one"
    store.rename(conversation, "Mine")
    store.finish_answer(store.begin_answer(conversation, prompt, MADE).message, "failed", "")
    assert store.open(conversation).about.title == "Mine"


def test_the_list_has_pinned_ones_first_and_then_the_newest(store: ChatStore) -> None:
    old, (prompt,) = held(store, "old")
    middle, _ = held(store, "middle")
    new, _ = held(store, "new")
    store.pin(middle)
    assert [each.id for each in store.conversations()] == [middle, new, old]
    store.add_message(old, prompt, "assistant", "answer")
    assert [each.id for each in store.conversations()] == [middle, old, new]
    assert [each.id for each in store.conversations(limit=2)] == [middle, old]
    store.move(new, " Play ")
    store.move(old, "Work")
    assert [each.id for each in store.conversations(folder="Play")] == [new]


def test_deleted_chats_and_messages_can_be_restored(store: ChatStore, clock: Clock) -> None:
    conversation, (first, answer, second) = held(store, "one", "ein", "two")
    store.delete_message(second)
    store.delete_message(first)
    assert store.open(conversation).messages == ()
    with pytest.raises(DraftlightError, match="deleted"):
        store.add_message(conversation, answer, "user", "on a deleted one")
    with pytest.raises(DraftlightError, match="before it"):
        store.restore_message(second)
    store.restore_message(first)
    assert texts(store.open(conversation)) == ["one", "ein"], "what had been deleted before stays so"
    store.restore_message(second)
    store.delete(conversation)
    assert store.conversations() == ()
    assert [each.id for each in store.conversations(deleted=True)] == [conversation]
    clock.now += (RESTORABLE_DAYS - 1) * DAY
    store.tidy()
    store.restore(conversation)
    assert texts(store.open(conversation)) == ["one", "ein", "two"]
    store.delete(conversation)
    for days in (RESTORABLE_DAYS, 1):
        clock.now += days * DAY
        store.tidy()
    with pytest.raises(DraftlightError, match="no conversation"):
        store.restore(conversation)


@pytest.mark.parametrize("days", [1, 21, 200])
def test_expired_chats_are_removed_at_the_second_start_however_rare_starts_are(
    store: ChatStore, tmp_path: Path, clock: Clock, days: int
) -> None:
    conversation, (_, answer) = held(store, "Why?", "So.")
    other, _ = held(store, "What?")
    store.delete_message(answer)
    store.delete(other)
    copy = tmp_path / "chats" / "chats-damaged-1.db"
    copy.touch()
    os.utime(copy, (clock.now, clock.now))
    due = clock.now + RESTORABLE_DAYS * DAY
    found = 0
    while found < 2:
        assert store.conversations(deleted=True) and copy.exists()
        clock.now += days * DAY
        found += clock.now >= due
        store.tidy()
    assert not store.conversations(deleted=True)
    assert not copy.exists()
    with pytest.raises(DraftlightError, match="no message"):
        store.restore_message(answer)
    assert texts(store.open(conversation)) == ["Why?"]


@pytest.mark.parametrize("has_started", [True, False], ids=["after a right start", "at the first start of all"])
def test_clock_that_is_ahead_for_a_day_expires_nothing(store: ChatStore, clock: Clock, has_started: bool) -> None:
    conversation, _ = held(store, "Why?", "So.")
    store.delete(conversation)
    if has_started:
        store.tidy()
    right = clock.now
    clock.now += 730 * DAY
    for _ in range(23):
        store.tidy()
        clock.now += DAY / 24
    clock.now = right
    for days in (1, 10, RESTORABLE_DAYS - 11, 730):
        clock.now += days * DAY - 1
        store.tidy()
    assert [each.id for each in store.conversations(deleted=True)] == [conversation]
    store.restore(conversation)


@pytest.mark.parametrize("gap", [0.1, 3.0])
def test_expired_chats_are_removed_a_day_after_they_were_found_expired(tmp_path: Path, gap: float) -> None:
    """Starts at random times, alone and in clusters, `gap` days apart at most: what is due stays for a day, and for less than
    an hour more."""
    chance, clock = random.Random(7), Clock()
    with ChatStore(tmp_path, clock=clock) as store:
        for _ in range(10):
            conversation = store.create(SETTINGS)
            store.delete(conversation)
            due, found = clock.now + RESTORABLE_DAYS * DAY, list[float]()
            clock.now = due - chance.random() * chance.choice([0.01, gap]) * DAY
            while store.conversations(deleted=True):
                clock.now += chance.random() * chance.choice([0.01, gap]) * DAY
                found += [clock.now] if clock.now > due else []
                store.tidy()
            assert found[-1] >= found[0] + DAY
            assert len(found) == 2 or found[-2] < found[0] + DAY + DAY / 24


def test_restoring_an_emptied_chat_restores_its_last_deleted_messages(store: ChatStore, clock: Clock) -> None:
    """As the window deletes a chat with its last message."""
    conversation, (first, _) = held(store, "Why?", "So.")
    asked_else = store.add_message(conversation, None, "user", "How?")
    for message in (asked_else, first):
        store.delete_message(message)
        clock.now += 1
    store.delete(conversation)
    store.restore(conversation)
    assert texts(store.open(conversation)) == ["Why?", "So."]
    store.restore(conversation)
    assert texts(store.open(conversation)) == ["Why?", "So."], "the others were deleted before"
    store.restore_message(asked_else)
    assert len(store.open(conversation).messages) == 3


def test_chat_continued_in_another_window_is_restored(store: ChatStore, tmp_path: Path, clock: Clock) -> None:
    conversation, (_, answer) = held(store, "Why?", "So.")
    store.delete(conversation)
    with ChatStore(tmp_path, clock=clock, wait=0.05) as other:
        other.add_message(conversation, answer, "user", "And then?")
    assert [each.id for each in store.conversations()] == [conversation] and not store.conversations(deleted=True)
    assert [message.text for message in store.open(conversation).path] == ["Why?", "So.", "And then?"]


def test_permanently_deleted_text_leaves_the_files(store: ChatStore) -> None:
    conversation, _ = held(store, "the zanzibarian secret")
    other, _ = held(store, "something else")
    store.purge([conversation])
    assert [each.id for each in store.conversations()] == [other]
    assert not any(b"zanzibar" in path.read_bytes() for path in store.folder.glob("chats.db*"))


def test_a_conversation_of_thousands_of_messages_can_be_opened_copied_and_removed(store: ChatStore) -> None:
    long = Conversation(
        ChatSummary(0, "Long", 1.0, 2.0),
        SETTINGS,
        tuple(StoredMessage(each, each - 1 if each else None, "user", f"m{each}", 3.0) for each in range(3000)),
    )
    (number,) = store.add([long])
    assert number is not None
    opened = store.open(number)
    assert texts(opened) == [f"m{each}" for each in range(3000)]
    copy = store.duplicate(number, opened.path[1999].id)
    assert len(store.open(copy).path) == 2000
    store.delete_message(opened.path[10].id)
    assert len(store.open(number).path) == 10
    store.purge([number, copy])
    assert store.conversations() == ()


def test_terms_are_found_in_titles_and_messages(store: ChatStore) -> None:
    chess, (_, answer) = held(
        store, "How do I open in chess?", "With the *Queen's Gambit*, " + "pawn moves, " * 40 + "or otherwise."
    )
    tea, _ = held(store, "Tea in 北京 today", "Green tea is 100% fine_ly brewed.")
    store.rename(tea, "Queens of tea")

    def hits(query: str) -> list[int]:
        return [hit.about.id for hit in store.search(query)]

    assert hits("gambit") == hits("GAMB que") == [chess]
    assert hits("queen") == [tea, chess], "titles come first"
    assert hits("京") == hits("brewed") == [tea]
    assert hits("checkmate") == hits("chess tea") == hits("") == hits('" * ( %') == []
    assert hits('tea" OR "x') == []
    (hit,) = store.search("otherwise")
    assert hit.message == answer
    assert [hit.excerpt[start:end] for start, end in hit.marks] == ["otherwise"]
    assert len(hit.excerpt) < 170
    store.delete_message(answer)
    assert hits("gambit") == []
    store.restore_message(answer)
    store.delete(chess)
    assert hits("gambit") == []


def test_a_search_stops_at_its_limit(store: ChatStore) -> None:
    for index in range(5):
        held(store, f"apple {index}", "apple apple")
    assert len(store.search("apple", limit=3)) == 3
    assert len(store.search("apple")) == 5


SEEN = [
    ("使用Python编程很有趣", ["Python", "python", "PYTHON", "编程", "使用Python"]),
    ("日本のAI研究について", ["AI", "AI研究"]),
    ("重跑gen-itgc后50条", ["gen", "itgc", "gen-itgc", "50"]),
    ("한국의AI연구", ["AI", "연구", "국의"]),
    (unicodedata.normalize("NFD", "한국의 café"), ["한국", "café", "cafe"]),
    ("แปลด้วยPythonครับ", ["Python", "แปล", "ด้วย"]),
    ("über die Donaudampfschifffahrt, Straße 5", ["dampf", "Uber", "ÜBER", "straße", "STRASSE", "donau 5"]),
    ("v2.0のAPI, C++ and node.js", ["2.0", "API", "C++", "node.js", ".js"]),
    ("if a >= b: x != y # 100%", [">=", "!=", "#", "100%", ":"]),
    ("ＡＩ and ﬁle", ["AI", "file", "ａｉ"]),
    ("**使**用 and `co`de, Donau\u00adschiff", ["使用", "code", "donauschiff"]),
    ("İstanbul, Ελλάδα, Йод", ["istanbul", "ελλαδα", "ΕΛΛΆΔΑ", "йод", "ЙОД"]),
    ("Հայաստան, ՀԱՅԵՐԵՆ, ᲗᲑᲘᲚᲘᲡᲘ, ᎣᏏᏲ", ["հայաստան", "հայերեն", "Հայերեն", "თბილისი", "ꭳꮟᏺ"]),
    ("an ASCII **te**xt with a `wo`rd", ["text", "WORD", "**te**xt", "an ascii", "`word"]),
    ("a ** b, `x`", ["**", "`x`", "* b"]),
    ("a smile 😀 and 👍🏽", ["😀", "👍"]),
    ("[a] (b) \\d+ .* $x^2$", ["[a]", "(b)", "\\d+", ".*", "$x^2$"]),
]


@pytest.mark.parametrize(("text", "queries"), SEEN)
def test_search_finds_visible_text(store: ChatStore, text: str, queries: list[str]) -> None:
    held(store, "z", "z")
    _, (_, answer) = held(store, "z", text)
    for query in queries:
        (hit,) = store.search(query)
        assert hit.message == answer, query
        assert hit.marks, query


def test_similar_text_is_not_found(store: ChatStore) -> None:
    held(store, "C is a language, a > b, 100 of them, axb, the day")
    for query in ("C++", ">=", "100%", "a.b", "the  dax", "day the language b!"):
        assert store.search(query) == (), query


def test_the_search_index_of_earlier_versions_is_removed(tmp_path: Path) -> None:
    with ChatStore(tmp_path) as store:
        held(store, "first words")
    with database(tmp_path) as rows:
        for index, (table, column) in {"titles": ("conversations", "title"), "words": ("messages", "text")}.items():
            rows.executescript(OLD_INDEX.format(index=index, table=table, column=column))
    with ChatStore(tmp_path) as store:
        held(store, "more words")
        assert len(store.search("words")) == 2
    with database(tmp_path) as rows:
        names = {name for (name,) in rows.execute("SELECT name FROM sqlite_master")}
    assert not [name for name in names if name.startswith(("titles", "words"))]


OLD_INDEX = """
CREATE VIRTUAL TABLE {index}
    USING fts5 ({column}, content='{table}', content_rowid='id', tokenize='unicode61 remove_diacritics 2');
CREATE TRIGGER {index}_insert AFTER INSERT ON {table} BEGIN
    INSERT INTO {index} (rowid, {column}) VALUES (new.id, new.{column}); END;
CREATE TRIGGER {index}_delete AFTER DELETE ON {table} BEGIN
    INSERT INTO {index} ({index}, rowid, {column}) VALUES ('delete', old.id, old.{column}); END;
CREATE TRIGGER {index}_update AFTER UPDATE OF {column} ON {table} WHEN old.{column} IS NOT new.{column} BEGIN
    INSERT INTO {index} ({index}, rowid, {column}) VALUES ('delete', old.id, old.{column});
    INSERT INTO {index} (rowid, {column}) VALUES (new.id, new.{column}); END;
INSERT INTO {index} ({index}) VALUES ('rebuild');
"""
"""As 0.2.0 and earlier made it."""


def test_a_copy_is_a_conversation_of_its_own(store: ChatStore) -> None:
    conversation, (first, answer, _second) = held(store, "one", "ein", "two")
    store.add_message(conversation, first, "assistant", "uno")
    copy = store.duplicate(conversation)
    assert store.open(copy).about.title == "one (copy)"
    assert texts(store.open(copy)) == ["one", "uno"]
    assert sorted(message.text for message in store.open(copy).messages) == ["ein", "one", "two", "uno"]
    branch = store.duplicate(conversation, answer)
    assert texts(store.open(branch)) == ["one", "ein"]
    store.purge([conversation])
    assert texts(store.open(copy)) == ["one", "uno"]


def test_import_is_complete_and_unique_or_none(store: ChatStore) -> None:
    whole = Conversation(
        ChatSummary(5, "From elsewhere", 10.0, 20.0, pinned=True, folder="Old", named=True, origin="elsewhere:1"),
        SETTINGS,
        (
            StoredMessage(7, None, "user", "q", 11.0, shown=8),
            StoredMessage(8, 7, "assistant", "a", 12.0, made=MADE),
            StoredMessage(9, 7, "assistant", "b", 13.0, "stopped", continues=8),
        ),
        shown=7,
    )
    (number,) = store.add([whole])
    assert number is not None
    assert store.add([whole]) == [None]
    opened = store.open(number)
    assert opened.about == replace(whole.about, id=number)
    assert texts(opened) == ["q", "a"]
    assert opened.messages[2].continues == opened.messages[1].id
    broken = Conversation(ChatSummary(0, "x", 1.0, 1.0), SETTINGS, (StoredMessage(1, None, "user", "", 1.0, state=[]),))  # type: ignore[arg-type]
    with pytest.raises(DraftlightError):
        store.add([Conversation(ChatSummary(0, "y", 1.0, 1.0), SETTINGS, ()), broken])
    assert len(store.conversations()) == 1


@pytest.mark.parametrize(
    "act",
    [
        lambda store: store.open(99),
        lambda store: store.rename(99, "x"),
        lambda store: store.delete(99),
        lambda store: store.purge([99]),
        lambda store: store.choose(99),
        lambda store: store.delete_message(10**30),
        lambda store: store.finish_answer(99, "complete", "x"),
        lambda store: store.duplicate(99),
    ],
)
def test_missing_numbers_give_a_message(store: ChatStore, act: Callable[[ChatStore], object]) -> None:
    with pytest.raises(DraftlightError):
        act(store)


def test_a_message_follows_one_of_its_own_conversation_only(store: ChatStore) -> None:
    _one, (first,) = held(store, "one")
    other, _ = held(store, "other")
    with pytest.raises(DraftlightError):
        store.add_message(other, first, "assistant", "astray")
    assert len(store.open(other).messages) == 1


def test_two_processes_see_what_the_other_writes(store: ChatStore, tmp_path: Path) -> None:
    conversation, (first,) = held(store, "one")
    before = store.changes()
    script = (
        "import sys; from pathlib import Path; from engine.chats import ChatStore\n"
        "with ChatStore(Path(sys.argv[1])) as store: store.add_message(int(sys.argv[2]), int(sys.argv[3]), 'assistant', 'ein')"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path), str(conversation), str(first)], check=True, timeout=60)
    assert texts(store.open(conversation)) == ["one", "ein"]
    assert store.changes() != before


def test_locked_file_is_awaited_and_then_reported(store: ChatStore, tmp_path: Path) -> None:
    conversation, _ = held(store, "one")
    with database(tmp_path) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ChatsBusy, match=r"locked for 0\.05 seconds"):
            store.add_message(conversation, None, "user", "two")
        assert texts(store.open(conversation)) == ["one"], "reading does not wait"
    store.add_message(conversation, None, "user", "two")


def test_a_full_disk_loses_nothing_that_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connections: list[sqlite3.Connection] = []
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *named, **other: connections.append(connect(*named, **other)) or connections[-1]
    )
    with ChatStore(tmp_path) as store:
        conversation, (first,) = held(store, "one")
        (rows,) = connections
        rows.execute(f"PRAGMA max_page_count = {rows.execute('PRAGMA page_count').fetchone()[0]}")
        with pytest.raises(ChatsNotSaved, match=r"disk is full.*Free some disk space"):
            store.add_message(conversation, first, "assistant", "much " * 100_000)
        assert texts(store.open(conversation)) == ["one"]
        rows.execute("PRAGMA max_page_count = 100000")
        store.add_message(conversation, first, "assistant", "much " * 100_000)
    assert is_sound(tmp_path)


class Model:
    """The same as the store, in plain tables that are never cleaned: what was said, and which acts took it away."""

    def __init__(self) -> None:
        self.messages: dict[int, tuple[int, int | None, str]] = {}
        self.gone: dict[int, int] = {}
        self.conversations: dict[int, bool] = {}

    def alive(self, conversation: int) -> list[int]:
        """The messages of a conversation that are not deleted."""
        return [number for number, (home, _, _) in self.messages.items() if home == conversation and number not in self.gone]

    def below(self, message: int) -> set[int]:
        """A message and all that follow it."""
        found = {message}
        for number, (_, parent, _) in self.messages.items():  # parents come first
            if parent in found:
                found.add(number)
        return found


@pytest.mark.parametrize("seed", range(4))
def test_no_sequence_of_actions_loses_a_message(store: ChatStore, seed: int) -> None:
    chance = random.Random(seed)
    model = Model()

    def start() -> None:
        model.conversations[store.create(SETTINGS)] = True

    def some_conversation() -> int:
        return chance.choice(list(model.conversations))

    def say() -> None:
        conversation = some_conversation()
        parent = chance.choice([None, *model.alive(conversation)])
        text = f"words {chance.random()}"
        number = store.add_message(conversation, parent, chance.choice(("user", "assistant")), text)
        assert store.open(conversation).by_id[number].text == text
        assert number in [message.id for message in store.open(conversation).path_to(number)]
        model.messages[number] = (conversation, parent, text)
        model.conversations[conversation] = True

    def answer() -> None:
        conversation = some_conversation()
        if alive := model.alive(conversation):
            parent = chance.choice(alive)
            begun = store.begin_answer(conversation, parent, MADE)
            store.finish_answer(begun.message, "stopped", f"answer {begun.message}")
            model.messages[begun.message] = (conversation, parent, f"answer {begun.message}")
            model.conversations[conversation] = True

    def delete() -> None:
        if alive := model.alive(some_conversation()):
            message = chance.choice(alive)
            store.delete_message(message)
            for number in model.below(message) - model.gone.keys():
                model.gone[number] = message

    def bring_back() -> None:
        if model.gone:
            act = chance.choice(list(model.gone.values()))
            if model.messages[act][1] in model.gone:
                return
            store.restore_message(act)
            model.gone = {number: by for number, by in model.gone.items() if by != act}

    def choose() -> None:
        conversation = some_conversation()
        if alive := model.alive(conversation):
            message = chance.choice(alive)
            store.choose(message)
            assert message in [each.id for each in store.open(conversation).path]

    def copy() -> None:
        conversation = some_conversation()
        number = store.duplicate(conversation)
        model.conversations[number] = True
        old = store.open(conversation).messages
        new = {before.id: after for before, after in zip(old, store.open(number).messages, strict=True)}
        for message in old:
            parent = None if message.parent is None else new[message.parent].id
            model.messages[new[message.id].id] = (number, parent, message.text)

    def hide_or_show() -> None:
        conversation = some_conversation()
        shown = model.conversations[conversation]
        (store.delete if shown else store.restore)(conversation)
        model.conversations[conversation] = not shown

    acts: list[Callable[[], None]] = [say] * 6 + [answer] * 4 + [delete, bring_back, choose, choose, hide_or_show, store.tidy]
    start()
    for step in range(120):
        chance.choice([*acts, start] if step < 60 else [*acts, copy] if step % 20 == 0 else acts)()
    for conversation, shown in model.conversations.items():
        kept = {message.id: (conversation, message.parent, message.text) for message in store.open(conversation).messages}
        assert kept == {number: model.messages[number] for number in model.alive(conversation)}
        assert shown == (conversation in [each.id for each in store.conversations()])
        path = store.open(conversation).path
        assert [each.parent for each in path] == [None, *[each.id for each in path]][: len(path)]
    assert is_sound(store.folder.parent)
