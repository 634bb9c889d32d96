"""The table of drafters is correct, and nothing else repeats what it states."""

from __future__ import annotations

import ast
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.decode.policy.costs import MachineCosts
from engine.files import library
from engine.files.library import LibraryModel
from engine.models import loading
from engine.models.head_model import BUILTIN_HEAD
from engine.models.loaded import LoadedModel
from engine.models.unloaded_pair import trained_head
from engine.runtime.mlx_backend import MlxBackend
from engine.values.drafter_kinds import (
    BY_PATH,
    DRAFTERS,
    NO_DRAFTER,
    benched,
    default_drafter,
    drafter_kind,
    may_fit,
    single_drafter,
)
from engine.values.errors import DraftlightError
from tests.engine.mtp_files import write_drafter, write_promise, write_published
from tests.engine.tiny_models import weights, write_gguf

REPOSITORY = Path(__file__).parents[3]


def quiet(step: str, fraction: float | None) -> None:
    """Ignores progress."""


@pytest.mark.parametrize(
    "name",
    [name for name in DRAFTERS if name != NO_DRAFTER and may_fit(name, "builtin")]
    + [str(BUILTIN_HEAD), str(loading.BUILTIN_DRAFT)],
)
def test_the_table_says_what_the_drafter_is(name: str, builtin: LoadedModel) -> None:
    """The window uses the table before the engine has loaded the drafter; the loaded drafter must agree."""
    loaded = MlxBackend().drafter(name, builtin, quiet)
    kind = drafter_kind(name)
    assert (loaded.name, loaded.drafter.name) == (name, name)
    assert kind.has_distribution == loaded.has_distribution
    assert kind.sets_own_length == loaded.drafter.capabilities.sets_own_length
    assert (loaded.model is not None) == (kind.build == "engine.drafters.draft_model:build" and name != str(BUILTIN_HEAD))
    assert loaded.renewed() is not loaded.drafter and type(loaded.renewed()) is type(loaded.drafter)


def test_without_a_drafter_there_is_none() -> None:
    loaded = MlxBackend().drafter(NO_DRAFTER, None, quiet)
    assert (loaded.drafter, loaded.has_distribution) == (None, False)


def test_a_drafter_for_the_built_in_target_fits_no_other(tmp_path: Path) -> None:
    """Every drafter that `may_fit` rules out is refused when loaded, and no other is, apart from heads inside a model."""
    backend = MlxBackend()
    other = backend.load(str(write_gguf(tmp_path / "other.gguf")), quiet)
    for name, kind in DRAFTERS.items():
        assert may_fit(name, "builtin") == (kind.fits != "inside")
        if may_fit(name, other.path) and kind.fits != "inside":
            assert backend.drafter(name, other, quiet).name == name
        else:
            with pytest.raises(DraftlightError):
                backend.drafter(name, other, quiet)


def test_auto_has_the_members_that_fit(tmp_path: Path) -> None:
    backend = MlxBackend()
    builtin = backend.load("builtin", quiet)
    loaded = backend.drafter("auto", builtin, quiet)
    assert list(loaded.drafter.members) == ["ngram", "head", "builtin-draft"] and loaded.has_distribution
    again = loaded.renewed().members
    assert not any(member is again[name] for name, member in loaded.drafter.members.items())
    other = backend.load(str(write_gguf(tmp_path / "other.gguf")), quiet)
    alone = backend.drafter("auto", other, quiet)
    assert list(alone.drafter.members) == ["ngram"] and not alone.has_distribution


def test_auto_has_the_head_in_the_targets_own_files(tmp_path: Path) -> None:
    backend = MlxBackend()
    own = backend.load(str(write_published(tmp_path / "own", "qwen3_5")), quiet)
    assert list(backend.drafter("auto", own, quiet).drafter.members) == ["ngram", "mtp"]
    converted = backend.load(str(write_promise(tmp_path / "converted", "qwen3_5")), quiet)
    assert list(backend.drafter("auto", converted, quiet).drafter.members) == ["ngram"]


def test_auto_has_a_head_that_the_catalogue_pairs_with_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = MlxBackend()
    target = backend.load(str(write_promise(tmp_path / "Qwen3.6-27B-4bit", "qwen3_5")), quiet)
    head = str(write_drafter(tmp_path / "Qwen3.6-27B-MTP-4bit", "qwen3_5"))
    other = str(write_drafter(tmp_path / "Qwen3.5-4B-MTP-4bit", "qwen3_5"))
    here = [
        LibraryModel(Path(path).name, path, "here", 1, only_drafts=path != target.path) for path in (target.path, other, head)
    ]
    monkeypatch.setattr(library, "find", lambda *_: here)
    assert list(backend.drafter("auto", target, quiet).drafter.members) == ["ngram", head]


def test_a_heads_speeds_are_measured_once_and_told(home: Path, tmp_path: Path) -> None:
    folder = str(write_published(tmp_path / "own", "qwen3_5"))

    def loaded() -> tuple[MlxBackend, str, MachineCosts]:
        backend = MlxBackend()
        target = backend.load(folder, quiet)
        warning = backend.drafter("mtp", target, quiet).warning
        return backend, warning, backend._costs_of(target)

    _, told, costs = loaded()
    speeds = costs.depths["mtp"]
    assert len(speeds) == 4 and all(speed > 0 for speed in speeds)
    assert f"{speeds[0]:.1f} (no proposals in a round), {speeds[1]:.1f} (at most 1), " in told
    _, told, costs = loaded()
    assert "per second" not in told.lower() and costs.depths["mtp"] == speeds
    costs.invalidate_if_changed("mtp", "another file")
    assert not costs.depths


def test_auto_does_without_a_head_that_cannot_be_used_and_says_why(tmp_path: Path) -> None:
    """Chosen by name, the same head is refused."""
    backend = MlxBackend()
    damaged = write_published(tmp_path / "damaged", "qwen3_5", changes={"mtp.fc.weight": None})
    target = backend.load(str(damaged), quiet)
    loaded = backend.drafter("auto", target, quiet)
    assert list(loaded.drafter.members) == ["ngram"]
    assert "auto does without a head" in loaded.warning and "fc.weight" in loaded.warning
    with pytest.raises(DraftlightError, match=r"fc\.weight"):
        backend.drafter("mtp", target, quiet)


def test_auto_has_the_newest_head_that_was_trained_for_a_target_of_ones_own(
    builtin: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def folder(name: str, age: int, stated: str) -> LibraryModel:
        copy = tmp_path / name
        shutil.copytree(BUILTIN_HEAD, copy)
        config = json.loads((copy / "config.json").read_text())
        (copy / "config.json").write_text(json.dumps({**config, "target_sha256": stated}))
        os.utime(copy / "config.json", (age, age))
        return LibraryModel(name, str(copy), "here", 1, only_drafts=True)

    found = [folder("old", 1, builtin.sha256), folder("new", 5, builtin.sha256), folder("another's", 9, "0" * 64)]
    (tmp_path / "damaged").mkdir()
    found.append(LibraryModel("damaged", str(tmp_path / "damaged"), "here", 1, only_drafts=True))
    monkeypatch.setattr(library, "find", lambda: found)
    monkeypatch.setattr("engine.files.builtin.builtin_path", lambda: tmp_path)
    assert trained_head(builtin.sha256) == tmp_path / "new" and trained_head("1" * 64) is None
    assert list(MlxBackend().drafter("auto", builtin, quiet).drafter.members) == ["ngram", "head"]


def test_auto_has_the_draft_model_that_made_a_target_of_ones_own_fastest(tmp_path: Path) -> None:
    backend = MlxBackend()
    other = backend.load(str(write_gguf(tmp_path / "other.gguf")), quiet)
    slow, fast, gone = (str(tmp_path / name) for name in ("slow.gguf", "fast.gguf", "gone.gguf"))
    write_gguf(Path(slow))
    write_gguf(Path(fast))
    costs = backend._costs_of(other)
    costs.rows = {rows: 100.0 + rows for rows in range(1, 17)}

    def members(alphas: dict[str, float]) -> list[str]:
        costs.steps = dict.fromkeys((slow, fast, gone, "head", *alphas), (5.0, 5.0))
        costs.alphas = {f"{name} at 0.8": alpha for name, alpha in alphas.items()}
        return list(backend.drafter("auto", other, quiet).drafter.members)

    assert members({}) == ["ngram"], "none has served it yet"
    assert members({slow: 0.5, fast: 0.7, gone: 0.9, "head": 0.9}) == ["ngram", fast]
    assert members({slow: 0.01, fast: 0.02}) == ["ngram"], "none makes it faster"
    assert members({slow: 0.5, "slow.gguf": 0.8, "~nobody/at/home": 0.9, "x" * 5000: 0.9, other.path: 0.9}) == ["ngram", slow]
    alone = backend.drafter(slow, other, quiet)
    assert alone.model is backend.drafter(slow, other, quiet).model, "loaded once"
    Path(fast).write_bytes(b"damaged")
    assert members({slow: 0.5, fast: 0.7}) == ["ngram"]


def test_a_draft_model_in_the_place_of_another_does_not_inherit_its_costs(home: Path, tmp_path: Path) -> None:
    target, path = write_gguf(tmp_path / "target.gguf"), write_gguf(tmp_path / "draft.gguf")

    def started() -> tuple[MlxBackend, MachineCosts]:
        """Returns a new backend with this drafter, and the costs known for the target."""
        backend = MlxBackend()
        other = backend.load(str(target), quiet)
        backend.drafter(str(path), other, quiet)
        return backend, backend._costs_of(other)

    backend, costs = started()
    costs.rows[1], costs.steps[str(path)], costs.alphas[f"{path} at 0.8"] = 10.0, (5.0, 5.0), 0.7
    backend._stored_costs.save()
    assert started()[1] == costs
    write_gguf(path, made=weights(seed=1))
    found = started()[1]
    assert (found.rows, found.steps, found.alphas) == (costs.rows, {}, {})


def test_defaults_fit_their_target() -> None:
    assert default_drafter() == "auto" and may_fit(default_drafter(), "/models/other")
    assert (single_drafter("builtin"), single_drafter("/models/other")) == ("head", "ngram")
    assert (benched("builtin"), benched("/models/other")) == (("auto", "ngram", "head"), ("ngram",))


def test_every_kind_is_described() -> None:
    for kind in (*DRAFTERS.values(), *BY_PATH.values()):
        assert kind.title and kind.does.endswith(".") and len(kind.does) > 15
        assert bool(kind.build or kind.members) == (kind.name != NO_DRAFTER) and not (kind.build and kind.members)


@pytest.mark.parametrize("name", ["ngram", "ngram-mod", "head", "builtin-draft", "/models/some"])
def test_a_target_that_cannot_take_tokens_back_is_refused_before_anything_is_loaded(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "cache_reason", lambda model: "cannot roll back rejected proposals: it is recurrent.")
    monkeypatch.setattr(loading, "load", lambda *_, **__: pytest.fail("loaded a drafter in vain"))
    target = SimpleNamespace(name="Mamba", model=None)
    with pytest.raises(DraftlightError, match="No drafter can be used with Mamba: it cannot roll back"):
        MlxBackend().drafter(name, target, quiet)
    alone = MlxBackend().drafter("auto", target, quiet)
    assert alone.drafter is None and "Mamba: it cannot roll back" in alone.warning


# Each fact in one place

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
            if path.name != "drafter_kinds.py" and path.parent.name != "drafters":
                found += [f"{path.name}:{line}: {name!r}" for line, name in names_written(path.read_text(encoding="utf-8"))]
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
