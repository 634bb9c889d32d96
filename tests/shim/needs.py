"""Skip conditions of the kernel tests, with the reasons that they print."""

from __future__ import annotations

import platform

import pytest

from tests.shim import execute

needs_compiler = pytest.mark.skipif(
    execute.compiler() is None or platform.system() != "Linux",
    reason="runs the Metal source as C++, which needs a C++ compiler on Linux (apt-get install clang)",
)
needs_clang = pytest.mark.skipif(
    execute.address_space_compiler() is None, reason="needs clang, which knows address spaces (apt-get install clang)"
)
