"""Compares the stored reference of Step-3.5 with transformers' target and its `MtpModel`, which are of Step-3.7.

    python3.11 -m venv /tmp/reference
    /tmp/reference/bin/pip install --no-deps -r tests/references/torch.lock
    /tmp/reference/bin/python -m tests.references.mtp.compare_step

transformers' own loop takes the target's state after the final norm and chains the state after the head's. Here its layers get
those before the norms, as the reference does, so all but this choice is compared. Its loader wants the head's norm without
"transformer.", and the numbers of heads of the head's sliding layers have to be put into its configuration.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from transformers import Step3p7Config
from transformers.cache_utils import MtpCache
from transformers.modeling_layers import MtpModel
from transformers.models.step3p7.modeling_step3p7 import Step3p7ForConditionalGeneration

from tests.engine.mtp_files import reference, write_published

NEAR = 2e-4
NAMES = {"num_attention_groups": "num_key_value_heads", "moe_num_experts": "n_routed_experts", "moe_top_k": "num_experts_per_tok"}
VISION = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 56, "patch_size": 14}
"""A vision tower that nobody looks through: transformers has the text model only together with one."""


def load(folder: Path) -> tuple[torch.nn.Module, MtpModel]:
    """Returns target and head."""
    path = folder / "model.safetensors"
    shorter = {"transformer.shared_head.output": "shared_head.head", "transformer.shared_head.norm": "shared_head.norm"}
    tensors = load_file(path)
    for theirs, ours in shorter.items():
        tensors = {name.replace(theirs, ours): array for name, array in tensors.items()}
    save_file(tensors, path, {"format": "pt"})
    settings = json.loads((folder / "config.json").read_text())
    text = {NAMES.get(key, key): value for key, value in settings.items() if key not in ("architectures", "model_type")}
    config = Step3p7Config(text_config=text, vision_config=VISION)
    sliding = {"num_attention_heads": settings["attention_other_setting"]["num_attention_heads"]}
    config.text_config.mtp_per_layer_config = {
        layer: sliding for layer, kind in enumerate(config.text_config.mtp_layer_types) if kind == "sliding_attention"
    }
    target, report = Step3p7ForConditionalGeneration.from_pretrained(
        folder, config=config, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    assert not report["unexpected_keys"] and all("vision" in key or "projector" in key for key in report["missing_keys"])
    return target.eval(), MtpModel.from_pretrained(target).eval()


@torch.no_grad()
def differences(folder: Path) -> tuple[float, float]:
    """Returns the largest difference of the target's logits, and of the drafts'."""
    target, head = load(folder)
    text_model = target.model.language_model
    before_norm: list[torch.Tensor] = []
    outputs: list[torch.Tensor] = []
    text_model.norm.register_forward_pre_hook(lambda module, given: before_norm.append(given[0]))
    for layer in head.layers:
        layer.mtp_block.register_forward_hook(lambda module, given, output: outputs.append(output))
    of_target, of_head = 0.0, 0.0
    for current in reference("step3p5")["rounds"]:
        *read, _ = text = current["text"]
        states = text_model(torch.tensor([read]), use_cache=False).last_hidden_state
        of_target = max(of_target, _apart(target.lm_head(states), current["target"]))
        tokens, fed, cache = [*text[1:], *current["drafts"]], before_norm[-1], MtpCache(config=head.config)
        for depth, stored in enumerate(current["logits"]):
            ids = torch.tensor([tokens[depth : depth + len(read)]])
            positions = torch.arange(1 + depth, len(read) + 1 + depth)[None]
            made = head.forward_layer(depth, fed, positions, cache, input_ids=ids)
            of_head = max(of_head, _apart(head._project_to_logits(made), stored))
            fed = outputs[-1]
    return of_target, of_head


def _apart(logits: torch.Tensor, stored: list[float]) -> float:
    return float(np.abs(logits[0, -1].numpy() - np.array(stored)).max())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        found = differences(write_published(Path(place), "step3p5"))
    print("target {:.1e}, head {:.1e}".format(*found))
    assert max(found) < NEAR
