"""The Metal kernel's own source, run as C++ here and by Metal on a Mac, sums up what numpy sums up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt
import pytest

from engine import theory
from engine.device import kind
from engine.rounds import group_kernel
from engine.rounds.group_kernel import GROUPS, MASS_UNIT, NO_RATIO
from tests.shim import execute
from tests.shim.generated import Call, generated_group_call
from tests.shim.needs import needs_clang, needs_compiler

Floats = npt.NDArray[np.float32]
Bits = npt.NDArray[np.uint32]
SIZES = ((1, 1, 1), (1, 2, 3), (3, 33, 2), (2, 1_000, 1), (4, 5_000, 3), (16, 1_001, 4), (1, 49_152, 7))
"""Rows, vocabulary, splits."""


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernel")


def sides(rows: int, vocab_size: int) -> tuple[Floats, Floats]:
    """Probabilities that agree, that hardly meet, and that stand on one side alone; most of some rows weigh nothing."""
    generator = np.random.default_rng([rows, vocab_size])
    logits = generator.normal(0.0, 4.0, (rows, vocab_size))
    other = logits + generator.normal(0.0, 1.0, logits.shape) * generator.choice([0.01, 1.0, 12.0], logits.shape)
    logits[:, 2::7] = other[:, 1::5] = -np.inf
    p, q = (np.exp(side - side.max(axis=-1, keepdims=True)) for side in (logits, other))
    return (p / p.sum(axis=-1, keepdims=True)).astype(np.float32), (q / q.sum(axis=-1, keepdims=True)).astype(np.float32)


def by_numpy(p: Floats, q: Floats) -> list[Bits]:
    """As `group_kernel.gathered`; of ratios those that count."""
    ratio = ((p + np.float32(theory.NO_MASS)) / (q + np.float32(theory.NO_MASS))).view(np.uint32)
    group = np.clip((ratio >> theory.DROPPED_BITS).astype(np.int64), theory.FIRST_GROUP, theory.LAST_GROUP) - theory.FIRST_GROUP
    masses = [(side * np.float32(1 / MASS_UNIT) + np.float32(0.5)).astype(np.uint32) for side in (p, q)]
    row, token = np.nonzero(masses[0] | masses[1])
    place, ratios = (row, group[row, token]), ratio[row, token]
    found = [np.full((len(p), GROUPS), start, np.uint32) for start in (0, 0, NO_RATIO, 0)]
    for held, mass in zip(found[:2], masses, strict=True):
        np.add.at(held, place, mass[row, token])
    np.minimum.at(found[2], place, ratios)
    np.maximum.at(found[3], place, ratios)
    return that_count(found)


def that_count(found: Sequence[npt.ArrayLike]) -> list[Bits]:
    """With ratios of 0 where they mean nothing."""
    p_masses, q_masses, least, most = (np.array(each) for each in found)
    counts = (p_masses | q_masses) > 0
    counts[:, -1] = False
    return [p_masses, q_masses, least * counts, most * counts]


@cache
def call_for(rows: int, vocab_size: int, splits: int) -> Call:
    return generated_group_call(rows, vocab_size, splits)


def in_cpp(
    p: Floats, q: Floats, splits: int, build: Path, order: execute.Order = "forward", mutation: tuple[str, str] | None = None
) -> list[Bits]:
    """The kernel run through the shim; `mutation` replaces a piece of source."""
    call = call_for(*p.shape, splits)
    source = call.source.replace(*mutation) if mutation else call.source
    library = execute.compile_kernels([source], build)
    arrays: dict[str, npt.NDArray[Any]] = {"p": p, "q": q}
    for name in call.outputs:
        shape = call.shapes[name]
        arrays[name] = np.frombuffer(b"\x7f" * 4 * int(np.prod(shape)), np.uint32).reshape(shape).copy()
    execute.run(call, library["launch_0"], arrays, order)
    p_masses, q_masses, least, most = (arrays[name] for name in call.outputs)
    sums = [each.sum(axis=1, dtype=np.uint32) for each in (p_masses, q_masses)]
    return that_count([*sums, least.min(axis=1), most.max(axis=1)])


@needs_compiler
@pytest.mark.parametrize("order", ["forward", "backward"])
@pytest.mark.parametrize(("rows", "vocab_size", "splits"), SIZES)
def test_the_source_run_as_cpp_sums_up_what_numpy_does(
    rows: int, vocab_size: int, splits: int, order: execute.Order, build: Path
) -> None:
    p, q = sides(rows, vocab_size)
    for found, right in zip(in_cpp(p, q, splits, build, order), by_numpy(p, q), strict=True):
        np.testing.assert_array_equal(found, right)


@pytest.mark.parametrize(("rows", "vocab_size", "splits"), SIZES)
def test_so_do_operations_of_mlx(rows: int, vocab_size: int, splits: int) -> None:
    p, q = sides(rows, vocab_size)
    for found, right in zip(that_count(group_kernel.by_scatter(mx.array(p), mx.array(q))), by_numpy(p, q), strict=True):
        np.testing.assert_array_equal(found, right)


@pytest.mark.gpu
@pytest.mark.parametrize(("rows", "vocab_size", "splits"), SIZES)
def test_a_gpu_sums_up_what_numpy_does(rows: int, vocab_size: int, splits: int) -> None:
    p, q = sides(rows, vocab_size)
    found = [np.array(each) for each in group_kernel.gathered(mx.array(p), mx.array(q))]
    assert group_kernel.alike(found, by_numpy(p, q))


@pytest.mark.metal
@pytest.mark.parametrize(("rows", "vocab_size", "splits"), SIZES)
def test_metal_sums_up_what_numpy_does(rows: int, vocab_size: int, splits: int) -> None:
    p, q = sides(rows, vocab_size)
    found = [np.array(each) for each in group_kernel.by_kernel(mx.array(p), mx.array(q), splits)]
    assert group_kernel.alike(found, by_numpy(p, q))


@pytest.mark.metal
def test_groups_are_summed_up_in_the_kernel_on_a_gpu() -> None:
    assert group_kernel.available()


@pytest.mark.skipif(kind() == "metal", reason="this machine has Metal")
def test_without_metal_the_kernel_is_not_chosen() -> None:
    assert not group_kernel.available()


def test_a_kernel_that_sums_up_something_else_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    agrees = group_kernel._agrees.__wrapped__
    monkeypatch.setattr(group_kernel, "by_kernel", group_kernel.by_scatter)
    assert agrees()
    for wrong in (
        lambda p, q: group_kernel.by_scatter(q, p),
        lambda p, q: group_kernel.by_scatter(p[:, :-1], q[:, :-1]),
        lambda p, q: (found := group_kernel.by_scatter(p, q))._replace(most=found.least),
    ):
        monkeypatch.setattr(group_kernel, "by_kernel", wrong)
        caplog.clear()
        assert not agrees()
        assert "sums up something else" in caplog.text

    def broken(p: mx.array, q: mx.array) -> None:
        raise RuntimeError("Unable to build metal library from source")

    monkeypatch.setattr(group_kernel, "by_kernel", broken)
    assert not agrees()
    assert "Unable to build" in caplog.text


def test_a_row_is_cut_into_more_splits_the_fewer_rows_there_are() -> None:
    assert group_kernel.split_count(4, 262_144) == 32
    assert group_kernel.split_count(16, 262_144) == 8
    assert group_kernel.split_count(1, 1) == group_kernel.split_count(500, 262_144) == 1


# What a wrong kernel could get wrong: (what, source, replaced by).
BARRIER = "threadgroup_barrier(mem_flags::mem_threadgroup);"
WRITING = "group < GROUPS; group += THREADS) {\n  p_masses"
MUTATIONS = [
    ("no barrier after memory is cleared", f"{BARRIER}\n\nconst uint share", "const uint share"),
    ("no barrier before sums are written", f"{BARRIER}\n\nconst uint first", "const uint first"),
    ("a barrier that some threads skip", BARRIER, f"if (thread_index != 3u) {BARRIER}"),
    ("memory is not cleared", "group < GROUPS; group += THREADS) {\n  metal::atomic_store", "false;) {\n  metal::atomic_store"),
    ("ratios begin with the largest", "&least_ratios[group], NO_RATIO", "&least_ratios[group], 0u"),
    ("most ratios begin with the largest", "&most_ratios[group], 0u", "&most_ratios[group], NO_RATIO"),
    ("the last groups are not written", WRITING, WRITING.replace("GROUPS;", "GROUPS - 200u;")),
    ("only the smallest ratios", "atomic_fetch_max_explicit", "atomic_fetch_min_explicit"),
    ("only the largest ratios", "atomic_fetch_min_explicit", "atomic_fetch_max_explicit"),
    ("splits lose the remainder", "(vocabulary + splits - 1u) / splits", "vocabulary / splits"),
    ("a split ends one token early", "(split + 1u) * share, vocabulary)", "(split + 1u) * share - 1u, vocabulary)"),
    ("a split starts one token late", "split * share + thread_index", "split * share + thread_index + 1u"),
    ("the last split leaves the row", "metal::min((split + 1u) * share, vocabulary)", "(split + 1u) * share"),
    ("threads step too far", "token += THREADS", "token += 2u * THREADS"),
    ("every row is the first", "const uint offset = row * vocabulary", "const uint offset = 0u * vocabulary"),
    ("masses are cut", "target * MASSES + 0.5f", "target * MASSES"),
    ("the drafter's masses are cut", "drafter * MASSES + 0.5f", "drafter * MASSES"),
    ("tokens of one side are left out", "target_mass == 0u && drafter_mass == 0u", "target_mass == 0u || drafter_mass == 0u"),
    ("the ratio is turned", "(target + NO_MASS) / (drafter + NO_MASS)", "(drafter + NO_MASS) / (target + NO_MASS)"),
    ("groups are twice as wide", "ratio >> DROPPED_BITS", "ratio >> (DROPPED_BITS + 1u)"),
    ("small ratios have no group", "ratio >> DROPPED_BITS, FIRST_GROUP)", "ratio >> DROPPED_BITS, FIRST_GROUP + 1u)"),
    ("large ratios have no group", ", LAST_GROUP) - FIRST_GROUP", ", LAST_GROUP - 1u) - FIRST_GROUP"),
    ("both sides are added to one", "&drafter_masses[group], drafter_mass", "&target_masses[group], drafter_mass"),
    ("the target's mass on both sides", "&drafter_masses[group], drafter_mass", "&drafter_masses[group], target_mass"),
    ("splits write to one place", "(row * splits + split) * GROUPS", "row * splits * GROUPS"),
]


@needs_compiler
@pytest.mark.parametrize(("before", "after"), [pytest.param(*rest, id=what) for what, *rest in MUTATIONS])
def test_a_wrong_kernel_is_caught(before: str, after: str, build: Path) -> None:
    p, q = sides(4, 5_000)
    right = by_numpy(p, q)
    assert before in call_for(4, 5_000, 3).source
    for order in ("forward", "backward"):
        try:
            found = in_cpp(p, q, 3, build, order, (before, after))
        except execute.Hang:
            return
        if not all(np.array_equal(one, other) for one, other in zip(found, right, strict=True)):
            return
    pytest.fail("nobody notices")


@needs_clang
@pytest.mark.parametrize(("rows", "vocab_size"), [(1, 2), (16, 1_000)])
def test_address_spaces_are_not_mixed(rows: int, vocab_size: int, build: Path) -> None:
    """One row of two tokens is passed in constant memory, sixteen long ones in device memory."""
    verdict = execute.check_address_spaces(call_for(rows, vocab_size, 1).source, build)
    assert verdict.returncode == 0, verdict.stderr
