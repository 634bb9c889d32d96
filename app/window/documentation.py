"""The documentation on this computer: built pages in the browser, else their Markdown in a window."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from PySide6.QtCore import QSize, Qt, QUrl, Slot
from PySide6.QtGui import QDesktopServices, QTextBlockFormat, QTextCursor, QTextDocument
from PySide6.QtWidgets import QTextBrowser, QWidget

from app.conversation.link_question import LinkQuestion
from app.look.placing import limit_to_screen
from app.look.widgets import TransientDialog, in_column, in_row, named, push_button, stretch

_ROOT = Path(__file__).resolve().parents[2]
BUILT_FOLDERS = (_ROOT / "dist" / "docs", _ROOT / "assets" / "manual")
"""Folders with built pages: that of `make docs` in a checkout, and that of `make wheel` in a package."""
SOURCES = _ROOT / "assets" / "docs"
FIRST_PAGE = "index.md"
SIZE = QSize(860, 720)
PLACEHOLDER = "*`make docs` fills this in.*"
NO_DOCUMENTATION = "This copy has no documentation. In a checkout, “make docs” builds it."


def has_documentation() -> bool:
    """Returns whether there is documentation, built or not."""
    return documentation() is not None or (SOURCES / FIRST_PAGE).is_file()


@cache
def documentation() -> Path | None:
    """Returns the first built page; None if the documentation was not built."""
    return next((folder / "index.html" for folder in BUILT_FOLDERS if (folder / "index.html").is_file()), None)


def open_documentation(window: QWidget) -> None:
    """Opens the first page, in the browser if it was built."""
    if (page := documentation()) is not None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(page)))
    elif has_documentation():
        ManualWindow(window).show()


class ManualWindow(TransientDialog):
    """Shows one page at a time; links lead to the others."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, "manual", "Documentation")
        self.pages: list[str] = []
        self.browser = named(QTextBrowser(openLinks=False), "manualPage", "Documentation")
        self.browser.document().setDocumentMargin(16)
        self.browser.anchorClicked.connect(self._follow)
        self.back = push_button("Back", "quietButton", self._go_back)
        contents = push_button("Contents", "quietButton", lambda: self.open_page(FIRST_PAGE))
        close = push_button("Close", "quietButton", self.reject)
        in_column(
            in_row(self.back, contents, stretch(), close, spacing=8),
            (self.browser, 1),
            spacing=8,
            margins=(12, 10, 12, 12),
            parent=self,
        )
        self.resize(limit_to_screen(parent, SIZE))
        self.open_page(FIRST_PAGE)
        self.browser.setFocus(Qt.FocusReason.OtherFocusReason)

    def open_page(self, name: str, heading: str = "") -> None:
        """Shows a page from its beginning, or from a heading, given as the anchor of its link ("the-window")."""
        if not self.pages or self.pages[-1] != name:
            self.pages.append(name)
            features = QTextDocument.MarkdownFeature.MarkdownDialectGitHub | QTextDocument.MarkdownFeature.MarkdownNoHTML
            self.browser.document().setMarkdown(without_sphinx_syntax((SOURCES / name).read_text(encoding="utf-8")), features)
            cursor, spacing = QTextCursor(self.browser.document()), QTextBlockFormat()
            spacing.setBottomMargin(6)
            cursor.select(QTextCursor.SelectionType.Document)
            cursor.mergeBlockFormat(spacing)
        self.browser.moveCursor(QTextCursor.MoveOperation.Start)
        block = self.browser.document().begin()
        while heading and block.isValid():
            if block.blockFormat().headingLevel() and slug(block.text()) == heading:
                self.browser.moveCursor(QTextCursor.MoveOperation.End)  # so that the heading ends up at the top
                self.browser.setTextCursor(QTextCursor(block))
                break
            block = block.next()
        self.back.setEnabled(len(self.pages) > 1)

    @Slot()
    def _go_back(self) -> None:
        if len(self.pages) > 1:
            self.pages.pop()
            self.open_page(self.pages.pop())

    @Slot(QUrl)
    def _follow(self, link: QUrl) -> None:
        if link.scheme():
            LinkQuestion(link.toString(), self).open()
        elif not link.path():
            self.open_page(self.pages[-1], link.fragment())
        elif (SOURCES / link.path()).is_file() and link.path().endswith(".md"):
            self.open_page(link.path(), link.fragment())


def slug(heading: str) -> str:
    """Returns the link anchor of a heading, as GitHub and Sphinx do: "Block drafters (DFlash)" is block-drafters-dflash."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def without_sphinx_syntax(page: str) -> str:
    """Returns the Markdown of a page without Sphinx syntax; its lists of pages become links."""
    page = re.sub(r"^\*This is the source of the page.*?\*\n", "", page, flags=re.MULTILINE | re.DOTALL)
    page = re.sub(r"^```\{toctree\}\n(.*?)^```$", _links, page, flags=re.MULTILINE | re.DOTALL)
    page = re.sub(r"^:{3,}\{(?:image|figure)\}.*?^:{3,}$\n?", "", page, flags=re.MULTILINE | re.DOTALL)
    page = re.sub(r"^:{3,}.*\n|^:(?:alt|class|name|width):.*\n", "", page, flags=re.MULTILINE)
    page = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", page)  # pictures exist only in the built pages
    page = re.sub(r"^<<.*>>$", PLACEHOLDER, page, flags=re.MULTILINE)
    return re.sub(r"<<\w+>>", "…", page)


def _links(toctree: re.Match[str]) -> str:
    caption = re.search(r":caption: (.+)", toctree[1])
    names = [name for name in toctree[1].split() if (SOURCES / f"{name}.md").is_file()]
    lines = [f"- [{_title(name)}]({name}.md)" for name in names]
    return "\n".join([f"**{caption[1]}**\n" if caption else "", *lines, ""])


def _title(name: str) -> str:
    first = re.search(r"^# (.+)$", (SOURCES / f"{name}.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return name if first is None else first[1]
