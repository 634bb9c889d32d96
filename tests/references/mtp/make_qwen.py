"""Makes the references of Qwen's MTP heads with transformers (the target) and speculators (the head), neither of which we wrote.

    python3.11 -m venv /tmp/reference
    /tmp/reference/bin/pip install --no-deps -r tests/references/torch.lock
    /tmp/reference/bin/python -m tests.references.mtp.make_qwen

`MTPConverter` reads the head out of the published checkpoint, `MTPDraftModel.forward` shifts the tokens and runs it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from speculators.config import SpeculatorsConfig, VerifierConfig
from speculators.convert.mtp.converter import MTPConverter
from speculators.models.mtp import MTPDraftModel, MTPSpeculatorConfig
from speculators.proposals.greedy import GreedyTokenProposalConfig
from transformers import AutoModelForCausalLM

from tests.engine.mtp_files import FAMILIES, PROMPT, REFERENCES, write_published
from tests.references.rounds import walk, write


def load_head(folder: Path, target: torch.nn.Module) -> MTPDraftModel:
    """Returns speculators' model of the head inside a published checkpoint, with the target's embedding and head."""
    config = MTPSpeculatorConfig(
        transformer_layer_config=target.config,
        speculators_config=SpeculatorsConfig(
            algorithm="mtp",
            proposal_methods=[GreedyTokenProposalConfig(speculative_tokens=1)],
            default_proposal_method="greedy",
            verifier=VerifierConfig(name_or_path=None, architectures=[]),
        ),
    )
    head = MTPDraftModel(config).float().eval()
    missing, unexpected = head.load_state_dict(MTPConverter().convert_to_state_dict(folder), strict=False)
    assert not unexpected and not [name for name in missing if name.startswith("mtp_layers")], (missing, unexpected)
    head.embed_tokens.load_state_dict(target.get_input_embeddings().state_dict())
    head.lm_head.load_state_dict(target.lm_head.state_dict())
    return head


@torch.no_grad()
def make(family: str) -> None:
    """Writes the reference of one family."""
    with tempfile.TemporaryDirectory() as place:
        folder = write_published(Path(place), family)
        target = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        head = load_head(folder, target)

    def read(text: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        made = target(torch.tensor([list(text)]), output_hidden_states=True, use_cache=False)
        return made.hidden_states[-1][0].numpy(), made.logits[0].numpy()

    def rows(tokens: Sequence[int], states: np.ndarray, own: int) -> tuple[np.ndarray, np.ndarray]:
        # forward() shifts the tokens itself and leaves the last two positions out: the first token is never embedded.
        outputs: list[torch.Tensor] = []
        hook = head.mtp_layers[0].register_forward_hook(lambda module, given, output: outputs.append(output))
        padded = torch.nn.functional.pad(torch.tensor(states), (0, 0, 0, 2))
        logits, *_ = head(torch.tensor([[0, *tokens, 0]]), padded[None])
        hook.remove()
        assert logits[0].shape[1] == len(tokens)
        return logits[0][0].numpy(), outputs[0][0].numpy()

    made_with = {name: version(name) for name in ("transformers", "speculators", "torch")}
    found = {"made_with": made_with, "weights": FAMILIES[family].fingerprint(), "rounds": walk(read, rows, PROMPT)}
    write(REFERENCES / f"{family}.json", found)


if __name__ == "__main__":
    for name in ("qwen3_5", "qwen3_5_moe", "qwen3_next"):
        make(name)
