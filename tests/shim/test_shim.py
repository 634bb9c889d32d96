"""The shim is as strict as Metal: where it differs from C++, how much memory there is, and what it cannot see in a source."""

from __future__ import annotations

import re
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest

from tests.shim import execute
from tests.shim.generated import Call, generated_calls
from tests.shim.needs import needs_compiler

EXTREMES = """[[kernel]] void extremes(
  const device float* a [[buffer(0)]],
  const device float* b [[buffer(1)]],
  device float* most [[buffer(2)]],
  device float* least [[buffer(3)]],
  uint3 thread_position_in_threadgroup [[thread_position_in_threadgroup]]) {
  const uint thread_index = thread_position_in_threadgroup.x;
  most[thread_index] = metal::max(a[thread_index], b[thread_index]);
  least[thread_index] = metal::min(a[thread_index], b[thread_index]);
}
"""
PRAGMA = "#pragma METAL fp contract(off)"


def extremes(shim: Path, folder: Path) -> bool:
    """Whether max and min are those of IEEE 754's maxNum and minNum, as numpy's fmax and fmin are, operands that are no numbers
    included."""
    values = np.array([-np.inf, -1.5, 0.0, 2.0, np.inf, np.nan], np.float32)
    a, b = (np.ascontiguousarray(each.ravel()) for each in np.meshgrid(values, values))
    a, b = (np.resize(each, 64) for each in (a, b))  # whole simdgroups
    arrays = {"a": a, "b": b, "most": np.zeros_like(a), "least": np.zeros_like(a)}
    call = Call(EXTREMES, ["a", "b"], ["most", "least"], dict.fromkeys(arrays, (64,)), (64, 1, 1), (64, 1, 1))
    execute.run(call, execute.compile_kernels([EXTREMES], folder, shim)["launch_0"], arrays, "forward")
    expected = np.fmax(a, b), np.fmin(a, b)
    return all(np.array_equal(arrays[name], each, equal_nan=True) for name, each in zip(("most", "least"), expected, strict=True))


@needs_compiler
def test_max_and_min_leave_out_what_is_not_a_number(tmp_path: Path) -> None:
    assert extremes(execute.SHIM, tmp_path)


@needs_compiler
@pytest.mark.parametrize("name", ["max", "min"])
def test_a_comparison_in_their_place_is_noticed(name: str, tmp_path: Path) -> None:
    """What C++ makes of a comparison: the second operand, whichever of the two is no number."""
    compared = re.sub(rf"inline float {name}\(.*\n", "", execute.SHIM.read_text(encoding="utf-8"))
    shim = tmp_path / "compared.hpp"
    shim.write_text(compared, encoding="utf-8")
    assert not extremes(shim, tmp_path)


def sources() -> dict[str, str]:
    """Every kernel as MLX gives it to Metal."""
    calls = [*generated_calls(1, 1000, mx.float32), *generated_calls(9, 1000, mx.float16)]
    return {f"{index} {execute.parameters(call.source)[0]}": call.source for index, call in enumerate(calls)}


def test_every_kernel_of_the_project_is_among_these() -> None:
    root = Path(__file__).parents[2]
    files = [path for folder in ("app", "engine") for path in (root / folder).rglob("*.py")]
    named = {name for path in files for name in re.findall(r'name="(draftlight_\w+)"', path.read_text(encoding="utf-8"))}
    made = sum(path.read_text(encoding="utf-8").count("mx.fast.metal_kernel(") for path in files)
    assert made == len(named) == 2
    assert all(any(name in source for source in sources().values()) for name in named)


def forbids_contraction(source: str) -> bool:
    """Whether no line of the project's own code stands before the pragma. No C++ compiler obeys it, so that the shim cannot tell
    when it is missing."""
    lines = source.splitlines()
    own = next(index for index, line in enumerate(lines) if "GUMBEL" in line)
    return PRAGMA in lines[:own]


def test_every_source_forbids_contraction() -> None:
    assert all(forbids_contraction(source) for source in sources().values())


def test_a_source_that_allows_contraction_is_noticed() -> None:
    for source in sources().values():
        assert not forbids_contraction(source.replace(PRAGMA, ""))
        assert not forbids_contraction(source.replace(PRAGMA, "").replace("[[kernel]]", f"{PRAGMA}\n[[kernel]]"))


@needs_compiler
def test_every_kernel_fits_the_memory_of_a_threadgroup(tmp_path: Path) -> None:
    taken = []
    for source in sources().values():
        taken.append(execute.compile_kernels([source], tmp_path).threadgroup_bytes())
    assert min(taken) == 0 < max(taken) < 1024  # the second kernel of a draw has none


@needs_compiler
def test_one_that_takes_more_is_refused(tmp_path: Path) -> None:
    source = generated_calls(1, 1000, mx.float32)[0].source
    larger = source.replace("shared_scores[GUMBEL_SIMDGROUPS]", "shared_scores[8192u]")
    assert larger != source
    with pytest.raises(execute.TooMuchMemory):
        execute.compile_kernels([larger], tmp_path)
