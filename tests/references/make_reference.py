"""Makes `builtin_reference.json`: outputs of transformers and PyTorch for the built-in target.

Run once, in an environment of its own, whenever the built-in target changes:

    python -m venv /tmp/reference
    /tmp/reference/bin/pip install torch==2.13.0 transformers==5.23.0 gguf==0.19.0 accelerate jinja2
    /tmp/reference/bin/python tests/references/make_reference.py PATH/SmolLM2-135M-Instruct.Q4_1.gguf

Nothing of Draftlight, MLX or mlx-lm takes part: the `gguf` package dequantises the weights, transformers renames and reorders
them, runs its own LlamaForCausalLM in float32, and builds its own tokenizer from the file's metadata. That tokenizer ignores the
pre-tokeniser's name, so `texts.json` holds no digits but ASCII ones, where this makes no difference.
"""

import json
import sys
from pathlib import Path

import torch
import transformers

TEXTS = json.loads((Path(__file__).parent / "texts.json").read_text(encoding="utf-8"))
CONVERSATIONS = [
    [{"role": "user", "content": "What is the capital of France?"}],
    [{"role": "system", "content": "Answer in one word."}, {"role": "user", "content": "2 + 2?"}],
    [
        {"role": "user", "content": "Write a Python function that adds two numbers."},
        {"role": "assistant", "content": "def add(a, b):\n    return a + b"},
        {"role": "user", "content": "Now make it multiply."},
    ],
    [{"role": "user", "content": "\n  Erzähle mir von Zürich 🏔️\r\n"}],
]
TOP = 20
PROJECTIONS = 4
POSITIONS = 6
WITH_LOGITS = (0, 1, 3, 8, 12, 28)
"""Prompts whose logits are kept: conversations, code, white space, and the longest."""


def projections(logits: torch.Tensor) -> list[float]:
    """Mean of logits times cos(k * id) for k = 1 to 4: numbers that change if any logit does."""
    ids = torch.arange(len(logits), dtype=torch.float64)
    return [float((logits.double() * torch.cos(k * ids)).mean()) for k in range(1, PROJECTIONS + 1)]


def main() -> None:
    """Write the reference beside this script."""
    path = Path(sys.argv[1])
    source = {"pretrained_model_name_or_path": path.parent.as_posix(), "gguf_file": path.name}
    tokenizer = transformers.AutoTokenizer.from_pretrained(**source)
    model = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32, attn_implementation="eager")
    model.eval()
    prompts = [tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=False) for turns in CONVERSATIONS]
    prompts += [tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"] for text in TEXTS]
    rows = []
    for index in WITH_LOGITS:
        ids = prompts[index]
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0]
        for position in sorted({round(step * (len(ids) - 1) / (POSITIONS - 1)) for step in range(POSITIONS)}):
            top = torch.topk(logits[position], TOP)
            rows.append(
                {
                    "prompt": index,
                    "position": position,
                    "top_ids": top.indices.tolist(),
                    "top_logits": [round(value, 5) for value in top.values.tolist()],
                    "projections": [round(value, 8) for value in projections(logits[position])],
                }
            )
    made = {
        "made_with": {"torch": torch.__version__, "transformers": transformers.__version__},
        "conversations": CONVERSATIONS,
        "texts": TEXTS,
        "prompts": prompts,
        "rows": rows,
    }
    target = Path(__file__).with_name("builtin_reference.json")
    target.write_text(json.dumps(made, ensure_ascii=True, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"{len(prompts)} prompts, {len(rows)} rows, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
