"""The conversation column: welcome page or transcript, and below it the banner and the message field or the replay bar."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QStackedWidget, QWidget

from app.conversation.composer import Composer
from app.conversation.find import FindBar
from app.conversation.link_question import LinkQuestion
from app.conversation.transcript import Transcript
from app.conversation.welcome import Welcome
from app.look import theme as themes
from app.look.banner import Banner
from app.look.motion import moves
from app.look.theme import Theme
from app.look.widgets import announce, in_column, named
from app.look.wording import raw_note
from app.replay.bar import ReplayBar
from app.replay.round_steps import RoundSteps
from app.session.active_settings import active_settings
from app.session.chat import Chat
from app.session.cursor import Cursor
from app.window.status_strip import phase_text

REPLAY_BAR = 720
"""Width of the replay bar in pixels at text scale 1, if there is room: its slider needs more width than a line of text."""
LOCKED_NOTE = (
    "This chat is open in another window, so it can only be read here. Close it there to write here, or continue in a copy."
)
COPY_TITLE = "Continue in a copy"


class ChatColumn(QWidget):
    """Shows the conversation. Its parts are aligned with the lines of text.

    Attributes:
        stack: the welcome page or the transcript.
        steps: a round in slow motion, phase by phase.
        banner: messages.
        lock: replaces the message field while another window has the chat open.

    Signals:
        copy_requested: the user wants to continue, in a copy, a chat that another window has open.
    """

    copy_requested = Signal()

    def __init__(self, chat: Chat, cursor: Cursor) -> None:
        super().__init__()
        named(self, "chatColumn")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._chat, self._session, settings = chat, chat.session, chat.settings
        self.welcome = Welcome()
        self.transcript = Transcript(
            chat.session,
            themes.resolve(settings.appearance),
            settings.text_scale,
            settings.ghosts,
            cursor,
            settings.reading,
        )
        self.find_bar = FindBar(self.transcript)
        self.banner, self.lock = Banner(), Banner()
        self.composer = Composer()
        self.replay_bar = ReplayBar()
        self.replay_bar.hide()
        self.steps = RoundSteps()
        self.stack = QStackedWidget()
        self.stack.addWidget(self.welcome)
        self.stack.addWidget(self.transcript)
        self.stack.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Ignored)  # in a low window it shrinks first
        at_end = (self.banner, self.lock, self.steps, self.composer, self.replay_bar)
        in_column((self.stack, 1), self.find_bar, *at_end, parent=self)
        self.transcript.link_wanted.connect(lambda address: LinkQuestion(address, self.window()).open())

    # State.

    @Slot()
    def refresh(self) -> None:
        """Updates every part to the state of the session and to the settings."""
        session, settings, answer = self._session, self._chat.settings, self._session.running
        self.align()
        self.stack.setCurrentIndex(1 if session.turns else 0)
        self._show_lock()
        self.composer.set_running(answer is not None)
        self.transcript.may_move = (answer is not None or session.replaying) and moves(settings.motion)
        self.transcript.viewport().update()
        self.show_progress()
        if self.transcript.ghosts != settings.ghosts:
            self.transcript.set_ghosts(settings.ghosts)
        if self.transcript.reading != settings.reading:
            self.transcript.set_reading(settings.reading)
            announce(self, "Reading view" if settings.reading else "Token view")
        raw = raw_note(settings.raw, session.answers_messages)
        self.composer.set_raw(bool(raw))
        self.composer.show_active(active_settings(settings, self._chat.preferences.for_new_chats, reads_system=not raw))
        self.welcome.set_raw(bool(raw))
        loads_first = session.model is None and session.loading is not None
        self.composer.show_hint("You can type while the model loads." if loads_first else raw if answer is None else "")
        self.banner.check()

    @Slot()
    def show_progress(self) -> None:
        """Updates the conversation, and the progress that the running answer waits for."""
        self._update_waiting()
        self.transcript.sync()

    @Slot()
    def show_rounds(self) -> None:
        """Adds the new rounds of the running answer; nothing else has changed."""
        self._update_waiting()
        self.transcript.sync(only_rounds=True)

    def _update_waiting(self) -> None:
        session, answer = self._session, self._session.running
        self.transcript.status = "" if answer is None else phase_text(session)
        self.transcript.fraction = None
        if answer is not None and answer.state == "reading" and answer.prefill[1]:
            self.transcript.fraction = answer.prefill[0] / answer.prefill[1]
        elif answer is not None and session.loading is not None:
            self.transcript.fraction = session.loading.fraction

    def _show_lock(self) -> None:
        """Replaces the message field by a note while another window has the chat open, and moves the focus accordingly."""
        replaying = self._session.replaying
        locked = self._session.read_only and not replaying
        if locked != self.lock.isHidden():
            return
        had_focus = self.composer.edit.hasFocus() or self.transcript.hasFocus()
        if locked:
            self.lock.show_message(LOCKED_NOTE, "lock")
            self.lock.show_action(COPY_TITLE, self.copy_requested.emit, keeps_message=True)
        else:
            self.lock.hide()
        self.composer.setVisible(not locked and not replaying)
        self.align()
        if had_focus and not replaying:
            (self.transcript if locked else self.composer.edit).setFocus()

    # Room.

    def set_look(self, theme: Theme, scale: float) -> None:
        """Restyles every part."""
        above = (self.banner, self.lock, self.welcome, self.transcript, self.find_bar)
        for part in (*above, self.steps, self.composer, self.replay_bar):
            part.set_look(theme, scale)

    def align(self) -> None:
        """Aligns every part with the lines of text."""
        width = self.width()
        column = self.transcript.column_in(width)
        for part in (self.composer, self.banner, self.lock, self.find_bar, self.welcome):
            part.set_column(column.left(), column.width(), width)
        bar_column = self.transcript.column_in(width, least=REPLAY_BAR)
        self.replay_bar.set_column(bar_column.left(), bar_column.width(), width)
        above = bar_column if self._session.replaying else column  # the strip is as wide as what is below it
        self.steps.set_column(above.left(), above.width(), width)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.align()
        for part in (self.composer, self.banner, self.lock):
            part.set_room(self.height())
