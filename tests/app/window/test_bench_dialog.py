"""Finding the fastest drafter from the window: measured by the engine, answered in words, and used by a button."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from pytestqt.qtbot import QtBot

from app.window.bench_dialog import BenchDialog
from engine.types import BenchFinished, BenchMeasured, BenchStarted, Event, ModelInfo, TaskFailed, TaskProgress
from engine.values.requests.bench import BenchDrafter, BenchSetup
from tests.app.driving import Open, ask
from tests.engine.tools.bench.test_chooser import SETTINGS, rows_of


def measured(task: int, faster: float, prompts: int) -> list[Event]:
    """What the engine says of a benchmark in which head with gamma auto is so much faster than the others."""
    logs = np.random.default_rng(1).normal(0.1, 0.02, size=(prompts, len(SETTINGS)))
    logs[:, 3] += faster
    setup = BenchSetup(
        ModelInfo("tiny", "/m", "ab", 100, 9), (BenchDrafter("head", "cd", True),), "CPU", SETTINGS, (), 8, ("my-head",)
    )
    return [
        BenchStarted(task, setup),
        *(BenchMeasured(task, row) for row in rows_of(logs)),
        TaskProgress(task, "prompt 4 of 15: tides (chat)", 0.4),
    ]


def open_dialog(qtbot: QtBot, window: object) -> BenchDialog:
    window.actions_by_id["benchAction"].trigger()  # type: ignore[attr-defined]
    return window.findChildren(BenchDialog)[-1]  # type: ignore[attr-defined, no-any-return]


def test_the_fastest_drafter_is_found_shown_and_used(
    qtbot: QtBot, open_window: Open, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[QUrl] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url) or True)
    window, engine = open_window(drafter="ngram", gamma=4, temperature=0.7, top_k=20)
    dialog = open_dialog(qtbot, window)
    assert dialog.details.text() == "Sampling: temperature 0.7, top-p 0.9, top-k 20.", "nothing was measured yet"
    assert not dialog.use.isEnabled() and not dialog.report.isEnabled()
    dialog.start.click()
    (request,) = engine.benched
    settings = window.settings
    assert (request.target, request.rules, request.temperatures) == (settings.target, (settings.rule,), (settings.temperature,))
    assert request.filters == {"top_p": 0.9, "top_k": 20, "min_p": 0.0, "repetition_penalty": 1.0}
    assert request.minutes and request.minutes < 3 and request.journals
    engine.say(*measured(engine.tasks[0], 0.6, 4))
    qtbot.waitUntil(lambda: dialog.step.text() == "Prompt 4 of 15: tides (chat)")
    assert (dialog.progress.value(), dialog.start.text()) == (400, "Stop")
    assert not dialog.use.isEnabled(), "not before the end"
    engine.say(BenchFinished(engine.tasks[0], complete=False, out_of_time=True))
    qtbot.waitUntil(lambda: dialog.headline.text().startswith("Use Trained head with gamma auto: 2.0"))
    assert "Every setting was measured on 4 of 15 prompts." in dialog.details.text()
    left_out = "N-gram hashing (ngram-mod), Small draft model, Block drafter and my-head"
    assert dialog.details.text().endswith(f"top-k 20. Not measured: {left_out}.")
    assert dialog.start.text() == "Continue"
    dialog.report.click()
    assert "Use head with gamma auto" in Path(opened[0].toLocalFile()).read_text(encoding="utf-8")
    dialog.use.click()
    assert (window.settings.drafter, window.settings.gamma) == ("head", "auto")
    qtbot.waitUntil(lambda: not window.findChildren(BenchDialog))
    assert engine.stopped == []

    dialog = open_dialog(qtbot, window)
    dialog.start.click()
    engine.say(*measured(engine.tasks[1], 0.0, 2), TaskFailed(engine.tasks[1], "The disk is full. Free some space."))
    qtbot.waitUntil(lambda: dialog.step.text() == "The disk is full. Free some space.")
    assert "Too little" in dialog.headline.text() and not dialog.use.isEnabled()
    dialog.start.click()
    dialog.start.click()
    assert engine.stopped == [engine.tasks[2]]
    dialog.close()
    assert engine.stopped == [engine.tasks[2]] * 2, "closing stops as well"
    qtbot.waitUntil(lambda: not window.findChildren(BenchDialog))
    engine.say(BenchFinished(engine.tasks[2], complete=False))
    assert window.actions_by_id["benchAction"].isEnabled()
    engine.hold = True
    ask(qtbot, window, "hello")
    qtbot.waitUntil(lambda: window.session.running is not None)
    assert not window.actions_by_id["benchAction"].isEnabled()
