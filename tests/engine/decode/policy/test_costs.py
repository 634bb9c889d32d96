"""Claims about what rounds cost on a machine: how it is measured, told and kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import mlx.core as mx
import pytest

from engine.decode import measuring, run_control
from engine.decode.measuring import ROWS, measure
from engine.decode.policy.costs import VERSION, MachineCosts, StoredCosts
from engine.drafters import DraftModel
from engine.target import tree_pass
from engine.target.tree_pass import TreeCheck
from engine.types import Milliseconds, Round
from tests.engine.small_models import VOCAB, OnAClock, round_of, tiny_llama


def test_between_what_was_measured_times_lie_on_straight_lines_and_none_is_below_a_plain_round() -> None:
    costs = MachineCosts({1: 10.0, 2: 10.0, 3: 11.0, 4: 14.0, 8: 22.0, 16: 38.0}, {"head": (2.0, 1.0)})
    copied, sampled = costs.extra("ngram", samples=False), costs.extra("head", samples=True)
    assert copied is not None and sampled is not None
    assert [copied(gamma) for gamma in (0, 1, 2, 3, 5, 7, 15, 31)] == pytest.approx([0, 0, 0.1, 0.4, 0.8, 1.2, 2.8, 6.0])
    assert [sampled(gamma) for gamma in (0, 1, 3, 7)] == pytest.approx([0, 0.2, 0.8, 2.0])
    assert costs.extra("draft", samples=True) is None and MachineCosts({1: 10.0}).extra("ngram", samples=False) is None


def test_beyond_what_was_measured_passes_grow_dearer_even_where_the_last_times_fall() -> None:
    copied = MachineCosts({1: 10.0, 8: 14.0, 15: 26.0, 16: 20.0}).extra("ngram", samples=False)
    assert copied is not None
    assert copied(15) < copied(31) < copied(63) and copied(63) - copied(31) == pytest.approx(2 * (copied(31) - copied(15)))


def test_a_pass_that_was_disturbed_makes_no_rows_free_and_few_dear() -> None:
    """As measured while other programs ran: 3 rows in twice the time, 12 rows in the time of one."""
    measured = [275, 337, 549, 392, 348, 284, 323, 398, 399, 540, 645, 275, 546, 633, 665, 843]
    copied = MachineCosts({rows: float(time) for rows, time in zip(ROWS, measured, strict=True)}).extra("ngram", samples=False)
    assert copied is not None
    costs = [copied(rows - 1) for rows in ROWS]
    assert costs == sorted(costs) and costs[11] > 0.5
    assert all(abs(cost - (time / 275 - 1)) < 0.75 for cost, time in zip(costs, measured, strict=True) if time != 275)
    undisturbed = [10.0 + rows for rows in ROWS]
    even = MachineCosts(dict(zip(ROWS, undisturbed, strict=True))).extra("ngram", samples=False)
    assert even is not None and [even(rows - 1) for rows in ROWS] == pytest.approx([(rows - 1) / 11 for rows in ROWS])


def test_measuring_finds_what_passes_and_draft_steps_take(monkeypatch: pytest.MonkeyPatch) -> None:
    target = OnAClock(tiny_llama(1))
    monkeypatch.setattr(run_control, "time", SimpleNamespace(perf_counter=lambda: target.now))
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
    assert step == pytest.approx(22) and 21.99 <= first <= 26, "the first step may read two tokens"
    assert steps > len(ROWS) and list(measure(loaded, None, costs)) == [], "what is known is not measured again"


def seen(rows: int, milliseconds: float, copied: bool = True) -> Round:
    finished = round_of(0, rows - 1, milliseconds)
    proposals = tuple(replace(proposal, copied=copied) for proposal in finished.proposals)
    times = Milliseconds(milliseconds, draft=None if copied else 4.0)
    return replace(finished, index=1, rows=rows, proposals=proposals, milliseconds=times, drafter="head")


def test_an_alpha_that_is_kept_counts_no_unjudged_proposals() -> None:
    costs = MachineCosts()
    costs.follow([round_of(1, 6, 20.0)] * 10, 0.8)
    assert costs.alphas == {"d at 0.8": 0.5}
    costs.follow([round_of(0, 6, 20.0)] * 16, 0.8)
    assert costs.alphas == {"d at 0.8": pytest.approx(0.5 * (1 - 0.15))}


def test_an_alpha_follows_few_verdicts_a_little() -> None:
    costs = MachineCosts(alphas={"head at 0.8": 0.1})
    costs.follow([seen(2, 30.0, copied=False)] * 4, 0.8)
    assert costs.alpha("head", 0.8) == pytest.approx(0.1 * (1 - 0.15 * 4 / 16))
    costs.follow([seen(1, 30.0)] * 4, 0.8)
    assert costs.alphas == {"head at 0.8": pytest.approx(0.1 * (1 - 0.15 * 4 / 16))}


def test_a_model_in_the_place_of_another_is_measured_anew(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    alphas = {"/d at 0.8": 0.7, "/e at 0.8": 0.4}
    kept_before = {"version": VERSION, "rows": {"1": 10.0}, "steps": {"/d": [2.0, 1.0]}, "alphas": alphas}
    path.write_text(json.dumps({"here": kept_before}))
    kept = StoredCosts(path)
    costs = kept.of("here")
    costs.invalidate_if_changed("/d", "one")
    assert (costs.steps, costs.alpha("/d", 0.8)) == ({"/d": (2.0, 1.0)}, 0.7), "by a version that knew the name alone"
    kept.save()
    costs = StoredCosts(path).of("here")
    costs.invalidate_if_changed("/d", "one")
    assert (costs.steps, costs.alpha("/d", 0.8)) == ({"/d": (2.0, 1.0)}, 0.7)
    costs.invalidate_if_changed("/d", "another")
    assert (costs.rows, costs.steps, costs.mean_alpha("/d")) == ({1: 10.0}, {}, None)
    assert costs.alpha("/e", 0.8) == 0.4
    costs.steps["/d"] = (3.0, 3.0)
    costs.invalidate_if_changed("/d", "another")
    assert costs.steps == {"/d": (3.0, 3.0)}


def test_costs_are_kept_and_a_damaged_file_is_as_good_as_none(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    kept = StoredCosts(path)
    kept.of("target here").rows.update({1: 10.0, 3: 12.5})
    kept.of("target here").steps["head"] = (2.0, 1.0)
    kept.of("nothing known")
    kept.save()
    assert StoredCosts(path).of("target here") == MachineCosts({1: 10.0, 3: 12.5}, {"head": (2.0, 1.0)})
    assert list(json.loads(path.read_text())) == ["target here"]
    for known, version in (({}, {}), ({}, {"version": VERSION + 1}), ({1: 40.0}, {"version": VERSION})):
        path.write_text(json.dumps({"target here": {"rows": {"1": 40.0}, "steps": {"head": [2.0, 1.0]}} | version}))
        assert StoredCosts(path).of("target here").rows == known, "those of another version are measured again"
    wrong = ['"rows": {"1": -1}, "steps": {}', '"rows": {"1": 1}, "steps": {}, "alphas": {"head at 0.8": 1.5}']
    unlikely = [f'{{"target here": {{"version": {VERSION}, {entry}}}}}' for entry in wrong]
    for damage in ("", "[1]", *unlikely, '{"target here": 3}', "\0", "[" * 100_000):
        path.write_text(damage)
        assert StoredCosts(path).of("target here") == MachineCosts()
    unwritable = StoredCosts(tmp_path)
    unwritable.of("a").rows[1] = 1.0
    unwritable.save()


def test_whether_the_models_read_trees_is_known_before_any_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[object] = []
    monkeypatch.setattr(tree_pass, "check_trees", lambda model, make_cache: checked.append(model) or TreeCheck())
    loaded, draft = SimpleNamespace(model=tiny_llama(1), vocabulary=[b""] * VOCAB), tiny_llama(2, layers=1)
    costs = MachineCosts()
    next(measure(loaded, DraftModel(draft, "draft"), costs))  # type: ignore[arg-type]
    assert draft in checked and len(checked) == 2 and costs == MachineCosts()
