"""The device that MLX computes on, and its consequences: read from MLX, with stand-ins for GPUs that are not here."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest

from engine.files import hub, library, memory
from engine.machine import device as devices
from engine.machine import host
from engine.models import loading
from engine.runtime.mlx_backend import MlxBackend
from tests.engine import tiny_models

GPUS: dict[str, dict[str, Any]] = {
    "metal": {"device_name": "Apple M4 Max", "max_recommended_working_set_size": 2**36, "memory_size": 2**37},
    "cuda": {"device_name": "NVIDIA H100 80GB HBM3", "free_memory": 2**36, "total_memory": 2**37},
}
"""Device information as MLX reports it (mlx/backend/metal/device_info.cpp and mlx/backend/cuda/device_info.cpp)."""


@pytest.fixture(params=GPUS)
def gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    kind: str = request.param
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(mx.gpu))
    monkeypatch.setattr(mx.metal, "is_available", lambda: kind == "metal")
    monkeypatch.setattr(mx, "device_info", lambda: GPUS[kind])
    return kind


def test_gpu_is_recognised_with_name_and_memory(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx, "get_active_memory", lambda: 3000)
    monkeypatch.setattr(mx, "get_cache_memory", lambda: 500)
    # NVIDIA reports the memory that is free now, so memory held by MLX must be added.
    expected = 2**36 if gpu == "metal" else 2**36 + 3500
    assert devices.device() == (gpu, GPUS[gpu]["device_name"], expected)
    assert not host.computes_on_host()
    backend = MlxBackend()
    assert backend.device() == GPUS[gpu]["device_name"]
    assert backend.free_memory() == expected - 3500


def test_memory_is_kept_resident_on_a_mac_only(gpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(mx, "set_wired_limit", asked.append)
    monkeypatch.setattr(mx, "synchronize", lambda: None)
    loading.keep_resident()
    assert len(asked) == (gpu == "metal")


@pytest.mark.skipif(devices.kind() != "cpu", reason="this machine has a GPU")
def test_the_cpu_leaves_its_memory_to_the_system() -> None:
    found = devices.device()
    assert (found.kind, found.memory) == ("cpu", None)
    assert found.name


@pytest.mark.gpu
def test_this_gpu_says_its_name_and_memory() -> None:
    found = devices.device()
    assert found.kind in GPUS and found.name and found.memory is not None
    assert found.memory > 2**30


def test_memory_need_depends_on_the_device(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are expanded to float32 only on the CPU; values cached for one device do not apply to another."""
    path = tiny_models.write_gguf(tmp_path / "model.gguf")
    offered = SimpleNamespace(
        config={"quantization": {"bits": 4}},
        safetensors=SimpleNamespace(parameters={"U32": 1000}),
        siblings=[SimpleNamespace(rfilename="model.safetensors", size=4500, lfs=None, blob_id="")],
    )
    needs = {}
    for kind in ("cpu", "cuda", "metal", "cpu"):
        for module in (library, hub):
            monkeypatch.setattr(module, "device_kind", lambda kind=kind: kind)
        (found,) = (model for model in library.find([path.parent]) if model.target == str(path))
        needs[kind] = (found.need, library.expanded_need(4500, "Q4_0", 4.5), hub._need(offered))
    assert needs["cuda"] == needs["metal"]
    assert needs["cpu"][1:] == (32_000, 4 * 8000)
    assert needs["cuda"][2] == 4500
    assert all(cpu > gpu for cpu, gpu in zip(needs["cpu"], needs["cuda"], strict=True))


@pytest.mark.parametrize("told", [("NVIDIA H100 80GB HBM3", 2**36), None])
def test_with_mlx_for_cuda_the_memory_that_counts_is_the_gpus(
    told: tuple[str, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory.nvidia, "gpu", lambda: told)
    assert memory.available_memory() != 2**36
    monkeypatch.setattr(memory, "device_kind", lambda: "cuda")
    assert memory.available_memory() == (told and told[1])
