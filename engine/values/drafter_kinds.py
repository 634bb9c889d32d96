"""The kinds of drafters. A new kind is a file in `engine/drafters/` and an entry here; no other module needs to change.

The file has the drafter (`engine.drafters.base.Drafter`) and a function that builds it (`engine.drafters.loaded.Build`); the
entry describes it. Window and command line use the entry, so nothing here imports MLX: the engine thread imports the file when
the drafter is first requested.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Fits = Literal["any", "builtin", "vocabulary", "own", "inside"]
"""The targets that a drafter can draft for: any; the built-in one; those with the same tokens; the one it was trained for; those
whose files have it inside."""


@dataclass(frozen=True, slots=True)
class DrafterKind:
    """Properties of a drafter that are known before anything is loaded.

    Attributes:
        name: the name by which it is selected, typed and stored; for a kind that is selected by path, the model type in its
            config.json.
        title: its name for people. short_title: the same where there is little room; empty if it is no shorter.
        does: one sentence for the user.
        build: "module:function", a `Build` of `engine.drafters.loaded`; empty for no drafter, and for one that chooses among
            others.
        fits: the targets it can draft for.
        has_distribution: whether proposals are drawn from a distribution q; otherwise they are copied, and q is 1.
        sets_own_length: whether it decides itself how many tokens to propose if gamma is automatic.
        benched: whether `draftlight bench` measures it by default.
        members: for a drafter that chooses among others in each round, the names of those. Of heads, it has the first that fits.
        follows_text: whether q at a position depends only on the text before it, and not on where its round began.
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
    short_title: str = ""


NO_DRAFTER, AUTO, NGRAM, HEAD, SMALL_DRAFT, BLOCK = "none", "auto", "ngram", "head", "builtin-draft", "builtin-block"
MTP = "mtp"
HEAD_FOLDER = "draftlight_head"
BLOCK_FOLDER = "draftlight_block"
CUT_DRAFT = "draftlight_cut"
"""Model types in the config.json of a head, of a block drafter, and of a draft model that shares its target's embedding."""
MTP_FOLDER, EAGLE_FOLDER = "mtp_head", "eagle3_head"
"""Results of `type_stated` for folders with a published head alone, whose model types are those of their targets or layers."""

DRAFTERS: dict[str, DrafterKind] = {
    kind.name: kind
    for kind in (
        DrafterKind(NO_DRAFTER, "None", "The target generates every token itself.", "", has_distribution=False),
        DrafterKind(
            AUTO,
            "Auto",
            "Uses in each round whichever gains most: n-gram copies, a head, a draft model, or nothing.",
            "",
            sets_own_length=True,
            benched=True,
            members=(NGRAM, HEAD, MTP, SMALL_DRAFT),
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
            short_title="N-gram hashing",
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
        DrafterKind(
            MTP,
            "MTP head of the model",
            "The layer that predicts the token after next, where the model has one; also copies what followed earlier.",
            "engine.drafters.head_probe:build_mtp",
            fits="inside",
            sets_own_length=True,
            short_title="MTP head",
        ),
    )
}
"""Drafters that are selected by name, in the order in which they are offered."""

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
            MTP_FOLDER,
            "MTP head",
            "The layer of a model that predicts the token after the next, in a folder of its own.",
            "engine.drafters.head_probe:build_mtp",
            fits="own",
            sets_own_length=True,
        ),
        DrafterKind(
            EAGLE_FOLDER,
            "EAGLE-3 head",
            "One small layer that reads its target's features (EAGLE-3).",
            "engine.drafters.head_probe:build_eagle3",
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
"""Drafters that are selected by path, keyed by the model type in the folder's config.json; "" stands for any other model."""


def type_stated(config: Mapping[str, object]) -> str:
    """Returns the model type of a config.json. Published drafters state the model type of their layers or their target, so they
    are recognised by other marks: see `engine.models.block_config`, `eagle3_config` there and `engine.files.mtp_files`."""
    names = config.get("architectures")
    architectures = [str(name) for name in names] if isinstance(names, list) else []
    of_speculators, model_type = str(config.get("speculators_model_type", "")), str(config.get("model_type", ""))
    if of_speculators == "mtp" or model_type.endswith(("_mtp", "_assistant")):
        return MTP_FOLDER
    if any("DFlash" in name or "DSpark" in name for name in architectures) or "dflash_config" in config:
        return BLOCK_FOLDER
    if of_speculators.startswith("eagle") or any("Eagle" in name for name in architectures) or "eagle_config" in config:
        return EAGLE_FOLDER
    if of_speculators:
        return BLOCK_FOLDER
    return EAGLE_FOLDER if "draft_vocab_size" in config and model_type != BLOCK_FOLDER else model_type


def drafter_kind(name: str, model_type: object = "") -> DrafterKind:
    """Returns the kind of a drafter. A path means a draft model, unless `model_type` (see `type_stated`) says otherwise."""
    return DRAFTERS.get(name) or BY_PATH.get(str(model_type), BY_PATH[""])


def may_fit(name: str, target: str) -> bool:
    """Returns False if the names alone show that a drafter cannot draft for a target."""
    fits = drafter_kind(name).fits
    return target == "builtin" if fits == "builtin" else fits != "inside" or target != "builtin"


def single_drafter(target: str) -> str:
    """Returns the drafter for uses that need the same one throughout: the built-in target's own head, for other targets n-gram
    lookup."""
    return HEAD if may_fit(HEAD, target) else NGRAM


def default_drafter() -> str:
    """Returns the drafter that is used if none is requested: the one that chooses in each round among those that fit."""
    return AUTO


def benched(target: str) -> tuple[str, ...]:
    """Returns the drafters that `draftlight bench` measures on a target by default, without a choice that has a single member."""
    fitting = {name: kind for name, kind in DRAFTERS.items() if kind.benched and may_fit(name, target)}
    choices = {
        name: sum(may_fit(member, target) and DRAFTERS[member].fits != "inside" for member in kind.members)
        for name, kind in fitting.items()
    }
    return tuple(name for name, kind in fitting.items() if not kind.members or choices[name] > 1)
