"""The window on the real engine, with tiny models."""

from __future__ import annotations

import csv
import json
import os
import signal
from functools import partial
from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from app.export.kinds import kind_named
from app.session.lazy_engine import LazyEngine
from app.session.settings import Settings
from app.window.launch import engine_for
from app.window.window import Window
from engine.chats import ChatStore
from engine.rounds.trace import read
from engine.runtime.process.client import ProcessEngine
from engine.runtime.worker import Engine
from tests.app.driving import answered, ask, wait_for_answer
from tests.engine.fakes import PATIENCE

Pair = tuple[str, str]


def test_the_real_engine_follows_the_rule_selector_within_one_answer(qtbot: QtBot, home: Path, tiny_pair: Pair) -> None:
    target, drafter = tiny_pair
    engine = Engine()
    window = Window(engine, Settings(target=target, drafter=drafter, rule="match", seed=3, max_tokens=2500))
    qtbot.addWidget(window)
    window.show()
    window.chat.models.load()
    ask(qtbot, window, "hello")
    answer = window.session.turns[0].answer
    for rule in ("match", "rejection", "gumbel"):
        window.header.rule.buttons[rule].click()  # type: ignore[index]
        # a change while the prompt is read acts in the first round, so the rule before it must have had one
        qtbot.waitUntil(lambda rule=rule: any(round_.rule == rule for round_ in answer.rounds))  # type: ignore[misc]
        assert answer.running
    rounds = answer.tally.rounds
    qtbot.waitUntil(lambda: answer.tally.rounds > rounds + 3)
    window.chat.stop()
    wait_for_answer(qtbot, window)
    assert answer.finish == "cancelled"
    assert answer.result is not None
    assert answer.text.text == answer.result.text
    window.close()
    assert engine.close(PATIENCE), "a busy machine may take longer than the window waits"
    assert answer.trace_path is not None
    trace = read(answer.trace_path)
    assert trace.missing is None
    assert list(dict.fromkeys(round_.rule for round_ in trace.rounds)) == ["match", "rejection", "gumbel"]
    assert {proposal.status for round_ in trace.rounds for proposal in round_.proposals} >= {"accepted", "rejected"}


def test_metrics_of_a_real_conversation_are_exported_from_the_menu(
    qtbot: QtBot, home: Path, tiny_pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = Window(Engine(), Settings(target=tiny_pair[0], drafter=tiny_pair[1], seed=3, max_tokens=12))
    qtbot.addWidget(window)
    window.show()
    window.chat.models.load()
    for prompt in ("hello", "hello again"):
        answered(qtbot, window, prompt)
    for name, kind in (("out.json", kind_named("json").filter), ("out.csv", kind_named("csv").filter)):
        monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_, name=name, kind=kind: (str(tmp_path / name), kind))
        window.actions_by_id["exportAction"].trigger()
        assert name in window.banner.label.text()
    exported = json.loads((tmp_path / "out.json").read_text())
    emitted = [answer["summary"]["emitted"] for answer in exported["answers"]]
    assert emitted == [turn.answer.tally.summary.emitted for turn in window.session.turns]
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as table:
        assert len(list(csv.DictReader(table))) == sum(turn.answer.tally.rounds for turn in window.session.turns)
    window.close()


def test_closing_while_the_real_engine_loads_or_answers_ends_its_thread(qtbot: QtBot, home: Path, tiny_pair: Pair) -> None:
    engine = Engine()
    window = Window(engine, Settings(target=tiny_pair[0], drafter=tiny_pair[1], max_tokens=2500))
    qtbot.addWidget(window)
    window.show()
    window.chat.models.load()
    ask(qtbot, window)
    window.close()
    assert engine.close(PATIENCE), "a busy machine may take longer than the window waits"


def test_a_chat_continues_after_its_model_process_died(
    qtbot: QtBot, home: Path, tiny_pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    engine = LazyEngine(engine_for, Settings(separate_process=True))
    settings = Settings(target=tiny_pair[0], drafter=tiny_pair[1], seed=3, max_tokens=2500, separate_process=True)
    window = Window(engine, settings, home / "settings.json", store=partial(ChatStore, wait=0.2))
    qtbot.addWidget(window)
    window.show()
    window.chat.models.load()
    ask(qtbot, window, "hello")
    answer = window.session.turns[0].answer
    qtbot.waitUntil(lambda: answer.tally.rounds > 3)
    assert isinstance(engine.engine, ProcessEngine)
    process = engine.engine.process_id
    assert process is not None
    os.kill(process, signal.SIGKILL)
    qtbot.waitUntil(lambda: not answer.running)
    assert answer.state == "failed" and "killed" in answer.message and answer.text.text
    window.chat.change("max_tokens", 6)
    answered(qtbot, window, "hello again")
    assert window.session.turns[1].answer.tally.summary.emitted == 6
    text = window.session.turns[1].answer.text.text
    # The thread takes over in the middle of an answer, which it ends; the next one is the same text.
    window.chat.change("max_tokens", 2500)
    ask(qtbot, window, "on and on")
    window.chat.change("separate_process", False)
    assert isinstance(engine.engine, Engine)
    qtbot.waitUntil(lambda: window.session.turns[2].answer.finish == "cancelled")
    window.chat.regenerate(at=1)
    qtbot.waitUntil(lambda: window.session.answer is not None and len(window.session.answer.text.text) > len(text))
    assert window.session.answer is not None and window.session.answer.text.text.startswith(text)
    window.close()
    assert engine.close(PATIENCE), "a busy machine may take longer than the window waits"
    with ChatStore(wait=PATIENCE) as store:
        messages = store.open(window.settings.conversation or 0).messages
    assert [(message.text, message.state) for message in messages if message.state == "failed"] == [(answer.text.text, "failed")]
