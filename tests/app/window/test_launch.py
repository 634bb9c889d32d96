"""The window opens, is kept in its settings, and the self-test tells a window that works from one that does not."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QLocale, Qt, QTimer
from pytestqt.qtbot import QtBot

import app.cli.self_test_window
import app.window.launch
from app.look.fields import TemperatureBox
from app.session import settings as stored
from app.session.settings import Settings
from app.window.window import Window
from engine.files.whole_file import NotWritten
from engine.types import LoadFailed, LoadStarted
from tests.app.fakes import STORY, FakeEngine, story_rounds
from tests.app.turns_engine import TurnsEngine

REPOSITORY = Path(__file__).parents[3]


def arguments(target: str | None = None, drafter: str | None = None) -> argparse.Namespace:
    return argparse.Namespace(target=target, drafter=drafter)


def test_the_window_opens_before_the_model_loads_and_quits_when_closed(
    qtbot: QtBot, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FakeEngine()
    seen: list[tuple[bool, int]] = []

    def closes_when_painted(*arguments: Any) -> Window:
        window = Window(*arguments)
        window.first_painted.connect(lambda: seen.append((window.isVisible(), len(engine.loads))))
        window.first_painted.connect(lambda: QTimer.singleShot(0, window, window.close))
        return window

    monkeypatch.setattr(app.window.launch, "Engine", lambda **_: engine)
    monkeypatch.setattr(app.window.launch, "Window", closes_when_painted)
    assert app.window.launch.run(arguments(drafter="ngram")) == 0
    assert seen == [(True, 0)]
    assert engine.loads == [("builtin", "ngram")]
    assert engine.closed
    assert stored.load(home / "settings.json")[0].drafter == "ngram"


def test_the_application_for_macos_keeps_its_own_icon() -> None:
    """In a process of its own, since there is one application only."""
    program = """
import sys
from app.window.launch import make_application
for executable, has_icon in (("/usr/bin/python3.12", True), ("/Draftlight.app/Contents/MacOS/Draftlight", False)):
    sys.executable = executable
    application = make_application()
    assert application.windowIcon().isNull() is not has_icon
    application.shutdown()"""
    assert subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY).returncode == 0


@pytest.mark.parametrize(("typed", "value"), [("0.7", 0.7), ("0,7", 0.7), ("1,25", 1.25), (",5", 0.5)])
def test_numbers_accept_a_decimal_comma(typed: str, value: float, qtbot: QtBot) -> None:
    before = QLocale()
    try:
        QLocale.setDefault(QLocale(QLocale.Language.German, QLocale.Country.Germany))
        app.window.launch.make_application()
        box = TemperatureBox()
    finally:
        QLocale.setDefault(before)
    qtbot.addWidget(box)
    box.show()
    box.selectAll()
    qtbot.keyClicks(box, typed)
    qtbot.keyClick(box, Qt.Key.Key_Return)
    assert (box.value(), box.text()) == (value, f"{value:.2f}")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (arguments(), ("builtin", "auto")),
        (arguments(target="/models/qwen"), ("/models/qwen", "auto")),
        (arguments(target="/models/qwen", drafter="ngram"), ("/models/qwen", "ngram")),
        (arguments(drafter="none"), ("builtin", "none")),
    ],
)
def test_arguments_override_the_settings(given: argparse.Namespace, expected: tuple[str, str]) -> None:
    settings = app.window.launch.with_arguments(Settings(), given)
    assert (settings.target, settings.drafter) == expected


def test_the_self_test_paints_the_main_states(
    qtbot: QtBot, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("app.session.engine_link.BUSY_MS", 2)
    monkeypatch.setattr(app.cli.self_test_window, "Engine", lambda: TurnsEngine(rounds=story_rounds(STORY * 4)))
    assert app.cli.self_test_window.run(tmp_path / "pictures") == 0
    names = sorted(path.stem for path in (tmp_path / "pictures").iterdir())
    states = ("compare", "finished", "first-start", "loading", "mid-answer", "trees")
    assert names == [f"{state}-{theme}" for state in states for theme in ("dark", "light")]
    assert "first paint after" in capsys.readouterr().out


def test_the_self_test_says_why_pictures_cannot_be_saved(
    qtbot: QtBot, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app.cli.self_test_window, "Engine", FakeEngine)
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(NotWritten, match=r"part of the path is a file, not a folder\. Choose another folder or name"):
        app.cli.self_test_window.run(tmp_path / "file")


def test_the_self_test_fails_where_the_model_does_not_load(
    qtbot: QtBot, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken(FakeEngine):
        def answer_load(self, target: str, drafter: str = "none") -> None:
            self.hold = True
            self.say(LoadStarted(target), LoadFailed(target, "The file is damaged. Download it again."))

    monkeypatch.setattr(app.cli.self_test_window, "Engine", Broken)
    assert app.cli.self_test_window.run(None) == 1
    assert "The file is damaged" in capsys.readouterr().err
