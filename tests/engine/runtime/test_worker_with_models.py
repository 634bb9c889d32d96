"""The engine thread with real models: tiny ones in files, and the built-in one once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest
from mlx_lm.models import mamba, mamba2, rwkv7
from mlx_lm.models.cache import RotatingKVCache
from mlx_lm.utils import load_model

from engine.machine.host import computes_on_host
from engine.rounds.metrics import summarise, violations
from engine.rounds.trace import Trace, read
from engine.runtime.mlx_backend import MlxBackend
from engine.runtime.worker import Engine
from engine.serving.overlap import OverlapExecutor
from engine.target import prompt_cache
from engine.types import (
    RULES,
    DecodingOptions,
    DrafterReady,
    DrafterRefused,
    Event,
    LoadFailed,
    LoadFinished,
    Message,
    PrefillProgress,
    Request,
    RoundFinished,
    RunChanged,
    RunFailed,
    RunFinished,
)
from engine.values.errors import DraftlightError
from tests.engine.fakes import PATIENCE
from tests.engine.small_models import greedy_of_mlx_lm, same_up_to_near_ties, tiny_sliding_window
from tests.engine.tiny_models import VOCABULARY, tokens, write_gguf, write_model, write_pair

CONTEXT = 3000


class Files:
    """A target, a draft model for it, a model with another vocabulary, and a damaged file."""

    def __init__(self, folder: Path) -> None:
        swapped = tokens()
        swapped[10], swapped[11] = swapped[11], swapped[10]
        self.target, self.draft = write_pair(folder, CONTEXT)
        self.foreign = str(write_gguf(folder / "foreign.gguf", tokenizer__ggml__tokens=swapped))
        damaged = folder / "damaged.gguf"
        damaged.write_bytes(Path(self.target).read_bytes()[:20_000])
        self.damaged = str(damaged)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def shared_engine() -> Iterator[Engine]:
    engine = Engine()
    yield engine
    assert engine.close(PATIENCE)


@pytest.fixture
def engine(shared_engine: Engine, home: Path) -> Engine:
    """One engine for all tests here; each test's traces go to a folder of its own."""
    shared_engine.events()
    return shared_engine


def until_end(engine: Engine, run_id: int) -> list[Event]:
    seen: list[Event] = []
    while not any(isinstance(event, (RunFinished, RunFailed)) and event.run_id == run_id for event in seen):
        assert engine.wait(PATIENCE), f"the answer did not end; seen: {seen[-3:]}"
        seen += engine.events()
    return seen


def answer(engine: Engine, files: Files, text: str | tuple[Message, ...] = "hello", **changes: Any) -> tuple[RunFinished, Trace]:
    """Ask, wait, and read the trace. Options are taken from the changes where they have their names."""
    names = {"drafter", "conversation", "target"}
    options = DecodingOptions(**{"seed": 3, "max_tokens": 24, **{k: v for k, v in changes.items() if k not in names}})
    messages = text if isinstance(text, tuple) else (Message("user", text),)
    others = {"target": files.target, **{name: value for name, value in changes.items() if name in names}}
    seen = until_end(engine, engine.submit(Request(messages, options, **others)))
    end = seen[-1]
    assert isinstance(end, RunFinished), end
    assert end.trace_path is not None
    return end, read(end.trace_path)


def reacting(engine: Engine, monkeypatch: pytest.MonkeyPatch, react: Callable[[Event], None], beside: bool = False) -> None:
    """Calls back with every event right after it was emitted: what other threads may do at any time.

    On the engine thread before the next round, unless rounds are to be reported `beside` that one as they usually are.
    """
    if not beside:
        monkeypatch.setattr(OverlapExecutor, "put", lambda self, task, rows: task())
    emit = engine._emit

    def emit_and_react(event: Event) -> None:
        emit(event)
        react(event)

    monkeypatch.setattr(engine, "_emit", emit_and_react)


def test_twenty_prompts_in_a_row_leave_whole_traces_and_one_thread(engine: Engine, files: Files, home: Path) -> None:
    threads = set(threading.enumerate())
    drafters = ("none", "ngram", files.draft)
    for turn in range(20):
        end, found = answer(
            engine,
            files,
            "hello world " * (turn + 1),
            drafter=drafters[turn % 3],
            rule=RULES[turn % 4],
            gamma=1 + turn % 5,
            seed=turn,
        )
        assert found.missing is None
        assert violations(found.rounds) == ()
        assert found.summary is not None
        assert found.summary["text"] == end.text == "".join(round.text for round in found.rounds)
        assert found.rounds[-1].cache_length == len(found.header["prompt"]["ids"]) + end.tokens - 1
        assert found.summary["metrics"]["alpha"] == summarise(found.rounds).alpha
        digest = found.header["drafter"]["sha256"]
        assert (digest is None) == (drafters[turn % 3] != files.draft)
    assert len(list((home / "traces").iterdir())) == 20
    assert set(threading.enumerate()) == threads


def test_three_turns_with_the_cache_are_three_turns_from_scratch(engine: Engine, files: Files) -> None:
    for drafter in ("none", "ngram", files.draft):
        messages: tuple[Message, ...] = ()
        for turn in range(3):
            messages += (Message("user", f"hello world {turn}"),)
            kept, with_cache = answer(engine, files, messages, drafter=drafter, conversation=f"talk {drafter}", seed=turn)
            fresh, from_scratch = answer(engine, files, messages, drafter=drafter, seed=turn)
            assert kept.text == fresh.text
            assert with_cache.summary is not None
            assert from_scratch.summary is not None
            assert from_scratch.summary["reused_tokens"] == 0
            assert (with_cache.summary["reused_tokens"] > 0) == (turn > 0)
            messages += (Message("assistant", kept.text),)


RECURRENT: dict[str, tuple[Any, dict[str, Any]]] = {
    "mamba": (
        mamba,
        {
            "intermediate_size": 64,
            "state_size": 8,
            "num_hidden_layers": 2,
            "conv_kernel": 4,
            "use_bias": False,
            "use_conv_bias": True,
            "time_step_rank": 4,
        },
    ),
    "mamba2": (
        mamba2,
        {
            "num_heads": 4,
            "head_dim": 16,
            "intermediate_size": 64,
            "state_size": 16,
            "num_hidden_layers": 2,
            "layer_norm_epsilon": 1e-5,
            "conv_kernel": 4,
            "n_groups": 1,
            "use_bias": False,
            "use_conv_bias": True,
            "tie_word_embeddings": False,
            "time_step_limit": [0.0, 1e9],
            "time_step_rank": "auto",
        },
    ),
    "rwkv7": (
        rwkv7,
        {
            "intermediate_size": 64,
            "norm_eps": 1e-5,
            "head_dim": 16,
            "num_hidden_layers": 2,
            "a_low_rank_dim": 8,
            "v_low_rank_dim": 8,
            "gate_low_rank_dim": 8,
            "decay_low_rank_dim": 8,
        },
    ),
}


@pytest.mark.parametrize("kind", RECURRENT)
def test_a_recurrent_model_holds_a_conversation_as_mlx_lm_does_and_logs_nothing(
    kind: str, engine: Engine, files: Files, tmp_path: Path
) -> None:
    module, described = RECURRENT[kind]
    config = {"model_type": kind, "vocab_size": VOCABULARY, "hidden_size": 32, **described}
    mx.random.seed(5)
    folder = str(write_model(tmp_path / kind, module.Model(module.ModelArgs.from_dict(config)), config))
    theirs, _ = load_model(Path(folder))
    messages: tuple[Message, ...] = ()
    for turn in range(2):
        messages += (Message("user", f"hello world {turn}"),)
        end, found = answer(engine, files, messages, target=folder, conversation=kind, temperature=0.0, max_tokens=8)
        tokens = [token for round in found.rounds for token in round.emitted]
        greedy = greedy_of_mlx_lm(theirs, found.header["prompt"]["ids"], 8)
        assert same_up_to_near_ties(found.rounds, greedy[: len(tokens)])
        assert len(tokens) == 8 or tokens[-1].id == 2
        assert found.summary is not None
        assert (found.summary["reused_tokens"] > 0) == (turn > 0)
        messages += (Message("assistant", end.text),)


def test_regenerating_with_the_same_seed_reads_nothing_and_says_the_same(engine: Engine, files: Files) -> None:
    first, _ = answer(engine, files, "world", conversation="again", drafter=files.draft)
    second, found = answer(engine, files, "world", conversation="again", drafter=files.draft)
    assert first.text == second.text
    assert found.summary is not None
    assert found.summary["reused_tokens"] == found.summary["prompt_tokens"] - 1


def test_a_drafter_taken_up_in_the_middle_leaves_the_text_as_it_would_have_been(
    engine: Engine, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, _ = answer(engine, files, "hello hello", max_tokens=40)

    def react(event: Event) -> None:
        match event:
            case RoundFinished(run_id, round) if round.index == 3:
                engine.update(run_id, drafter=files.draft, gamma=2)
            case RoundFinished(run_id, round) if round.index == 7:
                engine.update(run_id, rule="match", drafter="ngram")
            case RoundFinished(run_id, round) if round.index == 11:
                engine.update(run_id, drafter="none")
            case _:
                pass

    reacting(engine, monkeypatch, react)
    changed, found = answer(engine, files, "hello hello", max_tokens=40)
    assert changed.text == plain.text
    assert [change["index"] for change in found.changes] == [4, 8, 12]
    names = [round.drafter for round in found.rounds]
    assert names == ["none"] * 4 + [files.draft] * 4 + ["ngram"] * 4 + ["none"] * (len(names) - 12)
    assert [round.rule for round in found.rounds] == ["gumbel"] * 8 + ["match"] * (len(names) - 8)
    assert all(len(round.proposals) == 2 for round in found.rounds[4:8])


def test_changes_come_as_events_before_the_first_round_under_them(
    engine: Engine, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    def react(event: Event) -> None:
        if isinstance(event, RoundFinished) and event.round.index == 1:
            engine.update(event.run_id, rule="rejection")

    reacting(engine, monkeypatch, react)
    options = DecodingOptions(seed=1, max_tokens=8)
    run_id = engine.submit(Request((Message("user", "hello"),), options, files.target))
    seen = until_end(engine, run_id)
    place = seen.index(RunChanged(run_id, 2, "rejection", DecodingOptions().gamma, "none"))
    after = seen[place + 1]
    assert isinstance(after, RoundFinished)
    assert after.round.index == 2


def test_a_long_prompt_is_read_in_chunks_and_stops_between_them(
    engine: Engine, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    def react(event: Event) -> None:
        if isinstance(event, PrefillProgress) and event.done > 0:
            engine.stop(event.run_id)

    reacting(engine, monkeypatch, react)
    monkeypatch.setattr(prompt_cache, "LARGEST_CHUNK", 64)  # the model is so small that all would be one chunk
    text = "world " * 400
    request = Request((Message("user", text),), DecodingOptions(seed=1), files.target, conversation="long")
    seen = until_end(engine, engine.submit(request))
    progress = [event for event in seen if isinstance(event, PrefillProgress)]
    assert [event.done > 0 for event in progress] == [False, True]
    assert 0 < progress[-1].done < progress[-1].total
    end = seen[-1]
    assert isinstance(end, RunFinished)
    assert (end.finish, end.text) == ("cancelled", "")
    # What was read is kept, and right: the answer then is the one from scratch.
    monkeypatch.undo()
    resumed, found = answer(engine, files, text, conversation="long")
    fresh, _ = answer(engine, files, text)
    assert resumed.text == fresh.text
    assert found.summary is not None
    assert found.summary["reused_tokens"] == progress[-1].done


@pytest.mark.parametrize(("beside", "longest"), [(False, 3), (True, 4)])
def test_stopping_in_the_middle_keeps_the_conversation_right(
    engine: Engine, files: Files, monkeypatch: pytest.MonkeyPatch, beside: bool, longest: int
) -> None:
    """The round that runs beside the report of another may be the last one instead. Only one report may wait, so that the number
    of rounds does not depend on how late it comes."""
    monkeypatch.setattr("engine.serving.overlap.ROWS_BEHIND", 1)

    def react(event: Event) -> None:
        if isinstance(event, RoundFinished) and event.round.index == 2:
            engine.stop(event.run_id)

    reacting(engine, monkeypatch, react, beside)
    stopped, found = answer(engine, files, "hello", drafter=files.draft, conversation="stopped", max_tokens=400)
    assert stopped.finish == "cancelled"
    assert 3 <= len(found.rounds) <= longest
    monkeypatch.undo()
    messages = (Message("user", "hello"), Message("assistant", stopped.text), Message("user", "world"))
    kept, with_cache = answer(engine, files, messages, drafter=files.draft, conversation="stopped")
    fresh, _ = answer(engine, files, messages, drafter=files.draft)
    assert kept.text == fresh.text
    assert with_cache.summary is not None
    assert with_cache.summary["reused_tokens"] > 0


def test_an_answer_that_fills_the_context_ends_there_and_a_longer_prompt_is_refused(engine: Engine, files: Files) -> None:
    text = "a" * (CONTEXT - 40)
    end, found = answer(engine, files, text, max_tokens=400)
    assert end.finish == "context"
    assert len(found.header["prompt"]["ids"]) + end.tokens == CONTEXT
    run_id = engine.submit(Request((Message("user", text + "a" * 100),), target=files.target))
    failed = until_end(engine, run_id)[-1]
    assert isinstance(failed, RunFailed)
    assert f"reads at most {CONTEXT:,}" in failed.message


def test_models_that_do_not_work_are_refused_and_the_old_one_stays(engine: Engine, files: Files) -> None:
    before, _ = answer(engine, files)
    engine.load(files.damaged, "none")
    engine.load(files.target, files.foreign)
    engine.load(files.target, files.draft)
    seen: list[Event] = []
    while not any(isinstance(event, DrafterReady) and event.name == files.draft for event in seen):
        assert engine.wait(PATIENCE)
        seen += engine.events()
    failed = [event for event in seen if isinstance(event, LoadFailed)]
    assert [event.name for event in failed] == [files.damaged]
    refused = [event for event in seen if isinstance(event, DrafterRefused)]
    assert [event.name for event in refused] == [files.foreign]
    assert "cannot draft for" in refused[0].message
    assert [event.model.name for event in seen if isinstance(event, LoadFinished)] == ["target", "target"]
    after, _ = answer(engine, files)
    assert after.text == before.text


def test_closing_in_the_middle_leaves_a_whole_trace_and_no_thread(files: Files, home: Path) -> None:
    engine = Engine()
    request = Request((Message("user", "hello"),), DecodingOptions(seed=1, max_tokens=2000), files.target, files.draft)
    engine.submit(request)
    seen: list[Event] = []
    while not any(isinstance(event, RoundFinished) for event in seen):
        assert engine.wait(PATIENCE)
        seen += engine.events()
    assert engine.close(PATIENCE)
    assert not any(thread.name == engine._thread.name and thread is engine._thread for thread in threading.enumerate())
    seen += engine.events()
    end = seen[-1]
    assert isinstance(end, RunFinished)
    assert end.finish == "cancelled"
    assert end.trace_path is not None
    found = read(end.trace_path)
    assert found.missing is None
    assert found.summary is not None
    assert found.summary["finish"] == "cancelled"


@pytest.mark.builtin
def test_the_built_in_target_answers_and_says_what_it_is(home: Path) -> None:
    engine = Engine()
    try:
        engine.load("builtin", "ngram")
        options = DecodingOptions(seed=1, max_tokens=24, temperature=0.0)
        run_id = engine.submit(Request((Message("user", "What is the capital of France?"),), options, "builtin", "ngram"))
        seen = until_end(engine, run_id)
    finally:
        assert engine.close(PATIENCE)
    assert [event.has_distribution for event in seen if isinstance(event, DrafterReady)] == [False]
    end = seen[-1]
    assert isinstance(end, RunFinished)
    assert "Paris" in end.text
    found = read(str(end.trace_path))
    assert found.missing is None
    assert len(found.header["target"]["sha256"]) == 64
    assert found.header["target"]["logits"] == "float32" or not computes_on_host()
    assert found.header["target"]["prompt_chunk"] == 64 or not computes_on_host()


def test_no_drafter_is_offered_for_a_target_whose_cache_forgets() -> None:
    sliding = tiny_sliding_window(1)
    sliding.make_cache = lambda: [RotatingKVCache(max_size=16, keep=4)]
    target = SimpleNamespace(model=sliding, name="sliding")
    with pytest.raises(DraftlightError, match="sliding window"):
        MlxBackend().drafter("ngram", target, lambda step, fraction: None)
    assert MlxBackend().drafter("none", target, lambda step, fraction: None).drafter is None
