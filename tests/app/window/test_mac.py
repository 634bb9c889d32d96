"""The window on a Mac, as far as it can be shown elsewhere: Tab, keys, files that Finder opens, reasons in native menus."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.window.launch import make_application
from app.window.window import Window
from tests.app.driving import Open

REPOSITORY = Path(__file__).parents[3]
TEXT_AND_LISTS = Qt.TabFocusBehavior(
    Qt.TabFocusBehavior.TabFocusTextControls.value | Qt.TabFocusBehavior.TabFocusListControls.value
)
"""What QCocoaTheme answers while "Keyboard navigation" is off in System Settings, as it is by default."""


@pytest.fixture
def tab_of_a_mac(qapp: QApplication) -> Iterator[None]:
    hints = qapp.styleHints()
    before = hints.tabFocusBehavior()
    hints.setTabFocusBehavior(TEXT_AND_LISTS)
    yield
    hints.setTabFocusBehavior(before)


def reached_by_tab(qtbot: QtBot, window: Window) -> set[str]:
    window.activateWindow()
    window.composer.edit.setFocus()
    seen = set()
    for _ in range(60):
        focused = QApplication.focusWidget()
        assert focused is not None
        seen.add(focused.accessibleName())
        qtbot.keyClick(focused, Qt.Key.Key_Tab)
    return seen


@pytest.mark.usefixtures("tab_of_a_mac")
def test_tab_reaches_every_control_although_keyboard_navigation_is_off(qtbot: QtBot, open_window: Open) -> None:
    window, _ = open_window()
    assert "Panel pages" not in reached_by_tab(qtbot, window), "the rule of a Mac is not in force"
    make_application()
    assert {"Panel pages", "Attach files", "Compare", "Menu", "Rounds", "Example prompt: Code"} <= reached_by_tab(qtbot, window)


@pytest.mark.parametrize(("executable", "named"), [("/usr/bin/python3.12", True), ("/D.app/Contents/MacOS/Draftlight", False)])
def test_from_a_checkout_the_menu_bar_has_the_programs_name(executable: str, named: bool) -> None:
    """Before there is an application, which reads it once. In a process of its own, since there is one application only."""
    program = f"""
import sys
sys.executable = {executable!r}
import engine.macos
from PySide6.QtWidgets import QApplication
from tests.engine.mac import Library
library = engine.macos.CDLL = Library()
engine.macos._is_mac = lambda: True
import app.window.launch as launch
make = launch.QApplication
def checked(arguments):
    print(library.information["CFBundleName"])
    return make(arguments)
checked.instance = make.instance
launch.isinstance = lambda value, kind: value is not None
launch.QApplication = checked
launch.make_application()
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.stdout.split() == ["Draftlight" if named else "Python"], done.stderr
