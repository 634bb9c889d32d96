"""The public path of an answer's figures, which are in `engine.rounds.metrics`."""

from engine.rounds.metrics import Summary, summarise

__all__ = ["Summary", "summarise"]
