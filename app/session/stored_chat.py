"""Converts a conversation between the session and the chat store: what a chat stores, and how it becomes turns again. No Qt.

Turns and answers carry their store ids (`stored_id`). Only the functions here that take a store set these ids; they run one after
the other on the thread of `chat_keeper`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from app.look.wording import target_title
from app.session.session import Answer, PromptVersions, Turn, missing_answer
from app.session.settings import Settings
from engine.chats import STATE_OF_FINISH, STATE_WORDS, ChatSettings, ChatStore, Conversation, Figures, Making, StoredMessage
from engine.chats import State as StoredState
from engine.files.hub import is_here
from engine.types import Finish, Message
from engine.values.drafter_kinds import NO_DRAFTER, may_fit

ENDINGS: dict[StoredState, str] = {"running": STATE_WORDS["running"], "interrupted": "interrupted"}
"""The words for the ends of answers that no `Finish` names."""
FINISH_OF_STATE: dict[StoredState, Finish] = {state: finish for finish, state in STATE_OF_FINISH.items() if finish != "stop"}


@dataclass(slots=True, eq=False)
class StoredChat:
    """The state of the shown conversation in the store.

    Attributes:
        number: its id; None before it is stored.
        settings: its own settings; None if it has none.
        written: the settings that the store has.
        folder: the folder it is put into when it is first stored.
        lacks_model: its own target is not on this machine, so another one answers.
    """

    number: int | None = None
    settings: ChatSettings | None = None
    written: ChatSettings | None = None
    lacks_model: bool = False
    folder: str = ""

    @property
    def is_begun(self) -> bool:
        """Whether it is in the store, or about to be."""
        return self.number is not None or self.settings is not None

    def is_same(self, other: StoredChat) -> bool:
        """Returns whether both are the same conversation; all those not stored yet count as one."""
        if self.number is not None:
            return self.number == other.number
        return self is other or not (self.is_begun or other.is_begun)


def chat_settings(settings: Settings) -> ChatSettings:
    """Returns the part of the window's settings that a conversation stores."""
    return ChatSettings(
        system=settings.system_prompt,
        target=settings.target,
        drafter=settings.drafter,
        options=settings.options(),
        template=not settings.raw,
        thinking=settings.thinking,
        overflow=settings.overflow,
    )


def stored_chat_of(conversation: Conversation) -> StoredChat:
    """Returns the state of a conversation from the store. One from another program brings only its system prompt."""
    own = conversation.settings
    if replace(own, system="") == ChatSettings() and not own.system:
        return StoredChat(conversation.about.id)
    lacks = not is_here(own.target)
    return StoredChat(conversation.about.id, own, own, lacks)


def settings_of(chat: StoredChat) -> dict[str, Any]:
    """Returns the window settings stored with a conversation. If its model is missing, the other settings still apply."""
    own = chat.settings
    if own is None:
        return {}
    changes: dict[str, Any] = {"system_prompt": own.system}
    if replace(own, system="") == ChatSettings():
        return changes
    changes |= {"raw": not own.template, "thinking": own.thinking, "overflow": own.overflow}
    known = {setting.name for setting in fields(Settings)}
    changes |= {option.name: getattr(own.options, option.name) for option in fields(own.options) if option.name in known}
    if not chat.lacks_model:
        drafter = own.drafter if may_fit(own.drafter, own.target) and is_here(own.drafter) else NO_DRAFTER
        changes |= {"target": own.target, "drafter": drafter}
    return changes


def making_of(answer: Answer, system: str = "") -> Making:
    """Returns how an answer was made, and its figures so far."""
    request, summary, result = answer.request, answer.tally.summary, answer.result
    settings = ChatSettings(system=system, drafter=answer.drafter, options=answer.options)
    if request is not None:
        settings = ChatSettings(
            system, request.target, answer.drafter, answer.options, request.template, request.thinking, request.overflow
        )
    figures = Figures(prompt_tokens=answer.prefill[1] or None, seconds_to_first_token=answer.seconds_to_first_token)
    if summary.rounds:
        figures = Figures(
            tokens=summary.emitted,
            seconds=summary.seconds if result is None else result.seconds,
            throughput=answer.tokens_per_second,
            alpha=summary.alpha,
            tau=summary.tau,
            prompt_tokens=figures.prompt_tokens,
            seconds_to_first_token=figures.seconds_to_first_token,
        )
    return Making(answer.model, settings, figures, answer.message, answer.edited, answer.dropped)


def state_of(answer: Answer) -> StoredState:
    """Returns the stored state of an answer; a running one counts as stopped."""
    if answer.state == "failed":
        return "failed"
    if answer.edited:
        return "complete"
    return STATE_OF_FINISH[answer.finish] if answer.finish is not None else "stopped"


# Into the store


def begin(
    chat: StoredChat, before: Turn | None, turn: Turn, answer: Answer, made: Making, path: str, store: ChatStore
) -> StoredChat:
    """Stores the beginning of an answer, and anything before it that is not stored yet."""
    held = chat.settings or made.settings
    with store.together():
        number, prompt, parent = _place_for_answer(store, chat, held, before, turn)
        continued = None if answer.continues is None else answer.continues.stored_id
        begun = store.begin_answer(number, parent, made, continued, trace_path=path)
        if chat.number is not None and chat.written != held:
            store.keep_settings(number, held)
    chat.number, turn.stored_id, answer.stored_id = number, prompt, begun.message
    chat.written = held
    return chat


def _place_for_answer(
    store: ChatStore, chat: StoredChat, held: ChatSettings, before: Turn | None, turn: Turn
) -> tuple[int, int | None, int]:
    """Returns the ids of the conversation, of the prompt if there is one, and of the message that the answer follows. Missing
    ones are created."""
    number = chat.number if chat.number is not None else store.create(held, folder=chat.folder)
    store.hold.take(number)
    prompt = turn.stored_id
    if prompt is None and (turn.prompt or before is None):
        prompt = store.add_message(number, _number(before), "user", turn.prompt)
    parent = prompt if prompt is not None else _number(before)
    assert parent is not None
    return number, prompt, parent


def add_edited(
    chat: StoredChat, before: Turn | None, turn: Turn, answer: Answer, text: str, made: Making, store: ChatStore
) -> StoredChat:
    """Stores an answer written by the user."""
    with store.together():
        number, prompt, parent = _place_for_answer(store, chat, chat.settings or made.settings, before, turn)
        stored_id = store.add_message(number, parent, "assistant", text, made=made)
    chat.number, turn.stored_id, answer.stored_id = number, prompt, stored_id
    return chat


def _number(turn: Turn | None) -> int | None:
    """Returns the id of the message that the next one after a turn follows."""
    if turn is None:
        return None
    return turn.answer.stored_id if turn.answer.stored_id is not None else turn.stored_id


def keep_settings(chat: StoredChat, settings: ChatSettings, store: ChatStore) -> None:
    """Stores the settings of a conversation if they have changed."""
    if chat.number is not None and chat.written != settings:
        store.keep_settings(chat.number, settings)
        chat.written = settings


def finish(store: ChatStore, answer: Answer, state: StoredState, text: str, made: Making, path: str | None) -> None:
    """Stores the outcome of an answer."""
    if answer.stored_id is not None:
        store.finish_answer(answer.stored_id, state, text, made, path)


def show(store: ChatStore, turns: tuple[Turn, ...]) -> None:
    """Stores which messages are shown."""
    for turn in turns:
        number = _number(turn)
        if number is not None:
            store.choose(number)


def delete(store: ChatStore, chat: StoredChat, number: int | None, empty: bool) -> None:
    """Deletes a message with all that follow, and the conversation with its last message."""
    if number is not None:
        store.delete_message(number)
    if empty and chat.number is not None:
        store.delete(chat.number)


def undelete(store: ChatStore, chat: StoredChat, number: int | None) -> None:
    """Undoes `delete`."""
    if chat.number is not None:
        store.restore(chat.number)
    if number is not None:
        store.restore_message(number)


def write_anew(chat: StoredChat, root: PromptVersions, settings: ChatSettings, store: ChatStore) -> StoredChat:
    """Stores the whole conversation as a new one, after the old one was lost or deleted."""
    new: list[tuple[Turn | Answer, int]] = []

    def write(versions: PromptVersions, parent: int | None) -> None:
        """Adds these turns, with all that follow them, below a message."""
        for turn in versions.turns:
            prompt = store.add_message(number, parent, "user", turn.prompt) if turn.prompt or parent is None else parent
            assert prompt is not None
            new.append((turn, prompt))
            for answer in turn.answers:
                below: int = prompt
                if not answer.missing:
                    made = making_of(answer)
                    below = store.add_message(number, prompt, "assistant", "", made=made)
                    store.finish_answer(below, state_of(answer), answer.text.text, made, answer.trace_path)
                    new.append((answer, below))
                write(answer.following, below)

    with store.together():
        number = store.create(settings)
        store.hold.take(number)
        write(root, None)
    chat.number = number
    for kept, message in new:
        kept.stored_id = message
    return chat


# Out of the store.

_Branch = tuple[PromptVersions, int | None, int | None]
"""The versions to fill with the children of a message, the id of that message, and the id of the child chosen last."""


def prompt_tree(conversation: Conversation) -> PromptVersions:
    """Returns the conversation as a tree of turns. A prompt without an answer and an answer without a prompt are kept, with
    placeholders."""
    answers: dict[int, Answer] = {}
    root = PromptVersions()
    waiting: list[_Branch] = [(root, None, conversation.shown)]
    while waiting:
        here, place, chosen = waiting.pop()
        shown: int | None = None
        behind_prompt = place is not None and conversation.by_id[place].role == "user"
        for message in conversation.children(place):
            if behind_prompt and message.role == "assistant":
                continue  # an answer to that prompt
            here.add(_turn(conversation, message, answers, waiting))
            shown = here.shown if message.id == chosen else shown
        here.shown = here.shown if shown is None else shown
    return root


def _turn(
    conversation: Conversation,
    message: StoredMessage,
    answers: dict[int, Answer],
    waiting: list[_Branch],
) -> Turn:
    if message.role == "assistant":
        answer = _answer(conversation, message, answers)
        waiting.append((answer.following, message.id, message.shown))
        return Turn("", answer)
    children = conversation.children(message.id)
    replies = [child for child in children if child.role == "assistant"]
    made = [_answer(conversation, child, answers) for child in replies]
    if len(replies) < len(children) or not replies:
        waiting.append(((nothing := missing_answer()).following, message.id, message.shown))
        made = [nothing, *made] if replies else [nothing]
        replies = [message, *replies] if replies else [message]
    waiting += [
        (answer.following, child.id, child.shown) for answer, child in zip(made, replies, strict=True) if child is not message
    ]
    shown = next((answer for answer, child in zip(made, replies, strict=True) if child.id == message.shown), made[-1])
    return Turn(message.text, shown, made if len(made) > 1 else [], stored_id=message.id)


def _answer(conversation: Conversation, message: StoredMessage, answers: dict[int, Answer]) -> Answer:
    made = message.made or Making()
    answer = Answer(
        options=made.settings.options,
        drafter=made.settings.drafter,
        submitted=0.0,
        model=made.model or (target_title(made.settings.target) if message.made else "Answer"),
        state="failed" if message.state == "failed" else "finished",
        finish=None if made.edited else FINISH_OF_STATE.get(message.state),
        message=made.failure,
        trace_path=message.trace,
        stored_id=message.id,
        ending=ENDINGS.get(message.state, ""),
        edited=made.edited,
        foreign=made.settings == ChatSettings() and message.trace is None,  # an answer made here has at least a seed
        unread=message.trace is not None,
        dropped=made.dropped,
        shows_thought=False,
        continues=None if message.continues is None else answers.get(message.continues),
    )
    if message.text:
        answer.text.begin(message.text)
    if message.trace is not None:
        answer.request = made.settings.request((Message("user", ""),))
    answers[message.id] = answer
    return answer
