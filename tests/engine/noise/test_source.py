"""The noise has one definition: known answers, MLX's own hash as a second implementation, and numpy equals MLX bit by bit."""

from __future__ import annotations

import hashlib
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from engine.machine import host
from engine.noise import kernel as noise_kernel
from engine.noise import reference
from engine.noise import source as noise
from engine.values.errors import DraftlightError
from tests.shim import cases

SEED = 2**40 + 12_345
DRAWS = cases.draws()
DTYPES = {"float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}

# From the Random123 distribution: key, counter, words.
KNOWN_ANSWERS = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]

# The meaning of a seed must never change: units of the first and last of 1000 tokens, and the float32 digest of all.
FROZEN = {
    "shared": (42031, -178042, "390f435335919d54"),
    "draft": (-38324, 967834, "0632bcde2730d3fc"),
    "coin": (-210996, -48525, "15c025c66246d672"),
    "residual": (-124282, 54903, "16f1d94c5e493809"),
}


@pytest.mark.parametrize(("key", "counter", "expected"), KNOWN_ANSWERS)
def test_threefry_gives_its_known_answers(key: tuple[int, int], counter: tuple[int, int], expected: tuple[int, int]) -> None:
    assert reference.threefry(key, *counter) == expected
    arrays = [mx.array([value], mx.uint32) for value in (*key, *counter)]
    in_mlx = noise.threefry((arrays[0], arrays[1]), arrays[2], arrays[3])
    assert tuple(int(word.item()) for word in in_mlx) == expected


def test_words_are_those_of_mlx_for_any_token_it_can_split_off() -> None:
    key = reference.stream_key(SEED, 321, "draft", 300)
    split = np.array(mx.random.split(mx.array(key, mx.uint32), 2**17)).reshape(-1)
    token = np.arange(2**18)
    np.testing.assert_array_equal(reference.words(key, 2**18), split[(token >> 1) + (token & 1) * 2**17])


def test_keys_are_hashed_as_defined() -> None:
    first = reference.threefry((SEED >> 32, SEED & 0xFFFFFFFF), 7, 0)
    assert reference.stream_key(SEED, 7) == first
    assert reference.stream_key(SEED, 7, "shared", 3) == first
    for domain, number in (("draft", 1), ("coin", 2), ("residual", 3)):
        by_position = reference.threefry((SEED >> 32, SEED & 0xFFFFFFFF), 7, number)
        assert reference.stream_key(SEED, 7, domain, 3) == reference.threefry(by_position, 3, 0)
        assert reference.stream_key(SEED, 7, domain) == reference.stream_key(SEED, 7, domain, 7)


@pytest.mark.parametrize("vocab_size", [1, 2, 3, 1000, 2**18 + 5])
def test_a_tokens_noise_does_not_depend_on_the_vocabulary(vocab_size: int) -> None:
    key = reference.stream_key(SEED, 9)
    longest = reference.words(key, 2**18 + 5)
    np.testing.assert_array_equal(reference.words(key, vocab_size), longest[:vocab_size])
    token = vocab_size - 1
    assert int(longest[token]) == reference.threefry(key, token >> 1, (token >> 1) + 2**17)[token & 1]


@pytest.mark.parametrize("domain", noise.DOMAINS)
@pytest.mark.parametrize("the_round", [None, 77])
@pytest.mark.parametrize("vocab_size", [1, 2, 33, 4097, 2**18 + 1])
def test_numpy_and_mlx_make_the_same_rows(domain: str, the_round: int | None, vocab_size: int) -> None:
    positions = [0, 80, 2**32 - 1]
    source = noise.NoiseSource(SEED, vocab_size)
    expected = np.stack([reference.gumbel(SEED, position, vocab_size, domain, the_round) for position in positions])
    np.testing.assert_array_equal(np.array(source.rows(positions, domain, the_round)), expected)
    in_graph = source.rows(mx.array(positions, mx.uint32), domain, the_round)
    assert in_graph.dtype == mx.float32
    np.testing.assert_array_equal(np.array(in_graph), expected)
    if the_round is not None:
        both_in_graph = source.rows(mx.array(positions, mx.uint32), domain, mx.array(the_round))
        np.testing.assert_array_equal(np.array(both_in_graph), expected)


def test_few_words_are_the_first_of_many() -> None:
    """Few words are drawn one by one, many words together."""
    key = reference.stream_key(SEED, 7, "draft", 5)
    many = reference.words(key, 1000)
    for vocab_size in range(1, 40):
        np.testing.assert_array_equal(reference.words(key, vocab_size), many[:vocab_size])


def test_every_word_maps_alike_in_numpy_and_mlx() -> None:
    generator = np.random.default_rng(4)
    of_all_sizes = generator.integers(0, 2**32, 300_000, dtype=np.uint32) >> generator.integers(0, 32, 300_000, dtype=np.uint32)
    drawn = np.concatenate([np.arange(70_000, dtype=np.uint32), of_all_sizes, ~of_all_sizes])
    units = np.array(noise.gumbel_units(mx.array(drawn)))
    np.testing.assert_array_equal(units, reference.gumbel_units(drawn))


def test_gumbel_takes_a_position_from_python_or_from_the_graph() -> None:
    expected = reference.gumbel(SEED, 12, 50, "residual", 10)
    np.testing.assert_array_equal(np.array(noise.gumbel(SEED, 12, 50, "residual", 10)), expected)
    np.testing.assert_array_equal(np.array(noise.gumbel(SEED, mx.array(12), 50, "residual", mx.array(10))), expected)
    np.testing.assert_array_equal(expected, np.round(expected * 2**19) / np.float32(2**19))


@pytest.mark.parametrize("domain", noise.DOMAINS)
def test_a_seed_keeps_its_meaning(domain: str) -> None:
    drawn = reference.gumbel(SEED, 41, 1000, domain, 40)
    digest = hashlib.sha256(drawn.astype("<f4").tobytes()).hexdigest()[:16]
    assert (int(drawn[0] * 2**19), int(drawn[999] * 2**19), digest) == FROZEN[domain]


@pytest.mark.parametrize("in_graph", [False, True], ids=["known positions", "positions in the graph"])
@pytest.mark.parametrize("draw", DRAWS, ids=lambda draw: draw.name)
def test_mlx_draws_what_numpy_draws(draw: cases.Draw, in_graph: bool) -> None:
    logits = mx.array(draw.logits).astype(DTYPES[draw.dtype])
    positions = mx.array(draw.positions, mx.uint32) if in_graph else draw.positions
    source = noise.NoiseSource(draw.seed, draw.logits.shape[1])
    ids, margins = source.argmax_and_margin(logits, draw.inverse_temperature, positions, draw.domain, draw.round_position)
    expected_ids, expected_margins = draw.expected
    np.testing.assert_array_equal(np.array(ids), expected_ids)
    np.testing.assert_array_equal(np.array(margins), expected_margins)
    alone = noise.gumbel_argmax(logits, draw.inverse_temperature, draw.seed, positions, draw.domain, draw.round_position)
    assert alone.dtype == mx.int32
    np.testing.assert_array_equal(np.array(alone), expected_ids)
    rows = np.array(logits.astype(mx.float32))
    drawn = [
        source.draw(row, draw.inverse_temperature, position, draw.domain, draw.round_position)
        for row, position in zip(rows, draw.positions, strict=True)
    ]
    np.testing.assert_array_equal([token for token, _ in drawn], expected_ids)
    np.testing.assert_array_equal([margin for _, margin in drawn], expected_margins)


def _drawn_without_numpy(draw: cases.Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compares draws and rows with the reference; fails if numpy draws any noise meanwhile."""
    expected_ids, expected_margins = draw.expected
    places = [(position, draw.domain, draw.round_position) for position in draw.positions]
    expected = np.stack([reference.gumbel(draw.seed, at, draw.logits.shape[1], *rest) for at, *rest in places])

    def fail(*_: object) -> None:
        raise AssertionError("numpy was asked for noise")

    for name in ("_hash", "threefry", "gumbel_units"):
        monkeypatch.setattr(reference, name, fail)
    logits = mx.array(draw.logits).astype(DTYPES[draw.dtype])
    source = noise.NoiseSource(draw.seed, draw.logits.shape[1])
    ids, margins = source.argmax_and_margin(logits, draw.inverse_temperature, draw.positions, draw.domain, draw.round_position)
    np.testing.assert_array_equal(np.array(ids), expected_ids)
    np.testing.assert_array_equal(np.array(margins), expected_margins)
    rows = source.rows(draw.positions, draw.domain, draw.round_position)
    np.testing.assert_array_equal(np.array(rows), expected)


@pytest.mark.parametrize("draw", DRAWS, ids=lambda draw: draw.name)
def test_a_gpu_without_a_kernel_draws_the_same_by_operations_of_mlx(draw: cases.Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVIDIA's GPUs have no kernel; MLX's CPU device stands in for one here."""
    monkeypatch.setattr(noise_kernel, "available", lambda: False)
    monkeypatch.setattr(host, "computes_on_host", lambda: False)
    _drawn_without_numpy(draw, monkeypatch)


@pytest.mark.gpu
@pytest.mark.parametrize("draw", DRAWS, ids=lambda draw: draw.name)
def test_a_gpu_draws_what_numpy_draws(draw: cases.Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    _drawn_without_numpy(draw, monkeypatch)


@pytest.mark.parametrize("in_graph", [False, True], ids=["known round", "round in the graph"])
@pytest.mark.parametrize("draw", [draw for draw in DRAWS if "domain" in draw.name], ids=lambda draw: draw.name)
def test_gpu_gets_the_whole_stream_key(draw: cases.Draw, in_graph: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the kernel draws from its arguments alone."""

    def stand_in(logits: mx.array, scale: float, positions: mx.array, stream: mx.array) -> tuple[mx.array, mx.array]:
        high, low, domain, counts, the_round = stream.tolist()
        name = next(name for name, number in noise.DOMAINS.items() if number == domain)
        arguments = ((high << 32) + low, positions.tolist(), name, the_round if counts else None)
        assert (positions.dtype, stream.dtype) == (mx.uint32, mx.uint32)
        return mx.array(reference.gumbel_argmax(np.array(logits), scale, *arguments)), mx.zeros(len(positions))

    monkeypatch.setattr(noise_kernel, "available", lambda: True)
    monkeypatch.setattr(noise_kernel, "gumbel_argmax", stand_in)
    the_round = draw.round_position
    given = mx.array(the_round, mx.uint32) if in_graph and the_round is not None else the_round
    source = noise.NoiseSource(draw.seed, draw.logits.shape[1])
    ids = source.argmax(mx.array(draw.logits), draw.inverse_temperature, draw.positions, draw.domain, given)
    np.testing.assert_array_equal(np.array(ids), draw.expected[0])


def test_a_draw_can_live_inside_a_graph(tmp_path: Path) -> None:
    """A graph that is being recorded raises an error at every evaluation."""
    source = noise.NoiseSource(SEED, 40)

    def draw(logits: mx.array, accepted: mx.array) -> list[mx.array]:
        return [
            source.argmax(logits, 1.25, [5]),
            source.argmax(logits, 1.25, (5 + accepted).reshape(1), "residual", 5),
            source.coins([5, 6], 5),
        ]

    mx.export_function(str(tmp_path / "draw.mlxfn"), draw, mx.zeros((1, 40)), mx.array(2, mx.uint32))


def test_a_row_without_a_finite_score_is_an_error_once_the_ids_are_read() -> None:
    logits = mx.array([[0.0, 1.0], [-np.inf, np.nan]])
    ids = noise.gumbel_argmax(logits, 1.0, SEED, [1, 2]).tolist()
    assert ids[1] == noise.NO_TOKEN
    noise.check_drawn(ids[:1])
    with pytest.raises(DraftlightError, match="no finite value"):
        noise.check_drawn(ids)
    with pytest.raises(DraftlightError, match="token 2 has no finite"):
        reference.gumbel_argmax(np.array(logits), 1.0, SEED, [1, 2])


def test_an_id_of_no_token_is_harmless_as_an_index() -> None:
    """It may be the index of an embedding in the same graph before it is checked."""
    assert mx.arange(5)[mx.array([noise.NO_TOKEN])].tolist() == [4]


def test_coins_are_24_bits_of_the_first_word() -> None:
    source = noise.NoiseSource(SEED, 10)
    many = list(range(500))
    expected = []
    for position in many:
        word = reference.words(reference.stream_key(SEED, position, "coin", 3), 1)[0]
        expected.append(float(word >> np.uint32(8)) * 2.0**-24)
    assert [noise.coin(SEED, position, 3) for position in many] == expected
    assert source.coins(many, 3).tolist() == expected
    assert source.coins(many[:5], 3).tolist() == expected[:5]
    assert source.coins(mx.array(many, mx.uint32), mx.array(3)).tolist() == expected
    assert source.coins([9]).tolist() == [noise.coin(SEED, 9)] == [noise.coin(SEED, 9, 9)]
    assert source.coins([9], 3).dtype == mx.float32


def rows_to_draw_from(vocab_size: int) -> dict[str, np.ndarray]:
    """Returns rows with different kinds of winners: tokens near the best one, or tokens that win only by rare noise."""
    generator = np.random.default_rng(vocab_size)
    usual = generator.normal(0.0, 2.0, vocab_size)
    peaked, masked, alone = usual.copy(), usual.copy(), np.full(vocab_size, -np.inf)
    peaked[7] = 25.0
    masked[generator.random(vocab_size) < 0.99] = -np.inf
    alone[-1] = -3.0
    ties = np.where(generator.random(vocab_size) < 0.01, 3.0, -9.0)
    few = np.full(vocab_size, -np.inf)
    few[:100], few[3] = -4.4, 0.0
    return {
        "usual": usual,
        "peaked": peaked,
        "flat": usual * 0.01,
        "broad": usual * 0.5,
        "two levels": np.where(generator.random(vocab_size) < 0.3, 4.5, 0.0),
        "a few below": few,
        "far below": np.where(np.arange(vocab_size) == 3, 0.0, -7.5),
        "masked": masked,
        "one": alone,
        "none": np.full(vocab_size, -np.inf),
        "ties": ties,
        "large": usual * 1e6,
        "a NaN": np.where(np.arange(vocab_size) == 9, np.nan, usual),
        "infinite": np.where(np.arange(vocab_size) == 9, np.inf, usual),
    }


def differing_draws(vocab_size: int, seeds: int) -> list[str]:
    """Returns the rows whose draw or margin differs from that of all scores, each with its noise."""
    found = []
    for name, row in rows_to_draw_from(vocab_size).items():
        logits = row.astype(np.float32)
        for seed in range(seeds):
            with np.errstate(invalid="ignore", over="ignore"):
                scores = logits * np.float32(1.25) + reference.gumbel(seed, 5, vocab_size)
                scores[np.isnan(scores)] = -np.inf
                second, best = np.sort(scores)[-2:]
                wanted = (int(scores.argmax()) if np.isfinite(best) else noise.NO_TOKEN, best - second)
            words = reference.words(reference.stream_key(seed, 5), vocab_size)
            try:
                found_here = reference.draw(logits, 1.25, words)
            except ValueError:  # in mutants: no token is left that could win
                found.append(name)
                continue
            if not np.array_equal(found_here, wanted, equal_nan=True):
                found.append(name)
    return found


@pytest.mark.parametrize("vocab_size", [12, 5_000, 20_001])
def test_pruned_draw_equals_the_full_draw(vocab_size: int) -> None:
    assert differing_draws(vocab_size, seeds=25) == []


def test_too_low_a_noise_bound_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    least = reference.score_limit
    monkeypatch.setattr(reference, "score_limit", lambda reached: least(reached) + 3)
    assert {"peaked", "usual"} <= set(differing_draws(5_000, seeds=25))


def test_omitted_rare_words_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "RARE_WORD", 0)
    monkeypatch.setattr(reference, "score_limit", lambda reached: 0.0)
    assert "flat" in differing_draws(5_000, seeds=25)


@pytest.mark.parametrize("spread", [0.0, 0.3, 1.0, 5.0])
@pytest.mark.parametrize("masked", [0.0, 0.5])
def test_few_tokens_get_noise_even_in_flat_rows(masked: float, spread: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a draw takes nearly twice as long."""
    generator = np.random.default_rng(5)
    logits = generator.normal(0.0, spread, 50_000).astype(np.float32)
    logits[generator.random(logits.size) < masked] = -np.inf
    given, units = [], reference.gumbel_units
    monkeypatch.setattr(reference, "gumbel_units", lambda drawn: given.append(drawn.size) or units(drawn))
    for position in range(5):
        reference.draw(logits, 0.5, reference.words(reference.stream_key(3, position), logits.size))
    assert 0 < sum(given) / 5 < logits.size / 40


def test_noise_falls_as_the_word_grows() -> None:
    generator = np.random.default_rng(6)
    sizes = generator.integers(0, 2**32, 300_000, dtype=np.uint32) >> generator.integers(0, 32, 300_000, dtype=np.uint32)
    near = np.arange(reference.RARE_WORD - 50_000, reference.RARE_WORD + 50_000, dtype=np.uint32)
    drawn = np.sort(np.concatenate([sizes, ~sizes, near]))
    assert (np.diff(reference.gumbel_units(drawn)) <= 0).all()
    rarest = reference.gumbel_units(np.array([reference.RARE_WORD], np.uint32))[0] * reference.UNIT
    assert rarest == pytest.approx(reference.RARE_NOISE, abs=0.01) and rarest < reference.RARE_NOISE


@pytest.fixture
def drawn_positions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The positions whose words numpy drew, in order."""
    asked: list[int] = []
    original = reference.words
    positions = {reference.stream_key(SEED, position): position for position in range(20)}
    positions |= {reference.stream_key(SEED, position, "draft", 3): position for position in range(20)}

    def counting(key: tuple[int, int], vocab_size: int) -> reference.Words:
        asked.append(positions[key])
        return original(key, vocab_size)

    monkeypatch.setattr(reference, "words", counting)
    return asked


def test_a_shared_row_is_drawn_once_for_both_sides_and_for_the_next_round(drawn_positions: list[int]) -> None:
    source = noise.NoiseSource(SEED, 64)
    logits = np.zeros(64, np.float32)
    first = {position: source.draw(logits, 1.0, position, "shared", 10) for position in (10, 11, 12)}
    assert {position: source.draw(logits, 1.0, position, "shared", 10) for position in (10, 11, 12, 13)}.items() >= first.items()
    assert first[11][0] == int(reference.gumbel(SEED, 11, 64).argmax())
    del drawn_positions[-1]  # drawn by the reference
    source.forget_before(12)
    assert source.draw(logits, 1.0, 12, "shared", 12) == first[12]
    assert drawn_positions == [10, 11, 12, 13]
    assert source.cached_rows().keys() == {12, 13}
    source.draw(logits, 1.0, 11, "shared", 12)
    assert drawn_positions == [10, 11, 12, 13, 11]


def test_rows_of_other_domains_are_not_kept(drawn_positions: list[int]) -> None:
    source = noise.NoiseSource(SEED, 64)
    for _ in range(2):
        source.draw(np.zeros(64, np.float32), 1.0, 3, "draft", 3)
    assert drawn_positions == [3, 3] and not source.cached_rows()


def test_long_lists_of_positions_give_the_same_rows() -> None:
    source = noise.NoiseSource(SEED, 5)
    positions = list(range(noise.ROWS_BY_NUMPY + 1))
    for domain in noise.DOMAINS:
        together = np.array(source.rows(positions, domain, 4))
        alone = np.stack([reference.gumbel(SEED, position, 5, domain, 4) for position in positions])
        np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range_is_refused(seed: int) -> None:
    for attempt in (
        lambda: noise.NoiseSource(seed, 5),
        lambda: noise.gumbel(seed, 0, 5),
        lambda: noise.gumbel(seed, mx.array(0), 5),
        lambda: noise.coin(seed, 0),
    ):
        with pytest.raises(ValueError, match="seed must be from 0 to 2"):
            attempt()


def test_impossible_draws_are_refused() -> None:
    source = noise.NoiseSource(SEED, 5)
    with pytest.raises(ValueError, match="domain must be one of shared, draft, coin, residual"):
        source.rows([1], "target")
    with pytest.raises(ValueError, match="positions must be from 0"):
        source.rows([-1])
    with pytest.raises(ValueError, match="positions must be from 0"):
        noise.coin(SEED, 2**32)
    with pytest.raises(ValueError, match="vocab_size must be from 1"):
        noise.NoiseSource(SEED, 0)
    with pytest.raises(ValueError, match=r"logits must be \(rows, 5\)"):
        source.argmax(mx.zeros((1, 6)), 1.0, [1])
    with pytest.raises(ValueError, match="one per row: 2 for 1 rows"):
        source.argmax(mx.zeros((1, 5)), 1.0, [1, 2])


def test_a_foreign_table_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damaged = bytearray(reference.TABLE_FILE.read_bytes())
    damaged[40_000] ^= 1
    monkeypatch.setattr(reference, "TABLE_FILE", tmp_path / "gumbel_table.bin")
    with pytest.raises(DraftlightError, match="missing"):
        reference.load_table.__wrapped__()
    (tmp_path / "gumbel_table.bin").write_bytes(damaged)
    with pytest.raises(DraftlightError, match="damaged"):
        reference.load_table.__wrapped__()
