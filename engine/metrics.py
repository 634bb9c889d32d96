"""Public import path of an answer's metrics, which are in `engine.rounds.metrics`."""

from engine.rounds.metrics import Summary, summarise

__all__ = ["Summary", "summarise"]
