"""What the trace of an answer tells of it: its text, how it ended, how it was made and what was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from engine.chats.values import STATE_OF_FINISH, Making, State, figures_of, settings_from_json
from engine.errors import is_number
from engine.metrics import summarise
from engine.trace import Trace, read


def text_of(trace: Trace) -> str:
    """The text of the answer as far as its rounds go, with what it was given to begin with."""
    return _text(_table(trace.header.get("given")).get("text")) + "".join(round.text for round in trace.rounds)


def given_ids(path: str) -> tuple[int, ...]:
    """The token ids of an answer so far, from its trace: another one that begins with them goes on where it ended.

    Raises:
        DraftlightError: the trace is not there any longer, or cannot be read.
    """
    trace = read(path)
    ids = _table(trace.header.get("given")).get("ids")
    opening = [each for each in ids if isinstance(each, int)] if isinstance(ids, list) else []
    return (*opening, *(token.id for round in trace.rounds for token in round.emitted))


def state_of(trace: Trace) -> State:
    """How the answer ended."""
    told = trace.summary or {}
    finish = trace.rounds[-1].finish if trace.rounds else None
    if finish is None and told.get("error"):
        return "failed"
    return STATE_OF_FINISH.get(finish or _text(told.get("finish")), "interrupted")  # type: ignore[call-overload]  # any text


def making_of(trace: Trace, noted: Making | None = None) -> Making:
    """How the answer was made: as it was noted when it began, else as the header says, with the seed that was drawn."""
    header, summary, told = trace.header, summarise(trace.rounds), trace.summary or {}
    settings = settings_from_json(
        {
            "system": next((text for role, text in messages_of(trace) if role == "system"), ""),
            "target": _table(header.get("target")).get("name"),
            "drafter": _table(header.get("drafter")).get("name"),
            "options": header.get("options"),
            "template": _table(header.get("prompt")).get("template", True),
            "thinking": _table(header.get("prompt")).get("thinking", "auto"),
        }
    )
    return Making(
        model=noted.model if noted is not None and noted.model else settings.target,
        settings=settings if noted is None else replace(noted.settings, options=settings.options),
        figures=figures_of(summary, _number(told.get("prompt_tokens")), _number(told.get("seconds_to_first_token"))),
        failure=_text(told.get("error")),
        dropped=dropped if isinstance(dropped := _table(header.get("prompt")).get("dropped"), int) else 0,
    )


def messages_of(trace: Trace) -> list[tuple[str, str]]:
    """What was asked: role and text of every message, the prompt last."""
    messages = _table(trace.header.get("prompt")).get("messages")
    entries = [_table(entry) for entry in messages] if isinstance(messages, list) else []
    return [(_text(entry.get("role")), _text(entry.get("content"))) for entry in entries]


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> Any:
    return value if is_number(value) else None
