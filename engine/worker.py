"""The public path of the engine's thread, which is `engine.runtime.worker`."""

from engine.runtime.worker import Engine

__all__ = ["Engine"]
