"""Writes and reads `draftlight.chats/1`: everything that the store has about conversations, as JSON. Traces are only named."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from engine.chats.values import (
    ROLES,
    STATES,
    ChatSummary,
    Conversation,
    StoredMessage,
    making_from_json,
    making_to_json,
    settings_from_json,
    settings_to_json,
)
from engine.files.foreign import entries, seconds, table, text, whole
from engine.machine.provenance import version

SCHEMA = "draftlight.chats/1"


def to_json(conversations: Iterable[Conversation]) -> str:
    """Returns the conversations as a JSON document."""
    document = {
        "schema": SCHEMA,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "draftlight": version(),
        "conversations": [_conversation(each) for each in conversations],
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _conversation(whole: Conversation) -> dict[str, Any]:
    about = whole.about
    return {
        "origin": about.origin or about.own_origin,
        "title": about.title,
        "named": about.named,
        "created": about.created,
        "updated": about.updated,
        "pinned": about.pinned,
        "folder": about.folder,
        "settings": settings_to_json(whole.settings),
        "shown": whole.shown,
        "messages": [_message(message) for message in whole.messages],
    }


def _message(message: StoredMessage) -> dict[str, Any]:
    return {
        "id": message.id,
        "parent": message.parent,
        "role": message.role,
        "text": message.text,
        "created": message.created,
        "state": message.state,
        "made": None if message.made is None else making_to_json(message.made),
        "trace": None if message.trace is None else PurePath(message.trace).name,
        "continues": message.continues,
        "shown": message.shown,
    }


def matches(document: object) -> bool:
    """Returns whether a JSON document is Draftlight's own export, of any version."""
    return text(table(document).get("schema")).startswith("draftlight.chats/")


def conversations_in(document: object) -> tuple[list[Conversation], int]:
    """Returns the conversations, and the number of entries left out. Raises ValueError for another version of the format."""
    schema = text(table(document).get("schema"))
    if schema != SCHEMA:
        raise ValueError(f"it is written in {schema}; this version of Draftlight reads {SCHEMA}")
    found, left_out = [], 0
    for entry in map(table, entries(table(document).get("conversations"))):
        messages: list[StoredMessage] = []
        known: set[int] = set()
        for each in map(table, entries(entry.get("messages"))):
            number, parent = whole(each.get("id")), whole(each.get("parent"))
            role, state = each.get("role"), each.get("state")
            state = "interrupted" if state == "running" else state  # no process here is writing it
            if number is None or number in known or role not in ROLES or not isinstance(each.get("text"), str):
                left_out += 1
                continue
            known.add(number)
            messages.append(
                StoredMessage(
                    id=number,
                    parent=parent if parent in known and parent != number else None,
                    role=role,
                    text=each["text"],
                    created=seconds(each.get("created")),
                    state=state if state in STATES else "complete",
                    made=making_from_json(each.get("made")),
                    trace=PurePath(text(each.get("trace"))).name or None,  # looked up in the local folder of traces
                    continues=whole(each.get("continues")),
                    shown=whole(each.get("shown")),
                )
            )
        about = ChatSummary(
            0,
            text(entry.get("title")),
            seconds(entry.get("created")),
            seconds(entry.get("updated")),
            pinned=entry.get("pinned") is True,
            folder=text(entry.get("folder")),
            named=entry.get("named") is True,
            origin=text(entry.get("origin")),
        )
        found.append(Conversation(about, settings_from_json(entry.get("settings")), tuple(messages), whole(entry.get("shown"))))
    return found, left_out
