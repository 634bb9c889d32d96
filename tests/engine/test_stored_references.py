"""Stored logits of other implementations belong to the weights that the tests write, and mlx-lm's targets agree with them."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.models.loading import load
from tests.engine import eagle_files, mtp_files, seeded_weights

NEAR = 2e-4


@pytest.mark.parametrize("name", sorted(path.stem for path in mtp_files.REFERENCES.glob("*.json")))
def test_mtp_references_belong_to_these_weights(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stored, family = mtp_files.reference(name), name.removesuffix("-4bit")
    assert stored["weights"] == mtp_files.FAMILIES[family].fingerprint()
    assert stored["rounds"][0]["text"][:-1] == list(mtp_files.PROMPT)
    monkeypatch.setattr(mtp_files, "SEED", mtp_files.SEED + 1)
    assert stored["weights"] != mtp_files.FAMILIES[family].fingerprint()


@pytest.mark.parametrize("name", eagle_files.EAGLE_HEADS)
def test_eagle_references_belong_to_these_weights(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stored, head = eagle_files.reference(name), eagle_files.EAGLE_HEADS[name]
    assert stored["weights"] == head.fingerprint()
    assert {token for current in stored["rounds"] for token in current["drafts"]} <= set(head.target_ids().tolist())
    monkeypatch.setattr(eagle_files, "SEED", eagle_files.SEED + 1)
    assert stored["weights"] != head.fingerprint()


def test_the_target_of_the_eagle_heads_agrees_with_the_one_behind_the_references(tmp_path: Path) -> None:
    target = load(str(eagle_files.write_target(tmp_path / "target"))).model
    for name in eagle_files.EAGLE_HEADS:
        for current in eagle_files.reference(name)["rounds"]:
            logits = np.array(target(mx.array([current["text"][:-1]])))[0, -1]
            assert np.abs(logits - np.array(current["target"])).max() < NEAR


def test_a_tensor_depends_on_its_name_and_the_seed_alone() -> None:
    alone = seeded_weights.weights({"b.weight": (2, 3)}, 1)
    beside = seeded_weights.weights({"a.weight": (2, 3), "b.weight": (2, 3)}, 1)
    assert np.array_equal(alone["b.weight"], beside["b.weight"])
    assert not np.array_equal(beside["a.weight"], beside["b.weight"])
    assert not np.array_equal(alone["b.weight"], seeded_weights.weights({"b.weight": (2, 3)}, 2)["b.weight"])
