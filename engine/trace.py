"""Public import path of reading and writing traces, which is in `engine.rounds.trace`."""

from engine.rounds.trace import Trace, Writer, read

__all__ = ["Trace", "Writer", "read"]
