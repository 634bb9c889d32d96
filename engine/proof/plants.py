"""Defects to plant on purpose: each is a mistake that was made by someone, and biases the text without making it look wrong."""

from __future__ import annotations

from engine.types import Plant

DESCRIPTIONS: dict[Plant, str] = {
    "shared-noise": "the ratio test draws its correction with the noise that the rejected proposal was drawn with",
    "residual-from-p": "a rejected proposal is replaced by a draw from p instead of from the residual",
    "stale-noise": "block verification keys its noise by position alone, so a later round reuses the discarded draws",
    "unfiltered-q": "the ratio test uses q from before the filter, not the filtered q that the proposal was drawn from",
    "dropped-draw": "a drafter that chooses its own draft length takes back its latest token if that token was unlikely",
}

NEEDS_DISTRIBUTION: tuple[Plant, ...] = ("shared-noise", "stale-noise", "unfiltered-q", "dropped-draw")
"""Without effect on a drafter whose proposals are deterministic."""
