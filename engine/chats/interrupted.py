"""Recovers answers from their traces.

Completes the answers of killed processes, and creates conversations from traces that belong to none, such as those of versions
without a store.

A trace has all messages before its answer. Answers to the same messages under the same conversation name, at most an hour apart,
are siblings. An answer to a message that follows another answer continues that conversation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from engine.chats.database import Database
from engine.chats.presence import Presence
from engine.chats.trace_files import TraceFiles
from engine.chats.values import (
    ROLES,
    STATE_OF_FINISH,
    ChatSettings,
    ChatSummary,
    Conversation,
    Making,
    State,
    StoredMessage,
    dumped,
    figures_of,
    loaded,
    making_from_json,
    making_to_json,
    settings_from_json,
    title_of,
)
from engine.files.foreign import number, text, whole
from engine.rounds.metrics import summarise
from engine.rounds.trace import Trace, read
from engine.values.errors import DraftlightError
from engine.values.wording import amount

IS_COMPARISON = "instr(settings, '\"comparison\":{') > 0"
"""SQL condition on the settings of a conversation. Quotation marks within a text are escaped, so no text looks like the key."""
_MAX_GAP = 3600.0
"""Maximum number of seconds between two answers of one conversation."""

Said = tuple[tuple[str, str], ...]


def given_ids(path: str) -> tuple[int, ...]:
    """Returns the token ids of an answer from its trace. An answer that continues it begins with them.

    Raises:
        DraftlightError: the trace does not exist any more, or cannot be read.
    """
    trace = read(path)
    return (*trace.given_ids, *(token.id for round in trace.rounds for token in round.emitted))


def state_of(trace: Trace) -> State:
    """Returns how the answer ended."""
    summary = trace.summary or {}
    finish = trace.rounds[-1].finish if trace.rounds else None
    if finish is None and summary.get("error"):
        return "failed"
    return STATE_OF_FINISH.get(finish or text(summary.get("finish")), "interrupted")  # type: ignore[call-overload]  # any text


def making_of(trace: Trace, known: Making | None = None) -> Making:
    """Returns how the answer was made: from `known` if given, else from the trace's header. Options, with the seed, always come
    from the header."""
    header, figures, summary = trace.header, summarise(trace.rounds), trace.summary or {}
    settings = settings_from_json(
        {
            "system": next((text_ for role, text_ in trace.messages if role == "system"), ""),
            "target": trace.part("target").get("name"),
            "drafter": trace.part("drafter").get("name"),
            "options": header.get("options"),
            "template": trace.part("prompt").get("template", True),
            "thinking": trace.part("prompt").get("thinking", "auto"),
        }
    )
    return Making(
        model=known.model if known is not None and known.model else settings.target,
        settings=settings if known is None else replace(known.settings, options=settings.options),
        figures=figures_of(figures, whole(summary.get("prompt_tokens")), number(summary.get("seconds_to_first_token"))),
        failure=text(summary.get("error")),
        dropped=dropped if isinstance(dropped := trace.part("prompt").get("dropped"), int) else 0,
    )


def end_interrupted(database: Database, traces: TraceFiles, presence: Presence, notes: list[str]) -> None:
    """Completes every running answer of a process that has ended, and adds a note with the number of interrupted ones."""
    alive = {presence.name, *presence.others()}
    with database.reading() as rows:
        query = (
            f"SELECT m.id, m.writer, m.made, t.name, m.conversation, {IS_COMPARISON} FROM messages m "
            "LEFT JOIN traces t ON t.id = m.trace JOIN conversations c ON c.id = m.conversation WHERE m.writer <> ''"
        )
        running = [tuple(row) for row in rows.execute(query)]
    ended, comparisons = 0, set()
    for message, writer, made, name, conversation, is_comparison in running:
        if writer in alive:
            continue
        state, text, new_making = _recovered(None if name is None else traces.place(name), making_from_json(loaded(made)))
        with database.writing() as rows:
            changed = rows.execute(
                "UPDATE messages SET state = ?, text = ?, made = ?, writer = NULL WHERE id = ? AND writer = ?",
                (state, text, None if new_making is None else dumped(making_to_json(new_making)), message, writer),
            ).rowcount
        if state != "interrupted" or not changed:  # it may have ended just before its writer did
            continue
        if is_comparison:
            comparisons.add(conversation)
        else:
            ended += 1
    if ended:
        answers = "An answer was" if ended == 1 else f"{amount(ended, 'answer')} were"
        notes.append(f"{answers} interrupted when Draftlight last ended. What was written is kept; press Continue to go on.")
    if comparisons:
        were = "A comparison was" if len(comparisons) == 1 else f"{amount(len(comparisons), 'comparison')} were"
        notes.append(f"{were} interrupted when Draftlight last ended. What was written is in the list of chats.")


def _recovered(path: Path | None, known: Making | None) -> tuple[State, str, Making | None]:
    try:
        if path is None:
            raise DraftlightError("The answer has no trace.")
        trace = read(path)
    except DraftlightError:  # killed before the answer began
        return "interrupted", "", known
    return state_of(trace), trace.text, making_of(trace, known)


@dataclass(slots=True)
class _OpenConversation:
    """A conversation that further traces may add to.

    Attributes:
        key: conversation name in the traces' headers.
        last_messages: number of the last message of each sequence of messages.
    """

    key: str
    updated: float
    settings: ChatSettings
    messages: list[StoredMessage] = field(default_factory=list)
    last_messages: dict[Said, int] = field(default_factory=dict)

    def add(self, sequence: Said, message: StoredMessage) -> int:
        """Appends a message to the sequence before it and returns its number. `sequence`: the sequence with the message."""
        number = len(self.messages) + 1
        self.messages.append(replace(message, id=number, parent=self.last_messages.get(sequence[:-1])))
        self.last_messages[sequence] = number
        return number


def conversations_of(paths: list[Path], skipped: list[str]) -> list[Conversation]:
    """Returns the conversations that these traces form. Leaves out answers that are not to be kept, and unreadable traces, with a
    sentence for each in `skipped`."""
    growing: list[_OpenConversation] = []
    for path in paths:
        try:
            trace = read(path)
        except DraftlightError as error:
            skipped.append(str(error))
            continue
        if trace.is_kept:
            _add_trace(trace, growing)
    return [_completed(each) for each in growing if each.messages]


def _add_trace(trace: Trace, growing: list[_OpenConversation]) -> None:
    created = _created(trace)
    sequence: Said = tuple(entry for entry in trace.messages if entry[0] in ROLES)
    if not sequence:
        return
    made = making_of(trace)
    key = str(trace.header.get("conversation") or "")
    conversation = next(_candidates(growing, key, sequence, created), None)
    if conversation is None:
        conversation = _OpenConversation(key, created, made.settings)
        growing.append(conversation)
    conversation.updated = max(conversation.updated, created)
    for length in range(1, len(sequence) + 1):
        if sequence[:length] not in conversation.last_messages:
            role, text = sequence[length - 1]
            conversation.add(sequence[:length], StoredMessage(0, None, role, text, created))  # type: ignore[arg-type]
    text = trace.text
    conversation.add(
        (*sequence, ("assistant", text)),
        StoredMessage(0, None, "assistant", text, created, state_of(trace), made, trace=str(trace.path)),
    )


def _candidates(growing: list[_OpenConversation], key: str, sequence: Said, created: float) -> Iterator[_OpenConversation]:
    for each in reversed(growing):
        if each.key != key or created - each.updated > _MAX_GAP:
            continue
        if sequence[:-1] in each.last_messages if len(sequence) > 1 else key and sequence in each.last_messages:
            yield each


def _created(trace: Trace) -> float:
    try:
        return datetime.fromisoformat(str(trace.header.get("created"))).timestamp()
    except (ValueError, OverflowError):
        return trace.path.stat().st_mtime if trace.path.exists() else 0.0


def _completed(each: _OpenConversation) -> Conversation:
    first = each.messages[0]
    prompt = next((message.text for message in each.messages if message.role == "user"), first.text)
    return Conversation(ChatSummary(0, title_of(prompt), first.created, each.updated), each.settings, tuple(each.messages))
