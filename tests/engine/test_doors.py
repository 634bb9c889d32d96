"""The public paths of DESIGN section 4 give what the rooms behind them have, and MLX only where the names need it."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

DOORS = {
    "engine.worker": (("engine.runtime.worker", "Engine"),),
    "engine.decoding": (("engine.decode.decoding", "Control", "DecodingOptions", "decode"),),
    "engine.theory": (
        ("engine.rounds.theory", "gumbel_probability", "match_probability", "rejection_probability"),
        (
            "engine.rounds.tree_theory",
            "expected_tokens",
            "gumbel_coverage",
            "match_coverage",
            "optimal_tree",
            "tree_bound",
        ),
    ),
    "engine.trace": (("engine.rounds.trace", "Trace", "Writer", "read"),),
    "engine.metrics": (("engine.rounds.metrics", "Summary", "summarise"),),
    "engine.blas": (("engine.machine.blas", "prefer_fast_blas"),),
    "engine.noise": (
        (
            "engine.noise.source",
            "DOMAINS",
            "NO_TOKEN",
            "NoiseSource",
            "check_drawn",
            "coin",
            "gumbel",
            "gumbel_argmax",
        ),
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_public_path_gives_what_the_room_has(door: str) -> None:
    opened = import_module(door)
    assert sorted(opened.__all__) == sorted(name for _, *names in DOORS[door] for name in names)
    for room, *names in DOORS[door]:
        behind = import_module(room)
        assert all(getattr(opened, name) is getattr(behind, name) for name in names)


def test_a_name_that_the_noise_lacks_is_an_ordinary_error() -> None:
    with pytest.raises(ImportError, match="no_such_name"):
        exec("from engine.noise import no_such_name")


def test_what_is_plain_comes_without_mlx() -> None:
    """Importing a module runs the doors above it, which no import contract sees."""
    plain = "engine.types, engine.theory, engine.trace, engine.metrics, engine.noise.reference, engine.decode.run_control"
    code = f"import sys, {plain}; print({{'mlx', 'mlx.core', 'mlx_lm'}} & set(sys.modules))"
    root = Path(__file__).parents[2]
    shown = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True, timeout=120)
    assert shown.stdout.strip() == "set()"
