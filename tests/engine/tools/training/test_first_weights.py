"""Training starts from a published head: it computes the same, or is refused with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.models.head_model import load_head, save_head
from engine.models.loaded import LoadedModel
from engine.tools.training.first_weights import earlier_head
from engine.values.errors import DraftlightError
from tests.engine import mtp_files
from tests.engine.eagle_files import reference, write_head, write_target
from tests.engine.head_rounds import TOLERANCE, differences, loaded


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return loaded(write_target(tmp_path_factory.mktemp("eagle") / "target"))


def test_a_head_that_starts_from_an_eagle3_head_has_its_logits(target: LoadedModel, tmp_path: Path) -> None:
    head = earlier_head(write_head(tmp_path / "authors", "authors"), target, None)
    head.bind(target.model)
    assert max(differences(head, target, reference("authors")["rounds"])) < TOLERANCE
    save_head(head, tmp_path / "ours", "card")
    assert load_head(tmp_path / "ours").target_ids.tolist() == head.target_ids.tolist()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("authors-narrow", "another hidden size than the target"),
        ("speculators", "a residual stream or a chain after the norm, an embedding of its own"),
        ("speculators-qwen3", "norms before fc, norms of queries and keys"),
        ("speculators-fc-norms", "norms before fc"),
    ],
)
def test_an_eagle3_head_with_other_parts_is_refused_with_the_reason(
    name: str, reason: str, target: LoadedModel, tmp_path: Path
) -> None:
    with pytest.raises(DraftlightError, match=rf"Training cannot start from .*{reason}.*Omit --start"):
        earlier_head(write_head(tmp_path / name, name), target, None)


def test_an_mtp_head_is_refused_with_the_reason(target: LoadedModel, tmp_path: Path) -> None:
    with pytest.raises(DraftlightError, match="an MTP head reads state and token fused"):
        earlier_head(mtp_files.write_drafter(tmp_path / "mtp", "qwen3_5"), target, None)
