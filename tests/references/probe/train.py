"""Trains a tiny target and, on its states, an MTP head and an EAGLE-3 head, for the tests of the probe; writes their weights.

    python -m tests.references.probe.train

The norms after target and heads keep weights between 0.03 and 3: with weights near one, the states before and after them would
be the same to a head, whose own norm follows. The heads learn chains of three tokens.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.models.cache import KVCache
from mlx_lm.utils import load_model
from safetensors.numpy import save_file

from engine.models.eagle3_model import load_eagle3
from engine.models.loaded import LoadedModel
from engine.models.loading import load
from engine.models.mtp_families import MtpReading
from engine.models.mtp_model import MtpModel, load_mtp
from engine.models.state_head import StateHead
from engine.target.layer_taps import tap
from tests.engine.checkpoint_folders import CONVERTED, VOCABULARY, write_description, write_tensors
from tests.engine.trained_heads import EAGLE, HIDDEN, TAPS, TARGET, WEIGHTS, read, sentences

STEPS, TEXTS, LENGTH, DEPTH = 400, 50, 192, 3


def uneven(count: int) -> mx.array:
    """Returns norm weights between 0.03 and 3, each order of magnitude as likely."""
    return 10 ** mx.random.uniform(-1.5, 0.5, (count,))


def train(model: nn.Module, loss: Callable[[int], mx.array], what: str) -> None:
    """Trains a model. `loss` is that of a text, by its number."""
    optimizer = optim.Adam(optim.cosine_decay(4e-3, STEPS, 1e-4))
    compute = nn.value_and_grad(model, loss)
    for step in range(STEPS):
        value, gradients = compute(step % TEXTS)
        optimizer.update(model, optim.clip_grad_norm(gradients, 1.0)[0])
        mx.eval(model.parameters(), optimizer.state)
        if step % 50 == 49:
            print(what, step + 1, f"{value.item():.3f}", flush=True)


def random(shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Returns initial weights: norms around one, and matrices that leave the size of what they read."""
    return {
        name: np.array(uneven(*shape) if len(shape) == 1 else mx.random.normal(shape) / np.sqrt(shape[-1]))
        for name, shape in shapes.items()
    }


def layer_shapes(query_rows: int, inputs: int) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of a decoder layer whose attention reads `inputs` numbers."""
    return {
        "self_attn.q_proj.weight": (query_rows, inputs),
        "self_attn.k_proj.weight": (16, inputs),
        "self_attn.v_proj.weight": (16, inputs),
        "self_attn.o_proj.weight": (HIDDEN, 48),
        "mlp.gate_proj.weight": (96, HIDDEN),
        "mlp.up_proj.weight": (96, HIDDEN),
        "mlp.down_proj.weight": (HIDDEN, 96),
        "input_layernorm.weight": (HIDDEN,),
        "post_attention_layernorm.weight": (HIDDEN,),
    }


def make_target() -> None:
    """Trains the target and stores it."""
    with tempfile.TemporaryDirectory() as place:
        write_description(Path(place), TARGET)
        model, _ = load_model(Path(place), strict=False)
    model.language_model.model.norm.weight = uneven(HIDDEN)
    model.language_model.model.norm.freeze()
    model.train()
    texts = [mx.array(sentences(number, LENGTH)) for number in range(TEXTS)]

    def loss(number: int) -> mx.array:
        tokens = texts[number]
        return nn.losses.cross_entropy(model(tokens[None, :-1])[0], tokens[1:], reduction="mean")

    train(model, loss, "target")
    store("target", dict(tree_flatten(model.parameters())))


def train_head(head: StateHead[Any], target: LoadedModel, what: str) -> None:
    """Trains a head on the target's states: at each depth of a chain, all rows read those of the same depth before them."""
    head.bind(target.model)
    tapped = tap(target.model, head.config.taps)
    texts = [mx.array(sentences(number, LENGTH)) for number in range(TEXTS)]
    states = []
    for tokens in texts:
        target.model(tokens[None])
        states.append(tapped.take()[: LENGTH - 1 - DEPTH])
    mx.eval(states)

    def loss(number: int) -> mx.array:
        tokens, features, total = texts[number], head.fuse(states[number]), mx.array(0.0)
        for depth in range(DEPTH):
            caches = [KVCache() for _ in range(head.cache_count)]
            features = head.advance(features, tokens[1 + depth : len(features) + 1 + depth], caches)
            wanted = tokens[2 + depth : len(features) + 2 + depth]
            total = total + nn.losses.cross_entropy(head.logits(features), wanted, reduction="mean")
        return total / DEPTH

    (head.layers[0].norm if isinstance(head, MtpModel) else head.norm).freeze()
    head.train()
    train(head, loss, what)


def make_mtp() -> None:
    """Trains the MTP head on the target's normed state and stores it as published, with norms less one."""
    shapes = {
        "fc.weight": (HIDDEN, 2 * HIDDEN),
        **{f"{name}.weight": (HIDDEN,) for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm")},
        **{f"layers.0.{name}": shape for name, shape in layer_shapes(2 * 48, HIDDEN).items()},
        "layers.0.self_attn.q_norm.weight": (16,),
        "layers.0.self_attn.k_norm.weight": (16,),
    }
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_description(folder, TARGET)
        write_tensors(folder / "model.safetensors", read("target"), CONVERTED)
        write_tensors(folder / "mtp.safetensors", {f"mtp.{name}": array for name, array in random(shapes).items()}, CONVERTED)
        target = load(str(folder))
        head = load_mtp(folder, target)
        head.read_as(MtpReading())
        train_head(head, target, "MTP head")
    parts = {"embedding_norm": "pre_fc_norm_embedding", "state_norm": "pre_fc_norm_hidden", "layer": "layers.0"}
    made = {}
    for name, array in tree_flatten(head.parameters()):
        first, _, rest = name.removeprefix("layers.0.").partition(".")
        made[f"mtp.{parts.get(first, first)}.{rest}"] = array - 1 if array.ndim == 1 else array
    store("mtp", made)


def make_eagle() -> None:
    """Trains the EAGLE-3 head on the outputs of three layers and stores it."""
    shapes = {
        "fc.weight": (HIDDEN, len(TAPS) * HIDDEN),
        "norm.weight": (HIDDEN,),
        "lm_head.weight": (VOCABULARY, HIDDEN),
        **{f"layers.0.{name}": shape for name, shape in layer_shapes(48, 2 * HIDDEN).items()},
        "layers.0.hidden_norm.weight": (HIDDEN,),
    }
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_description(folder / "target", TARGET)
        write_tensors(folder / "target" / "model.safetensors", read("target"), CONVERTED)
        write_description(folder / "head", EAGLE, tokens=False)
        write_tensors(folder / "head" / "model.safetensors", random(shapes))
        target = load(str(folder / "target"))
        head = load_eagle3(folder / "head", target)
        assert head.config.taps == TAPS
        train_head(head, target, "EAGLE-3 head")
    store("eagle", dict(tree_flatten(head.parameters())))


def store(name: str, arrays: dict[str, mx.array]) -> None:
    """Stores arrays in float16."""
    save_file({key: np.array(array.astype(mx.float16)) for key, array in arrays.items()}, WEIGHTS / f"{name}.safetensors")


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    mx.random.seed(7)
    make_target()
    make_mtp()
    make_eagle()
