"""The table of drafters is correct, and nothing else repeats what it states."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.values.drafter_kinds import BY_PATH, DRAFTERS, NO_DRAFTER, benched, default_drafter, may_fit, single_drafter

REPOSITORY = Path(__file__).parents[3]


def test_defaults_fit_their_target() -> None:
    assert default_drafter() == "auto" and may_fit(default_drafter(), "/models/other")
    assert (single_drafter("builtin"), single_drafter("/models/other")) == ("head", "ngram")
    assert (benched("builtin"), benched("/models/other")) == (("auto", "ngram", "head"), ("ngram",))


def test_every_kind_is_described() -> None:
    for kind in (*DRAFTERS.values(), *BY_PATH.values()):
        assert kind.title and kind.does.endswith(".") and len(kind.does) > 15
        assert bool(kind.build or kind.members) == (kind.name != NO_DRAFTER) and not (kind.build and kind.members)


UNMISTAKABLE = set(DRAFTERS) - {"none", "head", "auto", "mtp"}
"""Names that always mean a drafter, wherever they occur. "mtp" is also a type of speculators' drafters."""


def names_written(source: str) -> Iterator[tuple[int, str]]:
    """Yields line and name of each drafter named in code: an unmistakable string, or any name next to something called
    drafter."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and node.value in UNMISTAKABLE:
            yield node.lineno, node.value
        if isinstance(node, ast.arguments):
            pairs: list[tuple[Any, Any]] = [*zip(node.args[::-1], node.defaults[::-1], strict=False)]
            pairs += zip(node.kwonlyargs, node.kw_defaults, strict=True)
            near = [(entry.arg, default) for entry, default in pairs]
        elif isinstance(node, ast.Compare):
            near = [(node, part) for part in ast.walk(node)]
        elif isinstance(node, ast.keyword):
            near = [(node.arg, node.value)]
        elif isinstance(node, ast.AnnAssign | ast.Assign) and node.value is not None:
            near = [(node, part) for part in ast.walk(node.value)]
        else:
            near = []
        for what, part in near:
            # The neighbouring source is unparsed only for a name, which takes a thousandth of the time.
            # "auto" is excluded: it may also be a gamma, which often occurs next to a drafter.
            if isinstance(part, ast.Constant) and part.value in DRAFTERS.keys() - {"auto"} and "drafter" in _beside(what).lower():
                yield part.lineno, part.value


def _beside(what: Any) -> str:
    """Returns the source that a value is compared with, assigned to or passed as."""
    if not isinstance(what, ast.AST):
        return str(what)
    return ast.unparse(what) if isinstance(what, ast.Compare) else ast.unparse(what).partition("=")[0]


def test_no_other_file_names_a_drafter() -> None:
    found = []
    for folder in ("app", "engine"):
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            may_name = any(f'"{name}"' in source for name in DRAFTERS)  # parsing takes a hundred times as long
            if may_name and path.name != "drafter_kinds.py" and path.parent.name != "drafters":
                found += [f"{path.name}:{line}: {name!r}" for line, name in names_written(source)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "planted",
    [
        'LOOKED_UP = ("ngram", "other")',
        'drafter = "head"',
        'class Column:\n    drafter: str = "none"',
        'plain = column.drafter == "none"',
        'plain = list(drafters) != ["none"]',
        'ask(drafter="none")',
        'def load(target, drafter="none"): ...',
        'def load(target, *, drafter="none"): ...',
        'words = {"builtin-draft": "the small draft model"}',
    ],
)
def test_a_planted_name_is_found(planted: str) -> None:
    assert list(names_written(planted))
