"""The actions on messages: regenerate, edit, continue, delete, compare, copy; the offer of another temperature after a change of
rule; and what to do after an answer failed or ended early."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Slot
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QWidget

from app.conversation.answer_editor import AnswerEditor
from app.conversation.message_tools import MessageAction
from app.look import theme as themes
from app.look.banner import BannerAction
from app.look.widgets import announce
from app.panel.panel import SidePanel
from app.session.chat import Chat
from app.session.session import Answer
from app.window.chat_column import ChatColumn
from app.window.chats_controller import ChatsController
from app.window.editing import Editing
from app.window.pages import Pages
from app.window.replay_controller import ReplayController
from app.window.rule_bars import pending_changes
from engine.lens.rule_comparison import WARM, rules_nearly_coincide
from engine.values.drafter_kinds import NO_DRAFTER

LEAVE_OUT = "Leave out the oldest turns"


class Messages(QObject):
    """Carries out the actions that menus, shortcuts and messages trigger, through the chat.

    Attributes:
        editing: tracks which prompt is in the message field.
    """

    def __init__(
        self,
        chat: Chat,
        column: ChatColumn,
        panel: SidePanel,
        pages: Pages,
        chats: ChatsController,
        replays: ReplayController,
        window: QWidget,
    ) -> None:
        super().__init__(window)
        self._chat, self._session, self._panel, self._pages, self._window = chat, chat.session, panel, pages, window
        self._banner, self._transcript, self._composer = column.banner, column.transcript, column.composer
        self._chats, self._replays = chats, replays
        self.editing = Editing(column.composer, chat)
        self._regenerates_when_stopped = False

    @Slot()
    def regenerate(self, same_seed: bool = False) -> None:
        """Answers the last prompt again."""
        if self._session.running is None and not self._session.read_only:
            self._banner.hide()
            self._transcript.follow()
            self._chat.regenerate(same_seed)

    @Slot()
    def edit_last(self) -> None:
        """Takes the last prompt back into the message field; the next message becomes another version of it."""
        if self._session.turns:
            self.edit(len(self._session.turns) - 1)

    def edit(self, at: int) -> None:
        """Takes the prompt of a turn into the message field; the next message becomes another version of it."""
        if self._session.idle:
            self.editing.begin(at)

    def cancel_editing(self) -> None:
        """Ends editing and offers to undo the discarded changes."""
        undo = self.editing.cancel()
        if undo is not None:
            self._banner.show_message("The changes to your prompt are discarded.", "note")
            self._banner.show_action("Undo", undo)

    def edit_answer(self, at: int) -> None:
        """Opens an editor for another version of an answer."""
        answer = self._session.turns[at].answer
        editor = AnswerEditor(answer.text.text, themes.reading_font(self._chat.settings.text_scale), self._window)
        editor.edited.connect(partial(self._add_version, answer))
        editor.open()

    def _add_version(self, answer: Answer, text: str) -> None:
        """Adds the edited text, if the answer's chat is still shown."""
        at = next((at for at, turn in enumerate(self._session.turns) if turn.answer is answer), None)
        if at is not None:
            self._chat.edit_answer(at, text)

    @Slot(int, int, bool)
    def show_sibling(self, at: int, by: int, prompts: bool = False) -> None:
        """Shows the previous (-1) or next (1) answer of a turn, or version of its prompt."""
        self._chat.show_sibling(by, at, prompts)
        self.editing.resume()
        if (turns := self._session.turns[at : at + 1]) and self._session.running is None:
            turn = turns[0]
            index, count = turn.version if prompts else (turn.shown, len(turn.answers))
            announce(self._window, f"{'Prompt' if prompts else 'Answer'} {index + 1} of {count}")

    def step_sibling(self, by: int, prompts: bool = False) -> None:
        """Does `show_sibling` in the turn that is pinned, or the last."""
        self.show_sibling(self._panel.shown.turn, by, prompts)

    def go_on(self) -> None:
        """Continues the answer that is pinned, or the last."""
        self.perform("continue", self._panel.shown.turn, False)

    def delete_last(self) -> None:
        """Deletes the newest answer, or a prompt without one."""
        turns = self._session.turns
        if turns and self._session.idle:
            self.perform("delete", len(turns) - 1, turns[-1].answer.missing or not turns[-1].prompt)

    @Slot(str, int, bool)
    def perform(self, action: MessageAction, at: int, prompt: bool) -> None:
        """Carries out an entry of a message's menu."""
        chat, turn = self._chat, self._session.turns[at]
        if action == "copy":
            text = turn.answer.text
            QGuiApplication.clipboard().setText(turn.prompt if prompt else text.answer or text.text)
        elif not self._session.idle and not (self._session.read_only and action in ("replay", "compare", "new chat")):
            return
        elif action == "edit":
            self.edit(at) if prompt else self.edit_answer(at)
        elif action == "replay":
            self._replays.open(Path(turn.answer.trace_path or ""))
        elif action == "compare":
            self._pages.compare_answer(turn)
        elif action == "delete":
            undo = chat.delete(at, prompt)
            self._banner.show_message(f"{'Prompt' if prompt else 'Answer'} deleted.", "note")
            self._banner.show_action("Undo", partial(self._undelete, undo))
        elif action == "new chat":
            self._chats.duplicate(at)
        else:
            self._banner.hide()
            self._transcript.follow()
            chat.regenerate(at=at) if action == "regenerate" else self._continue(at)

    def _continue(self, at: int) -> None:
        """Continues an answer. If it filled the context, the oldest turns are left out from then on, and the user is informed."""
        if self._session.turns[at].answer.finish == "context" and self._chat.settings.overflow != "drop":
            self._chat.change("overflow", "drop")
            self._banner.show_message("The context was full, so the oldest turns are left out from now on.", "note")
        self._chat.continue_answer(at)

    def undo_delete(self) -> None:
        """Undoes the last deletion, even after the banner that offered it has gone."""
        if self._chat.deletions and self._session.idle:
            self._banner.hide()
            self._undelete(self._chat.deletions[-1])

    def _undelete(self, undo: Callable[[], None]) -> None:
        undo()
        self.editing.resume()

    @Slot()
    def apply_remedy(self) -> None:
        """Carries out the action of the button beside the rules: regenerates the answer if changed settings apply only to the
        next one, else shows the rules apart."""
        if pending_changes(self._session, self._chat.settings):
            self._composer.edit.setFocus()  # the pressed button disappears
            self.regenerate(same_seed=True)
        else:
            self.raise_temperature()

    def raise_temperature(self) -> None:
        """Sets a temperature at which the rules differ, and answers the last prompt again with the same seed. A running answer is
        stopped first and stays as a sibling."""
        self._composer.edit.setFocus()  # the pressed button disappears
        self._chat.change("temperature", WARM)
        self._regenerates_when_stopped = self._session.running is not None
        if self._regenerates_when_stopped:
            self._chat.stop()
        elif self._session.turns and not self._session.replaying:
            self.regenerate(same_seed=True)

    # A temperature at which the rules differ, when the user chooses a rule at one where they hardly do.

    @Slot(str, object)
    def offer_warmer(self, setting: str, _: object = None) -> None:
        """Offers it if the rule was changed, and the temperature alone keeps the rules alike."""
        if setting != "rule" or not self._would_warmer_help():
            return
        temperature = self._temperature
        alike = "the same tokens" if temperature == 0 else "nearly the same tokens"
        self._banner.show_message(
            f"At temperature {temperature:g} all rules accept {alike}, so another rule shows little. At {WARM:g} they differ.",
            "note",
            is_valid=self._would_warmer_help,
        )
        title = "Answer again at" if self._session.turns else "Set temperature to"
        self._banner.show_action(f"{title} {WARM:g}", self.raise_temperature)

    @property
    def _temperature(self) -> float:
        """That of the running answer, which keeps its own, else that of the next one."""
        running = self._session.running
        return self._chat.settings.temperature if running is None else running.options.temperature

    def _would_warmer_help(self) -> bool:
        session, drafter = self._session, self._chat.settings.drafter
        if session.replaying or session.read_only or drafter == NO_DRAFTER or not session.has_distribution(drafter):
            return False
        return rules_nearly_coincide(self._chat.settings.options().replace(temperature=self._temperature))

    # After an answer failed or ended early.

    @Slot(str, bool, object)
    def restore_prompt(self, message: str, may_drop: bool, action: BannerAction | None) -> None:
        """Reports the failure. Without any answer, the prompt goes back to the message field, and a turn it replaced is shown
        again."""
        self._chat.say(message, "error", action)
        newest, replaced = self._session.turns[-1], self._chat.replaced
        if newest.answer.tally.rounds:
            return
        if replaced is newest:
            self._chat.withdraw()
        elif not self._composer.text.strip():
            prompt, turns = self._chat.withdraw(), self._session.turns
            self.editing.restore_text(prompt, next((at for at, turn in enumerate(turns) if turn is replaced), None))
        if may_drop:
            callback = self.regenerate if replaced is newest else self._composer.submit
            self._banner.show_action(LEAVE_OUT, partial(self._leave_out_oldest, callback))

    def _leave_out_oldest(self, callback: Callable[[], object]) -> None:
        """Leaves out the oldest turns from now on when the context is full."""
        self._chat.change("overflow", "drop")
        callback()

    def offer_leaving_out(self) -> None:
        """Offers to leave out old turns, after the newest answer ended because the context is full."""
        self._banner.show_message("The context is full, so the answer ends here. It can go on without the oldest turns.", "note")
        self._banner.show_action(LEAVE_OUT, partial(self._leave_out_oldest, self.go_on))

    def regenerate_if_pending(self) -> None:
        """Starts the pending regeneration once the stopped answer has ended."""
        if self._regenerates_when_stopped and self._session.running is None:
            self._regenerates_when_stopped = False
            self.regenerate(same_seed=True)

    def forget(self) -> None:
        """Cancels a pending regeneration: a new conversation has begun."""
        self._regenerates_when_stopped = False
