"""Values cross the boundary exactly, and nothing but values does."""

from __future__ import annotations

import math
import os
import pickle
import threading
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, get_args

import pytest

from engine.runtime.process import wire
from engine.runtime.process.child import _Service
from engine.runtime.process.wire import packed, unpacked
from engine.types import DecodingOptions, Event, Message, Milliseconds, ModelInfo, Request, RoundFinished, RunFailed
from engine.values.errors import DraftlightError
from engine.values.requests.bench import BenchPrompt, BenchRequest
from engine.values.requests.commands import Command, Stop
from engine.values.requests.compare import CompareRequest
from engine.values.requests.train import TrainRequest
from tests.app.fakes import story_rounds
from tests.engine.fakes import PATIENCE
from tests.engine.runtime.process.stub import StubEngine


def test_requests_and_events_arrive_as_they_were() -> None:
    request = Request((Message("user", "hi\ud800 ☃"),), DecodingOptions(stop=("a", "b"), seed=2**53 - 1), drafter="x")
    values: list[Any] = [
        request,
        CompareRequest((request, request)),
        BenchRequest((BenchPrompt("one", "chat", ("a", "b")),), minutes=2.5),
        TrainRequest(Path("/out"), text=(Path("a.txt"),), temperatures=(0.0,)),
        [RoundFinished(7, round, 0.25) for round in story_rounds()],
        ModelInfo("n", "p", "0", 8, 9, sampling=(("temperature", 0.5),)),
    ]
    assert unpacked(packed(values)) == values
    assert math.isnan(unpacked(packed(Milliseconds(math.nan))).total)


def test_every_event_is_known() -> None:
    assert set(get_args(Event)) <= set(wire._VALUES.values())


class Deed:
    """Sets a variable when it is read, as a pickle may do whatever it likes."""

    def __reduce__(self) -> Any:
        return exec, ("import os; os.environ['DRAFTLIGHT_DEED'] = 'done'",)


def test_unpacking_makes_only_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTLIGHT_DEED", "")
    evil = pickle.dumps([RunFailed(1, "x"), Deed()])
    with pytest.raises(pickle.UnpicklingError, match="no value of an engine"):
        unpacked(evil)
    assert not os.environ["DRAFTLIGHT_DEED"]
    pickle.loads(evil)
    assert os.environ["DRAFTLIGHT_DEED"], "a plain reader is taken in"
    for name in (
        "engine.runtime.process.launch Child",
        "builtins eval",
        "engine.values.answers replace",
        "engine.values.answers Round.__init__",
    ):
        words = b"".join(b"\x8c" + bytes([len(word)]) + word.encode() for word in name.split())
        with pytest.raises(pickle.UnpicklingError):
            unpacked(b"\x80\x04" + words + b"\x93.")


def test_impossible_values_are_refused_where_they_arrive() -> None:
    good = packed(DecodingOptions(seed=5, max_tokens=77))
    assert unpacked(good).max_tokens == 77
    with pytest.raises(ValueError, match="max_tokens"):
        unpacked(good.replace(b"K\x4d", b"K\x00"))


class Careful(StubEngine):
    """Fails where it is sent anything but a command."""

    def send(self, command: Command) -> None:
        assert isinstance(command, Command)
        super().send(command)


def test_a_value_that_is_no_command_ends_the_process_that_was_sent_it() -> None:
    here, there = Pipe()
    here.send_bytes(packed(Stop(1)))
    here.send_bytes(packed(RunFailed(1, "x")))
    with pytest.raises(DraftlightError, match="cannot be sent RunFailed"):
        _Service(there, Careful()).serve()
    here.close()
    for thread in threading.enumerate():
        if thread.name == "draftlight-sender":
            thread.join(PATIENCE)
