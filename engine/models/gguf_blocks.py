"""Decodes the blocks of GGUF's quantisation types, into numbers or into the form that MLX multiplies.

Layouts: `ggml-common.h` and `ggml-quants.c` of https://github.com/ggml-org/ggml. A block holds 32 or 256 weights of one row.
Most types are affine in groups of 32: weight = scale · code + bias with integer codes. MLX has the same form, so such a tensor
stays quantised without loss if its scales keep their precision. In other types 16 weights share a scale, and MLX has no groups
of that size; or the codes are indices into a table, of which MLX supports only that of MXFP4.

A new type needs an entry in `AFFINE` or `OTHERS` here, and one in `engine.files.gguf_header.BLOCKS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx

from engine.files.gguf_header import BLOCKS

GROUP = 32
"""Number of weights that share a scale and a bias, in every affine type."""

_IQ4 = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
_FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


@dataclass(frozen=True)
class Affine:
    """Affine weights, scale · code + bias. `codes`: (..., 32) uint8 of `bits` bits; `scales` and `biases`: (...) float32,
    exact."""

    codes: mx.array
    scales: mx.array
    biases: mx.array
    bits: int

    def expanded(self) -> mx.array:
        """Returns the weights, (..., 32) float32. The product is exact and only the sum is rounded, as in ggml."""
        return self.codes.astype(mx.float32) * self.scales[..., None] + self.biases[..., None]

    def packed(self) -> mx.array:
        """Returns the codes as MLX stores them: a bit stream, (..., bits) uint32 for 32 codes of `bits` bits."""
        return _packed(self.codes, self.bits)


def _packed(codes: mx.array, bits: int) -> mx.array:
    together = {4: 8, 5: 8, 8: 4}[bits]
    few = codes.reshape(-1, together).astype(mx.uint64)
    words = (few << (mx.arange(together, dtype=mx.uint64) * bits)).sum(axis=-1, keepdims=True).astype(mx.uint64)
    stream = words.view(mx.uint8)[:, : together * bits // 8]
    return mx.contiguous(stream).reshape(*codes.shape[:-1], GROUP * bits // 8).view(mx.uint32)


def mxfp4(raw: mx.array) -> tuple[mx.array, mx.array]:
    """Returns MXFP4 weights and scales in MLX's form, which differs only in the order of the codes.

    `raw` is (rows, bytes) uint8; the results are (rows, groups, 4) uint32 and (rows, groups) uint8.
    """
    block = _Blocks(raw.reshape(-1, _bytes("MXFP4")))
    scales, codes = block.take(1), block.nibbles(16)
    return _packed(codes, 4).reshape(raw.shape[0], -1, 4), scales.reshape(raw.shape[0], -1)


def affine(kind: str, raw: mx.array) -> Affine:
    """Returns the decoded weights of a type in `AFFINE`. `raw`: (rows, bytes) uint8; the codes are (rows, groups, 32)."""
    weights = AFFINE[kind](_Blocks(raw.reshape(-1, _bytes(kind))))
    shape = (raw.shape[0], -1)
    return Affine(
        weights.codes.reshape(*shape, GROUP), weights.scales.reshape(shape), weights.biases.reshape(shape), weights.bits
    )


def expand(kind: str, raw: mx.array) -> mx.array:
    """Returns the weights of `raw`, (rows, bytes) uint8, as (rows, columns) float32."""
    if kind in AFFINE:
        weights = affine(kind, raw).expanded()
    elif kind in OTHERS:
        weights = OTHERS[kind](_Blocks(raw.reshape(-1, _bytes(kind))))
    else:
        weights = raw.view({"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16}[kind]).astype(mx.float32)
    return weights.reshape(raw.shape[0], -1)


def _bytes(kind: str) -> int:
    return BLOCKS[kind][1]


class _Blocks:
    """Reads the fields of blocks, (blocks, bytes) uint8, one after another."""

    def __init__(self, raw: mx.array) -> None:
        self._raw = raw
        self._offset = 0

    def take(self, count: int) -> mx.array:
        """Returns the next `count` bytes, (blocks, count)."""
        self._offset += count
        return mx.contiguous(self._raw[:, self._offset - count : self._offset])

    def half(self) -> mx.array:
        """Returns the next half-precision number, (blocks, 1) float32."""
        return self.take(2).view(mx.float16).astype(mx.float32)

    def signed(self, count: int) -> mx.array:
        """Returns the next `count` signed bytes, (blocks, count) float32."""
        return self.take(count).view(mx.int8).astype(mx.float32)

    def nibbles(self, count: int) -> mx.array:
        """Returns the next `count` bytes as 2 · count codes of 4 bits: first the low halves of all bytes, then the high
        ones."""
        both = self.take(count)
        return mx.concatenate([both & 15, both >> 4], axis=-1)


def _bits(packed: mx.array) -> mx.array:
    """Returns (blocks, 4) bytes as (blocks, 32) single bits, the lowest bit of the first byte first."""
    return (packed[..., None] >> mx.arange(8, dtype=mx.uint8) & 1).reshape(packed.shape[0], -1)


def _levels(packed: mx.array, width: int, shifts: tuple[int, ...]) -> mx.array:
    """Returns the fields of `width` bits at each of `shifts`: (blocks, bytes) to (blocks, shifts, bytes)."""
    return mx.stack([packed >> shift & (2**width - 1) for shift in shifts], axis=1)


def _q4_0(block: _Blocks) -> Affine:
    scale = block.half()
    return Affine(block.nibbles(16), scale, -8 * scale, 4)


def _q4_1(block: _Blocks) -> Affine:
    scale, bias = block.half(), block.half()
    return Affine(block.nibbles(16), scale, bias, 4)


def _q5_0(block: _Blocks) -> Affine:
    scale, high = block.half(), _bits(block.take(4))
    return Affine(block.nibbles(16) | high << 4, scale, -16 * scale, 5)


def _q5_1(block: _Blocks) -> Affine:
    scale, bias, high = block.half(), block.half(), _bits(block.take(4))
    return Affine(block.nibbles(16) | high << 4, scale, bias, 5)


def _q8_0(block: _Blocks) -> Affine:
    scale = block.half()
    return Affine(block.take(32) ^ 128, scale, -128 * scale, 8)


def _k_scales(block: _Blocks) -> tuple[mx.array, mx.array]:
    """Returns scales and biases of the eight groups of Q4_K and Q5_K. Each has 6 bits; the top two of the last four are
    apart."""
    scale, smallest, packed = block.half(), block.half(), block.take(12)
    first, second, third = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = mx.concatenate([first & 63, third & 15 | first >> 6 << 4], axis=-1).astype(mx.float32)
    minima = mx.concatenate([second & 63, third >> 4 | second >> 6 << 4], axis=-1).astype(mx.float32)
    return scale * scales, -smallest * minima


def _k_nibbles(block: _Blocks) -> mx.array:
    """Returns (blocks, 8, 32) codes of 4 bits: every 32 bytes hold two groups, one in the low halves and one in the high
    halves."""
    both = block.take(128).reshape(-1, 4, 1, 32)
    return mx.concatenate([both & 15, both >> 4], axis=2).reshape(-1, 8, 32)


def _q4_k(block: _Blocks) -> Affine:
    scales, biases = _k_scales(block)
    return Affine(_k_nibbles(block), scales, biases, 4)


def _q5_k(block: _Blocks) -> Affine:
    scales, biases = _k_scales(block)
    high = _levels(block.take(32), 1, tuple(range(8)))
    return Affine(_k_nibbles(block) | high << 4, scales, biases, 5)


def _q6_k(block: _Blocks) -> mx.array:
    low, high = block.take(128).reshape(-1, 2, 1, 64), block.take(64).reshape(-1, 2, 1, 32)
    scales, scale = block.signed(16), block.half()
    upper = mx.concatenate([high >> shift & 3 for shift in (0, 2, 4, 6)], axis=2).reshape(-1, 2, 2, 64)
    codes = mx.concatenate([low & 15, low >> 4], axis=2) | upper << 4
    return _sixteens(codes, 32) * (scale * scales)[..., None]


def _q2_k(block: _Blocks) -> mx.array:
    packed, low = block.take(16), block.take(64).reshape(-1, 2, 1, 32)
    scale, smallest = block.half(), block.half()
    codes = mx.concatenate([low >> shift & 3 for shift in (0, 2, 4, 6)], axis=2)
    scales, minima = scale * (packed & 15).astype(mx.float32), smallest * (packed >> 4).astype(mx.float32)
    return _sixteens(codes, 0) * scales[..., None] - minima[..., None]


def _q3_k(block: _Blocks) -> mx.array:
    high, low, packed, scale = block.take(32), block.take(64).reshape(-1, 2, 1, 32), block.take(12), block.half()
    codes = mx.concatenate([low >> shift & 3 for shift in (0, 2, 4, 6)], axis=2).reshape(-1, 8, 32)
    codes = codes | _levels(high, 1, tuple(range(8))) << 2
    lower, upper = packed[:, :8], packed[:, 8:]
    scales = mx.concatenate([lower & 15, lower >> 4], axis=-1) | _levels(upper, 2, (0, 2, 4, 6)).reshape(-1, 16) << 4
    return _sixteens(codes, 4) * (scale * (scales.astype(mx.float32) - 32))[..., None]


def _sixteens(codes: mx.array, offset: int) -> mx.array:
    """Returns the codes of 256 weights as (blocks, 16, 16) float32, minus `offset`."""
    return codes.reshape(-1, 16, 16).astype(mx.float32) - offset


def _iq4_nl(block: _Blocks) -> mx.array:
    scale = block.half()
    return scale * mx.array(_IQ4, dtype=mx.float32)[block.nibbles(16)]


def _iq4_xs(block: _Blocks) -> mx.array:
    scale, high, low = block.half(), block.take(2).view(mx.uint16), block.take(4)
    lower = mx.stack([low & 15, low >> 4], axis=-1).reshape(-1, 8)
    upper = (high >> mx.arange(0, 16, 2, dtype=mx.uint16) & 3).astype(mx.uint8)
    scales = scale * ((lower | upper << 4).astype(mx.float32) - 32)
    both = block.take(128).reshape(-1, 8, 16)
    return scales[..., None] * mx.array(_IQ4, dtype=mx.float32)[mx.concatenate([both & 15, both >> 4], axis=-1)]


def _mxfp4(block: _Blocks) -> mx.array:
    scale = mx.power(2.0, block.take(1).astype(mx.float32) - 127)
    return scale * mx.array(_FP4)[block.nibbles(16)]


AFFINE: dict[str, Callable[[_Blocks], Affine]] = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
}
"""Types that stay quantised in MLX without loss."""

OTHERS: dict[str, Callable[[_Blocks], mx.array]] = {
    "Q2_K": _q2_k,
    "Q3_K": _q3_k,
    "Q6_K": _q6_k,
    "IQ4_NL": _iq4_nl,
    "IQ4_XS": _iq4_xs,
    "MXFP4": _mxfp4,
}
"""Types that are expanded to numbers."""
