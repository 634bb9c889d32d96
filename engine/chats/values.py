"""What the store gives and takes: conversations, their messages as a tree, and how an answer was made. Frozen, plain values.

Times are seconds since 1970. Numbers of conversations and messages are never used twice, not even after they were deleted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal, get_args

from engine.files.foreign import number, table, text
from engine.rounds.codec import options_to_json, plain, sound_options
from engine.rounds.metrics import Summary
from engine.types import OVERFLOWS, THINKINGS, DecodingOptions, Finish, Overflow, Thinking
from engine.values.drafter_kinds import NO_DRAFTER
from engine.values.errors import Limits, require_fields
from engine.values.wording import noun

Role = Literal["user", "assistant"]
State = Literal["running", "complete", "stopped", "length", "context", "interrupted", "failed"]
ROLES: tuple[Role, ...] = get_args(Role)
STATES: tuple[State, ...] = get_args(State)
CONTINUABLE: tuple[State, ...] = ("stopped", "length", "context", "interrupted")
"""An answer in one of these states can go on where it ended."""
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
    """What a conversation is held under; kept as JSON with a version.

    Attributes:
        system: the system prompt, empty for none.
        target, drafter: names or paths, as in `engine.types.Request`.
        template, thinking, overflow: as there.
    """

    system: str = ""
    target: str = "builtin"
    drafter: str = NO_DRAFTER
    options: DecodingOptions = field(default_factory=DecodingOptions)
    template: bool = True
    thinking: Thinking = "auto"
    overflow: Overflow = "stop"


@dataclass(frozen=True, slots=True)
class Figures:
    """An answer in figures, as `engine.rounds.metrics.Summary` and `engine.types.RunFinished` define them. None where not
    known."""

    tokens: int | None = None
    seconds: float | None = None
    throughput: float | None = None
    alpha: float | None = None
    tau: float | None = None
    prompt_tokens: int | None = None
    seconds_to_first_token: float | None = None


def figures_of(summary: Summary, prompt_tokens: int | None = None, seconds_to_first_token: float | None = None) -> Figures:
    """What is kept of the figures of an answer."""
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
    """How an answer was made: by what model, called `model`, under what settings, and in what figures.

    The seed is in the options. `failure` is what the user was told where the answer failed. `edited`: the user has written the
    text by hand, after an answer of this making. `dropped`: how many of the oldest messages it does not take into account, as
    `engine.types.RunStarted` says.
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
        parent: number of the message before it, None for one that opens the conversation.
        shown: number of the child that was chosen last, None where none was: then the newest shows.
        trace: path of the trace as its writer named it; `engine.rounds.trace.read` finds it compressed too. None where there is
            none, or it was deleted.
        continues: number of the sibling that this answer goes on with, whose text its own begins with.
        made: how an answer was made; None for messages of the user and where it is not known.
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
    """What was written and not sent, with its files. `prompt`: number of the message that it is to stand in place of, or None."""

    id: int
    prompt: int | None
    text: str


@dataclass(frozen=True, slots=True)
class Listed:
    """A conversation as a list shows it.

    Attributes:
        named: whether the user has named it; else the title is made from the first prompt.
        deleted: when it was deleted, None for one that was not.
        origin: where it was imported from, empty for one that was held here.
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


@dataclass(frozen=True)
class Conversation:
    """A whole conversation.

    Attributes:
        messages: all that are not deleted, in the order in which they were made, so a parent stands before its children.
        shown: number of the opening message that was chosen last; else the newest shows.
    """

    about: Listed
    settings: ChatSettings
    messages: tuple[StoredMessage, ...]
    shown: int | None = None

    @cached_property
    def by_id(self) -> dict[int, StoredMessage]:
        """The messages by their numbers."""
        return {message.id: message for message in self.messages}

    @cached_property
    def _children(self) -> dict[int | None, list[StoredMessage]]:
        found: dict[int | None, list[StoredMessage]] = {}
        for message in self.messages:
            found.setdefault(message.parent, []).append(message)
        return found

    def children(self, message: int | None) -> list[StoredMessage]:
        """The messages that follow one, or those that open the conversation, in the order in which they were made."""
        return self._children.get(message, [])

    def siblings(self, message: int) -> list[StoredMessage]:
        """The message and all others that follow the same one, in the order in which they were made."""
        return self.children(self.by_id[message].parent)

    @property
    def path(self) -> list[StoredMessage]:
        """The messages that show, from the opening one on."""
        return list(self._chosen_from(None))

    def path_to(self, message: int) -> list[StoredMessage]:
        """The messages from the opening one to this one."""
        path: list[StoredMessage] = []
        place: int | None = message
        while place is not None:
            path.append(self.by_id[place])
            place = self.by_id[place].parent
        return path[::-1]

    def _chosen_from(self, place: int | None) -> Iterator[StoredMessage]:
        while children := self.children(place):
            chosen = self.shown if place is None else self.by_id[place].shown
            message = next((child for child in children if child.id == chosen), children[-1])
            yield message
            place = message.id


@dataclass(frozen=True, slots=True)
class Hit:
    """A conversation that a search found.

    Attributes:
        message: number of the newest message that matches; None where only the title does.
        excerpt: a line of that message around the first match, or of the title.
        marks: where the words stand in the excerpt, as (start, end).
    """

    about: Listed
    message: int | None
    excerpt: str
    marks: tuple[tuple[int, int], ...]


def _is_limit(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0)


_LIMITS: Limits = dict.fromkeys(("days", "bytes"), (_is_limit, "None or at least 0"))
"""Of `Retention`."""


@dataclass(frozen=True, slots=True)
class Retention:
    """How long traces are kept; messages stay in any case. None is no limit, both None keep all forever."""

    days: float | None = None
    bytes: int | None = None

    def __post_init__(self) -> None:
        require_fields(self, _LIMITS)

    @property
    def words(self) -> str:
        """How long they are kept, for people."""
        limits = [
            "" if self.days is None else f"for {self.days:g} {noun(self.days, 'day')}",
            "" if self.bytes is None else f"up to {self.bytes / 1e6:,.0f} MB, the newest ones",
        ]
        return " and ".join(filter(None, limits)) or "forever"


SETTINGS_VERSION = 1


def settings_to_json(settings: ChatSettings) -> dict[str, Any]:
    """The JSON object of settings, its version included."""
    return {"version": SETTINGS_VERSION, **plain(settings), "options": options_to_json(settings.options)}


_SOUND: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("system", "target", "drafter"), lambda value: isinstance(value, str)),
    "template": lambda value: isinstance(value, bool),
    "thinking": lambda value: value in THINKINGS,
    "overflow": lambda value: value in OVERFLOWS,
}
"""Whether what a file holds of `ChatSettings` is possible."""


def settings_from_json(value: object) -> ChatSettings:
    """The settings that `settings_to_json` wrote. What is missing, unknown or impossible falls back to its default: a
    conversation opens in any case."""
    if not isinstance(value, Mapping):
        return ChatSettings()
    kept: dict[str, Any] = {name: value[name] for name, is_sound in _SOUND.items() if name in value and is_sound(value[name])}
    return ChatSettings(**kept, options=sound_options(table(value.get("options"))))


def making_to_json(made: Making) -> dict[str, Any]:
    """The JSON object of how an answer was made."""
    return {
        "model": made.model,
        "settings": settings_to_json(made.settings),
        "figures": plain(made.figures),
        **({"failure": made.failure} if made.failure else {}),
        **({"edited": True} if made.edited else {}),
        **({"dropped": made.dropped} if made.dropped else {}),
    }


def making_from_json(value: object) -> Making | None:
    """What `making_to_json` wrote; None for anything else."""
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
    """JSON as the database keeps it. Half a surrogate pair, which UTF-8 cannot hold, becomes an escape."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def loaded(text: str | None) -> object:
    """What a column of JSON holds; None where it holds none that can be read."""
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None


LONGEST = 60
UNTITLED = "New chat"


def title_of(prompt: str) -> str:
    """The first line of a prompt that says something, cut between two words."""
    line = next((" ".join(line.split()) for line in prompt.splitlines() if line.strip(" \t#>*-`")), "")
    if not line:
        return UNTITLED
    if len(line) <= LONGEST:
        return line
    whole_words = line[: LONGEST + 1].rpartition(" ")[0]
    return (whole_words if len(whole_words) > LONGEST // 2 else line[:LONGEST]).rstrip(" ,.;:") + "…"
