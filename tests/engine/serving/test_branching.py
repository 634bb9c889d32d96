"""An answer that begins with decided tokens goes on exactly behind them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.decode.decoding import decode
from engine.drafters import DraftModel
from engine.rounds.trace import read
from engine.runtime.worker import Engine
from engine.serving.answer import beginning
from engine.types import RULES, DecodingOptions, Message, Request, Round, RoundFinished, RunFailed, RunFinished, RunStarted
from engine.values.errors import DraftlightError
from tests.crossings import crossed
from tests.engine.fakes import PATIENCE, FakeBackend
from tests.engine.small_models import PROMPT, tiny_llama

OPTIONS = DecodingOptions(seed=11, temperature=1.0, max_tokens=24, gamma=3)


def ids(rounds: list[Round]) -> list[int]:
    return [token.id for round_ in rounds for token in round_.emitted]


@pytest.mark.parametrize(("rule", "kept"), crossed(["match", "gumbel"], [1, 7, 20], together=1))
def test_giving_an_answers_own_tokens_back_gives_the_rest_of_it(rule: Any, kept: int) -> None:
    target, draft = tiny_llama(1), tiny_llama(2)
    options = OPTIONS.replace(rule=rule)
    whole = ids(list(decode(target, PROMPT, DraftModel(draft), options)))
    rest = list(decode(target, PROMPT + whole[:kept], DraftModel(draft), options, given=kept))
    assert whole[:kept] + ids(rest) == whole, "noise belongs to positions, and the length counts what was given"
    assert rest[0].position == len(PROMPT) + kept


@pytest.mark.parametrize("rule", RULES)
def test_the_answer_goes_on_as_if_the_given_tokens_were_part_of_the_prompt(rule: Any) -> None:
    target, draft = tiny_llama(1), tiny_llama(2)
    options = OPTIONS.replace(rule=rule)
    given = [3, 96, 4]
    branched = ids(list(decode(target, PROMPT + given, DraftModel(draft), options, given=len(given))))
    asked = ids(list(decode(target, PROMPT + given, DraftModel(draft), options.replace(max_tokens=24 - len(given)))))
    assert branched == asked


class Bytes:
    """A tokenizer whose token is a byte."""

    def token_bytes(self, token: int) -> bytes:
        return bytes([token])


def test_character_may_span_given_and_new_tokens() -> None:
    data = "é".encode()
    target = SimpleNamespace(name="t", vocabulary=[b""] * 256, eos_ids=frozenset((0,)), context_length=100, tokenizer=Bytes())
    start = beginning(target, [*b"caf", data[0]], OPTIONS, 10)
    assert start.text == "caf"
    from engine.decode.text_stream import AnswerText

    text = AnswerText(Bytes(), (), frozenset())
    assert text.begin(start.ids) == "caf"
    assert text.push(data[1]) == ("é", False)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([300], "token 300"),
        ([5, 0], "ends the answer"),
        ([5] * 24, "at most"),
        ([*b"aSTOP"], "stop sequence"),
        ([5] * 6, "context"),
    ],
)
def test_beginning_that_fills_the_answer_is_refused(given: list[int], why: str) -> None:
    target = SimpleNamespace(name="t", vocabulary=[b""] * 256, eos_ids=frozenset((0,)), context_length=16, tokenizer=Bytes())
    with pytest.raises(DraftlightError, match=why):
        beginning(target, given, OPTIONS.replace(stop=("STOP",)), 10 if given != [*b"aSTOP"] else 1)


@pytest.fixture
def engine(home: Path) -> Iterator[tuple[Engine, list[FakeBackend]]]:
    made: list[FakeBackend] = []

    def make() -> FakeBackend:
        made.append(FakeBackend())
        return made[-1]

    engine = Engine(make)
    yield engine, made
    assert engine.close(PATIENCE)


def outcome(engine: Engine, **changes: Any) -> tuple[RunStarted | None, list[Round], RunFinished | RunFailed]:
    engine.submit(Request((Message("user", "hi"),), DecodingOptions(max_tokens=6, seed=1), **changes))
    seen: list[Any] = []
    while not any(isinstance(event, (RunFinished, RunFailed)) for event in seen):
        assert engine.wait(PATIENCE)
        seen += engine.events()
    started = next((event for event in seen if isinstance(event, RunStarted)), None)
    return started, [event.round for event in seen if isinstance(event, RoundFinished)], seen[-1]


def test_trace_text_and_cache_contain_the_given_tokens(engine: tuple[Engine, list[FakeBackend]]) -> None:
    own, made = engine
    outcome(own, conversation="c")
    started, rounds, finished = outcome(own, conversation="c", given=(ord("a"), ord("X")))
    assert started is not None
    assert started.given == "aX"
    assert isinstance(finished, RunFinished)
    assert finished.text == "aXabcd"
    assert made[0].read[1] == [], "all but the last token was in the cache of the first answer"
    assert finished.trace_path is not None
    trace = read(finished.trace_path)
    prompt = trace.header["prompt"]["ids"]
    assert prompt == [ord(letter) for letter in "<user>hi<assistant>"]
    assert trace.header["given"] == {"ids": [ord("a"), ord("X")], "text": "aX"}
    assert trace.summary is not None
    assert trace.summary["text"] == "aXabcd"
    assert rounds[0].position == len(prompt) + 2
    _, _, again = outcome(own, conversation="c", given=(ord("a"), ord("X"), ord("a")))
    assert isinstance(again, RunFinished)
    assert made[0].read[2] == [], "the branch's own cache serves a branch of it"


def test_a_text_is_given_as_its_tokens_and_leaves_the_answer_its_length(engine: tuple[Engine, list[FakeBackend]]) -> None:
    started, _, finished = outcome(engine[0], given_text="aX")
    assert started is not None and isinstance(finished, RunFinished)
    assert (started.given, started.given_ids, started.options.max_tokens) == ("aX", (ord("a"), ord("X")), 8)
    by_ids = outcome(engine[0], given=(ord("a"), ord("X")))[2]
    assert isinstance(by_ids, RunFinished)
    assert finished.text.startswith(by_ids.text)
    assert len(finished.text) == len(by_ids.text) + 2


def test_given_end_token_is_refused(engine: tuple[Engine, list[FakeBackend]]) -> None:
    _, rounds, failed = outcome(engine[0], given=(127,))
    assert rounds == []
    assert isinstance(failed, RunFailed)
    assert "ends the answer" in failed.message


@pytest.mark.parametrize("drafter", [None, tiny_llama(1)])
def test_every_token_of_the_text_has_the_targets_alternatives_somewhere(drafter: Any) -> None:
    rounds = list(decode(tiny_llama(1), PROMPT, drafter and DraftModel(drafter), OPTIONS))
    for round_ in rounds:
        for index, token in enumerate(round_.emitted):
            beside = round_.proposals[index].target_top if index < len(round_.proposals) else ()
            assert bool(beside) != bool(token.target_top)
            top = beside or token.target_top
            assert token.p is not None
            assert token.id in [entry.id for entry in top] or token.p <= top[-1].probability
    assert {token.origin for round_ in rounds for token in round_.emitted} >= ({"bonus"} if drafter else {"plain"})
