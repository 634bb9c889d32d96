"""What is known of the newest answer beside the conversation: figures on top, and below them one page at a time.

Figures and the page that shows are repainted at most a dozen times a second, and never while hidden.
"""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QGridLayout, QStackedWidget, QTabBar, QVBoxLayout, QWidget

from app.charts_page import ChartsPage
from app.cursor import Cursor
from app.rounds_page import RoundsPage
from app.session import Session
from app.settings import PanelPage
from app.shown import Shown
from app.theme import Theme
from app.widgets import Tile
from app.wording import DEFINITIONS, number

REFRESH_MS = 80
PAGE_TITLES: dict[PanelPage, str] = {"rounds": "Rounds", "charts": "Charts", "table": "Table"}


class SidePanel(QWidget):
    """Reads the session's newest answer whenever `touch` was called since the last repaint.

    Signals:
        page_chosen: (name) the user went to another page.
    """

    page_chosen = Signal(str)

    def __init__(self, session: Session, cursor: Cursor) -> None:
        super().__init__()
        self.setObjectName("sidePanel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.session = session
        self._stale = False
        self._scale = 1.0
        self._timer = QTimer(self, singleShot=True, interval=REFRESH_MS)
        self._timer.timeout.connect(self.refresh)
        self.throughput = Tile("Throughput", DEFINITIONS["throughput"])
        self.alpha = Tile("Alpha", DEFINITIONS["alpha"])
        self.tau = Tile("Tau", DEFINITIONS["tau"])
        self.draft_yield = Tile("Draft yield", DEFINITIONS["draft_yield"])
        self.shown = Shown(session, cursor, self)
        self.shown.changed.connect(self.touch)
        self.rounds = RoundsPage(self.shown, cursor)
        self.charts = ChartsPage(session, cursor)
        self.pages: dict[PanelPage, RoundsPage | ChartsPage] = {"rounds": self.rounds, "charts": self.charts}
        self._old: set[PanelPage] = set(self.pages)
        self._arrange()

    @property
    def tiles(self) -> tuple[Tile, ...]:
        return self.throughput, self.alpha, self.tau, self.draft_yield

    def _arrange(self) -> None:
        self.grid = QGridLayout()
        self.grid.setContentsMargins(16, 14, 16, 0)
        self.grid.setSpacing(8)
        for place, tile in enumerate(self.tiles):
            self.grid.addWidget(tile, 0, place)
        self.tabs = QTabBar()
        self.tabs.setObjectName("panelTabs")
        self.tabs.setAccessibleName("Pages of the panel")
        self.tabs.setAccessibleDescription("Left and Right go to another page.")
        self.tabs.setDrawBase(False)
        self.tabs.setExpanding(False)
        self.stack = QStackedWidget()
        for name, page in self.pages.items():
            self.tabs.setTabData(self.tabs.addTab(PAGE_TITLES[name]), name)
            self.stack.addWidget(page)
        self.tabs.currentChanged.connect(self._turn)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(1, 0, 0, 0)
        outer.setSpacing(0)
        outer.addLayout(self.grid)
        outer.addSpacing(8)
        outer.addWidget(self.tabs)
        outer.addWidget(self.stack, 1)

    # Pages

    @property
    def page(self) -> PanelPage:
        """The page that shows."""
        return list(self.pages)[self.tabs.currentIndex()]

    def show_page(self, name: PanelPage) -> None:
        if name in self.pages:
            self.tabs.setCurrentIndex(list(self.pages).index(name))

    def go_to(self, name: PanelPage) -> None:
        """Shows a page and gives it the keyboard."""
        self.show_page(name)
        self.pages[name].setFocus(Qt.FocusReason.ShortcutFocusReason)

    @Slot(int)
    def _turn(self, index: int) -> None:
        self.stack.setCurrentIndex(index)
        self._refresh_page()
        self.page_chosen.emit(self.page)

    def _make_room(self) -> None:
        """In a narrow panel the figures take two rows."""
        columns = 4 if self.width() >= 420 * self._scale else 2
        for place, tile in enumerate(self.tiles):
            self.grid.addWidget(tile, place // columns, place % columns)
        for column in range(4):
            self.grid.setColumnStretch(column, 1 if column < columns else 0)

    # Repaints

    @Slot()
    def touch(self) -> None:
        """Something changed: repaint soon."""
        self._stale = True
        if self.isVisible() and not self._timer.isActive():
            self._timer.start()

    @Slot()
    def refresh(self) -> None:
        """Brings the figures and the page that shows up to date."""
        self._stale = False
        self.shown.sync()
        self._old = set(self.pages)
        self._show_figures()
        self._refresh_page()

    def _refresh_page(self) -> None:
        if self.page in self._old:
            self._old.discard(self.page)
            self.pages[self.page].refresh()

    def _show_figures(self) -> None:
        answer = self.shown.answer
        if answer is None or not answer.tally.rounds:
            for tile in self.tiles:
                tile.show_value("–", "")
            return
        summary = answer.tally.summary
        self.throughput.show_value(number(answer.tokens_per_second, 1), "tok/s")
        spread = ""
        if summary.alpha_low is not None and summary.alpha_high is not None:
            spread = f"± {(summary.alpha_high - summary.alpha_low) / 2:.2f}"
        self.alpha.show_value(number(summary.alpha), spread)
        self.tau.show_value(number(summary.tau), f"of {summary.predicted_tau:.2f}" if summary.predicted_tau is not None else "")
        joint = summary.predicted_tau is None and summary.alpha is not None
        self.tau.define(DEFINITIONS["tau_block" if joint else "tau"])
        self.draft_yield.show_value(number(summary.draft_yield), f"of {summary.proposals:,}" if summary.proposals else "")
        self.draft_yield.define(f"{DEFINITIONS['draft_yield']} Here {summary.accepted:,} of {summary.proposals:,}.")

    def set_look(self, theme: Theme, scale: float) -> None:
        self._scale = scale
        self.setMinimumWidth(round(320 * scale))
        for tile in self.tiles:
            tile.set_look(scale)
        for page in self.pages.values():
            page.set_look(theme, scale)
        self._make_room()
        self.refresh()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._stale:
            self.refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._make_room()

    def stop(self) -> None:
        """No more repaints: the window is closing."""
        self._timer.stop()
