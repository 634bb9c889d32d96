"""Nothing is sent anywhere: window, engine, store and command line work without a single connection to another machine."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractItemView, QApplication
from pytestqt.qtbot import QtBot

from app.cli import entry
from app.session.settings import PanelPage, Settings
from app.window.window import Window
from engine.chats import ChatStore
from engine.files.hub import is_here
from engine.runtime.worker import Engine
from tests.app.driving import answered
from tests.engine.fakes import PATIENCE
from tests.engine.tiny_models import write_gguf

DELAY_MS = 20
"""Milliseconds until the page of the Hub asks for what is typed or shown."""


class Reached(AssertionError):
    """Something was about to leave this machine."""


def _stays(address: Any) -> bool:
    """Whether an address is one of this machine: a path, or a loopback address."""
    if isinstance(address, (str, bytes)):
        return True
    host = str(address[0])
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What Python code tried to reach outside this machine, names asked for included; each attempt fails."""
    tried: list[str] = []
    # Tests keep huggingface_hub offline, which would hide what it is asked for from this guard.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    for delay in ("SEARCH_DELAY_MS", "LOOKUP_DELAY_MS"):
        monkeypatch.setattr(f"app.library.hub_page.{delay}", DELAY_MS)

    def guarded(name: str) -> None:
        real: Callable[..., Any] = getattr(socket.socket, name)

        def call(self: socket.socket, *arguments: Any) -> Any:
            address = arguments[-1]
            if self.family in (socket.AF_INET, socket.AF_INET6) and not _stays(address):
                tried.append(f"{name} {address}")
                raise Reached(tried[-1])
            return real(self, *arguments)

        monkeypatch.setattr(socket.socket, name, call)

    for name in ("connect", "connect_ex", "sendto"):
        guarded(name)
    resolve = socket.getaddrinfo

    def look_up(host: Any, *arguments: Any, **more: Any) -> Any:
        if not _stays((host or "localhost",)):
            tried.append(f"getaddrinfo {host}")
            raise Reached(tried[-1])
        return resolve(host, *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return tried


def test_the_guard_catches_what_would_leave_the_machine(reached: list[str]) -> None:
    for family, kind, address in (
        (socket.AF_INET, socket.SOCK_STREAM, ("192.0.2.1", 80)),
        (socket.AF_INET6, socket.SOCK_STREAM, ("2001:db8::1", 80)),
    ):
        with socket.socket(family, kind) as made, pytest.raises(Reached):
            made.connect(address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made, pytest.raises(Reached):
        made.sendto(b"x", ("192.0.2.1", 53))
    with pytest.raises(Reached):
        socket.create_connection(("example.org", 80))
    assert len(reached) == 4
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        pass  # what stays on this machine may be


def open_every_page(qtbot: QtBot, window: Window) -> None:
    """Everything that a user can look at without asking for something of another machine."""
    for page in get_args(PanelPage):
        window.open_page(page)
    window.models.open()
    dialog = window.models.dialog
    assert dialog is not None and dialog.tabs.count() == 3
    for tab in range(dialog.tabs.count()):
        dialog.tabs.setCurrentIndex(tab)
        QTest.qWait(5 * DELAY_MS)  # timers that would ask the Hub for what is shown
        for list_ in dialog.findChildren(QAbstractItemView):
            for row in range(list_.model().rowCount()):
                list_.setCurrentIndex(list_.model().index(row, 0))
    dialog.hub.search.setText("a")
    dialog.hub.search.clear()
    QTest.qWait(5 * DELAY_MS)
    qtbot.waitUntil(lambda: bool(dialog.machine.models))
    window.open_settings()
    window.open_options()
    window.open_palette()
    window.show_shortcuts()
    window.show_about()
    window.chats.show_traces()
    window.chats.show_deleted()
    window.models.find_drafter()
    window.pages.open_compare()
    window.tour.begin()
    QTest.qWait(50)
    for top in QApplication.topLevelWidgets():
        if top is not window and top.isVisible():
            top.close()


def test_opening_the_hub_asks_nobody_and_a_search_does(
    qtbot: QtBot, home: Path, reached: list[str], open_window: Callable[..., Any]
) -> None:
    """The guard sees what the page sends once words are typed, so it would have seen anything before."""
    window, _ = open_window()
    window.models.open()
    dialog = window.models.dialog
    dialog.tabs.setCurrentIndex(1)
    QTest.qWait(5 * DELAY_MS)
    assert reached == []
    dialog.hub.search.setText("llama")
    qtbot.waitUntil(lambda: dialog.hub.retry.text() == "Try again")
    assert any("huggingface.co" in each for each in reached)


def test_window_engine_store_and_command_line_reach_nobody(
    qtbot: QtBot, home: Path, tmp_path: Path, reached: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = str(write_gguf(tmp_path / "target.gguf"))
    number: int | None = None
    for prompt in ("hello", "and again"):
        engine = Engine()
        settings = Settings(target=target, drafter="ngram", seed=3, max_tokens=8, conversation=number)
        window = Window(engine, settings, tmp_path / "settings.json", store=partial(ChatStore, wait=0.2))
        qtbot.addWidget(window)
        window.show()
        window.chats.restore()
        window.sidebar.start()
        qtbot.waitUntil(lambda window=window: window.session.model is not None)  # type: ignore[misc]
        assert len(window.session.turns) == (number is not None), "the chat of before is there again"
        answered(qtbot, window, prompt)
        qtbot.waitUntil(lambda window=window: window.settings.conversation is not None)  # type: ignore[misc]
        number = window.settings.conversation
        open_every_page(qtbot, window)
        window.close()
        assert engine.close(PATIENCE)
    with ChatStore(home) as store:
        assert number is not None
        assert [message.role for message in store.open(number).messages] == ["user", "assistant"] * 2
    monkeypatch.setattr(entry, "log_to_file", lambda: None)
    assert entry.main(["chat", "hello", "--target", target, "--max-tokens", "4"]) == 0
    assert not is_here("owner/not-on-this-machine")
    assert reached == []


REPOSITORY = Path(__file__).parents[2]
DOOR = re.compile(
    r"(?:from|import) (?:urllib\.request|http\.client|socket|ssl|httpx2?|requests|webbrowser|PySide6\.QtNetwork)\b"
    r"|\b(?:get_session|HfApi|hf_hub_download|snapshot_download|get_safetensors_metadata|login)\b.*"
    r"|\"pip\", \"download\"|openUrl\(QUrl\("
)
DOORS = {
    "engine/files/builtin.py": "the built-in model",
    "engine/files/download.py": "a model of the Hugging Face Hub",
    "engine/files/hub.py": "a model of the Hugging Face Hub",
    "engine/models/loading.py": "a model of the Hugging Face Hub",
    "app/conversation/link_question.py": "a link in an answer, a model's page on the Hub",
    "engine/cluster/about.py": "machines that share a target",
    "engine/cluster/companions.py": "machines that share a target",
    "app/library/hub_page.py": "a link in an answer, a model's page on the Hub",
}
"""The files with a call that reaches another machine, and the row of the table that tells of it."""


def test_the_table_names_everything_that_reaches_the_network() -> None:
    found = {
        path.relative_to(REPOSITORY).as_posix()
        for folder in ("app", "engine")
        for path in (REPOSITORY / folder).rglob("*.py")
        if DOOR.search(path.read_text(encoding="utf-8"))
    }
    assert found == set(DOORS)
    page = (REPOSITORY / "assets" / "docs" / "conversations.md").read_text(encoding="utf-8")
    table = page.split("| what | when |", 1)[1].split("\n\n", 1)[0]
    assert {row.split(" | ")[0].removeprefix("| ") for row in table.splitlines()[2:]} == set(DOORS.values())
