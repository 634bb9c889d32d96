"""On a GPU nothing is compiled inside an answer: every variant of a kernel or compiled function was used while models loaded."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any, cast
from unittest.mock import patch

import mlx.core as mx
import pytest

from engine.decode import warm_up
from engine.decode.decoding import decode
from engine.drafters.base import Drafter
from engine.drafters.block import BlockDrafter
from engine.drafters.draft_model import DraftModel
from engine.drafters.feature_head import FeatureHead
from engine.drafters.ngram import NGram
from engine.models.loaded import LoadedModel
from engine.noise import kernel as noise_kernel
from engine.noise import source as noise
from engine.noise.reference import UNIT
from engine.runtime.mlx_backend import MlxBackend
from engine.types import RULES, DecodingOptions
from tests.engine.block_files import random_block
from tests.engine.drafters.test_feature_head import CONFIG, random_head
from tests.engine.small_models import PROMPT, tiny_llama
from tests.lazy_graph import as_on_a_gpu

TARGET, DRAFT = tiny_llama(0, layers=4), tiny_llama(1)
LARGE = tiny_llama(2, vocab=17_000)
"""Its rows are cut into nine splits."""
ANSWERS: tuple[dict[str, Any], ...] = (
    {"rule": "match", "gamma": 3, "top_p": 0.7},
    {"rule": "gumbel", "gamma": 1, "top_k": 5, "top_p": 0.8, "min_p": 0.02, "repetition_penalty": 1.3},
    {"rule": "rejection", "gamma": 9, "max_tokens": 11},
    {"rule": "block", "gamma": 2, "min_p": 0.1},
    {"rule": "match", "gamma": 2, "temperature": 0.0},
)

Variant = tuple[Any, ...]


class Compiled:
    """Everything that a Metal GPU compiles at first use, on the CPU: the variants of kernels and of compiled functions so far."""

    def __init__(self) -> None:
        self.used: set[Variant] = set()

    def metal_kernel(self, name: str, **_: Any) -> Callable[..., list[mx.array]]:
        """Stands for `mx.fast.metal_kernel`: MLX generates another source for each type, and for inputs of fewer than eight."""
        compute = {"splits": _splits, "rows": _rows}[name.rpartition("_")[2]]

        def call(inputs: Sequence[mx.array], output_shapes: Sequence[tuple[int, ...]], **_: Any) -> list[mx.array]:
            self.used.add((name, *((str(each.dtype), each.size < 8) for each in inputs)))
            return compute(inputs, output_shapes)

        return call

    def function(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        """Stands for a function under `mx.compile`: another expression for each type, and for each number that is no array."""

        def call(*arguments: Any) -> Any:
            arrays = tuple(str(each.dtype) if isinstance(each, mx.array) else each for each in arguments)
            self.used.add((name, *(each for each in arrays if not isinstance(each, int))))  # integers choose shapes
            return original(*arguments)

        return call


def _splits(inputs: Sequence[mx.array], shapes: Sequence[tuple[int, ...]]) -> list[mx.array]:
    logits, scale, positions, stream, _ = inputs
    seed, domain, follows, the_round = (stream[0], stream[1]), stream[2], stream[3], stream[4]
    shared = noise.threefry(seed, positions, mx.broadcast_to(domain, positions.shape))
    counted = mx.where(follows != 0, the_round, positions)
    others = noise.threefry(shared, counted, mx.zeros_like(counted))
    keys = mx.stack([mx.where(domain == 0, *pair) for pair in zip(shared, others, strict=True)], axis=-1)
    units = noise.gumbel_units(noise.random_words(keys, logits.shape[1])).astype(mx.float32) * UNIT
    ids, margins = noise.draw_rows(logits, scale, units)
    return [mx.broadcast_to(each[:, None], shapes[0]) for each in (margins, margins, ids)]


def _rows(inputs: Sequence[mx.array], _: Sequence[tuple[int, ...]]) -> list[mx.array]:
    margins, _, ids = (each[:, 0] for each in inputs)
    return [ids, margins]


def compiled_functions() -> Iterator[tuple[ModuleType, str]]:
    """Where a function under `mx.compile` stands in the engine or in what it takes of mlx-lm."""
    kind = type(mx.compile(lambda x: x))
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith(("engine.", "mlx_lm.models.")):
            yield from ((module, name) for name, value in vars(module).items() if type(value) is kind)


@contextmanager
def counted() -> Iterator[Compiled]:
    """A Metal GPU, as far as compilation goes."""
    compiled = Compiled()
    caches = (noise_kernel._kernels, noise_kernel._agrees)
    with ExitStack() as stack:
        for cached in caches:
            cached.cache_clear()
            stack.callback(cached.cache_clear)
        stack.enter_context(as_on_a_gpu())
        stack.enter_context(patch.object(warm_up, "computes_on_host", lambda: False))
        stack.enter_context(patch.object(mx.metal, "is_available", lambda: True))
        stack.enter_context(patch.object(mx, "default_device", lambda: mx.gpu))
        stack.enter_context(patch.object(mx.fast, "metal_kernel", compiled.metal_kernel))
        for module, name in list(compiled_functions()):
            original = getattr(module, name)
            stack.enter_context(patch.object(module, name, compiled.function(f"{module.__name__}.{name}", original)))
        yield compiled


DRAFTERS: dict[str, Callable[[], Drafter | None]] = {
    "none": lambda: None,
    "ngram": NGram,
    "draft model": lambda: DraftModel(DRAFT),
    "head": lambda: FeatureHead(random_head(CONFIG), TARGET),
    "block behind a head": lambda: BlockDrafter(random_block(paired=True), TARGET),
}


def loaded(model: Any) -> LoadedModel:
    return cast(LoadedModel, type("Loaded", (), {"model": model})())


def first_used_in_answers(model: Any, drafter: Callable[[], Drafter | None], compiled: Compiled) -> set[Variant]:
    """Warms a pair up, and decodes answers of few and of many rows under all rules and filters."""
    warm_up.warm_up(loaded(model))
    if drafter() is not None:
        warm_up.warm_up(loaded(model), drafter())
    before = set(compiled.used)
    for changes in ANSWERS:
        options = DecodingOptions(seed=3, max_tokens=3).replace(**changes)
        list(decode(model, PROMPT, drafter(), options))
    return compiled.used - before


@pytest.mark.parametrize("name", DRAFTERS)
def test_no_variant_is_first_used_inside_an_answer(name: str) -> None:
    with counted() as compiled:
        assert first_used_in_answers(TARGET, DRAFTERS[name], compiled) == set()


def test_nor_of_a_large_vocabulary() -> None:
    with counted() as compiled:
        assert first_used_in_answers(LARGE, lambda: DraftModel(LARGE), compiled) == set()


def test_without_it_an_answer_compiles() -> None:
    """The count notices whichever part of the warming up is left out."""

    def missed(place: Any, name: str, value: Any) -> set[str]:
        with counted() as compiled, patch.object(place, name, value):
            return {
                variant[0].rpartition(".")[2] for variant in first_used_in_answers(TARGET, lambda: DraftModel(DRAFT), compiled)
            }

    assert missed(warm_up, "FILTERED", warm_up.OPTIONS) == {"apply_top_k", "apply_top_p"}
    assert missed(noise_kernel, "CHECKED", noise_kernel.CHECKED[:1]) == {"draftlight_gumbel_splits", "draftlight_gumbel_rows"}
    assert {"apply_top_k", "draftlight_gumbel_splits"} <= missed(warm_up, "warm_up", lambda *_: None)


def test_a_pair_is_warmed_up_under_every_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their verdicts take operations of their own, some of which CUDA compiles one by one; nothing here counts these."""
    seen: list[tuple[bool, str]] = []

    def watched(model: Any, prompt: Sequence[int], drafter: Drafter | None, options: DecodingOptions) -> Iterator[Any]:
        seen.append((drafter is not None, options.rule))
        return decode(model, prompt, drafter, options)

    monkeypatch.setattr(warm_up, "decode", watched)
    warm_up.warm_up(loaded(TARGET), DraftModel(DRAFT))
    assert seen == [(True, rule) for rule in RULES]


def test_models_are_warmed_up_as_they_load_but_not_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = MlxBackend()
    warmed: list[tuple[Any, Any]] = []
    steps: list[str] = []
    monkeypatch.setattr(warm_up, "warm_up", lambda target, drafter=None: warmed.append((target, drafter)))
    monkeypatch.setattr(backend, "_load_target", lambda name, progress, make_room: target)
    monkeypatch.setattr(backend._models, "target_reason", lambda model: None)
    target = loaded(TARGET)

    def load() -> None:
        backend.load("model", lambda step, fraction: steps.append(step))
        backend.drafter("ngram", target, lambda step, fraction: None)

    monkeypatch.setattr(warm_up, "computes_on_host", lambda: True)
    load()
    assert not warmed and not steps
    monkeypatch.setattr(warm_up, "computes_on_host", lambda: False)
    load()
    assert [given for given, _ in warmed] == [target, target]
    assert warmed[0][1] is None and warmed[1][1].name == "ngram"
    assert steps == ["compiling for the GPU"]


def test_a_failure_of_it_leaves_the_model_usable(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("the driver is out of sorts")

    backend = MlxBackend()
    monkeypatch.setattr(warm_up, "computes_on_host", lambda: False)
    monkeypatch.setattr(warm_up, "warm_up", broken)
    monkeypatch.setattr(backend, "_load_target", lambda name, progress, make_room: loaded(TARGET))
    monkeypatch.setattr(backend._models, "target_reason", lambda model: None)
    assert backend.load("model", lambda step, fraction: None).model is TARGET
    assert "out of sorts" in caplog.text
