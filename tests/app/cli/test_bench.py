"""`draftlight bench`: what it prints and writes, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.cli import bench as cli_bench
from app.cli.entry import main
from app.cli.output import ProgressBar
from engine.decode.context import DecodeContext, RoundOutcome
from engine.files import library
from engine.files.builtin import TEMPERATURE, TOP_P
from engine.files.library import LibraryModel
from engine.files.paths import data_folder
from engine.tools.bench.journal import exclusive_use
from engine.types import FILTERS, DecodingOptions, TaskProgress
from engine.values.errors import DraftlightError
from engine.values.requests.bench import PeerToken
from tests.engine.fakes import PATIENCE, FakeBackend, FakeCapabilities, FakeDrafter, FakeLoadedDrafter, FakeTarget
from tests.engine.runtime.process.processes import until

PROMPTS = [
    {"id": "one", "category": "chat", "turns": ["hello", "again"]},
    {"id": "two", "category": "code", "turns": ["write"]},
]


class BenchedBackend(FakeBackend):
    """Decodes as many answers as it is told to, then fails, or waits until it is stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = 0
        self.fail_after: int | None = None
        self.wait_after: int | None = None
        self.reached = threading.Event()
        self.options: list[DecodingOptions] = []
        self.drafters: list[Any] = []

    def drafter(self, name: str, *arguments: Any) -> FakeLoadedDrafter:
        made = super().drafter(name, *arguments)
        return made if made.drafter is None else replace(made, make=lambda: FakeDrafter(name, FakeCapabilities(samples=False)))

    def load(self, *arguments: Any) -> FakeTarget:
        target = super().load(*arguments)
        target.eos_ids = frozenset[int]()  # type: ignore[attr-defined]
        return target

    def decode(self, context: DecodeContext) -> Generator[RoundOutcome, None, None]:
        self.answers += 1
        self.options.append(context.options)
        self.drafters.append(context.drafter)
        if self.answers == self.fail_after:
            raise DraftlightError("the machine is on fire")
        if self.answers == self.wait_after:
            self.reached.set()
            assert until(lambda: context.control.stopped)
        yield from super().decode(context)

    def peer(
        self, target: Any, draft: Any, prompt: Sequence[int], options: DecodingOptions, proceed: Callable[[], None]
    ) -> Generator[PeerToken, None, None]:
        proceed()
        for index in range(options.max_tokens):
            yield PeerToken(ord("a") + index % 26, False, 0.02 * (index + 1))

    def finish_and_free(self) -> None:
        """Nothing is under way."""


@pytest.fixture
def backend(use: Callable[[BenchedBackend], BenchedBackend]) -> BenchedBackend:
    return use(BenchedBackend())


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(json.dumps(prompt) for prompt in PROMPTS), encoding="utf-8")
    return str(path)


SMALL = ["--drafters", "none,ngram", "--rules", "gumbel", "--temperatures", "0", "--gamma", "3", "--max-tokens", "8"]


def test_the_table_has_a_block_for_each_category(
    backend: BenchedBackend, prompts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "--prompts", prompts, "--peers", *SMALL]) == 0
    printed = capsys.readouterr()
    shown = printed.out.splitlines()
    assert [line for line in shown if line.endswith((", 1 prompt", ", 2 prompts"))] == [
        "chat, 1 prompt",
        "code, 1 prompt",
        "(all), 2 prompts",
    ]
    # The fake takes 10 ms a round of one token, and says that mlx-lm takes 20.
    for name, figures in (("ngram", "gumbel 0 3 100.0 100.0 1.00"), ("mlx-lm", "- 0 - 50.0 100.0 0.50")):
        assert [line.split()[1:7] for line in shown if line.startswith(f"  {name}")] == [figures.split()] * 3
    assert "prompt 2 of 2: two (code)" in printed.err
    assert "mlx-lm is not measured with ngram" in printed.err
    assert backend.closed == 1


def test_decoding_is_measured_without_analysis(backend: BenchedBackend, prompts: str) -> None:
    assert main(["bench", "--prompts", prompts, "--seed", "7", *SMALL]) == 0
    assert {(options.analyse, options.phase_every) for options in backend.options} == {(False, 0)}
    assert {options.seed for options in backend.options} == {7, 8, 1007}


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ([], (TEMPERATURE, TOP_P, 0, 0.0, 1.0), f"temperature {TEMPERATURE:g}, top-p {TOP_P:g}"),
        (["--temperatures", "0.7", "--top-p", "1"], (0.7, 1.0, 0, 0.0, 1.0), "temperature 0.7, no filters"),
        (["--temperatures", "0", "--top-p", "0.9"], (0.0, 0.9, 0, 0.0, 1.0), "temperature 0, no filters"),
        (
            ["--top-k", "7", "--min-p", "0.1", "--repetition-penalty", "1.1"],
            (TEMPERATURE, TOP_P, 7, 0.1, 1.1),
            f"temperature {TEMPERATURE:g}, top-p {TOP_P:g}, top-k 7, min-p 0.1, repetition penalty 1.1",
        ),
    ],
)
def test_the_sampling_defaults_to_that_of_chat_and_is_printed(
    given: list[str],
    options: tuple[float, ...],
    words: str,
    backend: BenchedBackend,
    prompts: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page, small = tmp_path / "out.html", ["--drafters", "ngram", "--gamma", "3", "--max-tokens", "4"]
    assert main(["bench", "--prompts", prompts, "--html", str(page), *small, *given]) == 0
    assert {tuple(getattr(used, name) for name in ("temperature", *FILTERS)) for used in backend.options} == {options}
    assert f"Sampling: {words}\n" in capsys.readouterr().out
    assert f"Sampling: {words}. " in page.read_text(encoding="utf-8")


def test_drafters_that_were_not_measured_are_named(
    backend: BenchedBackend, prompts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def model(name: str, at: str = "", **about: Any) -> LibraryModel:
        return LibraryModel(name, at or str(tmp_path / name), "here", 1, **about)

    found = [
        model("Qwen3-4B", FakeTarget("").path),
        model("Qwen3-0.6B"),
        model("my-head", only_drafts=True),
        model("measured", only_drafts=True),
        model("misfit", "misfit", only_drafts=True),
        model("damaged", only_drafts=True, problem="It has no weights."),
        model("Llama-3.2-1B"),
    ]
    monkeypatch.setattr(library, "find", lambda folders: found)
    assert main(["bench", "--prompts", prompts, *SMALL]) == 0
    left_out = "auto, ngram-mod, head, builtin-draft, builtin-block, Qwen3-0.6B, my-head and measured"
    assert f"Not measured: {left_out}.\n" in capsys.readouterr().out
    (tmp_path / "measured").mkdir()
    mine = ["--drafters", f"ngram,{tmp_path / 'measured'}", "--gamma", "3", "--max-tokens", "4"]
    assert main(["bench", "--prompts", prompts, "--target", "owner/other", *mine]) == 0
    said = capsys.readouterr().out
    assert "Not measured: auto, ngram-mod, Qwen3-0.6B and my-head." in said, "the others cannot draft for it"
    assert str(tmp_path) not in said.partition("Not measured")[2].partition("\n")[0]


def test_no_drafter_has_seen_another_answer(backend: BenchedBackend, prompts: str) -> None:
    """It would copy what it saw of the same prompt."""
    assert main(["bench", "--prompts", prompts, *SMALL]) == 0
    used = [drafter for drafter in backend.drafters if drafter is not None]
    assert len(used) == len({id(drafter) for drafter in used}) > 3


def test_json_holds_every_run_and_the_report_what_to_use(backend: BenchedBackend, prompts: str, tmp_path: Path) -> None:
    path, page = tmp_path / "out.json", tmp_path / "out.html"
    assert main(["bench", "--prompts", prompts, "--json", str(path), "--html", str(page), "--no-peers", *SMALL]) == 0
    assert "Too little was measured to choose a drafter." in page.read_text(encoding="utf-8")
    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["complete"] is True
    assert [(row["prompt_id"], row["drafter"], row["turns"]) for row in written["rows"] if row["drafter"] != "none"] == [
        ("one", "ngram", 2),
        ("two", "ngram", 1),
    ]
    assert written["peers"] == []
    assert sorted(os.listdir(tmp_path)) == ["draftlight-home", "out.html", "out.json", "prompts.jsonl"]


def test_control_c_leaves_the_rows_so_far(
    backend: BenchedBackend, prompts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backend.wait_after = 9
    path = tmp_path / "out.json"

    def interrupt() -> None:
        assert backend.reached.wait(PATIENCE)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert main(["bench", "--prompts", prompts, "--json", str(path), "--no-peers", *SMALL]) == 130
    thread.join(PATIENCE)
    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["complete"] is False
    assert {row["prompt_id"] for row in written["rows"]} == {"one"}
    assert written["summary"]
    printed = capsys.readouterr()
    assert "INCOMPLETE" in printed.out
    assert "stopped" in printed.err


def test_the_same_command_goes_on_after_a_crash(
    backend: BenchedBackend, prompts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, command = tmp_path / "out.json", ["bench", "--prompts", prompts, *SMALL]
    backend.fail_after = 9
    assert main(command) == 1
    capsys.readouterr()
    backend.answers, backend.fail_after = 0, None
    assert main([*command, "--json", str(path)]) == 0
    assert "Goes on from 3 measurements of" in capsys.readouterr().err
    assert backend.answers == 2 + 3, "one token to warm up for each setting, and the prompt that is missing"
    written = json.loads(path.read_text(encoding="utf-8"))
    assert [(row["prompt_id"], row["drafter"]) for row in written["rows"]] == [
        *(("one", name) for name in ("none", "ngram", "none")),
        *(("two", name) for name in ("none", "ngram", "none")),
    ]
    assert [row["order"] for row in written["rows"]] == [0, 1, 2, 3, 4, 5]
    assert main(command) == 0
    assert "Goes on" not in capsys.readouterr().err, "it was complete"


def test_a_changed_setting_restarts_the_benchmark_with_a_note(
    backend: BenchedBackend, prompts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["bench", "--prompts", prompts, *SMALL]
    backend.fail_after = 9
    assert main(command) == 1
    backend.answers, backend.fail_after = 0, None
    assert main([*command, "--seed", "3", "--temperatures", "0.5"]) == 0
    printed = capsys.readouterr()
    assert "Starts anew, because the temperatures and the seed changed since" in printed.err
    assert main(command) == 0
    assert "Goes on from 3 measurements" in capsys.readouterr().err, "what was measured before the change is still there"


def test_a_time_limit_ends_with_what_was_measured(
    backend: BenchedBackend, prompts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every answer takes a minute: two to warm up, six for the first prompt, three for the second."""
    path = tmp_path / "out.json"
    monkeypatch.setattr("engine.tools.bench.job.time.monotonic", lambda: 60.0 * backend.answers)
    command = ["bench", "--prompts", prompts, "--json", str(path), *SMALL]
    assert main([*command, "--minutes", "4.5"]) == 0
    assert "Every setting was measured on 0 of 2 prompts." in capsys.readouterr().out
    backend.answers = 0
    assert main([*command, "--anew", "--minutes", "9.5"]) == 0
    printed = capsys.readouterr()
    assert "Every setting was measured on 1 of 2 prompts." in printed.out
    assert "Too little was measured to choose a drafter." in printed.out
    assert "the time is over; run the same command again to continue" in printed.err
    assert backend.answers == 8, "the second prompt was not begun in vain"
    written = json.loads(path.read_text(encoding="utf-8"))
    assert (written["complete"], written["options"]["minutes"]) == (False, 9.5)
    assert {row["prompt_id"] for row in written["rows"]} == {"one"}
    assert main([*command, "--minutes", "0"]) == 0
    assert json.loads(path.read_text(encoding="utf-8"))["missing"] == []


def test_two_benchmarks_at_once_are_refused(backend: BenchedBackend, prompts: str, capsys: pytest.CaptureFixture[str]) -> None:
    with exclusive_use(data_folder() / "bench"):
        assert main(["bench", "--prompts", prompts, *SMALL]) == 1
    assert "Another benchmark is under way" in capsys.readouterr().err
    assert backend.answers == 0


def test_an_error_leaves_the_rows_so_far(
    backend: BenchedBackend, prompts: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backend.fail_after = 9
    path = tmp_path / "out.json"
    assert main(["bench", "--prompts", prompts, "--json", str(path), "--no-peers", *SMALL]) == 1
    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["complete"] is False and written["rows"]
    assert "the machine is on fire" in capsys.readouterr().err


def test_a_killed_export_leaves_no_partial_file(
    backend: BenchedBackend, prompts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is put in place while the benchmark goes on."""
    saved: list[dict[str, Any]] = []
    monkeypatch.setattr(cli_bench, "SAVE_INTERVAL", -1.0)
    monkeypatch.setattr(cli_bench, "write_whole", lambda path, text: saved.append(json.loads(text)))
    assert main(["bench", "--prompts", prompts, "--json", str(tmp_path / "out.json"), *SMALL]) == 0
    assert len(saved) > 1
    assert [document["complete"] for document in saved] == [False] * (len(saved) - 1) + [True]
    assert all(document["rows"] for document in saved)


def test_a_refused_drafter_is_one_clear_line(
    backend: BenchedBackend,
    prompts: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "out.json"
    (tmp_path / "misfit").mkdir()
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "--prompts", prompts, "--drafters", "misfit", "--json", str(path)]) == 1
    printed = capsys.readouterr()
    assert "token 7 differs" in printed.err.splitlines()[-1]
    assert printed.out == ""
    assert not path.exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--rules", "guess"], "rule must be one of match"),
        (["--rules", "gumbel,gumbel"], "rules"),
        (["--temperatures", "warm"], "--temperatures: temperature must be a number from 0 to 5, not 'warm'"),
        (["--temperatures", "0,7"], "temperature must be a number from 0 to 5, not '7'"),
        (["--temperatures", "-1"], "temperature"),
        (["--gamma", "2,,4"], "gamma"),
        (["--gamma", "65"], "gamma"),
        (["--gamma", "some"], "gamma must be a whole number from 1 to 64"),
        (["--drafters", "ngram,foo"], "There is no drafter foo. Choose from none, auto, ngram"),
        (["--drafters", "Head"], "There is no drafter Head. Did you mean head?"),
        (["--drafters", "~nosuchuser/x"], "There is no drafter ~nosuchuser/x."),
        (["--drafters", 300 * "x"], "There is no drafter xxx"),
        (["--drafters", ""], "There is no drafter without a name."),
        (["--max-tokens", "0"], "max_tokens"),
        (["--limit", "0"], "limit"),
        (["--minutes", "-1"], "--minutes: must be a number of at least 0, not '-1'"),
        (["--minutes", "nan"], "--minutes: must be a number of at least 0"),
        (["--seed", "-1"], "seed must be a whole number from 0 to 9,007,199,254,740,991, not '-1'"),
        (["--prompts", "nowhere.jsonl"], "nowhere.jsonl cannot be read"),
        (["--json", "nowhere/at/all.json"], "the folder nowhere/at does not exist"),
        (["--json", "/"], "cannot be written"),
    ],
)
def test_bad_options_end_with_2_and_one_line(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str], backend: BenchedBackend
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["bench", *arguments])
    assert end.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert named in line
    assert backend.loads == []


@pytest.mark.parametrize(("target", "drafters"), [([], ("auto", "ngram", "head")), (["--target", "other"], ("ngram",))])
def test_drafters_that_fit_are_the_default(
    target: list[str], drafters: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, backend: BenchedBackend
) -> None:
    requests: list[Any] = []
    monkeypatch.setattr("app.cli.bench.bench", lambda request, *paths, anyway, cluster: requests.append(request) or 0)
    assert main(["bench", *target]) == 0
    assert requests[0].drafters == drafters
    assert requests[0].gammas == (2, "auto")
    assert len(requests[0].prompts) > 5


@pytest.mark.parametrize(("columns", "bar"), [(120, 30), (80, 5), (75, 0), (40, 0)])
def test_the_bar_shrinks_for_the_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int, bar: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("app.cli.output.sys.stderr.isatty", lambda: True)
    words = "training, step 120, loss 10.622, best overlap 0.113, an hour left"
    ProgressBar().handle(TaskProgress(1, words, 0.2))
    (shown,) = capsys.readouterr().err.split("\r")[1:]
    drawn, _, told = shown.rpartition("] ")
    assert (len(drawn.lstrip("[")), told) == (bar, f" 20%  {words}"[: columns - 1])


def test_a_step_gets_a_line_however_often_its_figures_change(capsys: pytest.CaptureFixture[str]) -> None:
    progress = ProgressBar()
    for step, detail in (("first, part one", "1"), ("first, part one", "2"), ("first, part two", "3")):
        progress.handle(TaskProgress(1, step, 0.0, detail))
    assert capsys.readouterr().err.splitlines() == ["  0%  first, part one, 1", "  0%  first, part two, 3"]


def test_the_time_left_follows_from_what_was_done(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = 100.0
    monkeypatch.setattr("app.cli.output.time.perf_counter", lambda: now)
    progress = ProgressBar()
    progress.handle(TaskProgress(1, "first", 0.0))
    now += 30
    progress.handle(TaskProgress(1, "second", 0.25))
    now += 30
    progress.handle(TaskProgress(1, "third", 1.0))
    assert capsys.readouterr().err.splitlines() == ["  0%  first", " 25%  second, 2 min left", "100%  third"]
