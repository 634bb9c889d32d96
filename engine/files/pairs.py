"""The catalogue of draft models and published heads that are known to fit targets, with sources: `assets/drafters/pairs.json`.

It identifies models by name, so it can only suggest. When both models are loaded, `engine.models.pair_check` compares their
vocabularies entry by entry. No MLX.
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
    """A draft model or head for a kind of target.

    Attributes:
        targets, drafters: regular expressions for names in the form of `plain`.
        drafts_for: display name of the targets. title: display name of the draft model.
        repository: of the draft model on the Hub; empty if its source does not name it in full, so that it is only recognised
            on this machine. measured: a sentence about published measurements and their author, or empty.
        source: reference for the pair.
        kind: "model", or "mtp" or "eagle3" for a folder that holds only such a head.
    """

    targets: str
    drafts_for: str
    drafters: str
    title: str
    repository: str
    measured: str
    source: str
    kind: str = "model"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A pair for a target. `local_model`: the draft model if it is on this machine."""

    pair: Pair
    local_model: LibraryModel | None


@lru_cache(maxsize=1)
def catalogue() -> tuple[Pair, ...]:
    """Returns all known pairs, better ones first."""
    stored = json.loads(CATALOGUE.read_text(encoding="utf-8"))
    return tuple(Pair(**entry) for entry in stored["pairs"])


@dataclass(frozen=True, slots=True)
class Recommended:
    """A downloadable draft model that is known to fit some targets.

    Attributes:
        drafts_for: display names of those targets. measured: sentences about published measurements with them.
        weights: bytes of the weights, judging by its name; None if the name does not state the size.
    """

    repository: str
    title: str
    drafts_for: tuple[str, ...]
    measured: tuple[str, ...]
    weights: int | None


def recommended() -> tuple[Recommended, ...]:
    """Returns each downloadable drafter of the catalogue once, in the catalogue's order, without asking the Hub."""
    by_repository: dict[str, list[Pair]] = {}
    for pair in filter(lambda pair: pair.repository, catalogue()):
        by_repository.setdefault(pair.repository, []).append(pair)
    return tuple(
        Recommended(
            name,
            pairs[0].title,
            tuple(pair.drafts_for for pair in pairs),
            tuple(pair.measured for pair in pairs if pair.measured),
            _weights(name) if pairs[0].kind == "model" else None,
        )
        for name, pairs in by_repository.items()
    )


def _weights(name: str) -> int | None:
    """Returns the bytes of the weights by a name such as "Qwen3-0.6B-4bit"; None for other names.

    mlx-lm adds 16 bits of scale and 16 of bias per 64 weights.
    """
    match = re.search(r"-(\d+(?:\.\d+)?)([bm])-(?:.*-)?(\d)bit$", name, flags=re.IGNORECASE)
    if match is None:
        return None
    return round(float(match[1]) * (1e9 if match[2] in "bB" else 1e6) * (int(match[3]) + 0.5) / 8)


def plain(name: str) -> str:
    """Returns a model's name in the form that the patterns match: lower case, with hyphens between its parts."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower())


def suggestions(target: LibraryModel, models: Iterable[LibraryModel]) -> list[Suggestion]:
    """Returns the pairs for a target, those with a draft model on this machine first; if several match, the smallest.

    Args:
        models: the models on this machine.
    """
    name = plain(target.name)
    usable = sorted(
        (model for model in models if not model.problem and model.target != target.target), key=lambda other: other.size
    )
    matching = [
        Suggestion(
            pair,
            next(
                (
                    model
                    for model in usable
                    if model.only_drafts == (pair.kind != "model") and re.search(pair.drafters, plain(model.name))
                ),
                None,
            ),
        )
        for pair in catalogue()
        if re.search(pair.targets, name) and not (pair.kind == "mtp" and target.head == "yes")
    ]
    return sorted(
        (found for found in matching if found.local_model is not None or found.pair.repository),
        key=lambda found: found.local_model is None,
    )
