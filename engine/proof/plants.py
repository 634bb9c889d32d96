"""Defects to plant on purpose: each is a mistake that was made by someone, and biases the text without making it look wrong."""

from __future__ import annotations

from engine.types import Plant

DESCRIPTIONS: dict[Plant, str] = {
    "shared-noise": "the ratio test draws its correction with the noise that the rejected proposal was drawn with",
    "residual-from-p": "a rejected proposal is replaced by a draw from p instead of what p has over q",
    "stale-noise": "block verification keys its noise by position alone, so that a later round meets the discarded draws again",
    "unfiltered-q": "the ratio test is told the q from before the filter that the proposal was drawn from",
    "dropped-draw": "a drafter that chooses its length takes back a newest token that it gave little chance",
}

NEEDS_DISTRIBUTION: tuple[Plant, ...] = ("shared-noise", "stale-noise", "unfiltered-q", "dropped-draw")
"""Without effect on a drafter whose proposals are deterministic."""
