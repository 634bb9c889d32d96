"""Control tokens that end an answer in any model that has them, whatever its files name.

Many files name one end of their family while the model writes another. The list is that of llama.cpp (`llama-vocab.cpp`).
"""

from __future__ import annotations

from collections.abc import Mapping

_MARKS = frozenset(
    {
        *("<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "<｜end▁of▁sentence｜>"),
        *("<|return|>", "<|call|>", "<|calls|>", "<|flush|>", "<|tool_response>", "<turn|>"),
        *("<end_of_turn>", "<end_of_utterance>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"),
    }
)
"""No text contains these by chance. Older conversions to GGUF wrote some of them as added tokens that are no control tokens."""
_MARKS_IF_CONTROL = frozenset({"</s>", "<eos>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]"})
"""These may be ordinary text, as `</s>` is HTML in the vocabularies of Gemma."""


def ends_among(added: Mapping[int, tuple[str, bool]]) -> frozenset[int]:
    """The ids that end an answer.

    Args:
        added: by id the text of each control token and each added token, and whether it is a control token.
    """
    texts = {text for text, _ in added.values()}
    others = set()
    if {"<|return|>", "<|flush|>"} & texts:
        others.add("<|end|>")  # it ends one of several messages of a turn
    if "<|tool_response>" in texts:
        others.add("</s>")  # HTML in Gemma 4
    return frozenset(
        index
        for index, (text, is_control) in added.items()
        if text not in others and (text in _MARKS or (is_control and text in _MARKS_IF_CONTROL))
    )
