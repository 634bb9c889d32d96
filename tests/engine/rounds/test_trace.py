"""A trace returns exactly what was written, survives any truncation, and never affects the answer."""

from __future__ import annotations

import codecs
import gzip
import json
import math
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine.rounds import trace
from engine.rounds.codec import options_from_json, options_to_json, plain, round_from_json, round_to_json
from engine.rounds.trace import SCHEMA, Writer, encode_line, read
from engine.types import (
    ORIGINS,
    RULES,
    SKIPS,
    Candidate,
    DecodingOptions,
    Emitted,
    Expected,
    Milliseconds,
    Outlook,
    Proposal,
    Round,
    Rule,
)
from engine.values.errors import DraftlightError
from tests.traces import write_trace as trace_of
from tests.trees import SECOND_CHOICE, TO_A_LEAF, TREE_RULES, tree_options, tree_rounds

HEADER = {"created": "2026-11-21T12:00:00.000+00:00", "options": options_to_json(DecodingOptions(seed=2**53 - 1)), "prompt": "né"}
TEXTS = ("", "a", " the", "\n", "é", "你", "🙂", "\ufffd", "\u2028", '"', "\\", "\x00", "\x1b[31m", "=1+1", "\ud83d")


def random_round(chance: random.Random, index: int = 0, largest_gamma: int = 4) -> Round:
    """Returns a round with every kind of value."""

    def maybe_number() -> float | None:
        return chance.choice([None, 0.0, 1.0, chance.random(), chance.uniform(-1, 1) * 10 ** chance.randint(-300, 300)])

    def token() -> tuple[int, str, bytes]:
        return chance.randrange(200_000), chance.choice(TEXTS), chance.randbytes(chance.randrange(4))

    def top() -> tuple[Candidate, ...]:
        return tuple(Candidate(chance.randrange(9), chance.choice(TEXTS), chance.random()) for _ in range(chance.randrange(6)))

    def maybe_whole() -> int | None:
        return chance.choice([None, chance.randrange(9)])

    gamma = chance.randint(0, largest_gamma)
    accepted = chance.randint(0, gamma)
    statuses = ("accepted",) * accepted + (("rejected",) + ("unjudged",) * gamma)[: gamma - accepted]
    numbers = [maybe_number() for _ in range(4 * gamma)]
    return Round(
        index=index,
        position=chance.randrange(10_000),
        drafter=chance.choice(["none", "ngram", "modèle"]),
        rule=chance.choice(RULES),
        proposals=tuple(
            Proposal(
                *token(),
                status,
                *numbers[4 * place : 4 * place + 4],
                maybe_whole(),
                maybe_whole(),
                top(),
                top(),
                chance.choice([None, False, True]),
            )
            for place, status in enumerate(statuses)
        ),
        emitted=tuple(
            Emitted(*token(), chance.choice(ORIGINS), maybe_number(), maybe_number(), maybe_number(), top(), maybe_number())
            for _ in range(accepted + 1)
        ),
        expected=tuple(Expected(chance.random(), chance.random(), chance.random()) for _ in range(gamma)),
        milliseconds=Milliseconds(chance.random(), *(maybe_number() for _ in range(5))),
        rows=gamma + 1,
        cache_length=chance.randrange(10_000),
        started=chance.random() * 1e5,
        outlook=chance.choice(
            [
                None,
                Outlook(
                    gamma,
                    1.0 + chance.random(),
                    chance.random(),
                    0.5,
                    maybe_whole(),
                    gamma > 2,
                    skipped=chance.choice([None, *SKIPS]),
                ),
            ]
        ),
        text=chance.choice(TEXTS),
        finish=chance.choice([None, "eos", "stop", "length", "context", "cancelled"]),
    )


def write_trace(path: Path, largest_gamma: int = 4) -> list[Round]:
    chance = random.Random(7)
    written = [random_round(chance, index, largest_gamma) for index in range(3)]
    writer = Writer(path, HEADER)
    for round in written:
        writer.round(round)
        if round.index == 1:
            writer.change({"index": 2, "rule": "block"})
    writer.summary({"finish": "eos", "text": "done"})
    writer.close()
    assert writer.failure is None
    return written


def test_a_round_comes_back_equal_from_its_json() -> None:
    chance = random.Random(1)
    for index in range(500):
        round = random_round(chance, index)
        line = encode_line("round", round_to_json(round))
        assert line.count(b"\n") == 1
        assert line.endswith(b"\n")
        assert round_from_json(json.loads(line)) == round


def test_json_comes_back_equal_from_its_round() -> None:
    chance = random.Random(2)
    for index in range(100):
        value = json.loads(encode_line("round", round_to_json(random_round(chance, index))))
        kind = value.pop("kind")
        assert kind == "round"
        assert round_to_json(round_from_json(value)) == value


def test_values_that_are_not_finite_are_null() -> None:
    chance = random.Random(3)
    round = replace(random_round(chance), started=math.inf, expected=(Expected(math.nan, 0.5, -math.inf),))
    value = json.loads(encode_line("round", round_to_json(round)))
    assert value["started"] is None
    assert value["expected"] == [{"match": None, "gumbel": 0.5, "rejection": None}]
    back = round_from_json(value)
    assert math.isnan(back.started)
    assert math.isnan(back.expected[0].match)


def test_keys_of_later_versions_are_ignored_and_new_optional_ones_may_be_missing() -> None:
    round = random_round(random.Random(4))
    value = {**round_to_json(round), "invented_later": {"a": [1]}}
    for entry in value["proposals"]:
        entry["invented_later"] = 1
    assert round_from_json(value) == round
    later = {**value, "outlook": {**plain(Outlook(2, 1.0, 0.5, 0.5)), "skipped": "for a reason of later"}}
    assert round_from_json(later) == replace(round, outlook=Outlook(2, 1.0, 0.5, 0.5))
    for name in ("started", "text", "finish"):
        del value[name]
    for entry in value["proposals"]:
        del entry["copied"]
    for entry in value["emitted"]:
        del entry["border"]
    round = replace(round, emitted=tuple(replace(token, border=None) for token in round.emitted))
    unrecorded = tuple(replace(proposal, copied=None) for proposal in round.proposals)
    assert round_from_json(value) == replace(round, started=0.0, text="", finish=None, proposals=unrecorded)


@pytest.mark.parametrize(
    "name, value",
    [
        ("index", "0"),
        ("index", True),
        ("rule", "guess"),
        ("proposals", 3),
        ("proposals", [3]),
        ("proposals", [{"id": 1, "text": "a", "bytes": "61", "status": "accepted", "copied": 1}]),
        ("emitted", [{"id": 1}]),
        ("emitted", [{"id": 1, "text": "a", "bytes": "xy", "origin": "plain"}]),
        ("milliseconds", None),
        ("finish", "tired"),
        ("text", None),
    ],
)
def test_impossible_rounds_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        round_from_json({**round_to_json(random_round(random.Random(5))), name: value})


def test_options_come_back_equal() -> None:
    options = DecodingOptions(rule="block", seed=5, gamma="auto", stop=("a", "é"), temperature=0.1, analyse=False)
    assert options_from_json(json.loads(json.dumps(options_to_json(options)))) == options


def test_only_plain_data_goes_into_a_trace() -> None:
    with pytest.raises(TypeError):
        plain({"array": object()})


def test_a_whole_trace_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "answer.jsonl"
    written = write_trace(path)
    found = read(path)
    assert found.header == HEADER
    assert list(found.rounds) == written
    assert found.changes == ({"index": 2, "rule": "block"},)
    assert found.summary == {"finish": "eos", "text": "done"}
    assert found.missing is None
    assert [json.loads(line)["kind"] for line in path.read_text().splitlines()] == [
        "header",
        "round",
        "round",
        "change",
        "round",
        "summary",
    ]


def test_every_line_is_in_the_file_before_the_next_is_made(tmp_path: Path) -> None:
    path = tmp_path / "answer.jsonl"
    writer = Writer(path, HEADER)
    assert path.read_bytes().count(b"\n") == 1
    for index in range(3):
        writer.round(random_round(random.Random(index), index))
        assert path.read_bytes().count(b"\n") == index + 2
        assert len(read(path).rounds) == index + 1
    writer.close()


def test_a_trace_cut_at_any_byte_gives_its_complete_rounds_and_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "answer.jsonl"
    written = write_trace(path, largest_gamma=1)
    content = path.read_bytes()
    ends = [place for place, byte in enumerate(content) if byte == ord("\n")]
    header_end, round_ends, last = ends[0], [ends[1], ends[2], ends[4]], ends[5]
    for length in reversed(range(len(content))):
        os.truncate(path, length)
        if length < header_end:
            with pytest.raises(DraftlightError, match="ends inside its header"):
                read(path)
            continue
        found = read(path)
        # A line is complete even without its final newline.
        complete = sum(end <= length for end in round_ends)
        assert list(found.rounds) == written[:complete]
        if length < last:
            assert found.missing is not None
            assert found.missing.startswith("The answer was cut off")
            assert found.summary is None
        else:
            assert found.missing is None
        assert (found.missing is not None and "incomplete" in found.missing) == (length not in ends and length - 1 not in ends)


@pytest.mark.parametrize(
    "passed_through",
    [
        lambda content: codecs.BOM_UTF8 + content,
        lambda content: content + b"\n",
        lambda content: content + b"\n \t\r\n\n",
        lambda content: content.removesuffix(b"\n"),
        lambda content: content.replace(b"\n", b"\r\n"),
        lambda content: codecs.BOM_UTF8 + content.replace(b"\n", b"\r\n") + b"\r\n  ",
    ],
)
def test_a_trace_that_passed_through_other_programs_is_read(tmp_path: Path, passed_through: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "answer.jsonl"
    write_trace(path)
    whole = read(path)
    content = passed_through(path.read_bytes())
    path.write_bytes(content)
    assert read(path) == whole
    path.with_name("packed.jsonl.gz").write_bytes(gzip.compress(content))
    assert replace(read(tmp_path / "packed.jsonl.gz"), path=path) == whole


def test_damage_in_the_middle_ends_the_reading_there_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "answer.jsonl"
    written = write_trace(path)
    lines = path.read_bytes().splitlines(keepends=True)
    for damage in (b"\xff\xfe\n", b"{}}\n", b"[]\n", b"\n", b"[" * 100_000 + b"\n", lines[1]):
        path.write_bytes(b"".join([*lines[:2], damage, *lines[3:]]))
        found = read(path)
        assert list(found.rounds) == written[:1]
        assert found.missing is not None
        assert "Line 3 is damaged" in found.missing
        assert "3 after it" in found.missing


def test_a_compressed_trace_reads_like_the_one_it_stands_for(tmp_path: Path) -> None:
    path = tmp_path / "answer.jsonl"
    write_trace(path)
    whole = read(path)
    packed = gzip.compress(path.read_bytes())
    path.with_name("answer.jsonl.gz").write_bytes(packed)
    path.unlink()
    assert read(path) == whole
    assert replace(read(tmp_path / "answer.jsonl.gz"), path=path) == whole
    path.with_name("answer.jsonl.gz").write_bytes(packed[: len(packed) * 2 // 3])
    assert (read(path).header, read(path).rounds) == (whole.header, whole.rounds[: len(read(path).rounds)])
    assert read(path).missing is not None
    path.with_name("answer.jsonl.gz").write_bytes(packed[:20] + b"damage" + packed[26:])
    with pytest.raises(DraftlightError, match=r"damaged|not a Draftlight trace"):
        read(path)


def test_unknown_kinds_of_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "answer.jsonl"
    written = write_trace(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b'{"kind":"weather"}\n', *lines[1:]]))
    assert list(read(path).rounds) == written


@pytest.mark.parametrize(
    "content, message",
    [
        (b"hello\n", "is not a Draftlight trace"),
        (b"hello", "is not a Draftlight trace"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "is not a Draftlight trace"),
        (b"\xff\xfe", "is not a Draftlight trace"),
        (b"[1, 2]\n", "is not a Draftlight trace"),
        (b"{}\n", "is not a Draftlight trace"),
        (b'{"kind":"header","schema":"other/1"}\n', "is not a Draftlight trace"),
        (b'{"kind":"header","schema":"draftlight.trace/2"}\n', "this version of Draftlight reads draftlight.trace/1"),
        (b"", "ends inside its header"),
    ],
)
def test_foreign_files_are_refused_by_name(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "foreign.jsonl"
    path.write_bytes(content)
    with pytest.raises(DraftlightError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_what_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DraftlightError, match="cannot be read"):
        read(tmp_path)
    with pytest.raises(DraftlightError, match="No such file"):
        read(tmp_path / "missing.jsonl")


class FullDisk:
    """Replaces `os.write`: writes some bytes, then reports a full disk as the system does."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.refusals = 0

    def __call__(self, descriptor: int, data: bytes) -> int:
        if self.room == 0:
            self.refusals += 1
            raise OSError(28, "No space left on device")
        taken = min(self.room, len(data))
        self.room -= taken
        return REAL_WRITE(descriptor, data[:taken])


REAL_WRITE = os.write


@pytest.mark.parametrize("spare", [0, 1, 100])
def test_a_full_disk_leaves_complete_lines_and_does_not_raise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, spare: int
) -> None:
    whole = tmp_path / "whole.jsonl"
    written = write_trace(whole)
    two_lines = b"".join(whole.read_bytes().splitlines(keepends=True)[:2])
    disk = FullDisk(len(two_lines) + spare)
    monkeypatch.setattr(trace.os, "write", disk)
    path = tmp_path / "answer.jsonl"
    writer = Writer(path, HEADER)
    for round in written:
        writer.round(round)
    writer.summary({"finish": "eos"})
    writer.close()
    assert writer.failure is not None
    assert "No space left" in writer.failure
    assert path.read_bytes() == two_lines
    assert disk.refusals == 1, "nothing is tried after the first failure"
    assert len(caplog.records) == 1, "it is reported once"
    found = read(path)
    assert list(found.rounds) == written[:1]
    assert found.missing is not None


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")
def test_the_systems_own_full_device_is_met_the_same_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    writer = Writer(tmp_path / "answer.jsonl", HEADER)
    with open("/dev/full", "wb") as full:
        monkeypatch.setattr(trace.os, "write", lambda _, data: REAL_WRITE(full.fileno(), data))
        writer.round(random_round(random.Random(0)))
    writer.close()
    assert writer.failure is not None
    assert "No space left" in writer.failure
    assert read(tmp_path / "answer.jsonl").header == HEADER


def test_an_existing_file_is_never_overwritten(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "precious.txt"
    path.write_text("mine")
    writer = Writer(path, HEADER)
    writer.round(random_round(random.Random(0)))
    writer.close()
    assert path.read_text() == "mine"
    assert writer.failure is not None
    assert "exists" in writer.failure


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    writer = Writer(tmp_path / "file" / "answer.jsonl", {"schema_note": SCHEMA})
    writer.close()
    assert writer.failure is not None


@pytest.mark.parametrize("rule", TREE_RULES)
def test_trees_come_back_from_their_trace(rule: Rule, tmp_path: Path) -> None:
    rounds = tree_rounds(tree_options(rule))
    assert {token.parent for current in rounds for token in current.proposals} > {-1, 0}
    assert read(trace_of(tmp_path / "a.jsonl", rounds)).rounds == rounds


@pytest.mark.parametrize(
    ("at", "name", "value"),
    [
        (0, "parent", 0),
        (2, "parent", -2),
        (3, "parent", 3),
        (4, "parent", 10**30),
        (4, "parent", None),
        (0, "parent", True),
        (1, "parent", "0"),
        (1, "parent", 0.5),
        (1, "parent", []),
        (1, "rank", -1),
        (1, "rank", None),
    ],
)
def test_a_trace_with_an_impossible_tree_is_damaged_there(at: int, name: str, value: object, tmp_path: Path) -> None:
    path = trace_of(tmp_path / "a.jsonl", [SECOND_CHOICE, TO_A_LEAF])
    lines = path.read_text(encoding="utf-8").splitlines()
    entry = json.loads(lines[1])
    entry["proposals"][at][name] = value
    path.write_text("\n".join([lines[0], json.dumps(entry), *lines[2:]]) + "\n", encoding="utf-8")
    found = read(path)
    assert found.rounds == () and found.missing is not None and found.missing.startswith("Line 2 is damaged (")
