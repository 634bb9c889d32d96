"""EAGLE heads: logits as other implementations compute them in every packaging, and clear words where a head is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_lm.models.cache import KVCache

from engine.models.eagle3_config import read_eagle_config
from engine.models.eagle3_model import Eagle3Model, load_eagle3
from engine.models.loaded import LoadedModel
from engine.target.layer_taps import tap
from engine.values.errors import DraftlightError
from tests.engine.eagle_files import EAGLE_HEADS, reference, write_head, write_target
from tests.engine.head_rounds import TOLERANCE, differences, loaded


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return loaded(write_target(tmp_path_factory.mktemp("eagle") / "target"))


def head_of(folder: Path, name: str, target: LoadedModel, **changes: Any) -> Eagle3Model:
    head = load_eagle3(write_head(folder / name, name, **changes), target)
    head.bind(target.model)
    return head


@pytest.mark.parametrize("name", EAGLE_HEADS)
def test_logits_are_those_of_a_second_implementation(name: str, target: LoadedModel, tmp_path: Path) -> None:
    head, made = head_of(tmp_path, name, target), reference(name)
    assert max(differences(head, target, made["rounds"])) < TOLERANCE
    ids = head.target_ids
    assert ids is None or np.array(ids).tolist() == EAGLE_HEADS[name].target_ids().tolist()


def test_a_list_that_names_an_output_beyond_the_last_layer_counts_inputs(target: LoadedModel, tmp_path: Path) -> None:
    """It begins with 1, so it would count outputs; but there is no layer 8 of 8."""
    inside = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 4, 8]}}
    assert load_eagle3(changed(tmp_path, **inside), target).config.taps == (0, 3, 7)


@pytest.mark.parametrize("norm", ["hidden_norm", "input_layernorm"])
def test_later_layers_read_the_output_of_the_one_before(norm: str, target: LoadedModel, tmp_path: Path) -> None:
    """A second layer that adds nothing leaves the logits; one that adds something has keys and values of its own."""
    size, hidden, width = 16, 64, 96
    shapes = {f"self_attn.{name}_proj": (heads * size, hidden) for name, heads in (("q", 4), ("k", 2), ("v", 2))}
    shapes |= {
        "mlp.gate_proj": (width, hidden),
        "mlp.up_proj": (width, hidden),
        norm: (hidden,),
        "post_attention_layernorm": (hidden,),
    }
    generator = np.random.default_rng(3)
    second = {f"layers.1.{name}.weight": generator.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    second |= {"layers.1.self_attn.o_proj.weight": np.zeros((hidden, 64), np.float32)}
    second |= {"layers.1.mlp.down_proj.weight": np.zeros((hidden, width), np.float32)}
    changes = {name.replace(".", "__"): array for name, array in second.items()}
    head = head_of(tmp_path, "speculators", target, **changes)
    assert head.cache_count == 2
    assert max(differences(head, target, reference("speculators")["rounds"])) < TOLERANCE
    head.layers[1].self_attn.o_proj.weight = mx.array(generator.normal(size=(hidden, 64)).astype(np.float32))
    _, first_round, *_ = reference("speculators")["rounds"]
    text = first_round["text"]
    assert np.abs(chained(head, target, text, 3) - chained(head, target, text, len(text) - 1)).max() < 1e-4


def chained(head: Eagle3Model, target: LoadedModel, text: list[int], chunk: int) -> np.ndarray:
    """Logits after the rows of a text, read in chunks."""
    taps = tap(target.model, head.config.taps)
    target.model(mx.array([text[:-1]]))
    fused, caches = head.fuse(taps.take()), [KVCache() for _ in range(head.cache_count)]
    ends = [*range(chunk, len(text) - 1, chunk), len(text) - 1]
    parts = [
        head.logits(head.advance(fused[first:end], mx.array(text[first + 1 : end + 1]), caches))
        for first, end in zip([0, *ends], ends, strict=False)
    ]
    return np.array(mx.concatenate(parts))


# Wrong readings


def _fc_again(head: Eagle3Model) -> None:
    """`fc` on a chained state too."""
    advance = head.advance

    def fused(features: mx.array, tokens: mx.array, caches: Any, rows: Any = None) -> mx.array:
        after = advance(features, tokens, caches, rows)
        return head.fc(mx.concatenate([after] * 3, axis=-1)) if features.shape[0] == 1 else after

    head.advance = fused  # type: ignore[method-assign]


def _absolute(head: Eagle3Model) -> None:
    assert head.target_ids is not None
    head.metadata.target_ids = head.target_ids - mx.arange(head.target_ids.shape[0])


def _permuted(head: Eagle3Model) -> None:
    head.config = replace(head.config, taps=head.config.taps[::-1])


def _unshifted(head: Eagle3Model) -> None:
    embedded = head.embedded
    head.embedded = lambda tokens, like: embedded(mx.concatenate([tokens[:1], tokens[:-1]]), like)  # type: ignore[method-assign]


WRONG: dict[str, Callable[[Eagle3Model], None]] = {
    "taps one early": lambda head: head.read_as(replace(head.reading, tap_shift=-1)),
    "taps one late": lambda head: head.read_as(replace(head.reading, tap_shift=1)),
    "taps permuted": _permuted,
    "residual": lambda head: head.read_as(replace(head.reading, norm_before_residual=not head.reading.norm_before_residual)),
    "chain": lambda head: head.read_as(replace(head.reading, chain_normed=not head.reading.chain_normed)),
    "fc on a chained state": _fc_again,
    "d2t as ids": _absolute,
    "token not shifted": _unshifted,
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_reading_gives_other_logits(wrong: str, target: LoadedModel, tmp_path: Path) -> None:
    head = head_of(tmp_path, "authors", target)
    WRONG[wrong](head)
    assert max(differences(head, target, reference("authors")["rounds"])) > 100 * TOLERANCE


# Refusals


def refusal(folder: Path, target: LoadedModel) -> str:
    with pytest.raises(DraftlightError) as refused:
        load_eagle3(folder, target)
    return str(refused.value)


@pytest.mark.parametrize("name", ["authors", "speculators"])
def test_missing_and_surplus_tensors_are_named(name: str, target: LoadedModel, tmp_path: Path) -> None:
    layer = "midlayer" if name == "authors" else "layers__0"
    changes: dict[str, Any] = {f"{layer}__hidden_norm__weight": None, "surplus__weight": np.zeros((2, 2), np.float32)}
    words = refusal(write_head(tmp_path, name, **changes), target)
    assert "it lacks" in words and "hidden_norm.weight" in words and "unknown tensors: surplus.weight" in words


def changed(folder: Path, **changes: Any) -> Path:
    """The authors' head with another config.json."""
    write_head(folder, "authors")
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 4]}}, "names 2 layers of its target, and its fc reads 3"),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 4, 9]}}, "reads the layers 1, 3, 8 of its target"),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, "4", 9]}}, "eagle_aux_hidden_state_layer_ids"),
        ({"model_type": "llama4"}, "its layer is of the type llama4"),
        ({"logit_scale": 0.5}, "logit_scale 0.5"),
        ({"draft_vocab_size": 41}, "a draft vocabulary of 41, and its output has 40 rows"),
        ({"num_attention_heads": None}, "no num_attention_heads"),
        ({"speculators_model_type": "eagle"}, "the speculators type eagle"),
    ],
)
def test_other_settings_are_refused(changes: dict[str, Any], reason: str, target: LoadedModel, tmp_path: Path) -> None:
    assert reason in refusal(changed(tmp_path, **changes), target)


@pytest.mark.parametrize(
    ("offsets", "reason"),
    [
        (np.zeros(39, np.int64), "d2t names 39 tokens, and its output has 40 rows"),
        (np.full(40, 90, np.int64), "does not name distinct tokens"),
        (-np.arange(40), "does not name distinct tokens"),
        (np.zeros(40, np.int64), "or other ones than t2d"),
        (None, "d2t, which says which ones, is missing"),
    ],
)
def test_a_wrong_draft_vocabulary_is_refused(offsets: Any, reason: str, target: LoadedModel, tmp_path: Path) -> None:
    assert reason in refusal(write_head(tmp_path, "authors", d2t=offsets), target)


def test_weights_of_pytorch_are_refused_in_words(target: LoadedModel, tmp_path: Path) -> None:
    write_head(tmp_path, "authors")
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    words = refusal(tmp_path, target)
    assert (
        "only in PyTorch's format (pytorch_model.bin)" in words and 'torch.load("pytorch_model.bin", weights_only=True)' in words
    )


def test_a_head_of_a_wider_target_is_refused(target: LoadedModel, tmp_path: Path) -> None:
    assert "no multiple of the target's hidden size of 64" in refusal(
        write_head(tmp_path, "authors", fc__weight=np.zeros((64, 3 * 80), np.float32)), target
    )


@pytest.mark.parametrize(
    ("stated", "taps"),
    [
        ({}, ()),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 5]}}, (1, 3, 5)),  # outputs of layers, as SpecForge
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [2, 4, 8]}}, (1, 3, 7)),  # 8 is the last layer's output
        ({"speculators_model_type": "eagle3", "eagle_aux_hidden_state_layer_ids": [1, 4, 8]}, (0, 3, 7)),
    ],
)
def test_ids_of_layers_have_two_meanings(stated: dict[str, Any], taps: tuple[int, ...]) -> None:
    config = {**EAGLE_HEADS["authors"].config, **stated}
    assert read_eagle_config(config, "it").taps == taps
