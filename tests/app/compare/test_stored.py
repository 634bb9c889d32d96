"""Comparisons are kept in the list of chats, come back side by side, and survive a crash."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.cli.saved_answer import newest_conversation
from app.compare.comparison import ColumnSetup, Comparison, Setup
from app.compare.stored import ComparisonRecorder, read_stored, setup_from_json, setup_to_json
from app.compare.view import CompareView
from app.session.chat_keeper import ChatKeeper
from app.window.window import Window
from engine.chats import ChatSettings, ChatStore, to_markdown
from engine.rounds.codec import options_to_json
from engine.rounds.trace import Writer
from engine.runtime.worker import Engine
from engine.types import DecodingOptions
from engine.values.errors import DraftlightError
from tests.app.driving import settled
from tests.app.fakes import story_rounds
from tests.app.turns_engine import TurnsEngine

SETUP = Setup(
    "Tell me a story.",
    (ColumnSetup("gumbel", "head", 3, 0.5, "", 8), ColumnSetup("rejection", "none", "auto", 1.0, "A", None)),
    seed=2**40,
    max_tokens=77,
    samples=0,
    template=False,
    own_prompts=True,
    unfiltered=True,
)


def test_a_setup_is_read_as_it_was_written() -> None:
    assert setup_from_json(json.loads(json.dumps(setup_to_json(SETUP)))) == SETUP


@pytest.mark.parametrize(
    "changes",
    [
        {"columns": None},
        {"columns": [{"rule": "none", "gamma": -1, "temperature": "hot", "drafter": 3, "budget": 1000}]},
        {"columns": [{}] * 9, "seed": -1, "max_tokens": "many", "samples": 10**9},
        {"prompt": 7, "template": "yes", "own_prompts": None},
    ],
)
def test_a_damaged_setup_still_opens(changes: dict[str, Any]) -> None:
    setup = setup_from_json({**setup_to_json(SETUP), **changes})
    assert 2 <= len(setup.columns) <= 4
    setup.requests("builtin", DecodingOptions())


Opened = Callable[..., tuple[Window, CompareView]]


def wait_for_row(qtbot: QtBot, window: Window, number: int = 1) -> None:
    window.sidebar.reload()
    qtbot.waitUntil(lambda: window.sidebar.model.row_of(number) is not None)


@pytest.fixture
def real(qtbot: QtBot, home: Path, tiny_pair: tuple[str, str], show_window: Callable[..., Window]) -> Opened:
    """Opens windows with a real engine and a store, on a comparison of two rules."""

    def opened() -> tuple[Window, CompareView]:
        window = show_window(Engine(), store=ChatStore, target=tiny_pair[0], drafter=tiny_pair[1])
        window.sidebar.start()
        window.pages.open_compare()
        view = window.pages.compare
        assert view is not None
        columns = tuple(ColumnSetup(rule, tiny_pair[1], 3, 0.8) for rule in ("gumbel", "rejection"))
        view.show_setup(Setup("Why is the sky blue?", columns, seed=3, max_tokens=24), "")  # type: ignore[arg-type]
        return window, view

    return opened


def test_a_comparison_is_listed_opened_renamed_and_deleted_like_a_chat(qtbot: QtBot, real: Opened) -> None:
    window, view = real()
    qtbot.mouseClick(view.bar.start, Qt.MouseButton.LeftButton)
    wait_for_row(qtbot, window)
    qtbot.waitUntil(lambda: not view.running, timeout=20_000)
    settled(qtbot, window)
    first = view.comparison
    assert first is not None
    view.show_preset("with-without")
    assert view.comparison is None
    window.pages.open_conversation()
    row = window.sidebar.model.at(window.sidebar.model.index(window.sidebar.model.row_of(1) or 0))
    assert row is not None and row.about is not None and row.about.comparison and row.title == "Why is the sky blue?"
    window.sidebar.chosen.emit(1, None)
    qtbot.waitUntil(lambda: window.pages.comparing is view and view.comparison is not None)
    again = view.comparison
    assert again is not None and again is not first and view.setup == first.setup
    for column, before in zip(again.columns, first.columns, strict=True):
        assert column.answer.rounds == before.answer.rounds and column.tokens == before.tokens
        assert column.answer.finish == before.answer.finish
    assert again.divergence == first.divergence and again.traces == first.traces
    assert view.columns[0].text.plain_text() == first.columns[0].answer.text.text
    qtbot.waitUntil(lambda: window.status.line.text() == "Comparison done")
    assert not view.running and view.may_export and window.session.turns == [], "no chat was opened for it"

    window.sidebar.model.renamed.emit(1, "Mine")
    settled(qtbot, window)
    window.chats.delete(1)
    settled(qtbot, window)
    assert window.banner.label.text() == "Chat deleted."
    with ChatStore() as store:
        (deleted,) = store.conversations(deleted=True)
        assert deleted.title == "Mine" and deleted.comparison
        store.restore(1)
        assert store.conversations()[0].comparison


def test_what_was_written_is_kept_when_the_window_is_closed_meanwhile(
    qtbot: QtBot, home: Path, show_window: Callable[..., Window]
) -> None:
    engine = TurnsEngine([story_rounds(), story_rounds()])
    engine.pause_after = 2
    window = show_window(engine, store=ChatStore, drafter="builtin-draft")
    window.pages.open_compare("with-without")
    view = window.pages.compare
    assert view is not None
    view.start()
    qtbot.waitUntil(lambda: all(len(column.answer.rounds) == 2 for column in view.comparison.columns))  # type: ignore[union-attr]
    running = view.comparison
    window.open_chat(1, None)
    qtbot.waitUntil(lambda: "Stop this comparison" in view.banner.label.text())
    assert view.comparison is running, "a running comparison is not put aside"
    window.close()
    with ChatStore() as store:
        (about,) = store.conversations()
        answers = [each for each in store.open(about.id).messages if each.role == "assistant"]
    assert about.title == "With and without a drafter", "a preset gives its title"
    assert [each.state for each in answers] == ["stopped", "stopped"]
    assert {each.text for each in answers} == {"".join(round_.text for round_ in story_rounds()[:2])}


def test_a_column_that_fails_is_kept_with_its_reason(qtbot: QtBot, home: Path, show_window: Callable[..., Window]) -> None:
    engine = TurnsEngine([story_rounds(), story_rounds()])
    engine.failing = {1}
    window = show_window(engine, store=ChatStore, drafter="builtin-draft")
    window.pages.open_compare("with-without")
    view = window.pages.compare
    assert view is not None
    view.start()
    engine.hurry()
    qtbot.waitUntil(lambda: not view.running)
    settled(qtbot, window)
    before = view.comparison
    window.pages.open_stored(1)
    qtbot.waitUntil(lambda: view.comparison is not before)
    assert view.comparison is not None and [column.failed for column in view.comparison.columns] == [False, True]
    assert view.columns[1].text.words.startswith("This drafter does not fit")


def begun(store_home: Path, own_prompts: bool = False) -> tuple[ChatStore, Comparison]:
    """A comparison whose beginning is stored; its traces have two rounds and no end."""
    columns = (ColumnSetup(prompt="One?"), ColumnSetup("rejection", prompt="Two?"))
    setup = Setup("Tell me a story.", columns, seed=1, own_prompts=own_prompts)
    requests = setup.requests("builtin", DecodingOptions())
    requests = tuple(
        replace(each, trace_path=str(store_home / "traces" / f"20260101-00000{at}-abcdef.jsonl"))
        for at, each in enumerate(requests)
    )
    comparison = Comparison(setup, requests)
    store = ChatStore(store_home)

    class Now(ChatKeeper):
        """Runs each write at once."""

        def __init__(self) -> None:
            """Nothing to start."""

        def write(self, work: Any, then: Any = None, failed: Any = None) -> None:
            """Runs the work."""
            work(store)

    recorder = ComparisonRecorder(Now(), lambda _: None)
    recorder.begin(comparison, requests, "")
    for request in requests:
        writer = Writer(
            Path(request.trace_path or ""),
            {"options": options_to_json(request.options), "prompt": {"messages": []}, "kept": False},
        )
        for round_ in story_rounds()[:2]:
            writer.round(round_)
        writer.close()
    return store, comparison


@pytest.mark.parametrize("own_prompts", [False, True])
def test_a_killed_comparison_is_in_the_list_with_its_rounds(tmp_path: Path, own_prompts: bool) -> None:
    store, comparison = begun(tmp_path, own_prompts)
    store.close()  # as if it had been killed: nothing was finished
    with ChatStore(tmp_path) as again:
        (about,) = again.conversations()
        found = read_stored(about.id, again)
        (note,) = again.notes
        assert note == "A comparison was interrupted when Draftlight last ended. What was written is in the list of chats."
        assert found.setup == comparison.setup and [each.state for each in found.messages] == ["interrupted"] * 2
        shown = found.comparison()
        assert [len(column.answer.rounds) for column in shown.columns] == [2, 2] and not shown.running
        headings = [line for line in to_markdown([again.open(about.id)]).splitlines() if line.startswith("## ")]
        you = ["## You"] * (1 + own_prompts)
        assert sorted(headings) == sorted([*you, "## Gumbel, Trained head", "## Rejection, Trained head"])
        prompts = [each.text for each in again.open(about.id).messages if each.role == "user"]
        assert prompts == (["One?", "Two?"] if own_prompts else ["Tell me a story."])
        with pytest.raises(DraftlightError, match="no conversation yet"):
            newest_conversation(again)


def test_texts_stay_when_their_traces_are_gone(tmp_path: Path) -> None:
    store, _ = begun(tmp_path)
    store.close()
    with ChatStore(tmp_path) as again:
        for path in (tmp_path / "traces").iterdir():
            path.unlink()
        found = read_stored(1, again)
        assert found.traces == (None, None)
        shown = found.comparison()
    text = "".join(round_.text for round_ in story_rounds()[:2])
    assert [column.answer.text.text for column in shown.columns] == [text, text]
    assert shown.divergence is None and not shown.running and not shown.traces


def test_only_a_comparison_counts_as_one(tmp_path: Path) -> None:
    with ChatStore(tmp_path) as store:
        chat = store.create(ChatSettings(system='say "comparison":{ and {"comparison":{}}'))
        comparison = store.create(ChatSettings(comparison=setup_to_json(SETUP)), title="Rules")
        copy = store.duplicate(comparison)
        found = {about.id: about.comparison for about in store.conversations()}
        assert found == {chat: False, comparison: True, copy: True}
        assert [store.is_comparison(number) for number in found] == list(found.values())
        assert setup_from_json(store.open(copy).settings.comparison or {}) == SETUP
