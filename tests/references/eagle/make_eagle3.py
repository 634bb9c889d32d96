"""Makes the references of EAGLE-3 heads: transformers runs the target, speculators its own packaging, AngelSlim the authors'.

    python3.11 -m venv /tmp/reference
    /tmp/reference/bin/pip install --no-deps -r tests/references/torch.lock
    /tmp/reference/bin/python -m tests.references.eagle.make_eagle3

AngelSlim's drafter descends from the authors' `cnets.py`, which no registry has for EAGLE-3; its own loop, `topK_genrate`, which
keeps keys and values of the target's rows only, must draft the same tokens through all rounds. SpecForge's model must agree on
the rows of text. speculators' `forward` is used as it is, but for `fc`, which a wrapper skips for rows of chained states.
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
import types
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from specforge.modeling.draft.llama3_eagle import LlamaForCausalLMEagle3
from speculators.models.eagle3 import Eagle3DraftModel
from transformers import AutoModelForCausalLM, LlamaConfig

from tests.engine.eagle_files import EAGLE_HEADS, PROMPT, Head, path_of, write_head, write_target
from tests.references.rounds import DEPTH, Rows, Target, walk, write


def taps_of(target: Any, taps: Sequence[int]) -> Target:
    """Returns what reads the inputs of these layers side by side; one past the last stands for the input of the final norm."""

    def read(text: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        inputs: list[torch.Tensor] = []
        hooks = [layer.register_forward_pre_hook(lambda module, given: inputs.append(given[0])) for layer in target.model.layers]
        hooks.append(target.model.norm.register_forward_pre_hook(lambda module, given: inputs.append(given[0])))
        logits = target(torch.tensor([list(text)]), use_cache=False).logits
        for hook in hooks:
            hook.remove()
        return torch.cat([inputs[tap] for tap in taps], -1)[0].numpy(), logits[0].numpy()

    return read


class Skipping(torch.nn.Module):
    """`fc` for rows of the target's states; other rows take `chained` instead of its output."""

    def __init__(self, fc: torch.nn.Module) -> None:
        super().__init__()
        self.fc, self.chained = fc, torch.empty(0)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        made = self.fc(states)
        return made if not len(self.chained) else torch.cat([made[:, : -len(self.chained)], self.chained[None]], 1)


def rows_of_speculators(folder: Path, target: Path, place: Path) -> Rows:
    """Returns speculators' model of a head, read by its own loader."""
    config = json.loads((folder / "config.json").read_text())
    config["speculators_config"]["verifier"]["name_or_path"] = str(target)
    place.mkdir()
    (place / "config.json").write_text(json.dumps(config))
    (place / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    head = Eagle3DraftModel.from_pretrained(place, attn_implementation="eager").float().eval()
    stored = load_file(folder / "model.safetensors")
    for name, tensor in head.state_dict().items():
        assert name.startswith("verifier_") or torch.equal(tensor, stored.pop(name)), name
    assert not stored, stored.keys()
    hidden = head.hidden_size
    head.fc = Skipping(head.fc)

    def rows(tokens: Sequence[int], states: np.ndarray, own: int) -> tuple[np.ndarray, np.ndarray]:
        head.fc.chained = torch.tensor(states)[len(states) - own :, :hidden]
        logits: list[torch.Tensor] = []
        outputs: list[torch.Tensor] = []
        hooks = [
            head.lm_head.register_forward_hook(lambda module, given, output: logits.append(output)),
            (head.norm if head.config.norm_output else head.layers[-1]).register_forward_hook(
                lambda module, given, output: outputs.append(output)
            ),
        ]
        ids = torch.tensor([list(tokens)])
        head(torch.tensor(states)[None], ids, torch.zeros_like(ids), ttt_steps=1)
        for hook in hooks:
            hook.remove()
        return logits[0][0].numpy(), outputs[0][0].numpy()

    return rows


def _angelslim() -> Any:
    """Returns the module with AngelSlim's drafter; its package would import all of a compression toolkit."""
    root = Path(find_spec("angelslim").submodule_search_locations[0])  # type: ignore[union-attr,index]
    package = types.ModuleType("angelslim_draft")
    package.__path__ = [str(root / "compressor/speculative/inference/models/eagle3/draft")]
    sys.modules[package.__name__] = package
    return importlib.import_module(f"{package.__name__}.llama3_eagle3")


def load_angelslim(folder: Path, target: Any) -> Any:
    """Returns AngelSlim's drafter of a head; without an embedding of its own it takes the target's."""
    config = types.SimpleNamespace(**json.loads((folder / "config.json").read_text()))
    head = _angelslim().Llama3Eagle3Drafter(config, total_tokens=DEPTH + 1, depth=DEPTH - 1, top_k=1).float().eval()
    stored = load_file(folder / "model.safetensors")
    stored.setdefault("embed_tokens.weight", target.model.embed_tokens.weight)
    missing, unexpected = head.load_state_dict(stored, strict=False)
    assert not unexpected and set(missing) <= {"d2t", "t2d"}, (missing, unexpected)
    head.init_tree()
    head.reset()
    head.reset_kv()
    return head


def rows_of_angelslim(head: Any) -> Rows:
    """Returns the drafter without anything kept between calls."""

    def rows(tokens: Sequence[int], states: np.ndarray, own: int) -> tuple[np.ndarray, np.ndarray]:
        head.reset()
        count = len(states) - own
        ids, fed = torch.tensor([list(tokens)]), torch.tensor(states)[None]
        outputs, cache, _ = head(fed[:, :count], input_ids=ids[:, :count], use_cache=True)
        if own:
            chained, _, _ = head(
                fed[:, count:, : head.hidden_size], input_ids=ids[:, count:], past_key_values=cache, use_cache=True
            )
            outputs = torch.cat([outputs, chained], 1)
        return head.lm_head(head.norm(outputs))[0].numpy(), outputs[0].numpy()

    return rows


def check_loop(head: Any, read: Target, rounds: Sequence[dict[str, Any]]) -> None:
    """Fails unless AngelSlim's own loop drafts the same tokens, with keys and values that it keeps from round to round."""
    head.reset_kv()
    known = 0
    for current in rounds:
        states, _ = read(current["text"][:-1])
        drafts, *_ = head.topK_genrate(torch.tensor(states[known:])[None], torch.tensor([current["text"]]))
        assert drafts[0].tolist() == [current["text"][-1], *current["drafts"]], (drafts, current["drafts"])
        known = len(states)


def check_specforge(folder: Path, target: Any, read: Target, rounds: Sequence[dict[str, Any]]) -> float:
    """Returns the largest difference of SpecForge's logits in the rows of the whole text."""
    config = json.loads((folder / "config.json").read_text())
    head = LlamaForCausalLMEagle3(LlamaConfig(**config)).float().eval()
    stored = load_file(folder / "model.safetensors")
    stored.setdefault("embed_tokens.weight", target.model.embed_tokens.weight)
    missing, unexpected = head.load_state_dict(stored, strict=False)
    assert not unexpected and set(missing) <= {"d2t", "t2d"}, (missing, unexpected)
    text = rounds[-1]["text"]
    states, _ = read(text[:-1])
    made = head(torch.tensor(states)[None], head.embed_input_ids(torch.tensor([text[1:]])))
    stored_rows = np.concatenate([np.array(current["rows"]) for current in rounds])
    return float(np.abs(head.lm_head(made)[0].numpy() - stored_rows).max())


@torch.no_grad()
def make(name: str, head: Head, place: Path) -> None:
    """Writes the reference of one head."""
    target_folder, folder = write_target(place / "target"), write_head(place / "head", name)
    target = AutoModelForCausalLM.from_pretrained(target_folder, dtype=torch.float32, attn_implementation="eager").eval()
    read = taps_of(target, head.taps)
    ids = head.target_ids().tolist()
    packages = ["transformers", "torch"]
    if "speculators_config" in head.config:
        rounds = walk(read, rows_of_speculators(folder, target_folder, place / "bound"), PROMPT, ids)
        packages.append("speculators")
    else:
        drafter = load_angelslim(folder, target)
        rounds = walk(read, rows_of_angelslim(drafter), PROMPT, ids)
        check_loop(drafter, read, rounds)
        print(f"SpecForge differs by {check_specforge(folder, target, read, rounds):.1e}")
        packages.append("angelslim")
    made_with = {package: version(package) for package in packages}
    write(path_of(name), {"made_with": made_with, "weights": head.fingerprint(), "rounds": rounds})


if __name__ == "__main__":
    for name, head in EAGLE_HEADS.items():
        if not head.taps:
            continue
        with tempfile.TemporaryDirectory() as place:
            make(name, head, Path(place))
