"""The command line: what it prints where, how it ends, and that nobody ever sees a traceback."""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from app.cli import chat as cli_chat
from app.cli import entry as cli
from app.cli.entry import main
from app.cli.terminal import STYLES, RoundPainter, status_line, wants_colour
from engine.files import download
from engine.lens.shared_wording import no_template
from engine.machine.provenance import version
from engine.rounds.metrics import summarise
from engine.rounds.trace import Trace, read
from engine.types import DecodingOptions, Emitted, Milliseconds, Origin, Proposal, ProveRequest, Round, Status
from engine.values.errors import DraftlightError
from engine.values.requests.bench import BenchRequest
from engine.values.requests.train import TrainRequest
from tests.engine import tiny_models
from tests.engine.fakes import PATIENCE, FakeBackend
from tests.engine.files.ollama_store import write_layer, write_manifest, write_weights
from tests.engine.hub_server import hub_on_the_loopback

ROOT = Path(__file__).parents[3]


def trace_in(home: Path) -> Trace:
    """The only trace that was written."""
    (path,) = (home / "traces").iterdir()
    return read(path)


def ansi(text: str, kind: str) -> str:
    return f"\x1b[{STYLES[kind]}m{text}\x1b[0m"


# chat


def test_chat_prints_the_answer_and_a_line_of_figures(backend: FakeBackend, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "hi", "--max-tokens", "4", "--seed", "7", "--drafter", "ngram"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "abcd\n"
    assert re.fullmatch(
        r"4 tokens · 100\.0 tokens/s · alpha 0\.00 · tau 1\.00 · first token after \d+\.\d\d s · length limit reached · seed 7\n",
        printed.err,
    )
    assert backend.closed == 1


def test_chat_json_prints_exactly_the_traces_lines(backend: FakeBackend, home: Path, capfdbinary: Any) -> None:
    assert main(["chat", "hi", "--max-tokens", "4", "--json"]) == 0
    printed = capfdbinary.readouterr()
    (path,) = (home / "traces").iterdir()
    assert printed.out == path.read_bytes()
    kinds = [json.loads(line)["kind"] for line in printed.out.splitlines()]
    assert kinds == ["header", "round", "round", "round", "round", "summary"]
    assert printed.err == b""


def test_every_option_reaches_the_trace(backend: FakeBackend, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = (
        "--target other --drafter owner/model --rule block --gamma auto --temperature 0.25 --seed 11 --top-p 0.5 --top-k 9 "
        "--min-p 0.125 --repetition-penalty 1.5 --max-tokens 2 --stop END --stop <end> --system be-brief --no-ghosts "
        "--kv-bits 8 --budget 6 --width 2"
    )
    assert main(["chat", "hi", *given.split()]) == 0
    header = trace_in(home).header
    assert header["options"] == {
        "rule": "block",
        "temperature": 0.25,
        "top_p": 0.5,
        "top_k": 9,
        "min_p": 0.125,
        "repetition_penalty": 1.5,
        "repetition_context": 20,
        "seed": 11,
        "gamma": "auto",
        "budget": 6,
        "width": 2,
        "max_tokens": 2,
        "stop": ["END", "<end>"],
        "kv_bits": 8,
        "analyse": True,
        "phase_every": 16,
    }
    assert (header["target"]["name"], header["drafter"]["name"]) == ("other", "owner/model")
    assert header["prompt"]["messages"] == [{"role": "system", "content": "be-brief"}, {"role": "user", "content": "hi"}]


def test_a_model_without_a_template_continues_the_text_and_chat_says_so(
    backend: FakeBackend, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chat", "Once upon", "--target", "base", "--max-tokens", "2", "--system", "Be brief."]) == 0
    printed = capsys.readouterr()
    assert printed.out == "ab\n"
    said, _ = printed.err.splitlines()
    assert said == f"draftlight: {no_template('base')}, and the system prompt is not used."
    assert trace_in(home).header["prompt"]["text"] == "Once upon"


def test_the_system_prompt_that_a_model_comes_with_is_used_and_shown(
    backend: FakeBackend, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    system = write_layer(tmp_path, "system", b"You are\nMario.")
    params = write_layer(tmp_path, "params", b'{"stop": ["User:"], "temperature": 0.3}')
    target = write_manifest(tmp_path, "registry.ollama.ai/library/mario/latest", write_weights(tmp_path), system, params)

    def header(*more: str) -> tuple[dict[str, Any], str]:
        assert main(["chat", "hi", "--target", str(target), "--max-tokens", "2", "--json", "--no-save", *more]) == 0
        printed = capsys.readouterr()
        return json.loads(printed.out.splitlines()[0]), printed.err

    used, said = header()
    assert used["prompt"]["messages"][0] == {"role": "system", "content": "You are\nMario."}
    assert (used["options"]["stop"], used["options"]["temperature"]) == (["User:"], 0.3)
    assert "draftlight: the model's own system prompt, unless --system is given: You are Mario." in said
    for more, messages in ((["--system", "Be brief."], ["Be brief.", "hi"]), (["--system", ""], ["hi"]), (["--raw"], ["hi"])):
        used, said = header(*more)
        assert [message["content"] for message in used["prompt"]["messages"]] == messages
        assert "system prompt" not in said


def test_a_model_too_large_for_the_memory_is_refused_with_the_option_that_loads_it_anyway(
    backend: FakeBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    backend.memory, backend.sizes = 10**9, {"large": 43_200_000_000}
    assert main(["chat", "hi", "--target", "large", "--max-tokens", "2"]) == 1
    refused = capsys.readouterr().err
    assert "43.2 GB" in refused and "1.0 GB" in refused and refused.endswith("--anyway.\n")
    assert main(["chat", "hi", "--target", "large", "--max-tokens", "2", "--anyway"]) == 0
    assert capsys.readouterr().out == "ab\n"


def test_thinking_is_passed_on_and_a_model_without_a_switch_is_named(
    backend: FakeBackend, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chat", "hi", "--target", "other", "--max-tokens", "2", "--thinking", "off"]) == 0
    assert "other has no switch for thinking" in capsys.readouterr().err.splitlines()[0]
    assert trace_in(home).header["prompt"]["thinking"] == "off"


THINKING_ROUNDS = (("<thi", "nk>", "\nHm"), (".", "</think>", "\n"), ("\n", "Yes", "."))


@pytest.mark.parametrize(
    ("thoughts", "colours", "opened", "expected"),
    [
        (True, False, False, "<think>\nHm.</think>\n\nYes."),
        (False, False, False, "Yes."),
        (True, True, False, "<think>\nHm.</think>\n\nYes."),
        (False, True, True, "Yes."),
    ],
)
def test_thoughts_are_dimmed_or_left_out(thoughts: bool, colours: bool, opened: bool, expected: str) -> None:
    painter = RoundPainter(True, thoughts, colours)
    rounds = THINKING_ROUNDS
    if opened:
        painter.open_thought()
        rounds = (("\nHm",), *rounds[1:])
    shown = "".join(painter.paint(plain_round(index, tokens)) for index, tokens in enumerate(rounds)) + painter.flush()
    assert re.sub(r"\x1b\[[\d;]*m", "", shown) == expected
    dimmed = "".join(re.findall(r"\x1b\[2m([^\x1b]*)\x1b", shown))
    assert dimmed == ("<think>Hm.</think>" if thoughts and colours else "")


@pytest.mark.parametrize(
    "thought",
    [
        "<|channel>thought\nHm.<channel|>",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>So.<|end|><|start|>assistant"
        "<|channel|>final<|message|>",
    ],
)
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_thoughts_in_channels_are_dimmed_or_left_out(thought: str, size: int) -> None:
    text = f"{thought}\n\nYes."
    rounds = [plain_round(at, (text[at : at + size],)) for at in range(0, len(text), size)]
    for thoughts, expected in ((True, text), (False, "Yes.")):
        painter = RoundPainter(True, thoughts, colours=False)
        assert "".join(map(painter.paint, rounds)) + painter.flush() == expected


def test_an_unfinished_thought_mark_is_shown_at_the_end() -> None:
    painter = RoundPainter(colours=False)
    assert painter.paint(plain_round(0, ("\n", "<thi"))) == ""
    assert painter.flush() == "\n<thi"
    assert painter.flush() == ""


def plain_round(index: int, tokens: tuple[str, ...]) -> Round:
    """A round that emitted these tokens without proposals."""
    emitted = tuple(Emitted(7, text, text.encode(), "plain") for text in tokens)
    return Round(index, 0, "none", "gumbel", (), emitted, (), Milliseconds(1.0), 1, 0, text="".join(tokens))


def test_raw_leaves_the_template_out_and_says_nothing_of_it(
    backend: FakeBackend, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chat", "Once upon", "--target", "other", "--max-tokens", "2", "--raw"]) == 0
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert trace_in(home).header["prompt"]["text"] == "Once upon"


@pytest.mark.parametrize(
    "arguments, target, drafter",
    [
        (["chat", "hi"], "builtin", "auto"),
        (["chat", "hi", "--target", "other"], "other", "auto"),
        (["chat", "hi", "--target", "other", "--drafter", "ngram"], "other", "ngram"),
        (["chat", "hi", "--drafter", "none"], "builtin", "none"),
        (["--target", "other", "chat", "hi"], "other", "auto"),
    ],
)
def test_models_have_defaults_that_fit_and_may_be_named_before_the_command(
    backend: FakeBackend, home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], target: str, drafter: str
) -> None:
    assert main(arguments) == 0
    header = trace_in(home).header
    assert (header["target"]["name"], header["drafter"]["name"]) == (target, drafter)


def test_a_failed_answer_is_one_line_and_status_1(backend: FakeBackend, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "hi", "--target", "broken"]) == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "draftlight: broken is not a model. Choose another file.\n")


def test_text_before_an_error_is_printed(backend: FakeBackend, capsys: pytest.CaptureFixture[str]) -> None:
    backend.fail_at[2] = DraftlightError("The model gave no usable number.")
    assert main(["chat", "hi"]) == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("ab\n", "draftlight: The model gave no usable number.\n")


def test_an_unwritable_trace_is_reported_after_the_answer(
    backend: FakeBackend, home: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    (home / "traces").write_text("a file where the folder should be")
    assert main(["chat", "hi", "--max-tokens", "2"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "ab\n"
    assert "is incomplete" in printed.err


# Bad input


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["chat"], "PROMPT"),
        (["chat", ""], "the prompt is empty"),
        (["chat", " \n"], "the prompt is empty"),
        (["chat", "Once upon", "--raw", "--system", "Be brief."], "--raw leaves out"),
        (["chat", "hi", "--gamma", "x"], "gamma must be a whole number from 1 to 64"),
        (["chat", "hi", "--gamma", "65"], "gamma must be a whole number from 1 to 64"),
        (["chat", "hi", "--gamma", "0"], "gamma must be"),
        (["chat", "hi", "--temperature", "-1"], "temperature must be"),
        (["chat", "hi", "--temperature", "nan"], "temperature must be"),
        (["chat", "hi", "--temperature", "hot"], "--temperature"),
        (["chat", "hi", "--temperature", "5.1"], "temperature must be a number from 0 to 5, not '5.1'"),
        (["chat", "hi", "--seed", "٣"], "seed must be a whole number from 0 to 9,007,199,254,740,991"),
        (["chat", "hi", "--seed", "1e3"], "seed must be"),
        (["chat", "hi", "--seed", "-1"], "seed must be"),
        (["chat", "hi", "--seed", str(2**53)], "seed must be"),
        (["chat", "hi", "--top-p", "2"], "top_p must be"),
        (["chat", "hi", "--top-k", "-2"], "top_k must be"),
        (["chat", "hi", "--min-p", "-0.1"], "min_p must be"),
        (["chat", "hi", "--repetition-penalty", "0"], "repetition_penalty must be"),
        (["chat", "hi", "--max-tokens", "0"], "max_tokens must be"),
        (["chat", "hi", "--budget", "0"], "budget must be a whole number from 1 to 64, auto, or chain, not '0'"),
        (["chat", "hi", "--budget", "65"], "budget must be"),
        (["bench", "--width", "9"], "width must be a whole number from 1 to 8"),
        (["chat", "hi", "--stop", ""], "stop must be"),
        (["chat", "hi", "--rule", "guess"], "--rule"),
        (["chat", "hi", "--frobnicate"], "--frobnicate"),
        (["frobnicate"], "frobnicate"),
        (["export"], "TRACE"),
        (["export", "x", "--format", "xml"], "--format"),
        (["models"], "ACTION"),
        (["models", "paint"], "paint"),
    ],
)
def test_bad_options_give_one_clear_line_and_status_2(
    backend: FakeBackend, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert printed.err.startswith("draftlight") and message in printed.err
    assert backend.loads == []


@pytest.mark.parametrize("command", [[], *([name] for name in cli.COMMANDS), ["models", "check"]], ids=" ".join)
def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert ended.value.code == 0
    assert "usage: draftlight" in capsys.readouterr().out


MODELS = "anyway hosts sharding"
CHAT_ONLY = "prompt target drafter system raw thinking thoughts ghosts json_lines continued save overflow"


@pytest.mark.parametrize(
    ("command", "kind", "others"),
    [
        ("chat", DecodingOptions, f"{CHAT_ONLY} {MODELS}"),
        ("prove", ProveRequest, f"json_path {MODELS}"),
        ("bench", BenchRequest, f"limit json_path html_path {MODELS}"),
        ("train-drafter", TrainRequest, "anyway"),
    ],
)
def test_every_option_is_named_like_its_setting(command: str, kind: Any, others: str) -> None:
    """A request takes the options called like its fields (`request_of`): one of another name would set nothing."""
    parser = argparse.ArgumentParser()
    cli.COMMANDS[command].add_options(parser)
    names = {action.dest for action in parser._actions} - {"help"}
    assert names - {*others.split()} <= {field.name for field in fields(kind)}
    assert names >= {*others.split()}


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"draftlight {version()}\n"


def test_a_defect_is_one_line_and_its_traceback_goes_to_the_log(
    backend: FakeBackend, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def defect(*arguments: object, **options: object) -> int:
        raise KeyError("inner")

    monkeypatch.setattr(cli_chat, "chat", defect)
    assert main(["chat", "hi"]) == 1
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1 and "KeyError" in printed.err and "draftlight.log" in printed.err
    assert "Traceback" in caplog.text


# In a process of its own: pipes, terminals, signals


def program(*arguments: str) -> list[str]:
    """The command over a fake model."""
    code = (
        "import sys, engine.runtime.worker; from engine.runtime.worker import Engine; from tests.engine.fakes import "
        "FakeBackend; engine.runtime.worker.Engine = lambda: Engine(FakeBackend); from app.cli.entry import main; "
        "sys.exit(main())"
    )
    return [sys.executable, "-c", code, *arguments]


def start(*arguments: str) -> subprocess.Popen[bytes]:
    """A long answer, in a process of its own."""
    command = program("chat", "hi", "--max-tokens", "1000000", *arguments)
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finished(*arguments: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(program(*arguments), cwd=ROOT, capture_output=True, timeout=PATIENCE, **more)


def test_the_prompt_can_come_from_standard_input(home: Path) -> None:
    done = finished("chat", "-", "--max-tokens", "2", input="ünïcode\xff".encode("latin-1"))
    assert (done.returncode, done.stdout) == (0, b"ab\n")
    assert trace_in(home).header["prompt"]["messages"][0]["content"] == "\ufffdn\ufffdcode\ufffd"


@pytest.mark.parametrize(("interrupts", "status"), [(False, 141), (True, 130)], ids=["closed pipe", "Ctrl-C"])
def test_an_answer_that_is_stopped_leaves_a_whole_trace(home: Path, interrupts: bool, status: int) -> None:
    process = start()
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.read(1) == b"a"
    if interrupts:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    else:
        process.stdout.close()
        errors = process.stderr.read()
        process.stderr.close()
    assert process.wait(PATIENCE) == status
    assert (b"stopped" in errors and b"Traceback" not in errors) if interrupts else errors == b""
    found = trace_in(home)
    assert found.missing is None and found.summary is not None
    assert found.summary["finish"] == "cancelled"


def test_a_killed_process_leaves_a_trace_of_complete_rounds(home: Path) -> None:
    process = start()
    assert process.stdout is not None
    shown = process.stdout.read(20)
    process.kill()
    process.communicate(timeout=PATIENCE)
    found = trace_in(home)
    assert found.missing is not None and "cut off" in found.missing
    assert "".join(round.text for round in found.rounds).startswith(shown.decode())


def test_an_unwritable_data_folder_loses_only_the_stored_data(home: Path) -> None:
    (home / "file").write_text("")
    done = finished("chat", "hi", "--max-tokens", "3", env={**os.environ, "DRAFTLIGHT_HOME": str(home / "file")})
    assert (done.returncode, done.stdout) == (0, b"abc\n")
    assert len(done.stderr.splitlines()) == 3
    assert b"This conversation is not kept." in done.stderr and b"is incomplete" in done.stderr


def test_defects_go_to_the_log_file(home: Path) -> None:
    done = finished("chat", "hi", "--target", "crash")
    assert done.returncode == 1
    assert done.stderr.count(b"\n") == 1 and str(home / "draftlight.log").encode() in done.stderr
    assert "Traceback" in (home / "draftlight.log").read_text()


def run_on_a_terminal(*arguments: str, **environment: str) -> str:
    """What the command shows on a terminal, standard output and error together."""
    ours, theirs = pty.openpty()
    settings = {**os.environ, "TERM": "xterm-256color", **environment}
    if "NO_COLOR" not in environment:
        settings.pop("NO_COLOR", None)
    process = subprocess.Popen(program(*arguments), cwd=ROOT, stdout=theirs, stderr=theirs, env=settings)
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # how Linux tells that the other side has closed
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait(PATIENCE) == 0
    return shown.decode().replace("\r\n", "\n")


def test_on_a_terminal_tokens_are_coloured_with_ghosts_in_their_positions(home: Path) -> None:
    shown = run_on_a_terminal("chat", "hi", "--max-tokens", "2", "--drafter", "ngram")
    answer = "".join(ansi("x", "rejected") + ansi(letter, "correction") for letter in "ab")
    assert answer + "\n" in shown
    assert "builtin: reading, 50%" in shown
    hidden = run_on_a_terminal("chat", "hi", "--max-tokens", "2", "--drafter", "ngram", "--no-ghosts")
    assert ansi("a", "correction") + ansi("b", "correction") + "\n" in hidden
    assert ansi("x", "rejected") not in hidden


def test_no_color_means_plain_text_on_a_terminal_too(home: Path) -> None:
    shown = run_on_a_terminal("chat", "hi", "--max-tokens", "2", "--drafter", "ngram", NO_COLOR="1")
    assert "\x1b" not in shown
    assert "ab\n" in shown


# Painting


def painted_round(
    emitted: list[tuple[str, Origin]], proposals: list[tuple[str, Status]] | None = None, text: str | None = None
) -> Round:
    return Round(
        index=0,
        position=0,
        drafter="ngram",
        rule="gumbel",
        proposals=tuple(Proposal(1, letter, b"", status) for letter, status in proposals or []),
        emitted=tuple(Emitted(1, letter, b"", origin) for letter, origin in emitted),
        expected=(),
        milliseconds=Milliseconds(1.0),
        rows=1,
        cache_length=1,
        text="".join(letter for letter, _ in emitted) if text is None else text,
    )


def test_each_kind_of_token_has_a_style_of_its_own() -> None:
    assert len(set(STYLES.values())) == len(STYLES)
    shown = RoundPainter().paint(
        painted_round([("a", "accepted"), ("c", "correction")], [("a", "accepted"), ("r", "rejected"), ("u", "unjudged")])
    )
    assert shown == ansi("a", "accepted") + ansi("r", "rejected") + ansi("u", "unjudged") + ansi("c", "correction")
    assert RoundPainter().paint(painted_round([("b", "bonus")])) == ansi("b", "bonus")
    assert RoundPainter().paint(painted_round([("p", "plain")])) == "p"


def test_a_style_never_runs_over_a_line_end() -> None:
    shown = RoundPainter().paint(painted_round([("a\nb\n", "accepted")]))
    assert shown == ansi("a", "accepted") + "\n" + ansi("b", "accepted") + "\n"


def test_line_ends_of_ghosts_are_signs() -> None:
    shown = RoundPainter().paint(painted_round([("c", "correction")], [("\n\t", "rejected")]))
    assert shown == ansi("⏎⇥", "rejected") + ansi("c", "correction")


def test_the_model_cannot_command_the_terminal() -> None:
    shown = RoundPainter().paint(painted_round([("\x1b[2J\x07\x9b\x7f", "plain")]))
    assert shown == "\u241b[2J\u2407‹9B›\u2421"


def test_held_back_text_keeps_its_colours_and_cut_text_is_not_shown() -> None:
    painter = RoundPainter()
    assert painter.paint(painted_round([("ab", "accepted")], text="a")) == ansi("a", "accepted")
    assert painter.paint(painted_round([("cd", "bonus")], text="bc")) == ansi("b", "accepted") + ansi("c", "bonus")
    assert painter.paint(painted_round([("e", "plain")], text="")) == ""


def test_a_character_left_unfinished_at_the_end_is_shown() -> None:
    assert RoundPainter().paint(painted_round([("a", "plain"), ("", "plain")], text="a\ufffd")) == "a\ufffd"


def test_colour_needs_a_capable_terminal() -> None:
    class Stream:
        def __init__(self, terminal: bool) -> None:
            self._terminal = terminal

        def isatty(self) -> bool:
            return self._terminal

    assert wants_colour(Stream(True), {"TERM": "xterm"})  # type: ignore[arg-type]
    assert wants_colour(Stream(True), {"NO_COLOR": ""})  # type: ignore[arg-type]
    assert not wants_colour(Stream(False), {})  # type: ignore[arg-type]
    assert not wants_colour(Stream(True), {"NO_COLOR": "1"})  # type: ignore[arg-type]
    assert not wants_colour(Stream(True), {"TERM": "dumb"})  # type: ignore[arg-type]


def test_figures_without_a_value_are_left_out() -> None:
    assert status_line(summarise([]), "cancelled", None, None) == "0 tokens · stopped"


# models


@pytest.fixture
def models(home: Path, backend: FakeBackend) -> Path:
    """A models folder of this test's own, with one model in it."""
    folder = home / "models"
    folder.unlink()
    (folder / "mine").mkdir(parents=True)
    (folder / "mine" / "config.json").write_text("{}")
    (folder / "notes.txt").write_text("")
    return folder


def test_models_are_listed(models: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", (models.parent / "nobody").as_posix())
    tiny_models.write_gguf(models / "small.gguf", "Q8_0", general__file_type=7)
    elsewhere = tiny_models.write_folder(models.parent / "elsewhere" / "other")
    assert main(["models", "list", "--folder", elsewhere.parent.as_posix()]) == 0
    first, titles, other, small = capsys.readouterr().out.splitlines()  # what a "!" would mean is not told where there is none
    assert first.startswith("builtin")
    assert "not downloaded yet" in first
    assert titles.split()[:3] == ["model", "size", "weights"]
    assert other.split()[0] == "other"
    assert other.endswith(elsewhere.as_posix())
    assert small.split()[:1] + small.split()[2:7] == ["small", "kB", "Q8_0", "llama", "128", "keys"]
    assert small.endswith((models / "small.gguf").as_posix())
    monkeypatch.setattr("app.cli.models.available_memory", lambda: 1000)
    assert main(["models", "list"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "! needs more memory than the 1 kB that are free"


def test_checking_a_model_says_whether_it_and_a_drafter_can_be_used(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "misfit").mkdir()
    monkeypatch.chdir(tmp_path)
    assert main(["models", "check", "other", "--drafter", "ngram"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "ngram can draft for it"
    assert main(["models", "check", "other", "--drafter", "misfit"]) == 1
    assert "token 7 differs" in capsys.readouterr().err
    assert main(["models", "check", "broken"]) == 1
    assert "broken is not a model" in capsys.readouterr().err


def test_deleting_asks_and_stays_inside_the_models_folder(
    models: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = models.parent / "precious"
    outside.mkdir()
    (models / "link").symlink_to(outside, target_is_directory=True)
    for name in ("../precious", str(outside), ".", "..", "", "link", "missing"):
        assert main(["models", "delete", name, "--yes"]) == 1, name
    assert outside.is_dir()
    assert (models / "mine").is_dir()
    capsys.readouterr()
    assert main(["models", "delete", "mine"]) == 1
    assert "without a terminal, nobody can confirm it" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", Terminal("n\ny\n"))
    assert main(["models", "delete", "mine"]) == 1
    assert (models / "mine").is_dir()
    assert main(["models", "delete", "mine"]) == 0
    assert capsys.readouterr().out.endswith(f"deleted {models / 'mine'}\n")
    assert not (models / "mine").exists()


def test_a_model_is_searched_downloaded_and_listed(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    with hub_on_the_loopback(tmp_path, monkeypatch) as served:
        served.serve("org/tiny", tiny_models.write_folder(tmp_path / "served"), config={"model_type": "llama"}, downloads=1234)
        assert main(["models", "search", "tiny"]) == 0
        assert capsys.readouterr().out.splitlines()[1].split() == ["org/tiny", "safetensors", "llama", "1,234"]
        assert main(["models", "search", "org/tiny"]) == 0
        assert capsys.readouterr().out.splitlines()[1].split()[::2][:2] == ["org/tiny", "kB"]
        assert main(["models", "search", "nothing of the kind"]) == 1
        capsys.readouterr()
        monkeypatch.setattr("engine.files.download.RETRY_DELAYS", ())
        served.breaks["model.safetensors"] = [1000]
        counted = download.Download._count
        monkeypatch.setattr(download.Download, "_count", _interrupt)
        assert main(["models", "download", "org/tiny"]) == 130
        assert "draftlight models download org/tiny resumes it" in capsys.readouterr().err
        assert main(["models", "list"]) == 0
        assert "unfinished: org/tiny, 1 kB downloaded" in capsys.readouterr().out
        assert main(["models", "download", "org/tiny", "--discard"]) == 0
        monkeypatch.setattr(download.Download, "_count", counted)
        served.breaks.clear()
        assert main(["models", "download", "org/tiny"]) == 0
        assert capsys.readouterr().out.splitlines()[-1] == str(models / "org" / "tiny")
    assert main(["models", "list"]) == 0
    assert "org/tiny" in capsys.readouterr().out
    with hub_on_the_loopback(tmp_path, monkeypatch) as served:
        served.status = 503
        assert main(["models", "search", "tiny"]) == 1
    assert "Try again later" in capsys.readouterr().err


class Terminal(io.StringIO):
    """Someone who can be asked."""

    def isatty(self) -> bool:
        return True


def _interrupt(*arguments: Any) -> None:
    raise KeyboardInterrupt


def test_an_added_folder_is_searched(models: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", (models.parent / "nobody").as_posix())
    other = tiny_models.write_folder(models.parent / "elsewhere" / "other")
    assert main(["models", "add-folder", str(models.parent / "missing")]) == 1
    for more, there in (([], True), (["--remove"], False)):
        assert main(["models", "add-folder", str(other.parent), *more]) == 0
        capsys.readouterr()
        assert main(["models", "list"]) == 0
        assert (str(other) in capsys.readouterr().out) == there


# The window


def test_without_a_command_the_window_opens(monkeypatch: pytest.MonkeyPatch, backend: FakeBackend) -> None:
    asked: list[Any] = []

    class Main:
        @staticmethod
        def run(arguments: Any) -> int:
            asked.append(arguments)
            return 0

    monkeypatch.setitem(sys.modules, "app.window.launch", Main)
    assert main(["--target", "other", "--drafter", "ngram"]) == 0
    assert (asked[0].target, asked[0].drafter) == ("other", "ngram")


def test_without_qt_the_window_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, backend: FakeBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main([]) == 1
    assert "draftlight chat" in capsys.readouterr().err


def test_asking_for_help_or_a_version_needs_neither_qt_nor_mlx(home: Path) -> None:
    code = "import sys; from app.cli.entry import make_parser; print(sorted({'mlx', 'PySide6', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize("target, sampling", [("builtin", {"temperature": 0.2, "top_p": 0.9}), ("/models/other", {})])
def test_the_defaults_are_those_of_the_engine_except_recommended_sampling(
    backend: FakeBackend, home: Path, capsys: pytest.CaptureFixture[str], target: str, sampling: dict[str, float]
) -> None:
    assert main(["chat", "hi", "--max-tokens", "1", "--target", target]) == 0
    options = trace_in(home).header["options"]
    defaults = DecodingOptions(seed=options["seed"], max_tokens=1, gamma="auto", **sampling)
    assert options == {**{name: getattr(defaults, name) for name in options}, "stop": []}
