"""Makes the reference of the EAGLE-2 head with the authors' own package, eagle-llm; transformers runs the target.

    python3.11 -m venv /tmp/reference
    /tmp/reference/bin/pip install --no-deps -r tests/references/torch.lock
    /tmp/reference/bin/python -m tests.references.eagle.make_eagle2

The package is of EAGLE-1, whose head EAGLE-2 uses with other trees. Its own chain, `generate`, must draft the same tokens.
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
import transformers.pytorch_utils
import transformers.utils
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from tests.engine.eagle_files import EAGLE_HEADS, PROMPT, path_of, write_head, write_target
from tests.references.rounds import DEPTH, walk, write


def load_head(folder: Path) -> Any:
    """Returns the authors' model. The names that it imports from older transformers and does not need are put there."""
    for module, name in (
        (transformers.pytorch_utils, "ALL_LAYERNORM_LAYERS"),
        (transformers.utils, "add_start_docstrings"),
        (transformers.utils, "add_start_docstrings_to_model_forward"),
        (transformers.utils, "replace_return_docstrings"),
    ):
        module.__dict__.setdefault(name, None)
    package = types.ModuleType("eagle_model")
    package.__path__ = [str(Path(find_spec("eagle").submodule_search_locations[0]) / "model")]  # type: ignore[union-attr,index]
    sys.modules[package.__name__] = package
    config = types.SimpleNamespace(**json.loads((folder / "config.json").read_text()))
    head = importlib.import_module("eagle_model.cnets").Model(config, bias=config.bias).float().eval()
    head.load_state_dict(load_file(folder / "model.safetensors"))
    head.reset()
    return head


@torch.no_grad()
def make(place: Path) -> None:
    """Writes the reference."""
    folder = write_head(place / "head", "eagle2")
    target = AutoModelForCausalLM.from_pretrained(
        write_target(place / "target"), dtype=torch.float32, attn_implementation="eager"
    ).eval()
    head = load_head(folder)

    def read(text: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        states = target.model(torch.tensor([list(text)]), use_cache=False).last_hidden_state
        return states[0].numpy(), target.lm_head(states)[0].numpy()

    def rows(tokens: Sequence[int], states: np.ndarray, own: int) -> tuple[np.ndarray, np.ndarray]:
        outputs = head(torch.tensor(states)[None], input_ids=torch.tensor([list(tokens)]))
        return target.lm_head(outputs)[0].numpy(), outputs[0].numpy()

    rounds = walk(read, rows, PROMPT)
    for current in rounds:
        text, (states, _) = current["text"], read(current["text"][:-1])
        for cached in (False, True):
            ids = head.generate(
                torch.tensor(states)[None], torch.tensor([text]), target.lm_head, max_length=DEPTH, use_cache=cached
            )
            drafts = current["drafts"]
            assert ids == [*text, *(drafts[: drafts.index(2) + 1] if 2 in drafts else drafts)], (ids, drafts)
    made_with = {package: version(package) for package in ("transformers", "torch", "eagle-llm")}
    write(path_of("eagle2"), {"made_with": made_with, "weights": EAGLE_HEADS["eagle2"].fingerprint(), "rounds": rounds})


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        make(Path(place))
