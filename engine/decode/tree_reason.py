"""Why an answer drafts chains although a budget for trees is given."""

from __future__ import annotations

from engine.drafters.base import Drafter
from engine.models.loaded import LoadedModel
from engine.target.interface import TargetModel
from engine.target.quantised_cache import empty_cache
from engine.target.tree_pass import tree_check
from engine.types import DecodingOptions


def chains_reason(options: DecodingOptions, drafter: Drafter | None, target: LoadedModel | TargetModel) -> str:
    """Returns why an answer drafts chains, as a sentence for the user; empty if it drafts trees, or if nobody asked for them.

    The first call for a target or draft model reads a small tree and its paths with it (`engine.target.tree_pass`).
    """
    if not options.asks_for_trees or options.width == 1 or drafter is None:
        return ""
    if options.rule == "block":
        return "Block judges the proposals of a round as one chain, so no trees are drafted."
    if reason := drafter.tree_reason():
        return f"{drafter.name} drafts chains instead of trees: {reason}."
    name = target.name if isinstance(target, LoadedModel) else "The model"
    if reason := target_tree_reason(target, options.kv_bits):
        return f"Chains are drafted instead of trees, because {name} cannot read trees: {reason}."
    return ""


def target_tree_reason(target: LoadedModel | TargetModel, kv_bits: int | None) -> str:
    """Returns why a target cannot read trees, as the end of a sentence; empty if it can."""
    model, name = (target.model, target.name) if isinstance(target, LoadedModel) else (target, "The model")
    return tree_check(model, lambda: empty_cache(model, kv_bits, name), kv_bits).reason
