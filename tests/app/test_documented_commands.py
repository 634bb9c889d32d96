"""Every command in README, CONTRIBUTING and the documentation is run, with tiny models; one of a kind not known here fails.

What takes minutes, root, another machine or a Mac is not carried out: its options go through its own parser, and what it names
has to be there.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from PySide6.QtCore import QTimer

import app.window.launch
from app.cli import entry
from app.window.window import Window
from engine.values.drafter_kinds import DRAFTERS, MTP
from tests.app.fakes import FakeEngine
from tests.engine import eagle_files, mtp_files
from tests.engine.chats.test_exchange import LM_STUDIO
from tests.engine.hub_server import hub_on_the_loopback
from tests.engine.tools.training.test_writing import undecided
from tests.packaging import script

REPOSITORY = Path(__file__).parents[2]
PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "assets" / "docs").glob("*.md"))]
TRACE = REPOSITORY / "tests" / "references" / "rejudge" / "gumbel-draft-model.jsonl"
PROMPTS = REPOSITORY / "tests" / "prompts.jsonl"
NO_COMMANDS = ("json", "text", "python", "{toctree}")
"""Kinds of blocks with something else in them."""
TOOLS = ("draftlight", "make", "python", "bash", "uv", "pipx", "pip", "apt-get")


def commands(page: str) -> Iterator[str]:
    """Each line of a page's code blocks, without the explanation beside it, and what is a command of those in backquotes."""
    for token in MarkdownIt().parse(page):
        if token.type == "code_block" or (token.type == "fence" and token.info not in NO_COMMANDS):
            for line in token.content.splitlines():
                if line.strip() and not line.startswith(" "):
                    yield re.split(r"\s{2,}", line)[0]
        for part in token.children or ():
            words = part.content.split() if part.type == "code_inline" else ()
            if len(words) > 1 and next((word for word in words if not _sets_a_variable(word)), "") in TOOLS:
                yield part.content


def _sets_a_variable(word: str) -> bool:
    return re.match(r"[A-Z_]+=", word) is not None


COMMANDS = sorted({command for page in PAGES for command in commands(page.read_text(encoding="utf-8"))})


class Unknown(AssertionError):
    """Nobody has said how such a command is run."""


class Understood(BaseException):
    """The arguments were parsed; what they ask for is left out. No program catches it."""


class Place:
    """A folder in which commands are run, with what they name in capitals.

    Attributes:
        parse_tests: pytest's own parser; returns what it does not know.
    """

    def __init__(
        self, folder: Path, target: Path, monkeypatch: pytest.MonkeyPatch, parse_tests: Callable[[list[str]], list[str]]
    ) -> None:
        self.folder, self.target, self.monkeypatch, self.parse_tests = folder, target, monkeypatch, parse_tests
        monkeypatch.chdir(folder)
        monkeypatch.setenv("DRAFTLIGHT_HOME", str(folder / "home"))
        monkeypatch.setenv("HOME", str(folder))
        monkeypatch.setattr(entry, "log_to_file", lambda: None)  # it would stay open
        monkeypatch.setattr("sys.stdin", _Agreeing())

    def run(self, command: str) -> None:
        """Runs a command of the documents. Raises AssertionError or SystemExit if it fails, Unknown if it is of no known kind."""
        words = shlex.split(command)
        while words and _sets_a_variable(words[0]):
            name, _, value = words.pop(0).partition("=")
            self.monkeypatch.setenv(name, str(self.folder / value))
        match words:
            case ["draftlight", *rest]:
                self.draftlight(rest)
            case ["make", *rest]:
                self.make(rest)
            case ["uv", "pip", *_, package] | ["pipx", "runpip", *_, package] | ["python", "-m", "pip", *_, package]:
                _is_back_end(package)  # exchanging that of this environment would take gigabytes
            case ["python", "-m", module, *rest]:
                self.module(module, rest)
            case ["python", path, *rest]:
                self._parses(script(path.removeprefix("packaging/")).main, rest)
            case ["python3", "open_parcel.py", *rest]:
                assert script("open_parcel.py").main(rest) == 2, "there is no parcel here"
            case ["bash", path]:
                subprocess.run(["bash", "-n", path], cwd=REPOSITORY, check=True)
            case ["pip", "install", requirement]:
                _installable(requirement)
            case ["uv" | "pipx" | "apt-get" as tool, *rest, _]:
                # `make bare-machine` runs these, in a bare root.
                assert f"{tool} {' '.join(rest)}" in (REPOSITORY / "packaging" / "bare_machine.sh").read_text(encoding="utf-8")
            case _:
                raise Unknown(command)

    def draftlight(self, words: list[str]) -> None:
        """The program, in this process."""
        if "--help" in words:
            with pytest.raises(SystemExit) as ended:
                entry.main(words)
            assert ended.value.code == 0
            return
        command = next((word for word in words if not word.startswith("-")), "")
        words = [self._named(word, command) for word in words]
        if "echo" in words:  # of the page on extensions, which adds it first
            self.monkeypatch.setitem(DRAFTERS, "echo", DRAFTERS["ngram"])
        match command:
            case "chat" | "train-drafter":
                self._with_models(words)
            case "prove" | "bench" | "self-test":
                took: list[Any] = []
                function = command.replace("-", "_")
                self.monkeypatch.setattr(f"app.cli.{function}.{function}", lambda *given, **more: took.append(given) or 0)
                self._succeeds(words)
                assert took
            case "" | "replay":
                self._window(words)
            case "models":
                with hub_on_the_loopback(self.folder, self.monkeypatch) as hub:
                    hub.serve("owner/qwen3-4b", self.target, config={"model_type": "llama"}, downloads=7)
                    if words[1:2] == ["delete"]:
                        self._succeeds(["models", "download", words[2]])
                    self._succeeds(words)
            case "chats":
                self._succeeds(["chats", "import", self._named("FILE", "chats")])
                self._succeeds([*words, "lighthouse"] if words[1] == "search" else words)
            case "cluster":
                self._succeeds(words) if words[1] == "status" else self._understands(words)
            case "export" | "rejudge":
                words += [str(TRACE)] * (len(words) == 1)
                assert "--format" not in words or "--output" in words, "it fills the terminal instead of writing a file"
                self._succeeds(words)
            case _:
                raise Unknown(command)

    def _named(self, word: str, command: str) -> str:
        """What stands for a word in capitals."""
        if word == "FILE" and command == "chats":
            path = self.folder / "chats.json"
            path.write_text(json.dumps(LM_STUDIO), encoding="utf-8")
            return str(path)
        if word.endswith("BLOCK-DRAFTER"):
            return "my-block"
        named = {"TRACE": TRACE, "ID": 1, "RULE": "rejection", "OWNER/MODEL": "owner/qwen3-4b", "FOLDER": self.target}
        named["FILE"] = PROMPTS if command == "bench" else self.target
        return str(named.get(word, word))

    def _with_models(self, words: list[str]) -> None:
        """A chat or a training with a tiny target, of a few tokens or steps."""
        target = [] if "--target" in words else ["--target", str(self.target)]
        short = ["--max-tokens", "3"]
        training = ["--steps", "1", "--vocabulary", "64", "--text", str(_text(self.folder))]
        if words[0] == "train-drafter":
            return self._succeeds([*words[: words.index("--output") + 1], "my-head", *target, *training])
        for drafter, kind in (("my-head", "head"), ("my-block", "block")):
            if drafter in words:
                self._succeeds(["train-drafter", "--kind", kind, "--output", drafter, "--target", str(self.target), *training])
        if MTP in words:
            words[words.index("--target") + 1] = str(mtp_files.write_published(self.folder / "with head", "qwen3_5"))
        if "FOLDER-OF-THE-HEAD" in words:
            words[words.index("--target") + 1] = str(eagle_files.write_target(self.folder / "of head"))
            words[words.index("FOLDER-OF-THE-HEAD")] = str(eagle_files.write_head(self.folder / "head", "authors"))
        if "--continue" in words:
            self._succeeds(["chat", "And why is it red?", "--target", str(self.target), *short])
        if "echo" in words:  # the page's own test has it answer
            return self._understands(words)
        self._succeeds([*words, *([] if any("?" in word or "time" in word for word in words) else ["hello"]), *target, *short])

    def _window(self, words: list[str]) -> None:
        """Opens the window on a scripted engine, and closes it once it is painted."""
        seen: list[bool] = []

        def __init__(window: Window, *given: Any, **named: Any) -> None:
            construct(window, *given, **named)
            window.first_painted.connect(lambda: seen.append(window.isVisible()))
            window.first_painted.connect(lambda: QTimer.singleShot(0, window, window.close))

        construct = Window.__init__

        self.monkeypatch.setattr(app.window.launch, "Engine", lambda **_: FakeEngine())
        self.monkeypatch.setattr(Window, "__init__", __init__)
        self._succeeds(words)
        assert seen == [True]

    def _succeeds(self, words: list[str]) -> None:
        assert entry.main(words) == 0, shlex.join(["draftlight", *words])

    def _understands(self, words: list[str]) -> None:
        """The program's own parser takes the words."""
        entry.make_parser().parse_args(words)

    def make(self, words: list[str]) -> None:
        """Target and variables, as make itself understands them; ARGS and PYTEST_ARGS as what gets them does."""
        subprocess.run(["make", "-n", *words], cwd=REPOSITORY, check=True, capture_output=True)
        given = dict(word.split("=", 1) for word in words if _sets_a_variable(word))
        (target, *_) = [word for word in words if not _sets_a_variable(word)]
        assert self.parse_tests(shlex.split(given.get("PYTEST_ARGS", ""))) == []
        arguments = shlex.split(given.get("ARGS", ""))
        if not arguments:
            return
        if target == "bare-machine":
            assert arguments[0] in script("build_docs.py").CHANNELS
        elif target in ("docs", "parcel"):
            self._parses(script({"docs": "build_docs.py"}.get(target, f"{target}.py")).main, arguments)
        else:
            where = {"fuzz": "tests.fuzz.__main__", "gpu-check": "tests.gpu_check.__main__", "soak": "tests.benchmarks.soak"}
            self.module(where.get(target, f"tests.benchmarks.{target.removeprefix('bench-').replace('-', '_')}"), arguments)

    def module(self, name: str, arguments: list[str]) -> None:
        """`python -m NAME`: pytest's files have to be there, others parse their arguments."""
        if name == "pytest":
            assert self.parse_tests(arguments) == []
            paths = [word for word in arguments if word.startswith("tests/")]
            assert paths and all((REPOSITORY / path).exists() for path in paths)
        else:
            self._parses(importlib.import_module(name).main, arguments)

    def _parses(self, main: Callable[[], Any], arguments: list[str]) -> None:
        parse = argparse.ArgumentParser.parse_args

        def only_parse(parser: argparse.ArgumentParser, given: Any = None, namespace: Any = None) -> Any:
            parse(parser, given, namespace)
            raise Understood

        with self.monkeypatch.context() as patched:
            patched.setattr("sys.argv", ["program", *arguments])
            patched.setattr(argparse.ArgumentParser, "parse_args", only_parse)
            with pytest.raises(Understood):
                main()


class _Agreeing(io.StringIO):
    """Someone at a terminal who says yes."""

    def __init__(self) -> None:
        super().__init__("y\n")

    def isatty(self) -> bool:
        return True


def _installable(requirement: str) -> None:
    """It is locked, or an extra of this project."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if found := re.fullmatch(r"draftlight\[(\w+)\]", requirement):
        assert found[1] in project["optional-dependencies"]
    else:
        assert f"\n{requirement} " in (REPOSITORY / "packaging" / "runtime.lock").read_text(encoding="utf-8")


def _is_back_end(package: str) -> None:
    """It is one of MLX, as a package or as an extra of it, and locked."""
    name = re.sub(r"mlx\[cuda(\d+)\]", r"mlx-cuda-\1", package)
    locks = [REPOSITORY / "packaging" / f"{lock}.lock" for lock in ("runtime", "cuda12", "cuda13")]
    assert any(f"\n{name}==" in f"\n{lock.read_text(encoding='utf-8')}" for lock in locks)


def _text(folder: Path) -> Path:
    """Something to train on."""
    made = folder / "text"
    made.mkdir()
    for number in range(24):
        (made / f"{number}.txt").write_text(f"{number} " + "hello world, " * 9)
    return made


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return undecided(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def place(tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config, qapp: Any) -> Place:
    def parse_tests(words: list[str]) -> list[str]:
        unknown: list[str] = pytestconfig._parser.parse_known_and_unknown_args(words)[1]
        return unknown

    return Place(tmp_path, target, monkeypatch, parse_tests)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_documents_does_what_it_says(place: Place, command: str, capfd: Any) -> None:
    place.run(command)


def test_commands_are_found_and_those_that_fail_are_noticed(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    page = "Say `draftlight frobnicate now` or `x y`.\n\n    sing loud      with words\n      more\n\n"
    page += "```json\n{}\n```\n```\nls x\n```\n"
    assert list(commands(page)) == ["draftlight frobnicate now", "sing loud", "ls x"]
    assert len(COMMANDS) > 60
    for wrong in ("sing loud", "draftlight models", "draftlight chat hello --louder", "make no-such-target"):
        with pytest.raises((Unknown, SystemExit, subprocess.CalledProcessError)):
            place.run(wrong)
    for wrong in (
        "make bench-kernel ARGS=--louder",
        "make test PYTEST_ARGS=--louder",
        "pip install nothing",
        "pipx upload x",
        "python -m pip install x",
    ):
        with pytest.raises((AssertionError, SystemExit)):
            place.run(wrong)
