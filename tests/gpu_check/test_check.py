"""`make gpu-check` on the device of the tests: it measures, what breaks does not stop the rest, and wrong answers are found."""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine.decode.context import RoundOutcome
from engine.models.loaded import LoadedModel
from engine.models.loading import load
from engine.serving import overlap
from engine.types import Round
from engine.values.drafter_kinds import NGRAM, NO_DRAFTER
from tests import synchronisations
from tests.benchmarks import vocabulary
from tests.engine.exports.test_report import Page
from tests.gpu_check import __main__ as check
from tests.gpu_check import parts
from tests.gpu_check.parts import Budget

BREAKS = """
import os, sys, types
class Broken(types.ModuleType):
    def __getattr__(self, name):
        raise RuntimeError("no kernel in /srv/somebody/secret/folder/kernel.cu")
if "prove" in sys.orig_argv:
    os.abort()
if "waits" in sys.orig_argv:
    sys.modules["engine.models.loading"] = Broken("loading")
"""
"""Imported by Python at its start. One part ends its process, as a driver's fault would, and another one raises."""


@pytest.mark.builtin
def test_what_breaks_does_not_stop_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(BREAKS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    status = check.main(["--quick", "--parts", "prove,waits,rows", "--minutes", "4", "--output", str(tmp_path / "out")])
    assert status == 1
    written = (tmp_path / "out" / "gpu-check.json").read_text(encoding="utf-8")
    document = json.loads(written)
    found = {part["name"]: part for part in document["parts"]}
    assert {name: part["status"] for name, part in found.items()} == {"prove": "failed", "waits": "failed", "rows": "passed"}
    assert "SIGABRT" in found["prove"]["summary"]
    assert "no kernel in …/kernel.cu" in found["waits"]["summary"] and "Traceback" in found["waits"]["details"]
    (table,) = found["rows"]["tables"]
    assert [row[0] for row in table["rows"]] == [1, 2, 3, 4] and table["rows"][0][-1] == 1.0
    assert all(0 < fastest <= median for _, median, fastest, _ in table["rows"]) and found["rows"]["peak_memory"] > 10**8
    assert not document["passed"] and document["device"]["name"] and document["device"]["versions"]["mlx"] == mx.__version__
    html = (tmp_path / "out" / "gpu-check.html").read_text(encoding="utf-8")
    assert f"{table['rows'][3][1]:,.4g}" in Page(html).text and "Failed: Exactness (prove), Waits" in Page(html).text
    for text in (written, html):
        assert "somebody" not in text and str(parts.REPOSITORY) not in text and str(Path.home()) + "/" not in text


def test_a_part_that_hangs_is_ended(tmp_path: Path) -> None:
    outcome = check.run_part("rows", 0.2, True, tmp_path)
    assert not outcome["passed"] and outcome["summary"] == "not done after 0 s"


def test_without_a_device_the_check_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(name: str, *_: Any) -> dict[str, Any]:
        return {"passed": name != parts.DEVICE, "summary": "libcuda.so.1 is missing", "seconds": 0.0}

    document = check.check(["rows"], 1.0, True, run)
    assert not document["passed"] and "libcuda.so.1" in str(document["device"])


def test_time_that_a_part_leaves_goes_to_the_next_ones() -> None:
    limits = {}

    def run(name: str, seconds: float, *_: Any) -> dict[str, Any]:
        limits[name] = seconds
        return {"passed": True, "name": "chip", "summary": "", "seconds": 0.0}

    check.check(list(parts.PARTS), 10.0, False, run)
    del limits[parts.DEVICE]
    assert list(limits.values())[-1] == pytest.approx(600, abs=5), "the last one may take what is left"
    assert limits["tests"] == pytest.approx(100, abs=5)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Budget:
    monkeypatch.setattr(parts, "QUICK", (NO_DRAFTER, NGRAM))
    return Budget(60.0, quick=True)


DEVICE_TESTS = """
import pytest

@pytest.mark.gpu
def test_right(): ...

@pytest.mark.metal
def test_wrong(): assert False, "a kernel is wrong"

@pytest.mark.gpu
@pytest.mark.skip
def test_of_another_device(): ...

def test_without_a_device(): ...
"""


def test_device_tests_are_run_and_counted(quick: Budget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_kernels.py").write_text(DEVICE_TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    gpu\n    metal\n    full\n")
    monkeypatch.setattr(parts, "REPOSITORY", tmp_path)
    result = parts.device_tests(quick)
    assert not result.passed and result.summary == "1 passed, 1 failed, 1 skipped."
    ((name, reason),) = result.tables[0].rows
    assert "test_wrong" in name and "a kernel is wrong" in reason


@pytest.fixture(scope="module")
def tiny(tiny_pair: tuple[str, str]) -> LoadedModel:
    return load(tiny_pair[0])


def test_greedy_text_is_mlx_lms_and_another_one_is_found(
    tiny: LoadedModel, quick: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = parts.greedy_text(quick, tiny)
    assert right.passed and [row[:3] for row in right.tables[0].rows] == [(NO_DRAFTER, 1, 1), (NGRAM, 1, 1)]
    theirs = importlib.import_module("mlx_lm.generate")  # the package has a function of that name
    original = theirs.generate_step

    def another(*given: Any, **named: Any) -> Iterator[tuple[int, Any]]:
        return ((int(token) + (place == 3), logits) for place, (token, logits) in enumerate(original(*given, **named)))

    monkeypatch.setattr(theirs, "generate_step", another)
    wrong = parts.greedy_text(quick, tiny)
    assert not wrong.passed and [row[4] for row in wrong.tables[0].rows] == [1, 1]
    assert [row[3:5] for row in wrong.tables[1].rows] == [("different", 3)] * 2


def test_a_wait_too_many_is_found(tiny: LoadedModel, quick: Budget, monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain:
        proposals = ()

    for waits, passed in ((1, True), (2, False)):
        monkeypatch.setattr(synchronisations, "rounds_and_waits", lambda *_, n=waits, **__: [(Plain(), n)] * 5)
        result = parts.device_waits(quick, tiny)
        assert result.passed is passed and {row[4] for row in result.tables[0].rows} == {waits}


def test_draw_and_analysis_are_measured_at_every_vocabulary(quick: Budget) -> None:
    result = parts.draw_and_analysis(quick, (1_000, 3_000))
    _, analyses, readers = result.tables
    for table in result.tables:
        assert [row[0] for row in table.rows] == ["1,000", "3,000"]
    assert all(value > 0 for row in readers.rows for value in row[1:]) and all(row[2] > 1 for row in analyses.rows)


def test_an_analysis_that_takes_longer_than_a_pass_is_seen_to_fall_behind_and_to_hold_the_loop(
    quick: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = RoundOutcome.whole

    def slowly(outcome: RoundOutcome) -> Round:
        time.sleep(0.12)
        return whole(outcome)

    monkeypatch.setattr(overlap, "ROWS_BEHIND", 10)
    monkeypatch.setattr(RoundOutcome, "whole", slowly)
    monkeypatch.setattr(vocabulary, "telling", lambda *_: "")
    result = parts.draw_and_analysis(quick, (1_000,))
    for row in result.tables[1].rows:
        assert row[6] > 5, "two of four rounds waited for room"
        assert row[7] == 1
    assert "at most 1 round behind" in result.summary


def test_a_budget_ends_but_for_its_first_turn() -> None:
    assert list(Budget(-1.0).turns(5)) == [0]
    assert list(Budget(60.0).turns(5)) == [0, 1, 2, 3, 4]
    assert list(Budget(60.0, quick=True).turns(5)) == [0]
