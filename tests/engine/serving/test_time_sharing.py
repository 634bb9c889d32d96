"""Answers that take turns, and short ones drawn many times: on a fake backend, and with tiny real models."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.decode import loop
from engine.decode.context import DecodeContext
from engine.decode.outcome import RoundOutcome
from engine.decode.policy.adaptive import AdaptivePolicy
from engine.drafters import DraftModel
from engine.drafters.draft import Draft, DraftPlan
from engine.drafters.loaded import LoadedDrafter
from engine.drafters.sampler import Sampler
from engine.rounds.metrics import summarise, violations
from engine.rounds.trace import read
from engine.runtime.worker import Engine
from engine.target.prompt_cache import cache_length, make_prompt_cache
from engine.types import (
    DecodingOptions,
    DrafterRefused,
    Event,
    Message,
    Milliseconds,
    Request,
    Round,
    RoundFinished,
    RunChanged,
    RunFailed,
    RunFinished,
    RunStarted,
    SampleTaken,
    SamplingFinished,
    TaskFailed,
)
from engine.values.errors import DraftlightError
from engine.values.requests.compare import CompareRequest, Sample, SampleRequest
from tests.engine.fakes import PATIENCE, FakeBackend, FakeTarget
from tests.engine.small_models import tiny_llama

TINY = DecodingOptions(seed=3, max_tokens=24, temperature=0.9, gamma=3)


class PacedBackend(FakeBackend):
    """Its rounds take as long as `paces` says of the drafter, on a time that only moves when something is done.

    A part of the next round is queued: it is done when the round is asked for, or has been waited for.
    """

    paces = {"none": 0.030, "quick": 0.010}
    queued = 0.004
    loading, reading = 7.0, 2.0

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0

    def time(self) -> float:
        return self.now

    def load(self, *arguments: Any) -> FakeTarget:
        self.now += self.loading
        return super().load(*arguments)

    def drafter(self, *arguments: Any) -> LoadedDrafter:
        self.now += self.loading
        return super().drafter(*arguments)

    def decode(self, context: DecodeContext) -> Generator[RoundOutcome, None, None]:
        clock = context.clock
        began: float | None = None
        self.now += self.reading
        for outcome in super().decode(context):
            made = outcome.round
            began = clock() if began is None else began
            start = clock() - clock.pop_carry_over()
            self.now += self.paces[made.drafter] - (self.queued if made.index else 0)
            times = Milliseconds((clock() - start) * 1e3)
            yield RoundOutcome(replace(made, started=(start - began) * 1e3, milliseconds=times))

    def finish_queued(self) -> None:
        super().finish_queued()
        self.now += self.queued


class Desk:
    """An engine, and everything that came out of it."""

    def __init__(self, make: Callable[[], Any] | None = None) -> None:
        self.engine = Engine() if make is None else Engine(make)
        self.seen: list[Event] = []

    def collect(self, done: Callable[[], bool]) -> None:
        while not done():
            assert self.engine.wait(PATIENCE), f"nothing came any more; seen: {self.seen[-4:]}"
            self.seen += self.engine.events()

    def ends(self, runs: Sequence[int]) -> dict[int, RunFinished | RunFailed]:
        """The end of every run."""

        def found() -> dict[int, RunFinished | RunFailed]:
            return {
                event.run_id: event for event in self.seen if isinstance(event, (RunFinished, RunFailed)) and event.run_id in runs
            }

        self.collect(lambda: len(found()) == len(runs))
        return found()

    def rounds(self, run: int) -> list[Round]:
        return [event.round for event in self.seen if isinstance(event, RoundFinished) and event.run_id == run]

    def order(self, since: int = 0) -> list[int]:
        """Whose rounds came, in order."""
        return [event.run_id for event in self.seen[since:] if isinstance(event, RoundFinished)]


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
def desk(home: Path, backend: FakeBackend) -> Iterator[Desk]:
    desk = Desk(lambda: backend)
    yield desk
    backend.gate = None
    assert desk.engine.close(PATIENCE)


def request(drafter: str = "none", text: str = "hi", **changes: Any) -> Request:
    options = DecodingOptions(max_tokens=changes.pop("max_tokens", 6), seed=1)
    return Request((Message("user", text),), options, drafter=drafter, **changes)


def test_answers_take_turns_and_each_has_its_own_ids_traces_and_whole_text(desk: Desk, home: Path) -> None:
    runs = desk.engine.compare(CompareRequest((request(), request("ngram"), request(text="other"))))
    ends = desk.ends(runs)
    assert len(set(runs)) == 3
    for run in runs:
        end = ends[run]
        assert isinstance(end, RunFinished)
        assert (end.text, end.finish) == ("abcdef", "length")
        assert end.trace_path is not None
        found = read(end.trace_path)
        assert found.missing is None
        assert list(found.rounds) == desk.rounds(run)
        assert not violations(found.rounds)
    assert len({end.trace_path for end in ends.values() if isinstance(end, RunFinished)}) == 3
    assert tuple(desk.order()[:3]) == runs, "each has its first turn before any has its second"


def script(monkeypatch: pytest.MonkeyPatch, time: Callable[[], float]) -> None:
    """Gives the clocks of answers a time of the test's own."""
    for module in ("decode.clock", "serving.time_sharing", "serving.jobs"):
        monkeypatch.setattr(f"engine.{module}.time", SimpleNamespace(perf_counter=time))


@pytest.fixture
def paced(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Desk, PacedBackend]]:
    backend = PacedBackend()
    script(monkeypatch, backend.time)
    desk = Desk(lambda: backend)
    yield desk, backend
    assert desk.engine.close(PATIENCE)


def test_the_next_turn_goes_to_the_answer_that_has_used_least_time(paced: tuple[Desk, PacedBackend]) -> None:
    desk, _ = paced
    slow, quick = desk.engine.compare(CompareRequest((request(max_tokens=40), request("quick", max_tokens=40))))
    desk.ends((slow, quick))
    order = desk.order()
    assert order[:2] == [slow, quick]
    both = order[: order.index(quick, len(order) - 1 - order[::-1].index(quick))]
    assert both.count(quick) / both.count(slow) == pytest.approx(3, abs=0.5), "rounds a third as long come three times as often"


def test_the_figures_of_an_answer_are_those_it_has_alone(paced: tuple[Desk, PacedBackend]) -> None:
    desk, _ = paced
    runs = desk.engine.compare(CompareRequest((request(max_tokens=20), request("quick", max_tokens=20))))
    ends = desk.ends(runs)
    plain, quick = (summarise(desk.rounds(run)) for run in runs)
    assert plain.throughput == pytest.approx(1 / 0.030)
    assert quick.throughput == pytest.approx(1 / 0.010)
    for run, summary in zip(runs, (plain, quick), strict=True):
        end = ends[run]
        assert isinstance(end, RunFinished)
        assert end.seconds == pytest.approx(summary.seconds)
        assert end.tokens / end.seconds == pytest.approx(summary.throughput)
    for run in runs:
        rounds = desk.rounds(run)
        for earlier, later in pairwise(rounds):
            assert later.started >= earlier.started + earlier.milliseconds.total - 1e-6, "two rounds of one answer overlap"


def test_the_time_to_the_first_token_is_that_of_the_answer_alone(paced: tuple[Desk, PacedBackend]) -> None:
    desk, backend = paced
    wanted = (request("quick"), request(), request("quick"), request())
    together = desk.engine.compare(CompareRequest(wanted))
    ends = desk.ends(together)
    for asked, compared in zip(wanted, together, strict=True):
        alone = desk.engine.submit(asked)
        own = backend.reading + backend.paces[asked.drafter]
        for end in (ends[compared], desk.ends((alone,))[alone]):
            assert isinstance(end, RunFinished) and end.trace_path is not None
            assert end.seconds_to_first_token == pytest.approx(own)
            assert end.prefill_seconds == pytest.approx(backend.reading)
            summary = read(end.trace_path).summary
            assert summary is not None and summary["seconds_to_first_token"] == end.seconds_to_first_token
        told = {
            event.seconds_to_first_token for event in desk.seen if isinstance(event, RoundFinished) and event.run_id == compared
        }
        assert told == {ends[compared].seconds_to_first_token}, "known from the first round on"  # type: ignore[union-attr]


def test_loading_is_excluded_from_the_time_to_the_first_token(paced: tuple[Desk, PacedBackend]) -> None:
    desk, backend = paced
    first = desk.engine.submit(request("quick"))
    (end,) = desk.ends((first,)).values()
    assert isinstance(end, RunFinished) and backend.loads == ["builtin", "quick"]
    assert end.seconds_to_first_token == pytest.approx(backend.reading + backend.paces["quick"])


def test_waiting_for_a_load_is_excluded_from_the_time_to_the_first_token(paced: tuple[Desk, PacedBackend]) -> None:
    desk, backend = paced
    desk.engine.load("builtin", "quick")
    asked = [desk.engine.submit(request("quick")) for _ in range(2)]
    ends = desk.ends(asked)
    assert backend.loads == ["builtin", "quick"]
    first, second = (ends[run] for run in asked)
    assert isinstance(first, RunFinished) and isinstance(second, RunFinished)
    assert first.seconds_to_first_token == pytest.approx(backend.reading + backend.paces["quick"])
    assert second.seconds_to_first_token < backend.loading + backend.reading


class PacedModel:
    """A tiny model whose passes take the device's time, after all that was queued before."""

    def __init__(self, device: Device, seed: int, seconds: float) -> None:
        self.model = tiny_llama(seed, vocab=128)
        self.layers = self.model.layers
        self.device, self.seconds = device, seconds

    def __call__(self, tokens: Any, cache: Any = None) -> Any:
        self.device.catch_up()
        self.device.now += self.seconds + 0.001 * tokens.shape[1]
        return self.model(tokens, cache=cache)


class QueuingDraft(DraftModel):
    """Its first step is queued: the device does it once that is waited for, or with the next pass."""

    def __init__(self, device: Device) -> None:
        self.device = device
        super().__init__(device.small, "draft")

    def prefetch(self) -> None:
        before = self.device.now
        super().prefetch()
        self.device.now, self.device.pending = before, self.device.now - before

    def propose(self, plan: DraftPlan, sampler: Sampler) -> Draft:
        self.device.catch_up()
        return super().propose(plan, sampler)


class Device(FakeBackend):
    """Decodes for real, with tiny models, on a device whose time is scripted."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.pending = 100.0, 0.0
        self.target, self.small = PacedModel(self, 1, 0.020), PacedModel(self, 2, 0.006)

    def time(self) -> float:
        return self.now

    def catch_up(self) -> None:
        self.now, self.pending = self.now + self.pending, 0.0

    def finish_queued(self) -> None:
        self.catch_up()

    def drafter(self, name: str, *arguments: Any) -> LoadedDrafter:
        make = functools.partial(QueuingDraft, self)
        return LoadedDrafter(name, make(), make=make)

    def make_cache(self, target: Any, kv_bits: int | None = None) -> Any:
        return make_prompt_cache(self.target)

    def cache_length(self, cache: Any) -> int:
        return cache_length(cache) or 0

    def decode(self, context: DecodeContext) -> Generator[RoundOutcome, None, None]:
        return loop.DecodeLoop(replace(context, model=self.target)).outcomes()


def test_an_adaptive_policy_learns_in_turns_what_it_learns_alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learned: list[list[tuple[int, float]]] = []

    class Watched(AdaptivePolicy):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            learned.append([])
            self.mine = learned[-1]

        def update(self, finished: Round, draft: Draft) -> None:
            self.mine.append((len(finished.proposals), round(finished.milliseconds.total, 6)))
            super().update(finished, draft)

    device = Device()
    monkeypatch.setattr(loop, "AdaptivePolicy", Watched)
    script(monkeypatch, device.time)
    options = DecodingOptions(max_tokens=30, seed=1, gamma="auto", rule="rejection", phase_every=6)
    wanted = Request((Message("user", "hello"),), options, drafter="draft")
    desk = Desk(lambda: device)
    alone = desk.engine.submit(wanted)
    desk.ends((alone,))
    together = desk.engine.compare(CompareRequest((wanted, wanted)))
    desk.ends(together)
    assert desk.engine.close(PATIENCE)
    assert len(learned) == 3 and len({gamma for gamma, _ in learned[0]}) > 2
    assert learned[1] == learned[2] == learned[0]

    def times(of: int) -> list[float]:
        return [time for each in desk.rounds(of) for time in (each.started, each.milliseconds.total)]

    for compared in together:
        assert times(compared) == pytest.approx(times(alone))


def test_queued_work_is_awaited_in_the_turn_of_its_answer(desk: Desk, backend: FakeBackend) -> None:
    runs = desk.engine.compare(CompareRequest((request(), request())))
    desk.ends(runs)
    assert backend.waits == 2 * (6 - 1), "after every round but the last of each"
    desk.ends((desk.engine.submit(request()),))
    assert backend.waits == 10, "an answer by itself runs ahead as ever"


def test_the_failure_of_one_answer_leaves_the_others_whole(desk: Desk) -> None:
    fine, misfit = desk.engine.compare(CompareRequest((request(), request("misfit"))))
    ends = desk.ends((fine, misfit))
    assert isinstance(ends[fine], RunFinished)
    assert isinstance(ends[misfit], RunFailed)
    assert any(isinstance(event, DrafterRefused) for event in desk.seen)


def test_an_answer_that_breaks_half_way_leaves_the_others_whole(home: Path) -> None:
    class Breaking(FakeBackend):
        def decode(self, context: DecodeContext) -> Generator[RoundOutcome, None, None]:
            for outcome in super().decode(context):
                if outcome.round.drafter == "ngram" and outcome.round.index == 2:
                    raise DraftlightError("the drafter broke.")
                yield outcome

    desk = Desk(Breaking)
    whole, broken = desk.engine.compare(CompareRequest((request(), request("ngram"))))
    ends = desk.ends((whole, broken))
    assert isinstance(ends[whole], RunFinished) and ends[whole].text == "abcdef"  # type: ignore[union-attr]
    assert isinstance(ends[broken], RunFailed)
    assert len(desk.rounds(broken)) == 2
    assert desk.engine.close(PATIENCE)


def test_each_answer_is_stopped_by_its_own_id_and_stopping_all_ends_all(desk: Desk, backend: FakeBackend) -> None:
    backend.gate = threading.Semaphore(40)
    runs = desk.engine.compare(CompareRequest((request(max_tokens=500), request(max_tokens=500))))
    desk.collect(lambda: len(desk.rounds(runs[1])) >= 1)
    desk.engine.stop(runs[0])
    backend.gate.release(10)
    first = desk.ends(runs[:1])[runs[0]]
    assert isinstance(first, RunFinished) and first.finish == "cancelled"
    before = len(desk.rounds(runs[1]))
    backend.gate.release(5)
    desk.collect(lambda: len(desk.rounds(runs[1])) > before)
    for run in runs:
        desk.engine.stop(run)
    backend.gate.release(10)
    second = desk.ends(runs[1:])[runs[1]]
    assert isinstance(second, RunFinished) and second.finish == "cancelled"
    assert second.trace_path is not None and read(second.trace_path).missing is None


def test_closing_in_the_middle_ends_every_answer_as_cancelled_with_whole_traces(home: Path) -> None:
    backend = FakeBackend()
    backend.gate = threading.Semaphore(30)
    desk = Desk(lambda: backend)
    runs = desk.engine.compare(CompareRequest((request(max_tokens=500), request("ngram", max_tokens=500))))
    desk.collect(lambda: all(len(desk.rounds(run)) >= 1 for run in runs))
    closing = threading.Thread(target=desk.engine.close, args=(PATIENCE,))
    closing.start()
    backend.gate.release(100)
    closing.join(PATIENCE)
    assert not closing.is_alive()
    assert desk.engine.close(PATIENCE)
    for end in desk.ends(runs).values():
        assert isinstance(end, RunFinished) and end.finish == "cancelled"
        assert end.trace_path is not None and read(end.trace_path).missing is None
    assert backend.threads - {threading.get_ident()} != set() and len(backend.threads) == 2, "one thread called the backend"


def test_one_answer_changes_its_rule_and_the_other_keeps_its_own(desk: Desk, backend: FakeBackend) -> None:
    backend.gate = threading.Semaphore(20)
    changed, kept = desk.engine.compare(CompareRequest((request("ngram", max_tokens=60), request("ngram", max_tokens=60))))
    desk.collect(lambda: len(desk.rounds(kept)) >= 1)
    desk.engine.update(changed, rule="match")
    backend.gate.release(200)
    desk.ends((changed, kept))
    assert {round.rule for round in desk.rounds(kept)} == {"gumbel"}
    assert {round.rule for round in desk.rounds(changed)} == {"gumbel", "match"}
    assert {event.run_id for event in desk.seen if isinstance(event, RunChanged)} == {changed}


def test_impossible_comparisons_are_refused_where_they_are_made() -> None:
    with pytest.raises(ValueError, match="at least two"):
        CompareRequest((request(),))
    with pytest.raises(ValueError, match="same target"):
        CompareRequest((request(), request(target="other")))
    with pytest.raises(ValueError, match="at least one"):
        SampleRequest((), 3)
    with pytest.raises(ValueError, match="samples must be a whole number from 1"):
        SampleRequest((request(),), 0)


# Sampling


def samples_of(desk: Desk, request_: SampleRequest) -> tuple[list[Sample], SamplingFinished | TaskFailed]:
    task = desk.engine.sample(request_)

    def end() -> SamplingFinished | TaskFailed | None:
        return next((e for e in desk.seen if isinstance(e, (SamplingFinished, TaskFailed)) and e.task_id == task), None)

    desk.collect(lambda: end() is not None)
    found = end()
    assert found is not None
    return [e.sample for e in desk.seen if isinstance(e, SampleTaken) and e.task_id == task], found


def test_samples_alternate_between_settings_and_have_one_seed_after_the_other(desk: Desk, backend: FakeBackend) -> None:
    samples, end = samples_of(desk, SampleRequest((request(max_tokens=2), request("ngram", max_tokens=2)), 3))
    assert isinstance(end, SamplingFinished) and end.complete
    assert [(sample.request, sample.index, sample.seed) for sample in samples] == [
        (0, 0, 1),
        (1, 0, 1),
        (0, 1, 2),
        (1, 1, 2),
        (0, 2, 3),
        (1, 2, 3),
    ]
    assert {sample.text for sample in samples} == {"ab"}
    assert [len(read_) for read_ in backend.read] == [19 - 1, 19 - 1, 0, 0, 0, 0], "a prompt is read once for each setting"


def test_a_prompt_without_template_is_read_as_it_stands(desk: Desk, backend: FakeBackend) -> None:
    samples_of(desk, SampleRequest((request(text="goes on", template=False),), 1))
    assert backend.read == [[ord(letter) for letter in "goes o"]]
    run = desk.engine.submit(request(text="", template=False))
    end = desk.ends((run,))[run]
    assert isinstance(end, RunFailed) and "prompt is empty" in end.message


def test_sampling_stops_and_says_that_it_is_not_complete(desk: Desk, backend: FakeBackend) -> None:
    backend.gate = threading.Semaphore(30)
    task = desk.engine.sample(SampleRequest((request(max_tokens=2),), 5000))
    desk.collect(lambda: any(isinstance(event, SampleTaken) for event in desk.seen))
    desk.engine.stop(task)
    backend.gate.release(10)
    desk.collect(lambda: any(isinstance(event, SamplingFinished) for event in desk.seen))
    end = desk.seen[-1]
    assert isinstance(end, SamplingFinished) and not end.complete


def test_a_drafter_that_does_not_fit_ends_the_sampling_with_the_reason(desk: Desk) -> None:
    samples, end = samples_of(desk, SampleRequest((request("misfit"),), 3))
    assert samples == []
    assert isinstance(end, TaskFailed) and "token 7 differs" in end.message


# With real models


@pytest.fixture
def real(home: Path) -> Iterator[Desk]:
    desk = Desk()
    yield desk
    assert desk.engine.close(PATIENCE)


def real_request(target: str, drafter: str, **changes: Any) -> Request:
    return Request((Message("user", "hello there"),), TINY.replace(**changes), target=target, drafter=drafter)


def ids(rounds: Sequence[Round]) -> list[int]:
    return [token.id for round in rounds for token in round.emitted]


def test_interleaved_answers_equal_those_decoded_alone(real: Desk, tiny_pair: tuple[str, str]) -> None:
    target, draft = tiny_pair
    wanted = (
        real_request(target, "none", max_tokens=60),
        real_request(target, draft, max_tokens=60),
        real_request(target, draft, max_tokens=60, rule="rejection", gamma=2),
        real_request(target, "ngram", max_tokens=60, rule="match"),
    )
    runs = real.engine.compare(CompareRequest(wanted))
    ends = real.ends(runs)
    for run, request_ in zip(runs, wanted, strict=True):
        assert isinstance(ends[run], RunFinished), ends[run]
        alone = real.engine.submit(request_)
        real.ends((alone,))
        assert ids(real.rounds(run)) == ids(real.rounds(alone))
        assert not violations(real.rounds(run))
        times = [(round.started, round.milliseconds) for round in real.rounds(run)]
        for (started, spent), (later, _) in pairwise(times):
            assert later >= started + spent.total - 1e-6
        for _, spent in times:
            if spent.measured:
                parts = (spent.draft, spent.verify, spent.judge, spent.other)
                assert math.fsum(part or 0.0 for part in parts) == pytest.approx(spent.total)
    plain, gumbel, _, match = (ids(real.rounds(run)) for run in runs)
    assert plain == gumbel == match, "the text does not depend on the drafter"


def test_the_target_drafts_for_itself_without_being_loaded_again(real: Desk, tiny_pair: tuple[str, str]) -> None:
    target, _ = tiny_pair
    requests = tuple(
        Request((Message("user", "hello"),), TINY.replace(rule=rule, max_tokens=3, seed=0), target=target, drafter=target)
        for rule in ("match", "gumbel", "rejection")
    )
    samples, end = samples_of(real, SampleRequest(requests, 60))
    assert isinstance(end, SamplingFinished) and end.complete
    steps = [event.step for event in real.seen if type(event).__name__ == "LoadProgress"]
    assert steps.count("loading the model") == 1
    first = [[s.rounds[0] for s in samples if s.request == place] for place in range(3)]
    collision = {round.expected[0].match for rounds in first for round in rounds}
    assert max(collision) - min(collision) < 1e-4, "the place is the same in every sample"
    accepted = [sum(round.proposals[0].status == "accepted" for round in rounds) for rounds in first]
    assert accepted[1:] == [60, 60], "gumbel and rejection accept what the target itself proposes"
    expected = next(iter(collision))
    deviation = math.sqrt(60 * expected * (1 - expected))
    assert abs(accepted[0] - 60 * expected) < 4.5 * deviation, "match accepts the sum of squared probabilities"
    assert accepted[0] < 60


def test_a_comparison_keeps_going_while_one_run_gets_another_drafter(real: Desk, tiny_pair: tuple[str, str]) -> None:
    target, draft = tiny_pair
    wanted = tuple(real_request(target, draft, max_tokens=300) for _ in range(2))
    runs = real.engine.compare(CompareRequest(wanted))
    real.collect(lambda: len(real.rounds(runs[1])) >= 2)
    real.engine.update(runs[0], drafter="ngram")
    ends = real.ends(runs)
    assert all(isinstance(end, RunFinished) for end in ends.values())
    assert {round.drafter for round in real.rounds(runs[1])} == {draft}
    assert ids(real.rounds(runs[0])) == ids(real.rounds(runs[1]))
    assert [event.drafter for event in real.seen if isinstance(event, RunStarted)] == [draft, draft]
