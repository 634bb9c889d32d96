"""An answer that begins with decided tokens goes on exactly behind them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from engine.decode.decoding import decode
from engine.decode.text_stream import AnswerText
from engine.drafters import DraftModel
from engine.serving.answer import beginning
from engine.types import RULES, DecodingOptions, RunStarted
from engine.values.errors import DraftlightError
from tests.crossings import crossed
from tests.engine.desk import Desk, trace_of
from tests.engine.fakes import FakeBackend
from tests.engine.small_models import PROMPT, emitted_ids, tiny_llama

OPTIONS = DecodingOptions(seed=11, temperature=1.0, max_tokens=24, gamma=3)
BARE = OPTIONS.replace(max_tokens=14, analyse=False)


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Any]:
    """A target and a draft model."""
    return tiny_llama(1), tiny_llama(2)


@pytest.mark.parametrize(("rule", "kept"), crossed(["match", "gumbel"], [1, 7, 12], together=1))
def test_giving_an_answers_own_tokens_back_gives_the_rest_of_it(pair: tuple[Any, Any], rule: Any, kept: int) -> None:
    target, draft = pair
    options = BARE.replace(rule=rule)
    whole = emitted_ids(list(decode(target, PROMPT, DraftModel(draft), options)))
    rest = list(decode(target, PROMPT + whole[:kept], DraftModel(draft), options, given=kept))
    assert whole[:kept] + emitted_ids(rest) == whole, "noise belongs to positions, and the length counts what was given"
    assert rest[0].position == len(PROMPT) + kept


@pytest.mark.parametrize("rule", RULES)
def test_the_answer_goes_on_as_if_the_given_tokens_were_part_of_the_prompt(pair: tuple[Any, Any], rule: Any) -> None:
    target, draft = pair
    options = BARE.replace(rule=rule)
    given = [3, 96, 4]
    branched = decode(target, PROMPT + given, DraftModel(draft), options, given=len(given))
    asked = decode(target, PROMPT + given, DraftModel(draft), options.replace(max_tokens=14 - len(given)))
    assert emitted_ids(list(branched)) == emitted_ids(list(asked))


class Bytes:
    """A tokenizer whose token is a byte."""

    def token_bytes(self, token: int) -> bytes:
        return bytes([token])


def test_character_may_span_given_and_new_tokens() -> None:
    data = "é".encode()
    target = SimpleNamespace(name="t", vocabulary=[b""] * 256, eos_ids=frozenset((0,)), context_length=100, tokenizer=Bytes())
    start = beginning(target, [*b"caf", data[0]], OPTIONS, 10)
    assert start.text == "caf"
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


def test_trace_text_and_cache_contain_the_given_tokens(desk: Desk, backend: FakeBackend) -> None:
    desk.answer(conversation="c", max_tokens=6)
    finished = desk.answer(conversation="c", max_tokens=6, given=ids("aX"))
    assert desk.of(RunStarted)[1].given == "aX"
    assert finished.text == "aXabcd"
    assert backend.read[1] == [], "all but the last token was in the cache of the first answer"
    trace = trace_of(finished)
    assert trace.header["prompt"]["ids"] == list(ids("<user>hi<assistant>"))
    assert trace.header["given"] == {"ids": list(ids("aX")), "text": "aX"}
    assert trace.summary is not None and trace.summary["text"] == "aXabcd"
    assert trace.rounds[0].position == len("<user>hi<assistant>aX")
    desk.answer(conversation="c", max_tokens=6, given=ids("aXa"))
    assert backend.read[2] == [], "the branch's own cache serves a branch of it"


def ids(text: str) -> tuple[int, ...]:
    return tuple(map(ord, text))


def test_a_text_is_given_as_its_tokens_and_leaves_the_answer_its_length(desk: Desk) -> None:
    finished = desk.answer(max_tokens=6, given_text="aX")
    (started,) = desk.of(RunStarted)
    assert (started.given, started.given_ids, started.options.max_tokens) == ("aX", ids("aX"), 8)
    assert finished.text == "aXabcdef"


def test_given_end_token_is_refused(desk: Desk) -> None:
    assert "ends the answer" in desk.failure(max_tokens=6, given=(127,)).message
    assert not desk.rounds()


@pytest.mark.parametrize(("drafts", "origin"), [(False, "plain"), (True, "bonus")])
def test_every_token_of_the_text_has_the_targets_alternatives_somewhere(pair: tuple[Any, Any], drafts: bool, origin: str) -> None:
    target, _ = pair
    rounds = list(decode(target, PROMPT, DraftModel(target) if drafts else None, OPTIONS))
    for round_ in rounds:
        for index, token in enumerate(round_.emitted):
            beside = round_.proposals[index].target_top if index < len(round_.proposals) else ()
            assert bool(beside) != bool(token.target_top)
            top = beside or token.target_top
            assert token.p is not None
            assert token.id in [entry.id for entry in top] or token.p <= top[-1].probability
    assert origin in {token.origin for round_ in rounds for token in round_.emitted}
