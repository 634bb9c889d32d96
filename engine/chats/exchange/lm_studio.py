"""Reads LM Studio's `NAME.conversation.json`: a list of messages, each with versions; `currentlySelected` is the one shown.

A version is a single step with `content`, or several steps with blocks of content. The next message becomes a child of the
version shown. LM Studio stores thinking as a step of its own; here it becomes text between `<think>` and `</think>`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from engine.chats.values import ChatSettings, ChatSummary, Conversation, Figures, Making, State, StoredMessage, title_of
from engine.files.foreign import entries, number, seconds, table, text, whole

_SYSTEM = "llm.prediction.systemPrompt"
_STATES: dict[str, State] = {"userStopped": "stopped", "maxPredictedTokensReached": "length", "contextLengthReached": "context"}


def matches(document: object) -> bool:
    """Returns whether a JSON document is a conversation of LM Studio."""
    messages = table(document).get("messages")
    return isinstance(messages, list) and all(isinstance(table(each).get("versions"), list) for each in messages)


def conversations_in(document: object) -> tuple[list[Conversation], int]:
    """Returns the one conversation of a file, in a list, and the number of versions left out because they have no text."""
    document_ = table(document)
    created = seconds((number(document_.get("createdAt")) or 0.0) / 1000)
    messages: list[StoredMessage] = []
    parent: int | None = None
    first: int | None = None
    left_out = 0
    for entry in map(table, entries(document_.get("messages"))):
        chosen: int | None = None
        selected = whole(entry.get("currentlySelected")) or 0
        for index, version in enumerate(map(table, entries(entry.get("versions")))):
            message = _message(version, created)
            if message is None:
                left_out += 1
                continue
            messages.append(replace(message, id=len(messages) + 1, parent=parent))
            if index == selected or chosen is None:
                chosen = len(messages)
        if chosen is None:
            continue
        if parent is None:
            first = chosen
        else:
            messages[parent - 1] = replace(messages[parent - 1], shown=chosen)
        parent = chosen
    fields = entries(table(document_.get("perChatPredictionConfig")).get("fields"))
    system = next((text(table(field).get("value")) for field in fields if table(field).get("key") == _SYSTEM), "")
    prompt = next((message.text for message in messages if message.role == "user"), "")
    name = text(document_.get("name")).strip()
    about = ChatSummary(
        id=0,
        title=name or title_of(prompt),
        created=created,
        updated=seconds((number(document_.get("assistantLastMessagedAt")) or 0.0) / 1000) or created,
        pinned=document_.get("pinned") is True,
        named=bool(name),
        origin=f"lm-studio:{round(created * 1000)}:{name}" if created else "",
    )
    return [
        Conversation(about, ChatSettings(system=system or text(document_.get("systemPrompt"))), tuple(messages), first)
    ], left_out


def _message(version: dict[str, Any], created: float) -> StoredMessage | None:
    role = version.get("role")
    if role not in ("user", "assistant"):
        return None
    steps = [table(step) for step in entries(version.get("steps"))] or [version]
    texts = "".join(map(_texts_of, steps))
    if not texts.strip():
        return None
    stats = [table(table(step.get("genInfo")).get("stats")) for step in steps if step.get("genInfo")]
    model = next((text(table(step.get("genInfo")).get("indexedModelIdentifier")) for step in steps if step.get("genInfo")), "")
    model = model or text(table(version.get("senderInfo")).get("senderName"))
    made, state = None, _STATES.get(text(stats[-1].get("stopReason")), "complete") if stats else "complete"
    if role == "assistant" and (model or stats):
        making_ = stats[-1] if stats else {}
        made = Making(
            model,
            figures=Figures(
                tokens=whole(making_.get("predictedTokensCount")),
                seconds=seconds(making_.get("totalTimeSec")) or None,
                throughput=seconds(making_.get("tokensPerSecond")) or None,
                prompt_tokens=whole(making_.get("promptTokensCount")),
                seconds_to_first_token=seconds(making_.get("timeToFirstTokenSec")) or None,
            ),
        )
    return StoredMessage(0, None, role, texts, created, state, made)


def _texts_of(step: Mapping[str, Any]) -> str:
    content = step.get("content")
    parts = [content] if isinstance(content, str) else [_part(table(each)) for each in entries(content)]
    said = "\n".join(part for part in parts if part)
    if said and table(step.get("style")).get("type") == "thinking":
        said = f"<think>\n{said.strip()}\n</think>\n\n"
    return said


def _part(part: Mapping[str, Any]) -> str:
    if part.get("type") == "text":
        return text(part.get("text"))
    return f"[{text(part.get('type')) or 'attachment'}]" if part.get("type") in ("file", "image") else ""
