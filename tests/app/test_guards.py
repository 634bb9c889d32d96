"""The guards of the conftest files catch what they are there for: each planted leak fails its test, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
TESTS = Path(__file__).parents[1]

PLANTED = """
import logging
import threading
import warnings

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QWidget

kept = []


def test_clean(qtbot):
    window = QWidget()
    qtbot.addWidget(window)
    window.show()
    kept.append(QTimer(window))
    kept[-1].start(10)


def test_thread():
    threading.Thread(target=threading.Event().wait, args=(30,), daemon=True).start()


def test_log():
    logging.getLogger("engine").warning("something odd")


def test_timer(qapp):
    kept.append(QTimer())
    kept[-1].start(1000)


def test_window(qapp):
    kept.append(QWidget())
    kept[-1].show()


def test_qt_message(qapp):
    QTimer().start(-1)


def test_warning():
    warnings.warn("old", DeprecationWarning)
"""

COMPLAINTS = {
    "test_thread": "threads left running",
    "test_log": "unexpected in the log: engine: something odd",
    "test_timer": "QTimer still active, started at *test_guards_catch_leaks.py:*",
    "test_window": "open window",
    "test_qt_message": "Failure: Qt messages with level WARNING or above emitted",
    "test_warning": "DeprecationWarning: old",
}


@pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.full)])
def test_guards_catch_leaks(workers: str, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    guards = (TESTS / "conftest.py").read_text().replace("SECONDS_TO_END = 30.0", "SECONDS_TO_END = 0.1")
    window_guards = (TESTS / "app" / "conftest.py").read_text().replace("from __future__ import annotations", "")
    pytester.makepyprojecttoml((TESTS.parent / "pyproject.toml").read_text())
    pytester.makeconftest(guards + window_guards)
    pytester.makepyfile(PLANTED)
    monkeypatch.setenv("PYTHONPATH", str(TESTS.parent))
    monkeypatch.setenv("COLUMNS", "300")

    result = pytester.runpytest_subprocess(pytester.path, "-p", "no:cacheprovider", "-n", workers)

    summary = [line.split("::")[1] for line in result.outlines if line.startswith(("FAILED ", "ERROR "))]
    assert sorted(line.split(" - ")[0] for line in summary) == sorted(COMPLAINTS)
    result.stdout.fnmatch_lines_random([f"*{complaint}*" for complaint in COMPLAINTS.values()])
