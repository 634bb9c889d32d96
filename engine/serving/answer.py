"""Produces one answer, from request to summary: template, cache, rounds, trace and events. Runs on the engine thread.

An answer is produced in turns of one round, so that several answers can share the machine (`engine.serving.time_sharing`). Its
times are its own: time that other answers take in between is excluded.

An answer that has the machine to itself is reported on another thread. While the target's passes run, that thread analyses
earlier rounds, writes them to the trace and sends them, one after another. It may lag a few rounds behind.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.decode.context import DecodeContext, RoundOutcome
from engine.decode.run_control import Changes, Clock
from engine.decode.text_stream import AnswerText
from engine.files.logs import explain
from engine.files.paths import traces_folder
from engine.lens.thoughts import opens_thought
from engine.machine import provenance
from engine.rounds.codec import options_to_json, plain
from engine.rounds.metrics import Totals, violations
from engine.rounds.trace import Writer, trace_name
from engine.serving.backend import Backend
from engine.serving.jobs import Run
from engine.serving.model_slots import Closing, ModelRefused, ModelSlots
from engine.serving.overlap import OverlapExecutor
from engine.serving.prompt import ContextFull, Prompt, prompt_of, uses_template
from engine.types import (
    SEED_LIMIT,
    DecodingOptions,
    Event,
    Finish,
    PrefillProgress,
    Request,
    Round,
    RoundFinished,
    RunChanged,
    RunFailed,
    RunFinished,
    RunStarted,
)
from engine.values.errors import DraftlightError
from engine.values.wording import amount

if TYPE_CHECKING:  # the module itself needs no MLX
    from engine.drafters.base import Drafter
    from engine.drafters.loaded import LoadedDrafter
    from engine.models.loaded import LoadedModel
    from engine.target.interface import PromptCache

_log = logging.getLogger(__name__)


def answer(run: Run, backend: Backend, slots: ModelSlots, emit: Callable[[Event], None]) -> None:
    """Produces the answer, or reports why there is none. Raises nothing but Closing."""
    for _ in turns(run, backend, slots, emit):
        pass


def turns(
    run: Run, backend: Backend, slots: ModelSlots, emit: Callable[[Event], None], *, shared_since: float | None = None
) -> Generator[float, None, None]:
    """Produces the answer turn by turn, or reports why there is none. The caller must take all turns.

    Args:
        shared_since: time since which other answers have turns in between; None if no other answer has.

    Yields:
        after each round but the last: seconds of its own time that the answer has taken since prefill.

    Raises:
        Closing: the engine is being closed; nothing else.
    """
    if run.stopped:
        emit(_cancelled(run))
        return
    try:
        clock = Clock()
        began = clock()
        target = slots.target(run.request.target)
        request = _with_changes(run.request, run.take_changes())
        drafter = slots.drafter(request.drafter)
        # Loading is excluded: the models stay loaded for the next answer, and for the other answers that take turns.
        clock.exclude(began if shared_since is None else shared_since)
        request = with_given_ids(target, request)
        prompt = prompt_of(target, request)
        run.continues = not uses_template(target, request.template)
        given = beginning(target, request.given, request.options, len(prompt.ids), run.continues)
    except Closing:
        emit(_cancelled(run))
        raise
    except BaseException as error:
        may_drop = isinstance(error, ContextFull) and error.may_drop
        refused = error.event if isinstance(error, ModelRefused) else None
        emit(RunFailed(run.id, explain(error, "preparing the answer"), may_drop, refused))
        return
    yield from _AnswerRun(
        run, request, target, drafter, prompt, given, backend, slots, emit, clock, shared_since is None
    ).produce()


@dataclass(eq=False)
class _AnswerRun:
    """An answer in progress. `runs_alone`: whether no other answer has turns in between."""

    run: Run
    request: Request
    target: LoadedModel
    drafter: LoadedDrafter
    prompt: Prompt
    given: Beginning
    backend: Backend
    slots: ModelSlots
    emit: Callable[[Event], None]
    clock: Clock
    runs_alone: bool
    rounds: list[Round] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)
    reused: int = 0
    began: float = 0.0
    prefill_seconds: float = 0.0
    first_token: float | None = None
    is_changing: bool = False

    def __post_init__(self) -> None:
        self.tokens = [*self.prompt.ids, *self.given.ids]
        self.template = uses_template(self.target, self.request.template)
        self.numerics = self.backend.numerics(self.target)
        options = self.request.options
        self.in_force: dict[str, Any] = {"rule": options.rule, "gamma": options.gamma, "drafter": self.drafter.name}

    def produce(self) -> Generator[float, None, None]:
        """Decodes, and writes a complete trace whatever happens."""
        created = datetime.now(UTC)
        path = Path(self.request.trace_path) if self.request.trace_path else traces_folder() / trace_name(created)
        writer = Writer(None if self.request.only_measures else path, self._header(created))
        trace_path = None if writer.failure or writer.path is None else str(path)
        self.emit(
            RunStarted(
                self.run.id,
                self.request.options,
                len(self.tokens),
                self.drafter.name,
                trace_path,
                self.given.text,
                self.numerics.logits,
                self.template,
                self.template and opens_thought(self.target.tokenizer.decode(self.prompt.ids[-16:])),
                self.given.ids,
                self.prompt.dropped,
                self._chains_reason(),
            )
        )
        finish: Finish | None = None
        failure: str | None = None
        try:
            finish = yield from self._decode(writer)
        except GeneratorExit:
            raise
        except BaseException as error:  # native code raises PanicException, which is no Exception; nor is SystemExit
            failure = explain(error, "answering")
            self.slots.forget_drafters()
        finally:
            self.run.clear_callbacks()
        writer.summary(self._summary(finish, failure))
        writer.close()
        if finish is None:
            self.emit(RunFailed(self.run.id, failure or ""))
            return
        self.emit(
            RunFinished(
                run_id=self.run.id,
                finish=finish,
                text=self._text(),
                tokens=self.totals.summary().emitted,
                seconds=self.totals.summary().seconds,
                prefill_seconds=self.prefill_seconds,
                seconds_to_first_token=self.first_token,
                trace_path=None if writer.failure else trace_path,
                trace_error=writer.failure,
            )
        )

    def _chains_reason(self) -> str:
        """Returns why chains are drafted, if the user asked for trees of a given size."""
        options = self.request.options
        is_asked = isinstance(options.budget, int)
        return self.backend.chains_reason(self.target, self.drafter.drafter, options) if is_asked else ""

    def _decode(self, writer: Writer) -> Generator[float, None, Finish]:
        conversation, bits = self.request.conversation, self.request.options.kv_bits
        if conversation and bits is not None:
            conversation += f" at {bits} bits"  # a cache cannot change its precision
        cache = self.slots.caches.take(conversation, self.tokens) or self.backend.make_cache(self.target, bits)
        self.reused = self.backend.cache_length(cache) or 0
        self.run.on_prefill, self.run.on_changes = self._prefilled, self._changed
        self.began = self.clock()
        context = DecodeContext(
            self.target,
            self.tokens,
            self._drafter_for_run(self.drafter),
            self.request.options,
            cache=cache,
            control=self.run,
            given=len(self.given.ids),
            clock=self.clock,
        )
        outcomes = self.backend.decode(context)
        with contextlib.closing(outcomes), OverlapExecutor() as executor:  # closed on this thread, not by the garbage collector
            self.run.on_wait = executor.begin
            for outcome in outcomes:
                round = outcome.round
                if not round.index:
                    decoding = (round.started + round.milliseconds.total) / 1000
                    self.prefill_seconds = max(0.0, self.clock() - self.clock.waited - self.began - decoding)
                    self.first_token = self.clock() - self.run.submitted
                changed = self._changed_to(round)
                if self.runs_alone:
                    try:
                        executor.put(partial(self._report, writer, outcome, changed), round.rows)
                    except BaseException:  # raised by an earlier round's analysis; this round's text still counts
                        self._report(writer, RoundOutcome(round), changed)
                        raise
                    if not self.request.options.analyse:
                        executor.begin()
                else:
                    timed = replace(outcome, complete=partial(outcome.whole_at_once, self.clock))
                    round = self._report(writer, timed, changed)
                    del timed
                del outcome  # frees the round's arrays
                if round.finish is None and not self.runs_alone:
                    yield from self._hand_over((round.started + round.milliseconds.total) / 1000)
            executor.wait()
        if not self.rounds:
            self.prefill_seconds = self.clock() - self.began
        if conversation:
            self._keep(conversation, cache)
        for problem in violations(self.rounds):
            _log.error("The rounds of %s do not add up. %s", writer.path, problem)
        return self._finish()

    def _changed_to(self, round: Round) -> dict[str, Any] | None:
        """Returns the settings in force if they have changed with this round, else None."""
        if not self.is_changing:
            return None
        self.is_changing = False
        self.in_force["drafter"] = round.drafter  # a new drafter is not used if a stop interrupts its catching up
        return dict(self.in_force)

    def _report(self, writer: Writer, outcome: RoundOutcome, changed: dict[str, Any] | None) -> Round:
        """Counts, writes and sends a round once it is complete, and returns it. If completing it fails, the round is reported
        without the analysis and the error is raised. Makes no MLX calls."""
        complete, failure = outcome.round, None
        try:
            complete = outcome.whole()
        except BaseException as error:
            failure = error
        if changed is not None:
            writer.change({"index": complete.index, **changed})
            self.emit(RunChanged(self.run.id, complete.index, **changed))
        self.rounds.append(complete)
        self.totals.add(complete)
        writer.round(complete)
        self.emit(RoundFinished(self.run.id, complete, self.first_token))
        if failure is not None:
            raise failure
        return complete

    def _drafter_for_run(self, loaded: LoadedDrafter) -> Drafter | None:
        """Returns the drafter. It follows one text, so answers that take turns get one each, with shared weights."""
        return loaded.drafter if self.runs_alone else loaded.renewed()

    def _hand_over(self, used: float) -> Generator[float, None, None]:
        """Lets other answers take their turns. Waits for this answer's queued work first, which would otherwise run in their
        time."""
        self.run.waits()
        self.clock.wait(self.backend.finish_queued)
        left = self.clock()
        yield used
        self.clock.exclude(left)

    def _changed(self, requested: Changes) -> Changes:
        """Returns the requested changes that take effect, with drafters instead of names. They apply from the next round on."""
        given = requested.copy()
        if isinstance(name := requested.get("drafter"), str):
            try:
                given["drafter"] = self._drafter_for_run(self.slots.drafter(name))
            except DraftlightError:  # DrafterRefused says why; the answer continues unchanged
                del given["drafter"], requested["drafter"]
            except Closing:  # the run was stopped and ends before the next round
                return {}
        if given:
            self.in_force.update(requested)
            self.is_changing = True
        return given

    def _prefilled(self, done: int, total: int) -> None:
        self.emit(PrefillProgress(self.run.id, done, total))

    def _finish(self) -> Finish:
        finish = self.rounds[-1].finish if self.rounds else None
        if finish is not None:
            return finish
        if self.run.stopped:
            return "cancelled"
        raise RuntimeError("the rounds ended without a reason")

    def _keep(self, conversation: str, cache: PromptCache) -> None:
        """Stores the cache with its tokens: all committed ones but the newest, or what was read of a cancelled prompt.

        A cache that does not count its tokens, as that of a purely recurrent model, is dropped: its content could not be
        verified.
        """
        counted = self.backend.cache_length(cache)
        if counted is None:
            return
        committed = self.tokens + [token.id for round in self.rounds for token in round.emitted]
        cached_tokens = len(committed) - 1 if self.rounds else min(counted, len(committed) - 1)
        try:
            self.slots.caches.keep(conversation, cache, committed[:cached_tokens])
        except AssertionError:  # a dropped cache costs only time
            _log.exception("The cache of the answer was dropped")

    def _text(self) -> str:
        return self.given.text + "".join(round.text for round in self.rounds)

    def _header(self, created: datetime) -> dict[str, Any]:
        request = self.request
        return {
            "created": created.isoformat(timespec="milliseconds"),
            "versions": provenance.versions(),
            "hardware": {**provenance.hardware(), "device": self.backend.device()},
            "target": {
                "name": self.target.name,
                "sha256": self.target.sha256,
                "context_length": self.target.context_length,
                "vocabulary_size": len(self.target.vocabulary),
                **plain(self.numerics),
            },
            "drafter": {
                "name": self.drafter.name,
                "sha256": self.drafter.sha256,
                "has_distribution": self.drafter.has_distribution,
            },
            "options": options_to_json(request.options),
            "seed": request.options.seed,
            "conversation": request.conversation,
            "kept": request.kept,
            "prompt": {
                "messages": plain(request.messages if self.template else request.messages[-1:]),
                "template": self.template,
                "thinking": request.thinking,
                "dropped": self.prompt.dropped,
                "text": self.target.tokenizer.decode(self.prompt.ids),
                "ids": self.prompt.ids,
            },
            "given": plain(self.given),
        }

    def _summary(self, finish: Finish | None, failure: str | None) -> dict[str, Any]:
        metrics = self.totals.summary()
        return {
            "finish": finish,
            "error": failure,
            "text": self._text(),
            "tokens": metrics.emitted,
            "seconds": metrics.seconds,
            "prefill_seconds": self.prefill_seconds,
            "prompt_tokens": len(self.tokens),
            "reused_tokens": self.reused,
            "seconds_to_first_token": self.first_token,
            "metrics": plain(metrics),
        }


def _with_changes(request: Request, changes: Changes) -> Request:
    """Returns the request with the changes made before its answer began, and with a seed."""
    options = request.options.replace(**{name: value for name, value in changes.items() if name != "drafter"})
    if options.seed is None:
        options = options.replace(seed=secrets.randbelow(SEED_LIMIT))
    name = changes.get("drafter")
    return replace(request, options=options, drafter=name if isinstance(name, str) else request.drafter)


def _cancelled(run: Run) -> RunFinished:
    return RunFinished(run.id, "cancelled", "", 0, 0.0, 0.0, None, None)


@dataclass(frozen=True, slots=True)
class Beginning:
    """Tokens that an answer begins with, as ids, because encoding their text may give other tokens.

    Attributes:
        text: text that they add to the answer. An incomplete character at the end is left to the token that completes it.
    """

    ids: tuple[int, ...] = ()
    text: str = ""


def with_given_ids(target: LoadedModel, request: Request) -> Request:
    """Returns the request with `given_text` converted to token ids."""
    if request.given or not request.given_text:
        return request
    ids = tuple(target.tokenizer.encode(request.given_text, allow_special=True))
    longest = request.options.max_tokens + len(ids)
    return replace(request, given=ids, options=request.options.replace(max_tokens=longest))


def beginning(
    target: LoadedModel, given: Sequence[int], options: DecodingOptions, prompt_tokens: int, continues: bool = False
) -> Beginning:
    """Returns the beginning of an answer with these ids. Raises DraftlightError if an answer cannot continue from them.
    `continues`: see `AnswerText`."""
    if not given:
        return Beginning()
    size = len(target.vocabulary)
    wrong = next((token for token in given if not 0 <= token < size), None)
    if wrong is not None:
        raise DraftlightError(f"The answer cannot begin with token {wrong}: {target.name} has tokens 0 to {size - 1}.")
    if any(token in target.eos_ids for token in given):
        raise DraftlightError("This token ends the answer, so nothing could follow it. Choose another.")
    if len(given) >= options.max_tokens:
        raise DraftlightError(
            f"The answer may have at most {amount(options.max_tokens, 'token')}, and the branch already has {len(given):,}. "
            "Increase Max tokens, or branch earlier."
        )
    if prompt_tokens + len(given) >= target.context_length:
        raise DraftlightError(
            f"The answer already fills the context of {amount(target.context_length, 'token')} of {target.name}. Branch earlier."
        )
    text = AnswerText(target.tokenizer, (), frozenset(), continues).begin(given)
    if any(stop in text for stop in options.stop):
        raise DraftlightError("This token completes a stop sequence, which ends the answer. Choose another.")
    return Beginning(tuple(given), text)
