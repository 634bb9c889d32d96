"""An answer grows by the tokens of its rounds and ends for one reason."""

from __future__ import annotations

import pytest

from engine.decode.answer import Answer
from engine.types import DecodingOptions
from engine.values.errors import DraftlightError


class Letters:
    """A tokenizer whose token is one letter, from "a" at 0 on."""

    def token_bytes(self, token: int) -> bytes:
        return bytes([97 + token])


def answer(given: int = 0, context_length: int | None = None, eos: int = 25, **options: object) -> Answer:
    asked = DecodingOptions(**{"max_tokens": 6, **options})  # type: ignore[arg-type]
    return Answer([0, 1, 2], given, asked, Letters(), frozenset({eos}), context_length, False)


def test_all_that_was_emitted_is_committed_until_something_ends_the_text() -> None:
    made = answer()
    assert made.append([3, 4], False) == ([3, 4], "de", None)
    assert (made.tokens, made.newest, made.room) == ([0, 1, 2, 3, 4], 4, 4)
    assert made.append([5, 25, 7], False) == ([5, 25], "f", "eos")
    assert made.tokens == [0, 1, 2, 3, 4, 5, 25]


@pytest.mark.parametrize(
    ("made", "finish"),
    [(answer(max_tokens=2), "length"), (answer(given=2, max_tokens=4), "length"), (answer(context_length=5), "context")],
)
def test_it_ends_where_no_room_is_left(made: Answer, finish: str) -> None:
    """Given tokens count for the length; a context that is full ends it before its own limit."""
    assert made.room == 2
    assert made.append([3], False).finish is None
    assert made.append([4], False).finish == finish and made.room == 0


def test_an_end_of_the_text_comes_before_a_limit_and_a_limit_before_a_stop() -> None:
    assert answer(max_tokens=1).append([25], True).finish == "eos"
    assert answer(max_tokens=1, stop=("d",)).append([3], True).finish == "stop"
    assert answer(max_tokens=1).append([3], True).finish == "length"
    assert answer().append([3], True).finish == "cancelled"


def test_a_possible_beginning_of_a_stop_text_is_held_back_until_the_answer_ends() -> None:
    made = answer(stop=("de",))
    assert made.append([3], False) == ([3], "", None) and made.text.holds_back
    assert made.append([5], False).text == "df"
    made = answer(stop=("de",))
    assert made.append([3], True) == ([3], "d", "cancelled")
    assert answer(stop=("de",)).append([2, 3, 4, 5], False) == ([2, 3, 4], "c", "stop")


def test_an_impossible_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        Answer([], 0, DecodingOptions(), None, frozenset(), None, False)
    with pytest.raises(ValueError, match="needs a tokenizer"):
        Answer([1], 0, DecodingOptions(stop=("a",)), None, frozenset(), None, False)
    with pytest.raises(DraftlightError, match="3 tokens long, but the model reads at most 3"):
        answer(context_length=3)
