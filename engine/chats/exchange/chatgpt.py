"""Reads ChatGPT's export: `conversations.json`, a list of conversations, each a tree of nodes under `mapping`.

A node has `message` (author's role, content with parts), `parent` and `children`; `current_node` is the last node of the path
shown. Nodes of the system and of tools, and nodes without text, are skipped; their children follow the message before them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from engine.chats.values import ChatSettings, ChatSummary, Conversation, Making, StoredMessage, title_of
from engine.files.foreign import entries, seconds, table, text


def matches(document: object) -> bool:
    """Returns whether a JSON document is an export of ChatGPT."""
    known = entries(document)
    return bool(known) and all(isinstance(table(entry).get("mapping"), dict) for entry in known)


def conversations_in(document: object) -> tuple[list[Conversation], int]:
    """Returns the conversations, and the number of messages left out, such as those of tools."""
    result, left_out = [], 0
    for entry in map(table, entries(document)):
        conversation, passed = _conversation(entry)
        left_out += passed
        result.append(conversation)
    return result, left_out


def _conversation(entry: Mapping[str, Any]) -> tuple[Conversation, int]:
    nodes = table(entry.get("mapping"))
    created = seconds(entry.get("create_time"))
    messages: list[StoredMessage] = []
    numbers: dict[str, int | None] = {}
    system, passed = "", 0
    for name, node in _in_order(nodes):
        before = numbers.get(text(node.get("parent")))
        message = table(node.get("message"))
        role = text(table(message.get("author")).get("role"))
        text_ = _text(table(message.get("content")))
        hidden = table(message.get("metadata")).get("is_visually_hidden_from_conversation") is True
        if role not in ("user", "assistant") or not text_.strip() or hidden:
            numbers[name] = before
            system = system or (text_ if role == "system" else "")
            passed += bool(text_.strip()) and role != "system"
            continue
        number = len(messages) + 1
        numbers[name] = number
        model = text(table(message.get("metadata")).get("model_slug"))
        messages.append(
            StoredMessage(
                id=number,
                parent=before,
                role="user" if role == "user" else "assistant",
                text=text_,
                created=seconds(message.get("create_time"), created),
                made=Making(model) if role == "assistant" and model else None,
            )
        )
    messages, shown = _with_choices(messages, numbers.get(text(entry.get("current_node"))))
    identity = text(entry.get("conversation_id")) or text(entry.get("id"))
    prompt = next((message.text for message in messages if message.role == "user"), "")
    about = ChatSummary(
        id=0,
        title=text(entry.get("title")).strip() or title_of(prompt),
        created=created,
        updated=seconds(entry.get("update_time"), created),
        named=bool(text(entry.get("title")).strip()),
        origin=f"chatgpt:{identity}" if identity else "",
    )
    return Conversation(about, ChatSettings(system=system), tuple(messages), shown), passed


def _in_order(nodes: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields each node once, parents before children, siblings in their parent's order. A cycle is entered at any node."""
    children: dict[str, list[str]] = {}
    for name, node in nodes.items():
        children.setdefault(text(table(node).get("parent")), []).append(name)
    for parent, named in children.items():
        order = {name: index for index, name in enumerate(map(str, entries(table(nodes.get(parent)).get("children"))))}
        named.sort(key=lambda name: order.get(name, len(order)))
    seen: set[str] = set()
    roots = [name for name, node in nodes.items() if text(table(node).get("parent")) not in nodes]
    for root in [*roots, *nodes]:
        stack = [root]
        while stack:
            name = stack.pop()
            if name in seen:
                continue
            seen.add(name)
            yield name, table(nodes[name])
            stack.extend(reversed(children.get(name, [])))


def _text(content: Mapping[str, Any]) -> str:
    """Returns the text of a message; other content appears as its kind in brackets."""
    parts = entries(content.get("parts"))
    if not parts:
        return text(content.get("text"))
    return "\n".join(part if isinstance(part, str) else _placeholder(table(part)) for part in parts)


def _placeholder(part: Mapping[str, Any]) -> str:
    if isinstance(part.get("text"), str):
        return text(part["text"])
    kind = text(part.get("content_type")).removesuffix("_asset_pointer").removesuffix("_pointer") or "attachment"
    return f"[{kind.replace('_', ' ')}]"


def _with_choices(messages: list[StoredMessage], end: int | None) -> tuple[list[StoredMessage], int | None]:
    """Marks the path to message `end` as shown. Returns the messages, and the number of the first message on the path."""
    shown: dict[int, int] = {}
    first: int | None = None
    while end is not None:
        parent = messages[end - 1].parent
        if parent is None:
            first = end
        else:
            shown[parent] = end
        end = parent
    return [replace(message, shown=shown.get(message.id)) for message in messages], first
