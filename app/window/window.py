"""The main window: creates its parts, lays them out and connects them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QEvent, Qt, Signal, SignalInstance, Slot
from PySide6.QtGui import QCloseEvent, QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QApplication, QMainWindow, QMenu, QWidget

from app.compare.stored import ComparisonRecorder
from app.conversation.verdict_host import VerdictHost
from app.export.dialog import export_answers
from app.look import theme as themes
from app.look.command import Command, EnterKeyFilter, ShortcutSheet, make_actions, make_menus, set_availability
from app.look.placing import FirstPaint, move_onto_screen, restore_geometry
from app.look.widgets import announce, attach_menu, in_column
from app.look.wording import GHOST_TITLES
from app.panel.panel import SidePanel
from app.session.attachments import Attachment
from app.session.chat import Chat
from app.session.context_meter import ContextMeter
from app.session.cursor import Cursor
from app.session.settings import PanelPage, Settings
from app.sidebar.sidebar import Sidebar
from app.window.about import About
from app.window.appearance import WindowLook
from app.window.chat_column import ChatColumn
from app.window.chats_controller import ChatsController
from app.window.commands import unavailable_reasons, window_commands
from app.window.documentation import open_documentation
from app.window.dropping import DropHandler
from app.window.gc_scheduler import GcScheduler
from app.window.header import Header
from app.window.menu_bar import DisabledReasons, has_menu_bar
from app.window.messages import Messages
from app.window.models_controller import ModelsController
from app.window.pages import Pages
from app.window.palette import Palette
from app.window.replay_controller import ReplayController
from app.window.sampling_popover import SamplingPopover
from app.window.save_errors import SaveErrors
from app.window.settings_window import SettingsWindow
from app.window.side_layout import SideLayout
from app.window.slow_motion import SlowMotion
from app.window.status_strip import StatusStrip
from app.window.tour import Tour, tour_stops
from app.window.trace_reader import TraceReader
from app.window.view_updates import ViewUpdates
from engine.chats import ChatStore
from engine.lens.pieces import GHOST_STEPS, Ghosts
from engine.runtime.interface import EngineLike
from engine.types import Event, RunFailed, RunFinished

Receiver = Callable[..., object] | SignalInstance
"""A function or signal that receives a signal."""


class Window(QMainWindow):
    """The main window.

    Args:
        engine: loads and decodes; the window closes it.
        settings: the initial settings; `settings_path` is where changes are saved, None saves them nowhere.
        note: a message to show at once.
        store: opens the chat store; None stores no chats.

    Attributes:
        cursor_place: the cursor shared by every view.
        ended_in_time: whether the engine had ended when the window closed; None while it is open.

    Signals:
        first_painted: the window has been painted for the first time.
        closing: the window is closing; timers and pending work must stop. closed: the engine has ended, too.
    """

    first_painted = Signal()
    closing = Signal()
    closed = Signal()

    def __init__(
        self,
        engine: EngineLike,
        settings: Settings,
        settings_path: Path | None = None,
        note: str = "",
        store: Callable[[], ChatStore] | None = None,
    ) -> None:
        QApplication.setFont(themes.body_font(settings.text_scale))  # before any widget: a window keeps its initial font
        super().__init__()
        self.setObjectName("window")
        self.setWindowTitle("Draftlight")
        self.ended_in_time: bool | None = None
        self.chat = Chat(engine, settings, settings_path, self, store)
        self.session = self.chat.session
        self.cursor_place = Cursor(self)
        EnterKeyFilter(self)
        self._build()
        self._build_menus()
        self._connect_views()
        self._connect_controls()
        self._connect_chats()
        self.chat.changed.emit()  # every part shows the first state
        self.first_painted.connect(partial(move_onto_screen, self, restore_geometry(self, settings.geometry)))
        FirstPaint(self).painted.connect(self.first_painted)
        self.sides.divide()
        self.composer.edit.setFocus()
        if note:
            self.banner.show_message(note, "note")

    @property
    def settings(self) -> Settings:
        """The settings from the next answer on, which the chat owns."""
        return self.chat.settings

    @property
    def commands(self) -> list[Command]:
        """All commands, in the order of the menus."""
        return window_commands(self, has_menu_bar())

    @property
    def ghosts(self) -> Ghosts:
        """Which ghosts the shown page shows."""
        return self.settings.ghosts if self.pages.comparing is None else self.settings.compare_ghosts

    # Parts.

    def _build(self) -> None:
        chat, cursor = self.chat, self.cursor_place
        self.header = Header()
        self.column = ChatColumn(chat, cursor)
        self.banner, self.transcript, self.composer = self.column.banner, self.column.transcript, self.column.composer
        self.panel = SidePanel(chat, cursor, self.banner)
        self.sidebar = Sidebar(chat)
        self.sides = SideLayout(chat, self.sidebar, self.column, self.panel, self.header.sidebar)
        conversation, central = QWidget(), QWidget()
        in_column(self.header, (self.sides, 1), parent=conversation)
        recorder = ComparisonRecorder(chat.keeper, chat.recorder.notify)
        self.pages = Pages(conversation, chat.link, lambda: self.settings, lambda: self.session.newest_prompt, recorder)
        self.status = StatusStrip(self.session, self.pages.status_text)
        in_column((self.pages, 1), self.status, parent=central)
        self.verdicts = VerdictHost(self, self.transcript, cursor, self.panel, lambda: self.settings.target)
        self.verdicts.card.open_details(self.settings.verdict_details)
        self.options = SamplingPopover(chat, self.banner, self)
        self.palette_popup = Palette(chat, self)
        self.tour = Tour(self, tour_stops(self.header, self.column, self.panel, self.sidebar))
        self.replay_controller = ReplayController(chat, cursor, self.column, self)
        self.slow_motion = SlowMotion(chat, self.column, self.replay_controller, self)
        self.chats = ChatsController(chat, self.banner, self.transcript, self)
        self.models = ModelsController(chat, self.banner, self)
        self.messages = Messages(chat, self.column, self.panel, self.pages, self.chats, self.replay_controller, self)
        self.drop_handler = DropHandler(chat, self.replay_controller, self.chats.files, self.models, self.column, self)
        self.setCentralWidget(central)  # last: Tab goes through what lies over the window first

    def _build_menus(self) -> None:
        commands = self.commands
        self.actions_by_id = make_actions(commands, self)
        self.actions_by_id["playAction"].setAutoRepeat(False)  # else a held key would toggle repeatedly
        main_menu = QMenu(self)
        for menu in make_menus(commands, self.actions_by_id, self):
            main_menu.addMenu(menu)
            if has_menu_bar():
                self.menuBar().addMenu(menu)
                DisabledReasons(menu)
        attach_menu(self.header.menu, main_menu)

    def _connect_views(self) -> None:
        """Connects signals about changes to the views."""
        chat, column, panel, pages = self.chat, self.column, self.panel, self.pages
        styled = (self.header, column, panel, self.status, self.sidebar, self.verdicts, self.models, pages)
        look = WindowLook(chat, self, (*styled, self.options.presets, self.palette_popup, self.tour))
        updates = ViewUpdates(chat, self, lambda: self.transcript.is_moving)
        context = ContextMeter(chat, lambda: (self.composer.text, self.messages.editing.at), self)
        collector = GcScheduler(self)

        def count_tokens(attachment: Attachment) -> None:
            """Counts the tokens of an attached file for its chip."""
            context.count_text(attachment.text, partial(self.composer.show_tokens, attachment))

        def show_rules() -> None:
            """Updates the note on the rule and the bars that compare the rules."""
            self.header.show_session(self.session, self.settings)

        def update_collector() -> None:
            """Passes to the garbage collection scheduler whether something runs."""
            compares = pages.comparing is not None and pages.comparing.running
            collector.update_state(self.session.running is not None or compares, not self.session.turns)

        _connect(
            (chat.changed, look.apply_if_changed, self.messages.editing.sync, self._show_settings, updates.refresh),
            (chat.received, updates.handle, self._handle_events),
            (pages.page_changed, self._focus_page, self._show_settings, updates.refresh),
            (pages.changed, updates.refresh),
            (self.replay_controller.moved, updates.refresh),
            (self.slow_motion.toggled, updates.refresh),
            (self.sides.drawer_toggled, self._show_settings),
            (look.applied, self.sides.divide, self._fit_parts),
            (updates.refreshed, column.refresh, self.verdicts.touch, panel.touch, context.touch, self.status.refresh),
            (updates.refreshed, show_rules, self.options.show_model, self._update_availability, update_collector),
            (updates.text_grown, column.show_rounds),
            (updates.refreshed, self.slow_motion.refresh),
            (updates.views_grown, panel.touch, panel.refresh_if_stale, context.look, self.status.refresh, show_rules),
            (updates.ticked, column.show_progress, self.status.refresh),
            (self.composer.changed, context.touch),
            (self.composer.attached, count_tokens),
            (context.shown, self.composer.show_context),
            (chat.opened, self._show_opened_chat, collector.unfreeze),
            (chat.seed_drawn, self.header.show_drawn_seed),
            (chat.finished, self.announce),
            (self.closing, updates.stop, look.stop, panel.stop, context.stop, self.replay_controller.stop),
            (self.closing, self.verdicts.stop, self.models.stop, pages.stop),
            (self.closed, collector.stop),
        )

    def _connect_controls(self) -> None:
        """Connects controls to the parts that carry out their requests."""
        chat, header, column, composer, transcript = self.chat, self.header, self.column, self.composer, self.transcript
        messages, pages = self.messages, self.pages
        _connect(
            (header.changed, self.models.change, messages.offer_warmer),
            (header.open_model, self._show_settings, self.models.choose),
            (header.strip.remedy_requested, messages.apply_remedy),
            (header.options.clicked, self.open_options),
            (header.panel.clicked, self.sides.toggle_panel),
            (header.sidebar.clicked, self.sides.toggle_chats),
            (header.compare.clicked, pages.toggle),
            (column.welcome.chosen, self.send),
            (column.welcome.demonstration, pages.demonstrate),
            (composer.sent, self.send),
            (composer.stopped, chat.stop),
            (composer.recalled, messages.edit_last),
            (composer.edit.textChanged, self.panel.measurer.postpone),
            (composer.active_opened, self._open_active),
            (composer.active_removed, chat.remove_active),
            (transcript.regenerate, messages.regenerate),
            (transcript.tools.stepped, messages.show_sibling),
            (transcript.wanted, messages.perform),
            (transcript.reading_wanted, self.toggle_reading),
            (transcript.figure_wanted, self.panel.explainer.explain_turn),
            (chat.unanswered, messages.restore_prompt),
            (self.verdicts.branch_wanted, chat.branch),
            (self.verdicts.card.unfolded, lambda opened: chat.preferences.set(verdict_details=opened)),
            (self.status.ghosts.clicked, self.toggle_ghosts),
            (self.tour.ended, composer.edit.setFocus),
            (self.replay_controller.opening, pages.leave_comparison),
            (self.drop_handler.opening, pages.leave_comparison),
            (self.sides.opening, pages.leave_comparison),
            (pages.exported, lambda folder, kind: chat.preferences.set(export_folder=folder, export_kind=kind)),
        )

    def _connect_chats(self) -> None:
        """Connects the list of chats and the chat store."""
        chat, chats, sidebar = self.chat, self.chats, self.sidebar
        _connect(
            (sidebar.new_chat_requested, self.new_chat),
            (sidebar.chosen, self.open_chat),
            (sidebar.list.clicked, self._focus_message_field),
            (sidebar.deleted, chats.delete),
            (sidebar.duplicated, chats.duplicate_by_id),
            (sidebar.exported, chats.files.export),
            (sidebar.folder_removed, chats.offer_folder_undo),
            (sidebar.traces_requested, chats.show_traces),
            (sidebar.deleted_chats_requested, chats.show_deleted),
            (self.palette_popup.chat_chosen, self.open_chat),
            (self.column.copy_requested, chats.duplicate),
            (chats.comparison_requested, self.pages.open_stored),
            (self.composer.changed, chat.drafts.touch),
            (chat.recorder.written, chat.drafts.touch),
            (self.closing, chat.drafts.stop, sidebar.stop, chats.stop),
        )
        saving = SaveErrors(chat, chat.keeper, self.banner, self)
        reader = TraceReader(chat.keeper, self.session, self.panel.shown, self.transcript.unread_in_view, self)
        _connect(
            (reader.loaded, self.transcript.read_again, chat.changed),
            (reader.failed, saving.show_note),
            (chat.changed, reader.read_next),
            (self.replay_controller.moved, reader.read_next),
            (self.transcript.scrolled, reader.read_next),
            (self.panel.shown.changed, reader.read_next),
            (self.closing, saving.stop),
        )

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
        self.chat.drafts.save()

    @Slot()
    def new_chat(self) -> None:
        """Starts an empty conversation. The draft of the previous one stays with it."""
        self.sides.close_drawer()
        self.messages.forget()
        self.banner.hide()
        self.pages.open_conversation()
        self.replay_controller.leave()
        self.chat.new(self.sidebar.folder or "")
        self.composer.edit.setFocus()

    @Slot(int, object)
    def open_chat(self, number: int, message: int | None) -> None:
        """Shows a chat, scrolled to a message if one is given; a running answer is stopped and kept."""
        self.sides.close_drawer()
        self.replay_controller.leave()
        self.chats.go_to(number, message)

    @Slot()
    def _focus_message_field(self) -> None:
        """Focuses the message field after a click on a chat. In the list, P would pin the chat and Backspace would delete it."""
        if self.sidebar.list.number() is not None:
            self.composer.edit.setFocus(Qt.FocusReason.MouseFocusReason)

    @Slot()
    def _show_opened_chat(self) -> None:
        """Shows another conversation, scrolled to its end with nothing pinned."""
        self.messages.editing.switch_chat(carry_draft=self.chats.is_restoring)
        self.cursor_place.forget()
        self.column.find_bar.hide()
        self.transcript.follow()

    @Slot(list)
    def _handle_events(self, events: list[Event]) -> None:
        """Handles the end of an answer."""
        if any(isinstance(event, RunFinished) and event.finish == "context" for event in events) and len(self.session.turns) > 1:
            self.messages.offer_leaving_out()
        if any(isinstance(event, (RunFinished, RunFailed)) for event in events):
            self.panel.refresh_if_stale()  # no further event comes
        self.messages.regenerate_if_pending()

    @Slot(str)
    def announce(self, text: str) -> None:
        """Announces words to a screen reader."""
        announce(self, text)

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
        if self.sides.close_drawer():
            return
        if self._clear_cursor() if comparing is None else comparing.let_go():
            return
        if comparing is not None:
            comparing.stop() if comparing.running else comparing.banner.hide()
        elif self.messages.editing.at is not None:
            self.messages.cancel_editing()
        elif self.session.running is not None or (measured is not None and not measured.is_automatic):
            chat.stop()
        elif self.session.replaying:
            self.replay_controller.leave()
        else:
            self.banner.hide()

    def _clear_cursor(self) -> bool:
        """Clears the token or round that is pinned or that the arrow keys have selected. Returns False if there is none."""
        cursor, focused = self.cursor_place, QApplication.focusWidget()
        in_panel = focused is not None and self.panel.isAncestorOf(focused)
        if not (self.transcript.pointing.holds or (in_panel and cursor.place is not None)):
            return False
        if self.verdicts.has_focus:
            self.verdicts.close()  # the focus returns to the token
        else:
            self.transcript.pointing.let_go()
        return True

    def export(self) -> None:
        """Exports the conversation as data or as a report to a file that the user chooses."""
        export_answers(self, self.chat) if self.pages.comparing is None else self.pages.comparing.export()

    def find_in_chat(self) -> None:
        """Opens the search bar for the shown chat."""
        self.pages.leave_comparison()
        self.column.find_bar.open()

    # What is shown.

    @Slot()
    def _focus_page(self) -> None:
        """Focuses the page that is shown: the conversation or the comparison."""
        if self.pages.comparing is not None:
            if self.tour.isVisible():
                self.tour.end()  # the tour explains the conversation
            return
        self.sidebar.reload()  # comparisons write traces, and it shows their size
        if self.pages.isVisible():
            (self.replay_controller.bar if self.session.replaying else self.composer.edit).setFocus()

    @Slot()
    def _show_settings(self) -> None:
        """Shows the settings in the header and in the menus."""
        settings, actions = self.settings, self.actions_by_id
        self.header.show_settings(settings)
        self.status.show_ghosts(self.ghosts)
        self.pages.show_settings()
        actions[f"{self.ghosts}GhostsAction"].setChecked(True)
        actions["readingAction"].setChecked(settings.reading)
        actions["panelAction"].setChecked(settings.side_panel)
        actions[f"{settings.appearance}ThemeAction"].setChecked(True)
        self._fit_parts()

    @Slot()
    def _update_availability(self) -> None:
        """Enables the commands that can be used now, and gives the others the reason why they cannot."""
        may_undo_delete = bool(self.chat.deletions)
        for name, reason in unavailable_reasons(
            self.session, self.pages.comparing, self.panel.shown.turn, may_undo_delete
        ).items():
            set_availability(self.actions_by_id[name], reason)
        self.actions_by_id["slowMotionAction"].setChecked(self.slow_motion.is_on)
        self.actions_by_id["undoDeleteAction"].setVisible(may_undo_delete)  # to keep the menu short

    @Slot()
    def _fit_parts(self) -> None:
        """Fits every part to the size of the window."""
        self.sides.arrange()
        self.actions_by_id["sidebarAction"].setChecked(self.sides.shows_chats)
        self.banner.check()
        self.header.set_window_size(self.width(), self.height(), self.settings.text_scale)
        self.column.align()

    @Slot()
    def toggle_ghosts(self) -> None:
        """Switches to the next step of ghosts: none, rejected, all, and none again."""
        self.set_ghosts(GHOST_STEPS[(GHOST_STEPS.index(self.ghosts) + 1) % len(GHOST_STEPS)])
        self.announce(GHOST_TITLES[self.ghosts])

    def set_ghosts(self, ghosts: Ghosts) -> None:
        """Sets and saves which ghosts the shown page shows."""
        self.chat.preferences.set(**{"ghosts" if self.pages.comparing is None else "compare_ghosts": ghosts})

    @Slot()
    def toggle_reading(self) -> None:
        """Toggles and saves the reading view of finished answers."""
        self.chat.preferences.set(reading=not self.settings.reading)

    def open_page(self, page: PanelPage) -> None:
        """Shows a page of the panel and focuses it."""
        self.chat.preferences.set(side_panel=True)
        self.panel.go_to(page)
        if self.panel.isHidden():
            self.banner.show_message(
                "The window is too narrow for the panel. Make the window wider or the text smaller.", "note", self.panel.isHidden
            )

    @Slot(str)
    def _open_active(self, kind: str) -> None:
        """Opens the control where an active setting can be changed."""
        if kind == "adapter":
            self.models.choose("target", "library")
        else:
            self.options.open_at(kind, self.header.options)

    @Slot()
    def open_options(self) -> None:
        """Opens the sampling options below their button in the header."""
        self.options.open_below(self.header.options)

    def open_palette(self) -> None:
        """Opens the command palette."""
        self.palette_popup.open(self.commands, self.actions_by_id)

    def open_settings(self) -> None:
        """Opens the settings window; both windows stay usable."""
        window = self.findChild(SettingsWindow)
        if window is None:
            window = SettingsWindow(self.chat, self)
            self.closing.connect(window.close)
        window.open()

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

    # Qt events.

    def changeEvent(self, event: QEvent) -> None:
        """Loads the changes of other windows when this one becomes active."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.ActivationChange and self.isActiveWindow() and self.ended_in_time is None:
            self.chats.check_lock()
            self.sidebar.check_external_changes()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.palette_popup.close()
        self.options.close()  # else a floating popover would stay where its button was
        self.panel.explainer.popover.close()
        if event.oldSize().width() != event.size().width():
            self.sides.divide()
        self._fit_parts()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Handles keys that no other widget takes: letters start a message, and the shortcut of an unavailable command shows
        why."""
        command = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier | Qt.KeyboardModifier.MetaModifier
        letters, edit, comparing = event.text(), self.composer.edit, self.pages.comparing
        keys = QKeySequence(event.keyCombination())
        unavailable = (action for action in self.actions_by_id.values() if not action.isEnabled() and keys in action.shortcuts())
        if letters.strip() and letters.isprintable() and not event.modifiers() & command and edit.isVisible():
            if self.tour.isVisible():
                self.tour.end()
            edit.setFocus()
            QApplication.sendEvent(edit, event)
        elif not letters.isspace() and (action := next(unavailable, None)) is not None:
            (self.banner if comparing is None else comparing.banner).show_message(action.toolTip(), "note")
        else:
            super().keyPressEvent(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Saves the geometry, stops all activity, then stops the engine and waits a few seconds at most."""
        if self.ended_in_time is None:
            area = self.normalGeometry() if self.isFullScreen() else self.geometry()
            self.chat.preferences.set(geometry=(area.x(), area.y(), area.width(), area.height()))
            self.hide()
            self.closing.emit()
            self.ended_in_time = self.chat.close()
            self.closed.emit()
        event.accept()


def _connect(*wires: tuple[SignalInstance, *tuple[Receiver, ...]]) -> None:
    """Connects each signal to its receivers, in this order."""
    for signal, *receivers in wires:
        for receiver in receivers:
            signal.connect(receiver)
