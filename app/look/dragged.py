"""Reads which files are dragged over the window or pasted into it."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QMimeData


def local_files(data: QMimeData) -> list[Path]:
    """Returns the local files and folders in the data."""
    return [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()] if data.hasUrls() else []
