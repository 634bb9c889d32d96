"""Makes the references of the heads that transformers itself runs: `MtpModel`, for DeepSeek V3 and GLM.

    python3.11 -m venv /tmp/reference
    /tmp/reference/bin/pip install --no-deps -r tests/references/torch.lock
    /tmp/reference/bin/python -m tests.references.mtp.make_transformers

transformers finds a head's tensors by the layer number of the published sizes (61, 46, 92, 47), so the tiny checkpoint's number is
put in their place. It has no setting for the head of GLM-4.7-Flash; `MtpModel` runs it once the configuration names one layer.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.cache_utils import MtpCache
from transformers.modeling_layers import MtpModel

from tests.engine.mtp_files import FAMILIES, PROMPT, REFERENCES, write_published
from tests.references.rounds import walk, write

NAMES = ("deepseek_v3", "glm4_moe", "glm4_moe_lite")


@torch.no_grad()
def make(family: str) -> None:
    """Writes the reference of one family."""
    layers = FAMILIES[family].config["num_hidden_layers"]
    with tempfile.TemporaryDirectory() as place:
        folder = write_published(Path(place), family)
        config = AutoConfig.from_pretrained(folder)
        if getattr(config, "num_mtp_layers", None) is None:
            config.num_mtp_layers, config.mtp_mlp_layer_types = 1, ["sparse"]
        kind = type(AutoModelForCausalLM.from_config(config))
        kind._keys_to_ignore_on_load_unexpected = [rf"model\.layers\.{layers}\."]
        target, report = kind.from_pretrained(
            folder, config=config, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
        )
        assert not report["missing_keys"] and not report["unexpected_keys"], report
        target.eval()
        head = MtpModel.from_pretrained(target).eval()

    def read(text: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        states = target.model(torch.tensor([list(text)]), use_cache=False).last_hidden_state
        return states[0].numpy(), target.lm_head(states)[0].numpy()

    def rows(tokens: Sequence[int], states: np.ndarray, own: int) -> tuple[np.ndarray, np.ndarray]:
        positions = torch.arange(1, len(tokens) + 1)[None]
        cache = MtpCache(config=config.get_mtp_config())
        outputs = head.forward_layer(0, torch.tensor(states)[None], positions, cache, input_ids=torch.tensor([list(tokens)]))
        return head._project_to_logits(outputs)[0].numpy(), outputs[0].numpy()

    made_with = {name: version(name) for name in ("transformers", "torch")}
    found = {"made_with": made_with, "weights": FAMILIES[family].fingerprint(), "rounds": walk(read, rows, PROMPT)}
    write(REFERENCES / f"{family}.json", found)


if __name__ == "__main__":
    for name in NAMES:
        make(name)
