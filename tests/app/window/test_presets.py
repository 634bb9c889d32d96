"""Presets: kept under names, used, changed, deleted, and tied to models; and what a model's publisher recommends."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.session import settings as stored
from app.session.settings import LONGEST_NAME, Preset, Settings, preset_of, with_preset, without
from app.window.sampling_popover import PresetRow
from engine.types import LoadFinished, ModelsUnloaded
from tests.app.driving import Open, ask, reset_options
from tests.app.fakes import MODEL

WARM = Preset("Warm", "Be kind.", temperature=1.3, top_p=0.95, top_k=40)


def test_a_preset_stores_the_settings_and_names_are_unique() -> None:
    settings = Settings(system_prompt="Be kind.", temperature=1.3, top_p=0.95, top_k=40, max_tokens=9)
    assert preset_of(settings, "  Warm ") == WARM
    assert len(preset_of(settings, "n" * 100).name) == LONGEST_NAME
    presets = with_preset(with_preset((), WARM), Preset("cold", temperature=0.0))
    assert [each.name for each in presets] == ["cold", "Warm"]
    other = with_preset(presets, Preset("Warm", "Be warm."))
    assert [each.system_prompt for each in other] == ["", "Be warm."]
    assert without(other, "Warm") == presets[:1]


@pytest.mark.parametrize("wrong", [{"name": " "}, {"name": "a", "temperature": -1.0}, {"name": "a", "top_p": 2.0}, {"nome": "a"}])
def test_impossible_presets_in_a_file_are_dropped_with_a_note(tmp_path: Path, wrong: dict[str, object]) -> None:
    path = tmp_path / "settings.json"
    stored.save(path, Settings(presets=(WARM,), top_k=7, model_presets=(("builtin", "Warm"),)))
    assert stored.load(path) == (Settings(presets=(WARM,), top_k=7, model_presets=(("builtin", "Warm"),)), "")
    table = json.loads(path.read_text())
    table["presets"].append(wrong)
    path.write_text(json.dumps(table))
    settings, note = stored.load(path)
    assert settings == Settings(top_k=7, model_presets=(("builtin", "Warm"),)) and "presets" in note


def press(row: PresetRow, title: str) -> None:
    """Chooses something of the menu."""
    row.menu.aboutToShow.emit()
    next(action for action in row.menu.actions() if action.text() == title).trigger()


def test_presets_are_kept_used_changed_and_deleted_in_the_window(qtbot: QtBot, open_window: Open, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    window, engine = open_window(path=path)
    row = window.options.presets
    window.open_options()
    assert (row.box.currentText(), row.naming.isVisible()) == ("None", False)
    usual = window.settings
    for name, value in WARM.values().items():
        window.chat.change(name, value)
    press(row, "Save as…")
    assert row.naming.isVisible() and row.name.hasFocus()
    qtbot.keyClicks(row.name, "Warm")
    row.save.click()
    assert window.settings.presets == (WARM,) and row.box.currentText() == "Warm" and not row.naming.isVisible()
    press(row, "Save as…")
    qtbot.keyClicks(row.name, "War")
    assert row.save.text() == "Save"
    qtbot.keyClicks(row.name, "m")
    assert row.save.text() == "Replace", "it says before that the other preset of this name is lost"
    qtbot.keyClick(row.name, Qt.Key.Key_Escape)
    assert not row.naming.isVisible() and window.options.isVisible(), "Escape leaves the field, not the options"

    window.options.fields["system_prompt"].widget.setPlainText("Be brief.")
    assert row.box.currentText() == "None", "it is no longer what is set"
    press(row, "Update “Warm”")
    assert window.settings.presets[0].system_prompt == "Be brief." and row.box.currentText() == "Warm"

    reset_options(window)
    window.chat.change("temperature", usual.temperature)
    assert window.settings.system_prompt == "" and row.box.currentText() == "None"
    row.box.activated.emit(row.box.findData("Warm"))
    assert (window.settings.system_prompt, window.settings.temperature) == ("Be brief.", 1.3)
    assert window.options.fields["top_k"].widget.value() == 40

    press(row, "Use “Warm” for SmolLM2 135M")
    assert window.settings.model_presets == (("builtin", "Warm"),) and row.box.currentText() == "Warm (for this model)"
    assert stored.load(path)[0] == window.chat.preferences.for_new_chats, "what the preset set is this chat's alone"

    window.chat.change("target", "/models/other")
    reset_options(window)
    window.chat.change("temperature", 0.5)
    engine.say(LoadFinished(MODEL, 0.1))
    qtbot.waitUntil(lambda: window.session.target == "/models/other")
    assert window.settings.temperature == 0.5, "another model has none"
    window.chat.change("target", "builtin")
    qtbot.waitUntil(lambda: window.settings.temperature == 1.3)
    assert window.settings.system_prompt == "Be brief.", "chosen again, the model has its preset"
    window.chat.change("temperature", 0.7)
    engine.say(LoadFinished(replace(MODEL, sampling=(("temperature", 0.6),)), 0.1))
    qtbot.waitUntil(lambda: window.settings.recommended == (("temperature", 0.6),))
    assert window.settings.temperature == 0.7, "what was set since stays, whatever is loaded again"

    window.chat.preferences.use_preset("Warm")
    press(row, "Delete “Warm”")
    assert (window.settings.presets, window.settings.model_presets) == ((), ())
    assert window.settings.temperature == 1.3, "what is set stays"
    window.options.close()
    window.banner.action.click()
    assert row.box.currentText() == "Warm (for this model)"


@pytest.mark.parametrize("way", ["chosen", "tied"])
def test_a_system_prompt_that_a_preset_replaces_comes_back_with_undo(qtbot: QtBot, share_window: Open, way: str) -> None:
    tied = (("/models/other", "Warm"),) if way == "tied" else ()
    window, _ = share_window(presets=(WARM, Preset("Cold", "Be brief.")), model_presets=tied, system_prompt="Be brief.")
    window.chat.preferences.use_preset("Warm")
    assert window.banner.isHidden(), "what was there is in another preset"
    before = replace(window.settings, system_prompt="Two lines\nthat took me long. ", temperature=0.4)
    for name in ("system_prompt", "temperature"):
        window.chat.change(name, getattr(before, name))
    if way == "chosen":
        window.options.presets.box.activated.emit(window.options.presets.box.findData("Warm"))
    else:
        window.chat.change("target", "/models/other")
    qtbot.waitUntil(lambda: window.settings.system_prompt == WARM.system_prompt)
    assert "“Warm” has replaced your system prompt" in window.banner.label.text()
    window.banner.action.click()
    assert (window.settings.system_prompt, window.settings.temperature) == (before.system_prompt, 0.4)
    assert window.banner.isHidden()


def test_the_chosen_one_of_equal_presets_is_shown(qtbot: QtBot, open_window: Open, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    twins = (replace(WARM, name="A"), replace(WARM, name="B"), replace(WARM, name="C"))
    window, _ = open_window(path=path, presets=twins)
    row = window.options.presets
    for name in "BCA":
        row.box.activated.emit(row.box.findData(name))
        assert row.box.currentText() == name
        row.menu.aboutToShow.emit()
        assert f"Delete “{name}”" in [action.text() for action in row.menu.actions()]
    window.chat.preferences.use_preset("C")
    assert row.box.currentText() == "C", "from the palette, too"
    assert window.settings.preset_in_force == twins[2] and stored.load(path)[0].preset_in_force is None
    press(row, "Delete “C”")
    assert window.settings.presets == twins[:2] and row.box.currentText() == "A"
    window.chat.preferences.save_preset("D")
    assert row.box.currentText() == "D"
    tied = replace(window.settings, preset="", model_presets=(("builtin", "B"),))
    assert tied.preset_in_force == twins[1], "where none was chosen, the model's own"
    assert replace(tied, temperature=0.1).preset_in_force is None


def test_one_button_applies_the_recommended_sampling(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window(temperature=1.0)
    button = window.options.recommended
    assert not button.isEnabled() and "recommends no sampling" in button.toolTip()
    engine.say(ModelsUnloaded())
    qtbot.waitUntil(lambda: button.text() == "No model loaded yet")
    assert (button.text(), button.isEnabled()) == ("No model loaded yet", False)
    assert "Known once the model is loaded." in button.toolTip()
    sampling = (("temperature", 0.6), ("top_k", 20), ("top_p", 0.95))
    engine.say(LoadFinished(replace(MODEL, sampling=sampling), 0.1))
    qtbot.waitUntil(lambda: button.isEnabled())
    assert button.accessibleName() == "Recommended by the model: temperature 0.6, top-k 20, top-p 0.95"
    assert window.settings.temperature == 1.0, "the user's own temperature is not touched"
    button.click()
    assert {name: getattr(window.settings, name) for name, _ in sampling} == dict(sampling)
    assert not button.isEnabled()


def test_the_system_prompt_that_a_model_comes_with_is_shown_used_and_can_be_changed(qtbot: QtBot, share_window: Open) -> None:
    window, engine = share_window()
    mario = (("temperature", 0.3), ("stop", ("User:",)), ("system_prompt", "You are Mario."))
    engine.say(LoadFinished(replace(MODEL, sampling=mario), 0.1))
    qtbot.waitUntil(lambda: window.settings.system_prompt == "You are Mario.")
    assert "comes with a system prompt: “You are Mario.”" in window.banner.label.text()
    window.open_options()
    assert window.options.fields["system_prompt"].widget.toPlainText() == "You are Mario."
    assert window.options.recommended.text() == "temperature 0.3, stop sequences,\nsystem prompt"
    window.options.close()
    ask(qtbot, window)
    (request,) = engine.requests
    assert (request.messages[0].role, request.messages[0].content) == ("system", "You are Mario.")
    assert request.options.stop == ("User:",)
    window.chat.change("system_prompt", "Be brief.")
    window.options.recommended.click()
    assert window.settings.system_prompt == "You are Mario."
    engine.say(LoadFinished(replace(MODEL, sampling=()), 0.1))
    qtbot.waitUntil(lambda: window.settings.system_prompt == "")
