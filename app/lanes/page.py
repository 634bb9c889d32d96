"""The page of the round lanes: title, lanes, key of the phases, and the controls of the time axis."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Slot
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QLabel, QWidget

from app.lanes.geometry import MAX_ZOOM, MIN_ZOOM, Phase, milliseconds, time_text
from app.lanes.lanes import Lanes
from app.lanes.painter import LanePainter
from app.look.marks import draw_rounded, draw_text, smooth_painter
from app.look.theme import DARK, Theme
from app.look.widgets import icon_button, in_column, in_row, named, push_button, tint
from app.look.wording import DEFINITIONS
from app.session.cursor import Cursor, ShownAnswer
from engine.types import PHASES, Round

PHASE_NAMES: dict[Phase, str] = {**{phase: phase for phase in PHASES}, "whole": "total only"}
CLOCK_WORDS = "Place each round at its time in the answer instead of starting every round at 0."
TREE_KEY = (
    "Below one another: choices for the same position. Outlined in green: the right token, after a choice that was not taken."
)


class PhaseLegend(QWidget):
    """The key of a bar's phases, with their times in the newest round whose phases were measured."""

    def __init__(self) -> None:
        super().__init__()
        named(self, label="Parts of a round's time", description=DEFINITIONS["lanes"], tip=f"<p>{DEFINITIONS['lanes']}</p>")
        self._look = LanePainter(DARK, 1.0)
        self._round: Round | None = None

    def set_look(self, look: LanePainter) -> None:
        """Takes colours, fonts and text scale from a painter like that of the lanes, so that both draw phases alike."""
        self._look = look
        self.setFixedHeight(round(18 * look.text_scale))
        self.update()

    def show_round(self, timed: Round | None) -> None:
        """Shows the times of the answer's newest round whose phases were measured."""
        if timed is not self._round:
            self._round = timed
            description = DEFINITIONS["lanes"] if timed is None else f"Round {timed.index + 1}: {time_text(timed)}"
            self.setAccessibleDescription(description)
            self.update()

    def _entries(self) -> list[tuple[Phase, str, float]]:
        """Returns (phase, words, width), without the times if they do not fit."""
        scale, metrics = self._look.text_scale, self._look.chip_metrics
        times = None if self._round is None else self._round.milliseconds
        timed = {} if times is None else {phase: f"{phase} {milliseconds(getattr(times, phase) or 0.0)}" for phase in PHASES}
        for titles in (PHASE_NAMES | timed, PHASE_NAMES):
            entries = [(phase, text, metrics.horizontalAdvance(text) + 15 * scale) for phase, text in titles.items()]
            if sum(width for _, _, width in entries) + 8 * scale * (len(entries) - 1) <= self.width():
                break
        return entries

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = smooth_painter(self)
        look, scale, entries = self._look, self._look.text_scale, self._entries()
        painter.setFont(look.chip_font)
        baseline = self.height() / 2 + (look.chip_metrics.ascent() - look.chip_metrics.descent()) / 2
        free_width = self.width() - sum(width for _, _, width in entries)
        gap = max(4.0, min(18 * scale, free_width / max(1, len(entries) - 1)))
        x = 0.0
        for phase, text, width in entries:
            sign = QRectF(x, round(self.height() / 2 - 2.5 * scale), 11 * scale, 5 * scale)
            look.draw_total(painter, sign) if phase == "whole" else draw_rounded(painter, sign, 2, look.colours[phase])
            draw_text(painter, look.theme.faint, QPointF(x + 15 * scale, baseline), text)
            x += width + gap
        painter.end()


class LanesPage(QWidget):
    """The lanes of the answer that is shown, with their controls."""

    def __init__(self, shown: ShownAnswer, cursor: Cursor) -> None:
        super().__init__()
        self.shown = shown
        self.lanes = Lanes(cursor)
        self.setFocusProxy(self.lanes)
        self.title = named(QLabel("Timeline"), "sectionTitle", tip=f"<p>{DEFINITIONS['lanes']}</p>")
        self.chains = named(QLabel(wordWrap=True), "chainsNote", "Why chains are drafted")
        self.tree_key = named(QLabel(TREE_KEY, wordWrap=True), "chainsNote", "Key of trees")
        for note in (self.chains, self.tree_key):
            note.setContentsMargins(16, 0, 16, 0)
            note.hide()
        self.legend = PhaseLegend()
        self.clock = push_button("Absolute time", "clockButton")
        self.clock.setCheckable(True)
        named(self.clock, label="Absolute time", description=CLOCK_WORDS, tip=f"<p>{CLOCK_WORDS}</p>")
        self.clock.clicked.connect(self._set_clock)
        self.zoom_out = icon_button("zoom-out", "Zoom out (−)", self.lanes.zoom_out)
        self.fit = icon_button("zoom-fit", "Fit to width (0)", self.lanes.zoom_fit)
        self.zoom_in = icon_button("zoom-in", "Zoom in (+)", self.lanes.zoom_in)
        self.lanes.zoomed.connect(self._show_zoom)
        in_column(
            in_row((self.title, 1), self.clock, self.zoom_out, self.fit, self.zoom_in, spacing=2, margins=(16, 0, 10, 0)),
            self.chains,
            (self.lanes, 1),
            self.tree_key,
            in_row(self.legend, margins=(16, 0, 16, 0)),
            spacing=4,
            margins=(0, 6, 0, 10),
            parent=self,
        )
        self._show_zoom()

    @Slot()
    def _set_clock(self) -> None:
        self.lanes.set_clock("answer" if self.clock.isChecked() else "round")

    @Slot()
    def _show_zoom(self) -> None:
        self.clock.setChecked(self.lanes.field.clock == "answer")
        self.zoom_out.setEnabled(self.lanes.zoom > MIN_ZOOM)
        self.zoom_in.setEnabled(self.lanes.zoom < MAX_ZOOM)
        self.fit.setEnabled(self.lanes.zoom != 1)

    def refresh(self) -> None:
        """Shows what the answer has gained."""
        answer = self.shown.answer
        self.lanes.show_answer(answer, self.shown.turn)
        self.chains.setText("" if answer is None else answer.chains)
        self.chains.setVisible(bool(self.chains.text()))
        self.tree_key.setVisible(answer is not None and answer.tally.has_trees)
        self.legend.show_round(None if answer is None else answer.tally.staged)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Restyles the lanes, their key and the zoom buttons."""
        self.lanes.set_look(theme, scale)
        self.legend.set_look(LanePainter(theme, scale))
        for button in (self.zoom_out, self.fit, self.zoom_in):
            tint(button, theme, scale)
