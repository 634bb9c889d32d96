"""What a model reads: messages in its chat template, or a text as it stands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm
import pytest
from mlx_lm.generate import generate_step

from engine.decode.context import DecodeContext
from engine.models.tokenizer_files import from_folder
from engine.rounds.trace import read
from engine.runtime.mlx_backend import MlxBackend
from engine.runtime.worker import Engine
from engine.serving.prompt import prompt_ids, uses_template
from engine.types import THINKINGS, DecodingOptions, LoadFinished, Message, Request, RoundFinished, RunFinished, RunStarted
from tests.engine import tiny_models
from tests.engine.fakes import FakeBackend, FakeTarget, FakeTokenizer

TALK = (Message("system", "Be brief."), Message("user", "first"), Message("assistant", "abc"), Message("user", "  Once \n"))


def test_without_a_template_the_last_text_alone_is_read_as_it_stands() -> None:
    base, chat = FakeTarget("base", tokenizer=FakeTokenizer(None)), FakeTarget("chat")
    text = [ord(letter) for letter in "  Once \n"]
    assert prompt_ids(base, TALK) == text
    assert prompt_ids(chat, TALK, template=False) == text
    assert prompt_ids(chat, TALK) == chat.tokenizer.apply_chat_template(TALK)
    assert [uses_template(base), uses_template(chat, False), uses_template(chat)] == [False, False, True]


def finished(engine: Engine, request: Request) -> tuple[list[object], RunFinished]:
    run_id = engine.submit(request)
    seen: list[object] = []
    while not any(isinstance(event, RunFinished) for event in seen):
        assert engine.wait(60)
        seen += engine.events()
    assert run_id
    return seen, next(event for event in seen if isinstance(event, RunFinished))


@pytest.mark.parametrize(("target", "template", "is_chat"), [("base", True, False), ("chat", False, False), ("chat", True, True)])
def test_events_and_trace_say_whether_the_template_was_used(target: str, template: bool, is_chat: bool, home: Path) -> None:
    engine = Engine(FakeBackend)
    try:
        options = DecodingOptions(seed=1, max_tokens=2)
        seen, end = finished(engine, Request(TALK, options, target, template=template))
    finally:
        engine.close()
    (started,) = (event for event in seen if isinstance(event, RunStarted))
    (loaded,) = (event for event in seen if isinstance(event, LoadFinished))
    assert (started.template, loaded.model.has_template) == (is_chat, target == "chat")
    assert end.trace_path is not None
    prompt = read(end.trace_path).header["prompt"]
    assert prompt["template"] is is_chat
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
    engine = Engine()
    try:
        request = Request((Message("user", "w7 w8"),), DecodingOptions(seed=1, max_tokens=6), str(path), template=template)
        seen, end = finished(engine, request)
        rounds = [event.round for event in seen if isinstance(event, RoundFinished)]
        ids = tuple(token.id for round_ in rounds for token in round_.emitted)
        branch, branched = finished(engine, replace(request, given=ids[:2]))
    finally:
        engine.close()
    expected = "".join(words[index].replace("▁", " ") for index in ids if index > 2)
    assert expected.startswith(" ")
    assert end.text == expected[template:]
    assert "".join(round_.text for round_ in rounds) == end.text
    assert "".join(token.text for round_ in rounds for token in round_.emitted) == end.text
    (started,) = (event for event in branch if isinstance(event, RunStarted))
    assert branched.text.startswith(started.given)
    assert end.text.startswith(started.given)
    assert end.trace_path is not None
    assert read(end.trace_path).text == end.text


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
    engine = Engine()
    try:
        options = DecodingOptions(seed=1, max_tokens=len(thought) + 6)
        asked = (Message("user", "hello"),)
        _, first = finished(engine, Request(asked, options, str(folder), conversation="c", given=thought))
        turns = (*asked, Message("assistant", first.text), Message("user", "and now?"))
        _, second = finished(engine, Request(turns, options, str(folder), conversation="c"))
    finally:
        engine.close()
    before, now = tokenizer.apply_chat_template(asked), tokenizer.apply_chat_template(turns)
    assert now[: len(before)] == before
    assert tokenizer.decode(now).count("<think>") == 0
    assert second.trace_path is not None
    summary = read(second.trace_path).summary
    assert summary is not None
    assert (summary["reused_tokens"], summary["prompt_tokens"]) == (len(before), len(now))


def test_thinking_is_switched_by_the_request_and_an_opened_thought_is_told(home: Path) -> None:
    engine = Engine(Thinker)
    try:
        found = {}
        for thinking in THINKINGS:
            options = DecodingOptions(seed=1, max_tokens=2)
            seen, end = finished(engine, Request(TALK, options, "thinker", thinking=thinking))
            (started,) = (event for event in seen if isinstance(event, RunStarted))
            assert end.trace_path is not None
            prompt = read(end.trace_path).header["prompt"]
            found[thinking] = (prompt["text"].rpartition("\n")[2], prompt["thinking"], started.in_thought)
    finally:
        engine.close()
    assert found == {
        "auto": ("<assistant>", "auto", False),
        "on": ("<assistant><think>", "on", True),
        "off": ("<assistant><think></think>", "off", False),
    }


class Thinker(FakeBackend):
    """Its template has a switch: on, the prompt opens a thought."""

    def load(self, *arguments: Any) -> FakeTarget:
        target = super().load(*arguments)
        target.tokenizer.switches_thinking = True
        return target
