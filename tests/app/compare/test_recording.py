"""The recorded demonstration fits the preset, the trace format and what the page says about it.

If one of these fails, `make demonstration` records it again.
"""

from __future__ import annotations

import gzip
import json

import pytest

from app.compare.comparison import LETTERS, Comparison
from app.compare.findings import conclusion, paired_of, rule_findings
from app.compare.presets import PRESETS
from app.compare.recording import RECORDED, TARGET, recorded_comparison, recorded_setup
from app.session.settings import Settings
from engine.exports.tables import options_of
from engine.rounds.codec import options_to_json, round_from_json, round_to_json
from engine.rounds.trace import SCHEMA, read

(PRESET,) = (preset for preset in PRESETS if preset.recorded)
REQUESTS = recorded_setup(PRESET).requests(TARGET, Settings().options())


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return recorded_comparison(PRESET)[0]


@pytest.mark.parametrize("column", range(len(REQUESTS)))
def test_every_line_of_the_recording_is_read_as_it_was_written(column: int) -> None:
    path = RECORDED / f"{LETTERS[column]}.jsonl.gz"
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert lines[0]["schema"] == SCHEMA
    rounds = [line for line in lines if line.pop("kind") == "round"]
    for line in rounds:
        again = round_to_json(round_from_json(line))
        assert {name: again.get(name) for name in line} == line
    trace = read(RECORDED / f"{LETTERS[column]}.jsonl")
    assert trace.missing is None and len(trace.rounds) == len(rounds) > 8
    asked = REQUESTS[column]
    recorded = lines[0]["options"]
    assert {name: options_to_json(asked.options).get(name) for name in recorded} == recorded
    assert options_of(trace) == asked.options
    assert [text for role, text in trace.messages if role == "user"] == [asked.messages[-1].content]
    assert trace.part("drafter")["name"] == asked.drafter


def test_it_shows_what_it_is_there_to_show(comparison: Comparison) -> None:
    gumbel, rejection = rule_findings(comparison)
    assert (gumbel.kind, rejection.kind) == ("same", "expected")
    assert conclusion(comparison)[0] == "Gumbel kept the text when the drafter changed; Rejection did not."
    paired = paired_of(comparison)
    assert paired is not None and paired.differences["rejection"].low is not None
    assert paired.differences["rejection"].low > 0, "Rejection accepts more, and the sample shows it"
    assert comparison.divergence is not None and comparison.divergence < 20
    assert any(run.rejected_at(comparison.divergence) for run in comparison.columns[2:])


def test_it_names_the_machine_but_nothing_private_and_stays_small() -> None:
    assert "core" in recorded_comparison(PRESET)[1]
    for letter in LETTERS:
        trace = read(RECORDED / f"{letter}.jsonl")
        assert "/" not in json.dumps({name: part for name, part in trace.header.items() if name != "prompt"}).replace("<|", "")
    assert sum(path.stat().st_size for path in RECORDED.iterdir()) < 150_000
