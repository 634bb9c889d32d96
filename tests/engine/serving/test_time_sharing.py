"""Answers that take turns, and short ones drawn many times: on a fake backend, and with tiny real models."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.decode import loop
from engine.decode.context import DecodeContext, RoundOutcome
from engine.decode.policy.adaptive import AdaptivePolicy
from engine.drafters import DraftModel
from engine.drafters.draft import Draft, DraftPlan
from engine.drafters.loaded import LoadedDrafter
from engine.drafters.sampler import Sampler
from engine.rounds.metrics import summarise, violations
from engine.runtime.worker import Engine
from engine.target.prompt_cache import cache_length, make_prompt_cache
from engine.types import (
    DrafterRefused,
    LoadProgress,
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
from engine.values.events import LOADING
from engine.values.requests.compare import CompareRequest, Sample, SampleRequest
from tests.engine.desk import Desk, request, trace_of
from tests.engine.fakes import PATIENCE, FakeBackend, FakeTarget
from tests.engine.small_models import emitted_ids, tiny_llama

TINY = {"seed": 3, "max_tokens": 40, "temperature": 0.9, "gamma": 3}


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


def order(desk: Desk) -> list[int]:
    """Whose rounds came, in order."""
    return [event.run_id for event in desk.of(RoundFinished)]


def compare(desk: Desk, *requests: Request) -> list[Any]:
    """Has the requests answered in turns; returns the ends."""
    return desk.ends(desk.engine.compare(CompareRequest(requests)))


def six(drafter: str = "none", **changes: Any) -> Request:
    """A request for six tokens."""
    return request(**{"drafter": drafter, "max_tokens": 6, **changes})


def test_answers_take_turns_and_each_has_its_own_ids_traces_and_whole_text(desk: Desk) -> None:
    ends = compare(desk, six(), six("ngram"), six(text="other"))
    runs = [end.run_id for end in ends]
    assert len(set(runs)) == 3 and len({end.trace_path for end in ends}) == 3
    for end in ends:
        assert (end.text, end.finish) == ("abcdef", "length")
        found = trace_of(end)
        assert list(found.rounds) == desk.rounds(end.run_id) and not violations(found.rounds)
    assert order(desk)[:3] == runs, "each has its first turn before any has its second"


def script(monkeypatch: pytest.MonkeyPatch, time: Callable[[], float]) -> None:
    """Gives the clocks of answers a time of the test's own."""
    for module in ("decode.run_control", "serving.time_sharing", "serving.jobs"):
        monkeypatch.setattr(f"engine.{module}.time", SimpleNamespace(perf_counter=time))


@pytest.fixture
def paced(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Desk, PacedBackend]]:
    backend = PacedBackend()
    script(monkeypatch, backend.time)
    with Desk(Engine(lambda: backend)) as desk:
        yield desk, backend


def test_the_next_turn_goes_to_the_answer_that_has_used_least_time(paced: tuple[Desk, PacedBackend]) -> None:
    desk, _ = paced
    slow, quick = (end.run_id for end in compare(desk, six(max_tokens=40), six("quick", max_tokens=40)))
    turns = order(desk)
    assert turns[:2] == [slow, quick]
    both = turns[: len(turns) - turns[::-1].index(quick) - 1]
    assert both.count(quick) / both.count(slow) == pytest.approx(3, abs=0.5), "rounds a third as long come three times as often"


def test_the_figures_of_an_answer_are_those_it_has_alone(paced: tuple[Desk, PacedBackend]) -> None:
    desk, _ = paced
    ends = compare(desk, six(max_tokens=20), six("quick", max_tokens=20))
    for end, seconds in zip(ends, (0.030, 0.010), strict=True):
        rounds = desk.rounds(end.run_id)
        assert summarise(rounds).throughput == pytest.approx(1 / seconds)
        assert end.seconds == pytest.approx(summarise(rounds).seconds)
        assert end.tokens / end.seconds == pytest.approx(1 / seconds)
        assert_apart(rounds)


def assert_apart(rounds: Sequence[Round]) -> None:
    """No two rounds of an answer overlap."""
    for earlier, later in pairwise(rounds):
        assert later.started >= earlier.started + earlier.milliseconds.total - 1e-6


def test_the_time_to_the_first_token_is_that_of_the_answer_alone(paced: tuple[Desk, PacedBackend]) -> None:
    desk, backend = paced
    wanted = (six("quick"), six(), six("quick"), six())
    for asked, compared in zip(wanted, compare(desk, *wanted), strict=True):
        (alone,) = desk.ends([desk.engine.submit(asked)])
        for end in (compared, alone):
            assert end.seconds_to_first_token == pytest.approx(backend.reading + backend.paces[asked.drafter])
            assert end.prefill_seconds == pytest.approx(backend.reading)
            summary = trace_of(end).summary
            assert summary is not None and summary["seconds_to_first_token"] == end.seconds_to_first_token
        told = {event.seconds_to_first_token for event in desk.of(RoundFinished, compared.run_id)}
        assert told == {compared.seconds_to_first_token}, "known from the first round on"


def test_loading_is_excluded_from_the_time_to_the_first_token(paced: tuple[Desk, PacedBackend]) -> None:
    desk, backend = paced
    end = desk.answer(drafter="quick")
    assert backend.loads == ["builtin", "quick"]
    assert end.seconds_to_first_token == pytest.approx(backend.reading + backend.paces["quick"])


def test_waiting_for_a_load_is_excluded_from_the_time_to_the_first_token(paced: tuple[Desk, PacedBackend]) -> None:
    desk, backend = paced
    desk.engine.load("builtin", "quick")
    first, second = desk.ends([desk.ask(drafter="quick") for _ in range(2)])
    assert backend.loads == ["builtin", "quick"]
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
    wanted = request("hello", drafter="draft", max_tokens=30, gamma="auto", rule="rejection", phase_every=6)
    with Desk(Engine(lambda: device)) as desk:
        (alone,) = desk.ends([desk.engine.submit(wanted)])
        together = compare(desk, wanted, wanted)
    assert len(learned) == 3 and len({gamma for gamma, _ in learned[0]}) > 2
    assert learned[1] == learned[2] == learned[0]

    def times(end: RunFinished) -> list[float]:
        return [time for each in desk.rounds(end.run_id) for time in (each.started, each.milliseconds.total)]

    for compared in together:
        assert times(compared) == pytest.approx(times(alone))


def test_queued_work_is_awaited_in_the_turn_of_its_answer(desk: Desk, backend: FakeBackend) -> None:
    compare(desk, six(), six())
    assert backend.waits == 2 * (6 - 1), "after every round but the last of each"
    desk.answer()
    assert backend.waits == 10, "an answer by itself runs ahead as ever"


def test_the_failure_of_one_answer_leaves_the_others_whole(desk: Desk) -> None:
    fine, misfit = compare(desk, six(), six("misfit"))
    assert isinstance(fine, RunFinished) and isinstance(misfit, RunFailed)
    assert desk.of(DrafterRefused)


def test_an_answer_that_breaks_half_way_leaves_the_others_whole(home: Path) -> None:
    class Breaking(FakeBackend):
        def decode(self, context: DecodeContext) -> Generator[RoundOutcome, None, None]:
            for outcome in super().decode(context):
                if outcome.round.drafter == "ngram" and outcome.round.index == 2:
                    raise DraftlightError("the drafter broke.")
                yield outcome

    with Desk(Engine(Breaking)) as desk:
        whole, broken = compare(desk, six(), six("ngram"))
    assert isinstance(whole, RunFinished) and whole.text == "abcdef"
    assert isinstance(broken, RunFailed) and len(desk.rounds(broken.run_id)) == 2


def test_each_answer_is_stopped_by_its_own_id_and_stopping_all_ends_all(desk: Desk, backend: FakeBackend) -> None:
    gate = backend.hold(40)
    runs = desk.engine.compare(CompareRequest((six(max_tokens=500), six(max_tokens=500))))
    desk.until(RoundFinished, 1, runs[1])
    desk.engine.stop(runs[0])
    gate.release(10)
    assert desk.ends(runs[:1])[0].finish == "cancelled"
    before = len(desk.rounds(runs[1]))
    gate.release(5)
    desk.until(RoundFinished, before + 1, runs[1])
    for run in runs:
        desk.engine.stop(run)
    gate.release(10)
    (second,) = desk.ends(runs[1:])
    assert second.finish == "cancelled" and trace_of(second)


def test_closing_in_the_middle_ends_every_answer_as_cancelled_with_whole_traces(desk: Desk, backend: FakeBackend) -> None:
    gate = backend.hold(30)
    runs = desk.engine.compare(CompareRequest((six(max_tokens=500), six("ngram", max_tokens=500))))
    desk.collect(lambda: all(map(desk.rounds, runs)))
    assert not desk.engine.close(0.0)
    gate.release(100)
    assert desk.engine.close(PATIENCE)
    for end in desk.ends(runs):
        assert end.finish == "cancelled" and trace_of(end)


def test_one_answer_changes_its_rule_and_the_other_keeps_its_own(desk: Desk, backend: FakeBackend) -> None:
    gate = backend.hold(20)
    changed, kept = desk.engine.compare(CompareRequest((six("ngram", max_tokens=60), six("ngram", max_tokens=60))))
    desk.until(RoundFinished, 1, kept)
    desk.engine.update(changed, rule="match")
    gate.release(200)
    desk.ends((changed, kept))
    assert {round.rule for round in desk.rounds(kept)} == {"gumbel"}
    assert {round.rule for round in desk.rounds(changed)} == {"gumbel", "match"}
    assert {event.run_id for event in desk.of(RunChanged)} == {changed}


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: CompareRequest((request(),)), "at least two"),
        (lambda: CompareRequest((request(), request(target="other"))), "same target"),
        (lambda: SampleRequest((), 3), "at least one"),
        (lambda: SampleRequest((request(),), 0), "samples must be a whole number from 1"),
    ],
)
def test_impossible_comparisons_are_refused_where_they_are_made(make: Callable[[], object], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        make()


# Sampling


def samples_of(desk: Desk, requests: SampleRequest) -> tuple[list[Sample], SamplingFinished | TaskFailed]:
    task = desk.engine.perform(requests)
    desk.collect(lambda: desk.of(SamplingFinished, task) or desk.of(TaskFailed, task))
    (end,) = desk.of(SamplingFinished, task) + desk.of(TaskFailed, task)
    return [event.sample for event in desk.of(SampleTaken, task)], end


def test_samples_alternate_between_settings_and_have_one_seed_after_the_other(desk: Desk, backend: FakeBackend) -> None:
    samples, end = samples_of(desk, SampleRequest((request(max_tokens=2), request(drafter="ngram", max_tokens=2)), 3))
    assert isinstance(end, SamplingFinished) and end.complete
    found = [(sample.request, sample.index, sample.seed) for sample in samples]
    assert found == [(0, 0, 1), (1, 0, 1), (0, 1, 2), (1, 1, 2), (0, 2, 3), (1, 2, 3)]
    assert {sample.text for sample in samples} == {"ab"}
    assert [len(read) for read in backend.read] == [19 - 1, 19 - 1, 0, 0, 0, 0], "a prompt is read once for each setting"


def test_a_prompt_without_template_is_read_as_it_stands(desk: Desk, backend: FakeBackend) -> None:
    samples_of(desk, SampleRequest((request("goes on", template=False),), 1))
    assert backend.read == [[ord(letter) for letter in "goes o"]]
    assert "prompt is empty" in desk.failure("", template=False).message


def test_sampling_stops_and_says_that_it_is_not_complete(desk: Desk, backend: FakeBackend) -> None:
    gate = backend.hold(30)
    task = desk.engine.perform(SampleRequest((request(max_tokens=2),), 5000))
    desk.until(SampleTaken)
    desk.engine.stop(task)
    gate.release(10)
    (end,) = desk.until(SamplingFinished)
    assert not end.complete


def test_a_drafter_that_does_not_fit_ends_the_sampling_with_the_reason(desk: Desk) -> None:
    samples, end = samples_of(desk, SampleRequest((request(drafter="misfit"),), 3))
    assert samples == [] and isinstance(end, TaskFailed) and "token 7 differs" in end.message


# With real models


def test_interleaved_answers_equal_those_decoded_alone(real_desk: Desk, tiny_pair: tuple[str, str]) -> None:
    target, draft = tiny_pair
    wanted = (
        request("hello there", target=target, **TINY),
        request("hello there", target=target, drafter=draft, **TINY),
        request("hello there", target=target, drafter=draft, **TINY, rule="rejection"),
        request("hello there", target=target, drafter="ngram", **TINY, rule="match"),
    )
    runs = [end.run_id for end in compare(real_desk, *wanted)]
    alone = [end.run_id for end in real_desk.ends([real_desk.engine.submit(each) for each in wanted])]
    for run, other in zip(runs, alone, strict=True):
        rounds = real_desk.rounds(run)
        assert emitted_ids(rounds) == emitted_ids(real_desk.rounds(other))
        assert not violations(rounds)
        assert_apart(rounds)
        for spent in (round.milliseconds for round in rounds if round.milliseconds.measured):
            parts = (spent.draft, spent.verify, spent.judge, spent.other)
            assert math.fsum(part or 0.0 for part in parts) == pytest.approx(spent.total)
    plain, gumbel, _, match = (emitted_ids(real_desk.rounds(run)) for run in runs)
    assert plain == gumbel == match, "the text does not depend on the drafter"


def test_the_target_drafts_for_itself_without_being_loaded_again(real_desk: Desk, tiny_pair: tuple[str, str]) -> None:
    target, _ = tiny_pair
    options = TINY | {"max_tokens": 2, "seed": 0}
    rules = ("match", "gumbel", "rejection")
    requests = tuple(request("hello", target=target, drafter=target, **options, rule=rule) for rule in rules)
    samples, end = samples_of(real_desk, SampleRequest(requests, 60))
    assert isinstance(end, SamplingFinished) and end.complete
    loaded = [event.name for event in real_desk.of(LoadProgress) if event.step == LOADING]
    assert loaded in ([], [target]), "[] if another test had it loaded"
    first = [[each.rounds[0] for each in samples if each.request == place] for place in range(3)]
    collision = {round.expected[0].match for rounds in first for round in rounds}
    assert max(collision) - min(collision) < 1e-4, "the place is the same in every sample"
    accepted = [sum(round.proposals[0].status == "accepted" for round in rounds) for rounds in first]
    assert accepted[1:] == [60, 60], "gumbel and rejection accept what the target itself proposes"
    expected = next(iter(collision))
    deviation = math.sqrt(60 * expected * (1 - expected))
    assert abs(accepted[0] - 60 * expected) < 4.5 * deviation, "match accepts the sum of squared probabilities"
    assert accepted[0] < 60


def test_a_comparison_keeps_going_while_one_run_gets_another_drafter(real_desk: Desk, tiny_pair: tuple[str, str]) -> None:
    target, draft = tiny_pair
    wanted = request("hello there", target=target, drafter=draft, **TINY | {"max_tokens": 150})
    runs = real_desk.engine.compare(CompareRequest((wanted, wanted)))
    real_desk.until(RoundFinished, 2, runs[1])
    real_desk.engine.update(runs[0], drafter="ngram")
    assert all(isinstance(end, RunFinished) for end in real_desk.ends(runs))
    assert {round.drafter for round in real_desk.rounds(runs[1])} == {draft}
    assert emitted_ids(real_desk.rounds(runs[0])) == emitted_ids(real_desk.rounds(runs[1]))
    assert [event.drafter for event in real_desk.of(RunStarted)] == [draft, draft]
