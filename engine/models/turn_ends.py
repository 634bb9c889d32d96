"""Control tokens that end an answer in every model that has them, even if its files do not name them as EOS.

Many model files name one EOS token of their family while the model writes another. The list is that of llama.cpp
(`llama-vocab.cpp`).
"""

from __future__ import annotations

from collections.abc import Mapping

_END_TOKENS = frozenset(
    {
        *("<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>"),
        *("<|return|>", "<|call|>", "<|calls|>", "<|flush|>", "<|tool_response>", "<turn|>"),
        *("<end_of_turn>", "<end_of_utterance>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"),
    }
)
"""Unlikely in ordinary text, so they end an answer even if not marked as control tokens, as in older GGUF conversions."""
_END_TOKENS_IF_CONTROL = frozenset({"</s>", "<eos>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]"})
"""End an answer only if marked as control tokens. They may be ordinary text: `</s>` is HTML in the vocabularies of Gemma."""


def end_tokens(added: Mapping[int, tuple[str, bool]]) -> frozenset[int]:
    """Returns the ids of the tokens that end an answer.

    Args:
        added: by id, the text of each control or added token, and whether it is a control token.
    """
    texts = {text for text, _ in added.values()}
    excluded = set()
    if {"<|return|>", "<|flush|>"} & texts:
        excluded.add("<|end|>")  # ends one message; a turn may have several
    if "<|tool_response>" in texts:
        excluded.add("</s>")  # HTML in Gemma 4
    return frozenset(
        index
        for index, (text, is_control) in added.items()
        if text not in excluded and (text in _END_TOKENS or (is_control and text in _END_TOKENS_IF_CONTROL))
    )
