"""Blocks of GGUF's quantisations, random to the last bit, against the `gguf` package."""

from __future__ import annotations

import gguf
import mlx.core as mx
import numpy as np
import pytest
from gguf.quants import dequantize

from engine.files.gguf_header import BLOCKS
from engine.models import gguf_blocks

QUANTISED = [kind for kind in BLOCKS if kind not in ("F32", "F16", "BF16")]
HALVES = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
    "IQ4_NL": [0],
    "IQ4_XS": [0],
    "MXFP4": [],
}


def blocks(kind: str, rows: int = 5, columns: int = 512) -> np.ndarray:
    """Every bit random, but for the numbers of half precision, which are finite, of both signs and of every size."""
    generator = np.random.default_rng(sum(kind.encode()))
    weights, taken = BLOCKS[kind]
    raw = generator.integers(0, 256, (rows * columns // weights, taken), dtype=np.uint8)
    for place in HALVES[kind]:
        numbers = generator.standard_normal(len(raw)) * 10.0 ** generator.integers(-6, 2, len(raw))
        raw[:, place : place + 2] = numbers.astype(np.float16).view(np.uint8).reshape(-1, 2)
    if kind == "MXFP4":
        raw[:, 0] = generator.integers(90, 160, len(raw))
    return raw.reshape(rows, -1)


@pytest.mark.parametrize("kind", QUANTISED)
def test_blocks_are_read_as_the_gguf_package_reads_them(kind: str) -> None:
    raw = blocks(kind)
    ours = np.array(gguf_blocks.expand(kind, mx.array(raw)))
    np.testing.assert_array_equal(ours, dequantize(raw, gguf.GGMLQuantizationType[kind]))


@pytest.mark.parametrize("kind", sorted(gguf_blocks.AFFINE))
def test_mlx_unpacks_what_is_kept_quantised_to_the_same_weights(kind: str) -> None:
    raw = blocks(kind)
    found = gguf_blocks.affine(kind, mx.array(raw))
    packed = found.packed().reshape(len(raw), -1)
    unpacked = mx.dequantize(packed, found.scales, found.biases, group_size=gguf_blocks.GROUP, bits=found.bits)
    np.testing.assert_array_equal(np.array(unpacked), dequantize(raw, gguf.GGMLQuantizationType[kind]))


def test_mlx_unpacks_its_own_form_of_mxfp4_to_the_same_weights() -> None:
    raw = blocks("MXFP4")
    weights, scales = gguf_blocks.mxfp4(mx.array(raw))
    unpacked = mx.dequantize(weights.reshape(len(raw), -1), scales, group_size=gguf_blocks.GROUP, bits=4, mode="mxfp4")
    expected = dequantize(raw, gguf.GGMLQuantizationType.MXFP4)
    np.testing.assert_array_equal(np.array(unpacked.astype(mx.float32)), expected)


@pytest.mark.parametrize("kind", sorted(gguf_blocks.AFFINE))
def test_only_the_scales_of_k_quants_need_more_than_half_precision(kind: str) -> None:
    found = gguf_blocks.affine(kind, mx.array(blocks(kind)))
    in_half = [mx.array_equal(part.astype(mx.float16), part).item() for part in (found.scales, found.biases)]
    assert all(in_half) is (not kind.endswith("_K"))


def test_the_sizes_of_blocks_are_those_of_the_gguf_package() -> None:
    for kind, size in BLOCKS.items():
        assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]] == size
