"""The context length against transformers' own reading of the same configuration, and against what publishers state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mlx_lm.models import gemma3, internlm2
from transformers import AutoConfig

from engine.models.context_length import context_length
from engine.models.loading import load
from tests.engine import tiny_models

GEMMA3_4B = {
    "architectures": ["Gemma3ForConditionalGeneration"],
    "model_type": "gemma3",
    "eos_token_id": [1, 106],
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    },
}
"""What google/gemma-3-4b-it states of its text model."""

UNSTATED: list[dict[str, Any]] = [
    GEMMA3_4B,
    {"model_type": "gemma3", "text_config": {}},
    {"model_type": "gemma3_text"},
    {"model_type": "gemma3n"},
    {"model_type": "gemma2"},
    {"model_type": "llama"},
    {"model_type": "llama4", "text_config": {"model_type": "llama4_text"}},
    {"model_type": "mistral"},
    {"model_type": "mistral3", "text_config": {"model_type": "ministral3"}},
    {"model_type": "mixtral"},
    {"model_type": "qwen2"},
    {"model_type": "qwen3"},
    {"model_type": "qwen3_moe"},
    {"model_type": "qwen3_5", "text_config": {"model_type": "qwen3_5_text"}},
    {"model_type": "gpt2"},
    {"model_type": "gpt2", "n_positions": 640},
    {"model_type": "gpt_oss"},
    {"model_type": "phi3"},
    {"model_type": "smollm3"},
    {"model_type": "lfm2"},
    {"model_type": "deepseek_v3"},
    {"model_type": "glm4"},
    {"model_type": "starcoder2"},
    {"model_type": "qwen3", "max_position_embeddings": 40960},
]


@pytest.mark.parametrize("config", UNSTATED, ids=lambda config: json.dumps(config)[:60])
def test_what_the_configuration_leaves_out_is_the_default_of_transformers(
    config: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Through `AutoConfig`, which makes the whole configuration; it warns about some of its own defaults."""
    (tmp_path / "config.json").write_text(json.dumps(config))
    theirs = AutoConfig.from_pretrained(tmp_path).get_text_config().max_position_embeddings
    assert context_length(config) == theirs


@pytest.mark.parametrize(
    ("config", "published"),
    [
        (GEMMA3_4B, 131072),
        (
            {"model_type": "llama", "max_position_embeddings": 131072, "rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
            131072,
        ),
        # Qwen2.5's model card has this added for long texts; DeepSeek-V3 and gpt-oss state the stretched length themselves.
        (
            {
                "model_type": "qwen2",
                "max_position_embeddings": 32768,
                "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
            },
            131072,
        ),
        (
            {
                "model_type": "deepseek_v3",
                "max_position_embeddings": 163840,
                "rope_scaling": {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096},
            },
            163840,
        ),
        (
            {
                "model_type": "gpt_oss",
                "max_position_embeddings": 131072,
                "rope_parameters": {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096},
            },
            131072,
        ),
        (
            {
                "model_type": "olmo3",
                "max_position_embeddings": 8192,
                "rope_parameters": {
                    "full_attention": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192},
                    "sliding_attention": {"rope_type": "default"},
                },
            },
            65536,
        ),
        # Command R: 128k by its model card.
        ({"model_type": "cohere", "max_position_embeddings": 8192, "model_max_length": 131072}, 131072),
        ({"model_type": "kimi_linear", "model_max_length": 1048576}, 1048576),
        ({"model_type": "openelm", "max_context_length": 2048, "rope_max_length": 4096}, 2048),
        ({"model_type": "llava", "text_config": {"model_type": "llama", "max_position_embeddings": 4096}}, 4096),
    ],
)
def test_published_models_have_the_length_they_are_published_with(config: dict[str, Any], published: int) -> None:
    assert context_length(config) == published


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "rwkv7"},
        {"model_type": "mamba"},
        {"model_type": None},
        {"model_type": ["llama"]},
        {"model_type": "rwkv7", "max_position_embeddings": True},
        {"model_type": "rwkv7", "n_ctx": 0, "text_config": "none", "rope_scaling": {"type": "yarn", "factor": 4}},
    ],
)
def test_unstated_context_length_is_a_cautious_default(config: dict[str, Any]) -> None:
    assert context_length(config) == 2048


def test_a_gemma_3_folder_has_the_context_its_configuration_leaves_out(tmp_path: Path) -> None:
    text = {
        "model_type": "gemma3_text",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "vocab_size": tiny_models.VOCABULARY,
        "sliding_window": 16,
        "sliding_window_pattern": 2,
    }
    config = {"model_type": "gemma3", "text_config": text, "vocab_size": tiny_models.VOCABULARY}
    model = gemma3.Model(gemma3.ModelArgs.from_dict(config))
    assert load(tiny_models.write_model(tmp_path, model, config).as_posix()).context_length == 131072


def test_the_default_of_mlx_lm_counts_where_transformers_does_not_know_the_model(tmp_path: Path) -> None:
    config = {
        "model_type": "internlm2",
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "intermediate_size": 64,
        "num_attention_heads": 2,
        "rms_norm_eps": 1e-6,
        "vocab_size": tiny_models.VOCABULARY,
    }
    arguments = internlm2.ModelArgs.from_dict(config)
    folder = tiny_models.write_model(tmp_path, internlm2.Model(arguments), config)
    assert load(folder.as_posix()).context_length == arguments.max_position_embeddings == 32768
