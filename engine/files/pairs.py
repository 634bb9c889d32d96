"""Which draft models are known to fit which targets, and who says so: the catalogue in `assets/drafters/pairs.json`.

It knows models by their names, so it only suggests; whether two fit is checked, entry by entry, when both are loaded
(`engine.models.pair_check`). No MLX.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from engine.files.library import LibraryModel

CATALOGUE = Path(__file__).resolve().parents[2] / "assets" / "drafters" / "pairs.json"


@dataclass(frozen=True, slots=True)
class Pair:
    """A kind of target and a draft model for it.

    Attributes:
        targets, drafters: patterns of names as `plain` gives them. drafts_for: the targets, and title: the draft model, as people
            call them.
        repository: where it can be downloaded. measured: what who has measured, in a sentence; empty if nothing is known.
        source: where the pair is described.
    """

    targets: str
    drafts_for: str
    drafters: str
    title: str
    repository: str
    measured: str
    source: str


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A pair for a target. here: the draft model, if it is on this machine."""

    pair: Pair
    here: LibraryModel | None


@lru_cache(maxsize=1)
def catalogue() -> tuple[Pair, ...]:
    """Every pair that is known, better ones first."""
    stored = json.loads(CATALOGUE.read_text(encoding="utf-8"))
    return tuple(Pair(**entry) for entry in stored["pairs"])


@dataclass(frozen=True, slots=True)
class Recommended:
    """A draft model that is known to fit some targets, and can be downloaded.

    Attributes:
        drafts_for: those targets, as people call them. measured: what who has measured with each of them.
        weights: bytes, as many as its name says; None where that says nothing.
    """

    repository: str
    title: str
    drafts_for: tuple[str, ...]
    measured: tuple[str, ...]
    weights: int | None


def recommended() -> tuple[Recommended, ...]:
    """Every draft model of the catalogue once, in its order. What is known of it without asking the Hub."""
    by_repository: dict[str, list[Pair]] = {}
    for pair in catalogue():
        by_repository.setdefault(pair.repository, []).append(pair)
    return tuple(
        Recommended(
            name,
            pairs[0].title,
            tuple(pair.drafts_for for pair in pairs),
            tuple(pair.measured for pair in pairs if pair.measured),
            _weights(name),
        )
        for name, pairs in by_repository.items()
    )


def _weights(name: str) -> int | None:
    """Bytes of the weights by a name such as "Qwen3-0.6B-4bit"; mlx-lm keeps 16 bits of scale and of bias for 64 weights."""
    found = re.search(r"-(\d+(?:\.\d+)?)([bm])-(?:.*-)?(\d)bit$", name, flags=re.IGNORECASE)
    if found is None:
        return None
    return round(float(found[1]) * (1e9 if found[2] in "bB" else 1e6) * (int(found[3]) + 0.5) / 8)


def plain(name: str) -> str:
    """A model's name as the patterns expect it: lower case, with hyphens between its parts, whoever wrote it."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower())


def suggestions(target: LibraryModel, models: Iterable[LibraryModel]) -> list[Suggestion]:
    """Draft models that are known to fit a target, those on this machine first, of several forms of one the smallest.

    Args:
        models: what is on this machine.
    """
    name = plain(target.name)
    usable = sorted((model for model in models if not model.problem and model.target != target.target), key=lambda one: one.size)
    found = [
        Suggestion(pair, next((model for model in usable if re.search(pair.drafters, plain(model.name))), None))
        for pair in catalogue()
        if re.search(pair.targets, name)
    ]
    return sorted(found, key=lambda suggestion: suggestion.here is None)
