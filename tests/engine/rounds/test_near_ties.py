"""Near-ties, where last bits decide: the border is that of mlx-lm's filters, and it explains where texts diverge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.decode.decoding import DecodingOptions, decode
from engine.decode.recording import analysis
from engine.drafters import DraftModel
from engine.rounds import near_ties
from engine.rounds.near_ties import Gap
from engine.target.distribution import Shaper
from engine.types import Emitted
from tests.engine.tabular import TabularModel

SEED = 11
FILTERS: list[dict[str, Any]] = [
    {"top_p": 0.8},
    {"top_p": 0.3},
    {"min_p": 0.1},
    {"min_p": 1.0},
    {"top_k": 1},
    {"top_k": 5},
    {"top_p": 0.7, "min_p": 0.2, "top_k": 4},
]


def left(logits: np.ndarray, options: DecodingOptions) -> np.ndarray:
    """Returns (rows, vocab): whether mlx-lm's filters keep each token of (rows, vocab) logits."""
    return np.isfinite(np.array(Shaper(options).shape(mx.array(logits.astype(np.float32)), ()).logits))


def against(logits: np.ndarray, token: int, gap: float) -> np.ndarray:
    """Returns the worst case for a token if every difference of logits is wrong by at most `gap`: every token that can overtake
    it does, and gains on all that cannot."""
    moved = np.where(logits > logits[token] - gap, logits + gap / 2, logits - gap / 2)
    moved[token] = logits[token] - gap / 2
    return moved


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_a_token_falls_exactly_when_logits_move_by_more_than_its_border(filters: dict[str, Any]) -> None:
    """mlx-lm's own filters decide, on rows that are wrong by almost the border, and by a little more."""
    generator, options = np.random.default_rng(SEED), DecodingOptions(temperature=1, **filters)
    rows = generator.normal(0, 1.2, (60, 24)).astype(np.float32).astype(np.float64)
    staying, falling = [], []
    for row, token in np.argwhere(left(rows, options)).tolist():
        logits = rows[row]
        border = analysis.border(logits.astype(np.float32), token, options)
        reach = near_ties.RANGE if border is None else border
        staying.append((token, against(logits, token, 0.999 * reach - 1e-5)))
        if border is not None:
            falling.append((token, against(logits, token, 1.001 * border + 1e-5)))
    assert len(falling) >= 15, "enough borders within reach to speak of"
    for moved, stays in ((staying, True), (falling, False)):
        tokens, logits = zip(*moved, strict=True)
        np.testing.assert_array_equal(left(np.array(logits), options)[np.arange(len(tokens)), tokens], stays)


def test_a_lone_token_and_a_token_far_from_every_limit_have_no_border() -> None:
    assert analysis.border(np.zeros(1, np.float32), 0, DecodingOptions(top_p=0.5, top_k=1, min_p=1.0)) is None
    row = np.array([9, 0, -1, -np.inf], np.float32)
    for filters in FILTERS:
        assert analysis.border(row, 0, DecodingOptions(**filters)) is None
    tied = np.zeros(8, np.float32)
    assert analysis.border(tied, 3, DecodingOptions(top_k=2)) == 0.0


class WidthSensitive(TabularModel):
    """A model whose last bits depend on the number of rows in a pass, like a GPU's matrix product."""

    def __init__(self, row: np.ndarray, shift: np.ndarray) -> None:
        super().__init__(row.reshape(1, 1, -1))
        self.shift = mx.array(shift.astype(np.float32))

    def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
        logits = super().__call__(tokens, cache)
        return logits if tokens.shape[1] == 1 else logits + self.shift


ROW = np.array([1.0, 0.9, 0.75, 0.6, 0.45, 0.2, -0.5, -1.0], np.float32)
EDGE = 4
"""The token at the border; about one of seven draws gives it."""
LAST_BITS = 2e-5


def at_the_border(kind: str) -> tuple[np.ndarray, dict[str, Any]]:
    """Returns a row, and a filter that keeps EDGE in a narrow pass but drops it once EDGE has lost LAST_BITS."""
    row = ROW.astype(np.float64)
    if kind == "top_k":
        row[EDGE + 1] = row[EDGE] - LAST_BITS / 2
        return row, {"top_k": EDGE + 1}
    if kind == "min_p":
        return row, {"min_p": float(np.exp(row[EDGE] - LAST_BITS / 2 - row[0]))}
    weights = np.exp(row - row.max())
    above = weights[:EDGE].sum() / weights.sum()
    return row, {"top_p": float(above + LAST_BITS / 4 * above * (1 - above))}


def both_texts(target: WidthSensitive, row: np.ndarray, options: DecodingOptions) -> tuple[Iterator[Emitted], Iterator[Emitted]]:
    """Yields the plain text of a seed, and the text with a drafter of this row, whose passes are wider. Both are decoded
    lazily."""
    drafter = DraftModel(TabularModel(row.reshape(1, 1, -1)), "itself")
    plain, drafted = (
        (token for current in decode(target, [1, 2, 3], used, options) for token in current.emitted) for used in (None, drafter)
    )
    return plain, drafted


def texts(kind: str, seed: int) -> tuple[Iterator[Emitted], Iterator[Emitted]]:
    row, filters = at_the_border(kind)
    target = WidthSensitive(row, np.where(np.arange(row.size) == EDGE, -LAST_BITS, LAST_BITS / 4))
    return both_texts(target, ROW, DecodingOptions(temperature=1, seed=seed, gamma=4, max_tokens=48, phase_every=0, **filters))


@pytest.mark.parametrize("kind", ["top_p", "min_p", "top_k"])
def test_a_last_bit_that_moves_a_token_across_a_filters_border_is_a_near_tie(kind: str) -> None:
    """Ten seeds per filter: most texts diverge where the margin alone would count as a fault."""
    parted = 0
    for seed in range(10):
        both = next((pair for pair in zip(*texts(kind, seed), strict=False) if pair[0].id != pair[1].id), None)
        if both is None:
            continue
        assert {EDGE, EDGE + (kind == "top_k")} & {token.id for token in both}, "top-k lets the next one in for it"
        margins = [token.margin for token in both if token.margin is not None]
        gap = near_ties.nearest(both, 1.0)
        assert gap is not None and gap.of == "border" and gap.size <= 3 * LAST_BITS
        parted += min(margins) > near_ties.FLOAT32
    assert parted >= 8, "a difference of last bits parts nearly every text here"


def test_tokens_away_from_the_border_are_not_excused_by_it() -> None:
    """The border belongs to the emitted token: a fault elsewhere in the same row stays a fault."""
    plain, _ = texts("min_p", 3)
    for token in plain:
        gap = near_ties.nearest([token], 1.0)
        assert gap is not None
        assert (token.border is not None and token.border < near_ties.FLOAT32) == (token.id == EDGE)


def test_without_a_filter_and_at_temperature_0_there_is_no_border() -> None:
    model = TabularModel(ROW.reshape(1, 1, -1))
    for options in (DecodingOptions(temperature=1), DecodingOptions(temperature=0, top_p=0.5), DecodingOptions(top_p=0.0)):
        rounds = decode(model, [1], None, options.replace(seed=1, max_tokens=8))
        assert all(token.border is None and token.margin is not None for current in rounds for token in current.emitted)


@pytest.mark.parametrize(
    "temperature", [0.0, 0.1, 3.0, *(pytest.param(between, marks=pytest.mark.full) for between in (0.02, 0.8))]
)
def test_a_step_of_half_precision_parts_texts_at_a_near_tie_at_every_temperature(temperature: float) -> None:
    """Scores are logits divided by the temperature, and so are errors in last bits. A shift of many steps is no near-tie."""
    row, step = np.array([20.0, 19.9, 18.5, 17.0, 15.0]), 0.125
    excused = {}
    for token, steps in ((1, 1), (2, 20)):
        target = WidthSensitive(row, np.where(np.arange(row.size) == token, steps * step, 0))
        said = []
        for seed in range(8):
            options = DecodingOptions(temperature=temperature, seed=seed, gamma=4, max_tokens=120, phase_every=0)
            texts = zip(*both_texts(target, row, options), strict=True)
            both = next((pair for pair in texts if pair[0].id != pair[1].id), None)
            if both is not None:
                gap = near_ties.nearest(both, temperature)
                assert gap is not None
                said.append(gap.size < near_ties.limit("bfloat16"))
        assert len(said) >= 4, "texts part"
        excused[steps] = sum(said) / len(said)
    assert excused[1] == 1
    assert excused[20] < 0.5


def test_margins_are_recorded_up_to_the_same_gap_of_logits_at_every_temperature() -> None:
    row = np.array([2.0, 0.0, -4.0], np.float32)
    for temperature in (0.05, 0.5, 2.0):
        options = DecodingOptions(temperature=temperature, seed=3, max_tokens=60)
        rounds = decode(TabularModel(row.reshape(1, 1, -1)), [1], None, options)
        margins = [token.margin for current in rounds for token in current.emitted if token.margin is not None]
        assert max(margins) == pytest.approx(near_ties.reach(temperature))
        assert any(near_ties.is_lower_bound(margin, temperature) for margin in margins)
    assert near_ties.words(1.0, 0.0) == "1", "logits are compared to the end"
    assert near_ties.words(2.0, 0.5) == "2 or more"
    assert near_ties.words(1.0, 0.1) == "1 or more", "as it was recorded once"
    (old,) = [Emitted(1, "a", b"a", "plain", margin=1.0)]
    gap = near_ties.nearest([old], 0.1)
    assert gap is not None and gap.size == near_ties.RANGE, "a bound is no near-tie"


def test_the_limit_follows_the_type_of_the_logits() -> None:
    assert near_ties.limit("float32") == 1e-3
    assert near_ties.limit("float16") == 0.1
    step = 2.0 ** (4 - 7)  # of a bfloat16 between 16 and 32
    assert 2 * step < near_ties.limit("bfloat16") < 3 * step
    assert near_ties.limit(None) == 1e-3, "what is not known excuses nothing"


def test_the_nearest_gap_counts_both_sides_and_both_kinds() -> None:
    def token(margin: float | None, border: float | None) -> Emitted:
        return Emitted(1, "a", b"a", "plain", margin=margin, border=border)

    for temperature in (0.0, 1.0):
        assert near_ties.nearest([token(0.5, 0.4), token(None, 0.2), None], temperature) == Gap(0.2, "border", "0.2")
        both = [token(0.0, None), token(0.5, None)]
        assert near_ties.nearest(both, temperature) == Gap(0.5, "margin", "0.5"), "both sides see a tie"
        assert near_ties.nearest([token(0.1, 0.2)], temperature) == Gap(0.1, "margin", "0.1")
        assert near_ties.nearest([token(None, None), None], temperature) is None
    assert near_ties.nearest([token(3.0, 0.4)], 0.1) == Gap(pytest.approx(0.3), "margin", "3"), "of logits a tenth as far apart"
    assert near_ties.nearest([token(10.0, None)], 0.1) == Gap(1.0, "margin", "10 or more")


def test_a_quantised_cache_moves_keys_and_values_by_whole_levels() -> None:
    assert near_ties.limit("float32", kv_bits=8) == near_ties.limit("float32", kv_bits=4) == near_ties.FLOAT16
    assert near_ties.limit("float32", kv_bits=None) == near_ties.FLOAT32
