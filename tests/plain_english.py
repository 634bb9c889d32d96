"""Checks docstrings and commit subjects for turns of phrase that readers stumbled over; `make lint` runs it.

    python -m tests.plain_english

Prints `file:line: reason` for each docstring and `commit: reason` for each subject, and fails if there is any. Subjects are
checked from the commit on that added this file; history is not rewritten.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parents[1]
FOLDERS = ("app", "engine", "packaging")
MAX_SUBJECT = 72
"""Letters of a commit subject: more are cut off by `git log --oneline` in a terminal and by most web pages."""


class Pattern(NamedTuple):
    """A turn of phrase, and what to write instead."""

    expression: re.Pattern[str]
    reason: str


DOCSTRING_STARTS = (
    Pattern(re.compile(r"(What|Who|Whom|Whose|Whoever|Whatever|How|Where)\b"), "begin with what it is (a noun) or does (a verb)"),
    Pattern(re.compile(r"As (?!in `)"), "name the thing first; only an override may begin with “As in `Base`”"),
)
FUNCTION_STARTS = (Pattern(re.compile(r"Whether\b"), "begin with “Returns whether”: a function does something"),)
"""These hold for functions only: a property or an attribute may be a condition."""
PHRASES = (
    Pattern(re.compile(r"\bso (many|much)\b(?! that\b| of)", re.IGNORECASE), "say which number, or leave it out"),
    Pattern(re.compile(r"\bwho(so)?ever\b", re.IGNORECASE), "name the caller, the user or the process"),
    Pattern(re.compile(r"\bof late\b|\blately\b", re.IGNORECASE), "name the window: the last 32 rounds, a decaying mean"),
    Pattern(re.compile(r"\b(is|are|was|were|gets) told\b", re.IGNORECASE), "name the call or the signal"),
    Pattern(re.compile(r"\bis owed\b|\bowes\b", re.IGNORECASE), "say what is pending"),
)
SUBJECT_STARTS = (
    Pattern(re.compile(r"(?!(Revert|Merge) )(?![\w./, -]+: \S)"), "begin with the part: “rounds: start analysis later”"),
    Pattern(re.compile(r"[^:]+: (what|who|whoever|the|a|an)\b", re.IGNORECASE), "begin the change with a verb in the imperative"),
)

Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _is_property(node: Definition) -> bool:
    return any("property" in ast.unparse(each) for each in getattr(node, "decorator_list", ()))


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Yields line, text and whether it documents a function that is no property; attributes' docstrings too."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_property(node)
        for place, statement in enumerate(node.body):
            if (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
            ):
                yield statement.lineno, statement.value.value, is_function and place == 0


def faults_of(text: str, is_function: bool) -> Iterator[str]:
    """Yields what is wrong with a docstring, with the words that show it."""
    starts = DOCSTRING_STARTS + (FUNCTION_STARTS if is_function else ())
    found = [(pattern.expression.match(text.strip()), pattern.reason) for pattern in starts]
    found += [(pattern.expression.search(text), pattern.reason) for pattern in PHRASES]
    for match, reason in found:
        if match is not None:
            yield f"“{match[0].strip()}”: {reason}"


def faults_of_subject(subject: str) -> Iterator[str]:
    """Yields what is wrong with the subject of a commit."""
    if len(subject) > MAX_SUBJECT:
        yield f"{len(subject)} letters, at most {MAX_SUBJECT}"
    found = [(pattern.expression.match(subject), pattern.reason) for pattern in SUBJECT_STARTS]
    found += [(pattern.expression.search(subject), pattern.reason) for pattern in PHRASES]
    yield from (reason for match, reason in found if match is not None)


def in_code(root: Path = REPOSITORY) -> Iterator[str]:
    """Yields `file:line: reason` for each fault in the docstrings of the product."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            for line, text, is_function in docstrings(ast.parse(path.read_text(encoding="utf-8"))):
                yield from (f"{path.relative_to(root)}:{line}: {fault}" for fault in faults_of(text, is_function))


def _git(root: Path, *arguments: str) -> list[str]:
    result = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
    return result.stdout.splitlines() if result.returncode == 0 else []


def in_history(root: Path = REPOSITORY) -> Iterator[str]:
    """Yields `commit: reason` for each fault in a subject since this file was added. An unpacked archive has no history."""
    added = _git(root, "log", "--diff-filter=A", "--format=%H", "--", "tests/plain_english.py")
    for line in _git(root, "log", "--no-merges", "--format=%h %s", f"{added[-1]}..HEAD") if added else []:
        commit, _, subject = line.partition(" ")
        yield from (f"{commit}: {fault}: {subject}" for fault in faults_of_subject(subject))


def main() -> int:
    """Prints every fault; returns 1 if there is one."""
    faults = [*in_code(), *in_history()]
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
