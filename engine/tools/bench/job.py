"""Runs a benchmark from the request to the last row. Runs on the engine thread and imports no MLX itself.

Up to three settings on a prompt run between two plain runs of the same prompt at the same temperature, and are compared with
both. The plain run that is closer in time has the larger weight. A machine that becomes steadily slower or faster therefore
does not change a speed-up. The order of the settings rotates from prompt to prompt. A prompt starts only if there is time for
all of its runs, so that a benchmark with a time limit measures every setting on the same prompts.

Every measurement is saved immediately (`engine.tools.bench.journal`), and the same request resumes after an interruption: an
interrupted prompt gets new plain runs, then the missing settings.

The turns of a conversation are first answered by plain decoding. Those answers become the history for every setting, so that
all are measured on the same prompts.
"""

from __future__ import annotations

import contextlib
import gc
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from engine.files import library
from engine.files.library import LibraryModel
from engine.files.pairs import suggestions
from engine.machine import garbage, provenance
from engine.serving.backend import Backend
from engine.serving.jobs import LongTask
from engine.serving.model_slots import ModelSlots
from engine.serving.prompt import prompt_ids
from engine.tools.bench.journal import Journal, exclusive_use, state_of
from engine.tools.bench.measure import MeasuredAnswer, own_answer, peer_answer, row_of
from engine.types import (
    INVARIANT_RULES,
    SEED_LIMIT,
    BenchFinished,
    BenchMeasured,
    BenchSkipped,
    BenchStarted,
    DecodingOptions,
    Event,
    Message,
    ModelInfo,
)
from engine.values.drafter_kinds import NO_DRAFTER, drafter_kind
from engine.values.requests.bench import BenchDrafter, BenchPrompt, BenchRequest, BenchSetting, BenchSetup
from engine.values.wording import amount

if TYPE_CHECKING:  # the module itself needs no MLX
    from engine.drafters.loaded import LoadedDrafter

SEEDS_APART = 1000
"""Difference between the seeds of two prompts; the turns of a prompt use seeds in between."""
BETWEEN = 3
"""Maximum number of settings between two plain runs."""
WARM_UP_TOKENS = 8
ENOUGH = 0.8
"""A prompt starts if at least this share of its estimated time is left; the estimate is rough, and time should not be
wasted."""


class _OutOfTime(Exception):
    """Raised when the time limit is reached."""


class BenchTask(LongTask[BenchRequest]):
    """Task that runs a benchmark."""

    purpose = "benchmarking"

    def work(self, backend: Backend, slots: ModelSlots, emit: Callable[[Event], None]) -> BenchFinished:
        """Runs the benchmark; `emit` receives rows and progress. Raises Stopped or Closing if it is interrupted."""
        began = time.monotonic()
        with contextlib.nullcontext() if self.request.journals is None else exclusive_use(Path(self.request.journals)):
            try:
                _Bench(self, backend, slots, emit, began).run()
            except _OutOfTime:
                return self._end(complete=False, out_of_time=True)
        return self._end(complete=True)

    def cut_off(self) -> BenchFinished:
        """Returns the end event of a benchmark that was stopped; the rows so far remain valid."""
        return self._end(complete=False)

    def _end(self, complete: bool, out_of_time: bool = False) -> BenchFinished:
        """Returns the end event, with the peak memory of this process: the requester may be another process."""
        return BenchFinished(self.id, complete, out_of_time, provenance.peak_memory())


def planned(
    request: BenchRequest, drafters: Sequence[LoadedDrafter], refused: Mapping[str, str]
) -> tuple[tuple[BenchSetting, ...], tuple[str, ...]]:
    """Returns the settings at every temperature, without the plain baseline, and notes on deviations from the request.

    `refused`: by drafter, why mlx-lm does not speculate with it.
    """
    settings: list[BenchSetting] = []
    notes: list[str] = []
    for temperature in request.temperatures:
        settings += [
            BenchSetting("draftlight", drafter.name, rule, temperature, gamma)
            for drafter in drafters
            for gamma in request.gammas
            for rule in request.rules
        ]
        if request.peers:
            settings.append(BenchSetting("mlx-lm", NO_DRAFTER, None, temperature, None))
            settings += [
                BenchSetting("mlx-lm", drafter.name, "match", temperature, gamma)
                for drafter in drafters
                if drafter.model is not None and drafter.name not in refused
                for gamma in request.gammas
                if gamma != "auto"
            ]
    if request.peers and request.kv_bits is not None:
        notes.append("mlx-lm is measured with keys and values in full precision.")
    for drafter in drafters if request.peers else ():
        if drafter.model is None:
            notes.append(f"mlx-lm is not measured with {drafter.name}: it speculates with draft models only.")
        elif drafter.name in refused:
            notes.append(f"mlx-lm is not measured with {drafter.name}: {refused[drafter.name]}.")
        elif "auto" in request.gammas:
            notes.append(f"mlx-lm is not measured with {drafter.name} at gamma auto: it drafts a fixed number of tokens.")
        if drafter.model is not None and drafter.model.target_ids is not None and drafter.name not in refused:
            notes.append(f"mlx-lm reads {drafter.name} through a wrapper that spreads its trimmed head onto the target's ids.")
    return tuple(settings), tuple(notes)


def _runs(settings: int) -> int:
    """Returns the number of answers per turn, including the plain ones."""
    return settings + math.ceil(settings / BETWEEN) + 1


class _Bench:
    """A benchmark in progress."""

    def __init__(self, task: BenchTask, backend: Backend, slots: ModelSlots, emit: Callable[[Event], None], began: float) -> None:
        self._task, self._request = task, task.request
        self._backend, self._slots, self._emit = backend, slots, emit
        self._began, self._limit = began, None if task.request.minutes is None else 60 * task.request.minutes
        self._target = slots.target(self._request.target)
        slots.forget_drafters()
        slots.caches.clear()
        named = [name for name in self._request.drafters if name != NO_DRAFTER]
        self._memory: dict[str, int] = {}
        loaded: dict[str, LoadedDrafter] = {}
        for name in sorted(named, key=lambda name: len(drafter_kind(name).members)):  # those that choose among others last
            backend.finish_and_free()
            before = backend.held_memory()
            loaded[name] = slots.drafter(name)
            backend.finish_and_free()
            self._memory[name] = max(0, backend.held_memory() - before)
        self._drafters = {name: loaded[name] for name in named}
        drafters = list(self._drafters.values())
        reasons = {drafter.name: backend.peer_refusal(self._target, drafter.model) for drafter in drafters if drafter.model}
        refused = {name: reason for name, reason in reasons.items() if reason is not None}
        self._settings, self._notes = planned(self._request, drafters, refused)
        self._drafters[NO_DRAFTER] = slots.drafter(NO_DRAFTER)
        at = [sum(setting.temperature == temperature for setting in self._settings) for temperature in self._request.temperatures]
        self._runs = sum(len(prompt.turns) for prompt in self._request.prompts) * sum(map(_runs, at))
        self._run = 0
        self._order = 0
        self._step = ""
        self._journal: Journal | None = None
        self._done: set[tuple[str, BenchSetting]] = set()
        self._measuring: tuple[float, int] = (0.0, 0)

    def run(self) -> None:
        """Runs the whole benchmark. Raises Stopped if the task was stopped."""
        self._begin()
        # Loaded objects are exempted from garbage collection, which then takes no time before a measurement.
        garbage.collect()
        gc.freeze()
        try:
            self._warm_up()
            self._all_prompts()
        finally:
            gc.unfreeze()
        self._write_journal(Journal.finished)

    def _begin(self) -> None:
        """Emits what is about to be measured, and what an interrupted benchmark with the same request has already measured."""
        setup = self._setup()
        if self._request.journals is not None:
            try:
                self._journal = Journal(Path(self._request.journals), state_of(self._request, setup), self._request.anew)
            except OSError as error:
                setup = replace(setup, notes=(*setup.notes, _journal_warning(error)))
        journal = self._journal
        if journal is not None and journal.note:
            setup = replace(setup, notes=(*setup.notes, journal.note))
        self._emit(BenchStarted(self._task.id, setup))
        if journal is not None:
            for message in journal.messages:
                self._emit(BenchSkipped(self._task.id, message))
            for row in journal.rows:
                self._emit(BenchMeasured(self._task.id, row))
                self._done.add((row.prompt_id, row.setting))
                self._order = row.order + 1

    def _write_journal(self, write: Callable[[Journal], None]) -> None:
        if self._journal is not None:
            try:
                write(self._journal)
            except OSError as error:
                self._journal = None
                self._emit(BenchSkipped(self._task.id, _journal_warning(error)))

    def _all_prompts(self) -> None:
        for index, prompt in enumerate(self._request.prompts):
            self._step = f"prompt {index + 1} of {len(self._request.prompts)}: {prompt.id} ({prompt.category})"
            for temperature in self._request.temperatures:
                self._prompt(index, prompt, temperature)

    def _setup(self) -> BenchSetup:
        target = self._target
        return BenchSetup(
            target=ModelInfo(target.name, str(target.path), target.sha256, target.context_length, len(target.vocabulary)),
            drafters=tuple(
                BenchDrafter(drafter.name, drafter.sha256, drafter.has_distribution)
                for name, drafter in self._drafters.items()
                if name != NO_DRAFTER
            ),
            device=self._backend.device(),
            settings=self._settings,
            notes=self._notes,
            warm_up_tokens=min(WARM_UP_TOKENS, self._request.max_tokens),
            own=tuple(self._own_drafters()),
        )

    def _own_drafters(self) -> Iterator[str]:
        """Yields the names of models on this machine that could draft for the target but were not requested: trained drafters,
        and draft models known by name to fit it. Reading the vocabulary of every other model would take too long."""
        models = library.find(map(Path, library.added_folders()))
        target = next((model for model in models if _same(model, str(self._target.path))), None)
        known = [] if target is None else [found.local_model for found in suggestions(target, models)]
        for model in models:
            if model.problem or not (model.only_drafts or model in known):
                continue
            asked = any(_same(model, name) for name in self._request.drafters)
            if not asked and not self._slots.unloaded_pair(model.target)[0]:
                yield model.name

    def _warm_up(self) -> None:
        """Runs each kind of drafter once, because a first run loads and compiles what later runs reuse."""
        self._step = "warming up"
        ids = next((ids for prompt in self._request.prompts if (ids := self._ids(prompt, []))), None)
        if ids is None:
            return
        for setting in (BenchSetting("draftlight", NO_DRAFTER, None, self._request.temperatures[0], None), *self._settings):
            options = self._options(setting, 0, 0)
            self._answer(setting, ids, options.replace(max_tokens=min(WARM_UP_TOKENS, options.max_tokens)), lambda tokens: None)

    def _prompt(self, index: int, prompt: BenchPrompt, temperature: float) -> None:
        """Measures one prompt at one temperature, each setting between two plain runs."""
        plain = BenchSetting("draftlight", NO_DRAFTER, None, temperature, None)
        planned = [setting for setting in self._settings if setting.temperature == temperature]
        first = index % len(planned) if planned else 0
        settings = [own for own in planned[first:] + planned[:first] if (prompt.id, own) not in self._done]
        end = self._run + len(prompt.turns) * _runs(len(planned))
        if (prompt.id, plain) in self._done and not settings:
            self._run = end
            return
        self._require_time(len(prompt.turns) * _runs(len(settings)))
        self._run = end - len(prompt.turns) * _runs(len(settings))
        ids, reference = self._conversation(index, prompt, plain)
        self._run += (len(prompt.turns) - len(ids)) * _runs(len(settings))
        if not ids:
            return
        before = reference
        self._measured(plain, prompt, reference, (reference, ()), None)
        for start in range(0, len(settings), BETWEEN):
            some = settings[start : start + BETWEEN]
            group = [(setting, self._take_order(), self._answers(setting, index, ids)) for setting in some]
            after = self._answers(plain, index, ids)
            for setting, order, own in group:
                promised = temperature == 0 or (setting.maker == "draftlight" and setting.rule in INVARIANT_RULES)
                self._measured(setting, prompt, own, (before, after), reference if promised else None, order)
            self._measured(plain, prompt, after, (after, ()), None)
            before = after

    def _measured(
        self,
        setting: BenchSetting,
        prompt: BenchPrompt,
        answers: Sequence[MeasuredAnswer],
        plain: tuple[Sequence[MeasuredAnswer], Sequence[MeasuredAnswer]],
        reference: Sequence[MeasuredAnswer] | None,
        order: int | None = None,
    ) -> None:
        used = (setting.drafter, *drafter_kind(setting.drafter).members)
        others = sum(size for name, size in self._memory.items() if name not in used)
        row = row_of(setting, prompt, self._take_order() if order is None else order, answers, plain, reference, others)
        self._write_journal(partial(Journal.measured, row=row))
        self._emit(BenchMeasured(self._task.id, row))

    def _take_order(self) -> int:
        self._order += 1
        return self._order - 1

    def _require_time(self, runs: int) -> None:
        """Raises _OutOfTime if `runs` more answers are not expected to end within the time limit, at the mean time of the
        answers so far."""
        seconds, measured = self._measuring
        if self._limit is not None and measured:
            remaining = self._limit - (time.monotonic() - self._began)
            if remaining < ENOUGH * runs * seconds / measured:
                raise _OutOfTime

    def _conversation(self, index: int, prompt: BenchPrompt, plain: BenchSetting) -> tuple[list[list[int]], list[MeasuredAnswer]]:
        """Returns the token ids up to each turn's answer and the plain answers, for as many turns as the model's context
        holds."""
        ids: list[list[int]] = []
        answers: list[MeasuredAnswer] = []
        for turn in range(len(prompt.turns)):
            read = self._ids(prompt, [answer.text for answer in answers])
            if read is None:
                what = f"turn {turn + 1} of {prompt.id}" if turn else prompt.id
                limit = f"{self._target.name} reads at most {amount(self._target.context_length, 'token')}"
                message = f"{what} is not measured: {limit}."
                if self._journal is None or message not in self._journal.messages:
                    self._write_journal(partial(Journal.skipped, message=message))
                    self._emit(BenchSkipped(self._task.id, message))
                break
            ids.append(read)
            answers.append(self._answer(plain, read, self._options(plain, index, turn), self._tick))
            self._run += 1
        return ids, answers

    def _ids(self, prompt: BenchPrompt, answers: Sequence[str]) -> list[int] | None:
        """Returns the conversation up to the turn after these answers, in its chat template; None if it exceeds the context."""
        messages = [Message("user", prompt.turns[0])]
        for answer, turn in zip(answers, prompt.turns[1:], strict=False):
            messages += [Message("assistant", answer), Message("user", turn)]
        ids = prompt_ids(self._target, messages)
        return ids if len(ids) < self._target.context_length else None

    def _answers(self, setting: BenchSetting, index: int, prompts: Sequence[Sequence[int]]) -> list[MeasuredAnswer]:
        answers = []
        for turn, ids in enumerate(prompts):
            answers.append(self._answer(setting, ids, self._options(setting, index, turn), self._tick))
            self._run += 1
        return answers

    def _answer(
        self, setting: BenchSetting, ids: Sequence[int], options: DecodingOptions, tick: Callable[[int], None]
    ) -> MeasuredAnswer:
        def proceed(tokens: int) -> None:
            """Called after every round or token with the answer's tokens so far. Raises Stopped if the task was stopped, and
            _OutOfTime after the time limit."""
            self._task.proceed()
            if self._limit is not None and time.monotonic() - self._began > self._limit:
                raise _OutOfTime
            tick(tokens)

        drafter, began = self._drafters[setting.drafter], time.monotonic()
        if setting.maker == "mlx-lm":
            answer = peer_answer(self._backend, self._target, drafter.model, ids, options, proceed)
        else:
            answer = own_answer(self._backend, self._target, drafter, ids, options, self._task, proceed)
        if options.max_tokens == self._request.max_tokens:
            self._measuring = self._measuring[0] + time.monotonic() - began, self._measuring[1] + 1
        return answer

    def _options(self, setting: BenchSetting, index: int, turn: int) -> DecodingOptions:
        options = DecodingOptions(
            temperature=setting.temperature,
            seed=(self._request.seed + SEEDS_APART * index + turn) % SEED_LIMIT,
            max_tokens=self._request.max_tokens,
            kv_bits=self._request.kv_bits,
            analyse=False,
            phase_every=0,
            **self._request.filters,
            **self._request.trees,
        )
        if setting.rule is not None:
            options = options.replace(rule=setting.rule)
        return options if setting.gamma is None else options.replace(gamma=setting.gamma)

    def _tick(self, tokens: int) -> None:
        done = (self._run + min(1.0, tokens / self._request.max_tokens)) / self._runs
        passed = 0.0 if self._limit is None else (time.monotonic() - self._began) / self._limit
        self._task.report(self._emit, self._step, min(1.0, max(done, passed)))


def _same(model: LibraryModel, name: str) -> bool:
    """Returns whether `name` is this model's path or Hub id."""
    return name == model.name or Path(name).expanduser().resolve() == Path(model.target).resolve()


def _journal_warning(error: OSError) -> str:
    return f"This benchmark could not continue after an interruption: {error.strerror or error}."
