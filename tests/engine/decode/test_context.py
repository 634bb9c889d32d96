"""What an answer is decoded from is one value, and the public door takes the part of it that others may set."""

from __future__ import annotations

import inspect
from dataclasses import fields

from engine.decode.context import DecodeContext
from engine.decode.decoding import decode


def test_the_door_takes_what_others_may_set_and_keeps_the_rest_to_the_engine() -> None:
    parameters = inspect.signature(decode).parameters.values()
    assert [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY] == [
        "model",
        "prompt_tokens",
        "drafter",
        "options",
    ]
    assert {each.name for each in parameters if each.kind is each.KEYWORD_ONLY} == {
        "tokenizer",
        "eos_ids",
        "cache",
        "control",
        "given",
    }
    own = {field.name for field in fields(DecodeContext)}
    assert own - {each.name for each in parameters} == {"clock", "costs"}


def test_every_answer_has_a_clock_and_a_handle_of_its_own() -> None:
    one, other = DecodeContext(None, [1]), DecodeContext(None, [1])  # type: ignore[arg-type]
    assert one.clock is not other.clock and one.control is not other.control
