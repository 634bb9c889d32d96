"""Whatever is changed at whatever round of a short answer, alone or beside another one: nothing fails and nothing is lost."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.decode import loop
from engine.decode.context import DecodeContext, RoundOutcome
from engine.decode.decoding import Control, decode
from engine.decode.loop import DecodeLoop
from engine.decode.policy.adaptive import AdaptivePolicy
from engine.drafters import BlockDrafter, DraftModel, FeatureHead, NGram, NGramMod
from engine.drafters.base import Drafter
from engine.drafters.draft import Draft
from engine.drafters.feature_drafter import FeatureDrafter
from engine.drafters.loaded import LoadedDrafter
from engine.rounds import near_ties
from engine.rounds.metrics import violations
from engine.rounds.trace import Trace, read
from engine.serving.jobs import Run
from engine.serving.model_slots import ModelSlots
from engine.serving.time_sharing import take_turns
from engine.target.layer_taps import tap
from engine.target.prompt_cache import cache_length, check_cache, make_prompt_cache
from engine.types import (
    RULES,
    DecodingOptions,
    Event,
    Message,
    Request,
    Round,
    RoundFinished,
    Rule,
    RunFailed,
    RunFinished,
)
from tests.crossings import crossed
from tests.engine.block_files import random_block
from tests.engine.drafters.test_feature_head import CONFIG, TAPS, random_head
from tests.engine.fakes import FakeBackend
from tests.engine.small_models import PROMPT, emitted_ids, greedy_of_mlx_lm, tiny_llama

TARGET = tiny_llama(1, layers=3)
DRAFT = tiny_llama(2, layers=1)
HEAD = random_head()
BLOCK = random_block()
TOKENS = 5
OPTIONS = DecodingOptions(seed=5, temperature=0.7, gamma=2, max_tokens=TOKENS, analyse=False)
KINDS = ("none", "ngram", "ngram-mod", "draft", "head")
ALL_KINDS = (*KINDS, "block")
"""With the one that is a head to the decode loop: it is tried where it could differ."""


class Letters:
    """A tokenizer whose token is one letter."""

    def token_bytes(self, token: int) -> bytes:
        return bytes([33 + token % 90])


def made(kind: str) -> Drafter | None:
    match kind:
        case "ngram":
            return NGram(worth=0)
        case "ngram-mod":
            return NGramMod(n_match=1, n_min=1, n_max=4, size=1024)
        case "draft":
            return DraftModel(DRAFT, "draft")
        case "head":
            return FeatureHead(HEAD, TARGET, copies=False)
        case "block":
            return BlockDrafter(BLOCK, TARGET, copies=False)
    return None


@dataclass
class Answer:
    """One short answer, and what is done to it before its round `at`.

    Attributes:
        beside: the drafter of an answer that has turns in between; one without a drafter queues passes of the same target.
    """

    kind: str = "none"
    at: int = 0
    act: Callable[[Answer], None] = lambda answer: None
    beside: str | None = None
    options: DecodingOptions = OPTIONS
    rounds: list[Round] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.control, self.cache = Control(), make_prompt_cache(TARGET)
        self.drafters = [made(self.kind)]

    def switch_to(self, kind: str) -> None:
        self.drafters.append(made(kind))
        self.control.update(drafter=self.drafters[-1])

    def decoded(self) -> Answer:
        """The whole answer. The other one has its turn between any two rounds."""
        longer = self.options.replace(seed=8, max_tokens=5 * TOKENS, stop=())
        other = iter(()) if self.beside is None else decode(TARGET, [3, 1, 4], made(self.beside), longer)
        mine = decode(TARGET, PROMPT, self.drafters[0], self.options, tokenizer=Letters(), cache=self.cache, control=self.control)
        while True:
            if len(self.rounds) == self.at:
                self.act(self)
            current = next(mine, None)
            if current is None:
                break
            self.rounds.append(current)
            next(other, None)
            check_cache(self.cache, self.committed - 1, "target")
        self.check()
        return self

    @property
    def ids(self) -> list[int]:
        return emitted_ids(self.rounds)

    @property
    def text(self) -> str:
        return "".join(current.text for current in self.rounds)

    @property
    def committed(self) -> int:
        return len(PROMPT) + len(self.ids)

    def check(self) -> None:
        """Nothing is lost, statuses add up, and caches hold what they have to."""
        assert violations(self.rounds) == ()
        position = len(PROMPT)
        for index, current in enumerate(self.rounds):
            assert (current.index, current.position) == (index, position)
            position += len(current.emitted)
            assert current.cache_length == position - 1
            assert current.rows == len(current.proposals) + 1
        assert self.text == b"".join(map(Letters().token_bytes, self.ids)).decode()
        if self.rounds:
            check_cache(self.cache, self.committed - 1, "target")
        for drafter in self.drafters:
            if isinstance(drafter, DraftModel) and len(drafter._committed) == self.committed:
                assert cache_length(drafter.cache) == self.committed - 1
            if isinstance(drafter, FeatureDrafter):
                check_features(drafter)


def check_features(drafter: FeatureDrafter) -> None:
    """The features that a drafter keeps are those of one pass of the target over its text."""
    if not drafter._rows:
        return
    TARGET(mx.array([drafter._committed]))
    wanted = drafter.model.fuse(tap(TARGET, TAPS).take())[: drafter._rows]
    np.testing.assert_allclose(np.array(mx.concatenate(drafter._features)), np.array(wanted), atol=1e-3)


def assert_same_text(answer: Answer, reference: Answer) -> None:
    """Equal, or different first where the reference's two best scores all but coincide. The reference may go on further."""
    tokens = [token for current in reference.rounds for token in current.emitted]
    assert len(answer.ids) <= len(tokens)
    for index, (mine, token) in enumerate(zip(answer.ids, tokens, strict=False)):
        if mine != token.id:
            assert token.margin is not None and token.margin < near_ties.FLOAT32, f"differs at token {index}"
            return


PLAIN = {temperature: OPTIONS.replace(temperature=temperature, analyse=True) for temperature in (0.0, 0.7)}


@pytest.fixture(scope="module")
def plain() -> dict[float, Answer]:
    """The answers without a drafter, by temperature."""
    answers = {temperature: Answer(options=options).decoded() for temperature, options in PLAIN.items()}
    assert answers[0.0].ids == greedy_of_mlx_lm(TARGET, PROMPT, TOKENS)
    return answers


def swept(
    plain: dict[float, Answer], kind: str, act: Callable[[Answer], None], beside: str | None = None, **options: Any
) -> None:
    """Does something before every round of an answer, a new answer each time."""
    for at in range(TOKENS):
        answer = Answer(kind, at, act, beside, OPTIONS.replace(**options)).decoded()
        assert len(answer.ids) == TOKENS and answer.rounds[-1].finish == "length"
        rules = {current.rule for current in answer.rounds}
        if rules <= {"match", "gumbel"} or answer.options.temperature == 0:
            assert_same_text(answer, plain[answer.options.temperature])


HEADS = [(*pair, beside) for pair in itertools.product(KINDS, KINDS) if "head" in pair for beside in ("none", "head")]
BLOCKS = [("none", "block", "block"), ("head", "block", None), ("block", "draft", "head"), ("block", "none", "none")]


@pytest.mark.parametrize(
    ("start", "to", "beside"),
    [
        *(pytest.param(*pair.values, None, marks=pair.marks) for pair in crossed(KINDS, KINDS, together=1)),
        *BLOCKS,
        *(pytest.param(*head, marks=pytest.mark.full) for head in HEADS),
    ],
)
def test_the_drafter_may_change_at_every_round(plain: dict[float, Answer], start: str, to: str, beside: str | None) -> None:
    swept(plain, start, lambda answer: answer.switch_to(to), beside)


@pytest.mark.parametrize(("kind", "change"), crossed(["draft", "head", "block"], itertools.permutations(RULES, 2), together=1))
def test_the_rule_may_change_at_every_round(plain: dict[float, Answer], kind: str, change: tuple[Rule, Rule]) -> None:
    rule, to = change
    swept(plain, kind, lambda answer: answer.control.update(rule=to), rule=rule)


@pytest.mark.full
@pytest.mark.parametrize(("rule", "to"), [*itertools.permutations(RULES, 2)])
def test_the_rule_may_change_at_every_round_at_temperature_0(plain: dict[float, Answer], rule: Rule, to: Rule) -> None:
    swept(plain, "head", lambda answer: answer.control.update(rule=to), rule=rule, temperature=0.0)


GAMMAS = [(2, 4), (4, 1), (2, "auto"), ("auto", 2), ("auto", "auto")]


@pytest.mark.parametrize(("kind", "change"), crossed(ALL_KINDS, GAMMAS, together=1))
def test_gamma_may_change_at_every_round(plain: dict[float, Answer], kind: str, change: tuple[Any, Any]) -> None:
    gamma, to = change
    swept(plain, kind, lambda answer: answer.control.update(gamma=to), gamma=gamma)


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_everything_may_change_at_once_at_every_round_beside_another_answer(plain: dict[float, Answer], kind: str) -> None:
    def act(answer: Answer) -> None:
        answer.control.update(rule="match", gamma="auto")
        answer.switch_to("head" if kind == "draft" else "draft")

    swept(plain, kind, act, beside="head")


def test_a_head_taken_up_beyond_its_context_takes_no_features_for_those_of_another_place(plain: dict[float, Answer]) -> None:
    short = random_head(replace(CONFIG, max_position_embeddings=len(PROMPT) + 2))

    def act(answer: Answer) -> None:
        answer.drafters.append(FeatureHead(short, TARGET, copies=False))
        answer.control.update(drafter=answer.drafters[-1])

    swept(plain, "none", act, beside="none")


class StopsAt(Control):
    """A stop that has arrived when the flag is looked at for the so-manieth time, so that each point can be tried."""

    def __init__(self, look: int) -> None:
        super().__init__()
        self.look, self.looks = look, 0

    @property
    def stopped(self) -> bool:
        self.looks += 1
        return self.looks >= self.look


@pytest.mark.parametrize(("to", "start"), crossed(["none", "ngram", "draft", "head"], ["none", "draft", "head"], together=1))
def test_a_stop_loses_nothing_wherever_it_arrives_also_while_a_new_drafter_catches_up(
    plain: dict[float, Answer], start: str, to: str
) -> None:
    whole = plain[0.7].text
    stop = (whole[1:] + "!",)  # may still come until the end, so all but the first letter is held back
    held = False
    for look in itertools.count(1):
        answer = Answer(start, 2, lambda answer: answer.switch_to(to), options=OPTIONS.replace(stop=stop))
        answer.control = control = StopsAt(look)
        answer.decoded()
        assert whole.startswith(answer.text)
        if control.looks < look:
            break
        held |= len(answer.rounds) > 1
        assert not answer.rounds or answer.rounds[-1].finish in (None, "cancelled", "length")
    assert held and len(answer.ids) == TOKENS


def test_what_an_adaptive_policy_learned_under_one_rule_or_drafter_steers_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[list[Round]] = []

    class Watched(AdaptivePolicy):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            learned.append([])

        def update(self, finished: Round, draft: Draft) -> None:
            learned[-1].append(finished)
            super().update(finished, draft)

    monkeypatch.setattr(loop, "AdaptivePolicy", Watched)
    for act in (
        lambda answer: answer.control.update(rule="rejection"),
        lambda answer: answer.switch_to("head"),
        lambda answer: answer.control.update(rule="match", gamma="auto"),  # what is in force already
    ):
        learned.clear()
        rounds = Answer("draft", 2, act, options=OPTIONS.replace(rule="match", gamma="auto", max_tokens=12)).decoded().rounds
        groups = [list(group) for _, group in itertools.groupby(rounds, lambda current: (current.rule, current.drafter))]
        assert learned == groups and len(rounds) > 4


# The same through requests, events and traces


class Tiny(FakeBackend):
    """The models of this module under the names of their kinds."""

    def drafter(self, name: str, *arguments: Any) -> LoadedDrafter:
        return LoadedDrafter(name, made(name), make=lambda: made(name))

    def make_cache(self, target: Any, kv_bits: int | None = None) -> Any:
        return make_prompt_cache(TARGET)

    def cache_length(self, cache: Any) -> int:
        return cache_length(cache) or 0

    def decode(self, context: DecodeContext) -> Generator[RoundOutcome, None, None]:
        return DecodeLoop(replace(context, model=TARGET, tokenizer=Letters())).outcomes()


def turns_taken(act: Callable[[Run, Round], None], *kinds: str, **options: Any) -> list[Trace]:
    """The traces of answers that take turns. Whatever is done to the first is done right after one of its rounds."""
    events: list[Any] = []

    def emit(event: Event) -> None:
        events.append(event)
        if isinstance(event, RoundFinished) and event.run_id == 0:
            act(runs[0], event.round)

    requests = [Request((Message("user", "ABAB"),), OPTIONS.replace(**options), drafter=kind, template=False) for kind in kinds]
    runs = tuple(Run(number, request) for number, request in enumerate(requests))
    backend = Tiny()
    take_turns(runs, backend, ModelSlots(backend, emit, lambda: None), emit)
    traces = []
    for run in runs:
        (end,) = (event for event in events if isinstance(event, (RunFinished, RunFailed)) and event.run_id == run.id)
        assert isinstance(end, RunFinished) and end.trace_path is not None, end
        found = read(end.trace_path)
        assert found.missing is None and violations(found.rounds) == ()
        assert list(found.rounds) == [e.round for e in events if isinstance(e, RoundFinished) and e.run_id == run.id]
        assert end.text == b"".join(map(Letters().token_bytes, emitted_ids(found.rounds))).decode()
        for change in found.changes:
            current = found.rounds[change["index"]]
            assert (change["rule"], change["drafter"]) == (current.rule, current.drafter)
        for earlier, later in itertools.pairwise(found.rounds):
            assert later.started >= earlier.started + earlier.milliseconds.total - 1e-6
        traces.append(found)
    return traces


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.full if kind.startswith("ngram") else ()) for kind in KINDS]
)
def test_answers_that_take_turns_may_change_and_stop_at_every_round(home: Path, kind: str) -> None:
    whole = [emitted_ids(found.rounds) for found in turns_taken(lambda run, current: None, kind, "head")]
    to = KINDS[(KINDS.index(kind) + 2) % len(KINDS)]
    for at in range(TOKENS - 1):

        def change(run: Run, current: Round, at: int = at) -> None:
            if current.index == at:
                run.update(rule="match", gamma="auto", drafter=to)

        def stop(run: Run, current: Round, at: int = at) -> None:
            if current.index == at:
                run.stop()

        assert [emitted_ids(found.rounds) for found in turns_taken(change, kind, "head")] == whole
        stopped, beside = (emitted_ids(found.rounds) for found in turns_taken(stop, kind, "head"))
        assert stopped == whole[0][: len(stopped)] and beside == whole[1]


def test_a_change_that_a_stop_prevented_is_not_told_as_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def change_and_stop(run: Run, current: Round) -> None:
        if current.index == 1:
            monkeypatch.setattr(DraftModel, "start", lambda *arguments: run.stop())
            run.update(rule="match", drafter="draft")

    (whole,) = turns_taken(lambda run, current: None, "none")
    text = whole.summary["text"]  # type: ignore[index]
    (found,) = turns_taken(change_and_stop, "none", stop=(text[1:] + "!",))
    assert found.summary is not None and found.summary["text"] == text[:3]
    assert [(change["rule"], change["drafter"]) for change in found.changes] == [("match", "none")]
