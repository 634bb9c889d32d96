"""The backend of MLX stores results that later processes need."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.drafters import FeatureHead
from engine.runtime.mlx_backend import MlxBackend
from engine.target import tree_pass
from engine.target.tree_pass import TreeCheck
from tests.engine.drafters.test_feature_head import random_head
from tests.engine.small_models import VOCAB, tiny_llama


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
