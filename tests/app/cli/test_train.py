"""`draftlight train-drafter`: what it asks of the engine, what it prints, and how it ends."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.cli.entry import main
from engine.runtime.worker import Engine
from engine.values.errors import DraftlightError
from engine.values.requests.train import DEFAULT_WRITE, HeldOut, Trained, TrainRequest
from tests.engine.fakes import PATIENCE, FakeBackend

MEASURED = HeldOut(1200, (0.61, 0.5, 0.42, 0.3), (0.57, 0.45, 0.4, 0.28), 3456)


class TrainingBackend(FakeBackend):
    """Trains in no time; with `wait`, goes on until it is broken off."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[TrainRequest] = []
        self.started = threading.Event()
        self.wait = False
        self.trouble: Exception | None = None
        self.held_out: HeldOut | None = MEASURED

    def train(
        self,
        target: Any,
        request: TrainRequest,
        tell: Callable[[str], None],
        report: Callable[[str, float, str], None],
        measured: Callable[[HeldOut], None],
    ) -> Trained:
        self.requests.append(request)
        tell("Features: 12 tokens.")
        report("training", 0.25, "step 1")
        measured(MEASURED)
        self.started.set()
        while self.wait:
            report("training", 0.5, "step 2")
        if self.trouble is not None:
            raise self.trouble
        return Trained(request.output, self.held_out)


@pytest.fixture
def backend(use: Callable[[TrainingBackend], TrainingBackend]) -> TrainingBackend:
    return use(TrainingBackend())


def test_omitted_options_have_defaults(backend: TrainingBackend, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train-drafter", "--output", "my head"]) == 0
    (request,) = backend.requests
    assert request == TrainRequest(output=Path("my head"), command="draftlight train-drafter --output 'my head'")
    assert (request.target, request.taps, request.tokens_to_write) == ("builtin", None, DEFAULT_WRITE)
    assert request.work_folder == Path("my head.work") and request.minutes_to_train == 60
    printed = capsys.readouterr()
    assert "agreement, temperature 0     0.610   0.500   0.420   0.300" in printed.out
    assert "sum min(p, q), at 0.8        0.570   0.450   0.400   0.280" in printed.out
    assert printed.out.endswith("written to my head\n")
    assert "Features: 12 tokens." in printed.err and "training, step 1" in printed.err
    assert "step 1,200, held-out text by draft position: agreement 0.610 0.500" in printed.err


def test_every_option_reaches_the_training(backend: TrainingBackend, tmp_path: Path) -> None:
    words = ["--target", "some/model", "--output", "out", "--text", "a.txt", "b", "--write", "500", "--temperature", "0,0.5"]
    words += ["--taps", "1,5,7", "--vocabulary", "4096", "--steps-back", "4", "--steps", "70", "--start", "before"]
    words += ["--seed", "3", "--work", "w", "--stage", "train", "--longest", "300", "--batch-tokens", "512"]
    words += ["--learning-rate", "0.001", "--variation", "0.2", "--copied", "0.3", "--patience", "0"]
    assert main(["train-drafter", *words]) == 0
    assert backend.requests == [
        TrainRequest(
            target="some/model",
            output=Path("out"),
            text=(Path("a.txt"), Path("b")),
            write=500,
            temperatures=(0.0, 0.5),
            taps=(1, 5, 7),
            vocabulary=4096,
            steps_back=4,
            steps=70,
            start=Path("before"),
            seed=3,
            work=Path("w"),
            stage="train",
            longest=300,
            batch_tokens=512,
            learning_rate=0.001,
            variation=0.2,
            copied=0.3,
            patience=0,
            command="draftlight train-drafter " + " ".join(words),
        )
    ]
    assert backend.requests[0].minutes_to_train is None and backend.loads == ["some/model"]


def test_given_text_is_not_written_over() -> None:
    assert TrainRequest(output=Path("out"), text=(Path("a"),)).tokens_to_write == 0
    assert TrainRequest(output=Path("out"), text=(Path("a"),), write=70).tokens_to_write == 70


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--output"),
        (["--output", "o", "--taps", "a,b"], "--taps: must be comma-separated whole numbers"),
        (["--output", "o", "--taps", "5,3"], "taps must be distinct layer numbers from 0, in ascending order"),
        (["--output", "o", "--taps=-1,3"], "taps must be distinct layer numbers from 0, in ascending order"),
        (["--output", "o", "--temperature", "hot"], "--temperature: must be comma-separated numbers"),
        (["--output", "o", "--temperature", "-1"], "temperature must be numbers of at least 0"),
        (["--output", "o", "--minutes", "0"], "minutes must be a number above 0"),
        (["--output", "o", "--minutes", "nan"], "minutes must be a number above 0"),
        (["--output", "o", "--minutes", "3", "--steps", "4"], "not allowed with argument"),
        (["--output", "o", "--steps", "0"], "steps must be a whole number of at least 1"),
        (["--output", "o", "--vocabulary", "3"], "vocabulary must be a whole number of at least 16"),
        (["--output", "o", "--steps-back", "0"], "steps-back must be"),
        (["--output", "o", "--write", "-1"], "write must be"),
        (["--output", "o", "--copied", "2"], "copied must be a number from 0 to 1"),
        (["--output", "o", "--learning-rate", "0"], "learning-rate must be above 0"),
        (["--output", "o", "--stage", "card"], "invalid choice"),
    ],
)
def test_an_impossible_request_is_refused_before_loading(
    backend: TrainingBackend, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["train-drafter", *words])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
    assert not backend.loads


def test_an_interruption_ends_with_what_to_do(backend: TrainingBackend, capsys: pytest.CaptureFixture[str]) -> None:
    backend.wait = True

    def interrupt() -> None:
        assert backend.started.wait(PATIENCE)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert main(["train-drafter", "--output", "out"]) == 130
    thread.join()
    printed = capsys.readouterr()
    assert printed.out == "" and "run the same command again to continue from out.work" in printed.err


def test_an_interruption_before_the_first_event_is_not_lost(backend: TrainingBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes the moment the task is queued, and SIGINT was ignored until then."""
    backend.wait = True
    submit = Engine.perform

    def interrupted(engine: Engine, request: TrainRequest) -> int:
        task = submit(engine, request)
        os.kill(os.getpid(), signal.SIGINT)
        return task

    monkeypatch.setattr(Engine, "perform", interrupted)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert main(["train-drafter", "--output", "out"]) == 130
    finally:
        signal.signal(signal.SIGINT, before)


def test_trouble_is_one_sentence(backend: TrainingBackend, capsys: pytest.CaptureFixture[str]) -> None:
    backend.trouble = DraftlightError("Only 3 MB are free there.")
    assert main(["train-drafter", "--output", "out"]) == 1
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.endswith("draftlight: Only 3 MB are free there.\n")


def test_a_target_that_cannot_be_loaded_is_named(backend: TrainingBackend, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train-drafter", "--output", "out", "--target", "broken"]) == 1
    assert "broken is not a model" in capsys.readouterr().err
    assert not backend.requests


def test_a_stage_without_a_measurement_prints_no_table(backend: TrainingBackend, capsys: pytest.CaptureFixture[str]) -> None:
    backend.held_out = None
    assert main(["train-drafter", "--output", "out", "--stage", "text"]) == 0
    assert capsys.readouterr().out == "written to out\n"
