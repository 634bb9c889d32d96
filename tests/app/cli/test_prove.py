"""`draftlight prove`: what it prints and writes, and how it ends."""

from __future__ import annotations

import json
import math
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.cli.entry import main
from engine.types import PLANTS, ProveRequest
from engine.values.requests.prove import Finding
from engine.values.statistics import ChiSquare
from tests.engine.fakes import PATIENCE, FakeBackend

SOUND = ChiSquare(10.0, 9, 1000, 4000.0)
BROKEN = ChiSquare(math.inf, 9, 1000, 4000.0)


class ProvingBackend(FakeBackend):
    """Finds what it was told to find; with `wait`, goes on until it is broken off."""

    def __init__(self) -> None:
        super().__init__()
        self.found = [Finding("words", "", "3 streams", 12, True), Finding("tokens", "block", "T 0.8", 1000, SOUND)]
        self.requests: list[ProveRequest] = []
        self.started = threading.Event()
        self.wait = False

    def prove(
        self, target: Any, drafter: Any, request: ProveRequest, progress: Callable[[str, float], None]
    ) -> Iterator[Finding]:
        self.requests.append(request)
        progress("playing", 0.25)
        self.started.set()
        while self.wait:
            progress("playing", 0.5)
        yield from self.found


@pytest.fixture
def backend(use: Callable[[ProvingBackend], ProvingBackend]) -> ProvingBackend:
    return use(ProvingBackend())


def test_all_passed(backend: ProvingBackend, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove"]) == 0
    printed = capsys.readouterr()
    assert "2 of 2 checks passed" in printed.out
    assert "with probability 0.0001" in printed.out
    assert "FAILED" not in printed.out
    assert "25%  playing" in printed.err
    assert backend.requests == [ProveRequest()]
    assert backend.closed == 1


def test_one_failure_is_shown_and_is_the_exit_status(backend: ProvingBackend, capsys: pytest.CaptureFixture[str]) -> None:
    backend.found.append(Finding("whole texts", "gumbel", "T 1", 1000, BROKEN, "total variation", "off by a lot"))
    assert main(["prove"]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "FAILED" in line]
    assert line.startswith("whole texts")


def test_a_check_of_equality_can_fail_too(backend: ProvingBackend, capsys: pytest.CaptureFixture[str]) -> None:
    backend.found.append(Finding("noise", "", "", 3, False))
    assert main(["prove"]) == 1
    assert "Decoding with this pair is not exact" in capsys.readouterr().out


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_defect_is_named_with_its_result(
    plant: str, backend: ProvingBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prove", "--plant", plant]) == 3
    printed = capsys.readouterr().out
    assert f"A DEFECT WAS PLANTED on purpose in the simulated rounds: {plant}" in printed
    assert "was NOT detected" in printed
    backend.found.append(Finding("tokens", "block", "T 1", 1000, BROKEN))
    assert main(["prove", "--plant", plant]) == 1
    assert "The planted defect was detected by 1 check" in capsys.readouterr().out


def test_json_holds_every_check(backend: ProvingBackend, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backend.found.append(Finding("whole texts", "gumbel", "T 1", 1000, BROKEN, "total variation", "off by a lot"))
    path = tmp_path / "proof.json"
    arguments = [
        "--target",
        "other",
        "--drafter",
        "ngram",
        "--seed",
        "9",
        "--quick",
        "--plant",
        "stale-noise",
        "--json",
        str(path),
    ]
    assert main(["prove", *arguments]) == 1
    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["format"] == "draftlight.proof/1"
    assert written["passed"] is False
    assert (written["target"]["name"], written["drafter"], written["seed"]) == ("other", "ngram", 9)
    assert (written["effort"], written["plant"], written["false_alarm"]) == ("quick", "stale-noise", 1e-4)
    assert written["level"] == 5e-5
    assert [check["passed"] for check in written["checks"]] == [True, True, False]
    assert written["checks"][1]["p_value"] == pytest.approx(0.3504852)
    assert written["checks"][2]["statistic"] is None
    assert backend.requests == [ProveRequest("other", "ngram", 9, "quick", "stale-noise")]


def test_a_target_that_cannot_be_loaded_is_reported_once(backend: ProvingBackend, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", "--target", "broken"]) == 1
    assert capsys.readouterr().err.count("broken is not a model.") == 1


def test_a_refused_drafter_is_an_error_only_if_it_was_asked_for(
    backend: ProvingBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "misfit").mkdir()
    monkeypatch.chdir(tmp_path)
    assert main(["prove", "--drafter", "misfit"]) == 1
    assert "token 7 differs" in capsys.readouterr().err
    monkeypatch.setattr("engine.tools.proof.job.HEAD", "misfit")
    assert main(["prove"]) == 0
    assert "Note: using ngram instead of misfit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--plant", "weeds"], "weeds"),
        (["--drafter", "gram"], "There is no drafter gram. Did you mean ngram?"),
        (["--seed", "-1"], "seed"),
        (["--quick", "--thorough"], "not allowed with"),
        (["--json", "nowhere/at/all.json"], "the folder nowhere/at does not exist"),
        (["--json", "/"], "cannot be written"),
    ],
)
def test_bad_arguments_end_with_2(arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["prove", *arguments])
    assert end.value.code == 2
    assert named in capsys.readouterr().err


def test_control_c_stops_without_a_conclusion(backend: ProvingBackend, capsys: pytest.CaptureFixture[str]) -> None:
    backend.wait = True

    def interrupt() -> None:
        assert backend.started.wait(PATIENCE)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert main(["prove"]) == 130
    thread.join(PATIENCE)
    printed = capsys.readouterr()
    assert "checks passed" not in printed.out
    assert "stopped before any conclusion" in printed.err
