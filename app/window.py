"""The window: puts the parts together and carries wishes between them, the session and the engine."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QRect, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QCloseEvent, QGuiApplication, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QApplication, QFileDialog, QMainWindow, QMenu, QSplitter, QStackedWidget, QVBoxLayout, QWidget

from app import settings as stored
from app import theme as themes
from app.commands import Command, ShortcutSheet, make_actions, make_menus
from app.composer import Composer
from app.exporting import export_session
from app.header import Header, model_path
from app.link import EngineLike, EngineLink
from app.options import OptionsPopover
from app.session import Answer, Session
from app.settings import MAX_SCALE, MIN_SCALE, Settings
from app.sidepanel import SidePanel
from app.statusbar import StatusStrip, phase_text
from app.stylesheet import stylesheet
from app.theme import APPEARANCES, Appearance
from app.transcript import Transcript
from app.welcome import Welcome
from app.widgets import Banner
from app.wording import FINISH_WORDS, target_title
from engine.errors import DraftlightError
from engine.types import (
    DrafterReady,
    DrafterRefused,
    EngineFailed,
    Event,
    LoadFailed,
    LoadFinished,
    Request,
    RoundFinished,
    RunChanged,
    RunFailed,
    RunFinished,
    RunStarted,
)

LIVE = ("rule", "gamma", "drafter")
"""Settings that act in the middle of an answer."""
EXPORT_KINDS = "JSON (*.json);;CSV (*.csv)"
NARROW = 900
"""Below this width the charts make room for the conversation."""


class Window(QMainWindow):
    """Draftlight's window.

    Args:
        engine: what loads and decodes; the window closes it.
        settings: what to start with; `settings_path` is where changes are kept, None keeps them nowhere.
        note: something to tell the user at once.

    Signals:
        first_painted: the window has been painted for the first time.
    """

    first_painted = Signal()

    def __init__(self, engine: EngineLike, settings: Settings, settings_path: Path | None = None, note: str = "") -> None:
        super().__init__()
        self.setObjectName("window")
        self.setWindowTitle("Draftlight")
        self.settings = settings
        self._settings_path = settings_path
        self._painted = False
        self._closed = False
        self.ended_in_time = True
        self._editing = False
        self._menu = QMenu(self)
        self.session = Session()
        self.session.drafter = settings.drafter
        self.link = EngineLink(engine, self)
        self.link.received.connect(self._received)
        self._theme = themes.resolve(settings.appearance)
        self._clock = QTimer(self, interval=250)
        self._clock.timeout.connect(self._tick)
        self._build()
        self.commands = self._commands()
        self.actions_by_id = make_actions(self.commands, self)
        self._build_menus()
        self._connect()
        self._apply_look()
        self._show_settings()
        self._place(settings.geometry)
        self.composer.edit.setFocus()
        if note:
            self.banner.show_message(note, "note")

    # Parts

    def _build(self) -> None:
        settings = self.settings
        self.header = Header()
        self.banner = Banner()
        self.transcript = Transcript(self.session, self._theme, settings.text_scale, settings.ghosts)
        self.welcome = Welcome()
        self.composer = Composer()
        self.panel = SidePanel(self.session)
        self.status = StatusStrip()
        self.options = OptionsPopover(self)
        self.stack = QStackedWidget()
        self.stack.addWidget(self.welcome)
        self.stack.addWidget(self.transcript)
        chat = QWidget()
        chat.setObjectName("chatColumn")
        chat.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        column = QVBoxLayout(chat)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.banner)
        column.addWidget(self.stack, 1)
        column.addWidget(self.composer)
        self.splitter = QSplitter(Qt.Orientation.Horizontal)
        self.splitter.setChildrenCollapsible(False)
        self.splitter.setHandleWidth(1)
        self.splitter.addWidget(chat)
        self.splitter.addWidget(self.panel)
        self.splitter.setStretchFactor(0, 3)
        self.splitter.setStretchFactor(1, 1)
        whole = QWidget()
        outer = QVBoxLayout(whole)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(0)
        outer.addWidget(self.header)
        outer.addWidget(self.splitter, 1)
        outer.addWidget(self.status)
        self.setCentralWidget(whole)
        self.chat = chat
        chat.installEventFilter(self)
        self.setMinimumSize(560, 460)

    def _build_menus(self) -> None:
        menus = make_menus(self.commands, self.actions_by_id, self)
        for menu in menus:
            self._menu.addMenu(menu)
        self.header.menu.setMenu(self._menu)
        if sys.platform == "darwin":
            for menu in menus:
                self.menuBar().addMenu(menu)

    def _connect(self) -> None:
        self.header.changed.connect(self.change_setting)
        self.header.open_model.connect(self._open_model)
        self.header.options.clicked.connect(self.open_options)
        self.header.panel.clicked.connect(self.toggle_panel)
        self.options.changed.connect(self.change_setting)
        self.composer.sent.connect(self.send)
        self.composer.stopped.connect(self.stop)
        self.composer.recalled.connect(self.edit_last)
        self.composer.abandoned.connect(self._abandon_edit)
        self.welcome.chosen.connect(self.send)
        self.transcript.regenerate.connect(self.regenerate)
        self.transcript.edit.connect(self.edit_last)
        self.status.ghosts.clicked.connect(self.toggle_ghosts)
        QGuiApplication.styleHints().colorSchemeChanged.connect(self._system_theme_changed)

    def _commands(self) -> list[Command]:
        settings = self.settings
        appearances = [
            Command(
                f"{name}ThemeAction",
                {"system": "Theme of the system", "dark": "Dark", "light": "Light"}[name],
                "View",
                lambda name=name: self.set_appearance(name),  # type: ignore[misc]
                checked=settings.appearance == name,
                group="theme",
            )
            for name in APPEARANCES
        ]
        return [
            Command("newChatAction", "New chat", "Chat", self.new_chat, ("Ctrl+N",)),
            Command("regenerateAction", "Answer again", "Chat", self.regenerate, ("Ctrl+R",)),
            Command("editAction", "Edit the last prompt", "Chat", self.edit_last, ("Ctrl+Up",)),
            Command("copyAnswerAction", "Copy the answer", "Chat", self.transcript.copy_answer, ("Ctrl+Shift+C",)),
            Command("stopAction", "Stop the answer", "Chat", self.stop, ("Ctrl+.",)),
            Command("exportAction", "Export metrics…", "Chat", self.export, ("Ctrl+E",)),
            Command("quitAction", "Quit", "Chat", self.close, ("Ctrl+Q",)),
            Command("ghostsAction", "Ghosts", "View", self.toggle_ghosts, ("F2", "Ctrl+G"), checked=settings.ghosts),
            Command("panelAction", "Charts", "View", self.toggle_panel, ("F3",), checked=settings.side_panel),
            *appearances,
            Command("largerAction", "Larger text", "View", self.larger, ("Ctrl++", "Ctrl+="), group="text"),
            Command("smallerAction", "Smaller text", "View", self.smaller, ("Ctrl+-",), group="text"),
            Command("normalAction", "Normal text", "View", self.normal, ("Ctrl+0",), group="text"),
            Command("messageAction", "Go to the message", "Go", self.composer.edit.setFocus, ("Ctrl+L",)),
            Command("transcriptAction", "Go to the conversation", "Go", self._focus_transcript, ("Ctrl+J",)),
            Command("ruleAction", "Go to the rules", "Go", self._focus_rule, ("Ctrl+D",)),
            Command("optionsAction", "Sampling options", "Go", self.open_options, ("Ctrl+,",)),
            Command("shortcutsAction", "Keyboard shortcuts", "Help", self.show_shortcuts, ("F1", "Ctrl+/")),
        ]

    # Conversation

    def send(self, text: str) -> None:
        """Asks for an answer to `text`; while a model loads, it waits for it."""
        if self.session.running is not None:
            return
        if self._editing and self.session.turns:
            self.session.turns.pop()
        self._set_editing(False)
        self.session.add_turn(text, self.settings.options(), self.settings.drafter)
        self.composer.set_text("")
        self._submit()

    def regenerate(self) -> None:
        """Answers the last prompt again, in place of the answer there is."""
        if self.session.turns and self.session.running is None:
            prompt = self.session.turns.pop().prompt
            self.session.add_turn(prompt, self.settings.options(), self.settings.drafter)
            self._submit()

    def edit_last(self) -> None:
        """Takes the last prompt back into the message field; sending replaces its turn."""
        if self.session.turns and self.session.running is None:
            self.composer.set_text(self.session.turns[-1].prompt)
            self._set_editing(True)

    def new_chat(self) -> None:
        """Leaves the conversation for an empty one. A message being written stays."""
        self.link.forget()
        self._set_editing(False)
        self.session.clear()
        self._refresh()
        self.composer.edit.setFocus()

    def stop(self) -> None:
        if self.session.running is not None:
            self.link.stop()

    def _submit(self) -> None:
        settings, answer = self.settings, self.session.turns[-1].answer
        request = Request(
            messages=self.session.messages(settings.system_prompt),
            options=answer.options,
            target=settings.target,
            drafter=settings.drafter,
            conversation=f"window-{self.session.conversation}",
        )
        try:
            answer.run_id = self.link.submit(request)
        except DraftlightError as error:
            answer.state = "failed"
            self._unanswered(str(error))
        self.banner.hide()
        self.header.show_drawn_seed(None)
        self.transcript.follow()
        self.composer.edit.setFocus()
        self._refresh()

    def _set_editing(self, editing: bool) -> None:
        self._editing = editing
        self.composer.set_editing(editing)

    def _abandon_edit(self) -> None:
        self._set_editing(False)
        self.composer.set_text("")

    # Events

    @Slot(list)
    def _received(self, events: list[Event]) -> None:
        for event in events:
            self.session.apply(event)
            self._react(event)
        if not all(isinstance(event, RoundFinished) for event in events):
            self.transcript.viewport().update()
        self._refresh()

    def _react(self, event: Event) -> None:
        match event:
            case LoadFinished(model):
                self.transcript.name = target_title(self.settings.target) if self.settings.target == "builtin" else model.name
            case LoadFailed(name, message):
                self.banner.show_message(message)
                if self.session.model is not None and self.settings.target == name:
                    self._revert_target()
            case DrafterReady():
                self._show_note()
            case DrafterRefused(_, message):
                self.banner.show_message(message)
                self._change(drafter=self.session.drafter if self.session.drafter != self.settings.drafter else "none")
            case RunStarted(_, options):
                self.header.show_drawn_seed(options.seed)
            case RunChanged(drafter=drafter):
                self.session.drafter = drafter
            case RunFinished(finish=finish):
                self._announce(f"Answer finished: {FINISH_WORDS[finish]}")
            case RunFailed(_, message):
                self._unanswered(message)
            case EngineFailed(message):
                self.banner.show_message(message)

    def _unanswered(self, message: str) -> None:
        """Nothing the user wrote is lost: without any answer the prompt goes back to the message field."""
        self.banner.show_message(message)
        self._announce(message)
        turn = self.session.turns[-1]
        if not turn.answer.tally.rounds and not self.composer.text.strip():
            self.session.turns.pop()
            self.composer.set_text(turn.prompt)

    def _refresh(self) -> None:
        """Every view to the session's state."""
        session, answer = self.session, self.session.running
        self.stack.setCurrentIndex(1 if session.turns else 0)
        self.composer.set_running(answer is not None)
        self._show_wait(answer)
        self.transcript.sync()
        self.panel.touch()
        self.status.show_session(session)
        loading = "" if session.model is not None or session.loading is None else "You can write while the model loads."
        self.composer.hint.setText(loading or ("Enter sends, Shift+Enter starts a line" if answer is None else "Esc stops"))
        for name in ("regenerateAction", "editAction"):
            self.actions_by_id[name].setEnabled(bool(session.turns) and answer is None)
        self.actions_by_id["stopAction"].setEnabled(answer is not None)
        self.actions_by_id["exportAction"].setEnabled(bool(session.trace_paths))
        self.actions_by_id["copyAnswerAction"].setEnabled(bool(session.turns))
        ticking = session.loading is not None or (answer is not None and answer.state != "generating")
        if ticking != self._clock.isActive() and not self._closed:
            self._clock.start() if ticking else self._clock.stop()

    def _show_wait(self, answer: Answer | None) -> None:
        self.transcript.status = "" if answer is None else phase_text(self.session)
        self.transcript.fraction = None
        if answer is not None and answer.state == "reading" and answer.prefill[1]:
            self.transcript.fraction = answer.prefill[0] / answer.prefill[1]
        elif answer is not None and self.session.loading is not None:
            self.transcript.fraction = self.session.load_fraction

    @Slot()
    def _tick(self) -> None:
        self._show_wait(self.session.running)
        self.transcript.sync()
        self.status.show_session(self.session)

    def _announce(self, words: str) -> None:
        """Says it to a screen reader."""
        if QAccessible.isActive():
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, words))

    # Settings

    @Slot(str, object)
    def change_setting(self, name: str, value: object) -> None:
        """Takes in a setting from a control; what can act in the middle of an answer does."""
        if getattr(self.settings, name) == value:
            return
        changes = {name: value}
        if name == "target" and value != "builtin" and self.settings.drafter == "builtin-draft":
            changes["drafter"] = "none"  # that one was trained for the built-in target and fits no other
        self._change(**changes)
        if self.session.running is not None and name in LIVE:
            self.link.update(**{name: value})  # type: ignore[arg-type]
        elif name in ("target", "drafter"):
            self.link.load(self.settings.target, self.settings.drafter)

    def _change(self, **changes: object) -> None:
        self.settings = replace(self.settings, **changes)  # type: ignore[arg-type]
        self._show_settings()
        self._save()

    def _show_settings(self) -> None:
        self.header.show_settings(self.settings)
        self.options.show_settings(self.settings)
        self.status.show_ghosts(self.settings.ghosts)
        self.actions_by_id["ghostsAction"].setChecked(self.settings.ghosts)
        self.actions_by_id["panelAction"].setChecked(self.settings.side_panel)
        self.actions_by_id[f"{self.settings.appearance}ThemeAction"].setChecked(True)
        self._show_note()
        self._make_room()

    def _show_note(self) -> None:
        self.header.show_note(self.settings, self.session.has_distribution(self.settings.drafter))

    def _revert_target(self) -> None:
        """The model before is still loaded; go on with it."""
        self._change(target=self.session.target or "builtin")

    def _save(self) -> None:
        if self._settings_path is None:
            return
        try:
            stored.save(self._settings_path, self.settings)
        except OSError as error:
            self.banner.show_message(f"The settings could not be saved: {error.strerror or error}.", "note")

    def load_models(self) -> None:
        """Asks for the models of the settings."""
        self.transcript.name = target_title(self.settings.target)
        self.link.load(self.settings.target, self.settings.drafter)

    @Slot(str, str)
    def _open_model(self, kind: str, what: str) -> None:
        title = f"Open a {'target' if kind == 'target' else 'draft'} model"
        if what == "folder":
            chosen = QFileDialog.getExistingDirectory(self, title)
        else:
            chosen, _ = QFileDialog.getOpenFileName(self, title, "", "GGUF models (*.gguf);;All files (*)")
        self._show_settings()
        if chosen:
            self.change_setting(kind, model_path(chosen))

    # Look

    def set_appearance(self, appearance: Appearance) -> None:
        self._change(appearance=appearance)
        self._apply_look()

    @Slot()
    def _system_theme_changed(self) -> None:
        if self.settings.appearance == "system" and not self._closed:
            self._apply_look()

    def _apply_look(self) -> None:
        """Palette first, then the style sheet, then whatever paints itself."""
        self._theme = themes.resolve(self.settings.appearance)
        theme, scale = self._theme, self.settings.text_scale
        application = QApplication.instance()
        if isinstance(application, QApplication):
            application.setPalette(themes.palette(theme))
            application.setFont(themes.body_font(scale))
        self.setStyleSheet(stylesheet(theme, scale))
        self.header.set_look(theme, scale)
        self.composer.set_look(theme, scale)
        self.banner.set_look(theme, scale)
        self.welcome.set_look(theme)
        self.panel.set_look(theme, scale)
        self.status.set_look(theme, scale)
        self.transcript.set_look(theme, scale)
        self._make_room()

    def toggle_ghosts(self) -> None:
        self._change(ghosts=not self.settings.ghosts)
        self.transcript.set_ghosts(self.settings.ghosts)

    def toggle_panel(self) -> None:
        """Shows or hides the charts; in a narrow window they show only when asked for."""
        self._change(side_panel=not self.settings.side_panel)

    def larger(self) -> None:
        self._scale(self.settings.text_scale + 0.1)

    def smaller(self) -> None:
        self._scale(self.settings.text_scale - 0.1)

    def normal(self) -> None:
        self._scale(1.0)

    def _scale(self, scale: float) -> None:
        self._change(text_scale=round(min(MAX_SCALE, max(MIN_SCALE, scale)), 2))
        self._apply_look()

    def _make_room(self) -> None:
        self.panel.setVisible(self.settings.side_panel and self.width() >= NARROW * self.settings.text_scale)
        self.status.set_room(self.width(), self.settings.text_scale)
        self.header.set_room(self.width(), self.settings.text_scale)
        self._align()

    def _align(self) -> None:
        column = self.transcript.column_in(self.chat.width())
        self.composer.set_column(column.left(), column.width(), self.chat.width())
        self.welcome.set_column(column.left(), column.width(), self.chat.width())

    def open_options(self) -> None:
        self.options.open_below(self.header.options)

    def show_shortcuts(self) -> None:
        ShortcutSheet(self.commands, self).open()

    def _focus_transcript(self) -> None:
        self.transcript.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _focus_rule(self) -> None:
        self.header.rule.buttons[self.settings.rule].setFocus(Qt.FocusReason.ShortcutFocusReason)

    def export(self) -> None:
        """Writes the conversation's metrics where the user says, as JSON or CSV."""
        chosen, kind = QFileDialog.getSaveFileName(self, "Export metrics", "draftlight-metrics.json", EXPORT_KINDS)
        if not chosen:
            return
        path = Path(chosen)
        if kind.startswith("CSV") and path.suffix.lower() != ".csv":
            path = path.with_suffix(".csv")
        try:
            written = export_session(self.session.trace_paths, path)
        except DraftlightError as error:
            self.banner.show_message(str(error))
        else:
            self.banner.show_message(f"Metrics written to {' and '.join(str(name) for name in written)}.", "note")

    # Qt

    def _place(self, geometry: tuple[int, ...]) -> None:
        self.resize(1440, 900)
        if geometry:
            wanted = QRect(*geometry)
            if any(screen.availableGeometry().intersects(wanted) for screen in QGuiApplication.screens()):
                self.setGeometry(wanted)
        elif (screen := QGuiApplication.primaryScreen()) is not None:
            self.resize(self.size().boundedTo(screen.availableGeometry().size()))
        self.splitter.setSizes([self.width() - self._panel_width(), self._panel_width()])

    def _panel_width(self) -> int:
        scale = self.settings.text_scale
        return round(max(340 * scale, min(560 * scale, self.width() * 0.35)))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self.chat and event.type() == QEvent.Type.Resize:
            self._align()
        return False

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self._painted:
            self._painted = True
            QTimer.singleShot(0, self.first_painted.emit)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.oldSize().width() != event.size().width():
            self.splitter.setSizes([self.width() - self._panel_width(), self._panel_width()])
        self._make_room()

    def closeEvent(self, event: QCloseEvent) -> None:
        if not self._closed:
            self._closed = True
            area = self.geometry()
            self.settings = replace(self.settings, geometry=(area.x(), area.y(), area.width(), area.height()))
            self._save()
            self.hide()
            self._clock.stop()
            self.panel.stop()
            self.ended_in_time = self.link.close()
        event.accept()
