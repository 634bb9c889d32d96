"""Taps: access to the outputs of a target's layers, without a change to mlx-lm's files or to the names of weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from engine.target.interface import SplitTarget
from engine.values.errors import DraftlightError
from engine.values.wording import amount

_KEPT_AS = "_draftlight_taps"


class Taps:
    """Keeps the newest outputs of some layers of an mlx-lm model until the next forward pass.

    A tapped layer gets a subclass of its class that calls the original and records the result. Create taps with `tap`, so that
    all drafters of one model share them.
    """

    def __init__(self, blocks: Sequence[Any], layers: tuple[int, ...]) -> None:
        self.layers = layers
        self._outputs: dict[int, mx.array] = {}
        for index in sorted(set(layers)):
            block = blocks[max(index, 0)]
            block.__class__ = self._recording(type(block), index)

    def _recording(self, kind: type, index: int) -> type:
        outputs = self._outputs

        def call(block: Any, *arguments: Any, **named: Any) -> Any:
            """Runs the layer's own forward pass and records its output; of a tuple the first entry, which is the hidden state."""
            output = kind.__call__(block, *arguments, **named)
            if index < 0:
                outputs[index] = arguments[0]
            else:
                outputs[index] = output[0] if isinstance(output, tuple) else output
            return output

        return type(kind.__name__, (kind,), {"__call__": call})

    def take(self) -> mx.array:
        """Returns the lazy (rows, taps x hidden) outputs of the newest forward pass over one sequence, and forgets them.

        Raises:
            RuntimeError: no forward pass has run since the last call.
        """
        return self.take_batch()[0]

    def take_batch(self) -> mx.array:
        """Returns the result of `take` for all sequences of a batch: (batch, rows, taps x hidden)."""
        if len(self._outputs) < len(set(self.layers)):
            raise RuntimeError("the target has not run since its features were taken last")
        joined = mx.concatenate([self._outputs[index] for index in self.layers], axis=-1)
        self._outputs.clear()
        return joined


def layer_count(model: Any) -> int:
    """Returns the number of layers of an mlx-lm model; 0 if it has none that can be tapped."""
    return len(getattr(model, "layers", ()))


def tap(model: Any, layers: Sequence[int]) -> Taps:
    """Returns the taps of these layers (counted from 0; -1 is the first one's input) of an mlx-lm model. Repeated calls share
    them.

    Raises:
        DraftlightError: the model has no such layers, or they are spread over the machines of a pipeline.
    """
    if isinstance(model, SplitTarget) and model.pipeline_size > 1:
        raise DraftlightError(
            "A drafter that was trained for its target reads layers of it, and in a pipeline these lie on other machines. Split "
            "the target by tensors, or choose another drafter, such as ngram."
        )
    wanted = tuple(layers)
    blocks: Sequence[Any] = getattr(model, "layers", ())
    count = layer_count(model)
    if not wanted or min(wanted) < -1 or max(wanted) >= count:
        raise DraftlightError(
            f"The drafter reads layers {', '.join(map(str, wanted))} of its target, but this one has {amount(count, 'layer')}."
        )
    kept: dict[tuple[int, ...], Taps] = blocks[0].__dict__.setdefault(_KEPT_AS, {})
    if wanted not in kept:
        kept[wanted] = Taps(blocks, wanted)
    return kept[wanted]


def embedding_of(model: Any) -> Any:
    """Returns the token embedding of an mlx-lm model, a callable ids -> vectors.

    Raises:
        DraftlightError: it is not at the place where mlx-lm's models have it.
    """
    return _part_of(model, "embed_tokens", "token embedding", "features")


def hidden_size_of(embedding: Any) -> int:
    """Returns the width of the vectors that a token embedding gives."""
    return int(embedding(mx.array([0])).shape[-1])


def final_norm_of(model: Any) -> Any:
    """Returns the norm between the last layer of an mlx-lm model and its output layer.

    Raises:
        DraftlightError: it is not at the place where mlx-lm's models have it.
    """
    return _part_of(model, "norm", "last norm", "final state")


def _part_of(model: Any, attribute: str, words: str, read: str) -> Any:
    """Returns a part of an mlx-lm model that stands beside its layers. Raises DraftlightError if it is not there; `words` names
    it, and `read` what a drafter reads with it."""
    inner = getattr(model, "language_model", model)
    part = getattr(getattr(inner, "model", inner), attribute, None)
    if part is None:
        raise DraftlightError(
            f"Draftlight cannot find this target's {words}, so no drafter that reads its {read} can be used with it."
        )
    return part


def output_module_of(model: Any) -> Any:
    """Returns the output layer of an mlx-lm model, which computes its logits: `lm_head`, or the embedding if the two are tied."""
    inner = getattr(model, "language_model", model)
    for place in (inner, getattr(inner, "model", inner)):
        if (head := getattr(place, "lm_head", None)) is not None:
            return head
    return embedding_of(model)


def output_rows_of(model: Any) -> Any:
    """Returns the multiplication of `output_module_of`: (..., hidden) -> (..., vocabulary), without the model's changes to its
    logits."""
    module = output_module_of(model)
    return getattr(module, "as_linear", module)


def type_of(module: Any) -> mx.Dtype:
    """Returns the type in which a layer multiplies: that of its weights, or of the scales of quantised ones."""
    dtype: mx.Dtype = getattr(module, "scales", module.weight).dtype
    return dtype if mx.issubdtype(dtype, mx.floating) else mx.bfloat16  # 8-bit scales, as in mxfp4


def dense(module: Any, rows: mx.array | None = None) -> Any:
    """Returns the float32 matrix of a layer, quantised or not, or some of its rows; None for a module without weights."""
    weight = getattr(module, "weight", None)
    if weight is None:
        return None
    scales, biases = getattr(module, "scales", None), getattr(module, "biases", None)
    if rows is not None:
        weight = weight[rows]
        scales, biases = (None if part is None else part[rows] for part in (scales, biases))
    if scales is None:
        return weight.astype(mx.float32)
    how = {"group_size": module.group_size, "bits": module.bits, "mode": getattr(module, "mode", "affine")}
    return mx.dequantize(weight, scales, biases, **how).astype(mx.float32)
