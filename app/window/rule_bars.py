"""What each rule was to accept at the same positions, in sight while rules are switched: three bars, and what they say."""

from __future__ import annotations

from dataclasses import dataclass, field

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app.look import theme as themes
from app.look.theme import Theme
from app.look.widgets import ElidedLabel
from app.look.wording import RULE_TITLES
from app.session.session import Session
from app.session.settings import Settings
from engine.drafter_kinds import NO_DRAFTER
from engine.lens.rule_comparison import (
    COLD,
    WARM,
    Interval,
    RuleComparison,
    comparison_sentence,
    difference_sentence,
    happened_words,
    helps_to_warm,
    likeness,
    share,
)
from engine.types import EXPECTED_RULES, ExpectedRule

MARKS = (
    "Bars from 0 to 1: the share of judged proposals that each rule is expected to accept, in closed form, all at the same "
    "positions. The mark with the triangle: what happened under the rule in force. Thin lines with ends: 95% intervals of the "
    "difference from the rule in force, with rounds as independent. Copied proposals are counted apart: every rule accepts them "
    "alike."
)
EXPECTED_OF = "Share of proposals that each rule is expected to accept"


@dataclass(frozen=True, slots=True)
class Bar:
    """One rule's bar; shares from 0 to 1.

    Attributes:
        expected: None before there is anything to show.
        happened: what was accepted, of the rule in force; None where that is not comparable.
        gap: the difference from the rule in force, with its interval; None for that rule itself.
        in_force: whether the shown answer is under this rule.
    """

    rule: ExpectedRule
    expected: float | None = None
    happened: float | None = None
    gap: Interval | None = None
    in_force: bool = False


@dataclass(frozen=True, slots=True)
class RuleBars:
    """The three bars and their words.

    Attributes:
        about: what they count. told: what they say, or why there is nothing to see. words: all of it in full.
        remedy: what a button offers, "" without one.
    """

    bars: tuple[Bar, ...] = field(default_factory=lambda: tuple(Bar(rule) for rule in EXPECTED_RULES))
    about: str = EXPECTED_OF
    told: str = ""
    words: str = ""
    remedy: str = ""


def rule_bars(session: Session, settings: Settings) -> RuleBars:
    """What the newest answer says of the rules; before there is one, what will be seen here."""
    answer = session.answer
    comparison = None if answer is None else answer.tally.comparisons.newest
    if answer is None or comparison is None:
        return _nothing_yet(session, settings)
    options = answer.options
    bars = tuple(_bar(comparison, rule) for rule in EXPECTED_RULES)
    alike = likeness(comparison, options)
    remedy = ""
    if alike and helps_to_warm(comparison, options) and not session.replaying:
        remedy = f"Show at temperature {WARM:g}"
    words = f"{comparison_sentence(comparison)} {alike or difference_sentence(comparison)}"
    return RuleBars(bars, happened_words(comparison), alike or difference_sentence(comparison, intervals=False), words, remedy)


def _bar(comparison: RuleComparison, rule: ExpectedRule) -> Bar:
    in_force = rule == comparison.rule
    return Bar(
        rule,
        comparison.expected[rule],
        comparison.happened if in_force else None,
        comparison.differences.get(rule) if not comparison.too_few else None,
        in_force,
    )


def _nothing_yet(session: Session, settings: Settings) -> RuleBars:
    answer = session.answer
    running = session.running is not None
    remedy = ""
    if answer is not None and answer.tally.rounds and not running:
        told = "Nothing was judged in this answer: it has no drafter, or its analysis was off."
    elif answer is not None and answer.tally.rounds and answer.rounds[-1].drafter != NO_DRAFTER:
        told = f"Nothing has been proposed under {RULE_TITLES[answer.rounds[-1].rule]} yet."
    elif settings.drafter == NO_DRAFTER:
        told = "Choose a drafter to compare the rules: without one, nothing is proposed."
    else:
        told = "Each answer shows here, while it runs, what the rules accept of the same proposals."
        if settings.temperature <= COLD and answer is None:
            remedy = f"Set temperature to {WARM:g}"
    return RuleBars(told=told, words=f"{EXPECTED_OF}. {told}", remedy=remedy)


class RuleBarsView(QWidget):
    """Paints the bars on one scale from 0 to 1; as tall with nothing to show as with everything."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("ruleBars")
        self.setAccessibleName(EXPECTED_OF)
        self.bars = RuleBars().bars
        self._theme, self._scale = themes.DARK, 1.0
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_bars(self, bars: tuple[Bar, ...]) -> None:
        """Repaints if anything has changed."""
        if bars != self.bars:
            self.bars = bars
            self.update()

    def set_look(self, theme: Theme, scale: float) -> None:
        """Takes the theme's colours, and the size that the text scale asks for."""
        self._theme, self._scale = theme, scale
        font = themes.body_font(scale)
        font.setPixelSize(round(12 * scale))
        self.setFont(font)
        self.setFixedSize(self.sizeHint())
        self.update()

    @property
    def _row(self) -> float:
        return round(QFontMetricsF(self.font()).height() + 3 * self._scale)

    @property
    def track(self) -> QRectF:
        """Where the bars lie, from 0 at the left end to 1 at the right, in pixels."""
        metrics = QFontMetricsF(_bold(self.font()))
        left = max(metrics.horizontalAdvance(RULE_TITLES[rule]) for rule in EXPECTED_RULES) + 9 * self._scale
        return QRectF(left, 0, round(170 * self._scale), self._row * len(EXPECTED_RULES))

    def sizeHint(self) -> QSize:
        value = QFontMetricsF(_bold(self.font())).horizontalAdvance("1.00")
        return QSize(round(self.track.right() + 8 * self._scale + value + 2), round(self._row * len(EXPECTED_RULES)) + 1)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        track = self.track
        for at in (0.0, 0.5, 1.0):
            painter.fillRect(QRectF(round(track.left() + at * track.width()), 0, 1, track.height()), QColor(self._theme.line))
        for index, bar in enumerate(self.bars):
            self._paint_bar(painter, bar, QRectF(track.left(), index * self._row, track.width(), self._row))
        painter.end()

    def _paint_bar(self, painter: QPainter, bar: Bar, room: QRectF) -> None:
        theme, scale = self._theme, self._scale
        font = _bold(self.font()) if bar.in_force else self.font()
        painter.setFont(font)
        painter.setPen(QColor(theme.text if bar.in_force else theme.dim))
        left = QRectF(0, room.top(), room.left() - 9 * scale, room.height())
        painter.drawText(left, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, RULE_TITLES[bar.rule])
        right = QRectF(room.right() + 8 * scale, room.top(), self.width() - room.right(), room.height())
        painter.drawText(right, Qt.AlignmentFlag.AlignVCenter, "–" if bar.expected is None else share(bar.expected))
        if bar.expected is None:
            return
        thick = 2 * round((4 if bar.in_force else 3) * scale)
        middle = round(room.center().y())
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.rule(bar.rule)))
        painter.drawRect(QRectF(round(room.left()), middle - thick / 2, max(1.0, bar.expected * room.width()), thick))
        if bar.gap is not None and bar.gap.low is not None and bar.gap.high is not None:
            base = bar.expected - bar.gap.value
            self._paint_whisker(painter, room, base + bar.gap.low, base + bar.gap.high)
        if bar.happened is not None:
            self._paint_happened(painter, room, bar.happened)

    def _paint_whisker(self, painter: QPainter, room: QRectF, low: float, high: float) -> None:
        first, last = (room.left() + min(1.0, max(0.0, end)) * room.width() for end in (low, high))
        middle, cap = room.center().y(), 2.5 * self._scale
        painter.setPen(QPen(QColor(self._theme.text), 1))
        painter.drawLine(QPointF(first, middle), QPointF(last, middle))
        for x in (first, last):
            painter.drawLine(QPointF(x, middle - cap), QPointF(x, middle + cap))

    def _paint_happened(self, painter: QPainter, room: QRectF, happened: float) -> None:
        x, middle = room.left() + happened * room.width(), room.center().y()
        high, half = room.height() / 2 - self._scale, 3.5 * self._scale
        for colour, width in ((self._theme.panel, 4), (self._theme.text, 2)):  # stands out against the bar
            painter.setPen(QPen(QColor(colour), width * self._scale, Qt.PenStyle.SolidLine, Qt.PenCapStyle.FlatCap))
            painter.drawLine(QPointF(x, middle - high), QPointF(x, middle + high))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self._theme.text))
        top = middle - high
        painter.drawPolygon(QPolygonF([QPointF(x - half, top), QPointF(x + half, top), QPointF(x, top + 1.2 * half)]))


def _bold(font: QFont) -> QFont:
    bold = QFont(font)
    bold.setWeight(QFont.Weight.DemiBold)
    return bold


class RuleStrip(QWidget):
    """The bars, and beside them (below them in a narrow window) what the rule does and what the bars say.

    Signals:
        remedy_wanted: the button was pressed that offers to show the rules apart.
    """

    remedy_wanted = Signal()

    def __init__(self, note: QWidget) -> None:
        """`note`: what the rule in force does, a widget that the caller fills."""
        super().__init__()
        self._note = note
        self.bars = RuleBarsView()
        self.about, self.told = ElidedLabel(), ElidedLabel()
        for label, name in ((self.about, "barsAbout"), (self.told, "barsTold")):
            label.setObjectName(name)
            label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.about.setAccessibleName("What the bars count")
        self.told.setAccessibleName("What the bars say")
        self.remedy = QPushButton()
        self.remedy.setObjectName("barsRemedy")
        self.remedy.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.remedy.clicked.connect(self.remedy_wanted)
        self.remedy.hide()
        last = QHBoxLayout()
        last.setSpacing(10)
        last.addWidget(self.told, 1)
        last.addWidget(self.remedy)
        column = QVBoxLayout()
        column.setSpacing(2)
        column.addWidget(note)
        column.addWidget(self.about)
        column.addLayout(last)
        column.addStretch(1)
        self.row = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self.row.setContentsMargins(0, 2, 0, 0)
        self.row.addWidget(self.bars, 0, Qt.AlignmentFlag.AlignTop)
        self.row.addLayout(column, 1)

    def show_rules(self, shown: RuleBars) -> None:
        """Brings bars and words to a state."""
        self.bars.show_bars(shown.bars)
        if self.about.text() != shown.about:
            self.about.setText(shown.about)
        if self.told.text() != shown.told:
            self.told.setText(shown.told)
        if self.bars.accessibleDescription() != shown.words:
            self.bars.setAccessibleDescription(shown.words)
            tip = f"<p>{shown.words}</p><p>{MARKS}</p>"
            for part in (self.bars, self.about, self.told):
                part.setToolTip(tip)
        if self.remedy.text() != shown.remedy:
            self.remedy.setText(shown.remedy)
            self.remedy.setAccessibleName(shown.remedy)
        self.remedy.setVisible(bool(shown.remedy))

    def set_look(self, theme: Theme, scale: float) -> None:
        """Sizes bars and words to the text scale."""
        self.bars.set_look(theme, scale)
        self.row.setSpacing(round(18 * scale))
        font = themes.body_font(scale)
        font.setPixelSize(round(12 * scale))
        height = round(QFontMetricsF(font).height())
        self.about.setFixedHeight(height)
        self.told.setFixedHeight(height + round(6 * scale))  # as tall as the button that may stand beside it
        self.remedy.setFixedHeight(height + round(6 * scale))

    def beside_bars(self, width: int) -> int:
        """What a strip of this width leaves for its words."""
        beside = self.row.direction() == QBoxLayout.Direction.LeftToRight
        return width - self.bars.width() - self.row.spacing() if beside else width

    def set_room(self, width: int, height: int, scale: float, low: int) -> None:
        """In a narrow window the words stand below the bars; what has no place in a low one is in the tooltip."""
        beside = width >= 560 * scale
        self.row.setDirection(QBoxLayout.Direction.LeftToRight if beside else QBoxLayout.Direction.TopToBottom)
        is_low = height < low * scale
        self._note.setVisible(not is_low)
        self.about.setVisible(beside)
        self.told.setVisible(beside or not is_low)
