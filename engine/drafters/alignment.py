"""Checks whether a drafter's files correctly state how it reads its target, by a probe on a short text of the target's own.

A wrong layer, slot or mask raises no error: the text stays right, but hardly any proposal is accepted. So if the files do not
name exactly this target, settings next to the stated one are tried as well, teacher-forced on a text that the target writes. One
that clearly predicts the text better is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar, cast

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

from engine.drafters.base import always
from engine.machine.host import computes_on_host
from engine.models.block_config import BlockConfig
from engine.models.block_model import BlockModel
from engine.models.block_unroll import unroll_blocks
from engine.models.head_model import HeadModel
from engine.models.loaded import LoadedModel
from engine.target.interface import TargetModel
from engine.target.layer_taps import embedding_of, layer_count, tap, type_of
from engine.target.prompt_cache import make_prompt_cache, read_prompt

WRITTEN = 32
"""Number of tokens that the target writes for the probe."""
LEAST_GAIN = 0.25
"""Minimum gain, in nats per token, at which another setting is reported; it must also exceed three standard errors."""
_TRIED = list(range(16))
_QUESTION = "Explain in three sentences why the sky is blue."

Model = TypeVar("Model", BlockModel, HeadModel)
Scores = np.ndarray
"""(anchors,) log-probability of the token after each anchor: the first drafted one, which matters most for a draft's length."""


def in_targets_type(load: Callable[[mx.Dtype], Model], target: LoadedModel) -> Model:
    """Returns a drafter in the type of the target's activations, so that neither features nor matrices are cast in every pass.

    Float16 is first tried on a few tokens: numbers beyond its range need bfloat16.

    Args:
        load: loads the drafter in this type, on devices that compute in half precision.

    Raises:
        DraftlightError: as `load`, or the drafter does not fit the target.
    """
    if computes_on_host() or type_of(embedding_of(target.model)) != mx.float16:
        return load(mx.bfloat16)
    model = load(mx.float16)
    model.require_target(target)
    return model if _stays_finite(model, target.model) else load(mx.bfloat16)


def _stays_finite(model: BlockModel | HeadModel, target: TargetModel) -> bool:
    """Returns whether the weights, and the drafter's outputs for a few tokens, are within the range of its type."""
    parameters = cast(dict[str, mx.array], tree_flatten(model.parameters(), destination={})).values()
    if not all(cast(bool, mx.isfinite(array).all().item()) for array in parameters):
        return False
    if isinstance(model, BlockModel):
        model.bind(target)
    tapped = tap(target, model.config.taps)
    target(mx.array([_TRIED]))
    features = tapped.take()
    made = (
        _of_head(model, target, features, _TRIED, 1)
        if isinstance(model, HeadModel)
        else _of_block(model, model.config, features, _TRIED, 1)
    )
    return bool(np.isfinite(made).all())


def compatibility_warning(model: BlockModel | HeadModel, target: LoadedModel) -> str:
    """Returns a warning for the user about how the drafter reads this target; empty if there is none, or if it was trained for
    exactly this one."""
    return "" if model.config.target_sha256 else doubts_on(model, target.model, *written_by(target))


def doubts_on(model: BlockModel | HeadModel, target: TargetModel, text: Sequence[int], first: int) -> str:
    """Returns the warning of `compatibility_warning`, measured on a given text.

    Args:
        target: an mlx-lm model, to which a block drafter is bound.
        text: ids. first: index of the first anchor.
    """
    stated, *others = _settings(model, target, list(text), first)
    best, gain = "", LEAST_GAIN
    for words, scores in others:
        better = scores - stated[1]
        mean, error = float(better.mean()), float(better.std() / np.sqrt(len(better)))
        if mean > gain and mean > 3 * error:
            best, gain = words, mean
    if not best:
        return ""
    return (
        f"This drafter predicts the target's text clearly better if {best} (by {gain:.1f} nats a token). Correct its "
        "config.json, or choose a drafter that was made for this target: as it is, few proposals will be accepted. The text is "
        "right either way."
    )


def fixed_question(target: LoadedModel) -> list[int]:
    """Returns the tokens of the same question for every target, in its template if it has one."""
    if target.tokenizer is None:
        return [1, 2, 3]
    try:
        return list(target.tokenizer.apply_chat_template([{"role": "user", "content": _QUESTION}]))
    except Exception:  # no template, or one that refuses: the question alone works as well
        return list(target.tokenizer.encode(_QUESTION))


def written_by(target: LoadedModel, count: int = WRITTEN) -> tuple[list[int], int]:
    """Returns a text whose last `count` tokens the target has written greedily, after a question in its template if it has one,
    and the index of the last token before them."""
    tokens = fixed_question(target)
    first, cache = len(tokens) - 1, make_prompt_cache(target.model)
    read_prompt(target.model, cache, tokens[:-1], always)
    for _ in range(count):
        row = target.model(mx.array([tokens[-1:]]), cache=cache)[0, -1]
        tokens.append(cast(int, mx.argmax(row).item()))
    return tokens, first


def _settings(model: BlockModel | HeadModel, target: TargetModel, text: list[int], first: int) -> Iterator[tuple[str, Scores]]:
    """Yields each setting in words, with its scores; the stated one first."""
    config, layers = model.config, layer_count(target)
    shifts = [0, *(shift for shift in (-1, 1) if all(-1 <= layer + shift < layers for layer in config.taps))]
    for shift in shifts:
        taps = tuple(layer + shift for layer in config.taps)
        tapped = tap(target, taps)
        target(mx.array([text]))
        features = tapped.take().astype(mx.float32)
        read = "" if not shift else f"it reads layers {', '.join(map(str, taps))} instead of {', '.join(map(str, config.taps))}"
        if isinstance(model, HeadModel):
            yield read, _of_head(model, target, features, text, first)
        else:
            for more, changed in _block_settings(model.config):
                words = " and ".join(part for part in (read, more) if part)
                yield words, _of_block(model, changed, features, text, first)


def _block_settings(config: BlockConfig) -> Iterator[tuple[str, BlockConfig]]:
    if config.paired:  # its first slot is a head's: it always predicts, and sees no other
        yield "", config
        return
    slot = "its first slot predicts " + ("nothing" if config.anchor_predicts else "the token after the anchor")
    mask = "its slots see " + ("all others" if any(config.causal) else "only those before them")
    for other_slot in (False, True):
        for other_mask in (False, True):
            causal = (not any(config.causal),) * len(config.causal) if other_mask else config.causal
            words = " and ".join(part for part, taken in ((slot, other_slot), (mask, other_mask)) if taken)
            yield words, replace(config, anchor_predicts=config.anchor_predicts != other_slot, causal=causal)


def _of_block(model: BlockModel, config: BlockConfig, features: mx.array, text: list[int], first: int) -> Scores:
    """Returns the scores of a block drafter if it had this configuration."""
    known = np.array(text)
    anchors = np.arange(max(1, first), len(text) - 1)
    stated, model.config = model.config, config
    try:
        slot = 0 if config.anchor_predicts else 1
        tokens, last = mx.array(known[anchors]), int(anchors[-1])
        slots = max(config.block_size, slot + 1)
        rows = unroll_blocks(model, features[:last], mx.array(anchors), mx.array(known[: last + 1]), slots)[:, slot]
        logits = model.logits(rows)
        if "markov_head" in model and slot >= model.first_markov_slot:
            logits = logits + model.markov_head(rows, tokens, None)[0]
        return log_chances(logits, known[anchors + 1], model.column_of)
    finally:
        model.config = stated


def _of_head(model: HeadModel, target: TargetModel, features: mx.array, text: list[int], first: int) -> Scores:
    """Returns the scores of a head for the first token that it drafts after each anchor."""
    rows = len(text) - 2
    fused = model.fuse(features[:rows])
    embedded = embedding_of(target)(mx.array(text[1 : rows + 1])).astype(fused.dtype)
    queries, keys, values = model.project(fused[None], embedded[None], 0)
    scale = model.config.head_size**-0.5
    attended = mx.fast.scaled_dot_product_attention(queries, keys, values, scale=scale, mask="causal")
    logits = model.logits(model.layer_output(fused[None], attended)[0])
    start = max(0, first - 1)  # the row before the anchor, with the anchor's token
    return log_chances(logits[start:], np.array(text)[start + 2 :], model.column_of)


def log_chances(logits: mx.array, tokens: np.ndarray, column_of: Callable[[int], int | None]) -> Scores:
    """Returns (rows,) log-probabilities of the token of each row; a token without a column gets that of the least likely one."""
    logs = np.array((logits - mx.logsumexp(logits, axis=-1, keepdims=True)).astype(mx.float32))
    columns = [column_of(int(token)) for token in tokens]
    return np.array([row.min() if column is None else row[column] for row, column in zip(logs, columns, strict=True)])
