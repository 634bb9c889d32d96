"""Public import path of the engine's thread, which is in `engine.runtime.worker`."""

from engine.runtime.worker import Engine

__all__ = ["Engine"]
