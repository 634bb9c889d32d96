"""Draws lanes, chips and the time axis. Pens and brushes are kept between repaints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QFontMetricsF, QPainter, QPen

from app.lanes.geometry import LaneScale, Phase, milliseconds, phases_of
from app.look import theme as themes
from app.look.marks import draw_bracket, faded
from app.look.theme import Theme
from engine.lens.lane_chips import Chip, chips_of, size_of
from engine.types import PHASES, Round
from engine.values.wording import amount

EDGE_MARGIN = 4.0
"""Pixels between words and the edge of the view, where the focus frame is drawn."""
MIN_ROUNDED_HEIGHT = 9.0
"""Chips lower than this are plain boxes."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One round and the position of its lane.

    Attributes:
        top: of the lane; `start`: x of the round's start; `left`, `right`: clipping bounds. In pixels.
        pause: milliseconds between this round and the next.
        highlighted: the slot pointed at; -1 for the lane as a whole, None if it is not pointed at.
        marked: the marked slot; None if there is none.
        rows: number of rows of chips.
        is_numbered: whether the round's number is written.
    """

    round: Round
    top: int
    start: float
    left: float
    right: float
    pause: float = 0.0
    highlighted: int | None = None
    marked: int | None = None
    pinned: bool = False
    rows: int = 1
    is_numbered: bool = True


class LanePainter:
    """Draws in one theme and at one text scale."""

    def __init__(self, theme: Theme, text_scale: float) -> None:
        self.theme, self.text_scale = theme, text_scale
        self.chip_font = themes.body_font(text_scale, 11)
        self.label_font = themes.mono_font(text_scale, 10.5)
        self.chip_metrics = QFontMetricsF(self.chip_font)
        self.label_metrics = QFontMetricsF(self.label_font)
        self.colours: dict[Phase, QColor] = {
            **{phase: QColor(theme.time(phase)) for phase in PHASES},
            "whole": QColor(theme.time_unsplit),
        }
        self._rejected_ground = faded(theme.rejected, 46)
        self._brushes: dict[str, QBrush] = {
            "accepted": QBrush(QColor(theme.accepted)),
            "rejected": QBrush(faded(theme.rejected, 150), Qt.BrushStyle.BDiagPattern),
            "plain": QBrush(QColor(theme.raised)),
        }
        self._pens = {
            "accepted": QPen(QColor(theme.accepted), 1),
            "rejected": QPen(QColor(theme.rejected), 1),
            "unjudged": QPen(QColor(theme.unjudged), 1, Qt.PenStyle.DashLine),
            "correction": QPen(QColor(theme.correction), 1),
            "bonus": QPen(QColor(theme.bonus), 1.4, Qt.PenStyle.DotLine),
            "plain": QPen(QColor(theme.line), 1),
        }
        self._texts: dict[str, QColor] = {"accepted": QColor(theme.on_accepted), "unjudged": QColor(theme.dim)}
        self._thin_pen = QPen(faded(theme.faint, 120), 1)
        self._path, self._not_reached = QPen(QColor(theme.accepted), 2), QPen(QColor(theme.accepted), 1.6)
        self._underline = QPen(QColor(theme.correction), 2.5)
        self._strike = QPen(QColor(theme.text), 1)
        self._faint, self._dim, self._text = QColor(theme.faint), QColor(theme.dim), QColor(theme.text)
        self._highlight, self._line, self._panel = QColor(theme.raised), QColor(theme.line), QColor(theme.panel)
        self._grid = faded(self._line, 90)
        self._frame = QPen(QColor(theme.text), 2)
        self._accent = QColor(theme.accent)

    def gutter_width(self, rounds: int) -> float:
        """Width of the column of round numbers."""
        return self.label_metrics.horizontalAdvance("#" + "8" * max(3, len(str(rounds)))) + 14 * self.text_scale

    def elided(self, text: str, width: float) -> str:
        """Returns `text` elided to a width in pixels; "" if not even a part of it fits."""
        if self.chip_metrics.horizontalAdvance(text) <= width:
            return text
        shown = self.chip_metrics.elidedText(text, Qt.TextElideMode.ElideRight, width)
        return "" if shown == "…" else shown

    # A lane

    def draw_lane(self, painter: QPainter, lane: Lane, scale: LaneScale) -> None:
        """Draws one lane with everything in it. The painter's clip must contain the lane."""
        lane_height = scale.height(lane.rows)
        if lane.highlighted is not None:
            painter.fillRect(QRectF(0, lane.top, lane.right, lane_height), self._highlight)
        if lane.pinned:
            painter.fillRect(QRectF(0, lane.top, 3, lane_height), self._accent)
        if lane.is_numbered:
            painter.setFont(self.label_font)
            painter.setPen(self._text if lane.highlighted is not None else self._faint)
            height = self.label_metrics.height()
            middle = scale.chip_top + scale.chip / 2 if scale.chip >= MIN_ROUNDED_HEIGHT else scale.row / 2
            number_area = QRectF(0, lane.top + middle - height / 2, lane.left - 8 * self.text_scale, height)
            painter.drawText(number_area, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, f"#{lane.round.index + 1}")
        painter.save()
        painter.setClipRect(
            QRectF(lane.left - 1, lane.top, lane.right - lane.left + 1, lane_height), Qt.ClipOperation.IntersectClip
        )
        self._draw_bar(painter, lane, scale)
        self._draw_chips(painter, lane, scale)
        painter.restore()

    def _draw_bar(self, painter: QPainter, lane: Lane, scale: LaneScale) -> None:
        top, height = lane.top + scale.bar_top + (lane.rows - 1) * scale.stack, scale.bar
        painter.setPen(Qt.PenStyle.NoPen)
        end = lane.start
        for phase, start, length in phases_of(lane.round):
            left, width = lane.start + start * scale.per_ms, length * scale.per_ms
            end = left + width
            part = QRectF(left, top, max(1.0, width - (1 if width > 3 else 0)), height)
            if part.right() < lane.left or part.left() > lane.right:
                continue
            if phase == "whole":
                self.draw_total(painter, part)
            else:
                painter.setBrush(self.colours[phase])
                painter.drawRoundedRect(part, 2, 2) if height > 3 else painter.fillRect(part, self.colours[phase])
            if phase == "draft":
                self._draw_steps(painter, part, max(lane.round.depths, default=0))
            if height >= 11:
                self._draw_phase_name(painter, part, phase, length, lane)
                painter.setPen(Qt.PenStyle.NoPen)
        if lane.pause * scale.per_ms >= 8 and height > 3:
            painter.setPen(QPen(self._faint, 1, Qt.PenStyle.DotLine))
            middle = top + height / 2
            painter.drawLine(QPointF(end + 1, middle), QPointF(min(lane.right, end + lane.pause * scale.per_ms), middle))
        if end > lane.right and height > 3:  # the bar continues beyond the view
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(self._dim)
            middle = top + height / 2
            painter.drawPolygon(
                [QPointF(lane.right - 7, middle - 4), QPointF(lane.right - 1, middle), QPointF(lane.right - 7, middle + 4)]
            )

    def draw_total(self, painter: QPainter, part: QRectF) -> None:
        """Draws the time of a round whose phases were not timed: a thin line with ends, unlike the bars of timed phases."""
        colour, top, height = self.colours["whole"], round(part.top()), round(part.height())
        left, right, width = round(part.left()), round(part.right()), 2 if height > 3 else 1
        painter.fillRect(QRect(left, top + (height - width) // 2, right - left, width), colour)
        if height > 3:
            for x in (left, right - 1):
                painter.fillRect(QRect(x, top, 1, height), colour)

    def _draw_steps(self, painter: QPainter, part: QRectF, count: int) -> None:
        """Draws marks between the drafted tokens. Their steps are not timed one by one, so they are drawn equally long."""
        height = min(5.0, part.height())
        if count > 1 and part.width() / count >= 4:
            for step in range(1, count):
                x = part.left() + part.width() * step / count
                painter.fillRect(QRectF(x - 0.5, part.bottom() - height, 1, height), self._panel)

    def _draw_phase_name(self, painter: QPainter, part: QRectF, phase: Phase, length: float, lane: Lane) -> None:
        rows = f" {amount(lane.round.rows, 'row')}" if phase == "verify" else ""
        if phase == "whole":
            return  # the total is written after the chips
        text = f"{phase}{rows}  {milliseconds(length)}"
        visible = part.intersected(QRectF(lane.left, part.top(), lane.right - lane.left, part.height()))
        shown = self.elided(text, visible.width() - 8)
        if shown:
            painter.setFont(self.chip_font)
            painter.setPen(QColor(self.theme.background))
            painter.drawText(visible.adjusted(5, 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, shown)

    def _draw_chips(self, painter: QPainter, lane: Lane, scale: LaneScale) -> None:
        chips = chips_of(lane.round)
        top = lane.top + scale.chip_top
        painter.setBrushOrigin(QPointF(lane.start % 8, top % 8))  # hatching moves with its chip
        painter.setFont(self.chip_font)
        is_flat = scale.chip < MIN_ROUNDED_HEIGHT
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, not is_flat)
        columns = size_of(lane.round)[0]
        step = scale.slot_in(columns)
        gap, is_readable = (3.0 if step >= 12 else 1.0), scale.is_readable(step)
        if lane.round.is_tree:
            gap = max(gap, min(10 * self.text_scale, step / 4))  # for the lines between choices
        boxes = [
            QRectF(lane.start + chip.column * step + 0.5, top + chip.row * scale.stack + 0.5, step - gap - 1, scale.chip - 1)
            for chip in chips
        ]
        if not is_flat:
            self._draw_branches(painter, chips, boxes)
        for slot, (chip, box) in enumerate(zip(chips, boxes, strict=True)):
            if box.right() < lane.left or box.left() > lane.right:
                continue
            self.draw_chip(painter, chip, box, is_readable)
            if slot == lane.highlighted:
                painter.setPen(self._frame)
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawRoundedRect(box.adjusted(-1.5, -1.5, 1.5, 1.5), 5, 5)
            if slot == lane.marked:
                draw_bracket(painter, box, self.theme)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if not is_flat:
            self._draw_figures(painter, lane, scale, lane.start + columns * step + 4)

    def _draw_branches(self, painter: QPainter, chips: Sequence[Chip], boxes: Sequence[QRectF]) -> None:
        """Draws a line from each choice of a tree to those that follow it; the path of the text is brighter."""
        for chip, box in zip(chips, boxes, strict=True):
            if chip.parent is not None:
                painter.setPen(self._thin_pen if chip.row else self._path)
                start, y = boxes[chip.parent], box.center().y()
                middle = (start.right() + box.left()) / 2
                corners = [QPointF(start.right(), start.center().y()), QPointF(middle, start.center().y()), QPointF(middle, y)]
                painter.drawPolyline([*corners, QPointF(box.left(), y)])

    def draw_chip(self, painter: QPainter, chip: Chip, box: QRectF, is_readable: bool) -> None:
        """Draws one chip."""
        kind = chip.kind
        is_flat = box.height() < MIN_ROUNDED_HEIGHT - 1
        if kind == "rejected":
            painter.fillRect(box, self._rejected_ground)
        painter.setPen(
            self._thin_pen if is_flat and kind == "unjudged" else self._pens[kind]
        )  # tiny dashes cost much and say little
        if chip.not_reached:
            painter.setPen(self._not_reached)
        painter.setBrush(self._brushes.get(kind, QBrush()))
        if is_flat:
            painter.drawRect(box)
        else:
            radius = min(4.0, box.width() / 4)
            painter.drawRoundedRect(box, radius, radius)
        if kind == "correction" and not is_flat:
            painter.setPen(self._underline)
            painter.drawLine(box.bottomLeft() + QPointF(1.5, -0.5), box.bottomRight() + QPointF(-1.5, -0.5))
        if not is_readable:
            return
        available = box.width() - 6
        shown = self.elided(chip.text, available) or self.elided(chip.text[:1], available)  # "W" where "W…" has no room
        if not shown:
            return
        painter.setPen(self._text if chip.not_reached else self._texts.get(kind, self._text))
        width = self.chip_metrics.horizontalAdvance(shown)
        left = box.left() + max(3.0, (box.width() - width) / 2)
        baseline = box.center().y() + (self.chip_metrics.ascent() - self.chip_metrics.descent()) / 2
        painter.drawText(QPointF(left, baseline), shown)
        if kind == "rejected":
            painter.setPen(self._strike)
            middle = baseline - self.chip_metrics.xHeight() / 2
            painter.drawLine(QPointF(left, middle), QPointF(left + width, middle))

    def _draw_figures(self, painter: QPainter, lane: Lane, scale: LaneScale, x: float) -> None:
        """Draws the number of emitted tokens and the time after the chips."""
        painter.setFont(self.label_font)
        baseline = lane.top + scale.chip_top + scale.chip / 2 + (self.label_metrics.ascent() - self.label_metrics.descent()) / 2
        text = f"+{len(lane.round.emitted)}"
        painter.setPen(self._text)
        painter.drawText(QPointF(x, baseline), text)
        x += self.label_metrics.horizontalAdvance("+88") + 5 * self.text_scale
        text = milliseconds(lane.round.milliseconds.total)
        painter.setPen(self._dim if lane.highlighted is not None else self._faint)
        painter.drawText(QPointF(x, baseline), text)

    # What changed

    def divider_area(self, text: str, top: int, right: float) -> QRectF:
        """Returns the area of the words of a divider whose line is at `top`: at the right end, over the bar of the lane above."""
        width, height = self.label_metrics.horizontalAdvance(text) + 14, self.label_metrics.height() + 2
        return QRectF(max(0.0, right - width - EDGE_MARGIN), round(top - height + 2), width, height)

    def draw_divider(self, painter: QPainter, text: str, colour: str, top: int, right: float) -> None:
        """Draws a line with words above the first lane under another rule or drafter."""
        area = self.divider_area(text, top, right)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.fillRect(QRectF(0, top, right, 1), QColor(colour))
        painter.fillRect(area, self._panel)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(self.label_font)
        painter.setPen(self._dim)
        painter.drawText(area, Qt.AlignmentFlag.AlignCenter, text)

    # The axis

    def draw_axis(self, painter: QPainter, area: QRectF, marks: Sequence[tuple[float, str]]) -> None:
        """Draws the axis: a line along the top of `area` with labels below it. `marks`: (x, label)."""
        painter.fillRect(area, self._panel)
        painter.fillRect(QRectF(area.left(), area.top(), area.width(), 1), self._line)
        painter.setFont(self.label_font)
        painter.setPen(self._faint)
        baseline = area.top() + 6 + self.label_metrics.ascent()
        for x, label in marks:
            painter.fillRect(QRectF(round(x), area.top(), 1, 4), self._faint)
            width = self.label_metrics.horizontalAdvance(label)
            left = max(area.left() + EDGE_MARGIN, min(x - width / 2, area.right() - EDGE_MARGIN - width))
            painter.drawText(QPointF(left, baseline), label)

    def draw_grid(self, painter: QPainter, marks: Sequence[tuple[float, str]], height: float) -> None:
        """Draws vertical lines at the ticks of the axis, behind the lanes."""
        for x, _ in marks:  # whole pixels: between two of them a line this long costs as much as a lane
            painter.fillRect(QRect(round(x), 0, 1, round(height)), self._grid)
