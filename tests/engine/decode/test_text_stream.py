"""Claims about streaming text: whole characters, stop texts found wherever they are split, beginnings held back."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models

from engine.decode.text_stream import AnswerText, CharacterStream, StopScanner
from engine.models.tokenizer_files import from_folder


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


DECODERS = {
    "strip": decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]),
    "metaspace": decoders.Metaspace(prepend_scheme="first"),
    "metaspace, never": decoders.Metaspace(prepend_scheme="never"),
    "gemma": decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]),
}


@pytest.mark.parametrize("decoder", DECODERS)
def test_an_answer_begins_as_the_models_own_decoder_begins_it(decoder: str, tmp_path: Path) -> None:
    pieces = ["<unk>", "▁", "▁▁▁", "▁Hello", "a", "é", "<0x20>", "▁▁b", "c"]
    backend = Backend(models.BPE(vocab={piece: n for n, piece in enumerate(pieces)}, merges=[], byte_fallback=True))
    backend.decoder = DECODERS[decoder]
    backend.save(str(tmp_path / "tokenizer.json"))
    tokenizer, generator = from_folder(tmp_path, len(pieces)), random.Random(1)
    usable = [n for n, piece in enumerate(pieces) if n and (piece != "<0x20>" or "metaspace" not in decoder)]
    for _ in range(200):
        ids = generator.choices(usable, k=6)
        answer, given = AnswerText(tokenizer, (), frozenset()), generator.randrange(3)
        shown = answer.begin(ids[:given]) + "".join(answer.push(token)[0] for token in ids[given:]) + answer.finish()
        assert shown == backend.decode(ids, skip_special_tokens=False), ids
        assert answer.bytes_of(3) == b" Hello"
    going_on = AnswerText(tokenizer, (), frozenset(), continues=True)
    assert going_on.push(3)[0] == " Hello"
