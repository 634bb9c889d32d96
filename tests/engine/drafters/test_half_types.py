"""On a GPU a drafter computes in the type of its target, so that no large matrix and no feature is cast in a pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten
from safetensors.numpy import load_file, save_file

from engine.drafters import alignment, block, feature_head
from engine.models import block_model, head_model
from engine.models.block_model import load_block
from engine.models.head_model import save_head
from engine.models.loaded import LoadedModel
from tests.engine.block_files import PACKAGED, written
from tests.engine.drafters.test_feature_head import CONFIG, random_head
from tests.engine.small_models import VOCAB, tiny_llama

HALVES = [mx.float16, mx.bfloat16]


@pytest.fixture(autouse=True)
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (alignment, block_model, head_model):
        monkeypatch.setattr(module, "computes_on_host", lambda: False)
    for module in (block, feature_head):
        monkeypatch.setattr(module, "compatibility_warning", lambda model, target: "")  # other settings, tried on many tokens


def target_in(dtype: mx.Dtype, quantised: bool = False) -> LoadedModel:
    """A tiny target whose layers compute in a half type."""
    model = tiny_llama(0, layers=4)
    model.set_dtype(dtype)
    if quantised:
        nn.quantize(model, group_size=64, bits=8)
    vocabulary = (b"a",) * VOCAB
    return LoadedModel(model, None, frozenset(), vocabulary, 512, "tiny", "", weight_files=())  # type: ignore[arg-type]


KINDS = ("head", "dflash, nested", "dflash 2", "deepspec", "speculators", "draftlight, paired")


def write(kind: str, folder: Path) -> None:
    if kind == "head":
        save_head(random_head(CONFIG), folder, "")
    else:
        written(folder, PACKAGED[kind])


def built(kind: str, folder: Path, target: LoadedModel) -> Any:
    """The trained part of the drafter that is built for the target from a file."""
    if kind == "head":
        return feature_head.build(str(folder), target, lambda: None).drafter.model
    return block.build(str(folder), target, lambda: None).drafter.model


def types_of(model: Any) -> set[mx.Dtype]:
    return {array.dtype for _, array in tree_flatten(model.parameters())}


@pytest.mark.parametrize(
    ("kind", "half", "quantised"),
    [
        *((kind, half, False) for kind in KINDS for half in HALVES),
        *((kind, mx.float16, True) for kind in ("head", "dflash, nested")),
    ],
    ids=str,
)
def test_a_drafter_computes_in_the_type_of_its_target(kind: str, half: mx.Dtype, quantised: bool, tmp_path: Path) -> None:
    """Products of two types would be made in float32, of which the logits tell."""
    write(kind, tmp_path)
    target = target_in(half, quantised)
    model = built(kind, tmp_path, target)
    assert types_of(model) == {half}
    features = mx.zeros((3, CONFIG.hidden_size * len(model.config.taps)), half)
    assert model.fuse(features).dtype == half
    assert model.logits(mx.zeros((2, CONFIG.hidden_size), half)).dtype == half


def spoilt(folder: Path, name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    file = folder / "model.safetensors"
    arrays = load_file(file)
    save_file({**arrays, name: change(arrays[name].astype(np.float32))}, file)


def one_too_large(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flat[3] = 1e5
    return array


@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [
        ("dflash, nested", "norm.weight", one_too_large),
        ("dflash, nested", "layers.0.mlp.down_proj.weight", lambda array: array * 6e4),
        ("dflash, nested", "fc.weight", lambda array: array * 6e4),
        ("draftlight, paired", "fc.weight", lambda array: array * 6e4),
        ("head", "gate_up", lambda array: array * 2e3),
    ],
    ids=["a weight", "an activation", "fused features", "features of a paired block", "a head"],
)
def test_what_leaves_the_range_of_float16_stays_in_bfloat16(
    kind: str, name: str, change: Callable[[np.ndarray], np.ndarray], tmp_path: Path
) -> None:
    """And nothing of the target is widened for it."""
    write(kind, tmp_path)
    spoilt(tmp_path, name, change)
    model = built(kind, tmp_path, target_in(mx.float16))
    assert types_of(model) == {mx.bfloat16}
    assert model.logits(mx.zeros((2, CONFIG.hidden_size), mx.bfloat16)).dtype in HALVES


def test_two_types_are_multiplied_in_a_wider_one() -> None:
    """What the tests above look for is what MLX does."""
    rows = target_in(mx.float16).model.lm_head
    quantised = target_in(mx.float16, quantised=True).model.lm_head
    for each in (rows, quantised):
        assert each(mx.zeros((2, CONFIG.hidden_size), mx.bfloat16)).dtype == mx.float32


def test_a_quantised_drafter_stays_as_it_is_stored(tmp_path: Path) -> None:
    written(tmp_path, PACKAGED["dflash, 4-bit"])
    target = target_in(mx.float16)
    assert types_of(built("dflash, 4-bit", tmp_path, target)) == types_of(load_block(tmp_path))
