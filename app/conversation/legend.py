"""The legend of the marks in a text, each drawn as in the text. Clicking one highlights its tokens and dims the rest."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetricsF, QKeyEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QPushButton, QSizePolicy, QWidget

from app.conversation.blocks import paint_marks
from app.conversation.chunks import Box
from app.conversation.letter_formats import Style
from app.look import theme as themes
from app.look.command import native_keys
from app.look.flow_layout import FlowLayout
from app.look.marks import draw_rounded, draw_text_in, smooth_painter
from app.look.theme import DARK, Theme
from app.look.widgets import named
from engine.lens.pieces import HIDDEN, Ghosts, Kind
from engine.lens.shared_wording import LEGEND

PAD = 7.0
POINT_AT_IT = "Shown while you point at a token of its round."
PALE = 0.45
"""Opacity of the mark of a kind that the text leaves out."""
STEPS = {Qt.Key.Key_Left: -1, Qt.Key.Key_Up: -1, Qt.Key.Key_Right: 1, Qt.Key.Key_Down: 1}


class LegendButton(QPushButton):
    """One kind of token, drawn as in the text, with a frame while its tokens are highlighted."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(kind)
        self.kind = kind
        self._left_out = False
        self._style = Style(DARK, themes.body_font(1.0), themes.mono_font(1.0))
        self.setObjectName("legendButton")
        self.setCheckable(True)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAccessibleName(f"Highlight {kind} tokens")
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.set_left_out(False)

    def set_left_out(self, left_out: bool, hint: str = "") -> None:
        """Sets whether the text leaves these tokens out; the mark is then pale. Highlighted tokens are shown in any case.

        Args:
            hint: how they can be seen then; empty for the key that shows them.
        """
        self._left_out = left_out
        hint = hint or f"Not shown now ({native_keys('Ctrl+G')})."
        now = f" {hint}" if left_out else ""
        self.setAccessibleDescription(f"{self.kind}: {LEGEND[self.kind]}.{now}")
        self.setToolTip(
            f"<p><b>{self.kind}</b>: {LEGEND[self.kind]}.{now} Click to {'show and ' if left_out else ''}highlight these tokens; "
            f"click again to show all {'as before' if left_out else 'alike'}.</p>"
        )
        self.update()

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies the colours, and a font a little smaller than the text."""
        font = themes.body_font(scale, 12)
        font.setStrikeOut(self.kind == "rejected")
        self._style = Style(theme, font, font)
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        metrics = QFontMetricsF(self._style.text)
        return QSize(round(metrics.horizontalAdvance(self.kind) + 2 * PAD + 6), round(metrics.height() + 10))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = smooth_painter(self)
        theme, metrics = self._style.theme, QFontMetricsF(self._style.text)
        area = QRectF(self.rect()).adjusted(1, 1, -1, -1)
        if self.isChecked() or self.underMouse():
            draw_rounded(
                painter, area, 6, QColor(theme.raised), edge=QPen(QColor(theme.faint if self.isChecked() else theme.line), 1)
            )
        if self.hasFocus():
            draw_rounded(painter, area, 6, None, edge=QPen(QColor(theme.accent), 2))
        if self._left_out and not self.isChecked():
            painter.setOpacity(PALE)
        baseline = area.center().y() + (metrics.ascent() - metrics.descent()) / 2
        words = QRectF(PAD, baseline - metrics.ascent(), self.width() - 2 * PAD, metrics.height())
        paint_marks(painter, [Box(words, baseline, self.kind)], self._style)
        painter.setFont(self._style.text)
        draw_text_in(
            painter,
            {"rejected": theme.ghost, "unjudged": theme.faint}.get(self.kind, theme.dim),
            words,
            Qt.AlignmentFlag.AlignCenter,
            self.kind,
        )
        painter.end()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Moves to the neighbours with the arrow keys: Tab stops only once in the legend."""
        bar = self.parent()
        if isinstance(bar, Legend) and (by := STEPS.get(Qt.Key(event.key()))) is not None:
            bar.step(self, by)
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.click()
        else:
            super().keyPressEvent(event)


class Legend(QWidget):
    """A button for each kind of token; at most one is checked.

    Signals:
        chosen: (kind or None) the tokens of this kind are to be highlighted; None ends that.
    """

    chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        named(self, "legend", "Legend", "; ".join(f"{name}: {words}" for name, words in LEGEND.items()))
        self._theme: Theme = DARK
        self._flow = FlowLayout(2)
        self.setLayout(self._flow)
        self.buttons: dict[Kind, LegendButton] = {}
        for kind in LEGEND:
            button = self.buttons[kind] = LegendButton(kind)
            button.clicked.connect(partial(self._clicked, kind))
            self._flow.addWidget(button)
        self.show_chosen(None)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Draws the samples in the theme's colours at the text scale."""
        self._theme = theme
        for button in self.buttons.values():
            button.set_look(theme, scale)
        self._flow.invalidate()

    def show_chosen(self, chosen: Kind | None) -> None:
        """Checks the button of a kind, or none; emits nothing. Tab leads to the checked one."""
        reached = chosen or next(iter(self.buttons))
        for kind, button in self.buttons.items():
            button.setChecked(kind == chosen)
            button.setFocusPolicy(Qt.FocusPolicy.StrongFocus if kind == reached else Qt.FocusPolicy.ClickFocus)

    def show_ghosts(self, ghosts: Ghosts) -> None:
        """Pales the kinds that this setting of ghosts leaves out."""
        for kind, button in self.buttons.items():
            button.set_left_out(kind in HIDDEN[ghosts], POINT_AT_IT if ghosts == "above" else "")

    def step(self, button: LegendButton, by: int) -> None:
        """Moves the focus to the previous or next button, if there is one."""
        kinds = list(self.buttons)
        at = kinds.index(button.kind) + by
        if 0 <= at < len(kinds):
            self.buttons[kinds[at]].setFocus(Qt.FocusReason.TabFocusReason)

    def _clicked(self, kind: Kind, *_: bool) -> None:
        chosen = kind if self.buttons[kind].isChecked() else None
        self.show_chosen(chosen)
        self.chosen.emit(chosen)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Fills the background, because the legend may float over the text."""
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(self._theme.background))
        painter.end()
