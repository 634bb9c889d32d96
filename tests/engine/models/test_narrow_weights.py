"""Weights in 8-bit floating point: mlx-lm computes with their bytes where nothing expands them, so they are refused."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from engine.files import library
from engine.models.block_model import load_block
from engine.models.loading import load
from engine.values.errors import DraftlightError
from tests.engine import families, tiny_models
from tests.engine.block_files import NEW, Packaged, written

NAMED = r"model\.layers\.0\.mlp\.down_proj\.weight_scale_inv"


def write_narrow(path: Path, arrays: Mapping[str, np.ndarray], scale: str = "") -> None:
    """Matrices as F8_E4M3, which the `safetensors` package does not write from numpy, and everything else as float32.

    Args:
        scale: what the names of scales add to those of their weights; none are written without it.
    """
    stored: dict[str, tuple[str, tuple[int, ...], bytes]] = {}
    for name, array in arrays.items():
        if array.ndim == 1:
            stored[name] = ("F32", array.shape, array.astype(np.float32).tobytes())
            continue
        stored[name] = ("F8_E4M3", array.shape, np.array(mx.to_fp8(mx.array(array))).tobytes())
        if scale:
            stored[name + scale] = ("F32", (1, 1), np.ones(1, np.float32).tobytes())
    header, place = {}, 0
    for name, (dtype, shape, content) in stored.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [place, place + len(content)]}
        place += len(content)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(content for _, _, content in stored.values()))


def test_weights_without_scales_are_refused_and_the_scales_named(tmp_path: Path) -> None:
    folder = tiny_models.write_folder(tmp_path / "narrow")
    narrow = {name: array for name, array in tiny_models.weights().items() if "layers.0.mlp.down" in name or array.ndim == 1}
    write_narrow(folder / "model.safetensors", narrow)
    with pytest.raises(DraftlightError, match=rf"has 1 weights in 8-bit .* there is no {NAMED}\. Choose a file with scales"):
        load(folder.as_posix())
    (found,) = [model for model in library.find([tmp_path]) if model.name == "narrow"]
    assert "8-bit floating point" in found.problem


@pytest.mark.parametrize("scale", ["_scale_inv", "_scale"])
def test_scales_unknown_to_mlx_lm_are_refused_with_a_remedy(scale: str, tmp_path: Path) -> None:
    folder = tiny_models.write_folder(tmp_path)
    write_narrow(folder / "model.safetensors", tiny_models.weights(), scale)
    with pytest.raises(
        DraftlightError, match=rf"Received 15 .*: .*_proj\.weight{scale}.* and 11 more\. Its weights are in 8-bit"
    ):
        load(folder.as_posix())


def test_a_class_that_multiplies_bytes_is_refused(tmp_path: Path) -> None:
    """mlx-lm's ministral3 takes the bytes themselves times the scales."""
    config = families.config_of("ministral3") | {"tie_word_embeddings": False}
    model = families.tiny("ministral3", tie_word_embeddings=False)
    folder = tiny_models.write_model(tmp_path, model, config)
    write_narrow(
        folder / "model.safetensors", {name: np.array(array) for name, array in tree_flatten(model.parameters())}, "_scale_inv"
    )
    with pytest.raises(DraftlightError, match="8-bit floating point, which mlx-lm does not expand in this architecture"):
        load(folder.as_posix())


def test_a_drafter_is_refused_as_well(tmp_path: Path) -> None:
    written(tmp_path, Packaged(NEW))
    arrays = {name: np.array(array) for name, array in mx.load((tmp_path / "model.safetensors").as_posix()).items()}
    write_narrow(tmp_path / "model.safetensors", arrays)
    with pytest.raises(DraftlightError, match="8-bit floating point without the scales"):
        load_block(tmp_path)
