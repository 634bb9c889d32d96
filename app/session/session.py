"""The state shown by the window: the conversation as a tree of prompts and answers, and the state of the engine. No Qt.

Events go in through `apply`; views read. The clock is injected, so that a session driven by recorded events is deterministic.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from app.session.answer_pieces import AnswerPieces
from app.session.plain_baseline import Baseline, Baselines
from app.session.states import (
    RUNNING,
    Changing,
    EngineReplaced,
    Loading,
    Models,
    Nothing,
    Ready,
    Requested,
    State,
    after,
    answer_after,
)
from engine.lens.dividers import Divider, dividers
from engine.lens.tally import Tally
from engine.lens.thoughts import thought_words
from engine.rounds.trace import PlainRun
from engine.types import (
    INVARIANT_RULES,
    DecodingOptions,
    DrafterReady,
    Event,
    Finish,
    Message,
    ModelInfo,
    PrefillProgress,
    Request,
    Round,
    RoundFinished,
    Rule,
    RunChanged,
    RunFailed,
    RunFinished,
    RunStarted,
)
from engine.values.drafter_kinds import NO_DRAFTER, drafter_kind
from engine.values.wording import seconds

NO_ROUNDS_YET = "Rounds appear here as they are judged."


@dataclass(slots=True)
class Answer:
    """One answer, growing.

    Attributes:
        model: display name of the target. logits: their dtype, None if unknown.
        request: the request sent to the engine, None for an answer read from a trace.
        chosen: for a branch, the text of the token at which it leaves its sibling.
        state: waiting (for a model or in the queue), reading (the prompt), generating, finished, failed.
        submitted: clock reading when the request was sent.
        seconds_to_first_token: reported by the engine with the first round; its clock runs only for this answer.
        prefill: (tokens read, tokens in all) of the prompt.
        shows_thought: whether the model's thought is shown as part of the text, rather than folded away.
        thought_seconds: how long the model thought; None if it did not, or if that is unknown.
        rounds: every round so far; round i has index i.
        rules: every rule used, in order; the text is drafter-invariant only if all are.
        following: the next prompts after it, in every version.
        stored_id: its id in the chat store, None if it is not stored.
        continues: the answer that this one continues.
        unread: only its text is loaded yet; its rounds are in the trace.
        dropped: number of oldest messages left out because the model's context is too small.
        chains: why chains are drafted although the budget for trees is a number, as a sentence; empty otherwise.
        ending: how it ended, in words, if `finish` does not say.
        edited: the user wrote its text, in place of the model's answer.
        foreign: imported from another program; how it was made is unknown.
        model_hash: SHA-256 of the target; empty if unknown.
        made_in: the `Session.engine_place` it was made in; None for an answer read from a trace.
        other_machine: its trace names a machine other than this one.
    """

    options: DecodingOptions
    drafter: str
    submitted: float
    model: str = ""
    logits: str | None = None
    request: Request | None = None
    chosen: str = ""
    run_id: int | None = None
    state: State = "waiting"
    shows_thought: bool = True
    thought_seconds: float | None = None
    text: AnswerPieces = field(default_factory=AnswerPieces)
    tally: Tally = field(default_factory=Tally)
    rounds: list[Round] = field(default_factory=list)
    changes: list[RunChanged] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)
    prefill: tuple[int, int] = (0, 0)
    seconds_to_first_token: float | None = None
    finish: Finish | None = None
    message: str = ""
    result: RunFinished | None = None
    trace_path: str | None = None
    cache_length: int = 0
    following: PromptVersions = field(default_factory=lambda: PromptVersions(), compare=False, repr=False)
    stored_id: int | None = None
    continues: Answer | None = field(default=None, compare=False, repr=False)
    unread: bool = False
    dropped: int = 0
    chains: str = ""
    ending: str = ""
    edited: bool = False
    foreign: bool = False
    model_hash: str = ""
    made_in: tuple[bool, bool] | None = None
    other_machine: bool = False

    @property
    def ids(self) -> tuple[int, ...]:
        """The tokens of the answer, given ones included; empty if unknown."""
        given = () if self.request is None else self.request.given
        return (*given, *(token.id for round_ in self.rounds for token in round_.emitted))

    @property
    def ended_early(self) -> bool:
        """Whether it was stopped, cut off, interrupted or failed after its first token."""
        early = self.finish in ("cancelled", "length", "context") or bool(self.ending) or self.state == "failed"
        return early and not self.edited and not self.running and bool(self.text.text or self.rounds)

    @property
    def can_continue(self) -> bool:
        """Whether it can be continued: it ended early, or the user wrote it."""
        return self.edited or self.ended_early

    @property
    def waiting_words(self) -> str:
        """Placeholder text while it has no rounds."""
        if self.edited:
            return "You wrote this version yourself, so it has no rounds."
        if self.foreign:
            return "This answer was imported without its rounds."
        if self.finish == "cancelled" and not self.unread:
            return "The answer was stopped before its first round."
        return NO_ROUNDS_YET

    @property
    def missing(self) -> bool:
        """Whether it is only a placeholder: no answer was given, or it was deleted."""
        return self.state == "failed" and self.run_id is None and self.stored_id is None and not self.text.text

    @property
    def running(self) -> bool:
        """Whether it is not over: it waits, reads the prompt or generates."""
        return self.state in RUNNING

    @property
    def has_thought(self) -> bool:
        """Whether the model has begun to think."""
        return self.text.thought.state in ("open", "closed")

    @property
    def folded(self) -> int:
        """Number of leading pieces that are folded away. While an answer runs, this includes pieces that may become a
        thought."""
        state = self.text.thought.state
        if self.shows_thought or state == "none" or (state == "undecided" and not self.running):
            return 0
        return len(self.text.pieces) if self.text.answer_at is None else self.text.answer_at

    @property
    def thought_words(self) -> str:
        """Heading of the folded thought, with its duration; empty if the model does not think."""
        if not self.has_thought:
            return ""
        spent = "" if self.thought_seconds is None else seconds(self.thought_seconds)
        return thought_words(self.text.thought.state, self.running, spent, self.text.thought_tokens)

    @property
    def tokens_per_second(self) -> float | None:
        """Throughput: tokens per second from the end of prefill to the last token, as DESIGN defines it."""
        if self.result is not None and self.result.seconds > 0 and self.result.tokens:
            return self.result.tokens / self.result.seconds
        return self.tally.summary.throughput

    @property
    def dividers(self) -> list[Divider]:
        """The changes of rule, drafter or gamma in the rounds so far."""
        changes = ((change.index, change.gamma) for change in self.changes)
        return dividers(self.tally.stretches, self.options.gamma, changes, greedy=self.options.temperature == 0)

    @property
    def invariant(self) -> bool:
        """Whether another drafter would give the same text for this seed, up to near-ties."""
        return all(rule in INVARIANT_RULES for rule in self.rules)


def _messages_of(turn: Turn) -> list[Message]:
    """Returns the messages of a finished turn, as a model reads them."""
    both = (Message("user", turn.prompt), Message("assistant", turn.answer.text.text))
    return [message for message in both if message.content]


def missing_answer() -> Answer:
    """Returns a placeholder for a missing answer."""
    return Answer(options=DecodingOptions(), drafter=NO_DRAFTER, submitted=0.0, state="failed")


def is_plain(answer: Answer) -> bool:
    """Returns whether no drafter took part."""
    return answer.drafter == NO_DRAFTER and all(change.drafter == NO_DRAFTER for change in answer.changes)


@dataclass(slots=True)
class Turn:
    """A prompt and its shown answer.

    Attributes:
        siblings: every answer to the prompt in the order requested, the shown one included; empty if there is only one.
        versions: all versions of this prompt, itself included; None for a turn that belongs to no conversation.
        stored_id: id of the prompt in the chat store, None if it is not stored.
    """

    prompt: str
    answer: Answer
    siblings: list[Answer] = field(default_factory=list)
    versions: PromptVersions | None = field(default=None, compare=False, repr=False)
    stored_id: int | None = None

    @property
    def answers(self) -> list[Answer]:
        """All answers to the prompt in the order requested."""
        return self.siblings or [self.answer]

    @property
    def shown(self) -> int:
        """Index of the shown answer among all."""
        return next(index for index, answer in enumerate(self.answers) if answer is self.answer)

    def has_sibling(self, by: int) -> bool:
        """Returns whether the shown answer has a previous (-1) or next (1) sibling."""
        return 0 <= self.shown + by < len(self.answers)

    @property
    def version(self) -> tuple[int, int]:
        """Index of this prompt among its versions, and their number."""
        if self.versions is None:
            return 0, 1
        return self.versions.index_of(self), len(self.versions.turns)


def _set_answers(turn: Turn, answers: list[Answer], shown: int) -> None:
    turn.siblings = answers if len(answers) > 1 else []
    turn.answer = answers[min(shown, len(answers) - 1)] if answers else missing_answer()


@dataclass(slots=True, eq=False)
class PromptVersions:
    """The versions of a prompt at one point of a conversation, each with what follows it, and the index of the shown one.

    A conversation is a tree of these; `Session.turns` is the shown path through it.
    """

    turns: list[Turn] = field(default_factory=list)
    shown: int = 0

    @property
    def path(self) -> list[Turn]:
        """The shown turns from here on."""
        found: list[Turn] = []
        here = self
        while here.turns:
            found.append(here.turns[here.shown])
            here = found[-1].answer.following
        return found

    def add(self, turn: Turn) -> None:
        """Adds a prompt and shows it."""
        turn.versions = self
        self.turns.append(turn)
        self.shown = len(self.turns) - 1

    def remove(self, turn: Turn) -> None:
        """Removes a prompt; the one before it is shown."""
        at = self.index_of(turn)
        del self.turns[at]
        self.shown = max(0, min(at, len(self.turns)) - 1) if self.shown == at else self.shown - (self.shown > at)

    def show(self, turn: Turn) -> None:
        """Shows this prompt."""
        self.shown = self.index_of(turn)

    def index_of(self, turn: Turn) -> int:
        """Returns the index of a prompt."""
        return next(at for at, other in enumerate(self.turns) if other is turn)


Path = Sequence[tuple[Turn, Answer]]
"""A path through a conversation: each turn with its shown answer."""


@dataclass(frozen=True, slots=True)
class PlainMeasurement:
    """A plain run that is made only to measure the speed to compare an answer with.

    Attributes:
        run_id: its run.
        answer: the answer to compare.
        is_automatic: the user did not ask for it.
    """

    run_id: int
    answer: Answer
    is_automatic: bool


class Session:
    """The conversation and the engine's state after the last event.

    Attributes:
        turns: the shown path through the conversation; the last turn may still be running.
        root: the versions of the first prompt, which are the root of the conversation tree.
        models: the state of the models.
        drafter: name of the drafter that last became ready.
        replay_words: progress of a replay.
        baselines: the measured plain runs.
        measurement: the plain run that is made only as a measurement; None if none is.
        engine_place: (models run in a separate process, models run on several machines).
        machines: number of machines the target is split over.
        read_only: another window has the conversation open and alone may change it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.turns: list[Turn] = []
        self.root = PromptVersions()
        self.conversation = 0
        self.models: Models = Nothing()
        self.drafter = NO_DRAFTER
        self.baselines = Baselines()
        self.measurement: PlainMeasurement | None = None
        self.engine_place = (False, False)
        self.machines = 1
        self.read_only = False
        self._distributions: dict[str, bool] = {}
        self.replay_words = ""
        self._aside: list[Turn] | None = None

    @property
    def model(self) -> ModelInfo | None:
        """The loaded target."""
        return None if self._ready is None else self._ready.model

    @property
    def target(self) -> str:
        """The name that the loaded target was requested by; empty if none is loaded."""
        return "" if self._ready is None else self._ready.target

    @property
    def _ready(self) -> Ready | None:
        return self.models.ready if isinstance(self.models, Changing) else self.models if isinstance(self.models, Ready) else None

    @property
    def loading(self) -> Loading | None:
        """The load that is under way."""
        models = self.models
        return models.loading if isinstance(models, Changing) else models if isinstance(models, Loading) else None

    @property
    def replaying(self) -> bool:
        """Whether a replay is shown; the conversation is then set aside, and no answer can be running."""
        return self._aside is not None

    @property
    def idle(self) -> bool:
        """Whether the conversation can be changed: no answer runs, no replay is shown, and no other window has it."""
        return self.running is None and not self.replaying and not self.read_only

    def show_replay(self, turns: list[Turn]) -> None:
        """Shows these turns in place of the conversation, or of another replay, until `leave_replay`."""
        if self._aside is None:
            self._aside = self.turns
        self.turns = turns

    def leave_replay(self) -> None:
        """Returns to the conversation as it was."""
        if self._aside is not None:
            self.turns, self._aside = self._aside, None

    @property
    def answer(self) -> Answer | None:
        """The newest answer, running or not."""
        return self.turns[-1].answer if self.turns else None

    @property
    def answers_messages(self) -> bool:
        """Whether the target has a chat template; assumed until one is loaded."""
        return self.model is None or self.model.has_template

    @property
    def running(self) -> Answer | None:
        """The newest answer while it runs; None once it has ended, and during a replay."""
        answer = self.answer
        return answer if answer is not None and answer.running and not self.replaying else None

    @property
    def newest_prompt(self) -> str:
        """The prompt of the last turn; empty before the first."""
        return self.turns[-1].prompt if self.turns else ""

    @property
    def trace_paths(self) -> list[str]:
        """Trace paths of this conversation, oldest first."""
        return [turn.answer.trace_path for turn in self.turns if turn.answer.trace_path]

    def baseline(self, answer: Answer) -> Baseline | None:
        """Returns the measured plain run to compare an answer with; None for an answer that is a plain run itself."""
        if answer.request is None or is_plain(answer) or not self._made_here(answer):
            return None
        return self.baselines.of(answer.request)

    def _made_here(self, answer: Answer) -> bool:
        """Returns whether an answer was made where models run now, as far as is known."""
        return not answer.other_machine and answer.made_in in (None, self.engine_place)

    def may_measure(self, answer: Answer | None) -> bool:
        """Returns whether a plain run for an answer can be requested now: it is not plain itself, and nothing is running."""
        there = answer is not None and answer.request is not None and answer.tally.rounds > 0 and not is_plain(answer)
        return there and self.running is None and self.measurement is None

    def why_not_measured(self, answer: Answer) -> str:
        """Returns why a plain run now would not be comparable with an answer, in words for the user; empty if it would be."""
        again = "Regenerate the answer to measure with it."
        if answer.request is None or self.model is None or answer.request.target != self.target:
            return f"A different target is loaded now. {again}"
        if answer.model_hash and answer.model_hash != self.model.sha256:
            return f"The files of the target have changed since this answer was given. {again}"
        if not self._made_here(answer):
            return f"Models ran elsewhere when this answer was given. {again}"
        return ""

    def plain_run(self, answer: Answer) -> PlainRun | None:
        """Returns the baseline of an answer for exports, which need a run of exactly the same question."""
        known = self.baseline(answer)
        return PlainRun(known.throughput, known.tokens) if known is not None and known.fits else None

    @property
    def plain_runs(self) -> dict[str, PlainRun]:
        """The measured plain runs by the path of the trace they belong to."""
        found = ((turn.answer.trace_path, self.plain_run(turn.answer)) for turn in self.turns)
        return {path: plain for path, plain in found if path is not None and plain is not None}

    def has_distribution(self, drafter: str) -> bool:
        """Returns whether a drafter's proposals have probabilities; a guess until the engine reports it."""
        return self._distributions.get(drafter, drafter_kind(drafter).has_distribution)

    def was_ready(self, drafter: str) -> bool:
        """Returns whether the engine was able to use a drafter since the window opened."""
        return drafter in self._distributions

    def clear(self) -> None:
        """Starts a new conversation."""
        self.show(PromptVersions())

    def show(self, root: PromptVersions) -> None:
        """Shows another conversation."""
        self.root = root
        self.turns = root.path
        self.conversation += 1

    def add_turn(
        self, prompt: str, options: DecodingOptions, drafter: str, model: str = "", instead_of: int | None = None
    ) -> Answer:
        """Adds a prompt after the last turn, or as another version of the one at `instead_of`. Returns its empty answer, which
        waits from now on. `model` is the target's display name."""
        answer = Answer(options=options, drafter=drafter, submitted=self.clock(), model=model)
        before = self.turns[:instead_of]
        turn = Turn(prompt, answer)
        (before[-1].answer.following if before else self.root).add(turn)
        self.turns = [*before, turn]
        return answer

    def add_answer(self, at: int, options: DecodingOptions, drafter: str, model: str = "") -> Answer:
        """Adds an empty answer to the prompt of a turn and shows it; the others stay as siblings."""
        turn = self.turns[at]
        answer = Answer(options=options, drafter=drafter, submitted=self.clock(), model=model)
        if turn.answer.missing and not turn.answer.following.turns:
            turn.siblings = [other if other is not turn.answer else answer for other in turn.siblings]
        else:
            turn.siblings = [*turn.answers, answer]
        turn.answer = answer
        self.turns = self.turns[: at + 1]
        return answer

    def add_edited(self, at: int, text: str) -> Answer:
        """Adds a text written by the user as an answer of a turn and shows it; the others stay as siblings."""
        before = self.turns[at].answer
        answer = self.add_answer(at, before.options, before.drafter, before.model)
        answer.state, answer.edited, answer.shows_thought = "finished", True, before.shows_thought
        answer.text.begin(text)
        return answer

    def choose(self, at: int, by: int, prompts: bool = False) -> Turn | None:
        """Shows the sibling `by` steps away from a turn's answer or, with `prompts`, from its prompt. Returns the turn; None if
        there is none."""
        turn = self.turns[at]
        if prompts:
            place, many = turn.version
            if turn.versions is None or not 0 <= place + by < many:
                return None
            turn.versions.shown = place + by
            turn = turn.versions.turns[place + by]
        elif turn.has_sibling(by):
            turn.answer = turn.answers[turn.shown + by]
        else:
            return None
        self._follow_choices()
        return turn

    def why_not_continue(self, at: int) -> str:
        """Returns why the answer of a turn cannot be continued, in words for the user; empty if it can."""
        answer = self.turns[at].answer
        if answer.finish == "context" and at == 0:
            return "The context is full, and there is no earlier turn that could be left out."
        return "" if answer.can_continue else "The answer is complete, so there is nothing to continue."

    @property
    def path(self) -> Path:
        """The shown path, for `follow`."""
        return [(turn, turn.answer) for turn in self.turns]

    def follow(self, path: Path) -> None:
        """Restores a shown path, as far as it still exists."""
        for turn, answer in path:
            if turn.versions is None or not any(turn is other for other in turn.versions.turns):
                break
            turn.versions.show(turn)
            if any(answer is other for other in turn.answers):
                turn.answer = answer
        self._follow_choices()

    def complete(self, answer: Answer, read: Answer) -> None:
        """Completes an answer whose text alone was loaded with everything read from its trace."""
        for name in ("options", "drafter", "logits", "text", "tally", "rounds", "changes", "rules", "prefill", "result"):
            setattr(answer, name, getattr(read, name))
        for name in ("seconds_to_first_token", "thought_seconds", "cache_length", "model_hash", "other_machine"):
            setattr(answer, name, getattr(read, name))
        answer.finish = read.finish or answer.finish
        answer.unread = False

    def remove(self, turn: Turn, answer: Answer | None = None) -> Callable[[], None]:
        """Removes an answer, or a whole turn with all that follows. Returns a function that undoes it."""
        path, versions = self.path, turn.versions
        assert versions is not None
        place = versions.index_of(turn) if answer is None else turn.answers.index(answer)
        if answer is None:
            versions.remove(turn)
        else:
            _set_answers(turn, [other for other in turn.answers if other is not answer], max(0, place - 1))
        self._follow_choices()

        def back() -> None:
            """Restores what was removed at its old position and shows it."""
            if answer is None:
                versions.turns.insert(min(place, len(versions.turns)), turn)
            else:
                others = [other for other in turn.answers if not other.missing or other.following.turns]
                _set_answers(turn, [*others[:place], answer, *others[place:]], place)
            self.follow(path)

        return back

    def _follow_choices(self) -> None:
        """Updates the turns to the current choices, also while a replay is shown instead of them."""
        if self._aside is None:
            self.turns = self.root.path
        else:
            self._aside = self.root.path

    def messages(self, system: str = "") -> tuple[Message, ...]:
        """Returns the conversation up to and including the newest prompt, for a request."""
        return self.messages_before(self.turns[-1].prompt, system, len(self.turns) - 1)

    def messages_before(self, prompt: str, system: str = "", at: int | None = None) -> tuple[Message, ...]:
        """Returns the messages of all turns, or of those before an index, followed by a prompt unless it is empty."""
        messages = [Message("system", system)] if system.strip() else []
        for turn in self.turns[:at]:
            messages += _messages_of(turn)
        return (*messages, Message("user", prompt)) if prompt else tuple(messages)

    def turns_of(self, messages: int) -> int:
        """Returns the number of turns that the first `messages` messages span."""
        turns = 0
        while messages > 0 and turns < len(self.turns):
            messages -= len(_messages_of(self.turns[turns]))
            turns += 1
        return turns

    @property
    def dropped_turns(self) -> int:
        """Number of oldest turns that the model did not see for the newest answer."""
        answer = self.answer
        return self.turns_of(answer.dropped) if answer is not None else 0

    def apply(self, event: Event | Requested | EngineReplaced) -> None:
        """Applies one event. Events of a run other than that of the newest answer are ignored, and those after its end."""
        self.models = after(self.models, event)
        match event:
            case DrafterReady(name, has_distribution):
                self.drafter = name
                self._distributions[name] = has_distribution
            case RunStarted() | PrefillProgress() | RoundFinished() | RunChanged() | RunFinished() | RunFailed():
                answer = self.answer
                if answer is not None and answer.run_id == event.run_id and answer.running:
                    answer.state = answer_after(answer.state, event)
                    self._apply_to(answer, event)

    def _apply_to(self, answer: Answer, event: Event) -> None:
        match event:
            case RunStarted(_, options, prompt_tokens, drafter, trace_path):
                answer.options, answer.drafter = options, drafter
                answer.prefill, answer.trace_path = (0, prompt_tokens), trace_path
                answer.rules, answer.logits, answer.dropped = [options.rule], event.logits, event.dropped
                answer.chains = event.chains
                if event.in_thought:
                    answer.text.open_thought()
                if event.given:
                    answer.text.begin(event.given, answer.chosen)
                if event.given_ids and answer.request is not None:
                    answer.request = replace(answer.request, given=event.given_ids)
                if self.model is not None and not self.replaying:
                    answer.model_hash = self.model.sha256
                    answer.model = answer.model if self.target == "builtin" else self.model.name
            case PrefillProgress(_, done, total):
                answer.prefill = (done, total)
            case RoundFinished(_, round_, seconds_to_first_token):
                answer.seconds_to_first_token = seconds_to_first_token
                answer.cache_length = round_.cache_length
                answer.tally.add(round_)
                answer.rounds.append(round_)
                thinks = answer.text.thought.state in ("undecided", "open")
                answer.text.add(round_)
                ended = (round_.started + round_.milliseconds.total) / 1000
                if thinks and answer.has_thought and math.isfinite(ended):  # a trace may lack its times
                    answer.thought_seconds = ended
                if round_.rule not in answer.rules:
                    answer.rules.append(round_.rule)
            case RunChanged(rule=rule):
                answer.changes.append(event)
                if rule not in answer.rules:
                    answer.rules.append(rule)
            case RunFinished(_, finish):
                answer.finish, answer.result = finish, event
                answer.seconds_to_first_token = event.seconds_to_first_token
                answer.trace_path = event.trace_path or answer.trace_path
                if answer.request is not None and is_plain(answer):
                    self.baselines.add(answer.request, event)
            case RunFailed(_, message):
                answer.message = message
