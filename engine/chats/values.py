"""Immutable values of the store: conversations, their messages as a tree, and how answers were made.

Times are seconds since 1970. Numbers of conversations and messages are never reused, not even after a deletion.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal, get_args

from engine.files.foreign import number, table, text
from engine.rounds.codec import options_to_json, plain, sound_options
from engine.rounds.metrics import Summary
from engine.types import OVERFLOWS, THINKINGS, DecodingOptions, Finish, Message, Overflow, Request, Thinking
from engine.values.drafter_kinds import NO_DRAFTER
from engine.values.errors import Limits, require_fields
from engine.values.wording import noun

Role = Literal["user", "assistant"]
State = Literal["running", "complete", "stopped", "length", "context", "interrupted", "failed"]
ROLES: tuple[Role, ...] = get_args(Role)
STATES: tuple[State, ...] = get_args(State)
CONTINUABLE: tuple[State, ...] = ("stopped", "length", "context", "interrupted")
"""States of answers that can be continued."""
STATE_OF_FINISH: dict[Finish, State] = {
    "eos": "complete",
    "stop": "complete",
    "length": "length",
    "context": "context",
    "cancelled": "stopped",
}
STATE_WORDS: dict[State, str] = {
    "running": "being written",
    "complete": "complete",
    "stopped": "stopped",
    "length": "length limit reached",
    "context": "context is full",
    "interrupted": "interrupted: Draftlight ended before the answer did",
    "failed": "failed",
}
EDITED_WORDS = "edited by hand"


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """The settings of a conversation, stored as JSON with a version.

    Attributes:
        system: the system prompt, empty for none.
        target, drafter: names or paths, as in `engine.types.Request`.
        template, thinking, overflow: as in `engine.types.Request`.
        comparison: the setup of a comparison, as a JSON object that only the window reads; None for a chat.
    """

    system: str = ""
    target: str = "builtin"
    drafter: str = NO_DRAFTER
    options: DecodingOptions = field(default_factory=DecodingOptions)
    template: bool = True
    thinking: Thinking = "auto"
    overflow: Overflow = "stop"
    comparison: Mapping[str, Any] | None = None

    def request(self, messages: Sequence[Message], **others: Any) -> Request:
        """Returns a request with these settings, the messages, and other fields of `Request`."""
        return Request(
            messages=tuple(messages),
            options=self.options,
            target=self.target,
            drafter=self.drafter,
            template=self.template,
            thinking=self.thinking,
            overflow=self.overflow,
            **others,
        )


@dataclass(frozen=True, slots=True)
class Figures:
    """Statistics of an answer, as defined in `engine.rounds.metrics.Summary` and `engine.types.RunFinished`; None if unknown."""

    tokens: int | None = None
    seconds: float | None = None
    throughput: float | None = None
    alpha: float | None = None
    tau: float | None = None
    prompt_tokens: int | None = None
    seconds_to_first_token: float | None = None


def figures_of(summary: Summary, prompt_tokens: int | None = None, seconds_to_first_token: float | None = None) -> Figures:
    """Returns the statistics of an answer to store."""
    return Figures(
        tokens=summary.emitted,
        seconds=summary.seconds,
        throughput=summary.throughput,
        alpha=summary.alpha,
        tau=summary.tau,
        prompt_tokens=prompt_tokens,
        seconds_to_first_token=seconds_to_first_token,
    )


@dataclass(frozen=True, slots=True)
class Making:
    """The model, settings and statistics of an answer. The seed is in the settings' options.

    Attributes:
        model: name of the model.
        failure: message for the user if the answer failed.
        edited: whether the user wrote the text by hand, in place of an answer made this way.
        dropped: number of oldest messages left out of the prompt, as in `engine.types.RunStarted`.
    """

    model: str = ""
    settings: ChatSettings = field(default_factory=ChatSettings)
    figures: Figures = field(default_factory=Figures)
    failure: str = ""
    edited: bool = False
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message and its place in the tree.

    Attributes:
        parent: number of the message before it; None for the first message of a conversation.
        shown: number of the child that was chosen last; None if none was, and the newest child is shown.
        trace: path of the uncompressed trace; `engine.rounds.trace.read` also finds the compressed file. None if there is no
            trace, or it was deleted.
        continues: number of the sibling that this answer continues; its text begins with the sibling's.
        made: how an answer was made; None for messages of the user, or if unknown.
    """

    id: int
    parent: int | None
    role: Role
    text: str
    created: float
    state: State = "complete"
    made: Making | None = None
    trace: str | None = None
    continues: int | None = None
    shown: int | None = None


@dataclass(frozen=True, slots=True)
class UnsentText:
    """A text that was written but not sent, with its files. `prompt`: number of the message that it will replace, or None."""

    id: int
    prompt: int | None
    text: str


@dataclass(frozen=True, slots=True)
class ChatSummary:
    """A conversation's entry in a list.

    Attributes:
        named: whether the user chose the title; otherwise it is made from the first prompt.
        deleted: time of its deletion; None if it is not deleted.
        origin: identifier in the file that it was imported from; empty if it was not imported.
        comparison: whether it is a comparison, whose answers belong side by side.
    """

    id: int
    title: str
    created: float
    updated: float
    pinned: bool = False
    folder: str = ""
    named: bool = False
    deleted: float | None = None
    origin: str = ""
    comparison: bool = False

    @property
    def own_origin(self) -> str:
        """The identifier of the conversation in Draftlight's exports, by which it is recognised if it is imported again."""
        return f"draftlight:{self.id}:{round(self.created * 1000)}"


@dataclass(frozen=True)
class Conversation:
    """A whole conversation.

    Attributes:
        messages: all that are not deleted, oldest first, so a parent comes before its children.
        shown: number of the first message that was chosen last; None if none was, and the newest one is shown.
    """

    about: ChatSummary
    settings: ChatSettings
    messages: tuple[StoredMessage, ...]
    shown: int | None = None

    @cached_property
    def by_id(self) -> dict[int, StoredMessage]:
        """The messages by number."""
        return {message.id: message for message in self.messages}

    @cached_property
    def _children(self) -> dict[int | None, list[StoredMessage]]:
        children_: dict[int | None, list[StoredMessage]] = {}
        for message in self.messages:
            children_.setdefault(message.parent, []).append(message)
        return children_

    def children(self, message: int | None) -> list[StoredMessage]:
        """Returns the children of a message, oldest first; for None, the first messages of the conversation."""
        return self._children.get(message, [])

    def siblings(self, message: int) -> list[StoredMessage]:
        """Returns all messages with the same parent as this one, itself included, oldest first."""
        return self.children(self.by_id[message].parent)

    @property
    def path(self) -> list[StoredMessage]:
        """The messages that are shown, from the first one on."""
        return list(self._chosen_from(None))

    def path_to(self, message: int) -> list[StoredMessage]:
        """Returns the messages from the first one to this one."""
        path: list[StoredMessage] = []
        current: int | None = message
        while current is not None:
            path.append(self.by_id[current])
            current = self.by_id[current].parent
        return path[::-1]

    def _chosen_from(self, current: int | None) -> Iterator[StoredMessage]:
        while children := self.children(current):
            chosen = self.shown if current is None else self.by_id[current].shown
            message = next((child for child in children if child.id == chosen), children[-1])
            yield message
            current = message.id


@dataclass(frozen=True, slots=True)
class Hit:
    """A conversation that a search found.

    Attributes:
        message: number of the newest message that matches; None if the title does.
        excerpt: a line around the first match in that message or title.
        marks: (start, end) of the matches in the excerpt.
    """

    about: ChatSummary
    message: int | None
    excerpt: str
    marks: tuple[tuple[int, int], ...]


def _is_limit(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0)


_LIMITS: Limits = dict.fromkeys(("days", "bytes"), (_is_limit, "None or at least 0"))
"""Limits of the fields of `Retention`."""


@dataclass(frozen=True, slots=True)
class Retention:
    """The retention of traces: maximum age in `days` and total size in `bytes`, None for no limit. Messages are always kept."""

    days: float | None = None
    bytes: int | None = None

    def __post_init__(self) -> None:
        require_fields(self, _LIMITS)

    @property
    def words(self) -> str:
        """The retention in words for users."""
        limits = [
            "" if self.days is None else f"for {self.days:g} {noun(self.days, 'day')}",
            "" if self.bytes is None else f"up to {self.bytes / 1e6:,.0f} MB, the newest ones",
        ]
        return " and ".join(filter(None, limits)) or "forever"


SETTINGS_VERSION = 1


def settings_to_json(settings: ChatSettings) -> dict[str, Any]:
    """Converts settings to a JSON object, with the version."""
    value = {"version": SETTINGS_VERSION, **plain(settings), "options": options_to_json(settings.options)}
    if settings.comparison is None:
        del value["comparison"]
    return value


_VALIDATORS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("system", "target", "drafter"), lambda value: isinstance(value, str)),
    "template": lambda value: isinstance(value, bool),
    "thinking": lambda value: value in THINKINGS,
    "overflow": lambda value: value in OVERFLOWS,
    "comparison": lambda value: isinstance(value, Mapping),
}
"""Checks whether stored values of `ChatSettings` are valid."""


def settings_from_json(value: object) -> ChatSettings:
    """Reads the settings that `settings_to_json` wrote. Missing, unknown and invalid values become defaults, so that every
    conversation opens."""
    if not isinstance(value, Mapping):
        return ChatSettings()
    valid: dict[str, Any] = {
        name: value[name] for name, is_valid in _VALIDATORS.items() if name in value and is_valid(value[name])
    }
    return ChatSettings(**valid, options=sound_options(table(value.get("options"))))


def making_to_json(made: Making) -> dict[str, Any]:
    """Converts a `Making` to a JSON object."""
    return {
        "model": made.model,
        "settings": settings_to_json(made.settings),
        "figures": plain(made.figures),
        **({"failure": made.failure} if made.failure else {}),
        **({"edited": True} if made.edited else {}),
        **({"dropped": made.dropped} if made.dropped else {}),
    }


def making_from_json(value: object) -> Making | None:
    """Reads the value that `making_to_json` wrote; None for anything else."""
    if not isinstance(value, Mapping):
        return None
    known = table(value.get("figures"))
    return Making(
        model=text(value.get("model")),
        settings=settings_from_json(value.get("settings")),
        figures=Figures(**{each.name: number(known.get(each.name)) for each in fields(Figures)}),  # type: ignore[arg-type]
        failure=text(value.get("failure")),
        edited=value.get("edited") is True,
        dropped=dropped if isinstance(dropped := value.get("dropped"), int) else 0,
    )


def dumped(value: object) -> str:
    """Returns a value as JSON for the database. Half a surrogate pair, which UTF-8 cannot encode, becomes an escape."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def loaded(text: str | None) -> object:
    """Parses a JSON column of the database; None if it is empty or invalid."""
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None


MAX_TITLE_LENGTH = 60
UNTITLED = "New chat"


def title_of(prompt: str) -> str:
    """Returns the first line of a prompt with more than Markdown marks, shortened between two words."""
    line = next((" ".join(line.split()) for line in prompt.splitlines() if line.strip(" \t#>*-`")), "")
    if not line:
        return UNTITLED
    if len(line) <= MAX_TITLE_LENGTH:
        return line
    whole_words = line[: MAX_TITLE_LENGTH + 1].rpartition(" ")[0]
    return (whole_words if len(whole_words) > MAX_TITLE_LENGTH // 2 else line[:MAX_TITLE_LENGTH]).rstrip(" ,.;:") + "…"
