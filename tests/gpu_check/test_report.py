"""The report of `make gpu-check` shows what was measured, loads nothing, and names neither users nor places."""

from __future__ import annotations

import getpass
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from engine.tools.bench.report import document as bench_document
from tests.engine.exports.test_bench_report import results
from tests.engine.exports.test_report import HOSTILE, Page
from tests.gpu_check.parts import Result, Table, speed_of
from tests.gpu_check.report import anonymous, to_html

DEVICE = {"name": "Card 9", "backend": "CUDA", "gpu": True, "commit": "ab" * 20, "driver": {"driver_version": "580.1"}}


def document(*found: Result, **device: Any) -> dict[str, Any]:
    parts = [
        {"name": f"part{index}", "title": f"Part {index}", "status": "passed" if result.passed else "failed", "seconds": 3.0}
        | asdict(result)
        for index, result in enumerate(found)
    ]
    passed = all(result.passed for result in found)
    return {"created": "2026-01-02T03:04:05+00:00", "passed": passed, "quick": False, "device": DEVICE | device, "parts": parts}


def test_it_shows_the_figures_the_device_and_what_failed() -> None:
    rows = Table("Passes", ("rows", "cost"), [(1, 1.0), (2, 1.125), (32, 2.718)], "A note.", words=0, line=("cost",))
    speeds = Table("Drafters", ("drafter", "temperature", "speed-up"), [("head", "0.8", 1.437)], words=2, bars="speed-up")
    html = to_html(document(Result(True, "All is well.", [rows, speeds]), Result(False, "It broke.", details="line 7: oops")))
    text = Page(html).text
    for expected in (
        "Card 9",
        "580.1",
        "ab" * 20,
        "1.125",
        "2.718",
        "A note.",
        "head, T 0.8",
        "1.437",
        "Failed: Part 1.",
        "oops",
    ):
        assert expected in text
    assert html.count("<svg") == 1 and "No GPU took part" not in text and "Nothing failed" not in text
    assert "No GPU took part" in Page(to_html(document(gpu=False))).text


def test_report_has_no_script_and_loads_nothing() -> None:
    hostile = Table(HOSTILE, (HOSTILE, "x"), [(HOSTILE, 1.0)], HOSTILE, bars="x")
    page = Page(to_html(document(Result(False, HOSTILE, [hostile], details=HOSTILE), name=HOSTILE)))
    assert {tag for tag, _ in page.tags} & {"script", "img", "link", "iframe", "object"} == set()
    links = [attributes.get("href") or "" for _, attributes in page.tags]
    assert all(link.startswith("#") for link in links if link)
    assert not any(name.startswith("on") or name == "src" for _, attributes in page.tags for name in attributes)


def test_a_large_report_stays_below_a_megabyte() -> None:
    checks = Table("Checks", ("check", "rule", "p"), [(f"check {index} of many", "gumbel", index / 7) for index in range(400)])
    assert len(to_html(document(*[Result(False, "x" * 500, [checks], details="y" * 6000)] * 7)).encode()) < 10**6


@pytest.mark.parametrize(
    "given, left",
    [
        ("/srv/jane.doe/code/draftlight/engine/host.py:12: bad", "…/host.py:12: bad"),
        ('File "/srv/jane/x y/file.py", line 3', 'File "…/x y/file.py", line 3'),
        ("~/models/some.gguf and /tmp/a/b", "…/some.gguf and …/b"),
        ("2.5 ms/round, 3/4 of 1/2, and/or", "2.5 ms/round, 3/4 of 1/2, and/or"),
        ("https://example.org/a/b stays", "https://example.org/a/b stays"),
    ],
)
def test_folders_are_left_out(given: str, left: str) -> None:
    assert anonymous({"a": [given, 7]}) == {"a": [left, 7]}


def test_names_of_user_and_machine_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "jane")
    monkeypatch.setattr(platform, "node", lambda: "janes-mac.local")
    monkeypatch.setattr(Path, "home", lambda: Path("/srv/Jane Doe"))
    assert anonymous("in /srv/Jane Doe/Library/draftlight.log:") == "in …/draftlight.log:"
    assert anonymous("jane on janes-mac.local, janet is another") == "USER on HOST, janet is another"


def test_the_speed_ups_are_those_of_the_benchmark() -> None:
    found = bench_document(results(4))
    result = speed_of(found)
    expected = {
        (entry["setting"]["drafter"], round(entry["speedup"], 3))
        for entry in found["summary"]
        if entry["category"] == "chat" and entry["setting"]["drafter"] != "none"
    }
    assert expected and {(row[0], row[2]) for row in result.tables[0].rows} == expected
    assert not result.passed, "mlx-lm's loop was not measured"
    peer = {"maker": "mlx-lm", "drafter": "none", "rule": None, "temperature": 0.8, "gamma": None}
    found["summary"].append({**found["summary"][0], "setting": peer, "speedup": 0.8, "plain_tokens_per_second": 50.0})
    assert speed_of(found).tables[1].rows == [("0.8", 1.25, 50.0, 4)] and speed_of(found).passed
