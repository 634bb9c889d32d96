"""Conversations at random, through the caches kept between turns: every answer is the one of a plain run that reads all anew.

Prompts are edited at the same length or cut and edited, answered again, gone on with and branched; answers are cancelled while
the prompt is read and in the middle; drafter, rule, filters and K/V bits change between turns and within one. Each kind of cache
has its own tiny model, with windows and chunks so short that all of them forget.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx.utils import tree_map_with_path
from mlx_lm.models.cache import QuantizedKVCache

from engine.decode.context import DecodeContext, RoundOutcome
from engine.decode.decoding import decode
from engine.drafters import BlockDrafter, DraftContext, DraftModel, FeatureHead, NGram
from engine.drafters.base import Drafter
from engine.drafters.loaded import LoadedDrafter
from engine.models.loaded import LoadedModel
from engine.rounds import near_ties
from engine.runtime.mlx_backend import MlxBackend
from engine.serving.answer import answer
from engine.serving.jobs import Run
from engine.serving.model_slots import ConversationCaches, ModelSlots
from engine.serving.overlap import OverlapExecutor
from engine.target import prompt_cache as caches
from engine.target.recurrent_cache import RecurrentCache
from engine.target.window_cache import ChunkCache, WindowCache
from engine.types import (
    RULES,
    DecodingOptions,
    Emitted,
    Event,
    Message,
    PrefillProgress,
    Request,
    Round,
    RoundFinished,
    RunFailed,
    RunFinished,
)
from tests.engine.block_files import random_block
from tests.engine.drafters.test_feature_head import random_head
from tests.engine.families import config_of, tiny
from tests.engine.small_models import VOCAB, emitted_ids, same_up_to_near_ties, ticking_clock, tiny_llama

TOKENS = 6
MOST = 75
"""Tokens of a prompt before a new one begins."""
KINDS = {
    "keys and values": "llama",
    "windows": "cohere2",
    "chunks": "llama4",
    "recurrent": "mamba2",
    "hybrid": "qwen3_next",
    "both in a layer": "falcon_h1",
}
"""An architecture for each kind of cache."""
QUANTISED = frozenset(KINDS) - {"recurrent"}
NEAR = (1e-4, 3e-3)
"""How far a chance may be off where a text is read in other passes; and in few bits, where a last bit may cross a level."""
FILTERS: tuple[dict[str, Any], ...] = (
    *({}, {}, {}, {}, {"top_k": 5}, {"top_p": 0.9}, {"min_p": 0.05}),
    *({"repetition_penalty": 1.3}, {"top_p": 0.95, "repetition_penalty": 1.2}),
)


@functools.cache
def model_of(kind: str, seed: int) -> nn.Module:
    """A random model with heads that can be quantised."""
    if kind == "keys and values":
        return tiny_llama(seed, layers=3)  # what the random head and block were made for
    name = KINDS[kind]
    given: dict[str, Any] = {"num_hidden_layers": 4 if kind == "chunks" else 2}  # of llama 4's only every fourth looks at all
    given |= {"hidden_size": 128, "head_dim": 32} if kind in QUANTISED else {}
    text = config_of(name).get("text_config")
    given |= {"logit_scale": 1.0} if kind == "windows" else {}
    model = tiny(name, seed, 3.0, **({"text_config": text | given} if text else given))
    model.update(tree_map_with_path(remembering, model.parameters()))
    return model


def remembering(path: str, weight: mx.array) -> mx.array:
    """Random recurrent layers forget a token within ten, so that what they have read wrongly would hardly show."""
    return mx.full(weight.shape, math.log(0.02), weight.dtype) if path.endswith("A_log") else weight


class Letters:
    """A tokenizer whose token is one letter, and which has no chat template."""

    chat_template = None
    switches_thinking = False
    special: tuple[int, ...] = ()

    def raw_prompt(self, text: str) -> list[int]:
        return [ord(letter) - 256 for letter in text]

    def decode(self, ids: list[int]) -> str:
        return "".join(chr(256 + token) for token in ids)

    def token_bytes(self, token: int) -> bytes:
        return chr(256 + token).encode()


class Tiny(MlxBackend):
    """The real backend with models of one kind. `reused`: tokens that the cache of the newest answer held at first."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.reused = kind, 0
        letters: Any = Letters()
        words = tuple(map(letters.token_bytes, range(VOCAB)))
        self.target = LoadedModel(model_of(kind, 1), letters, frozenset(), words, 2000, kind, kind)

    def load(self, *arguments: Any) -> LoadedModel:
        return self.target

    def drafter(self, name: str, *arguments: Any) -> LoadedDrafter:
        return LoadedDrafter(name, self._made(name), make=lambda: self._made(name))

    def _made(self, name: str) -> Drafter | None:
        match name:
            case "ngram":
                return NGram(worth=0)
            case "sibling":
                return DraftModel(model_of(self.kind, 2), name)
            case "itself":
                return DraftModel(self.target, name)
            case "head":
                return FeatureHead(random_head(), self.target.model, name)
            case "block":
                return BlockDrafter(random_block(), self.target.model, name)
        return None

    def decode(self, context: DecodeContext) -> Generator[RoundOutcome, None, None]:
        self.reused = self.cache_length(context.cache) or 0
        return super().decode(context)


@dataclass
class Chat:
    """One conversation: its prompts, newest last, and the answer to the newest."""

    name: str
    bits: int | None
    prompts: list[list[int]] = field(default_factory=list)
    answer: list[int] = field(default_factory=list)


@dataclass
class Turn:
    """What is asked, and what is done meanwhile.

    Attributes:
        stop_at: tokens of the prompt, or rounds, after which it is cancelled; negative for tokens.
        change_at: the round after which `changes` are asked for.
    """

    chat: Chat
    prompt: list[int]
    options: DecodingOptions
    drafter: str
    given: int = 0
    stop_at: int | None = None
    change_at: int | None = None
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def is_filtered(self) -> bool:
        """Whether a last bit may move a token across a border, and with it all chances."""
        return bool(set(self.options.filters_on) - {"repetition_penalty"})


class Conversations:
    """Two chats on one engine, driven at random.

    Attributes:
        judged: how many tokens were compared. reused: tokens that were not read again. rejected: proposals that were.
    """

    def __init__(self, kind: str, seed: int, log: pytest.LogCaptureFixture) -> None:
        self.random = random.Random(f"{kind} {seed}")
        self.kind, self.log = kind, log
        self.backend = Tiny(kind)
        self.slots = ModelSlots(self.backend, lambda event: None, lambda: None)
        self.bits: tuple[int | None, ...] = (None, 8, 4) if kind in QUANTISED else (None,)
        self.drafters = ["none", "ngram", "sibling", "itself", "itself"]
        self.drafters += ["head", "block"] if kind == "keys and values" else []
        self.chats = [Chat(name, self.random.choice(self.bits)) for name in ("first", "second")]
        self.chat = self.chats[0]
        self.filters = FILTERS
        self.judged = self.reused = self.rejected = 0

    def words(self, least: int, most: int) -> list[int]:
        return [self.random.randrange(VOCAB) for _ in range(self.random.randint(least, most))]

    def play(self, names: Sequence[str]) -> None:
        """Scenes on one chat or the other, each begun anew once it is long."""
        for name in names:
            self.chat = self.random.choice(self.chats)
            if not 0 < len(self.prompt) < MOST:
                self.ask(self.words(20, 26))
            SCENES[name](self)

    @property
    def prompt(self) -> list[int]:
        """The newest of the chat."""
        return self.chat.prompts[-1] if self.chat.prompts else []

    def next(self, least: int = 2, most: int = 8) -> list[int]:
        """The newest prompt with its answer and some words more."""
        return [*self.prompt, *self.chat.answer, *self.words(least, most)]

    def edited(self, prompt: list[int], first: int = 0) -> list[int]:
        """With another token at one place from the first on, but not the last one, of which no cache holds more than is right."""
        made, place = list(prompt), self.random.randrange(first, len(prompt) - 1)
        made[place] = (made[place] + self.random.randrange(1, VOCAB)) % VOCAB
        return made

    def edit(self) -> None:
        """The newest turn with another token at the same length, once more, then back to the text before."""
        newest = len(self.prompt)
        self.ask(self.next())
        for _ in range(2):
            before = self.prompt
            self.ask(self.edited(before, newest))
            self.ask(self.prompt)
        self.ask(before)

    def cancel_prompt(self) -> None:
        """While it is read; then a text that has left the others behind is asked for again."""
        before = self.prompt
        self.ask([*self.edited(before, len(before) // 2), *self.words(20, 24)], stop_at=-9)
        self.ask(self.random.choice((before, self.prompt)))

    def cancel_answer(self) -> None:
        """In the middle; it goes on from what there is of it."""
        self.ask(self.next(), stop_at=self.random.choice((1, 2, 3)))
        self.ask([*self.prompt, *self.chat.answer], given=len(self.chat.answer))
        self.ask(self.next())

    def branch(self) -> None:
        """An answer of which another token begins another one."""
        self.ask(self.next())
        self.ask([*self.prompt, *self.chat.answer[:2], *self.words(1, 1)], given=3)
        self.ask(self.next())

    def change_bits(self) -> None:
        """To and fro."""
        before = self.chat.bits
        self.ask(self.next())
        self.chat.bits = self.random.choice([bits for bits in self.bits if bits != before] or [None])
        self.ask(self.prompt)
        self.chat.bits = before
        self.ask(self.next())

    def go_back(self) -> None:
        """To a turn before the newest, with another token, and to that once it has been left behind, too."""
        first = len(self.prompt)
        self.ask(self.next())
        before = self.prompt
        self.ask(self.next())
        self.ask(self.edited(before, first))
        before = self.prompt
        self.ask(self.next())
        self.ask(before)

    def change_chats(self) -> None:
        """The other one goes on with nearly the same text."""
        before, prompt = self.chat, self.edited(self.next())
        self.chat = next(chat for chat in self.chats if chat is not before)
        self.ask(prompt)
        self.chat = before
        self.ask(self.next())

    def options(self, given: int) -> DecodingOptions:
        chance = self.random
        rule = chance.choice(RULES)
        return DecodingOptions(
            rule=rule,
            temperature=chance.choice((0.0, 0.8, 0.8)) if rule in ("match", "gumbel") else 0.0,
            seed=chance.randrange(5),
            gamma=chance.choice((1, 3, 5, "auto")),
            kv_bits=self.chat.bits,
            phase_every=chance.choice((0, 3)),
            max_tokens=TOKENS + given,
            **chance.choice(self.filters),
        )

    def ask(self, prompt: list[int], given: int = 0, stop_at: int | None = None) -> None:
        """Has it answered, under settings at random, and compares."""
        chance = self.random
        turn = Turn(self.chat, prompt, self.options(given), chance.choice(self.drafters), given, stop_at)
        if chance.random() < 0.3:
            turn.change_at = chance.randrange(4)
            rules = RULES if turn.options.temperature == 0 else ("match", "gumbel")
            turn.changes = {"rule": chance.choice(rules), "gamma": chance.choice((2, "auto"))}
            if chance.random() < 0.6:
                turn.changes["drafter"] = chance.choice(self.drafters)
        self.answer(turn)

    def answer(self, turn: Turn) -> None:
        prompt, given = turn.prompt[: len(turn.prompt) - turn.given], turn.prompt[len(turn.prompt) - turn.given :]
        rounds: list[Round] = []
        ends: list[Event] = []

        def emit(event: Event) -> None:
            match event:
                case PrefillProgress(_, done, _) if turn.stop_at is not None and done >= -turn.stop_at > 0:
                    run.stop()
                case RoundFinished():
                    rounds.append(event.round)
                    if turn.stop_at == len(rounds):
                        run.stop()
                    if turn.change_at == event.round.index:
                        run.update(**turn.changes)
                case RunFinished() | RunFailed():
                    ends.append(event)
                case _:
                    pass

        message = Message("user", Letters().decode(prompt))
        request = Request((message,), turn.options, self.kind, turn.drafter, turn.chat.name, given=tuple(given))
        run = Run(0, request)
        answer(run, self.backend, self.slots, emit)
        assert len(ends) == 1 and isinstance(ends[0], RunFinished), ends
        assert not self.log.records, self.log.text
        turn.chat.prompts.append(prompt)
        turn.chat.answer = given + emitted_ids(rounds)
        self.compare(turn, rounds)

    def compare(self, turn: Turn, rounds: list[Round]) -> None:
        tokens = emitted_ids(rounds)
        self.judged += len(tokens)
        self.reused += self.backend.reused
        self.rejected += sum(current.rejected for current in rounds)
        near = NEAR[turn.options.kv_bits is not None]
        if tokens:
            plain = turn.options.replace(rule="gumbel", gamma=1, max_tokens=turn.given + len(tokens), phase_every=0)
            wanted = list(decode(self.backend.target, turn.prompt, None, plain, given=turn.given))
            same_up_to_near_ties(rounds, emitted_ids(wanted), near_ties.limit("float32", turn.options.kv_bits))
            for mine, token in zip(emitted(rounds), emitted(wanted), strict=True):
                if mine.id != token.id or turn.is_filtered:
                    break
                assert mine.p == pytest.approx(token.p, abs=near), "it has read something else, though it says the same"
        drafted_by_itself = [current for current in rounds if current.drafter == "itself" and not turn.is_filtered]
        for proposal in (each for current in drafted_by_itself for each in current.proposals if each.status != "unjudged"):
            assert proposal.q == pytest.approx(proposal.p, abs=near), "the draft model has read something else"


def emitted(rounds: list[Round]) -> list[Emitted]:
    return [token for current in rounds for token in current.emitted]


SCENES: dict[str, Callable[[Conversations], None]] = {
    "edit": Conversations.edit,
    "cancel a prompt": Conversations.cancel_prompt,
    "cancel an answer": Conversations.cancel_answer,
    "branch": Conversations.branch,
    "change bits": Conversations.change_bits,
    "go back": Conversations.go_back,
    "change chats": Conversations.change_chats,
}


@pytest.fixture(autouse=True)
def short_memories(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Prompts are read in small chunks, layers keep hardly more than they look at, and a seed has one conversation."""
    monkeypatch.setattr(caches, "LARGEST_CHUNK", 16)
    monkeypatch.setattr(caches, "SMALLEST_CHUNK", 16)
    monkeypatch.setattr("engine.target.window_cache.SLACK", 12)
    monkeypatch.setattr(WindowCache, "step", 8)
    monkeypatch.setattr(ChunkCache, "step", 8)
    monkeypatch.setattr(OverlapExecutor, "put", lambda self, task, rows: task())
    with ticking_clock():
        yield


@pytest.mark.parametrize(
    ("kind", "scenes"),
    [
        ("keys and values", ["cancel a prompt", "cancel an answer", "branch", "change bits", "change chats"]),
        ("windows", ["go back", "change bits"]),
        ("chunks", ["go back"]),
        ("recurrent", ["edit", "cancel a prompt", "cancel an answer"]),
        ("hybrid", ["edit", "change chats"]),
    ],
)
def test_every_answer_of_a_conversation_is_the_one_from_scratch(
    kind: str, scenes: list[str], home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chats = Conversations(kind, 0, caplog)
    chats.play(scenes)
    assert chats.judged > 25 and chats.reused > 50 and chats.rejected, "it says little"


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("kind", KINDS)
def test_every_answer_of_a_long_conversation_is_the_one_from_scratch(
    kind: str, seed: int, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chats = Conversations(kind, seed, caplog)
    chats.play(chats.random.choices([*SCENES], k=12))


# Mutants: faults that must be noticed


def marks_outlive_a_cut(patch: pytest.MonkeyPatch) -> None:
    """Behind an edit of the same length, a mark of the old text is taken for one of the new."""
    trim_to = caches.trim_to

    def keeping(cache: Sequence[Any], length: int, whose: str) -> None:
        layers = [layer for layer in caches.leaves_of(cache) if isinstance(layer, caches.OURS)]
        marks = [layer.marks for layer in layers]
        trim_to(cache, length, whose)
        for layer, before in zip(layers, marks, strict=True):
            layer.marks = before | layer.marks

    patch.setattr(caches, "trim_to", keeping)


def a_mark_is_the_state_itself(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RecurrentCache, "mark", lambda cache: (cache.cache, cache.offset))


def a_mark_is_used_up(patch: pytest.MonkeyPatch) -> None:
    """What is read after going back to it is written over it."""

    def restore(cache: RecurrentCache, marked: Any) -> None:
        cache.cache, cache.offset = marked
        cache.settle()

    patch.setattr(RecurrentCache, "restore", restore)


def a_window_is_marked_a_row_short(patch: pytest.MonkeyPatch) -> None:
    mark = WindowCache.mark

    def short(cache: WindowCache) -> Any:
        cache.max_size -= 1
        marked = mark(cache)
        cache.max_size += 1
        return marked

    patch.setattr(WindowCache, "mark", short)


def a_cut_leaves_a_token_too_many(patch: pytest.MonkeyPatch) -> None:
    rewind = caches.rewind
    patch.setattr(caches, "rewind", lambda cache, length, whose: rewind(cache, length + 1, whose))


def a_quantised_cut_leaves_a_token_too_many(patch: pytest.MonkeyPatch) -> None:
    """One that the check of lengths does not see."""
    trim = QuantizedKVCache.trim

    def short(cache: QuantizedKVCache, n: int) -> int:
        keys, values = ([mx.concatenate([part[..., 1:, :], part[..., :1, :]], axis=-2) for part in side] for side in cache.state)
        trim(cache, n)
        cache.keys, cache.values = tuple(keys), tuple(values)
        return n

    patch.setattr(QuantizedKVCache, "trim", short)


def caches_of_all_bits_are_one(patch: pytest.MonkeyPatch) -> None:
    take, keep = ConversationCaches.take, ConversationCaches.keep
    patch.setattr(ConversationCaches, "take", lambda kept, name, prompt: take(kept, name.partition(" at ")[0], prompt))
    patch.setattr(ConversationCaches, "keep", lambda kept, name, *rest: keep(kept, name.partition(" at ")[0], *rest))


def a_note_keeps_the_old_text(patch: pytest.MonkeyPatch) -> None:
    """Keeps a cache under the tokens from before an edit."""
    keep, noted = ConversationCaches.keep, dict[str, list[int]]()

    def keeping(kept: ConversationCaches, conversation: str, cache: Any, tokens: Sequence[int]) -> None:
        before = noted.get(conversation, [])[: len(tokens)]
        noted[conversation] = list(tokens)
        keep(kept, conversation, cache, [*before, *tokens[len(before) :]])

    patch.setattr(ConversationCaches, "keep", keeping)


def a_draft_model_keeps_what_was_edited(patch: pytest.MonkeyPatch) -> None:
    start, started = DraftModel.start, dict[DraftModel, list[int]]()

    def trusting(drafter: DraftModel, context: DraftContext, *rest: Any) -> bool:
        before = started.get(drafter, [])[: len(context.tokens)]
        started[drafter] = list(context.tokens)
        return start(drafter, replace(context, tokens=[*before, *context.tokens[len(before) :]]), *rest)

    patch.setattr(DraftModel, "start", trusting)


Plant = Callable[[pytest.MonkeyPatch], None]
PLANTS: tuple[tuple[Plant, str, int | None, str], ...] = (
    (marks_outlive_a_cut, "recurrent", None, "edit"),
    (marks_outlive_a_cut, "hybrid", None, "edit"),
    (marks_outlive_a_cut, "windows", None, "go back"),
    (a_mark_is_the_state_itself, "hybrid", 8, "edit"),
    (a_mark_is_used_up, "hybrid", None, "edit"),
    (a_window_is_marked_a_row_short, "windows", None, "go back"),
    (a_cut_leaves_a_token_too_many, "keys and values", None, "branch"),
    (a_quantised_cut_leaves_a_token_too_many, "keys and values", 4, "edit"),
    (caches_of_all_bits_are_one, "keys and values", None, "change bits"),
    (a_note_keeps_the_old_text, "keys and values", None, "cancel a prompt"),
    (a_draft_model_keeps_what_was_edited, "keys and values", None, "edit"),
)
"""What is planted; the kind of cache and the bits where it shows, and the scene that shows it."""
NOTICED = "differs at token|has read something else|was dropped|RunFailed"


@pytest.mark.parametrize(("plant", "kind", "bits", "scene"), PLANTS)
def test_faulty_conversation_caches_are_detected(
    plant: Plant,
    kind: str,
    bits: int | None,
    scene: str,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    chats = Conversations(kind, 0, caplog)
    chats.chats, chats.drafters, chats.chat.bits = chats.chats[:1], ["itself"], bits
    chats.bits, chats.filters = (None, 4), ({},)
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=NOTICED):
        chats.play([scene])
