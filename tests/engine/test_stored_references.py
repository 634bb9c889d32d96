"""Stored logits of other implementations belong to the weights that the tests write, and mlx-lm's targets agree with them."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.models.loading import load
from tests.engine import mtp_files, seeded_weights

NEAR = 2e-4


@pytest.mark.parametrize("family", mtp_files.FAMILIES)
def test_mtp_references_belong_to_these_weights(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = mtp_files.reference(family)
    assert stored["weights"] == mtp_files.FAMILIES[family].fingerprint()
    assert stored["rounds"][0]["text"][:-1] == list(mtp_files.PROMPT)
    monkeypatch.setattr(mtp_files, "SEED", mtp_files.SEED + 1)
    assert stored["weights"] != mtp_files.FAMILIES[family].fingerprint()


@pytest.mark.parametrize("family", mtp_files.FAMILIES)
def test_an_mtp_target_agrees_with_the_one_behind_the_reference(family: str, tmp_path: Path) -> None:
    target = load(str(mtp_files.write_promise(tmp_path / family, family))).model
    for current in mtp_files.reference(family)["rounds"]:
        logits = np.array(target(mx.array([current["text"][:-1]])))[0, -1]
        assert np.abs(logits - np.array(current["target"])).max() < NEAR


def test_a_tensor_depends_on_its_name_and_the_seed_alone() -> None:
    alone = seeded_weights.weights({"b.weight": (2, 3)}, 1)
    beside = seeded_weights.weights({"a.weight": (2, 3), "b.weight": (2, 3)}, 1)
    assert np.array_equal(alone["b.weight"], beside["b.weight"])
    assert not np.array_equal(beside["a.weight"], beside["b.weight"])
    assert not np.array_equal(alone["b.weight"], seeded_weights.weights({"b.weight": (2, 3)}, 2)["b.weight"])
