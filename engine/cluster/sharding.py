"""Splits a loaded model as mlx-lm does (`mlx_lm.utils.sharded_load`), and says why a model cannot be split.

Tensor: the model's own `shard` leaves every rank a part of each attention and feed-forward layer; all have the same logits.
Pipeline: each rank keeps some of the layers, rank 0 the last.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx_lm.tuner.lora import LoRALinear

from engine.cluster.group import Group
from engine.cluster.hosts import Sharding
from engine.cluster.split_model import LENGTH_ONLY_CACHES
from engine.models.loaded import LoadedModel
from engine.target.prompt_cache import leaves_of, make_prompt_cache
from engine.values.errors import DraftlightError
from engine.values.wording import amount, listed, noun

_GGUF_BYTES_READ = 2**16


def split(model: nn.Module, name: str, group: mx.distributed.Group, sharding: Sharding) -> None:
    """Reduces a model to the calling rank's part; its weights may be lazy.

    Raises:
        DraftlightError: it cannot be split in this way over this many ranks; says what to do.
    """
    reason = refusal(model, name, group.size(), sharding)
    if reason is not None:
        raise DraftlightError(reason)
    try:
        if sharding == "tensor":
            model.shard(group)
        else:
            model.model.pipeline(group)
        model(
            mx.array([[0]]), cache=make_prompt_cache(model)
        )  # builds the graph without computing it, which shows parts that do not fit
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        raise DraftlightError(
            f"{name} cannot be split over {amount(group.size(), 'rank')}: {error} Use another number of ranks, or a pipeline."
        ) from error


def refusal(model: nn.Module, name: str, ranks: int, sharding: Sharding) -> str | None:
    """Returns in sentences why a model cannot be split over `ranks` ranks; None if its settings allow it."""
    others = sorted({type(leaf).__name__ for leaf in leaves_of(make_prompt_cache(model)) if type(leaf) not in LENGTH_ONLY_CACHES})
    if others:
        return (
            f"{name} cannot be split: some of its layers keep something else than keys and values ({listed(others)}). "
            "Use it on one machine."
        )
    if any(isinstance(module, LoRALinear) for module in model.modules()):
        return f"{name} cannot be split: an adapter is applied to it. Fuse the adapter with mlx_lm.fuse first."
    if sharding == "pipeline":
        return _pipeline_refusal(model, name, ranks)
    if not hasattr(model, "shard"):
        other = " Use a pipeline." if hasattr(getattr(model, "model", None), "pipeline") else ""
        return f"{name} cannot be split by tensors: mlx-lm has no way to split models of its kind.{other}"
    return heads_reason(name, vars(model.args) if hasattr(model, "args") else {}, ranks)


def heads_reason(name: str, config: Mapping[str, Any], ranks: int) -> str | None:
    """Returns why the heads in a model's settings cannot be divided among `ranks` ranks; None if they can."""
    heads = {
        kind: count
        for kind, entry in (("attention heads", "num_attention_heads"), ("key and value heads", "num_key_value_heads"))
        if isinstance(count := config.get(entry), int) and count
    }
    if all(count % ranks == 0 for count in heads.values()):
        return None
    common = math.gcd(*heads.values())
    possible = [number for number in range(2, common + 1) if common % number == 0]
    described = " and ".join(f"{count} {kind}" for kind, count in heads.items())
    advice = f"Use {' or '.join(map(str, possible))} {noun(max(possible), 'rank')}" if possible else "It can only run on one rank"
    return f"{name} cannot be split by tensors over {ranks} {noun(ranks, 'rank')}: it has {described}. {advice}."


def _pipeline_refusal(model: nn.Module, name: str, ranks: int) -> str | None:
    if not hasattr(getattr(model, "model", None), "pipeline"):
        other = " Split it by tensors." if hasattr(model, "shard") else ""
        return f"{name} cannot be spread over a pipeline: mlx-lm has none for models of its kind.{other}"
    layers = len(model.layers)
    return (
        None if layers >= ranks else f"{name} has {amount(layers, 'layer')}, too few for a pipeline of {amount(ranks, 'rank')}."
    )


def fingerprint(model: LoadedModel) -> bytes:
    """Returns 32 bytes that differ between models: a hash of configuration, index, and names and sizes of the weight files.

    It is fast enough to be compared at every start, because it does not read the weights.
    """
    return fingerprint_of(Path(model.path), model.weight_files)


def fingerprint_of(path: Path, weight_files: tuple[Path, ...]) -> bytes:
    """Returns the `fingerprint` of a model that is not loaded."""
    digest = hashlib.sha256()
    for part in ("config.json", "model.safetensors.index.json"):
        if path.is_dir() and (path / part).is_file():
            digest.update((path / part).read_bytes())
    for file in sorted(weight_files):
        digest.update(f"{file.name} {file.stat().st_size}\n".encode())
        if file.suffix != ".safetensors":
            with file.open("rb") as opened:
                digest.update(opened.read(_GGUF_BYTES_READ))
    return digest.digest()


def agree(group: Group, mark: bytes, reason: str = "") -> tuple[int, str] | None:
    """Compares the fingerprints of all ranks. A rank that could not load gives an empty one and its reason.

    Returns:
        the first rank that could not load it, or loaded another model than rank 0, with its reason; None if all agree.
    """
    rows = group.exchange([len(mark), *np.frombuffer(mark, np.int32).tolist()])
    differing = [rank for rank in range(group.size) if not rows[rank][0] or (rows[rank] != rows[0]).any()]
    if not differing:
        return None
    reasons = group.texts(reason)
    return next(((rank, text) for rank, text in enumerate(reasons) if text), (differing[0], "It has another model there."))
