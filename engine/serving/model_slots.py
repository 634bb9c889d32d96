"""Loaded models: one target, the drafters that were used with it, and its caches of past turns."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.files.logs import explain
from engine.files.memory import MemoryNeed
from engine.serving.backend import Backend
from engine.target.shared_prefix import common_prefix
from engine.types import (
    DrafterChecked,
    DrafterReady,
    DrafterRefused,
    Event,
    LoadFailed,
    LoadFinished,
    LoadProgress,
    LoadStarted,
    ModelInfo,
)
from engine.values.errors import DraftlightError, NotEnoughMemory
from engine.values.events import ReportStep

if TYPE_CHECKING:  # the module itself needs no MLX
    from engine.drafters.base import Drafter
    from engine.drafters.loaded import LoadedDrafter
    from engine.models.loaded import LoadedModel
    from engine.target.interface import PromptCache

_log = logging.getLogger(__name__)

MAX_CONVERSATIONS = 2
"""Number of conversations whose caches are kept: two, so that returning to the previous one costs nothing. Caches are large."""


@dataclass(frozen=True, slots=True)
class _CachedConversation:
    cache: PromptCache
    tokens: tuple[int, ...]


class ConversationCaches:
    """LRU cache of the target's prompt caches by conversation, so that a later turn reads only new tokens. Must be cleared when
    the target changes.

    Invariant: a cache contains exactly the tokens stored with it. This is checked whenever a cache is stored or taken; a cache
    that violates it is never used.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._caches: OrderedDict[str, _CachedConversation] = OrderedDict()

    def take(self, conversation: str, prompt: Sequence[int]) -> PromptCache | None:
        """Removes and returns the conversation's cache, rolled back to the prefix that it shares with the prompt, or to an
        earlier checkpoint if its layers cannot go back there (`engine.target.prompt_cache.rewind`). Returns None if nothing can
        be reused.

        It contains at most all tokens but the last, which the first forward pass needs. The caller owns it from then on, and
        returns it with `keep` when done: an answer that fails in between leaves no cache behind.
        """
        entry = self._caches.pop(conversation, None)
        if entry is None:
            return None
        shared = min(common_prefix(entry.tokens, prompt), len(prompt) - 1)
        if shared < 1:
            return None
        try:
            length = self._backend.trim(entry.cache, shared) if shared < len(entry.tokens) else shared
            if length < 1:
                return None
            self._check(entry.cache, length)
        except AssertionError:  # a dropped cache costs only time
            _log.exception("The cache of a conversation was dropped")
            return None
        return entry.cache

    def keep(self, conversation: str, cache: PromptCache, tokens: Sequence[int]) -> None:
        """Stores the cache with the tokens it contains. Raises AssertionError if it contains another number of tokens."""
        self._check(cache, len(tokens))
        self._caches[conversation] = _CachedConversation(cache, tuple(tokens))
        self._caches.move_to_end(conversation)
        while len(self._caches) > MAX_CONVERSATIONS:
            self._caches.popitem(last=False)

    def clear(self) -> None:
        """Drops all caches."""
        self._caches.clear()

    def _check(self, cache: PromptCache, expected: int) -> None:
        length = self._backend.cache_length(cache)
        if length != expected:
            raise AssertionError(f"the cache holds {length} tokens where {expected} were committed")


EVERY = "*"
"""Wildcard for the names of all models."""
MAX_DRAFTERS = 4
"""Number of drafters kept loaded, so that switching back within an answer needs no loading. They may be separate models."""


class Closing(Exception):
    """Raised when the engine is being closed: all work is abandoned."""


class ModelRefused(DraftlightError):
    """A model could not be loaded. `event` is the one that has reported it."""

    def __init__(self, event: LoadFailed | DrafterRefused) -> None:
        super().__init__(event.message)
        self.event = event


class ModelSlots:
    """Loads models on request and reports with events. Loaded models stay usable if a later load fails.

    Args:
        backend: loads the models.
        emit: called with the events.
        proceed: called often while loading; raises Closing to interrupt.
        unchecked: names of models that are loaded even if memory is short; with `EVERY` among them, all are.
        loaded: called with every target that is loaded.

    Attributes:
        caches: the current target's caches by conversation.
    """

    def __init__(
        self,
        backend: Backend,
        emit: Callable[[Event], None],
        proceed: Callable[[], None],
        unchecked: Set[str] = frozenset(),
        loaded: Callable[[LoadedModel], None] = lambda target: None,
    ) -> None:
        self._backend = backend
        self._emit = emit
        self._proceed = proceed
        self._unchecked = unchecked
        self._loaded = loaded
        self._target: LoadedModel | None = None
        self._target_name: str | None = None
        self._drafters: OrderedDict[str, LoadedDrafter] = OrderedDict()
        self.caches = ConversationCaches(backend)

    def target(self, name: str, *, announce: bool = False) -> LoadedModel:
        """Returns the target of this name; loads it unless it is the current one.

        Args:
            announce: whether to report LoadFinished for the current one too.

        Raises:
            ModelRefused: it cannot be loaded (LoadFailed was reported). The current target stays, unless it had to make room:
                then it is loaded again when it is next requested.
        """
        if self._target is not None and name == self._target_name:
            if announce:
                self._emit(LoadFinished(_describe(self._target), 0.0))
            return self._target
        began = time.perf_counter()
        self._emit(LoadStarted(name))
        try:
            progress = self._progress(name)
            target = self._backend.load(name, progress, lambda need: self._room_for_target(name, need))
            progress("computing the checksum", None)
            described = _describe(target)
        except Closing:
            raise
        except BaseException as error:
            message = explain(error, f"loading {name}")
            raise self._refused(LoadFailed(name, message, isinstance(error, NotEnoughMemory))) from error
        self._target, self._target_name = target, name
        self._drafters.clear()
        self.caches.clear()
        self._backend.finish_and_free()  # frees the previous target's memory
        self._loaded(target)
        self._emit(LoadFinished(described, time.perf_counter() - began))
        return target

    def drafter(self, name: str, *, announce: bool = False) -> LoadedDrafter:
        """Returns the drafter of this name for the current target; loads it unless it is loaded.

        Args:
            announce: whether to report DrafterReady even if it was loaded.

        Raises:
            ModelRefused: it does not fit or cannot be loaded (DrafterRefused was reported).
        """
        if name in self._drafters:
            self._drafters.move_to_end(name)
            if announce:
                self._emit(_ready(self._drafters[name]))
            return self._drafters[name]
        target = self._loaded_target()
        try:
            drafter = self._backend.drafter(name, target, self._progress(name), lambda need: self._room_for_drafter(name, need))
        except Closing:
            raise
        except BaseException as error:
            message = explain(error, f"loading the drafter {name}")
            raise self._refused(DrafterRefused(name, message, isinstance(error, NotEnoughMemory))) from error
        self._drafters[name] = drafter
        while len(self._drafters) > MAX_DRAFTERS:
            self._drafters.popitem(last=False)
        self._emit(_ready(drafter))
        return drafter

    def _refused(self, event: LoadFailed | DrafterRefused) -> ModelRefused:
        """Reports the event, and returns it as an error."""
        self._emit(event)
        return ModelRefused(event)

    def _loaded_target(self) -> LoadedModel:
        if self._target is None:
            raise DraftlightError("No model is loaded. Choose one first.")
        return self._target

    @property
    def pair(self) -> tuple[LoadedModel, Drafter | None] | None:
        """The target, and a new instance of the drafter used last, without a text; None without a target."""
        if self._target is None:
            return None
        newest = next(reversed(self._drafters.values()), None)
        return self._target, None if newest is None or newest.make is None else newest.make()

    def check_drafter(self, name: str) -> None:
        """Reports DrafterChecked for a model on this machine without loading it; does nothing without a target."""
        if self._target_name is not None:
            self._emit(DrafterChecked(self._target_name, name, *self.unloaded_pair(name)))

    def unloaded_pair(self, name: str) -> tuple[str, str]:
        """Returns `Backend.unloaded_pair` for the current target; any error counts as a reason."""
        try:
            return self._backend.unloaded_pair(name, self._loaded_target())
        except Exception as error:
            return explain(error, f"checking the drafter {name}"), ""

    def forget_drafters(self) -> None:
        """Discards all drafters, so that they are created anew when next requested: after a failed answer their state is
        unknown."""
        self._drafters.clear()

    def _room_for_target(self, name: str, need: MemoryNeed) -> None:
        """Ensures that a target fits into memory: next to the loaded models, which then stay if the load fails, or in their
        place.

        Raises:
            NotEnoughMemory: it fits neither way; nothing was unloaded.
        """
        free = self._backend.free_memory()
        if free is None or need.total <= free:
            return
        limit = free + self._backend.held_memory()
        if need.total > limit and not self._is_forced(name):
            raise NotEnoughMemory(need.refusal(limit))
        if need.is_ahead:
            return
        self._target, self._target_name = None, None
        self._drafters.clear()
        self.caches.clear()
        self._backend.release()
        self._backend.finish_and_free()

    def _room_for_drafter(self, name: str, need: MemoryNeed) -> None:
        """Ensures that a drafter fits into memory; drafters that are not in use may be unloaded. Raises NotEnoughMemory."""
        free = self._backend.free_memory()
        if free is None or need.total <= free or (need.is_ahead and need.total <= free + self._backend.held_memory()):
            return
        self._drafters.clear()
        self._backend.finish_and_free()
        free = self._backend.free_memory()
        if free is not None and need.total > free and not self._is_forced(name):
            raise NotEnoughMemory(need.refusal(free))

    def _is_forced(self, name: str) -> bool:
        return name in self._unchecked or EVERY in self._unchecked

    def _progress(self, name: str) -> ReportStep:
        def report(step: str, fraction: float | None, is_download: bool = False, /) -> None:
            """Sends `LoadProgress` for a step. Raises Closing to interrupt the loading."""
            self._proceed()
            self._emit(LoadProgress(name, step, fraction, is_download))

        return report


def _ready(drafter: LoadedDrafter) -> DrafterReady:
    return DrafterReady(drafter.name, drafter.has_distribution, drafter.warning)


def _describe(target: LoadedModel) -> ModelInfo:
    return ModelInfo(
        name=target.name,
        path=str(target.path),
        sha256=target.sha256,
        context_length=target.context_length,
        vocabulary_size=len(target.vocabulary),
        has_template=target.tokenizer.chat_template is not None,
        switches_thinking=target.tokenizer.switches_thinking,
        sampling=target.sampling,
        form=target.form,
    )
