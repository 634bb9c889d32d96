"""Makes the references of the heads that transformers' `MtpModel` runs: DeepSeek V3, GLM and MiMo.

    python3.11 -m venv /tmp/reference
    /tmp/reference/bin/pip install --no-deps -r tests/references/torch.lock
    /tmp/reference/bin/python -m tests.references.mtp.make_transformers

transformers finds a head's tensors by the layer number of the published sizes (61, 46, 92, 47); the tiny checkpoint's takes their
place. It has no setting for the head of GLM-4.7-Flash; `MtpModel` runs it once the configuration names one layer. It has no
MiMo: that is Qwen2, and `MtpModel` runs its head, with the hidden state first, once the tensors have `MtpModel`'s names.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel, Qwen2Config, Qwen2ForCausalLM
from transformers.cache_utils import MtpCache
from transformers.modeling_layers import MtpModel

from tests.engine.mtp_files import FAMILIES, PROMPT, REFERENCES, write_published
from tests.references.rounds import walk, write

NAMES = ("deepseek_v3", "glm4_moe", "glm4_moe_lite", "mimo")


MIMO_NAMES = {
    "token_layernorm.": "enorm.",
    "hidden_layernorm.": "hnorm.",
    "input_proj.": "eh_proj.",
    "final_layernorm.": "post_norm.",
}


def load(family: str, folder: Path) -> tuple[torch.nn.Module, MtpModel]:
    """Returns target and head of a checkpoint that transformers knows."""
    layers = FAMILIES[family].config["num_hidden_layers"]
    config = AutoConfig.from_pretrained(folder)
    if getattr(config, "num_mtp_layers", None) is None:
        config.num_mtp_layers, config.mtp_mlp_layer_types = 1, ["sparse"]
    kind = type(AutoModelForCausalLM.from_config(config))
    kind._keys_to_ignore_on_load_unexpected = [rf"model\.layers\.{layers}\."]
    target = load_target(kind, folder, config)
    return target, MtpModel.from_pretrained(target).eval()


def load_target(kind: type[PreTrainedModel], folder: Path, config: PreTrainedConfig) -> torch.nn.Module:
    """Returns the target; every tensor but the head's must find its place."""
    target, report = kind.from_pretrained(
        folder, config=config, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    assert not report["missing_keys"] and not report["unexpected_keys"], report
    return target.eval()


def load_mimo(folder: Path) -> tuple[torch.nn.Module, MtpModel]:
    """Returns MiMo's target as Qwen2, and its head."""
    settings = json.loads((folder / "config.json").read_text())
    config = Qwen2Config(**{key: value for key, value in settings.items() if key not in ("architectures", "model_type")})
    config.num_mtp_layers, config.mtp_layer_types, config.mtp_hidden_states_first = 1, ["full_attention"], True
    Qwen2ForCausalLM._keys_to_ignore_on_load_unexpected = [r"model\.mtp_layers\."]
    target = load_target(Qwen2ForCausalLM, folder, config)
    head = MtpModel(target, 1).float().eval()
    tensors = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        if name.startswith("model.mtp_layers.0."):
            part = name.removeprefix("model.mtp_layers.0.")
            named = next((own + part.removeprefix(theirs) for theirs, own in MIMO_NAMES.items() if part.startswith(theirs)), "")
            tensors[f"layers.0.{named or f'mtp_block.{part}'}"] = tensor
    missing, unexpected = head.load_state_dict(tensors, strict=False)
    assert not unexpected and all(name.startswith(("shared_head.", "embed_tokens.")) for name in missing), (missing, unexpected)
    return target, head


@torch.no_grad()
def make(family: str) -> None:
    """Writes the reference of one family."""
    with tempfile.TemporaryDirectory() as place:
        folder = write_published(Path(place), family)
        target, head = load_mimo(folder) if family == "mimo" else load(family, folder)

    def read(text: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        states = target.model(torch.tensor([list(text)]), use_cache=False).last_hidden_state
        return states[0].numpy(), target.lm_head(states)[0].numpy()

    def rows(tokens: Sequence[int], states: np.ndarray, own: int) -> tuple[np.ndarray, np.ndarray]:
        positions = torch.arange(1, len(tokens) + 1)[None]
        cache = MtpCache(config=head.config)
        outputs = head.forward_layer(0, torch.tensor(states)[None], positions, cache, input_ids=torch.tensor([list(tokens)]))
        return head._project_to_logits(outputs)[0].numpy(), outputs[0].numpy()

    made_with = {name: version(name) for name in ("transformers", "torch")}
    found = {"made_with": made_with, "weights": FAMILIES[family].fingerprint(), "rounds": walk(read, rows, PROMPT)}
    write(REFERENCES / f"{family}.json", found)


if __name__ == "__main__":
    for name in NAMES:
        make(name)
