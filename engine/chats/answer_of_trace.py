"""What the trace of an answer tells of it: its text, how it ended, how it was made and what was asked."""

from __future__ import annotations

from dataclasses import replace

from engine.chats.values import STATE_OF_FINISH, Making, State, figures_of, settings_from_json
from engine.files.foreign import number, text, whole
from engine.metrics import summarise
from engine.trace import Trace, read


def given_ids(path: str) -> tuple[int, ...]:
    """The token ids of an answer so far, from its trace: another one that begins with them goes on where it ended.

    Raises:
        DraftlightError: the trace is not there any longer, or cannot be read.
    """
    trace = read(path)
    return (*trace.given_ids, *(token.id for round in trace.rounds for token in round.emitted))


def state_of(trace: Trace) -> State:
    """How the answer ended."""
    told = trace.summary or {}
    finish = trace.rounds[-1].finish if trace.rounds else None
    if finish is None and told.get("error"):
        return "failed"
    return STATE_OF_FINISH.get(finish or text(told.get("finish")), "interrupted")  # type: ignore[call-overload]  # any text


def making_of(trace: Trace, noted: Making | None = None) -> Making:
    """How the answer was made: as it was noted when it began, else as the header says, with the seed that was drawn."""
    header, summary, told = trace.header, summarise(trace.rounds), trace.summary or {}
    settings = settings_from_json(
        {
            "system": next((said for role, said in trace.messages if role == "system"), ""),
            "target": trace.part("target").get("name"),
            "drafter": trace.part("drafter").get("name"),
            "options": header.get("options"),
            "template": trace.part("prompt").get("template", True),
            "thinking": trace.part("prompt").get("thinking", "auto"),
        }
    )
    return Making(
        model=noted.model if noted is not None and noted.model else settings.target,
        settings=settings if noted is None else replace(noted.settings, options=settings.options),
        figures=figures_of(summary, whole(told.get("prompt_tokens")), number(told.get("seconds_to_first_token"))),
        failure=text(told.get("error")),
        dropped=dropped if isinstance(dropped := trace.part("prompt").get("dropped"), int) else 0,
    )
