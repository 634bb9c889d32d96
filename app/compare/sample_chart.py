"""Charts of many samples under one setting: how often the first proposal was accepted, and which numbers were drawn."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.compare.sample_tally import NUMBERS, SampleTally
from app.look import theme as themes
from app.look.marks import draw_rounded, draw_text, smooth_painter
from app.look.theme import DARK, Theme
from app.look.widgets import named
from app.look.wording import RULE_TITLES
from engine.values.wording import amount

PAD = 14.0
EXPLAINED = (
    "<p>How often the first proposal of a sample was accepted. The bar is the measured share, the whisker its 95% interval "
    "(Wilson), and the diamond what theory predicts for the rule. If the target drafts for itself, that is 1 under Gumbel "
    "and Rejection, and the sum of the squared probabilities under Match.</p>"
    "<p>Below: how often the text began with each number from 1 to 10; the last bar counts everything else.</p>"
)


class SampleChart(QWidget):
    """Charts the samples of one setting. Call `touch` after the tally has grown."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "sampleChart", "Samples", tip=EXPLAINED)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.tally: SampleTally | None = None
        self.largest = 1
        self.wanted = 0
        self.words = ""
        self.theme: Theme = DARK
        self._scale = 1.0

    def show_tally(self, tally: SampleTally | None, wanted: int) -> None:
        """Shows another setting; `wanted` is the final number of samples."""
        self.tally, self.wanted = tally, wanted
        self.touch(1)

    def touch(self, largest: int) -> None:
        """Repaints after samples were added; `largest` is the highest count in any column, so that all columns use one scale."""
        self.largest = max(1, largest)
        self.setAccessibleDescription(self.sentence)
        self.update()

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies colours and text scale."""
        self.theme, self._scale = theme, scale
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(240, round(330 * self._scale))

    @property
    def sentence(self) -> str:
        """The figures in words."""
        tally = self.tally
        if tally is None or tally.share is None or tally.interval is None:
            return "No samples yet."
        low, high = tally.interval
        closed = "" if tally.expected is None else f" Theory predicts {tally.expected:.3f}."
        squares = "" if tally.squares is None else f" The sum of p times q is {tally.squares:.3f}."
        numbers = ", ".join(f"{number}: {tally.numbers[number]}" for number in NUMBERS if tally.numbers[number])
        return (
            f"First proposal accepted in {tally.accepted:,} of {amount(tally.judged, 'sample')}, {tally.share:.3f}, "
            f"95% interval {low:.3f} to {high:.3f}.{closed}{squares} Numbers drawn: {numbers or 'none'}."
        )

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = smooth_painter(self)
        painter.fillRect(self.rect(), QColor(self.theme.background))
        tally = self.tally
        if tally is None or not tally.samples:
            self._write(painter, PAD, PAD + 16 * self._scale, self.words or "No samples yet.", self.theme.dim)
        else:
            bottom = self._paint_acceptance(painter, tally)
            self._paint_numbers(painter, tally, bottom + 26 * self._scale)
        if self.hasFocus():
            painter.setPen(QPen(QColor(self.theme.accent), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self.rect().adjusted(1, 1, -2, -2))
        painter.end()

    def _write(
        self, painter: QPainter, x: float, baseline: float, words: str, colour: str, size: float = 12, bold: bool = False
    ) -> float:
        """Writes words and returns the x coordinate of their end."""
        font = themes.body_font(self._scale * size / 13)
        font.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
        painter.setFont(font)
        draw_text(painter, colour, QPointF(x, baseline), words)
        return x + painter.fontMetrics().horizontalAdvance(words)

    def _paint_acceptance(self, painter: QPainter, tally: SampleTally) -> float:
        """Paints the bar, its interval and the closed form; returns the y coordinate of the end."""
        theme, scale = self.theme, self._scale
        y = PAD + 12 * scale
        self._write(painter, PAD, y, "First proposal accepted", theme.text, bold=True)
        share, interval = tally.share, tally.interval
        if share is None or interval is None:
            self._write(painter, PAD, y + 24 * scale, "Nothing was proposed.", theme.dim)
            return y + 24 * scale
        y += 30 * scale
        end = self._write(painter, PAD, y, f"{share:.3f}", theme.text, 20, bold=True)
        words = f"{tally.accepted:,} of {tally.judged:,}; {interval[0]:.3f} to {interval[1]:.3f}"
        painter.setFont(themes.body_font(scale * 12 / 13))
        x = end + 8
        if x + painter.fontMetrics().horizontalAdvance(words) > self.width() - PAD:
            x, y = PAD, y + 18 * scale
        self._write(painter, x, y, words, theme.dim)
        track = QRectF(PAD, y + 12 * scale, self.width() - 2 * PAD, 14 * scale)
        draw_rounded(painter, track, 3, QColor(theme.raised))
        painter.setBrush(QColor(theme.accepted))
        painter.drawRoundedRect(QRectF(track.left(), track.top(), max(2.0, track.width() * share), track.height()), 3, 3)
        low, high = (track.left() + track.width() * edge for edge in interval)
        middle = track.center().y()
        painter.setPen(QPen(QColor(theme.text), 1.4))
        painter.drawLine(QPointF(low, middle), QPointF(high, middle))
        for x in (low, high):
            painter.drawLine(QPointF(x, middle - 4 * scale), QPointF(x, middle + 4 * scale))
        y = track.bottom()
        if tally.expected is not None:
            x = track.left() + track.width() * min(1.0, tally.expected)
            self._diamond(painter, x, y + 8 * scale, theme.rule(tally.setup.rule))
            words = f"theory predicts for {RULE_TITLES[tally.setup.rule]}: {tally.expected:.3f}"
            y += 30 * scale
            self._diamond(painter, PAD + 5 * scale, y - 4 * scale, theme.rule(tally.setup.rule))
            self._write(painter, PAD + 16 * scale, y, words, theme.dim)
        if tally.squares is not None:
            y += 19 * scale
            self._write(painter, PAD + 16 * scale, y, f"sum of p × q at this position: {tally.squares:.3f}", theme.dim)
        return y

    def _diamond(self, painter: QPainter, x: float, y: float, colour: str) -> None:
        size = 4.5 * self._scale
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colour))
        painter.drawPolygon([QPointF(x, y - size), QPointF(x + size, y), QPointF(x, y + size), QPointF(x - size, y)])

    def _paint_numbers(self, painter: QPainter, tally: SampleTally, top: float) -> None:
        """Paints a bar for each number, and one for everything else."""
        theme, scale = self.theme, self._scale
        self._write(painter, PAD, top + 12 * scale, "Numbers drawn", theme.text, bold=True)
        area = QRectF(PAD, top + 38 * scale, self.width() - 2 * PAD, 0)
        area.setBottom(min(self.height() - 26 * scale, area.top() + 190 * scale))
        if area.height() < 30 * scale:
            return
        kinds: list[int | None] = [*NUMBERS, None]
        pitch = area.width() / (len(kinds) + 0.6)
        painter.setFont(themes.mono_font(scale, 10.5))
        metrics = painter.fontMetrics()
        for place, number in enumerate(kinds):
            many = tally.numbers[number]
            left = area.left() + pitch * (place + (0.6 if number is None else 0))
            height = area.height() * many / self.largest
            bar = QRectF(left + 1, area.bottom() - height, max(2.0, pitch - 3), height)
            painter.setPen(QPen(QColor(theme.faint), 1) if number is None else Qt.PenStyle.NoPen)
            painter.setBrush(Qt.BrushStyle.NoBrush if number is None else QColor(theme.accent))
            if many:
                painter.drawRect(bar)
            painter.setPen(QColor(theme.dim))
            for words, y in ((str(number or "other"), area.bottom() + 15 * scale), (str(many) if many else "", bar.top() - 4)):
                x = min(
                    bar.center().x() - metrics.horizontalAdvance(words) / 2, self.width() - metrics.horizontalAdvance(words) - 2.0
                )
                painter.drawText(QPointF(x, y), words)
        painter.setPen(QPen(QColor(theme.line), 1))
        painter.drawLine(area.bottomLeft() + QPointF(0, 0.5), area.bottomRight() + QPointF(0, 0.5))
