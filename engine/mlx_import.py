"""Whether MLX can be imported here. Asked before it is: its library ends the process instead of raising an error."""

from __future__ import annotations

import ctypes
import sys

from engine.errors import DraftlightError

_METAL = "/System/Library/Frameworks/Metal.framework/Metal"
_CORE_FOUNDATION = "/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation"


def require_device() -> None:
    """Does nothing where MLX has a device to run on.

    Raises:
        DraftlightError: on a Mac that offers no GPU to this session, as over some remote connections or in a virtual
            machine. MLX would end the process with an NSRangeException while it is imported (ml-explore/mlx#3148).
    """
    if sys.platform == "darwin" and not metal_devices():
        raise DraftlightError(
            "macOS offers no GPU to this session, and MLX cannot start without one. In most virtual machines and over "
            "some remote connections that is so. Start Draftlight on the Mac itself, as a user who is logged in."
        )


def metal_devices() -> int:
    """Returns the number of GPUs that Metal lists for this process, in the way that MLX asks for them."""
    try:
        metal, foundation = ctypes.CDLL(_METAL), ctypes.CDLL(_CORE_FOUNDATION)
    except OSError:
        return 0
    metal.MTLCopyAllDevices.restype = ctypes.c_void_p
    foundation.CFArrayGetCount.argtypes, foundation.CFArrayGetCount.restype = [ctypes.c_void_p], ctypes.c_long
    foundation.CFRelease.argtypes = [ctypes.c_void_p]
    devices = metal.MTLCopyAllDevices()
    if not devices:
        return 0
    count: int = foundation.CFArrayGetCount(devices)
    foundation.CFRelease(devices)
    return count
