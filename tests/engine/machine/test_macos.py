"""macOS gets the requests that a program needs there, and no others. A test library replaces its C interface."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import engine.machine.macos
from engine.cluster.follower import Follower
from engine.cluster.group import Kind, Order
from engine.files.download import Download
from engine.files.hub import HubFile, Offer
from engine.machine.macos import Activity, activity, name_program
from engine.runtime.process.client import ProcessEngine
from engine.runtime.process.launch import Launch
from engine.runtime.worker import Engine
from engine.types import ProveRequest, TaskFailed
from tests.engine.desk import Desk
from tests.engine.fakes import FakeBackend
from tests.engine.mac import Library

# NSProcessInfo.h of the macOS SDK, which defines each as a separate number
USER_INITIATED = 0x00FFFFFF
USER_INITIATED_ALLOWING_IDLE_SYSTEM_SLEEP = 0x00EFFFFF


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    library = Library()
    monkeypatch.setattr(engine.machine.macos, "_is_mac", lambda: True)
    monkeypatch.setattr(engine.machine.macos, "CDLL", library)
    yield library
    assert not library.activities, "one was not ended"
    assert not any(library.retained.values()) and library.pools == 0


def test_activity_lasts_as_long_as_its_context(mac: Library) -> None:
    with activity("Counting ü", lets_sleep=True), activity("Training", lets_sleep=False):
        assert list(mac.activities.values()) == [
            (USER_INITIATED_ALLOWING_IDLE_SYSTEM_SLEEP, "Counting ü"),
            (USER_INITIATED, "Training"),
        ]
        assert list(mac.retained.values()) == [1, 1], "a pool that is emptied meanwhile leaves them"
    assert not mac.activities


def test_activity_ends_after_an_error(mac: Library) -> None:
    with pytest.raises(KeyError), activity("Failing", lets_sleep=True):
        raise KeyError
    assert len(mac.begun) == 1 and not mac.activities


def test_activity_begun_twice_is_one(mac: Library) -> None:
    held = Activity("Waiting", lets_sleep=True)
    for running in (False, True, True):
        held.set_running(running)
    assert len(mac.activities) == 1
    held.set_running(False)
    held.set_running(False)
    assert len(mac.begun) == 1


def test_work_continues_if_macos_gives_no_activity(
    mac: Library, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mac.refuses = True
    with activity("Counting", lets_sleep=True):
        assert mac.begun == []
    assert "endActivity:" not in mac.names, "without a token it would end the program"

    def missing(path: str) -> Any:
        raise OSError(f"dlopen({path}): no such file")

    monkeypatch.setattr(engine.machine.macos, "CDLL", missing)
    done = []
    with activity("Counting", lets_sleep=True):
        done.append(True)
    name_program("Draftlight")
    assert done and "macOS may slow down" in caplog.text
    caplog.clear()


def test_other_systems_load_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setattr(engine.machine.macos, "CDLL", library)
    monkeypatch.setattr(sys, "platform", "linux")
    with activity("Counting", lets_sleep=False):
        name_program("Draftlight")
    assert library.opened == []


def test_the_program_is_named_in_the_main_bundle(mac: Library) -> None:
    name_program("Draftlight")
    assert mac.information == {"CFBundleName": "Draftlight"}


def test_an_answer_lets_the_machine_sleep_and_a_long_task_does_not(mac: Library, home: Path) -> None:
    with Desk(Engine(FakeBackend)) as desk:  # type: ignore[arg-type]
        desk.answer()
        assert mac.begun == [(USER_INITIATED_ALLOWING_IDLE_SYSTEM_SLEEP, "Running a language model")]
        desk.engine.perform(ProveRequest(target="broken"))
        desk.until(TaskFailed)
        assert mac.begun[1:] == [(USER_INITIATED, "Running a language model")]


def test_a_window_whose_engine_is_another_process_is_not_slowed_down_either(mac: Library, home: Path) -> None:
    with Desk(ProcessEngine(Launch("tests.engine.runtime.process.stub:engine"))) as desk:
        desk.answer("2")
        assert mac.begun == [(USER_INITIATED_ALLOWING_IDLE_SYSTEM_SLEEP, "Waiting for a language model")]
        assert not mac.activities


def test_a_download_keeps_the_machine_awake(mac: Library, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[list[tuple[int, str]]] = []
    monkeypatch.setattr(Download, "_run", lambda self, folder: held.append(list(mac.activities.values())))
    Download(Offer("org/model", "", "c0ffee", (HubFile("config.json", 2, "00"),))).run()
    assert held == [[(USER_INITIATED, "Downloading a model")]]


def test_a_part_of_a_split_model_keeps_its_machine_awake_while_there_is_work(mac: Library) -> None:
    """Possibly no user is active on that machine, but no answer is possible without it."""
    held: list[int] = []
    orders = [Order(kind) for kind in (Kind.DROP, Kind.NAP, Kind.DROP, Kind.END)]

    class Group:
        def exchange(self, report: list[int]) -> list[Any]:
            held.append(len(mac.activities))
            return [orders.pop(0).row()]

    Follower(Group()).serve()  # type: ignore[arg-type]
    assert held == [0, 1, 0, 1]
    assert set(mac.begun) == {(USER_INITIATED, "Running a part of a language model")}
