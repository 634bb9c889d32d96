"""The table of draws that every implementation must agree on, bit for bit: sizes, types, masks, ties and worse.

Logits are spread by about as much as the noise, so that noise decides; the hard rows are built around the noise they will meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from engine.noise import reference
from engine.values.errors import DraftlightError

Dtype = Literal["float32", "float16", "bfloat16"]
Logits = npt.NDArray[np.float32]

VOCABULARIES = (1, 2, 31, 32, 33, 1000, 49_152, 151_936, 262_208)
HARD_VOCABULARY = 1001
HARD_SEED = 2**40 + 77


@dataclass(frozen=True, eq=False)
class Draw:
    """One call of the kernel. `logits` hold values that `dtype` represents exactly."""

    name: str
    logits: Logits
    dtype: Dtype = "float32"
    inverse_temperature: float = 1.25
    seed: int = HARD_SEED
    first_position: int = 40
    domain: str = "shared"
    round_position: int | None = None
    splits: int | None = None

    @property
    def positions(self) -> list[int]:
        return [self.first_position + row for row in range(len(self.logits))]

    @cached_property
    def expected(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        """Ids, -1 where the reference refuses, and margins."""
        ids, margins = [], []
        for row, position in zip(self.logits, self.positions, strict=True):
            arguments = (self.inverse_temperature, self.seed, [position], self.domain, self.round_position)
            try:
                ids.append(int(reference.gumbel_argmax(row[None], *arguments)[0]))
            except DraftlightError:
                ids.append(-1)
            noise = reference.gumbel(self.seed, position, row.size, self.domain, self.round_position)
            with np.errstate(all="ignore"):
                scores = row * np.float32(self.inverse_temperature) + noise
                scores = np.sort(np.append(np.where(np.isnan(scores), -np.inf, scores), -np.inf).astype(np.float32))
                margins.append(scores[-1] - scores[-2])
        return np.array(ids, np.int32), np.array(margins, np.float32)


def in_dtype(values: npt.NDArray[Any], dtype: Dtype) -> Logits:
    """Values cut to what `dtype` can hold, as float32."""
    if dtype == "float16":
        with np.errstate(over="ignore"):
            return values.astype(np.float16).astype(np.float32)
    if dtype == "bfloat16":
        return (values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return values.astype(np.float32)


def raw(draw: Draw) -> npt.NDArray[Any]:
    """The logits in the memory layout of their type."""
    if draw.dtype == "float16":
        return draw.logits.astype(np.float16)
    if draw.dtype == "bfloat16":
        return np.ascontiguousarray(draw.logits.view(np.uint16)[:, 1::2])
    return draw.logits


def _random(rows: int, vocab_size: int, dtype: Dtype = "float32") -> Logits:
    generator = np.random.default_rng([rows, vocab_size])
    return in_dtype(generator.normal(scale=1.5, size=(rows, vocab_size)), dtype)


def hard_rows(inverse_temperature: float = 1.25, seed: int = HARD_SEED, first_position: int = 40) -> tuple[list[str], Logits]:
    """Rows of HARD_VOCABULARY logits that a slightly wrong kernel gets wrong, and what each is for."""
    rows: dict[str, Logits] = {}
    scale = np.float32(inverse_temperature)

    def noise() -> Logits:
        return reference.gumbel(seed, first_position + len(rows), HARD_VOCABULARY)

    def only(values: Logits, ids: list[int]) -> Logits:
        kept = np.full(HARD_VOCABULARY, -np.inf, np.float32)
        kept[ids] = values[ids]
        return kept

    def all_scoring(score: float) -> Logits:
        """Logits whose product and sum, each rounded, give `score` for every token; a fused one gives something else for some."""
        exact = noise()
        start = ((np.float32(score) - exact) / scale).astype(np.float32)
        for step in range(-4, 5):
            near = start
            for _ in range(abs(step)):
                near = np.nextafter(near, np.float32(np.inf if step > 0 else -np.inf))
            start = np.where(start * scale + exact == np.float32(score), start, near)
        return start.astype(np.float32)

    def tied(ids: list[int]) -> Logits:
        values = all_scoring(2.0)
        exact = values * scale + noise() == np.float32(2.0)
        return only(values, [token for token in ids if exact[token]])

    everywhere = list(range(HARD_VOCABULARY))
    rows["equal logits"] = np.zeros(HARD_VOCABULARY, np.float32)
    rows["every score tied"] = tied(everywhere)
    rows["every score tied but the first"] = tied(everywhere[1:])
    rows["a later simdgroup ties"] = tied(list(range(70, 1000, 37)))
    rows["tied high ids"] = tied(everywhere[-9:])
    rows["tied around a middle"] = tied(list(range(495, 520)))
    rows["contraction decides"] = tied(everywhere[3:])
    rows["only the first"] = only(np.full(HARD_VOCABULARY, -5, np.float32), [0])
    rows["only the last"] = only(np.full(HARD_VOCABULARY, -5, np.float32), [HARD_VOCABULARY - 1])
    rows["two left"] = only(np.zeros(HARD_VOCABULARY, np.float32), [300, 731])
    rows["mostly not a number"] = np.where(np.arange(HARD_VOCABULARY) % 7 == 3, np.float32(0.5), np.float32(np.nan))
    rows["not a number first"] = np.where(np.arange(HARD_VOCABULARY) < 900, np.float32(np.nan), np.float32(0))
    rows["all masked"] = np.full(HARD_VOCABULARY, -np.inf, np.float32)
    rows["nothing is a number"] = np.full(HARD_VOCABULARY, np.nan, np.float32)
    rows["masked or not a number"] = np.where(np.arange(HARD_VOCABULARY) % 2 == 0, np.float32(-np.inf), np.float32(np.nan))
    rows["an infinite logit"] = only(np.zeros(HARD_VOCABULARY, np.float32), everywhere)
    rows["an infinite logit"][617] = np.inf
    rows["too large to temper"] = np.full(HARD_VOCABULARY, 3.3e38, np.float32)
    rows["large logits"] = np.linspace(9_000, 9_001, HARD_VOCABULARY, dtype=np.float32)
    rows["a head and a long tail"] = only(np.full(HARD_VOCABULARY, -6, np.float32), everywhere)
    rows["a head and a long tail"][5] = 0
    rows["filtered"] = only(np.linspace(0, 3, HARD_VOCABULARY, dtype=np.float32), [6, 7, 120, 513, 640, 641, 1000])
    return list(rows), np.stack(list(rows.values()))


def draws() -> list[Draw]:
    """The whole table."""
    table = [Draw(f"{rows} rows", _random(rows, 1000), splits=1 + rows % 4) for rows in range(1, 18)]
    table += [Draw(f"vocabulary {size}", _random(2, size), first_position=2**31 - 1) for size in VOCABULARIES]
    table += [Draw(f"one row of {size}", _random(1, size), splits=splits) for size, splits in [(3, 1), (33, 2), (4096, 67)]]
    for dtype in ("float16", "bfloat16"):
        table += [Draw(f"{dtype}, {size} tokens", _random(3, size, dtype), dtype) for size in (2, 33, 1000, 49_152)]
    for splits in (1, 2, 5, 40):
        table.append(Draw(f"hard rows in {splits} splits", hard_rows()[1], splits=splits))
    _, hard = hard_rows(1.0)
    table.append(Draw("hard rows at temperature 1", hard, inverse_temperature=1.0, splits=3))
    for dtype in ("float16", "bfloat16"):
        table.append(Draw(f"hard rows in {dtype}", in_dtype(hard_rows()[1], dtype), dtype, splits=2))
    for domain, the_round in [("draft", 17), ("draft", None), ("coin", 2**32 - 1), ("residual", 40), ("shared", 9)]:
        name = f"domain {domain}, round {the_round}"
        table.append(Draw(name, _random(3, 1000), domain=domain, round_position=the_round, inverse_temperature=0.7))
    table += [Draw(f"seed {seed}", _random(2, 1000), seed=seed) for seed in (0, 2**32, 2**53 - 1, 2**64 - 1)]
    return table
