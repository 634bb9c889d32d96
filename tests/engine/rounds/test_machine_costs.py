"""Claims about what rounds cost on a machine: how it is measured, told, corrected by what is seen, and kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import mlx.core as mx
import pytest

from engine import clock, measuring
from engine.drafters import DraftModel
from engine.measuring import ROWS, measure
from engine.rounds.machine_costs import KeptCosts, MachineCosts
from engine.types import Milliseconds, Round
from tests.engine.rounds.test_draft_length import OnAClock, round_of
from tests.engine.small_models import VOCAB, tiny_llama


def test_between_what_was_measured_times_lie_on_straight_lines_and_never_fall() -> None:
    costs = MachineCosts({1: 10.0, 2: 15.0, 4: 14.0, 8: 22.0, 16: 38.0}, {"head": (2.0, 1.0)})
    copied, drawn = costs.extra("ngram", draws=False), costs.extra("head", draws=True)
    assert copied is not None and drawn is not None
    assert [copied(gamma) for gamma in (0, 1, 3, 5, 7, 15, 31)] == pytest.approx([0, 0.5, 0.5, 0.8, 1.2, 2.8, 6.0])
    assert [drawn(gamma) for gamma in (0, 1, 3, 7)] == pytest.approx([0, 0.7, 0.8, 2.0])
    assert costs.extra("draft", draws=True) is None and MachineCosts({1: 10.0}).extra("ngram", draws=False) is None


def test_measuring_finds_what_passes_and_draft_steps_take(monkeypatch: pytest.MonkeyPatch) -> None:
    target = OnAClock(tiny_llama(1))
    monkeypatch.setattr(clock, "time", SimpleNamespace(perf_counter=lambda: target.now))
    monkeypatch.setattr(measuring, "chunk_size", lambda model: 512)

    class Slow(OnAClock):
        """A draft model on the clock of the target: 22 ms a step."""

        def __call__(self, tokens: mx.array, cache: object = None) -> mx.array:
            before, self.now = target.now, 0.0
            logits = super().__call__(tokens, cache)
            target.now = before + self.now
            return logits

    loaded = SimpleNamespace(model=target, vocabulary=[b""] * VOCAB)
    costs = MachineCosts()
    steps = sum(1 for _ in measure(loaded, DraftModel(Slow(tiny_llama(2, layers=1)), "draft"), costs))
    assert costs.rows == pytest.approx({rows: 20 + 2 * rows for rows in ROWS})
    first, step = costs.steps["draft"]
    assert step == pytest.approx(22) and 22 <= first <= 26, "the first step may read two tokens"
    assert steps > len(ROWS) and list(measure(loaded, None, costs)) == [], "what is known is not measured again"


def seen(rows: int, milliseconds: float, copied: bool = True) -> Round:
    finished = round_of(0, rows - 1, milliseconds)
    proposals = tuple(replace(proposal, copied=copied) for proposal in finished.proposals)
    times = Milliseconds(milliseconds, draft=None if copied else 4.0)
    return replace(finished, index=1, rows=rows, proposals=proposals, milliseconds=times, drafter="head")


def test_what_an_answer_shows_counts_as_a_ratio_to_its_own_plain_rounds() -> None:
    """Here the machine had half its speed all the time, and rounds of three rows were dearer than was thought."""
    costs = MachineCosts({1: 10.0, 3: 12.0}, {"head": (2.0, 2.0)})
    costs.follow([seen(1, 20.0)] * 5 + [seen(3, 34.0)] * 5 + [seen(2, 40.0)] * 3 + [seen(2, 30.0, copied=False)] * 5, 0.8)
    assert costs.rows[1] == 10.0
    assert costs.rows[3] == pytest.approx(12 + 0.2 * (17 - 12))
    assert 2 not in costs.rows, "three rounds of two rows say too little, and a draft step is no pass"
    assert costs.steps["head"] == pytest.approx((2.0, 2.0)), "4 ms of 20 are 2 of 10"
    costs.follow([seen(3, 99.0)] * 9, 0.8)
    assert costs.rows[3] == pytest.approx(13), "nothing is known without plain rounds"
    assert costs.alpha("head", 0.8) is None, "five verdicts say too little of an alpha"
    costs.follow([seen(2, 30.0, copied=False)] * 20, 0.8)
    assert (costs.alpha("head", 0.8), costs.alpha("head", 0.0)) == (0.0, None)


def test_costs_are_kept_and_a_damaged_file_is_as_good_as_none(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    kept = KeptCosts(path)
    kept.of("target here").rows.update({1: 10.0, 3: 12.5})
    kept.of("target here").steps["head"] = (2.0, 1.0)
    kept.of("nothing known")
    kept.save()
    assert KeptCosts(path).of("target here") == MachineCosts({1: 10.0, 3: 12.5}, {"head": (2.0, 1.0)})
    assert list(json.loads(path.read_text())) == ["target here"]
    for damage in ("", "[1]", '{"target here": {"rows": {"1": -1}, "steps": {}}}', '{"target here": 3}', "\0", "[" * 100_000):
        path.write_text(damage)
        assert KeptCosts(path).of("target here") == MachineCosts()
    unwritable = KeptCosts(tmp_path)
    unwritable.of("a").rows[1] = 1.0
    unwritable.save()
