"""Traces that belong to no conversation, such as those of before there was a store, become conversations.

A trace tells everything that was said up to its answer. Answers to the same words under the same name of a conversation, with no
more than an hour between them, are siblings; an answer that was asked for behind another one continues its conversation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from engine.chats.answer_of_trace import making_of, state_of
from engine.chats.titles import title_of
from engine.chats.values import ROLES, ChatSettings, Conversation, Listed, StoredMessage
from engine.errors import DraftlightError
from engine.trace import Trace, read

_TOGETHER = 3600.0
"""Seconds between two answers of one conversation, at most."""

Said = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Growing:
    """A conversation that further traces may add to.

    Attributes:
        key: the name that the engine was given for it.
        places: the message that is reached by saying this.
    """

    key: str
    updated: float
    settings: ChatSettings
    messages: list[StoredMessage] = field(default_factory=list)
    places: dict[Said, int] = field(default_factory=dict)

    def add(self, said: Said, message: StoredMessage) -> int:
        """A message behind what was said before; its number."""
        number = len(self.messages) + 1
        parent = self.places.get(said[:-1])
        self.messages.append(replace(message, id=number, parent=parent))
        self.places[said] = number
        return number


def conversations_of(paths: list[Path], skipped: list[str]) -> list[Conversation]:
    """The conversations that these traces make; what cannot be read is left out, with a sentence for each in `skipped`."""
    growing: list[_Growing] = []
    for path in paths:
        try:
            trace = read(path)
        except DraftlightError as error:
            skipped.append(str(error))
            continue
        _take(trace, growing)
    return [_finished(each) for each in growing if each.messages]


def _take(trace: Trace, growing: list[_Growing]) -> None:
    created = _created(trace)
    said: Said = tuple(entry for entry in trace.messages if entry[0] in ROLES)
    if not said:
        return
    made = making_of(trace)
    key = str(trace.header.get("conversation") or "")
    home = next(_homes(growing, key, said, created), None)
    if home is None:
        home = _Growing(key, created, made.settings)
        growing.append(home)
    home.updated = max(home.updated, created)
    for length in range(1, len(said) + 1):
        if said[:length] not in home.places:
            role, text = said[length - 1]
            home.add(said[:length], StoredMessage(0, None, role, text, created))  # type: ignore[arg-type]
    text = trace.text
    home.add(
        (*said, ("assistant", text)),
        StoredMessage(0, None, "assistant", text, created, state_of(trace), made, trace=str(trace.path)),
    )


def _homes(growing: list[_Growing], key: str, said: Said, created: float) -> Iterator[_Growing]:
    for each in reversed(growing):
        if each.key != key or created - each.updated > _TOGETHER:
            continue
        if said[:-1] in each.places if len(said) > 1 else key and said in each.places:
            yield each


def _created(trace: Trace) -> float:
    try:
        return datetime.fromisoformat(str(trace.header.get("created"))).timestamp()
    except (ValueError, OverflowError):
        return trace.path.stat().st_mtime if trace.path.exists() else 0.0


def _finished(each: _Growing) -> Conversation:
    first = each.messages[0]
    prompt = next((message.text for message in each.messages if message.role == "user"), first.text)
    return Conversation(Listed(0, title_of(prompt), first.created, each.updated), each.settings, tuple(each.messages))
