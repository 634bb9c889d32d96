"""The side panel beside the conversation: the figures of one answer at the top, and one page at a time below.

Repaints are throttled to a dozen per second, and by the window to fewer while an answer grows. Nothing is painted while hidden.
"""

from __future__ import annotations

from PySide6.QtCore import Qt, Slot
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QStackedWidget, QTabBar, QWidget

from app.charts.page import ChartsPage
from app.lanes.page import LanesPage
from app.look.banner import Banner
from app.look.theme import Theme
from app.look.throttle import trailing_throttle
from app.look.widgets import ElidedLabel, icon_button, in_column, in_row, named, tint
from app.panel.explainer import Explainer
from app.panel.figure_tiles import FigureTiles
from app.panel.picture_menu import PictureMenu
from app.rules.page import RulesPage
from app.session.chat import Chat
from app.session.cursor import Cursor, ShownAnswer
from app.session.session import is_plain
from app.session.settings import PanelPage
from app.table.page import TablePage
from engine.lens.shared_wording import latest_words

REFRESH_SECONDS = 0.08
SINGLE_ANSWER = "Figures of this answer"
WAITING = "Figures, rounds and charts appear here with the first answer."
LOW_HEIGHT = 400
"""Height of the panel at text scale 1 below which its figures use the space of the heading."""
PAGE_TITLES: dict[PanelPage, str] = {"rounds": "Rounds", "charts": "Charts", "table": "Table", "rules": "Rules"}


class Heading(QWidget):
    """Says which answer the panel shows, with arrows to the previous and the next one. Its space is reserved from the start, so
    that a second answer moves nothing.

    If rule or drafter changed, the text also says which stretches of the answer the figures cover.
    """

    def __init__(self, shown: ShownAnswer) -> None:
        super().__init__()
        self.shown = shown
        self._is_low = False
        self.title = named(ElidedLabel(), "panelHeading")
        self.stretches = named(ElidedLabel(), "figuresAbout", "What the figures are of")
        for label in (self.title, self.stretches):
            label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.stretches.hide()
        self.back = icon_button("left", "Show the previous answer", self._back)
        self.forward = icon_button("right", "Show the next answer", self._forward)
        in_row((self.title, 1), (self.stretches, 3), self.back, self.forward, spacing=2, margins=(16, 5, 10, 0), parent=self)

    def refresh(self, about: str = "") -> None:
        """Shows the name of the shown answer, and `about`: which stretches of it the figures cover."""
        turns, turn = self.shown.session.turns, self.shown.turn
        position = f"Answer {turn + 1} of {len(turns)}" if len(turns) > 1 else ""
        full_title = f"{position}: {' '.join(turns[turn].prompt.split())}" if position else SINGLE_ANSWER
        title = position if position and about else full_title
        if title != self.title.text():
            self.title.setText(title)
        self.title.setToolTip(full_title if position else "")
        if about != self.stretches.text():
            self.stretches.setText(about)
            self.stretches.setToolTip(about)
        self.stretches.setVisible(bool(about))
        self.title.setVisible(bool(position) or not about)
        for button in (self.back, self.forward):
            button.setVisible(bool(position))
        self.setVisible(bool(position) or not self._is_low)
        self.back.setEnabled(turn > 0)
        self.forward.setEnabled(turn < len(turns) - 1)

    def set_low(self, low: bool) -> None:
        """Hides the line in a low panel, unless there are several answers."""
        if low != self._is_low:
            self._is_low = low
            self.setVisible(len(self.shown.session.turns) > 1 or not low)

    def _back(self) -> None:
        self.shown.choose(self.shown.turn - 1)

    def _forward(self) -> None:
        self.shown.choose(self.shown.turn + 1)

    def set_look(self, theme: Theme, scale: float) -> None:
        """Tints the arrows and sizes them to the text scale; the height of the line does not depend on them."""
        tint(self.back, theme, scale)
        tint(self.forward, theme, scale)
        self.setFixedHeight(round(27 * scale) + 5)


class SidePanel(QWidget):
    """The panel beside the conversation. It reads the newest answer again only if `touch` was called since the last repaint.
    Which page is shown and which charts are folded is stored in the settings.

    Attributes:
        explainer: shows the definition of a figure or chart. picture_menu: saves or copies a chart. measurer: measures the plain
            speed of the shown answer.
    """

    def __init__(self, chat: Chat, cursor: Cursor, banner: Banner) -> None:
        super().__init__()
        self._chat = chat
        self.setObjectName("sidePanel")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.session = session = chat.session
        self._is_stale = False
        self._scale = 1.0
        self._repaints = trailing_throttle(self.refresh, REFRESH_SECONDS, self)
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
        self._stale_pages: set[PanelPage] = set(self.pages)
        self.charts.set_open(chat.settings.charts)
        self.explainer = Explainer(chat, self.shown, self)
        self.picture_menu = PictureMenu(chat, self.shown, banner, self)
        self.measurer = chat.measurer
        self.measurer.shown = lambda: self.shown.answer
        self._arrange()
        self._connect()

    def _connect(self) -> None:
        explainer, chat = self.explainer, self._chat
        self.charts.menu_requested.connect(self.picture_menu.open_menu)
        for signal in (
            self.figures.definition_requested,
            self.charts.definition_requested,
            self.picture_menu.definition_requested,
        ):
            signal.connect(explainer.explain)
        for signal in (self.figures.baseline_requested, self.charts.baseline_requested):
            signal.connect(explainer.measure_plain)
        self.charts.folded.connect(lambda names: chat.preferences.set(charts=names))
        chat.changed.connect(self._show_page_of_settings)

    def _arrange(self) -> None:
        self.tabs = named(QTabBar(drawBase=False, expanding=False), "panelTabs", "Panel pages", "Left and Right switch pages.")
        self.stack = QStackedWidget()
        for name, page in self.pages.items():
            self.tabs.setTabData(self.tabs.addTab(PAGE_TITLES[name]), name)
            self.stack.addWidget(page)
        self._show_page_of_settings()
        self.stack.setCurrentIndex(self.tabs.currentIndex())
        self.tabs.currentChanged.connect(self._switch_page)
        self.body = QWidget()
        in_column(self.heading, self.figures, 8, self.tabs, (self.stack, 1), parent=self.body)
        self.waiting = named(QLabel(WAITING, wordWrap=True, alignment=Qt.AlignmentFlag.AlignCenter), "panelWaiting")
        self.body.hide()
        in_column((self.waiting, 1), (self.body, 1), margins=(1, 0, 0, 0), parent=self)

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
        """Shows a page and focuses it; before the first answer, remembers it only."""
        self.show_page(name)
        if self.body.isVisible():
            self.pages[name].setFocus(Qt.FocusReason.ShortcutFocusReason)

    @Slot()
    def _show_page_of_settings(self) -> None:
        self.show_page(self._chat.settings.panel_page)

    @Slot(int)
    def _switch_page(self, index: int) -> None:
        self.refresh() if self._is_stale else self._refresh_page()
        self.stack.setCurrentIndex(index)  # after the refresh: a page that appears paints what it was given
        if self.page != self._chat.settings.panel_page:
            self._chat.preferences.set(panel_page=self.page)

    # Repaints.

    @Slot()
    def touch(self) -> None:
        """Schedules a repaint, and a measurement of the plain speed if the shown answer needs one."""
        self._is_stale = True
        self.measurer.touch()
        if self.isVisible():
            self._repaints.touch()

    @Slot()
    def refresh_if_stale(self) -> None:
        """Runs a scheduled repaint now."""
        if self._is_stale and self.isVisible():
            self.refresh()

    @Slot()
    def refresh(self) -> None:
        """Updates the figures and the shown page."""
        self.shown.sync()  # it calls `touch` if the answer has changed
        self._is_stale = False
        self._repaints.stop()
        self._stale_pages = set(self.pages)
        answer = self.shown.answer
        has_figures = answer is not None and (bool(answer.rounds) or not answer.running or len(self.session.turns) > 1)
        self.heading.refresh("" if answer is None else latest_words(answer.tally.stretches))
        self.figures.show_answer(answer, None if answer is None else self.session.baseline(answer))
        measuring = self.session.measurement is not None and answer is not None and not is_plain(answer)
        self.figures.show_measuring(measuring, may_measure=self.session.may_measure(answer))
        self._refresh_page()
        self.waiting.setHidden(has_figures)
        self.body.setVisible(has_figures)  # last: a page that appears paints what it was given

    def _refresh_page(self) -> None:
        if self.page in self._stale_pages:
            self._stale_pages.discard(self.page)
            self.pages[self.page].refresh()
        if self.rules.shows_marks and "rules" in self._stale_pages:
            self._stale_pages.discard("rules")
            self.rules.refresh()

    def set_look(self, theme: Theme, scale: float) -> None:
        """Applies a theme and a text scale to the panel and its pages. The minimum width of the panel grows with the scale.

        Args:
            scale: factor of the text size; 1 is the system's.
        """
        self._scale = scale
        self.setMinimumWidth(round(320 * scale))
        self.heading.set_look(theme, scale)
        self.figures.set_look(scale)
        self.explainer.popover.set_look(theme, scale)
        self.picture_menu.set_look(theme)
        for page in self.pages.values():
            page.set_look(theme, scale)
        self.refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Gives the space of the heading to the figures in a low panel, unless there are several answers."""
        super().resizeEvent(event)
        self.heading.set_low(self.height() < LOW_HEIGHT * self._scale)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if self._is_stale:
            self.refresh()

    def stop(self) -> None:
        """Stops repainting and measuring: the window is closing."""
        self._repaints.stop()
        self.measurer.stop()
