"""Makes `gumbel_table.bin`, the integer Gumbel values that every implementation of the noise reads.

Run `python shaders/make_gumbel_table.py` to write the file again; the bytes are shipped, so no machine's logarithm matters.

The Gumbel value of a 32-bit word w is g(w) = -log(-log1p(-u)) with u = (w + 1/2) * 2^-32, stored as the nearest multiple of
2^-19. The table holds g at nodes that are 256 to an octave of w in the lower half of the words (w < 2^31), and of ~w in the
upper half, where the two are mirror images: for d = w or d = ~w,

    node(d) = 255                                    for d = 0
    node(d) = 256 * (1 + octave of d) + the 8 bits that follow the leading one of d

    table[node]          lower half: words from 0 up to the middle, values falling from 22.87
    table[16384 - node]  upper half: words from 2^32 - 1 down to the middle, values rising from -3.13

An implementation keeps 20 bits after the leading one of d: 8 choose the node and 12 interpolate towards the next. From octave 21
on lower bits are dropped, so a node stands at the middle of the distances that are cut down to it. A chord runs on one side of a
curve, so where a reader interpolates, a node is moved to the other side by half of the chord's greatest distance. With all this,
rounding included, the error stays below 4e-6.

Both halves meet in table[8192], the middle, so a reader can always interpolate towards the neighbour nearer to the middle.
Entries 0 to 254 and 16130 to 16383 are never read and repeat the ends; they make the file exactly 64 KiB.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable
from pathlib import Path

SIZE = 16384
MIDDLE = SIZE // 2
FIRST_NODE = 255
KEPT_BITS = 20
FIRST_INTERPOLATED = 256 * 10
UNITS_PER_ONE = 2**19
TABLE_FILE = Path(__file__).with_name("gumbel_table.bin")


def node_distance(node: int) -> float:
    """The distance (of a word from its end of the range) at which `node` stands, for FIRST_NODE <= node <= MIDDLE.

    In the octaves below 256 some nodes fall between whole distances; these are never read, and the distance below fills them.
    """
    if node == FIRST_NODE:
        return 0.0
    if node == MIDDLE:
        return 2.0**31
    octave, mantissa = node // 256 - 1, node % 256
    return (((256 + mantissa) << octave) >> 8) + (2 ** max(octave - KEPT_BITS, 0) - 1) / 2


def lower_value(distance: float) -> float:
    """g of the word `distance`: u is exact in float64 and log1p keeps its smallest values."""
    return -math.log(-math.log1p(-(distance + 0.5) * 2.0**-32))


def upper_value(distance: float) -> float:
    """g of the word 2^32 - 1 - `distance`: here 1 - u = (distance + 1/2) * 2^-32 is exact."""
    return -math.log(-math.log((distance + 0.5) * 2.0**-32))


def node_value(node: int, value: Callable[[float], float]) -> int:
    """The entry of a node in units of 2^-19; `value` is the half's g."""
    distance = node_distance(node)
    exact = value(distance)
    if FIRST_INTERPOLATED <= node < MIDDLE:
        following = node_distance(node + 1)
        chord = (exact + value(following)) / 2 - value((distance + following) / 2)
        exact -= chord / 2
    return round(exact * UNITS_PER_ONE)


def make_table() -> list[int]:
    """All 16,384 entries."""
    lower = [node_value(max(index, FIRST_NODE), lower_value) for index in range(MIDDLE + 1)]
    upper = [node_value(max(SIZE - index, FIRST_NODE), upper_value) for index in range(MIDDLE + 1, SIZE)]
    return lower + upper


def table_bytes() -> bytes:
    """The file: little-endian signed 32-bit integers."""
    return b"".join(entry.to_bytes(4, "little", signed=True) for entry in make_table())


if __name__ == "__main__":
    data = table_bytes()
    TABLE_FILE.write_bytes(data)
    sys.stdout.write(f"{TABLE_FILE.name}: {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}\n")
