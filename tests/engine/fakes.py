"""A fake model, drafter and decode loop without MLX, for tests of the code around them.

Processes of tests import this: `engine.drafters` would bring mlx-lm and transformers, two seconds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.decode.context import DecodeContext, RoundOutcome
from engine.files.memory import MemoryNeed
from engine.types import DecodingOptions, Emitted, Message, Milliseconds, Numerics, Proposal, Round, Thinking
from engine.values.errors import DraftlightError

PATIENCE = 60.0
"""Seconds after which something that should have happened counts as not happening. Long, because only a failure waits for it;
shorter than `faulthandler_timeout` in pyproject.toml, so that a test that waits in vain says for what."""


class FakeTokenizer:
    """One token per character."""

    def __init__(self, chat_template: str | None = "<role>content") -> None:
        self.chat_template = chat_template
        self.switches_thinking = False

    def apply_chat_template(
        self, messages: Sequence[Message], add_generation_prompt: bool = True, thinking: Thinking = "auto"
    ) -> list[int]:
        text = "".join(f"<{message.role}>{message.content}" for message in messages)
        text += "<assistant>" if add_generation_prompt else ""
        text += {"auto": "", "on": "<think>", "off": "<think></think>"}[thinking] if self.switches_thinking else ""
        return [ord(letter) for letter in text]

    def encode(self, text: str, allow_special: bool = False) -> list[int]:
        return [ord(letter) for letter in text]

    def raw_prompt(self, text: str) -> list[int]:
        return self.encode(text)

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(token) for token in ids)


@dataclass
class FakeTarget:
    name: str
    path: str = "/models/fake"
    sha256: str = "00"
    context_length: int = 1000
    vocabulary: tuple[bytes, ...] = (b"a",) * 128
    eos_ids: frozenset[int] = frozenset((127,))
    tokenizer: FakeTokenizer = field(default_factory=FakeTokenizer)
    sampling: tuple[tuple[str, float], ...] | None = None
    form: str = ""


@dataclass(frozen=True)
class FakeCapabilities:
    samples: bool = True


@dataclass
class FakeDrafter:
    name: str
    capabilities: FakeCapabilities = FakeCapabilities()


@dataclass(frozen=True)
class FakeLoadedDrafter:
    """The attributes of `engine.drafters.loaded.LoadedDrafter`."""

    name: str
    drafter: FakeDrafter | None
    sha256: str | None = None
    model: None = None
    make: Callable[[], FakeDrafter] | None = None
    warning: str = ""

    def renewed(self) -> FakeDrafter | None:
        return self.drafter if self.make is None else self.make()

    @property
    def has_distribution(self) -> bool:
        return self.drafter is not None and self.drafter.capabilities.samples


@dataclass
class FakeCache:
    tokens: list[int] = field(default_factory=list)


class FakeBackend:
    """Answers "abc..." a letter a round, reads prompts in chunks of four, and notes who called. A model named "base" has no chat
    template.

    `gate`, if given, is passed once per round and chunk, so that a test holds the answer where it wants it.
    """

    def __init__(self) -> None:
        self.threads = {threading.get_ident()}
        self.loads: list[str] = []
        self.read: list[list[int]] = []
        self.closed = 0
        self.waits = 0
        self.gate: threading.Semaphore | None = None
        self.on_pass: Callable[[], object] = lambda: None
        self.arrived = threading.Semaphore(0)
        self.load_gate: threading.Event | None = None
        self.fail_at: dict[int, BaseException] = {}
        self.forget_eos = False
        self.sizes: dict[str, int] = {}
        self.held: dict[str, int] = {}
        self.memory = 10**12
        self.settled = 0

    def hold(self, passes: int) -> threading.Semaphore:
        """Lets this many passes through, and holds the answer at the next one until the result is released."""
        self.gate = threading.Semaphore(passes)
        return self.gate

    def _pass(self) -> None:
        self.threads.add(threading.get_ident())
        self.on_pass()
        self.arrived.release()
        if self.gate is not None:
            assert self.gate.acquire(timeout=PATIENCE)

    def load(
        self, name: str, progress: Callable[[str, float | None], None], make_room: Callable[[MemoryNeed], None] | None = None
    ) -> FakeTarget:
        self.threads.add(threading.get_ident())
        self._take(name, make_room)
        self.loads.append(name)
        progress("reading", 0.0)
        if self.load_gate is not None:
            assert self.load_gate.wait(PATIENCE)
        progress("reading", 0.5)
        if name == "broken":
            raise DraftlightError("broken is not a model. Choose another file.")
        if name == "crash":
            raise KeyError("layers")
        return FakeTarget(name, tokenizer=FakeTokenizer(None)) if name == "base" else FakeTarget(name)

    def _take(self, name: str, make_room: Callable[[MemoryNeed], None] | None) -> None:
        if make_room is not None:
            make_room(MemoryNeed(name, self.sizes.get(name, 0), 0, 1, False))
        self.held[name] = self.sizes.get(name, 0)

    def release(self) -> None:
        self.held.clear()

    def free_memory(self) -> int:
        return self.memory - self.held_memory()

    def held_memory(self) -> int:
        return sum(self.held.values())

    def finish_and_free(self) -> None:
        self.settled += 1

    def peak_memory(self) -> int | None:
        return self.held_memory() or None

    def unloaded_pair(self, name: str, target: FakeTarget) -> tuple[str, str]:
        self.threads.add(threading.get_ident())
        return f"misfit cannot draft for {target.name}: token 7 differs." if name == "misfit" else "", ""

    def drafter(
        self,
        name: str,
        target: FakeTarget,
        progress: Callable[[str, float | None], None],
        make_room: Callable[[MemoryNeed], None] | None = None,
    ) -> FakeLoadedDrafter:
        self.threads.add(threading.get_ident())
        if name == "none":
            return FakeLoadedDrafter(name, None)
        if name == "misfit":
            raise DraftlightError(f"misfit cannot draft for {target.name}: token 7 differs.")
        self._take(name, make_room)
        self.loads.append(name)
        return FakeLoadedDrafter(name, FakeDrafter(name, FakeCapabilities(name != "ngram")), "11")

    def decode(self, context: DecodeContext) -> Generator[RoundOutcome, None, None]:
        prompt, options, control, given = context.prompt_tokens, context.options, context.control, context.given
        cache: Any = context.cache
        drafter: Any = context.drafter
        assert list(prompt[: len(cache.tokens)]) == cache.tokens
        assert len(cache.tokens) < len(prompt)
        fresh = list(prompt[len(cache.tokens) : -1])
        self.read.append(fresh)
        control.on_prefill(0, len(fresh))
        for start in range(0, len(fresh), 4):
            self._pass()
            if control.stopped:
                return
            cache.tokens.extend(fresh[start : start + 4])
            control.on_prefill(min(start + 4, len(fresh)), len(fresh))
        committed = list(prompt)
        for index in range(options.max_tokens - given):
            if control.stopped:
                return
            changes = control.take_changes()
            drafter = changes.pop("drafter", drafter)
            options = options.replace(**changes)
            control.waits()
            self._pass()
            if index in self.fail_at:
                raise self.fail_at[index]
            letter = ord("a") + index % 26
            cache.tokens.append(committed[-1])
            committed.append(letter)
            finish = "cancelled" if control.stopped else "length" if index + 1 == options.max_tokens - given else None
            if self.forget_eos and finish == "length":
                return
            proposals = () if drafter is None else (Proposal(1, "x", b"x", "rejected"),)
            made = Round(
                index=index,
                position=len(committed) - 1,
                drafter="none" if drafter is None else drafter.name,
                rule=options.rule,
                proposals=proposals,
                emitted=(Emitted(letter, chr(letter), bytes([letter]), "correction" if proposals else "plain"),),
                expected=(),
                milliseconds=Milliseconds(10.0),
                rows=len(proposals) + 1,
                cache_length=len(committed) - 1,
                started=10.0 * index,
                text=chr(letter),
                finish=finish,  # type: ignore[arg-type]
            )
            yield RoundOutcome(made)

    def make_cache(self, target: FakeTarget, kv_bits: int | None = None) -> FakeCache:
        return FakeCache()

    def cache_length(self, cache: FakeCache) -> int:
        return len(cache.tokens)

    def trim(self, cache: FakeCache, length: int) -> int:
        del cache.tokens[length:]
        return length

    def finish_queued(self) -> None:
        self.threads.add(threading.get_ident())
        self.waits += 1

    def device(self) -> str:
        return "fake"

    def numerics(self, target: FakeTarget) -> Numerics:
        return Numerics("float32", 4)

    def chains_reason(self, target: FakeTarget, drafter: Any, options: DecodingOptions) -> str:
        return "the fake reads no trees" if options.budget is not None else ""

    def pulse(self) -> float | None:
        return None

    def close(self) -> None:
        self.threads.add(threading.get_ident())
        self.closed += 1
