"""One answer from request to summary: template, cache, rounds, trace and events. Runs on the engine thread.

An answer is made in turns of one round, so that several can share the machine (`engine.serving.time_sharing`). Its times are
its own: what other answers took in between counts nowhere.

An answer that has the machine to itself is reported beside the engine thread: while the target's passes run, the rounds before
are analysed, written to the trace and sent, on a thread that does one after the other and may fall a few rounds behind.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.decode.clock import Clock
from engine.decode.context import DecodeContext
from engine.decode.outcome import RoundOutcome
from engine.decode.run_control import Changes
from engine.decode.text_stream import AnswerText
from engine.files.logs import explain
from engine.files.paths import traces_folder
from engine.lens.thoughts import opened_by
from engine.machine import provenance
from engine.rounds.codec import options_to_json, plain
from engine.rounds.metrics import Totals, violations
from engine.rounds.trace import Writer, trace_name
from engine.serving.backend import Backend
from engine.serving.beside import Beside
from engine.serving.jobs import Run
from engine.serving.model_slots import Closing, ModelSlots
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
    """Produce the answer, or report why there is none. Raises nothing but Closing."""
    for _ in turns(run, backend, slots, emit):
        pass


def turns(
    run: Run, backend: Backend, slots: ModelSlots, emit: Callable[[Event], None], *, shared_since: float | None = None
) -> Generator[float, None, None]:
    """Produce the answer turn by turn, or report why there is none. Whoever asks for turns takes them to the end.

    Args:
        shared_since: since when other answers have turns in between; None if none have.

    Yields:
        after each round but the last: seconds of its own that the answer has taken since its prompt was read.

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
        # Loading is left out: the next answer finds what this one loads, and of several what one loads is there for the others.
        clock.leave_out(began if shared_since is None else shared_since)
        request = with_given_ids(target, request)
        prompt = prompt_of(target, request)
        run.continues = not uses_template(target, request.template)
        given = beginning(target, request.given, request.options, len(prompt.ids), run.continues)
    except Closing:
        emit(_cancelled(run))
        raise
    except BaseException as error:
        emit(RunFailed(run.id, explain(error, "preparing the answer"), isinstance(error, ContextFull) and error.may_drop))
        return
    yield from _AnswerRun(
        run, request, target, drafter, prompt, given, backend, slots, emit, clock, shared_since is None
    ).produce()


class _AnswerRun:
    """The answer under way."""

    def __init__(
        self,
        run: Run,
        request: Request,
        target: LoadedModel,
        drafter: LoadedDrafter,
        prompt: Prompt,
        given: Beginning,
        backend: Backend,
        slots: ModelSlots,
        emit: Callable[[Event], None],
        clock: Clock,
        alone: bool,
    ) -> None:
        self._run = run
        self._request = request
        self._target = target
        self._drafter = drafter
        self._prompt = prompt.ids
        self._dropped = prompt.dropped
        self._given = given
        self._read = [*prompt.ids, *given.ids]
        self._template = uses_template(target, request.template)
        self._backend = backend
        self._slots = slots
        self._emit = emit
        self._clock = clock
        self._alone = alone
        self._numerics = backend.numerics(target)
        self._rounds: list[Round] = []
        self._totals = Totals()
        self._reused = 0
        self._began = 0.0
        self._prefill_seconds = 0.0
        self._first_token: float | None = None
        self._in_force: dict[str, Any] = {
            "rule": request.options.rule,
            "gamma": request.options.gamma,
            "drafter": drafter.name,
        }
        self._is_changing = False

    def produce(self) -> Generator[float, None, None]:
        """Decode, and leave a whole trace whatever happens."""
        created = datetime.now(UTC)
        path = Path(self._request.trace_path) if self._request.trace_path else traces_folder() / trace_name(created)
        writer = Writer(None if self._request.only_measures else path, self._header(created))
        trace_path = None if writer.failure or writer.path is None else str(path)
        self._emit(
            RunStarted(
                self._run.id,
                self._request.options,
                len(self._read),
                self._drafter.name,
                trace_path,
                self._given.text,
                self._numerics.logits,
                self._template,
                self._template and opened_by(self._target.tokenizer.decode(self._prompt[-16:])),
                self._given.ids,
                self._dropped,
            )
        )
        finish: Finish | None = None
        failure: str | None = None
        try:
            finish = yield from self._decode(writer)
        except GeneratorExit:
            raise
        except BaseException as error:  # what panics in native code is no Exception, nor is SystemExit
            failure = explain(error, "answering")
            self._slots.forget_drafters()
        finally:
            self._run.tell_nobody()
        writer.summary(self._summary(finish, failure))
        writer.close()
        if finish is None:
            self._emit(RunFailed(self._run.id, failure or ""))
            return
        self._emit(
            RunFinished(
                run_id=self._run.id,
                finish=finish,
                text=self._text(),
                tokens=self._totals.summary().emitted,
                seconds=self._totals.summary().seconds,
                prefill_seconds=self._prefill_seconds,
                seconds_to_first_token=self._first_token,
                trace_path=None if writer.failure else trace_path,
                trace_error=writer.failure,
            )
        )

    def _decode(self, writer: Writer) -> Generator[float, None, Finish]:
        conversation, bits = self._request.conversation, self._request.options.kv_bits
        if conversation and bits is not None:
            conversation += f" at {bits} bits"  # a cache of one kind cannot go on as one of another
        cache = self._slots.caches.take(conversation, self._read) or self._backend.make_cache(self._target, bits)
        self._reused = self._backend.cache_length(cache) or 0
        self._run.on_prefill, self._run.on_changes = self._prefilled, self._changed
        self._began = self._clock()
        context = DecodeContext(
            self._target,
            self._read,
            self._made(self._drafter),
            self._request.options,
            cache=cache,
            control=self._run,
            given=len(self._given.ids),
            clock=self._clock,
        )
        outcomes = self._backend.decode(context)
        with contextlib.closing(outcomes), Beside() as beside:  # closed on this thread, not whenever the collector runs
            self._run.on_wait = beside.begin
            for outcome in outcomes:
                round = outcome.round
                if not round.index:
                    decoding = (round.started + round.milliseconds.total) / 1000
                    self._prefill_seconds = max(0.0, self._clock() - self._clock.waited - self._began - decoding)
                    self._first_token = self._clock() - self._run.submitted
                changed = self._changed_to(round)
                if self._alone:
                    try:
                        beside.put(partial(self._report, writer, outcome, changed), round.rows)
                    except BaseException:  # the analysis of an earlier round; this one's text counts without it
                        self._report(writer, RoundOutcome(round), changed)
                        raise
                    if not self._request.options.analyse:
                        beside.begin()
                else:
                    timed = replace(outcome, complete=partial(outcome.whole_at_once, self._clock))
                    round = self._report(writer, timed, changed)
                    del timed
                del outcome  # with the arrays of the round
                if round.finish is None and not self._alone:
                    yield from self._hand_over((round.started + round.milliseconds.total) / 1000)
            beside.wait()
        if not self._rounds:
            self._prefill_seconds = self._clock() - self._began
        if conversation:
            self._keep(conversation, cache)
        for problem in violations(self._rounds):
            _log.error("The rounds of %s do not add up. %s", writer.path, problem)
        return self._finish()

    def _changed_to(self, round: Round) -> dict[str, Any] | None:
        """What has changed with this round, if anything has."""
        if not self._is_changing:
            return None
        self._is_changing = False
        self._in_force["drafter"] = round.drafter  # one that a stop kept from catching up takes no part
        return dict(self._in_force)

    def _report(self, writer: Writer, outcome: RoundOutcome, changed: dict[str, Any] | None) -> Round:
        """Counts, writes and sends a round once it is whole, and returns it. If completing it fails, the round is reported as it
        is, and the error raised. Calls nothing of MLX."""
        whole, failure = outcome.round, None
        try:
            whole = outcome.whole()
        except BaseException as error:
            failure = error
        if changed is not None:
            writer.change({"index": whole.index, **changed})
            self._emit(RunChanged(self._run.id, whole.index, **changed))
        self._rounds.append(whole)
        self._totals.add(whole)
        writer.round(whole)
        self._emit(RoundFinished(self._run.id, whole, self._first_token))
        if failure is not None:
            raise failure
        return whole

    def _made(self, loaded: LoadedDrafter) -> Drafter | None:
        """The drafter itself. It follows one text, so answers that take turns have one each, on the same weights."""
        return loaded.drafter if self._alone else loaded.renewed()

    def _hand_over(self, used: float) -> Generator[float, None, None]:
        """Others have their turns. What this answer has queued is waited for first: it would run in their time."""
        self._run.waits()
        self._clock.wait(self._backend.finish_queued)
        left = self._clock()
        yield used
        self._clock.leave_out(left)

    def _changed(self, wishes: Changes) -> Changes:
        """What takes effect of the wishes, with the drafter in place of its name. The next round is the first under it."""
        given = wishes.copy()
        if isinstance(name := wishes.get("drafter"), str):
            try:
                given["drafter"] = self._made(self._slots.drafter(name))
            except DraftlightError:  # DrafterRefused says why; the answer goes on as it was
                del given["drafter"], wishes["drafter"]
            except Closing:  # the run is stopped already and ends before the next round
                return {}
        if given:
            self._in_force.update(wishes)
            self._is_changing = True
        return given

    def _prefilled(self, done: int, total: int) -> None:
        self._emit(PrefillProgress(self._run.id, done, total))

    def _finish(self) -> Finish:
        finish = self._rounds[-1].finish if self._rounds else None
        if finish is not None:
            return finish
        if self._run.stopped:
            return "cancelled"
        raise RuntimeError("the rounds ended without a reason")

    def _keep(self, conversation: str, cache: PromptCache) -> None:
        """Note what the cache holds: all committed tokens but the newest, or what was read of a prompt that was cancelled.

        One that keeps no count, as a purely recurrent model's, is dropped: nothing could tell whether it holds what is noted.
        """
        counted = self._backend.cache_length(cache)
        if counted is None:
            return
        committed = self._read + [token.id for round in self._rounds for token in round.emitted]
        held = len(committed) - 1 if self._rounds else min(counted, len(committed) - 1)
        try:
            self._slots.caches.keep(conversation, cache, committed[:held])
        except AssertionError:  # never used again, so later answers stay right; they only read more
            _log.exception("The cache of the answer was dropped")

    def _text(self) -> str:
        return self._given.text + "".join(round.text for round in self._rounds)

    def _header(self, created: datetime) -> dict[str, Any]:
        request = self._request
        return {
            "created": created.isoformat(timespec="milliseconds"),
            "versions": provenance.versions(),
            "hardware": {**provenance.hardware(), "device": self._backend.device()},
            "target": {
                "name": self._target.name,
                "sha256": self._target.sha256,
                "context_length": self._target.context_length,
                "vocabulary_size": len(self._target.vocabulary),
                **plain(self._numerics),
            },
            "drafter": {
                "name": self._drafter.name,
                "sha256": self._drafter.sha256,
                "has_distribution": self._drafter.has_distribution,
            },
            "options": options_to_json(request.options),
            "seed": request.options.seed,
            "conversation": request.conversation,
            "kept": request.kept,
            "prompt": {
                "messages": plain(request.messages if self._template else request.messages[-1:]),
                "template": self._template,
                "thinking": request.thinking,
                "dropped": self._dropped,
                "text": self._target.tokenizer.decode(self._prompt),
                "ids": self._prompt,
            },
            "given": plain(self._given),
        }

    def _summary(self, finish: Finish | None, failure: str | None) -> dict[str, Any]:
        metrics = self._totals.summary()
        return {
            "finish": finish,
            "error": failure,
            "text": self._text(),
            "tokens": metrics.emitted,
            "seconds": metrics.seconds,
            "prefill_seconds": self._prefill_seconds,
            "prompt_tokens": len(self._read),
            "reused_tokens": self._reused,
            "seconds_to_first_token": self._first_token,
            "metrics": plain(metrics),
        }


def _with_changes(request: Request, changes: Changes) -> Request:
    """The request under the changes that came before its answer began, and with a seed."""
    options = request.options.replace(**{name: value for name, value in changes.items() if name != "drafter"})
    if options.seed is None:
        options = options.replace(seed=secrets.randbelow(SEED_LIMIT))
    name = changes.get("drafter")
    return replace(request, options=options, drafter=name if isinstance(name, str) else request.drafter)


def _cancelled(run: Run) -> RunFinished:
    return RunFinished(run.id, "cancelled", "", 0, 0.0, 0.0, None, None)


@dataclass(frozen=True, slots=True)
class Beginning:
    """The tokens an answer begins with, as ids, because text need not become the same tokens again.

    Attributes:
        text: what they add to the answer. An unfinished character at the end comes with the token that completes it.
    """

    ids: tuple[int, ...] = ()
    text: str = ""


def with_given_ids(target: LoadedModel, request: Request) -> Request:
    """A request whose answer begins with a text, with the tokens of that text."""
    if request.given or not request.given_text:
        return request
    ids = tuple(target.tokenizer.encode(request.given_text, allow_special=True))
    longest = request.options.max_tokens + len(ids)
    return replace(request, given=ids, options=request.options.replace(max_tokens=longest))


def beginning(
    target: LoadedModel, given: Sequence[int], options: DecodingOptions, prompt_tokens: int, continues: bool = False
) -> Beginning:
    """The beginning of an answer with these ids. Raises DraftlightError where the answer cannot go on from there. `continues`: as
    of `AnswerText`."""
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
