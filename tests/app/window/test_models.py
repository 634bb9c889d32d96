"""Models and drafters that load, are refused, or take each other's place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from pytestqt.qtbot import QtBot

from app.conversation.screen_reader import plain_text
from app.session.settings import Settings
from app.window.window import Window
from engine.types import (
    DrafterReady,
    DrafterRefused,
    LoadFailed,
    LoadFinished,
    LoadProgress,
    LoadStarted,
    ModelsUnloaded,
    RunFailed,
)
from tests.app.driving import Open, answered, ask, status, wait_for_answer
from tests.app.fakes import MODEL, STORY, FakeEngine


def test_loading_is_shown_before_the_engine_reports_it(qtbot: QtBot) -> None:
    window = Window(FakeEngine(), Settings())
    qtbot.addWidget(window)
    assert status(window) == "Loading the built-in model"
    assert "while the model loads" in window.composer.hint.text()
    window.close()


def test_without_a_model_the_window_says_what_to_do(qtbot: QtBot) -> None:
    engine = FakeEngine()
    window = Window(engine, Settings(target="/models/gone"))
    qtbot.addWidget(window)
    engine.say(LoadStarted("/models/gone"), LoadFailed("/models/gone", "There is no model."))
    qtbot.waitUntil(lambda: status(window).startswith("No model loaded"))
    window.chat.change("target", "/models/gone")  # chosen again: it may be there by now
    assert engine.loads == [("/models/gone", "auto")]
    window.banner.action.click()
    assert window.settings.target == "builtin" and engine.loads[1:] == [("builtin", "auto")]
    assert window.banner.isHidden()
    engine.say(LoadStarted("/models/gone"), LoadFailed("/models/gone", "There is no model."))
    qtbot.waitUntil(lambda: not window.banner.isHidden())
    assert window.banner.action.isHidden(), "the one before is loaded"
    engine.say(ModelsUnloaded(), LoadStarted("builtin"), LoadFailed("builtin", "It could not be downloaded."))
    qtbot.waitUntil(lambda: "downloaded" in window.banner.label.text())
    assert window.banner.action.text() == "Try again"
    window.banner.action.click()
    assert engine.loads[2:] == [("builtin", "auto")] and window.banner.isHidden()
    window.close()


def test_another_model_is_offered_where_one_was_not_loaded_and_not_where_the_process_ended(
    qtbot: QtBot, share_window: Open
) -> None:
    window, engine = share_window()
    engine.hold = True
    loaded = [LoadStarted("builtin"), LoadFinished(MODEL, 1.0)]
    for said in (
        [*loaded],
        [],
        [*loaded, LoadStarted("/models/large")],
    ):  # what loads may be why
        there = len(said) == 2
        engine.say(*said)
        qtbot.waitUntil(lambda said=said: (window.session.model is not None) is bool(said))
        qtbot.waitUntil(lambda said=said: (window.session.loading is None) is (len(said) < 3))
        ask(qtbot, window)
        assert window.session.answer is not None
        engine.say(ModelsUnloaded(), RunFailed(window.session.answer.run_id, "The process was killed. Send the message again."))
        qtbot.waitUntil(lambda: "killed" in window.banner.label.text() and not window.banner.isHidden())
        assert window.banner.action.isHidden() is there
        window.banner.hide()


def test_a_prompt_sent_during_loading_is_answered_afterwards(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    engine.hold = True
    engine.say(ModelsUnloaded(), LoadStarted("builtin"), LoadProgress("builtin", "reading weights", 0.4))
    qtbot.waitUntil(lambda: "Loading the built-in model, reading weights, 40%" in status(window))
    engine.say(LoadProgress("builtin", "downloading the built-in model", 0.07, is_download=True))
    qtbot.waitUntil(lambda: status(window) == "Downloading the built-in model, 7%")
    ask(qtbot, window)
    assert window.session.running is not None
    engine.say(LoadFinished(MODEL, 1.0))
    engine.hold = False
    wait_for_answer(qtbot, window)
    assert window.session.turns[0].answer.text.text == STORY


def test_a_target_that_cannot_be_loaded_keeps_the_previous_one(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    engine.answer_load = lambda target, drafter="none": engine.say(  # type: ignore[method-assign]
        LoadStarted(target), LoadFailed(target, "This folder holds no model. Choose another.")
    )
    window.chat.change("target", "/models/broken")
    qtbot.waitUntil(window.banner.isVisible)
    assert window.settings.target == "builtin"
    assert window.header.target.currentData() == "builtin"
    answered(qtbot, window)
    assert engine.requests[0].target == "builtin"


def test_an_answer_keeps_the_name_of_the_model_that_gave_it(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    answered(qtbot, window)
    other = replace(MODEL, name="Other-1B")
    engine.answer_load = lambda target, drafter="none": engine.say(  # type: ignore[method-assign]
        LoadStarted(target), LoadFinished(other, 0.1), DrafterReady(drafter, False)
    )
    window.chat.change("target", "/models/other")
    qtbot.waitUntil(lambda: window.session.model == other)
    window.chat.preferences.set(appearance="light")  # everything is laid out anew
    answered(qtbot, window, "And by the other?")
    assert [turn.answer.model for turn in window.session.turns] == ["SmolLM2 135M", "Other-1B"]
    spoken = plain_text(window.transcript)
    assert f"SmolLM2 135M: {STORY}" in spoken
    assert f"Other-1B: {STORY}" in spoken


def test_a_refused_drafter_is_explained_and_replaced(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    engine.answer_load = lambda target, drafter="none": engine.say(  # type: ignore[method-assign]
        DrafterRefused(drafter, "Its vocabulary differs from token 139 on.")
    )
    window.chat.change("drafter", "/models/other")
    qtbot.waitUntil(window.banner.isVisible)
    assert "token 139" in window.banner.label.text()
    assert window.settings.drafter == "auto"


def test_a_target_that_cannot_be_loaded_keeps_the_previous_drafter(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    works = engine.answer_load

    def load(target: str, drafter: str = "none") -> None:
        if target != "builtin":
            engine.say(LoadStarted(target), LoadFailed(target, f"{target} is no model."))
        else:  # the current target is not loaded anew, so nothing says that it starts
            engine.say(LoadFinished(MODEL, 0.0), DrafterReady(drafter, True))

    engine.answer_load = load  # type: ignore[method-assign]
    for name in ("/models/first", "/models/second"):
        window.chat.change("target", name)
        qtbot.waitUntil(lambda name=name: window.banner.label.text() == f"{name} is no model.")
        assert (window.settings.target, window.settings.drafter) == ("builtin", "auto")
        window.chat.models.load()
        qtbot.waitUntil(lambda: not window.chat.link.busy)
        assert window.session.target == "builtin"
    engine.answer_load = works  # type: ignore[method-assign]


def test_the_small_draft_model_comes_back_with_the_target_it_was_made_for(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window(drafter="head")
    window.chat.change("target", "/models/other")
    assert engine.loads[-1] == ("/models/other", "auto"), "what drafts for every target stands in"
    window.chat.change("target", "builtin")
    assert engine.loads[-1] == ("builtin", "head")
    engine.answer_load = lambda target, drafter="none": engine.say(  # type: ignore[method-assign]
        LoadStarted(target), LoadFinished(MODEL, 0.1), DrafterRefused(drafter, "It cannot roll back.")
    )
    qtbot.waitUntil(lambda: window.session.drafter == "head" and not window.chat.link.busy)
    window.chat.change("target", "/models/deaf")
    qtbot.waitUntil(lambda: window.settings.drafter == "none")
    assert "Continuing without a drafter" in window.banner.label.text(), "the one before fits the built-in target only"


def test_a_substitute_drafter_is_not_saved(qtbot: QtBot, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    engine = FakeEngine()
    window = Window(engine, Settings(), path)
    qtbot.addWidget(window)
    engine.say(LoadFinished(MODEL, 0.1), DrafterRefused("auto", "The small draft model is not installed."))
    qtbot.waitUntil(lambda: window.settings.drafter == "none")
    assert "Continuing without a drafter." in window.banner.label.text()
    window.header.gamma.setValue(6)
    assert json.loads(path.read_text())["drafter"] == "auto"
    window.chat.change("drafter", "none")  # now it is wanted
    assert json.loads(path.read_text())["drafter"] == "none"
    window.close()


def test_a_drafter_that_fits_only_an_earlier_target_is_dropped(qtbot: QtBot, open_window: Open, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    window, engine = open_window(path=path, target="/models/big", drafter="/models/small")
    qtbot.waitUntil(lambda: window.session.was_ready("/models/small"))
    engine.answer_load = lambda target, drafter="none": engine.say(  # type: ignore[method-assign]
        LoadStarted(target), LoadFinished(MODEL, 0.1), DrafterRefused(drafter, "The vocabularies differ.")
    )
    window.chat.change("target", "builtin")
    qtbot.waitUntil(window.banner.isVisible)
    assert window.settings.drafter == "none"
    assert json.loads(path.read_text())["drafter"] == "none"


def test_a_late_refusal_leaves_the_drafter_chosen_meanwhile(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    window.chat.change("drafter", "ngram")
    engine.say(DrafterRefused("/models/other", "Its vocabulary differs."))
    qtbot.waitUntil(window.banner.isVisible)
    assert window.settings.drafter == "ngram"


def test_a_list_of_models_shows_their_whole_names(qtbot: QtBot, share_window: Open) -> None:
    window, _ = share_window(drafter="/models/A-draft-model-with-a-rather-long-name-4bit.gguf")
    box = window.header.drafter
    box.showPopup()
    view = box.view()
    assert all(view.fontMetrics().horizontalAdvance(box.itemText(i)) < view.viewport().width() for i in range(box.count()))
    box.hidePopup()
