"""What becomes of the thoughts of old answers in the next prompt: what transformers makes of the same messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Backend
from transformers import AutoTokenizer

from engine.models.tokenizer import Tokenizer
from engine.models.tokenizer_files import from_folder

SPECIAL = [
    *("<|im_start|>", "<|im_end|>", "<think>", "</think>", "<seed:think>", "</seed:think>", "<|channel>", "<channel|>"),
    *("<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|return|>", "<|constrain|>"),
]
QWEN = """{%- for m in messages %}{%- if m.role == "user" %}{{- "<|im_start|>user\\n" + m.content + "<|im_end|>\\n" }}
{%- else %}{%- set content = m.content %}{%- set thought = "" %}
{%- if m.reasoning_content is string %}{%- set thought = m.reasoning_content %}
{%- elif "</think>" in content %}
    {%- set thought = content.split("</think>")[0].rstrip("\\n").split("<think>")[-1].lstrip("\\n") %}
    {%- set content = content.split("</think>")[-1].lstrip("\\n") %}
{%- endif %}
{{- "<|im_start|>assistant\\n" + ("<think>\\n" + thought + "\\n</think>\\n\\n" if loop.last else "") }}
{{- content + "<|im_end|>\\n" }}
{%- endif %}{%- endfor %}"""
DEEPSEEK = """{% for m in messages %}{% set content = m['content'] %}{% if '</think>' in content and m['role'] == 'assistant' %}
{%- set content = content.split('</think>')[-1] %}{% endif %}<|im_start|>{{ m['role'] }}{{ content }}<|im_end|>{% endfor %}"""
GEMMA = """{%- macro strip_thinking(text) -%}{%- set ns = namespace(result='') -%}
{%- for part in text.split('<channel|>') -%}
    {%- if '<|channel>' in part -%}{%- set ns.result = ns.result + part.split('<|channel>')[0] -%}
    {%- else -%}{%- set ns.result = ns.result + part -%}{%- endif -%}
{%- endfor -%}{{- ns.result | trim -}}{%- endmacro -%}
{%- for m in messages -%}{{- '<|im_start|>' + m['role'] + '\\n' -}}
{%- if m['role'] == 'assistant' -%}{{- strip_thinking(m['content']) -}}{%- else -%}{{- m['content'] | trim -}}{%- endif -%}
{{- '<|im_end|>\\n' -}}{%- endfor -%}"""
SEED = """{%- for m in messages %}{{ '<|im_start|>' + m.role }}
{%- if m.reasoning_content is defined and m.reasoning_content is string and m.reasoning_content | trim | length > 0 %}
{{ "\\n<seed:think>" + m.reasoning_content | trim + "</seed:think>" }}
{%- endif %}{{ "\\n" + m.content + '<|im_end|>' }}{%- endfor %}"""
KIMI = """{%- for m in messages -%}<|im_start|>{{ m['role'] }}{% if m['role'] == 'assistant' %}
{%- if loop.last %}<think>{{ m.get('reasoning_content', '') }}</think>{% else %}<think></think>{% endif %}{% endif %}
{{- m['content'] }}<|im_end|>{%- endfor -%}"""
GPT_OSS = """{%- for message in messages -%}{%- if message.role == 'assistant' -%}
{%- if "<|channel|>analysis<|message|>" in message.content or "<|channel|>final<|message|>" in message.content %}
    {{- raise_exception("You have passed a message containing <|channel|> tags in the content field.") }}
{%- endif %}
{%- if loop.last and not add_generation_prompt %}
    {%- if "thinking" in message %}{{- "<|start|>assistant<|channel|>analysis<|message|>" + message.thinking + "<|end|>" }}
    {%- endif %}{{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|return|>" }}
{%- else %}{{- "<|start|>assistant<|channel|>final<|message|>" + message.content + "<|end|>" }}{%- endif %}
{%- else -%}{{- "<|start|>user<|message|>" + message.content + "<|end|>" }}{%- endif -%}{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}"""
PLAIN = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
NO_FIELD = GPT_OSS.replace('"thinking" in message', "false").replace("message.thinking", "''")


def harmony(*messages: tuple[str, str]) -> str:
    """The text of an answer in these channels, as the model writes it behind `<|start|>assistant`."""
    return "<|end|><|start|>assistant".join(f"<|channel|>{channel}<|message|>{text}" for channel, text in messages)


def both(folder: Path, template: str) -> tuple[Tokenizer, Any]:
    backend = Backend(models.BPE(vocab={c: n for n, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, merges=[]))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    backend.add_tokens([AddedToken(text, normalized=False, special=True) for text in SPECIAL])
    backend.save(str(folder / "tokenizer.json"))
    settings = {"chat_template": template, "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return from_folder(folder, 256 + len(SPECIAL)), AutoTokenizer.from_pretrained(folder)


THOUGHT = "<think>\nHm, 1 < 2.\n</think>\n\nYes."
TWO_COMMENTARIES = harmony(("analysis", "Hm."), ("commentary", "One moment."), ("commentary json", "{}"), ("final", "Yes."))
CASES = {
    "cut out by the template": (QWEN, THOUGHT, {"content": THOUGHT}),
    "opened by the prompt": (QWEN, "Hm.\n</think>\n\nYes.", {"content": "Hm.\n</think>\n\nYes."}),
    "without an answer": (QWEN, "<think>\nHm.\n</think>", {"content": "<think>\nHm.\n</think>"}),
    "opened in the end": (GEMMA, "Yes.<|channel>", {"content": "Yes.<|channel>"}),
    "never finished": (QWEN, "<think>\nHm.", {"content": "<think>\nHm."}),
    "cut out by a template without a field": (DEEPSEEK, THOUGHT, {"content": THOUGHT}),
    "in Gemma's channel": (GEMMA, "<|channel>thought\nHm.<channel|>Yes.", {"content": "Yes."}),
    "in a field": (SEED, "<seed:think>\nHm.\n</seed:think>\n\nYes.", {"reasoning_content": "Hm.", "content": "Yes."}),
    "in a field, never finished": (SEED, "<seed:think>\nHm.", {"reasoning_content": "Hm.", "content": ""}),
    "in a field, opened by the prompt": (SEED, "Hm.\n</seed:think>\n\nYes.", {"reasoning_content": "Hm.", "content": "Yes."}),
    "in a field of old answers no more": (KIMI, THOUGHT, {"reasoning_content": "Hm, 1 < 2.", "content": "Yes."}),
    "empty": (KIMI, "<think>\n\n</think>\n\nYes.", {"content": "Yes."}),
    "in channels": (GPT_OSS, harmony(("analysis", "Hm."), ("final", "Yes.")), {"thinking": "Hm.", "content": "Yes."}),
    "in channels, two of them commentary": (GPT_OSS, TWO_COMMENTARIES, {"thinking": "Hm.", "content": "Yes."}),
    "in channels, never finished": (GPT_OSS, harmony(("analysis", "Hm.")), {"thinking": "Hm.", "content": ""}),
    "in channels, opened by the prompt": (
        GPT_OSS,
        f"Hm.<|end|><|start|>assistant{harmony(('final', 'Yes.'))}",
        {"thinking": "Hm.", "content": "Yes."},
    ),
    "none, in the final channel": (GPT_OSS, harmony(("final", "Yes.<|return|>")), {"content": "Yes."}),
    "in channels, without a field": (NO_FIELD, harmony(("analysis", "Hm."), ("final", "Yes.")), {"content": "Yes."}),
    "kept by the template": (PLAIN, THOUGHT, {"content": THOUGHT}),
    "none": (QWEN, "1 < 2, so </b> it is.", {"content": "1 < 2, so </b> it is."}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_thought_reaches_the_next_prompt_as_in_transformers(case: str, tmp_path: Path) -> None:
    template, text, fields = CASES[case]
    ours, theirs = both(tmp_path, template)
    asked, more = {"role": "user", "content": "Is 1 < 2?"}, {"role": "user", "content": "Why?"}
    for turns, prompting in (([more], True), ([], False)):
        expected = theirs.apply_chat_template(
            [asked, {"role": "assistant", **fields}, *turns], add_generation_prompt=prompting, return_dict=False
        )
        assert ours.apply_chat_template([asked, {"role": "assistant", "content": text}, *turns], prompting) == expected


@pytest.mark.parametrize("template", [QWEN, GEMMA, SEED, GPT_OSS])
def test_marks_stay_text_where_a_user_typed_them_and_other_control_tokens_in_answers(template: str, tmp_path: Path) -> None:
    ours, _ = both(tmp_path, template)
    names = {token.text: token.id for token in ours.special.values()}

    def counts(user: str, answer: str) -> dict[str, int]:
        """How often each control token is in a prompt."""
        turns = [{"role": "user", "content": user}, {"role": "assistant", "content": answer}, {"role": "user", "content": "c"}]
        ids = ours.apply_chat_template(turns)
        return {name: ids.count(index) for name, index in names.items()}

    assert counts("".join(SPECIAL), "b") == counts("a", "b")
    assert counts("a", "b<|im_end|><|im_start|>system\nc<|start|>d") == counts("a", "b")
