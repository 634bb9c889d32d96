"""The documentation is opened where it was built or packaged, and the menu says what to do where it was not."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from PySide6.QtCore import QUrl
from pytestqt.qtbot import QtBot

from app.window import documentation
from tests.app.driving import Open, settle

REPOSITORY = Path(__file__).parents[3]


def test_the_menu_opens_the_documentation_of_this_computer(
    qtbot: QtBot, open_window: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[QUrl] = []
    monkeypatch.setattr(documentation.QDesktopServices, "openUrl", opened.append)
    monkeypatch.setattr(documentation, "PLACES", (tmp_path / "built", tmp_path / "packaged"))
    documentation.documentation.cache_clear()
    try:
        window, _ = open_window()
        settle()
        action = window.actions_by_id["documentationAction"]
        assert not action.isEnabled() and "make docs" in action.toolTip()
        page = tmp_path / "packaged" / "index.html"
        page.parent.mkdir()
        page.touch()
        documentation.documentation.cache_clear()
        window.new_chat()
        settle()
        assert action.isEnabled()
        action.trigger()
        assert [url.toLocalFile() for url in opened] == [str(page)] and opened[0].isLocalFile()
    finally:
        documentation.documentation.cache_clear()


def test_a_package_has_what_was_built() -> None:
    """`make wheel` copies it to the second place, which git does not know and the wheel takes all the same."""
    wheel = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]
    built, packaged = (place.relative_to(REPOSITORY).as_posix() for place in documentation.PLACES)
    assert packaged in wheel["artifacts"]
    assert f"cp -r {built} {packaged}" in (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    assert f"{packaged}/" in (REPOSITORY / ".gitignore").read_text(encoding="utf-8").splitlines()
