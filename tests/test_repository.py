"""Claims about the repository itself: what its documents say is there, and nothing names the machine it was written on."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import engine
from app.cli.entry import COMMANDS as COMMAND_MODULES

REPOSITORY = Path(__file__).parents[1]
DOCUMENTS = [*sorted(REPOSITORY.glob("*.md")), *sorted((REPOSITORY / "assets" / "docs").glob("*.md"))]
WORKFLOWS = [REPOSITORY / ".ci" / "run", *sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))]
MAKEFILE = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
COMMANDS = {
    command
    for document in DOCUMENTS
    for command in re.findall(r"^ {4}draftlight ([a-z][a-z-]*)(?= |$)", document.read_text(encoding="utf-8"), re.MULTILINE)
}

# Written in two halves, so that this file does not find itself.
MACHINE = re.compile(
    "|".join(
        first + second
        for first, second in (
            ("/home", r"/\w"),
            ("/Users", r"/\w"),
            ("/root", r"/\w"),
            (r"(?<![\w.])/work", r"/\w"),
            ("/opt/", "(?:wheels|pypi|homebrew)"),
            (r"pypi", r"\.org"),
            ("python", r"hosted\.org"),
            ("npm", r"js\.(?:org|com)"),
            ("deb", r"\.debian\.org"),
            ("crates", r"\.io"),
        )
    )
)


def tracked_files() -> list[Path]:
    if shutil.which("git") is None or not (REPOSITORY / ".git").exists():
        pytest.skip("not a checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=True).stdout
    paths = [REPOSITORY / name for name in listed.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


def test_no_tracked_file_names_a_machine_or_a_registry() -> None:
    found = []
    for path in tracked_files():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue  # weights, tables, pictures
        found += [f"{path.name}:{number}: {line.strip()[:120]}" for number, line in enumerate(lines, 1) if MACHINE.search(line)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text", ["see /home" + "/ada/model", "from https://files.python" + "hosted.org/packages", "/opt/" + "wheels"]
)
def test_the_search_for_machine_names_finds_them(text: str) -> None:
    assert MACHINE.search(text)


def test_nothing_generated_is_tracked() -> None:
    generated = re.compile(r"(^|/)(__pycache__|build|dist|\.venv)/|\.(pyc|gguf|whl|log)$")
    names = [path.relative_to(REPOSITORY).as_posix() for path in tracked_files()]
    assert [name for name in names if generated.search(name)] == []


def test_the_readme_stays_short() -> None:
    """What is longer is in assets/docs."""
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_no_large_file_is_tracked() -> None:
    """A clone stays small: only the built-in drafter's weights may take megabytes."""
    large = {path.relative_to(REPOSITORY).as_posix(): path.stat().st_size for path in tracked_files()}
    assert [name for name, size in large.items() if size > 2_000_000 and not name.startswith("assets/drafters/")] == []


def test_changelog_and_package_agree_on_the_version() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"## {project['version']}" in (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("document", [*DOCUMENTS, *WORKFLOWS], ids=lambda path: path.name)
def test_make_targets_in_documents_exist(document: Path) -> None:
    """Those in backquotes, at the start of an indented line, or run by a workflow."""
    targets = set(re.findall(r"^([a-z][\w-]*):", MAKEFILE, re.MULTILINE))
    benchmarks = {f"bench-{path.stem.replace('_', '-')}" for path in (REPOSITORY / "tests" / "benchmarks").glob("*.py")}
    text = document.read_text(encoding="utf-8")
    used = set(re.findall(r"(?:`|^ {4}|^|run: )(?:\w+=\S+ )*make ([a-z][\w-]*)", text, re.MULTILINE))
    assert used <= targets | benchmarks


def _help_of(parser: argparse.ArgumentParser) -> str:
    """Its help, and that of the actions below it."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return parser.format_help() + "".join(_help_of(inner) for action in below for inner in action.choices.values())


def test_commands_in_documents_exist() -> None:
    """What each does with --help is in `tests/app/cli/test_entry.py`."""
    assert {"chat", "bench", "self-test"} <= COMMANDS <= set(COMMAND_MODULES)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_options_in_documents_exist(document: Path) -> None:
    """Each option of a `draftlight` command, in a line of its own or in backquotes, is one that its help lists."""
    text = document.read_text(encoding="utf-8")
    lines = re.findall(r"^ {4}(?:\w+=\S+ )?draftlight ([a-z][a-z-]*) (.*)", text, re.MULTILINE)
    lines += re.findall(r"`draftlight ([a-z][a-z-]*) ([^`]*)`", text)
    for command, words in lines:
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", words))
        if named and command in COMMAND_MODULES:
            parser = argparse.ArgumentParser()
            COMMAND_MODULES[command].add_options(parser)
            known = set(re.findall(r"--[a-z][a-z-]*", _help_of(parser)))
            assert named <= known, f"{document.name}: draftlight {command} {words}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_files_named_in_documents_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    linked = [target for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) if "://" not in target]
    linked = [os.path.relpath(document.parent / target, REPOSITORY) for target in linked]
    named = re.findall(r"`((?:app|engine|shaders|assets|packaging|tests)/[\w./-]*\w/?)`", text)
    missing = [name for name in [*linked, *named] if not (REPOSITORY / name).exists()]
    assert missing == []


def test_every_folder_is_in_the_architecture_page() -> None:
    text = (REPOSITORY / "ARCHITECTURE.md").read_text(encoding="utf-8")
    packages = {
        path.relative_to(REPOSITORY).as_posix()
        for root in ("app", "engine")
        for path in REPOSITORY.glob(f"{root}/**/__init__.py")
    }
    folders = {str(Path(package).parent) + "/" for package in packages}
    assert [folder for folder in sorted(folders) if f"`{folder}`" not in text] == []


@pytest.mark.parametrize("compilers, asked_for", [((), "clang"), (("g++",), "clang"), (("clang++-18",), "")])
def test_the_tests_ask_for_no_more_than_the_compiler_they_lack(
    compilers: tuple[str, ...], asked_for: str, tmp_path: Path
) -> None:
    """On a Debian that has everything else, for a user who may not install: one command is named, and nothing fails."""
    tools = {
        "uname": 'case "$1" in -s) echo Linux ;; *) echo x86_64 ;; esac',
        "dpkg-query": "echo installed",
        "find": "echo some.ttf",
        "python3": "exit 0",
        "id": "echo 1000",
        "sudo": "exit 1",
        "grep": f'exec {shutil.which("grep")} "$@"',
    } | dict.fromkeys(compilers, "exit 0")
    for name, content in tools.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{content}\n")
        (tmp_path / name).chmod(0o755)
    command = [str(shutil.which("bash")), str(REPOSITORY / "packaging" / "system_packages.sh"), "--tests"]
    done = subprocess.run(command, env={"PATH": str(tmp_path), "HOME": str(tmp_path)}, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert done.stderr.splitlines()[1:] == ([f"    sudo apt-get install {asked_for}"] if asked_for else [])


def test_the_lock_names_hashes_and_no_address() -> None:
    for name in ("runtime.lock", "development.lock"):
        text = (REPOSITORY / "packaging" / name).read_text(encoding="utf-8")
        requirements = re.findall(r"^[a-z][\w.-]*==\S+ ;.*?(?=^\S|\Z)", text, re.MULTILINE | re.DOTALL)
        assert len(requirements) > 30
        assert all("--hash=sha256:" in requirement for requirement in requirements)
        assert "://" not in text
        assert not re.search(r"^(torch|pyside6-essentials==6\.11\.[01])\b", text, re.MULTILINE)


def test_the_locks_agree() -> None:
    """What users get is what the tests ran with."""
    versions = [
        dict(re.findall(r"^([a-z][\w.-]*)==(\S+)", (REPOSITORY / "packaging" / name).read_text(encoding="utf-8"), re.MULTILINE))
        for name in ("runtime.lock", "development.lock")
    ]
    assert versions[0].items() <= versions[1].items()


def test_this_checkout_is_what_the_tests_import() -> None:
    assert Path(engine.__file__).is_relative_to(REPOSITORY)
