"""Answers whose writer was killed: what they had come to is read from their traces, and they are marked as interrupted."""

from __future__ import annotations

from pathlib import Path

from engine.chats.answer_of_trace import making_of, state_of
from engine.chats.database import Database
from engine.chats.presence import Presence
from engine.chats.trace_files import TraceFiles
from engine.chats.values import Making, State, dumped, loaded, making_from_json, making_to_json
from engine.errors import DraftlightError
from engine.trace import read


def end_interrupted(database: Database, traces: TraceFiles, presence: Presence, notes: list[str]) -> None:
    """Gives every answer whose writer is not there any longer its text, and notes how many there were."""
    there = {presence.name, *presence.others()}
    with database.reading() as rows:
        query = "SELECT m.id, m.writer, m.made, t.name FROM messages m LEFT JOIN traces t ON t.id = m.trace WHERE m.writer <> ''"
        running = [tuple(row) for row in rows.execute(query)]
    ended = 0
    for message, writer, made, name in running:
        if writer in there:
            continue
        state, text, now_made = _what_there_is(None if name is None else traces.place(name), making_from_json(loaded(made)))
        with database.writing() as rows:
            changed = rows.execute(
                "UPDATE messages SET state = ?, text = ?, made = ?, writer = NULL WHERE id = ? AND writer = ?",
                (state, text, None if now_made is None else dumped(making_to_json(now_made)), message, writer),
            ).rowcount
        ended += changed if state == "interrupted" else 0  # it may have ended just before its writer did
    if ended:
        answers = "An answer was" if ended == 1 else f"{ended} answers were"
        notes.append(f"{answers} interrupted when Draftlight last ended. What had been written by then is kept, and can go on.")


def _what_there_is(path: Path | None, made: Making | None) -> tuple[State, str, Making | None]:
    try:
        if path is None:
            raise DraftlightError("The answer has no trace.")
        trace = read(path)
    except DraftlightError:  # killed before the answer began
        return "interrupted", "", made
    return state_of(trace), trace.text, making_of(trace, made)
