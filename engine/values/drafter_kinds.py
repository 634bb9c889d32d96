"""The kinds of drafters. A new one is a file in `engine/drafters/` and a line here; nothing else has to know it.

The file has the drafter (`engine.drafters.base.Drafter`) and a function that builds it (`engine.drafters.loaded.Build`); the line
says the rest. Window and command line read the line, so nothing here imports MLX: the engine thread imports the file when it is
first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Fits = Literal["any", "builtin", "vocabulary", "own"]
"""Which targets a drafter can draft for: any; the built-in one; those with the same tokens; the one it was trained for."""


@dataclass(frozen=True, slots=True)
class DrafterKind:
    """What is known of a drafter before anything is loaded.

    Attributes:
        name: by which it is selected, typed and stored; of a kind that is selected by path, the model type in its config.json.
        title: as a person would say it.
        does: one sentence for the user.
        build: "module:function", a `Build` of `engine.drafters.loaded`; empty where nothing drafts, or others do.
        fits: which targets.
        has_distribution: whether proposals are drawn from a distribution q; otherwise they are copied, and q is 1.
        sets_own_length: whether it decides itself how many tokens to propose where gamma is automatic.
        benched: whether `draftlight bench` measures it unless told what to measure.
        members: of one that chooses among others in each round, which.
        follows_text: whether q at a position depends on the text before it alone, and not on where its round began.
    """

    name: str
    title: str
    does: str
    build: str
    fits: Fits = "any"
    has_distribution: bool = True
    sets_own_length: bool = False
    benched: bool = False
    members: tuple[str, ...] = ()
    follows_text: bool = False


NO_DRAFTER, AUTO, NGRAM, HEAD, SMALL_DRAFT, BLOCK = "none", "auto", "ngram", "head", "builtin-draft", "builtin-block"
HEAD_FOLDER = "draftlight_head"
BLOCK_FOLDER = "draftlight_block"
CUT_DRAFT = "draftlight_cut"
"""Model types that the config.json states of a head, a block drafter, and a draft model that shares its target's embedding."""

DRAFTERS: dict[str, DrafterKind] = {
    kind.name: kind
    for kind in (
        DrafterKind(NO_DRAFTER, "None", "The target generates every token itself.", "", has_distribution=False),
        DrafterKind(
            AUTO,
            "Auto",
            "In each round whatever gains most: n-gram copies, the trained head, a draft model, or nothing.",
            "",
            sets_own_length=True,
            benched=True,
            members=(NGRAM, HEAD, SMALL_DRAFT),
        ),
        DrafterKind(
            NGRAM,
            "N-gram",
            "Copies what followed the same words earlier in the conversation.",
            "engine.drafters.ngram:build",
            has_distribution=False,
            sets_own_length=True,
            benched=True,
        ),
        DrafterKind(
            "ngram-mod",
            "N-gram hashing (ngram-mod)",
            "Copies only long repeats, found by hashing n-grams as llama.cpp does.",
            "engine.drafters.ngram_mod:build",
            has_distribution=False,
            sets_own_length=True,
        ),
        DrafterKind(
            HEAD,
            "Trained head",
            "One small layer that reads the target's own features; also copies what followed the same words earlier.",
            "engine.drafters.feature_head:build",
            fits="builtin",
            sets_own_length=True,
            benched=True,
        ),
        DrafterKind(
            SMALL_DRAFT,
            "Small draft model",
            "A small language model distilled from the target.",
            "engine.drafters.draft_model:build",
            fits="builtin",
            sets_own_length=True,
            follows_text=True,
        ),
        DrafterKind(
            BLOCK,
            "Block drafter",
            "Fills four tokens in one pass, the first as the trained head does (DFlash); also copies what followed earlier.",
            "engine.drafters.block:build",
            fits="builtin",
            sets_own_length=True,
        ),
    )
}
"""Those with a name, in the order in which they are offered."""

BY_PATH: dict[str, DrafterKind] = {
    kind.name: kind
    for kind in (
        DrafterKind(
            HEAD_FOLDER,
            "Head",
            "One small layer that reads its target's features, made by draftlight train-drafter.",
            "engine.drafters.feature_head:build",
            fits="own",
            sets_own_length=True,
        ),
        DrafterKind(
            BLOCK_FOLDER,
            "Block drafter",
            "Fills a whole block of tokens in one pass from its target's features (DFlash).",
            "engine.drafters.block:build",
            fits="own",
            sets_own_length=True,
        ),
        DrafterKind(
            "",
            "Draft model",
            "A smaller language model.",
            "engine.drafters.draft_model:build",
            fits="vocabulary",
            sets_own_length=True,
            follows_text=True,
        ),
    )
}
"""Those that are selected by path, by the model type that the folder's config.json states; "" is any other model."""


def type_stated(config: Mapping[str, object]) -> str:
    """The model type that a config.json states. Published block drafters state that of their layers, and are known by other
    marks: see `engine.models.block_config`."""
    names = config.get("architectures")
    named = isinstance(names, list) and any("DFlash" in str(name) or "DSpark" in str(name) for name in names)
    is_block = named or "dflash_config" in config or "speculators_model_type" in config
    return BLOCK_FOLDER if is_block else str(config.get("model_type", ""))


def drafter_kind(name: str, model_type: object = "") -> DrafterKind:
    """The kind of a drafter. A path is a model's, unless the type that its config.json states (`type_stated`) says otherwise."""
    return DRAFTERS.get(name) or BY_PATH.get(str(model_type), BY_PATH[""])


def may_fit(name: str, target: str) -> bool:
    """False where names alone tell that a drafter cannot draft for a target."""
    return drafter_kind(name).fits != "builtin" or target == "builtin"


def single_drafter(target: str) -> str:
    """The drafter where it has to be the same one throughout: the built-in target's own, and for any other what drafts for every
    target."""
    return HEAD if may_fit(HEAD, target) else NGRAM


def default_drafter() -> str:
    """The drafter where none was asked for: the choice among those that fit, made in each round."""
    return AUTO


def benched(target: str) -> tuple[str, ...]:
    """What `draftlight bench` measures on a target where nothing was asked for; nothing to choose among needs no measuring."""
    fitting = {name: kind for name, kind in DRAFTERS.items() if kind.benched and may_fit(name, target)}
    choices = {name: sum(may_fit(member, target) for member in kind.members) for name, kind in fitting.items()}
    return tuple(name for name, kind in fitting.items() if not kind.members or choices[name] > 1)
