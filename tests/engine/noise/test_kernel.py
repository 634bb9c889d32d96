"""The Metal kernel's own source, run as C++ here and by Metal on a Mac, draws exactly what numpy draws."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
import pytest

from engine.machine.device import kind
from engine.noise import kernel as noise_kernel
from engine.noise import reference
from tests.crossings import crossed
from tests.shim import cases, execute
from tests.shim.generated import Call, generated_calls
from tests.shim.needs import needs_clang, needs_compiler

DTYPES = {"float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}
NAMES: dict[Any, cases.Dtype] = {mx.float32: "float32", mx.float16: "float16", mx.bfloat16: "bfloat16"}
TABLE = cases.draws()


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernel")


@cache
def calls_for(rows: int, vocab_size: int, dtype: str, splits: int | None) -> list[Call]:
    return generated_calls(rows, vocab_size, DTYPES[dtype], splits)


def stream_of(draw: cases.Draw) -> list[int]:
    follows = draw.domain != "shared" and draw.round_position is not None
    return [draw.seed >> 32, draw.seed & 0xFFFFFFFF, reference.DOMAINS[draw.domain], int(follows), draw.round_position or 0]


def drawn_in_cpp(
    draw: cases.Draw, build: Path, order: execute.Order = "forward", mutation: tuple[str, str] | None = None
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Returns ids and margins from both kernels, run in sequence through the shim. `mutation`: (text, replacement) in the
    source."""
    rows, vocab_size = draw.logits.shape
    calls = calls_for(rows, vocab_size, draw.dtype, draw.splits)
    sources = [call.source.replace(*mutation) if mutation else call.source for call in calls]
    library = execute.compile_kernels(sources, build)
    arrays: dict[str, npt.NDArray[Any]] = {
        "logits": cases.raw(draw),
        "inverse_temperature": np.array([draw.inverse_temperature], np.float32),
        "positions": np.array(draw.positions, np.uint32),
        "stream": np.array(stream_of(draw), np.uint32),
        "table": np.array(reference.load_table()),
    }
    for index, call in enumerate(calls):
        for name in call.outputs:
            dtype = {"split_ids": np.uint32, "ids": np.int32}.get(name, np.float32)
            # Garbage in uninitialised memory: a slot that no thread writes must not look like a result.
            arrays[name] = np.frombuffer(b"\x7f" * 4 * int(np.prod(call.shapes[name])), dtype).reshape(call.shapes[name]).copy()
        execute.run(call, library[f"launch_{index}"], arrays, order)
    return arrays["ids"], arrays["margins"]


@needs_compiler
@pytest.mark.parametrize(
    ("draw", "order"), crossed(TABLE, ["forward", "backward"], together=1), ids=lambda value: getattr(value, "name", value)
)
def test_the_source_run_as_cpp_draws_what_numpy_draws(draw: cases.Draw, order: execute.Order, build: Path) -> None:
    ids, margins = drawn_in_cpp(draw, build, order)
    expected_ids, expected_margins = draw.expected
    np.testing.assert_array_equal(ids, expected_ids)
    np.testing.assert_array_equal(margins, expected_margins)


@pytest.mark.metal
@pytest.mark.parametrize("draw", TABLE, ids=lambda draw: draw.name)
def test_metal_draws_what_numpy_draws(draw: cases.Draw) -> None:
    logits = mx.array(draw.logits).astype(DTYPES[draw.dtype])
    stream = mx.array(stream_of(draw), mx.uint32)
    positions = mx.array(draw.positions, mx.uint32)
    ids, margins = noise_kernel.gumbel_argmax(logits, draw.inverse_temperature, positions, stream, draw.splits)
    expected_ids, expected_margins = draw.expected
    np.testing.assert_array_equal(np.array(ids), expected_ids)
    np.testing.assert_array_equal(np.array(margins), expected_margins)


@pytest.mark.metal
def test_draws_run_in_the_kernel_on_a_gpu() -> None:
    assert noise_kernel.available()


@pytest.mark.skipif(kind() == "metal", reason="this machine has Metal")
def test_without_metal_the_kernel_is_not_chosen() -> None:
    assert not noise_kernel.available()


def _agrees_afresh() -> bool:
    return noise_kernel._agrees.__wrapped__()


def drawn_by_numpy(logits: mx.array, scale: float, positions: mx.array, stream: mx.array) -> tuple[mx.array, mx.array]:
    """Returns the output of a correct kernel for the draws of the self-check."""
    rows, the_round = np.array(logits.astype(mx.float32)), stream.tolist()[4]
    draw = cases.Draw(
        "", rows, inverse_temperature=scale, seed=2**33 + 5, first_position=0, domain="draft", round_position=the_round
    )
    assert draw.positions == positions.tolist() and stream_of(draw) == stream.tolist()
    ids, margins = draw.expected
    return mx.array(ids), mx.array(margins)


def test_a_kernel_is_trusted_when_its_first_draws_are_the_references(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise_kernel, "gumbel_argmax", drawn_by_numpy)
    assert _agrees_afresh()


WRONG_WHERE: dict[str, Callable[[mx.array, mx.array], bool]] = {
    "everywhere": lambda logits, positions: True,
    "in one row": lambda logits, positions: logits.shape[0] == 1,
    "in rows in constant memory": lambda logits, positions: logits.shape[0] == 4,
    "in eight rows and more": lambda logits, positions: logits.shape[0] >= 8,
    "in many splits": lambda logits, positions: noise_kernel.split_count(*logits.shape) >= 8,
    "in float16": lambda logits, positions: logits.dtype == mx.float16,
    "in bfloat16": lambda logits, positions: logits.dtype == mx.bfloat16,
}


@pytest.mark.parametrize("where", WRONG_WHERE)
@pytest.mark.parametrize("what", ["ids", "margins"])
def test_a_kernel_that_draws_something_else_is_left_out(
    where: str, what: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One wrong compiled variant is enough to reject the kernel."""

    def drawn(logits: mx.array, scale: float, positions: mx.array, stream: mx.array) -> tuple[mx.array, mx.array]:
        ids, margins = drawn_by_numpy(logits, scale, positions, stream)
        if WRONG_WHERE[where](logits, positions):
            ids, margins = (ids + 1, margins) if what == "ids" else (ids, margins + 1e-6)
        return ids, margins

    monkeypatch.setattr(noise_kernel, "gumbel_argmax", drawn)
    assert not _agrees_afresh()
    assert "does not draw the same tokens" in caplog.text


def test_a_kernel_that_does_not_compile_is_left_out(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("Unable to build metal library from source")

    monkeypatch.setattr(noise_kernel, "gumbel_argmax", broken)
    assert not _agrees_afresh()
    assert "Unable to build" in caplog.text


CONTRACTED = ("return tempered + noise;", "return __builtin_fmaf(logit, inverse_temperature, noise);")


@needs_compiler
@pytest.mark.parametrize("mutation", [None, CONTRACTED], ids=["as it stands", "contracted"])
def test_first_draw_detects_a_contracted_kernel(
    mutation: tuple[str, str] | None, build: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Draws as a driver would that ignores the pragma, from the kernel's own source. A random row would not show the
    difference."""
    asked: list[npt.NDArray[np.float32]] = []

    def in_cpp(logits: mx.array, scale: float, positions: mx.array, stream: mx.array) -> tuple[mx.array, mx.array]:
        with monkeypatch.context() as real:
            real.setattr(noise_kernel, "gumbel_argmax", bound)  # generating the source calls it
            asked.append(np.array(logits.astype(mx.float32)))
            draw = cases.Draw("first draw", asked[-1], NAMES[logits.dtype], scale, 2**33 + 5, 0, "draft", stream.tolist()[4])
            assert draw.positions == positions.tolist() and stream_of(draw) == stream.tolist()
            ids, margins = drawn_in_cpp(draw, build, mutation=mutation)
        return mx.array(ids), mx.array(margins)

    bound = noise_kernel.gumbel_argmax
    monkeypatch.setattr(noise_kernel, "gumbel_argmax", in_cpp)
    assert _agrees_afresh() == (mutation is None)
    assert ("does not draw the same tokens" in caplog.text) == (mutation is not None)
    assert np.isfinite(asked[0]).sum(axis=1).min() > 1000, "every row leaves many tokens to be drawn"


def test_hard_rows_hold_what_their_names_promise() -> None:
    names, logits = cases.hard_rows()
    ids = dict(zip(names, cases.Draw("hard", logits).expected[0].tolist(), strict=True))
    refused = {name for name, token in ids.items() if token == -1}
    assert refused == {
        "all masked",
        "nothing is a number",
        "masked or not a number",
        "an infinite logit",
        "too large to temper",
    }
    assert ids["only the first"] == 0
    assert ids["only the last"] == cases.HARD_VOCABULARY - 1
    for name in ("every score tied", "every score tied but the first", "a later simdgroup ties", "tied high ids"):
        row = logits[names.index(name)]
        unmasked = np.flatnonzero(np.isfinite(row))
        assert unmasked.size >= 3
        assert ids[name] == unmasked[0]


def test_a_row_is_cut_into_more_splits_the_fewer_rows_there_are() -> None:
    assert noise_kernel.split_count(1, 151_936) == 75
    assert noise_kernel.split_count(16, 151_936) == 32
    assert noise_kernel.split_count(1, 1) == 1
    assert noise_kernel.split_count(2000, 151_936) == 1


def test_contraction_is_off_before_the_first_line_of_code() -> None:
    """C++ compilers ignore the pragma, so the shim cannot detect that it is missing."""
    code = [line for line in noise_kernel.sections()["header"].splitlines() if line and not line.startswith("//")]
    assert code[0] == "#pragma METAL fp contract(off)"


# Possible mistakes in a kernel: (name, source, replacement). Each must change a draw of `mutation_draws`.
BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"
MUTATIONS = [
    ("no barrier after the key", f"{BARRIER}\nconst uint2 key", "const uint2 key"),
    ("no barrier before the last reduction", f"{BARRIER}\nif (thread_index == 0u)", "if (thread_index == 0u)"),
    ("a barrier that some threads skip", BARRIER, f"if (thread_index != 3u) {BARRIER}"),
    ("ties go to the highest id", "b.id < a.id", "b.id > a.id"),
    ("ties go to the later side", "b.score > a.score ||", "b.score >= a.score ||"),
    ("ties go to the earlier side", " || (b.score == a.score && b.id < a.id)", ""),
    ("second best forgets the beaten side", "metal::max(a.second, b.second)", "b.second"),
    ("second best forgets the loser", "metal::max(other ? a.score : b.score, metal::max(a.second, b.second))", "a.second"),
    ("an odd vocabulary loses its last token", "(vocabulary + 1u) / 2u", "vocabulary / 2u"),
    ("an odd vocabulary reads into the next row", "token + 1u < vocabulary", "true"),
    ("a masked token takes its neighbour along", "first == -INFINITY && second", "first == -INFINITY || second"),
    ("a masked first token takes the second along", "first == -INFINITY && second == -INFINITY", "first == -INFINITY"),
    ("a masked second token takes the first along", "first == -INFINITY && second == -INFINITY", "second == -INFINITY"),
    ("splits lose the remainder", "(pairs + splits - 1u) / splits", "pairs / splits"),
    ("a split ends one pair early", "(split + 1u) * share, pairs)", "(split + 1u) * share - 1u, pairs)"),
    ("a split starts one pair late", "split * share + thread_index", "split * share + thread_index + 1u"),
    ("the last split leaves the row", "metal::min((split + 1u) * share, pairs)", "(split + 1u) * share"),
    ("threads step too far", "pair += GUMBEL_THREADS", "pair += 2u * GUMBEL_THREADS"),
    ("threads step one too far", "pair += GUMBEL_THREADS", "pair += GUMBEL_THREADS + 1u"),
    ("words swapped", "gumbel_units(words.x, table)", "gumbel_units(words.y, table)"),
    ("second counter off", "pair + 0x20000u", "pair + 0x10000u"),
    ("counter from the split", "uint2(pair, pair", "uint2(pair - split * share, pair"),
    (
        "a wrong rotation",
        "26u), 6u);\n  x = uint2(x.x + key.y, x.y + third + 1u)",
        "25u), 6u);\n  x = uint2(x.x + key.y, x.y + third + 1u)",
    ),
    ("a round too few", "return uint2(x.x + third, x.y + key.x + 5u)", "return uint2(x.x + third, x.y + key.x + 4u)"),
    ("key parity", "0x1BD11BDAu", "0x1BD11BDBu"),
    ("seed words swapped", "uint2(stream[0], stream[1])", "uint2(stream[1], stream[0])"),
    ("domain forgotten", "uint2(positions[row], stream[2])", "uint2(positions[row], 0u)"),
    ("round forgotten", "if (stream[2] != 0u)", "if (false)"),
    ("round counts where it is shared", "if (stream[2] != 0u)", "if (true)"),
    ("position in place of the round", "stream[3] != 0u ? stream[4] : positions[row]", "positions[row]"),
    ("no round means round 0", "stream[3] != 0u ? stream[4] : positions[row]", "stream[4]"),
    ("every row at the first position", "positions[row], stream[2]", "positions[0], stream[2]"),
    ("contracted product and sum", *CONTRACTED),
    ("sum in half precision", "return tempered + noise;", "return float(long((tempered + noise) * 1024)) / 1024;"),
    ("temperature forgotten", "logit * inverse_temperature", "logit"),
    ("a wrong unit", "1.0f / 524288.0f", "1.0f / 524287.0f"),
    ("conversion rounds", "distance & ~(distance >> 24u)", "distance"),
    ("the upper half read as the lower", "upper ? 16384u - node : node", "node"),
    ("a node off in the upper half", "upper ? 16384u - node : node", "upper ? 16383u - node : node"),
    ("interpolation away from the middle", "upper ? 16383u - node : node + 1u", "upper ? 16385u - node : node + 1u"),
    ("no interpolation", "* fraction + 2048", "* 0 + 2048"),
    ("interpolation not rounded", "* fraction + 2048", "* fraction"),
    ("a fraction bit lost", "& 4095u", "& 4094u"),
    ("half a simdgroup", "uint distance = 16u", "uint distance = 8u"),
    ("neighbouring lanes forgotten", "distance > 0u", "distance > 1u"),
    ("a simdgroup forgotten", "group < GUMBEL_SIMDGROUPS", "group < GUMBEL_SIMDGROUPS - 1u"),
    ("the second simdgroup forgotten", "uint group = 1u", "uint group = 2u"),
    ("splits beyond 32 forgotten", "split += 32u", "split += 64u"),
    ("splits of another row", "other.id = split_ids[row * splits + split]", "other.id = split_ids[split]"),
    ("no sign of a row without a finite score", "finite ? int(best.id) : -1", "int(best.id)"),
    ("only plus infinity is refused", "const bool finite = (", "const bool finite = best.score == -INFINITY || ("),
]


@cache
def mutation_draws() -> list[cases.Draw]:
    """Returns draws that one kernel source can run: more than eight rows in float32."""
    _, hard = cases.hard_rows()
    random = np.random.default_rng(8).normal(scale=1.5, size=(16, 5000)).astype(np.float32)
    # Two splits of 1250 pairs, processed in steps of 256.
    at_borders = np.zeros_like(random)
    borders = [0, 1, 510, 511, 512, 513, 1022, 1023, 1024, 1025, 2498, 2499, 2500, 2501, 4998, 4999]
    at_borders[np.arange(16), borders] = 30
    odd = np.ascontiguousarray(random[:, :1001])
    return [
        cases.Draw("hard", hard, splits=5),
        cases.Draw("winners at borders", at_borders, splits=2),
        cases.Draw("many splits", random, splits=50),
        cases.Draw("round counts", odd, domain="draft", round_position=12, splits=2),
        cases.Draw("no round", odd, domain="residual", splits=3),
        cases.Draw("shared with a round", odd, round_position=12, splits=3),
        cases.Draw("long splits", random, inverse_temperature=0.3, splits=2),
    ]


def caught(mutation: tuple[str, str] | None, build: Path) -> str | None:
    """Returns the first draw that differs from the reference, or None."""
    for draw in mutation_draws():
        expected_ids, expected_margins = draw.expected
        for order in ("forward", "backward"):
            try:
                ids, margins = drawn_in_cpp(draw, build, order, mutation)
            except execute.Hang:
                return f"{draw.name}, {order}: threads wait for ever"
            if not (np.array_equal(ids, expected_ids) and np.array_equal(margins, expected_margins, equal_nan=True)):
                return f"{draw.name}, {order}"
    return None


@needs_compiler
def test_the_draws_for_mutations_pass_unmutated(build: Path) -> None:
    assert caught(None, build) is None


@needs_compiler
@pytest.mark.parametrize(
    ("before", "after"),
    [pytest.param(*rest, id=what, marks=pytest.mark.full if at % 3 else ()) for at, (what, *rest) in enumerate(MUTATIONS)],
)
def test_a_wrong_kernel_is_caught(before: str, after: str, build: Path) -> None:
    split_call, row_call = calls_for(16, 5000, "float32", None)
    assert before in split_call.source or before in row_call.source
    assert caught((before, after), build) is not None


@needs_clang
@pytest.mark.parametrize("rows", [1, 16])
@pytest.mark.parametrize("dtype", DTYPES)
def test_address_spaces_are_not_mixed(rows: int, dtype: str, build: Path) -> None:
    """One row of two tokens is passed in constant memory, sixteen long rows in device memory."""
    for call in calls_for(rows, 2 if rows == 1 else 1000, dtype, None):
        verdict = execute.check_address_spaces(call.source, build)
        assert verdict.returncode == 0, verdict.stderr


@needs_clang
def test_a_small_input_given_to_a_device_pointer_is_caught(build: Path) -> None:
    split_call, _ = calls_for(1, 2, "float32", None)
    wrong = split_call.source.replace("const uint vocabulary =", "const device float* mixed = logits;\nconst uint vocabulary =")
    assert execute.check_address_spaces(wrong, build).returncode != 0
