"""The probe at load: a drafter that is read otherwise than it was made is reported, with what would be right.

A drafter of random weights has made nothing to be measured by, so the text is made for it: each token is the one that the
drafter, rightly read, holds likeliest there. Any other reading predicts that text no better than chance.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.nn as nn
import pytest

from engine.drafters import BlockDrafter, FeatureHead
from engine.drafters.alignment import compatibility_warning, doubts_on
from engine.drafters.block import build
from engine.models.block_model import BlockModel, load_block
from engine.models.head_model import HeadModel
from engine.models.loaded import LoadedModel
from tests.engine.block_files import DEEPSPEC, OWN, PACKAGED, Packaged, random_block, written
from tests.engine.drafters.test_feature_head import CONFIG, random_head
from tests.engine.drafting import drafted_after, ids_of, start
from tests.engine.small_models import PROMPT, VOCAB, tiny_llama

LENGTH = 40


@pytest.fixture(scope="module")
def target() -> nn.Module:
    return tiny_llama(1, layers=4)


def text_of(drafter: BlockDrafter | FeatureHead, target: nn.Module) -> list[int]:
    """What the drafter would write if its first proposals all stood."""
    text = list(PROMPT)
    while len(text) < LENGTH:
        start(drafter, text, target=target, read=len(text) - 1)
        limit = drafter.model.config.block_size if isinstance(drafter, BlockDrafter) else 1
        text.append(ids_of(drafted_after(drafter, text, limit, temperature=0))[0])
    return text


@pytest.fixture(scope="module")
def block(target: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> tuple[BlockModel, list[int]]:
    folder = tmp_path_factory.mktemp("block")
    written(folder, Packaged({**DEEPSPEC, "block_size": 16}, OWN))  # many slots: the mask tells
    made = load_block(folder)
    return made, text_of(BlockDrafter(made, target, copies=False), target)


SLOT, MASK = "its first slot predicts", "its slots see"
MISTAKES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, []),
    ({"taps": (1, 3)}, ["it reads layers 0, 2 instead of 1, 3"]),
    ({"taps": (-1, 1)}, ["it reads layers 0, 2 instead of -1, 1"]),
    ({"anchor_predicts": False}, [f"{SLOT} the token after the anchor"]),
    ({"causal": (True, True)}, [f"{MASK} all others"]),
    (
        {"taps": (1, 3), "anchor_predicts": False, "causal": (True, True)},
        ["it reads layers 0, 2 instead of 1, 3", f"{SLOT} the token after the anchor", f"{MASK} all others"],
    ),
]


@pytest.mark.parametrize(("mistake", "said"), MISTAKES)
def test_each_mistake_is_reported_with_what_would_be_right(
    target: nn.Module, block: tuple[BlockModel, list[int]], mistake: dict[str, Any], said: list[str]
) -> None:
    model, text = block
    right, model.config = model.config, replace(model.config, **mistake)
    try:
        told = doubts_on(model, target, text, len(PROMPT))
        assert model.config == replace(right, **mistake), "the probe leaves the drafter as it is"
    finally:
        model.config = right
    if said:
        assert f"clearly better if {' and '.join(said)} (by " in told
    else:
        assert told == ""


def test_a_slot_that_is_taken_to_predict_is_reported(target: nn.Module) -> None:
    """The other way round: made as z-lab makes it, taken for DeepSpec's."""
    model = random_block()
    model.config = replace(model.config, anchor_predicts=False)
    text = text_of(BlockDrafter(model, target, copies=False), target)
    assert doubts_on(model, target, text, len(PROMPT)) == ""
    model.config = replace(model.config, anchor_predicts=True)
    assert f"{SLOT} nothing (by" in doubts_on(model, target, text, len(PROMPT))


def test_a_head_that_is_said_to_read_other_layers_is_reported(target: nn.Module) -> None:
    head: HeadModel = random_head()
    text = text_of(FeatureHead(head, target, copies=False), target)
    assert doubts_on(head, target, text, len(PROMPT)) == ""
    head.config = replace(CONFIG, taps=(1, 3))
    assert "if it reads layers 0, 2 instead of 1, 3 (by" in doubts_on(head, target, text, len(PROMPT))


def test_a_block_behind_a_head_can_read_other_layers_only(target: nn.Module) -> None:
    model = random_block(paired=True)
    model.config = replace(model.config, block_size=1)
    model.mask_features, model.mask_embeddings = (array[:0] for array in (model.mask_features, model.mask_embeddings))
    text = text_of(BlockDrafter(model, target, copies=False), target)
    assert doubts_on(model, target, text, len(PROMPT)) == ""
    model.config = replace(model.config, taps=(1, 3))
    assert "if it reads layers 0, 2 instead of 1, 3 (by" in doubts_on(model, target, text, len(PROMPT))


def test_a_drafter_that_predicts_nothing_any_way_gives_no_reason_for_doubt(target: nn.Module) -> None:
    vocabulary = (b"a",) * VOCAB
    loaded = LoadedModel(target, None, frozenset(), vocabulary, 512, "a model", "", weight_files=())  # type: ignore[arg-type]
    model = random_block()
    model.bind(target)
    model.lm_head.weight *= 0.01
    assert compatibility_warning(model, loaded) == ""
    model.config = replace(model.config, target_sha256="0" * 64)
    assert compatibility_warning(model, loaded) == "", "made for one target, by whom it was trained"


def test_the_probe_is_made_when_a_drafter_is_loaded(target: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, PACKAGED["dflash, nested"])
    vocabulary = (b"a",) * VOCAB
    loaded = LoadedModel(target, None, frozenset(), vocabulary, 512, "a model", "", weight_files=())  # type: ignore[arg-type]
    right = build(str(tmp_path), loaded, lambda: None)
    text = text_of(BlockDrafter(right.drafter.model, target, copies=False), target)
    monkeypatch.setattr("engine.drafters.alignment.written_by", lambda loaded: (text, len(PROMPT)))
    assert build(str(tmp_path), loaded, lambda: None).warning == ""
    config = json.loads((tmp_path / "config.json").read_text())
    config["dflash_config"]["target_layer_ids"] = [1, 3]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert "reads layers 0, 2 instead of 1, 3" in build(str(tmp_path), loaded, lambda: None).warning
