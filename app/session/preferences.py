"""The settings in force in the shown chat, over those that new chats begin with, and the presets that change both.

New chats begin with the settings of the file. A chat has some settings of its own (`settings.OWN`), which end with it; one from
the store has all those that it was last used with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.session import settings as stored
from app.session import stored_chat
from app.session.settings import PRESET_SETTINGS, Settings, preset_of, with_preset, without
from app.session.stored_chat import StoredChat
from engine.types import Sampling
from engine.values.drafter_kinds import default_drafter, may_fit

Values = dict[str, object]


class Preferences(QObject):
    """Changes, saves and restores settings, without acting on the engine: see `Chat.change`.

    Attributes:
        current: the settings from the next answer on.
        for_new_chats: the settings that new chats begin with, which the file has.
        chat: the shown chat as the store has it; it records the user's changes of its settings.
        wanted_drafter: the drafter that the user wants while another one stands in for it; None if none does.

    Signals:
        changed: some settings have changed.
        not_saved: (message) the file cannot be written.
        replaced: (words, names, undo) several settings were replaced at once.
    """

    changed = Signal()
    not_saved = Signal(str)
    replaced = Signal(str, object, object)

    def __init__(self, settings: Settings, path: Path | None, parent: QObject) -> None:
        super().__init__(parent)
        self.current = self.for_new_chats = settings
        self.chat = StoredChat()
        self.wanted_drafter: str | None = None
        self._file = stored.SettingsFile(path)
        self._own_target = ""
        if settings.new_chat:
            self.current = replace(settings, **dict(settings.new_chat))
        else:
            self._apply_tied_preset()

    def set(self, **changes: object) -> None:
        """Changes settings of this chat and of new ones, and saves them. A drafter that stands in for another is not saved, nor
        are settings that only a chat from the store has."""
        self.current = replace(self.current, **changes)  # type: ignore[arg-type]
        self.for_new_chats = replace(self.for_new_chats, **changes)  # type: ignore[arg-type]
        lasting = self.for_new_chats
        if self.wanted_drafter is not None and may_fit(self.wanted_drafter, lasting.target):
            lasting = replace(lasting, drafter=self.wanted_drafter)
        if problem := self._file.save(lasting):
            self.not_saved.emit(problem)
        self.changed.emit()

    def set_here(self, **changes: object) -> None:
        """Changes settings of this chat only."""
        self.current = replace(self.current, **changes)  # type: ignore[arg-type]
        self.record("system_prompt")
        self.changed.emit()

    def record(self, name: str) -> None:
        """Records that the user has changed a setting in this chat, which gets it back when it is opened again."""
        before, now = self.chat.settings, stored_chat.chat_settings(self.current)
        if before is not None:
            if self.chat.lacks_model and name != "target":
                now = replace(now, target=before.target, drafter=before.drafter)
            self.chat.settings, self.chat.lacks_model = now, self.chat.lacks_model and name != "target"
        self.save_own()

    def save_own(self) -> None:
        """Saves the own settings of a chat that is not in the store yet to the file; after that the store has them."""
        names = () if self.chat.is_begun else stored.OWN
        own = tuple((name, mine) for name in names if (mine := getattr(self.current, name)) != getattr(self.for_new_chats, name))
        if own != self.for_new_chats.new_chat:
            self.set(new_chat=own)

    def values(self, names: Iterable[str]) -> tuple[Values, Values]:
        """Returns the values of settings in this chat and in new ones, to restore them later."""
        here, usual = ({name: getattr(each, name) for name in names} for each in (self.current, self.for_new_chats))
        return here, usual

    def restore_for_new_chats(self, values: Mapping[str, object]) -> None:
        """Restores earlier values of new chats; those of this chat stay."""
        self.for_new_chats = replace(self.for_new_chats, **values)  # type: ignore[arg-type]
        self.set()
        self.save_own()

    def drafter_for(self, target: str) -> str:
        """Returns the drafter the user wants, or a generic one if that fits only the built-in target."""
        wanted = self.wanted_drafter or self.current.drafter
        fits = may_fit(wanted, target)
        self.wanted_drafter = None if fits else wanted
        return wanted if fits else default_drafter()

    # Chats

    def open_chat(self, chat: StoredChat, with_models: bool) -> None:
        """Applies the settings of a chat from the store, and if `with_models`, its models, too. Those of new chats stay."""
        self.chat = chat
        own = stored_chat.settings_of(chat)
        if not with_models:
            own = {name: value for name, value in own.items() if name not in ("target", "drafter")}
        self.current = replace(self.for_new_chats, **own)
        self._own_target = self.current.target

    def open_new_chat(self, folder: str, recommended: Sampling | None) -> None:
        """Applies the settings of new chats, and the preset of their model.

        Args:
            folder: the folder that the chat is stored in.
            recommended: the recommended sampling of their target; None if that is not loaded, or has none.
        """
        self.chat = StoredChat(folder=folder)
        if recommended is not None:
            self.for_new_chats = replace(self.for_new_chats, **self.for_new_chats.recommendations(recommended))
        self.current, self._own_target = self.for_new_chats, ""
        self._apply_tied_preset()
        self.save_own()

    def recommend(self, target: str, sampling: Sampling) -> None:
        """Applies the sampling that the publisher of a loaded target recommends; a chat from the store with this target keeps
        its own."""
        if self.for_new_chats.target == target:
            self.for_new_chats = replace(self.for_new_chats, **self.for_new_chats.recommendations(sampling))
        if self.current.target == target:
            own = target == self._own_target
            changes = {"recommended": sampling} if own else self.current.recommendations(sampling)
            self.current = replace(self.current, **changes)
        self.set()

    # Presets

    def _apply_tied_preset(self) -> None:
        """Applies the preset of the model, if it has one, to a new chat."""
        if (preset := self.current.preset_for(self.current.target)) is not None:
            self.current = replace(self.current, **preset.values(), preset=preset.name)

    def use_preset(self, name: str) -> None:
        """Applies a preset to this chat."""
        preset = next((each for each in self.current.presets if each.name == name), None)
        if preset is None:
            return
        before, prompts = self.values(stored.OWN)[0], [each.system_prompt for each in self.current.presets]
        lost = self.current.system_prompt
        self.set_here(**preset.values(), preset=name)
        if lost.strip() and lost not in prompts and lost != preset.system_prompt:
            words = f"The preset “{name}” has replaced your system prompt."
            self.replaced.emit(words, stored.OWN, partial(self.set_here, **before))

    def remove_system_prompt(self) -> None:
        """Removes the system prompt of this chat."""
        before = self.values(stored.OWN)
        words = "The system prompt has been removed from this chat."
        if self.for_new_chats.system_prompt.strip():
            words += " New chats still begin with that of the settings."
        self.set_here(system_prompt="")
        self.replaced.emit(words, stored.OWN, partial(self._restore_own, *before))

    def leave_preset(self) -> None:
        """Restores the sampling and system prompt of new chats or, if these equal the preset, the defaults."""
        before, preset, usual = self.values(stored.OWN), self.current.preset_in_force, self.values(PRESET_SETTINGS)[1]
        if preset is not None and usual == preset.values():
            self.set(preset="", **{name: self.for_new_chats.default(name) for name in PRESET_SETTINGS})
            self.record("system_prompt")
        else:
            self.set_here(**usual, preset="")
        words = "" if preset is None else f"The preset “{preset.name}” is no longer used."
        self.replaced.emit(words, stored.OWN, partial(self._restore_own, *before))

    def _restore_own(self, here: Values, usual: Values) -> None:
        self.for_new_chats = replace(self.for_new_chats, **usual)  # type: ignore[arg-type]
        self.set_here(**here)
        self.set()

    def save_preset(self, name: str) -> None:
        """Saves the current system prompt and sampling as a preset, replacing any of the same name."""
        preset = preset_of(self.current, name)
        self.set(presets=with_preset(self.current.presets, preset), preset=preset.name)

    def delete_preset(self, name: str) -> Callable[[], None]:
        """Deletes a preset and its ties to models. Returns a function that undoes it."""
        presets, models = self.current.presets, self.current.model_presets
        self.set(presets=without(presets, name), model_presets=tuple(pair for pair in models if pair[1] != name))
        return lambda: self.set(presets=presets, model_presets=models)

    def tie_preset(self, name: str) -> None:
        """Ties a preset to the current target, so that it applies whenever that target is chosen; an empty name unties it."""
        target = self.current.target
        others = tuple(pair for pair in self.current.model_presets if pair[0] != target)
        self.set(model_presets=(*others, (target, name)) if name else others)
