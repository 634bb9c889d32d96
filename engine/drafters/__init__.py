"""Drafters: whatever proposes tokens. A new one is a file here and a line in `engine.drafter_kinds`.

`base` holds the interface and the pen that draws for a drafter. Does not live here: judging, rules and noise, of which a drafter
knows nothing, and the weights of a head (`engine.models.head_model`) or block
(`engine.models.block_model`).
"""

from engine.drafters.base import Drafter, DraftPen, Proposals
from engine.drafters.block import BlockDrafter
from engine.drafters.draft_model import DraftModel
from engine.drafters.feature_head import FeatureHead
from engine.drafters.ngram import NGram
from engine.drafters.ngram_mod import NGramMod

__all__ = ["BlockDrafter", "DraftModel", "DraftPen", "Drafter", "FeatureHead", "NGram", "NGramMod", "Proposals"]
