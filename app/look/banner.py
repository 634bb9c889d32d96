"""The message banner: errors, notes and states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import Qt, QTimer, Slot
from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QApplication, QFrame, QLabel, QWidget

from app.look import theme as themes
from app.look.theme import Theme
from app.look.widgets import announce, icon_button, in_column, in_row, named, push_button, restyle, scrolling, text_label, tint

MAX_LINES = 5
"""Lines of a message that show at once; a longer one scrolls."""
MIN_DISPLAY_MS, MS_PER_LETTER, MIN_ACTION_MS = 6000, 70, 20_000
"""Display time of a note in milliseconds: minimum, per letter, and minimum if it has a button."""


@dataclass(frozen=True, slots=True)
class BannerAction:
    """A button beside a message: its label and its action. With `keeps_message`, the message stays after a click."""

    title: str
    act: Callable[[], object]
    keeps_message: bool = False


class Banner(QWidget):
    """A message in its own area, so that it covers nothing.

    An error stays until it is dismissed or replaced, or is no longer valid. A note also hides after a reading time, which does
    not count while the window is inactive, the pointer is over the note or the note has the focus. A state stays until it is
    hidden, and cannot be dismissed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.frame = named(QFrame(), "banner")
        self.setAccessibleName("Message")
        self.icon = QLabel()
        self.label = text_label("bannerText", selectable=True)
        self.area = named(scrolling(self.label, focusable=True), label="Message")
        self.label.setAutoFillBackground(False)
        self._available_height = 1000
        self.action = push_button("", "bannerAction", self._run_action)
        self.action.hide()
        self._on_action: tuple[Callable[[], object], bool] | None = None
        self._is_valid: Callable[[], bool] | None = None
        self.dismiss = icon_button("close", "Dismiss the message", self.hide)
        self.timer = QTimer(self, singleShot=True)
        self.timer.timeout.connect(self._hide_unless_in_use)
        self.margins = in_column(self.frame, margins=(16, 8, 16, 2), parent=self)
        in_row(
            (self.icon, 0, Qt.AlignmentFlag.AlignVCenter),
            (self.area, 1, Qt.AlignmentFlag.AlignVCenter),
            (self.action, 0, Qt.AlignmentFlag.AlignVCenter),
            (self.dismiss, 0, Qt.AlignmentFlag.AlignTop),
            spacing=10,
            margins=(14, 8, 8, 8),
            parent=self.frame,
        )
        self.hide()

    def show_message(self, message: str, tone: str = "error", is_valid: Callable[[], bool] | None = None) -> None:
        """Shows a message and announces it to screen readers.

        Args:
            tone: "error", "note" or "lock" for a state; sets icon and colour, and whether the message hides by itself.
            is_valid: returns whether the message is still valid, for `check`; None if only the user can tell.
        """
        self._is_valid = is_valid
        self.label.setText(message)
        restyle(self.frame, "tone", tone)
        self.dismiss.setVisible(tone != "lock")
        self.setAccessibleDescription(message)
        self.action.hide()
        self._paint_icon()
        self.show()
        self._fit()
        self._count_down()
        announce(self, message)

    def show_action(self, title: str, act: Callable[[], object], keeps_message: bool = False) -> None:
        """Shows a button next to the current message, until the next message. It hides the message unless `keeps_message`."""
        self._on_action = act, keeps_message
        self.action.setText(title)
        self.action.setAccessibleName(title)
        self.action.show()
        self._fit()  # the button takes space from the text
        self._count_down()

    def check(self) -> None:
        """Hides a message that is no longer valid."""
        if self._is_valid is not None and not self.isHidden() and not self._is_valid():
            self.hide()

    def _run_action(self) -> None:
        if self._on_action is not None:
            act, keeps_message = self._on_action
            if not keeps_message:
                self.hide()
            act()

    # Time

    def _count_down(self) -> None:
        if self.frame.property("tone") != "note" or not self.isVisible():
            self.timer.stop()
            return
        needed = MS_PER_LETTER * len(self.label.text())
        self.timer.start(max(MIN_DISPLAY_MS if self.action.isHidden() else MIN_ACTION_MS, needed))

    @Slot()
    def _hide_unless_in_use(self) -> None:
        focused = QApplication.focusWidget()
        in_use = self.underMouse() or (focused is not None and self.isAncestorOf(focused))
        if in_use or not self.isActiveWindow():
            self._count_down()
        else:
            self.hide()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._count_down()

    def hideEvent(self, event: QHideEvent) -> None:
        """Stops the reading time while the message is not visible."""
        super().hideEvent(event)
        self.timer.stop()

    # Look

    def set_look(self, theme: Theme, scale: float) -> None:
        """Redraws the icon of the message and the button that dismisses it."""
        self._theme = theme
        self._paint_icon()
        tint(self.dismiss, theme, scale)
        self._fit()

    def set_room(self, height: int) -> None:
        """Sets the height available; the message takes at most about a third of it, and scrolls if it is longer."""
        self._available_height = height
        self._fit()

    def set_column(self, left: int, width: int, total_width: int) -> None:
        """Aligns the frame with the message field."""
        below = 12 if self.frame.property("tone") == "lock" else 2  # nothing is below it
        self.margins.setContentsMargins(max(10, left - 14), 8, max(10, total_width - left - width - 14), below)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        """Fits the height to the text, up to `MAX_LINES`; longer text can be scrolled with the keyboard."""
        self.margins.activate()
        line = self.label.fontMetrics().lineSpacing()
        max_height = line * max(1, min(MAX_LINES, int((0.35 * self._available_height - 40) / line)))
        wanted = self.label.heightForWidth(max(1, self.area.width()))
        self.area.setFixedHeight(max(0, min(wanted, max_height)))
        self.area.setFocusPolicy(Qt.FocusPolicy.StrongFocus if wanted > max_height else Qt.FocusPolicy.NoFocus)

    def _paint_icon(self) -> None:
        note = self.frame.property("tone") in ("note", "lock")
        colour = self._theme.dim if note else self._theme.rejected
        self.icon.setPixmap(themes.pixmap("info" if note else "warning", colour, 18, self.devicePixelRatioF()))
