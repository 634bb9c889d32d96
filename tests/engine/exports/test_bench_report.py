"""The report on a benchmark says what the chooser says, shows every setting where it stands, and loads and runs nothing."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from engine.exports.bench_report import to_html
from engine.tools.bench.chooser import advice
from engine.tools.bench.report import Results
from engine.types import BenchFinished, ModelInfo
from engine.values.requests.bench import BenchDrafter, BenchPrompt, BenchRequest, BenchSetup
from engine.values.wording import size
from tests.engine.exports.test_report import HOSTILE, Page
from tests.engine.tools.bench.test_chooser import SETTINGS, rows_of


def results(prompts: int, name: str = "tiny") -> Results:
    logs = np.random.default_rng(5).normal(0.3, 0.2, size=(prompts, len(SETTINGS)))
    asked = tuple(BenchPrompt(str(index), "chat", ("x",)) for index in range(prompts + 1))
    request = BenchRequest(asked, name, temperatures=(0.8,))
    setup = BenchSetup(ModelInfo(name, "/m", "ab", 100, 9), (BenchDrafter("head", "cd", True),), name, SETTINGS, (name,), 8)
    return Results(request, setup=setup, rows=rows_of(logs), out_of_time=True)


def test_the_answer_stands_first_and_every_setting_where_it_belongs() -> None:
    found = results(4)
    (decision,) = found.decisions()
    html = to_html(found)
    page = Page(html)
    words = advice(decision)
    assert words.headline in page.text and all(detail in page.text for detail in words.details)
    assert "Every setting was measured on 4 of 5 prompts." in page.text
    assert page.text.index(words.headline) < page.text.index("Every figure")
    spots = [float(place) for place in re.findall(r"class=spot style='left: ([\d.]+)%'", html)]
    assert spots == sorted(spots, reverse=True) and len(spots) == len(SETTINGS) + 1
    logs = [math.log(entry.speedup) for entry in decision.contenders]
    steps = np.diff(spots) / np.diff(logs)
    assert steps == pytest.approx(np.full(len(SETTINGS), steps[0]), rel=0.02), "one scale for all"
    (line, *_) = (float(place) for place in re.findall(r"class=plain style='left: ([\d.]+)%'", html))
    assert line == pytest.approx(spots[logs.index(0.0)])
    assert html.count("class=dot ") == 4 * len(SETTINGS)
    assert size(1_000) in page.text, "peak memory"


def test_process_memory_is_that_of_the_measuring_process_if_known() -> None:
    found = results(4)
    assert "everything counted" not in Page(to_html(found)).text
    found.take(BenchFinished(1, complete=True, process_peak_memory=746_000_000))
    assert f"everything counted, took at most {size(746_000_000)}." in Page(to_html(found)).text


def test_bench_report_has_no_script_and_loads_nothing() -> None:
    html = to_html(results(3, HOSTILE))
    page = Page(html)
    assert {tag for tag, _ in page.tags} & {"script", "img", "link", "iframe", "object"} == set()
    assert not any(name.startswith("on") or name in ("src", "href") for _, attributes in page.tags for name in attributes)
    policies = [attributes.get("content") for tag, attributes in page.tags if tag == "meta"]
    assert "default-src 'none'; style-src 'unsafe-inline'" in policies
    assert "\x1b" not in html and "\x00" not in html


def test_report_of_few_measurements() -> None:
    assert "Too little was measured to choose a drafter." in Page(to_html(results(2))).text
    empty = replace(results(2), rows=[])
    assert "Nothing was measured." in Page(to_html(empty)).text
    assert "Nothing was measured." in Page(to_html(replace(empty, setup=None))).text
