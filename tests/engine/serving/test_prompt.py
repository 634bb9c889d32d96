"""What a model reads: messages in its chat template, or a text as it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import pytest
from mlx_lm.generate import generate_step

from engine.decode.context import DecodeContext
from engine.models.tokenizer_files import from_folder
from engine.runtime.mlx_backend import MlxBackend
from engine.runtime.worker import Engine
from engine.serving.prompt import prompt_ids, uses_template
from engine.types import DecodingOptions, LoadFinished, Message, RunStarted, Thinking
from tests.engine import tiny_models
from tests.engine.desk import Desk, trace_of
from tests.engine.fakes import FakeBackend, FakeTarget, FakeTokenizer
from tests.engine.small_models import emitted_ids

TALK = (Message("system", "Be brief."), Message("user", "first"), Message("assistant", "abc"), Message("user", "  Once \n"))


def test_without_a_template_the_last_text_alone_is_read_as_it_stands() -> None:
    base, chat = FakeTarget("base", tokenizer=FakeTokenizer(None)), FakeTarget("chat")
    text = [ord(letter) for letter in "  Once \n"]
    assert prompt_ids(base, TALK) == text
    assert prompt_ids(chat, TALK, template=False) == text
    assert prompt_ids(chat, TALK) == chat.tokenizer.apply_chat_template(TALK)
    assert [uses_template(base), uses_template(chat, False), uses_template(chat)] == [False, False, True]


@pytest.mark.parametrize(("target", "template", "is_chat"), [("base", True, False), ("chat", False, False), ("chat", True, True)])
def test_events_and_trace_say_whether_the_template_was_used(target: str, template: bool, is_chat: bool, desk: Desk) -> None:
    prompt = trace_of(desk.answer(messages=TALK, target=target, template=template)).header["prompt"]
    assert desk.of(RunStarted)[0].template is prompt["template"] is is_chat
    assert desk.of(LoadFinished)[0].model.has_template == (target == "chat")
    assert len(prompt["messages"]) == (4 if is_chat else 1)
    assert (prompt["text"] == "  Once \n") is not is_chat


def test_a_base_model_goes_on_as_in_mlx_lm(tmp_path: Path) -> None:
    """With the token of the beginning, which its tokenizer puts before every text, and without that of the end, behind which
    nothing would follow."""
    folder = tiny_models.write_folder(tmp_path, eos_token_id=None)
    tiny_models.make_base(folder)
    model, theirs = mlx_lm.load(folder.as_posix())
    backend = MlxBackend()
    target = backend.load(folder.as_posix(), lambda step, fraction: None)
    prompt = prompt_ids(target, [Message("user", "hello world")])
    assert [*prompt, 0] == theirs.encode("hello world")
    expected = [int(token) for token, _ in generate_step(mx.array(prompt), model, max_tokens=12)]
    options = DecodingOptions(temperature=0, seed=1, max_tokens=12)
    outcomes = list(MlxBackend().decode(DecodeContext(target, prompt, None, options, cache=backend.make_cache(target))))
    assert [token.id for outcome in outcomes for token in outcome.round.emitted] == expected


@pytest.mark.parametrize("template", [True, False])
def test_leading_space_is_dropped_unless_the_answer_continues_a_text(template: bool, tmp_path: Path, home: Path) -> None:
    """As SentencePiece decodes it: every word of this vocabulary begins with a space."""
    words = ["<unk>", "<s>", "</s>", "▁", *(f"▁w{index}" for index in range(4, tiny_models.VOCABULARY))]
    path = tiny_models.write_gguf(
        tmp_path / "words.gguf",
        tokenizer__ggml__model="llama",
        tokenizer__ggml__tokens=words,
        tokenizer__ggml__token_type=[2, 3, 3, *[1] * (len(words) - 3)],
        tokenizer__ggml__scores=[-float(index) for index in range(len(words))],
        tokenizer__ggml__merges=None,
        tokenizer__chat_template="{{ bos_token }}{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}",
    )
    asked: dict[str, Any] = {"max_tokens": 6, "target": str(path), "template": template}
    with Desk(Engine()) as desk:
        end = desk.answer("w7 w8", **asked)
        rounds = desk.rounds()
        ids = tuple(emitted_ids(rounds))
        branched = desk.answer("w7 w8", **asked, given=ids[:2])
    expected = "".join(words[index].replace("▁", " ") for index in ids if index > 2)
    assert expected.startswith(" ")
    assert end.text == expected[template:]
    assert "".join(round_.text for round_ in rounds) == end.text
    assert "".join(token.text for round_ in rounds for token in round_.emitted) == end.text
    _, started = desk.of(RunStarted)
    assert branched.text.startswith(started.given) and end.text.startswith(started.given)
    assert trace_of(end).text == end.text


QWEN = """{%- for message in messages -%}
    {%- set content = message.content -%}
    {%- if message.role == "assistant" and "</think>" in content -%}
        {%- set content = content.split("</think>")[-1].lstrip("\\n") -%}
    {%- endif -%}
    {{- "<|im_start|>" + message.role + "\\n" + content + "<|im_end|>\\n" -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- "<|im_start|>assistant\\n" -}}
    {%- if enable_thinking is defined and enable_thinking is false -%}{{- "<think>\\n\\n</think>\\n\\n" -}}{%- endif -%}
{%- endif -%}"""
"""The shape of Qwen3's template: it forgets what was thought in earlier turns."""


def test_a_later_turn_reads_only_what_the_template_has_changed(tmp_path: Path, home: Path) -> None:
    """The thought of the turn before is gone from the prompt; all that stands before it is not read again."""
    folder = tiny_models.write_folder(tmp_path, max_position_embeddings=2000)
    (folder / "chat_template.jinja").write_text(QWEN)
    tokenizer = from_folder(folder, tiny_models.VOCABULARY)
    thought = tuple(tokenizer.encode("<think>\nhello world\n</think>\n\nhello"))
    asked = (Message("user", "hello"),)
    with Desk(Engine()) as desk:
        named: dict[str, Any] = {"max_tokens": len(thought) + 6, "target": str(folder), "conversation": "c"}
        first = desk.answer(messages=asked, **named, given=thought)
        turns = (*asked, Message("assistant", first.text), Message("user", "and now?"))
        summary = trace_of(desk.answer(messages=turns, **named)).summary
    before, now = tokenizer.apply_chat_template(asked), tokenizer.apply_chat_template(turns)
    assert now[: len(before)] == before
    assert tokenizer.decode(now).count("<think>") == 0
    assert summary is not None and (summary["reused_tokens"], summary["prompt_tokens"]) == (len(before), len(now))


@pytest.mark.parametrize(
    ("thinking", "opening", "in_thought"), [("auto", "", False), ("on", "<think>", True), ("off", "<think></think>", False)]
)
def test_thinking_is_switched_by_the_request_and_an_opened_thought_is_told(
    home: Path, thinking: Thinking, opening: str, in_thought: bool
) -> None:
    with Desk(Engine(Thinker)) as desk:
        prompt = trace_of(desk.answer(messages=TALK, thinking=thinking)).header["prompt"]
    assert prompt["text"].endswith(f"<assistant>{opening}") and prompt["thinking"] == thinking
    assert desk.of(RunStarted)[0].in_thought is in_thought


class Thinker(FakeBackend):
    """Its template has a switch: on, the prompt opens a thought."""

    def load(self, *arguments: Any) -> FakeTarget:
        target = super().load(*arguments)
        target.tokenizer.switches_thinking = True
        return target
