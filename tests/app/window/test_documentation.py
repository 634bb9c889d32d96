"""The documentation is opened where it was built or packaged, and the menu says what to do where it was not."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QUrl
from PySide6.QtGui import QTextDocument
from pytestqt.qtbot import QtBot

from app.conversation.link_question import LinkQuestion
from app.window import documentation
from app.window.documentation import SOURCES, ManualWindow, slug, without_sphinx_syntax
from tests.app.driving import Open, settle

REPOSITORY = Path(__file__).parents[3]


def test_the_menu_opens_the_documentation_of_this_computer(
    qtbot: QtBot, share_window: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[QUrl] = []
    monkeypatch.setattr(documentation.QDesktopServices, "openUrl", opened.append)
    monkeypatch.setattr(documentation, "BUILT_FOLDERS", (tmp_path / "built", tmp_path / "packaged"))
    monkeypatch.setattr(documentation, "SOURCES", tmp_path / "docs")
    monkeypatch.setattr(documentation, "documentation", documentation.documentation.__wrapped__)  # not cached
    window, _ = share_window()
    settle()
    action = window.actions_by_id["documentationAction"]
    assert not action.isEnabled() and "make docs" in action.toolTip()
    page = tmp_path / "packaged" / "index.html"
    page.parent.mkdir()
    page.touch()
    window.new_chat()
    settle()
    assert action.isEnabled()
    action.trigger()
    assert [url.toLocalFile() for url in opened] == [str(page)] and opened[0].isLocalFile()


def test_a_package_contains_the_built_pages() -> None:
    """`make wheel` copies it to the second place, which git does not know and the wheel takes all the same."""
    wheel = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]
    built, packaged = (place.relative_to(REPOSITORY).as_posix() for place in documentation.BUILT_FOLDERS)
    assert packaged in wheel["artifacts"]
    assert f"cp -r {built} {packaged}" in (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    assert f"{packaged}/" in (REPOSITORY / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_a_checkout_shows_unbuilt_pages(
    qtbot: QtBot, share_window: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documentation, "BUILT_FOLDERS", (tmp_path / "built",))
    monkeypatch.setattr(documentation, "documentation", documentation.documentation.__wrapped__)  # not cached
    window, _ = share_window()
    window.actions_by_id["documentationAction"].trigger()
    shown = window.findChild(ManualWindow)
    assert isinstance(shown, ManualWindow) and shown.isVisible()
    assert "A chat window for local language models" in shown.browser.toPlainText()
    shown.browser.anchorClicked.emit(QUrl("models.md#block-drafters-dflash"))
    assert shown.browser.textCursor().block().text() == "Block drafters (DFlash)"
    assert shown.browser.verticalScrollBar().value() > 0
    shown.back.click()
    assert shown.pages == ["index.md"]
    shown.browser.anchorClicked.emit(QUrl("https://example.org/"))
    question = shown.findChild(LinkQuestion)
    assert question is not None, "a page of the web is asked about first"
    question.close()
    shown.close()


def test_every_page_is_readable_and_every_link_in_it_leads_somewhere(qapp: Any) -> None:
    pages = {path.name: QTextDocument() for path in SOURCES.glob("*.md")}
    headings: dict[str, set[str]] = {}
    for name, document in pages.items():
        document.setMarkdown(without_sphinx_syntax((SOURCES / name).read_text(encoding="utf-8")))
        words = document.toPlainText()
        assert len(words) > 400 and not any(mark in words for mark in ("<<", ":::", "{toctree}", "This is the source")), name
        blocks, block = [], document.begin()
        while block.isValid():
            blocks.append(block)
            block = block.next()
        headings[name] = {slug(block.text()) for block in blocks if block.blockFormat().headingLevel()}
    followed = 0
    for name in pages:
        for target, anchor in re.findall(
            r"\]\(([\w-]+\.md)?(?:#([^)]+))?\)", without_sphinx_syntax((SOURCES / name).read_text(encoding="utf-8"))
        ):
            assert (target or name) in pages, (name, target)
            assert not anchor or anchor in headings[target or name], (name, target, anchor)
            followed += 1
    assert followed > 30
    listed = set(re.findall(r"\]\(([\w-]+\.md)", without_sphinx_syntax((SOURCES / "index.md").read_text(encoding="utf-8"))))
    assert listed >= set(pages) - {"index.md"}, "the first page leads to all others"
