"""The notes of a release are the changelog's section; the tag is the version; the workflow runs scripts that are there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.packaging import REPOSITORY, script

release_notes = script("release_notes.py")
WORKFLOWS = sorted((REPOSITORY / ".github" / "workflows").glob("*.yml"))
KINDS = ("Added", "Changed", "Fixed", "Removed")
CHANGELOG = """# Changes

## Unreleased
{unreleased}
## 0.2.0, 2026-12-01

### Added

- A window.

## 0.1.0

- A loop.
"""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG.format(unreleased=""))
    monkeypatch.setattr(release_notes, "REPOSITORY", tmp_path)
    return tmp_path


def notes(tag: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.argv", ["release_notes.py", tag])
    return int(release_notes.main())


def test_the_notes_are_the_section_of_the_version(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert notes("v0.2.0", monkeypatch) == 0
    assert capsys.readouterr().out == "### Added\n\n- A window.\n"


@pytest.mark.parametrize(
    "tag, unreleased, reason", [("v0.3.0", "", "is not the version"), ("v0.2.0", "\n- Something.\n", "Put them under 0.2.0")]
)
def test_unreleasable_versions_are_refused(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tag: str, unreleased: str, reason: str
) -> None:
    (repository / "CHANGELOG.md").write_text(CHANGELOG.format(unreleased=unreleased))
    assert notes(tag, monkeypatch) == 1
    assert reason in capsys.readouterr().err


def test_a_version_without_a_section_is_refused(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "pyproject.toml").write_text('[project]\nversion = "0.2"\n')
    assert notes("v0.2", monkeypatch) == 1
    assert "no section for 0.2" in capsys.readouterr().err


def test_the_notes_of_this_version_are_all_that_stands_under_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tag of now could be pushed: the newest section is that of the version in pyproject.toml."""
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    sections = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1:]
    heading, newest = sections[0].split("\n", 1)
    assert heading.partition(",")[0] == version and heading not in newest
    assert notes(f"v{version}", monkeypatch) == 0
    assert capsys.readouterr().out.strip() == newest.strip()
    assert {line for line in newest.splitlines() if line.startswith("### ")} <= {f"### {kind}" for kind in KINDS}


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_scripts_in_workflows_exist(workflow: Path) -> None:
    named = re.findall(r"(packaging/[\w./]+\.(?:sh|py))", workflow.read_text(encoding="utf-8"))
    assert [name for name in named if not (REPOSITORY / name).is_file()] == []


def test_there_is_one_version() -> None:
    """Everything else takes it from pyproject.toml: the wheel, and from its name the packages."""
    version = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert tomllib.loads((REPOSITORY / "packaging/macos/pyproject.toml").read_text())["tool"]["briefcase"]["version"] == "0"
    others = [path for path in (REPOSITORY / "packaging").rglob("*") if path.suffix in (".sh", ".toml", ".desktop", ".py")]
    assert [
        path.name
        for path in others
        if re.search(rf"(?<![\d.]){re.escape(version)}(?!\d)", path.read_text()) and path.name != "release_notes.py"
    ] == []
