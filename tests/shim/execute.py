"""Compiles generated Metal source as C++ and runs it on numpy arrays."""

from __future__ import annotations

import ctypes
import hashlib
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tests.shim.generated import Call

SHIM = Path(__file__).with_name("metal.hpp")
MOST_THREADGROUP_BYTES = 32 * 1024
"""What every GPU of Apple's gives a threadgroup (Metal feature set tables, "Maximum total threadgroup memory allocation")."""
Order = Literal["forward", "backward"]

ATTRIBUTES = {
    "threadgroup_position_in_grid": "group",
    "threadgroups_per_grid": "groups",
    "thread_position_in_threadgroup": "(uint3{thread, 0, 0})",
    "thread_index_in_simdgroup": "(thread % shim::SIMDGROUP)",
    "simdgroup_index_in_threadgroup": "(thread / shim::SIMDGROUP)",
}

LAUNCH = """
static void** buffers;
static uint3 group, groups;

static void one_thread(uint thread) {{
  {name}({arguments});
}}

// Returns 0, or 1 when threads waited for others that had ended.
extern "C" __attribute__((visibility("default"))) int launch_{index}(
    void** given, uint groups_x, uint groups_y, uint threads, int backward) {{
  buffers = given;
  groups = uint3{{groups_x, groups_y, 1}};
  for (uint y = 0; y < groups_y; y++) {{
    for (uint x = 0; x < groups_x; x++) {{
      group = uint3{{x, y, 0}};
      if (__start_threadgroup_memory)
        __builtin_memset(__start_threadgroup_memory, 0x7F, __stop_threadgroup_memory - __start_threadgroup_memory);
      if (!shim::run_group(threads, backward, one_thread)) return 1;
    }}
  }}
  return 0;
}}
"""


def compiler() -> str | None:
    """A C++ compiler of this machine, or None."""
    return shutil.which("g++") or address_space_compiler() or shutil.which("c++")


def address_space_compiler() -> str | None:
    """A clang of this machine, which alone can check address spaces, or None."""
    return shutil.which("clang++") or next((found for v in range(22, 12, -1) if (found := shutil.which(f"clang++-{v}"))), None)


@dataclass(frozen=True)
class Parameter:
    type: str
    name: str
    attribute: str


def parameters(source: str) -> tuple[str, list[Parameter]]:
    """The kernel's name and the parameters of the signature that MLX wrote."""
    signature = re.search(r"\[\[kernel\]\] void (\w+)\(\n(.*?)\) \{\n", source, re.DOTALL)
    assert signature, "no kernel in the generated source"
    found = re.findall(r"^\s*(.+?) (\w+) \[\[(.+?)\]\],?$", signature[2], re.MULTILINE)
    return signature[1], [Parameter(*parts) for parts in found]


def as_cpp(sources: Sequence[str], shim: Path = SHIM) -> str:
    """Generated sources, each with a launcher and a namespace of its own, after the shim."""
    program = [f'#include "{shim}"']
    for index, source in enumerate(sources):
        name, listed = parameters(source)
        arguments = []
        for parameter in listed:
            buffer = re.fullmatch(r"buffer\((\d+)\)", parameter.attribute)
            arguments.append(f"({parameter.type})buffers[{buffer[1]}]" if buffer else ATTRIBUTES[parameter.attribute])
        launch = LAUNCH.format(name=name, arguments=", ".join(arguments), index=index)
        program.append(f"namespace kernel_{index} {{\n{source}\n{launch}\n}}")
    return "\n".join(program)


class TooMuchMemory(Exception):
    """Kernels take more threadgroup memory than a GPU has for a threadgroup, so Metal would refuse to run them."""


def compile_kernels(sources: Sequence[str], folder: Path, shim: Path = SHIM) -> ctypes.CDLL:
    """A shared library with launchers `launch_0`, `launch_1`, ...; compiled once per folder.

    Raises:
        TooMuchMemory: the threadgroup memory of all sources together does not fit one threadgroup.
    """
    program = as_cpp(sources, shim)
    library = folder / f"{hashlib.sha256(program.encode()).hexdigest()[:16]}.so"
    if not library.exists():
        text = library.with_suffix(".cpp")
        text.write_text(program)
        # No contraction, as the kernel's pragma asks; no fortified longjmp, which refuses to change stacks.
        flags = "-std=c++20 -Og -fPIC -shared -ffp-contract=off -fvisibility=hidden -U_FORTIFY_SOURCE -w"
        command = [str(compiler()), *flags.split(), str(text), "-o", str(library)]
        subprocess.run(command, check=True, capture_output=True, text=True)
    loaded = ctypes.CDLL(str(library))
    loaded.threadgroup_bytes.restype = ctypes.c_ulong
    if (taken := loaded.threadgroup_bytes()) > MOST_THREADGROUP_BYTES:
        raise TooMuchMemory(f"{taken} bytes")
    return loaded


def check_address_spaces(source: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Clang's verdict on the generated source when device, constant and threadgroup memory cannot be mixed."""
    text = folder / f"{hashlib.sha256(source.encode()).hexdigest()[:16]}-spaces.cpp"
    text.write_text(f'#include "{SHIM}"\n{source}')
    flags = "-std=c++20 -fsyntax-only -DSHIM_ADDRESS_SPACES -Wno-unknown-pragmas -Wno-ignored-attributes -Wno-unknown-attributes"
    return subprocess.run([str(address_space_compiler()), *flags.split(), str(text)], capture_output=True, text=True, check=False)


class Hang(Exception):
    """Some threads waited at a barrier or shuffle that others never reached."""


def run(call: Call, launch: Any, arrays: dict[str, npt.NDArray[Any]], order: Order) -> None:
    """Runs one call by its launcher; `arrays` holds every input and output by name, outputs are written in place.

    Raises:
        Hang: threads waited for others that had ended.
    """
    _, listed = parameters(call.source)
    passed = []
    for parameter in listed:
        if parameter.attribute.startswith("buffer"):
            shape = call.shapes.get(parameter.name.removesuffix("_shape"))
            passed.append(arrays.get(parameter.name, np.array(shape, np.int32)))
    assert all(array.flags.c_contiguous for array in passed)
    pointers = (ctypes.c_void_p * len(passed))(*[array.ctypes.data for array in passed])
    # As MLX launches: the grid counts threads, and a group is no larger than the grid.
    threads = min(call.threadgroup[0], call.grid[0])
    assert call.grid[0] % threads == 0
    assert call.threadgroup[1:] == (1, 1)
    if launch(pointers, call.grid[0] // threads, call.grid[1], threads, int(order == "backward")):
        raise Hang
