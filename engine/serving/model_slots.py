"""What is loaded: one target, the drafters that were used with it, and its caches of past turns."""

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

if TYPE_CHECKING:  # the module itself needs no MLX
    from engine.drafters.base import Drafter
    from engine.drafters.loaded import LoadedDrafter
    from engine.models.loaded import LoadedModel
    from engine.target.interface import PromptCache

_log = logging.getLogger(__name__)

KEPT = 2
"""Conversations whose caches are kept: two, so that going back to the one before costs nothing. Caches are large."""


@dataclass(frozen=True, slots=True)
class _Kept:
    cache: PromptCache
    tokens: tuple[int, ...]


class ConversationCaches:
    """The target's caches of past turns by conversation, so that a later turn reads only what is new. Whoever changes the target
    calls `clear`.

    One invariant carries everything: a kept cache holds exactly the tokens noted beside it. It is checked whenever a cache is
    kept or handed out; a cache that breaks it is never used.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def take(self, conversation: str, prompt: Sequence[int]) -> PromptCache | None:
        """The conversation's cache, cut back to what it shares with the prompt, or where its layers forget, to a mark before
        that (`engine.target.prompt_cache.rewind`); None where nothing can be reused.

        It holds at most all tokens but the last, which the first forward pass needs. The caller owns it from then on, and
        hands it to `keep` again once it is done: an answer that fails in between leaves nothing behind.
        """
        kept = self._kept.pop(conversation, None)
        if kept is None:
            return None
        shared = min(common_prefix(kept.tokens, prompt), len(prompt) - 1)
        if shared < 1:
            return None
        try:
            held = self._backend.trim(kept.cache, shared) if shared < len(kept.tokens) else shared
            if held < 1:
                return None
            self._check(kept.cache, held)
        except AssertionError:  # never used again, so the answer is right; it only reads more
            _log.exception("The cache of a conversation was dropped")
            return None
        return kept.cache

    def keep(self, conversation: str, cache: PromptCache, tokens: Sequence[int]) -> None:
        """Note that the cache holds exactly these tokens. Raises AssertionError if it does not hold as many."""
        self._check(cache, len(tokens))
        self._kept[conversation] = _Kept(cache, tuple(tokens))
        self._kept.move_to_end(conversation)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    def clear(self) -> None:
        """Forget every cache."""
        self._kept.clear()

    def _check(self, cache: PromptCache, expected: int) -> None:
        length = self._backend.cache_length(cache)
        if length != expected:
            raise AssertionError(f"the cache holds {length} tokens where {expected} were committed")


EVERY = "*"
"""Stands for the name of every model."""
KEPT_DRAFTERS = 4
"""Drafters kept ready, so that changing to and fro within an answer costs no loading. They may be models of their own."""


class Closing(Exception):
    """The engine is being closed: leave whatever is under way."""


class ModelSlots:
    """Loads on request, reports with events, and leaves what is loaded usable when a later load fails.

    Args:
        backend: what loads.
        emit: takes the events.
        proceed: called often while loading; raises Closing to break it off.
        anyway: names of models that are loaded however little memory there is; with `EVERY` among them, all are.
        loaded: takes every target that is loaded.

    Attributes:
        caches: the current target's caches by conversation.
    """

    def __init__(
        self,
        backend: Backend,
        emit: Callable[[Event], None],
        proceed: Callable[[], None],
        anyway: Set[str] = frozenset(),
        loaded: Callable[[LoadedModel], None] = lambda target: None,
    ) -> None:
        self._backend = backend
        self._emit = emit
        self._proceed = proceed
        self._anyway = anyway
        self._loaded = loaded
        self._target: LoadedModel | None = None
        self._target_name: str | None = None
        self._drafters: OrderedDict[str, LoadedDrafter] = OrderedDict()
        self.caches = ConversationCaches(backend)

    def target(self, name: str, *, announce: bool = False) -> LoadedModel:
        """The target of this name, loaded now unless it is the current one.

        Args:
            announce: report LoadFinished for the current one too.

        Raises:
            DraftlightError: it cannot be loaded (LoadFailed was reported); the current target stays, unless it had to make room:
                then it is loaded again when it is next asked for.
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
            self._emit(LoadFailed(name, message, isinstance(error, NotEnoughMemory)))
            raise DraftlightError(message) from error
        self._target, self._target_name = target, name
        self._drafters.clear()
        self.caches.clear()
        self._backend.settle()  # else what the one before took stays with MLX
        self._loaded(target)
        self._emit(LoadFinished(described, time.perf_counter() - began))
        return target

    def drafter(self, name: str, *, announce: bool = False) -> LoadedDrafter:
        """The drafter of this name for the current target, made now unless it is at hand.

        Args:
            announce: report DrafterReady also when it was at hand.

        Raises:
            DraftlightError: it does not fit or cannot be loaded (DrafterRefused was reported).
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
            self._emit(DrafterRefused(name, message, isinstance(error, NotEnoughMemory)))
            raise DraftlightError(message) from error
        self._drafters[name] = drafter
        while len(self._drafters) > KEPT_DRAFTERS:
            self._drafters.popitem(last=False)
        self._emit(_ready(drafter))
        return drafter

    def _loaded_target(self) -> LoadedModel:
        if self._target is None:
            raise DraftlightError("No model is loaded. Choose one first.")
        return self._target

    @property
    def pair(self) -> tuple[LoadedModel, Drafter | None] | None:
        """The target, and a drafter of the newest kind that follows no text yet; None without a target."""
        if self._target is None:
            return None
        newest = next(reversed(self._drafters.values()), None)
        return self._target, None if newest is None or newest.make is None else newest.make()

    def check_drafter(self, name: str) -> None:
        """Reports DrafterChecked for a model on this machine, without loading it; nothing without a target."""
        if self._target_name is not None:
            self._emit(DrafterChecked(self._target_name, name, *self.unloaded_pair(name)))

    def unloaded_pair(self, name: str) -> tuple[str, str]:
        """As `Backend.unloaded_pair` of the current target; whatever goes wrong is a reason."""
        try:
            return self._backend.unloaded_pair(name, self._loaded_target())
        except Exception as error:
            return explain(error, f"checking the drafter {name}"), ""

    def forget_drafters(self) -> None:
        """Make drafters anew when they are next asked for: after a failed answer their state is unknown."""
        self._drafters.clear()

    def _room_for_target(self, name: str, need: MemoryNeed) -> None:
        """Sees that a target fits into the memory: beside what is loaded, so that this stays if the load fails, or in its place.

        Raises:
            NotEnoughMemory: it fits neither way. Nothing was given up for it.
        """
        free = self._backend.free_memory()
        if free is None or need.total <= free:
            return
        most = free + self._backend.held_memory()
        if need.total > most and not self._is_forced(name):
            raise NotEnoughMemory(need.refusal(most))
        if need.is_ahead:
            return
        self._target, self._target_name = None, None
        self._drafters.clear()
        self.caches.clear()
        self._backend.release()
        self._backend.settle()

    def _room_for_drafter(self, name: str, need: MemoryNeed) -> None:
        """The same for a drafter, which may take the place of those that are not in use. Raises NotEnoughMemory."""
        free = self._backend.free_memory()
        if free is None or need.total <= free or (need.is_ahead and need.total <= free + self._backend.held_memory()):
            return
        self._drafters.clear()
        self._backend.settle()
        free = self._backend.free_memory()
        if free is not None and need.total > free and not self._is_forced(name):
            raise NotEnoughMemory(need.refusal(free))

    def _is_forced(self, name: str) -> bool:
        return name in self._anyway or EVERY in self._anyway

    def _progress(self, name: str) -> Callable[[str, float | None], None]:
        def report(step: str, fraction: float | None) -> None:
            """Sends `LoadProgress` for a step and its fraction (None where unknown). Raises Closing to break the loading off."""
            self._proceed()
            self._emit(LoadProgress(name, step, fraction))

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
