"""The figures of an answer in a row of tiles; pressing one opens its definition."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from app.look.widgets import Tile
from app.look.wording import DEFINITIONS, number
from app.session.plain_baseline import Baseline
from app.session.session import Answer

NAMES = {"throughput": "Throughput", "speed_up": "Speed-up", "alpha": "Alpha", "tau": "Tau", "draft_yield": "Draft yield"}
ROWS = 3


class Figures(QWidget):
    """Throughput, alpha, tau and draft yield; the speed-up only where a plain answer to the same prompt was measured.

    Signals:
        definition_wanted: (key, global position) a tile was pressed.
    """

    definition_wanted = Signal(str, QPoint)

    def __init__(self) -> None:
        super().__init__()
        self.tiles = {key: Tile(name, DEFINITIONS[key]) for key, name in NAMES.items()}
        self._widest = 0  # grows only, so that figures do not wander from row to row
        self._arrangement: tuple[tuple[str, ...], ...] = ()
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 14, 16, 0)
        column.setSpacing(8)
        self._rows = [QHBoxLayout() for _ in range(ROWS)]
        for row in self._rows:
            row.setSpacing(8)
            column.addLayout(row)
        for key, tile in self.tiles.items():
            self._rows[0].addWidget(tile, 1)
            tile.setProperty("figure", key)
            tile.clicked.connect(self._explain)
        self.tiles["speed_up"].hide()

    def show_answer(self, answer: Answer | None, baseline: Baseline | None) -> None:
        """Brings the tiles to an answer; dashes where there is none yet."""
        known = answer is not None and answer.tally.rounds > 0
        speed = answer.tokens_per_second if answer is not None and known else None
        compared = baseline is not None and baseline.fits and speed is not None
        if self.tiles["speed_up"].isHidden() == compared:
            self.tiles["speed_up"].setVisible(compared)
            self._make_room()
        if answer is None or not known:
            for tile in self.tiles.values():
                tile.show_value("–", "")
            return
        self._show_figures(answer, speed, baseline if compared else None)
        self._make_room()

    def _show_figures(self, answer: Answer, speed: float | None, baseline: Baseline | None) -> None:
        summary = answer.tally.summary
        self.tiles["throughput"].show_value(number(speed, 1), "tok/s")
        if baseline is not None and speed is not None:
            self.tiles["speed_up"].show_value(number(speed / baseline.throughput), "× plain")
        spread = ""
        if summary.alpha_low is not None and summary.alpha_high is not None:
            spread = f"± {(summary.alpha_high - summary.alpha_low) / 2:.2f}"
        self.tiles["alpha"].show_value(number(summary.alpha), spread)
        predicted = "" if summary.predicted_tau is None else f"pred. {summary.predicted_tau:.2f}"
        self.tiles["tau"].show_value(number(summary.tau), predicted)
        self.tiles["tau"].define(DEFINITIONS["tau_block" if answer.tally.jointly_judged else "tau"])
        self.tiles["draft_yield"].show_value(
            number(summary.draft_yield), f"of {summary.proposals:,}" if summary.proposals else ""
        )
        self.tiles["draft_yield"].define(f"{DEFINITIONS['draft_yield']} Here {summary.accepted:,} of {summary.proposals:,}.")

    def set_look(self, scale: float) -> None:
        """Sizes the tiles to the text scale and lays them out anew."""
        self._widest = 0
        for tile in self.tiles.values():
            tile.set_look(scale)
        self._make_room()

    def _make_room(self) -> None:
        """In a narrow panel the tiles take more rows."""
        keys = [key for key, tile in self.tiles.items() if not tile.isHidden()]
        self._widest = max(self._widest, *(self.tiles[key].minimumSizeHint().width() for key in keys))
        fitting = (self.width() - 32 + 8) // (self._widest + 8)
        across = len(keys) if fitting >= len(keys) else 3 if fitting >= 3 and len(keys) == 5 else 2
        arrangement = tuple(tuple(keys[start : start + across]) for start in range(0, len(keys), across))
        if arrangement == self._arrangement:
            return
        self._arrangement = arrangement
        for row, names in zip(self._rows, arrangement, strict=False):
            for name in names:
                for other in self._rows:
                    other.removeWidget(self.tiles[name])
                row.addWidget(self.tiles[name], 1)

    @Slot()
    def _explain(self) -> None:
        tile = self.sender()
        if isinstance(tile, Tile):
            self.definition_wanted.emit(tile.property("figure"), tile.mapToGlobal(QPoint(0, tile.height() + 6)))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._make_room()
