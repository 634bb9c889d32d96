"""The engine thread: what goes in, what comes out, in which order, and that nothing is left behind."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.decode.context import DecodeContext
from engine.decode.outcome import RoundOutcome
from engine.rounds.trace import read
from engine.runtime.worker import Engine
from engine.types import (
    SEED_LIMIT,
    DecodingOptions,
    DrafterChecked,
    DrafterReady,
    DrafterRefused,
    EngineFailed,
    Event,
    LoadFailed,
    LoadFinished,
    LoadProgress,
    Message,
    PrefillProgress,
    Request,
    RoundFinished,
    RunChanged,
    RunFailed,
    RunFinished,
    RunStarted,
)
from engine.values.errors import DraftlightError
from engine.values.requests.compare import CompareRequest
from tests.engine.fakes import PATIENCE, FakeBackend, FakeTokenizer


class Desk:
    """An engine over a fake backend, and everything that came out of it."""

    def __init__(self) -> None:
        self.made: list[FakeBackend] = []
        self.prepare: Callable[[FakeBackend], None] = lambda backend: None
        self.engine = Engine(self._make)
        self.seen: list[Event] = []

    def _make(self) -> FakeBackend:
        backend = FakeBackend()
        self.prepare(backend)
        self.made.append(backend)
        return backend

    @property
    def backend(self) -> FakeBackend:
        return self.made[0]

    def until(self, kind: type[Event], many: int = 1, run_id: int | None = None) -> list[Any]:
        """Collects events until so many of a kind are there."""
        while True:
            found = [event for event in self.seen if type(event) is kind and run_id in (None, getattr(event, "run_id", None))]
            if len(found) >= many:
                return found
            assert self.engine.wait(PATIENCE), f"no {kind.__name__} came; seen: {self.seen}"
            self.seen += self.engine.events()

    def ask(self, text: str = "hi", **changes: Any) -> int:
        options = changes.pop("options", DecodingOptions(max_tokens=3, seed=1))
        return self.engine.submit(Request((Message("user", text),), options, **changes))

    def answer(self, text: str = "hi", **changes: Any) -> RunFinished:
        run_id = self.ask(text, **changes)
        finished = self.until(RunFinished, run_id=run_id)
        assert isinstance(finished[0], RunFinished)
        return finished[0]


@pytest.fixture
def desk(home: Path) -> Iterator[Desk]:
    desk = Desk()
    yield desk
    for backend in desk.made:
        backend.gate = None
        if backend.load_gate is not None:
            backend.load_gate.set()
    assert desk.engine.close(PATIENCE)


def names(events: Sequence[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_an_answer_comes_as_events_in_order_and_leaves_its_trace(desk: Desk, home: Path) -> None:
    finished = desk.answer(drafter="ngram")
    assert names(desk.seen) == [
        "LoadStarted",
        *["LoadProgress"] * 3,
        "LoadFinished",
        "DrafterReady",
        "RunStarted",
        *["PrefillProgress"] * 6,
        *["RoundFinished"] * 3,
        "RunFinished",
    ]
    assert finished.text == "abc"
    assert finished.finish == "length"
    assert finished.tokens == 3
    assert finished.seconds == pytest.approx(0.03)
    assert finished.seconds_to_first_token is not None
    assert finished.trace_path is not None
    assert Path(finished.trace_path).parent == home / "traces"
    found = read(finished.trace_path)
    assert found.missing is None
    assert list(found.rounds) == [event.round for event in desk.seen if isinstance(event, RoundFinished)]
    assert found.summary is not None
    assert (found.summary["finish"], found.summary["text"], found.summary["error"]) == ("length", "abc", None)
    assert found.summary["metrics"]["rejected"] == 3
    header = found.header
    assert header["prompt"]["text"] == "<user>hi<assistant>"
    assert header["prompt"]["ids"] == [ord(letter) for letter in "<user>hi<assistant>"]
    assert header["prompt"]["messages"] == [{"role": "user", "content": "hi"}]
    assert header["options"]["seed"] == header["seed"] == 1
    assert (header["target"]["name"], header["target"]["sha256"]) == ("builtin", "00")
    assert (header["target"]["logits"], header["target"]["prompt_chunk"]) == ("float32", 4)
    assert [event.logits for event in desk.seen if isinstance(event, RunStarted)] == ["float32"]
    assert (header["drafter"]["name"], header["drafter"]["sha256"]) == ("ngram", "11")
    assert {"draftlight", "python", "mlx", "mlx-lm", "platform"} <= set(header["versions"])
    assert header["hardware"]["cores"] >= 1


def test_everything_that_computes_runs_on_one_thread_that_is_not_the_callers(desk: Desk) -> None:
    desk.engine.load("other", "model")
    desk.answer()
    desk.engine.close(PATIENCE)
    assert len(desk.made) == 1
    assert len(desk.backend.threads) == 1
    assert threading.get_ident() not in desk.backend.threads
    assert desk.backend.closed == 1


def test_is_computing_only_between_two_passes(desk: Desk) -> None:
    seen: list[tuple[str, bool]] = []
    desk.answer()
    assert not desk.engine.is_computing
    wait, decode = desk.backend._pass, desk.backend.decode

    def waits() -> None:
        seen.append(("pass", desk.engine.is_computing))
        wait()

    def decoded(context: DecodeContext) -> Generator[RoundOutcome, None, None]:
        for outcome in decode(context):
            context.control.resumes()
            seen.append(("round", desk.engine.is_computing))
            yield outcome

    desk.backend._pass, desk.backend.decode = waits, decoded  # type: ignore[method-assign, assignment]
    desk.answer("how are you")
    assert {("pass", False), ("round", True)} == set(seen)
    seen.clear()
    options = DecodingOptions(max_tokens=3, seed=1)
    runs = desk.engine.compare(CompareRequest(tuple(Request((Message("user", text),), options) for text in ("one", "two"))))
    for run in runs:
        desk.until(RunFinished, run_id=run)
    assert {("pass", False), ("round", True)} == set(seen), "not while another answer has its turn"
    assert not desk.engine.is_computing


def test_a_seed_is_drawn_recorded_and_different_each_time(desk: Desk) -> None:
    options = DecodingOptions(max_tokens=1)
    for _ in range(3):
        desk.answer(options=options)
    seeds = [event.options.seed for event in desk.seen if isinstance(event, RunStarted)]
    assert len(set(seeds)) == 3
    assert all(seed is not None and 0 <= seed < SEED_LIMIT for seed in seeds)
    paths = [event.trace_path for event in desk.seen if isinstance(event, RunStarted)]
    assert [read(str(path)).header["options"]["seed"] for path in paths] == seeds


def test_loading_the_same_target_again_costs_nothing_and_is_announced(desk: Desk) -> None:
    desk.engine.load("a", "ngram")
    desk.engine.load("a", "ngram")
    assert len(desk.until(DrafterReady, 2)) == 2
    assert desk.backend.loads == ["a", "ngram"]
    assert len(desk.until(LoadFinished, 2)) == 2
    ready = desk.until(DrafterReady)[0]
    assert (ready.name, ready.has_distribution) == ("ngram", False)


def test_a_failed_load_keeps_the_previous_model_usable(desk: Desk) -> None:
    desk.engine.load("good")
    desk.engine.load("broken")
    failed = desk.until(LoadFailed)[0]
    assert failed == LoadFailed("broken", "broken is not a model. Choose another file.")
    assert desk.answer(target="good").text == "abc"
    assert desk.backend.loads == ["good", "broken"]


def test_an_answer_for_a_model_that_cannot_be_loaded_fails_with_the_reason(desk: Desk) -> None:
    run_id = desk.ask(target="broken")
    words = "broken is not a model. Choose another file."
    assert desk.until(RunFailed)[0] == RunFailed(run_id, words, refused=LoadFailed("broken", words))


def test_a_defect_while_loading_is_logged_and_explained_without_a_traceback(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.engine.load("crash")
    message = desk.until(LoadFailed)[0].message
    assert "KeyError" in message
    assert "draftlight.log" in message
    assert "\n" not in message
    assert "Traceback" in caplog.text


def test_a_drafter_that_does_not_fit_is_refused_with_its_reasons(desk: Desk) -> None:
    desk.engine.load("good", "misfit")
    assert desk.until(DrafterRefused)[0] == DrafterRefused("misfit", "misfit cannot draft for good: token 7 differs.")
    desk.engine.check_drafter("misfit")
    desk.engine.check_drafter("other")
    assert desk.until(DrafterChecked, 2) == [
        DrafterChecked("good", "misfit", "misfit cannot draft for good: token 7 differs."),
        DrafterChecked("good", "other", ""),
    ]
    assert "other" not in desk.backend.loads
    run_id = desk.ask(target="good", drafter="misfit")
    words = "misfit cannot draft for good: token 7 differs."
    assert desk.until(RunFailed)[0] == RunFailed(run_id, words, refused=DrafterRefused("misfit", words))
    assert desk.answer(target="good").text == "abc"


def test_requests_wait_their_turn(desk: Desk) -> None:
    first, second = desk.ask("one"), desk.ask("two")
    desk.until(RunFinished, 2)
    order = [event.run_id for event in desk.seen if isinstance(event, (RunStarted, RunFinished))]
    assert order == [first, first, second, second]


def gated(desk: Desk, rounds: int) -> None:
    """Lets the prompt "<user>hi<assistant>" and so many rounds pass, then holds the answer."""
    gate = threading.Semaphore(5 + rounds)

    def hold(backend: FakeBackend) -> None:
        backend.gate = gate

    desk.prepare = hold


def test_changes_take_effect_in_the_middle_of_an_answer(desk: Desk) -> None:
    gated(desk, 2)
    run_id = desk.ask(options=DecodingOptions(max_tokens=6, seed=1))
    desk.until(RoundFinished, 2)
    for _ in range(5 + 3):  # until it is held inside its third round
        assert desk.backend.arrived.acquire(timeout=PATIENCE)
    desk.engine.update(run_id, rule="match", gamma=7)
    desk.engine.update(run_id, rule="rejection", drafter="ngram")
    for _ in range(4):
        desk.backend.gate.release()  # type: ignore[union-attr]
    finished = desk.until(RunFinished)[0]
    rounds = [event.round for event in desk.seen if isinstance(event, RoundFinished)]
    changes = [event for event in desk.seen if isinstance(event, RunChanged)]
    assert len(changes) == 1
    change = changes[0]
    assert (change.rule, change.gamma, change.drafter) == ("rejection", 7, "ngram")
    assert change.index == 3
    assert [round.rule for round in rounds] == ["gumbel"] * change.index + ["rejection"] * (6 - change.index)
    assert [round.drafter for round in rounds] == ["none"] * change.index + ["ngram"] * (6 - change.index)
    # The change is told before the first round under it, in the events as in the trace.
    after = desk.seen[desk.seen.index(change) + 1]
    assert isinstance(after, RoundFinished) and after.round == rounds[change.index]
    found = read(finished.trace_path)
    assert found.changes == ({"index": change.index, "rule": "rejection", "gamma": 7, "drafter": "ngram"},)


def test_a_refused_drafter_leaves_the_answer_as_it_was(desk: Desk) -> None:
    gated(desk, 1)
    run_id = desk.ask()
    desk.until(RoundFinished)
    desk.engine.update(run_id, drafter="misfit")
    desk.backend.gate.release(9)  # type: ignore[union-attr]
    finished = desk.until(RunFinished)[0]
    assert finished.text == "abc"
    assert len(desk.until(DrafterRefused)) == 1
    assert not [event for event in desk.seen if isinstance(event, RunChanged)]


def test_changes_before_the_answer_begins_are_its_options(desk: Desk) -> None:
    gated(desk, 0)
    desk.ask("one")
    waiting = desk.ask("two")
    desk.engine.update(waiting, rule="match", gamma="auto", drafter="ngram")
    desk.until(RunStarted, 1)
    desk.backend.gate.release(50)  # type: ignore[union-attr]
    started = desk.until(RunStarted, run_id=waiting)[0]
    assert (started.options.rule, started.options.gamma, started.drafter) == ("match", "auto", "ngram")


def test_impossible_changes_are_refused_at_once(desk: Desk) -> None:
    with pytest.raises(ValueError, match="rule"):
        desk.engine.update(1, rule="guess")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="gamma"):
        desk.engine.update(1, gamma=0)


def test_late_changes_and_stops_are_ignored(desk: Desk) -> None:
    finished = desk.answer()
    desk.engine.update(finished.run_id, rule="match", drafter="misfit")
    desk.engine.stop(finished.run_id)
    desk.engine.stop(12345)
    assert desk.answer().finish == "length"
    assert not [event for event in desk.seen if isinstance(event, (RunChanged, DrafterRefused))]


def test_stopping_ends_the_answer_within_a_round_and_keeps_what_is_there(desk: Desk) -> None:
    gated(desk, 2)
    run_id = desk.ask(options=DecodingOptions(max_tokens=100, seed=1))
    desk.until(RoundFinished, 2)
    desk.engine.stop(run_id)
    desk.backend.gate.release(100)  # type: ignore[union-attr]
    finished = desk.until(RunFinished)[0]
    assert finished.finish == "cancelled"
    assert finished.text in ("ab", "abc")
    found = read(finished.trace_path)
    assert found.missing is None
    assert found.summary is not None
    assert found.summary["finish"] == "cancelled"


def test_stopping_while_the_prompt_is_read_ends_within_a_chunk(desk: Desk) -> None:
    gate = threading.Semaphore(2)
    desk.prepare = lambda backend: setattr(backend, "gate", gate)
    run_id = desk.ask("a long prompt " * 20)
    desk.until(PrefillProgress, 3)
    desk.engine.stop(run_id)
    gate.release(1)
    finished = desk.until(RunFinished)[0]
    assert (finished.finish, finished.text, finished.tokens) == ("cancelled", "", 0)
    assert finished.seconds_to_first_token is None
    assert finished.prefill_seconds > 0
    assert read(finished.trace_path).missing is None


def test_an_answer_stopped_before_its_turn_never_begins(desk: Desk) -> None:
    gated(desk, 0)
    first, second = desk.ask("one"), desk.ask("two")
    desk.engine.stop(second)
    desk.until(RunStarted)
    desk.backend.gate.release(50)  # type: ignore[union-attr]
    desk.until(RunFinished, 2)
    assert [event.run_id for event in desk.seen if isinstance(event, RunStarted)] == [first]
    assert desk.until(RunFinished, run_id=second)[0].finish == "cancelled"


@pytest.mark.parametrize(
    "error, expected",
    [
        (DraftlightError("The model gave no usable number."), "The model gave no usable number."),
        (ValueError("[matmul] shapes"), "ValueError: [matmul] shapes). Details are in"),
        (MemoryError(), "Out of memory"),
        (RuntimeError("[malloc] Unable to allocate 4398046511104 bytes."), "Out of memory while answering."),
        (RuntimeError("[METAL] Command buffer execution failed: Insufficient Memory (00000008:...)"), "Out of memory"),
        (RuntimeError("[matmul] shapes"), "RuntimeError: [matmul] shapes"),
        (SystemExit("a package is missing"), "SystemExit: a package is missing"),
        (type("PanicException", (BaseException,), {})("no entry found"), "PanicException: no entry found"),
    ],
)
def test_an_error_in_the_middle_becomes_a_message_and_the_trace_says_so(
    desk: Desk, caplog: pytest.LogCaptureFixture, error: BaseException, expected: str
) -> None:
    desk.prepare = lambda backend: backend.fail_at.update({2: error})
    desk.ask(drafter="model", conversation="c")
    failed = desk.until(RunFailed)[0]
    assert expected in failed.message
    assert "Traceback" not in failed.message
    started = desk.until(RunStarted)[0]
    found = read(started.trace_path)
    assert found.missing is None
    assert len(found.rounds) == 2
    assert found.summary is not None
    assert (found.summary["finish"], found.summary["error"], found.summary["text"]) == (None, failed.message, "ab")
    # The engine goes on, with a new drafter and without the cache whose content is unknown now.
    desk.backend.fail_at.clear()
    assert desk.answer(drafter="model", conversation="c").text == "abc"
    assert desk.backend.loads == ["builtin", "model", "model"]
    assert len(desk.backend.read[1]) == len(desk.backend.read[0])


def test_rounds_that_end_without_a_reason_are_a_defect_not_an_answer(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.prepare = lambda backend: setattr(backend, "forget_eos", True)
    desk.ask()
    assert "without a reason" in desk.until(RunFailed)[0].message


def test_a_prompt_beyond_the_models_context_is_refused_with_both_lengths(desk: Desk) -> None:
    desk.ask("x" * 2000)
    message = desk.until(RunFailed)[0].message
    assert "2,017 tokens" in message
    assert "1,000" in message


def test_an_empty_conversation_is_refused(desk: Desk) -> None:
    desk.engine.submit(Request(()))
    assert "empty" in desk.until(RunFailed)[0].message


def test_a_trace_that_cannot_be_written_does_not_cost_the_answer(
    desk: Desk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    taken = tmp_path / "taken.jsonl"
    taken.write_text("mine")
    finished = desk.answer(trace_path=str(taken))
    assert finished.text == "abc"
    assert finished.trace_path is None
    assert desk.until(RunStarted)[0].trace_path is None
    assert taken.read_text() == "mine"
    assert len(caplog.records) == 1


def test_the_trace_goes_where_the_request_says(desk: Desk, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "answer.jsonl"
    assert desk.answer(trace_path=str(path)).trace_path == str(path)
    assert read(path).missing is None


def test_a_backend_that_cannot_be_made_fails_every_request_with_the_reason(home: Path) -> None:
    def cannot() -> FakeBackend:
        raise DraftlightError("MLX cannot be used here.")

    engine = Engine(cannot)
    engine.load("any")
    run_id = engine.submit(Request((Message("user", "hi"),)))
    seen: list[Event] = []
    while not any(isinstance(event, RunFailed) for event in seen):
        assert engine.wait(PATIENCE)
        seen += engine.events()
    assert LoadFailed("any", "MLX cannot be used here.") in seen
    assert RunFailed(run_id, "MLX cannot be used here.") in seen
    assert EngineFailed("MLX cannot be used here.") in seen
    assert engine.close(PATIENCE)


def test_events_are_drained_without_waiting_in_order_and_within_limits(desk: Desk) -> None:
    assert desk.engine.events() == []
    assert desk.engine.wait(0.0) is False
    run_id = desk.ask()
    desk.until(RunFinished)
    desk.ask()
    collected: list[Event] = []
    while not any(isinstance(event, RunFinished) and event.run_id != run_id for event in collected):
        assert desk.engine.wait(PATIENCE)
        part = desk.engine.events(limit=2)
        assert 1 <= len(part) <= 2
        collected += part
    assert names(collected)[0] == "RunStarted"
    assert desk.engine.events(budget=0.0) == []


# Closing


def test_closing_in_the_middle_of_an_answer_ends_it_with_a_whole_trace(desk: Desk) -> None:
    gated(desk, 2)
    desk.ask(options=DecodingOptions(max_tokens=100, seed=1))
    waiting = desk.ask("second")
    desk.until(RoundFinished, 2)
    assert desk.engine.close(timeout=0.0) is False, "the answer is held, so the thread cannot have ended"
    desk.backend.gate.release(100)  # type: ignore[union-attr]
    assert desk.engine.close(PATIENCE)
    desk.seen += desk.engine.events()
    finished = desk.until(RunFinished)[0]
    assert finished.finish == "cancelled"
    assert read(finished.trace_path).missing is None
    assert desk.until(RunFinished, run_id=waiting)[0].finish == "cancelled"
    assert desk.backend.closed == 1


def test_closing_breaks_off_a_load(desk: Desk) -> None:
    opened = threading.Event()
    desk.prepare = lambda backend: setattr(backend, "load_gate", opened)
    desk.engine.load("large")
    waiting = desk.ask()
    desk.until(LoadProgress)
    assert desk.engine.close(0.0) is False
    opened.set()
    assert desk.engine.close(PATIENCE)
    desk.seen += desk.engine.events()
    assert not [event for event in desk.seen if isinstance(event, (LoadFinished, LoadFailed))]
    assert desk.until(RunFinished, run_id=waiting)[0].finish == "cancelled"


def test_a_closed_engine_takes_nothing_more_and_closes_again_quietly(home: Path) -> None:
    engine = Engine(FakeBackend)
    assert engine.close(PATIENCE)
    assert engine.close(PATIENCE)
    with pytest.raises(DraftlightError, match="closed"):
        engine.load("a")
    with pytest.raises(DraftlightError, match="closed"):
        engine.submit(Request((Message("user", "hi"),)))
    engine.stop(1)
    assert engine.events() == []


def test_an_engine_that_was_never_closed_does_not_hang_the_exit(home: Path) -> None:
    program = textwrap.dedent(
        """
        from tests.engine.fakes import FakeBackend, PATIENCE
        from engine.types import DecodingOptions, Message, Request
        from engine.runtime.worker import Engine

        engine = Engine(FakeBackend)
        engine.submit(Request((Message("user", "hi"),), DecodingOptions(max_tokens=10**9, seed=1)))
        while not any(type(event).__name__ == "RoundFinished" for event in engine.events()):
            engine.wait(PATIENCE)
        print(engine._thread.name)
        """
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "draftlight-engine\n", "")
    traces = list((home / "traces").iterdir())
    assert len(traces) == 1
    summary = read(traces[0]).summary
    assert summary is not None
    assert summary["finish"] == "cancelled"


# Conversations


def test_a_later_turn_reads_only_what_is_new(desk: Desk) -> None:
    first = desk.answer("hi", conversation="c")
    turns = (Message("user", "hi"), Message("assistant", first.text), Message("user", "and?"))
    run_id = desk.engine.submit(Request(turns, DecodingOptions(max_tokens=3, seed=1), conversation="c"))
    second = desk.until(RunFinished, run_id=run_id)[0]
    tokenizer = FakeTokenizer()
    prompt = tokenizer.apply_chat_template(turns)
    held = len("<user>hi<assistant>abc") - 1  # all committed tokens but the newest
    assert desk.backend.read[1] == prompt[held:-1]
    summary = read(second.trace_path).summary
    assert summary is not None
    assert (summary["reused_tokens"], summary["prompt_tokens"]) == (held, len(prompt))


def test_regenerating_reads_one_token_and_editing_reads_from_the_edit(desk: Desk) -> None:
    desk.answer("hello", conversation="c")
    desk.answer("hello", conversation="c")
    assert desk.backend.read[1] == []
    desk.answer("help", conversation="c")
    prompt = FakeTokenizer().apply_chat_template([Message("user", "help")])
    assert desk.backend.read[2] == prompt[len("<user>hel") : -1]


def test_a_prompt_that_was_cancelled_is_not_read_twice(desk: Desk) -> None:
    gate = threading.Semaphore(2)
    desk.prepare = lambda backend: setattr(backend, "gate", gate)
    run_id = desk.ask("a long prompt", conversation="c")
    desk.until(PrefillProgress, 3)
    desk.engine.stop(run_id)
    gate.release(50)
    desk.until(RunFinished)
    desk.answer("a long prompt", conversation="c")
    prompt = FakeTokenizer().apply_chat_template([Message("user", "a long prompt")])
    assert desk.backend.read[1] == prompt[8:-1]


def test_conversations_share_no_cache_and_unnamed_ones_have_none(desk: Desk) -> None:
    desk.answer("hi", conversation="a")
    desk.answer("hi", conversation="b")
    desk.answer("hi", conversation="a")
    desk.answer("hi")
    desk.answer("hi")
    lengths = [len(tokens) for tokens in desk.backend.read]
    whole = len("<user>hi<assistant>") - 1
    assert lengths == [whole, whole, 0, whole, whole]


def test_another_target_reads_the_conversation_anew(desk: Desk) -> None:
    desk.answer("hi", conversation="c", target="a")
    desk.answer("hi", conversation="c", target="b")
    desk.answer("hi", conversation="c", target="a")
    assert len({len(tokens) for tokens in desk.backend.read}) == 1


def test_a_cache_that_breaks_the_invariant_is_dropped_and_logged(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    def wrong(backend: FakeBackend) -> None:
        backend.cache_length = lambda cache: len(cache.tokens) + (1 if cache.tokens else 0)  # type: ignore[method-assign]

    desk.prepare = wrong
    desk.answer("hi", conversation="c")
    desk.answer("hi", conversation="c")
    assert len(desk.backend.read[1]) == len(desk.backend.read[0])
    assert "dropped" in caplog.text


def test_a_cache_that_cannot_be_cut_back_is_read_anew(desk: Desk) -> None:
    desk.prepare = lambda backend: setattr(backend, "trim", lambda cache, length: False)
    desk.answer("hi", conversation="c")
    desk.answer("ho", conversation="c")
    assert len(desk.backend.read[1]) == len(desk.backend.read[0])


def test_costs_are_measured_while_nobody_asks_for_anything(home: Path) -> None:
    """A step at a time: whoever asks waits for one at most, and what is left is measured afterwards."""
    begun, going_on = threading.Semaphore(0), threading.Semaphore(0)
    steps: list[str] = []

    class Measuring(FakeBackend):
        def measure(self, target: Any, drafter: Any) -> Generator[None, None, None]:
            while len(steps) < 4:
                begun.release()
                assert going_on.acquire(timeout=PATIENCE)
                steps.append(target.name)
                yield

        def decode(self, context: DecodeContext) -> Generator[RoundOutcome, None, None]:
            steps.append("answer")
            return super().decode(context)

    engine = Engine(Measuring, measures=True)
    engine.load("fake")
    assert begun.acquire(timeout=PATIENCE)
    engine.submit(Request((Message("user", "hello"),), DecodingOptions(max_tokens=3), target="fake"))
    going_on.release()
    for _ in range(2):
        assert begun.acquire(timeout=PATIENCE)
        going_on.release()
    assert engine.close(PATIENCE)
    assert steps == ["fake", "answer", "fake", "fake"]


@pytest.mark.parametrize("asked", ["answer", "load", "comparison", "check"])
def test_a_run_that_only_measures_makes_way_for_anything_else_and_leaves_no_trace(desk: Desk, home: Path, asked: str) -> None:
    gated(desk, 2)
    measured = desk.ask(options=DecodingOptions(max_tokens=100, seed=1), kept=False, only_measures=True)
    desk.until(RoundFinished, 2)
    request = Request((Message("user", "hi"),), DecodingOptions(max_tokens=3, seed=1))
    match asked:
        case "answer":
            desk.engine.submit(request)
        case "load":
            desk.engine.load("builtin")
        case "comparison":
            desk.engine.compare(CompareRequest((request, request)))
        case _:
            desk.engine.check_drafter("ngram")
    desk.backend.gate.release(100)  # type: ignore[union-attr]
    (finished,) = desk.until(RunFinished, run_id=measured)
    assert finished.finish == "cancelled" and finished.tokens <= 3, "within a round"
    assert finished.trace_path is None and finished.trace_error is None
    if asked in ("answer", "comparison"):
        others = desk.until(RunFinished, 2 if asked == "answer" else 3)
        assert {other.finish for other in others[1:]} == {"length"}
    traces = [path for path in (home / "traces").rglob("*") if path.is_file()] if (home / "traces").exists() else []
    assert len(traces) == {"answer": 1, "comparison": 2}.get(asked, 0)


def test_a_run_that_only_measures_leaves_the_cache_of_a_conversation_as_it_was(desk: Desk) -> None:
    first = read(desk.answer("one", conversation="c").trace_path)
    desk.answer("one", kept=False, only_measures=True)
    second = read(desk.answer("one", conversation="c").trace_path)
    assert first.summary is not None and second.summary is not None
    assert second.summary["reused_tokens"] == second.summary["prompt_tokens"] - 1 > first.summary["reused_tokens"] == 0
