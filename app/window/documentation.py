"""Finds and opens the documentation on this computer: built pages in the browser, else their Markdown in a window."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QWidget

from app.window.manual import FIRST, SOURCES, ManualWindow

_ROOT = Path(__file__).resolve().parents[2]
PLACES = (_ROOT / "dist" / "docs", _ROOT / "assets" / "manual")
"""Where `make docs` writes the pages in a checkout, and where `make wheel` puts them in a package."""
NONE_HERE = "This copy has no documentation. In a checkout, “make docs” builds it."


def has_documentation() -> bool:
    """Returns whether there is documentation, built or not."""
    return documentation() is not None or (SOURCES / FIRST).is_file()


@cache
def documentation() -> Path | None:
    """Returns the first built page; None if the documentation was not built."""
    return next((place / "index.html" for place in PLACES if (place / "index.html").is_file()), None)


def open_documentation(window: QWidget) -> None:
    """Opens the first page, in the browser if it was built."""
    if (page := documentation()) is not None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(page)))
    elif has_documentation():
        ManualWindow(window).show()
