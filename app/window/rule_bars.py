"""Bars in the header that compare how much each rule is expected to accept at the same positions, with their explanation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, Qt, Signal, Slot
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QBoxLayout, QSizePolicy, QWidget

from app.look import theme as themes
from app.look.marks import smooth_painter
from app.look.theme import Theme
from app.look.widgets import ElidedLabel, in_row, named, push_button, stretch
from app.look.wording import RULE_TITLES, drafter_title, why_rules_coincide
from app.panel.definitions import Definition
from app.panel.explainer import DefinitionPopover
from app.session.session import Session
from app.session.settings import Settings
from engine.lens.rule_comparison import (
    COLD,
    WARM,
    Interval,
    RuleComparison,
    comparison_sentence,
    difference_sentence,
    observed_words,
    share,
    similarity_reason,
    warmer_would_help,
)
from engine.types import EXPECTED_RULES, Gamma, Rule
from engine.values.drafter_kinds import NO_DRAFTER
from engine.values.wording import listed

MARKS = (
    "Bars: the share of judged proposals that each rule is expected to accept, in closed form, all at the same positions. The "
    "mark with the triangle: what happened under the rule in force. Block judges jointly and has no such expectation, so it has "
    "only this mark, through all bars. Thin lines with ends: 95% intervals of the difference from the rule in force, with rounds "
    "as independent. Copied proposals are counted apart: every rule accepts them alike."
)
SHOWN_RULES: tuple[Rule, ...] = (*EXPECTED_RULES, "block")
"""The rules with a bar, in order, then Block, which has a mark only."""
REGENERATE = "Regenerate"
REGENERATE_TIP = (
    "Answers the prompt again with the settings above and the same seed. The answer that is there stays beside the new one."
)
EXPECTED_OF = "Share of proposals that each rule is expected to accept"


@dataclass(frozen=True, slots=True)
class RuleBar:
    """The bar of one rule; shares are from 0 to 1.

    Attributes:
        expected: the expected share; None before there is data, and under block, which has none.
        observed: the accepted share, for the rule in use; None for the others.
        gap: the difference from the rule in use, with its interval; None for that rule itself.
        in_force: whether this is the rule in use: that of the shown answer.
    """

    rule: Rule
    expected: float | None = None
    observed: float | None = None
    gap: Interval | None = None
    in_force: bool = False


@dataclass(frozen=True, slots=True)
class RuleBars:
    """The bars and their texts.

    Attributes:
        about: what is counted. finding: the result, or why there is no data. full_text: the full text.
        remedy: label of a button, "" for none; `REGENERATE` if changed settings apply only to the next answer.
    """

    bars: tuple[RuleBar, ...] = field(default_factory=lambda: tuple(RuleBar(rule) for rule in SHOWN_RULES))
    about: str = EXPECTED_OF
    finding: str = ""
    full_text: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Conditions:
    """The settings of the header that an answer was given under."""

    rule: Rule
    drafter: str
    gamma: Gamma
    temperature: float


def conditions(session: Session, settings: Settings) -> Conditions:
    """Returns the conditions that the bars describe: those of the newest answer, or of the settings before there is one.

    A running answer follows changes of rule, drafter and gamma, but keeps its temperature. A finished one keeps them all.
    """
    answer = session.answer
    temperature = settings.temperature if answer is None else answer.options.temperature
    if answer is None or session.replaying or not (answer.running or answer.rounds):
        return _next_conditions(settings)
    if answer.running:
        return replace(_next_conditions(settings), temperature=temperature)
    last = answer.changes[-1] if answer.changes else None
    if last is None:
        return Conditions(answer.options.rule, answer.drafter, answer.options.gamma, temperature)
    return Conditions(last.rule, last.drafter, last.gamma, temperature)


def _next_conditions(settings: Settings) -> Conditions:
    return Conditions(settings.rule, settings.drafter, settings.gamma, settings.temperature)


def pending_changes(session: Session, settings: Settings) -> str:
    """Returns which settings of the header apply only to the next answer, since the newest one used others; "" for none."""
    current, upcoming = conditions(session, settings), _next_conditions(settings)
    if session.running is not None or session.read_only or current == upcoming:
        return ""
    named = {
        "rule": f"rule {RULE_TITLES[settings.rule]}",
        "drafter": f"drafter {drafter_title(settings.drafter)}",
        "gamma": f"gamma {settings.gamma}",
        "temperature": f"temperature {settings.temperature:g}",
    }
    changed = [words for name, words in named.items() if getattr(current, name) != getattr(upcoming, name)]
    words = f"{listed(changed)} {'applies' if len(changed) == 1 else 'apply'} to the next answer."
    return f"{words[0].upper()}{words[1:]}"


def rule_bars(session: Session, settings: Settings) -> RuleBars:
    """Returns what the newest answer shows about the rules; before there is one, what will be shown here."""
    shown, pending = _rule_bars(session, settings), pending_changes(session, settings)
    if not pending:
        return shown
    full_text = f"{pending} {shown.full_text}"
    return replace(shown, finding=pending, full_text=full_text, remedy=REGENERATE if session.newest_prompt else "")


def _rule_bars(session: Session, settings: Settings) -> RuleBars:
    answer = session.answer
    comparison = None if answer is None else answer.tally.comparisons.newest
    if answer is None or comparison is None:
        return _bars_without_data(session, settings)
    options = answer.options
    bars = tuple(_bar(comparison, rule) for rule in SHOWN_RULES)
    similarity = similarity_reason(comparison, options)
    remedy = ""
    if similarity and warmer_would_help(comparison, options) and not (session.replaying or session.read_only):
        remedy = f"Show at temperature {WARM:g}"
    full_text = f"{comparison_sentence(comparison)} {similarity or difference_sentence(comparison)}"
    finding = similarity or difference_sentence(comparison, intervals=False)
    return RuleBars(bars, observed_words(comparison), finding, full_text, remedy)


def _bar(comparison: RuleComparison, rule: Rule) -> RuleBar:
    in_force = rule == comparison.rule
    if rule == "block":
        return RuleBar(rule, observed=comparison.accepted if in_force else None, in_force=in_force)
    return RuleBar(
        rule,
        comparison.expected[rule],
        comparison.observed if in_force else None,
        comparison.differences.get(rule) if not comparison.has_too_few_rounds else None,
        in_force,
    )


def _bars_without_data(session: Session, settings: Settings) -> RuleBars:
    answer = session.answer
    running = session.running is not None
    remedy = ""
    if answer is not None and answer.tally.rounds and not running:
        finding = "Nothing was judged in this answer: it has no drafter, or its analysis was off."
    elif answer is not None and answer.tally.rounds and answer.rounds[-1].drafter != NO_DRAFTER:
        finding = f"Nothing has been proposed under {RULE_TITLES[answer.rounds[-1].rule]} yet."
    elif settings.drafter == NO_DRAFTER:
        finding = "Choose a drafter to compare the rules: without one, nothing is proposed."
    elif not session.has_distribution(settings.drafter):
        finding = why_rules_coincide(1.0, settings.drafter, has_distribution=False)
    else:
        finding = "While an answer runs, these bars compare how much each rule would accept."
        if settings.temperature <= COLD and answer is None:
            share_alike = "the same" if settings.temperature == 0 else "nearly the same"
            finding = f"At temperature {settings.temperature:g} the rules accept {share_alike}; at {WARM:g} they differ."
            remedy = f"Set temperature to {WARM:g}"
    return RuleBars(finding=finding, full_text=f"{EXPECTED_OF}. {finding}", remedy=remedy)


class RuleBarsView(QWidget):
    """Paints the bars on a scale from 0 to 100%: one below the other or, if `is_flat`, side by side in one row. Its size does not
    depend on the data.

    Block has no expectation, so it has no bar: where it is in force, a line through all bars shows what happened.

    Attributes:
        is_flat: whether the bars are in one row. is_tight: whether that row must fit the narrowest windows.
    """

    def __init__(self) -> None:
        super().__init__()
        named(self, "ruleBars", EXPECTED_OF)
        self.bars = RuleBars().bars
        self.is_flat = self.is_tight = False
        self._theme, self._scale = themes.DARK, 1.0
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self._measure()

    def show_bars(self, bars: tuple[RuleBar, ...]) -> None:
        """Shows the bars and repaints if they have changed."""
        if bars != self.bars:
            self.bars = bars
            self.update()

    def set_flat(self, flat: bool, tight: bool) -> None:
        """Arranges the bars in one row, or one below the other."""
        if (flat, tight) != (self.is_flat, self.is_tight):
            self.is_flat, self.is_tight = flat, tight
            self.setFixedSize(self.sizeHint())
            self.update()

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies the theme and resizes to the text scale."""
        self._theme, self._scale = theme, scale
        self._measure()
        self.setFixedSize(self.sizeHint())
        self.update()

    def _measure(self) -> None:
        self._usual, self._bold, self._small = (themes.body_font(self._scale, size) for size in (11, 11, 9))
        self._bold.setWeight(QFont.Weight.DemiBold)
        metrics = QFontMetricsF(self._bold)
        self._line = QFontMetricsF(self._usual).height()
        self._names = [metrics.horizontalAdvance(RULE_TITLES[rule]) for rule in EXPECTED_RULES]
        self._digits = metrics.horizontalAdvance("100%")

    @property
    def scale(self) -> float:
        """The text scale."""
        return self._scale

    @property
    def _row(self) -> float:
        return round(self._line + 3 * self._scale) if self.is_flat else round(self._line - self._scale)

    def track(self, index: int) -> QRectF:
        """Returns the rectangle in pixels of the bar at an index; its left edge is 0 and its right edge 1."""
        gap = 9 * self._scale
        if not self.is_flat:
            return QRectF(max(self._names) + gap, index * self._row, round(200 * self._scale), self._row)
        gap, width, spacing = (round(each * self._scale) for each in ((5, 16, 6) if self.is_tight else (8, 44, 16)))
        left = sum(self._names[: index + 1]) + (index + 1) * gap + index * (width + self._value + spacing)
        return QRectF(left, 0, width, self._row)

    @property
    def _before_value(self) -> float:
        """Gap between a bar and its value in pixels."""
        return (3 if self.is_flat and self.is_tight else 8) * self._scale

    @property
    def _value(self) -> float:
        """Width of a value in pixels, including the gap before it."""
        return self._before_value + self._digits + 2

    def sizeHint(self) -> QSize:
        last = self.track(len(EXPECTED_RULES) - 1)
        scale_height = 0 if self.is_flat else QFontMetricsF(self._small).height()
        return QSize(round(last.right() + self._value), round(last.bottom() + scale_height))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = smooth_painter(self)
        tracks = [self.track(index) for index in range(len(EXPECTED_RULES))]
        *bars, block = self.bars
        for bar, track in zip(bars, tracks, strict=True):
            for at in (0.0, 1.0) if self.is_flat else (0.0, 0.5, 1.0):
                x = round(track.left() + at * track.width())
                painter.fillRect(QRectF(x, track.top(), 1, track.height()), QColor(self._theme.line))
            self._paint_bar(painter, bar, track)
        if block.observed is not None:
            for track in tracks if self.is_flat else [tracks[0].united(tracks[-1])]:
                self._paint_happened(painter, track, block.observed)
        if not self.is_flat:
            self._paint_scale(painter, tracks[-1], block.observed)
        painter.end()

    def _paint_scale(self, painter: QPainter, track: QRectF, block: float | None) -> None:
        """Paints the numbers of the scale below the bars, and what happened under Block where its line ends."""
        theme = self._theme
        labels = [(at, share(at), self._small, theme.faint) for at in (0.0, 0.5, 1.0)]
        if block is not None:
            bold = QFont(self._small)
            bold.setWeight(QFont.Weight.DemiBold)
            labels.insert(0, (block, f"{RULE_TITLES['block']} {share(block)}", bold, theme.text))
        taken: list[tuple[float, float]] = []
        for at, words, font, colour in labels:
            width = QFontMetricsF(font).horizontalAdvance(words)
            left = min(track.left() + at * track.width() - width / 2, self.width() - width)
            if all(left + width + 4 <= start or left >= end + 4 for start, end in taken):
                taken.append((left, left + width))
                painter.setFont(font)
                painter.setPen(QColor(colour))
                area = QRectF(left, track.bottom(), width + 1, self.height() - track.bottom())
                painter.drawText(area, Qt.AlignmentFlag.AlignCenter, words)

    def _paint_bar(self, painter: QPainter, bar: RuleBar, track: QRectF) -> None:
        theme, scale = self._theme, self._scale
        painter.setFont(self._bold if bar.in_force else self._usual)
        painter.setPen(QColor(theme.text if bar.in_force else theme.dim))
        left = QRectF(0, track.top(), track.left() - (5 if self.is_flat and self.is_tight else 9) * scale, track.height())
        painter.drawText(left, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, RULE_TITLES[bar.rule])
        right = QRectF(track.right() + self._before_value, track.top(), self._value, track.height())
        figure = bar.observed if bar.expected is None else bar.expected
        painter.drawText(right, Qt.AlignmentFlag.AlignVCenter, "–" if figure is None else share(figure))
        if bar.expected is not None:
            self._paint_expected(painter, bar, bar.expected, track)
        if bar.observed is not None:
            self._paint_happened(painter, track, bar.observed)

    def _paint_expected(self, painter: QPainter, bar: RuleBar, expected: float, track: QRectF) -> None:
        theme, scale = self._theme, self._scale
        thickness = 2 * round((4 if bar.in_force else 3) * scale)
        middle = round(track.center().y())
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(theme.rule(bar.rule)))
        painter.drawRect(QRectF(round(track.left()), middle - thickness / 2, max(1.0, expected * track.width()), thickness))
        if bar.gap is not None and bar.gap.low is not None and bar.gap.high is not None:
            base = expected - bar.gap.value
            self._paint_whisker(painter, track, base + bar.gap.low, base + bar.gap.high)

    def _paint_whisker(self, painter: QPainter, track: QRectF, low: float, high: float) -> None:
        first, last = (track.left() + min(1.0, max(0.0, end)) * track.width() for end in (low, high))
        middle, cap = track.center().y(), 2.5 * self._scale
        painter.setPen(QPen(QColor(self._theme.text), 1))
        painter.drawLine(QPointF(first, middle), QPointF(last, middle))
        for x in (first, last):
            painter.drawLine(QPointF(x, middle - cap), QPointF(x, middle + cap))

    def _paint_happened(self, painter: QPainter, track: QRectF, happened: float) -> None:
        x, middle = track.left() + happened * track.width(), track.center().y()
        half_height, half_width = track.height() / 2 - self._scale, 3.5 * self._scale
        for colour, width in ((self._theme.panel, 4), (self._theme.text, 2)):  # the outline separates it from the bar
            painter.setPen(QPen(QColor(colour), width * self._scale, Qt.PenStyle.SolidLine, Qt.PenCapStyle.FlatCap))
            painter.drawLine(QPointF(x, middle - half_height), QPointF(x, middle + half_height))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(self._theme.text))
        top = middle - half_height
        painter.drawPolygon(
            QPolygonF([QPointF(x - half_width, top), QPointF(x + half_width, top), QPointF(x, top + 1.2 * half_width)])
        )


class RuleStrip(QWidget):
    """The bars, one sentence beside them (below in a narrow window), and a button that explains the rest.

    Attributes:
        shown: what the bars and the sentence show.

    Signals:
        remedy_requested: the button was pressed that offers to show the rules apart, or to regenerate.
    """

    remedy_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.shown, self._note = RuleBars(), ""
        self._has_text_space = True
        self.bars = RuleBarsView()
        self.finding = named(ElidedLabel(), "barsTold", "What the bars say")
        self.finding.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.remedy = push_button("", "barsRemedy", self.remedy_requested)
        self.remedy.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.remedy.hide()
        self.help = named(push_button("?", "barsHelp", self._explain), label="Explain the rule and the bars", tip="What is this?")
        self.help.setCursor(Qt.CursorShape.PointingHandCursor)
        self.popover = DefinitionPopover(self)
        self.row = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self.row.setContentsMargins(0, 0, 0, 0)
        self.row.addLayout(in_row(self.bars, self.help, stretch(0), spacing=14))
        self.row.addLayout(in_row((self.finding, 1), self.remedy, spacing=10), 1)

    def show_rules(self, shown: RuleBars, note: str) -> None:
        """Updates bars and sentence; `note` explains the current rule."""
        self.shown, self._note = shown, note
        self.bars.show_bars(shown.bars)
        if self.finding.text() != shown.finding:
            self.finding.setText(shown.finding)
        if self.bars.accessibleDescription() != shown.full_text:
            self.bars.setAccessibleDescription(shown.full_text)
            for part in (self.bars, self.finding):
                part.setToolTip(f"<p>{shown.full_text}</p>")
        if self.remedy.text() != shown.remedy:
            self.remedy.setText(shown.remedy)
            self.remedy.setAccessibleName(shown.remedy)
            self.remedy.setToolTip(f"<p>{REGENERATE_TIP}</p>" if shown.remedy == REGENERATE else "")
        self.remedy.setVisible(self._has_text_space and bool(shown.remedy))

    @Slot()
    def _explain(self) -> None:
        """Opens the explanation of the rule and of the bars, with the full figures."""
        about = "" if self.shown.full_text.startswith(self.shown.about) else self.shown.about
        words = "\n\n".join(filter(None, (self._note, about, self.shown.full_text, MARKS)))
        self.popover.show_definition(
            Definition("The rules at the same positions", "", (), words), self.help.mapToGlobal(QPoint(0, self.help.height() + 4))
        )

    def set_look(self, theme: Theme, scale: float) -> None:
        """Sizes bars and texts to the text scale."""
        self.bars.set_look(theme, scale)
        self.popover.set_look(theme, scale)
        height = round(QFontMetricsF(themes.body_font(scale, 12)).height())
        self.finding.setFixedHeight(height + round(scale))  # as tall as the button beside it
        self.remedy.setFixedHeight(height + round(scale))
        self.help.setFixedSize(height, height)

    def set_room(self, flat: bool, tight: bool, beside: bool, below: bool) -> None:
        """Arranges bars and sentence.

        Args:
            flat: whether the bars take one row. tight: whether that row must fit the narrowest windows.
            beside: whether there is room for the sentence beside them; else it is below them, if `below`, or only behind "?".
        """
        self.bars.set_flat(flat, tight)
        directions = QBoxLayout.Direction
        self.row.setDirection(directions.LeftToRight if beside or not below else directions.TopToBottom)
        self.row.setSpacing(round((10 if beside or not below else 2) * self.bars.scale))
        slack = 0 if flat or not beside else round(6 * self.bars.scale)  # beside several bars, the button may be taller
        self.remedy.setFixedHeight(self.finding.height() + slack)
        self._has_text_space = beside or below
        self.finding.setVisible(self._has_text_space)
        self.remedy.setVisible(self._has_text_space and bool(self.remedy.text()))
