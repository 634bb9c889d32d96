"""Adapters against mlx-lm's own way of loading them, and against the sum of the matrices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_lm.tuner.utils import linear_to_lora_layers, load_adapters
from mlx_lm.utils import load_model
from safetensors.numpy import save_file
from transformers import AutoTokenizer

from engine.models.loading import load
from engine.values.errors import DraftlightError
from tests.engine import tiny_models
from tests.engine.files.test_memory import quantised_folder

TOKENS = mx.array([[1, 40, 70, 100, 101, 2, 260, 262, 3, 99]])
PARAMETERS = {"rank": 4, "scale": 5.0, "dropout": 0.0, "keys": ["self_attn.q_proj", "mlp.up_proj"]}


def adapter_of_mlx_lm(base: Path, folder: Path, **changes: Any) -> Path:
    """As `mlx_lm.lora` writes it; its matrices are random."""
    folder.mkdir()
    config = {"fine_tune_type": "lora", "num_layers": 2, "lora_parameters": PARAMETERS, "model": base.as_posix()} | changes
    (folder / "adapter_config.json").write_text(json.dumps(config))
    model, _ = load_model(base)
    linear_to_lora_layers(model, 2, PARAMETERS, use_dora=config["fine_tune_type"] == "dora")
    mx.random.seed(1)
    own = {
        name: mx.random.normal(array.shape) * 0.2 if "lora" in name else array
        for name, array in tree_flatten(model.parameters())
        if name.rsplit(".", 1)[-1] in ("lora_a", "lora_b", "m")
    }
    mx.save_safetensors((folder / "adapters.safetensors").as_posix(), own)
    return folder


def adapter_of_peft(base: str, folder: Path, **changes: Any) -> dict[str, np.ndarray]:
    """As PEFT writes it; the sums that it makes, by the name of the weight."""
    folder.mkdir()
    config = {"peft_type": "LORA", "base_model_name_or_path": base, "r": 3, "lora_alpha": 6, "bias": "none"} | changes
    (folder / "adapter_config.json").write_text(json.dumps(config))
    generator, weights, sums = np.random.default_rng(2), {}, {}
    for name, array in tiny_models.weights().items():
        if "v_proj" in name or "down_proj" in name:
            rows, columns = array.shape
            first, second = (generator.standard_normal(shape).astype(np.float32) / 4 for shape in ((3, columns), (rows, 3)))
            stem = f"base_model.model.{name.removesuffix('.weight')}"
            weights |= {f"{stem}.lora_A.weight": first, f"{stem}.lora_B.weight": second}
            sums[name] = 6 / 3 * second @ first
    save_file(weights, folder / "adapter_model.safetensors")
    return sums


@pytest.mark.parametrize("kind", ["lora", "dora"])
@pytest.mark.parametrize("on_gpu", [False, True])
def test_an_adapter_changes_its_base_as_mlx_lm_does_it(
    kind: str, on_gpu: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = quantised_folder(tmp_path / "base", 4) if on_gpu else tiny_models.write_folder(tmp_path / "base")
    adapter = adapter_of_mlx_lm(base, tmp_path / "adapter", fine_tune_type=kind)
    expected, _ = load_model(base)
    plain = np.array(expected(TOKENS).astype(mx.float32))
    load_adapters(expected, adapter.as_posix())
    changed = np.array(expected(TOKENS).astype(mx.float32))
    assert np.abs(changed - plain).max() > 1
    monkeypatch.setattr("engine.models.loading.computes_on_host", lambda: not on_gpu)
    loaded = load(adapter.as_posix())
    difference = np.abs(np.array(loaded.model(TOKENS).astype(mx.float32)) - changed)
    assert difference.mean() < (0.02 if on_gpu else 1e-5), "half precision rounds otherwise on the way"
    assert loaded.name == "adapter"
    assert {path.parent for path in loaded.weight_files} == {base, adapter}
    layer = loaded.model.layers[0].self_attn.q_proj
    assert hasattr(layer, "lora_a") is on_gpu, "a layer of its own only where adding would mean to quantise anew"


@pytest.mark.parametrize("base", ["base", "somebody/base"])
def test_an_adapter_of_peft_adds_its_products_to_a_base_beside_it(base: str, tmp_path: Path) -> None:
    sums = adapter_of_peft(base, tmp_path / "adapter")
    tiny_models.write_folder(tmp_path / "base")
    summed = {name: array + sums.get(name, 0) for name, array in tiny_models.weights().items()}
    expected = load(tiny_models.write_folder(tmp_path / "summed", summed).as_posix())
    loaded = load((tmp_path / "adapter").as_posix())
    np.testing.assert_allclose(np.array(loaded.model(TOKENS)), np.array(expected.model(TOKENS)), atol=1e-4)


def test_a_conversation_has_the_adapters_own_form_and_ends(tmp_path: Path) -> None:
    """Training saves tokenizer and template beside the adapter, as for a base model that has no template. The ids are those of
    transformers for the adapter's folder."""
    base = tiny_models.write_folder(tmp_path / "base", eos_token_id=260)
    tiny_models.make_base(base)
    adapter_of_peft(base.as_posix(), tmp_path / "adapter")
    plain = load((tmp_path / "adapter").as_posix())
    assert (plain.tokenizer.chat_template, plain.tokenizer.eos_id) == (None, 2)
    assert plain.tokenizer.raw_prompt("hello") == load(base.as_posix()).tokenizer.raw_prompt("hello")
    template = "{% for m in messages %}{{ m['content'] + eos_token }}{% endfor %}"
    own = {"chat_template": template, "eos_token": "<|endoftext|>", "tokenizer_class": "PreTrainedTokenizerFast"}
    (tmp_path / "adapter" / "tokenizer_config.json").write_text(json.dumps(own))
    changed = load((tmp_path / "adapter").as_posix()).tokenizer
    turns = [{"role": "user", "content": "hello"}]
    assert (changed.eos_id, changed.named["bos_token"]) == (0, "<|im_start|>")
    tiny_models.backend().save((tmp_path / "adapter" / "tokenizer.json").as_posix())
    whole = load((tmp_path / "adapter").as_posix()).tokenizer
    theirs = AutoTokenizer.from_pretrained(tmp_path / "adapter").apply_chat_template(turns, return_dict=False)
    assert whole.apply_chat_template(turns) == changed.apply_chat_template(turns) == theirs
    assert whole.prefix == ()
    (tmp_path / "adapter" / "chat_template.jinja").write_text("{{ messages[0]['content'] }}!")
    file = load((tmp_path / "adapter").as_posix()).tokenizer
    assert file.decode(file.apply_chat_template(turns)) == "hello!"


def test_adapters_that_do_not_fit_or_are_missing_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.models.loading.need_before_download", lambda name, widened: None)
    base = tiny_models.write_folder(tmp_path / "base")
    adapter_of_peft("base", tmp_path / "more", use_dora=True)
    adapter_of_mlx_lm(base, tmp_path / "other", lora_parameters=PARAMETERS | {"rank": 5})
    adapter_of_mlx_lm(base, tmp_path / "lost", model="org/base-of-others")
    adapter_of_mlx_lm(base, tmp_path / "cut")
    with (tmp_path / "cut" / "adapters.safetensors").open("r+b") as file:
        file.truncate(600)
    for name, message in [
        ("more", "more of PEFT than plain LoRA"),
        ("other", "does not fit its base model"),
        ("lost", r"contains changes to org/base-of-others, which is not on this machine.*switched off by HF_HUB_OFFLINE"),
        ("cut", "is damaged"),
    ]:
        with pytest.raises(DraftlightError, match=message):
            load((tmp_path / name).as_posix())
