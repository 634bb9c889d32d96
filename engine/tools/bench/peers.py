"""mlx-lm's own decode loops on the loaded models, to compare Draftlight with in a benchmark."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

import mlx.core as mx
from mlx_lm.generate import generate_step, generation_stream, speculative_generate_step
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.sample_utils import make_logits_processors, make_sampler

from engine.models.loaded import LoadedModel
from engine.target import prompt_cache as caches
from engine.target.distribution import onto_target_ids
from engine.types import DecodingOptions
from engine.values.requests.bench import PeerToken


class OnTargetIds:
    """Wraps a draft model so that its logits have the target's ids, as mlx-lm expects.

    Args:
        model: its head is trimmed (`target_ids`), or its width differs from the target's.
        width: width of the target's logits.
    """

    def __init__(self, model: LoadedModel, width: int) -> None:
        own: Any = model.model
        self._model, self._target_ids, self._width, self.layers = own, model.target_ids, width, own.layers

    def make_cache(self) -> list[Any]:
        """Returns a cache for the draft model."""
        return make_prompt_cache(self._model)

    def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
        """Returns logits (1, rows, width) for ids (1, rows)."""
        return onto_target_ids(self._model(tokens, cache=cache)[0], self._width, self._target_ids)[None]


def answer(
    target: LoadedModel,
    draft: LoadedModel | None,
    prompt: Sequence[int],
    options: DecodingOptions,
    proceed: Callable[[], None],
) -> Generator[PeerToken, None, None]:
    """Yields the tokens of mlx-lm's `generate_step`, or with a draft model of its `speculative_generate_step`. Ends after an
    end-of-text token or `options.max_tokens` tokens.

    The prompt without its last token is read here, before mlx-lm's loop begins. So the loop starts at the point from which
    Draftlight's own answers are timed: before the pass of the prompt's last token. mlx-lm samples from MLX's global random
    state, which is seeded here and used by nothing else.

    Args:
        draft: the draft model; None for plain decoding.
        proceed: called during prefill; may raise to interrupt.
    """
    mx.random.seed(options.seed or 0)
    drafting = None if draft is None else _as_mlx_lm_expects(draft, target)
    cache = _read(target.model, prompt, proceed)
    if drafting is not None:
        cache += _read(drafting, prompt, proceed)
    newest = mx.array(list(prompt[-1:]))
    shared: dict[str, Any] = {
        "max_tokens": options.max_tokens,
        "sampler": make_sampler(
            temp=options.temperature,
            top_p=options.top_p,
            min_p=options.min_p,
            top_k=options.top_k if options.top_k < caches.logits_width(target.model) else 0,  # larger values raise ValueError
        ),
        "logits_processors": _penalties(prompt, options),
        "prompt_cache": cache,
    }
    began = time.perf_counter()
    if drafting is None:
        steps = ((token, False) for token, _ in generate_step(newest, target.model, **shared))
    else:
        assert options.gamma != "auto", "mlx-lm drafts a fixed number of tokens"
        drafted = speculative_generate_step(newest, target.model, drafting, num_draft_tokens=options.gamma, **shared)
        steps = ((token, from_draft) for token, _, from_draft in drafted)
    try:
        for token, from_draft in steps:
            yield PeerToken(int(token), bool(from_draft), time.perf_counter() - began)
            if int(token) in target.eos_ids:
                break
    finally:
        steps.close()
        mx.synchronize(generation_stream)  # the next measurement must not include a step still in progress


def refusal(target: LoadedModel, draft: LoadedModel) -> str | None:
    """Returns why mlx-lm's speculative loop does not work for this pair; None if it does.

    It refuses recurrent layers and full sliding windows, and rolls back wrongly in the round in which a window fills up.
    """
    for whose, model in (("target", target), ("draft model", draft)):
        if caches.refusal(make_prompt_cache(model.model)) is not None:
            return f"it cannot take tokens back from the {whose}'s sliding windows, chunks or recurrent layers"
    return None


def _penalties(prompt: Sequence[int], options: DecodingOptions) -> list[Callable[[mx.array, mx.array], mx.array]]:
    """Returns mlx-lm's penalties over prompt and answer: its loops only know the tokens that they read themselves."""
    if "repetition_penalty" not in options.filters_on:
        return []
    context = options.repetition_context
    before = mx.array(list(prompt[:-1][-context:]), mx.uint32)
    (penalise,) = make_logits_processors(repetition_penalty=options.repetition_penalty, repetition_context_size=context)
    return [lambda read, logits: penalise(read if len(read) >= context else mx.concatenate([before, read]), logits)]


def _as_mlx_lm_expects(draft: LoadedModel, target: LoadedModel) -> Any:
    width = caches.logits_width(target.model)
    return draft.model if draft.target_ids is None and caches.logits_width(draft.model) == width else OnTargetIds(draft, width)


def _read(model: Any, prompt: Sequence[int], proceed: Callable[[], None]) -> list[Any]:
    """Returns a cache with all but the last token of the prompt."""

    def report(done: int, total: int) -> bool:
        """Progress callback of `read_prompt`. It never cancels, but `proceed` may raise."""
        proceed()
        return True

    cache: list[Any] = list(make_prompt_cache(model))
    caches.read_prompt(model, cache, prompt[:-1], report)
    return cache
