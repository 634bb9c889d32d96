"""Carries out the user's actions on the shown conversation: connects settings, models, session, store and engine. No widgets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from PySide6.QtCore import QObject, Signal, Slot

from app.look.banner import BannerAction
from app.look.wording import target_title
from app.session import stored_chat
from app.session.chat_keeper import ChatKeeper
from app.session.chat_recorder import ChatRecorder
from app.session.engine_link import EngineLink
from app.session.message_drafts import MessageDrafts
from app.session.model_loader import ModelLoader
from app.session.plain_measurer import PlainMeasurer
from app.session.preferences import Preferences
from app.session.session import Answer, Session, Turn
from app.session.session import Path as Way
from app.session.settings import Settings
from app.session.stored_chat import StoredChat
from engine.chats import ChatStore, Conversation, Figures
from engine.files.model_folder import base_target
from engine.files.paths import traces_folder
from engine.lens.shared_wording import FINISH_WORDS
from engine.rounds.trace import trace_name
from engine.runtime.interface import EngineLike
from engine.types import DecodingOptions, DrafterReady, Event, Message, Request, RunFailed, RunFinished, RunStarted
from engine.values.drafter_kinds import NO_DRAFTER
from engine.values.errors import DraftlightError

LIVE = ("rule", "gamma", "drafter")
"""Settings that take effect in the middle of an answer."""
ELSEWHERE = ("separate_process", "split")
"""Settings that decide where models run."""


class Chat(QObject):
    """One user, one conversation at a time, one engine.

    Args:
        store: opens the chat store; None stores no conversations.

    Attributes:
        session: the conversation and the state of the models, which views show.
        preferences: the settings, and what is stored of the shown conversation.
        models: loads the models of the settings.
        keeper: runs the chat store.
        recorder: writes the conversation to the store as it grows.
        drafts: the drafts of messages, which are stored, too.
        link: sends requests to the engine, and delivers its events.
        measurer: measures the plain speed of answers.
        replaced: the turn that the newest answer is a sibling of.
        deletions: undo functions of deletions in this conversation since it was opened, the newest last.

    Signals:
        received: (events) the session has applied them.
        changed: the session or the settings have changed in another way.
        said: (message, tone, action) a message for the user; tone is "error" or "note", action is a `BannerAction` or None.
        unanswered: (message, may_drop, action) the newest prompt got no complete answer. `may_drop`: it would have got one
            without the oldest turns.
        seed_drawn: (seed or None) the seed of the newest answer.
        finished: (words) the newest answer has ended.
        opened: another conversation is shown, or none.
    """

    received = Signal(list)
    changed = Signal()
    said = Signal(str, str, object)
    unanswered = Signal(str, bool, object)
    seed_drawn = Signal(object)
    finished = Signal(str)
    opened = Signal()

    def __init__(
        self,
        engine: EngineLike,
        settings: Settings,
        settings_path: Path | None,
        parent: QObject,
        store: Callable[[], ChatStore] | None = None,
    ) -> None:
        super().__init__(parent)
        self.replaced: Turn | None = None
        self.deletions: list[Callable[[], None]] = []
        self._before: Way = ()
        self.session = Session()
        self.preferences = Preferences(settings, settings_path, self)
        self.preferences.changed.connect(self.changed)
        self.preferences.not_saved.connect(self.say)
        self.keeper = ChatKeeper(store, self)
        self.recorder = ChatRecorder(self.keeper, self.session, self.preferences, self)
        self.drafts = MessageDrafts(self.keeper, self)
        self.link = EngineLink(engine, self)
        self.link.received.connect(self._received)
        self.models = ModelLoader(self.preferences, self.session, self.link, self.change, self)
        self.models.said.connect(self.said)
        self.measurer = PlainMeasurer(self.session, self.link, lambda: self.settings, self)
        self.measurer.changed.connect(self.changed)
        self.measurer.said.connect(self.said)

    def say(self, message: str, tone: str = "note", action: BannerAction | None = None) -> None:
        """Shows the user a message, as `said`."""
        self.said.emit(message, tone, action)

    # Conversation

    def send(self, text: str, instead_of: int | None = None) -> None:
        """Requests an answer to `text`, which waits if a model is loading. Does nothing while an answer runs or a replay is
        shown.

        Args:
            instead_of: index of the turn whose prompt this one is an alternative to; the same text is answered again.
        """
        if not self.session.idle:
            return
        if instead_of is not None and self.session.turns[instead_of].prompt == text:
            self.regenerate(at=instead_of)
        else:
            self._ask(text, self.settings.options(), instead_of)

    @Slot(int, tuple, int, str)
    def branch(self, at: int, kept: tuple[int, ...], token: int, text: str) -> None:
        """Answers the prompt of a turn again, starting with a prefix of its answer and then another token.

        It uses the seed of the original answer, so that under a drafter-invariant rule only the new token makes a difference.
        """
        if not self.session.idle or not 0 <= at < len(self.session.turns):
            return
        turn, options = self.session.turns[at], self.settings.options()
        if options.seed is None:
            options = options.replace(seed=turn.answer.options.seed)
        self._ask(None, options, at, given=(*kept, token), chosen=text)

    def continue_answer(self, at: int | None = None) -> None:
        """Continues an answer that ended early: that of a turn, or the newest. The result is a sibling. With the tokens and the
        seed of the original, its text is what that would have become. If the user wrote the answer or its trace is lost, its text
        is continued."""
        at = self._last if at is None else at
        if not self.session.idle or not 0 <= at < len(self.session.turns) or self.session.why_not_continue(at):
            return
        answer, options = self.session.turns[at].answer, self.settings.options()
        if not answer.edited:
            options = options.replace(seed=answer.options.seed)
        if answer.unread:
            self.say("The tokens of this answer are still being read. Try again in a moment.")
        elif answer.ids and not answer.edited:
            options = options.replace(max_tokens=len(answer.ids) + options.max_tokens)
            self._ask(None, options, at, given=answer.ids, continues=answer)
        else:
            self._ask(None, options, at, continues=answer)

    def edit_answer(self, at: int, text: str) -> None:
        """Adds an answer written by the user beside that of a turn, and shows it. Later prompts build on it."""
        if not self.session.idle or not 0 <= at < len(self.session.turns):
            return
        model_answer = self.session.turns[at].answer
        self.session.add_edited(at, text)
        made = replace(
            stored_chat.making_of(model_answer, self.settings.system_prompt), figures=Figures(), failure="", edited=True
        )
        self.recorder.add_edited(at, text, made)
        self.changed.emit()

    @property
    def _last(self) -> int:
        return len(self.session.turns) - 1

    def show_sibling(self, by: int, at: int | None = None, prompts: bool = False) -> None:
        """Shows the previous (-1) or next (1) sibling of an answer, that of the last turn by default. With `prompts`, shows the
        previous or next version of the prompt, and what follows it."""
        at = self._last if at is None else at
        session = self.session
        if session.running is not None or session.replaying or not 0 <= at < len(session.turns):
            return
        if session.choose(at, by, prompts) is not None:
            self.recorder.save_shown(at)
            self.changed.emit()

    def _ask(
        self,
        text: str | None,
        options: DecodingOptions,
        instead_of: int | None = None,
        given: tuple[int, ...] = (),
        chosen: str = "",
        continues: Answer | None = None,
    ) -> None:
        """Requests an answer to a new prompt, or without a text, another answer to the prompt of a turn."""
        self.measurer.cancel()
        if self.models.is_pending:
            self.models.load()
        settings, session = self.settings, self.session
        self._before = session.path
        self.replaced = None if instead_of is None else session.turns[instead_of]
        model = target_title(settings.target)
        if text is None:
            assert instead_of is not None
            answer = session.add_answer(instead_of, options, settings.drafter, model)
        else:
            answer = session.add_turn(text, options, settings.drafter, model, instead_of)
        answer.chosen, answer.continues, answer.made_in = chosen, continues, session.engine_place
        answer.dropped = session.turns[-2].answer.dropped if len(session.turns) > 1 else 0
        answer.shows_thought = False
        request = replace(
            self._request(session.messages(settings.system_prompt), answer.dropped),
            options=answer.options,
            conversation=f"window-{session.conversation}",
            trace_path=str(traces_folder() / trace_name(datetime.now(UTC))) if self.keeper.stores else None,
            given=given,
            given_text=continues.text.text if continues is not None and not given else "",
        )
        answer.request = request
        self.recorder.begin(answer)
        self.seed_drawn.emit(None)
        try:
            answer.run_id = self.link.submit(request)
        except DraftlightError as error:
            answer.state, answer.message = "failed", str(error)
            self.recorder.finish(answer)
            self.unanswered.emit(str(error), False, None)
        self.preferences.save_own()
        self.changed.emit()

    def _request(self, messages: tuple[Message, ...], dropped: int) -> Request:
        """Returns a request with the current settings. `dropped`: number of messages left out for the previous answer."""
        return stored_chat.chat_settings(self.settings).request(messages, dropped=dropped)

    def draft_request(self, draft: str, instead_of: int | None = None) -> Request | None:
        """Returns the request that sending a draft would make; with an empty draft, the conversation as it is, or None if that is
        empty, too. `instead_of` is as in `send`."""
        before = self.session.turns[:instead_of]
        messages = self.session.messages_before(draft, self.settings.system_prompt, instead_of)
        if not draft and not before:
            return None
        return self._request(messages, before[-1].answer.dropped if before else 0)

    def regenerate(self, same_seed: bool = False, at: int | None = None) -> None:
        """Answers the last prompt again, or that of a turn; the current answer stays as a sibling. `same_seed` reuses its seed
        unless the settings fix one."""
        at = self._last if at is None else at
        if 0 <= at < len(self.session.turns) and self.session.idle and self.session.turns[at].prompt:
            turn, options = self.session.turns[at], self.settings.options()
            if same_seed and options.seed is None:
                options = options.replace(seed=turn.answer.options.seed)
            self._ask(None, options, at)

    def withdraw(self) -> str:
        """Removes the newest answer, and its prompt if it has no other answer; shows again what it replaced. Returns the
        prompt."""
        turn = self.session.turns[-1]
        self._remove(turn, turn.answer if len(turn.answers) > 1 else None)
        self.session.follow(self._before)
        self._before, self.replaced = (), None
        self.changed.emit()
        return turn.prompt

    def delete(self, at: int, prompt: bool) -> Callable[[], None]:
        """Deletes the prompt of a turn, or its answer, with all that follows. Returns a function that undoes it."""
        turn = self.session.turns[at]
        back = self._remove(turn, None if prompt or not turn.prompt else turn.answer)
        chat, root = self.stored_chat, self.session.root

        def undo() -> None:
            """Restores it in the session, and emits `changed` if the same chat is still shown."""
            self.deletions = [other for other in self.deletions if other is not undo]
            back()
            if self.stored_chat is chat and self.session.root is root:
                self.changed.emit()

        self.deletions.append(undo)
        self.changed.emit()
        return undo

    def _remove(self, turn: Turn, answer: Answer | None) -> Callable[[], None]:
        """Removes an answer, or a whole turn with all that follows. Returns a function that undoes it."""
        back = self.session.remove(turn, answer)
        undelete = self.recorder.delete(answer or (turn if turn.prompt else turn.answer))

        def undo() -> None:
            """Restores it in the session and in the store."""
            back()
            undelete()

        return undo

    def new(self, folder: str = "") -> None:
        """Leaves the conversation for an empty one with the settings of new chats. It will be stored in `folder`."""
        self._leave()
        self.session.clear()
        self.session.read_only = False
        self.keeper.read(lambda store: store.hold.take(None), lambda _: None)
        model, requested = self.session.model, self.models.requested
        is_theirs = model is not None and self.session.target == self.preferences.for_new_chats.target
        self.preferences.open_new_chat(folder, model.sampling if model is not None and is_theirs else None)
        self.models.put_off(requested)
        if self.models.is_pending:
            self.models.load()
        self._show_opened()

    def show(self, conversation: Conversation, models: bool = True, read_only: bool = False) -> None:
        """Shows a conversation from the store with its own settings. Its models are loaded when first needed.

        Args:
            models: whether to take over its models, too.
            read_only: another window has it open and alone may change it.
        """
        self._leave()
        self.session.show(stored_chat.prompt_tree(conversation))
        self.session.read_only = read_only
        requested, chat = self.models.requested, stored_chat.stored_chat_of(conversation)
        self.preferences.open_chat(chat, models)
        self.models.put_off(requested)
        if chat.lacks_model and chat.settings is not None:
            theirs = chat.settings.target
            self.say(
                f"The model of this chat, {target_title(theirs)}, is no longer on this computer ({theirs}). "
                f"New answers come from {target_title(self.settings.target)}."
            )
        self._show_opened()

    def _leave(self) -> None:
        """Ends the current activity; the conversation stays in the store as it is."""
        self.measurer.cancel()
        self.link.release_all()
        running = self.session.running
        self.link.forget()
        if running is not None:
            self.recorder.finish(running)
        self.recorder.save_settings()
        self.replaced, self._before = None, ()
        self.deletions = []

    def _show_opened(self) -> None:
        if self.settings.conversation != self.stored_chat.number:
            self.preferences.set(conversation=self.stored_chat.number)
        self.opened.emit()
        self.changed.emit()

    def set_read_only(self) -> None:
        """Makes the conversation read-only: another window has it now."""
        self.session.read_only = True
        self.changed.emit()

    def stop(self) -> None:
        """Asks the engine to end the answer or the plain run; the text so far stays."""
        if self.session.running is not None or self.session.measurement is not None:
            self.link.release_all()
            self.link.stop_answer()

    # Settings

    @property
    def settings(self) -> Settings:
        """The settings from the next answer on."""
        return self.preferences.current

    @property
    def stored_chat(self) -> StoredChat:
        """The conversation's state in the store."""
        return self.preferences.chat

    @Slot(str, object)
    def change(self, name: str, value: object) -> None:
        """Changes a setting for this chat and for new ones. Settings in `LIVE` also affect a running answer."""
        preferences, models = self.preferences, self.models
        is_wanted_again = name == "drafter" and preferences.wanted_drafter is not None
        if getattr(self.settings, name) == value and not is_wanted_again:
            if name == "target":
                models.load_again()
            elif name != "drafter" and getattr(preferences.for_new_chats, name) != value:
                preferences.set(**{name: value})
            return
        changes = {name: value}
        if name == "drafter":
            preferences.wanted_drafter = None
        elif name == "target":
            changes["drafter"] = preferences.drafter_for(str(value))
            models.chosen_target = str(value)
        preferences.set(**changes)
        preferences.record(name)
        if name in ELSEWHERE:
            self.measurer.cancel()
            models.replace_engine()
        elif self.session.running is not None and name in LIVE:
            if (run := self.link.run_id) is not None:
                self.link.update(run, **{name: value})  # type: ignore[arg-type]
        elif name in ("target", "drafter"):
            models.load()

    @Slot(str, object)
    def change_here(self, name: str, value: object) -> None:
        """Changes a setting from a control of this chat: the system prompt changes for this chat only, other settings as in
        `change`."""
        if name != "system_prompt":
            self.change(name, value)
        elif self.settings.system_prompt != value:
            self.preferences.set_here(system_prompt=value)

    def replace(self, values: Mapping[str, object], words: str = "") -> None:
        """Changes several settings, for this chat and for new ones. If `words` are given, the user is offered to undo it."""
        here, usual = self.preferences.values(values)

        def undo() -> None:
            """Restores the values in this chat and in new ones."""
            self.replace(here)
            self.preferences.restore_for_new_chats(usual)

        for name, value in values.items():
            self.change(name, value)
        if words and not here == usual == values:
            self.preferences.replaced.emit(words, tuple(values), undo)

    @Slot(str)
    def remove_active(self, kind: str) -> None:
        """Removes an active setting of this chat (see `active_settings`): its system prompt, its preset, or the adapter on its
        model."""
        if kind == "system_prompt":
            self.preferences.remove_system_prompt()
        elif kind == "preset":
            self.preferences.leave_preset()
        elif (base := base_target(self.settings.target)) is not None:
            self.change("target", base)

    # Events

    @Slot(list)
    def _received(self, events: list[Event]) -> None:
        for event in events:
            of_plain_run = self.session.measurement is not None or self.settings.drafter != NO_DRAFTER  # even if it was stopped
            if self.measurer.takes(event):
                continue
            if of_plain_run and isinstance(event, DrafterReady) and event.name == NO_DRAFTER:
                continue  # the conversation goes on with its own drafter
            self.session.apply(event)
            self._react(event)
        self.received.emit(events)

    def _react(self, event: Event) -> None:
        answer = self.session.answer
        if isinstance(event, RunFinished | RunFailed) and answer is not None and not answer.running:
            self.recorder.finish(answer)
        self.models.react(event)
        match event:
            case RunStarted(_, options):
                self.seed_drawn.emit(options.seed)
            case RunFinished(finish=finish, trace_error=trace_error):
                self.finished.emit(f"Answer finished: {FINISH_WORDS[finish]}")
                if trace_error:
                    self.say(f"{trace_error} The answer is complete, but its metrics cannot be exported.")
            case RunFailed(_, message, may_drop):
                self.unanswered.emit(message, may_drop, self.models.remedy(event))

    def close(self) -> bool:
        """Closes the engine and writes pending data; returns False if the engine did not end in time."""
        self.link.release_all()
        running = self.session.running
        ended = self.link.close()
        if running is not None:
            self.recorder.finish(running)
        self.recorder.save_settings()
        self.keeper.close()
        return ended
