"""A Mac without a GPU gets a sentence instead of an abort."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from engine import mlx_import
from engine.errors import DraftlightError
from engine.mlx_backend import MlxBackend


class Framework:
    """Metal and Core Foundation as far as they are called, with a number of devices."""

    def __init__(self, devices: int | None) -> None:
        self.released = 0

        class Count:
            def __call__(self, array: int) -> int:
                assert array == 4096 and devices is not None
                return devices

        class Copy:
            def __call__(self) -> int | None:
                return None if devices is None else 4096

        class Release:
            def __call__(released, array: int) -> None:
                self.released += 1

        self.MTLCopyAllDevices, self.CFArrayGetCount, self.CFRelease = Copy(), Count(), Release()


@pytest.mark.parametrize(("devices", "usable"), [(1, True), (2, True), (0, False), (None, False)])
def test_a_mac_without_a_gpu_is_told_so_before_mlx_is_imported(
    monkeypatch: pytest.MonkeyPatch, devices: int | None, usable: bool
) -> None:
    framework = Framework(devices)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(mlx_import.ctypes, "CDLL", lambda name: framework)
    if usable:
        mlx_import.require_device()
    else:
        with pytest.raises(DraftlightError, match="offers no GPU to this session"):
            mlx_import.require_device()
    assert framework.released == (devices is not None)


def test_the_engine_asks_before_it_imports_mlx(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise DraftlightError("no GPU")

    monkeypatch.setattr("engine.mlx_backend.require_device", refuse)
    with pytest.raises(DraftlightError, match="no GPU"):
        MlxBackend()


@pytest.mark.skipif(sys.platform != "darwin", reason="asks macOS")
def test_metal_lists_what_this_mac_has() -> None:
    assert mlx_import.metal_devices() > 0


def test_elsewhere_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> Any:
        raise AssertionError(name)

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(mlx_import.ctypes, "CDLL", fail)
    mlx_import.require_device()
