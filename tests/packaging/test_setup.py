"""Set-up chooses an interpreter that can work, and says where to get one; its scripts run under the bash of a Mac."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.packaging import REPOSITORY

SCRIPTS = sorted([*REPOSITORY.glob("packaging/**/*.sh"), REPOSITORY / ".ci" / "run"])
TOOLS = ("bash", "cat", "dirname", "touch", "mkdir", "chmod")
INTERPRETER = """#!/bin/bash
version=({version})
log() {{ echo "$(basename "$0") $*" >>"$LOG"; }}
case "$*" in
    "-c import sys; sys.exit(not "*) [ "${{version[1]}}" -ge 11 ] && [ "${{version[1]}}" -lt 15 ] ;;
    --version) echo "Python ${{version[0]}}.${{version[1]}}.0" ;;
    *venv*) log "$@"; mkdir -p .venv/bin; cat "$0" >.venv/bin/python; chmod +x .venv/bin/python ;;
    *) log "$@" ;;
esac
"""


class Machine:
    """A checkout's set-up script on a machine that has the given interpreters, and uv or not."""

    def __init__(self, folder: Path) -> None:
        self.root, self.tools, self.log = folder / "checkout", folder / "tools", folder / "log"
        (self.root / "packaging").mkdir(parents=True)
        self.tools.mkdir()
        for name in ("setup.sh", "uv.sh"):
            shutil.copy(REPOSITORY / "packaging" / name, self.root / "packaging" / name)
        self.script(self.root / "packaging" / "system_packages.sh", "#!/bin/bash\n")
        for name in TOOLS:
            (self.tools / name).symlink_to(shutil.which(name) or "")
        (self.tools / "basename").symlink_to(shutil.which("basename") or "")
        self.script(self.tools / "uname", '#!/bin/bash\n[ "$1" = -s ] && echo Darwin || echo arm64\n')

    def script(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def interpreter(self, name: str, version: str) -> None:
        place = self.root / name if "/" in name else self.tools / name
        self.script(place, INTERPRETER.format(version=version.replace(".", " ")))

    def uv(self) -> None:
        self.script(self.tools / "uv", INTERPRETER.format(version="3 13"))

    def setup(self, **environment: str) -> tuple[int, str, list[str]]:
        """Returns the exit status, what was printed, and the calls that did something."""
        done = subprocess.run(
            [shutil.which("bash") or "bash", "packaging/setup.sh"],
            cwd=self.root,
            env={"PATH": str(self.tools), "LOG": str(self.log), **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr, self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_first_interpreter_that_fits_is_taken(machine: Machine) -> None:
    machine.interpreter("python3", "3.15")
    machine.interpreter("python3.14", "3.14")
    machine.interpreter("python3.12", "3.12")
    status, printed, calls = machine.setup()
    assert (status, printed) == (0, "")
    assert calls[0] == "python3.14 -m venv --clear .venv"


def test_an_environment_that_fits_stays_and_another_is_made_anew(machine: Machine) -> None:
    machine.interpreter("python3.12", "3.12")
    machine.interpreter(".venv/bin/python", "3.13")
    assert "venv" not in machine.setup()[2][0]
    machine.log.unlink()
    machine.interpreter(".venv/bin/python", "3.15")
    assert machine.setup()[2][0] == "python3.12 -m venv --clear .venv"


def test_uv_brings_an_interpreter_where_the_system_has_only_an_old_one(machine: Machine) -> None:
    machine.interpreter("python3", "3.9")
    machine.uv()
    status, _, calls = machine.setup()
    assert status == 0
    assert calls[0] == "uv venv --quiet --clear --seed --python >=3.11,<3.15 .venv"
    assert calls[1].startswith("python -m pip install"), "the rest goes on as with any interpreter"


@pytest.mark.parametrize("version", ["3.9", "3.15", ""])
def test_without_an_interpreter_it_is_said_where_to_get_one(machine: Machine, version: str) -> None:
    if version:
        machine.interpreter("python3", version)  # which brings no uv either: its environment has no pip
    status, printed, _ = machine.setup()
    assert status == 1
    assert "needs Python 3.11 to 3.14. Found: " + (f"Python {version}.0" if version else "no Python") in printed.replace(
        "\n", " "
    )
    assert "https://www.python.org/downloads/" in printed
    assert "make setup PYTHON=" in printed


def test_a_named_interpreter_that_does_not_fit_is_refused(machine: Machine) -> None:
    machine.interpreter("python3.12", "3.12")
    machine.interpreter("other", "3.15")
    machine.uv()
    status, printed, _ = machine.setup(PYTHON="other")
    assert status == 1
    assert "Found: Python 3.15.0" in printed


def test_set_up_and_package_accept_the_same_versions() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11,<3.15"
    setup = (REPOSITORY / "packaging" / "setup.sh").read_text()
    assert "(3, 11) <= sys.version_info < (3, 15)" in setup
    assert setup.count(">=3.11,<3.15") == 1
    named = [each.rpartition(" ")[2] for each in project["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert named == ["3.11", "3.12", "3.13", "3.14"]


NEWER_THAN_A_MACS_BASH = {
    "associative arrays": r"\b(?:declare|local|typeset)\s+-\w*[An]",
    "mapfile": r"\b(?:mapfile|readarray)\b",
    "changing case": r"\$\{\w+(?:\[[^]]*\])?(?:,,?|\^\^?)",
    "transformations": r"\$\{[\w@*]+@[A-Za-z]\}",
    "both streams": r"&>>|\|&",
    "coprocesses": r"^\s*coproc\b",
    "negative substrings": r"\$\{\w+:[^}]*:\s*-",
    "the time": r"printf\s+['\"]%\(|\$\{?EPOCH",
    "any job": r"\bwait\s+-[np]",
    "steps and zeros in ranges": r"\{\d+\.\.\d+\.\.|\{0\d+\.\.",
    "falling through": r";;?&",
    "a set variable": r"\[\[?[^]]*\s-v\s",
    "globs in depth": r"\bglobstar\b|\binherit_errexit\b|\blastpipe\b",
    "descriptors by name": r"\{\w+\}[<>]",
    "expansion of an array that may be empty": r"(?<![+:-])\"\$\{(?!@)\w+\[[@*]\]\}\"",
}
"""What macOS's /bin/bash, version 3.2, does not know, and an expansion that ends it under `set -u` where later ones go on."""
ONLY_ON_LINUX = {"bare_machine.sh", "build_deb.sh", "system_packages.sh"}


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_run_under_the_bash_of_a_mac(path: Path) -> None:
    text = path.read_text()
    assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    if path.name not in ONLY_ON_LINUX:
        assert not {name for name, pattern in NEWER_THAN_A_MACS_BASH.items() if re.search(pattern, code, re.MULTILINE)}


def test_check_finds_constructs_of_newer_bash() -> None:
    examples = [
        "declare -A a",
        "mapfile -t x",
        'echo "${a,,}"',
        "x &>> log",
        "${x@Q}",
        "wait -n",
        "{01..10}",
        'f "${a[@]}"',
        "[[ -v x ]]",
    ]
    assert all(any(re.search(pattern, each, re.MULTILINE) for pattern in NEWER_THAN_A_MACS_BASH.values()) for each in examples)


def test_macos_only_scripts_take_no_options_of_gnu() -> None:
    gnu = re.compile(r"\b(?:sed -i [^'\"]|realpath -m|readlink -f|date -d|stat -c|cp --|find [^|]*-printf|xargs -r|grep -P)")
    for path in SCRIPTS:
        if path.name not in ONLY_ON_LINUX:
            assert not gnu.search(path.read_text()), path.name


def test_every_script_is_covered() -> None:
    assert {"setup.sh", "uv.sh", "build_app.sh", "fill_packages.sh", "run"} <= {path.name for path in SCRIPTS}
