"""Exports conversations as Markdown for people: the messages shown, with statistics of each answer. Cannot be imported."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from engine.chats.values import EDITED_WORDS, STATE_WORDS, Conversation, StoredMessage
from engine.lens.shared_wording import RULE_TITLES, drafter_title
from engine.values.wording import amount

_NAMES = {"user": "You", "assistant": "Assistant"}


def to_markdown(conversations: Iterable[Conversation]) -> str:
    """Returns the conversations as Markdown, each under its own heading."""
    return "\n".join(map(_conversation, conversations))


def _conversation(whole: Conversation) -> str:
    created = datetime.fromtimestamp(whole.about.created, UTC)
    parts = [f"# {' '.join(whole.about.title.split())}", f"*{created:%Y-%m-%d %H:%M} UTC*"]
    if whole.settings.system.strip():
        parts += ["## System prompt", whole.settings.system.strip()]
    compares = whole.settings.comparison is not None  # its answers are side by side, not versions of one
    for message in whole.messages if compares else whole.path:
        parts += [f"## {_heading(message, compares)}", message.text.strip(), _figures(message)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _heading(message: StoredMessage, compares: bool) -> str:
    """Returns the writer of a message; in a comparison, where one model writes all answers, rule and drafter."""
    if message.made is None:
        return _NAMES[message.role]
    if compares:
        return f"{RULE_TITLES[message.made.settings.options.rule]}, {drafter_title(message.made.settings.drafter)}"
    return message.made.model or _NAMES[message.role]


def _figures(message: StoredMessage) -> str:
    if message.made is None:
        return ""
    figures = message.made.figures
    parts = [
        "" if figures.tokens is None else amount(figures.tokens, "token"),
        "" if figures.throughput is None else f"{figures.throughput:.1f} tokens/s",
        "" if figures.alpha is None else f"alpha {figures.alpha:.2f}",
        "" if figures.tau is None else f"tau {figures.tau:.2f}",
        "" if message.state == "complete" else STATE_WORDS[message.state],
        EDITED_WORDS if message.made.edited else "",
    ]
    told = " · ".join(filter(None, parts))
    return f"*{told}*" if told else ""
