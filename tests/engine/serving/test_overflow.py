"""Conversations that are too long for the context: refused with a way on, or read without their oldest turns."""

from __future__ import annotations

import pytest

from engine.serving.prompt import ContextFull, fitted, prompt_of
from engine.types import DecodingOptions, LoadFinished, Message, Overflow, PromptCounted, Request, RunStarted
from tests.engine.desk import Desk, trace_of
from tests.engine.fakes import FakeBackend, FakeTarget, FakeTokenizer

LIMIT = 1000
OPTIONS = DecodingOptions(max_tokens=40, seed=1)


def talk(*lengths: int, system: str = "") -> tuple[Message, ...]:
    """Turns of so many letters: prompts, each but the last with an answer of the same length."""
    messages = [Message("system", system)] if system else []
    for length in lengths:
        messages += [Message("user", "u" * length), Message("assistant", "a" * length)]
    return tuple(messages[:-1])


def tokens(messages: tuple[Message, ...]) -> int:
    """Of the fake template: a token for each letter, roles in brackets, and the opening of the answer."""
    return sum(len(message.role) + 2 + len(message.content) for message in messages) + len("<assistant>")


@pytest.mark.parametrize("system", ["", "Be brief."])
def test_the_oldest_turns_are_left_out_until_answer_and_some_more_fit(system: str) -> None:
    request = Request(talk(*[100] * 8, system=system), OPTIONS, overflow="drop")
    prompt = prompt_of(FakeTarget("chat"), request)
    opening = request.messages[: bool(system)]
    kept = (*opening, *request.messages[len(opening) + prompt.dropped :])
    assert prompt.dropped and kept[len(opening)].role == "user" and kept[-1] == request.messages[-1]
    assert len(prompt.ids) == tokens(kept)
    assert "".join(map(chr, prompt.ids)) == FakeTokenizer().decode(FakeTokenizer().apply_chat_template(kept))
    assert len(prompt.ids) <= LIMIT - OPTIONS.max_tokens - LIMIT // 4, "room is left for turns to come"
    one_more = (*opening, *request.messages[len(opening) + prompt.dropped - 2 :])
    assert tokens(one_more) > LIMIT - OPTIONS.max_tokens - LIMIT // 4, "and no turn is left out in vain"


def test_no_turn_is_dropped_without_need() -> None:
    fits = talk(100, 100, 100, 100)
    assert tokens(fits) <= LIMIT - OPTIONS.max_tokens < tokens(talk(100, 100, 100, 100, 100))
    assert prompt_of(FakeTarget("chat"), Request(fits, OPTIONS, overflow="drop")).dropped == 0
    over = Request(talk(100, 100, 100, 100, 100), OPTIONS)
    assert fitted(FakeTarget("chat"), over).dropped == 0, "unless the user wants that, nothing is"


def test_dropped_turns_stay_dropped_while_that_suffices() -> None:
    """Otherwise the beginning of the prompt changes with every turn, and all of it has to be read again."""
    target, lengths, dropped, changes = FakeTarget("chat"), [60], 0, 0
    for _ in range(40):
        request = Request(talk(*lengths), OPTIONS, overflow="drop", dropped=dropped)
        now = prompt_of(target, request)
        assert len(now.ids) + OPTIONS.max_tokens <= LIMIT
        changes += now.dropped != dropped
        dropped = now.dropped
        lengths.append(60)
    assert dropped > 50
    assert changes <= 40 / 2, "at most every second turn"
    smaller = Request(talk(*lengths[:3]), OPTIONS, overflow="drop", dropped=dropped)
    assert prompt_of(target, smaller).dropped == 0, "a conversation that fits again is read whole"


def test_a_conversation_that_is_too_long_is_refused_with_the_ways_on(desk: Desk) -> None:
    long = talk(300, 300, 300)
    failed = desk.failure(messages=long, max_tokens=40)
    assert failed.may_drop
    for words in (f"{tokens(long):,} tokens", "reads at most 1,000", "Leave out the oldest turns", "start a new chat"):
        assert words in failed.message


@pytest.mark.parametrize("overflow", ["stop", "drop"])
@pytest.mark.parametrize("before", [(), (100, 100)])
def test_dropping_turns_is_not_offered_if_the_message_alone_is_too_long(overflow: Overflow, before: tuple[int, ...]) -> None:
    request = Request(talk(*before, 1200), OPTIONS, overflow=overflow)
    with pytest.raises(ContextFull, match=r"message alone.*1,217 tokens.*at most 1,000") as refused:
        prompt_of(FakeTarget("chat"), request)
    assert not refused.value.may_drop


def test_raw_text_is_never_cut() -> None:
    base = FakeTarget("base", tokenizer=FakeTokenizer(None))
    request = Request(talk(100, 100, 1200), OPTIONS, overflow="drop")
    with pytest.raises(ContextFull, match=r"message alone.*1,200 tokens") as refused:
        prompt_of(base, request)
    assert not refused.value.may_drop


def test_event_and_trace_say_how_many_messages_were_left_out(desk: Desk) -> None:
    messages = talk(*[100] * 8)
    prompt = trace_of(desk.answer(messages=messages, max_tokens=40, overflow="drop")).header["prompt"]
    (started,) = desk.of(RunStarted)
    assert started.dropped == fitted(FakeTarget("chat"), Request(messages, OPTIONS, overflow="drop")).dropped > 0
    assert (prompt["dropped"], len(prompt["messages"]), len(prompt["ids"])) == (started.dropped, 15, started.prompt_tokens)


def test_nothing_is_counted_before_a_target_is_loaded(desk: Desk) -> None:
    desk.engine.count_prompt(Request(talk(3)))
    (counted,) = desk.until(PromptCounted)
    assert (counted.tokens, counted.limit) == (None, None)


@pytest.mark.parametrize(("messages", "overflow"), [(talk(10, 20), "stop"), (talk(*[100] * 5), "drop")])
def test_a_count_is_what_the_answer_then_reads(desk: Desk, messages: tuple[Message, ...], overflow: Overflow) -> None:
    desk.answer(messages=messages, max_tokens=40, overflow=overflow)
    (started,) = desk.of(RunStarted)
    number = desk.engine.count_prompt(Request(messages, OPTIONS, overflow=overflow))
    assert desk.until(PromptCounted) == [PromptCounted(number, started.prompt_tokens, LIMIT, started.dropped)]
    assert bool(started.dropped) is (overflow == "drop")


def test_a_count_waits_for_no_answer(desk: Desk, backend: FakeBackend) -> None:
    desk.engine.load("chat")
    desk.until(LoadFinished)
    gate = backend.hold(0)
    run = desk.ask()
    number = desk.engine.count_prompt(Request(talk(5)))
    assert desk.until(PromptCounted) == [PromptCounted(number, tokens(talk(5)), LIMIT)]
    assert not desk.rounds(run)
    gate.release(1000)
    desk.ends([run])
