"""Drafters: everything that proposes tokens. A new one is a file here and an entry in `engine.values.drafter_kinds`.

`base` has the interface, and `sampler` samples for a drafter. Not here: judging, rules and noise, which a drafter does not know;
the profitable number of tokens (`engine.decode.policy`); and the weights of a head (`engine.models.head_model`) or block
(`engine.models.block_model`).
"""

from engine.drafters.base import Drafter
from engine.drafters.block import BlockDrafter
from engine.drafters.draft import Draft, DraftContext, DrafterCapabilities, DraftPlan, DraftTree
from engine.drafters.draft_model import DraftModel
from engine.drafters.feature_head import FeatureHead
from engine.drafters.ngram import NGram
from engine.drafters.ngram_mod import NGramMod
from engine.drafters.sampler import Sampler

__all__ = [
    "BlockDrafter",
    "Draft",
    "DraftContext",
    "DraftModel",
    "DraftPlan",
    "DraftTree",
    "Drafter",
    "DrafterCapabilities",
    "FeatureHead",
    "NGram",
    "NGramMod",
    "Sampler",
]
