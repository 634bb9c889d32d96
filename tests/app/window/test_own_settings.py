"""What is a chat's own ends with the chat, and what acts on a chat is seen beside its message field."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.conversation.composer import ActiveChip
from app.look.theme import DARK, LIGHT
from app.session.settings import Preset, load
from app.window.settings_window import SettingsWindow
from app.window.window import Window
from engine.chats import ChatSettings, ChatStore
from engine.files.model_folder import base_target
from engine.types import DecodingOptions
from tests.app.driving import answered, reset_options, settle
from tests.app.fakes import FakeEngine
from tests.app.window.test_chats import TracingEngine

WARM = Preset("Warm", "Be kind.", temperature=1.3, top_p=0.95, top_k=40)
Start = Callable[..., tuple[Window, FakeEngine]]


@pytest.fixture
def start(show_window: Callable[..., Window], home: Path, tmp_path: Path) -> Start:
    """Opens a window on the same chats and settings file as the one before."""

    def started(size: tuple[int, int] = (1440, 900), **settings: Any) -> tuple[Window, FakeEngine]:
        path = tmp_path / "settings.json"
        engine = TracingEngine()
        kept = (
            {}
            if settings or not path.exists()
            else {name: value for name, value in vars_of(path).items() if name != "appearance"}
        )
        window = show_window(engine, path, size=size, store=partial(ChatStore, wait=0.2), **{**kept, **settings})
        return window, engine

    return started


def vars_of(path: Path) -> dict[str, Any]:
    settings = load(path)[0]
    return {name: getattr(settings, name) for name in json.loads(path.read_text()) if name != "appearance"}


def chips(window: Window) -> dict[str, ActiveChip]:
    assert all(chip.isVisible() for chip in window.composer.active_chips)
    return {chip.active.kind: chip for chip in window.composer.active_chips}


def write_prompt(qtbot: QtBot, window: Window, text: str) -> None:
    """Opens the options by their button and types a system prompt."""
    qtbot.mouseClick(window.header.options, Qt.MouseButton.LeftButton)
    edit = window.options.fields["system_prompt"].widget
    edit.setFocus()
    qtbot.keyClick(edit, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClicks(edit, text)
    window.options.close()


def system_of(engine: FakeEngine) -> str:
    first = engine.requests[-1].messages[0]
    return first.content if first.role == "system" else ""


@pytest.mark.parametrize("resets", [False, True])
def test_a_system_prompt_ends_with_its_chat(qtbot: QtBot, start: Start, resets: bool) -> None:
    window, engine = start()
    write_prompt(qtbot, window, "Be a pirate.")
    assert chips(window)["system_prompt"].open.accessibleName() == "System prompt: Be a pirate."
    answered(qtbot, window, "One")
    assert system_of(engine) == "Be a pirate."
    if resets:
        reset_options(window)
        assert not chips(window)
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    qtbot.keyClick(window, Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier)
    assert not chips(window) and window.settings.system_prompt == ""
    answered(qtbot, window, "Two")
    assert system_of(engine) == ""
    number = next(each.id for each in ChatStore().conversations() if each.id != window.chat.stored_chat.number)
    window.chats.open(number)
    qtbot.waitUntil(lambda: window.chat.stored_chat.number == number)
    assert window.settings.system_prompt == ("" if resets else "Be a pirate."), "it is its chat's"
    assert bool(chips(window)) is not resets


def test_a_reset_also_applies_to_new_chats(qtbot: QtBot, start: Start, home: Path) -> None:
    """As in files of earlier versions, where the prompt of one chat was that of all later ones."""
    with ChatStore(home) as store:
        plain = store.create(ChatSettings(target="builtin", drafter="none", options=DecodingOptions(temperature=0.3)))
        store.add_message(plain, None, "user", "Ahoy")
    window, _ = start(system_prompt="Be brief.", top_k=40)
    window.chats.open(plain)
    qtbot.waitUntil(lambda: window.session.newest_prompt == "Ahoy")
    assert not chips(window) and window.settings.top_k == 0, "it has nothing of the kind"
    reset_options(window)
    window.new_chat()
    assert (window.settings.system_prompt, window.settings.top_k) == ("", 0) and not chips(window)


def test_undoing_a_reset_restores_settings_of_the_chat_and_of_all_chats(qtbot: QtBot, start: Start) -> None:
    window, _ = start(system_prompt="Be brief.", top_k=40)
    write_prompt(qtbot, window, "Be a pirate.")
    reset_options(window)
    qtbot.mouseClick(window.banner.action, Qt.MouseButton.LeftButton)
    assert (window.settings.system_prompt, window.settings.top_k) == ("Be a pirate.", 40)
    window.new_chat()
    assert (window.settings.system_prompt, window.settings.top_k) == ("Be brief.", 40)
    assert "for every new chat" in chips(window)["system_prompt"].open.toolTip()


def test_a_preset_ends_with_its_chat_and_its_chip_ends_it(qtbot: QtBot, start: Start) -> None:
    window, engine = start(presets=(WARM,), temperature=0.7)
    window.chat.preferences.use_preset("Warm")
    assert set(chips(window)) == {"system_prompt", "preset"} and window.settings.temperature == 1.3
    window.new_chat()
    assert not chips(window) and (window.settings.temperature, window.settings.top_k) == (0.7, 0)
    window.chat.preferences.use_preset("Warm")
    answered(qtbot, window, "One")
    assert (system_of(engine), engine.requests[-1].options.temperature) == ("Be kind.", 1.3)
    chip = chips(window)["preset"]
    assert chip.remove.accessibleName() == "Stop using the preset “Warm”"
    qtbot.mouseClick(chip.remove, Qt.MouseButton.LeftButton)
    assert not chips(window) and window.settings.temperature == 0.7
    qtbot.mouseClick(window.banner.action, Qt.MouseButton.LeftButton)
    assert set(chips(window)) == {"system_prompt", "preset"} and window.settings.temperature == 1.3


def test_a_preset_of_all_chats_is_ended_for_all(qtbot: QtBot, start: Start) -> None:
    window, _ = start(presets=(WARM,), preset="Warm", **WARM.values())
    qtbot.mouseClick(chips(window)["preset"].remove, Qt.MouseButton.LeftButton)
    assert not chips(window) and window.settings.top_k == 0
    window.new_chat()
    assert not chips(window) and window.settings.system_prompt == ""


def test_new_chats_begin_with_the_preset_of_their_model(qtbot: QtBot, start: Start) -> None:
    window, _ = start(presets=(WARM,), model_presets=(("builtin", "Warm"),))
    assert set(chips(window)) == {"system_prompt", "preset"}
    qtbot.mouseClick(chips(window)["preset"].remove, Qt.MouseButton.LeftButton)
    assert not chips(window)
    window.new_chat()
    assert set(chips(window)) == {"system_prompt", "preset"}


def test_a_system_prompt_survives_a_restart_with_its_chat_only(qtbot: QtBot, start: Start) -> None:
    window, _ = start(temperature=0.6)
    write_prompt(qtbot, window, "Be a pirate.")
    window.close()
    window, engine = start()
    assert window.settings.system_prompt == "Be a pirate." and chips(window), "its chat is not begun yet"
    answered(qtbot, window, "One")
    assert window.chat.preferences.for_new_chats.new_chat == () and system_of(engine) == "Be a pirate."
    window.close()
    window, engine = start()
    assert window.settings.system_prompt == ""
    window.chats.restore()
    qtbot.waitUntil(lambda: window.session.newest_prompt == "One")
    assert chips(window)["system_prompt"].active.tip.startswith("Be a pirate.")
    window.new_chat()
    assert not chips(window) and window.settings.temperature == 0.6


def test_the_settings_window_is_about_all_chats(qtbot: QtBot, start: Start) -> None:
    window, _ = start()
    write_prompt(qtbot, window, "Be a pirate.")
    window.open_settings()
    dialog = window.findChild(SettingsWindow)
    assert dialog is not None
    edit = dialog.rows["system_prompt"].field.widget
    assert edit.toPlainText() == "", "that of the chat is not everybody's"  # type: ignore[attr-defined]
    edit.setFocus()
    qtbot.keyClicks(edit, "Hi")
    dialog.close()
    assert window.settings.system_prompt == "Hi"
    window.new_chat()
    assert window.settings.system_prompt == "Hi"
    qtbot.mouseClick(chips(window)["system_prompt"].remove, Qt.MouseButton.LeftButton)
    assert window.settings.system_prompt == "" and "New chats still begin with that of the settings" in window.banner.label.text()
    window.new_chat()
    assert chips(window)


def test_a_chip_opens_its_control_by_mouse_and_keyboard(qtbot: QtBot, start: Start) -> None:
    window, _ = start(presets=(WARM,))
    window.chat.preferences.use_preset("Warm")
    window.activateWindow()
    qtbot.mouseClick(chips(window)["system_prompt"].open, Qt.MouseButton.LeftButton)
    assert window.options.isVisible() and QApplication.focusWidget() is window.options.fields["system_prompt"].widget
    window.options.close()
    chip = chips(window)["preset"]
    chip.open.setFocus()
    qtbot.keyClick(chip.open, Qt.Key.Key_Return)
    assert window.options.isVisible() and QApplication.focusWidget() is window.options.presets.box
    window.options.close()
    chip.remove.setFocus()
    qtbot.keyClick(chip.remove, Qt.Key.Key_Space)
    assert not chips(window) and window.composer.edit.hasFocus(), "the keyboard is not lost with the chip"


@pytest.mark.usefixtures("fonts")
def test_chips_are_named_and_one_row_at_1024_pixels(qtbot: QtBot, start: Start, tmp_path: Path) -> None:
    adapter = tmp_path / "a-fairly-long-name-of-an-adapter"
    (tmp_path / "base").mkdir()
    adapter.mkdir()
    (adapter / "adapters.safetensors").write_bytes(b"")
    (adapter / "adapter_config.json").write_text(json.dumps({"model": "base"}))
    assert base_target(str(adapter)) == str(tmp_path / "base") and base_target("builtin") is None
    long = Preset(
        "A name of sixty letters that somebody has chosen for a preset", "You are a patient & <b>kind</b> teacher of physics."
    )
    window, _ = start((1024, 768), presets=(long,), target=str(adapter))
    window.chat.preferences.use_preset(long.name)
    settle()
    found = chips(window)
    assert list(found) == ["system_prompt", "preset", "adapter"]
    row = {chip.mapTo(window, chip.rect().center()).y() for chip in found.values()}
    assert len(row) == 1 and found["adapter"].geometry().right() < window.composer.frame.width()
    for chip in found.values():
        assert chip.open.accessibleName() and chip.remove.accessibleName() and chip.open.toolTip()
        assert chip.open.width() >= chip.open.sizeHint().width()
    for appearance, theme in (("light", LIGHT), ("dark", DARK)):
        window.chat.preferences.set(appearance=appearance)  # type: ignore[arg-type]
        assert found["preset"].open.palette().buttonText().color().name() in (theme.dim.lower(), theme.text.lower()), appearance
    qtbot.mouseClick(found["adapter"].remove, Qt.MouseButton.LeftButton)
    assert window.settings.target == str(tmp_path / "base")
    qtbot.waitUntil(lambda: "adapter" not in chips(window))
    assert isinstance(window.composer.active_chips[0], QWidget)
