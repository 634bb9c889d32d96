"""The engine thread with real models, tiny ones in files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models import mamba, mamba2, rwkv7
from mlx_lm.utils import load_model

from engine.machine.host import computes_on_host
from engine.rounds.metrics import summarise, violations
from engine.runtime.worker import Engine
from engine.serving.overlap import OverlapExecutor
from engine.types import RULES, Event, Message, RoundFinished
from tests.engine.desk import Desk, trace_of
from tests.engine.small_models import emitted_ids, greedy_of_mlx_lm, same_up_to_near_ties
from tests.engine.tiny_models import VOCABULARY, write_model, write_pair


@pytest.fixture
def desk(real_desk: Desk) -> Desk:
    return real_desk


def test_several_prompts_in_a_row_leave_whole_traces(desk: Desk, tiny_pair: tuple[str, str]) -> None:
    target, draft = tiny_pair
    for turn, (drafter, rule) in enumerate(zip(("none", "ngram", draft, draft), RULES, strict=True)):
        text = "hello world " * (turn + 1)
        end = desk.answer(text, target=target, drafter=drafter, rule=rule, gamma=1 + turn, seed=turn, max_tokens=16)
        found = trace_of(end)
        assert violations(found.rounds) == () and found.summary is not None
        assert found.summary["text"] == end.text == "".join(round.text for round in found.rounds)
        assert found.rounds[-1].cache_length == len(found.header["prompt"]["ids"]) + end.tokens - 1
        assert found.summary["metrics"]["alpha"] == summarise(found.rounds).alpha
        assert (found.header["drafter"]["sha256"] is None) == (drafter != draft)
    assert len(found.header["target"]["sha256"]) == 64
    if computes_on_host():
        assert (found.header["target"]["logits"], found.header["target"]["prompt_chunk"]) == ("float32", 2048)


CONVOLVED = {"intermediate_size": 64, "num_hidden_layers": 2, "conv_kernel": 4, "use_bias": False, "use_conv_bias": True}
HEADS = {"num_heads": 4, "head_dim": 16, "state_size": 16, "n_groups": 1, "layer_norm_epsilon": 1e-5}
LOW_RANK = {f"{name}_low_rank_dim": 8 for name in ("a", "v", "gate", "decay")}
RECURRENT: dict[str, tuple[Any, dict[str, Any]]] = {
    "mamba": (mamba, {**CONVOLVED, "state_size": 8, "time_step_rank": 4}),
    "mamba2": (
        mamba2,
        {**CONVOLVED, **HEADS, "tie_word_embeddings": False, "time_step_limit": [0.0, 1e9], "time_step_rank": "auto"},
    ),
    "rwkv7": (rwkv7, {"intermediate_size": 64, "norm_eps": 1e-5, "head_dim": 16, "num_hidden_layers": 2, **LOW_RANK}),
}


@pytest.mark.parametrize("kind", RECURRENT)
def test_a_recurrent_model_holds_a_conversation_as_mlx_lm_does_and_logs_nothing(kind: str, desk: Desk, tmp_path: Path) -> None:
    module, described = RECURRENT[kind]
    config = {"model_type": kind, "vocab_size": VOCABULARY, "hidden_size": 32, **described}
    mx.random.seed(5)
    folder = str(write_model(tmp_path / kind, module.Model(module.ModelArgs.from_dict(config)), config))
    theirs, _ = load_model(Path(folder))
    messages: tuple[Message, ...] = ()
    for turn in range(2):
        messages += (Message("user", f"hello world {turn}"),)
        end = desk.answer(messages=messages, target=folder, conversation=kind, temperature=0.0, max_tokens=8)
        found = trace_of(end)
        tokens = emitted_ids(found.rounds)
        greedy = greedy_of_mlx_lm(theirs, found.header["prompt"]["ids"], 8)
        assert same_up_to_near_ties(found.rounds, greedy[: len(tokens)])
        assert len(tokens) == 8 or tokens[-1] == 2
        assert found.summary is not None and (found.summary["reused_tokens"] > 0) == (turn > 0)
        messages += (Message("assistant", end.text),)


class Reacting(Engine):
    """Calls back with every event right after it was sent: what other threads may do at any time."""

    def __init__(self, react: Callable[[Engine, Event], None]) -> None:
        self._react = react
        super().__init__()

    def put(self, *events: Event) -> None:
        super().put(*events)
        for event in events:
            self._react(self, event)


def test_a_drafter_taken_up_in_the_middle_leaves_the_text_as_it_would_have_been(
    desk: Desk, tiny_pair: tuple[str, str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, draft = tiny_pair
    plain = desk.answer("hello hello", target=target, max_tokens=24)

    def react(engine: Engine, event: Event) -> None:
        match event:
            case RoundFinished(run_id, round) if round.index == 1:
                engine.update(run_id, drafter=draft, gamma=2)
            case RoundFinished(run_id, round) if round.index == 3:
                engine.update(run_id, rule="match", drafter="ngram")
            case RoundFinished(run_id, round) if round.index == 5:
                engine.update(run_id, drafter="none")

    monkeypatch.setattr(OverlapExecutor, "put", lambda self, task, rows: task())  # before the next round begins
    with Desk(Reacting(react)) as reacting:
        changed = reacting.answer("hello hello", target=target, max_tokens=24)
    rounds = trace_of(changed).rounds
    assert changed.text == plain.text
    assert [change["index"] for change in trace_of(changed).changes] == [2, 4, 6]
    assert [round.drafter for round in rounds] == ["none"] * 2 + [draft] * 2 + ["ngram"] * 2 + ["none"] * (len(rounds) - 6)
    assert [round.rule for round in rounds] == ["gumbel"] * 4 + ["match"] * (len(rounds) - 4)
    assert all(len(round.proposals) == 2 for round in rounds[2:4])


def test_stopping_while_a_round_is_reported_beside_another_keeps_the_conversation_right(
    desk: Desk, tiny_pair: tuple[str, str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round that runs beside the report of another may be the last one instead. Only one report may wait, so that the number
    of rounds does not depend on how late it comes."""
    target, draft = tiny_pair
    monkeypatch.setattr("engine.serving.overlap.ROWS_BEHIND", 1)
    stops: list[int] = []

    def react(engine: Engine, event: Event) -> None:
        if isinstance(event, RoundFinished) and event.round.index == 2 and not stops:
            stops.append(event.run_id)
            engine.stop(event.run_id)

    with Desk(Reacting(react)) as reacting:
        stopped = reacting.answer("hello", target=target, drafter=draft, conversation="stopped", max_tokens=400)
        assert stopped.finish == "cancelled" and 3 <= len(reacting.rounds(stopped.run_id)) <= 4
        messages = (Message("user", "hello"), Message("assistant", stopped.text), Message("user", "world"))
        kept = reacting.answer(messages=messages, target=target, drafter=draft, conversation="stopped", max_tokens=16)
    summary = trace_of(kept).summary
    assert summary is not None and summary["reused_tokens"] > 0
    assert kept.text == desk.answer(messages=messages, target=target, drafter=draft, max_tokens=16).text


def test_an_answer_that_fills_the_context_ends_there(desk: Desk, tmp_path: Path) -> None:
    target, _ = write_pair(tmp_path, 100)
    end = desk.answer("a" * 40, target=target, max_tokens=400)
    assert end.finish == "context"
    assert len(trace_of(end).header["prompt"]["ids"]) + end.tokens == 100
