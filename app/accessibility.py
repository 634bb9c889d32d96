"""What a screen reader gets of the conversation, which is painted and therefore has no widgets of its own."""

from __future__ import annotations

from PySide6.QtCore import QObject
from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtWidgets import QAccessibleWidget

from app.lane_reading import LanesInterface
from app.lanes import Lanes
from app.transcript import Transcript


class TranscriptInterface(QAccessibleWidget):
    """A document whose value is the conversation in words, without ghosts."""

    def __init__(self, transcript: Transcript) -> None:
        super().__init__(transcript, QAccessible.Role.Document, transcript.accessibleName())

    def text(self, kind: QAccessible.Text) -> str:
        transcript = self.object()
        if kind == QAccessible.Text.Value and isinstance(transcript, Transcript):
            return transcript.plain_text()
        return super().text(kind)


def _factory(_: str, thing: QObject) -> QAccessibleInterface | None:
    # Qt keeps the interface as long as the widget, but not its Python half: the widget does.
    if isinstance(thing, Transcript):
        thing.accessible = TranscriptInterface(thing)
        return thing.accessible
    if isinstance(thing, Lanes):
        thing.accessible = LanesInterface(thing)
        return thing.accessible
    return None


def install() -> None:
    """Makes them readable; once per process."""
    QAccessible.installFactory(_factory)
