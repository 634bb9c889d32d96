"""The side panel beside the conversation: the figures of one answer at the top, and one page at a time below.

Repaints are throttled to a dozen per second, and by the window to fewer while an answer grows. Nothing is painted while hidden.
"""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QStackedWidget, QTabBar, QWidget

from app.charts.page import ChartsPage
from app.lanes.page import LanesPage
from app.look.pacer import after_changes
from app.look.theme import Theme
from app.look.widgets import in_column, named
from app.panel.figure_tiles import FigureTiles
from app.panel.heading import Heading
from app.rules.page import RulesPage
from app.session.cursor import Cursor
from app.session.session import Session, is_plain
from app.session.settings import PanelPage
from app.session.shown_answer import ShownAnswer
from app.table.page import TablePage
from engine.lens.shared_wording import latest_words

REFRESH_SECONDS = 0.08
LOW = 400
"""Height of the panel at text scale 1 below which its figures use the space of the heading."""
PAGE_TITLES: dict[PanelPage, str] = {"rounds": "Rounds", "charts": "Charts", "table": "Table", "rules": "Rules"}


class SidePanel(QWidget):
    """Reads the session's newest answer if `touch` was called since the last repaint.

    Signals:
        page_chosen: (name) the user switched to another page.
    """

    page_chosen = Signal(str)

    def __init__(self, session: Session, cursor: Cursor) -> None:
        super().__init__()
        self.setObjectName("sidePanel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.session = session
        self._stale = False
        self._scale = 1.0
        self._repaints = after_changes(self.refresh, REFRESH_SECONDS, self)
        self.figures = FigureTiles()
        self.shown = ShownAnswer(session, cursor, self)
        self.shown.changed.connect(self.touch)
        self.heading = Heading(self.shown)
        self.rounds = LanesPage(self.shown, cursor)
        self.charts = ChartsPage(self.shown, cursor)
        self.table = TablePage(self.shown, cursor)
        self.rules = RulesPage(self.shown, cursor)
        self.pages: dict[PanelPage, LanesPage | ChartsPage | TablePage | RulesPage] = {
            "rounds": self.rounds,
            "charts": self.charts,
            "table": self.table,
            "rules": self.rules,
        }
        self._old: set[PanelPage] = set(self.pages)
        self._arrange()

    def _arrange(self) -> None:
        self.tabs = named(QTabBar(drawBase=False, expanding=False), "panelTabs", "Panel pages", "Left and Right switch pages.")
        self.stack = QStackedWidget()
        for name, page in self.pages.items():
            self.tabs.setTabData(self.tabs.addTab(PAGE_TITLES[name]), name)
            self.stack.addWidget(page)
        self.tabs.currentChanged.connect(self._turn)
        in_column(self.heading, self.figures, 8, self.tabs, (self.stack, 1), margins=(1, 0, 0, 0), parent=self)

    # Pages.

    @property
    def page(self) -> PanelPage:
        """The shown page."""
        return list(self.pages)[self.tabs.currentIndex()]

    def show_page(self, name: PanelPage) -> None:
        """Switches to a page without moving the focus; an unknown name, as in old settings, changes nothing."""
        if name in self.pages:
            self.tabs.setCurrentIndex(list(self.pages).index(name))

    def go_to(self, name: PanelPage) -> None:
        """Shows a page and focuses it."""
        self.show_page(name)
        self.pages[name].setFocus(Qt.FocusReason.ShortcutFocusReason)

    @Slot(int)
    def _turn(self, index: int) -> None:
        self.stack.setCurrentIndex(index)
        self._refresh_page()
        self.page_chosen.emit(self.page)

    # Repaints.

    @Slot()
    def touch(self) -> None:
        """Schedules a repaint."""
        self._stale = True
        if self.isVisible():
            self._repaints.touch()

    def catch_up(self) -> None:
        """Runs a scheduled repaint now."""
        if self._stale and self.isVisible():
            self.refresh()

    @Slot()
    def refresh(self) -> None:
        """Updates the figures and the shown page."""
        self.shown.sync()  # it calls `touch` if the answer has changed
        self._stale = False
        self._repaints.stop()
        self._old = set(self.pages)
        answer = self.shown.answer
        self.heading.refresh("" if answer is None else latest_words(answer.tally.stretches))
        self.figures.show_answer(answer, None if answer is None else self.session.baseline(answer))
        measuring = self.session.measurement is not None and answer is not None and not is_plain(answer)
        self.figures.show_measuring(measuring, may_measure=self.session.may_measure(answer))
        self._refresh_page()

    def _refresh_page(self) -> None:
        if self.page in self._old:
            self._old.discard(self.page)
            self.pages[self.page].refresh()
        if self.rules.marks and "rules" in self._old:
            self._old.discard("rules")
            self.rules.refresh()

    def set_look(self, theme: Theme, scale: float) -> None:
        """Restyles figures and pages; the minimum width grows with the text scale."""
        self._scale = scale
        self.setMinimumWidth(round(320 * scale))
        self.heading.set_look(theme, scale)
        self.figures.set_look(scale)
        for page in self.pages.values():
            page.set_look(theme, scale)
        self.refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Gives the space of the heading to the figures in a low panel, unless there are several answers."""
        super().resizeEvent(event)
        self.heading.set_low(self.height() < LOW * self._scale)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._stale:
            self.refresh()

    def stop(self) -> None:
        """Stops repainting: the window is closing."""
        self._repaints.stop()
