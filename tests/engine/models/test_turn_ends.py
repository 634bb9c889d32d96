"""Tokens that end an answer though no file names them: those of llama.cpp's list, in folders as in GGUF files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken

from engine.models.gguf_tokenizer import from_gguf
from engine.models.tokenizer_files import from_folder
from tests.engine import tiny_models

NORMAL, CONTROL, USER_DEFINED = 1, 3, 4
ENDS = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>", "<|endoftext|>",
    "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>",
    "<|tool_response>",
)  # fmt: skip
"""As `llama-vocab.cpp` of https://github.com/ggml-org/llama.cpp lists them (`special_eog_ids`)."""
NO_ENDS = ("<|im_start|>", "<|start|>", "<|channel|>", "<s>", "<bos>", "<|user|>", "<think>", "</think>", "<pad>")


def ends(folder: Path, kinds: dict[str, int]) -> list[set[str]]:
    """Texts that end an answer if these are the first tokens, as a GGUF file and as a folder, which name no end."""
    tokens = [*kinds, *tiny_models.tokens()[len(tiny_models.SPECIAL) :]]
    metadata: dict[str, Any] = {
        **tiny_models.metadata(),
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [kinds.get(token, NORMAL) for token in tokens],
        "tokenizer.ggml.eos_token_id": None,
        "tokenizer.ggml.bos_token_id": None,
    }
    folder.mkdir(exist_ok=True)
    described = json.loads(tiny_models.backend().to_str())
    described["added_tokens"] = []
    described["model"]["vocab"] = {token: index for index, token in enumerate(tokens)}
    made = tiny_models.Backend.from_str(json.dumps(described))
    for text, kind in kinds.items():
        if kind == CONTROL:
            made.add_special_tokens([AddedToken(text, special=True)])
        elif kind == USER_DEFINED:
            made.add_tokens([AddedToken(text)])
    made.save((folder / "tokenizer.json").as_posix())
    return [
        {tokens[index] for index in made.eos_ids} for made in (from_gguf(metadata, len(tokens)), from_folder(folder, len(tokens)))
    ]


@pytest.mark.parametrize("text", ENDS)
def test_a_control_token_that_ends_answers_elsewhere_ends_them(text: str, tmp_path: Path) -> None:
    assert ends(tmp_path, {text: CONTROL} | dict.fromkeys(NO_ENDS, CONTROL)) == [{text}, {text}]


def test_ordinary_text_ends_no_answer(tmp_path: Path) -> None:
    """Neither as a piece of the vocabulary nor, as HTML is in Gemma's, as a token that is matched whole."""
    assert ends(tmp_path, dict.fromkeys(ENDS, NORMAL)) == [set(), set()]
    assert ends(tmp_path, dict.fromkeys(("</s>", "<eos>", "[EOS]", "<EOT>"), USER_DEFINED)) == [set(), set()]


def test_turn_ends_end_answers_even_if_not_marked_as_control_tokens(tmp_path: Path) -> None:
    """As in older GGUF files of Phi-3 and Gemma."""
    kinds = {"<|end|>": USER_DEFINED, "<|endoftext|>": CONTROL, "<end_of_turn>": USER_DEFINED, "<|user|>": USER_DEFINED}
    assert ends(tmp_path, kinds) == [{"<|end|>", "<|endoftext|>", "<end_of_turn>"}] * 2


def test_end_of_a_message_within_a_turn_does_not_end_the_answer(tmp_path: Path) -> None:
    """gpt-oss and Solar end each of the messages of a turn with <|end|>; </s> is HTML in Gemma 4."""
    for others in ({"<|return|>", "<|call|>"}, {"<|flush|>", "<|calls|>"}):
        assert ends(tmp_path, dict.fromkeys(["<|end|>", *others], CONTROL)) == [others] * 2
    gemma4 = {"<turn|>", "<|tool_response>", "<eos>"}
    assert ends(tmp_path, dict.fromkeys(["</s>", *gemma4], CONTROL)) == [gemma4] * 2


def test_end_tokens_of_a_gguf_file_are_added_to_the_known_ones() -> None:
    metadata = tiny_models.metadata() | {"tokenizer.ggml.eot_token_id": 260, "tokenizer.ggml.eom_token_id": 261}
    assert from_gguf(metadata, tiny_models.VOCABULARY).eos_ids == {0, 2, 260, 261}
