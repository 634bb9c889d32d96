"""The public path of traces, which are read and written in `engine.rounds.trace`."""

from engine.rounds.trace import Trace, Writer, read

__all__ = ["Trace", "Writer", "read"]
