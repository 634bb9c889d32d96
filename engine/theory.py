"""Public import path of the closed forms: acceptance in `engine.rounds.theory`, trees in `engine.rounds.tree_theory`."""

from engine.rounds.theory import gumbel_probability, match_probability, rejection_probability
from engine.rounds.tree_theory import expected_tokens, gumbel_coverage, match_coverage, optimal_tree, tree_bound

__all__ = [
    "expected_tokens",
    "gumbel_coverage",
    "gumbel_probability",
    "match_coverage",
    "match_probability",
    "optimal_tree",
    "rejection_probability",
    "tree_bound",
]
