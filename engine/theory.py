"""Public import path of the closed-form acceptance probabilities, which are in `engine.rounds.theory`."""

from engine.rounds.theory import gumbel_probability, match_probability, rejection_probability

__all__ = ["gumbel_probability", "match_probability", "rejection_probability"]
