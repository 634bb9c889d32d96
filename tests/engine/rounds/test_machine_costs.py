"""Claims about what rounds cost on a machine: how it is measured, told, corrected by what is seen, and kept."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import mlx.core as mx
import numpy as np
import pytest

from engine import clock, measuring
from engine.drafters import DraftModel
from engine.measuring import ROWS, measure
from engine.rounds import draft_length
from engine.rounds.draft_length import AutoGamma
from engine.rounds.machine_costs import VERSION, KeptCosts, MachineCosts
from engine.types import Milliseconds, Round
from tests.engine.rounds.test_draft_length import OnAClock, round_of
from tests.engine.small_models import VOCAB, tiny_llama


def test_between_what_was_measured_times_lie_on_straight_lines_and_none_is_below_a_plain_round() -> None:
    costs = MachineCosts({1: 10.0, 2: 9.0, 3: 11.0, 4: 14.0, 8: 22.0, 16: 38.0}, {"head": (2.0, 1.0)})
    copied, drawn = costs.extra("ngram", draws=False), costs.extra("head", draws=True)
    assert copied is not None and drawn is not None
    assert [copied(gamma) for gamma in (0, 1, 2, 3, 5, 7, 15, 31)] == pytest.approx(
        [0, 0, 0.1, 0.4, 0.8, 1.2, 2.8, 6.12], abs=0.01
    )
    assert [drawn(gamma) for gamma in (0, 1, 3, 7)] == pytest.approx([0, 0.2, 0.8, 2.0])
    assert costs.extra("draft", draws=True) is None and MachineCosts({1: 10.0}).extra("ngram", draws=False) is None


def test_beyond_what_was_measured_passes_grow_dearer_even_where_the_last_times_fall() -> None:
    copied = MachineCosts({1: 10.0, 8: 14.0, 15: 26.0, 16: 20.0}).extra("ngram", draws=False)
    assert copied is not None
    assert [copied(gamma) for gamma in (15, 31, 63)] == pytest.approx([1.3, 3.1, 6.7])


def test_a_pass_that_seemed_quick_by_chance_does_not_make_long_copies_free() -> None:
    """As measured while other programs ran: 12 rows in the time of one. The fit is that of scikit-learn's IsotonicRegression."""
    measured = [275, 337, 549, 392, 348, 284, 323, 398, 399, 540, 645, 275, 546, 633, 665, 843]
    copied = MachineCosts({rows: float(time) for rows, time in zip(ROWS, measured, strict=True)}).extra("ngram", draws=False)
    assert copied is not None
    fitted = [275, 337, *[379.2] * 5, 398, 399, *[486 + 2 / 3] * 3, 546, 633, 665, 843]
    assert [copied(rows - 1) for rows in ROWS] == pytest.approx([time / 275 - 1 for time in fitted])
    assert AutoGamma(copied).length([0.3] * 11) <= 2


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
    assert step == pytest.approx(22) and 21.99 <= first <= 26, "the first step may read two tokens"
    assert steps > len(ROWS) and list(measure(loaded, None, costs)) == [], "what is known is not measured again"


def seen(rows: int, milliseconds: float, copied: bool = True) -> Round:
    finished = round_of(0, rows - 1, milliseconds)
    proposals = tuple(replace(proposal, copied=copied) for proposal in finished.proposals)
    times = Milliseconds(milliseconds, draft=None if copied else 4.0)
    return replace(finished, index=1, rows=rows, proposals=proposals, milliseconds=times, drafter="head")


def test_what_an_answer_shows_counts_as_a_ratio_to_its_own_plain_rounds() -> None:
    """Here the machine had half its speed all the time, and rounds of three rows were dearer than was thought."""
    costs = MachineCosts({1: 10.0, 3: 12.0}, {"head": (2.0, 2.0)})
    costs.follow([seen(1, 20.0)] * 5 + [seen(3, 28.0)] * 5 + [seen(2, 30.0, copied=False)] * 5, 0.8)
    assert costs.rows[1] == 10.0
    assert costs.rows[3] == pytest.approx(12 + 0.2 * (14 - 12))
    assert 2 not in costs.rows, "a draft step is no pass"
    assert costs.steps["head"] == pytest.approx((2.0, 2.0)), "4 ms of 20 are 2 of 10"
    costs.follow([seen(3, 99.0)] * 9, 0.8)
    assert costs.rows[3] == pytest.approx(12.4), "nothing is known without plain rounds"
    assert costs.alpha("head", 0.8) is None, "five verdicts say too little of an alpha"
    costs.follow([seen(2, 30.0, copied=False)] * 20, 0.8)
    assert costs.alphas == {"head at 0.8": 0.0}
    assert (costs.alpha("head", 0.8), costs.alpha("head", 0.0)) == (0.0, None)


def test_what_an_answer_shows_of_some_rows_holds_for_all() -> None:
    costs = MachineCosts({1: 10.0, 2: 10.0, 4: 12.0, 8: 16.0, 16: 24.0})
    costs.follow([seen(1, 10.0)] * 5 + [seen(8, 22.0)] * 5 + [seen(4, 14.0)], 0.8)
    assert costs.rows == pytest.approx({1: 10, 2: 10, 4: 12.4, 8: 17.2, 16: 26.8}, abs=0.1)
    costs.follow([seen(1, 10.0)] * 5 + [seen(8, 900.0)] * 5, 0.8)
    assert costs.rows[8] == pytest.approx(10 + 7.2 * 1.6, abs=0.1), "no answer is believed that it is so far off"


def test_copies_are_held_against_plain_rounds_that_were_not_queued() -> None:
    """An answer that went on without a drafter has rounds that overlap."""
    before = {1: 10.0, 2: 10.0, 4: 12.0, 8: 16.0, 16: 24.0}
    costs = MachineCosts(dict(before))
    overlapping = [replace(seen(1, 8.0), queued=True)] * 20
    costs.follow([*[seen(8, 16.0)] * 6, *[seen(1, 10.0)] * 9, *overlapping], 0.8)
    assert costs.rows == pytest.approx(before)
    costs.follow([*[seen(8, 16.0)] * 6, *[seen(1, 8.0)] * 9], 0.8)
    assert costs.rows[8] > 16.5, "else these would be dearer than was thought"


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


def test_where_nothing_was_measured_answers_are_what_is_known() -> None:
    costs = MachineCosts()
    costs.follow([seen(1, 20.0)] * 5 + [seen(5, 30.0)] * 5 + [seen(3, 26.0)] * 3, 0.8)
    assert costs.rows == {1: 20.0, 5: 30.0}


def true_extra(gamma: int) -> float:
    """What copies really take: rows are dear over a long text."""
    return 0.07 * gamma


def speeds_of_copying(answers: int) -> list[float]:
    """Tokens in the time of a plain round of one answer after another, by a drafter that copies: in every third round it finds a
    long match, right with 0.75 a token, and in another third a short one. Costs had been measured far too low."""
    generator = np.random.default_rng(11)
    costs = MachineCosts({rows: 50 * (1 + 0.02 * (rows - 1)) for rows in ROWS})
    speeds = []
    for _ in range(answers):
        gamma = AutoGamma(costs.extra("ngram", draws=False))
        rounds, tokens, spent = [], 0, 0.0
        for index in range(40):
            kind = generator.integers(3)
            chance, found = ((0.75, 63), (0.3, 63), (0.0, 0))[kind]
            chosen = gamma.length([chance] * found) if found else 0
            accepted = min(int(generator.geometric(1 - chance)) - 1, chosen) if chosen else 0
            time = 50 * (1 + true_extra(chosen)) * generator.normal(1, 0.05)
            finished = replace(seen(chosen + 1, time), index=index, emitted=round_of(accepted, chosen, time).emitted)
            statuses = round_of(accepted, chosen, time).proposals
            finished = replace(finished, proposals=tuple(replace(proposal, copied=True) for proposal in statuses))
            gamma.observe(finished)
            rounds.append(finished)
            tokens, spent = tokens + accepted + 1, spent + time / 50
        costs.follow(rounds, 0.8)
        speeds.append(tokens / spent)
    return speeds


def test_copies_do_not_grow_dear_unnoticed_while_answers_correct_what_is_known() -> None:
    """One that knew everything would copy seven tokens after a long match and one after a short: 1.66."""
    speeds = speeds_of_copying(30)
    assert np.mean(speeds[5:]) > 0.97 * 1.66
    assert min(speeds) > 1.0


def test_costs_corrected_row_by_row_would_be_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those next to the last measured ones come to lie above them, and from there on rows seem to cost nothing."""

    def one_by_one(costs: MachineCosts, by_rows: Mapping[int, Sequence[float]], scale: float) -> None:
        for rows, times in by_rows.items():
            known = costs._of_rows(rows)
            costs.rows[rows] = known + 0.2 * (float(np.median(times)) * scale - known)

    def along_the_last(costs: MachineCosts, rows: int) -> float:
        known = sorted(costs.rows)
        after = min(max(bisect_left(known, rows), 1), len(known) - 1)
        low, high = known[after - 1], known[after]
        return costs.rows[low] + (costs.rows[high] - costs.rows[low]) * (rows - low) / (high - low)

    monkeypatch.setattr(MachineCosts, "_correct", one_by_one)
    monkeypatch.setattr(MachineCosts, "_of_rows", along_the_last)
    monkeypatch.setattr(draft_length, "MEASURED_WEIGHT", 48.0)
    speeds = speeds_of_copying(30)
    assert np.mean(speeds[5:]) < 0.95 * 1.66
    assert min(speeds) < 0.6


def test_a_model_in_the_place_of_another_is_measured_anew(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    alphas = {"/d at 0.8": 0.7, "/e at 0.8": 0.4}
    kept_before = {"version": VERSION, "rows": {"1": 10.0}, "steps": {"/d": [2.0, 1.0]}, "alphas": alphas}
    path.write_text(json.dumps({"here": kept_before}))
    kept = KeptCosts(path)
    costs = kept.of("here")
    costs.now_drafts("/d", "one")
    assert (costs.steps, costs.alpha("/d", 0.8)) == ({"/d": (2.0, 1.0)}, 0.7), "by a version that knew the name alone"
    kept.save()
    costs = KeptCosts(path).of("here")
    costs.now_drafts("/d", "one")
    assert (costs.steps, costs.alpha("/d", 0.8)) == ({"/d": (2.0, 1.0)}, 0.7)
    costs.now_drafts("/d", "another")
    assert (costs.rows, costs.steps, costs.usual_alpha("/d")) == ({1: 10.0}, {}, None)
    assert costs.alpha("/e", 0.8) == 0.4
    costs.steps["/d"] = (3.0, 3.0)
    costs.now_drafts("/d", "another")
    assert costs.steps == {"/d": (3.0, 3.0)}


def test_costs_are_kept_and_a_damaged_file_is_as_good_as_none(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    kept = KeptCosts(path)
    kept.of("target here").rows.update({1: 10.0, 3: 12.5})
    kept.of("target here").steps["head"] = (2.0, 1.0)
    kept.of("nothing known")
    kept.save()
    assert KeptCosts(path).of("target here") == MachineCosts({1: 10.0, 3: 12.5}, {"head": (2.0, 1.0)})
    assert list(json.loads(path.read_text())) == ["target here"]
    for known, version in (({}, {}), ({}, {"version": VERSION + 1}), ({1: 40.0}, {"version": VERSION})):
        path.write_text(json.dumps({"target here": {"rows": {"1": 40.0}, "steps": {"head": [2.0, 1.0]}} | version}))
        assert KeptCosts(path).of("target here").rows == known, "those of another version are measured again"
    wrong = ['"rows": {"1": -1}, "steps": {}', '"rows": {"1": 1}, "steps": {}, "alphas": {"head at 0.8": 1.5}']
    unlikely = [f'{{"target here": {{"version": {VERSION}, {entry}}}}}' for entry in wrong]
    for damage in ("", "[1]", *unlikely, '{"target here": 3}', "\0", "[" * 100_000):
        path.write_text(damage)
        assert KeptCosts(path).of("target here") == MachineCosts()
    unwritable = KeptCosts(tmp_path)
    unwritable.of("a").rows[1] = 1.0
    unwritable.save()
