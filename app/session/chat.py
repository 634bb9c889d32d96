"""Carries out the user's actions: connects the settings, the session and the engine. Paints nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal, Slot

from app.look.message_action import MessageAction
from app.look.wording import drafter_title, target_title
from app.session import settings as stored
from app.session import stored_chat
from app.session.chat_keeper import ChatKeeper, Then, Work
from app.session.engine_link import EngineLink
from app.session.machines import number_of_machines
from app.session.plain_baseline import Baselines
from app.session.plain_measurer import PlainMeasurer
from app.session.presets import PRESET_SETTINGS, preset_of, with_preset, without
from app.session.session import Answer, Session, Turn
from app.session.session import Path as Way
from app.session.settings import Settings
from app.session.states import EngineReplaced, Loading, Nothing, Requested
from app.session.stored_chat import KeptChat
from app.session.unsent import Unsent
from engine.chats import ChatStore, Conversation, Figures
from engine.files.model_folder import base_target
from engine.files.paths import traces_folder
from engine.lens.shared_wording import FINISH_WORDS
from engine.rounds.trace import trace_name
from engine.runtime.interface import EngineLike
from engine.types import (
    DecodingOptions,
    DrafterReady,
    DrafterRefused,
    EngineFailed,
    Event,
    LoadFailed,
    LoadFinished,
    Message,
    Request,
    RunFailed,
    RunFinished,
    RunStarted,
    Sampling,
)
from engine.values.drafter_kinds import NO_DRAFTER, default_drafter, may_fit
from engine.values.errors import DraftlightError
from engine.values.wording import shortened

LIVE = ("rule", "gamma", "drafter")
"""Settings that take effect in the middle of an answer."""
ELSEWHERE = ("separate_process", "split")
"""Settings that decide where models run."""
MOST_RECENT = 6
"""Maximum number of the user's own targets in the list of targets."""


class Chat(QObject):
    """One user, one conversation at a time, one engine.

    Args:
        store: opens the chat store; None stores no conversations.

    Attributes:
        session: the state that views show.
        settings: those that apply from the next answer on.
        usual: settings of new chats, and those saved to the file. A chat has some settings of its own (`settings.OWN`); a chat
            from the store has all those it was last used with.
        keeper: writes the conversation to the store as it grows; None if it is not stored.
        kept: the conversation's state in the store.
        unsent: texts written but not sent.
        replaced: the turn that the newest answer is a sibling of.
        deletions: undo functions of deletions in this conversation since it was opened, the newest last.
        measurer: measures the plain speed of answers.

    Signals:
        received: (events) the session has applied them.
        changed: the session or the settings have changed in another way.
        said: (message, tone, offer) a message for the user; tone is "error" or "note", offer is an `MessageAction` or None.
        unanswered: (message, may_drop, offer) the newest prompt got no complete answer. `may_drop`: it would have got one
            without the oldest turns.
        seed_drawn: (seed or None) the seed of the newest answer.
        finished: (words) the newest answer has ended.
        opened: another conversation is shown, or none.
        stored: the content of the store has changed.
        replaced_settings: (words, names, undo) several settings were replaced.
    """

    received = Signal(list)
    changed = Signal()
    said = Signal(str, str, object)
    unanswered = Signal(str, bool, object)
    seed_drawn = Signal(object)
    finished = Signal(str)
    opened = Signal()
    stored = Signal()
    replaced_settings = Signal(str, object, object)

    def __init__(
        self,
        engine: EngineLike,
        settings: Settings,
        settings_path: Path | None,
        parent: QObject,
        store: Callable[[], ChatStore] | None = None,
    ) -> None:
        super().__init__(parent)
        self.settings = self.usual = settings
        self._file = stored.SettingsFile(settings_path)
        self._own_target = ""
        self._there: tuple[str, str] | None = None  # models once requested, while others are set now
        self._put_aside: str | None = None  # the drafter the user wants, while another stands in
        self._preset_due = ""  # target that was chosen and has not been loaded yet
        self.replaced: Turn | None = None
        self.deletions: list[Callable[[], None]] = []
        self._before: Way = ()
        self.kept = KeptChat()
        self.keeper = None if store is None else ChatKeeper(store, self)
        self.unsent = Unsent(self.keeper, self)
        self.session = Session()
        self.session.drafter = settings.drafter
        self.session.machines = number_of_machines() if settings.split else 1
        self.session.engine_place = (settings.separate_process, settings.split)
        self.session.models = Loading(settings.target, settings.target)  # the window requests it as soon as it is shown
        if settings.new_chat:
            self.settings = replace(settings, **dict(settings.new_chat))
        else:
            self._use_tied_preset()
        self.link = EngineLink(engine, self)
        self.link.received.connect(self._received)
        self.measurer = PlainMeasurer(self.session, self.link, lambda: self.settings, self)
        self.measurer.changed.connect(self.changed)
        self.measurer.said.connect(self.said)

    def say(self, message: str, tone: str = "note", offer: MessageAction | None = None) -> None:
        """Shows the user a message, as `said`."""
        self.said.emit(message, tone, offer)

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

    def go_on(self, at: int | None = None) -> None:
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
        answer = self.session.add_edited(at, text)
        turn, before = self.session.turns[at], self.session.turns[at - 1] if at else None
        made = replace(
            stored_chat.making_of(model_answer, self.settings.system_prompt), figures=Figures(), failure="", edited=True
        )
        work = partial(stored_chat.add_edited, self.kept, before, turn, answer, text, made)
        self._write(work, self._begun, self._write_anew)
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
            self._keep_shown(at)
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
        if self.waits_for_models:
            self.load_models()
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
            trace_path=None if self.keeper is None else str(traces_folder() / trace_name(datetime.now(UTC))),
            given=given,
            given_text=continues.text.text if continues is not None and not given else "",
        )
        answer.request = request
        self._keep_begun(answer)
        self.seed_drawn.emit(None)
        try:
            answer.run_id = self.link.submit(request)
        except DraftlightError as error:
            answer.state, answer.message = "failed", str(error)
            self._keep_end(answer)
            self.unanswered.emit(str(error), False, None)
        self._remember_own()
        self.changed.emit()

    def _request(self, messages: tuple[Message, ...], dropped: int) -> Request:
        """Returns a request with the current settings. `dropped`: number of messages left out for the previous answer."""
        return stored_chat.request_of(stored_chat.chat_settings(self.settings), messages, dropped)

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
        self._take_out(turn, turn.answer if len(turn.answers) > 1 else None)
        self.session.follow(self._before)
        self._before, self.replaced = (), None
        self.changed.emit()
        return turn.prompt

    def delete(self, at: int, prompt: bool) -> Callable[[], None]:
        """Deletes the prompt of a turn, or its answer, with all that follows. Returns a function that undoes it."""
        turn = self.session.turns[at]
        back = self._take_out(turn, None if prompt or not turn.prompt else turn.answer)
        kept, openings = self.kept, self.session.openings

        def undo() -> None:
            """Restores it in the session, and emits `changed` if the same chat is still shown."""
            self.deletions = [other for other in self.deletions if other is not undo]
            back()
            if self.kept is kept and self.session.openings is openings:
                self.changed.emit()

        self.deletions.append(undo)
        self.changed.emit()
        return undo

    def _take_out(self, turn: Turn, answer: Answer | None) -> Callable[[], None]:
        back = self.session.take_out(turn, answer)
        chat, empty = self.kept, not self.session.openings.turns
        kept = turn if answer is None else answer
        if answer is None and not turn.prompt:
            kept = turn.answer

        def gone(store: ChatStore) -> None:
            """Deletes it in the store, too."""
            stored_chat.delete(store, chat, kept.kept_as, empty)

        def there(store: ChatStore) -> None:
            """Undeletes it in the store."""
            stored_chat.undelete(store, chat, kept.kept_as)

        self._write(gone, self.tell_stored)

        def undo() -> None:
            """Restores it in the session and in the store."""
            back()
            self._write(there, self.tell_stored)

        return undo

    def new(self, folder: str = "") -> None:
        """Leaves the conversation for an empty one with the settings of new chats. It will be stored in `folder`."""
        self._leave()
        self.session.clear()
        self.session.read_only = False
        self.kept = KeptChat(folder=folder)
        if self.keeper is not None:
            self.keeper.read(lambda store: store.hold.take(None), lambda _: None)
        self._end_own_settings()
        self._show_opened()

    def show(self, conversation: Conversation, models: bool = True, read_only: bool = False) -> None:
        """Shows a conversation from the store with its own settings. Its models are loaded when first needed.

        Args:
            models: whether to take over its models, too.
            read_only: another window has it open and alone may change it.
        """
        self._leave()
        self.session.show(stored_chat.wordings_of(conversation))
        self.session.read_only = read_only
        self.kept = stored_chat.kept_chat(conversation)
        self._begin_own_settings(models)
        self._show_opened()

    def _begin_own_settings(self, models: bool) -> None:
        """Applies the settings of the chat. The settings of new chats, which are the ones saved, stay unchanged."""
        usual = self.usual
        there = self._there or (self.settings.target, self.settings.drafter)
        own = stored_chat.settings_of(self.kept)
        if not models:
            own = {name: value for name, value in own.items() if name not in ("target", "drafter")}
        self.settings = replace(usual, **own)
        self._own_target = self.settings.target
        self._there = None if there == (self.settings.target, self.settings.drafter) else there
        if self.kept.lacks_model and self.kept.settings is not None:
            theirs = self.kept.settings.target
            self.say(
                f"The model of this chat, {target_title(theirs)}, is no longer on this computer ({theirs}). "
                f"New answers come from {target_title(self.settings.target)}."
            )

    def _end_own_settings(self) -> None:
        """Restores the settings of new chats, including the user's changes, and applies the preset of the model."""
        there = self._there or (self.settings.target, self.settings.drafter)
        model = self.session.model
        if model is not None and self.session.target == self.usual.target and model.sampling is not None:
            self.usual = replace(self.usual, **self.usual.recommendations(model.sampling))
        self.settings, self._there, self._own_target = self.usual, None, ""
        self._use_tied_preset()
        self._remember_own()
        if there != (self.settings.target, self.settings.drafter):
            self.load_models()

    def _use_tied_preset(self) -> None:
        """Applies the preset of the model, if it has one, to a new chat."""
        if (preset := self.settings.preset_for(self.settings.target)) is not None:
            self.settings = replace(self.settings, **preset.values(), preset=preset.name)

    def _keep_own(self, **changes: object) -> None:
        """Applies settings to this chat only."""
        self.settings = replace(self.settings, **changes)  # type: ignore[arg-type]
        self._change_own_settings("system_prompt")
        self._remember_own()
        self.changed.emit()

    def _remember_own(self) -> None:
        """Saves the own settings of a chat that is not in the store yet; after that the store has them."""
        names = () if self.kept.begun else stored.OWN
        own = tuple((name, mine) for name in names if (mine := getattr(self.settings, name)) != getattr(self.usual, name))
        if own != self.usual.new_chat:
            self.keep(new_chat=own)

    @property
    def waits_for_models(self) -> bool:
        """Whether the current models are not yet requested. Those of a chat from the store are loaded when needed."""
        return self._there is not None

    def _leave(self) -> None:
        """Ends the current activity; the conversation stays in the store as it is."""
        self.measurer.cancel()
        running = self.session.running
        self.link.forget()
        if running is not None:
            self._keep_end(running)
        self._keep_own_settings()
        self.replaced, self._before = None, ()
        self.deletions = []

    def _show_opened(self) -> None:
        if self.settings.conversation != self.kept.number:
            self.keep(conversation=self.kept.number)
        self.opened.emit()
        self.changed.emit()

    # Writing to the store.

    def _keep_begun(self, answer: Answer) -> None:
        if answer.request is None or answer.request.trace_path is None:
            return
        turns = self.session.turns
        made = stored_chat.making_of(answer, self.settings.system_prompt)
        before, turn = turns[-2] if len(turns) > 1 else None, turns[-1]
        self.kept.settings, self.kept.lacks_model = stored_chat.chat_settings(self.settings), False
        work = partial(stored_chat.begin, self.kept, before, turn, answer, made, answer.request.trace_path)
        self._write(work, self._begun, self._write_anew)

    def _write(self, work: Work, then: Then | None = None, failed: Then | None = None) -> None:
        """Writes to the store, as `ChatKeeper.write`, if there is one."""
        if self.keeper is not None:
            self.keeper.write(work, then, failed)

    def _keep_own_settings(self) -> None:
        """Stores the settings of the conversation if they have changed."""
        if self.kept.settings is not None and not self.session.read_only:
            self._write(partial(stored_chat.keep_settings, self.kept, self.kept.settings))

    def _begun(self, chat: KeptChat) -> None:
        """Saves the conversation's new number, so that the next start shows it again."""
        if chat is self.kept and self.settings.conversation != chat.number:
            self.keep(conversation=chat.number)
        self.stored.emit()

    @Slot(str)
    def _write_anew(self, reason: str) -> None:
        """Stores the conversation as a new one, after it was deleted elsewhere or lost with a damaged store."""
        settings = stored_chat.chat_settings(self.settings)
        self._write(partial(stored_chat.write_anew, self.kept, self.session.openings, settings), self._begun)

    def _keep_end(self, answer: Answer) -> None:
        """Stores the final state of an answer."""
        if answer.request is None:
            return
        path = answer.request.trace_path
        if answer.result is not None and answer.result.trace_path is None:
            path = None
        state, text = stored_chat.state_of(answer), answer.text.text
        made = stored_chat.making_of(answer, self.settings.system_prompt)
        self._write(lambda store: stored_chat.finish(store, answer, state, text, made, path), self.tell_stored)

    def _keep_shown(self, at: int) -> None:
        """Stores which messages are shown from a turn on."""
        if not self.session.read_only:
            turns = tuple(self.session.turns[at:])
            self._write(lambda store: stored_chat.show(store, turns))

    def set_read_only(self) -> None:
        """Makes the conversation read-only: another window has it now."""
        self.session.read_only = True
        self.changed.emit()

    def tell_stored(self, _: object) -> None:
        """Emits `stored` after a write."""
        self.stored.emit()

    def stop(self) -> None:
        """Asks the engine to end the answer or the plain run; the text so far stays."""
        if self.session.running is not None or self.session.measurement is not None:
            self.link.stop_answer()

    # Settings

    @Slot(str, object)
    def change(self, name: str, value: object) -> None:
        """Changes a setting for this chat and for new ones. Settings in `LIVE` also affect a running answer."""
        wished_again = name == "drafter" and self._put_aside is not None
        if getattr(self.settings, name) == value and not wished_again:
            if name not in ("target", "drafter") and getattr(self.usual, name) != value:
                self.keep(**{name: value})
            failed = self.session.model is None and not self.link.busy  # the cause may be gone
            if name == "target" and (failed or self.waits_for_models):
                self.load_models()
            return
        changes = {name: value}
        if name == "drafter":
            self._put_aside = None
        elif name == "target":
            changes["drafter"] = self._drafter_for(str(value))
            self._preset_due = str(value)
        self.keep(**changes)
        if name in stored.OWN:
            self._remember_own()
        if name in ELSEWHERE:
            self._exchange_engine()
        self._change_own_settings(name)
        if self.session.running is not None and name in LIVE:
            if (run := self.link.run_id) is not None:
                self.link.update(run, **{name: value})  # type: ignore[arg-type]
        elif name in ("target", "drafter"):
            self.load_models()

    @Slot(str, object)
    def change_here(self, name: str, value: object) -> None:
        """Changes a setting from a control of this chat: the system prompt changes for this chat only, other settings as in
        `change`."""
        if name != "system_prompt":
            self.change(name, value)
        elif self.settings.system_prompt != value:
            self._keep_own(system_prompt=value)

    def replace(self, values: Mapping[str, object], words: str = "") -> None:
        """Changes several settings, for this chat and for new ones. If `words` are given, `replaced_settings` offers to undo
        it."""
        before = [{name: getattr(settings, name) for name in values} for settings in (self.settings, self.usual)]
        for name, value in values.items():
            self.change(name, value)
        if words and before != [values, values]:
            self.replaced_settings.emit(words, tuple(values), partial(self._take_back, *before))

    def _take_back(self, here: Mapping[str, object], usual: Mapping[str, object]) -> None:
        for name, value in here.items():
            self.change(name, value)
        self.usual = replace(self.usual, **usual)  # type: ignore[arg-type]
        self.keep()
        self._remember_own()

    def _exchange_engine(self) -> None:
        """Replaces the engine by one that runs where the settings say, and reloads the models if they were loaded."""
        wanted = (self.session.model is not None or self.link.busy) and not self.waits_for_models
        self.measurer.cancel()
        self.link.exchange(self.settings)
        self.session.apply(EngineReplaced())
        self.session.machines = number_of_machines() if self.settings.split else 1
        self.session.engine_place = (self.settings.separate_process, self.settings.split)
        self.session.baselines = Baselines()  # plain speed differs there
        if wanted:
            self.load_models()

    def change_models(self, target: str, drafter: str) -> None:
        """Changes target and drafter together, so that neither is tried with the other's old value."""
        self._put_aside = None
        self.keep(target=target, drafter=drafter)
        self._change_own_settings("target")
        self.load_models()

    def _change_own_settings(self, name: str) -> None:
        """Copies a user's change into the settings of the conversation."""
        before, now = self.kept.settings, stored_chat.chat_settings(self.settings)
        if before is not None:
            if self.kept.lacks_model and name != "target":
                now = replace(now, target=before.target, drafter=before.drafter)
            self.kept.settings, self.kept.lacks_model = now, self.kept.lacks_model and name != "target"

    # Presets

    def use_preset(self, name: str) -> None:
        """Applies a preset."""
        preset = next((each for each in self.settings.presets if each.name == name), None)
        if preset is None:
            return
        prompts = [each.system_prompt for each in self.settings.presets]
        lost = self.settings.system_prompt.strip() and self.settings.system_prompt not in prompts
        before = {each: getattr(self.settings, each) for each in stored.OWN}
        self._keep_own(**preset.values(), preset=name)
        if lost and before["system_prompt"] != preset.system_prompt:
            words = f"The preset “{name}” has replaced your system prompt."
            self.replaced_settings.emit(words, stored.OWN, partial(self._keep_own, **before))

    @Slot(str)
    def remove_active(self, kind: str) -> None:
        """Removes an active setting of this chat (`app.session.active`): its system prompt, its preset, or the adapter on its
        model."""
        if kind == "adapter":
            if (base := base_target(self.settings.target)) is not None:
                self.change("target", base)
            return
        before = [{each: getattr(settings, each) for each in stored.OWN} for settings in (self.settings, self.usual)]
        if kind == "system_prompt":
            words = "The system prompt has been removed from this chat."
            if self.usual.system_prompt.strip():
                words += " New chats still begin with that of the settings."
            self._keep_own(system_prompt="")
        else:
            preset = self.settings.preset_in_force
            words = "" if preset is None else f"The preset “{preset.name}” is no longer used."
            self._leave_preset()
        self.replaced_settings.emit(words, stored.OWN, partial(self._take_back_own, *before))

    def _leave_preset(self) -> None:
        """Restores the sampling and system prompt of new chats or, if these equal the preset, the defaults."""
        preset, usual = self.settings.preset_in_force, {name: getattr(self.usual, name) for name in PRESET_SETTINGS}
        if preset is not None and usual == preset.values():
            self.keep(preset="", **{name: self.usual.default(name) for name in PRESET_SETTINGS})
            self._change_own_settings("system_prompt")
            self._remember_own()
        else:
            self._keep_own(**usual, preset="")

    def _take_back_own(self, here: dict[str, object], usual: dict[str, object]) -> None:
        self.usual = replace(self.usual, **usual)  # type: ignore[arg-type]
        self._keep_own(**here)
        self.keep()

    def save_preset(self, name: str) -> None:
        """Saves the current system prompt and sampling as a preset, replacing any of the same name."""
        preset = preset_of(self.settings, name)
        self.keep(presets=with_preset(self.settings.presets, preset), preset=preset.name)

    def delete_preset(self, name: str) -> Callable[[], None]:
        """Deletes a preset and its ties to models. Returns a function that undoes it."""
        presets, models = self.settings.presets, self.settings.model_presets
        self.keep(presets=without(presets, name), model_presets=tuple(pair for pair in models if pair[1] != name))
        return lambda: self.keep(presets=presets, model_presets=models)

    def tie_preset(self, name: str) -> None:
        """Ties a preset to the current target, so that it applies whenever that target is chosen; an empty name unties it."""
        target = self.settings.target
        others = tuple(pair for pair in self.settings.model_presets if pair[0] != target)
        self.keep(model_presets=(*others, (target, name)) if name else others)

    def _use_due_preset(self) -> None:
        """Applies the preset of a target that the user chose, once it is loaded. It takes precedence over its publisher's
        recommendations."""
        due, self._preset_due = self._preset_due, ""
        if due == self.session.target and (preset := self.settings.preset_for(due)) is not None:
            self.use_preset(preset.name)

    def _drafter_for(self, target: str) -> str:
        """Returns the drafter the user wants, or a generic one if that fits only the built-in target."""
        wished = self._put_aside or self.settings.drafter
        fits = may_fit(wished, target)
        self._put_aside = None if fits else wished
        return wished if fits else default_drafter()

    def keep(self, **changes: object) -> None:
        """Changes settings and saves them. A stand-in drafter is not saved, nor are settings that belong only to a chat from the
        store."""
        self.settings = replace(self.settings, **changes)  # type: ignore[arg-type]
        self.usual = replace(self.usual, **changes)  # type: ignore[arg-type]
        lasting = self.usual
        if self._put_aside is not None and may_fit(self._put_aside, lasting.target):
            lasting = replace(lasting, drafter=self._put_aside)
        if problem := self._file.save(lasting):
            self.say(problem)
        self.changed.emit()

    def _load_anyway(self, refused: LoadFailed | DrafterRefused) -> None:
        """Loads a model that was refused for lack of memory."""
        if isinstance(refused, LoadFailed):
            self.keep(target=refused.name, drafter=self._drafter_for(refused.name))
        else:
            self.keep(drafter=refused.name)
        self.load_models(anyway=refused.name)

    def load_models(self, anyway: str = "") -> None:
        """Loads the models of the settings. `anyway` names one to load despite too little memory."""
        self.session.apply(Requested(self.settings.target, self.settings.drafter))
        self._there = None
        if anyway:
            self.link.ignore_memory(anyway)
        self.link.load(self.settings.target, self.settings.drafter)

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
        session = self.session
        if isinstance(event, RunFinished | RunFailed) and session.answer is not None and not session.answer.running:
            self._keep_end(session.answer)
        match event:
            case LoadFinished(model):
                self._remember(session.target)
                if model.sampling is not None and model.sampling != self.settings.recommended:
                    self._take_recommended(model.sampling)
                self._use_due_preset()
            case LoadFailed(name, message):
                self.say(message, "error", self._remedy(event))
                if name in self.settings.recent_models and not event.may_force:
                    self.keep(recent_models=tuple(one for one in self.settings.recent_models if one != name))
                if session.model is not None and self.settings.target == name:
                    before = session.target  # still loaded
                    self.keep(target=before, drafter=self._drafter_for(before))
            case DrafterReady(warning=warning) if warning:
                self.say(warning)
            case DrafterRefused():
                self._stand_in(event)
            case RunStarted(_, options):
                self.seed_drawn.emit(options.seed)
            case RunFinished(finish=finish, trace_error=trace_error):
                self.finished.emit(f"Answer finished: {FINISH_WORDS[finish]}")
                if trace_error:
                    self.say(f"{trace_error} The answer is complete, but its metrics cannot be exported.")
            case RunFailed(_, message, may_drop):
                self.unanswered.emit(message, may_drop, self._remedy(event))
            case EngineFailed(message):
                self.say(message, "error", self._remedy(event))

    def _remedy(self, failure: LoadFailed | DrafterRefused | RunFailed | EngineFailed) -> MessageAction | None:
        """Returns a remedy for a failure: to load a model despite too little memory, to use this machine alone, or to use a model
        that can be loaded."""
        refused = failure.refused if isinstance(failure, RunFailed) else failure
        if isinstance(refused, LoadFailed | DrafterRefused) and refused.may_force:
            return MessageAction("Load anyway", partial(self._load_anyway, refused))
        if self.settings.split and not isinstance(failure, DrafterRefused):
            return MessageAction("Use this machine alone", partial(self.change, "split", False))
        answer = self.session.answer
        # The answer had begun: another model would not bring the rest of it.
        had_model = isinstance(failure, RunFailed) and answer is not None and bool(answer.rounds)
        if isinstance(failure, LoadFailed | RunFailed) and isinstance(self.session.models, Nothing | Loading) and not had_model:
            built_in = self.settings.target == "builtin"  # choosing it again retries the load
            return MessageAction("Try again" if built_in else "Use the built-in model", partial(self.change, "target", "builtin"))
        return None

    def _remember(self, target: str) -> None:
        """Puts a target of the user's own that was loaded at the top of the recent ones."""
        recent = self.settings.recent_models
        if target not in ("", "builtin", *recent[:1]):
            others = (one for one in recent if one != target)
            self.keep(recent_models=(target, *others)[:MOST_RECENT])

    def _take_recommended(self, sampling: Sampling) -> None:
        """Applies the target publisher's recommended sampling; a chat from the store with this target keeps its own."""
        target, prompt = self.session.target, self.settings.system_prompt
        own = target == self._own_target
        if self.usual.target == target:
            self.usual = replace(self.usual, **self.usual.recommendations(sampling))
        if self.settings.target == target:
            changes = {"recommended": sampling} if own else self.settings.recommendations(sampling)
            self.settings = replace(self.settings, **changes)
        self.keep()
        if self.settings.system_prompt not in ("", prompt):
            words = shortened(self.settings.system_prompt)
            self.say(f"{target_title(target)} comes with a system prompt: “{words}” The options have it.")

    def _stand_in(self, event: DrafterRefused) -> None:
        """Falls back from an unusable drafter to the previous one, or to none, unless the user has chosen another meanwhile."""
        refused, offer = event.name, self._remedy(event)
        if self.settings.drafter != refused:
            self.say(event.message, "error", offer)
            return
        before = self.session.drafter
        if not may_fit(before, self.settings.target):
            before = NO_DRAFTER
        if before == refused:
            before = NO_DRAFTER
            if not self.session.was_ready(refused):  # if it fitted only an earlier target, it is no longer wanted
                self._put_aside = refused
        going_on = "without a drafter" if before == NO_DRAFTER else f"with {drafter_title(before)}"
        self.say(f"{event.message} Continuing {going_on}.", "error", offer)
        self.keep(drafter=before)

    def close(self) -> bool:
        """Closes the engine and writes pending data; returns False if the engine did not end in time."""
        running = self.session.running
        ended = self.link.close()
        if running is not None:
            self._keep_end(running)
        self._keep_own_settings()
        if self.keeper is not None:
            self.keeper.close()
        return ended
