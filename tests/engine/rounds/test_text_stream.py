"""Claims about streaming text: whole characters, stop texts found wherever they are split, beginnings held back."""

from __future__ import annotations

import random

import pytest

from engine.rounds.text_stream import AnswerText, CharacterStream, StopScanner


@pytest.mark.parametrize("text", ["naïve café", "日本語テキスト", "a👩‍👩‍👧b", "mixed: é👍字"])
def test_characters_cut_at_any_byte_come_out_whole(text):
    data = text.encode()
    for size in range(1, len(data) + 1):
        stream = CharacterStream()
        pieces = [stream.push(data[start : start + size]) for start in range(0, len(data), size)]
        assert "".join(pieces) + stream.finish() == text
        assert all("\ufffd" not in piece for piece in pieces)


def test_an_unfinished_character_at_the_end_is_shown_as_replaced():
    stream = CharacterStream()
    assert stream.push("é".encode()[:1]) == ""
    assert stream.finish() == "\ufffd"


def scan(text: str, stops: list[str], cuts: list[int]) -> tuple[str, bool]:
    scanner, shown = StopScanner(stops), ""
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        released, stopped = scanner.push(text[start:end])
        shown += released
        assert text.startswith(shown)
        if stopped:
            return shown, True
    return shown + scanner.finish(), False


def test_stop_texts_are_found_wherever_the_text_is_split():
    generator = random.Random(5)
    for _ in range(3000):
        text = "".join(generator.choice("ab\n") for _ in range(generator.randrange(1, 20)))
        stops = [
            "".join(generator.choice("ab\n") for _ in range(generator.randrange(1, 5))) for _ in range(generator.randrange(1, 4))
        ]
        cuts = sorted(generator.sample(range(1, len(text)), min(len(text) - 1, generator.randrange(0, 6))))
        shown, stopped = scan(text, stops, cuts)
        assert stopped == any(stop in text for stop in stops)
        if not stopped:
            assert shown == text
        else:
            assert not any(stop in shown for stop in stops)
            rest = text[len(shown) :]
            assert any(rest.startswith(stop) for stop in stops), "cut right before a stop text"


def test_nothing_of_a_stop_text_is_ever_shown():
    scanner = StopScanner(["END"])
    assert scanner.push("the E") == ("the ", False)
    assert scanner.push("N") == ("", False)
    assert scanner.push("d.") == ("ENd.", False)
    assert scanner.push("EEN") == ("E", False)
    assert scanner.push("D after") == ("", True)


class Bytes:
    """A tokenizer whose token is a byte."""

    def token_bytes(self, token: int) -> bytes:
        return bytes([token])


def test_what_each_token_adds_joins_to_the_answer():
    text = "né👍!"
    answer = AnswerText(Bytes(), (), frozenset({0}))
    shown = "".join(answer.push(byte)[0] for byte in [*text.encode(), 0]) + answer.finish()
    assert shown == text
    assert answer.latest(len(text.encode()) + 1) == ["n", "", "é", "", "", "", "👍", "!", ""]
    assert answer.text_of(0xC3) == "\ufffd"


def test_a_stop_text_may_end_inside_a_later_token():
    answer = AnswerText(Bytes(), ("é",), frozenset())
    outcomes = [answer.push(byte) for byte in "aé".encode()]
    assert outcomes == [("a", False), ("", False), ("", True)]
