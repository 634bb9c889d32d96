"""The backend of MLX: which drafters it makes for a target, and what it stores for later processes."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlx_lm.models.cache import RotatingKVCache

from engine.decode import measuring
from engine.decode.policy.costs import MachineCosts
from engine.drafters import FeatureHead
from engine.files import library
from engine.files.library import LibraryModel
from engine.models import loading
from engine.models.head_model import BUILTIN_HEAD
from engine.models.loaded import LoadedModel
from engine.models.unloaded_pair import trained_head
from engine.runtime.mlx_backend import MlxBackend
from engine.target import tree_pass
from engine.target.tree_pass import TreeCheck
from engine.values.drafter_kinds import DRAFTERS, NO_DRAFTER, drafter_kind, may_fit
from engine.values.errors import DraftlightError
from tests.engine.drafters.test_feature_head import random_head
from tests.engine.mtp_files import write_drafter, write_promise, write_published
from tests.engine.small_models import VOCAB, tiny_llama, tiny_sliding_window
from tests.engine.tiny_models import weights, write_gguf


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


def test_auto_has_the_members_that_fit(builtin: LoadedModel, tmp_path: Path) -> None:
    backend = MlxBackend()
    loaded = backend.drafter("auto", builtin, quiet)
    assert list(loaded.drafter.members) == ["ngram", "head", "builtin-draft"] and loaded.has_distribution
    again = loaded.renewed().members
    assert not any(member is again[name] for name, member in loaded.drafter.members.items())
    other = backend.load(str(write_gguf(tmp_path / "other.gguf")), quiet)
    alone = backend.drafter("auto", other, quiet)
    assert list(alone.drafter.members) == ["ngram"] and not alone.has_distribution


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A head's speeds are taken for known."""
    monkeypatch.setattr(measuring, "measure_depths", lambda *_: (1.0, 1.0, 1.0, 1.0))


def test_auto_has_the_head_in_the_targets_own_files(unmeasured: None, tmp_path: Path) -> None:
    backend = MlxBackend()
    own = backend.load(str(write_published(tmp_path / "own", "qwen3_5")), quiet)
    assert list(backend.drafter("auto", own, quiet).drafter.members) == ["ngram", "mtp"]
    converted = backend.load(str(write_promise(tmp_path / "converted", "qwen3_5")), quiet)
    assert list(backend.drafter("auto", converted, quiet).drafter.members) == ["ngram"]


def test_auto_has_a_head_that_the_catalogue_pairs_with_the_target(
    unmeasured: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = MlxBackend()
    target = backend.load(str(write_promise(tmp_path / "Qwen3.6-27B-4bit", "qwen3_5")), quiet)
    head = str(write_drafter(tmp_path / "Qwen3.6-27B-MTP-4bit", "qwen3_5"))
    other = str(write_drafter(tmp_path / "Qwen3.5-4B-MTP-4bit", "qwen3_5"))
    here = [
        LibraryModel(Path(path).name, path, "here", 1, only_drafts=path != target.path) for path in (target.path, other, head)
    ]
    monkeypatch.setattr(library, "find", lambda *_: here)
    assert list(backend.drafter("auto", target, quiet).drafter.members) == ["ngram", head]


def test_a_heads_speeds_are_measured_once_and_told(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "DEPTH_TOKENS", 6)
    folder = str(write_published(tmp_path / "own", "qwen3_5"))

    def loaded() -> tuple[str, MachineCosts]:
        backend = MlxBackend()
        target = backend.load(folder, quiet)
        return backend.drafter("mtp", target, quiet).warning, backend.costs_of(target)

    told, costs = loaded()
    speeds = costs.depths["mtp"]
    assert len(speeds) == 4 and all(speed > 0 for speed in speeds)
    assert all(f"{speed:.1f}" in told for speed in speeds)
    again, costs = loaded()
    assert costs.depths["mtp"] == speeds and f"{speeds[0]:.1f}" not in again
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
    costs = backend.costs_of(other)
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

    def started() -> tuple[MlxBackend, LoadedModel]:
        """Returns a new backend with this drafter, and its target."""
        backend = MlxBackend()
        other = backend.load(str(target), quiet)
        backend.drafter(str(path), other, quiet)
        return backend, other

    backend, other = started()
    costs = backend.costs_of(other)
    costs.rows[1], costs.steps[str(path)], costs.alphas[f"{path} at 0.8"] = 10.0, (5.0, 5.0), 0.7
    list(backend.measure(other, None))  # which saves all that is known
    backend, other = started()
    assert backend.costs_of(other) == costs
    write_gguf(path, made=weights(seed=1))
    backend, other = started()
    found = backend.costs_of(other)
    assert (found.rows, found.steps, found.alphas) == (costs.rows, {}, {})


@pytest.mark.parametrize("name", ["ngram", "head", "builtin-draft", "/models/some"])
def test_a_target_that_cannot_take_tokens_back_is_refused_before_anything_is_loaded(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sliding = tiny_sliding_window(1)
    sliding.make_cache = lambda: [RotatingKVCache(max_size=16, keep=4)]
    target: Any = SimpleNamespace(model=sliding, name="sliding")
    monkeypatch.setattr(loading, "load", lambda *_, **__: pytest.fail("a drafter was loaded"))
    backend = MlxBackend()
    with pytest.raises(DraftlightError, match="sliding window"):
        backend.drafter(name, target, quiet)
    alone = backend.drafter("auto", target, quiet)
    assert alone.drafter is None and "sliding window" in alone.warning
    assert backend.drafter(NO_DRAFTER, target, quiet).drafter is None


def test_whether_a_target_reads_trees_is_checked_in_one_process_only(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[Any] = []
    monkeypatch.setattr(tree_pass, "check_trees", lambda model, make_cache: checked.append(model) or TreeCheck("it does not"))

    def begin(sha256: str) -> None:
        target = SimpleNamespace(model=tiny_llama(1, layers=4), vocabulary=[b""] * VOCAB, sha256=sha256, name="one")
        measuring = MlxBackend().measure(target, FeatureHead(random_head(), target.model))  # type: ignore[arg-type]
        next(measuring)
        measuring.close()

    begin("a")
    begin("a")
    assert len(checked) == 1
    begin("b")
    assert len(checked) == 2, "another model"
