"""What a model takes is counted from headers and is what it takes; what the machine has left is what its system says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import save_model

from engine.files.memory import MemoryNeed, available_memory
from engine.models.loading import load
from tests.engine import tiny_models

GPU = "engine.models.loading.computes_on_host"


def needed(path: Path) -> tuple[MemoryNeed, Any]:
    """The need that is reported before loading, and the model."""
    told: list[MemoryNeed] = []
    model = load(path.as_posix(), make_room=told.append).model
    (need,) = told
    return need, model


def bytes_of(model: nn.Module) -> int:
    return sum(array.nbytes for _, array in tree_flatten(model.parameters()))


def quantised_folder(folder: Path, bits: int) -> Path:
    """Four or eight bits in groups of 32, but for one layer with groups of its own; norms in half precision."""
    model = load(tiny_models.write_folder(folder / "source").as_posix()).model
    model.set_dtype(mx.float16)
    own = {"group_size": 64, "bits": 8}
    nn.quantize(
        model,
        class_predicate=lambda name, layer: (
            hasattr(layer, "to_quantized") and (own if name.endswith("o_proj") else {"group_size": 32, "bits": bits})
        ),
    )
    owned = {f"model.layers.{layer}.self_attn.o_proj": own for layer in range(tiny_models.LAYERS)}
    written = tiny_models.write_folder(folder / "folder", quantization={"group_size": 32, "bits": bits, **owned})
    (written / "model.safetensors").unlink()
    save_model(written, model)
    return written


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("kind", tiny_models.KINDS)
def test_the_weights_of_a_gguf_file_take_what_its_header_says(
    kind: str, on_gpu: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GPU, lambda: not on_gpu)
    need, model = needed(tiny_models.write_gguf(tmp_path / "model.gguf", kind))
    norms = 2 * (2 * tiny_models.LAYERS + 1) * tiny_models.HIDDEN  # in float32 in the file, and perhaps in half precision after
    assert need.weights - bytes_of(model) in ((0, norms) if on_gpu else (0,))


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("bits", [0, 4, 8])
def test_the_weights_of_a_folder_take_what_its_headers_say(
    bits: int, on_gpu: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = quantised_folder(tmp_path, bits) if bits else tiny_models.write_folder(tmp_path)
    monkeypatch.setattr(GPU, lambda: not on_gpu)
    need, model = needed(folder)
    assert need.weights == bytes_of(model)
    assert need.stored == sum(array.nbytes for array in mx.load((folder / "model.safetensors").as_posix()).values())


def test_the_cache_takes_what_the_configuration_says(tmp_path: Path) -> None:
    need, model = needed(tiny_models.write_folder(tmp_path))
    cache = make_prompt_cache(model)
    model(mx.array([[3] * tiny_models.CONTEXT]), cache=cache)
    held = [array[..., : layer.offset, :] for layer in cache for array in (layer.keys, layer.values)]
    assert need.cache == sum(array.nbytes for array in held)


def test_nothing_is_read_of_a_model_that_is_refused(tmp_path: Path) -> None:
    class Refused(Exception):
        pass

    def refuse(need: MemoryNeed) -> None:
        raise Refused

    gguf, folder = tiny_models.write_gguf(tmp_path / "model.gguf"), tiny_models.write_folder(tmp_path / "folder")
    before = mx.get_active_memory()
    for path in (gguf, folder):
        with pytest.raises(Refused):
            load(path.as_posix(), make_room=refuse)
    assert mx.get_active_memory() == before


def test_a_refusal_gives_the_figures_and_says_what_to_do() -> None:
    words = MemoryNeed("Large", 43_000_000_000, 200_000_000, 6_700_000_000, True).refusal(21_900_000_000)
    for fact in ("43.2 GB", "21.9 GB", "6.4 times the 6.7 GB", "load it anyway"):
        assert fact in words
    assert "expanded" not in MemoryNeed("Large", 8, 0, 8, True).refusal(1)


def system(root: Path, available: int, groups: str = "", files: dict[str, str] | None = None) -> Path:
    """A root with what the kernel says: kilobytes available, the groups of the process, and what stands about them."""
    written = {"proc/meminfo": f"MemTotal: 99 kB\nMemAvailable:   {available} kB\n", "proc/self/cgroup": groups, **(files or {})}
    for name, text in written.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_kernel_says_what_is_available(tmp_path: Path) -> None:
    assert available_memory(system(tmp_path, 2000)) == 2000 * 1024


@pytest.mark.parametrize(
    ("outer", "inner", "left"), [("max", "1000000", 850_000), ("800000", "max", 250_000), ("max", "max", 2048 * 1024)]
)
def test_the_narrowest_control_group_counts(outer: str, inner: str, left: int, tmp_path: Path) -> None:
    """Files in the cache that nobody has changed do not count as taken."""
    group = "sys/fs/cgroup/user/program"
    files = {
        "sys/fs/cgroup/user/memory.max": outer,
        "sys/fs/cgroup/user/memory.current": "600000",
        "sys/fs/cgroup/user/memory.stat": "anon 5\ninactive_file 50000\n",
        f"{group}/memory.max": inner,
        f"{group}/memory.current": "150000",
    }
    assert available_memory(system(tmp_path, 2048, "0::/user/program\n", files)) == left


def test_a_control_group_of_the_first_version_counts_too(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "500000",
        "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "100000",
        "sys/fs/cgroup/memory/job/memory.stat": "total_inactive_file 1000\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "7",
    }
    groups = "8:pids:/job\n4:cpu,memory:/job\n0::/\n"
    assert available_memory(system(tmp_path, 2048, groups, files)) == 401_000


def test_without_control_groups_all_memory_counts(tmp_path: Path) -> None:
    assert available_memory(tmp_path) == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
