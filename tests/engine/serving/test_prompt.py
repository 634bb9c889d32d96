"""What a model reads: messages in its chat template, or a text as it stands."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import mlx_lm
import pytest
from mlx_lm.generate import generate_step

from engine.mlx_backend import MlxBackend
from engine.serving.prompt import prompt_ids, uses_template
from engine.trace import read
from engine.types import DecodingOptions, LoadFinished, Message, Request, RunFinished, RunStarted
from engine.worker import Engine
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
    rounds = list(MlxBackend().decode(target, prompt, None, options, backend.make_cache(target), None))
    assert [token.id for round in rounds for token in round.emitted] == expected
