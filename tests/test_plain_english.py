"""The check of docstrings and subjects: what it finds and what it leaves alone."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from tests.plain_english import docstrings, faults_of, faults_of_subject, in_code, in_history

PLANTED = '''
"""Who proposes in a round."""

LIMIT = 3
"""As many as fit."""


class Chooser:
    """Chooses."""

    @property
    def is_paused(self):
        """Whether it rests."""

    def may_start(self):
        """Whether it may start."""
'''


def test_docstrings_are_found_with_their_lines() -> None:
    found = [(line, bool(list(faults_of(text, is_function)))) for line, text, is_function in docstrings(ast.parse(PLANTED))]
    assert sorted(found) == [(2, True), (5, True), (9, False), (13, False), (16, True)]


@pytest.mark.parametrize(
    "text",
    [
        "What a round costs.",
        "Whose turn it is.",
        "As above, for all members.",
        "Returns so many tokens.",
        "Calls whoever waits.",
        "The mean of what was accepted of late.",
        "Stops when it is told to.",
    ],
)
def test_a_turn_of_phrase_that_readers_stumbled_over_is_found(text: str) -> None:
    assert list(faults_of(text, False))


@pytest.mark.parametrize(
    "text",
    [
        "Returns the number of tokens that still fit.",
        "As in `Drafter`; draft models start later.",
        "Returns what the user typed.",
        "The reason, so much that a message needs.",
    ],
)
def test_plain_text_passes(text: str) -> None:
    assert not list(faults_of(text, True))


@pytest.mark.parametrize(
    ("subject", "is_plain"),
    [
        ("rounds: start analysis later", True),
        ("app/look: name throttling, focus and menus by their usual terms", True),
        ('Revert "rounds: start analysis later"', True),
        ("start analysis later", False),
        ("rounds: the analysis starts later", False),
        ("rounds: start analysis for whoever waits", False),
        ("rounds: " + "x" * 65, False),
    ],
)
def test_subjects_name_the_part_and_the_change(subject: str, is_plain: bool) -> None:
    assert (not list(faults_of_subject(subject))) == is_plain


def test_a_fault_names_its_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "faulty.py").write_text('"""A module."""\n\n\ndef first():\n    """What is first."""\n')
    assert [fault.split(": ")[0] for fault in in_code(tmp_path)] == ["app/faulty.py:5"]


def test_history_counts_from_the_commit_that_added_the_check(tmp_path: Path) -> None:
    def commit(subject: str, name: str) -> None:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(subject)
        for arguments in (["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", subject]):
            subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)

    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    commit("the old way of writing", "old")
    commit("lint: check subjects", "tests/plain_english.py")
    assert list(in_history(tmp_path)) == []
    commit("whoever reads this", "new")
    assert {fault.rsplit(": ", 1)[1] for fault in in_history(tmp_path)} == {"whoever reads this"}
