"""The machines that a target can be split over: put together, tested, used and left in the window. None is reached here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.session.lazy_engine import LazyEngine
from app.session.machines import NO_MACHINES, hosts_path, kept_cluster, number_of_machines, split_launch
from app.session.settings import Settings
from app.window.status_strip import phase_text
from engine.cluster.doctor import Finding
from engine.cluster.hosts import Cluster, Host, read_hosts, write_hosts
from engine.runtime.process.client import ProcessEngine
from engine.types import LoadFailed, ModelsUnloaded, RunFailed, TaskFailed
from engine.values.errors import DraftlightError
from engine.values.requests.bench import BenchPrompt, BenchRequest
from tests.app.driving import answered, ask
from tests.app.fakes import FakeEngine
from tests.engine.fakes import PATIENCE

FOUND = [
    Finding(0, "good", "Rank 0 has all."),
    Finding(1, "good", "Rank 1 has all."),
    Finding(2, "bad", "Rank 2 is not reached by ssh. Let your key in."),
]


def rows(page: Any) -> list[tuple[str, str, str]]:
    entries = page.list.entries
    found = [entries.at(entries.index(row)) for row in range(entries.rowCount())]
    return [(entry.title, entry.mark, entry.problem) for entry in found]


def test_machines_are_added_tested_used_and_left(
    qtbot: QtBot, show_window: Callable[..., Any], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Cluster, str]] = []
    answers: list[list[Finding]] = [FOUND, FOUND[:2]]

    def check(cluster: Cluster, target: str) -> list[Finding]:
        asked.append((cluster, target))
        if not answers:
            raise DraftlightError("ssh is not installed. Install it.")
        return answers.pop(0)

    monkeypatch.setattr("app.library.hosts_page.check", check)
    engine = FakeEngine()
    window = show_window(engine)
    window.models.open()
    dialog = window.models.dialog
    dialog.tabs.setCurrentIndex(2)
    page = dialog.hosts
    assert rows(page) == [("This machine", "", "")] and "Add at least one" in page.state.text()
    assert not (page.test.isEnabled() or page.location.isEnabled() or page.add.isEnabled())

    def add(name: str, address: str) -> None:
        page.name.setText(name)
        page.address.setText(address)
        page.add.click()

    add("two.local", "10.0.0.256")
    assert "10.0.0.256" in page.state.text() and page.name.text() == "two.local", "what was typed can be mended"
    add("two.local", "10.0.0.2, 10.1.0.2")
    assert "at which the others reach this machine" in page.state.text() and not hosts_path().exists()
    page.local_address.setText("10.0.0.1 10.1.0.1")
    page.local_address.editingFinished.emit()
    add("ada@three.local", "10.0.0.3")
    hosts = (
        Host("127.0.0.1", ("10.0.0.1", "10.1.0.1")),
        Host("two.local", ("10.0.0.2", "10.1.0.2")),
        Host("ada@three.local", ("10.0.0.3",)),
    )
    assert read_hosts(hosts_path()) == Cluster(hosts)

    def test() -> None:
        page.test.click()
        assert not page.test.isEnabled()
        qtbot.waitUntil(page.test.isEnabled)

    test()
    assert asked == [(Cluster(hosts), "builtin")]
    assert [(mark, bool(problem)) for _, mark, problem in rows(page)] == [("Ready", False), ("Ready", False), ("", True)]
    assert page.state.text() == FOUND[2].words
    page.list.go_to("2")
    page.remove.click()
    assert kept_cluster() == Cluster(hosts[:2]) and rows(page)[1] == ("two.local", "", ""), "what was found was of others"
    test()
    assert "can share the target" in page.state.text()
    test()
    assert page.state.text() == "ssh is not installed. Install it."

    assert number_of_machines() == 2 and window.session.machines == 1
    page.location.setCurrentIndex(1)
    assert window.settings.split
    qtbot.waitUntil(lambda: phase_text(window.session) == "Ready, target on 2 machines")
    page.list.go_to("1")
    assert (
        not (page.remove.isEnabled() or page.local_address.isEnabled() or page.test.isEnabled()) and "in use" in page.state.text()
    )
    window.chat.say("The file could not be written.", "error")
    assert window.banner.action.isHidden(), "that has nothing to do with the machines"
    engine.hold = True
    ask(qtbot, window, "hello")
    engine.say(RunFailed(window.chat.link.run_id, "Rank 1 (two.local) of the cluster has ended."))
    qtbot.waitUntil(lambda: "Rank 1" in window.banner.label.text())
    window.banner.action.click()
    assert not window.settings.split and window.banner.isHidden() and window.session.machines == 1
    assert window.composer.text == "hello", "the question is not lost"
    assert page.location.currentIndex() == 0 and page.remove.isEnabled()

    other = tmp_path / "others.json"
    write_hosts(other, Cluster(hosts[:2], sharding="pipeline", python="/opt/python"))
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(other), ""))
    page.open.click()
    assert page.sharding.currentData() == "pipeline" and page.python.text() == "/opt/python"
    page.list.go_to("1")
    page.list.deleted.emit("1")
    assert not hosts_path().exists() and kept_cluster() is None
    other.write_text("{")
    page.open.click()
    assert "not JSON" in page.state.text()


@pytest.mark.parametrize("content", [None, "[]"])
def test_an_engine_without_machines_is_reported(home: Path, content: str | None) -> None:
    if content is not None:
        hosts_path().write_text(content)
    assert number_of_machines() == 1
    engine = ProcessEngine(split_launch())
    engine.load("builtin")
    assert engine.wait(PATIENCE)
    gone, failed = engine.events()
    assert (
        isinstance(gone, ModelsUnloaded)
        and isinstance(failed, LoadFailed)
        and (NO_MACHINES in failed.message if content is None else "0 hosts" in failed.message)
    )
    assert engine.close(PATIENCE)


def test_replacing_a_hanging_engine_ends_its_answer(qtbot: QtBot, show_window: Callable[..., Any], home: Path) -> None:
    engines = [FakeEngine(), FakeEngine()]
    made: list[Settings] = []

    def make(settings: Settings, after: threading.Event | None) -> FakeEngine:
        made.append(settings)
        return engines[len(made) - 1]

    window = show_window(LazyEngine(make, Settings()))
    engines[0].pause_after = 2  # it never ends, and says nothing when it is closed
    ask(qtbot, window, "hello")
    answer = window.session.turns[0].answer
    qtbot.waitUntil(lambda: answer.tally.rounds == 2)
    link, ends = window.chat.link, []
    link.perform(BenchRequest((BenchPrompt("one", "chat", ("a",)),)))
    link.benched.connect(ends.extend)
    window.chat.change("separate_process", True)
    qtbot.waitUntil(lambda: [type(end) for end in ends] == [TaskFailed])  # what else is under way, too
    qtbot.waitUntil(lambda: not answer.running)
    assert engines[0].closed and made[-1].separate_process
    assert answer.state == "failed" and answer.text.text and "cut off" in answer.message
    qtbot.waitUntil(lambda: window.session.model is not None)
    assert engines[1].loads == [(window.settings.target, window.settings.drafter)]
    answered(qtbot, window, "and now?")
    assert window.session.turns[1].answer.finish == "eos"
