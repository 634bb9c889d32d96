"""Applies theme and text size to the window, as set by the user or the desktop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from PySide6.QtCore import QObject, QSize, Signal, Slot
from PySide6.QtGui import QFontMetrics, QGuiApplication
from PySide6.QtWidgets import QApplication, QWidget

from app.look import theme as themes
from app.look.placing import limit_to_screen
from app.look.stylesheet import stylesheet
from app.look.theme import Theme
from app.session.chat import Chat
from engine.types import RANGES

TEXT_SCALE_STEP = 0.1
"""Change of the text scale per command."""


class Themed(Protocol):
    """A part of the window with colours or sizes that the style sheet does not set."""

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies theme and text scale."""


class WindowLook(QObject):
    """Applies theme and text size to the application, the window and its parts whenever either changes.

    Signals:
        applied: sizes may have changed.
    """

    applied = Signal()

    def __init__(self, chat: Chat, window: QWidget, parts: Iterable[Themed]) -> None:
        super().__init__(window)
        self._chat, self._window, self._parts = chat, window, tuple(parts)
        self._applied = ("", 0.0)
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._system_theme_changed)

    @Slot()
    def apply_if_changed(self) -> None:
        """Applies the settings if theme or text size have changed."""
        settings = self._chat.settings
        if self._applied != (settings.appearance, settings.text_scale):
            self._apply()

    @Slot()
    def _system_theme_changed(self) -> None:
        if self._chat.settings.appearance == "system":
            self._apply()

    @Slot()
    def stop(self) -> None:
        """Stops following the desktop's theme: the window is closing."""
        QGuiApplication.styleHints().colorSchemeChanged.disconnect(self._system_theme_changed)

    def _apply(self) -> None:
        """Applies the palette, then the style sheet, then the look of widgets that paint themselves."""
        appearance, scale = self._applied = (self._chat.settings.appearance, self._chat.settings.text_scale)
        themes.set_platform_scheme(appearance)
        theme = themes.resolve(appearance)
        application = QApplication.instance()
        if isinstance(application, QApplication):
            application.setPalette(themes.palette(theme))
            application.setFont(themes.body_font(scale))
        self._window.setStyleSheet(stylesheet(theme, scale))
        for part in self._parts:
            part.set_look(theme, scale)
        lines = QFontMetrics(themes.body_font(scale)).lineSpacing()  # line heights of fonts of the same size differ by a fifth
        min_size = QSize(max(560, round(440 * scale)), max(460, 25 * lines))
        self._window.setMinimumSize(limit_to_screen(self._window, min_size))
        self.applied.emit()


def resize_text(chat: Chat, steps: int) -> None:
    """Enlarges all text by a number of steps, or reduces it if the number is negative; 0 restores the normal size."""
    scale = chat.settings.text_scale + steps * TEXT_SCALE_STEP if steps else 1.0
    chat.preferences.set(text_scale=round(RANGES["text_scale"].nearest(scale), 2))
