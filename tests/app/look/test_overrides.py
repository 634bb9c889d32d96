"""An error in an override of Qt's is an exception like any other, and does not end the process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest
import shiboken6
from PySide6.QtCore import QObject, QSize
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

import app  # noqa: F401  guards the classes made from here on

UNGUARDED = """
import resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
from PySide6.QtWidgets import QApplication, QWidget
class Wrong(QWidget):
    def sizeHint(self):
        return 1 / 0
application = QApplication([])
Wrong().adjustSize()
"""


def gone() -> None:
    thing = QObject()
    shiboken6.delete(thing)
    thing.objectName()


@pytest.mark.parametrize(
    "fails, error",
    [(lambda: 1 / 0, ZeroDivisionError), (lambda: int("x"), ValueError), (gone, RuntimeError), (lambda: QSize("x"), TypeError)],  # type: ignore[call-overload]
)
def test_an_error_in_an_override_is_raised(qtbot: QtBot, fails: Callable[[], object], error: type[Exception]) -> None:
    class Wrong(QWidget):
        def sizeHint(self) -> QSize:
            fails()
            return QSize(10, 10)

    widget = Wrong()
    qtbot.addWidget(widget)
    with pytest.raises(error):
        widget.adjustSize()


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="exceptions are instances from the start")
def test_without_the_guard_the_process_crashes() -> None:
    done = subprocess.run([sys.executable, "-c", UNGUARDED], capture_output=True, check=False)
    assert done.returncode < 0, "PySide has mended it: the guard can go"
