"""The engine thread: what goes in, what comes out, in which order, and that nothing is left behind."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from engine.decode.context import DecodeContext, RoundOutcome
from engine.rounds.trace import read
from engine.runtime.worker import Engine
from engine.types import (
    SEED_LIMIT,
    DrafterChecked,
    DrafterReady,
    DrafterRefused,
    EngineFailed,
    LoadFailed,
    LoadFinished,
    LoadProgress,
    Message,
    PrefillProgress,
    RoundFinished,
    RunChanged,
    RunFailed,
    RunFinished,
    RunStarted,
)
from engine.values.errors import DraftlightError
from engine.values.requests.compare import CompareRequest
from tests.engine.desk import Desk, request, trace_of
from tests.engine.fakes import PATIENCE, FakeBackend, FakeTokenizer

PROMPT = "<user>hi<assistant>"


def ids(text: str) -> list[int]:
    return FakeTokenizer().encode(text)


def test_an_answer_comes_as_events_in_order(desk: Desk) -> None:
    finished = desk.answer(drafter="ngram")
    assert [type(event).__name__ for event in desk.seen] == [
        "LoadStarted",
        *["LoadProgress"] * 3,
        "LoadFinished",
        "DrafterReady",
        "RunStarted",
        *["PrefillProgress"] * 6,
        *["RoundFinished"] * 3,
        "RunFinished",
    ]
    assert (finished.text, finished.finish, finished.tokens) == ("abc", "length", 3)
    assert finished.seconds == pytest.approx(0.03) and finished.seconds_to_first_token is not None


def test_an_answer_leaves_its_trace(desk: Desk, home: Path) -> None:
    finished = desk.answer(drafter="ngram")
    assert Path(str(finished.trace_path)).parent == home / "traces"
    found = trace_of(finished)
    assert list(found.rounds) == desk.rounds() and found.summary is not None
    assert (found.summary["finish"], found.summary["text"], found.summary["error"]) == ("length", "abc", None)
    assert found.summary["metrics"]["rejected"] == 3
    header = found.header
    assert header["prompt"]["text"] == PROMPT and header["prompt"]["ids"] == ids(PROMPT)
    assert header["prompt"]["messages"] == [{"role": "user", "content": "hi"}]
    assert header["options"]["seed"] == header["seed"] == 1
    expected = {"name": "builtin", "sha256": "00", "logits": "float32", "prompt_chunk": 4}
    assert expected.items() <= header["target"].items()
    assert [event.logits for event in desk.of(RunStarted)] == ["float32"]
    assert (header["drafter"]["name"], header["drafter"]["sha256"]) == ("ngram", "11")
    assert {"draftlight", "python", "mlx", "mlx-lm", "platform"} <= set(header["versions"])
    assert header["hardware"]["cores"] >= 1


def test_everything_that_computes_runs_on_one_thread_that_is_not_the_callers(home: Path) -> None:
    made: list[FakeBackend] = []

    def make() -> FakeBackend:
        made.append(FakeBackend())
        return made[-1]

    with Desk(Engine(make)) as desk:
        desk.engine.load("other", "model")
        desk.answer()
    (backend,) = made
    assert len(backend.threads) == 1 and threading.get_ident() not in backend.threads
    assert backend.closed == 1


def test_is_computing_only_between_two_passes(desk: Desk, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[tuple[str, bool]] = set()
    desk.answer()
    assert not desk.engine.is_computing
    decode = backend.decode
    backend.on_pass = lambda: seen.add(("pass", desk.engine.is_computing))

    def decoded(context: DecodeContext) -> Generator[RoundOutcome, None, None]:
        for outcome in decode(context):
            context.control.resumes()
            seen.add(("round", desk.engine.is_computing))
            yield outcome

    monkeypatch.setattr(backend, "decode", decoded)
    desk.answer("how are you")
    assert seen == {("pass", False), ("round", True)}
    seen.clear()
    desk.ends(desk.engine.compare(CompareRequest((request("one"), request("two")))))
    assert seen == {("pass", False), ("round", True)}, "not while another answer has its turn"
    assert not desk.engine.is_computing


def test_a_seed_is_drawn_recorded_and_different_each_time(desk: Desk) -> None:
    traces = [trace_of(desk.answer(seed=None)) for _ in range(3)]
    seeds = [event.options.seed for event in desk.of(RunStarted)]
    assert len(set(seeds)) == 3
    assert all(0 <= seed < SEED_LIMIT for seed in seeds)
    assert [trace.header["options"]["seed"] for trace in traces] == seeds


# Loading


def test_loading_the_same_target_again_costs_nothing_and_is_announced(desk: Desk, backend: FakeBackend) -> None:
    desk.engine.load("a", "ngram")
    desk.engine.load("a", "ngram")
    ready, _ = desk.until(DrafterReady, 2)
    assert backend.loads == ["a", "ngram"]
    assert len(desk.until(LoadFinished, 2)) == 2
    assert (ready.name, ready.has_distribution) == ("ngram", False)


def test_a_failed_load_keeps_the_previous_model_usable(desk: Desk, backend: FakeBackend) -> None:
    desk.engine.load("good")
    desk.engine.load("broken")
    assert desk.until(LoadFailed) == [LoadFailed("broken", "broken is not a model. Choose another file.")]
    assert desk.answer(target="good").text == "abc"
    assert backend.loads == ["good", "broken"]


def test_an_answer_for_a_model_that_cannot_be_loaded_fails_with_the_reason(desk: Desk) -> None:
    failed = desk.failure(target="broken")
    assert failed.refused == LoadFailed("broken", failed.message) and "broken is not a model" in failed.message


def test_a_defect_while_loading_is_logged_and_explained_without_a_traceback(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.engine.load("crash")
    message = desk.until(LoadFailed)[0].message
    assert "KeyError" in message and "draftlight.log" in message and "\n" not in message
    assert "Traceback" in caplog.text


def test_a_drafter_that_does_not_fit_is_refused_with_its_reasons(desk: Desk, backend: FakeBackend) -> None:
    words = "misfit cannot draft for good: token 7 differs."
    refused = DrafterRefused("misfit", words)
    desk.engine.load("good", "misfit")
    assert desk.until(DrafterRefused) == [refused]
    desk.engine.check_drafter("misfit")
    desk.engine.check_drafter("other")
    assert desk.until(DrafterChecked, 2) == [DrafterChecked("good", "misfit", words), DrafterChecked("good", "other", "")]
    assert "other" not in backend.loads
    assert desk.failure(target="good", drafter="misfit").refused == refused
    assert desk.answer(target="good").text == "abc"


def test_a_backend_that_cannot_be_made_fails_every_request_with_the_reason(home: Path) -> None:
    words = "MLX cannot be used here."

    def cannot() -> FakeBackend:
        raise DraftlightError(words)

    with Desk(Engine(cannot)) as desk:
        desk.engine.load("any")
        run_id = desk.ask()
        desk.until(RunFailed)
        assert {LoadFailed("any", words), RunFailed(run_id, words), EngineFailed(words)} <= set(desk.seen)


# Changes and stops


def test_requests_wait_their_turn(desk: Desk) -> None:
    first, second = desk.ask("one"), desk.ask("two")
    desk.ends([first, second])
    order = [event.run_id for event in desk.seen if isinstance(event, (RunStarted, RunFinished))]
    assert order == [first, first, second, second]


def test_changes_take_effect_in_the_middle_of_an_answer(desk: Desk, backend: FakeBackend) -> None:
    gate = backend.hold(5 + 2)
    run_id = desk.ask(max_tokens=6)
    desk.until(RoundFinished, 2)
    for _ in range(5 + 3):  # until it is held inside its third round
        assert backend.arrived.acquire(timeout=PATIENCE)
    desk.engine.update(run_id, rule="match", gamma=7)
    desk.engine.update(run_id, rule="rejection", drafter="ngram")
    gate.release(4)
    (finished,) = desk.ends([run_id])
    (change,) = desk.of(RunChanged)
    assert (change.index, change.rule, change.gamma, change.drafter) == (3, "rejection", 7, "ngram")
    assert [round.rule for round in desk.rounds()] == ["gumbel"] * 3 + ["rejection"] * 3
    assert [round.drafter for round in desk.rounds()] == ["none"] * 3 + ["ngram"] * 3
    after = desk.seen[desk.seen.index(change) + 1]
    assert isinstance(after, RoundFinished) and after.round.index == 3, "the change is reported before its first round"
    assert trace_of(finished).changes == ({"index": 3, "rule": "rejection", "gamma": 7, "drafter": "ngram"},)


def test_a_refused_drafter_leaves_the_answer_as_it_was(desk: Desk, backend: FakeBackend) -> None:
    gate = backend.hold(5 + 1)
    run_id = desk.ask()
    desk.until(RoundFinished)
    desk.engine.update(run_id, drafter="misfit")
    gate.release(9)
    assert desk.ends([run_id])[0].text == "abc"
    assert len(desk.of(DrafterRefused)) == 1 and not desk.of(RunChanged)


def test_changes_before_the_answer_begins_are_its_options(desk: Desk, backend: FakeBackend) -> None:
    gate = backend.hold(5)
    desk.ask("one")
    waiting = desk.ask("two")
    desk.engine.update(waiting, rule="match", gamma="auto", drafter="ngram")
    gate.release(50)
    (started,) = desk.until(RunStarted, number=waiting)
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
    assert not desk.of(RunChanged) and not desk.of(DrafterRefused)


def test_stopping_ends_the_answer_within_a_round_and_keeps_what_is_there(desk: Desk, backend: FakeBackend) -> None:
    gate = backend.hold(5 + 2)
    run_id = desk.ask(max_tokens=100)
    desk.until(RoundFinished, 2)
    desk.engine.stop(run_id)
    gate.release(100)
    (finished,) = desk.ends([run_id])
    assert finished.finish == "cancelled" and finished.text in ("ab", "abc")
    summary = trace_of(finished).summary
    assert summary is not None and summary["finish"] == "cancelled"


def test_stopping_while_the_prompt_is_read_ends_within_a_chunk(desk: Desk, backend: FakeBackend) -> None:
    gate = backend.hold(2)
    run_id = desk.ask("a long prompt " * 20)
    desk.until(PrefillProgress, 3)
    desk.engine.stop(run_id)
    gate.release(1)
    (finished,) = desk.ends([run_id])
    assert (finished.finish, finished.text, finished.tokens) == ("cancelled", "", 0)
    assert finished.seconds_to_first_token is None and finished.prefill_seconds > 0
    assert trace_of(finished)


def test_an_answer_stopped_before_its_turn_never_begins(desk: Desk, backend: FakeBackend) -> None:
    gate = backend.hold(5)
    first, second = desk.ask("one"), desk.ask("two")
    desk.engine.stop(second)
    desk.until(RunStarted)
    gate.release(50)
    assert desk.ends([first, second])[1].finish == "cancelled"
    assert [event.run_id for event in desk.of(RunStarted)] == [first]


# Failures


@pytest.mark.parametrize(
    "error, expected",
    [
        (DraftlightError("The model gave no usable number."), "The model gave no usable number."),
        (ValueError("[matmul] shapes"), "ValueError: [matmul] shapes). Details are in"),
        (MemoryError(), "Out of memory"),
        (RuntimeError("[malloc] Unable to allocate 4398046511104 bytes."), "Out of memory while answering."),
        (RuntimeError("[METAL] Command buffer execution failed: Insufficient Memory (00000008:...)"), "Out of memory"),
        (SystemExit("a package is missing"), "SystemExit: a package is missing"),
        (type("PanicException", (BaseException,), {})("no entry found"), "PanicException: no entry found"),
    ],
)
def test_an_error_in_the_middle_becomes_a_message_and_the_trace_says_so(
    desk: Desk, backend: FakeBackend, caplog: pytest.LogCaptureFixture, error: BaseException, expected: str
) -> None:
    backend.fail_at = {2: error}
    failed = desk.failure(drafter="model", conversation="c")
    assert expected in failed.message and "Traceback" not in failed.message
    found = read(desk.of(RunStarted)[0].trace_path)
    assert found.missing is None and len(found.rounds) == 2 and found.summary is not None
    assert (found.summary["finish"], found.summary["error"], found.summary["text"]) == (None, failed.message, "ab")
    # The engine goes on, with a new drafter and without the cache whose content is unknown now.
    backend.fail_at = {}
    assert desk.answer(drafter="model", conversation="c").text == "abc"
    assert backend.loads == ["builtin", "model", "model"]
    assert len(backend.read[1]) == len(backend.read[0])


def test_rounds_that_end_without_a_reason_are_a_defect_not_an_answer(
    desk: Desk, backend: FakeBackend, caplog: pytest.LogCaptureFixture
) -> None:
    backend.forget_eos = True
    assert "without a reason" in desk.failure().message


def test_an_empty_conversation_is_refused(desk: Desk) -> None:
    assert "empty" in desk.failure(messages=()).message


def test_a_trace_that_cannot_be_written_does_not_cost_the_answer(
    desk: Desk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    taken = tmp_path / "taken.jsonl"
    taken.write_text("mine")
    finished = desk.answer(trace_path=str(taken))
    assert (finished.text, finished.trace_path, desk.of(RunStarted)[0].trace_path) == ("abc", None, None)
    assert taken.read_text() == "mine" and len(caplog.records) == 1


def test_the_trace_goes_where_the_request_says(desk: Desk, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "answer.jsonl"
    finished = desk.answer(trace_path=str(path))
    assert finished.trace_path == str(path) and trace_of(finished)


def test_events_are_drained_without_waiting_in_order_and_within_limits(desk: Desk) -> None:
    assert desk.engine.events() == [] and desk.engine.wait(0.0) is False
    desk.ask()
    parts = []
    while not any(isinstance(event, RunFinished) for part in parts for event in part):
        assert desk.engine.wait(PATIENCE)
        assert desk.engine.events(budget=0.0) == []
        parts.append(desk.engine.events(limit=2))
    assert {len(part) for part in parts} <= {1, 2} and len(parts) > 3


# Closing


def test_closing_in_the_middle_of_an_answer_ends_it_with_a_whole_trace(desk: Desk, backend: FakeBackend) -> None:
    gate = backend.hold(5 + 2)
    runs = [desk.ask(max_tokens=100), desk.ask("second")]
    desk.until(RoundFinished, 2)
    assert desk.engine.close(timeout=0.0) is False, "the answer is held, so the thread cannot have ended"
    gate.release(100)
    assert desk.engine.close(PATIENCE)
    finished, waiting = desk.ends(runs)
    assert finished.finish == waiting.finish == "cancelled" and trace_of(finished)
    assert backend.closed == 1


def test_closing_breaks_off_a_load(desk: Desk, backend: FakeBackend) -> None:
    backend.load_gate = threading.Event()
    desk.engine.load("large")
    waiting = desk.ask()
    desk.until(LoadProgress)
    assert desk.engine.close(0.0) is False
    backend.load_gate.set()
    assert desk.engine.close(PATIENCE)
    assert desk.ends([waiting])[0].finish == "cancelled"
    assert not desk.of(LoadFinished) and not desk.of(LoadFailed)


def test_a_closed_engine_takes_nothing_more_and_closes_again_quietly(home: Path) -> None:
    engine = Engine(FakeBackend)
    assert engine.close(PATIENCE) and engine.close(PATIENCE)
    with pytest.raises(DraftlightError, match="closed"):
        engine.load("a")
    with pytest.raises(DraftlightError, match="closed"):
        engine.submit(request())
    engine.stop(1)
    assert engine.events() == []


def test_an_engine_that_was_never_closed_does_not_hang_the_exit(home: Path) -> None:
    program = textwrap.dedent(
        """
        from engine.runtime.worker import Engine
        from engine.types import RoundFinished
        from tests.engine.desk import Desk
        from tests.engine.fakes import FakeBackend

        desk = Desk(Engine(FakeBackend))
        desk.ask(max_tokens=10**9)
        desk.until(RoundFinished)
        """
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    (trace,) = (home / "traces").iterdir()
    summary = read(trace).summary
    assert summary is not None and summary["finish"] == "cancelled"


# Conversations


def test_a_later_turn_reads_only_what_is_new(desk: Desk, backend: FakeBackend) -> None:
    first = desk.answer(conversation="c")
    turns = (Message("user", "hi"), Message("assistant", first.text), Message("user", "and?"))
    summary = trace_of(desk.answer(messages=turns, conversation="c")).summary
    prompt = FakeTokenizer().apply_chat_template(turns)
    held = len(f"{PROMPT}abc") - 1  # all committed tokens but the newest
    assert backend.read[1] == prompt[held:-1]
    assert summary is not None and (summary["reused_tokens"], summary["prompt_tokens"]) == (held, len(prompt))


def test_regenerating_reads_one_token_and_editing_reads_from_the_edit(desk: Desk, backend: FakeBackend) -> None:
    for text in ("hello", "hello", "help"):
        desk.answer(text, conversation="c")
    assert backend.read[1:] == [[], ids("<user>help<assistant>")[len("<user>hel") : -1]]


def test_a_prompt_that_was_cancelled_is_not_read_twice(desk: Desk, backend: FakeBackend) -> None:
    gate = backend.hold(2)
    run_id = desk.ask("a long prompt", conversation="c")
    desk.until(PrefillProgress, 3)
    desk.engine.stop(run_id)
    gate.release(50)
    desk.answer("a long prompt", conversation="c")
    assert backend.read[1] == ids("<user>a long prompt<assistant>")[8:-1]


def test_conversations_share_no_cache_and_unnamed_ones_have_none(desk: Desk, backend: FakeBackend) -> None:
    for name in ("a", "b", "a", "", ""):
        desk.answer(conversation=name)
    whole = len(PROMPT) - 1
    assert [len(tokens) for tokens in backend.read] == [whole, whole, 0, whole, whole]


def test_another_target_reads_the_conversation_anew(desk: Desk, backend: FakeBackend) -> None:
    for name in ("a", "b", "a"):
        desk.answer(conversation="c", target=name)
    assert {len(tokens) for tokens in backend.read} == {len(PROMPT) - 1}


def test_a_cache_that_breaks_the_invariant_is_dropped_and_logged(
    desk: Desk, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(backend, "cache_length", lambda cache: len(cache.tokens) + (1 if cache.tokens else 0))
    for _ in range(2):
        desk.answer(conversation="c")
    assert len(backend.read[1]) == len(backend.read[0])
    assert "dropped" in caplog.text


def test_a_cache_that_cannot_be_cut_back_is_read_anew(desk: Desk, backend: FakeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "trim", lambda cache, length: 0)
    for text in ("hi", "ho"):
        desk.answer(text, conversation="c")
    assert len(backend.read[1]) == len(backend.read[0])


# Measuring


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

    with Desk(Engine(Measuring, measures=True)) as desk:
        desk.engine.load("fake")
        assert begun.acquire(timeout=PATIENCE)
        desk.ask(target="fake")
        going_on.release()
        for _ in range(2):
            assert begun.acquire(timeout=PATIENCE)
            going_on.release()
    assert steps == ["fake", "answer", "fake", "fake"]


@pytest.mark.parametrize(("asked", "traces"), [("answer", 1), ("load", 0), ("comparison", 2), ("check", 0)])
def test_a_run_that_only_measures_makes_way_for_anything_else_and_leaves_no_trace(
    desk: Desk, backend: FakeBackend, home: Path, asked: str, traces: int
) -> None:
    gate = backend.hold(5 + 2)
    measured = desk.ask(max_tokens=100, kept=False, only_measures=True)
    desk.until(RoundFinished, 2)
    others: tuple[int, ...] = ()
    match asked:
        case "answer":
            others = (desk.ask(),)
        case "load":
            desk.engine.load("builtin")
        case "comparison":
            others = desk.engine.compare(CompareRequest((request(), request())))
        case _:
            desk.engine.check_drafter("ngram")
    gate.release(100)
    (finished,) = desk.ends([measured])
    assert finished.finish == "cancelled" and finished.tokens <= 3, "within a round"
    assert finished.trace_path is None and finished.trace_error is None
    assert all(other.finish == "length" for other in desk.ends(others))
    assert len([path for path in (home / "traces").rglob("*") if path.is_file()]) == traces


def test_a_run_that_only_measures_leaves_the_cache_of_a_conversation_as_it_was(desk: Desk, backend: FakeBackend) -> None:
    desk.answer(conversation="c")
    desk.answer(kept=False, only_measures=True)
    desk.answer(conversation="c")
    assert backend.read[2] == []
