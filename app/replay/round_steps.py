"""Slow motion: a strip that shows one round phase by phase, with its proposals and a sentence on what happens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QKeyEvent, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QFrame, QSizePolicy, QWidget

from app.look import theme as themes
from app.look.command import native_keys
from app.look.marks import draw_rounded, draw_text, faded, smooth_painter
from app.look.theme import DARK, Theme
from app.look.widgets import icon_button, in_column, in_row, named, push_button, text_label, tint
from app.replay.phases import PHASE_TITLES, PHASES, Phase, caption
from engine.lens.lane_chips import Chip, chips_of
from engine.lens.token_reasons import was_copied
from engine.types import Round
from engine.values.wording import amount

PAD, GAP, TREE_GAP = 7.0, 8.0, 22.0
"""Pixels at text scale 1: beside the text of a chip, between two chips, and between two columns of a tree."""
MOST_ROWS = 6
"""Rows of a tree that are shown; the choices below them are counted."""
LEAST_CHIP = 30.0
"""Minimum width for the text of a chip in a crowded tree, in pixels at text scale 1."""


@dataclass(frozen=True, slots=True)
class PlacedChip:
    """A chip with its index in the round, its area, and its text as far as there is room."""

    slot: int
    chip: Chip
    area: QRectF
    text: str


class RoundPicture(QWidget):
    """Paints the names of the phases, the current one highlighted, and below them the tokens of the round as chips."""

    def __init__(self) -> None:
        super().__init__()
        named(self, "roundPicture", "Round in slow motion")
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.round: Round | None = None
        self.phase: Phase = "draft"
        self.theme: Theme = DARK
        self.scale = 1.0
        self.placed: list[PlacedChip] = []
        self._left_out = 0

    def show_round(self, round_: Round | None, phase: Phase) -> None:
        """Shows a phase of a round; None shows no tokens."""
        self.round, self.phase = round_, phase
        self._place()
        verdicts = phase in ("judge", "commit")
        words = ", ".join(f"{each.text} {each.chip.kind}" if verdicts else each.text for each in self._shown())
        self.setAccessibleDescription(words)
        self.update()

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies theme and text scale."""
        self.theme, self.scale = theme, scale
        self.setMinimumHeight(0)
        self._place()
        self.update()

    def _shown(self) -> list[PlacedChip]:
        """Returns the chips of this phase: the target's own token comes with the last one."""
        return [each for each in self.placed if each.chip.proposal is not None or self.phase == "commit"]

    @property
    def _row(self) -> float:
        return 44 * self.scale

    @property
    def _head(self) -> float:
        return 30 * self.scale

    def _place(self) -> None:
        """Places the chips: a chain like text, a tree in columns. The picture never shrinks, so that the text above stays."""
        self.placed, self._left_out = [], 0
        chips = [] if self.round is None else chips_of(self.round)
        metrics, small = (
            QFontMetricsF(themes.mono_font(self.scale)),
            QFontMetricsF(themes.figure_font(self.scale, 11)),
        )
        least, pad, width = small.horizontalAdvance("p 100%  "), PAD * self.scale, max(1.0, float(self.width()))
        wide = [max(least, metrics.horizontalAdvance(chip.text) + 2 * pad) for chip in chips]
        if self.round is not None and self.round.is_tree:
            rows = self._place_tree(chips, wide, metrics)
        else:
            rows = self._place_chain(chips, [min(each, width) for each in wide], metrics)
        self.setMinimumHeight(max(self.minimumHeight(), round(self._head + rows * self._row)))

    def _place_chain(self, chips: Sequence[Chip], wide: Sequence[float], metrics: QFontMetricsF) -> int:
        x, row = 0.0, 0
        for slot, (chip, width) in enumerate(zip(chips, wide, strict=True)):
            if x and x + width > self.width():
                x, row = 0.0, row + 1
            self._add(slot, chip, x, row, width, metrics)
            x += width + GAP * self.scale
        return row + 1

    def _place_tree(self, chips: Sequence[Chip], wide: Sequence[float], metrics: QFontMetricsF) -> int:
        columns = 1 + max(chip.column for chip in chips)
        gap = TREE_GAP * self.scale
        widths = [
            max((width for chip, width in zip(chips, wide, strict=True) if chip.column == column), default=0.0)
            for column in range(columns)
        ]
        if sum(widths) + gap * (columns - 1) > self.width():
            most = (self.width() - gap * (columns - 1)) / columns
            widths = [min(width, max(LEAST_CHIP * self.scale, most)) for width in widths]
        lefts = [sum(widths[:column]) + gap * column for column in range(columns)]
        for slot, (chip, width) in enumerate(zip(chips, wide, strict=True)):
            if chip.row < MOST_ROWS:
                self._add(slot, chip, lefts[chip.column], chip.row, min(width, widths[chip.column]), metrics)
            else:
                self._left_out += 1
        return min(MOST_ROWS, 1 + max(chip.row for chip in chips))

    def _add(self, slot: int, chip: Chip, x: float, row: int, width: float, metrics: QFontMetricsF) -> None:
        area = QRectF(x, self._head + row * self._row, width, 23 * self.scale)
        text = metrics.elidedText(chip.text, Qt.TextElideMode.ElideRight, width - 2 * PAD * self.scale + 1)
        self.placed.append(PlacedChip(slot, chip, area, text))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.oldSize().width() != event.size().width():
            self._place()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = smooth_painter(self)
        self._paint_phases(painter)
        shown = self._shown()
        if self.round is not None and self.round.is_tree:
            areas = {each.slot: each.area for each in shown}
            for each in shown:
                if each.chip.parent in areas:
                    self._connect(painter, areas[each.chip.parent], each.area)
        for each in shown:
            self._paint_chip(painter, each)
        if self._left_out:
            painter.setFont(themes.body_font(self.scale, 12))
            words = f"and {amount(self._left_out, 'more choice')}"
            left = self.width() - QFontMetricsF(painter.font()).horizontalAdvance(words)
            draw_text(painter, self.theme.dim, QPointF(left, self._head + MOST_ROWS * self._row - 6), words)
        painter.end()

    def _paint_phases(self, painter: QPainter) -> None:
        x, theme = 0.0, self.theme
        for number, phase in enumerate(PHASES, 1):
            current = phase == self.phase and self.round is not None
            font = themes.body_font(self.scale, 12.5)
            font.setWeight(QFont.Weight.DemiBold if current else QFont.Weight.Normal)
            painter.setFont(font)
            metrics = QFontMetricsF(font)
            words = f"{number} {PHASE_TITLES[phase]}"
            width = metrics.horizontalAdvance(words)
            draw_text(painter, theme.text if current else theme.faint, QPointF(x, metrics.ascent() + 1), words)
            if current:
                painter.fillRect(QRectF(x, metrics.height() + 3, width, 2), QColor(theme.accent))
            x += width + 18 * self.scale

    def _connect(self, painter: QPainter, before: QRectF, after: QRectF) -> None:
        """Draws the line from a choice of a tree to one that follows it."""
        painter.setPen(QPen(QColor(self.theme.faint), 1))
        middle = after.left() - TREE_GAP * self.scale / 2
        start, end = QPointF(before.right(), before.center().y()), QPointF(after.left(), after.center().y())
        painter.drawPolyline([start, QPointF(middle, start.y()), QPointF(middle, end.y()), end])

    def _paint_chip(self, painter: QPainter, placed: PlacedChip) -> None:
        theme, area, chip = self.theme, placed.area, placed.chip
        judged = self.phase in ("judge", "commit")
        kind = chip.kind if judged else "waiting"
        dropped = self.phase == "commit" and kind in ("rejected", "unjudged")
        painter.setOpacity(0.45 if dropped else 1.0)
        edge = QPen(QColor(theme.accent if self.phase == "verify" else theme.line), 1)
        fill, colour = None, theme.text
        match kind:
            case "accepted":
                fill, edge = QColor(theme.accepted_tint), QPen(QColor(theme.accepted), 1)
            case "rejected":
                edge, colour = QPen(QColor(theme.rejected), 1), theme.rejected
            case "unjudged":
                edge, colour = QPen(QColor(theme.faint), 1, Qt.PenStyle.DashLine), theme.dim
            case "waiting":
                fill, colour = QColor(theme.raised), theme.dim
            case _:
                edge = QPen(faded(theme.text, 0))
        draw_rounded(painter, area.adjusted(0.5, 0.5, -0.5, -0.5), 4, fill, edge)
        painter.setFont(themes.mono_font(self.scale))
        metrics = QFontMetricsF(painter.font())
        left = area.center().x() - metrics.horizontalAdvance(placed.text) / 2
        baseline = area.center().y() + (metrics.ascent() - metrics.descent()) / 2
        draw_text(painter, colour, QPointF(left, baseline), placed.text)
        right = left + metrics.horizontalAdvance(placed.text)
        if kind == "rejected":
            y = baseline - metrics.xHeight() / 2
            painter.drawLine(QPointF(left - 1, y), QPointF(right + 1, y))
        elif kind in ("correction", "bonus"):
            line = Qt.PenStyle.SolidLine if kind == "correction" else Qt.PenStyle.DotLine
            painter.setPen(QPen(QColor(theme.correction if kind == "correction" else theme.bonus), 1.4, line))
            painter.drawLine(QPointF(left, baseline + 4), QPointF(right, baseline + 4))
        painter.setFont(themes.figure_font(self.scale, 11))
        metrics = QFontMetricsF(painter.font())
        words = self._figures(chip)
        at = QPointF(area.center().x() - metrics.horizontalAdvance(words) / 2, area.bottom() + metrics.ascent() + 1)
        draw_text(painter, theme.dim, at, words)
        painter.setOpacity(1.0)

    def _figures(self, chip: Chip) -> str:
        """Returns q of a proposal while it is drafted, or that it was copied, then p."""
        if self.round is None or chip.proposal is None:
            return ""
        proposal = self.round.proposals[chip.proposal]
        if self.phase == "draft" and was_copied(self.round, proposal):
            return "copied"
        name, value = ("q", proposal.q) if self.phase == "draft" else ("p", proposal.p)
        return "" if value is None else f"{name} {value:.0%}"


class RoundSteps(QWidget):
    """The strip of slow motion. `show_phase` updates it. It handles comma and full stop while one of its buttons has the focus.

    Signals:
        stepped: (phases) forward or back.
        left: back to full speed.
    """

    stepped = Signal(int)
    left = Signal()

    def __init__(self) -> None:
        super().__init__()
        named(self, "roundSteps", "Slow motion")
        self.picture = RoundPicture()
        self.caption = text_label("roundCaption")
        self.forward = push_button("Next phase", "nextPhase", lambda: self.stepped.emit(1))
        self.back = icon_button("step-back", "Previous phase (,)", lambda: self.stepped.emit(-1))
        named(self.forward, tip=f"Next phase ({' or '.join(native_keys(keys) for keys in ('F9', '.'))})")
        self.leave = push_button("Full speed", "leaveSlowMotion", self.left.emit)
        named(self.leave, tip=f"Show the rest at once ({native_keys('F8')})")
        frame = named(QFrame(), "composerFrame")
        self.buttons = QWidget()
        in_row(self.back, self.forward, self.leave, spacing=8, parent=self.buttons)
        bottom = in_row((self.caption, 1), self.buttons, spacing=12)
        in_column(self.picture, bottom, spacing=4, margins=(14, 10, 12, 10), parent=frame)
        self.margins = in_row(frame, margins=(44, 6, 44, 0), parent=self)
        self.hide()

    def show_phase(self, round_: Round | None, phase: Phase, note: str = "") -> None:
        """Shows a phase of a round with its sentence, or a note instead if there is no round."""
        self.picture.show_round(round_, phase)
        words = note if round_ is None else caption(round_, phase)
        self.caption.setText(words)
        self.caption.setAccessibleName(words if round_ is None else f"{PHASE_TITLES[phase]}: {words}")
        self.setVisible(True)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies theme and text scale."""
        self.picture.set_look(theme, scale)
        tint(self.back, theme, scale)

    def set_column(self, left: int, width: int, total_width: int) -> None:
        """Aligns the frame with the transcript's column."""
        self.margins.setContentsMargins(max(10, left - 14), 6, max(10, total_width - left - width - 14), 0)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Steps with comma and full stop."""
        by = {Qt.Key.Key_Comma: -1, Qt.Key.Key_Period: 1}.get(Qt.Key(event.key()))
        if by is None:
            super().keyPressEvent(event)
        else:
            self.stepped.emit(by)
