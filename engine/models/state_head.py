"""Base of published heads: a small model that reads rows of (the target's state at t, the token at t + 1) and predicts the token
at t + 2.

The drafter (`engine.drafters.feature_head`) is the same for all: it keeps the rows, and asks the head to `advance` some of them
and for `logits`. A subclass has the weights and computes one row. What the files cannot say for certain is a `Reading`, an object
of the subclass, which a probe may exchange (`engine.drafters.head_probe`).
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import mlx.core as mx
import mlx.nn as nn
import mlx_lm.utils
from mlx.utils import tree_flatten
from mlx_lm.models.base import create_attention_mask

from engine.machine.host import computes_on_host
from engine.models.drafter_model import DrafterModel, Metadata, require_exactly
from engine.models.loading import to_float32, to_one_float_type
from engine.target.layer_taps import final_norm_of, output_module_of
from engine.target.tree_pass import TreeRows, reading_nodes
from engine.values.errors import DraftlightError
from engine.values.wording import noun

if TYPE_CHECKING:
    from engine.models.loaded import LoadedModel


@dataclass(frozen=True)
class HeadReading:
    """The choices that a head's files do not state for certain, of those that all heads have.

    Attributes:
        chain_normed: whether a chain continues from the head's output after its own norm; else before.
    """

    chain_normed: bool = False


Reading = TypeVar("Reading", bound=HeadReading)
JOINED = " and "
"""Between the words of two changes of a reading."""


def combined(own: Reading, *choices: Mapping[str, Mapping[str, Any]]) -> dict[str, Reading]:
    """Returns every other reading with at most one change of each choice, by the words of its changes.

    Args:
        choices: changed attributes, by what distinguishes them in words.
    """
    readings = {}
    for changes in itertools.product(*({"": {}, **choice}.items() for choice in choices)):
        words = JOINED.join(word for word, _ in changes if word)
        readings[words] = replace(own, **{name: value for _, change in changes for name, value in change.items()})
    del readings[""]
    return readings


@dataclass(frozen=True)
class StateHeadConfig:
    """Properties that every published head has.

    Attributes:
        taps: target layers whose outputs it reads, counted from 0; -1 is the embedding.
        hidden_size: of its rows.
        max_position_embeddings: longest text that it drafts for.
        target_sha256: empty, because published heads do not name their target by its digest.
    """

    taps: tuple[int, ...]
    hidden_size: int
    max_position_embeddings: int
    target_sha256: str = ""


class _Metadata(Metadata):
    """Attributes that are not weights.

    Attributes:
        final_norm: of the target. target_layers: their number. kept: norms as stored, by the path of the layer.
    """

    final_norm: Callable[[mx.array], mx.array] | None = None
    target_layers: int = 0
    kept: dict[str, mx.array]

    def __init__(self) -> None:
        self.kept = {}


class StateHead(DrafterModel, Generic[Reading]):
    """A published head. Rows are (rows, width); a head has one sequence.

    Args:
        what: its kind in messages, such as "MTP head".
        reading: how its files are read.
    """

    def __init__(self, config: StateHeadConfig, what: str, reading: Reading) -> None:
        super().__init__()
        self.config = config
        self.what = what
        self.reading = reading
        self.metadata: _Metadata = _Metadata()

    # What a subclass computes

    @property
    @abstractmethod
    def cache_count(self) -> int:
        """As in `engine.drafters.feature_head.RowModel`."""

    @property
    def max_proposals(self) -> int:
        """As in `RowModel`."""
        return self.config.max_position_embeddings

    @abstractmethod
    def fuse(self, features: mx.array) -> mx.array:
        """As in `RowModel`."""

    @abstractmethod
    def advance(self, features: mx.array, tokens: mx.array, caches: Sequence[Any], rows: TreeRows | None = None) -> mx.array:
        """As in `RowModel`."""

    @abstractmethod
    def logits(self, features: mx.array) -> mx.array:
        """As in `RowModel`."""

    @abstractmethod
    def readings(self) -> Mapping[str, Reading]:
        """Returns the other readings to try, by what distinguishes them, as the end of "predicts better if …"."""

    def chain_readings(self) -> Mapping[str, Reading]:
        """Returns the readings that differ only in what a chain continues from."""
        other = not self.reading.chain_normed
        return {f"a chain continues {'after' if other else 'before'} its norm": replace(self.reading, chain_normed=other)}

    @property
    def favoured(self) -> Reading | None:
        """Another reading than the declared one that the values of the weights speak for; None if they do not."""
        return None

    def read_as(self, reading: Reading) -> None:
        """Takes another reading. Caches and rows made before are invalid."""
        self.reading = reading

    # Its target

    def require_target(self, target: LoadedModel) -> None:
        """Raises DraftlightError if the head may not draft for this target."""
        self.bind(target.model)

    def bind(self, target: Any) -> None:
        """Takes the target's embedding, final norm and output rows where the file has none of its own.

        Raises:
            DraftlightError: they cannot be found in the target, or have another width.
        """
        self.metadata.final_norm = final_norm_of(target)
        self.take_embedding(target, self.what, self.config.hidden_size)
        tokens = int(output_module_of(target).weight.shape[0])
        if (head := dict(self.items()).get("lm_head")) is not None:
            columns = int(head.weight.shape[0])
            ids = self.target_ids
            needed = columns if ids is None else cast(int, ids.max().item()) + 1
            if needed > tokens:
                raise DraftlightError(
                    f"This {self.what} was made for a target with {needed:,} or more {noun(needed, 'token')}, and this one has "
                    f"{tokens:,}. Choose the drafter that was trained for it, or ngram."
                )
            self.metadata.rows = head
        else:
            self.take_output_rows(target)

    def embedded(self, tokens: mx.array, like: mx.array) -> mx.array:
        """Returns (rows, hidden) embeddings in the type of an array."""
        embedded: mx.array = self.metadata.embedding(tokens)
        return embedded.astype(like.dtype)

    def output(self, hidden: mx.array) -> mx.array:
        """Returns (..., columns) logits of normalised outputs."""
        logits: mx.array = self.metadata.rows(hidden)
        return logits

    def final_state(self, features: mx.array) -> mx.array:
        """Returns what the target's output layer reads, from the outputs of its last layer."""
        assert self.metadata.final_norm is not None, "the head is bound to its target"
        return self.metadata.final_norm(features)

    @contextmanager
    def masked(
        self, x: mx.array, caches: Sequence[Any], rows: TreeRows | None, window: int | None = None
    ) -> Iterator[mx.array | None]:
        """Yields the mask for rows (1, rows, hidden) in front of which the caches hold others; inside, the layers rotate them by
        their positions."""
        with nullcontext() if rows is None else reading_nodes(self, caches, rows):
            yield create_attention_mask(x, caches[0], window, return_array=True)


def in_running_type(arrays: Mapping[str, mx.array]) -> dict[str, mx.array]:
    """Returns the arrays in float32 on the CPU, which is slow in narrower types, and as they are on a GPU."""
    if not computes_on_host():
        return dict(arrays)
    return {
        name: array.astype(mx.float32) if mx.issubdtype(array.dtype, mx.floating) else array for name, array in arrays.items()
    }


def assemble(model: StateHead[Any], arrays: Mapping[str, mx.array], where: object, shown: Callable[[str], str] = str) -> None:
    """Gives a head its weights, in the form they run in (see `engine.models.loading.load`): quantised as stored on a GPU, float32
    on the CPU.

    Args:
        arrays: by the names of the head's parameters. where: the file or folder, for messages.
        shown: returns a parameter's name as the file would have it.

    Raises:
        DraftlightError: arrays are missing, surplus, or have other shapes; names them.
    """
    packed = {name.removesuffix(".scales") for name in arrays if name.endswith(".scales")}
    missing_packed = {f"{path}.weight" for path in packed} - set(arrays)
    try:
        nn.quantize(
            model,
            class_predicate=lambda path, module: (
                mlx_lm.utils.infer_quant_config(path, module, cast(Any, arrays))
                if path in packed and f"{path}.weight" not in missing_packed and hasattr(module, "to_quantized")
                else False
            ),
        )
    except (ValueError, ZeroDivisionError) as error:
        raise DraftlightError(
            f"{where} is not a usable {model.what}: its weights are packed in an unknown way ({error})."
        ) from error
    require_exactly(dict(tree_flatten(model.parameters())), arrays, where, f"an {model.what}", shown)
    model.load_weights(list(arrays.items()))
    if computes_on_host():
        to_float32(model)
    else:
        to_one_float_type(model)
    model.eval()
