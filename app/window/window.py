"""The main window: creates the parts and keeps them in sync with the chat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QEvent, QMimeData, QObject, QSize, Qt, QTimer, QUrl, Signal, SignalInstance, Slot
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QCloseEvent,
    QFontMetrics,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QPaintEvent,
    QResizeEvent,
)
from PySide6.QtWidgets import QApplication, QMainWindow, QMenu, QSizePolicy, QStackedWidget, QWidget

from app.conversation.composer import Composer, dropped_files
from app.conversation.find import FindBar
from app.conversation.link_question import LinkQuestion
from app.conversation.transcript import Transcript
from app.conversation.verdict_host import VerdictHost
from app.conversation.welcome import Welcome
from app.export.dialog import export_answers
from app.look import theme as themes
from app.look.banner import Banner
from app.look.command import EnterPresses, ShortcutSheet, make_actions, make_menus, show_use
from app.look.offer import Offer
from app.look.pacer import Pacer
from app.look.placing import at_most_the_screen, keep_on_screen, place_first
from app.look.stylesheet import stylesheet
from app.look.theme import Appearance
from app.look.widgets import give_menu, in_column, in_row, named
from app.look.wording import GHOST_TITLES, raw_note, target_title
from app.panel.explainer import Explainer
from app.panel.panel import SidePanel
from app.panel.picture_menu import PictureMenu
from app.session.active import active_in
from app.session.attachments import Attachment
from app.session.chat import Chat
from app.session.context_meter import ContextMeter
from app.session.cursor import Cursor
from app.session.session import Answer
from app.session.settings import PanelPage, Settings
from app.sidebar.drawer import Drawer
from app.sidebar.sidebar import Sidebar
from app.window.about import About
from app.window.attaching import Attaching
from app.window.chat_files import ChatFiles
from app.window.chats_controller import ChatsController
from app.window.commands import why_not, window_commands
from app.window.documentation import open_documentation
from app.window.dropped_folders import DroppedFolders, dropped_anything
from app.window.dropping import Dropping
from app.window.gc_scheduler import GcScheduler
from app.window.header import Header
from app.window.menu_bar import GreyedReasons, has_menu_bar
from app.window.messages import Messages
from app.window.models_controller import ModelsController, dropped_model
from app.window.new_window import start_another
from app.window.pages import Pages
from app.window.palette import Entry, Palette, command_entries
from app.window.panel_splitter import PanelSplitter
from app.window.replay_controller import REPLAY_NOTE, ReplayController, dropped_trace
from app.window.rule_bars import conditions, rule_bars
from app.window.sampling_popover import SamplingPopover
from app.window.settings_window import SettingsWindow
from app.window.status_strip import StatusStrip, phase_text
from app.window.tour import Tour, stops_of
from app.window.trace_reader import TraceReader
from app.window.unsaved_question import UnsavedGuard
from engine.chats import ChatStore, Listed
from engine.lens.pieces import GHOST_STEPS, Ghosts
from engine.runtime.interface import EngineLike
from engine.types import RANGES, Event, RoundFinished, RunFailed, RunFinished
from engine.values.wording import listed

NARROW = 900
"""Width at text scale 1 below which the panel is hidden in favour of the conversation."""
SIDEBAR_ALONE, SIDEBAR_BESIDE_PANEL = 760, 1180
"""Widths at text scale 1 below which the list of chats opens as a drawer over the conversation, without and with the panel."""
TEXT_PACE = 0.02, 0.033, 0.2
REST_PACE = 0.015, 0.08, 0.8
"""Throttles (share of one core, minimum and maximum seconds between frames) for the text of a growing answer, and for all other
views of it. If the engine uses every core, painting takes time from it."""
REPLAY_BAR = 720
"""Width of the replay bar in pixels at text scale 1, if there is room: its slider needs more than a line of text."""


class Window(QMainWindow):
    """The main window.

    Args:
        engine: loads and decodes; the window closes it.
        settings: the initial settings; `settings_path` is where changes are saved, None saves them nowhere.
        note: a message to show at once.
        store: opens the chat store; None stores no chats.

    Attributes:
        cursor_place: the cursor shared by every view.
        ended_in_time: whether the engine had ended when the window closed.

    Signals:
        first_painted: the window has been painted for the first time.
    """

    first_painted = Signal()

    def __init__(
        self,
        engine: EngineLike,
        settings: Settings,
        settings_path: Path | None = None,
        note: str = "",
        store: Callable[[], ChatStore] | None = None,
    ) -> None:
        QApplication.setFont(themes.body_font(settings.text_scale))  # first: a window keeps the font that it started with
        super().__init__()
        self.setObjectName("window")
        self.setWindowTitle("Draftlight")
        self.ended_in_time = True
        self._painted = False
        self._closed = False
        self.chat = Chat(engine, settings, settings_path, self, store)
        self.session = self.chat.session
        self.cursor_place = Cursor(self)
        self._theme = themes.resolve(settings.appearance)
        self._clock = QTimer(self, interval=250)
        self._clock.timeout.connect(self._tick)
        self._growing: Answer | None = None
        self._text = Pacer(self._show_text, *TEXT_PACE, self, self._engine_computes)
        self._rest = Pacer(self._show_growth, *REST_PACE, self, self._engine_computes)
        self._collector = GcScheduler(self)
        self._enter_presses = EnterPresses(self)
        self._build()
        self.commands = window_commands(self, has_menu_bar())
        self.actions_by_id = make_actions(self.commands, self)
        self.actions_by_id["playAction"].setAutoRepeat(False)  # else a held key would toggle repeatedly
        self._build_menus()
        self._connect()
        self._apply_look()
        self._show_settings()
        self._refresh()
        self._first_size = place_first(self, settings.geometry)
        self._divide()
        self.composer.edit.setFocus()
        if note:
            self.banner.show_message(note, "note")

    @property
    def settings(self) -> Settings:
        """The settings from the next answer on, which the chat owns."""
        return self.chat.settings

    @property
    def ghosts(self) -> Ghosts:
        """Which ghosts the shown page shows."""
        return self.settings.ghosts if self.pages.comparing is None else self.settings.compare_ghosts

    # Parts.

    def _build(self) -> None:
        self.header = Header()
        self.banner, self.lock = Banner(), Banner()
        self.transcript = Transcript(
            self.session,
            self._theme,
            self.settings.text_scale,
            self.settings.ghosts,
            cursor=self.cursor_place,
            reading=self.settings.reading,
        )
        self.welcome = Welcome()
        self.composer = Composer()
        self.replay_controller = ReplayController(self, self)
        self.panel = SidePanel(self.session, self.cursor_place)
        self.explainer = Explainer(self.panel, self.chat)
        self.picture_menu = PictureMenu(self.panel, self.chat, self.explainer)
        self.context = ContextMeter(self.chat, self._being_written, self)
        self.measurer = self.chat.measurer
        self.measurer.shown = lambda: self.panel.shown.answer
        self.chats = ChatsController(self.chat, self.banner, self.lock, self)
        self.models = ModelsController(self.chat, self.banner, self)
        self.chat_files = ChatFiles(self.chat, self.banner, self, self.chats.open)
        self.verdicts = VerdictHost(self, self.transcript, self.cursor_place, self.panel, lambda: self.settings.target)
        self.panel.charts.set_open(self.settings.charts)
        self.status = StatusStrip()
        self.options = SamplingPopover(self)
        self.settings_window: SettingsWindow | None = None
        self.palette_popup = Palette(self)
        self.tour = Tour(self, stops_of(self))
        self.tour.ended.connect(self.composer.edit.setFocus)
        self.stack = QStackedWidget()
        self.stack.addWidget(self.welcome)
        self.stack.addWidget(self.transcript)
        self.stack.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Ignored)  # in a low window it shrinks first
        self.column = named(QWidget(), "chatColumn")
        self.column.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.column.installEventFilter(self)
        self.find_bar = FindBar(self.transcript)
        at_end = (self.banner, self.lock, self.composer, self.replay_controller.bar)
        in_column((self.stack, 1), self.find_bar, *at_end, parent=self.column)
        self.attaching = Attaching(self.composer, self.banner, self)
        self.replay_controller.watch()
        self.unsaved = UnsavedGuard(self.chat.keeper, self)
        self.dropped_folders = DroppedFolders(
            self.models, self.chat_files, self.attaching, self.replay_controller.open, self.banner, self
        )
        self.dropping = Dropping(
            self,
            (dropped_trace, self.replay_controller.open),
            (self.chat_files.dropped, self.chat_files.take_in),
            (dropped_model, self.models.use_dropped),
            (dropped_files, self.attaching.take),
            (dropped_anything, self.dropped_folders.take),
        )
        self.dropping.watch(self, self.composer.edit.viewport(), self.transcript)
        self.splitter = PanelSplitter(self.column, self.panel)
        self.sidebar = Sidebar(self.chat)
        self.header.sidebar.setVisible(self.chat.keeper is not None)
        below = QWidget()
        in_row(self.sidebar, (self.splitter, 1), parent=below)
        self.drawer = Drawer(self.sidebar, below, self.header.sidebar)
        conversation = QWidget()
        in_column(self.header, (below, 1), parent=conversation)
        self.pages = Pages(conversation, self.chat.link, lambda: self.settings, lambda: self.session.newest_prompt)
        self.messages = Messages(self, self)
        whole = QWidget()
        in_column((self.pages, 1), self.status, parent=whole)
        self.setCentralWidget(whole)

    def _build_menus(self) -> None:
        menus = make_menus(self.commands, self.actions_by_id, self)
        everything = QMenu(self)
        for menu in menus:
            everything.addMenu(menu)
            if has_menu_bar():
                self.menuBar().addMenu(menu)
                GreyedReasons(menu)
        give_menu(self.header.menu, everything)

    def _connect(self) -> None:
        chat = self.chat
        presets = self.options.presets
        joined: list[tuple[SignalInstance, Callable[..., object]]] = [
            (chat.received, self._received),
            (chat.changed, self._changed),
            (chat.said, self.say),
            (chat.unanswered, self.messages.unanswered),
            (chat.seed_drawn, self.header.show_drawn_seed),
            (chat.finished, self.announce),
            (self.header.changed, self._wish),
            (self.header.changed, chat.change),
            (self.header.open_model, self._show_settings),
            (self.header.open_model, self.models.choose),
            (self.header.strip.remedy_wanted, self.messages.help_strip),
            (self.header.options.clicked, self.open_options),
            (self.header.panel.clicked, self.toggle_panel),
            (self.header.sidebar.clicked, self.toggle_sidebar),
            (self.drawer.turned, self._show_settings),
            (self.sidebar.new_wanted, self.new_chat),
            (self.sidebar.chosen, self._open_chat),
            (self.sidebar.list.clicked, self._chat_clicked),
            (self.sidebar.deleted, self.chats.delete),
            (self.sidebar.duplicated, self.chats.duplicate_other),
            (self.sidebar.exported, self.chat_files.export),
            (self.sidebar.folder_left, self.chats.offer_folder),
            (self.sidebar.traces_wanted, self.chats.show_traces),
            (self.sidebar.deleted_wanted, self.chats.show_deleted),
            (self.header.compare.clicked, self.pages.toggle),
            (self.pages.turned, self._page_turned),
            (self.pages.changed, self._refresh),
            (self.pages.exported, lambda folder, kind: chat.keep(export_folder=folder, export_kind=kind)),
            (self.options.changed, chat.change_here),
            (self.options.reset, partial(chat.replace, words="The sampling options have been reset.")),
            (chat.replaced_settings, self._offer_settings_back),
            (presets.used, chat.use_preset),
            (presets.saved, chat.save_preset),
            (presets.tied, chat.tie_preset),
            (presets.deleted, self._delete_preset),
            (self.composer.active_opened, self._open_active),
            (self.composer.active_removed, chat.remove_active),
            (self.composer.sent, self.send),
            (self.composer.changed, self.context.touch),
            (self.composer.edit.textChanged, self.measurer.hold_off),
            (self.panel.shown.changed, self.measurer.touch),
            (self.composer.changed, chat.unsent.touch),
            (self.composer.attached, self._count_tokens),
            (self.context.shown, self.composer.show_context),
            (self.composer.stopped, chat.stop),
            (self.composer.recalled, self.messages.edit_last),
            (self.welcome.chosen, self.send),
            (self.welcome.demonstration, self.demonstrate),
            (self.transcript.regenerate, self.messages.regenerate),
            (self.transcript.tools.stepped, self.messages.show_sibling),
            (self.transcript.wanted, self.messages.do),
            (chat.opened, self._opened),
            (chat.stored, chat.unsent.touch),
            (chat.unsent.refused, self._unsent_not_kept),
            (self.transcript.reading_wanted, self.toggle_reading),
            (self.transcript.link_wanted, self.ask_to_open),
            (self.transcript.figure_wanted, self.explainer.explain_turn),
            (self.verdicts.branch_wanted, chat.branch),
            (self.status.ghosts.clicked, self.toggle_ghosts),
            (self.panel.page_chosen, self._page_chosen),
            (self.panel.charts.folded, self._charts_folded),
            (QGuiApplication.styleHints().colorSchemeChanged, self._system_theme_changed),
        ]
        if chat.keeper is not None:
            self.reader = TraceReader(chat.keeper, self.session, self._answers_in_use, self)
            joined += [
                (self.reader.taken_in, self._taken_in),
                (self.reader.unreadable, self._say_note),
                (self.transcript.scrolled, self.reader.look),
                (self.panel.shown.changed, self.reader.look),
                (chat.keeper.failed, self._not_kept),
                (chat.keeper.recovered, self._kept_again),
                (chat.keeper.noted, self._say_note),
            ]
        for signal, hears in joined:
            signal.connect(hears)

    # Conversation.

    @Slot(str)
    def send(self, text: str) -> None:
        """Sends a message, as a new version of the prompt that is being edited, if any."""
        edited = self.messages.editing.at
        if edited is not None or text.strip() == self.composer.text.strip():  # an example keeps the draft
            self.messages.editing.end()
        self.banner.hide()
        self.transcript.follow()
        self.chat.send(text, instead_of=edited)
        self.chat.unsent.keep()

    def _being_written(self) -> tuple[str, int | None]:
        return self.composer.text, self.messages.editing.at

    @Slot(object)
    def _count_tokens(self, attachment: Attachment) -> None:
        self.context.count_text(attachment.text, partial(self.composer.show_tokens, attachment))

    @Slot()
    def demonstrate(self) -> None:
        """Shows and starts a comparison of two rules."""
        self.pages.open_compare("rejection-gumbel")
        self.pages.start_compare()

    def new_window(self) -> None:
        """Opens another window on the same chats, in a process of its own."""
        if not start_another():
            self.banner.show_message("Another window could not be started. Start Draftlight once more instead.")

    def open_files(self, paths: Sequence[Path]) -> None:
        """Handles files that the system asks to open, as if they were dropped on the window; importing chats is confirmed first.

        They are queued behind the last chat, which is still being read at the start.
        """
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized)
        self.raise_()
        self.activateWindow()
        if self.chat.keeper is None:
            self._take_opened(paths)
        else:
            take = partial(self._take_opened, paths)
            self.chat.keeper.read(lambda store: None, lambda _: take(), lambda _: take())

    def _take_opened(self, paths: Sequence[Path]) -> None:
        data = QMimeData()
        data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
        self.pages.leave_comparison()
        if chats := self.chat_files.dropped(data):
            self.chat_files.ask_to_take_in(chats)
        elif not self.dropping.take(data):
            self.banner.show_message(f"{listed([path.name for path in paths])} cannot be found.")

    def take_back(self, undo: Callable[[], None]) -> None:
        """Runs the undo function that the banner offered."""
        self.banner.hide()
        undo()
        self._refresh()

    @Slot()
    def _opened(self) -> None:
        """Shows another conversation, scrolled to its end with nothing pinned."""
        self.messages.editing.move(along=self.chats.restoring)
        self.cursor_place.forget()
        self._collector.take_in()  # the previous chat may be garbage now
        self.find_bar.hide()
        self.transcript.follow()

    def _answers_in_use(self) -> list[Answer]:
        """Returns the answers whose rounds are needed, most urgent first."""
        if self.session.replaying:
            return []
        shown = self.panel.shown.answer
        return [*([] if shown is None else [shown]), *self.transcript.unread_in_view()]

    @Slot(object)
    def _taken_in(self, answer: Answer) -> None:
        self.transcript.read_again(answer)
        self._refresh()

    @Slot(str)
    def _say_note(self, message: str) -> None:
        self.banner.show_message(message, "note")

    @Slot(str)
    def _not_kept(self, message: str) -> None:
        """Reports a failed write. The data stays in this window, and the write is retried."""
        keeper = self.chat.keeper
        if keeper is not None:
            self.banner.show_message(
                f"{message} Until then this window keeps it and tries again.", holds=lambda: keeper.in_trouble
            )
            self.banner.offer("Try again", keeper.try_again)

    @Slot()
    def _kept_again(self) -> None:
        self.banner.show_message("The chats are saved again.", "note")

    @Slot(str)
    def _unsent_not_kept(self, message: str) -> None:
        """Reports discreetly that drafts are not stored; they stay in the window."""
        if self.chat.keeper is not None and not self.chat.keeper.in_trouble:
            self.banner.show_message(f"What you have not sent yet is not saved. {message}", "note")

    def new_chat(self) -> None:
        """Starts an empty conversation. The draft of the previous one stays with it."""
        self._close_drawer()
        self.messages.forget()
        self.banner.hide()
        self.pages.open_conversation()
        self.replay_controller.leave()
        self.chat.new(self.sidebar.folder or "")
        self.composer.edit.setFocus()

    @Slot(str, str, object)
    def say(self, message: str, tone: str = "error", offer: Offer | None = None) -> None:
        """Shows a message with what it offers."""
        for banner in self.models.banners:
            banner.show_message(message, tone)
            if offer is not None:
                banner.offer(offer.title, partial(self._accept, offer))

    def _accept(self, offer: Offer) -> None:
        if not offer.stays:
            self.models.hide_messages()
        offer.act()

    @Slot(str, object)
    def _wish(self, name: str, value: object) -> None:
        """Hides messages about the previous model or drafter."""
        if name in ("target", "drafter"):
            self.models.hide_messages()

    # From the chat to the views.

    @Slot(list)
    def _received(self, events: list[Event]) -> None:
        if any(isinstance(event, RunFinished) and event.finish == "context" for event in events) and len(self.session.turns) > 1:
            self.messages.offer_more_room()
        if all(isinstance(event, RoundFinished) for event in events):
            if self.session.running is self._growing is not None:
                self._text.touch()
                self._rest.touch()
                return
            if self.session.measurement is not None:
                return  # only the speed of the plain run is shown, once it is known
        self.transcript.viewport().update()
        self._show_note()
        self._refresh()
        if any(isinstance(event, (RunFinished, RunFailed)) for event in events):
            self.panel.catch_up()  # no further event comes
        self.messages.proceed()

    @Slot()
    def _changed(self) -> None:
        self.messages.editing.follow()
        self._show_settings()
        self._refresh()

    @Slot()
    def _page_turned(self) -> None:
        """Focuses the page that is shown: the conversation or the comparison."""
        if self.pages.comparing is not None and self.tour.isVisible():
            self.tour.end()  # the tour explains the conversation
        if self.pages.comparing is None:
            self.sidebar.read()  # comparisons write traces, and it shows their size
        if self.pages.comparing is None and self.pages.isVisible():
            (self.replay_controller.bar if self.session.replaying else self.composer.edit).setFocus()
        self._show_settings()
        self._refresh()

    def rename_chat(self) -> None:
        """Asks for a new title of the shown chat."""
        self.sidebar.rename_shown()

    @Slot()
    def stop(self) -> None:
        """Stops the answer, or the comparison if that is shown."""
        self.chat.stop() if self.pages.comparing is None else self.pages.comparing.stop()

    def escape(self) -> None:
        """Does the first applicable action in `ESCAPE`. Menus, lists and dialogs are windows of their own and close by
        themselves."""
        comparing, chat, measured = self.pages.comparing, self.chat, self.session.measurement
        if self.tour.isVisible():
            self.tour.end()
            return
        if self.drawer.is_open:
            self._close_drawer()
            return
        if self._let_go() if comparing is None else comparing.let_go():
            return
        if comparing is not None:
            comparing.stop() if comparing.running else comparing.banner.hide()
        elif self.messages.editing.at is not None:
            self.messages.cancel_editing()
        elif self.session.running is not None or (measured is not None and not measured.unasked):
            chat.stop()
        elif self.session.replaying:
            self.replay_controller.leave()
        else:
            self.banner.hide()

    def _let_go(self) -> bool:
        """Unpins a token or round, or leaves the one that the arrow keys reached; returns False if there is none."""
        cursor, focused = self.cursor_place, QApplication.focusWidget()
        in_panel = focused is not None and self.panel.isAncestorOf(focused)
        if not (self.transcript.pointing.holds or (in_panel and cursor.place is not None)):
            return False
        if self.verdicts.has_focus:
            self.verdicts.close()  # the focus returns to the token
        else:
            self.transcript.pointing.let_go()
        return True

    def show_replayed(self) -> None:
        """Updates every view after the replay has moved, started or ended."""
        self.transcript.viewport().update()
        self._show_note()
        self._refresh()

    def _engine_computes(self) -> bool:
        return self.chat.link.is_computing

    def _show_text(self) -> None:
        self._show_wait(self.session.running)
        self.transcript.sync(only_rounds=True)

    def _show_growth(self) -> None:
        """Updates what changes with every round, apart from the text."""
        self.panel.touch()
        self.panel.catch_up()
        self.context.look()
        self._show_status()
        self.header.strip.show_rules(rule_bars(self.session, self.settings))

    def _refresh(self) -> None:
        """Updates every view to the state of the session."""
        session, answer = self.session, self.session.running
        self._text.stop()
        self._rest.stop()
        self._growing = answer if answer is not None and answer.rounds else None
        self.stack.setCurrentIndex(1 if session.turns else 0)
        self._show_lock()
        self.composer.set_running(answer is not None)
        self._show_wait(answer)
        self.transcript.sync()
        self.verdicts.touch()
        self.panel.touch()
        self.context.touch()
        self.measurer.touch()
        self._show_status()
        self.header.strip.show_rules(rule_bars(session, self.settings))
        waiting = session.model is None and session.loading is not None
        raw = raw_note(self.settings.raw, session.answers_messages)
        self.composer.set_raw(bool(raw))
        self.composer.show_active(active_in(self.settings, self.chat.usual, reads_system=not raw))
        self.options.show_model(session.model)
        self.welcome.set_raw(bool(raw))
        self.composer.show_hint("You can type while the model loads." if waiting else raw if answer is None else "")
        may_undo_delete = bool(self.chat.deletions)
        for name, reason in why_not(session, self.pages.comparing, self.panel.shown.turn, may_undo_delete).items():
            show_use(self.actions_by_id[name], reason)
        self.actions_by_id["undoDeleteAction"].setVisible(may_undo_delete)  # to keep the menu short
        self.banner.check()
        if self.chat.keeper is not None:
            self.reader.look()
        ticking = session.loading is not None or (answer is not None and answer.state != "generating")
        if ticking != self._clock.isActive() and not self._closed:
            self._clock.start() if ticking else self._clock.stop()
        comparing = self.pages.comparing
        busy = answer is not None or (comparing is not None and comparing.running)
        self._collector.show_state(busy, not session.turns)

    def _show_lock(self) -> None:
        """Shows, in place of the message field, that another window has the chat, and moves the focus accordingly."""
        locked = self.session.read_only and not self.session.replaying
        if locked != self.lock.isHidden():
            return
        had_keyboard = self.composer.edit.hasFocus() or self.transcript.hasFocus()
        self.chats.show_lock(locked)
        self.composer.setVisible(not locked and not self.session.replaying)
        self._align()
        if had_keyboard and not self.session.replaying:
            (self.transcript if locked else self.composer.edit).setFocus()

    def _show_status(self) -> None:
        comparing = self.pages.comparing
        self.status.show_session(self.session, "" if comparing is None else comparing.status_words)

    def _show_wait(self, answer: Answer | None) -> None:
        self.transcript.status = "" if answer is None else phase_text(self.session)
        self.transcript.fraction = None
        if answer is not None and answer.state == "reading" and answer.prefill[1]:
            self.transcript.fraction = answer.prefill[0] / answer.prefill[1]
        elif answer is not None and self.session.loading is not None:
            self.transcript.fraction = self.session.loading.fraction

    @Slot()
    def _tick(self) -> None:
        self._show_wait(self.session.running)
        self.transcript.sync()
        self._show_status()

    @Slot(str)
    def announce(self, words: str) -> None:
        """Announces words to a screen reader."""
        if QAccessible.isActive():
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, words))

    @Slot()
    def _show_settings(self) -> None:
        settings = self.settings
        self.header.show_settings(settings)
        self.models.show_settings()
        self.options.show_settings(settings)
        if self.settings_window is not None:
            self.settings_window.show_settings()
        self.status.show_ghosts(self.ghosts)
        self.panel.show_page(settings.panel_page)
        self.actions_by_id[f"{self.ghosts}GhostsAction"].setChecked(True)
        self.actions_by_id["readingAction"].setChecked(settings.reading)
        self.actions_by_id["panelAction"].setChecked(settings.side_panel)
        self.actions_by_id[f"{settings.appearance}ThemeAction"].setChecked(True)
        self._show_note()
        self._make_room()

    def _show_note(self) -> None:
        given = conditions(self.session, self.settings)
        instead = REPLAY_NOTE if self.session.replaying else ""
        self.header.show_note(given, self.session.has_distribution(given.drafter), instead)

    # Look.

    def set_appearance(self, appearance: Appearance) -> None:
        """Saves the theme and applies it at once; "system" follows the desktop."""
        self.chat.keep(appearance=appearance)
        self._apply_look()

    @Slot()
    def _system_theme_changed(self) -> None:
        if self.settings.appearance == "system" and not self._closed:
            self._apply_look()

    def _apply_look(self) -> None:
        """Applies the palette, then the style sheet, then the look of widgets that paint themselves."""
        themes.tell_platform(self.settings.appearance)
        self._theme = themes.resolve(self.settings.appearance)
        theme, scale = self._theme, self.settings.text_scale
        application = QApplication.instance()
        if isinstance(application, QApplication):
            application.setPalette(themes.palette(theme))
            application.setFont(themes.body_font(scale))
        self.setStyleSheet(stylesheet(theme, scale))
        for part in (
            *(
                self.header,
                self.composer,
                self.banner,
                self.lock,
                self.welcome,
                self.panel,
                self.status,
                self.transcript,
                self.sidebar,
            ),
            *(self.find_bar, self.explainer, self.replay_controller.bar, self.verdicts, self.models, self.pages),
            *(self.options.presets, self.palette_popup, self.tour),
        ):
            part.set_look(theme, scale)
        self.picture_menu.set_look(theme)
        lines = QFontMetrics(themes.body_font(scale)).lineSpacing()  # line heights of fonts of the same size differ by a fifth
        self.setMinimumSize(at_most_the_screen(self, QSize(max(560, round(440 * scale)), max(460, 25 * lines))))
        self._divide()
        self._make_room()

    @Slot()
    def toggle_ghosts(self) -> None:
        """Switches to the next step of ghosts: none, rejected, all, and none again."""
        self.set_ghosts(GHOST_STEPS[(GHOST_STEPS.index(self.ghosts) + 1) % len(GHOST_STEPS)])
        self.announce(GHOST_TITLES[self.ghosts])

    def set_ghosts(self, ghosts: Ghosts) -> None:
        """Sets and saves which ghosts the shown page shows."""
        self.set_setting("ghosts" if self.pages.comparing is None else "compare_ghosts", ghosts)

    @Slot()
    def toggle_reading(self) -> None:
        """Toggles and saves the reading view of finished answers."""
        self.chat.keep(reading=not self.settings.reading)
        self.transcript.set_reading(self.settings.reading)
        self.announce("Reading view" if self.settings.reading else "Token view")

    @Slot(str)
    def ask_to_open(self, address: str) -> None:
        """Opens a link of an answer in the browser, after asking the user."""
        LinkQuestion(address, self).open()

    @Slot()
    def toggle_panel(self) -> None:
        """Toggles and saves the side panel, which is shown if the window is wide enough."""
        self.chat.keep(side_panel=not self.settings.side_panel)

    @Slot()
    def toggle_sidebar(self) -> None:
        """Toggles and saves the list of chats. In a narrow window it opens or closes as a drawer instead."""
        if self._has_room_for_chats():
            self.chat.keep(sidebar=not self.settings.sidebar)
        elif self.drawer.is_open:
            self._close_drawer()
        else:
            self._open_drawer()

    def search_chats(self) -> None:
        """Focuses the search in all chats."""
        self.pages.leave_comparison()
        if self._has_room_for_chats():
            self.chat.keep(sidebar=True)
            self.sidebar.go_to_search()
        else:
            self._open_drawer(search=True)

    def _has_room_for_chats(self) -> bool:
        least = SIDEBAR_BESIDE_PANEL if self.settings.side_panel else SIDEBAR_ALONE
        return self.width() >= least * self.settings.text_scale

    def _open_drawer(self, search: bool = False) -> None:
        self.pages.leave_comparison()
        if self.chat.keeper is not None:
            self.drawer.open(search)

    def _close_drawer(self) -> None:
        if self.drawer.is_open:
            self.drawer.close()
            self.composer.edit.setFocus()

    def find_in_chat(self) -> None:
        """Opens the search bar for the shown chat."""
        self.pages.leave_comparison()
        self.find_bar.open()

    @Slot(int, object)
    def _open_chat(self, number: int, message: int | None) -> None:
        """Shows a chat, scrolled to a message if one is given; a running answer is stopped and kept."""
        self._close_drawer()
        if self.session.replaying:
            self.replay_controller.leave()
        self.banner.hide()
        if number == self.chat.kept.number and not self.session.read_only:
            self._show_message(message)
        else:
            self.chats.open(number, message, partial(self._show_message, message))

    @Slot()
    def _chat_clicked(self) -> None:
        """Focuses the message field after a click on a chat. In the list, P would pin the chat and Backspace would delete it."""
        if self.sidebar.list.number() is not None:
            self.composer.edit.setFocus(Qt.FocusReason.MouseFocusReason)

    def _show_message(self, message: int | None) -> None:
        """Scrolls to a message of the shown chat."""
        if message is not None:
            turns = self.session.turns
            at = next((at for at, turn in enumerate(turns) if message in (turn.kept_as, turn.answer.kept_as)), None)
            if at is not None:
                self.transcript.go_to(at, prompt=turns[at].kept_as == message)

    def open_page(self, page: PanelPage) -> None:
        """Shows a page of the panel and focuses it."""
        self.chat.keep(side_panel=True)
        self.panel.go_to(page)
        if self.panel.isHidden():
            self.banner.show_message(
                "The window is too narrow for the panel. Make the window wider or the text smaller.", "note", self.panel.isHidden
            )

    @Slot(str)
    def _page_chosen(self, page: PanelPage) -> None:
        if page != self.settings.panel_page:
            self.chat.keep(panel_page=page)

    @Slot(tuple)
    def _charts_folded(self, names: tuple[str, ...]) -> None:
        self.chat.keep(charts=names)

    def larger(self) -> None:
        """Enlarges all text by a tenth of its normal size, within its range."""
        self._scale(self.settings.text_scale + 0.1)

    def smaller(self) -> None:
        """Reduces all text by a tenth of its normal size, within its range."""
        self._scale(self.settings.text_scale - 0.1)

    def normal(self) -> None:
        """Sets all text back to its normal size."""
        self._scale(1.0)

    def _scale(self, scale: float) -> None:
        self.chat.keep(text_scale=round(RANGES["text_scale"].nearest(scale), 2))
        self._apply_look()

    def _make_room(self) -> None:
        """Hides what has no room in a narrow window."""
        width, scale = self.width(), self.settings.text_scale
        self.panel.setVisible(self.settings.side_panel and width >= NARROW * scale)
        has_room = self._has_room_for_chats()
        there = self.settings.sidebar and self.chat.keeper is not None and has_room
        is_beside = not self.drawer.is_open and not self.sidebar.isHidden()
        if there != is_beside or (has_room and self.drawer.is_open):
            self.drawer.put_beside(there)
            self._divide()
        lists_chats = self.settings.sidebar if has_room else self.drawer.is_open
        self.actions_by_id["sidebarAction"].setChecked(lists_chats)
        self.header.sidebar.setChecked(lists_chats)
        self.banner.check()
        self.header.set_room(width, self.height(), scale)
        self._align()

    def _align(self) -> None:
        whole = self.column.width()
        column = self.transcript.column_in(whole)
        for part in (self.composer, self.banner, self.lock, self.find_bar, self.welcome):
            part.set_column(column.left(), column.width(), whole)
        wide = self.transcript.column_in(whole, least=REPLAY_BAR)
        self.replay_controller.bar.set_column(wide.left(), wide.width(), whole)

    # Requested by menus and shortcuts.

    @Slot(str)
    def _delete_preset(self, name: str) -> None:
        undo = self.chat.delete_preset(name)
        self.banner.show_message(f"The preset “{name}” is deleted.", "note")
        self.banner.offer("Undo", partial(self.take_back, undo))

    @Slot(str, object, object)
    def _offer_settings_back(self, words: str, names: Sequence[str], undo: Callable[[], None]) -> None:
        """Offers to undo, as long as none of these settings has changed again."""
        after = {name: getattr(self.settings, name) for name in names}
        self.banner.show_message(
            words, "note", lambda: all(getattr(self.settings, name) == value for name, value in after.items())
        )
        self.banner.offer("Undo", partial(self.take_back, undo))

    @Slot(str)
    def _open_active(self, kind: str) -> None:
        """Opens the control where an active setting can be changed."""
        if kind == "adapter":
            self.models.choose("target", "library")
        else:
            self.options.open_below(self.header.options)
            at = self.options.presets.box if kind == "preset" else self.options.fields[kind].widget
            at.setFocus(Qt.FocusReason.PopupFocusReason)

    def open_palette(self) -> None:
        """Opens the command palette, and adds the chats once they are read."""
        settings = self.settings
        models = dict.fromkeys(("builtin", *settings.recent_models, settings.target))
        entries = [Entry(target_title(name), partial(self.chat.change, "target", name), "Model") for name in models]
        entries += [Entry(each.name, partial(self.chat.use_preset, each.name), "Preset") for each in settings.presets]
        opened = self.palette_popup.open_over(self, [*command_entries(self.commands, self.actions_by_id), *entries])
        if self.chat.keeper is not None:
            self.chat.keeper.read(ChatStore.conversations, partial(self._list_chats, opened))

    def _list_chats(self, opened: int, chats: Sequence[Listed]) -> None:
        self.palette_popup.add(opened, [Entry(each.title, partial(self._open_chat, each.id, None), "Chat") for each in chats])

    def open_settings(self) -> None:
        """Opens the settings window; both windows stay usable."""
        if self.settings_window is None:
            self.settings_window = SettingsWindow(lambda: self.chat.usual, self)
            self.settings_window.changed.connect(self.set_setting)
        self.settings_window.open_beside(self.settings.text_scale)

    @Slot(str, object)
    def set_setting(self, name: str, value: Any) -> None:
        """Applies a setting at once, whatever it concerns."""
        match name:
            case "appearance":
                self.set_appearance(value)
            case "text_scale":
                self._scale(value)
            case "reading":
                if value != self.settings.reading:
                    self.toggle_reading()
            case "ghosts":
                self.chat.keep(ghosts=value)
                self.transcript.set_ghosts(value)
            case "compare_ghosts":
                self.chat.keep(compare_ghosts=value)
                self.pages.set_ghosts(value)
            case _:
                self.chat.change(name, value)

    @Slot()
    def open_options(self) -> None:
        """Opens the sampling options below their button in the header."""
        self.options.open_below(self.header.options)

    @Slot()
    def show_tour(self) -> None:
        """Starts the tour of the window."""
        self.pages.leave_comparison()
        self.tour.begin()

    def open_documentation(self) -> None:
        """Opens the documentation on this computer."""
        open_documentation(self)

    def show_about(self) -> None:
        """Shows versions, licence and data folder."""
        About(self).open()

    def show_shortcuts(self) -> None:
        """Opens the sheet of keyboard shortcuts, made from the same list as the menus."""
        ShortcutSheet(self.commands, self).open()

    def focus_transcript(self) -> None:
        """Focuses the conversation, where arrow keys move from token to token."""
        self.transcript.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def focus_rule(self) -> None:
        """Focuses the button of the current rule."""
        self.header.rule.buttons[self.settings.rule].setFocus(Qt.FocusReason.ShortcutFocusReason)

    def export(self) -> None:
        """Exports the conversation as data or as a report to a file that the user chooses."""
        export_answers(self, self.chat) if self.pages.comparing is None else self.pages.comparing.export()

    # Qt events.

    def _divide(self) -> None:
        beside = 0 if self.sidebar.isHidden() or self.drawer.is_open else self.sidebar.width()
        self.splitter.divide(self.width() - beside, self.settings.text_scale)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self.column and event.type() == QEvent.Type.Resize:
            self._align()
            self.composer.set_room(self.column.height())
            self.banner.set_room(self.column.height())
            self.lock.set_room(self.column.height())
        return False

    def changeEvent(self, event: QEvent) -> None:
        """Loads the changes of other windows when this one becomes active."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.ActivationChange and self.isActiveWindow() and self._painted and not self._closed:
            self.chats.look()
            self.sidebar.look_for_others()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._painted:
            self._painted = True
            QTimer.singleShot(0, self, self._tell_painted)

    @Slot()
    def _tell_painted(self) -> None:
        keep_on_screen(self, self._first_size)
        self.first_painted.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.palette_popup.close()
        self.options.close()  # else a floating popover would stay where its button was
        self.explainer.popover.close()
        if event.oldSize().width() != event.size().width():
            self._divide()
        self._make_room()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Handles keys that no other widget takes: letters start a message, and the shortcut of an unavailable command shows
        why."""
        command = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier | Qt.KeyboardModifier.MetaModifier
        letters, edit, comparing = event.text(), self.composer.edit, self.pages.comparing
        keys = QKeySequence(event.keyCombination())
        idle = (action for action in self.actions_by_id.values() if not action.isEnabled() and keys in action.shortcuts())
        if letters.strip() and letters.isprintable() and not event.modifiers() & command and edit.isVisible():
            if self.tour.isVisible():
                self.tour.end()
            edit.setFocus()
            QApplication.sendEvent(edit, event)
        elif not letters.isspace() and (action := next(idle, None)) is not None:
            (self.banner if comparing is None else comparing.banner).show_message(action.toolTip(), "note")
        else:
            super().keyPressEvent(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Saves the geometry, stops all activity, then stops the engine and waits a few seconds at most. Asks first if something
        could not be saved."""
        if not self._closed and self.unsaved.asks():
            event.ignore()
            return
        if not self._closed:
            self._closed = True
            area = self.normalGeometry() if self.isFullScreen() else self.geometry()
            self.chat.keep(geometry=(area.x(), area.y(), area.width(), area.height()))
            self.hide()
            self._clock.stop()
            self._text.stop()
            self._rest.stop()
            self.panel.stop()
            self.context.stop()
            self.measurer.stop()
            self.chat.unsent.stop()
            if self.settings_window is not None:
                self.settings_window.close()
            self.sidebar.stop()
            self.chats.stop()
            self.replay_controller.stop()
            self.verdicts.stop()
            self.models.stop()
            self.pages.close_down()
            self.ended_in_time = self.chat.close()
            self._collector.stop()
        event.accept()
