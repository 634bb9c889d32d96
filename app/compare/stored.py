"""Comparisons in the store of chats: each is a conversation whose settings name the columns, with one answer for each.

An answer is begun before its first round, and its trace is its journal, so that a comparison that was killed is still there.
Only the functions here that take a store use it; they run on the thread of `app.session.chat_keeper`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from app.compare.comparison import MOST_COLUMNS, Column, ColumnSetup, Comparison, Setup
from app.session.chat_keeper import ChatKeeper
from app.session.stored_chat import making_of, state_of
from engine.chats import ChatSettings, ChatStore, Making, StoredMessage
from engine.files.foreign import entries, table, text, whole
from engine.files.paths import traces_folder
from engine.rounds.codec import sound_options
from engine.rounds.trace import Trace, read, trace_name
from engine.types import Request
from engine.values.errors import DraftlightError
from engine.values.ranges import RANGES


def setup_to_json(setup: Setup) -> dict[str, Any]:
    """Converts a setup to a JSON object."""
    return asdict(setup)


def setup_from_json(value: Mapping[str, Any]) -> Setup:
    """Reads the setup that `setup_to_json` wrote. Missing and invalid values become defaults, so that every comparison opens."""
    usual = Setup("", ())
    shared = sound_options({name: value.get(name) for name in ("seed", "max_tokens")})
    samples = whole(value.get("samples"))
    columns = [_column(table(entry)) for entry in entries(value.get("columns"))[:MOST_COLUMNS]]
    columns += [ColumnSetup()] * (2 - len(columns))
    flags = {name: flag for name in ("template", "own_prompts", "unfiltered") if isinstance(flag := value.get(name), bool)}
    return Setup(
        text(value.get("prompt")),
        tuple(columns),
        seed=shared.seed,
        max_tokens=shared.max_tokens,
        samples=samples if samples is not None and RANGES["samples"].holds(samples) else usual.samples,
        **flags,
    )


def _column(value: Mapping[str, Any]) -> ColumnSetup:
    usual = ColumnSetup()
    options = sound_options({name: value[name] for name in ("rule", "gamma", "temperature", "budget") if name in value})
    drafter, prompt = text(value.get("drafter")) or usual.drafter, text(value.get("prompt"))
    return ColumnSetup(options.rule, drafter, options.gamma, options.temperature, prompt, options.budget)


@dataclass(frozen=True, slots=True)
class StoredComparison:
    """A comparison from the store.

    Attributes:
        target: the model that it used.
        messages: the answers in the order of the columns; traces: the trace of each, None if it is gone or cannot be read.
        requests: as `Setup.requests` makes them.
    """

    setup: Setup
    target: str
    messages: tuple[StoredMessage, ...]
    traces: tuple[Trace | None, ...]
    requests: tuple[Request, ...]

    def comparison(self) -> Comparison:
        """Returns the comparison with these answers."""
        comparison = Comparison(self.setup, self.requests)
        for index, (message, trace) in enumerate(zip(self.messages, self.traces, strict=True)):
            if trace is not None:
                comparison.read(index, trace)
            else:
                comparison.columns[index].show_text(message.text, "" if message.made is None else message.made.failure)
        return comparison


def read_stored(number: int, store: ChatStore) -> StoredComparison:
    """Reads a comparison and its traces. Raises DraftlightError if it cannot be shown."""
    conversation = store.open(number)
    setup = setup_from_json(conversation.settings.comparison or {})
    messages = tuple(message for message in conversation.messages if message.role == "assistant")
    if len(messages) != len(setup.columns):
        raise DraftlightError("This comparison lacks answers, so it cannot be shown.")
    settings = conversation.settings
    requests = setup.requests(settings.target, settings.options, settings.system, settings.thinking)
    return StoredComparison(setup, settings.target, messages, tuple(map(_trace, messages)), requests)


def _trace(message: StoredMessage) -> Trace | None:
    try:
        return None if message.trace is None else read(message.trace)
    except DraftlightError:
        return None


class ComparisonRecorder:
    """Queues writes about comparisons.

    Args:
        notify: called after the content of the store has changed.
    """

    def __init__(self, keeper: ChatKeeper, notify: Callable[[object], object]) -> None:
        self.keeper, self._notify = keeper, notify

    def with_traces(self, requests: Sequence[Request]) -> tuple[Request, ...]:
        """Returns requests with a path for the trace of each, at which the store finds it."""
        if not self.keeper.stores:
            return tuple(requests)
        now = datetime.now(UTC)
        return tuple(replace(request, trace_path=str(traces_folder() / trace_name(now))) for request in requests)

    def begin(self, comparison: Comparison, requests: Sequence[Request], title: str) -> None:
        """Stores the beginning of every answer. `title`: empty for that of the prompt."""
        first = requests[0]
        system = next((message.content for message in first.messages if message.role == "system"), "")
        settings = ChatSettings(
            system, first.target, first.drafter, first.options, first.template, first.thinking,
            comparison=setup_to_json(comparison.setup),
        )  # fmt: skip
        made = [_making(column, request, system) for column, request in zip(comparison.columns, requests, strict=True)]
        self.keeper.write(partial(_begin, comparison, tuple(requests), settings, made, title), self._notify)

    def finish(self, column: Column, request: Request) -> None:
        """Stores the final state of an answer; a running one counts as stopped."""
        answer, state, said = column.answer, state_of(column.answer), column.answer.text.text
        system = next((message.content for message in request.messages if message.role == "system"), "")
        made = _making(column, request, system)
        path = request.trace_path if answer.result is None else answer.result.trace_path

        def finish(store: ChatStore) -> None:
            """Stores it if its beginning was."""
            if answer.stored_id is not None:
                store.finish_answer(answer.stored_id, state, said, made, path)

        self.keeper.write(finish, self._notify)


def _making(column: Column, request: Request, system: str) -> Making:
    column.answer.request = request
    return making_of(column.answer, system)


def _begin(
    comparison: Comparison,
    requests: tuple[Request, ...],
    settings: ChatSettings,
    made: Sequence[Making],
    title: str,
    store: ChatStore,
) -> None:
    """Stores a comparison: one prompt with all answers or, if columns have their own, a prompt for each."""
    with store.together():
        number = store.create(settings, title=title)
        prompts: dict[str, int] = {}
        for column, request, making in zip(comparison.columns, requests, made, strict=True):
            if column.prompt not in prompts:
                prompts[column.prompt] = store.add_message(number, None, "user", column.prompt)
            begun = store.begin_answer(number, prompts[column.prompt], making, trace_path=request.trace_path)
            column.answer.stored_id = begun.message
