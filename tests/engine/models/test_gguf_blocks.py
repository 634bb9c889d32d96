"""Blocks of GGUF's quantisations, random to the last bit, against a reader of this file and against the `gguf` package.

The reader goes through a block weight by weight, as `ggml-quants.c` describes it, and shares nothing with the code under test.
"""

from __future__ import annotations

import struct

import gguf
import mlx.core as mx
import numpy as np
import pytest
from gguf.quants import dequantize

from engine.files.gguf_header import BLOCKS
from engine.models import gguf_blocks

IQ4 = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]
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


def half(block: bytes, place: int) -> np.float32:
    return np.float32(struct.unpack_from("<e", block, place)[0])


def six_bits(packed: bytes, group: int) -> tuple[int, int]:
    """Scale and minimum of a group of Q4_K and Q5_K (`get_scale_min_k4`)."""
    if group < 4:
        return packed[group] & 63, packed[group + 4] & 63
    return (
        packed[group + 4] & 15 | packed[group - 4] >> 6 << 4,
        packed[group + 4] >> 4 | packed[group] >> 6 << 4,
    )


def weight(kind: str, block: bytes, i: int) -> np.float32:
    """Weight `i` of a block."""
    d = half(block, HALVES[kind][0]) if HALVES[kind] else np.float32(0)
    small, shift = i % 16, 4 * (i // 16)
    match kind:
        case "Q4_0":
            return d * np.float32((block[2 + small] >> shift & 15) - 8)
        case "Q4_1":
            return d * np.float32(block[4 + small] >> shift & 15) + half(block, 2)
        case "Q5_0" | "Q5_1":
            at = 2 if kind == "Q5_0" else 4
            high = struct.unpack_from("<I", block, at)[0] >> i & 1
            code = block[at + 4 + small] >> shift & 15 | high << 4
            return d * np.float32(code - 16) if kind == "Q5_0" else d * np.float32(code) + half(block, 2)
        case "Q8_0":
            return d * np.float32(struct.unpack_from("b", block, 2 + i)[0])
        case "IQ4_NL":
            return d * np.float32(IQ4[block[2 + small] >> shift & 15])
        case "MXFP4":
            code = block[1 + small] >> shift & 15
            size = [0, 0.5, 1, 1.5, 2, 3, 4, 6][code & 7]
            return np.float32((-size if code & 8 else size) * 2.0 ** (block[0] - 127))
        case "Q4_K" | "Q5_K":
            group, place = i // 32, i % 32
            scale, smallest = six_bits(block[4:16], group)
            codes = block[16:] if kind == "Q4_K" else block[48:]
            code = codes[group // 2 * 32 + place] >> 4 * (group % 2) & 15
            if kind == "Q5_K":
                code |= (block[16 + place] >> group & 1) << 4
            return d * np.float32(scale) * np.float32(code) - half(block, 2) * np.float32(smallest)
        case "Q6_K":
            part, place = i // 128, i % 128
            low = block[64 * part + place % 64] >> 4 * (place // 64) & 15
            high = block[128 + 32 * part + place % 32] >> 2 * (place // 32) & 3
            scale = struct.unpack_from("b", block, 192 + i // 16)[0]
            return d * np.float32(scale) * np.float32((low | high << 4) - 32)
        case "Q2_K":
            part, place = i // 128, i % 128
            code = block[16 + 32 * part + place % 32] >> 2 * (place // 32) & 3
            packed = block[i // 16]
            return d * np.float32(packed & 15) * np.float32(code) - half(block, 82) * np.float32(packed >> 4)
        case "Q3_K":
            part, place, group = i // 128, i % 128, i // 16
            code = block[32 + 32 * part + place % 32] >> 2 * (place // 32) & 3
            code -= 0 if block[i % 32] >> i // 32 & 1 else 4
            packed = block[96:108]
            low = packed[group % 8] >> 4 * (group // 8) & 15
            scale = low | (packed[8 + group % 4] >> 2 * (group // 4) & 3) << 4
            return d * np.float32(scale - 32) * np.float32(code)
        case "IQ4_XS":
            group, place = i // 32, i % 32
            low = block[4 + group // 2] >> 4 * (group % 2) & 15
            scale = low | (struct.unpack_from("<H", block, 2)[0] >> 2 * group & 3) << 4
            return d * np.float32(scale - 32) * np.float32(IQ4[block[8 + 16 * group + place % 16] >> 4 * (place // 16) & 15])
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", QUANTISED)
def test_blocks_are_read_as_their_layout_says_and_as_the_gguf_package_reads_them(kind: str) -> None:
    raw = blocks(kind)
    ours = np.array(gguf_blocks.expand(kind, mx.array(raw)))
    size, taken = BLOCKS[kind]
    by_layout = [weight(kind, block.tobytes(), i) for block in raw.reshape(-1, taken) for i in range(size)]
    np.testing.assert_array_equal(ours.flatten(), np.array(by_layout, np.float32))
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
