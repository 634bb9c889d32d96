"""All views read an answer in the same order and show invisible characters in the same way."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest

from app.cli.terminal import STYLES, RoundPainter, status_line
from app.session.answer_pieces import AnswerPieces
from engine.exports.export import read_traces, to_html
from engine.lens.pieces import (
    GHOSTS,
    MAX_TOKEN_LENGTH,
    CodeSplitter,
    Piece,
    Spot,
    fold_of,
    folded,
    pieces,
    spot_of_emitted,
    visible,
    visible_candidate,
    without_controls,
)
from engine.lens.shared_wording import FINISH_WORDS, LEGEND
from engine.rounds.metrics import summarise
from engine.types import Candidate, Emitted, Finish, Milliseconds, Origin, Proposal, Round
from tests.app.fakes import make_round, story_rounds
from tests.traces import write_trace

SEEN = [
    (" the", b" the", "·the", " the"),
    (" ", b" ", "·", "·"),
    ("  ", b"  ", "··", "··"),
    (" a\tb\r\n", b" a\tb\r\n", "·a⇥b⏎", " a⇥b⏎"),
    ("\n\n", b"\n\n", "⏎⏎", "⏎⏎"),
    ("\x00\x1b\x7f", b"\x00\x1b\x7f", "␀␛␡", "␀␛␡"),
    ("\x9b", "\x9b".encode(), "‹9B›", "‹9B›"),
    ("a\u200b", "a\u200b".encode(), "a‹200B›", "a‹200B›"),
    ("\N{REPLACEMENT CHARACTER}", b"\xf0\x9f", "‹F0 9F›", "‹F0 9F›"),
    ("", b"\xf0\x9f", "‹F0 9F›", "‹F0 9F›"),
    ("😀", b"\x98\x80", "😀", "😀"),  # the token that completes a character is shown as that character
    ("", b"<|im_end|>", "<|im_end|>", "<|im_end|>"),
    ("", b"", "‹nothing›", "‹nothing›"),
]


@pytest.mark.parametrize(("text", "data", "alone", "running"), SEEN)
def test_everything_in_a_token_can_be_seen(text: str, data: bytes, alone: str, running: str) -> None:
    assert visible(text, data) == alone
    assert visible(text, data, within_text=True) == running


def test_single_token_is_cut_at_the_maximum_length() -> None:
    for data in (b"", b"x" * 10**6):
        for running in (False, True):
            assert visible("x" * 10**6, data, running) == "x" * MAX_TOKEN_LENGTH + "…"
    halves = visible("\ufffd" * 10**6, b"\xf0\x9f" * 10**6)
    assert halves.startswith("‹F0 9F") and halves.endswith("…›") and len(halves) < 4 * MAX_TOKEN_LENGTH
    assert visible("x" * MAX_TOKEN_LENGTH) == "x" * MAX_TOKEN_LENGTH


def test_candidate_with_half_a_character_shows_its_id() -> None:
    assert visible_candidate(Candidate(7, "\N{REPLACEMENT CHARACTER}", 0.5)) == "‹bytes, id 7›"
    assert visible_candidate(Candidate(7, "\n", 0.5)) == "⏎"


def test_no_token_is_invisible_and_no_control_character_is_left() -> None:
    for code in [*range(0x300), 0x2028, 0x2029, 0x202D, 0x202E, 0xFEFF, 0xE000, 0x1F600]:
        for running in (False, True):
            shown = visible(chr(code), within_text=running)
            assert shown.strip() and shown.isprintable(), hex(code)
        assert not set(map(ord, without_controls(chr(code)))) & {*range(0x20), *range(0x7F, 0xA0), 0x202D, 0x202E} - {10, 9}


def ghosts_and_text(shown: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Joins adjacent texts of one kind, since neither a page nor a terminal shows where a token ends."""
    joined: list[tuple[str, str]] = []
    for text, kind in shown:
        if text and joined and joined[-1][1] == kind:
            joined[-1] = (joined[-1][0] + text, kind)
        elif text:
            joined.append((text, kind))
    return joined


class AnswerOfPage(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self._kind, self._inside = "", False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        name = dict(attrs).get("class") or ""
        self._inside = self._inside or name == "answer"
        self._kind = name if tag in ("span", "del") and self._inside else ""

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "div"
        self._kind = ""

    def handle_data(self, data: str) -> None:
        if self._inside and self._kind:
            self.found.append((data, self._kind))


def of_terminal(painted: str) -> list[tuple[str, str]]:
    kinds = {code: kind for kind, code in STYLES.items()}
    found = []
    for code, styled, plain in re.findall("\x1b\\[([\\d;]+)m(.*?)\x1b\\[0m|([^\x1b]+)", painted, re.DOTALL):
        found.append((styled or plain, kinds[code] if styled else "plain"))
    return found


def nasty_rounds(seed: int, many: int) -> list[Round]:
    """Returns rounds with ghosts, invisible tokens, text held back over several rounds, and a cut-off end."""
    chance = random.Random(seed)
    words = ["a", " b", "\n", "  ", "\t", "\x1b[2J", "é", " END", "\x85"]
    rounds, waiting = [], ""
    for index in range(many):
        gamma = chance.randrange(4)
        accepted = chance.randrange(gamma + 1)
        tokens = [chance.choice(words) for _ in range(gamma)]
        statuses = ["accepted"] * accepted + ["rejected"] * (accepted < gamma) + ["unjudged"] * (gamma - accepted - 1)
        proposals = [Proposal(1, text, text.encode(), status) for text, status in zip(tokens, statuses, strict=True)]  # type: ignore[arg-type]
        origin: Origin = "plain" if not gamma else "bonus" if accepted == gamma else "correction"
        own = chance.choice(words)
        emitted = [Emitted(1, text, text.encode(), "accepted") for text in tokens[:accepted]]
        emitted.append(Emitted(1, own, own.encode(), origin))
        waiting += "".join(token.text for token in emitted)
        released = waiting[: chance.randrange(len(waiting) + 1)]
        waiting = waiting[len(released) :]
        tokens_ = (tuple(proposals), tuple(emitted), (), Milliseconds(1.0), 1, 1)
        rounds.append(Round(index, 0, "d", "gumbel", *tokens_, text=released, finish="stop" if index == many - 1 else None))
    return rounds


@pytest.mark.parametrize("rounds", [story_rounds(), *(nasty_rounds(seed, 40) for seed in range(4))])
def test_window_report_and_terminal_show_the_same_tokens_in_the_same_order(rounds: list[Round], tmp_path: Path) -> None:
    read = [(piece.text, piece.kind) for piece in pieces(rounds)]
    assert "".join(text for text, kind in read if kind not in GHOSTS) == "".join(round_.text for round_ in rounds)
    window = AnswerPieces()
    for round_ in rounds:
        window.add(round_)
    assert [(piece.text, piece.kind) for piece in window.pieces] == read
    shown = [(without_controls(text), kind) for text, kind in read]
    page = to_html(read_traces([write_trace(tmp_path / "trace.jsonl", rounds)]))
    assert ghosts_and_text(AnswerOfPage(page).found) == ghosts_and_text(shown)  # type: ignore[arg-type]
    painter = RoundPainter()
    lines = [(text.replace("\n", ""), kind) for text, kind in shown]  # a style ends before its line does
    painted = [(text.replace("\n", ""), kind) for text, kind in of_terminal("".join(map(painter.paint, rounds)))]
    assert ghosts_and_text(painted) == ghosts_and_text(lines)  # type: ignore[arg-type]


def test_text_held_back_for_a_stop_text_is_not_shown() -> None:
    rounds = [
        make_round(0, [" one"], " tw", text=" one"),
        make_round(1, ["o"], " END", text=" two", finish="stop"),
    ]
    assert "".join(piece.text for piece in pieces(rounds) if not piece.ghost) == " one two"


def test_ghosts_are_placed_before_the_correction() -> None:
    rounds = [make_round(0, [" a"], " right", [" wrong", " later"], finish="eos")]
    assert [(piece.text, piece.kind) for piece in pieces(rounds)] == [
        (" a", "accepted"),
        (" wrong", "rejected"),
        (" later", "unjudged"),
        (" right", "correction"),
    ]


def test_pieces_stand_in_the_order_of_their_spots() -> None:
    for rounds in (story_rounds(), nasty_rounds(9, 60)):
        spots = [piece.spot for piece in pieces(rounds)]
        assert spots == sorted(spots)


def test_an_accepted_token_without_its_proposal_is_the_targets_own() -> None:
    """A damaged or foreign trace may contain this; no view may access the missing proposal."""
    round_ = replace(make_round(0, ["a"], "b"), proposals=())
    assert spot_of_emitted(round_, 0) == Spot(0, True, 0)
    assert list(pieces([round_])) == [Piece("a", "accepted", Spot(0, True, 0)), Piece("b", "bonus", Spot(0, True, 1))]


@pytest.mark.parametrize("finish", get_args(Finish))
def test_finish_words_are_the_same_everywhere(finish: Finish, tmp_path: Path) -> None:
    rounds = [make_round(0, ["a"], "b", finish=finish)]
    trace = write_trace(tmp_path / "trace.jsonl", rounds, summary={"finish": finish})
    assert f"Finish: {FINISH_WORDS[finish]}." in to_html(read_traces([trace]))
    assert f" · {FINISH_WORDS[finish]} · " in status_line(summarise(rounds), finish, None, 7)


def test_every_kind_of_token_is_in_the_legend() -> None:
    assert set(LEGEND) | {"plain"} == set(STYLES)


def test_none_of_it_needs_mlx_or_qt() -> None:
    loaded = "any(name.startswith(('PySide6', 'mlx')) for name in sys.modules)"
    code = f"import sys, engine.lens.pieces, engine.lens.shared_wording; sys.exit({loaded})"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])


def test_unjudged_proposals_fold_into_one_sign_that_counts_them() -> None:
    rounds = [make_round(0, [" a"], " b", [" c", " d", "e"], position=4), make_round(1, [], " f", [" g", "h"], position=6)]
    told = list(pieces(rounds))
    shown = list(folded(told))
    assert [(piece.text, piece.kind) for piece in shown] == [
        (" a", "accepted"),
        (" c", "rejected"),
        (" ⋯\N{WORD JOINER}2", "unjudged"),
        (" b", "correction"),
        (" g", "rejected"),
        ("⋯\N{WORD JOINER}1", "unjudged"),
        (" f", "correction"),
    ]
    assert [piece.spot for piece in shown if piece.kind == "unjudged"] == [fold_of(round_) for round_ in rounds]
    assert list(folded(shown[:2])) == shown[:2], "what is not unjudged stays as it is"


def test_folds_of_two_rounds_stay_two() -> None:
    rounds = [make_round(index, [], "", ["x", "y", "z"], position=4 + index) for index in range(2)]
    unjudged = [piece for piece in pieces(rounds) if piece.kind == "unjudged"]
    assert [piece.text for piece in folded(unjudged)] == ["⋯\N{WORD JOINER}2"] * 2


# Code: found by its fences, as by Qt's Markdown reader, however the text is split into tokens


FENCED = [
    "Before\n\n```python\ndef f():\n    return 1\n```\nAfter",
    "~~~\na\n```\nb\n~~~\nc",
    "````\n```\nx\n```\n````\ny",
    "No end:\n\n```\nx\n  y",
    "Not `inline` code, nor ``` three in a line ``` of text\n",
    "```\n```\nempty",
    "1. item\n\n   ```\n   in the item\n   ```\n\ndone",
]


def marked(text: str, cuts: list[int]) -> list[str]:
    """Returns the lines that are code, without the fences."""
    places = CodeSplitter(text)
    edges = [0, *cuts, len(text)]
    letters = [(letter, code) for at, end in pairwise(edges) for part, code in places.parts(text[at:end]) for letter in part]
    assert "".join(letter for letter, _ in letters) == text
    lines, line = [], []
    for letter, code in [*letters, ("\n", False)]:
        if letter == "\n":
            words = "".join(one for one, _ in line)
            if any(code for _, code in line) and not words.strip().startswith(("```", "~~~")):
                lines.append(words.strip())
            line = []
        else:
            line.append((letter, code))
    return lines


@pytest.mark.parametrize("text", FENCED)
def test_fenced_lines_are_code_as_qt_reads_them(qapp: Any, text: str) -> None:
    from PySide6.QtGui import QTextDocument, QTextFormat

    document = QTextDocument()
    document.setMarkdown(text)
    block, expected = document.begin(), []
    while block.isValid():
        if block.blockFormat().hasProperty(QTextFormat.Property.BlockCodeFence):
            expected += [line.strip() for line in block.text().split("\n") if line.strip() not in ("", "```")]
        block = block.next()
    for seed in range(8):
        cuts = sorted(random.Random(seed).sample(range(len(text)), k=min(seed * 3, len(text))))
        assert [line for line in marked(text, cuts) if line] == expected


def test_ghost_is_code_by_position_and_moves_no_offset() -> None:
    places = CodeSplitter("a\n```\nb\n```\n", offset=0)
    assert places.parts("a\n") == [("a\n", False)]
    assert places.parts(" ghost", is_ghost=True) == [(" ghost", True)]
    assert places.parts("```\nb\n```\n") == [("```\nb\n```", True), ("\n", False)]
    assert places.parts(" ghost", is_ghost=True) == [(" ghost", False)]


def test_a_fence_with_text_behind_it_ends_no_code() -> None:
    text = "```\na\n``` b\n```"
    assert CodeSplitter(text).parts(text) == [(text, True)]
