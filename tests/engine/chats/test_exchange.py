"""Conversations from and for other programs: by the published shapes, and hostile files change nothing."""

from __future__ import annotations

import json
import random
import zipfile
from pathlib import Path
from typing import Any

import pytest

from engine.chats import (
    ChatSettings,
    ChatStore,
    Conversation,
    Figures,
    Making,
    StoredMessage,
    may_hold_chats,
    read_chats,
    to_json,
    to_markdown,
)
from engine.types import DecodingOptions
from engine.values.errors import DraftlightError

SETTINGS = ChatSettings("Be brief.", "builtin", "ngram", DecodingOptions(rule="block", gamma="auto"), True, "on")
MADE = Making("SmolLM2", SETTINGS, Figures(12, 0.5, 24.0, 0.75, 2.5, 30, 0.125))


def written(path: Path, document: object) -> Path:
    """The document as a file."""
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def node(name: str, parent: str | None, children: list[str], role: str = "", *parts: object, **message: Any) -> dict[str, Any]:
    """A node of ChatGPT's mapping."""
    content = {"content_type": "text", "parts": list(parts)}
    said = {"id": name, "author": {"role": role, "name": None, "metadata": {}}, "create_time": 1700000001.5, "content": content}
    return {"id": name, "message": {**said, **message} if role else None, "parent": parent, "children": children}


CHATGPT = [
    {
        "title": "Blue sky",
        "create_time": 1700000000.25,
        "update_time": 1700000100.0,
        "current_node": "again",
        "conversation_id": "6553c0de",
        "mapping": {
            "root": node("root", None, ["system"]),
            "system": node("system", "root", ["ask", "edited"], "system", ""),
            "again": node("again", "tool", [], "assistant", "Scattering.", metadata={"model_slug": "gpt-4"}),
            "edited": node("edited", "system", [], "user", "Why is it *blue*?"),
            "ask": node("ask", "system", ["first", "tool"], "user", "Why?", {"content_type": "image_asset_pointer", "width": 1}),
            "first": node("first", "ask", [], "assistant", "Because."),
            "tool": node("tool", "ask", ["again"], "tool", "searched the web"),
        },
    }
]


def version(role: str, words: str) -> dict[str, Any]:
    """A version of a message of LM Studio's in a single step."""
    return {"type": "singleStep", "role": role, "content": [{"type": "text", "text": words}]}


STATS = {
    "stopReason": "userStopped",
    "tokensPerSecond": 51.5,
    "predictedTokensCount": 9,
    "promptTokensCount": 20,
    "timeToFirstTokenSec": 0.25,
    "totalTimeSec": 0.5,
}
IN_STEPS = {
    "type": "multiStep",
    "role": "assistant",
    "senderInfo": {"senderName": "qwen3-4b"},
    "steps": [
        {"type": "contentBlock", "style": {"type": "thinking"}, "content": [{"type": "text", "text": "Hm."}]},
        {
            "type": "contentBlock",
            "content": [{"type": "text", "text": "Red."}],
            "genInfo": {"indexedModelIdentifier": "qwen/qwen3-4b", "stats": STATS},
        },
        {"type": "debugInfoBlock", "debugInfo": "x"},
    ],
}
LM_STUDIO = {
    "name": "Colours",
    "pinned": True,
    "createdAt": 1730000000123,
    "tokenCount": 40,
    "systemPrompt": "",
    "perChatPredictionConfig": {"fields": [{"key": "llm.prediction.systemPrompt", "value": "Be kind."}]},
    "messages": [
        {"versions": [version("user", "Name one.")], "currentlySelected": 0},
        {"versions": [IN_STEPS, version("assistant", "Blue.")], "currentlySelected": 0},
        {"versions": [version("user", "Another?")], "currentlySelected": 0},
    ],
}


def imported(store: ChatStore, path: Path) -> Conversation:
    """The one conversation of a file, as the store has it then."""
    (number,) = store.add(read_chats(path).conversations)
    assert number is not None
    return store.open(number)


def texts(messages: list[StoredMessage]) -> list[str]:
    """What the messages say."""
    return [message.text for message in messages]


def test_chatgpts_trees_keep_their_branches_and_the_one_that_shows(store: ChatStore, tmp_path: Path) -> None:
    path = written(tmp_path / "conversations.json", CHATGPT)
    read = read_chats(path)
    assert (read.writer, read.left_out) == ("ChatGPT", 1)
    opened = imported(store, path)
    assert (opened.about.title, opened.about.created, opened.about.updated) == ("Blue sky", 1700000000.25, 1700000100.0)
    assert texts(opened.path) == ["Why?\n[image]", "Scattering."]
    assert len(opened.messages) == 4
    assert texts(opened.siblings(opened.path[0].id)) == ["Why?\n[image]", "Why is it *blue*?"]
    assert texts(opened.siblings(opened.path[1].id)) == ["Because.", "Scattering."], "a tool's message stands between, left out"
    assert opened.path[1].made is not None
    assert opened.path[1].made.model == "gpt-4"
    assert store.add(read.conversations) == [None], "a second import adds nothing"


def test_chatgpts_archive_is_read_as_it_comes(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("chat.html", "<html>")
        archive.writestr("conversations.json", json.dumps(CHATGPT))
    assert read_chats(tmp_path / "export.zip").conversations == read_chats(written(tmp_path / "c.json", CHATGPT)).conversations


def test_chatgpts_archive_in_parts_is_read_in_order(store: ChatStore, tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    chats = [CHATGPT[0] | {"conversation_id": f"part {index}", "title": f"Chat {index}"} for index in range(12)]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("user.json", "{}")
        archive.writestr("shared_conversations.json", "[]")
        for index in reversed(range(6)):
            archive.writestr(f"conversations-{index:03}.json", json.dumps(chats[2 * index : 2 * index + 2]))
    assert may_hold_chats(path)
    read = read_chats(path)
    assert [each.about.title for each in read.conversations] == [f"Chat {index}" for index in range(12)]
    assert read.left_out == 12
    assert None not in store.add(read.conversations)
    (tmp_path / "conversations-003.json").write_text(json.dumps(chats[6:8]))
    assert may_hold_chats(tmp_path / "conversations-003.json")
    assert store.add(read_chats(tmp_path / "conversations-003.json").conversations) == [None, None], "they are there already"


def test_lm_studios_versions_become_siblings(store: ChatStore, tmp_path: Path) -> None:
    path = written(tmp_path / "1730000000123.conversation.json", LM_STUDIO)
    read = read_chats(path)
    assert (read.writer, read.left_out) == ("LM Studio", 0)
    opened = imported(store, path)
    assert (opened.about.title, opened.about.created, opened.about.pinned) == ("Colours", 1730000000.123, True)
    assert opened.settings.system == "Be kind."
    assert texts(opened.path) == ["Name one.", "<think>\nHm.\n</think>\n\nRed.", "Another?"]
    answer = opened.path[1]
    assert texts(opened.siblings(answer.id))[1] == "Blue."
    assert answer.state == "stopped"
    assert answer.made is not None
    assert (answer.made.model, answer.made.figures) == ("qwen/qwen3-4b", Figures(9, 0.5, 51.5, None, None, 20, 0.25))


def test_what_draftlight_exports_comes_back_equal(store: ChatStore, tmp_path: Path) -> None:
    conversation = store.create(SETTINGS, title="Mine", folder="Work")
    prompt = store.add_message(conversation, None, "user", "question \u2028 with 😀")
    first = store.add_message(conversation, prompt, "assistant", "one", state="length", made=MADE)
    begun = store.begin_answer(conversation, prompt, MADE, continues=first)
    store.finish_answer(begun.message, "complete", "one two", MADE)
    store.choose(first)
    store.pin(conversation)
    whole = store.open(conversation)
    path = tmp_path / "all.json"
    path.write_text(to_json([whole]), encoding="utf-8-sig")  # with the mark that Windows programs write
    assert store.add(read_chats(path).conversations) == [None], "it is there already"
    with ChatStore(tmp_path / "elsewhere") as other:
        back = imported(other, path)
        assert to_json([back]).split('"conversations"')[1] == to_json([whole]).split('"conversations"')[1]
        assert (back.settings, texts(back.path), back.messages[1].made) == (SETTINGS, texts(whole.path), MADE)


def test_markdown_has_what_shows_and_how_it_was_made(store: ChatStore) -> None:
    conversation = store.create(SETTINGS, title="Mine")
    prompt = store.add_message(conversation, None, "user", "question")
    store.add_message(conversation, prompt, "assistant", "hidden")
    store.add_message(conversation, prompt, "assistant", "answer", state="length", made=MADE)
    shown = to_markdown([store.open(conversation)])
    for part in ("# Mine\n", "## System prompt\n\nBe brief.", "## You\n\nquestion", "## SmolLM2\n\nanswer"):
        assert part in shown
    assert "*12 tokens · 24.0 tokens/s · alpha 0.75 · tau 2.50 · length limit reached*" in shown
    assert "hidden" not in shown


def test_a_trace_named_in_an_import_stays_inside_the_folder_of_traces(store: ChatStore, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("mine")
    entry = {"id": 1, "role": "assistant", "text": "x", "trace": "../secret"}
    document = {"schema": "draftlight.chats/1", "conversations": [{"title": "t", "messages": [entry]}]}
    opened = imported(store, written(tmp_path / "x.json", document))
    assert opened.messages[0].trace is None
    store.purge([opened.about.id])
    assert (tmp_path / "secret").exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "Expecting value"),
        (b'{"\xff": 1}', "decode"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a": 1}', "none of their shapes"),
        (b"[]", "none of their shapes"),
        (b'[{"mapping": 3}]', "none of their shapes"),
        (b'{"schema": "draftlight.chats/9", "conversations": []}', "this version of Draftlight reads draftlight.chats/1"),
        (b"PK\x05\x06" + b"\x00" * 18, "no conversations.json"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(DraftlightError, match=f"{path} cannot be imported.*{reason}"):
        read_chats(path)


def test_an_archive_that_unpacks_to_far_more_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "export.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps(CHATGPT) + " " * 10**6)
    with pytest.raises(DraftlightError, match="usable size"):
        read_chats(tmp_path / "export.zip")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DraftlightError, match=r"missing\.json cannot be read"):
        read_chats(tmp_path / "missing.json")


def damaged(value: Any, chance: random.Random) -> Any:
    """The document with one value somewhere in it replaced by another kind of value."""
    strange = [None, True, -1, 1e308, 2**70, "", "\ud800", [], {}, [[]], {"id": "ask"}, "ask", "again"]
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        return {**value, key: damaged(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        place = chance.randrange(len(value))
        return [*value[:place], damaged(value[place], chance), *value[place + 1 :]]
    return chance.choice(strange)


def test_strange_documents_are_only_refused(store: ChatStore, tmp_path: Path) -> None:
    own = json.loads(to_json(read_chats(written(tmp_path / "c.json", CHATGPT)).conversations))
    chance = random.Random(3)
    taken = 0
    for index in range(150):
        document = chance.choice((CHATGPT, LM_STUDIO, own))
        for _ in range(chance.choice((1, 1, 3))):
            document = damaged(document, chance)
        try:
            read = read_chats(written(tmp_path / "strange.json", document))
        except DraftlightError:
            continue
        with store.together():
            for number in store.add(read.conversations):
                if number is not None:
                    taken += 1
                    check(store.open(number))
                    store.purge([number])
        assert store.conversations() == (), index
    assert taken > 25


def check(conversation: Conversation) -> None:
    """It is a tree whose way can be walked and shown."""
    assert len(conversation.path) <= len(conversation.messages)
    for message in conversation.messages:
        assert conversation.path_to(message.id)[-1] is message
    assert to_markdown([conversation])
    assert to_json([conversation])
