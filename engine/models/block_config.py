"""Configuration of a block drafter: reads the config.json of every supported packaging into one `BlockConfig`.

- DFlash (z-lab): `dflash_config`, or the architecture DFlashDraftModel. Slots 1 to B - 1 predict, each its own position. In old
  files some keys are at the top level.
- DFlash 2: the architecture DFlash2DraftModel. Like DFlash, with convolutions around sub-layers and a candidate selector.
- DeepSpec: the architectures ...DSparkModel, ...DSparkDraftModel and Qwen3DFlashModel. All B slots predict, each the position
  after its own. Markov head, confidence head.
- speculators (vLLM): `speculators_model_type` dflash or dspark. `speculative_tokens` or `sample_from_anchor` states which slots
  predict; shapes are in `transformer_layer_config`; the drafter has its own vocabulary.
- SpecForge: `projector_type` dspark (all B slots predict) or domino (`shift_label` states which slots predict).
- Draftlight: the model type draftlight_block. The layout of DFlash with a Markov head and a subset of the target's output rows;
  all B slots predict. With `paired`, the layout of a draft head that fills a block (P-EAGLE).

Every field is looked up in the nested object first, then at the top level. Sources: Chen et al., DFlash (arXiv 2602.06036), and
the descriptions of the projects named.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from engine.models.drafter_model import explained
from engine.values.drafter_kinds import BLOCK_FOLDER
from engine.values.errors import DraftlightError
from engine.values.wording import noun

Packaging = Literal["DFlash", "DFlash 2", "DeepSpec", "speculators", "SpecForge", "Draftlight"]

MAX_INTEGER = 1 << 31
MAX_LAYERS, MAX_SLOTS = 256, 1024
"""Maximum values that a file may state: far above those of any model, and low enough to try building one."""

SLIDING, FULL = "sliding_attention", "full_attention"
CANNOT_UNDERSTAND = "its config.json cannot be understood"
_PLAIN_ROPE = (None, "default", "mrope")
_ACTIVATIONS = {
    **dict.fromkeys(("silu", "swish"), "silu"),
    **dict.fromkeys(("gelu", "gelu_python"), "gelu"),
    **dict.fromkeys(("gelu_new", "gelu_fast", "gelu_accurate", "gelu_pytorch_tanh", "gelu_python_tanh"), "gelu_tanh"),
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "relu2": "relu2",
}
"""Activations by their names in transformers (`ACT2FN`). The tanh approximations are the same function up to rounding."""
_MARKOV_KINDS = {"vanilla": "plain", "plain": "plain", "gated": "gated", "rnn": "rnn"}
_NEUTRAL = {
    **dict.fromkeys(("attn_logit_softcapping", "clip_qkv", "mlp_bias"), 0.0),
    **dict.fromkeys(("embedding_multiplier", "residual_multiplier"), 1.0),
    **dict.fromkeys(("logit_scale", "logits_scaling", "partial_rotary_factor"), 1.0),
}
"""Settings of other architectures that change what layers compute, with the value at which they have no effect. Any other value
is refused, because it is not computed here."""
CONFIDENCE_THRESHOLD = 0.5
"""Default threshold of a checkpoint that has a confidence head but states no threshold."""


@dataclass(frozen=True)
class BlockConfig:
    """The shapes and settings of a block drafter.

    Attributes:
        taps: target layers whose outputs are fused, counted from 0, in the order of `fc`'s columns; -1 is the embedding.
        mask_token_id: fills the slots after the anchor.
        block_size: slots that it was trained with, the anchor's own included.
        anchor_predicts: whether slot i predicts the position after its own; otherwise slot 0 predicts nothing.
        whole_blocks: whether it always runs all its slots; otherwise only as many as are drafted.
        causal: by layer, whether a slot attends only to itself and the slots before it.
        windows: by layer, size of the sliding window in tokens; None for full attention.
        window_follows_slot: whether slot i attends to the window - 1 positions before its own; otherwise all slots attend to
            the window positions before the anchor.
        rope_scaling: as mlx-lm's `initialize_rope` takes it. rope_interleaved: whether the two elements of a pair are adjacent.
        logit_cap: limit of the tanh applied to the logits, 0 for none. logit_scale: factor applied to the logits before that.
        paired: whether every layer reads a feature and a token embedding side by side: at a context position the feature and
            the token after it, in later slots learned ones. Layer 0 then continues from the newest feature
            and fills the first slot. The other layers continue from its output and fill all other slots. Queries and keys have
            no norm, and the Markov head does not apply to the first slot.
        conv_kernel_size, conv_group_size: of DFlash 2's convolutions, 0 if there are none. selector_top_k: number of candidates
            of its selector.
        confidence_threshold: a slot with a lower confidence ends the draft, if there is a confidence head.
        target_sha256: digest of the weights of the target it was trained for; empty if the file does not state it.
        activation: of the feed-forward layers, one of the values of `_ACTIVATIONS`.
        has_confidence_head: whether the file must contain one. markov_rank: rank of the Markov head that the file must contain;
            0 if none is required. markov_kind: "plain", "gated" or "rnn"; empty if the arrays determine it.
        draft_vocab_size: number of target tokens that it can draft; 0 if the file does not state it.
    """

    packaging: Packaging
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rms_norm_eps: float
    vocab_size: int
    max_position_embeddings: int
    rope_theta: float
    rope_scaling: Mapping[str, Any] | None
    rope_interleaved: bool
    attention_bias: bool
    taps: tuple[int, ...]
    mask_token_id: int
    block_size: int
    anchor_predicts: bool
    whole_blocks: bool
    causal: tuple[bool, ...]
    windows: tuple[int | None, ...]
    window_follows_slot: bool = True
    embedding_scale: float = 1.0
    logit_scale: float = 1.0
    logit_cap: float = 0.0
    paired: bool = False
    conv_kernel_size: int = 0
    conv_group_size: int = 0
    selector_top_k: int = 0
    confidence_threshold: float = CONFIDENCE_THRESHOLD
    target_sha256: str = ""
    activation: str = "silu"
    has_confidence_head: bool = False
    markov_rank: int = 0
    markov_kind: str = ""
    draft_vocab_size: int = 0

    @property
    def max_proposals(self) -> int:
        """Maximum number of tokens that one block proposes."""
        return self.block_size if self.anchor_predicts else self.block_size - 1


def read_block_config(config: Mapping[str, Any], where: object) -> BlockConfig:
    """Returns the settings from a config.json. `where` names the file in messages.

    Raises:
        DraftlightError: a field is missing or invalid, or asks for something that is not supported.
    """
    with explained(where, ConfigReader.what, CANNOT_UNDERSTAND):
        return ConfigReader(config, _packaging_of(config, where), where).read()


def _packaging_of(config: Mapping[str, Any], where: object) -> Packaging:
    if config.get("model_type") == BLOCK_FOLDER:
        return "Draftlight"
    if kind := config.get("speculators_model_type"):
        if kind not in ("dflash", "dspark"):
            raise DraftlightError(
                f"{where} is a drafter of the speculators type {kind}; of these, dflash, dspark, eagle3 and mtp can be used."
            )
        return "speculators"
    projector = (config.get("dflash_config") or {}).get("projector_type", config.get("projector_type"))
    if projector is not None:
        if projector not in ("dspark", "domino", "dflash"):
            raise DraftlightError(f"{where} has the projector type {projector}, which is not known here.")
        return "SpecForge" if projector != "dflash" else "DFlash"
    names = [str(name) for name in config.get("architectures") or ()]
    if "DFlash2DraftModel" in names:
        return "DFlash 2"
    if any("DSpark" in name or name == "Qwen3DFlashModel" for name in names):
        return "DeepSpec"
    return "DFlash"


class ConfigReader:
    """Reads the settings of a drafter's layers, which other kinds of drafters state in the same way.

    Attributes:
        what: the kind of drafter, in messages.
    """

    what = "block drafter"

    def __init__(self, config: Mapping[str, Any], packaging: Packaging, where: object) -> None:
        self.packaging, self.where = packaging, where
        nested = [config.get("dflash_config"), config.get("dspark_config"), config.get("transformer_layer_config")]
        self.scopes = [*(scope for scope in nested if isinstance(scope, Mapping)), config]

    def find(self, *names: str) -> Any:
        """Returns the first of these fields that is stated, nested objects before the top level; None if none is."""
        for name in names:
            for scope in self.scopes:
                if scope.get(name) is not None:
                    return scope[name]
        return None

    def need(self, *names: str) -> Any:
        """Returns the same as `find`. Raises DraftlightError if none of the fields is stated."""
        value = self.find(*names)
        if value is None:
            raise DraftlightError(f"{self.where} is not a usable {self.what}: its config.json has no {names[0]}.")
        return value

    def integer(self, *names: str, minimum: int = 1, maximum: int = MAX_INTEGER) -> int:
        """Returns a required integer field. Raises DraftlightError if it is missing or outside `minimum` to `maximum`."""
        number = self.need(*names)
        if not isinstance(number, int) or isinstance(number, bool) or not minimum <= number <= maximum:
            raise DraftlightError(f"{self.where} is not a usable {self.what}: {names[0]} is {number!r} in its config.json.")
        return number

    def optional(self, name: str, default: int) -> int:
        """Returns an integer field, or the default if it is missing or 0. Raises DraftlightError as `integer`."""
        return self.integer(name) if self.find(name) else default

    def layer(self) -> dict[str, Any]:
        """Returns the shapes and settings that drafters of every kind have. Raises DraftlightError if they contradict each
        other."""
        heads, hidden = self.integer("num_attention_heads"), self.integer("hidden_size")
        kv_heads, head_dim = self.optional("num_key_value_heads", heads), self.optional("head_dim", hidden // heads)
        if heads % kv_heads or head_dim % 2:
            raise DraftlightError(f"{self.where} is not a usable {self.what}: its attention heads do not add up.")
        return {
            "hidden_size": hidden,
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "head_dim": head_dim,
            "rms_norm_eps": float(self.find("rms_norm_eps") or 1e-6),
            "max_position_embeddings": self.optional("max_position_embeddings", 1 << 20),
            "activation": self.activation(),
            "draft_vocab_size": self.optional("draft_vocab_size", 0),
        }

    def read(self) -> BlockConfig:
        """Returns the whole configuration."""
        layers = self.integer("num_hidden_layers", maximum=MAX_LAYERS)
        windows = self.windows(layers)
        theta, scaling, interleaved = self.rope(windows)
        self.require_neutral()
        anchor_predicts = self.anchor_predicts()
        threshold = self.find("confidence_threshold")  # a stated 0 never ends a draft
        if self.find("enable_confidence_head", "use_confidence_head") is False:
            threshold = 0.0
        return BlockConfig(
            packaging=self.packaging,
            intermediate_size=self.integer("intermediate_size"),
            num_hidden_layers=layers,
            vocab_size=self.integer("vocab_size"),
            rope_theta=theta,
            rope_scaling=scaling,
            rope_interleaved=interleaved,
            attention_bias=bool(self.find("attention_bias")),
            taps=self.taps(layers),
            mask_token_id=self.integer("mask_token_id", minimum=0),
            block_size=self.integer("block_size", minimum=1 if anchor_predicts else 2, maximum=MAX_SLOTS),
            anchor_predicts=anchor_predicts,
            whole_blocks=self.packaging in ("DeepSpec", "SpecForge"),
            causal=self.causal(windows),
            windows=windows,
            window_follows_slot=self.packaging != "speculators",
            embedding_scale=float(self.find("input_embedding_scale") or 1.0),
            logit_scale=float(self.find("output_multiplier") or 1.0),
            logit_cap=float(self.find("final_logit_softcapping") or 0.0),
            paired=self.packaging == "Draftlight" and bool(self.find("paired")),
            target_sha256=str(self.find("target_sha256") or ""),
            confidence_threshold=CONFIDENCE_THRESHOLD if threshold is None else float(threshold),
            **self.layer(),
            **self.heads(),
            **self.second_version(),
        )

    def rope(self, windows: tuple[int | None, ...]) -> tuple[float, Mapping[str, Any] | None, bool]:
        """Returns the base, the scaling, and whether the two elements of a pair are adjacent."""
        scaling = self.find("rope_scaling") or {}
        parameters = self.of_one_type(self.find("rope_parameters") or {}, windows)
        joined = {**parameters, **scaling}
        theta = joined.pop("rope_theta", None) or self.find("rope_theta") or 10000.0
        kind = joined.get("rope_type") or joined.get("type")
        if (partial := joined.pop("partial_rotary_factor", None)) not in (None, 1):
            raise self.unknown("partial_rotary_factor", partial)
        if kind == "yarn" and joined.get("attention_factor") is not None:
            usual = 0.1 * math.log(max(float(joined["factor"]), 1.0)) + 1
            if not math.isclose(joined["attention_factor"], usual, rel_tol=1e-3):
                raise self.unknown("attention_factor", joined["attention_factor"])
        stated = self.find("rope_interleave", "rope_interleaved", "rope_traditional")
        interleaved = stated if stated is not None else any("Lfm2" in str(name) for name in self.find("architectures") or ())
        return float(theta), None if kind in _PLAIN_ROPE else joined, bool(interleaved)

    def of_one_type(self, parameters: Mapping[str, Any], windows: tuple[int | None, ...]) -> Mapping[str, Any]:
        """Returns `rope_parameters` as one object; transformers 5 may state one per layer type. Refuses types that differ."""
        types = [parameters[kind] for kind in (SLIDING, FULL) if isinstance(parameters.get(kind), Mapping)]
        if not types:
            return parameters
        used = [parameters.get(kind) for kind in {FULL if window is None else SLIDING for window in windows}]
        if not used[0] or any(other != used[0] for other in used):
            raise self.unknown("rope_parameters", dict(parameters))
        return cast(Mapping[str, Any], used[0])

    def activation(self) -> str:
        """Returns the activation of the feed-forward layers."""
        name = self.find("hidden_act", "hidden_activation", "activation_function") or "silu"
        if name not in _ACTIVATIONS:
            raise self.unknown("hidden_act", name)
        return _ACTIVATIONS[name]

    def heads(self) -> dict[str, Any]:
        """Returns which optional heads the file must contain, as far as the configuration states it."""
        kind, is_domino = self.find("markov_head_type"), self.find("projector_type") == "domino"
        return {
            "has_confidence_head": bool(self.find("enable_confidence_head", "use_confidence_head")),
            "markov_rank": 0 if is_domino else self.optional("markov_rank", 0),
            "markov_kind": _MARKOV_KINDS.get(str(kind), ""),
        }

    def require_neutral(self) -> None:
        """Raises DraftlightError if a setting that is not supported here would change what the layers compute."""
        for name, neutral in _NEUTRAL.items():
            value = self.find(name)
            if value is not None and value != neutral:
                raise self.unknown(name, value)

    def unknown(self, name: str, value: object) -> DraftlightError:
        """Returns the error for an unsupported setting."""
        return DraftlightError(
            f"{self.where} is not a {self.what} that Draftlight can run: its config.json states {name} {value!r}."
        )

    def taps(self, layers: int) -> tuple[int, ...]:
        """Returns the tapped layers. speculators numbers a hidden state by the layer it enters, which is one more."""
        if self.packaging == "speculators":
            auxiliary = self.find("aux_hidden_state_layer_ids")
            if auxiliary is not None:
                return tuple(int(layer) - 1 for layer in auxiliary)
        stated = self.find("target_layer_ids", "taps")
        if stated is not None:
            return tuple(int(layer) for layer in stated)
        depth = self.integer("num_target_layers")
        return (depth // 2,) if layers == 1 else tuple(round(1 + index * (depth - 4) / (layers - 1)) for index in range(layers))

    def anchor_predicts(self) -> bool:
        """Returns whether the anchor's slot predicts the token after it."""
        if self.packaging in ("DeepSpec", "Draftlight"):
            return True
        if self.packaging == "SpecForge":
            return self.find("projector_type") == "dspark" or bool(self.find("shift_label"))
        if self.packaging == "speculators":
            size, drafted = self.integer("block_size"), self.speculative_tokens()
            if drafted is not None:
                if drafted not in (size, size - 1):
                    raise DraftlightError(
                        f"{self.where} is not a usable {self.what}: it says that a block of {size} gives "
                        f"{drafted} {noun(drafted, 'token')}."
                    )
                return drafted == size
            stated = self.find("sample_from_anchor")
            return bool(stated) if stated is not None else self.find("speculators_model_type") == "dspark"
        return False

    def speculative_tokens(self) -> int | None:
        """Returns the number of tokens per block that speculators states, at the top level or else in the first proposal method
        that has it; None if neither does."""
        stated = self.find("speculative_tokens")
        for method in (self.find("speculators_config") or {}).get("proposal_methods") or ():
            stated = stated if stated is not None else method.get("speculative_tokens")
        return stated

    def windows(self, layers: int) -> tuple[int | None, ...]:
        """Returns the window of each layer; None for full attention."""
        types = self.find("layer_types")
        if types is None:
            is_used = self.find("use_sliding_window") and self.find("sliding_window")
            first = self.find("max_window_layers") or 0
            types = [SLIDING if is_used and layer >= first else FULL for layer in range(layers)]
        if len(types) != layers or set(types) - {SLIDING, FULL}:
            raise DraftlightError(
                f"{self.where} is not a usable {self.what}: layer_types must name {layers} "
                f"{noun(layers, 'layer')} as {SLIDING} or {FULL}."
            )
        size = self.integer("sliding_window") if SLIDING in types else None
        return tuple(size if kind == SLIDING else None for kind in types)

    def causal(self, windows: tuple[int | None, ...]) -> tuple[bool, ...]:
        """Returns for each layer whether it is causal inside the block. Default: layers with a window are, the others are
        not."""
        stated = self.find("is_causal", "dflash_query_causal", "causal")
        if stated is not None:
            return (bool(stated),) * len(windows)
        return tuple(window is not None and not self.find("sliding_window_non_causal") for window in windows)

    def second_version(self) -> dict[str, Any]:
        """Returns the additional settings of DFlash 2."""
        if self.packaging != "DFlash 2":
            return {}
        names = ("conv_kernel_size", "conv_group_size", "selector_top_k")
        kernel, group, top = (self.optional(name, 0) for name in names)
        if bool(kernel) != bool(group) or (group and self.integer("hidden_size") % group):
            raise DraftlightError(f"{self.where} is not a usable {self.what}: its convolutions do not fit its hidden size.")
        return {"conv_kernel_size": kernel, "conv_group_size": group, "selector_top_k": top}
